/*
 * Replies of ZooKeeper's protocol: values from any bytes that are a reply, encoded and read again,
 * stay the same values. The first byte is the type of the request.
 */
#include "zk/encode.h"

#include "base/mem.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/zk_reply.h"
#include "tests/unit/zk_golden.h"

enum {
    BYTES_MAX = 4 << 20
};

static bool is_listed(int32_t type)
{
    return type == ZK_GET_EPHEMERALS;
}

static void encode_list(struct buf *out, const struct zk_request *request,
                        const struct zk_reply *reply)
{
    struct buf paths;

    buf_init(&paths, SIZE_MAX / 2);
    for (uint32_t i = 0; i < reply->result.entry_count; i++) {
        zk_put_bytes(&paths, reply->result.entries[i].path);
    }
    zk_encode_paths(out, request->xid, reply->zxid, reply->result.entry_count, buf_slice(&paths));
    buf_release(&paths);
}

/* Encodes the values of a reply as the answer to such a request. */
static void encode(struct buf *out, int32_t type, const struct zk_reply *reply)
{
    uint32_t count = reply->result.result_count;
    struct zk_request request = {
        .xid = reply->xid, .type = type, .kind = ZK_READ, .types = reply->types};
    struct op_args *ops = mem_zalloc((size_t)count + 1, sizeof(*ops));

    for (uint32_t i = 0; i < count; i++) { /* In requests ZK_ERROR means an illegal path. */
        if (reply->types[i] == ZK_ERROR) {
            reply->types[i] = ZK_DELETE;
        }
    }
    request.path = reply->result.path;
    request.args = (struct op_args){.op = OP_GET, .ops = ops, .op_count = count};
    if (reply->code == ZK_OK && reply->has_number) {
        zk_encode_number(out, request.xid, reply->zxid, reply->number);
    } else if (reply->code == ZK_OK && is_listed(type)) {
        encode_list(out, &request, reply);
    } else {
        zk_encode_result(out, &request, &reply->result, NULL, reply->zxid);
    }
    mem_free(ops);
}

/* Whether zk_encode_result and the lists write such a reply from its values. */
static bool is_written(int32_t type, const struct zk_reply *reply)
{
    bool empty = reply->has_end && reply->result.result_count == 0;

    return !empty && type != ZK_WHO_AM_I && type != ZK_SASL;
}

static bool fuzz_one(struct slice input)
{
    struct wire_reader reader;
    struct zk_request request = {.kind = ZK_READ};
    struct zk_reply reply;
    struct zk_reply again;
    struct buf first;
    struct buf second;

    wire_reader_init(&reader, input);
    request.type = wire_get_u8(&reader);

    bool good = zk_reply_read(&request, fuzz_rest(&reader), &reply);

    if (good && is_written(request.type, &reply)) {
        buf_init(&first, BYTES_MAX);
        buf_init(&second, BYTES_MAX);
        encode(&first, request.type, &reply);
        ASSERT(!first.overflow && zk_reply_read(&request, buf_slice(&first), &again));
        ASSERT(again.xid == reply.xid && again.zxid == reply.zxid);
        ASSERT(again.result.err == reply.result.err);
        ASSERT(again.result.entry_count == reply.result.entry_count);
        ASSERT(again.result.result_count == reply.result.result_count);
        ASSERT(again.result.stat.pzxid == reply.result.stat.pzxid);
        ASSERT(again.result.stat.ephemeral_owner == reply.result.stat.ephemeral_owner);
        encode(&second, request.type, &again);
        ASSERT(slice_eq(buf_slice(&first), buf_slice(&second)));
        zk_reply_release(&again);
        buf_release(&first);
        buf_release(&second);
    }
    zk_reply_release(&reply);
    return good;
}

/* The recorded replies to requests. */
static void fuzz_seeds(struct fuzz_sink *sink)
{
    for (size_t i = 0; i < GOLDENS; i++) {
        bool hello = strncmp(goldens[i].name, "connect", 7) == 0;
        struct buf request;
        struct buf reply;
        struct buf seed;

        golden_bytes(goldens[i].request, &request);
        golden_bytes(goldens[i].reply, &reply);
        buf_init(&seed, FUZZ_INPUT_MAX);
        if (!hello && request.len >= ZK_HEAD_BYTES && reply.len > 0) {
            wire_put_u8(&seed, request.data[ZK_HEAD_BYTES - 1]);
            buf_append_slice(&seed, buf_slice(&reply));
            fuzz_seed(sink, goldens[i].name, buf_slice(&seed));
        }
        buf_release(&request);
        buf_release(&reply);
        buf_release(&seed);
    }
}

FUZZ_TARGET(zk_reply)
