/* The naive look at a whole state. */
#include "base/check.h"
#include "base/map.h"
#include "base/mem.h"
#include "server/state/path.h"
#include "server/state/state.h"
#include "tests/lib/state_kit.h"

enum {
    LISTS_MAX = 256 /* Different access control lists of one state. */
};

/* The ephemerals of one owner, in the order of a walk. */
struct owned {
    const struct znode *last;
    uint32_t count;
    uint64_t bytes;
};

static void meet(const struct state *state, struct map *owners, const struct znode *node,
                 size_t path_len)
{
    uint64_t owner = znode_owner(node);
    struct owned *owned = map_get_u64(owners, owner);

    if (owned == NULL) {
        owned = mem_zalloc(1, sizeof(*owned));
        map_put_u64(owners, owner, owned);
    }
    ASSERT(node == (owned->last == NULL ? state_ephemeral_first(state, owner)
                                        : state_ephemeral_next(state, owned->last)));
    owned->last = node;
    owned->count++;
    owned->bytes += path_len;
}

static void verify_sessions(const struct state *state, const struct map *owners)
{
    uint64_t count = 0;

    for (const struct state_session *at = state_session_after(state, 0); at != NULL;
         at = state_session_after(state, at->id)) {
        const struct owned *owned = map_get_u64(owners, at->id);
        const struct state_session *same = state_session_by_hash(state, at->secret_hash);

        ASSERT(state_session(state, at->id) == at);
        ASSERT(same != NULL && memcmp(same->secret_hash, at->secret_hash, 32) == 0);
        ASSERT(at->ephemeral_count == (owned != NULL ? owned->count : 0));
        ASSERT(at->ephemeral_bytes == (owned != NULL ? owned->bytes : 0));
        ASSERT(owned != NULL || state_ephemeral_first(state, at->id) == NULL);
        kit_verify_shares(state, at->from);
        count++;
    }
    ASSERT(count == state_session_count(state));
}

void kit_verify_shares(const struct state *state, struct slice from)
{
    for (int kind = 0; kind < STATE_SHARES; kind++) {
        struct state_share_name wanted;
        struct state_share_name other;
        struct slice name = state_share_name(from, (enum state_share)kind, &wanted);
        uint64_t count = 0;

        for (const struct state_session *at = state_session_after(state, 0); at != NULL;
             at = state_session_after(state, at->id)) {
            count += slice_eq(state_share_name(at->from, (enum state_share)kind, &other), name);
        }
        ASSERT(count == state_share_count(state, name));
    }
}

static void verify_ephemerals(const struct state *state)
{
    struct map owners;
    struct walk walk;
    uint64_t count = 0;
    size_t cursor = 0;

    map_init(&owners);
    walk_init(&walk, kit_find(state, "/"), slice_make(NULL, 0));
    while (walk_next(&walk, true) != NULL) {
        if (owner_is_session(znode_owner(walk.node))) {
            meet(state, &owners, walk.node, walk.path.len);
            count++;
        }
    }
    walk_release(&walk);
    ASSERT(count == state_ephemeral_count(state));
    verify_sessions(state, &owners);
    for (struct owned *owned = map_each(&owners, &cursor); owned != NULL;
         owned = map_each(&owners, &cursor)) {
        ASSERT(state_ephemeral_next(state, owned->last) == NULL);
        mem_free(owned);
    }
    map_release(&owners);
}

static void verify_remembered(const struct state *state)
{
    uint64_t count = 0;
    uint64_t bytes = 0;
    zxid_t before = 0;

    for (const struct state_remembered *at = state_remembered_after(state, 0); at != NULL;
         at = state_remembered_after(state, at->zxid)) {
        ASSERT(at->zxid > before);
        ASSERT(state_remembered(state, at->scope, at->key) == at);
        before = at->zxid;
        count++;
        bytes += at->scope.len + at->key.len + at->result.len;
    }
    ASSERT(count == state_remembered_count(state) && bytes == state_remembered_bytes(state));
}

/* The limits of a limits znode at `path`; an empty slice for any other znode. */
static struct slice limited_by(struct slice path)
{
    struct slice top = slice_str(STATE_QUOTA_PATH "/");
    struct slice name = slice_str("/" STATE_LIMITS_NAME);

    if (!slice_starts_with(path, top) || path.len < top.len + name.len ||
        !slice_eq(slice_make(path.data + path.len - name.len, name.len), name)) {
        return slice_make(NULL, 0);
    }
    struct slice limited = slice_make(path.data + top.len - 1, path.len - top.len + 1 - name.len);

    return path_is_within(limited, slice_str("/zookeeper")) ? slice_make(NULL, 0) : limited;
}

