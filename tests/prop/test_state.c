/*
 * Random transactions, some of them impossible: a refused one leaves no trace, the incremental
 * digest equals that of a rebuilt state, and walks give the same as a sorted list.
 */
#include "base/rng.h"
#include "server/state/state_int.h"
#include "tests/lib/state_kit.h"
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    SEEDS = 60,
    TXNS = 300,
    PATH_LEN_MAX = 32,
    NAMES = 5
};

static const char *const names[NAMES] = {"a", "a-", "b", "B", "\xf0\x9f\x90\xb4"};

static void draw_path(struct rng *rng, char path[PATH_LEN_MAX])
{
    uint64_t depth = 1 + rng_below(rng, 3);
    size_t len = 0;

    for (uint64_t i = 0; i < depth; i++) {
        len +=
            (size_t)snprintf(path + len, PATH_LEN_MAX - len, "/%s", names[rng_below(rng, NAMES)]);
    }
}

/* A random owner, mostly one that may own; its session may be missing. */
static uint64_t draw_owner(struct rng *rng, const struct state *state)
{
    const struct state_session *session = state_session_after(state, rng_below(rng, TXNS));

    switch (rng_below(rng, 8)) {
    case 0:
        return OWNER_CONTAINER;
    case 1:
        return 1 + rng_below(rng, TXNS);
    case 2:
    case 3:
        return session != NULL ? session->id : 0;
    default:
        return 0;
    }
}

/* Effects on sessions and remembered results, possible or not. */
static void put_random_extra(struct rng *rng, const struct state *state, zxid_t zxid,
                             struct buf *txn)
{
    static const char *const keys[] = {"a", "b", "c"};
    const struct state_session *session = state_session_after(state, rng_below(rng, TXNS));
    uint64_t id = session != NULL ? session->id : zxid;

    switch (rng_below(rng, 8)) {
    case 0:
    case 1:
        kit_open(txn, zxid, rng_below(rng, 3) == 0 ? id : zxid);
        break;
    case 2:
    case 3:
        kit_close(txn, id);
        break;
    case 4:
        kit_move(txn, id, zxid, 2);
        break;
    case 5:
        kit_forget(txn, rng_below(rng, 2) == 0 ? zxid : 1 + zxid / 2);
        break;
    default:
        kit_remember(txn, "s", keys[rng_below(rng, 3)], "done");
        break;
    }
}

/* The path of a limits znode or of one on the way to it. */
static void put_random_quota(struct rng *rng, const struct state *state, struct buf *txn)
{
    static const char *const paths[] = {
        STATE_QUOTA_PATH "/a", STATE_QUOTA_PATH "/a/" STATE_LIMITS_NAME, STATE_QUOTA_PATH "/a/a-",
        STATE_QUOTA_PATH "/a/a-/" STATE_LIMITS_NAME};
    static const uint32_t creates[] = {0, 0, 1, 0};
    uint64_t pick = rng_below(rng, 4);

    switch (rng_below(rng, 5)) {
    case 0:
        kit_delete(txn, paths[pick]);
        break;
    case 1:
        kit_set(txn, paths[pick], "count=1,bytes=2", 3);
        break;
    default:
        kit_create(txn, paths[pick], "count=7", 0,
                   creates[pick] + (uint32_t)state_applied(state) + 1);
        break;
    }
}

/* Any effect on any path, possible or not; the counter of creates is mostly one that fits. */
static void put_random(struct rng *rng, const struct state *state, zxid_t zxid, struct buf *txn)
{
    char path[PATH_LEN_MAX];
    uint64_t roll = rng_below(rng, 14);

    draw_path(rng, path);
    if (roll == 10) {
        kit_set_acl(txn, path, rng_below(rng, 3) == 0 ? "" : path, (int32_t)zxid);
    } else if (roll == 11) {
        put_random_quota(rng, state, txn);
    } else if (roll > 11) {
        put_random_extra(rng, state, zxid, txn);
    } else if (roll < 5) {
        const char *slash = strrchr(path, '/');
        size_t len = slash == path ? 1 : (size_t)(slash - path);
        const struct znode *parent = state_find(state, slice_make(path, len));
        uint32_t creates = parent != NULL ? znode_creates(parent) + 1 : 1;

        kit_create(txn, path, roll == 0 ? NULL : path, draw_owner(rng, state),
                   creates + (uint32_t)rng_below(rng, 3));
    } else if (roll < 7) {
        kit_set(txn, path, roll == 5 ? NULL : "new", (int32_t)rng_below(rng, 100));
    } else if (roll < 9) {
        kit_delete(txn, path);
    } else {
        kit_check(txn, path);
    }
}

