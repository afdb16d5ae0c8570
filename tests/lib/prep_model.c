#include "tests/lib/prep_model.h"

#include "server/state/path.h"
#include "tests/lib/unit.h"

#include <stdio.h>

struct model_node *model_find(struct model *model, const char *path)
{
    for (size_t i = 0; i < model->count; i++) {
        if (strcmp(model->nodes[i].path, path) == 0) {
            return &model->nodes[i];
        }
    }
    return NULL;
}

static void parent_of(const char *path, char parent[MODEL_PATH_MAX])
{
    size_t len = (size_t)(strrchr(path, '/') - path);

    (void)snprintf(parent, MODEL_PATH_MAX, "%.*s", (int)len, path);
    if (len == 0) {
        (void)snprintf(parent, MODEL_PATH_MAX, "/");
    }
}

static void touch_parent(struct model *model, const char *path, zxid_t zxid, int created)
{
    char parent_path[MODEL_PATH_MAX];

    parent_of(path, parent_path);
    struct model_node *parent = model_find(model, parent_path);

    parent->stat.pzxid = zxid;
    parent->stat.cversion++;
    parent->stat.num_children += created ? 1U : UINT32_MAX;
    parent->creates += created ? 1 : 0;
}

static struct model_node *add(struct model *model, const char *path, struct model_moment at)
{
    assert_true(model->count < MODEL_NODES_MAX);
    struct model_node *node = &model->nodes[model->count++];

    *node = (struct model_node){.null = true,
                                .stat = {.czxid = at.zxid,
                                         .mzxid = at.zxid,
                                         .pzxid = at.zxid,
                                         .ctime = at.time_ms,
                                         .mtime = at.time_ms}};
    (void)snprintf(node->path, MODEL_PATH_MAX, "%s", path);
    return node;
}

static void take_out(struct model *model, const char *path, zxid_t zxid)
{
    struct model_node *node = model_find(model, path);

    touch_parent(model, path, zxid, 0);
    *node = model->nodes[--model->count];
}

void model_init(struct model *model)
{
    static const char *const paths[] = {"/", "/zookeeper", "/zookeeper/quota", STATE_CONFIG_PATH};

    model->count = 0;
    for (size_t i = 0; i < 4; i++) {
        add(model, paths[i], (struct model_moment){0});
    }
    model->nodes[0].stat.num_children = 1;
    model->nodes[0].stat.cversion = -1;
    model->nodes[1].stat.num_children = 2;
    model->nodes[1].stat.cversion = -2;
}

static void copy_data(struct model_node *node, const struct op_args *args)
{
    (void)snprintf(node->data, MODEL_DATA_MAX, "%.*s", (int)args->data.len,
                   (const char *)args->data.data);
    node->null = args->data_null;
    node->stat.data_length = (uint32_t)args->data.len;
}

static void answer(struct model_verdict *verdict, const char *path, const struct model_node *node)
{
    struct model_reply *reply = &verdict->replies[verdict->reply_count++];

    *reply = (struct model_reply){.stat = node != NULL ? node->stat : (struct stat_view){0}};
    (void)snprintf(reply->path, MODEL_PATH_MAX, "%s", path);
}

static enum err model_kind(const struct op_args *args)
{
    if (args->container && (args->sequence || args->ephemeral)) {
        return ERR_BAD_ARGUMENTS;
    }
    if (args->ttl_ms < 0 || args->ttl_ms >= INT64_C(1) << 40) {
        return ERR_BAD_ARGUMENTS;
    }
    if (args->ttl_ms > 0 && (args->ephemeral || args->container)) {
        return ERR_BAD_ARGUMENTS;
    }
    return args->ephemeral ? ERR_UNKNOWN_SESSION : ERR_OK;
}

static void model_parents(struct model *model, const char *path, struct model_moment at)
{
    char part[MODEL_PATH_MAX];

    for (size_t i = 1; path[i] != '\0'; i++) {
        (void)snprintf(part, MODEL_PATH_MAX, "%.*s", (int)i, path);
        if (path[i] == '/' && model_find(model, part) == NULL) {
            add(model, part, at);
            touch_parent(model, part, at.zxid, 1);
        }
    }
}