static void verify_usage(const struct state *state, const struct state_quota *quota)
{
    const struct znode *root = kit_find(state, "/");
    struct walk walk;
    uint64_t count = 0;
    uint64_t bytes = 0;

    walk_init(&walk, root, slice_make(NULL, 0));
    while (walk_next(&walk, true) != NULL) {
        if (path_is_within(buf_slice(&walk.path), quota->path)) {
            count++;
            bytes += blob_slice(znode_data(walk.node)).len;
        }
    }
    walk_release(&walk);
    ASSERT(count == quota->count && bytes == quota->bytes);
}

static void verify_quotas(const struct state *state)
{
    struct walk walk;
    size_t limits = 0;
    size_t quotas = 0;

    for (const struct state_quota *at = state_quota_after(state, slice_make(NULL, 0)); at != NULL;
         at = state_quota_after(state, at->path)) {
        verify_usage(state, at);
        quotas++;
    }
    walk_init(&walk, kit_find(state, "/"), slice_make(NULL, 0));
    while (walk_next(&walk, true) != NULL) {
        struct slice path = limited_by(buf_slice(&walk.path));
        struct state_quota want;

        if (path.len == 0) {
            continue;
        }
        const struct state_quota *got = state_quota_find(state, path);

        (void)state_quota_parse(blob_slice(znode_data(walk.node)), &want);
        ASSERT(got != NULL && slice_eq(got->path, path));
        ASSERT(got->count_hard == want.count_hard && got->bytes_hard == want.bytes_hard);
        ASSERT(got->count_limit == want.count_limit && got->bytes_limit == want.bytes_limit);
        limits++;
    }
    walk_release(&walk);
    ASSERT(limits == quotas);
}

/* Counts again: each znode, and each list once. */
static uint64_t cost_of_tree(const struct state *state)
{
    uint64_t cost = cost_node(0, 0) + cost_data(blob_slice(znode_data(kit_find(state, "/"))).len);
    struct slice lists[LISTS_MAX];
    size_t count = 0;
    struct walk walk;

    if (znode_acl(kit_find(state, "/")) != 0) {
        lists[count++] = state_acl(state, znode_acl(kit_find(state, "/")));
    }
    walk_init(&walk, kit_find(state, "/"), slice_make(NULL, 0));
    while (walk_next(&walk, true) != NULL) {
        struct slice acl = state_acl(state, znode_acl(walk.node));
        size_t i = 0;

        cost += cost_node(znode_name(walk.node).len, znode_owner(walk.node));
        cost += cost_data(blob_slice(znode_data(walk.node)).len);
        while (i < count && !slice_eq(lists[i], acl)) {
            i++;
        }
        if (acl.len > 0 && i == count) {
            ASSERT(count < LISTS_MAX);
            lists[count++] = acl;
        }
    }
    walk_release(&walk);
    for (size_t i = 0; i < count; i++) {
        cost += cost_acl(lists[i].len);
    }
    return cost;
}

static void verify_memory(const struct state *state)
{
    uint64_t cost = cost_of_tree(state) + state_session_count(state) * cost_session();

    for (const struct state_remembered *at = state_remembered_after(state, 0); at != NULL;
         at = state_remembered_after(state, at->zxid)) {
        cost += cost_remembered(at->scope.len + at->key.len + at->result.len);
    }
    for (const struct state_quota *at = state_quota_after(state, slice_make(NULL, 0)); at != NULL;
         at = state_quota_after(state, at->path)) {
        cost += cost_quota(at->path.len);
    }
    ASSERT(cost == state_memory_bytes(state));
}

/* Asserts that the state counts the age while a znode or a result waits for it, and does not when
 * none can wait. */
static void verify_ages(const struct state *state)
{
    int64_t age_ms = state_age_ms(state);
    bool waits = state_remembered_count(state) > 0;
    bool may_wait = waits;
    struct walk walk;

    walk_init(&walk, kit_find(state, "/"), slice_make(NULL, 0));
    while (walk_next(&walk, true) != NULL) {
        uint64_t owner = znode_owner(walk.node);

        if (owner_is_ttl(owner) || (owner_is_container(owner) && znode_creates(walk.node) == 0)) {
            may_wait = true;
            waits = waits || state_reap_due_ms(owner, znode_creates(walk.node),
                                               znode_age_ms(walk.node)) > age_ms;
        }
    }
    walk_release(&walk);
    ASSERT(!waits || state_counts_age(state, age_ms));
    ASSERT(may_wait || !state_counts_age(state, age_ms));
}

void kit_verify(const struct state *state)
{
    verify_ages(state);
    verify_memory(state);
    verify_ephemerals(state);
    verify_remembered(state);
    verify_quotas(state);
}
