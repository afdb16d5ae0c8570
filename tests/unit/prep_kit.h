/*
 * prep_kit.h - a state and its preparation, for the tests of how the leader turns requests into
 * transactions.
 *
 * The limits are small, so that tests reach them. A secret is a number: kit_hash makes its hash.
 */
#ifndef TESTS_UNIT_PREP_KIT_H
#define TESTS_UNIT_PREP_KIT_H

#include "base/mem.h"
#include "server/prepare/prep.h"
#include "tests/lib/state_kit.h"
#include "tests/lib/unit.h"

static const struct prep_limits limits = {
    .data_bytes_max = 10,
    .txn_bytes_max = 1000,
    .multi_ops_max = 3,
    .tree.recursive_max = 4,
    .tree.session_min_ms = 2000,
    .tree.session_max_ms = 60000,
    .tree.session_default_ms = 15000,
    .tree.sessions_max = 3,
    .tree.session_ephemerals_max = 3,
    .tree.session_ephemeral_bytes_max = 20,
    .tree.remembered_max = 4,
    .tree.remembered_bytes_max = 2000,
    .tree.result_bytes_max = 300,
    .tree.remember_ms = 8000,
};

enum {
    STAMP_MS = 123456 /* Of each transaction; no result depends on it. */
};

struct fixture {
    struct state *state;
    struct prep *prep;
    struct buf txn;
    struct op_result result;
    zxid_t zxid;
    int64_t age_ms;
    struct op_session session; /* The session of the requests. */
    struct slice key;          /* Their idempotency key. */
    struct op_principal who;
    uint32_t member;  /* The replica that the requests come from. */
    zxid_t low_since; /* As in struct prep_job. */
    struct prep_room room;
    const struct prep_verdict *verdict;
    uint8_t hash[TXN_SECRET_HASH_LEN];
};

static inline void setup(struct fixture *fixture)
{
    *fixture = (struct fixture){.state = state_new(1),
                                .prep = prep_new(&limits),
                                .age_ms = 500,
                                .who = {.address = "10.0.0.7"},
                                .member = 2};
    buf_init(&fixture->txn, 1 << 20);
    op_result_init(&fixture->result);
}

static inline void teardown(struct fixture *fixture)
{
    prep_free(fixture->prep);
    state_free(fixture->state);
    buf_release(&fixture->txn);
    op_result_release(&fixture->result);
    principal_release(&fixture->who);
}

/* Prepares; a successful request stays in flight. */
static inline enum err run(struct fixture *fixture, struct op_args args)
{
    const struct txn_header header = {
        .age_ms = fixture->age_ms, .stamp_ms = STAMP_MS, .origin_member = fixture->member};
    const struct prep_job job = {.args = &args,
                                 .who = &fixture->who,
                                 .session = &fixture->session,
                                 .key = fixture->key,
                                 .header = &header,
                                 .low_since = fixture->low_since,
                                 .room = fixture->room,
                                 .verdict = fixture->verdict};

    op_result_release(&fixture->result);
    op_result_init(&fixture->result);
    enum err err = prep_request(fixture->prep, fixture->state, &job, fixture->zxid + 1,
                                &fixture->txn, &fixture->result);

    assert_int_equal(fixture->result.err, err);
    fixture->zxid += fixture->txn.len > 0 ? 1 : 0;
    return err;
}

/* Prepares and applies. */
static inline enum err apply(struct fixture *fixture, struct op_args args)
{
    enum err err = run(fixture, args);

    if (fixture->txn.len > 0) {
        assert_int_equal(kit_apply(fixture->state, fixture->zxid, &fixture->txn), ERR_OK);
        prep_applied(fixture->prep, fixture->zxid);
    }
    return err;
}

static inline struct op_args op(enum op_id id, const char *path)
{
    return (struct op_args){.op = id, .path = slice_str(path)};
}

/* An operation on the session with that secret. The fixture owns the hash, until the next call. */
static inline struct op_args session_op(struct fixture *fixture, enum op_id id, uint64_t secret)
{
    kit_hash(secret, fixture->hash);
    return (struct op_args){.op = id,
                            .secret_hash = slice_make(fixture->hash, TXN_SECRET_HASH_LEN)};
}

/* Later requests belong to the session with that secret; 0: to none. */
static inline void be_in(struct fixture *fixture, uint64_t secret)
{
    fixture->session = (struct op_session){.shown = secret != 0};
    kit_hash(secret, fixture->session.hash);
}

static inline struct op_args ephemeral(const char *path)
{
    struct op_args args = op(OP_CREATE, path);

    args.ephemeral = true;
    return args;
}

#endif
