/* maxTreeBytes: a write that grows the tree needs room, in flight or not; a write that frees memory
 * passes. */
#include "server/op/acl.h"
#include "tests/lib/limits_kit.h"
#include "tests/unit/prep_kit.h"

#include <stdio.h>
#include <string.h>

enum {
    MEMBER = 3,
    LARGE = 200 /* Bytes of data that make a difference. */
};

static const char bytes[LARGE + 100];

static void wide_setup(struct fixture *fixture)
{
    setup(fixture);

    prep_free(fixture->prep);
    fixture->prep = prep_new(&kit_limits);
}

static struct op_args with_data(enum op_id id, const char *path, size_t len)
{
    struct op_args args = op(id, path);

    args.data = slice_make(bytes, len);
    args.version = -1;
    return args;
}

static uint64_t used(const struct fixture *fixture)
{
    return prep_memory_bytes(fixture->prep, fixture->state);
}

/* Sets the limit so that this many bytes fit. */
static void leave(struct fixture *fixture, uint64_t room)
{
    fixture->room = (struct prep_room){.bytes_max = used(fixture) + room, .member = MEMBER};
}

static uint64_t cost(size_t name_len, size_t data_len)
{
    return cost_node(name_len, 0) + cost_data(data_len);
}

TEST(growth_in_flight_counts, fixture, wide_setup, teardown)
{
    leave(fixture, 2 * cost(1, 0) - 1);
    assert_int_equal(run(fixture, op(OP_CREATE, "/a")), ERR_OK);
    assert_int_equal(run(fixture, op(OP_CREATE, "/b")), ERR_TREE_FULL);
    fixture->room.bytes_max++;
    assert_int_equal(run(fixture, op(OP_CREATE, "/b")), ERR_OK);
    assert_int_equal(run(fixture, op(OP_CREATE, "/c")), ERR_TREE_FULL);
    /* The end of a role drops the changes in flight. */
    prep_clear(fixture->prep);
    assert_int_equal(used(fixture), state_memory_bytes(fixture->state));
    assert_int_equal(run(fixture, op(OP_CREATE, "/c")), ERR_OK);
}

TEST(the_applied_cost_is_the_foreseen_one, fixture, wide_setup, teardown)
{
    uint64_t before = state_memory_bytes(fixture->state);

    assert_int_equal(run(fixture, with_data(OP_CREATE, "/name", LARGE)), ERR_OK);
    assert_int_equal(used(fixture), before + cost(4, LARGE));
    assert_int_equal(kit_apply(fixture->state, fixture->zxid, &fixture->txn), ERR_OK);
    prep_applied(fixture->prep, fixture->zxid);
    assert_int_equal(used(fixture), before + cost(4, LARGE));
    assert_int_equal(apply(fixture, with_data(OP_SET, "/name", 10)), ERR_OK);
    assert_int_equal(used(fixture), before + cost(4, 10));
    assert_int_equal(apply(fixture, op(OP_DELETE, "/name")), ERR_OK);
    assert_int_equal(used(fixture), before);
}

TEST(memory_freed_by_a_delete_counts_once_it_is_applied, fixture, wide_setup, teardown)
{
    assert_int_equal(apply(fixture, op(OP_CREATE, "/a")), ERR_OK);
    leave(fixture, 0);
    assert_int_equal(run(fixture, op(OP_DELETE, "/a")), ERR_OK);
    struct buf delete = fixture->txn;

    buf_init(&fixture->txn, 1 << 20);
    assert_int_equal(run(fixture, op(OP_CREATE, "/b")), ERR_TREE_FULL);
    assert_int_equal(kit_apply(fixture->state, fixture->zxid, &delete), ERR_OK);
    buf_release(&delete);
    prep_applied(fixture->prep, fixture->zxid);
    assert_int_equal(run(fixture, op(OP_CREATE, "/b")), ERR_OK);
}

