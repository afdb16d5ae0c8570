/*
 * The records of a multi: a header before each one, and a last header that says so. What ZooKeeper
 * finds wrong with one element is the result of that element, and the elements of a multi after it
 * are not evaluated; bytes that are malformed refuse the whole.
 */
#include "zk/decode_int.h"

#include "base/check.h"
#include "base/mem.h"

struct elements {
    struct op_args *items;
    int8_t *types;
    uint32_t count;
    uint32_t items_cap;
    uint32_t types_cap;
};

static struct op_args *grow(struct elements *elements)
{
    MEM_GROW(elements->items, elements->count, elements->items_cap, OPS_MULTI_MAX);
    MEM_GROW(elements->types, elements->count, elements->types_cap, OPS_MULTI_MAX);
    return &elements->items[elements->count++];
}

/* Takes the header of an element; false for the last one. Its number, an error, is for replies. */
static bool take_header(struct wire_reader *reader, int32_t *ret_type)
{
    *ret_type = zk_get_int(reader);

    bool done = zk_get_bool(reader);

    (void)zk_get_int(reader);
    return !done && wire_reader_ok(reader);
}

/* Returns the type of a good result. ZooKeeper answers create2 like create, and each create of a
 * container or with a TTL like create2, whatever the type of the element. */
static int8_t result_type(int32_t type, const struct op_args *args)
{
    if (args->container || args->ttl_ms != 0) {
        return ZK_CREATE2;
    }
    return (int8_t)(type == ZK_CREATE2 ? ZK_CREATE : type);
}

/* Whether the type may stand in the multi; its elements are read by zk_take_write or zk_take_read.
 */
static bool is_element(const struct zk_request *request, int32_t type)
{
    if (request->type == ZK_MULTI_READ) {
        return type == ZK_GET_DATA || type == ZK_GET_CHILDREN;
    }
    return zk_is_write(type) && type != ZK_SET_ACL;
}

/* An element of a multiRead that finds no znode. The others are read, so it reads what exists. */
static void fail_read(struct op_args *args, int8_t *ret_type)
{
    op_args_init(args, OP_EXISTS);
    args->path = slice_str("/");
    *ret_type = ZK_ERROR;
}

static enum zk_code take_element(struct zk_decoder *decoder, struct zk_request *request,
                                 int32_t type, struct elements *elements)
{
    struct op_args *args = grow(elements);
    uint32_t at = elements->count - 1;
    struct slice path;
    enum zk_code code = ZK_OK;

    if (request->type == ZK_MULTI_READ) {
        code = zk_take_read(decoder, type, args, &path);
        args->watch = false; /* ZooKeeper ignores it here. */
    } else {
        code = zk_take_write(decoder, type, args, &path);
    }
    elements->types[at] = result_type(type, args);
    if (code == ZK_NO_NODE && request->type == ZK_MULTI_READ) {
        fail_read(args, &elements->types[at]);
        return ZK_OK;
    }
    return code;
}

/* Reads all elements. Returns the code that refuses the whole; that of one element is in
 * request->code, and its place in request->failed. */
static enum zk_code take_elements(struct zk_decoder *decoder, struct zk_request *request,
                                  struct elements *elements)
{
    uint32_t max = min_u32(decoder->limits->multi_ops_max, OPS_MULTI_MAX);
    int32_t type;

    while (take_header(&decoder->reader, &type)) {
        if (!is_element(request, type)) {
            return ZK_MARSHALLING_ERROR;
        }
        if (elements->count == max) {
            return ZK_THROTTLED;
        }

        enum zk_code code = take_element(decoder, request, type, elements);

        if (code == ZK_MARSHALLING_ERROR) {
            return code;
        }
        if (code != ZK_OK && request->code == ZK_OK) {
            request->code = code;
            request->failed = elements->count - 1;
        }
    }
    return wire_reader_ok(&decoder->reader) ? ZK_OK : ZK_MARSHALLING_ERROR;
}

void zk_take_multi(struct zk_decoder *decoder, struct zk_request *request)
{
    struct elements elements = {.count = 0};
    enum zk_code code = take_elements(decoder, request, &elements);

    if (code == ZK_OK && request->code == ZK_OK && elements.count > 0) {
        op_args_init(&request->args, OP_MULTI);
        request->args.ops = elements.items;
        request->args.op_count = elements.count;
        request->multi = elements.items;
        request->types = elements.types;
        request->kind = request->type == ZK_MULTI ? ZK_GATE : ZK_READ;
        return;
    }
    mem_free(elements.items);
    mem_free(elements.types);
    if (code != ZK_OK) {
        zk_decide(request, code);
        return;
    }
    zk_decide(request, request->code);
    request->op_count = elements.count;
}
