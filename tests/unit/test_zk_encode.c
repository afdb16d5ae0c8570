/* Replies of ZooKeeper's protocol: what the frames of a real server do not show. */
#include "zk/encode.h"

#include "server/op/acl.h"
#include "tests/lib/unit.h"
#include "tests/lib/zk_reply.h"

struct bench {
    struct buf out;
    struct zk_request request;
    struct op_result result;
    struct zk_reply reply;
};

static void set_up(struct bench *bench)
{
    buf_init(&bench->out, 1 << 20);
    op_result_init(&bench->result);
    op_result_init(&bench->reply.result);
    bench->request = (struct zk_request){.xid = 7, .kind = ZK_READ};
}

static void tear_down(struct bench *bench)
{
    buf_release(&bench->out);
    op_result_release(&bench->result);
    zk_reply_release(&bench->reply);
}

/* Encodes the result as the answer to a request of that type, and reads it. */
static const struct zk_reply *answer(struct bench *bench, int32_t type, enum op_id op)
{
    bench->request.type = type;
    op_args_init(&bench->request.args, op);
    buf_clear(&bench->out);
    zk_reply_release(&bench->reply);
    zk_encode_result(&bench->out, &bench->request, &bench->result, NULL, 99);
    assert_true(zk_reply_read(&bench->request, buf_slice(&bench->out), &bench->reply));
    assert_int_equal(bench->reply.xid, 7);
    assert_int_equal(bench->reply.zxid, 99);
    return &bench->reply;
}

TEST(an_error_is_a_header_alone, bench, set_up, tear_down)
{
    bench->result.err = ERR_NO_NODE;
    assert_int_equal(answer(bench, ZK_GET_DATA, OP_GET)->code, ZK_NO_NODE);
    assert_int_equal(bench->out.len, 20);
}

TEST(null_data_stays_null_but_for_znodes_of_each_tree, bench, set_up, tear_down)
{
    bench->result.stat.czxid = 5;
    assert_null(answer(bench, ZK_GET_DATA, OP_GET)->result.data);
    bench->result.stat.czxid = 0;
    assert_non_null(answer(bench, ZK_GET_DATA, OP_GET)->result.data);
    assert_int_equal(bench->reply.result.data->len, 0);
}

TEST(a_znode_without_a_list_is_open, bench, set_up, tear_down)
{
    struct slice open;

    assert_true(acl_standard(slice_str("open"), &open));
    assert_true(slice_eq(blob_slice(answer(bench, ZK_GET_ACL, OP_GETACL)->result.acl), open));
}

TEST(a_frame_without_room_leaves_what_was_before, bench, set_up, tear_down)
{
    static const uint8_t paths[100];
    struct buf small;

    buf_init(&small, 100);
    zk_encode_code(&small, 1, 2, ZK_OK);
    zk_encode_paths(&small, 7, 99, 20, slice_make(paths, sizeof(paths)));
    assert_true(small.overflow);
    assert_int_equal(small.len, 20);
    zk_encode_event(&small, 5, WATCH_CREATED, slice_str("/a"));
    assert_true(small.overflow && small.len == 20);
    buf_release(&small);
}

/* Sets two results of a multi of reads. */
static void two_results(struct bench *bench, struct op_args *ops, int8_t *types)
{
    op_args_init(&ops[0], OP_CHILDREN);
    op_args_init(&ops[1], OP_GET);
    bench->request.type = ZK_MULTI_READ;
    bench->request.types = types;
    op_args_init(&bench->request.args, OP_MULTI);
    bench->request.args.ops = ops;
    bench->request.args.op_count = 2;
}

TEST(reads_of_a_multi_have_each_their_own_result, bench, set_up, tear_down)
{
    struct op_result results[2] = {{.err = ERR_OK, .more = true}, {.err = ERR_NO_AUTH}};
    struct op_result all = {.results = results, .result_count = 2};
    int8_t types[2] = {ZK_GET_CHILDREN, ZK_GET_DATA};
    struct op_args ops[2];
    const struct op_result *read = NULL;

    two_results(bench, ops, types);
    zk_encode_result(&bench->out, &bench->request, &all, NULL, 99);
    assert_true(zk_reply_read(&bench->request, buf_slice(&bench->out), &bench->reply));
    read = bench->reply.result.results;
    assert_int_equal(bench->reply.code, ZK_OK);
    assert_int_equal(bench->reply.result.result_count, 2);
    assert_int_equal(err_number(read[0].err), ZK_BAD_ARGUMENTS); /* A part of a list is none. */
    assert_int_equal(read[1].err, ERR_NO_AUTH);
    types[1] = ZK_ERROR; /* An illegal path, for which another znode was read. */
    results[1].err = ERR_OK;
    buf_clear(&bench->out);
    zk_reply_release(&bench->reply);
    zk_encode_result(&bench->out, &bench->request, &all, NULL, 99);
    assert_true(zk_reply_read(&bench->request, buf_slice(&bench->out), &bench->reply));
    assert_int_equal(bench->reply.result.results[1].err, ERR_NO_NODE);
    bench->request.types = NULL;
}

