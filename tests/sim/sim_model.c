#include "tests/sim/sim_model.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"

void model_init(struct model *model)
{
    *model = (struct model){0};
}

void model_release(struct model *model)
{
    mem_free(model->nodes);
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
}

/* Where `path` is, or would be. */
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

/* The root is not kept: it always exists, and nobody looks at its counters. */
static bool has_parent(const struct model *model, const char *path, struct model_node **ret_parent)
{
    char parent[64];

    parent_path(path, parent, sizeof(parent));
    *ret_parent = parent[0] ? find(model, parent) : NULL;
    return parent[0] == 0 || *ret_parent != NULL;
}

/* One element, at its place in the transaction. */
struct step {
    struct model *model;
    const struct sim_sub *sub;
    zxid_t zxid;
    int64_t time_ms;
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

static enum err run_create(struct step *step)
{
    struct model_node *parent;
    struct model_node *node;
    char path[64];

    if (!has_parent(step->model, step->sub->path, &parent)) {
        return ERR_NO_NODE;
    }
    if (step->sub->sequence) {
        ASSERT(parent);
        (void)snprintf(path, sizeof(path), "%s%010u", step->sub->path, parent->creates);
    } else {
        (void)snprintf(path, sizeof(path), "%s", step->sub->path);
    }
    if (find(step->model, path)) {
        return ERR_NODE_EXISTS;
    }
    if (parent) {
        parent->creates++;
        parent->children++;
        parent->pzxid = step->zxid;
    }
    node = insert(step->model, path);
    node->czxid = step->zxid;
    node->mzxid = step->zxid;
    node->pzxid = step->zxid;
    node->ctime = step->time_ms;
    node->mtime = step->time_ms;
    (void)snprintf(node->data, sizeof(node->data), "%s", step->sub->data);
    return tell(step, node, ERR_OK);
}

static bool version_differs(const struct sim_sub *sub, const struct model_node *node)
{
    return sub->has_version && sub->version != node->version;
}

static enum err run_set(struct step *step)
{
    struct model_node *node = find(step->model, step->sub->path);

    if (!node) {
        return ERR_NO_NODE;
    }
    if (version_differs(step->sub, node)) {
        return tell(step, node, ERR_BAD_VERSION);
    }
    node->version++;
    node->mzxid = step->zxid;
    node->mtime = step->time_ms;
    (void)snprintf(node->data, sizeof(node->data), "%s", step->sub->data);
    return tell(step, node, ERR_OK);
}

static enum err run_delete(struct step *step)
{
    struct model *model = step->model;
    struct model_node *node = find(model, step->sub->path);
    struct model_node *parent;
    size_t at;

    if (!node) {
        return ERR_NO_NODE;
    }
    if (version_differs(step->sub, node)) {
        return tell(step, node, ERR_BAD_VERSION);
    }
    if (node->children > 0) {
        return ERR_NOT_EMPTY;
    }
    if (has_parent(model, step->sub->path, &parent) && parent) {
        parent->deletes++;
        parent->children--;
        parent->pzxid = step->zxid;
    }
    at = (size_t)(node - model->nodes);
    memmove(node, node + 1, (model->count - at - 1) * sizeof(*node));
    model->count--;
    return ERR_OK;
}

static enum err run_check(struct step *step)
{
    struct model_node *node = find(step->model, step->sub->path);

    if (!node) {
        return ERR_NO_NODE;
    }
    return tell(step, node, version_differs(step->sub, node) ? ERR_BAD_VERSION : ERR_OK);
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
    default:
        UNREACHABLE();
    }
}

void model_run(struct model *model, const struct sim_op *op, zxid_t zxid, int64_t time_ms,
               struct model_answer *ret_answer)
{
    struct model before;
    struct step step = {.model = model, .zxid = zxid, .time_ms = time_ms, .answer = ret_answer};

    *ret_answer = (struct model_answer){.err = ERR_OK};
    model_init(&before);
    if (op->sub_count > 1) {
        model_copy(&before, model);
    }
    for (uint32_t i = 0; i < op->sub_count && ret_answer->err == ERR_OK; i++) {
        step.sub = &op->subs[i];
        ret_answer->has_node = false;
        ret_answer->err = run_sub(&step);
        ret_answer->failed_index = i;
    }
    if (ret_answer->err != ERR_OK && op->sub_count > 1) {
        model_copy(model, &before);
    }
    model_release(&before);
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
                              .data_length = (uint32_t)strlen(node->data) + pad_bytes,
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
