/*
 * The record of one operation on a znode, and ZooKeeper's codes for paths that no znode can have.
 * Reads and deletes of such a path find no znode; sets refuse the path. A create looks for the
 * parent first.
 */
#include "zk/decode_int.h"

#include "server/op/acl.h"

enum {
    ACL_ENTRY_BYTES_MIN = 12, /* Perms and two lengths. */
    ACL_TEXT_MAX = 4096,      /* Bytes of a scheme or an id; acl_is_sound has the same limit. */

    FLAG_EPHEMERAL = 1, /* Bits of flags up to FLAGS_BOTH. */
    FLAG_SEQUENCE = 2,
    FLAGS_BOTH = 3,
    FLAGS_CONTAINER = 4,
    FLAGS_TTL = 5,
    FLAGS_TTL_SEQUENCE = 6
};

#define TTL_MS_MAX ((INT64_C(1) << OPS_TTL_MS_MAX_BITS) - 1)

bool zk_is_write(int32_t type)
{
    return type == ZK_CREATE || type == ZK_CREATE2 || type == ZK_CREATE_CONTAINER ||
           type == ZK_CREATE_TTL || type == ZK_DELETE || type == ZK_SET_DATA ||
           type == ZK_SET_ACL || type == ZK_CHECK;
}

bool zk_is_read(int32_t type)
{
    return type == ZK_EXISTS || type == ZK_GET_DATA || type == ZK_GET_ACL ||
           type == ZK_GET_CHILDREN || type == ZK_GET_CHILDREN2;
}

/* ---- Paths ---- */

bool zk_path_is_legal(struct slice path)
{
    struct op_args args;
    const char *why;

    op_args_init(&args, OP_STAT);
    args.path = path;
    return op_args_check(&args, &why) == ERR_OK;
}

/* Returns the code for a create of an illegal path. */
static enum zk_code create_fault(struct slice path)
{
    size_t slash = path.len;

    while (slash > 0 && path.data[slash - 1] != '/') {
        slash--;
    }
    if (slash == 0 || slice_find(path, '\0') < path.len) {
        return ZK_BAD_ARGUMENTS;
    }
    return slash == 1 || zk_path_is_legal(slice_make(path.data, slash - 1)) ? ZK_BAD_ARGUMENTS
                                                                            : ZK_NO_NODE;
}

static enum zk_code path_fault(const struct op_args *args)
{
    if (args->op == OP_CREATE) {
        return create_fault(args->path);
    }
    if (args->op == OP_DELETE) {
        bool named = slice_find(args->path, '/') < args->path.len &&
                     slice_find(args->path, '\0') == args->path.len;

        return named ? ZK_NO_NODE : ZK_BAD_ARGUMENTS;
    }
    return args->op == OP_SET || args->op == OP_SETACL || args->op == OP_CHECK ? ZK_BAD_ARGUMENTS
                                                                               : ZK_NO_NODE;
}

/* ---- ACLs ---- */

static bool is_open(const struct acl_entry *entry, uint32_t count)
{
    return count == 1 && entry->perms == ACL_ALL && slice_eq(entry->scheme, slice_str("world")) &&
           slice_eq(entry->id, slice_str("anyone"));
}

/* Takes an entry. Perms that do not exist become none, which the leader refuses at the place of
 * this operation. */
static void take_entry(struct wire_reader *reader, struct acl_entry *ret_entry)
{
    ret_entry->perms = (uint32_t)zk_get_int(reader);
    ret_entry->perms = ret_entry->perms > ACL_ALL ? 0 : ret_entry->perms;
    ret_entry->scheme = zk_get_bytes(reader);
    ret_entry->id = zk_get_bytes(reader);
}

/* Makes room for what is left of the request: an ACL takes less as bytes of acl.h than on the wire.
 */
static void reserve(struct zk_decoder *decoder)
{
    size_t left = (size_t)(decoder->reader.end - decoder->reader.pos);

    if (!decoder->reserved && !buf_reserve(decoder->memory, left)) {
        wire_reader_fail(&decoder->reader);
    }
    decoder->reserved = true;
}

/* Takes the entries after the first one, and writes all of them to memory. False: the list is
 * larger than a list may be. */
static bool take_list(struct zk_decoder *decoder, struct acl_entry *entry, uint32_t count,
                      struct slice *ret_acl)
{
    struct buf *memory = decoder->memory;
    size_t start = memory->len;
    bool fits = count <= ACL_ENTRIES_MAX;

    for (uint32_t i = 0; i < count && wire_reader_ok(&decoder->reader); i++) {
        if (i > 0) {
            take_entry(&decoder->reader, entry);
        }
        fits = fits && wire_reader_ok(&decoder->reader) && entry->scheme.len <= ACL_TEXT_MAX &&
               entry->id.len <= ACL_TEXT_MAX;
        if (fits) {
            acl_put(memory, entry);
        }
        fits = fits && memory->len - start <= ACL_BYTES_MAX;
    }
    *ret_acl = slice_make(memory->data + start, memory->len - start);
    return fits;
}