TEST(the_sum_of_a_multi_counts, fixture, wide_setup, teardown)
{
    struct op_args ops[3];
    struct op_args multi = {.op = OP_MULTI, .ops = ops, .op_count = 2};

    assert_int_equal(apply(fixture, op(OP_CREATE, "/a")), ERR_OK);
    leave(fixture, 0);
    ops[0] = op(OP_CREATE, "/b");
    ops[1] = op(OP_DELETE, "/a");
    assert_int_equal(run(fixture, multi), ERR_OK);
    ops[0] = op(OP_CREATE, "/c");
    ops[1] = op(OP_DELETE, "/b");
    ops[2] = op(OP_CREATE, "/d");
    multi.op_count = 3;
    assert_int_equal(run(fixture, multi), ERR_TREE_FULL);
    /* No single element is the cause. */
    assert_int_equal(fixture->result.result_count, 0);
    assert_int_equal(fixture->result.failed_index, 0);
    fixture->room.bytes_max += cost(1, 0);
    assert_int_equal(run(fixture, multi), ERR_OK);
}

TEST(the_refusal_names_the_limit_its_replica_and_a_remedy, fixture, wide_setup, teardown)
{
    char number[32];

    leave(fixture, 1);
    assert_int_equal(run(fixture, op(OP_CREATE, "/a")), ERR_TREE_FULL);
    assert_int_equal(err_http_status(ERR_TREE_FULL), 507);
    (void)snprintf(number, sizeof(number), "is %llu", (unsigned long long)fixture->room.bytes_max);
    assert_non_null(strstr(fixture->result.detail, "maxTreeBytes of replica 3"));
    assert_non_null(strstr(fixture->result.detail, number));
    assert_non_null(strstr(fixture->result.detail, "delete znodes"));
}

static struct op_args setacl(const char *path, struct slice acl)
{
    struct op_args args = op(OP_SETACL, path);

    args.acl = acl;
    return args;
}

static void list_of(struct buf *acl, const char *address)
{
    buf_init(acl, ACL_BYTES_MAX);
    acl_put(acl, &(struct acl_entry){
                     .perms = ACL_ALL, .scheme = slice_str("ip"), .id = slice_str(address)});
}

TEST(growing_writes_are_refused, fixture, wide_setup, teardown)
{
    struct op_args check = op(OP_CHECK, "/a");
    struct buf acl;

    list_of(&acl, "10.0.0.7");
    check.version = -1;
    assert_int_equal(apply(fixture, with_data(OP_CREATE, "/a", LARGE)), ERR_OK);
    leave(fixture, 0);
    assert_int_equal(run(fixture, op(OP_CREATE, "/b")), ERR_TREE_FULL);
    assert_int_equal(run(fixture, with_data(OP_SET, "/a", LARGE + 20)), ERR_TREE_FULL);
    assert_int_equal(run(fixture, setacl("/a", buf_slice(&acl))), ERR_TREE_FULL);
    assert_int_equal(run(fixture, session_op(fixture, OP_SESSION, 1)), ERR_TREE_FULL);
    fixture->key = slice_str("a key");
    assert_int_equal(run(fixture, check), ERR_TREE_FULL);
    assert_int_equal(used(fixture), fixture->room.bytes_max);
    assert_int_equal(prep_pending(fixture->prep), 0);
    /* Without a limit all of it passes. */
    fixture->room = (struct prep_room){.bytes_max = 0};
    assert_int_equal(run(fixture, check), ERR_OK);
    fixture->key = slice_make(NULL, 0);
    assert_int_equal(run(fixture, setacl("/a", buf_slice(&acl))), ERR_OK);
    buf_release(&acl);
}

