/* Requests of ZooKeeper's protocol: what they say, and bytes that are short, long, null or huge. */
#include "zk/encode.h"

#include "base/mem.h"
#include "server/op/acl.h"
#include "tests/lib/unit.h"
#include "tests/unit/zk_golden.h"

static const struct zk_limits limits = {
    .data_bytes_max = 1 << 20, .multi_bytes_max = 2 << 20, .multi_ops_max = 100};

enum {
    OTHER_BYTES = 64 << 10,
    WATCHES_BYTES = 4 << 20,
    HEAD = 8 /* xid and type in a body. */
};

struct bench {
    struct buf frame; /* Whole, with its length. */
    struct buf memory;
    struct zk_request request;
};

static void set_up(struct bench *bench)
{
    buf_init(&bench->frame, 8 << 20);
    buf_init(&bench->memory, 8 << 20);
}

static void tear_down(struct bench *bench)
{
    zk_request_release(&bench->request);
    buf_release(&bench->frame);
    buf_release(&bench->memory);
}

static bool decode(struct bench *bench)
{
    zk_request_release(&bench->request);
    buf_clear(&bench->memory);
    return zk_decode(&limits, slice_from(buf_slice(&bench->frame), ZK_INT_BYTES), &bench->memory,
                     &bench->request);
}

/* Decodes a recorded request. */
static const struct op_args *take(struct bench *bench, const char *name)
{
    const struct golden *golden = golden_find(name);

    assert_non_null(golden);
    buf_release(&bench->frame);
    golden_bytes(golden->request, &bench->frame);
    assert_true(decode(bench));
    return &bench->request.args;
}

static void begin(struct bench *bench, int32_t type)
{
    buf_clear(&bench->frame);
    zk_put_int(&bench->frame, 0);
    zk_put_int(&bench->frame, 1);
    zk_put_int(&bench->frame, type);
}

static void put_text(struct bench *bench, const char *text)
{
    zk_put_bytes(&bench->frame, slice_str(text));
}

static void put_entry(struct bench *bench, int32_t perms, const char *scheme, const char *id)
{
    zk_put_int(&bench->frame, perms);
    put_text(bench, scheme);
    put_text(bench, id);
}

static void assert_text(struct slice text, const char *wanted)
{
    assert_int_equal(text.len, strlen(wanted));
    assert_memory_equal(text.data, wanted, text.len);
}

/* ---- What requests say ---- */

TEST(a_create_has_its_path_data_and_mode, bench, set_up, tear_down)
{
    const struct op_args *args = take(bench, "create");
    struct slice open = slice_str("");

    assert_int_equal(bench->request.kind, ZK_GATE);
    assert_int_equal(bench->request.xid, 1);
    assert_int_equal(args->op, OP_CREATE);
    assert_text(args->path, "/a");
    assert_text(args->data, "d");
    assert_false(args->data_null || args->ephemeral || args->sequence || args->container);
    assert_true(args->has_acl && acl_standard(slice_str("open"), &open));
    assert_true(slice_eq(args->acl, open));
    assert_true(take(bench, "create_null")->data_null);
    assert_false(take(bench, "create_empty")->data_null);
    assert_true(take(bench, "create_ephemeral")->ephemeral);
    assert_true(take(bench, "create2_sequence")->sequence);
    args = take(bench, "create_both");
    assert_true(args->ephemeral && args->sequence);
    args = take(bench, "create_container");
    assert_true(args->container && !args->ephemeral && !args->sequence);
    args = take(bench, "create_ttl_sequence");
    assert_true(args->sequence && args->ttl_ms == (INT64_C(1) << 40) - 1);
    assert_int_equal(take(bench, "create_ttl")->ttl_ms, 3600000);
}

TEST(the_data_of_a_request_is_not_copied, bench, set_up, tear_down)
{
    const struct op_args *args = take(bench, "create");

    assert_true(args->data.data > bench->frame.data &&
                args->data.data < bench->frame.data + bench->frame.len);
}

