#include "tests/lib/prep_model.h"

#include "base/check.h"
#include "server/op/acl.h"
#include "server/state/path.h"
#include "tests/lib/prep_model_int.h"

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

/* Writes the parent of `path`, also for a text that is no path yet. The parent of "/" is "/". */
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

static struct model_node *add(const struct model_step *step, const char *path)
{
    struct model *model = step->model;
    zxid_t zxid = step->ask->zxid;

    ASSERT(model->count < MODEL_NODES_MAX);
    struct model_node *node = &model->nodes[model->count++];

    *node = (struct model_node){.null = true,
                                .list = step->list,
                                .made_age_ms = step->ask->age_ms,
                                .set_age_ms = step->ask->age_ms,
                                .stat = {.czxid = zxid,
                                         .mzxid = zxid,
                                         .pzxid = zxid,
                                         .ctime = step->ask->stamp_ms,
                                         .mtime = step->ask->stamp_ms}};
    (void)snprintf(node->path, MODEL_PATH_MAX, "%s", path);
    return node;
}

void model_take_out(struct model *model, const char *path, zxid_t zxid)
{
    struct model_node *node = model_find(model, path);

    touch_parent(model, path, zxid, 0);
    *node = model->nodes[--model->count];
}

void model_init(struct model *model, const struct prep_limits *limits)
{
    static const char *const paths[] = {"/", "/zookeeper", "/zookeeper/quota", STATE_CONFIG_PATH};
    const struct model_ask ask = {.zxid = 0};

    model->count = 0;
    model->session_count = 0;
    model->key_count = 0;
    model->applied = 0;
    model->limits = limits;
    for (size_t i = 0; i < 4; i++) {
        (void)add(&(struct model_step){.model = model, .ask = &ask}, paths[i]);
    }
    model->nodes[0].stat.num_children = 1;
    model->nodes[0].stat.cversion = -1;
    model->nodes[1].stat.num_children = 2;
    model->nodes[1].stat.cversion = -2;
}

uint64_t model_owner(const struct model_node *node)
{
    return node->owner >> 56 < 0x80 ? node->owner : 0;
}

bool model_is_within(const char *path, const char *top)
{
    size_t len = strlen(top);

    return strncmp(path, top, len) == 0 && (path[len] == '\0' || path[len] == '/');
}

static void copy_data(struct model_node *node, const struct op_args *args)
{
    (void)snprintf(node->data, MODEL_DATA_MAX, "%.*s", (int)args->data.len,
                   (const char *)args->data.data);
    node->null = args->data_null;
    node->stat.data_length = (uint32_t)args->data.len;
}

void model_answer(const struct model_step *step, const char *path, const struct model_node *node,
                  bool has_stat)
{
    struct model_verdict *verdict = step->verdict;
    struct model_reply *reply = &verdict->replies[verdict->reply_count++];

    *reply = (struct model_reply){.has_stat = has_stat};
    if (node != NULL) {
        reply->stat = node->stat;
    }
    (void)snprintf(reply->path, MODEL_PATH_MAX, "%s", path);
}

/* ---- Create. ---- */

static enum err check_kind(const struct model_step *step)
{
    const struct op_args *args = step->args;

    if (args->container && (args->sequence || args->ephemeral)) {
        return ERR_BAD_ARGUMENTS;
    }
    if (args->ttl_ms < 0 || args->ttl_ms >= INT64_C(1) << 40) {
        return ERR_BAD_ARGUMENTS;
    }
    if (args->ttl_ms > 0 && (args->ephemeral || args->container)) {
        return ERR_BAD_ARGUMENTS;
    }
    return args->ephemeral && step->session == 0 ? ERR_UNKNOWN_SESSION : ERR_OK;
}

/* Whether a znode may exist at `path`, whose parent exists. */
static enum err check_place(const struct model_step *step, const char *path, bool ephemeral,
                            size_t bytes)
{
    char parent_path[MODEL_PATH_MAX];
    enum err err = ERR_OK;

    parent_of(path, parent_path);
    if (strcmp(parent_path, STATE_CONFIG_PATH) == 0) {
        return ERR_NO_AUTH;
    }
    if (model_owner(model_find(step->model, parent_path)) != 0) {
        return ERR_NO_CHILDREN_FOR_EPHEMERALS;
    }
    if (!model_may_limit(step, path)) {
        return ERR_NO_AUTH;
    }
    if (ephemeral) {
        err = model_ephemerals(step->model, path, step->session);
    }
    return err == ERR_OK ? model_quota(step->model, path, 1, (int64_t)bytes) : err;
}

