/*
 * The state against a model of a few arrays that is copied for each transaction: both must agree on
 * what is refused, and afterwards on everything. A snapshot of the state, with the rest of the log
 * replayed over it, must agree as well.
 */
#include "base/check.h"
#include "base/rng.h"
#include "server/state/path.h"
#include "tests/lib/state_kit.h"
#include "tests/lib/unit.h"

#include <stdio.h>

enum {
    SEEDS = 150,
    TXNS = 250,
    EFFECTS = 4,
    PATHS = 10,
    KEYS = 3,
    ACLS = 4,
    LIMITS_A = 7, /* Index of a path. */
    LIMITS_AB = 9
};

static const char *const paths[PATHS] = {
    "/a",
    "/a/b",
    "/a/b/c",
    "/a/d",
    "/a-",
    "/e",
    STATE_QUOTA_PATH "/a",
    STATE_QUOTA_PATH "/a/" STATE_LIMITS_NAME,
    STATE_QUOTA_PATH "/a/b",
    STATE_QUOTA_PATH "/a/b/" STATE_LIMITS_NAME,
};
static const char *const acls[ACLS] = {"", "one", "two", "three"};
static const char *const keys[KEYS] = {"k", "l", "m"};

struct node {
    bool alive;
    uint64_t owner;
    int acl;
    size_t len; /* Of the data. */
};

struct session {
    bool open;
    uint64_t secret;
    uint64_t attach;
};

struct model {
    struct node nodes[PATHS];
    struct session sessions[TXNS + 1]; /* By id, which is a zxid. */
    zxid_t results[KEYS];              /* 0: not remembered. */
};

struct run {
    struct rng rng;
    struct state *state;
    struct model model;
    struct model next; /* With the effects of the transaction so far. */
    bool fits;         /* All effects so far are possible. */
    bool has_result;
    zxid_t zxid;
    uint32_t creates; /* Rises, so that it fits every parent. */
    struct buf txn;
};

/* ---- Effects, on the model and as bytes. ---- */

static int index_of(struct slice path)
{
    for (int i = 0; i < PATHS; i++) {
        if (slice_eq(slice_str(paths[i]), path)) {
            return i;
        }
    }
    return -1;
}

static bool has_children(const struct model *model, int node)
{
    for (int i = 0; i < PATHS; i++) {
        if (model->nodes[i].alive && i != node &&
            path_is_within(slice_str(paths[i]), slice_str(paths[node]))) {
            return true;
        }
    }
    return false;
}

static bool may_create(const struct model *model, int node, uint64_t owner)
{
    int parent = index_of(path_parent(slice_str(paths[node])));

    if (model->nodes[node].alive || (owner != 0 && !model->sessions[owner].open)) {
        return false;
    }
    return parent < 0 || (model->nodes[parent].alive && model->nodes[parent].owner == 0);
}

static void put_create(struct run *run, int node)
{
    char data[16];
    uint64_t owner = rng_below(&run->rng, 3) == 0 ? rng_below(&run->rng, TXNS + 1) : 0;
    int acl = (int)rng_below(&run->rng, ACLS);

    for (int i = 0; owner != 0 && !run->next.sessions[owner].open && i < TXNS; i++) {
        owner = owner % TXNS + 1; /* Mostly an open one. */
    }
    int len = snprintf(data, sizeof(data), "count=%u", run->creates % 1000);
    const struct txn_effect effect = {.type = TXN_CREATE,
                                      .path = slice_str(paths[node]),
                                      .data = slice_str(data),
                                      .owner = owner,
                                      .acl = slice_str(acls[acl]),
                                      .creates = ++run->creates};

    txn_put(&run->txn, &effect);
    run->fits = run->fits && may_create(&run->next, node, owner);
    run->next.nodes[node] =
        (struct node){.alive = true, .owner = owner, .acl = acl, .len = (size_t)len};
}

static void put_znode(struct run *run, int node)
{
    struct node *at = &run->next.nodes[node];
    int acl = (int)rng_below(&run->rng, ACLS);

    switch (rng_below(&run->rng, 8)) {
    case 0:
        kit_set(&run->txn, paths[node], "bytes=10", 1);
        run->fits = run->fits && at->alive;
        at->len = 8;
        break;
    case 1:
        kit_set_acl(&run->txn, paths[node], acls[acl], 1);
        run->fits = run->fits && at->alive;
        at->acl = acl;
        break;
    case 2:
    case 3:
        kit_delete(&run->txn, paths[node]);
        run->fits = run->fits && at->alive && !has_children(&run->next, node);
        at->alive = false;
        break;
    default:
        put_create(run, node);
        break;
    }
}

static bool owns_something(const struct model *model, uint64_t id)
{
    for (int i = 0; i < PATHS; i++) {
        if (model->nodes[i].alive && model->nodes[i].owner == id) {
            return true;
        }
    }
    return false;
}

static bool is_used(const struct model *model, uint64_t secret)
{
    for (int i = 0; i <= TXNS; i++) {
        if (model->sessions[i].open && model->sessions[i].secret == secret) {
            return true;
        }
    }
    return false;
}

static void put_session(struct run *run)
{
    uint64_t id = 1 + rng_below(&run->rng, run->zxid);
    struct session *session = &run->next.sessions[id];

    switch (rng_below(&run->rng, 3)) {
    case 0:
        session = &run->next.sessions[run->zxid];
        id = rng_below(&run->rng, 4) == 0 ? id : run->zxid;
        kit_open(&run->txn, run->zxid, id);
        run->fits = run->fits && !session->open && !is_used(&run->next, id);
        *session = (struct session){.open = true, .secret = id};
        break;
    case 1:
        kit_close(&run->txn, id);
        run->fits = run->fits && session->open && !owns_something(&run->next, id);
        session->open = false;
        break;
    default:
        kit_move(&run->txn, id, run->zxid, 1);
        run->fits = run->fits && session->open;
        session->attach = run->zxid;
        break;
    }
}