TEST(writes_have_their_versions, bench, set_up, tear_down)
{
    const struct op_args *args = take(bench, "set");

    assert_int_equal(args->op, OP_SET);
    assert_true(args->has_version && args->version == -1 && !args->data_null);
    assert_text(args->data, "new");
    args = take(bench, "set_null");
    assert_true(args->has_version && args->version == 0 && args->data_null);
    args = take(bench, "delete_bad_version");
    assert_true(args->op == OP_DELETE && args->has_version && args->version == 9);
    args = take(bench, "set_acl");
    assert_true(args->op == OP_SETACL && args->has_aversion && args->aversion == 0);
}

TEST(an_acl_is_written_as_the_gate_reads_it, bench, set_up, tear_down)
{
    struct slice rest = take(bench, "set_acl")->acl;
    struct acl_entry entry;

    assert_true(acl_is_sound(rest));
    assert_true(acl_next(&rest, &entry));
    assert_int_equal(entry.perms, ACL_ALL);
    assert_text(entry.scheme, "world");
    assert_true(acl_next(&rest, &entry));
    assert_int_equal(entry.perms, ACL_READ | ACL_WRITE);
    assert_text(entry.scheme, "digest");
    assert_true(acl_next(&rest, &entry));
    assert_text(entry.id, "10.0.0.0/8");
    assert_int_equal(rest.len, 0);
}

TEST(reads_have_their_watch, bench, set_up, tear_down)
{
    const struct op_args *args = take(bench, "exists");

    assert_int_equal(bench->request.kind, ZK_READ);
    assert_true(args->op == OP_EXISTS && !args->watch);
    args = take(bench, "exists_watch");
    assert_true(args->op == OP_EXISTS && args->watch);
    assert_int_equal(take(bench, "get")->op, OP_GET);
    assert_int_equal(take(bench, "get_acl")->op, OP_GETACL);
    args = take(bench, "children_watch");
    assert_true(args->op == OP_CHILDREN && args->watch && args->with == OP_WITH_NAMES);
    assert_int_equal(take(bench, "children2")->op, OP_CHILDREN);
    assert_text(take(bench, "path_get_empty")->path, "/");
}

TEST(what_the_front_end_does_has_its_fields, bench, set_up, tear_down)
{
    struct slice path;

    (void)take(bench, "sync");
    assert_true(bench->request.kind == ZK_GATE && bench->request.args.op == OP_SYNC);
    assert_text(bench->request.path, "/a");
    (void)take(bench, "ping");
    assert_true(bench->request.kind == ZK_FRONT && bench->request.xid == ZK_XID_PING);
    (void)take(bench, "auth");
    assert_int_equal(bench->request.xid, ZK_XID_AUTH);
    assert_text(bench->request.scheme, "digest");
    assert_text(bench->request.credential, "paul:pw");
    (void)take(bench, "add_watch_recursive");
    assert_true(bench->request.kind == ZK_FRONT && bench->request.mode == ZK_ADD_RECURSIVE);
    assert_text(bench->request.path, "/r");
    (void)take(bench, "remove_watches");
    assert_int_equal(bench->request.mode, ZK_WATCHES_ANY);
    (void)take(bench, "ephemerals");
    assert_text(bench->request.path, "/");
    (void)take(bench, "close");
    assert_true(bench->request.kind == ZK_FRONT && bench->request.type == ZK_CLOSE_SESSION);
    (void)take(bench, "set_watches");
    assert_int_equal(bench->request.since, INT64_C(1) << 40);
    assert_int_equal(bench->request.list_paths, 4);
    assert_int_equal(bench->request.lists[ZK_LIST_DATA].count, 1);
    assert_true(zk_paths_next(&bench->request.lists[ZK_LIST_EXISTS], &path));
    assert_text(path, "/later");
    assert_true(zk_paths_next(&bench->request.lists[ZK_LIST_EXISTS], &path));
    assert_text(path, "/later2");
    assert_false(zk_paths_next(&bench->request.lists[ZK_LIST_EXISTS], &path));
    (void)take(bench, "set_watches2");
    assert_int_equal(bench->request.lists[ZK_LIST_RECURSIVE].count, 1);
}

