#include "zk/encode.h"

#include "base/check.h"
#include "server/op/acl.h"

enum {
    HEADER_BYTES = 16,                                /* xid, zxid, code. */
    ELEMENT_BYTES = 9 + ZK_INT_BYTES + ZK_STAT_BYTES, /* Of a multi, without its data. */
    STATE_CONNECTED = 3
};

/* ---- Parts ---- */

/* Begins a frame with the header of a reply, and returns its position. */
static size_t begin(struct buf *out, int32_t xid, zxid_t zxid, enum zk_code code)
{
    size_t frame = zk_frame_begin(out);
    uint8_t *to = buf_reserve(out, HEADER_BYTES);

    ASSERT(code != ZK_CLOSE);
    if (to) {
        zk_store_int(to, xid);
        zk_store_long(to + 4, (int64_t)zxid);
        zk_store_int(to + 12, (int32_t)code);
        out->len += HEADER_BYTES;
    }
    return frame;
}

static void put_stat(struct buf *out, const struct stat_view *stat)
{
    uint8_t *to = buf_reserve(out, ZK_STAT_BYTES);

    if (!to) {
        return;
    }
    zk_store_long(to, (int64_t)stat->czxid);
    zk_store_long(to + 8, (int64_t)stat->mzxid);
    zk_store_long(to + 16, stat->ctime);
    zk_store_long(to + 24, stat->mtime);
    zk_store_int(to + 32, stat->version);
    zk_store_int(to + 36, stat->cversion);
    zk_store_int(to + 40, stat->aversion);
    zk_store_long(to + 44, (int64_t)stat->ephemeral_owner);
    zk_store_int(to + 52, (int32_t)stat->data_length);
    zk_store_int(to + 56, (int32_t)stat->num_children);
    zk_store_long(to + 60, (int64_t)stat->pzxid);
    out->len += ZK_STAT_BYTES;
}

/* Null data stays null, but for znodes that each tree has, which are empty in ZooKeeper. */
static void put_data(struct buf *out, const struct op_result *result)
{
    if (!result->data && result->stat.czxid != 0) {
        zk_put_null(out);
        return;
    }
    zk_put_bytes(out, blob_slice(result->data));
}

static void put_acl(struct buf *out, const struct blob *acl)
{
    struct slice rest = blob_slice(acl);
    size_t at = zk_put_space(out);
    struct acl_entry entry;
    int32_t count = 0;

    if (rest.len == 0) {
        (void)acl_standard(slice_str("open"), &rest);
    }
    while (acl_next(&rest, &entry)) {
        zk_put_int(out, (int32_t)entry.perms);
        zk_put_bytes(out, entry.scheme);
        zk_put_bytes(out, entry.id);
        count++;
    }
    zk_patch_int(out, at, count);
}

static void put_children(struct buf *out, const struct op_result *result,
                         const struct zk_names *names)
{
    if (names && names->known) {
        zk_put_int(out, (int32_t)names->count);
        (void)buf_append_slice(out, buf_slice(&names->bytes));
        return;
    }
    zk_put_int(out, (int32_t)result->entry_count);
    for (uint32_t i = 0; i < result->entry_count; i++) {
        zk_put_bytes(out, result->entries[i].path);
    }
}

/* A created znode is named by the result, because a sequence may have been added. */
static void put_path(struct buf *out, struct slice path, const struct op_result *result)
{
    zk_put_bytes(out, result->path.len > 0 ? result->path : path);
}

/* Writes what follows a header without an error. */
static void put_record(struct buf *out, int32_t type, const struct op_args *args,
                       const struct op_result *result, const struct zk_names *names)
{
    switch (type) {
    case ZK_CREATE:
        put_path(out, args->path, result);
        break;
    case ZK_CREATE2:
    case ZK_CREATE_CONTAINER:
    case ZK_CREATE_TTL:
        put_path(out, args->path, result);
        put_stat(out, &result->stat);
        break;
    case ZK_EXISTS:
    case ZK_SET_DATA:
    case ZK_SET_ACL:
        put_stat(out, &result->stat);
        break;
    case ZK_GET_DATA:
        put_data(out, result);
        put_stat(out, &result->stat);
        break;
    case ZK_GET_ACL:
        put_acl(out, result->acl);
        put_stat(out, &result->stat);
        break;
    case ZK_GET_CHILDREN:
        put_children(out, result, names);
        break;
    case ZK_GET_CHILDREN2:
        put_children(out, result, names);
        put_stat(out, &result->stat);
        break;
    default: /* delete, check */
        break;
    }
}

