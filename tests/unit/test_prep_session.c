/* Sessions and ephemerals in flight: which session a request belongs to, what ends with it, and how
 * many ephemerals it may own. */
#include "tests/unit/prep_kit.h"

#include <stdio.h>

static void open_session(struct fixture *fixture, uint64_t secret)
{
    assert_int_equal(run(fixture, session_op(fixture, OP_SESSION, secret)), ERR_OK);
}

/* Checks the effects of the last prepared transaction, as "type path" and the like. */
static void assert_effects(struct fixture *fixture, const char *const *want)
{
    struct wire_reader reader;
    struct txn_header header;
    struct txn_effect effect;

    assert_int_equal(txn_open(&reader, buf_slice(&fixture->txn), &header), ERR_OK);
    while (txn_next(&reader, &effect) == ERR_OK) {
        struct buf line;

        buf_init(&line, 200);
        buf_printf(&line, "%d", (int)effect.type);
        if (effect.path.len > 0) {
            buf_printf(&line, " %.*s", (int)effect.path.len, (const char *)effect.path.data);
        }
        if ((effect.flags & TXN_REPLY) != 0) {
            buf_append_str(&line, " !");
        }
        assert_non_null(*want);
        assert_string_equal(buf_cstr(&line), *want++);
        buf_release(&line);
    }
    assert_null(*want);
}

/* Applies everything in flight: the caller kept `txns`. */
static void take(struct fixture *fixture, struct buf *txns, zxid_t *zxids, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(kit_apply(fixture->state, zxids[i], &txns[i]), ERR_OK);
        prep_applied(fixture->prep, zxids[i]);
        buf_release(&txns[i]);
    }
}

TEST(the_timeout_is_bounded, fixture, setup, teardown)
{
    static const struct {
        uint32_t expire_s;
        uint32_t timeout_ms;
        uint32_t want_ms;
    } rows[] = {
        {0, 0, 15000},   {1, 0, 2000},        {20, 0, 20000}, {0, 5000, 5000},
        {7, 5001, 5001}, {4294967, 0, 60000}, {0, 1, 2000},   {0, UINT32_MAX, 60000},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct op_args args = session_op(fixture, OP_SESSION, 1);

        args.expire_s = rows[i].expire_s;
        args.timeout_ms = rows[i].timeout_ms;
        assert_int_equal(apply(fixture, args), ERR_OK);
        const struct state_session *session = state_session(fixture->state, fixture->zxid);

        assert_non_null(session);
        assert_int_equal(session->timeout_ms, rows[i].want_ms);
        assert_true(slice_eq(session->from, slice_str("10.0.0.7")));
        assert_int_equal(session->attach, 0);
        assert_int_equal(apply(fixture, session_op(fixture, OP_CLOSE, 1)), ERR_OK);
    }
}

TEST(sessions_in_flight_count_against_the_bound, fixture, setup, teardown)
{
    assert_int_equal(apply(fixture, session_op(fixture, OP_SESSION, 1)), ERR_OK);
    open_session(fixture, 2);
    open_session(fixture, 3);
    assert_int_equal(run(fixture, session_op(fixture, OP_SESSION, 4)), ERR_THROTTLED);
    assert_non_null(strstr(fixture->result.detail, "maxSessions"));
    assert_int_equal(run(fixture, session_op(fixture, OP_CLOSE, 1)), ERR_OK);
    open_session(fixture, 4);
    assert_int_equal(run(fixture, session_op(fixture, OP_SESSION, 5)), ERR_THROTTLED);
}

/* The same with other limits. */
static void limit_shares(struct fixture *fixture, uint32_t client_max, uint32_t network_max)
{
    struct prep_limits own = limits;

    own.tree.sessions_max = 100;
    own.tree.sessions_client_max = client_max;
    own.tree.sessions_network_max = network_max;
    prep_free(fixture->prep);
    fixture->prep = prep_new(&own);
}