TEST(a_multi_has_its_elements_and_the_types_of_their_results, bench, set_up, tear_down)
{
    static const int8_t types[] = {ZK_CREATE, ZK_CREATE,   ZK_CREATE2, ZK_CREATE2,
                                   ZK_CREATE, ZK_SET_DATA, ZK_CHECK,   ZK_DELETE};
    const struct op_args *args = take(bench, "multi");

    assert_int_equal(bench->request.kind, ZK_GATE);
    assert_int_equal(args->op, OP_MULTI);
    assert_int_equal(args->op_count, sizeof(types));
    assert_memory_equal(bench->request.types, types, sizeof(types));
    assert_text(args->ops[4].path, "/m1/s-");
    assert_true(args->ops[6].has_version && args->ops[6].version == 1);
    (void)take(bench, "multi_read");
    assert_int_equal(bench->request.kind, ZK_READ);
    assert_int_equal(bench->request.args.ops[1].op, OP_CHILDREN);
    (void)take(bench, "multi_read_illegal");
    assert_int_equal(bench->request.types[0], ZK_ERROR);
    assert_int_equal(bench->request.types[1], ZK_GET_DATA);
    assert_false(bench->request.args.ops[1].watch);
    (void)take(bench, "multi_bad_path");
    assert_true(bench->request.kind == ZK_DECIDED && bench->request.op_count == 3 &&
                bench->request.failed == 1 && bench->request.code == ZK_BAD_ARGUMENTS);
}

/* ---- Hostile bytes ---- */

/* Whatever is missing, there is an answer, or none because the header is missing. */
TEST(a_request_may_end_at_each_byte, bench, set_up, tear_down)
{
    for (size_t i = 0; i < GOLDENS; i++) {
        struct buf whole;

        golden_bytes(goldens[i].request, &whole);
        for (size_t len = ZK_INT_BYTES; len < whole.len; len++) {
            /* Memory of its exact size, so that the sanitizer sees each byte beyond. */
            uint8_t *bytes = mem_dup(whole.data + ZK_INT_BYTES, len - ZK_INT_BYTES + 1);
            struct slice body = slice_make(bytes, len - ZK_INT_BYTES);
            struct zk_connect connect;

            buf_clear(&bench->memory);
            (void)zk_decode_connect(body, &connect);
            if (zk_decode(&limits, body, &bench->memory, &bench->request)) {
                assert_true(body.len >= HEAD);
            } else {
                assert_true(body.len < HEAD);
            }
            zk_request_release(&bench->request);
            mem_free(bytes);
        }
        buf_release(&whole);
    }
}

TEST(a_malformed_auth_or_sasl_ends_the_connection_without_a_reply, bench, set_up, tear_down)
{
    static const char *const names[] = {"auth_short", "sasl_short", "sasl_null"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)take(bench, names[i]);
        assert_true(bench->request.kind == ZK_DECIDED && bench->request.closes);
        assert_int_equal(bench->request.code, ZK_CLOSE);
        buf_clear(&bench->memory);
        zk_encode_decided(&bench->memory, &bench->request, 5);
        assert_int_equal(bench->memory.len, 0);
    }
}

/* A prefix of a create, which has no field that may be left out, is never a create. */
TEST(a_record_that_is_cut_is_malformed, bench, set_up, tear_down)
{
    static const char *const names[] = {"create", "set_acl", "multi", "set_watches2", "delete"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)take(bench, names[i]);
        for (size_t whole = bench->frame.len; bench->frame.len > ZK_INT_BYTES + HEAD;) {
            bench->frame.len--;
            assert_true(decode(bench) && bench->frame.len < whole);
            assert_int_equal(bench->request.kind, ZK_DECIDED);
            assert_int_equal(bench->request.code, ZK_MARSHALLING_ERROR);
            assert_false(bench->request.closes);
        }
    }
}

