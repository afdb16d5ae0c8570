#include "base/hash.h"
#include "server/state/state_int.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    STATS_TEXT_MAX = 64 /* "count=N,bytes=N" */
};

static struct quota *of_order(struct avl_node *node)
{
    return node != NULL ? avl_entry(node, struct quota, order) : NULL;
}

static int path_cmp(const void *key, const struct avl_node *node)
{
    const struct quota *quota = avl_entry_const(node, struct quota, order);

    return slice_cmp(*(const struct slice *)key, quota->shown.path);
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

/* Returns the quota on exactly this znode, or NULL. */
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

/* Adds to the usage of all quotas at and above `node`. To subtract n, pass 0 - n. */
static void add_up(struct state *state, const struct znode *node, uint64_t count, uint64_t bytes)
{
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

bool state_quota_of(struct slice path, struct slice *ret_top)
{
    struct slice name = slice_str(STATE_LIMITS_NAME);
    struct slice root = slice_str(STATE_QUOTA_PATH);

    if (!slice_eq(path_name(path), name) || !path_is_within(path, root) ||
        path.len <= root.len + 1 + name.len) {
        return false;
    }
    *ret_top = slice_make(path.data + root.len, path.len - root.len - 1 - name.len);
    return !path_is_within(*ret_top, slice_str("/zookeeper"));
}

static void take_limits(struct quota *quota, const struct znode *limits)
{
    struct state_quota parsed;

    /* Malformed text sets no limits, but the usage is still shown. */
    (void)state_quota_parse(blob_slice(limits->data), &parsed);
    quota->shown.count_limit = parsed.count_limit;
    quota->shown.bytes_limit = parsed.bytes_limit;
    quota->shown.count_hard = parsed.count_hard;
    quota->shown.bytes_hard = parsed.bytes_hard;
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

    if (top == NULL) {
        return;
    }
    walk_init(&walk, top, slice_make(NULL, 0));
    for (const struct znode *node = top; node != NULL; node = walk_next(&walk, true)) {
        quota->shown.count++;
        quota->shown.bytes += len_of(node);
    }
    walk_release(&walk);
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
    return of_order(avl_find(&state->quotas.order, &path, path_cmp));
}

static void vanish(struct state *state, const struct znode *limits, struct slice path)
{
    struct quotas *quotas = &state->quotas;
    struct quota *quota = find(state, path);

    (void)limits;
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
    quotas->cost -= cost_quota(path.len);
    mem_free(quota);
}

/* Calls `apply` when the znode is a limits znode. */
static void if_limits(struct state *state, const struct znode *node,
                      void (*apply)(struct state *state, const struct znode *node,
                                    struct slice path))
{
    struct slice path;
    struct buf buf;

    if (node->name_len != strlen(STATE_LIMITS_NAME) ||
        memcmp(node->name, STATE_LIMITS_NAME, node->name_len) != 0) {
        return;
    }
    buf_init(&buf, STATE_PATH_MAX);
    walk_path_of(node, &buf);
    ASSERT(!buf.overflow);
    if (state_quota_of(buf_slice(&buf), &path)) {
        apply(state, node, path);
    }
    buf_release(&buf);
}

static void retake(struct state *state, const struct znode *node, struct slice path)
{
    take_limits(find(state, path), node);
}

/* ---- Changes of the tree. ---- */

void quota_joined(struct state *state, const struct znode *node)
{
    if (state->quotas.count > 0) {
        add_up(state, node, 1, len_of(node));
    }
    if_limits(state, node, appear);
}

void quota_leaving(struct state *state, const struct znode *node)
{
    if (state->quotas.count > 0) {
        add_up(state, node, (uint64_t)-1, -len_of(node));
        if_limits(state, node, vanish);
    }
}

void quota_resized(struct state *state, const struct znode *node, uint64_t old_len)
{
    if (state->quotas.count > 0) {
        add_up(state, node, 0, len_of(node) - old_len);
        if_limits(state, node, retake);
    }
}

void quota_leaving_below(struct state *state, const struct znode *node)
{
    struct walk walk;

    if (state->quotas.count == 0) {
        return;
    }
    walk_init(&walk, node, slice_make(NULL, 0));
    while (walk_next(&walk, true) != NULL) {
        quota_leaving(state, walk.node);
    }
    walk_release(&walk);
}

/* ---- Look-ups. ---- */

const struct state_quota *state_quota_find(const struct state *state, struct slice path)
{
    const struct quota *quota = find(state, path);

    return quota != NULL ? &quota->shown : NULL;
}

const struct state_quota *state_quota_after(const struct state *state, struct slice after)
{
    const struct quota *quota = of_order(avl_lower_bound(&state->quotas.order, &after, path_cmp));

    if (quota != NULL && slice_eq(quota->shown.path, after)) {
        quota = of_order(avl_next(&quota->order));
    }
    return quota != NULL ? &quota->shown : NULL;
}

/* ---- What clients see of a znode. ---- */

/* Returns the quota whose usage is the data of this znode, or NULL. */
static const struct quota *shown_by(const struct state *state, const struct znode *node)
{
    struct slice root = slice_str(STATE_QUOTA_PATH);
    struct slice path;
    struct buf buf;

    if (state->quotas.count == 0 || node->name_len != strlen(STATE_STATS_NAME) ||
        memcmp(node->name, STATE_STATS_NAME, node->name_len) != 0) {
        return NULL;
    }
    buf_init(&buf, STATE_PATH_MAX);
    walk_path_of(node->parent, &buf);
    ASSERT(!buf.overflow);
    path = buf_slice(&buf);
    const struct quota *quota =
        path_is_within(path, root) ? find(state, slice_from(path, root.len)) : NULL;

    buf_release(&buf);
    return quota;
}

static size_t text_of_usage(const struct quota *quota, char text[STATS_TEXT_MAX])
{
    int len = snprintf(text, STATS_TEXT_MAX, "count=%" PRIu64 ",bytes=%" PRIu64, quota->shown.count,
                       quota->shown.bytes);

    ASSERT(len > 0 && len < STATS_TEXT_MAX);
    return (size_t)len;
}

bool state_is_computed(const struct state *state, const struct znode *node)
{
    return shown_by(state, node) != NULL;
}

struct blob *state_shown_data(const struct state *state, const struct znode *node)
{
    const struct quota *quota = shown_by(state, node);
    char text[STATS_TEXT_MAX];

    if (quota == NULL) {
        return blob_ref(node->data);
    }
    return blob_new(slice_make(text, text_of_usage(quota, text)));
}

void state_shown_stat(const struct state *state, const struct znode *node,
                      struct stat_view *ret_stat)
{
    const struct quota *quota = shown_by(state, node);
    char text[STATS_TEXT_MAX];

    znode_stat(node, ret_stat);
    if (quota != NULL) {
        ret_stat->data_length = (uint32_t)text_of_usage(quota, text);
    }
}

/* ---- ZooKeeper's text of limits: "count=N,bytes=N=;byteHardLimit=N;countHardLimit=N". ---- */

enum {
    DIGITS_MAX = 18 /* A number with at most this many digits always fits. */
};

/* Parses a whole number; empty text means no limit (-1). */
static enum err get_number(struct slice text, int64_t *ret_value)
{
    bool negative = text.len > 0 && text.data[0] == '-';
    size_t start = negative ? 1 : 0;
    int64_t value = 0;

    *ret_value = -1;
    if (text.len == 0) {
        return ERR_OK;
    }
    if (text.len == start || text.len - start > DIGITS_MAX) {
        return ERR_FORMAT;
    }
    for (size_t i = start; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return ERR_FORMAT;
        }
        value = value * 10 + (text.data[i] - '0');
    }
    *ret_value = negative ? -1 : value;
    return ERR_OK;
}

static bool is_comma(uint8_t byte)
{
    return byte == ',' || byte == ';';
}

/* Returns the bytes before the next commas or semicolons, and moves `rest` after these separators.
 */
static struct slice cut(struct slice *rest)
{
    size_t len = 0;

    while (len < rest->len && !is_comma(rest->data[len])) {
        len++;
    }
    struct slice part = slice_make(rest->data, len);

    while (len < rest->len && is_comma(rest->data[len])) {
        len++;
    }
    *rest = slice_from(*rest, len);
    return part;
}

/* Parses "key=value". Text after a second '=' and keys of later versions are ignored. */
static enum err get_pair(struct slice pair, struct state_quota *limits)
{
    size_t equals = slice_find(pair, '=');

    if (equals == pair.len) {
        return ERR_FORMAT;
    }
    struct slice key = slice_make(pair.data, equals);
    struct slice value = slice_from(pair, equals + 1);
    int64_t number = -1;

    value.len = slice_find(value, '=');
    if (get_number(value, &number) != ERR_OK) {
        return ERR_FORMAT;
    }
    if (slice_eq(key, slice_str("count"))) {
        limits->count_limit = number;
    } else if (slice_eq(key, slice_str("bytes"))) {
        limits->bytes_limit = number;
    } else if (slice_eq(key, slice_str("countHardLimit"))) {
        limits->count_hard = number;
    } else if (slice_eq(key, slice_str("byteHardLimit"))) {
        limits->bytes_hard = number;
    }
    return ERR_OK;
}

enum err state_quota_parse(struct slice text, struct state_quota *ret_limits)
{
    const struct state_quota none = {
        .count_limit = -1, .bytes_limit = -1, .count_hard = -1, .bytes_hard = -1};
    enum err err = text.len > 0 ? ERR_OK : ERR_FORMAT;

    *ret_limits = none;
    while (err == ERR_OK && text.len > 0) {
        err = get_pair(cut(&text), ret_limits);
    }
    if (err != ERR_OK) {
        *ret_limits = none;
    }
    return err;
}