/* ---- Multi ---- */

static void put_element_header(struct buf *out, int32_t type, bool done, int32_t code)
{
    zk_put_int(out, type);
    zk_put_bool(out, done);
    zk_put_int(out, code);
}

static void put_failed(struct buf *out, enum zk_code code)
{
    put_element_header(out, ZK_ERROR, false, (int32_t)code);
    zk_put_int(out, (int32_t)code);
}

static void put_end(struct buf *out)
{
    put_element_header(out, -1, true, -1);
}

/* Returns the code of an element. A list of children that is not whole has none of its own. */
static enum zk_code element_code(const struct zk_request *request, uint32_t i,
                                 const struct op_result *result)
{
    if (request->types[i] == ZK_ERROR) {
        return ZK_NO_NODE;
    }
    if (result->err == ERR_OK && result->more) {
        return zk_error_code(ERR_TOO_LARGE);
    }
    enum zk_code code = zk_error_code(result->err);

    return code == ZK_CLOSE ? ZK_SYSTEM_ERROR : code;
}

/* Writes the results of a multi. When one element of a multi of writes has failed, all are errors:
 * that of an element before it is ZK_OK. */
static void put_results(struct buf *out, const struct zk_request *request,
                        const struct op_result *result, const struct zk_names *names)
{
    const struct op_args *ops = request->args.ops;

    ASSERT(result->result_count == request->args.op_count);
    for (uint32_t i = 0; i < result->result_count; i++) {
        const struct op_result *one = &result->results[i];
        enum zk_code code = element_code(request, i, one);

        if (result->err != ERR_OK || code != ZK_OK) {
            put_failed(out, code);
            continue;
        }
        put_element_header(out, request->types[i], false, ZK_OK);
        put_record(out, request->types[i], &ops[i], one, names ? &names[i] : NULL);
    }
    put_end(out);
}

/* ---- Replies ---- */

void zk_encode_code(struct buf *out, int32_t xid, zxid_t zxid, enum zk_code code)
{
    zk_frame_end(out, begin(out, xid, zxid, code));
}

/* Writes the results of a multi that failed before it ran. */
static void put_decided_multi(struct buf *out, const struct zk_request *request)
{
    for (uint32_t i = 0; i < request->op_count; i++) {
        enum zk_code after = i < request->failed ? ZK_OK : ZK_RUNTIME_INCONSISTENCY;

        put_failed(out, i == request->failed ? request->code : after);
    }
    put_end(out);
}

static bool is_multi(const struct zk_request *request)
{
    return request->type == ZK_MULTI || request->type == ZK_MULTI_READ;
}

/* Returns the zxid of a reply as ZooKeeper sets it. */
static zxid_t decided_zxid(const struct zk_request *request, zxid_t zxid)
{
    if (request->closes) {
        return UINT64_MAX; /* -1 */
    }
    return request->type == ZK_SASL ? 0 : zxid;
}

void zk_encode_decided(struct buf *out, const struct zk_request *request, zxid_t zxid)
{
    bool has_results = is_multi(request) && (request->op_count > 0 || request->code == ZK_OK);
    size_t frame = 0;

    ASSERT(request->kind == ZK_DECIDED);
    if (request->code == ZK_CLOSE) {
        return;
    }
    frame =
        begin(out, request->xid, decided_zxid(request, zxid), has_results ? ZK_OK : request->code);
    if (has_results) {
        put_decided_multi(out, request);
    } else if (request->code == ZK_OK && request->type == ZK_SASL) {
        zk_put_null(out);
    } else if (request->code == ZK_OK && request->type == ZK_ADD_WATCH) {
        zk_put_int(out, 0);
    }
    zk_frame_end(out, frame);
}