TEST(bytes_behind_a_record_are_ignored, bench, set_up, tear_down)
{
    (void)take(bench, "create");
    buf_append_str(&bench->frame, "more");
    assert_true(decode(bench));
    assert_int_equal(bench->request.kind, ZK_GATE);
}

TEST(counts_beyond_the_bytes_reserve_nothing, bench, set_up, tear_down)
{
    begin(bench, ZK_CREATE);
    put_text(bench, "/p");
    put_text(bench, "d");
    zk_put_int(&bench->frame, INT32_MAX);
    assert_true(decode(bench));
    assert_int_equal(bench->request.code, ZK_MARSHALLING_ERROR);
    assert_int_equal(bench->memory.cap, 0);
    (void)take(bench, "set_watches_huge");
    assert_int_equal(bench->request.code, ZK_MARSHALLING_ERROR);
}

/* Puts a setACL with `count` entries whose ids have `id_bytes` bytes. */
static void put_set_acl(struct bench *bench, int32_t count, size_t id_bytes)
{
    begin(bench, ZK_SET_ACL);
    put_text(bench, "/p");
    zk_put_int(&bench->frame, count);
    for (int32_t i = 0; i < count; i++) {
        zk_put_int(&bench->frame, 1);
        put_text(bench, "ip");
        zk_put_int(&bench->frame, (int32_t)id_bytes);
        memset(buf_reserve(&bench->frame, id_bytes), 'x', id_bytes);
        bench->frame.len += id_bytes;
    }
    zk_put_int(&bench->frame, -1);
}

TEST(a_list_of_rights_that_is_too_large_becomes_one_that_the_leader_refuses, bench, set_up,
     tear_down)
{
    const struct {
        int32_t count;
        size_t id_bytes;
        bool fits;
    } lists[] = {{ACL_ENTRIES_MAX, 10, true},
                 {ACL_ENTRIES_MAX + 1, 10, false},
                 {1, 4096, true},
                 {1, 4097, false},
                 {3, 4096, true},
                 {4, 4096, false}};

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        put_set_acl(bench, lists[i].count, lists[i].id_bytes);
        assert_true(decode(bench));
        assert_int_equal(bench->request.kind, ZK_GATE);
        assert_true(bench->request.args.has_acl);
        assert_int_equal(bench->request.args.acl.len > 0, lists[i].fits);
        assert_true(acl_is_sound(bench->request.args.acl));
        assert_true(bench->memory.len <= bench->frame.len);
    }
}

/* Nothing is written for an entry that is not there: the room in memory is that of the bytes left.
 */
TEST(an_entry_that_is_missing_takes_no_memory, bench, set_up, tear_down)
{
    size_t entry_bytes = 0;

    begin(bench, ZK_SET_ACL);
    put_text(bench, "/p");
    zk_put_int(&bench->frame, 2);
    entry_bytes = bench->frame.len;
    put_entry(bench, 1, "digest", "a name that is as long as another entry would be");
    entry_bytes = bench->frame.len - entry_bytes;
    assert_true(decode(bench));
    assert_int_equal(bench->request.code, ZK_MARSHALLING_ERROR);
    assert_true(bench->memory.len <= entry_bytes);
}

TEST(perms_that_do_not_exist_become_none, bench, set_up, tear_down)
{
    static const int32_t perms[] = {0, 32, 64, -1, INT32_MIN, INT32_MAX};

    for (size_t i = 0; i < sizeof(perms) / sizeof(perms[0]); i++) {
        struct acl_entry entry;

        begin(bench, ZK_SET_ACL);
        put_text(bench, "/p");
        zk_put_int(&bench->frame, 1);
        put_entry(bench, perms[i], "world", "anyone");
        zk_put_int(&bench->frame, -1);
        assert_true(decode(bench));

        struct slice rest = bench->request.args.acl;

        assert_true(acl_next(&rest, &entry) && entry.perms == 0);
    }
}

