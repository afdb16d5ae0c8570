/* A request: its header, and what its type says. */
#include "zk/decode.h"

#include "zk/decode_int.h"

#include "base/check.h"
#include "base/mem.h"

enum {
    PATH_BYTES_MIN = 4 /* The length of an empty text. */
};

void zk_request_release(struct zk_request *request)
{
    mem_free(request->multi);
    mem_free(request->types);
    request->multi = NULL;
    request->types = NULL;
}

/* ---- Operations on znodes ---- */

static void take_write(struct zk_decoder *decoder, struct zk_request *request)
{
    enum zk_code code = zk_take_write(decoder, request->type, &request->args, &request->path);
    bool sets = request->type == ZK_SET_DATA || request->type == ZK_SET_ACL;

    if (sets && code == ZK_MARSHALLING_ERROR && wire_reader_ok(&decoder->reader)) {
        code = ZK_BAD_ARGUMENTS; /* A null path, which ZooKeeper finds while it checks the path. */
    }
    if (code != ZK_OK) {
        zk_decide(request, code);
        return;
    }
    request->kind = ZK_GATE;
}

static void take_read(struct zk_decoder *decoder, struct zk_request *request)
{
    enum zk_code code = zk_take_read(decoder, request->type, &request->args, &request->path);

    if (code != ZK_OK) {
        zk_decide(request, code);
        return;
    }
    request->kind = ZK_READ;
}

/* The path is only sent back: a sync is about the whole tree. */
static void take_sync(struct zk_decoder *decoder, struct zk_request *request)
{
    request->path = zk_get_bytes(&decoder->reader);
    op_args_init(&request->args, OP_SYNC);
    request->kind = ZK_GATE;
}

/* ---- What the front end does ---- */

static void take_nothing(struct zk_decoder *decoder, struct zk_request *request)
{
    (void)decoder;
    (void)request;
}

static void take_watches(struct zk_decoder *decoder, struct zk_request *request)
{
    bool removes = request->type == ZK_REMOVE_WATCHES;

    request->path = zk_get_bytes(&decoder->reader);
    request->mode = zk_get_int(&decoder->reader);
    if (request->mode < ZK_WATCHES_CHILDREN || request->mode > ZK_WATCHES_RECURSIVE ||
        (!request->path.data && !removes)) {
        zk_decide(request, ZK_MARSHALLING_ERROR);
    } else if (!zk_path_is_legal(request->path)) {
        zk_decide(request, ZK_NO_WATCHER);
    }
}

/* ZooKeeper takes a watch of a path that no znode can have. It can never tell anything. */
static void take_add_watch(struct zk_decoder *decoder, struct zk_request *request)
{
    request->path = zk_get_bytes(&decoder->reader);
    request->mode = zk_get_int(&decoder->reader);
    if (request->mode != ZK_ADD_PERSISTENT && request->mode != ZK_ADD_RECURSIVE) {
        zk_decide(request, ZK_MARSHALLING_ERROR);
    } else if (!zk_path_is_legal(request->path)) {
        zk_decide(request, ZK_OK);
    }
}

static void take_prefix(struct zk_decoder *decoder, struct zk_request *request)
{
    request->path = zk_get_bytes(&decoder->reader);
}

static void take_top(struct zk_decoder *decoder, struct zk_request *request)
{
    request->path = zk_get_bytes(&decoder->reader);
    if (!request->path.data) {
        zk_decide(request, ZK_MARSHALLING_ERROR);
        return;
    }
    if (request->path.len == 0) {
        request->path = slice_str("/");
    }
    if (!zk_path_is_legal(request->path)) {
        zk_decide(request, ZK_NO_NODE);
    }
}

/* Takes a list of paths, and checks that all of it is there. A null list, unlike an empty one, and
 * a null path are refused by ZooKeeper, too. */
static void take_list(struct wire_reader *reader, struct zk_paths *ret_paths)
{
    struct wire_reader peek = *reader;
    bool null = zk_get_int(&peek) == -1;

    ret_paths->count = zk_get_count(reader, PATH_BYTES_MIN);
    ret_paths->bytes = slice_make(reader->pos, 0);
    for (uint32_t i = 0; i < ret_paths->count && wire_reader_ok(reader); i++) {
        null = zk_get_bytes(reader).data == NULL || null;
    }
    ret_paths->bytes.len = (size_t)(reader->pos - ret_paths->bytes.data);
    if (null) {
        wire_reader_fail(reader);
    }
}

