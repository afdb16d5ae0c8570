/* What prep refuses, in which order, and what its transactions contain. */
#include "tests/unit/prep_kit.h"

/* An ephemeral znode of a session other than that of the requests. */
static void make_ephemeral(struct fixture *fixture, const char *path)
{
    assert_int_equal(apply(fixture, session_op(fixture, OP_SESSION, 99)), ERR_OK);
    be_in(fixture, 99);
    assert_int_equal(apply(fixture, ephemeral(path)), ERR_OK);
    be_in(fixture, 0);
}

TEST(kinds_are_checked_first, fixture, setup, teardown)
{
    struct op_args args = op(OP_CREATE, "/no/x");

    args.container = true;
    args.sequence = true;
    assert_int_equal(run(fixture, args), ERR_BAD_ARGUMENTS);
    args.sequence = false;
    args.ttl_ms = 5;
    assert_int_equal(run(fixture, args), ERR_BAD_ARGUMENTS);
    args.container = false;
    args.ttl_ms = INT64_C(1) << 40;
    assert_int_equal(run(fixture, args), ERR_BAD_ARGUMENTS);
    args.ttl_ms = -1;
    assert_int_equal(run(fixture, args), ERR_BAD_ARGUMENTS);
    args.ttl_ms = 0;
    args.ephemeral = true;
    assert_int_equal(run(fixture, args), ERR_UNKNOWN_SESSION);
    assert_non_null(strstr(fixture->result.detail, "session"));
    args.ephemeral = false;
    args.ttl_ms = (INT64_C(1) << 40) - 1;
    assert_int_equal(run(fixture, args), ERR_NO_NODE);
}

TEST(create_checks_parent_then_path_then_existence, fixture, setup, teardown)
{
    make_ephemeral(fixture, "/e");
    assert_int_equal(run(fixture, op(OP_CREATE, "x")), ERR_BAD_ARGUMENTS);
    assert_int_equal(run(fixture, op(OP_CREATE, "/no/..")), ERR_NO_NODE);
    assert_int_equal(run(fixture, op(OP_CREATE, "/..")), ERR_BAD_ARGUMENTS);
    assert_int_equal(run(fixture, op(OP_CREATE, "/zookeeper")), ERR_NODE_EXISTS);
    assert_int_equal(run(fixture, op(OP_CREATE, "/")), ERR_NODE_EXISTS);
    assert_int_equal(run(fixture, op(OP_CREATE, "/e/x")), ERR_NO_CHILDREN_FOR_EPHEMERALS);
    assert_int_equal(run(fixture, op(OP_CREATE, "/zookeeper/config/x")), ERR_NO_AUTH);
    assert_int_equal(prep_pending(fixture->prep), 0);
    struct op_args args = op(OP_CREATE, "/e/x/y");

    args.parents = true;
    assert_int_equal(run(fixture, args), ERR_NO_CHILDREN_FOR_EPHEMERALS);
    args = op(OP_CREATE, "/zookeeper/config/x/y");
    args.parents = true;
    assert_int_equal(run(fixture, args), ERR_NO_AUTH);
}

TEST(sequence_counts_every_create, fixture, setup, teardown)
{
    struct op_args args = op(OP_CREATE, "/q/");

    assert_int_equal(apply(fixture, op(OP_CREATE, "/q")), ERR_OK);
    assert_int_equal(apply(fixture, op(OP_CREATE, "/q/plain")), ERR_OK);
    args.sequence = true;
    assert_int_equal(run(fixture, args), ERR_OK);
    args.path = slice_str("/q/x-");
    assert_int_equal(run(fixture, args), ERR_OK);
    args.path = slice_str("/new/x-");
    args.parents = true;
    assert_int_equal(run(fixture, args), ERR_OK);
    prep_clear(fixture->prep);
    assert_int_equal(apply(fixture, args), ERR_OK);
    assert_non_null(kit_find(fixture->state, "/new/x-0000000000"));
    args.path = slice_str("/q/");
    assert_int_equal(apply(fixture, args), ERR_OK);
    assert_non_null(kit_find(fixture->state, "/q/0000000001"));
}

