/*
 * A fuzzy snapshot plus the log gives exactly the state: random transactions run between the slices
 * of a scan, then the blocks are restored and the log replayed from the start of the scan.
 */
#include "base/check.h"
#include "base/mem.h"
#include "base/rng.h"
#include "server/state/path.h"
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
    PATH_MAX_LEN = 64,
    DEPTH_MAX = 4,
    CONFIG_RECORD = 1 /* A record that is the text of a configuration, no transaction. */
};

struct record {
    zxid_t zxid;
    int kind;
    struct buf bytes;
};

struct world {
    struct rng rng;
    struct state *direct;  /* Gets each transaction whole, outside recovery. */
    struct state *sandbox; /* Gets each effect by itself, to see what the next one can be. */
    struct record *log;
    size_t log_len;
    struct buf blocks[LOG_MAX];
    size_t block_count;
    zxid_t zxid;
    int64_t time_ms;
};

/* A random znode: walks down by chance. Its path goes to `path`. */
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

static uint64_t draw_owner(struct rng *rng)
{
    switch (rng_below(rng, 6)) {
    case 0:
        return 7; /* A session. */
    case 1:
        return OWNER_CONTAINER;
    case 2:
        return OWNER_TTL_MARK | (1 + rng_below(rng, 50));
    default:
        return 0;
    }
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
    kit_create(txn, path, rng_below(&world->rng, 4) == 0 ? NULL : path, draw_owner(&world->rng),
               znode_creates(parent) + 1);
    return true;
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

static void make_txn(struct world *world, struct buf *txn)
{
    uint64_t want = 1 + (rng_below(&world->rng, 3) == 0 ? rng_below(&world->rng, EFFECTS_MAX) : 0);
    uint64_t count = 0;

    kit_begin(txn, world->time_ms);
    while (count < want) {
        size_t before = txn->len;
        bool create = rng_below(&world->rng, 100) < 45;

        if (create ? add_create(world, txn) : add_other(world, txn)) {
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
    assert_same_candidates(world.direct, restored, world.time_ms);
    assert_same_candidates(world.direct, restored, INT64_MAX - 1);
    assert_int_equal(state_applied(restored), world.zxid);
    /* Recovery may be interrupted and begin again over what it has done. */
    for (size_t i = first; i < world.log_len; i++) {
        replay_one(restored, &world.log[i], true);
    }
    assert_same(world.direct, restored);
    state_free(restored);
    world_close(&world);
}

static void test_snapshot_and_log_give_the_state(void **state)
{
    (void)state;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        run_seed(seed);
    }
}

/* Without changes in between, a copy is the state, whatever the size of the slices. */
static void test_quiet_copy_is_exact(void **state)
{
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_snapshot_and_log_give_the_state),
        cmocka_unit_test(test_quiet_copy_is_exact),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
