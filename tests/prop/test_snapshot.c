/*
 * A fuzzy snapshot plus the log gives exactly the state: random transactions run between the slices
 * of a scan, then the blocks are restored and the log is replayed from the start of the scan.
 * Covers znodes, sessions with their ephemerals, ACLs, remembered results and quotas.
 */
#include "base/check.h"
#include "base/mem.h"
#include "base/rng.h"
#include "server/state/path.h"
#include "server/state/state.h"
#include "tests/lib/state_kit.h"
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    SEEDS = 1000,
    WARM_UP_TXNS = 60,
    LATE_TXNS = 10,
    LOG_MAX = 4000,
    EFFECTS_MAX = 6,
    EPHEMERALS_MAX = 20, /* Of a session that is closed. */
    KEYS = 4,            /* Few, so that forgotten keys are used again. */
    PATH_MAX_LEN = 96,
    DEPTH_MAX = 4,
    CONFIG_RECORD = 1 /* A record with the text of a configuration, not a transaction. */
};

/* Addresses and identities of the clients that open sessions. Some share an address or an identity.
 */
static const char *const openers[] = {"10.0.0.1",    "10.0.0.1 alice",  "10.0.0.2 alice",
                                      "10.0.0.2",    "10.0.0.1 bob",    "2001:db8::1",
                                      "2001:db8::2", "2001:db8::3 bob", ""};

enum {
    OPENERS = sizeof(openers) / sizeof(openers[0])
};

struct record {
    zxid_t zxid;
    int kind;
    struct buf bytes;
};

struct world {
    struct rng rng;
    struct state *direct; /* Receives each transaction whole, outside recovery. */
    struct state *
        sandbox; /* Receives each effect by itself, and so shows which effects are possible next. */
    struct record *log;
    size_t log_len;
    struct buf blocks[LOG_MAX];
    size_t block_count;
    zxid_t zxid;
    int64_t time_ms;
    bool has_result; /* The transaction in preparation has one. */
};

/* A random znode, found by a random walk down; its path goes to `path`. */
static const struct znode *pick(struct world *world, char path[PATH_MAX_LEN])
{
    const struct znode *node = kit_find(world->sandbox, "/");
    size_t len = 0;

    path[0] = '\0';
    for (int depth = 0; depth < DEPTH_MAX; depth++) {
        uint64_t skip = rng_below(&world->rng, 4);
        const struct znode *child = znode_first_child(node, slice_make(NULL, 0));

        for (; child != NULL && znode_next(child) != NULL && skip > 0; skip--) {
            child = znode_next(child);
        }
        if (child == NULL || rng_below(&world->rng, 4) == 0) {
            break;
        }
        struct slice name = znode_name(child);

        len += (size_t)snprintf(path + len, PATH_MAX_LEN - len, "/%.*s", (int)name.len,
                                (const char *)name.data);
        assert_true(len < PATH_MAX_LEN);
        node = child;
    }
    return node;
}

/* One of the sessions, or 0. */
static uint64_t draw_session(struct world *world)
{
    uint64_t skip = rng_below(&world->rng, 4);
    const struct state_session *session = state_session_after(world->sandbox, 0);

    while (session != NULL && skip > 0) {
        const struct state_session *next = state_session_after(world->sandbox, session->id);

        session = next != NULL ? next : session;
        skip--;
    }
    return session != NULL ? session->id : 0;
}

static uint64_t draw_owner(struct world *world)
{
    switch (rng_below(&world->rng, 5)) {
    case 0:
    case 1:
        return draw_session(world);
    case 2:
        return rng_below(&world->rng, 2) == 0 ? OWNER_CONTAINER
                                              : OWNER_TTL_MARK | (1 + rng_below(&world->rng, 50));
    default:
        return 0;
    }
}

static struct slice draw_acl(struct world *world)
{
    static const char *const acls[] = {"", "", "x", "yy", "a longer list", "\1\2\3"};

    return slice_str(acls[rng_below(&world->rng, 6)]);
}

static bool add_create(struct world *world, struct buf *txn)
{
    static const char *const names[] = {"a", "b", "b-", "c", "\xc3\xa4"};
    char path[PATH_MAX_LEN];
    const struct znode *parent = pick(world, path);
    size_t len = strlen(path);

    snprintf(path + len, PATH_MAX_LEN - len, "/%s", names[rng_below(&world->rng, 5)]);
    if (owner_is_session(znode_owner(parent)) || kit_find(world->sandbox, path) != NULL ||
        len >= PATH_MAX_LEN - 16) {
        return false;
    }
    bool is_null = rng_below(&world->rng, 4) == 0;
    const struct txn_effect effect = {.type = TXN_CREATE,
                                      .flags = is_null ? TXN_NULL_DATA : 0,
                                      .path = slice_str(path),
                                      .data = slice_str(is_null ? "" : path),
                                      .owner = draw_owner(world),
                                      .acl = draw_acl(world),
                                      .creates = znode_creates(parent) + 1};

    txn_put(txn, &effect);
    return true;
}

