/* The forwarded form: it comes out as it went in, and hostile bytes do no harm. */
#include "base/mem.h"
#include "server/op/acl.h"
#include "server/op/change.h"
#include "server/op/ops.h"
#include "tests/lib/draw.h"
#include "tests/lib/unit.h"

enum {
    ROUNDS = 3000
};

static void init_args(struct op_args *args, enum op_id op, const char *path)
{
    op_args_init(args, op);
    args->path = slice_str(path);
}

static void assert_slice_equal(struct slice a, struct slice b)
{
    assert_true(slice_eq(a, b));
}

TEST(all_fields_of_a_write_arrive)
{
    struct op_args args;
    struct op_args got;
    struct op_args *multi = NULL;
    struct buf bytes;

    init_args(&args, OP_SET, "/a/b");
    args.data = slice_str("data");
    args.has_version = true;
    args.version = -1;
    args.has_etag = true;
    args.etag_czxid = UINT64_C(0x0000000500000012);
    args.etag_version = 7;
    args.has_czxid = true;
    args.czxid = UINT64_C(0x0000000500000013);
    buf_init(&bytes, 1 << 20);
    op_args_encode(&args, &bytes);
    assert_int_equal(op_args_decode(buf_slice(&bytes), &got, &multi), ERR_OK);
    assert_null(multi);
    assert_int_equal(got.op, OP_SET);
    assert_slice_equal(got.path, args.path);
    assert_slice_equal(got.data, args.data);
    assert_true(got.has_version && got.version == -1 && got.has_etag && !got.must_exist);
    assert_true(got.etag_czxid == args.etag_czxid && got.etag_version == 7);
    assert_true(got.has_czxid && got.czxid == args.czxid);
    buf_clear(&bytes);
    init_args(&args, OP_CREATE, "/q/");
    args.sequence = true;
    args.ttl_ms = INT64_C(1099511627775);
    args.parents = true;
    args.data_null = true;
    op_args_encode(&args, &bytes);
    assert_int_equal(op_args_decode(buf_slice(&bytes), &got, &multi), ERR_OK);
    assert_true(got.sequence && got.parents && got.data_null && !got.container);
    assert_int_equal(got.ttl_ms, args.ttl_ms);
    buf_clear(&bytes);
    init_args(&args, OP_DELETE, "/q");
    args.recursive = true;
    args.max = 12;
    args.must_exist = true;
    op_args_encode(&args, &bytes);
    assert_int_equal(op_args_decode(buf_slice(&bytes), &got, &multi), ERR_OK);
    assert_true(got.recursive && got.max == 12 && got.must_exist && !got.has_version);
    buf_clear(&bytes);
    init_args(&args, OP_LEVEL, "");
    args.has_hold = true; /* And 0: it is released. */
    op_args_encode(&args, &bytes);
    assert_int_equal(op_args_decode(buf_slice(&bytes), &got, &multi), ERR_OK);
    assert_true(got.has_hold && got.hold == 0 && got.raise == 0 && !got.force);
    buf_release(&bytes);
}

/* The hash of a session's secret is forwarded; the secret stays at the replica that serves the
 * client. */
TEST(all_fields_of_a_change_of_the_members_arrive)
{
    struct op_args args;
    struct op_args got;
    struct op_args *multi = NULL;
    struct buf bytes;
    uint8_t ids[2 * OP_ID_BYTES];

    buf_init(&bytes, 1 << 16);
    init_args(&args, OP_MEMBER_ADD, "");
    args.member = 65535;
    args.has_peer = true;
    args.peer = slice_str("zk4:10998");
    args.has_zone = true;
    args.zone = slice_str("b");
    args.auto_promote = true;
    args.dry_run = true;
    args.has_etag = true;
    args.etag_czxid = UINT64_C(0x500000012);
    op_args_encode(&args, &bytes);
    assert_int_equal(op_args_decode(buf_slice(&bytes), &got, &multi), ERR_OK);
    assert_int_equal(got.member, 65535);
    assert_slice_equal(got.peer, args.peer);
    assert_true(got.has_zone && !got.has_client && got.auto_promote && got.dry_run);
    assert_true(got.has_etag && got.etag_czxid == args.etag_czxid);
    buf_clear(&bytes);
    init_args(&args, OP_MEMBER_SET, "");
    args.member = 3;
    args.role = OP_ROLE_OBSERVER;
    args.has_tolerance = true;
    args.force = true;
    op_args_encode(&args, &bytes);
    assert_int_equal(op_args_decode(buf_slice(&bytes), &got, &multi), ERR_OK);
    assert_true(got.role == OP_ROLE_OBSERVER && got.has_tolerance && got.force && !got.dry_run);
    buf_clear(&bytes);
    init_args(&args, OP_MEMBERS_CHANGE, "");
    op_ids_put(ids, 0, 7);
    op_ids_put(ids, 1, 8);
    args.promote = slice_make(ids, sizeof(ids));
    op_args_encode(&args, &bytes);
    assert_int_equal(op_args_decode(buf_slice(&bytes), &got, &multi), ERR_OK);
    assert_int_equal(op_ids_at(got.promote, 1), 8);
    assert_int_equal(got.remove.len, 0);
    /* What no front end would send is malformed. */
    op_ids_put(ids, 1, 7);
    buf_clear(&bytes);
    op_args_encode(&args, &bytes);
    assert_int_equal(op_args_decode(buf_slice(&bytes), &got, &multi), ERR_FORMAT);
    buf_release(&bytes);
}