TEST(the_super_user_raises_a_count_of_creates, fixture, setup, teardown)
{
    struct op_args args = op(OP_RAISE, "/q");
    struct op_args create = op(OP_CREATE, "/q/");
    struct stat_view stat;

    args.creates = 100;
    create.sequence = true;
    assert_int_equal(apply(fixture, op(OP_CREATE, "/q")), ERR_OK);
    assert_int_equal(apply(fixture, op(OP_CREATE, "/q/zabra-raise-0")), ERR_OK);
    assert_int_equal(run(fixture, args), ERR_NO_AUTH);
    assert_non_null(strstr(fixture->result.detail, "only the super user"));
    assert_int_equal(auth_add(NULL, slice_str("digest"), slice_str("bob:secret"),
                              "bob:fyVmFCwVbTJYrznoSu1koqYEYF0=", &fixture->who.auth),
                     ERR_OK);
    assert_int_equal(
        run(fixture, (struct op_args){.op = OP_RAISE, .path = slice_str("/none"), .creates = 1}),
        ERR_NO_NODE);
    assert_int_equal(apply(fixture, args), ERR_OK);
    znode_stat(kit_find(fixture->state, "/q"), &stat);
    assert_int_equal(stat.num_children, 1);
    assert_int_equal(stat.cversion, 199);
    args.creates = 5; /* Smaller: nothing changes. */
    assert_int_equal(apply(fixture, args), ERR_OK);
    assert_int_equal(apply(fixture, create), ERR_OK);
    assert_non_null(kit_find(fixture->state, "/q/0000000100"));
    args.creates = 2147483647;
    assert_int_equal(apply(fixture, args), ERR_OK);
    assert_int_equal(apply(fixture, create), ERR_BAD_ARGUMENTS);
}

TEST(counter_never_overflows, fixture, setup, teardown)
{
    struct op_args args = op(OP_CREATE, "/q/");

    kit_create(&fixture->txn, "/q", "", 0, 1);
    kit_create(&fixture->txn, "/q/a", "", 0, STATE_CREATES_MAX - 1);
    assert_int_equal(kit_apply(fixture->state, ++fixture->zxid, &fixture->txn), ERR_OK);
    args.sequence = true;
    assert_int_equal(apply(fixture, args), ERR_OK);
    assert_non_null(kit_find(fixture->state, "/q/2147483646"));
    assert_int_equal(apply(fixture, args), ERR_BAD_ARGUMENTS);
    assert_non_null(strstr(fixture->result.detail, "2147483647 children"));
    assert_int_equal(apply(fixture, op(OP_CREATE, "/q/b")), ERR_BAD_ARGUMENTS);
}

TEST(conditions_of_a_set, fixture, setup, teardown)
{
    struct op_args args = op(OP_SET, "/a");

    assert_int_equal(run(fixture, args), ERR_NO_NODE);
    args.must_exist = true;
    assert_int_equal(run(fixture, args), ERR_BAD_VERSION);
    assert_false(fixture->result.has_stat);
    args.must_exist = false;
    args.must_be_new = true;
    assert_int_equal(apply(fixture, args), ERR_OK);
    assert_true(fixture->result.created);
    assert_int_equal(apply(fixture, args), ERR_BAD_VERSION);
    assert_true(fixture->result.has_stat);
    assert_int_equal(fixture->result.stat.czxid, 1);
    args = op(OP_SET, "/a");
    args.has_etag = true;
    args.etag_czxid = 1;
    assert_int_equal(run(fixture, args), ERR_OK);
    assert_int_equal(run(fixture, args),
                     ERR_BAD_VERSION); /* The condition sees the change in flight. */
    assert_int_equal(fixture->result.stat.version, 1);
    args.etag_version = 1;
    args.etag_czxid = 9;
    assert_int_equal(run(fixture, args), ERR_BAD_VERSION);
    args = op(OP_SET, "/a");
    args.has_czxid = true;
    args.czxid = 9;
    assert_int_equal(run(fixture, args), ERR_BAD_VERSION);
    assert_non_null(strstr(fixture->result.detail, "created again"));
    args.czxid = 1;
    args.has_aversion = true;
    args.aversion = 1;
    assert_int_equal(run(fixture, args), ERR_BAD_VERSION);
    assert_non_null(strstr(fixture->result.detail, "aversion"));
    args.aversion = 0;
    assert_int_equal(run(fixture, args), ERR_OK);
    args.path = slice_str("/missing");
    assert_int_equal(run(fixture, args), ERR_NO_NODE);
    assert_int_equal(run(fixture, op(OP_SET, "/zookeeper/config")), ERR_NO_AUTH);
    assert_int_equal(run(fixture, op(OP_SET, "/a/")), ERR_BAD_ARGUMENTS);
}