static bool add_set_acl(struct world *world, struct buf *txn)
{
    char path[PATH_MAX_LEN];
    struct stat_view stat;

    znode_stat(pick(world, path), &stat);
    const struct txn_effect effect = {.type = TXN_SET_ACL,
                                      .path = slice_str(path[0] != '\0' ? path : "/"),
                                      .acl = draw_acl(world),
                                      .version = stat.aversion + 1};

    txn_put(txn, &effect);
    return true;
}

static bool add_session(struct world *world, struct buf *txn)
{
    uint64_t session = draw_session(world);

    if (rng_below(&world->rng, 3) == 0) {
        if (state_session(world->sandbox, world->zxid) != NULL) {
            return false;
        }
        kit_open_from(txn, world->zxid, world->zxid, openers[world->zxid % OPENERS]);
        return true;
    }
    if (session == 0 ||
        (rng_below(&world->rng, 2) == 0 && state_ephemeral_first(world->sandbox, session))) {
        return false;
    }
    if (state_ephemeral_first(world->sandbox, session) == NULL && rng_below(&world->rng, 2) == 0) {
        kit_close(txn, session);
    } else {
        kit_move(txn, session, rng_below(&world->rng, 100), (uint32_t)rng_below(&world->rng, 3));
    }
    return true;
}

/* Deletes one of its ephemerals; add_session closes sessions without any. */
static bool add_delete_ephemeral(struct world *world, struct buf *txn, uint64_t session)
{
    const struct znode *node = state_ephemeral_first(world->sandbox, session);
    struct buf path;

    if (node == NULL) {
        return false;
    }
    buf_init(&path, PATH_MAX_LEN);
    walk_path_of(node, &path);
    kit_delete(txn, buf_cstr(&path));
    buf_release(&path);
    return true;
}

static bool add_result(struct world *world, struct buf *txn)
{
    static const char *const keys[KEYS] = {"k", "kk", "l", ""};
    const char *scope = rng_below(&world->rng, 2) == 0 ? "s" : "k";
    const char *key = keys[rng_below(&world->rng, KEYS)];
    const struct state_remembered *last = state_remembered_after(world->sandbox, world->zxid - 1);

    if (rng_below(&world->rng, 2) == 0) {
        kit_forget(txn, world->zxid - rng_below(&world->rng, world->zxid < 20 ? world->zxid : 20));
        return true;
    }
    if (last != NULL || world->has_result ||
        state_remembered(world->sandbox, slice_str(scope), slice_str(key)) != NULL) {
        return false;
    }
    world->has_result = true;
    kit_remember(txn, scope, key, scope);
    return true;
}

/* The next step towards a limits znode for some path, or a change of it. */
static bool add_quota(struct world *world, struct buf *txn)
{
    static const char *const texts[] = {"count=3,bytes=10", "bytes=5=;byteHardLimit=9", "?", ""};
    char path[PATH_MAX_LEN];
    char limits[2 * PATH_MAX_LEN];
    const char *text = texts[rng_below(&world->rng, 4)];

    pick(world, path);
    if (path[0] == '\0' || path_is_within(slice_str(path), slice_str("/zookeeper"))) {
        return false;
    }
    snprintf(limits, sizeof(limits), STATE_QUOTA_PATH "%s/" STATE_LIMITS_NAME, path);
    if (kit_find(world->sandbox, limits) != NULL) {
        kit_set(txn, limits, text, (int32_t)world->zxid);
        return true;
    }
    for (char *slash = limits + strlen(STATE_QUOTA_PATH); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        char *end = strchr(slash + 1, '/');

        if (end != NULL) {
            *end = '\0';
        }
        if (kit_find(world->sandbox, limits) == NULL) {
            const struct znode *parent = state_find(world->sandbox, path_parent(slice_str(limits)));

            if (owner_is_session(znode_owner(parent))) {
                return false;
            }
            kit_create(txn, limits, text, 0, znode_creates(parent) + 1);
            return true;
        }
        if (end != NULL) {
            *end = '/';
        }
    }
    return false;
}

