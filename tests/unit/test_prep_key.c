/* Writes with an idempotency key: done once, answered the same way each time, forgotten in time. */
#include "server/op/acl.h"
#include "tests/unit/prep_kit.h"

/* Prepares and applies the removal of the results that are due. */
static bool forget(struct fixture *fixture)
{
    const struct txn_header header = {.age_ms = fixture->age_ms};

    if (!prep_forget(fixture->prep, fixture->state, &header, fixture->zxid + 1, &fixture->txn)) {
        assert_int_equal(fixture->txn.len, 0);
        return false;
    }
    fixture->zxid++;
    assert_int_equal(kit_apply(fixture->state, fixture->zxid, &fixture->txn), ERR_OK);
    prep_applied(fixture->prep, fixture->zxid);
    return true;
}

/* What the delivery of the transaction reports to the client, as the replica reads it from the log.
 */
static void fill(struct op_result *result, const struct state_change *change)
{
    result->has_stat = change->type != TXN_DELETE && change->type != TXN_CHECK;
    result->stat = change->stat;
    buf_append_slice(&result->arena, change->path);
    result->path = buf_slice(&result->arena);
}

static void deliver(const struct op_args *args, const struct state_changes *changes,
                    struct op_result *result)
{
    uint32_t at = 0;

    if (args->op == OP_MULTI) {
        result->results = mem_zalloc(args->op_count, sizeof(*result->results));
        result->result_count = args->op_count;
    }
    for (size_t i = 0; i < changes->count; i++) {
        if (!changes->items[i].reply) {
            continue;
        }
        if (args->op == OP_MULTI) {
            op_result_init(&result->results[at]);
            fill(&result->results[at++], &changes->items[i]);
        } else {
            fill(result, &changes->items[i]);
        }
    }
}

static void assert_same_answer(const struct op_result *a, const struct op_result *b)
{
    assert_int_equal(a->err, b->err);
    assert_true(slice_eq(a->path, b->path));
    assert_int_equal(a->has_stat, b->has_stat);
    if (a->has_stat) {
        assert_true(a->stat.czxid == b->stat.czxid && a->stat.mzxid == b->stat.mzxid);
        assert_true(a->stat.pzxid == b->stat.pzxid && a->stat.ctime == b->stat.ctime);
        assert_true(a->stat.mtime == b->stat.mtime && a->stat.version == b->stat.version);
        assert_int_equal(a->stat.cversion, b->stat.cversion);
        assert_int_equal(a->stat.aversion, b->stat.aversion);
        assert_true(a->stat.ephemeral_owner == b->stat.ephemeral_owner);
        assert_int_equal(a->stat.data_length, b->stat.data_length);
        assert_int_equal(a->stat.num_children, b->stat.num_children);
    }
}

/* Sends a write twice with the same key: the second answer equals the first. */
static void assert_replayed(struct fixture *fixture, struct op_args args)
{
    struct state_changes changes = {0};
    struct op_result first;
    struct buf txn;

    op_result_init(&first);
    buf_init(&txn, 1 << 20);
    assert_int_equal(run(fixture, args), ERR_OK);
    assert_false(fixture->result.replayed);
    first.created = fixture->result.created;
    buf_append_slice(&txn, buf_slice(&fixture->txn));
    assert_int_equal(run(fixture, args), ERR_IN_FLIGHT);
    assert_int_equal(state_apply(fixture->state, fixture->zxid, buf_slice(&txn), false, &changes),
                     ERR_OK);
    prep_applied(fixture->prep, fixture->zxid);
    deliver(&args, &changes, &first);
    assert_int_equal(run(fixture, args), ERR_OK);
    assert_int_equal(fixture->txn.len, 0);
    assert_true(fixture->result.replayed);
    assert_int_equal(fixture->result.created, first.created);
    assert_int_equal(fixture->result.zxid, fixture->zxid);
    assert_same_answer(&fixture->result, &first);
    assert_int_equal(fixture->result.result_count, first.result_count);
    for (uint32_t i = 0; i < first.result_count; i++) {
        assert_same_answer(&fixture->result.results[i], &first.results[i]);
    }
    state_changes_release(&changes);
    op_result_release(&first);
    buf_release(&txn);
}