TEST(upsert_creates_what_is_missing, fixture, setup, teardown)
{
    struct op_args args = op(OP_SET, "/a/b");

    args.upsert = true;
    assert_int_equal(run(fixture, args), ERR_NO_NODE);
    args.parents = true;
    args.has_version = true;
    args.version = 3;
    assert_int_equal(run(fixture, args), ERR_BAD_VERSION);
    args.version = -1;
    assert_int_equal(apply(fixture, args), ERR_OK);
    assert_true(fixture->result.created);
    assert_null(znode_data(kit_find(fixture->state, "/a")));
    assert_non_null(znode_data(kit_find(fixture->state, "/a/b")));
    assert_int_equal(apply(fixture, args), ERR_OK);
    assert_false(fixture->result.created);
}

TEST(delete_checks_in_order, fixture, setup, teardown)
{
    struct op_args args = op(OP_DELETE, "/a");

    assert_int_equal(run(fixture, op(OP_DELETE, "/zookeeper/quota")), ERR_BAD_ARGUMENTS);
    assert_int_equal(run(fixture, op(OP_DELETE, "/")), ERR_BAD_ARGUMENTS);
    assert_int_equal(run(fixture, args), ERR_NO_NODE);
    assert_int_equal(apply(fixture, op(OP_CREATE, "/a")), ERR_OK);
    assert_int_equal(apply(fixture, op(OP_CREATE, "/a/b")), ERR_OK);
    args.has_version = true;
    args.version = 4;
    assert_int_equal(run(fixture, args), ERR_BAD_VERSION);
    args.version = 0;
    assert_int_equal(run(fixture, args), ERR_NOT_EMPTY);
    assert_int_equal(run(fixture, op(OP_DELETE, "/a/b")), ERR_OK);
    assert_int_equal(run(fixture, args), ERR_OK);
}

TEST(recursive_delete_is_bounded, fixture, setup, teardown)
{
    struct op_args args = op(OP_DELETE, "/a");

    args.recursive = true;
    assert_int_equal(apply(fixture, op(OP_CREATE, "/a")), ERR_OK);
    assert_int_equal(apply(fixture, op(OP_CREATE, "/a/b")), ERR_OK);
    assert_int_equal(run(fixture, op(OP_CREATE, "/a/c")), ERR_OK);
    assert_int_equal(run(fixture, op(OP_CREATE, "/a/b/d")), ERR_OK);
    args.max = 3;
    assert_int_equal(run(fixture, args), ERR_NOT_EMPTY);
    assert_string_equal(
        fixture->result.detail,
        "the subtree has more than 3 znodes (max); max may be at most 4 (maxRecursive)");
    args.max = 100;
    assert_int_equal(run(fixture, op(OP_CREATE, "/a/b/e")), ERR_OK);
    assert_int_equal(run(fixture, args), ERR_NOT_EMPTY); /* The server's own bound is 4. */
    assert_string_equal(fixture->result.detail,
                        "the subtree has more than 4 znodes (maxRecursive): delete it in parts");
    assert_int_equal(run(fixture, op(OP_DELETE, "/a/b/e")), ERR_OK);
    assert_int_equal(run(fixture, args), ERR_OK);
    struct wire_reader reader;
    struct txn_header header;
    struct txn_effect effect;
    static const char *const order[] = {"/a/c", "/a/b/d", "/a/b", "/a"};

    assert_int_equal(txn_open(&reader, buf_slice(&fixture->txn), &header), ERR_OK);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(txn_next(&reader, &effect), ERR_OK);
        assert_int_equal(effect.type, TXN_DELETE);
        assert_int_equal(effect.flags, (i == 3 ? TXN_REPLY : 0U) | TXN_VERSION_BEFORE);
        assert_int_equal(effect.version, 0);
        assert_true(slice_eq(effect.path, slice_str(order[i])));
    }
    assert_int_equal(txn_next(&reader, &effect), ERR_MISSING);
}