/* Takes an ACL. One that is too large becomes the empty one, which the leader refuses as well. */
static void take_acl(struct zk_decoder *decoder, struct op_args *args)
{
    struct wire_reader *reader = &decoder->reader;
    uint32_t count = zk_get_count(reader, ACL_ENTRY_BYTES_MIN);
    struct acl_entry first;

    args->has_acl = true;
    if (count == 0) {
        return;
    }
    reserve(decoder);
    if (!wire_reader_ok(reader)) {
        return;
    }
    take_entry(reader, &first);
    if (is_open(&first, count)) {
        (void)acl_standard(slice_str("open"), &args->acl);
    } else if (!take_list(decoder, &first, count, &args->acl)) {
        args->acl = slice_make(NULL, 0);
    }
}

/* ---- Records ---- */

static void take_data(struct wire_reader *reader, struct op_args *args)
{
    args->data = zk_get_bytes(reader);
    args->data_null = args->data.data == NULL;
}

static void take_version(struct wire_reader *reader, struct op_args *args)
{
    args->has_version = true;
    args->version = zk_get_int(reader);
}

/* Sets what the flags mean; false when they have no meaning for the type. */
static bool take_mode(struct op_args *args, int32_t type, int32_t flags, int64_t ttl_ms)
{
    if (type == ZK_CREATE_TTL) {
        args->sequence = flags == FLAGS_TTL_SEQUENCE;
        args->ttl_ms = ttl_ms;
        return (flags == FLAGS_TTL || args->sequence) && ttl_ms > 0 && ttl_ms <= TTL_MS_MAX;
    }
    if (flags < 0 || flags > FLAGS_CONTAINER) {
        return false;
    }
    args->sequence = flags <= FLAGS_BOTH && (flags & FLAG_SEQUENCE) != 0;
    args->container = flags == FLAGS_CONTAINER || type == ZK_CREATE_CONTAINER;
    args->ephemeral = flags <= FLAGS_BOTH && (flags & FLAG_EPHEMERAL) != 0 && !args->container;
    return !args->container || !args->sequence;
}

static bool take_create(struct zk_decoder *decoder, int32_t type, struct op_args *args)
{
    struct wire_reader *reader = &decoder->reader;

    take_data(reader, args);
    take_acl(decoder, args);

    int32_t flags = zk_get_int(reader);
    int64_t ttl_ms = type == ZK_CREATE_TTL ? zk_get_long(reader) : 0;

    return take_mode(args, type, flags, ttl_ms);
}

static enum op_id op_of(int32_t type)
{
    switch (type) {
    case ZK_DELETE:
        return OP_DELETE;
    case ZK_SET_DATA:
        return OP_SET;
    case ZK_SET_ACL:
        return OP_SETACL;
    case ZK_CHECK:
        return OP_CHECK;
    case ZK_EXISTS:
        return OP_EXISTS;
    case ZK_GET_DATA:
        return OP_GET;
    case ZK_GET_ACL:
        return OP_GETACL;
    case ZK_GET_CHILDREN:
    case ZK_GET_CHILDREN2:
        return OP_CHILDREN;
    default:
        return OP_CREATE;
    }
}

/* Returns the code of a record whose bytes were whole. A check alone is refused by op_args_check,
 * so only its path is looked at. */
static enum zk_code judge(const struct zk_decoder *decoder, const struct op_args *args)
{
    const char *why;

    if (!wire_reader_ok(&decoder->reader) || !args->path.data) {
        return ZK_MARSHALLING_ERROR;
    }
    bool legal =
        args->op == OP_CHECK ? zk_path_is_legal(args->path) : op_args_check(args, &why) == ERR_OK;

    return legal ? ZK_OK : path_fault(args);
}

enum zk_code zk_take_write(struct zk_decoder *decoder, int32_t type, struct op_args *args,
                           struct slice *ret_path)
{
    struct wire_reader *reader = &decoder->reader;
    bool means = true;

    op_args_init(args, op_of(type));
    args->path = zk_get_bytes(reader);
    *ret_path = args->path;
    switch (type) {
    case ZK_SET_DATA:
        take_data(reader, args);
        take_version(reader, args);
        break;
    case ZK_DELETE:
    case ZK_CHECK:
        take_version(reader, args);
        break;
    case ZK_SET_ACL:
        take_acl(decoder, args);
        args->has_aversion = true;
        args->aversion = zk_get_int(reader);
        break;
    default:
        means = take_create(decoder, type, args);
        break;
    }

    enum zk_code code = judge(decoder, args);

    return code != ZK_MARSHALLING_ERROR && !means ? ZK_BAD_ARGUMENTS : code;
}

enum zk_code zk_take_read(struct zk_decoder *decoder, int32_t type, struct op_args *args,
                          struct slice *ret_path)
{
    op_args_init(args, op_of(type));
    args->path = zk_get_bytes(&decoder->reader);
    *ret_path = args->path;
    if (type != ZK_GET_ACL) {
        args->watch = zk_get_bool(&decoder->reader);
    }
    /* ZooKeeper's tree has the root under both names, but no event is ever sent for "". */
    if (args->path.data && args->path.len == 0) {
        args->path = slice_str("/");
        args->watch = false;
    }
    return judge(decoder, args);
}