static enum err make_parents(const struct model_step *step, const char *path)
{
    char part[MODEL_PATH_MAX];

    for (size_t i = 1; path[i] != '\0'; i++) {
        (void)snprintf(part, MODEL_PATH_MAX, "%.*s", (int)i, path);
        if (path[i] != '/' || model_find(step->model, part) != NULL) {
            continue;
        }
        enum err err = check_place(step, part, false, 0);

        if (err != ERR_OK) {
            return err;
        }
        const struct model_node *node = add(step, part);

        touch_parent(step->model, part, step->ask->zxid, 1);
        if (!model_may(step, node, ACL_CREATE)) {
            return ERR_NO_AUTH;
        }
    }
    return ERR_OK;
}

static bool may_create(const struct model_step *step, const char *path)
{
    char above[MODEL_PATH_MAX];
    char next[MODEL_PATH_MAX];

    parent_of(path, above);
    while (model_find(step->model, above) == NULL) {
        parent_of(above, next);
        (void)snprintf(above, sizeof(above), "%s", next);
    }
    return model_may(step, model_find(step->model, above), ACL_CREATE);
}

/* Appends the number to the name; refuses what cannot be a path. */
static enum err make_path(const struct model_step *step, char path[MODEL_PATH_MAX])
{
    char parent_path[MODEL_PATH_MAX];
    size_t len = strlen(path);

    parent_of(path, parent_path);
    const struct model_node *parent = model_find(step->model, parent_path);

    if (parent == NULL && !step->args->parents) {
        return ERR_NO_NODE;
    }
    if (!may_create(step, path)) {
        return ERR_NO_AUTH;
    }
    if (step->args->sequence) {
        (void)snprintf(path + len, MODEL_PATH_MAX - len, "%010u",
                       parent != NULL ? parent->creates : 0);
    }
    return strlen(path) > 1 && path[strlen(path) - 1] == '/' ? ERR_BAD_ARGUMENTS : ERR_OK;
}

static void put_node(const struct model_step *step, const char *path)
{
    const struct op_args *args = step->args;
    struct model_node *node = add(step, path);

    copy_data(node, args);
    node->owner = args->container ? OWNER_CONTAINER : 0;
    node->owner = args->ttl_ms > 0 ? OWNER_TTL_MARK | (uint64_t)args->ttl_ms : node->owner;
    node->owner = args->ephemeral ? step->session : node->owner;
    node->stat.ephemeral_owner = args->ephemeral ? step->session : 0;
    touch_parent(step->model, path, step->ask->zxid, 1);
    model_answer(step, path, node, true);
}

static enum err do_create(struct model_step *step)
{
    const struct op_args *args = step->args;
    char path[MODEL_PATH_MAX];
    enum err err = check_kind(step);

    if (err == ERR_OK) {
        err = model_fix(step->ask->caller, step->list, &step->list);
    }
    if (err != ERR_OK) {
        return err;
    }
    (void)snprintf(path, MODEL_PATH_MAX, "%.*s", (int)args->path.len,
                   (const char *)args->path.data);
    err = make_path(step, path);
    if (err == ERR_OK && !args->has_acl && step->model->limits->inherit_acl) {
        step->list = model_deepest(step->model, path)->list;
    }
    if (err == ERR_OK && model_find(step->model, path) != NULL) {
        err = ERR_NODE_EXISTS;
    }
    if (err == ERR_OK) {
        err = make_parents(step, path);
    }
    if (err == ERR_OK) {
        err = check_place(step, path, args->ephemeral, args->data.len);
    }
    if (err == ERR_OK) {
        put_node(step, path);
    }
    return err;
}

/* ---- Set, delete, check. ---- */

static enum err bad_version(const struct model_step *step, const struct model_node *node)
{
    zxid_t zxid = step->ask->zxid;

    if (node != NULL && model_may(step, node, ACL_READ) && node->stat.czxid != zxid &&
        node->stat.mzxid != zxid && node->stat.pzxid != zxid) { /* This multi has not changed it. */
        step->verdict->has_stat = true;
        step->verdict->stat = node->stat;
    }
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

static enum err missing(const struct op_args *args)
{
    return args->has_etag || args->must_exist ? ERR_BAD_VERSION : ERR_NO_NODE;
}

static enum err set_missing(struct model_step *step)
{
    const struct op_args *args = step->args;