static void come_from(struct fixture *fixture, const char *address, const char *credential,
                      const char *super)
{
    principal_release(&fixture->who);
    (void)snprintf(fixture->who.address, sizeof(fixture->who.address), "%s", address);
    if (credential) {
        assert_int_equal(
            auth_add(NULL, slice_str("digest"), slice_str(credential), super, &fixture->who.auth),
            ERR_OK);
    }
}

TEST(a_client_has_a_share_of_the_sessions, fixture, setup, teardown)
{
    limit_shares(fixture, 2, 3);
    assert_int_equal(apply(fixture, session_op(fixture, OP_SESSION, 1)), ERR_OK);
    open_session(fixture, 2); /* In flight. */
    assert_int_equal(run(fixture, session_op(fixture, OP_SESSION, 3)), ERR_THROTTLED);
    assert_non_null(strstr(fixture->result.detail, "maxSessionsPerClient"));
    come_from(fixture, "10.0.0.8", NULL, "");
    open_session(fixture, 3);
    come_from(fixture, "10.0.0.7", NULL, "");
    assert_int_equal(run(fixture, session_op(fixture, OP_SESSION, 4)), ERR_THROTTLED);
    assert_int_equal(run(fixture, session_op(fixture, OP_CLOSE, 2)), ERR_OK);
    open_session(fixture, 4);
    assert_int_equal(run(fixture, session_op(fixture, OP_CLOSE, 1)), ERR_OK);
    open_session(fixture, 5);
    assert_int_equal(run(fixture, session_op(fixture, OP_SESSION, 6)), ERR_THROTTLED);
}

/* Made-up identities gain nothing, because an identity shares its address's limit; the super user
 * has no limit. */
TEST(identities_count_for_their_address_too, fixture, setup, teardown)
{
    limit_shares(fixture, 2, 3);
    come_from(fixture, "10.0.0.7", "alice:a", "");
    open_session(fixture, 1);
    open_session(fixture, 2);
    assert_int_equal(run(fixture, session_op(fixture, OP_SESSION, 3)), ERR_THROTTLED);
    come_from(fixture, "10.0.0.8", "alice:a", "");
    assert_int_equal(run(fixture, session_op(fixture, OP_SESSION, 3)), ERR_THROTTLED);
    come_from(fixture, "10.0.0.7", "alice:b", "");
    open_session(fixture, 3);
    come_from(fixture, "10.0.0.7", "mallory:1", "");
    assert_int_equal(run(fixture, session_op(fixture, OP_SESSION, 4)), ERR_THROTTLED);
    assert_non_null(strstr(fixture->result.detail, "maxSessionsPerAddress"));
    come_from(fixture, "10.0.0.7", "root:r", "root:gIN1qIOiR6J+O9R96nNDsKRfDDM=");
    open_session(fixture, 4);
}

/* A host with IPv6 has a whole /64. */
TEST(an_ipv6_network_counts_as_one_client, fixture, setup, teardown)
{
    limit_shares(fixture, 2, 2);
    come_from(fixture, "2001:db8::1", NULL, "");
    open_session(fixture, 1);
    come_from(fixture, "2001:db8::2:1", NULL, "");
    open_session(fixture, 2);
    come_from(fixture, "2001:db8::ffff:0:0:1", NULL, "");
    assert_int_equal(run(fixture, session_op(fixture, OP_SESSION, 3)), ERR_THROTTLED);
    come_from(fixture, "2001:db8:0:1::1", NULL, "");
    open_session(fixture, 3);
}