static enum err model_create(struct model *model, const struct op_args *args,
                             struct model_moment at, struct model_verdict *verdict)
{
    char path[MODEL_PATH_MAX];
    char parent_path[MODEL_PATH_MAX];
    enum err err = model_kind(args);

    if (err != ERR_OK) {
        return err;
    }
    (void)snprintf(path, MODEL_PATH_MAX, "%.*s", (int)args->path.len,
                   (const char *)args->path.data);
    parent_of(path, parent_path);
    struct model_node *parent = model_find(model, parent_path);

    if (parent == NULL && !args->parents) {
        return ERR_NO_NODE;
    }
    if (args->sequence) {
        size_t len = strlen(path);

        (void)snprintf(path + len, MODEL_PATH_MAX - len, "%010u",
                       parent != NULL ? parent->creates : 0);
    }
    if (strlen(path) > 1 && path[strlen(path) - 1] == '/') {
        return ERR_BAD_ARGUMENTS;
    }
    if (model_find(model, path) != NULL) {
        return ERR_NODE_EXISTS;
    }
    if (strncmp(path, STATE_CONFIG_PATH, strlen(STATE_CONFIG_PATH)) == 0) {
        return ERR_NO_AUTH;
    }
    model_parents(model, path, at);
    struct model_node *node = add(model, path, at);

    copy_data(node, args);
    node->owner = args->container ? OWNER_CONTAINER : 0;
    node->owner = args->ttl_ms > 0 ? OWNER_TTL_MARK | (uint64_t)args->ttl_ms : node->owner;
    touch_parent(model, path, at.zxid, 1);
    answer(verdict, path, node);
    return ERR_OK;
}

static enum err model_bad_version(const struct model_node *node, struct model_verdict *verdict)
{
    verdict->has_stat = node != NULL;
    verdict->stat = node != NULL ? node->stat : (struct stat_view){0};
    return ERR_BAD_VERSION;
}

static bool version_fits(const struct op_args *args, const struct model_node *node)
{
    if (args->has_version && args->version != -1 && args->version != node->stat.version) {
        return false;
    }
    return !args->has_etag ||
           (args->etag_czxid == node->stat.czxid && args->etag_version == node->stat.version);
}

static enum err model_set(struct model *model, const struct op_args *args, struct model_moment at,
                          struct model_node *node, struct model_verdict *verdict)
{
    if (node == NULL) {
        bool makes = args->upsert || args->must_be_new;

        if (args->has_etag || args->must_exist) {
            return model_bad_version(NULL, verdict);
        }
        if (!makes) {
            return ERR_NO_NODE;
        }
        if (args->has_version && args->version != -1) {
            return model_bad_version(NULL, verdict);
        }
        return model_create(model, args, at, verdict);
    }
    if (strcmp(node->path, STATE_CONFIG_PATH) == 0) {
        return ERR_NO_AUTH;
    }
    if (args->must_be_new || !version_fits(args, node)) {
        return model_bad_version(node, verdict);
    }
    copy_data(node, args);
    node->stat.version++;
    node->stat.mzxid = at.zxid;
    node->stat.mtime = at.time_ms;
    answer(verdict, node->path, node);
    return ERR_OK;
}

static bool is_within(const char *path, const char *top)
{
    size_t len = strlen(top);

    return strncmp(path, top, len) == 0 && (path[len] == '\0' || path[len] == '/');
}

/* Deletes the longest path first, again and again: slow, and surely bottom up. */
static enum err model_delete_tree(struct model *model, const char *top, uint32_t max,
                                  struct model_moment at)
{
    uint32_t bound = model->limits.recursive_max;
    size_t count = 0;

    for (size_t i = 0; i < model->count; i++) {
        count += is_within(model->nodes[i].path, top) ? 1 : 0;
    }
    if (count > (max > 0 && max < bound ? max : bound)) {
        return ERR_NOT_EMPTY;
    }
    for (; count > 0; count--) {
        const char *longest = NULL;
        char path[MODEL_PATH_MAX];

        for (size_t i = 0; i < model->count; i++) {
            const char *one = model->nodes[i].path;

            if (is_within(one, top) && (longest == NULL || strlen(one) > strlen(longest))) {
                longest = one;
            }
        }
        (void)snprintf(path, MODEL_PATH_MAX, "%s", longest);
        take_out(model, path, at.zxid);
    }
    return ERR_OK;
}