/* The slices of the first ACL stay where they are while more are written. */
TEST(acls_of_a_multi_stay_in_place, bench, set_up, tear_down)
{
    enum {
        COUNT = 90
    };

    begin(bench, ZK_MULTI);
    for (int i = 0; i < COUNT; i++) {
        zk_put_int(&bench->frame, ZK_CREATE);
        zk_put_bool(&bench->frame, false);
        zk_put_int(&bench->frame, -1);
        put_text(bench, "/p");
        put_text(bench, "");
        zk_put_int(&bench->frame, 1);
        put_entry(bench, 1 + i % ACL_ALL, "ip", "10.1.2.3");
        zk_put_int(&bench->frame, 0);
    }
    zk_put_int(&bench->frame, -1);
    zk_put_bool(&bench->frame, true);
    zk_put_int(&bench->frame, -1);
    assert_true(decode(bench));
    assert_int_equal(bench->request.args.op_count, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        struct slice rest = bench->request.args.ops[i].acl;
        struct acl_entry entry;

        assert_true(acl_next(&rest, &entry) && rest.len == 0);
        assert_int_equal(entry.perms, 1 + i % ACL_ALL);
        assert_text(entry.id, "10.1.2.3");
    }
}

static void put_deletes(struct bench *bench, uint32_t count)
{
    begin(bench, ZK_MULTI);
    for (uint32_t i = 0; i < count; i++) {
        zk_put_int(&bench->frame, ZK_DELETE);
        zk_put_bool(&bench->frame, false);
        zk_put_int(&bench->frame, -1);
        put_text(bench, "/p");
        zk_put_int(&bench->frame, -1);
    }
    zk_put_int(&bench->frame, -1);
    zk_put_bool(&bench->frame, true);
    zk_put_int(&bench->frame, -1);
}

TEST(a_multi_with_too_many_elements_is_refused_as_a_whole, bench, set_up, tear_down)
{
    put_deletes(bench, limits.multi_ops_max);
    assert_true(decode(bench) && bench->request.kind == ZK_GATE);
    put_deletes(bench, limits.multi_ops_max + 1);
    assert_true(decode(bench) && bench->request.kind == ZK_DECIDED);
    assert_int_equal(bench->request.code, ZK_THROTTLED);
    assert_int_equal(bench->request.op_count, 0);
}

TEST(a_check_alone_and_requests_of_the_leader_are_unknown, bench, set_up, tear_down)
{
    static const int32_t types[] = {ZK_CHECK, ZK_CREATE_SESSION, 0, 10, 108, INT32_MIN, INT32_MAX};

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        begin(bench, types[i]);
        put_text(bench, "/p");
        zk_put_int(&bench->frame, -1);
        assert_true(decode(bench));
        assert_true(bench->request.kind == ZK_DECIDED && bench->request.closes);
        assert_int_equal(bench->request.code, ZK_UNIMPLEMENTED);
    }
}

TEST(a_create_by_flag_4_makes_a_container_and_never_a_sequence, bench, set_up, tear_down)
{
    static const struct {
        int32_t type;
        int32_t flags;
        bool good;
    } modes[] = {{ZK_CREATE, 4, true},
                 {ZK_CREATE2, 4, true},
                 {ZK_CREATE_CONTAINER, 0, true},
                 {ZK_CREATE_CONTAINER, 1, true},
                 {ZK_CREATE_CONTAINER, 2, false}};

    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        begin(bench, modes[i].type);
        put_text(bench, "/p");
        put_text(bench, "");
        zk_put_int(&bench->frame, 1);
        put_entry(bench, ACL_ALL, "world", "anyone");
        zk_put_int(&bench->frame, modes[i].flags);
        assert_true(decode(bench));
        assert_int_equal(bench->request.kind, modes[i].good ? ZK_GATE : ZK_DECIDED);
        if (modes[i].good) {
            assert_true(bench->request.args.container && !bench->request.args.ephemeral);
        }
    }
}

/* ---- Frames ---- */

