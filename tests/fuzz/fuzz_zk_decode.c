/*
 * A client of ZooKeeper's protocol: its first frame, or a request. What is understood passes the
 * rules of arguments, and the leader understands what is sent on to it; what is decided at once has
 * an answer that a client can read.
 */
#include "zk/encode.h"

#include "base/mem.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/zk_reply.h"
#include "tests/unit/zk_golden.h"

enum {
    FORM_HELLO,
    FORM_REQUEST,
    BYTES_MAX = 1 << 20
};

static const struct zk_limits limits = {
    .data_bytes_max = 4000, .multi_bytes_max = 16000, .multi_ops_max = 50};

/* The frame is judged in the same way however much of it has arrived. */
static void check_frame(struct slice frame, bool hello)
{
    size_t last = 0;
    enum zk_frame known = ZK_FRAME_SHORT;

    for (size_t len = 0; len <= frame.len && len <= ZK_HEAD_BYTES; len++) {
        size_t bytes = 0;
        enum zk_frame now = zk_frame_judge(&limits, slice_make(frame.data, len), hello, &bytes);

        ASSERT(known == ZK_FRAME_SHORT || (now == known && bytes == last));
        ASSERT((now == ZK_FRAME_GOOD) == (bytes > 0) && bytes <= ZK_INT_BYTES + (4U << 20));
        known = now;
        last = bytes;
    }
    ASSERT(frame.len < ZK_HEAD_BYTES || known != ZK_FRAME_SHORT);
}

static bool try_hello(struct slice body)
{
    struct zk_connect connect;
    struct buf out;

    if (!zk_decode_connect(body, &connect)) {
        return false;
    }
    ASSERT(connect.passwd.len <= body.len && connect.last_zxid <= INT64_MAX);
    ASSERT(!connect.read_only || connect.has_read_only);
    buf_init(&out, BYTES_MAX);
    zk_encode_connect(&out, &connect, 0, 0, NULL);
    ASSERT(out.len == (connect.has_read_only ? 41 : 40));
    buf_release(&out);
    return true;
}

/* What goes to the leader decodes there. */
static void check_forwarded(const struct op_args *args)
{
    struct op_args *multi = NULL;
    struct op_args again;
    struct buf bytes;

    buf_init(&bytes, BYTES_MAX);
    op_args_encode(args, &bytes);
    ASSERT(!bytes.overflow);

    enum err err = op_args_decode(buf_slice(&bytes), &again, &multi);

    ASSERT(err == ERR_OK && again.op == args->op && again.op_count == args->op_count);
    mem_free(multi);
    buf_release(&bytes);
}

static void check_decided(const struct zk_request *request)
{
    struct zk_reply reply;
    struct buf out;

    buf_init(&out, BYTES_MAX);
    zk_encode_decided(&out, request, 5);
    ASSERT(zk_reply_read(request, buf_slice(&out), &reply));
    ASSERT(reply.xid == request->xid && reply.code <= 0);
    ASSERT(reply.code == (int32_t)request->code || request->op_count == reply.result.result_count);
    ASSERT(!request->closes || reply.code == ZK_UNIMPLEMENTED);
    zk_reply_release(&reply);
    buf_release(&out);
}

static void check_front(const struct zk_request *request)
{
    uint32_t count = 0;

    for (unsigned i = 0; i < ZK_LISTS; i++) {
        struct zk_paths paths = request->lists[i];
        struct slice path;

        while (zk_paths_next(&paths, &path)) {
            count++;
        }
        ASSERT(paths.bytes.len == 0);
    }
    ASSERT(count == request->list_paths);
    if (request->type == ZK_ADD_WATCH || request->type == ZK_CHECK_WATCHES ||
        request->type == ZK_REMOVE_WATCHES || request->type == ZK_GET_ALL_CHILDREN_NUMBER) {
        struct op_args args;
        const char *why;

        op_args_init(&args, OP_STAT);
        args.path = request->path;
        ASSERT(op_args_check(&args, &why) == ERR_OK);
    }
}

static bool try_request(struct slice body)
{
    struct zk_request request;
    struct buf memory;
    const char *why;

    buf_init(&memory, BYTES_MAX);

    bool known = zk_decode(&limits, body, &memory, &request);

    ASSERT(memory.len <= body.len && memory.cap <= body.len + 64 && !memory.overflow);
    ASSERT(known == (body.len >= 8));
    if (known && request.code == ZK_CLOSE) {
        ASSERT(request.closes && (request.type == ZK_AUTH || request.type == ZK_SASL));
    } else if (known && request.kind == ZK_DECIDED) {
        ASSERT(!request.multi && request.op_count <= limits.multi_ops_max);
        check_decided(&request);
    } else if (known && request.kind == ZK_FRONT) {
        check_front(&request);
    } else if (known) {
        ASSERT(request.code == ZK_OK && op_args_check(&request.args, &why) == ERR_OK);
        ASSERT(request.args.ops == request.multi && !request.multi == !request.types);
        ASSERT(request.args.op_count <= limits.multi_ops_max);
        if (request.kind == ZK_GATE) {
            check_forwarded(&request.args);
        }
    }
    zk_request_release(&request);
    buf_release(&memory);
    return known && request.code != ZK_MARSHALLING_ERROR && request.code != ZK_CLOSE;
}

static bool fuzz_one(struct slice input)
{
    struct wire_reader reader;

    wire_reader_init(&reader, input);

    bool hello = (wire_get_u8(&reader) & 1U) == FORM_HELLO;
    struct slice frame = fuzz_rest(&reader);

    check_frame(frame, hello);
    if (frame.len < ZK_INT_BYTES) {
        return false;
    }
    frame =
        slice_from(frame, ZK_INT_BYTES); /* The body is what has arrived, whatever the length. */
    return hello ? try_hello(frame) : try_request(frame);
}

/* The recorded requests that are whole. */
static void fuzz_seeds(struct fuzz_sink *sink)
{
    static const struct zk_limits wide = {
        .data_bytes_max = BYTES_MAX, .multi_bytes_max = BYTES_MAX, .multi_ops_max = 1000};

    for (size_t i = 0; i < GOLDENS; i++) {
        struct zk_request request = {.xid = 0};
        struct zk_connect connect;
        struct buf frame;
        struct buf memory;
        struct buf seed;
        bool hello = strncmp(goldens[i].name, "connect", 7) == 0;

        golden_bytes(goldens[i].request, &frame);
        buf_init(&memory, BYTES_MAX);
        buf_init(&seed, FUZZ_INPUT_MAX);
        wire_put_u8(&seed, hello ? FORM_HELLO : FORM_REQUEST);
        buf_append_slice(&seed, buf_slice(&frame));
        if (frame.len >= ZK_INT_BYTES) {
            struct slice body = slice_from(buf_slice(&frame), ZK_INT_BYTES);

            if (hello ? zk_decode_connect(body, &connect)
                      : zk_decode(&wide, body, &memory, &request) &&
                            request.code != ZK_MARSHALLING_ERROR && request.code != ZK_CLOSE) {
                fuzz_seed(sink, goldens[i].name, buf_slice(&seed));
            }
        }
        zk_request_release(&request);
        buf_release(&frame);
        buf_release(&memory);
        buf_release(&seed);
    }
}

FUZZ_TARGET(zk_decode)