TEST(the_answer_to_a_change_of_the_members_arrives)
{
    struct op_result result;
    struct op_result got;
    struct buf bytes;

    op_result_init(&result);
    op_result_init(&got);
    result.has_change = true;
    result.change = blob_new(slice_str("the answer"));
    buf_init(&bytes, 4096);
    op_result_encode(&result, &bytes);
    assert_int_equal(op_result_decode(buf_slice(&bytes), &got), ERR_OK);
    assert_true(got.has_change);
    assert_slice_equal(blob_slice(got.change), slice_str("the answer"));
    op_result_release(&got);
    for (size_t len = 0; len < bytes.len; len++) {
        assert_int_equal(op_result_decode(slice_make(bytes.data, len), &got), ERR_FORMAT);
    }
    op_result_release(&result);
    buf_release(&bytes);
}

/* A release without reasons reads the detail alone: it takes a NUL for the end of the text. */
TEST(a_reason_is_hidden_from_earlier_releases)
{
    struct op_result result;
    struct op_result got;
    struct buf with;
    struct buf without;

    op_result_init(&result);
    op_result_init(&got);
    result.err = ERR_CHANGE_REFUSED;
    result.detail = "the sentence";
    buf_init(&with, 4096);
    buf_init(&without, 4096);
    op_result_encode(&result, &without);
    result.reason = "IdInUse";
    op_result_encode(&result, &with);
    assert_int_equal(with.len, without.len + 1 + strlen("IdInUse"));
    assert_int_equal(op_result_decode(buf_slice(&with), &got), ERR_OK);
    assert_string_equal(got.detail, "the sentence");
    assert_string_equal(got.reason, "IdInUse");
    op_result_release(&got);
    assert_int_equal(op_result_decode(buf_slice(&without), &got), ERR_OK);
    assert_string_equal(got.detail, "the sentence");
    assert_null(got.reason);
    op_result_release(&got);
    buf_release(&with);
    buf_release(&without);
}

TEST(a_secret_stays_and_its_hash_arrives)
{
    const char *secret = "0189abcd-1234-4abc-89ab-0123456789ab";
    uint8_t hash[TXN_SECRET_HASH_LEN];
    struct op_args args;
    struct op_args got;
    struct op_args *multi = NULL;
    struct buf bytes;

    op_args_init(&args, OP_SESSION);
    args.timeout_ms = 15000;
    args.secret = slice_str(secret);
    op_args_hash_secret(&args, hash);
    buf_init(&bytes, 1 << 20);
    op_args_encode(&args, &bytes);
    assert_null(memmem(bytes.data, bytes.len, secret, strlen(secret)));
    assert_int_equal(op_args_decode(buf_slice(&bytes), &got, &multi), ERR_OK);
    assert_slice_equal(got.secret_hash, args.secret_hash);
    assert_true(got.timeout_ms == 15000 && got.secret.len == 0);
    bytes.len--;
    assert_int_equal(op_args_decode(buf_slice(&bytes), &got, &multi), ERR_FORMAT);
    buf_release(&bytes);
}

TEST(an_acl_arrives_as_it_was_written)
{
    struct op_args args;
    struct op_args got;
    struct op_args *multi = NULL;
    struct buf bytes;

    init_args(&args, OP_SETACL, "/a");
    args.has_acl = acl_standard(slice_str("creator"), &args.acl);
    args.has_aversion = true;
    args.aversion = 7;
    args.has_etag = true;
    args.etag_czxid = 0x100000009;
    args.etag_version = 7;
    buf_init(&bytes, 1 << 20);
    op_args_encode(&args, &bytes);
    assert_int_equal(op_args_decode(buf_slice(&bytes), &got, &multi), ERR_OK);
    assert_true(got.has_acl && got.has_aversion && got.aversion == 7);
    assert_true(got.has_etag && got.etag_czxid == 0x100000009 && got.etag_version == 7);
    assert_slice_equal(got.acl, args.acl);
    buf_clear(&bytes);
    args.has_acl = false; /* There is nothing to set. */
    op_args_encode(&args, &bytes);
    assert_int_equal(op_args_decode(buf_slice(&bytes), &got, &multi), ERR_FORMAT);
    buf_release(&bytes);
}

