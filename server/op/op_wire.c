/*
 * The forwarded form of arguments and results. Arguments: version u8, then one operation. An
 * operation: id u8, then the fields of its row in row order; an optional field starts with a
 * presence byte. The elements of a multi follow its u32 count; no element is a multi.
 */
#include "base/check.h"
#include "base/mem.h"
#include "base/wire.h"
#include "server/op/acl.h"
#include "server/op/change.h"
#include "server/op/ops.h"
#include "server/state/state.h"

enum {
    FORMAT_VERSION = 1,
    DETAIL_MAX = 1024,
    MATCH_ETAG = 1, /* Flags of a MATCH field. */
    MATCH_EXIST = 2,
};

/* How a field is encoded. */
enum form {
    FORM_MISSING, /* The table below lacks the type. */
    FORM_NONE,    /* The field is not sent. */
    FORM_BOOL,    /* One u8. */
    FORM_CHOICE,  /* An enum, as u8. */
    FORM_32,      /* A number within the bounds of its field. */
    FORM_64,
    FORM_BYTES,
    FORM_MATCH /* Flags, and the ETag if there is one. */
};

static const enum form forms[OP_FIELD_TYPES] = {
    [OP_FIELD_PATH] = FORM_BYTES,      [OP_FIELD_TEXT] = FORM_BYTES,
    [OP_FIELD_BYTES] = FORM_BYTES,     [OP_FIELD_HASH] = FORM_BYTES,
    [OP_FIELD_ACL] = FORM_BYTES,       [OP_FIELD_BOOL] = FORM_BOOL,
    [OP_FIELD_NONE_MATCH] = FORM_BOOL, [OP_FIELD_I32] = FORM_32,
    [OP_FIELD_U32] = FORM_32,          [OP_FIELD_BOUND] = FORM_32,
    [OP_FIELD_I64] = FORM_64,          [OP_FIELD_U64] = FORM_64,
    [OP_FIELD_WITH] = FORM_CHOICE,     [OP_FIELD_DATAFORMAT] = FORM_CHOICE,
    [OP_FIELD_MATCH] = FORM_MATCH,     [OP_FIELD_ACL_MATCH] = FORM_MATCH,
    [OP_FIELD_ROLE] = FORM_CHOICE,     [OP_FIELD_CONFIG_MATCH] = FORM_MATCH,
    [OP_FIELD_MEMBER] = FORM_32,       [OP_FIELD_IDS] = FORM_BYTES,
    [OP_FIELD_OPS] = FORM_NONE,    /* put_one writes the count, op_args_encode the elements. */
    [OP_FIELD_NAME] = FORM_NONE,   /* Already part of the path. */
    [OP_FIELD_SECRET] = FORM_NONE, /* Stays in this process; its hash is sent. */
    [OP_FIELD_KIND] = FORM_NONE,   /* Requests with this or the next two stay in this process. */
    [OP_FIELD_SINCE] = FORM_NONE,      [OP_FIELD_CONFLICT] = FORM_NONE,
};

static void put_match(struct buf *out, const struct op_args *args)
{
    wire_put_u8(
        out, (uint8_t)((args->has_etag ? MATCH_ETAG : 0) | (args->must_exist ? MATCH_EXIST : 0)));
    if (args->has_etag) {
        wire_put_u64(out, args->etag_czxid);
        wire_put_u32(out, (uint32_t)args->etag_version);
    }
}

static void put_field(const struct op_field *field, const struct op_args *args, struct buf *out)
{
    const void *at = (const uint8_t *)args + field->offset;

    switch (forms[field->type]) {
    case FORM_BYTES:
        wire_put_bytes(out, *(const struct slice *)at);
        break;
    case FORM_BOOL:
        wire_put_u8(out, *(const bool *)at);
        break;
    case FORM_CHOICE:
        wire_put_u8(out, (uint8_t) * (const uint32_t *)at);
        break;
    case FORM_32:
        wire_put_u32(out, *(const uint32_t *)at);
        break;
    case FORM_64:
        wire_put_u64(out, *(const uint64_t *)at);
        break;
    case FORM_MATCH:
        put_match(out, args);
        break;
    case FORM_NONE:
        break;
    case FORM_MISSING:
        UNREACHABLE();
    }
}