    if (args->has_etag || args->must_exist || (!args->upsert && !args->must_be_new)) {
        return missing(args);
    }
    if (args->has_version && args->version != -1) {
        return ERR_BAD_VERSION;
    }
    enum err err = do_create(step);

    step->verdict->created = err == ERR_OK && step->ask->args == args;
    return err;
}

static enum err do_set(struct model_step *step, struct model_node *node)
{
    const struct op_args *args = step->args;

    if (node == NULL) {
        return set_missing(step);
    }
    if (strcmp(node->path, STATE_CONFIG_PATH) == 0 || !model_may(step, node, ACL_WRITE) ||
        !model_may_limit(step, node->path)) {
        return ERR_NO_AUTH;
    }
    enum err err =
        model_quota(step->model, node->path, 0, (int64_t)args->data.len - node->stat.data_length);

    if (err != ERR_OK) {
        return err;
    }
    if (args->must_be_new || !version_fits(args, node)) {
        return bad_version(step, node);
    }
    copy_data(node, args);
    node->stat.version++;
    node->stat.mzxid = step->ask->zxid;
    node->stat.mtime = step->ask->stamp_ms;
    node->set_age_ms = step->ask->age_ms;
    model_answer(step, node->path, node, true);
    return ERR_OK;
}

/* Deletes the longest path first, repeatedly: slow, and surely bottom up. */
static enum err delete_tree(const struct model_step *step, const char *top)
{
    struct model *model = step->model;
    uint32_t bound = model->limits->tree.recursive_max;
    uint32_t max = step->args->max;
    size_t count = 0;
    bool may = true;

    for (size_t i = 0; i < model->count; i++) {
        const struct model_node *node = &model->nodes[i];

        if (model_is_within(node->path, top)) {
            count++;
            may = may && (node->stat.num_children == 0 || model_may(step, node, ACL_DELETE)) &&
                  model_may_limit(step, node->path);
        }
    }
    if (count > (max > 0 && max < bound ? max : bound)) {
        return ERR_NOT_EMPTY;
    }
    if (!may) {
        return ERR_NO_AUTH;
    }
    for (; count > 0; count--) {
        const char *longest = NULL;
        char path[MODEL_PATH_MAX];

        for (size_t i = 0; i < model->count; i++) {
            const char *one = model->nodes[i].path;

            if (model_is_within(one, top) && (longest == NULL || strlen(one) > strlen(longest))) {
                longest = one;
            }
        }
        (void)snprintf(path, MODEL_PATH_MAX, "%s", longest);
        model_take_out(model, path, step->ask->zxid);
    }
    return ERR_OK;
}

static enum err delete_node(const struct model_step *step, const struct model_node *node)
{
    const struct op_args *args = step->args;
    char path[MODEL_PATH_MAX];
    enum err err = ERR_OK;

    if (!model_may_limit(step, node->path)) {
        return ERR_NO_AUTH;
    }
    if (!version_fits(args, node)) {
        return bad_version(step, node);
    }
    (void)snprintf(path, MODEL_PATH_MAX, "%s", node->path);
    if (args->recursive) {
        err = delete_tree(step, path);
    } else if (node->stat.num_children > 0) {
        return ERR_NOT_EMPTY;
    } else {
        model_take_out(step->model, path, step->ask->zxid);
    }
    if (err == ERR_OK) {
        model_answer(step, path, NULL, false);
    }
    return err;
}

static enum err do_delete(const struct model_step *step, const char *path,
                          const struct model_node *node)
{
    char parent_path[MODEL_PATH_MAX];

    if (path_is_builtin(step->args->path)) {
        return ERR_BAD_ARGUMENTS;
    }
    parent_of(path, parent_path);
    const struct model_node *parent = model_find(step->model, parent_path);

    if (parent == NULL) {
        return missing(step->args);
    }
    if (!model_may(step, parent, ACL_DELETE)) {
        return ERR_NO_AUTH;
    }
    return node == NULL ? missing(step->args) : delete_node(step, node);
}

static enum err do_check(const struct model_step *step, const struct model_node *node)
{
    if (node == NULL) {
        return ERR_NO_NODE;
    }
    if (!model_may(step, node, ACL_READ)) {
        return ERR_NO_AUTH;
    }
    if (!version_fits(step->args, node)) {
        return bad_version(step, node);
    }
    model_answer(step, node->path, node, false);
    return ERR_OK;
}

/* ---- Other operations. ---- */

static enum err do_set_acl(const struct model_step *step, struct model_node *node)
{
    const struct op_args *args = step->args;
    enum model_list list = MODEL_OPEN;
    enum err err = model_fix(step->ask->caller, step->list, &list);

