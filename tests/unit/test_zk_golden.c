/*
 * Frames of a real ZooKeeper (tests/zk/record.py): each request is understood, and the values in
 * each reply are encoded to the same bytes again.
 */
#include "zk/encode.h"

#include "tests/lib/unit.h"
#include "tests/lib/zk_reply.h"
#include "tests/unit/zk_golden.h"

static const struct zk_limits limits = {
    .data_bytes_max = 1 << 20, .multi_bytes_max = 4 << 20, .multi_ops_max = 1000};

/* Identities of a client: ZooKeeper lists them in the order of a hash table. */
static const char other_order[] = "identities_paul";

struct seen {
    struct buf request;
    struct buf reply;
    struct buf memory;
    struct buf out;
};

static void open_seen(struct seen *seen, const struct golden *golden)
{
    golden_bytes(golden->request, &seen->request);
    golden_bytes(golden->reply, &seen->reply);
    buf_init(&seen->memory, GOLDEN_BYTES_MAX);
    buf_init(&seen->out, GOLDEN_BYTES_MAX);
}

static void close_seen(struct seen *seen)
{
    buf_release(&seen->request);
    buf_release(&seen->reply);
    buf_release(&seen->memory);
    buf_release(&seen->out);
}

static void check_same(const struct golden *golden, const struct seen *seen)
{
    if (!slice_eq(buf_slice(&seen->out), buf_slice(&seen->reply)) &&
        strcmp(golden->name, other_order) != 0) {
        fail_msg("%s: the reply differs", golden->name);
    }
    assert_int_equal(seen->out.len, seen->reply.len);
}

static bool starts(const struct golden *golden, const char *prefix)
{
    return strncmp(golden->name, prefix, strlen(prefix)) == 0;
}

static void answer_front(struct seen *seen, const struct zk_request *request,
                         const struct zk_reply *reply)
{
    if (reply->code != ZK_OK) {
        zk_encode_code(&seen->out, request->xid, reply->zxid, (enum zk_code)reply->code);
    } else if (reply->has_number) {
        zk_encode_number(&seen->out, request->xid, reply->zxid, reply->number);
    } else if (request->type == ZK_GET_EPHEMERALS) {
        struct buf paths;

        buf_init(&paths, SIZE_MAX / 2);
        for (uint32_t i = 0; i < reply->result.entry_count; i++) {
            zk_put_bytes(&paths, reply->result.entries[i].path);
        }
        zk_encode_paths(&seen->out, request->xid, reply->zxid, reply->result.entry_count,
                        buf_slice(&paths));
        buf_release(&paths);
    } else if (request->type == ZK_WHO_AM_I) {
        struct op_principal principal = {.address = "127.0.0.1"};

        if (reply->result.entry_count > 2) {
            assert_int_equal(
                auth_add(NULL, slice_str("digest"), slice_str("paul:pw"), "", &principal.auth),
                ERR_OK);
        }
        zk_encode_who(&seen->out, request->xid, reply->zxid, &principal);
        principal_release(&principal);
    } else {
        zk_encode_code(&seen->out, request->xid, reply->zxid, ZK_OK);
    }
}

static void answer(struct seen *seen, const struct zk_request *request,
                   const struct zk_reply *reply)
{
    if (request->kind == ZK_DECIDED) {
        zk_encode_decided(&seen->out, request, reply->zxid);
    } else if (request->kind == ZK_FRONT) {
        answer_front(seen, request, reply);
    } else {
        zk_encode_result(&seen->out, request, &reply->result, NULL, reply->zxid);
    }
}

/* Decodes the request, checks the rules of arguments, and encodes the reply from its values. */
static void check_exchange(const struct golden *golden)
{
    struct zk_request request;
    struct zk_reply reply;
    struct seen seen;
    const char *why = "";
    size_t bytes = 0;

    open_seen(&seen, golden);
    assert_int_equal(zk_frame_judge(&limits, buf_slice(&seen.request), false, &bytes),
                     ZK_FRAME_GOOD);
    assert_int_equal(bytes, seen.request.len);

    bool known = zk_decode(&limits, slice_from(buf_slice(&seen.request), ZK_INT_BYTES),
                           &seen.memory, &request) &&
                 request.code != ZK_CLOSE;

    if (known != (seen.reply.len > 0)) {
        fail_msg("%s: %s", golden->name, known ? "understood" : "not understood");
    }
    if (known) {
        if (!zk_reply_read(&request, buf_slice(&seen.reply), &reply)) {
            fail_msg("%s: the reply cannot be read", golden->name);
        }
        if (request.kind == ZK_GATE || request.kind == ZK_READ) {
            assert_int_equal(op_args_check(&request.args, &why), ERR_OK);
        }
        answer(&seen, &request, &reply);
        check_same(golden, &seen);
        zk_reply_release(&reply);
    }
    zk_request_release(&request);
    close_seen(&seen);
}

static void check_hello(const struct golden *golden)
{
    struct zk_connect connect;
    struct seen seen;
    size_t bytes = 0;

    open_seen(&seen, golden);

    enum zk_frame frame = zk_frame_judge(&limits, buf_slice(&seen.request), true, &bytes);
    bool good = frame == ZK_FRAME_GOOD &&
                zk_decode_connect(slice_from(buf_slice(&seen.request), ZK_INT_BYTES), &connect);

    assert_int_equal(good, seen.reply.len > 0);
    if (good) {
        const uint8_t *reply = seen.reply.data;
        uint64_t session =
            (uint64_t)(uint32_t)zk_load_int(reply + 12) << 32 | (uint32_t)zk_load_int(reply + 16);

        zk_encode_connect(&seen.out, &connect, (uint32_t)zk_load_int(reply + 8), session,
                          reply + 24);
        check_same(golden, &seen);
    }
    close_seen(&seen);
}

static void check_event(const struct golden *golden)
{
    struct seen seen;
    struct wire_reader reader;

    open_seen(&seen, golden);
    if (seen.reply.len > 0) { /* Else the connection has ended. */
        wire_reader_init(&reader, slice_from(buf_slice(&seen.reply), 20));

        enum watch_event_type type = (enum watch_event_type)zk_get_int(&reader);

        assert_int_equal(zk_get_int(&reader), 3);
        zk_encode_event(&seen.out, UINT64_MAX, type, zk_get_bytes(&reader));
        assert_true(wire_reader_done(&reader));
        check_same(golden, &seen);
    }
    close_seen(&seen);
}

static void check_length(const struct golden *golden)
{
    struct seen seen;
    size_t bytes = 0;

    open_seen(&seen, golden);
    assert_int_equal(zk_frame_judge(&limits, buf_slice(&seen.request), false, &bytes),
                     ZK_FRAME_BAD);
    assert_int_equal(bytes, 0);
    close_seen(&seen);
}

static bool is_a_length(const struct golden *golden)
{
    return starts(golden, "length_") && golden->reply[0] == '\0';
}

TEST(each_frame_of_a_real_server_is_understood_and_written_in_the_same_bytes)
{
    unsigned exchanges = 0;

    for (size_t i = 0; i < GOLDENS; i++) {
        const struct golden *golden = &goldens[i];

        if (golden->request[0] == '\0') {
            check_event(golden);
        } else if (starts(golden, "connect")) {
            check_hello(golden);
        } else if (is_a_length(golden)) {
            check_length(golden);
        } else {
            check_exchange(golden);
            exchanges++;
        }
    }
    assert_true(exchanges > 200);
}