static enum zk_frame judge(int32_t len, int32_t type, size_t arrived, bool hello)
{
    uint8_t head[ZK_HEAD_BYTES];
    size_t bytes = 1;

    zk_store_int(head, len);
    zk_store_int(head + 4, 7);
    zk_store_int(head + 8, type);

    enum zk_frame frame = zk_frame_judge(&limits, slice_make(head, arrived), hello, &bytes);

    assert_int_equal(bytes, frame == ZK_FRAME_GOOD ? (size_t)len + ZK_INT_BYTES : 0);
    return frame;
}

static void check_most(int32_t type, size_t most)
{
    assert_int_equal(judge((int32_t)most, type, ZK_HEAD_BYTES, false), ZK_FRAME_GOOD);
    assert_int_equal(judge((int32_t)most + 1, type, ZK_HEAD_BYTES, false), ZK_FRAME_BAD);
}

TEST(a_frame_has_the_bound_of_its_type)
{
    static const int32_t bad[] = {-1, INT32_MIN, INT32_MAX, 0, 4, 7};

    check_most(ZK_MULTI, limits.multi_bytes_max);
    check_most(ZK_MULTI_READ, limits.multi_bytes_max);
    check_most(ZK_SET_WATCHES, WATCHES_BYTES);
    check_most(ZK_SET_WATCHES2, WATCHES_BYTES);
    check_most(ZK_CREATE, limits.data_bytes_max + OTHER_BYTES);
    check_most(12345, limits.data_bytes_max + OTHER_BYTES);
    assert_int_equal(judge(HEAD, ZK_PING, ZK_HEAD_BYTES, false), ZK_FRAME_GOOD);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) { /* Known by the length alone. */
        assert_int_equal(judge(bad[i], ZK_PING, ZK_INT_BYTES, false), ZK_FRAME_BAD);
        assert_int_equal(judge(bad[i], ZK_PING, ZK_INT_BYTES, true), ZK_FRAME_BAD);
    }
    for (size_t arrived = 0; arrived < ZK_HEAD_BYTES; arrived++) {
        assert_int_equal(judge(100, ZK_CREATE, arrived, false), ZK_FRAME_SHORT);
    }
}

TEST(the_first_frame_is_judged_by_its_length)
{
    assert_int_equal(judge(45, 0, 3, true), ZK_FRAME_SHORT);
    assert_int_equal(judge(45, 0, ZK_INT_BYTES, true), ZK_FRAME_GOOD);
    assert_int_equal(judge(27, 0, ZK_INT_BYTES, true), ZK_FRAME_BAD);
    assert_int_equal(judge(28, 0, ZK_INT_BYTES, true), ZK_FRAME_GOOD);
    assert_int_equal(judge(1024, 0, ZK_INT_BYTES, true), ZK_FRAME_GOOD);
    assert_int_equal(judge(1025, 0, ZK_INT_BYTES, true), ZK_FRAME_BAD);
}

TEST(the_first_frame_may_leave_read_only_out, bench, set_up, tear_down)
{
    struct zk_connect connect;
    struct slice body;

    golden_bytes(golden_find("connect_take_over")->request, &bench->frame);
    body = slice_from(buf_slice(&bench->frame), ZK_INT_BYTES);
    assert_true(zk_decode_connect(body, &connect));
    assert_true(connect.has_read_only && !connect.read_only);
    assert_int_equal(connect.timeout_ms, 30000);
    assert_true(connect.session == UINT64_C(0x0100000000000007));
    assert_int_equal(connect.passwd.len, ZK_PASSWD_BYTES);
    assert_int_equal(connect.passwd.data[1], 0x11);
    bench->frame.data[bench->frame.len - 1] = 2;
    assert_true(zk_decode_connect(body, &connect) && connect.read_only);
    body.len--;
    assert_true(zk_decode_connect(body, &connect));
    assert_false(connect.has_read_only);
    body.len--;
    assert_false(zk_decode_connect(body, &connect));
}