TEST(each_answer_is_repeated, fixture, setup, teardown)
{
    struct slice open;
    struct op_args upsert = op(OP_SET, "/a/u");
    struct op_args sequence = op(OP_CREATE, "/a/q-");
    struct op_args set_acl = op(OP_SETACL, "/a");
    struct op_args ops[3] = {op(OP_CREATE, "/a/m"), op(OP_SET, "/a/m"), op(OP_DELETE, "/a/m")};
    struct op_args multi = {.op = OP_MULTI, .ops = ops, .op_count = 3};

    assert_true(acl_standard(slice_str("open"), &open));
    upsert.upsert = true;
    sequence.sequence = true;
    sequence.data = slice_str("data");
    set_acl.acl = open;
    ops[1].data = slice_str("more");
    const struct op_args rows[] = {
        op(OP_CREATE, "/a"),   sequence, op(OP_SET, "/a"), upsert, set_acl, multi,
        op(OP_DELETE, "/a/u"),
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char key = (char)('a' + i);

        fixture->key = slice_make(&key, 1);
        assert_replayed(fixture, rows[i]);
        fixture->age_ms += 10000;
        assert_true(forget(fixture));
    }
}

TEST(the_answer_for_an_ephemeral_is_repeated, fixture, setup, teardown)
{
    fixture->key = slice_str("k");
    assert_int_equal(apply(fixture, session_op(fixture, OP_SESSION, 1)), ERR_BAD_ARGUMENTS);
    assert_non_null(strstr(fixture->result.detail, "Idempotency-Key"));
    fixture->key = slice_make(NULL, 0);
    assert_int_equal(apply(fixture, session_op(fixture, OP_SESSION, 1)), ERR_OK);
    be_in(fixture, 1);
    fixture->key = slice_str("k");
    assert_int_equal(run(fixture, session_op(fixture, OP_ATTACH, 1)), ERR_BAD_ARGUMENTS);
    assert_replayed(fixture, ephemeral("/e"));
    const struct state_remembered *first = state_remembered_after(fixture->state, 0);

    assert_true(slice_eq(first->scope, slice_str("session:1")));
    assert_int_equal(apply(fixture, session_op(fixture, OP_CLOSE, 1)), ERR_OK);
    assert_int_equal(state_remembered_count(fixture->state), 1);
    assert_int_equal(run(fixture, ephemeral("/e")), ERR_SESSION_EXPIRED);
}

TEST(a_key_identifies_one_request, fixture, setup, teardown)
{
    struct op_args args = op(OP_CREATE, "/a");

    fixture->key = slice_str("k");
    assert_int_equal(run(fixture, args), ERR_OK);
    args.data = slice_str("x");
    assert_int_equal(run(fixture, args), ERR_KEY_REUSED);
    prep_clear(fixture->prep);
    assert_int_equal(apply(fixture, args), ERR_OK);
    args.data_null = true;
    args.data = slice_make(NULL, 0);
    assert_int_equal(run(fixture, args), ERR_KEY_REUSED);
    assert_int_equal(run(fixture, op(OP_DELETE, "/a")), ERR_KEY_REUSED);
    fixture->key = slice_make(NULL, 0);
    assert_int_equal(run(fixture, op(OP_DELETE, "/a")), ERR_OK);
}

TEST(an_error_is_not_remembered, fixture, setup, teardown)
{
    char key[TXN_KEY_MAX + 1];

    fixture->key = slice_str("k");
    assert_int_equal(run(fixture, op(OP_SET, "/a")), ERR_NO_NODE);
    assert_int_equal(prep_pending(fixture->prep), 0);
    assert_int_equal(run(fixture, op(OP_DELETE, "/a")), ERR_NO_NODE);
    assert_int_equal(apply(fixture, op(OP_CREATE, "/a")), ERR_OK);
    memset(key, 'x', sizeof(key));
    fixture->key = slice_make(key, sizeof(key));
    assert_int_equal(run(fixture, op(OP_SET, "/a")), ERR_BAD_ARGUMENTS);
    fixture->key.len--;
    assert_int_equal(run(fixture, op(OP_SET, "/a")), ERR_OK);
}

TEST(a_key_belongs_to_its_client, fixture, setup, teardown)
{
    assert_int_equal(apply(fixture, session_op(fixture, OP_SESSION, 1)), ERR_OK);
    fixture->key = slice_str("k");
    assert_int_equal(apply(fixture, op(OP_CREATE, "/anonymous")), ERR_OK);
    assert_int_equal(
        auth_add(NULL, slice_str("digest"), slice_str("ann:secret"), "", &fixture->who.auth),
        ERR_OK);
    assert_int_equal(apply(fixture, op(OP_CREATE, "/principal")), ERR_OK);
    be_in(fixture, 1);
    assert_int_equal(apply(fixture, op(OP_CREATE, "/session")), ERR_OK);
    assert_int_equal(apply(fixture, op(OP_CREATE, "/session")), ERR_OK);
    assert_true(fixture->result.replayed);
    assert_int_equal(state_remembered_count(fixture->state), 3);
}