static void put_one(const struct op_args *args, struct buf *out)
{
    wire_put_u8(out, (uint8_t)args->op);
    for (const struct op_field *field = ops_by_id(args->op)->fields; field->name; field++) {
        if (field->has_offset != 0) {
            bool has = *((const bool *)((const uint8_t *)args + field->has_offset));

            wire_put_u8(out, has);
            if (!has) {
                continue;
            }
        }
        put_field(field, args, out);
    }
    if (args->op == OP_MULTI) {
        wire_put_u32(out, args->op_count);
    }
}

void op_args_encode(const struct op_args *args, struct buf *out)
{
    ASSERT(args->op == OP_MULTI || args->op_count == 0);

    wire_put_u8(out, FORMAT_VERSION);
    put_one(args, out);
    for (uint32_t i = 0; i < args->op_count; i++) {
        ASSERT(args->ops[i].op != OP_MULTI);
        put_one(&args->ops[i], out);
    }
}

static uint8_t get_below(struct wire_reader *reader, uint8_t bound)
{
    uint8_t value = wire_get_u8(reader);

    if (value >= bound) {
        wire_reader_fail(reader);
        return 0;
    }
    return value;
}

static void get_match(struct wire_reader *reader, struct op_args *args)
{
    uint8_t flags = get_below(reader, (MATCH_ETAG | MATCH_EXIST) + 1);

    args->must_exist = (flags & MATCH_EXIST) != 0;
    args->has_etag = (flags & MATCH_ETAG) != 0;
    if (args->has_etag) {
        args->etag_czxid = wire_get_u64(reader);
        args->etag_version = (int32_t)wire_get_u32(reader);
    }
}

/* Checks the bounds of a number. Zero passes, because a field that was not given is zero. */
static void check_number(struct wire_reader *reader, const struct op_field *field, int64_t value)
{
    if (value != 0 && (value < field->min || value > field->max)) {
        wire_reader_fail(reader);
    }
}

static int64_t narrow_of(const struct op_field *field, const void *at)
{
    if (field->type == OP_FIELD_I32) {
        return *(const int32_t *)at;
    }
    return *(const uint32_t *)at;
}

static struct slice get_bytes(struct wire_reader *reader, const struct op_field *field)
{
    struct slice bytes = wire_get_bytes(reader, (size_t)field->max);

    if (bytes.len < (size_t)field->min) {
        wire_reader_fail(reader);
    }
    return bytes;
}

static void get_field(struct wire_reader *reader, const struct op_field *field,
                      struct op_args *args)
{
    void *at = (uint8_t *)args + field->offset;

    switch (forms[field->type]) {
    case FORM_BYTES:
        *(struct slice *)at = get_bytes(reader, field);
        break;
    case FORM_BOOL:
        *(bool *)at = get_below(reader, 2);
        break;
    case FORM_CHOICE:
        *(uint32_t *)at = get_below(reader, (uint8_t)(field->max + 1));
        break;
    case FORM_32:
        *(uint32_t *)at = wire_get_u32(reader);
        check_number(reader, field, narrow_of(field, at));
        break;
    case FORM_64:
        *(uint64_t *)at = wire_get_u64(reader);
        check_number(reader, field, *(const int64_t *)at);
        break;
    case FORM_MATCH:
        get_match(reader, args);
        break;
    case FORM_NONE:
        break;
    case FORM_MISSING:
        UNREACHABLE();
    }
}

static void get_one(struct wire_reader *reader, struct op_args *args)
{
    const struct op_def *def = ops_by_id((enum op_id)wire_get_u8(reader));

    if (!def) {
        wire_reader_fail(reader);
        return;
    }
    op_args_init(args, def->id);
    for (const struct op_field *field = def->fields; field->name; field++) {
        if (field->has_offset != 0) {
            bool has = get_below(reader, 2);

            *((bool *)((uint8_t *)args + field->has_offset)) = has;
            if (!has) {
                continue;
            }
        }
        get_field(reader, field, args);
    }
    if (def->id == OP_MULTI) {
        args->op_count = wire_get_u32(reader);
    }
}

static enum err get_elements(struct wire_reader *reader, struct op_args *args)
{
    size_t left = (size_t)(reader->end - reader->pos);

