#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"
#include "server/state/cost.h"
#include "server/state/path.h"
#include "server/state/quota_int.h"
#include "server/state/state_int.h"
#include "server/state/walk.h"

static const struct quota *of_order(const struct avl_node *node)
{
    return node != NULL ? avl_entry_const(node, struct quota, order) : NULL;
}

static int path_cmp(const void *key, const struct avl_node *node)
{
    const struct quota *quota = avl_entry_const(node, struct quota, order);

    ASSERT(quota->shown.path.len > 1);
    return slice_cmp(*(const struct slice *)key, quota->shown.path);
}

void quotas_init(struct quotas *quotas)
{
    *quotas = (struct quotas){0};
    map_init(&quotas->by_hash);
}

void quotas_release(struct quotas *quotas)
{
    size_t cursor = 0;
    struct quota *quota = map_each(&quotas->by_hash, &cursor);

    while (quota != NULL) {
        struct quota *next = quota->same_hash;

        quotas->count--;
        mem_free(quota);
        quota = next != NULL ? next : map_each(&quotas->by_hash, &cursor);
    }
    map_release(&quotas->by_hash);
}

/* Whether the znode has this path. */
static bool is_at(const struct znode *node, struct slice path)
{
    while (node->parent != NULL) {
        struct slice name = znode_name(node);

        if (path.len <= name.len || path.data[path.len - name.len - 1] != '/' ||
            !slice_eq(slice_make(path.data + path.len - name.len, name.len), name)) {
            return false;
        }
        path.len -= name.len + 1;
        node = node->parent;
    }
    return path.len == 0;
}

/* The quota on exactly this znode, or NULL. */
static struct quota *of_znode(const struct state *state, const struct znode *node)
{
    struct quota *quota = map_get_u64(&state->quotas.by_hash, node->path_hash);

    while (quota != NULL && !is_at(node, quota->shown.path)) {
        quota = quota->same_hash;
    }
    return quota;
}

static uint64_t len_of(const struct znode *node)
{
    return blob_slice(node->data).len;
}

/* Adds to all quotas above `node`; negative numbers wrap around. */
static void add_up(struct state *state, const struct znode *node, uint64_t count, uint64_t bytes)
{
    ASSERT(state->quotas.count > 0);

    for (const struct znode *at = node; at != NULL; at = at->parent) {
        struct quota *quota = of_znode(state, at);

        if (quota != NULL) {
            quota->shown.count += count;
            quota->shown.bytes += bytes;
            ASSERT(quota->shown.count <= state->node_count);
        }
    }
}

/* ---- Limits znodes. ---- */

/* Whether this is a limits znode. Writes its path to `buf` and the limited path, a part of that, to
 * `ret_path`. The root and /zookeeper have no quota, as in ZooKeeper. */
static bool is_limits(const struct znode *node, struct buf *buf, struct slice *ret_path)
{
    struct slice name = slice_str(STATE_LIMITS_NAME);
    struct slice top = slice_str(STATE_QUOTA_PATH);

    ASSERT(slice_eq(znode_name(node), name));
    buf_clear(buf);
    walk_path_of(node, buf);
    ASSERT(!buf->overflow);
    if (!path_is_within(buf_slice(buf), top) || buf->len <= top.len + 1 + name.len) {
        return false;
    }
    *ret_path = slice_make(buf->data + top.len, buf->len - top.len - 1 - name.len);
    return !path_is_within(*ret_path, slice_str("/zookeeper"));
}

static void take_limits(struct quota *quota, const struct znode *limits)
{
    struct state_quota parsed;

    /* Malformed text sets no limits; the usage is shown all the same. */
    (void)state_quota_parse(blob_slice(limits->data), &parsed);
    quota->shown.count_limit = parsed.count_limit;
    quota->shown.bytes_limit = parsed.bytes_limit;
    quota->shown.count_hard = parsed.count_hard;
    quota->shown.bytes_hard = parsed.bytes_hard;
    ASSERT(parsed.count_hard >= -1 && parsed.bytes_hard >= -1);
}

static uint64_t hash_of_path(const struct state *state, struct slice path)
{
    uint64_t hash = state->root->path_hash;
    size_t pos = 0;

    for (struct slice name = path_component(path, &pos); name.len > 0;
         name = path_component(path, &pos)) {
        hash = hash64(hash, name);
    }
    return hash;
}

static void count_subtree(const struct state *state, struct quota *quota)
{
    const struct znode *top = tree_find(state->root, quota->shown.path);
    struct walk walk;

    ASSERT(quota->shown.count == 0 && quota->shown.bytes == 0);
    if (top == NULL) {
        return;
    }
    walk_init(&walk, top, slice_make(NULL, 0));
    for (const struct znode *node = top; node != NULL; node = walk_next(&walk, true)) {
        quota->shown.count++;
        quota->shown.bytes += len_of(node);
    }
    walk_release(&walk);
    ASSERT(quota->shown.count > 0 && quota->shown.count <= state->node_count);
}