TEST(remembered_results_are_bounded, fixture, setup, teardown)
{
    char path[202] = "/";

    memset(path + 1, 'p', sizeof(path) - 2);
    fixture->key = slice_str("0");
    path[201] = '\0';
    assert_int_equal(run(fixture, op(OP_CREATE, path)), ERR_TOO_LARGE);
    assert_non_null(strstr(fixture->result.detail, "maxResultBytes"));
    assert_false(fixture->result.has_stat);
    fixture->key = slice_str("1");
    assert_int_equal(apply(fixture, op(OP_CREATE, "/a")), ERR_OK);
    fixture->key = slice_str("2");
    assert_int_equal(apply(fixture, op(OP_CREATE, "/b")), ERR_OK);
    fixture->key = slice_str("3");
    assert_int_equal(run(fixture, op(OP_CREATE, "/c")), ERR_OK);
    fixture->key = slice_str("4");
    assert_int_equal(run(fixture, op(OP_CREATE, "/d")), ERR_OK);
    fixture->key = slice_str("5");
    assert_int_equal(run(fixture, op(OP_CREATE, "/e")), ERR_THROTTLED);
    assert_non_null(strstr(fixture->result.detail, "maxRemembered"));
    fixture->key = slice_make(NULL, 0);
    assert_int_equal(run(fixture, op(OP_CREATE, "/e")), ERR_OK);
}

TEST(bytes_are_bounded, fixture, setup, teardown)
{
    struct op_args args = op(OP_SET, "/zookeeper");
    char key[TXN_KEY_MAX];
    struct prep_limits tight = limits;

    tight.tree.remembered_bytes_max = 2 * (TXN_KEY_MAX + 130);
    prep_free(fixture->prep);
    fixture->prep = prep_new(&tight);
    memset(key, 'x', sizeof(key));
    fixture->key = slice_make(key, sizeof(key));
    assert_int_equal(apply(fixture, args), ERR_OK);
    assert_in_range(state_remembered_bytes(fixture->state), TXN_KEY_MAX + 66, TXN_KEY_MAX + 130);
    key[0] = 'y';
    assert_int_equal(run(fixture, args), ERR_OK);
    key[0] = 'z';
    assert_int_equal(run(fixture, args), ERR_THROTTLED);
}

TEST(results_are_kept_for_the_promised_time, fixture, setup, teardown)
{
    struct op_args args = op(OP_CREATE, "/a");

    assert_false(forget(fixture));
    fixture->key = slice_str("1");
    assert_int_equal(apply(fixture, args), ERR_OK);
    fixture->age_ms += 8000;
    assert_false(
        forget(fixture)); /* There is room: removal waits a little, to remove more at once. */
    fixture->key = slice_str("2");
    args.path = slice_str("/b");
    assert_int_equal(run(fixture, args), ERR_OK);
    assert_true(forget(fixture)); /* With the one in flight, half of the room is taken. */
    assert_int_equal(state_remembered_count(fixture->state), 0);
    prep_clear(fixture->prep);
    assert_int_equal(apply(fixture, args), ERR_OK);
    fixture->age_ms += 8999;
    assert_false(forget(fixture));
    fixture->age_ms++;
    assert_true(forget(fixture));
    assert_false(forget(fixture));
    assert_int_equal(apply(fixture, args), ERR_NODE_EXISTS);
}

TEST(a_result_being_forgotten_counts_as_new, fixture, setup, teardown)
{
    struct txn_header header = {.age_ms = 0, .stamp_ms = 0};
    struct op_args args = op(OP_SET, "/zookeeper");
    struct buf txn;

    buf_init(&txn, 1000);
    for (char name = '1'; name <= '4'; name++) {
        fixture->key = slice_make(&name, 1);
        assert_int_equal(apply(fixture, args), ERR_OK);
        fixture->age_ms += name == '2' ? 1 : 0;
    }
    header.age_ms = fixture->age_ms - 1 + 8000;
    assert_true(prep_forget(fixture->prep, fixture->state, &header, ++fixture->zxid, &txn));
    assert_false(
        prep_forget(fixture->prep, fixture->state, &header, fixture->zxid + 1, &fixture->txn));
    fixture->key = slice_str("4");
    assert_int_equal(run(fixture, args), ERR_OK);
    assert_true(fixture->result.replayed);
    fixture->key = slice_str("1");
    assert_int_equal(run(fixture, args), ERR_OK);
    assert_false(fixture->result.replayed);
    assert_int_equal(run(fixture, args), ERR_IN_FLIGHT);
    assert_int_equal(kit_apply(fixture->state, fixture->zxid - 1, &txn), ERR_OK);
    assert_int_equal(state_remembered_count(fixture->state), 2);
    prep_applied(fixture->prep, fixture->zxid - 1);
    assert_int_equal(run(fixture, args), ERR_IN_FLIGHT);
    buf_release(&txn);
}
