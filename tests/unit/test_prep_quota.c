/* Hard quotas: changes in flight count, and a write that does not increase usage passes. */
#include "tests/unit/prep_kit.h"

#include <stdio.h>

static void set_quota(struct fixture *fixture, const char *top, const char *text)
{
    char path[100];
    struct op_args args = {.op = OP_SET, .upsert = true, .parents = true};

    (void)snprintf(path, sizeof(path), "/zookeeper/quota%s/zookeeper_limits", top);
    args.path = slice_str(path);
    args.data = slice_str(text);
    assert_int_equal(run(fixture, args), ERR_OK);
}

static struct op_args with_data(struct op_args args, const char *data)
{
    args.data = slice_str(data);
    return args;
}

static void setup_with_room(struct fixture *fixture)
{
    setup(fixture);
    struct prep_limits wide = limits;

    wide.data_bytes_max = 100;
    prep_free(fixture->prep);
    fixture->prep = prep_new(&wide);
}

TEST(znodes_in_flight_count, fixture, setup_with_room, teardown)
{
    assert_int_equal(apply(fixture, op(OP_CREATE, "/a")), ERR_OK);
    assert_int_equal(run(fixture, op(OP_CREATE, "/a/1")), ERR_OK);
    set_quota(fixture, "/a", "count=1,countHardLimit=3"); /* The quota counts existing znodes. */
    assert_int_equal(run(fixture, op(OP_CREATE, "/a/2")), ERR_OK);
    assert_int_equal(run(fixture, op(OP_CREATE, "/a/3")), ERR_QUOTA_EXCEEDED);
    assert_non_null(strstr(fixture->result.detail, "countHardLimit"));
    assert_int_equal(run(fixture, op(OP_CREATE, "/ab")), ERR_OK);
    assert_int_equal(run(fixture, op(OP_DELETE, "/a/1")), ERR_OK);
    assert_int_equal(run(fixture, op(OP_CREATE, "/a/2/x")), ERR_OK);
    assert_int_equal(run(fixture, op(OP_CREATE, "/a/3")), ERR_QUOTA_EXCEEDED);
    set_quota(fixture, "/a", "countHardLimit=-1");
    assert_int_equal(run(fixture, op(OP_CREATE, "/a/3")), ERR_OK);
    set_quota(fixture, "/a", "countHardLimit=4");
    assert_int_equal(run(fixture, op(OP_CREATE, "/a/4")), ERR_QUOTA_EXCEEDED);
    assert_int_equal(run(fixture, op(OP_DELETE, "/zookeeper/quota/a/zookeeper_limits")), ERR_OK);
    assert_int_equal(run(fixture, op(OP_CREATE, "/a/4")), ERR_OK);
}

TEST(a_quota_may_precede_its_znode, fixture, setup_with_room, teardown)
{
    struct op_args args = op(OP_CREATE, "/a/b/c");

    set_quota(fixture, "/a", "byteHardLimit=4;countHardLimit=2");
    args.parents = true;
    assert_int_equal(run(fixture, args), ERR_QUOTA_EXCEEDED);
    assert_int_equal(run(fixture, with_data(op(OP_CREATE, "/a"), "12345")), ERR_QUOTA_EXCEEDED);
    assert_int_equal(run(fixture, with_data(op(OP_CREATE, "/a"), "1234")), ERR_OK);
    assert_int_equal(run(fixture, with_data(op(OP_CREATE, "/a/b"), "1")), ERR_QUOTA_EXCEEDED);
    assert_int_equal(run(fixture, op(OP_CREATE, "/a/b")), ERR_OK);
}

TEST(bytes_are_checked_before_the_version, fixture, setup_with_room, teardown)
{
    struct op_args args = with_data(op(OP_SET, "/a"), "123456");

    assert_int_equal(apply(fixture, with_data(op(OP_CREATE, "/a"), "12345678")), ERR_OK);
    set_quota(fixture, "/a", "bytes=1,byteHardLimit=5");
    assert_int_equal(run(fixture, args), ERR_OK); /* Over the limit, but less than before. */
    args.has_version = true;
    args.version = 9;
    assert_int_equal(run(fixture, args), ERR_BAD_VERSION);
    args.data = slice_str("1234567");
    assert_int_equal(run(fixture, args), ERR_QUOTA_EXCEEDED);
    assert_non_null(strstr(fixture->result.detail, "byteHardLimit"));
    args = with_data(op(OP_SET, "/a"), "123");
    assert_int_equal(run(fixture, args), ERR_OK);
    args.data = slice_str("123456");
    assert_int_equal(run(fixture, args), ERR_QUOTA_EXCEEDED);
    args.data = slice_str("12345");
    assert_int_equal(run(fixture, args), ERR_OK);
}

TEST(each_quota_above_holds, fixture, setup_with_room, teardown)
{
    assert_int_equal(run(fixture, op(OP_CREATE, "/a")), ERR_OK);
    assert_int_equal(run(fixture, op(OP_CREATE, "/a/b")), ERR_OK);
    set_quota(fixture, "/a", "countHardLimit=3");
    set_quota(fixture, "/a/b", "countHardLimit=9");
    assert_int_equal(run(fixture, op(OP_CREATE, "/a/b/1")), ERR_OK);
    assert_int_equal(run(fixture, op(OP_CREATE, "/a/b/2")), ERR_QUOTA_EXCEEDED);
    set_quota(fixture, "/a", "countHardLimit=9");
    set_quota(fixture, "/a/b", "countHardLimit=2");
    assert_int_equal(run(fixture, op(OP_CREATE, "/a/b/2")), ERR_QUOTA_EXCEEDED);
    assert_int_equal(run(fixture, op(OP_CREATE, "/a/2")), ERR_OK);
}

TEST(a_refused_multi_counts_nothing, fixture, setup_with_room, teardown)
{
    struct op_args ops[3] = {op(OP_CREATE, "/a/1"), op(OP_CREATE, "/a/2"), op(OP_CREATE, "/a/3")};
    struct op_args multi = {.op = OP_MULTI, .ops = ops, .op_count = 3};

    assert_int_equal(run(fixture, op(OP_CREATE, "/a")), ERR_OK);
    set_quota(fixture, "/a", "countHardLimit=3");
    assert_int_equal(run(fixture, multi), ERR_QUOTA_EXCEEDED);
    assert_int_equal(fixture->result.failed_index, 2);
    multi.op_count = 2;
    assert_int_equal(run(fixture, multi), ERR_OK);
    assert_int_equal(run(fixture, ops[2]), ERR_QUOTA_EXCEEDED);
}

TEST(closing_a_session_makes_room, fixture, setup_with_room, teardown)
{
    assert_int_equal(apply(fixture, op(OP_CREATE, "/a")), ERR_OK);
    set_quota(fixture, "/a", "countHardLimit=2");
    assert_int_equal(run(fixture, session_op(fixture, OP_SESSION, 1)), ERR_OK);
    be_in(fixture, 1);
    assert_int_equal(run(fixture, ephemeral("/a/e")), ERR_OK);
    be_in(fixture, 0);
    assert_int_equal(run(fixture, op(OP_CREATE, "/a/x")), ERR_QUOTA_EXCEEDED);
    assert_int_equal(run(fixture, session_op(fixture, OP_CLOSE, 1)), ERR_OK);
    assert_int_equal(run(fixture, op(OP_CREATE, "/a/x")), ERR_OK);
}