static bool add_other(struct world *world, struct buf *txn)
{
    char path[PATH_MAX_LEN];
    char data[16];
    const struct znode *node = pick(world, path);
    struct stat_view stat;
    bool builtin = path[0] == '\0' || path_is_builtin(slice_str(path));

    znode_stat(node, &stat);
    if (!builtin && stat.num_children == 0 && rng_below(&world->rng, 3) > 0) {
        kit_delete(txn, path);
    } else if (rng_below(&world->rng, 8) == 0) {
        kit_check(txn, path[0] != '\0' ? path : "/");
    } else if (strcmp(path, "/zookeeper/config") != 0) {
        snprintf(data, sizeof(data), "%u", (unsigned)rng_below(&world->rng, 1000));
        kit_set(txn, path[0] != '\0' ? path : "/", rng_below(&world->rng, 5) == 0 ? NULL : data,
                stat_version_next(stat.version));
    } else {
        return false;
    }
    return true;
}

/* The last effect of `txn` alone, as a transaction for the sandbox. */
static void run_in_sandbox(struct world *world, struct buf *txn, size_t before)
{
    struct buf single;

    buf_init(&single, 4096);
    kit_begin(&single, world->time_ms);
    buf_append(&single, txn->data + before, txn->len - before);
    assert_int_equal(state_apply(world->sandbox, world->zxid, buf_slice(&single), true, NULL),
                     ERR_OK);
    buf_release(&single);
}

static bool add_any(struct world *world, struct buf *txn)
{
    uint64_t roll = rng_below(&world->rng, 100);

    if (roll < 42) {
        return add_create(world, txn);
    }
    if (roll < 70) {
        return add_other(world, txn);
    }
    if (roll < 76) {
        return add_set_acl(world, txn);
    }
    if (roll < 84) {
        return add_session(world, txn);
    }
    return roll < 92 ? add_quota(world, txn) : add_result(world, txn);
}

/* Ends a session in the leader's order: its ephemerals by path, then the session. */
static bool end_session(struct world *world, struct buf *txn)
{
    uint64_t session = draw_session(world);
    const struct state_session *found = state_session(world->sandbox, session);

    if (found == NULL || found->ephemeral_count > EPHEMERALS_MAX) {
        return false;
    }
    for (size_t before = txn->len; add_delete_ephemeral(world, txn, session); before = txn->len) {
        run_in_sandbox(world, txn, before);
    }
    size_t before = txn->len;

    kit_close(txn, session);
    run_in_sandbox(world, txn, before);
    return true;
}

static void make_txn(struct world *world, struct buf *txn)
{
    uint64_t want = 1 + (rng_below(&world->rng, 3) == 0 ? rng_below(&world->rng, EFFECTS_MAX) : 0);
    uint64_t count = 0;

    kit_begin(txn, world->time_ms);
    world->has_result = false;
    if (rng_below(&world->rng, 20) == 0 && end_session(world, txn)) {
        return;
    }
    while (count < want) {
        size_t before = txn->len;

        if (add_any(world, txn)) {
            run_in_sandbox(world, txn, before);
            count++;
        }
    }
}

static void replay_one(struct state *state, const struct record *record, bool fuzzy)
{
    if (record->kind == CONFIG_RECORD) {
        state_set_config(state, record->zxid, buf_slice(&record->bytes));
        return;
    }
    assert_int_equal(state_apply(state, record->zxid, buf_slice(&record->bytes), fuzzy, NULL),
                     ERR_OK);
}

static void run_record(struct world *world)
{
    assert_true(world->log_len < LOG_MAX);
    struct record *record = &world->log[world->log_len++];

    world->zxid++;
    world->time_ms += (int64_t)rng_below(&world->rng, 20);
    record->zxid = world->zxid;
    buf_init(&record->bytes, 1 << 16);
    if (rng_below(&world->rng, 40) == 0) {
        record->kind = CONFIG_RECORD;
        buf_printf(&record->bytes, "version=%u", (unsigned)world->zxid);
        replay_one(world->sandbox, record, false);
    } else {
        make_txn(world, &record->bytes);
    }
    replay_one(world->direct, record, false);
    assert_true(state_digest(world->direct) == state_digest(world->sandbox));
}

static void run_records(struct world *world, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        run_record(world);
    }
}

