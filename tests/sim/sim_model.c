#include "tests/sim/sim_model.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"
#include "server/op/acl.h"
#include "server/state/state.h"

#include <stdlib.h>

void model_init(struct model *model)
{
    *model = (struct model){0};
    model_book_init(model);
}

void model_release(struct model *model)
{
    mem_free(model->nodes);
    if (!model->scratch) {
        model_book_release(model);
    }
    *model = (struct model){0};
}

void model_copy(struct model *to, const struct model *from)
{
    if (to->cap < from->count) {
        to->cap = from->count + 64;
        to->nodes = mem_realloc(to->nodes, to->cap * sizeof(*to->nodes));
    }
    if (from->count > 0) {
        memcpy(to->nodes, from->nodes, from->count * sizeof(*to->nodes));
    }
    to->count = from->count;
    to->root_pzxid = from->root_pzxid;
}

/* Index of `path`, or the index at which it would be inserted. */
static size_t place(const struct model *model, const char *path)
{
    size_t low = 0;
    size_t high = model->count;

    while (low < high) {
        size_t mid = (low + high) / 2;

        if (strcmp(model->nodes[mid].path, path) < 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

static struct model_node *find(const struct model *model, const char *path)
{
    size_t at = place(model, path);

    if (at < model->count && strcmp(model->nodes[at].path, path) == 0) {
        return &model->nodes[at];
    }
    return NULL;
}

const struct model_node *model_find(const struct model *model, const char *path)
{
    return find(model, path);
}

static struct model_node *insert(struct model *model, const char *path)
{
    size_t at = place(model, path);

    if (model->count == model->cap) {
        model->cap = model->cap ? model->cap * 2 : 64;
        model->nodes = mem_realloc(model->nodes, model->cap * sizeof(*model->nodes));
    }
    memmove(&model->nodes[at + 1], &model->nodes[at], (model->count - at) * sizeof(*model->nodes));
    model->count++;
    model->nodes[at] = (struct model_node){0};
    (void)snprintf(model->nodes[at].path, sizeof(model->nodes[at].path), "%s", path);
    return &model->nodes[at];
}

static void parent_path(const char *path, char *out, size_t size)
{
    const char *slash = strrchr(path, '/');

    ASSERT(slash);
    (void)snprintf(out, size, "%.*s", (int)(slash - path), path);
}

/* The model does not hold the root and the built-in znodes: they always exist, and no client looks
 * at their counters. */
static bool is_above_all(const char *path)
{
    return path[0] == 0 || strcmp(path, STATE_QUOTA_PATH) == 0;
}

static bool has_parent(const struct model *model, const char *path, struct model_node **ret_parent)
{
    char parent[64];

    parent_path(path, parent, sizeof(parent));
    *ret_parent = is_above_all(parent) ? NULL : find(model, parent);
    return is_above_all(parent) || *ret_parent != NULL;
}

/* One operation, with its position in the transaction. */
struct step {
    struct model *model;
    const struct sim_sub *sub;
    uint64_t session; /* The session in which the client requests it; 0: none. */
    uint32_t ephemerals_max;
    zxid_t zxid;
    const struct txn_header *header;
    struct model_answer *answer;
};

static enum err tell(struct step *step, const struct model_node *node, enum err err)
{
    step->answer->has_node = node != NULL;
    if (node) {
        step->answer->node = *node;
        (void)snprintf(step->answer->path, sizeof(step->answer->path), "%s", node->path);
    }
    return err;
}

static bool may(const struct model_node *node, uint32_t perms)
{
    return !node || (node->perms & perms) != 0;
}

static void fire(const struct step *step, enum watch_event_type type, const struct model_node *node)
{
    if (!step->model->scratch) {
        model_fire(step->model, type, node->path, step->zxid, may(node, ACL_READ));
    }
}

static void fire_parent(struct model *model, const char *path, const struct model_node *parent,
                        zxid_t zxid)
{
    char name[64];

    parent_path(path, name, sizeof(name));
    if (!model->scratch) {
        model_fire(model, WATCH_CHILDREN_CHANGED, name, zxid, may(parent, ACL_READ));
    }
}

/* ---- Quotas. ---- */

static bool is_within(const char *path, const char *root)
{
    size_t len = strlen(root);

    return strncmp(path, root, len) == 0 && (path[len] == 0 || path[len] == '/');
}

static uint32_t count_within(const struct model *model, const char *root)
{
    uint32_t count = 0;

    for (size_t i = place(model, root); i < model->count; i++) {
        if (strncmp(model->nodes[i].path, root, strlen(root)) != 0) {
            break;
        }
        count += is_within(model->nodes[i].path, root);
    }
    return count;
}

uint32_t model_owned(const struct model *model, uint64_t session)
{
    uint32_t count = 0;

    for (size_t i = 0; i < model->count; i++) {
        count += model->nodes[i].owner == session;
    }
    return count;
}

/* Checks the one quota that clients set; see sim_draw.c. */
static bool is_over_quota(const struct model *model, const char *path)
{
    const struct model_node *limits = find(model, STATE_QUOTA_PATH "/k1/" STATE_LIMITS_NAME);
    const char *hard = limits ? strstr(limits->data, "countHardLimit=") : NULL;

    return hard && is_within(path, "/k1") &&
           count_within(model, "/k1") + 1 > (uint32_t)strtoul(hard + 15, NULL, 10);
}

/* ---- The operations. ---- */

static enum err check_place(const struct step *step, const struct model_node *parent,
                            const char *path)
{
    const struct sim_sub *sub = step->sub;

    if (find(step->model, path)) {
        return ERR_NODE_EXISTS;
    }
    if (parent && parent->owner != 0) {
        return ERR_NO_CHILDREN_FOR_EPHEMERALS;
    }
    if (sub->ephemeral && model_owned(step->model, step->session) >= step->ephemerals_max) {
        return ERR_QUOTA_EXCEEDED;
    }
    return is_over_quota(step->model, path) ? ERR_QUOTA_EXCEEDED : ERR_OK;
}

static void note_child(struct model *model, const char *path, struct model_node *parent,
                       zxid_t zxid)
{
    if (parent) {
        parent->pzxid = zxid;
    } else if (path[1] == 'k') {
        model->root_pzxid = zxid;
    }
}

static enum err put_node(struct step *step, const char *path)
{
    const struct sim_sub *sub = step->sub;
    struct model_node *node = insert(step->model, path);
    struct model_node *parent;

    node->czxid = step->zxid;
    node->mzxid = step->zxid;
    node->pzxid = step->zxid;
    node->ctime = step->header->stamp_ms;
    node->mtime = step->header->stamp_ms;
    node->age_ms = step->header->age_ms;
    node->ttl_ms = sub->ttl_ms;
    node->owner = sub->ephemeral ? step->session : 0;
    node->perms = sub->perms ? sub->perms : SIM_PERMS_OPEN;
    (void)snprintf(node->data, sizeof(node->data), "%s", sub->data);
    node->plain = sub->plain;
    fire(step, WATCH_CREATED, node);
    (void)has_parent(step->model, path, &parent);
    fire_parent(step->model, path, parent, step->zxid);
    return tell(step, node, ERR_OK);
}

static enum err run_create(struct step *step)
{
    struct model_node *parent;
    char path[64];
    enum err err;

    if (!has_parent(step->model, step->sub->path, &parent)) {
        return ERR_NO_NODE;
    }
    if (!may(parent, ACL_CREATE)) {
        return ERR_NO_AUTH;
    }
    if (step->sub->sequence) {
        ASSERT(parent);
        (void)snprintf(path, sizeof(path), "%s%010u", step->sub->path, parent->creates);
    } else {
        (void)snprintf(path, sizeof(path), "%s", step->sub->path);
    }
    err = check_place(step, parent, path);
    if (err != ERR_OK) {
        return err;
    }
    if (parent) {
        parent->creates++;
        parent->children++;
    }
    note_child(step->model, path, parent, step->zxid);
    return put_node(step, path);
}

static bool version_differs(const struct sim_sub *sub, const struct model_node *node)
{
    return sub->has_version && sub->version != node->version;
}

static enum err refuse_version(struct step *step, const struct model_node *node)
{
    step->answer->hidden = !may(node, ACL_READ);
    return tell(step, node, ERR_BAD_VERSION);
}

static enum err run_set(struct step *step)
{
    struct model_node *node = find(step->model, step->sub->path);

    if (!node) {
        return ERR_NO_NODE;
    }
    if (!may(node, ACL_WRITE)) {
        return ERR_NO_AUTH;
    }
    if (version_differs(step->sub, node)) {
        return refuse_version(step, node);
    }
    node->version++;
    node->mzxid = step->zxid;
    node->mtime = step->header->stamp_ms;
    node->age_ms = step->header->age_ms;
    (void)snprintf(node->data, sizeof(node->data), "%s", step->sub->data);
    node->plain = step->sub->plain;
    fire(step, WATCH_DATA_CHANGED, node);
    return tell(step, node, ERR_OK);
}

static void remove_node(struct step *step, struct model_node *node, struct model_node *parent)
{
    struct model *model = step->model;
    char path[64];
    size_t at = (size_t)(node - model->nodes);

    (void)snprintf(path, sizeof(path), "%s", node->path);
    if (parent) {
        parent->deletes++;
        parent->children--;
    }
    note_child(model, path, parent, step->zxid);
    fire(step, WATCH_DELETED, node);
    fire_parent(model, path, parent, step->zxid);
    memmove(node, node + 1, (model->count - at - 1) * sizeof(*node));
    model->count--;
}

static enum err run_delete(struct step *step)
{
    struct model *model = step->model;
    struct model_node *node = find(model, step->sub->path);
    struct model_node *parent;

    if (!has_parent(model, step->sub->path, &parent)) {
        return ERR_NO_NODE;
    }
    if (!may(parent, ACL_DELETE)) {
        return ERR_NO_AUTH;
    }
    if (!node) {
        return ERR_NO_NODE;
    }
    if (version_differs(step->sub, node)) {
        return refuse_version(step, node);
    }
    if (node->children > 0) {
        return ERR_NOT_EMPTY;
    }
    remove_node(step, node, parent);
    return ERR_OK;
}

bool model_drop(struct model *model, const char *path, zxid_t zxid)
{
    struct step step = {.model = model, .zxid = zxid};
    struct model_node *node = find(model, path);
    struct model_node *parent;

    if (!node || node->children > 0 || !has_parent(model, path, &parent)) {
        return false;
    }
    remove_node(&step, node, parent);
    return true;
}

static enum err run_check(struct step *step)
{
    struct model_node *node = find(step->model, step->sub->path);

    if (!node) {
        return ERR_NO_NODE;
    }
    if (!may(node, ACL_READ)) {
        return ERR_NO_AUTH;
    }
    return tell(step, node, version_differs(step->sub, node) ? ERR_BAD_VERSION : ERR_OK);
}

static enum err run_set_acl(struct step *step)
{
    struct model_node *node = find(step->model, step->sub->path);

    if (!node) {
        return ERR_NO_NODE;
    }
    if (!may(node, ACL_ADMIN)) {
        return ERR_NO_AUTH;
    }
    if (step->sub->has_version && step->sub->version != node->aversion) {
        return refuse_version(step, node);
    }
    node->aversion++;
    node->perms = step->sub->perms;
    fire(step, SIM_NEW_ACL, node);
    return tell(step, node, ERR_OK);
}

static enum err run_sub(struct step *step)
{
    switch ((int)step->sub->id) {
    case OP_CREATE:
        return run_create(step);
    case OP_SET:
        return run_set(step);
    case OP_DELETE:
        return run_delete(step);
    case OP_CHECK:
        return run_check(step);
    case OP_SETACL:
        return run_set_acl(step);
    default:
        UNREACHABLE();
    }
}

/* Opens, attaches or closes a session; its ephemerals are deleted by the transaction. */
static enum err run_session(struct model *model, const struct sim_op *op, zxid_t zxid,
                            struct model_answer *answer)
{
    uint64_t id = model_session_id(model, op->session->number);

    if (op->id == OP_SESSION || op->id == OP_OPEN) {
        ASSERT(id == 0); /* Each secret is used once. */
        answer->session = zxid;
        if (!model->scratch) {
            model_session_open(model, op->session, zxid);
        }
        if (op->id == OP_OPEN && !model->scratch) {
            model_session_move(model, zxid, zxid);
        }
        return ERR_OK;
    }
    if (id == 0) {
        return ERR_SESSION_EXPIRED;
    }
    answer->session = id;
    if (op->id == OP_ATTACH && !model->scratch) {
        model_session_move(model, id, zxid);
    }
    return ERR_OK;
}

/* Finds the session of the operation, and whether its attachment still permits operations. */
static enum err admit(const struct model *model, const struct sim_op *op, uint64_t *ret_session)
{
    uint64_t attach;

    *ret_session = op->session ? model_session_id(model, op->session->number) : 0;
    if (!op->session) {
        return ERR_OK;
    }
    if (!model_session(model, *ret_session, &attach)) {
        return ERR_SESSION_EXPIRED;
    }
    return op->attach != 0 && op->attach != attach ? ERR_SESSION_MOVED : ERR_OK;
}

/* Compares only what is sent (fill_args): a delete or a check carries no data, even if the seed has
 * drawn some. */
static bool is_same_sub(const struct sim_sub *a, const struct sim_sub *b)
{
    bool creates = a->id == OP_CREATE;
    bool writes = creates || a->id == OP_SET;

    return a->id == b->id && strcmp(a->path, b->path) == 0 &&
           (!writes || strcmp(a->data, b->data) == 0) &&
           (!creates || (a->sequence == b->sequence && a->ephemeral == b->ephemeral &&
                         a->ttl_ms == b->ttl_ms)) &&
           sim_sub_perms(a) == sim_sub_perms(b) && a->has_version == b->has_version &&
           (!a->has_version || a->version == b->version);
}

bool model_is_same(const struct sim_op *a, const struct sim_op *b)
{
    bool same = a->id == b->id && a->sub_count == b->sub_count;

    for (uint32_t i = 0; same && i < a->sub_count; i++) {
        same = is_same_sub(&a->subs[i], &b->subs[i]);
    }
    return same;
}

static enum err run_subs(struct model *model, const struct sim_op *op, struct step *step)
{
    struct model_answer *answer = step->answer;
    struct model before = {.scratch = true};
    enum err err = ERR_OK;

    if (op->sub_count > 1) {
        model_copy(&before, model);
    }
    for (uint32_t i = 0; i < op->sub_count && err == ERR_OK; i++) {
        step->sub = &op->subs[i];
        answer->has_node = false;
        answer->hidden = false;
        err = run_sub(step);
        answer->failed_index = i;
    }
    if (err != ERR_OK && op->sub_count > 1) {
        model_copy(model, &before);
    }
    model_release(&before);
    return err;
}

void model_run(struct model *model, const struct sim_op *op, zxid_t zxid,
               const struct txn_header *header, struct model_answer *ret_answer)
{
    struct step step = {.model = model,
                        .zxid = zxid,
                        .header = header,
                        .ephemerals_max = op->sim->knobs.ephemerals_max,
                        .answer = ret_answer};

    *ret_answer = (struct model_answer){.err = ERR_OK};
    if (op->id == OP_SESSION || op->id == OP_OPEN || op->id == OP_ATTACH || op->id == OP_CLOSE) {
        ret_answer->err = run_session(model, op, zxid, ret_answer);
        return;
    }
    ret_answer->err = admit(model, op, &step.session);
    if (ret_answer->err == ERR_OK && op->key != 0) {
        ret_answer->was = model_remembered(model, step.session, op->key);
    }
    if (ret_answer->was) {
        ret_answer->err = model_is_same(ret_answer->was, op) ? ERR_OK : ERR_KEY_REUSED;
        return;
    }
    if (ret_answer->err == ERR_OK) {
        ret_answer->err = run_subs(model, op, &step);
    }
    if (ret_answer->err == ERR_OK && op->key != 0 && !model->scratch) {
        model_remember(model, step.session, op, zxid, header->age_ms);
    }
}

struct stat_view model_stat(const struct model_node *node, uint32_t pad_bytes)
{
    return (struct stat_view){.czxid = node->czxid,
                              .mzxid = node->mzxid,
                              .pzxid = node->pzxid,
                              .ctime = node->ctime,
                              .mtime = node->mtime,
                              .version = node->version,
                              .cversion = (int32_t)(node->creates + node->deletes),
                              .aversion = node->aversion,
                              .ttl_ms = node->ttl_ms,
                              .ephemeral_owner = node->owner,
                              .data_length =
                                  (uint32_t)strlen(node->data) + (node->plain ? 0 : pad_bytes),
                              .num_children = node->children};
}

uint64_t model_names_hash(const struct model *model, const char *path)
{
    char prefix[66];
    size_t len = (size_t)snprintf(prefix, sizeof(prefix), "%s/", path);
    uint64_t hash = 0;

    for (size_t i = place(model, prefix); i < model->count; i++) {
        const char *name = model->nodes[i].path;

        if (strncmp(name, prefix, len) != 0) {
            break;
        }
        if (!strchr(name + len, '/')) {
            hash = hash64(hash, slice_str(name + len));
        }
    }
    return hash;
}