TEST(sizes_are_bounded, fixture, setup, teardown)
{
    struct op_args args = op(OP_CREATE, "/no/x");
    struct op_args ops[4] = {op(OP_CREATE, "/a"), op(OP_CREATE, "/b"), op(OP_CREATE, "/c"),
                             op(OP_CREATE, "/d")};
    struct op_args multi = {.op = OP_MULTI, .ops = ops, .op_count = 4};
    char name[1002];

    args.data = slice_str("01234567890");
    assert_int_equal(run(fixture, args), ERR_TOO_LARGE);
    args.data = slice_str("0123456789");
    assert_int_equal(run(fixture, args), ERR_NO_NODE);
    args.data_null = true;
    assert_int_equal(run(fixture, args), ERR_BAD_ARGUMENTS);
    assert_int_equal(run(fixture, multi), ERR_TOO_LARGE);
    assert_int_equal(fixture->result.result_count, 0);
    memset(name, 'x', sizeof(name));
    name[0] = '/';
    name[1001] = '\0';
    assert_int_equal(run(fixture, op(OP_CREATE, name)), ERR_TOO_LARGE);
    assert_int_equal(prep_pending(fixture->prep), 0);
    assert_int_equal(fixture->txn.len, 0);
}

TEST(a_multi_names_the_failed_element, fixture, setup, teardown)
{
    struct op_args ops[3] = {op(OP_CREATE, "/a"), op(OP_SET, "/a"), op(OP_CREATE, "/b")};
    struct op_args multi = {.op = OP_MULTI, .ops = ops, .op_count = 3};

    ops[1].has_version = true;
    ops[1].version = 5;
    assert_int_equal(run(fixture, multi), ERR_BAD_VERSION);
    assert_int_equal(fixture->result.failed_index, 1);
    assert_int_equal(fixture->result.result_count, 3);
    assert_int_equal(fixture->result.results[0].err, ERR_OK);
    assert_int_equal(fixture->result.results[1].err, ERR_BAD_VERSION);
    assert_false(fixture->result.results[1].has_stat); /* The znode exists only within the multi. */
    assert_false(fixture->result.has_stat);
    assert_int_equal(fixture->result.results[2].err, ERR_RUNTIME_INCONSISTENCY);
    assert_int_equal(prep_pending(fixture->prep), 0);
    ops[1].version = 0;
    assert_int_equal(apply(fixture, multi), ERR_OK);
    assert_int_equal(fixture->result.result_count, 0);
    assert_non_null(kit_find(fixture->state, "/b"));
    ops[0] = op(OP_CHECK, "/b");
    multi.op_count = 2;
    assert_int_equal(run(fixture, multi), ERR_BAD_VERSION);
    assert_true(fixture->result.has_stat);
    assert_int_equal(fixture->result.stat.version, 1);
    ops[0] = op(OP_CREATE, "/a/c"); /* Rolled back, together with its change of the parent. */
    assert_int_equal(run(fixture, multi), ERR_BAD_VERSION);
    assert_false(fixture->result.has_stat);
    multi.op_count = 0;
    assert_int_equal(apply(fixture, multi), ERR_OK);
    ops[0].op = OP_REAP;
    multi.op_count = 1;
    assert_int_equal(run(fixture, multi), ERR_BAD_ARGUMENTS);
    ops[0].op = OP_MULTI;
    assert_int_equal(run(fixture, multi), ERR_BAD_ARGUMENTS);
    ops[0].op = OP_GET;
    assert_int_equal(run(fixture, multi), ERR_BAD_ARGUMENTS);
}

TEST(a_reap_checks_its_condition_again, fixture, setup, teardown)
{
    struct op_args args = op(OP_CREATE, "/t");

    make_ephemeral(fixture, "/e");
    args.ttl_ms = 10;
    assert_int_equal(apply(fixture, args), ERR_OK);
    assert_int_equal(apply(fixture, op(OP_CREATE, "/p")), ERR_OK);
    fixture->age_ms = 509;
    assert_int_equal(run(fixture, op(OP_REAP, "/t")), ERR_BAD_VERSION);
    fixture->age_ms = 510;
    assert_int_equal(run(fixture, op(OP_CREATE, "/t/x")), ERR_OK);
    assert_int_equal(run(fixture, op(OP_REAP, "/t")), ERR_NOT_EMPTY);
    assert_int_equal(run(fixture, op(OP_DELETE, "/t/x")), ERR_OK);
    assert_int_equal(run(fixture, op(OP_REAP, "/t")), ERR_OK);
    assert_int_equal(run(fixture, op(OP_REAP, "/t")), ERR_NO_NODE);
    assert_int_equal(run(fixture, op(OP_REAP, "/p")), ERR_BAD_VERSION);
    assert_int_equal(run(fixture, op(OP_REAP, "/e")), ERR_BAD_VERSION);
}