static void put_result(struct run *run)
{
    int key = (int)rng_below(&run->rng, KEYS);
    zxid_t horizon = 1 + rng_below(&run->rng, run->zxid);

    if (run->has_result || rng_below(&run->rng, 3) == 0) {
        kit_forget(&run->txn, horizon);
        for (int i = 0; i < KEYS; i++) {
            run->next.results[i] = run->next.results[i] < horizon ? 0 : run->next.results[i];
        }
        return;
    }
    kit_remember(&run->txn, "scope", keys[key], "r");
    run->fits = run->fits && run->next.results[key] == 0;
    run->next.results[key] = run->zxid;
    run->has_result = true;
}

static void make_txn(struct run *run)
{
    uint64_t count = rng_below(&run->rng, 3) == 0 ? 1 + rng_below(&run->rng, EFFECTS) : 1;

    run->next = run->model;
    run->fits = true;
    run->has_result = false;
    buf_clear(&run->txn);
    kit_begin(&run->txn, (int64_t)run->zxid * 10);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t roll = rng_below(&run->rng, 10);

        if (roll < 7) {
            put_znode(run, (int)rng_below(&run->rng, PATHS));
        } else if (roll < 9) {
            put_session(run);
        } else {
            put_result(run);
        }
    }
}

/* ---- Comparing. ---- */

static void assert_node(const struct state *state, const struct model *model, int i)
{
    const struct node *want = &model->nodes[i];
    const struct znode *node = kit_find(state, paths[i]);

    assert_int_equal(node != NULL, want->alive);
    if (node != NULL) {
        assert_true(znode_owner(node) == want->owner);
        assert_int_equal(blob_slice(znode_data(node)).len, want->len);
        assert_true(slice_eq(state_acl(state, znode_acl(node)), slice_str(acls[want->acl])));
    }
}

static void assert_session(const struct state *state, const struct model *model, uint64_t id)
{
    const struct session *want = &model->sessions[id];
    const struct state_session *session = state_session(state, id);
    uint8_t hash[TXN_SECRET_HASH_LEN];
    uint32_t owned = 0;

    assert_int_equal(session != NULL, want->open);
    for (int i = 0; i < PATHS; i++) {
        owned += model->nodes[i].alive && model->nodes[i].owner == id;
    }
    if (session != NULL) {
        kit_hash(want->secret, hash);
        assert_ptr_equal(state_session_by_hash(state, hash), session);
        assert_true(session->attach == want->attach);
        assert_int_equal(session->ephemeral_count, owned);
    }
}

static void assert_quota(const struct state *state, const struct model *model, int limits, int top)
{
    const struct state_quota *quota = state_quota_find(state, slice_str(paths[top]));
    uint64_t count = 0;
    uint64_t bytes = 0;

    assert_int_equal(quota != NULL, model->nodes[limits].alive);
    for (int i = 0; i < PATHS; i++) {
        if (model->nodes[i].alive && path_is_within(slice_str(paths[i]), slice_str(paths[top]))) {
            count++;
            bytes += model->nodes[i].len;
        }
    }
    if (quota != NULL) {
        assert_int_equal(quota->count, count);
        assert_int_equal(quota->bytes, bytes);
    }
}

static void assert_agrees(const struct state *state, const struct model *model)
{
    for (int i = 0; i < PATHS; i++) {
        assert_node(state, model, i);
    }
    for (uint64_t id = 1; id <= TXNS; id++) {
        assert_session(state, model, id);
    }
    for (int i = 0; i < KEYS; i++) {
        const struct state_remembered *result =
            state_remembered(state, slice_str("scope"), slice_str(keys[i]));

        assert_true((result != NULL ? result->zxid : 0) == model->results[i]);
    }
    assert_quota(state, model, LIMITS_A, 0);
    assert_quota(state, model, LIMITS_AB, 1);
    kit_verify(state);
}

static void run_seed(uint64_t seed, size_t *ret_taken)
{
    static struct run run;

    run = (struct run){.state = state_new(seed)};
    rng_init(&run.rng, seed);
    buf_init(&run.txn, 1 << 16);
    struct state *copy = state_new(seed);

    for (run.zxid = 1; run.zxid <= TXNS; run.zxid++) {
        make_txn(&run);
        enum err err = state_apply(run.state, run.zxid, buf_slice(&run.txn), false, NULL);

        assert_int_equal(err, run.fits ? ERR_OK : ERR_CORRUPT);
        if (run.fits) {
            run.model = run.next;
            *ret_taken += 1;
            /* Twice over the copy: replaying does no harm. */
            for (int i = 0; i < 2; i++) {
                assert_int_equal(state_apply(copy, run.zxid, buf_slice(&run.txn), true, NULL),
                                 ERR_OK);
            }
            assert_true(state_digest(copy) == state_digest(run.state));
        }
        assert_agrees(run.state, &run.model);
        if (rng_below(&run.rng, 20) == 0) {
            state_free(copy);
            copy = kit_copy(run.state, 1 + rng_below(&run.rng, 300));
        }
    }
    assert_agrees(copy, &run.model);
    state_free(copy);
    state_free(run.state);
    buf_release(&run.txn);
}

TEST(the_state_agrees_with_the_model)
{
    size_t taken = 0;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        run_seed(seed, &taken);
    }
    assert_true(taken > SEEDS * TXNS / 5 && taken < SEEDS * TXNS * 4 / 5);
}