static void assert_rebuilt_is_equal(const struct state *state, struct buf *dump, struct buf *other)
{
    struct state *copy = kit_copy(state, 500);

    kit_dump(state, dump);
    kit_dump(copy, other);
    assert_string_equal(buf_cstr(dump), buf_cstr(other));
    state_free(copy);
}

static void run_seed(uint64_t seed)
{
    struct state *state = state_new(seed);
    struct rng rng;
    struct buf txn;
    struct buf dump;
    struct buf other;
    size_t refused = 0;

    rng_init(&rng, seed);
    buf_init(&txn, 1 << 16);
    buf_init(&dump, 1 << 20);
    buf_init(&other, 1 << 20);
    for (zxid_t zxid = 1; zxid <= TXNS; zxid++) {
        uint64_t count = 1 + rng_below(&rng, 4);

        kit_begin(&txn, (int64_t)zxid * 10);
        for (uint64_t i = 0; i < count; i++) {
            put_random(&rng, state, zxid, &txn);
        }
        kit_dump(state, &dump);
        zxid_t applied = state_applied(state);

        if (kit_apply(state, zxid, &txn) != ERR_OK) {
            kit_dump(state, &other);
            assert_string_equal(buf_cstr(&dump), buf_cstr(&other));
            assert_int_equal(state_applied(state), applied);
            refused++;
        }
        kit_verify(state);
        if (zxid % 10 == 0) {
            assert_rebuilt_is_equal(state, &dump, &other);
        }
    }
    assert_true(refused > TXNS / 10 && refused < TXNS);
    state_free(state);
    buf_release(&txn);
    buf_release(&dump);
    buf_release(&other);
}

TEST(refused_transactions_leave_no_trace)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        run_seed(seed);
    }
}

/* Order of a walk: by components, so a slash comes before any other byte. */
static int walk_order(const char *a, const char *b)
{
    while (*a != '\0' && *a == *b) {
        a++;
        b++;
    }
    int left = *a == '/' ? 1 : (uint8_t)*a * 2;
    int right = *b == '/' ? 1 : (uint8_t)*b * 2;

    return left - right;
}

/* The first path of the tree after `path`, found by a look at every path. */
static void naive_after(const struct state *state, const char *path, char best[PATH_LEN_MAX])
{
    struct walk walk;
    const struct znode *root = kit_find(state, "/");

    best[0] = '\0';
    walk_init(&walk, root, slice_make(NULL, 0));
    while (walk_next(&walk, true) != NULL) {
        const char *one = buf_cstr(&walk.path);

        if (walk_order(one, path) > 0 && (best[0] == '\0' || walk_order(one, best) < 0)) {
            snprintf(best, PATH_LEN_MAX, "%s", one);
        }
    }
    walk_release(&walk);
}

TEST(after_equals_a_naive_search)
{
    struct state *state = state_new(1);
    struct rng rng;
    char path[PATH_LEN_MAX];
    char want[PATH_LEN_MAX];
    struct buf got;

    rng_init(&rng, 5);
    buf_init(&got, STATE_PATH_MAX);
    for (zxid_t zxid = 1; zxid <= 2000; zxid++) {
        draw_path(&rng, path);
        if (zxid % 5 == 0) {
            /* Most of them are refused because the parent is missing; that is fine. */
            (void)kit_make(state, zxid, path, NULL);
            continue;
        }
        const struct znode *node = tree_after(kit_find(state, "/"), slice_str(path));

        naive_after(state, path, want);
        buf_clear(&got);
        if (node != NULL) {
            walk_path_of(node, &got);
        }
        assert_string_equal(buf_cstr(&got), want);
    }
    buf_release(&got);
    state_free(state);
}