static void make_multi(struct op_args *multi, struct op_args items[3], struct buf *bytes)
{
    init_args(&items[0], OP_CREATE, "/m");
    items[0].data = slice_str("one");
    init_args(&items[1], OP_CHECK, "/n");
    items[1].has_version = true;
    items[1].version = 4;
    init_args(&items[2], OP_DELETE, "/o");
    *multi = (struct op_args){.op = OP_MULTI, .ops = items, .op_count = 3};
    buf_clear(bytes);
    op_args_encode(multi, bytes);
}

TEST(a_multi_arrives_with_its_elements)
{
    struct op_args items[3];
    struct op_args args;
    struct op_args got;
    struct op_args *multi = NULL;
    struct buf bytes;

    buf_init(&bytes, 1 << 20);
    make_multi(&args, items, &bytes);
    assert_int_equal(op_args_decode(buf_slice(&bytes), &got, &multi), ERR_OK);
    assert_ptr_equal(got.ops, multi);
    assert_int_equal(got.op_count, 3);
    assert_slice_equal(multi[0].data, slice_str("one"));
    assert_int_equal(multi[1].version, 4);
    assert_int_equal(multi[2].op, OP_DELETE);
    mem_free(multi);
    buf_release(&bytes);
}

TEST(each_cut_of_the_bytes_is_malformed)
{
    struct op_args items[3];
    struct op_args args;
    struct op_args got;
    struct op_args *multi = NULL;
    struct buf bytes;

    buf_init(&bytes, 1 << 20);
    make_multi(&args, items, &bytes);
    for (size_t len = 0; len < bytes.len; len++) {
        assert_int_not_equal(op_args_decode(slice_make(bytes.data, len), &got, &multi), ERR_OK);
        assert_null(multi);
    }
    buf_append_byte(&bytes, 0);
    assert_int_not_equal(op_args_decode(buf_slice(&bytes), &got, &multi), ERR_OK);
    buf_release(&bytes);
}

/* Random changes give either arguments that pass all checks or an error; the sanitizers watch. */
TEST(changed_bytes_do_no_harm)
{
    struct op_args items[3];
    struct op_args args;
    struct buf bytes;
    struct rng rng;
    const char *why = NULL;

    rng_init(&rng, 7);
    buf_init(&bytes, 1 << 20);
    for (int round = 0; round < ROUNDS; round++) {
        struct op_args got;
        struct op_args *multi = NULL;

        make_multi(&args, items, &bytes);
        for (uint64_t n = rng_range(&rng, 1, 4); n > 0; n--) {
            bytes.data[rng_below(&rng, bytes.len)] = (uint8_t)rng_u64(&rng);
        }
        if (op_args_decode(buf_slice(&bytes), &got, &multi) == ERR_OK) {
            assert_int_equal(op_args_check(&got, &why), ERR_OK);
        }
        mem_free(multi);
    }
    buf_release(&bytes);
}

TEST(a_hostile_count_allocates_nothing)
{
    const uint8_t bytes[] = {1, OP_MULTI, 0xff, 0xff, 0xff, 0xff};
    struct op_args got;
    struct op_args *multi = NULL;

    assert_int_equal(op_args_decode(slice_make(bytes, sizeof(bytes)), &got, &multi), ERR_FORMAT);
    assert_null(multi);
}

TEST(an_error_arrives_with_its_detail_and_stat)
{
    struct op_result result;
    struct op_result got;
    struct buf bytes;

    op_result_init(&result);
    op_result_init(&got);
    buf_init(&bytes, 1 << 20);
    result.err = ERR_BAD_VERSION;
    result.detail = "a sentence that says more";
    result.zxid = UINT64_C(0x0000000300000004);
    result.has_stat = true;
    result.stat = (struct stat_view){.czxid = 5, .version = -2, .num_children = 9, .ctime = -1};
    op_result_encode(&result, &bytes);
    assert_int_equal(op_result_decode(buf_slice(&bytes), &got), ERR_OK);
    assert_int_equal(got.err, ERR_BAD_VERSION);
    assert_string_equal(got.detail, result.detail);
    assert_true(got.zxid == result.zxid && got.has_stat && got.stat.version == -2);
    assert_true(got.stat.czxid == 5 && got.stat.num_children == 9 && got.stat.ctime == -1);
    op_result_release(&got);
    buf_release(&bytes);
    op_result_release(&result);
}