void zk_encode_result(struct buf *out, const struct zk_request *request,
                      const struct op_result *result, const struct zk_names *names, zxid_t zxid)
{
    bool has_results = is_multi(request) && result->result_count > 0;
    enum zk_code code = zk_error_code(result->err);
    size_t frame = begin(out, request->xid, zxid, has_results ? ZK_OK : code);

    ASSERT(code != ZK_CLOSE);
    if (has_results) {
        put_results(out, request, result, names);
    } else if (code == ZK_OK && request->type == ZK_SYNC) {
        if (request->path.data) {
            zk_put_bytes(out, request->path);
        } else {
            zk_put_null(out);
        }
    } else if (code == ZK_OK) {
        put_record(out, request->type, &request->args, result, names);
    }
    zk_frame_end(out, frame);
}

/* The same for an element, or for a request that is no multi. */
static size_t size_of(const struct op_result *result, const struct zk_names *names)
{
    size_t size = ELEMENT_BYTES + blob_slice(result->data).len;

    if (names && names->known) {
        return size + names->bytes.len;
    }
    for (uint32_t i = 0; i < result->entry_count; i++) {
        size += ZK_INT_BYTES + result->entries[i].path.len;
    }
    return size;
}

size_t zk_encode_size(const struct op_result *result, const struct zk_names *names)
{
    size_t size = ELEMENT_BYTES; /* The header and the end. */

    if (result->result_count == 0) {
        return size + size_of(result, names);
    }
    for (uint32_t i = 0; i < result->result_count; i++) {
        size += size_of(&result->results[i], names ? &names[i] : NULL);
    }
    return size;
}

void zk_encode_connect(struct buf *out, const struct zk_connect *connect, uint32_t timeout_ms,
                       uint64_t session, const uint8_t passwd[ZK_PASSWD_BYTES])
{
    static const uint8_t none[ZK_PASSWD_BYTES];
    bool good = timeout_ms != 0;
    size_t frame = zk_frame_begin(out);

    ASSERT(timeout_ms <= INT32_MAX);
    zk_put_int(out, 0); /* protocolVersion */
    zk_put_int(out, (int32_t)timeout_ms);
    zk_put_long(out, good ? (int64_t)session : 0);
    zk_put_bytes(out, slice_make(good ? passwd : none, ZK_PASSWD_BYTES));
    if (connect->has_read_only) {
        zk_put_bool(out, false); /* Each replica that answers takes writes. */
    }
    zk_frame_end(out, frame);
}

void zk_encode_event(struct buf *out, zxid_t zxid, enum watch_event_type type, struct slice path)
{
    size_t frame = begin(out, ZK_XID_EVENT, zxid, ZK_OK);

    zk_put_int(out, (int32_t)type); /* The numbers are ZooKeeper's. */
    zk_put_int(out, STATE_CONNECTED);
    zk_put_bytes(out, path);
    zk_frame_end(out, frame);
}

/* ---- Lists ---- */

void zk_encode_paths(struct buf *out, int32_t xid, zxid_t zxid, uint32_t count, struct slice paths)
{
    size_t frame = begin(out, xid, zxid, ZK_OK);

    zk_put_int(out, (int32_t)count);
    (void)buf_append_slice(out, paths);
    zk_frame_end(out, frame);
}

void zk_encode_number(struct buf *out, int32_t xid, zxid_t zxid, int32_t number)
{
    size_t frame = begin(out, xid, zxid, ZK_OK);

    zk_put_int(out, number);
    zk_frame_end(out, frame);
}

static void put_who(struct buf *out, struct slice scheme, struct slice user, int32_t *count)
{
    zk_put_bytes(out, scheme);
    zk_put_bytes(out, user);
    (*count)++;
}

void zk_encode_who(struct buf *out, int32_t xid, zxid_t zxid, const struct op_principal *who)
{
    const struct auth *auth = who->auth;
    size_t frame = begin(out, xid, zxid, ZK_OK);
    size_t at = zk_put_space(out);
    int32_t count = 0;

    if (auth && auth->super) {
        put_who(out, slice_str("super"), slice_str(""), &count);
    }
    put_who(out, slice_str("ip"), slice_str(who->address), &count);
    for (uint32_t i = 0; auth && i < auth->count; i++) {
        put_who(out, auth->ids[i].scheme, auth_shown(&auth->ids[i]), &count);
    }
    zk_patch_int(out, at, count);
    zk_frame_end(out, frame);
}