static enum err model_delete(struct model *model, const struct op_args *args,
                             struct model_moment at, struct model_node *node,
                             struct model_verdict *verdict)
{
    char path[MODEL_PATH_MAX];
    enum err err = ERR_OK;

    if (path_is_builtin(args->path)) {
        return ERR_BAD_ARGUMENTS;
    }
    if (node == NULL) {
        return args->has_etag || args->must_exist ? model_bad_version(NULL, verdict) : ERR_NO_NODE;
    }
    if (!version_fits(args, node)) {
        return model_bad_version(node, verdict);
    }
    (void)snprintf(path, MODEL_PATH_MAX, "%s", node->path);
    if (args->recursive) {
        err = model_delete_tree(model, path, args->max, at);
    } else if (node->stat.num_children > 0) {
        return ERR_NOT_EMPTY;
    } else {
        take_out(model, path, at.zxid);
    }
    if (err == ERR_OK) {
        answer(verdict, path, NULL);
    }
    return err;
}

static enum err model_reap(struct model *model, struct model_moment at, struct model_node *node,
                           struct model_verdict *verdict)
{
    char path[MODEL_PATH_MAX];
    bool due = false;

    if (node == NULL) {
        return ERR_NO_NODE;
    }
    if (node->stat.num_children > 0) {
        return ERR_NOT_EMPTY;
    }
    if (node->owner == OWNER_CONTAINER) {
        due = node->creates > 0 || node->stat.ctime + STATE_CONTAINER_UNUSED_MS <= at.time_ms;
    } else if (node->owner != 0) {
        due = node->stat.mtime + (int64_t)(node->owner & OWNER_TTL_MASK) <= at.time_ms;
    }
    if (!due) {
        return model_bad_version(node, verdict);
    }
    (void)snprintf(path, MODEL_PATH_MAX, "%s", node->path);
    take_out(model, path, at.zxid);
    answer(verdict, path, NULL);
    return ERR_OK;
}

static enum err model_one(struct model *model, const struct op_args *args, struct model_moment at,
                          struct model_verdict *verdict)
{
    char path[MODEL_PATH_MAX];

    if (args->data.len > model->limits.data_bytes_max) {
        return ERR_TOO_LARGE;
    }
    (void)snprintf(path, MODEL_PATH_MAX, "%.*s", (int)args->path.len,
                   (const char *)args->path.data);
    struct model_node *node = model_find(model, path);

    if (args->op == OP_CREATE) {
        return model_create(model, args, at, verdict);
    }
    if (args->op == OP_SET) {
        return model_set(model, args, at, node, verdict);
    }
    if (args->op == OP_DELETE) {
        return model_delete(model, args, at, node, verdict);
    }
    if (args->op == OP_REAP) {
        return model_reap(model, at, node, verdict);
    }
    if (node == NULL) {
        return ERR_NO_NODE;
    }
    if (!version_fits(args, node)) {
        return model_bad_version(node, verdict);
    }
    answer(verdict, path, node);
    return ERR_OK;
}

void model_request(struct model *model, const struct prep_limits *limits,
                   const struct op_args *args, struct model_moment at,
                   struct model_verdict *verdict)
{
    static struct model backup;
    bool multi = args->op == OP_MULTI;
    uint32_t count = multi ? args->op_count : 1;

    *verdict = (struct model_verdict){.err = ERR_OK};
    model->limits = *limits;
    memcpy(&backup, model, sizeof(backup));
    for (uint32_t i = 0; i < count && verdict->err == ERR_OK; i++) {
        verdict->err = model_one(model, multi ? &args->ops[i] : args, at, verdict);
        verdict->failed = i;
    }
    if (verdict->err != ERR_OK) {
        memcpy(model, &backup, sizeof(backup));
    }
}