/* Sessions that open and close in a loop, with something in flight all the time. */
TEST(shares_do_not_drift, fixture, setup, teardown)
{
    struct buf txns[2];
    zxid_t zxids[2];

    limit_shares(fixture, 3, 3);
    open_session(fixture, 1);
    for (uint64_t i = 1; i < 100; i++) {
        buf_init(&txns[0], fixture->txn.len);
        buf_append_slice(&txns[0], buf_slice(&fixture->txn));
        zxids[0] = fixture->zxid;
        open_session(fixture, i + 1);
        take(fixture, txns, zxids, 1);
        buf_init(&txns[1], fixture->txn.len);
        buf_append_slice(&txns[1], buf_slice(&fixture->txn));
        zxids[1] = fixture->zxid;
        assert_int_equal(run(fixture, session_op(fixture, OP_CLOSE, i)), ERR_OK);
        take(fixture, txns + 1, zxids + 1, 1);
    }
    assert_int_equal(state_session_count(fixture->state), 2);
}

/* The derived counts follow the applied transactions. */
TEST(shares_follow_the_applied_transactions, fixture, setup, teardown)
{
    struct state_share_name name;
    struct slice from = slice_str("10.0.0.7");

    for (uint64_t i = 1; i <= 3; i++) {
        assert_int_equal(apply(fixture, session_op(fixture, OP_SESSION, i)), ERR_OK);
        for (int kind = 0; kind < STATE_SHARES; kind++) {
            struct slice share = state_share_name(from, (enum state_share)kind, &name);

            assert_int_equal(state_share_count(fixture->state, share), i);
        }
    }
    for (uint64_t i = 1; i <= 3; i++) {
        assert_int_equal(apply(fixture, session_op(fixture, OP_CLOSE, i)), ERR_OK);
        assert_int_equal(
            state_share_count(fixture->state, state_share_name(from, STATE_SHARE_CLIENT, &name)),
            3 - i);
    }
}

/* Sessions in flight at the end of a role count once they are committed, and not before. */
TEST(shares_are_exact_after_a_change_of_role, fixture, setup, teardown)
{
    limit_shares(fixture, 3, 3);
    assert_int_equal(apply(fixture, session_op(fixture, OP_SESSION, 1)), ERR_OK);
    open_session(fixture, 2);
    open_session(fixture, 3);
    assert_int_equal(run(fixture, session_op(fixture, OP_SESSION, 4)), ERR_THROTTLED);
    prep_clear(fixture->prep);
    open_session(fixture, 4);
    open_session(fixture, 5);
    assert_int_equal(run(fixture, session_op(fixture, OP_SESSION, 6)), ERR_THROTTLED);
    prep_clear(fixture->prep);
    /* The history of the next leader contains another session, and not those two. */
    assert_int_equal(apply(fixture, session_op(fixture, OP_SESSION, 7)), ERR_OK);
    open_session(fixture, 8);
    assert_int_equal(run(fixture, session_op(fixture, OP_SESSION, 9)), ERR_THROTTLED);
    assert_int_equal(run(fixture, session_op(fixture, OP_CLOSE, 1)), ERR_OK);
    open_session(fixture, 9);
    assert_int_equal(run(fixture, session_op(fixture, OP_SESSION, 10)), ERR_THROTTLED);
    kit_verify(fixture->state);
}

/* A new leader whose state comes from a snapshot counts the sessions in it. */
TEST(shares_are_exact_in_a_recovered_state, fixture, setup, teardown)
{
    struct state *old = fixture->state;

    limit_shares(fixture, 3, 3);
    for (uint64_t i = 1; i <= 3; i++) {
        assert_int_equal(apply(fixture, session_op(fixture, OP_SESSION, i)), ERR_OK);
    }
    fixture->state = kit_copy(old, 1);
    state_free(old);
    prep_clear(fixture->prep);
    kit_verify(fixture->state);
    assert_int_equal(run(fixture, session_op(fixture, OP_SESSION, 4)), ERR_THROTTLED);
    assert_int_equal(run(fixture, session_op(fixture, OP_CLOSE, 2)), ERR_OK);
    open_session(fixture, 4);
    assert_int_equal(run(fixture, session_op(fixture, OP_SESSION, 5)), ERR_THROTTLED);
}