static void appear(struct state *state, const struct znode *limits, struct slice path)
{
    struct quotas *quotas = &state->quotas;
    struct quota *quota = mem_zalloc(1, sizeof(*quota) + path.len);

    memcpy(quota->path, path.data, path.len);
    quota->shown.path = slice_make(quota->path, path.len);
    quota->path_hash = hash_of_path(state, path);
    quota->same_hash = map_put_u64(&quotas->by_hash, quota->path_hash, quota);
    avl_insert(&quotas->order, &quota->shown.path, &quota->order, path_cmp);
    quotas->count++;
    quotas->cost += cost_quota(path.len);
    take_limits(quota, limits);
    count_subtree(state, quota);
}

static struct quota *find(const struct state *state, struct slice path)
{
    struct avl_node *node = avl_find(&state->quotas.order, &path, path_cmp);

    return node != NULL ? avl_entry(node, struct quota, order) : NULL;
}

static void vanish(struct state *state, struct slice path)
{
    struct quotas *quotas = &state->quotas;
    struct quota *quota = find(state, path);

    ASSERT(quota != NULL && quotas->count > 0);
    struct quota *first = map_remove_u64(&quotas->by_hash, quota->path_hash);

    if (first == quota) {
        first = quota->same_hash;
    } else {
        struct quota *before = first;

        while (before->same_hash != quota) {
            before = before->same_hash;
        }
        before->same_hash = quota->same_hash;
    }
    if (first != NULL) {
        map_put_u64(&quotas->by_hash, quota->path_hash, first);
    }
    avl_remove(&quotas->order, &quota->order);
    quotas->count--;
    ASSERT(quotas->cost >= cost_quota(path.len));
    quotas->cost -= cost_quota(path.len);
    mem_free(quota);
}

static bool may_be_limits(const struct znode *node)
{
    return node->name_len == strlen(STATE_LIMITS_NAME) &&
           memcmp(node->name, STATE_LIMITS_NAME, node->name_len) == 0;
}

/* Calls `apply` when the znode is a limits znode. */
static void if_limits(struct state *state, const struct znode *node,
                      void (*apply)(struct state *state, const struct znode *node,
                                    struct slice path))
{
    struct slice path;
    struct buf buf;

    buf_init(&buf, STATE_PATH_MAX);
    if (is_limits(node, &buf, &path)) {
        apply(state, node, path);
    }
    ASSERT(!buf.overflow);
    buf_release(&buf);
}

static void leave(struct state *state, const struct znode *node, struct slice path)
{
    ASSERT(node->parent != NULL);

    vanish(state, path);
}

static void retake(struct state *state, const struct znode *node, struct slice path)
{
    struct quota *quota = find(state, path);

    ASSERT(quota != NULL);
    take_limits(quota, node);
}

/* ---- Changes of the tree. ---- */

void quota_joined(struct state *state, const struct znode *node)
{
    ASSERT(node->parent != NULL);

    if (state->quotas.count > 0) {
        add_up(state, node, 1, len_of(node));
    }
    if (may_be_limits(node)) {
        if_limits(state, node, appear);
    }
}

void quota_leaving(struct state *state, const struct znode *node)
{
    ASSERT(node->parent != NULL);

    if (state->quotas.count > 0) {
        add_up(state, node, (uint64_t)-1, -len_of(node));
        if (may_be_limits(node)) {
            if_limits(state, node, leave);
        }
    }
}

void quota_resized(struct state *state, const struct znode *node, uint64_t old_len)
{
    ASSERT(node->parent != NULL || node == state->root);

    if (state->quotas.count > 0) {
        add_up(state, node, 0, len_of(node) - old_len);
        if (may_be_limits(node)) {
            if_limits(state, node, retake);
        }
    }
}

void quota_leaving_below(struct state *state, const struct znode *node)
{
    struct walk walk;

    if (state->quotas.count == 0) {
        return;
    }
    ASSERT(node->parent != NULL);
    walk_init(&walk, node, slice_make(NULL, 0));
    while (walk_next(&walk, true) != NULL) {
        quota_leaving(state, walk.node);
    }
    walk_release(&walk);
}

/* ---- Look-ups. ---- */

const struct state_quota *state_quota_find(const struct state *state, struct slice path)
{
    ASSERT(path.len > 0 && path.data[0] == '/');
    const struct quota *quota = find(state, path);

    return quota != NULL ? &quota->shown : NULL;
}

const struct state_quota *state_quota_after(const struct state *state, struct slice after)
{
    const struct avl_node *at = avl_lower_bound(&state->quotas.order, &after, path_cmp);

    if (at != NULL && slice_eq(of_order(at)->shown.path, after)) {
        at = avl_next(at);
    }
    return at != NULL ? &of_order(at)->shown : NULL;
}
