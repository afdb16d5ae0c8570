/* Rights and quotas. */
#include "base/check.h"
#include "server/op/acl.h"
#include "tests/lib/prep_model_int.h"

#include <stdio.h>
#include <string.h>

/* What a list permits to all callers, and the caller with all rights. */
static const struct {
    uint32_t anyone;
    enum model_caller all;
} rights[MODEL_LIST_COUNT] = {
    [MODEL_OPEN] = {ACL_ALL, MODEL_ROOT},
    [MODEL_READ] = {ACL_READ, MODEL_ROOT},
    [MODEL_GROW] = {ACL_READ | ACL_WRITE | ACL_CREATE, MODEL_ROOT},
    [MODEL_KEEP] = {ACL_READ | ACL_WRITE | ACL_CREATE | ACL_ADMIN, MODEL_ROOT},
    [MODEL_ANN_ALL] = {ACL_READ, MODEL_ANN},
    [MODEL_ANNS] = {0, MODEL_ANN},
    [MODEL_BOBS] = {0, MODEL_BOB},
    [MODEL_ROOTS] = {0, MODEL_ROOT},
};

bool model_may(const struct model_step *step, const struct model_node *node, uint32_t perm)
{
    enum model_caller caller = step->ask->caller;

    return caller == MODEL_SERVER || caller == MODEL_ROOT || caller == rights[node->list].all ||
           (rights[node->list].anyone & perm) != 0;
}

enum err model_fix(enum model_caller caller, enum model_list list, enum model_list *ret_list)
{
    *ret_list = list;
    if (list == MODEL_BAD || list == MODEL_EMPTY) {
        return ERR_INVALID_ACL;
    }
    if (list != MODEL_CREATOR) {
        return ERR_OK;
    }
    *ret_list = caller == MODEL_ANN ? MODEL_ANNS : MODEL_BOBS;
    *ret_list = caller == MODEL_ROOT ? MODEL_ROOTS : *ret_list;
    return caller == MODEL_SERVER || caller == MODEL_ANONYMOUS ? ERR_INVALID_ACL : ERR_OK;
}

/* ---- Quotas: everything is counted again each time. ---- */

/* What the limits znode at this path limits; false for any other znode. */
static bool limited_by(const char *path, char top[MODEL_PATH_MAX])
{
    static const char root[] = STATE_QUOTA_PATH "/";
    static const char name[] = "/" STATE_LIMITS_NAME;
    size_t len = strlen(path);
    size_t skip = sizeof(root) - 2;
    size_t tail = sizeof(name) - 1;

    if (strncmp(path, root, sizeof(root) - 1) != 0 || len <= skip + tail ||
        strcmp(path + len - tail, name) != 0) {
        return false;
    }
    (void)snprintf(top, MODEL_PATH_MAX, "%.*s", (int)(len - skip - tail), path + skip);
    return !model_is_within(top, "/zookeeper");
}

const struct model_node *model_deepest(const struct model *model, const char *path)
{
    const struct model_node *found = NULL;

    for (size_t i = 0; i < model->count; i++) {
        const struct model_node *node = &model->nodes[i];

        if ((strcmp(node->path, "/") == 0 || model_is_within(path, node->path)) &&
            (found == NULL || strlen(node->path) > strlen(found->path))) {
            found = node;
        }
    }
    ASSERT(found != NULL);
    return found;
}

bool model_may_limit(const struct model_step *step, const char *path)
{
    char top[MODEL_PATH_MAX];

    return !limited_by(path, top) || model_may(step, model_deepest(step->model, top), ACL_ADMIN);
}

static int64_t limit_of(const struct model_node *node, const char *key)
{
    size_t len = strlen(key);

    if (node->null || strncmp(node->data, key, len) != 0) {
        return -1;
    }
    ASSERT(node->data[len] >= '0' && node->data[len] <= '9');
    int64_t limit = 0;

    for (const char *at = node->data + len; *at >= '0' && *at <= '9'; at++) {
        limit = limit * 10 + (*at - '0');
    }
    return limit;
}

static bool is_over(int64_t used, int64_t more, int64_t limit)
{
    return limit >= 0 && more > 0 && used + more > limit;
}

enum err model_quota(struct model *model, const char *path, int64_t count, int64_t bytes)
{
    for (size_t i = 0; i < model->count; i++) {
        const struct model_node *limits = &model->nodes[i];
        char top[MODEL_PATH_MAX];
        int64_t nodes = 0;
        int64_t sum = 0;

        if (!limited_by(limits->path, top) || !model_is_within(path, top)) {
            continue;
        }
        for (size_t k = 0; k < model->count; k++) {
            if (model_is_within(model->nodes[k].path, top)) {
                nodes++;
                sum += model->nodes[k].stat.data_length;
            }
        }
        if (is_over(nodes, count, limit_of(limits, "countHardLimit=")) ||
            is_over(sum, bytes, limit_of(limits, "byteHardLimit="))) {
            return ERR_QUOTA_EXCEEDED;
        }
    }
    return ERR_OK;
}

enum err model_ephemerals(struct model *model, const char *path, uint64_t session)
{
    uint32_t count = 0;
    size_t bytes = strlen(path);

    for (size_t i = 0; i < model->count; i++) {
        if (model_owner(&model->nodes[i]) == session) {
            count++;
            bytes += strlen(model->nodes[i].path);
        }
    }
    return count >= model->limits->tree.session_ephemerals_max ||
                   bytes > model->limits->tree.session_ephemeral_bytes_max
               ? ERR_QUOTA_EXCEEDED
               : ERR_OK;
}