TEST(a_multi_that_failed_as_a_whole_is_a_header_alone, bench, set_up, tear_down)
{
    bench->result.err = ERR_QUOTA_EXCEEDED;
    assert_int_equal(answer(bench, ZK_MULTI, OP_MULTI)->code, ZK_QUOTA_EXCEEDED);
    assert_false(bench->reply.has_end);
}

TEST(the_super_user_is_named_first, bench, set_up, tear_down)
{
    struct op_principal principal = {.address = "10.0.0.1"};

    /* The hash of "super:secret". */
    assert_int_equal(auth_add(NULL, slice_str("digest"), slice_str("super:secret"),
                              "super:lK75jTNcA+U9vtVEw5vB51mj/w4=", &principal.auth),
                     ERR_OK);
    assert_true(principal.auth->super);
    zk_encode_who(&bench->out, 7, 99, &principal);
    bench->request.type = ZK_WHO_AM_I;
    assert_true(zk_reply_read(&bench->request, buf_slice(&bench->out), &bench->reply));
    assert_int_equal(bench->reply.result.entry_count, 6);
    assert_true(slice_eq(bench->reply.result.entries[0].path, slice_str("super")));
    assert_int_equal(bench->reply.result.entries[1].path.len, 0);
    assert_true(slice_eq(bench->reply.result.entries[3].path, slice_str("10.0.0.1")));
    assert_true(slice_eq(bench->reply.result.entries[5].path, slice_str("super")));
    principal_release(&principal);
}

TEST(a_session_that_does_not_exist_is_all_zero, bench, set_up, tear_down)
{
    struct zk_connect connect = {.has_read_only = false};
    uint8_t passwd[ZK_PASSWD_BYTES] = {1, 2, 3};

    zk_encode_connect(&bench->out, &connect, 0, 77, passwd);
    assert_int_equal(bench->out.len, 40);
    assert_true(slice_is_zero(slice_make(bench->out.data + 4, 16)));
    assert_int_equal(zk_load_int(bench->out.data + 20), ZK_PASSWD_BYTES);
    assert_true(slice_is_zero(slice_make(bench->out.data + 24, ZK_PASSWD_BYTES)));
}

/* ---- Errors ---- */

TEST(each_error_has_a_code_of_zookeeper_or_ends_the_connection)
{
    static const enum err ends[] = {
        ERR_OUTCOME_UNKNOWN, ERR_NOT_READY,       ERR_REPLICA_BEHIND,  ERR_CLOSED, ERR_IN_FLIGHT,
        ERR_SESSION_MOVED,   ERR_SESSION_EXPIRED, ERR_UNKNOWN_SESSION, ERR_BUSY,   ERR_FULL,
        ERR_NO_FILES};

    unsigned closed = 0;

    for (unsigned err = 0; err < ERR_COUNT; err++) {
        enum zk_code code = zk_error_code((enum err)err);

        closed += code == ZK_CLOSE;
        assert_true(code == ZK_CLOSE || code <= 0);
        /* Clients make these two by themselves. */
        assert_true(code != (enum zk_code) - 4 && code != (enum zk_code) - 7);
    }
    assert_int_equal(closed, sizeof(ends) / sizeof(ends[0]));
    for (unsigned i = 0; i < closed; i++) {
        assert_int_equal(zk_error_code(ends[i]), ZK_CLOSE);
        assert_true(strlen(zk_error_reason(ends[i])) > 0);
    }
    assert_string_equal(zk_error_reason(ERR_OUTCOME_UNKNOWN), "outcome_unknown");
}

TEST(errors_have_the_codes_that_clients_know)
{
    assert_int_equal(zk_error_code(ERR_OK), ZK_OK);
    assert_int_equal(zk_error_code(ERR_NO_NODE), ZK_NO_NODE);
    assert_int_equal(zk_error_code(ERR_NOT_READ_ONLY), ZK_NOT_READ_ONLY);
    assert_int_equal(zk_error_code(ERR_TOO_LARGE), ZK_BAD_ARGUMENTS);
    assert_int_equal(zk_error_code(ERR_DISK_FULL), ZK_SYSTEM_ERROR);
    assert_int_equal(zk_error_code(ERR_TREE_FULL), ZK_SYSTEM_ERROR);
    assert_int_equal(zk_error_code(ERR_QUOTA_EXCEEDED), ZK_QUOTA_EXCEEDED);
    assert_int_equal(zk_error_code(ERR_THROTTLED), ZK_THROTTLED);
    assert_int_equal(zk_error_code(ERR_FORMAT), ZK_MARSHALLING_ERROR);
    assert_int_equal(zk_error_code(ERR_UNIMPLEMENTED), ZK_UNIMPLEMENTED);
    assert_int_equal(zk_error_code(ERR_RUNTIME_INCONSISTENCY), ZK_RUNTIME_INCONSISTENCY);
}