    /* An element takes at least its id and a length. So a count that the input cannot hold is
     * refused before memory is allocated. */
    if (args->op_count > left / 2) {
        return ERR_FORMAT;
    }
    if (args->op_count > OPS_MULTI_MAX) {
        return ERR_TOO_LARGE;
    }
    args->ops = mem_zalloc(args->op_count, sizeof(*args->ops));
    for (uint32_t i = 0; i < args->op_count && wire_reader_ok(reader); i++) {
        get_one(reader, &args->ops[i]);
        if (args->ops[i].op == OP_MULTI) {
            wire_reader_fail(reader);
        }
    }
    return ERR_OK;
}

enum err op_args_decode(struct slice bytes, struct op_args *ret_args, struct op_args **ret_multi)
{
    struct wire_reader reader;
    const char *why = NULL;
    enum err err = ERR_OK;

    *ret_args = (struct op_args){.op = OP_GET};
    *ret_multi = NULL;
    wire_reader_init(&reader, bytes);
    if (wire_get_u8(&reader) != FORMAT_VERSION) {
        return ERR_FORMAT;
    }
    get_one(&reader, ret_args);
    if (!wire_reader_ok(&reader)) {
        return ERR_FORMAT;
    }
    if (ret_args->op == OP_MULTI) {
        err = get_elements(&reader, ret_args);
    }
    if (err == ERR_OK && (!wire_reader_done(&reader) || op_args_check(ret_args, &why) != ERR_OK)) {
        err = ERR_FORMAT;
    }
    if (err != ERR_OK) {
        mem_free(ret_args->ops);
        *ret_args = (struct op_args){.op = OP_GET};
        return err;
    }
    *ret_multi = ret_args->ops;
    return ERR_OK;
}

/* ---- Results ---- */

#define STAT(member)    WIRE_FIELD(WIRE_INT, struct stat_view, member)
#define SESSION(member) WIRE_FIELD(WIRE_INT, struct op_session_info, member)

static const struct wire_field stat_fields[] = {
    STAT(czxid),           STAT(mzxid),       STAT(pzxid),        STAT(ctime),
    STAT(mtime),           STAT(version),     STAT(cversion),     STAT(aversion),
    STAT(ephemeral_owner), STAT(data_length), STAT(num_children), {.form = WIRE_END},
};
static const struct wire_field session_fields[] = {
    SESSION(id),        SESSION(timeout_ms),      SESSION(attach),          SESSION(member),
    SESSION(opened_ms), SESSION(ephemeral_count), SESSION(ephemeral_bytes), {.form = WIRE_END},
};

/* The parts that a result may have, in the order of their flags. */
static const size_t parts[] = {
    offsetof(struct op_result, created),     offsetof(struct op_result, replayed),
    offsetof(struct op_result, has_stat),    offsetof(struct op_result, has_acl),
    offsetof(struct op_result, has_session), offsetof(struct op_result, has_change),
};

enum {
    PARTS = sizeof(parts) / sizeof(parts[0])
};

/* Writes the detail and, after a NUL, the reason. Earlier releases take the NUL for the end. */
static void put_detail(struct buf *out, const struct op_result *result)
{
    size_t len = result->detail ? strnlen(result->detail, DETAIL_MAX) : 0;
    size_t reason_len = result->reason ? strlen(result->reason) : 0;

    if (reason_len == 0 || len + 1 + reason_len > DETAIL_MAX) {
        wire_put_bytes(out, slice_make(result->detail, len));
        return;
    }
    wire_put_u32(out, (uint32_t)(len + 1 + reason_len));
    wire_put_raw(out, slice_make(result->detail, len));
    wire_put_u8(out, 0);
    wire_put_raw(out, slice_make(result->reason, reason_len));
}

static void put_result(struct buf *out, const struct op_result *result)
{
    unsigned flags = 0;

    for (size_t i = 0; i < PARTS; i++) {
        flags |= *((const bool *)((const uint8_t *)result + parts[i])) ? 1U << i : 0;
    }
    wire_put_bytes(out, slice_str(err_symbol(result->err)));
    put_detail(out, result);
    wire_put_bytes(out, result->path);
    wire_put_u64(out, result->zxid);
    wire_put_u32(out, result->failed_index);
    wire_put_u8(out, (uint8_t)flags);
    if (result->has_stat) {
        wire_put_fields(out, stat_fields, &result->stat);
    }
    if (result->has_acl) {
        wire_put_bytes(out, blob_slice(result->acl));
    }
    if (result->has_session) {
        wire_put_fields(out, session_fields, &result->session);
    }
    if (result->has_change) {
        wire_put_bytes(out, blob_slice(result->change));
    }
}