TEST(results_of_a_multi_arrive_and_cuts_are_malformed)
{
    struct op_result result;
    struct op_result got;
    struct buf bytes;

    op_result_init(&result);
    buf_init(&bytes, 1 << 20);
    result.err = ERR_NO_NODE;
    result.failed_index = 1;
    result.result_count = 2;
    result.results = mem_zalloc(2, sizeof(*result.results));
    op_result_init(&result.results[0]);
    op_result_init(&result.results[1]);
    result.results[0].err = ERR_RUNTIME_INCONSISTENCY;
    result.results[1].err = ERR_NO_NODE;
    result.results[1].detail = "not there";
    op_result_encode(&result, &bytes);
    op_result_init(&got);
    assert_int_equal(op_result_decode(buf_slice(&bytes), &got), ERR_OK);
    assert_int_equal(got.failed_index, 1);
    assert_int_equal(got.result_count, 2);
    assert_string_equal(got.results[1].detail, "not there");
    op_result_release(&got);
    for (size_t len = 0; len < bytes.len; len++) {
        op_result_init(&got);
        assert_int_equal(op_result_decode(slice_make(bytes.data, len), &got), ERR_FORMAT);
        op_result_release(&got);
    }
    buf_release(&bytes);
    op_result_release(&result);
}

TEST(all_parts_of_an_answer_arrive)
{
    struct op_result result;
    struct op_result got;
    struct op_result element;
    struct buf bytes;
    struct buf again;

    op_result_init(&result);
    buf_init(&bytes, 1 << 20);
    result.detail = "why";
    result.path = slice_str("/a/q-0000000003");
    result.created = true;
    result.replayed = true;
    result.has_acl = true;
    result.acl = blob_new(slice_str("any bytes"));
    result.has_session = true;
    result.session = (struct op_session_info){.id = 7,
                                              .timeout_ms = 8,
                                              .attach = 9,
                                              .member = 10,
                                              .opened_ms = 11,
                                              .ephemeral_count = 12,
                                              .ephemeral_bytes = 13};
    element = (struct op_result){.path = slice_str("/b"), .has_acl = true};
    result.results = &element;
    result.result_count = 1;
    op_result_encode(&result, &bytes);
    for (size_t len = 0; len < bytes.len; len++) {
        op_result_init(&got);
        assert_int_equal(op_result_decode(slice_make(bytes.data, len), &got), ERR_FORMAT);
        op_result_release(&got);
    }
    op_result_init(&got);
    assert_int_equal(op_result_decode(buf_slice(&bytes), &got), ERR_OK);
    assert_string_equal(got.detail, "why");
    assert_true(slice_eq(got.path, result.path));
    assert_true(got.created && got.replayed && !got.has_stat && got.has_acl && got.has_session);
    assert_true(slice_eq(blob_slice(got.acl), slice_str("any bytes")));
    assert_true(got.session.id == 7 && got.session.ephemeral_bytes == 13);
    assert_int_equal(got.result_count, 1);
    assert_true(slice_eq(got.results[0].path, slice_str("/b")));
    assert_true(got.results[0].has_acl && got.results[0].acl == NULL && !got.results[0].created);
    buf_init(&again, 1 << 20);
    op_result_encode(&got, &again);
    assert_true(slice_eq(buf_slice(&again), buf_slice(&bytes)));
    buf_release(&again);
    op_result_release(&got);
    result.results = NULL;
    result.result_count = 0;
    op_result_release(&result);
    buf_release(&bytes);
}

TEST(an_unknown_error_is_an_error)
{
    struct op_result result;
    struct op_result got;
    struct buf bytes;
    uint8_t *symbol = NULL;

    op_result_init(&result);
    op_result_init(&got);
    buf_init(&bytes, 1 << 20);
    result.err = ERR_NOT_EMPTY;
    op_result_encode(&result, &bytes);
    symbol = memmem(bytes.data, bytes.len, "NOT_EMPTY", 9);
    assert_non_null(symbol);
    symbol[0] = 'X';
    assert_int_equal(op_result_decode(buf_slice(&bytes), &got), ERR_OK);
    assert_int_equal(got.err, ERR_SYSTEM_ERROR);
    op_result_release(&got);
    buf_release(&bytes);
    op_result_release(&result);
}
