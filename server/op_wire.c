/*
 * The forwarded form of arguments and results. Arguments: version u8, then one operation. An
 * operation: id u8, then the fields of its row in row order; an optional field starts with a
 * presence byte. A multi's elements follow their u32 count in place, and cannot nest.
 */
#include "base/check.h"
#include "base/mem.h"
#include "base/wire.h"
#include "server/acl.h"
#include "server/ops.h"

enum {
    FORMAT_VERSION = 1,
    TEXT_MAX = 1 << 20, /* Paths, names and keys; path_check sets the real limit. */
    DETAIL_MAX = 1024,
    MATCH_ETAG = 1, /* Flags of a MATCH field. */
    MATCH_EXIST = 2,
};

static const void *place(const struct op_field *field, const struct op_args *args)
{
    return (const uint8_t *)args + field->offset;
}

static void *place_mut(const struct op_field *field, struct op_args *args)
{
    return (uint8_t *)args + field->offset;
}

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
    switch (field->type) {
    case OP_FIELD_PATH:
    case OP_FIELD_TEXT:
    case OP_FIELD_BYTES:
        wire_put_bytes(out, *(const struct slice *)place(field, args));
        break;
    case OP_FIELD_BOOL:
    case OP_FIELD_NONE_MATCH:
        wire_put_u8(out, *(const bool *)place(field, args));
        break;
    case OP_FIELD_I32:
    case OP_FIELD_U32:
        wire_put_u32(out, *(const uint32_t *)place(field, args));
        break;
    case OP_FIELD_I64:
    case OP_FIELD_U64:
        wire_put_u64(out, *(const uint64_t *)place(field, args));
        break;
    case OP_FIELD_WITH:
        wire_put_u8(out, (uint8_t)args->with);
        break;
    case OP_FIELD_DATAFORMAT:
        wire_put_u8(out, (uint8_t)args->dataformat);
        break;
    case OP_FIELD_MATCH:
        put_match(out, args);
        break;
    case OP_FIELD_OPS:
        wire_put_u32(out, args->op_count);
        break;
    case OP_FIELD_HASH:
    case OP_FIELD_ACL:
        wire_put_bytes(out, *(const struct slice *)place(field, args));
        break;
    case OP_FIELD_NAME:   /* Already part of the path. */
    case OP_FIELD_SECRET: /* Stays here; its hash travels. */
    case OP_FIELD_KIND:   /* Of operations that never travel. */
    case OP_FIELD_SINCE:
        break;
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

static bool get_bool(struct wire_reader *reader)
{
    uint8_t value = wire_get_u8(reader);

    if (value > 1) {
        wire_reader_fail(reader);
    }
    return value == 1;
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

static void get_number(struct wire_reader *reader, const struct op_field *field,
                       struct op_args *args)
{
    int64_t value = 0;

    if (field->type == OP_FIELD_I32) {
        value = (int32_t)wire_get_u32(reader);
        *(int32_t *)place_mut(field, args) = (int32_t)value;
    } else if (field->type == OP_FIELD_U32) {
        value = wire_get_u32(reader);
        *(uint32_t *)place_mut(field, args) = (uint32_t)value;
    } else {
        value = (int64_t)wire_get_u64(reader);
        *(int64_t *)place_mut(field, args) = value;
    }
    /* Zero is what a field that was not given holds. */
    if (value != 0 && (value < field->min || value > field->max)) {
        wire_reader_fail(reader);
    }
}

static void get_field(struct wire_reader *reader, const struct op_field *field,
                      struct op_args *args)
{
    switch (field->type) {
    case OP_FIELD_PATH:
    case OP_FIELD_TEXT:
        *(struct slice *)place_mut(field, args) = wire_get_bytes(reader, TEXT_MAX);
        break;
    case OP_FIELD_BYTES:
        *(struct slice *)place_mut(field, args) = wire_get_bytes(reader, (size_t)field->max);
        break;
    case OP_FIELD_BOOL:
    case OP_FIELD_NONE_MATCH:
        *(bool *)place_mut(field, args) = get_bool(reader);
        break;
    case OP_FIELD_I32:
    case OP_FIELD_U32:
    case OP_FIELD_I64:
    case OP_FIELD_U64:
        get_number(reader, field, args);
        break;
    case OP_FIELD_WITH:
        args->with = (enum op_with)get_below(reader, OP_WITH_DATA + 1);
        break;
    case OP_FIELD_DATAFORMAT:
        args->dataformat = (enum op_dataformat)get_below(reader, OP_NONE + 1);
        break;
    case OP_FIELD_MATCH:
        get_match(reader, args);
        break;
    case OP_FIELD_OPS:
        args->op_count = wire_get_u32(reader);
        break;
    case OP_FIELD_HASH:
        *(struct slice *)place_mut(field, args) = wire_get_bytes(reader, TXN_SECRET_HASH_LEN);
        if (args->secret_hash.len != TXN_SECRET_HASH_LEN) {
            wire_reader_fail(reader);
        }
        break;
    case OP_FIELD_ACL:
        args->acl = wire_get_bytes(reader, ACL_BYTES_MAX);
        break;
    case OP_FIELD_NAME:
    case OP_FIELD_SECRET:
    case OP_FIELD_KIND:
    case OP_FIELD_SINCE:
        break;
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
            bool has = get_bool(reader);

            *((bool *)((uint8_t *)args + field->has_offset)) = has;
            if (!has) {
                continue;
            }
        }
        get_field(reader, field, args);
    }
}

static enum err get_elements(struct wire_reader *reader, struct op_args *args)
{
    size_t left = (size_t)(reader->end - reader->pos);

    /* An element takes at least its id and a length: a hostile count allocates nothing. */
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

static void put_stat(struct buf *out, const struct stat_view *stat)
{
    wire_put_u64(out, stat->czxid);
    wire_put_u64(out, stat->mzxid);
    wire_put_u64(out, stat->pzxid);
    wire_put_u64(out, (uint64_t)stat->ctime);
    wire_put_u64(out, (uint64_t)stat->mtime);
    wire_put_u32(out, (uint32_t)stat->version);
    wire_put_u32(out, (uint32_t)stat->cversion);
    wire_put_u32(out, (uint32_t)stat->aversion);
    wire_put_u64(out, stat->ephemeral_owner);
    wire_put_u32(out, stat->data_length);
    wire_put_u32(out, stat->num_children);
}

static void get_stat(struct wire_reader *reader, struct stat_view *stat)
{
    stat->czxid = wire_get_u64(reader);
    stat->mzxid = wire_get_u64(reader);
    stat->pzxid = wire_get_u64(reader);
    stat->ctime = (int64_t)wire_get_u64(reader);
    stat->mtime = (int64_t)wire_get_u64(reader);
    stat->version = (int32_t)wire_get_u32(reader);
    stat->cversion = (int32_t)wire_get_u32(reader);
    stat->aversion = (int32_t)wire_get_u32(reader);
    stat->ephemeral_owner = wire_get_u64(reader);
    stat->data_length = wire_get_u32(reader);
    stat->num_children = wire_get_u32(reader);
}

static void put_result(struct buf *out, const struct op_result *result)
{
    size_t detail_len = result->detail ? strlen(result->detail) : 0;

    detail_len = detail_len < DETAIL_MAX ? detail_len : DETAIL_MAX;
    wire_put_bytes(out, slice_str(err_symbol(result->err)));
    wire_put_bytes(out, slice_make(result->detail, detail_len));
    wire_put_u64(out, result->zxid);
    wire_put_u8(out, result->created);
    wire_put_u8(out, result->has_stat);
    if (result->has_stat) {
        put_stat(out, &result->stat);
    }
    wire_put_u32(out, result->failed_index);
}

/* A symbol of a newer version is an error all the same. */
static enum err err_by_symbol(struct slice symbol)
{
    for (int err = 0; err < ERR_COUNT; err++) {
        if (slice_eq(slice_str(err_symbol((enum err)err)), symbol)) {
            return (enum err)err;
        }
    }
    return ERR_SYSTEM_ERROR;
}

static void get_result(struct wire_reader *reader, struct op_result *result)
{
    enum err err = err_by_symbol(wire_get_bytes(reader, DETAIL_MAX));
    struct slice detail = wire_get_bytes(reader, DETAIL_MAX);

    result->err = err;
    result->zxid = wire_get_u64(reader);
    result->created = get_bool(reader);
    result->has_stat = get_bool(reader);
    if (result->has_stat) {
        get_stat(reader, &result->stat);
    }
    result->failed_index = wire_get_u32(reader);
    if (wire_reader_ok(reader) && detail.len > 0) {
        buf_append_slice(&result->arena, detail);
        result->detail = buf_cstr(&result->arena);
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
        op_result_init(result);
        return ERR_FORMAT;
    }
    return ERR_OK;
}