static void scan_while_running(struct world *world)
{
    struct state_cursor cursor;
    size_t bytes_max = rng_below(&world->rng, 3) == 0 ? 400 : 1;
    uint64_t busy = 1 + rng_below(&world->rng, 8);

    state_scan_init(&cursor);
    while (!cursor.done) {
        assert_true(world->block_count < LOG_MAX);
        struct buf *block = &world->blocks[world->block_count++];

        buf_init(block, 1 << 20);
        state_scan(world->direct, &cursor, bytes_max, block);
        run_records(world, rng_below(&world->rng, busy));
    }
    state_scan_release(&cursor);
}

static struct state *restore(const struct world *world, zxid_t start)
{
    struct state *state = state_new(0);

    for (size_t i = 0; i < world->block_count; i++) {
        assert_int_equal(state_restore(state, buf_slice(&world->blocks[i])), ERR_OK);
    }
    state_restored(state, start);
    return state;
}

/* The reap index is rebuilt, not stored: it must hold the same paths. */
static void assert_same_candidates(const struct state *a, const struct state *b, int64_t now_ms)
{
    struct buf paths[2];

    buf_init(&paths[0], 1 << 20);
    buf_init(&paths[1], 1 << 20);
    assert_int_equal(state_reap_candidates(a, now_ms, 1000, &paths[0]),
                     state_reap_candidates(b, now_ms, 1000, &paths[1]));
    assert_int_equal(paths[0].len, paths[1].len);
    buf_release(&paths[0]);
    buf_release(&paths[1]);
}

/* Shares are rebuilt, not stored; the shares of clients without a session are right as well. */
static void verify_shares(const struct state *state)
{
    for (size_t i = 0; i < OPENERS; i++) {
        kit_verify_shares(state, slice_str(openers[i]));
    }
}

static void assert_same(const struct state *a, const struct state *b)
{
    struct buf dumps[2];

    buf_init(&dumps[0], 1 << 24);
    buf_init(&dumps[1], 1 << 24);
    kit_dump(a, &dumps[0]);
    kit_dump(b, &dumps[1]);
    assert_string_equal(buf_cstr(&dumps[0]), buf_cstr(&dumps[1]));
    buf_release(&dumps[0]);
    buf_release(&dumps[1]);
}

static void world_open(struct world *world, uint64_t seed)
{
    *world = (struct world){.time_ms = 1000000};
    rng_init(&world->rng, seed);
    world->direct = state_new(seed);
    world->sandbox = state_new(seed);
    world->log = mem_zalloc(LOG_MAX, sizeof(*world->log));
}

static void world_close(struct world *world)
{
    for (size_t i = 0; i < world->log_len; i++) {
        buf_release(&world->log[i].bytes);
    }
    for (size_t i = 0; i < world->block_count; i++) {
        buf_release(&world->blocks[i]);
    }
    mem_free(world->log);
    state_free(world->direct);
    state_free(world->sandbox);
}

static void run_seed(uint64_t seed)
{
    static struct world world;

    world_open(&world, seed);
    run_records(&world, WARM_UP_TXNS);
    zxid_t start = world.zxid;
    size_t first = world.log_len;

    scan_while_running(&world);
    zxid_t end = world.zxid;
    struct state *restored = restore(&world, start);

    assert_true(state_history(restored) == seed);
    run_records(&world, rng_below(&world.rng, LATE_TXNS));
    for (size_t i = first; i < world.log_len; i++) {
        replay_one(restored, &world.log[i], world.log[i].zxid <= end);
    }
    assert_same(world.direct, restored);
    kit_verify(world.direct);
    kit_verify(restored);
    verify_shares(world.direct);
    verify_shares(restored);
    assert_same_candidates(world.direct, restored, world.time_ms);
    assert_same_candidates(world.direct, restored, INT64_MAX - 1);
    assert_int_equal(state_applied(restored), world.zxid);
    /* Recovery may be interrupted and start again over its own result. */
    for (size_t i = first; i < world.log_len; i++) {
        replay_one(restored, &world.log[i], true);
    }
    assert_same(world.direct, restored);
    verify_shares(restored);
    state_free(restored);
    world_close(&world);
}

TEST(snapshot_and_log_give_the_state)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        run_seed(seed);
    }
}

/* Without changes in between, a copy equals the state, whatever the size of the slices. */
TEST(a_quiet_copy_is_exact)
{
    static const size_t sizes[] = {1, 100, 1000, 1 << 20};
    static struct world world;

    world_open(&world, 1);
    run_records(&world, 500);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct state *copy = kit_copy(world.direct, sizes[i]);

        assert_same(world.direct, copy);
        state_free(copy);
    }
    world_close(&world);
}