TEST(a_secret_opens_one_session, fixture, setup, teardown)
{
    struct op_args args = session_op(fixture, OP_SESSION, 1);

    open_session(fixture, 1);
    assert_int_equal(run(fixture, args), ERR_BAD_ARGUMENTS);
    assert_int_equal(run(fixture, session_op(fixture, OP_CLOSE, 1)), ERR_OK);
    open_session(fixture, 1); /* Closed before, though both are in flight. */
    assert_int_equal(run(fixture, session_op(fixture, OP_CLOSE, 1)), ERR_OK);
    assert_int_equal(run(fixture, session_op(fixture, OP_CLOSE, 1)), ERR_SESSION_EXPIRED);
    args.secret_hash.len = 31;
    assert_int_equal(run(fixture, args), ERR_BAD_ARGUMENTS);
}

TEST(a_write_needs_its_session_to_be_open, fixture, setup, teardown)
{
    be_in(fixture, 1);
    assert_int_equal(run(fixture, op(OP_CREATE, "/no/x")), ERR_SESSION_EXPIRED);
    open_session(fixture, 1);
    zxid_t id = fixture->zxid;

    assert_int_equal(run(fixture, op(OP_CREATE, "/a")), ERR_OK);
    fixture->session = (struct op_session){.shown = true, .id = id};
    assert_int_equal(run(fixture, op(OP_SET, "/a")), ERR_OK);
    assert_int_equal(run(fixture, (struct op_args){.op = OP_EXPIRE, .session = id}), ERR_OK);
    assert_int_equal(run(fixture, op(OP_SET, "/a")), ERR_SESSION_EXPIRED);
    be_in(fixture, 1);
    assert_int_equal(run(fixture, op(OP_SET, "/no")), ERR_SESSION_EXPIRED);
    /* A request that names its session itself does not depend on the session that it shows. */
    open_session(fixture, 2);
    assert_int_equal(run(fixture, session_op(fixture, OP_ATTACH, 2)), ERR_OK);
    assert_int_equal(run(fixture, session_op(fixture, OP_CLOSE, 2)), ERR_OK);
    assert_int_equal(run(fixture, (struct op_args){.op = OP_EXPIRE, .session = id}),
                     ERR_SESSION_EXPIRED);
}

TEST(the_old_attachment_of_a_session_is_refused, fixture, setup, teardown)
{
    open_session(fixture, 1);
    zxid_t id = fixture->zxid;

    assert_int_equal(run(fixture, session_op(fixture, OP_ATTACH, 7)), ERR_SESSION_EXPIRED);
    assert_int_equal(run(fixture, session_op(fixture, OP_ATTACH, 1)), ERR_OK);
    zxid_t first = fixture->zxid;

    fixture->session = (struct op_session){.shown = true, .id = id, .attach = first};
    assert_int_equal(run(fixture, op(OP_CREATE, "/a")), ERR_OK);
    assert_int_equal(run(fixture, session_op(fixture, OP_ATTACH, 1)), ERR_OK);
    assert_int_equal(run(fixture, op(OP_SET, "/a")), ERR_SESSION_MOVED);
    assert_int_equal(run(fixture, session_op(fixture, OP_CLOSE, 1)), ERR_SESSION_MOVED);
    fixture->session.attach = 0; /* Plain HTTP. */
    assert_int_equal(run(fixture, op(OP_SET, "/a")), ERR_OK);
    fixture->session.attach = fixture->zxid - 1;
    assert_int_equal(run(fixture, op(OP_SET, "/a")), ERR_OK);
    assert_int_equal(run(fixture, session_op(fixture, OP_CLOSE, 1)), ERR_OK);
}