/* Returns the error of a symbol; ERR_SYSTEM_ERROR for a symbol that only a newer version knows. */
static enum err err_by_symbol(struct slice symbol)
{
    for (int err = 0; err < ERR_COUNT; err++) {
        if (slice_eq(slice_str(err_symbol((enum err)err)), symbol)) {
            return (enum err)err;
        }
    }
    return ERR_SYSTEM_ERROR;
}

/* Copies both texts into the arena. The space for both is reserved first, so that the second copy
 * does not move the first. */
static void own_texts(struct op_result *result, struct slice detail, struct slice path)
{
    struct buf *arena = &result->arena;

    if (detail.len + path.len == 0 || buf_reserve(arena, detail.len + 1 + path.len) == NULL) {
        return;
    }
    if (detail.len > 0) {
        buf_append_slice(arena, detail);
        buf_append_byte(arena, 0);
        size_t end = slice_find(detail, 0);

        result->detail = (const char *)arena->data;
        result->reason = end < detail.len ? result->detail + end + 1 : NULL;
    }
    result->path = slice_make(arena->data + arena->len, path.len);
    buf_append_slice(arena, path);
}

static void get_parts(struct wire_reader *reader, uint8_t flags, struct op_result *result)
{
    for (size_t i = 0; i < PARTS; i++) {
        *((bool *)((uint8_t *)result + parts[i])) = (flags >> i & 1) != 0;
    }
    if (result->has_stat) {
        wire_get_fields(reader, stat_fields, &result->stat);
    }
    if (result->has_acl) {
        struct slice acl = wire_get_bytes(reader, ACL_BYTES_MAX);

        result->acl = acl.len > 0 ? blob_new(acl) : NULL;
    }
    if (result->has_session) {
        wire_get_fields(reader, session_fields, &result->session);
    }
    if (result->has_change) {
        result->change = blob_new(wire_get_bytes(reader, OP_CHANGE_BYTES_MAX));
    }
}

static void get_result(struct wire_reader *reader, struct op_result *result)
{
    enum err err = err_by_symbol(wire_get_bytes(reader, DETAIL_MAX));
    struct slice detail = wire_get_bytes(reader, DETAIL_MAX);
    struct slice path = wire_get_bytes(reader, STATE_PATH_MAX);

    result->err = err;
    result->zxid = wire_get_u64(reader);
    result->failed_index = wire_get_u32(reader);
    get_parts(reader, get_below(reader, 1U << PARTS), result);
    if (wire_reader_ok(reader)) {
        own_texts(result, detail, path);
    }
}

void op_result_encode(const struct op_result *result, struct buf *out)
{
    wire_put_u8(out, FORMAT_VERSION);
    put_result(out, result);
    wire_put_u32(out, result->result_count);
    for (uint32_t i = 0; i < result->result_count; i++) {
        put_result(out, &result->results[i]);
    }
}

static void get_results(struct wire_reader *reader, struct op_result *result)
{
    uint32_t count = wire_get_u32(reader);
    size_t left = (size_t)(reader->end - reader->pos);

    if (count > OPS_MULTI_MAX || count > left / 8) {
        wire_reader_fail(reader);
    }
    if (!wire_reader_ok(reader) || count == 0) {
        return;
    }
    result->results = mem_zalloc(count, sizeof(*result->results));
    result->result_count = count;
    for (uint32_t i = 0; i < count; i++) {
        op_result_init(&result->results[i]);
        get_result(reader, &result->results[i]);
    }
    if (result->err != ERR_OK && result->failed_index >= count) {
        wire_reader_fail(reader);
    }
}

enum err op_result_decode(struct slice bytes, struct op_result *result)
{
    struct wire_reader reader;

    ASSERT(result->arena.len == 0 && !result->results);
    wire_reader_init(&reader, bytes);
    if (wire_get_u8(&reader) != FORMAT_VERSION) {
        return ERR_FORMAT;
    }
    get_result(&reader, result);
    if (wire_reader_ok(&reader)) {
        get_results(&reader, result);
    }
    if (!wire_reader_done(&reader)) {
        op_result_release(result);
        return ERR_FORMAT;
    }
    return ERR_OK;
}