TEST(writes_that_take_no_memory_pass, fixture, wide_setup, teardown)
{
    struct op_args check = op(OP_CHECK, "/a");
    struct op_args expire = {.op = OP_EXPIRE};
    struct buf acl;

    list_of(&acl, "10.0.0.7");
    check.version = -1;
    assert_int_equal(apply(fixture, with_data(OP_CREATE, "/a", LARGE)), ERR_OK);
    assert_int_equal(apply(fixture, op(OP_CREATE, "/b")), ERR_OK);
    assert_int_equal(apply(fixture, setacl("/b", buf_slice(&acl))), ERR_OK);
    assert_int_equal(apply(fixture, session_op(fixture, OP_SESSION, 1)), ERR_OK);
    expire.session = fixture->zxid;
    assert_int_equal(apply(fixture, session_op(fixture, OP_SESSION, 2)), ERR_OK);
    fixture->room = (struct prep_room){.bytes_max = 1, .member = MEMBER}; /* Far above the limit. */
    assert_int_equal(apply(fixture, check), ERR_OK);
    assert_int_equal(apply(fixture, session_op(fixture, OP_ATTACH, 2)), ERR_OK);
    assert_int_equal(apply(fixture, with_data(OP_SET, "/a", LARGE)), ERR_OK);
    assert_int_equal(apply(fixture, setacl("/a", buf_slice(&acl))), ERR_OK);
    assert_int_equal(apply(fixture, with_data(OP_SET, "/a", 0)), ERR_OK);
    assert_int_equal(apply(fixture, expire), ERR_OK);
    assert_int_equal(apply(fixture, session_op(fixture, OP_CLOSE, 2)), ERR_OK);
    /* The delete passes with a key as well, though its remembered result is larger than the znode
     * was. */
    fixture->key = slice_str("a key that is to be remembered and that takes many bytes by itself");
    assert_int_equal(apply(fixture, op(OP_DELETE, "/a")), ERR_OK);
    assert_int_equal(state_remembered_count(fixture->state), 1);
    buf_release(&acl);
}

/* Otherwise a client could shorten a value byte by byte, and add a remembered result each time. */
TEST(a_shorter_value_does_not_pay_for_a_remembered_answer, fixture, wide_setup, teardown)
{
    struct op_args ops[2];
    struct op_args multi = {.op = OP_MULTI, .ops = ops, .op_count = 2};

    assert_int_equal(apply(fixture, with_data(OP_CREATE, "/a", LARGE)), ERR_OK);
    assert_int_equal(apply(fixture, op(OP_CREATE, "/b")), ERR_OK);
    leave(fixture, 0);
    fixture->key = slice_str("a key that is to be remembered and that takes many bytes by itself");
    assert_true(LARGE < cost_remembered(fixture->key.len));
    ops[0] = with_data(OP_SET, "/a", 0);
    ops[1] = with_data(OP_SET, "/b", 0);
    assert_int_equal(run(fixture, ops[0]), ERR_TREE_FULL);
    assert_int_equal(run(fixture, multi), ERR_TREE_FULL);
    ops[1] = op(OP_DELETE, "/b");
    assert_int_equal(run(fixture, multi), ERR_OK);
}

TEST(ephemerals_and_ttl_znodes_cost_their_index, fixture, wide_setup, teardown)
{
    struct op_args ttl = op(OP_CREATE, "/t");
    uint64_t before = 0;

    assert_int_equal(apply(fixture, session_op(fixture, OP_SESSION, 1)), ERR_OK);
    before = used(fixture);
    be_in(fixture, 1);
    assert_int_equal(apply(fixture, ephemeral("/e")), ERR_OK);
    assert_int_equal(used(fixture), before + cost_node(1, 1) + cost_data(0));
    assert_true(cost_node(1, 1) > cost_node(1, 0));
    be_in(fixture, 0);
    ttl.ttl_ms = 1000;
    assert_int_equal(apply(fixture, ttl), ERR_OK);
    assert_int_equal(used(fixture), before + 2 * (cost_node(1, 1) + cost_data(0)));
    /* The end of the session deletes its ephemeral as well. */
    assert_int_equal(apply(fixture, session_op(fixture, OP_CLOSE, 1)), ERR_OK);
    assert_int_equal(used(fixture), before + cost_node(1, 1) + cost_data(0) - cost_session());
}