TEST(attaching_records_the_attachment, fixture, setup, teardown)
{
    assert_int_equal(apply(fixture, session_op(fixture, OP_SESSION, 1)), ERR_OK);
    zxid_t id = fixture->zxid;

    assert_int_equal(apply(fixture, session_op(fixture, OP_ATTACH, 1)), ERR_OK);
    const struct state_session *session = state_session(fixture->state, id);

    assert_int_equal(session->attach, fixture->zxid);
    assert_int_equal(session->member, 2);
    assert_int_equal(prep_pending(fixture->prep), 0);
}

/* One transaction opens and attaches; only the attachment answers the request. */
TEST(a_session_is_opened_and_attached_at_once, fixture, setup, teardown)
{
    static const char *const want[] = {"6", "8 !", NULL};

    assert_int_equal(TXN_SESSION_OPEN, 6);
    assert_int_equal(TXN_SESSION_MOVE, 8);
    assert_int_equal(run(fixture, session_op(fixture, OP_OPEN, 1)), ERR_OK);
    assert_effects(fixture, want);
    assert_int_equal(kit_apply(fixture->state, fixture->zxid, &fixture->txn), ERR_OK);
    prep_applied(fixture->prep, fixture->zxid);
    zxid_t id = fixture->zxid;
    const struct state_session *session = state_session(fixture->state, id);

    assert_int_equal(session->attach, id);
    assert_int_equal(session->member, 2);
    assert_int_equal(prep_pending(fixture->prep), 0);
    assert_int_equal(run(fixture, session_op(fixture, OP_OPEN, 1)), ERR_BAD_ARGUMENTS);

    /* In flight, too, the attachment counts. */
    assert_int_equal(run(fixture, session_op(fixture, OP_OPEN, 2)), ERR_OK);
    fixture->session =
        (struct op_session){.shown = true, .id = fixture->zxid, .attach = fixture->zxid};
    assert_int_equal(run(fixture, op(OP_CREATE, "/a")), ERR_OK);
    fixture->session.attach--;
    assert_int_equal(run(fixture, op(OP_SET, "/a")), ERR_SESSION_MOVED);
    fixture->session.shown = false;
    fixture->low_since = fixture->zxid + 1;
    assert_int_equal(run(fixture, session_op(fixture, OP_OPEN, 3)), ERR_DISK_FULL);
}

/* With almost no disk space left, a client that lost its connection may still attach its session,
 * which costs no more than the session's end would; but only once. */
TEST(a_low_disk_lets_each_session_move_once, fixture, setup, teardown)
{
    open_session(fixture, 1);
    open_session(fixture, 2);
    assert_int_equal(run(fixture, session_op(fixture, OP_ATTACH, 1)), ERR_OK);
    fixture->low_since = fixture->zxid + 1;
    assert_int_equal(run(fixture, session_op(fixture, OP_SESSION, 3)), ERR_DISK_FULL);
    assert_int_equal(run(fixture, op(OP_CREATE, "/a")), ERR_DISK_FULL);
    assert_int_equal(run(fixture, session_op(fixture, OP_ATTACH, 7)), ERR_SESSION_EXPIRED);
    for (uint64_t secret = 1; secret <= 2; secret++) {
        assert_int_equal(run(fixture, session_op(fixture, OP_ATTACH, secret)), ERR_OK);
        assert_int_equal(run(fixture, session_op(fixture, OP_ATTACH, secret)), ERR_DISK_FULL);
    }
    assert_int_equal(run(fixture, session_op(fixture, OP_CLOSE, 2)), ERR_OK);
    fixture->low_since = 0;
    assert_int_equal(run(fixture, session_op(fixture, OP_ATTACH, 1)), ERR_OK);
}

TEST(ephemerals_have_no_children, fixture, setup, teardown)
{
    struct op_args args = ephemeral("/e/q-");

    open_session(fixture, 1);
    be_in(fixture, 1);
    assert_int_equal(run(fixture, ephemeral("/e")), ERR_OK);
    assert_int_equal(run(fixture, op(OP_CREATE, "/e/x")), ERR_NO_CHILDREN_FOR_EPHEMERALS);
    args.sequence = true;
    assert_int_equal(run(fixture, args), ERR_NO_CHILDREN_FOR_EPHEMERALS);
    args.path = slice_str("/q-");
    assert_int_equal(run(fixture, args), ERR_OK);
    static const char *const want[] = {"1 /q-0000000001 !", NULL};

    assert_effects(fixture, want);
}