static void take_set_watches(struct zk_decoder *decoder, struct zk_request *request)
{
    unsigned lists = request->type == ZK_SET_WATCHES2 ? ZK_LISTS : ZK_LIST_CHILDREN + 1;

    request->since = (zxid_t)max_i64(zk_get_long(&decoder->reader), 0);
    for (unsigned i = 0; i < lists; i++) {
        take_list(&decoder->reader, &request->lists[i]);
        request->list_paths += request->lists[i].count;
    }
}

/* The int says nothing, and ZooKeeper ignores it. */
static void take_auth(struct zk_decoder *decoder, struct zk_request *request)
{
    (void)zk_get_int(&decoder->reader);
    request->scheme = zk_get_bytes(&decoder->reader);
    request->credential = zk_get_bytes(&decoder->reader);
}

static void take_sasl(struct zk_decoder *decoder, struct zk_request *request)
{
    if (!zk_get_bytes(&decoder->reader).data) {
        wire_reader_fail(&decoder->reader);
    }
    zk_decide(request, ZK_OK);
}

static void take_reconfig(struct zk_decoder *decoder, struct zk_request *request)
{
    (void)zk_get_bytes(&decoder->reader); /* Joining, leaving, new members. */
    (void)zk_get_bytes(&decoder->reader);
    (void)zk_get_bytes(&decoder->reader);
    (void)zk_get_long(&decoder->reader);
    zk_decide(request, ZK_RECONFIG_DISABLED);
}

static void refuse(struct zk_decoder *decoder, struct zk_request *request)
{
    (void)decoder;
    zk_decide(request, ZK_BAD_ARGUMENTS);
}

static void refuse_unknown(struct zk_decoder *decoder, struct zk_request *request)
{
    (void)decoder;
    zk_decide(request, ZK_UNIMPLEMENTED);
    request->closes = true;
}

/* ---- The table ---- */

typedef void take_fn(struct zk_decoder *decoder, struct zk_request *request);

static take_fn *take_of(int32_t type)
{
    switch (type) {
    case ZK_SYNC:
        return take_sync;
    case ZK_MULTI:
    case ZK_MULTI_READ:
        return zk_take_multi;
    case ZK_PING:
    case ZK_WHO_AM_I:
    case ZK_CLOSE_SESSION:
        return take_nothing;
    case ZK_CHECK_WATCHES:
    case ZK_REMOVE_WATCHES:
        return take_watches;
    case ZK_ADD_WATCH:
        return take_add_watch;
    case ZK_GET_EPHEMERALS:
        return take_prefix;
    case ZK_GET_ALL_CHILDREN_NUMBER:
        return take_top;
    case ZK_SET_WATCHES:
    case ZK_SET_WATCHES2:
        return take_set_watches;
    case ZK_AUTH:
        return take_auth;
    case ZK_SASL:
        return take_sasl;
    case ZK_RECONFIG:
        return take_reconfig;
    case ZK_DELETE_CONTAINER:
        return refuse;
    case ZK_CHECK: /* It stands only in a multi. */
        return refuse_unknown;
    default:
        break;
    }
    if (zk_is_write(type)) {
        return take_write;
    }
    return zk_is_read(type) ? take_read : refuse_unknown;
}

bool zk_decode(const struct zk_limits *limits, struct slice body, struct buf *memory,
               struct zk_request *ret_request)
{
    struct zk_decoder decoder = {.limits = limits, .memory = memory};
    struct wire_reader *reader = &decoder.reader;
    struct zk_request *request = ret_request;

    *request = (struct zk_request){.kind = ZK_FRONT};
    wire_reader_init(reader, body);
    request->xid = zk_get_int(reader);
    request->type = zk_get_int(reader);
    if (!wire_reader_ok(reader)) {
        return false;
    }
    take_of(request->type)(&decoder, request);
    if (wire_reader_ok(reader)) {
        return true;
    }
    ASSERT(!request->multi);
    request->closes = request->type == ZK_AUTH || request->type == ZK_SASL;
    zk_decide(request, request->closes ? ZK_CLOSE : ZK_MARSHALLING_ERROR);
    return true;
}

bool zk_paths_next(struct zk_paths *paths, struct slice *ret_path)
{
    struct wire_reader reader;

    if (paths->count == 0) {
        return false;
    }
    wire_reader_init(&reader, paths->bytes);
    *ret_path = zk_get_bytes(&reader);
    ASSERT(wire_reader_ok(&reader));
    paths->count--;
    paths->bytes = slice_make(reader.pos, (size_t)(reader.end - reader.pos));
    return true;
}