    if (err != ERR_OK) {
        return err;
    }
    if (node == NULL) {
        return missing(args);
    }
    if (!model_may(step, node, ACL_ADMIN) || strcmp(node->path, STATE_CONFIG_PATH) == 0) {
        return ERR_NO_AUTH;
    }
    if (args->has_aversion && args->aversion != -1 && args->aversion != node->stat.aversion) {
        return bad_version(step, node);
    }
    if (args->has_etag &&
        (args->etag_czxid != node->stat.czxid || args->etag_version != node->stat.aversion)) {
        return bad_version(step, node);
    }
    node->list = list;
    node->stat.aversion++;
    model_answer(step, node->path, node, true);
    return ERR_OK;
}

static enum err do_reap(const struct model_step *step, const struct model_node *node)
{
    int64_t now_ms = step->ask->age_ms;
    char path[MODEL_PATH_MAX];
    bool due = false;

    if (node == NULL) {
        return ERR_NO_NODE;
    }
    if (node->stat.num_children > 0) {
        return ERR_NOT_EMPTY;
    }
    if (node->owner == OWNER_CONTAINER) {
        due = node->creates > 0 || node->made_age_ms + STATE_CONTAINER_UNUSED_MS <= now_ms;
    } else if (node->owner != 0 && model_owner(node) == 0) {
        due = node->set_age_ms + (int64_t)(node->owner & OWNER_TTL_MASK) <= now_ms;
    }
    if (!due) {
        return bad_version(step, node);
    }
    (void)snprintf(path, MODEL_PATH_MAX, "%s", node->path);
    model_take_out(step->model, path, step->ask->zxid);
    model_answer(step, path, NULL, false);
    return ERR_OK;
}

static enum err do_one(struct model_step *step)
{
    const struct op_args *args = step->args;
    char path[MODEL_PATH_MAX];

    if (args->data.len > step->model->limits->data_bytes_max) {
        return ERR_TOO_LARGE;
    }
    (void)snprintf(path, MODEL_PATH_MAX, "%.*s", (int)args->path.len,
                   (const char *)args->path.data);
    struct model_node *node = model_find(step->model, path);

    if (args->op == OP_CREATE) {
        return do_create(step);
    }
    if (args->op == OP_SET) {
        return do_set(step, node);
    }
    if (args->op == OP_DELETE) {
        return do_delete(step, path, node);
    }
    if (args->op == OP_CHECK) {
        return do_check(step, node);
    }
    if (args->op == OP_SETACL) {
        return do_set_acl(step, node);
    }
    return args->op == OP_REAP ? do_reap(step, node) : model_session_op(step);
}

static void do_all(const struct model_step *step)
{
    bool multi = step->args->op == OP_MULTI;
    uint32_t count = multi ? step->args->op_count : 1;

    for (uint32_t i = 0; i < count && step->verdict->err == ERR_OK; i++) {
        struct model_step element = *step;

        element.args = multi ? &step->args->ops[i] : step->args;
        element.list = step->ask->lists[i];
        step->verdict->err = do_one(&element);
        step->verdict->failed = i;
    }
}

static void copy_model(struct model *to, const struct model *from)
{
    memcpy(to->nodes, from->nodes, from->count * sizeof(from->nodes[0]));
    to->count = from->count;
    memcpy(to->sessions, from->sessions, sizeof(from->sessions));
    to->session_count = from->session_count;
}

static void refuse(struct model_verdict *verdict, enum err err)
{
    *verdict = (struct model_verdict){.err = err, .whole = true};
}

void model_request(struct model *model, const struct model_ask *ask, struct model_verdict *verdict)
{
    static struct model backup;
    struct model_step step = {.model = model, .ask = ask, .args = ask->args, .verdict = verdict};

    *verdict = (struct model_verdict){.err = ERR_OK};
    enum err err = model_in_session(&step);

    if (err == ERR_OK) {
        err = model_key_known(&step);
    }
    if (err != ERR_MISSING) {
        if (err != ERR_OK) {
            refuse(verdict, err);
        }
        return;
    }
    copy_model(&backup, model);
    do_all(&step);
    if (verdict->err == ERR_OK) {
        err = model_remember(&step);
        if (err != ERR_OK) {
            refuse(verdict, err);
        }
    }
    if (verdict->err != ERR_OK) {
        copy_model(model, &backup);
    }
}