TEST(closing_a_session_deletes_its_ephemerals, fixture, setup, teardown)
{
    zxid_t zxids[8];
    struct buf txns[8];

    assert_int_equal(apply(fixture, session_op(fixture, OP_SESSION, 1)), ERR_OK);
    be_in(fixture, 1);
    assert_int_equal(apply(fixture, op(OP_CREATE, "/p")), ERR_OK);
    assert_int_equal(apply(fixture, ephemeral("/p/a")), ERR_OK);
    assert_int_equal(apply(fixture, ephemeral("/gone")), ERR_OK);
    const struct op_args steps[] = {
        ephemeral("/b"),    op(OP_DELETE, "/gone"), op(OP_CREATE, "/gone"),
        op(OP_SET, "/p/a"), ephemeral("/p/c"),      op(OP_DELETE, "/p/c"),
    };
    size_t count = 0;

    for (; count < sizeof(steps) / sizeof(steps[0]); count++) {
        assert_int_equal(run(fixture, steps[count]), ERR_OK);
        zxids[count] = fixture->zxid;
        buf_init(&txns[count], 1000);
        buf_append_slice(&txns[count], buf_slice(&fixture->txn));
    }
    assert_int_equal(run(fixture, session_op(fixture, OP_CLOSE, 1)), ERR_OK);
    static const char *const want[] = {"3 /p/a", "3 /b", "7 !", NULL};

    assert_effects(fixture, want);
    assert_int_equal(run(fixture, op(OP_SET, "/p")), ERR_SESSION_EXPIRED);
    assert_int_equal(run(fixture, session_op(fixture, OP_CLOSE, 1)), ERR_SESSION_EXPIRED);
    be_in(fixture, 0);
    assert_int_equal(run(fixture, op(OP_DELETE, "/b")), ERR_NO_NODE);
    zxids[count] = fixture->zxid;
    assert_int_equal(run(fixture, (struct op_args){.op = OP_EXPIRE, .session = 1}),
                     ERR_SESSION_EXPIRED);
    assert_int_equal(fixture->txn.len, 0);
    take(fixture, txns, zxids, count);
    assert_int_equal(state_ephemeral_count(fixture->state), 2);
    prep_clear(fixture->prep);
    assert_int_equal(apply(fixture, (struct op_args){.op = OP_EXPIRE, .session = 1}), ERR_OK);
    assert_int_equal(state_ephemeral_count(fixture->state), 0);
    assert_int_equal(state_session_count(fixture->state), 0);
    assert_non_null(kit_find(fixture->state, "/gone"));
}

TEST(ephemerals_are_bounded, fixture, setup, teardown)
{
    open_session(fixture, 1);
    be_in(fixture, 1);
    assert_int_equal(run(fixture, ephemeral("/1234567890")), ERR_OK);
    assert_int_equal(run(fixture, ephemeral("/123456789")), ERR_QUOTA_EXCEEDED);
    assert_non_null(strstr(fixture->result.detail, "maxSessionEphemeralBytes"));
    assert_int_equal(run(fixture, ephemeral("/12345678")), ERR_OK);
    assert_int_equal(run(fixture, op(OP_DELETE, "/1234567890")), ERR_OK);
    assert_int_equal(run(fixture, ephemeral("/a")), ERR_OK);
    assert_int_equal(run(fixture, ephemeral("/b")), ERR_OK);
    assert_int_equal(run(fixture, ephemeral("/c")), ERR_QUOTA_EXCEEDED);
    assert_non_null(strstr(fixture->result.detail, "maxSessionEphemerals"));
    assert_int_equal(run(fixture, op(OP_CREATE, "/c")), ERR_OK);
    /* The same inside a multi: each element counts what those before it have used. */
    struct op_args ops[3] = {op(OP_DELETE, "/a"), ephemeral("/d"), ephemeral("/e")};
    struct op_args multi = {.op = OP_MULTI, .ops = ops, .op_count = 3};

    assert_int_equal(run(fixture, multi), ERR_QUOTA_EXCEEDED);
    assert_int_equal(fixture->result.failed_index, 2);
    multi.op_count = 2;
    assert_int_equal(run(fixture, multi), ERR_OK);
    assert_int_equal(run(fixture, ephemeral("/e")), ERR_QUOTA_EXCEEDED);
}

TEST(a_refused_request_leaves_no_trace, fixture, setup, teardown)
{
    struct op_args ops[3] = {ephemeral("/a"), ephemeral("/b"), op(OP_DELETE, "/no")};
    struct op_args multi = {.op = OP_MULTI, .ops = ops, .op_count = 3};

    assert_int_equal(apply(fixture, session_op(fixture, OP_SESSION, 1)), ERR_OK);
    be_in(fixture, 1);
    assert_int_equal(run(fixture, multi), ERR_NO_NODE);
    assert_int_equal(prep_pending(fixture->prep), 0);
    assert_int_equal(run(fixture, session_op(fixture, OP_CLOSE, 1)), ERR_OK);
    static const char *const want[] = {"7 !", NULL};

    assert_effects(fixture, want);
}

TEST(a_recursive_delete_counts_ephemerals_of_others, fixture, setup, teardown)
{
    struct op_args args = op(OP_DELETE, "/p");

    open_session(fixture, 1);
    open_session(fixture, 2);
    be_in(fixture, 1);
    assert_int_equal(run(fixture, op(OP_CREATE, "/p")), ERR_OK);
    assert_int_equal(run(fixture, ephemeral("/p/a")), ERR_OK);
    be_in(fixture, 2);
    assert_int_equal(run(fixture, ephemeral("/p/b")), ERR_OK);
    args.recursive = true;
    assert_int_equal(run(fixture, args), ERR_OK);
    assert_int_equal(run(fixture, session_op(fixture, OP_CLOSE, 1)), ERR_OK);
    static const char *const want[] = {"7 !", NULL};

    assert_effects(fixture, want);
    assert_int_equal(run(fixture, session_op(fixture, OP_CLOSE, 2)), ERR_OK);
    assert_effects(fixture, want);
}

/* The public id is part of every ephemeral's stat, so it must not be enough. */
TEST(only_the_super_user_kills, fixture, setup, teardown)
{
    struct op_args create = op(OP_CREATE, "/e");
    uint64_t id = 0;

    create.ephemeral = true;
    assert_int_equal(apply(fixture, session_op(fixture, OP_SESSION, 1)), ERR_OK);
    id = fixture->zxid;
    be_in(fixture, 1);
    assert_int_equal(apply(fixture, create), ERR_OK);
    be_in(fixture, 0);
    assert_int_equal(run(fixture, (struct op_args){.op = OP_KILL, .session = id}), ERR_NO_AUTH);
    assert_int_equal(auth_add(NULL, slice_str("digest"), slice_str("bob:secret"),
                              "bob:fyVmFCwVbTJYrznoSu1koqYEYF0=", &fixture->who.auth),
                     ERR_OK);
    assert_int_equal(run(fixture, (struct op_args){.op = OP_KILL, .session = id + 1}),
                     ERR_NOT_FOUND);
    assert_int_equal(run(fixture, (struct op_args){.op = OP_KILL, .session = id}), ERR_OK);
    const char *const want[] = {"3 /e", "7 !", NULL};

    assert_effects(fixture, want);
    assert_int_equal(run(fixture, (struct op_args){.op = OP_KILL, .session = id}), ERR_NOT_FOUND);
}
