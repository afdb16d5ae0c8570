#include "tests/lib/zk_reply.h"

#include "base/check.h"
#include "base/mem.h"
#include "server/op/acl.h"

enum {
    ACL_BYTES = 1 << 20
};

/* ---- The encoding, written down again ---- */

static uint64_t number(struct wire_reader *reader, unsigned bytes)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < bytes; i++) {
        value = value << 8 | wire_get_u8(reader);
    }
    return value;
}

static int32_t integer(struct wire_reader *reader)
{
    return (int32_t)number(reader, 4);
}

/* Null has no data. */
static struct slice text(struct wire_reader *reader)
{
    int32_t len = integer(reader);

    return len == -1 ? slice_make(NULL, 0) : wire_get_raw(reader, (size_t)(uint32_t)len);
}

static void take_stat(struct wire_reader *reader, struct op_result *result)
{
    struct stat_view *stat = &result->stat;

    result->has_stat = true;
    stat->czxid = number(reader, 8);
    stat->mzxid = number(reader, 8);
    stat->ctime = (int64_t)number(reader, 8);
    stat->mtime = (int64_t)number(reader, 8);
    stat->version = integer(reader);
    stat->cversion = integer(reader);
    stat->aversion = integer(reader);
    stat->ephemeral_owner = number(reader, 8);
    stat->data_length = (uint32_t)integer(reader);
    stat->num_children = (uint32_t)integer(reader);
    stat->pzxid = number(reader, 8);
}

static void take_acl(struct wire_reader *reader, struct op_result *result)
{
    uint32_t count = (uint32_t)integer(reader);
    struct buf acl;

    buf_init(&acl, ACL_BYTES);
    for (uint32_t i = 0; i < count && wire_reader_ok(reader); i++) {
        struct acl_entry entry = {.perms = (uint32_t)integer(reader)};

        entry.scheme = text(reader);
        entry.id = text(reader);
        if (entry.perms <= ACL_ALL) {
            acl_put(&acl, &entry);
        }
    }
    result->acl = blob_new(buf_slice(&acl));
    buf_release(&acl);
}

/* Takes a vector of one text an element, or of two. */
static void take_texts(struct wire_reader *reader, uint32_t of_each, struct op_result *result)
{
    uint32_t count = (uint32_t)integer(reader);

    if (count > (size_t)(reader->end - reader->pos) / ((size_t)4 * of_each)) {
        wire_reader_fail(reader);
        return;
    }
    result->entries = mem_zalloc((size_t)count * of_each + 1, sizeof(*result->entries));
    result->entry_count = count * of_each;
    for (uint32_t i = 0; i < result->entry_count; i++) {
        result->entries[i].path = text(reader);
    }
}

static void take_data(struct wire_reader *reader, struct op_result *result)
{
    struct slice data = text(reader);

    result->data = data.data ? blob_new(data) : NULL;
}

enum err zk_reply_err(int32_t code)
{
    for (unsigned err = 0; err < ERR_COUNT; err++) {
        if (code <= 0 && (int32_t)zk_error_code((enum err)err) == code) {
            return (enum err)err;
        }
    }
    return ERR_SYSTEM_ERROR;
}

static void take_record(struct wire_reader *reader, int32_t type, struct op_result *result)
{
    switch (type) {
    case ZK_CREATE:
    case ZK_SYNC:
        result->path = text(reader);
        break;
    case ZK_CREATE2:
    case ZK_CREATE_CONTAINER:
    case ZK_CREATE_TTL:
        result->path = text(reader);
        take_stat(reader, result);
        break;
    case ZK_GET_DATA:
        take_data(reader, result);
        take_stat(reader, result);
        break;
    case ZK_GET_ACL:
        take_acl(reader, result);
        take_stat(reader, result);
        break;
    case ZK_EXISTS:
    case ZK_SET_DATA:
    case ZK_SET_ACL:
        take_stat(reader, result);
        break;
    case ZK_GET_CHILDREN:
    case ZK_GET_EPHEMERALS:
        take_texts(reader, 1, result);
        break;
    case ZK_GET_CHILDREN2:
        take_texts(reader, 1, result);
        take_stat(reader, result);
        break;
    case ZK_WHO_AM_I:
        take_texts(reader, 2, result);
        break;
    default:
        break;
    }
}

static bool is_element(int32_t type)
{
    return type == ZK_ERROR || type == ZK_CREATE || type == ZK_CREATE2 || type == ZK_DELETE ||
           type == ZK_SET_DATA || type == ZK_CHECK || type == ZK_GET_DATA ||
           type == ZK_GET_CHILDREN;
}

/* Takes one element; false for the end. */
static bool take_element(struct wire_reader *reader, int8_t *ret_type, struct op_result *result)
{
    int32_t type = integer(reader);
    uint8_t done = wire_get_u8(reader);
    int32_t code = integer(reader);

    if (done != 0 || !wire_reader_ok(reader)) {
        if (done != 1 || type != -1 || code != -1) {
            wire_reader_fail(reader);
        }
        return false;
    }
    if (!is_element(type)) {
        wire_reader_fail(reader);
        return false;
    }
    *ret_type = (int8_t)type;
    if (type != ZK_ERROR) {
        take_record(reader, type, result);
    } else {
        result->err = zk_reply_err(code);
        if (integer(reader) != code) {
            wire_reader_fail(reader);
        }
    }
    return wire_reader_ok(reader);
}

/* Takes the results of a multi. The first error is that of the whole multi. */
static void take_multi(struct wire_reader *reader, bool reads, struct zk_reply *reply)
{
    struct op_result *result = &reply->result;
    uint32_t types_cap = 0;
    uint32_t cap = 0;
    bool more = true;

    while (more) {
        MEM_GROW(result->results, result->result_count, cap, MEM_ITEMS_MAX);
        MEM_GROW(reply->types, result->result_count, types_cap, MEM_ITEMS_MAX);
        int8_t *type = &reply->types[result->result_count];
        struct op_result *one = &result->results[result->result_count++];

        op_result_init(one);
        more = take_element(reader, type, one);
        if (more && !reads && result->err == ERR_OK && one->err != ERR_OK) {
            result->err = one->err;
            result->failed_index = result->result_count - 1;
        }
    }
    op_result_release(&result->results[--result->result_count]);
}

bool zk_reply_read(const struct zk_request *request, struct slice frame, struct zk_reply *ret_reply)
{
    struct zk_reply *reply = ret_reply;
    struct wire_reader reader;

    *reply = (struct zk_reply){.xid = 0};
    op_result_init(&reply->result);
    wire_reader_init(&reader, frame);
    if ((size_t)(uint32_t)integer(&reader) + 4 != frame.len) {
        return false;
    }
    reply->xid = integer(&reader);
    reply->zxid = number(&reader, 8);
    reply->code = integer(&reader);
    reply->result.err = zk_reply_err(reply->code);
    if (reply->code == ZK_OK && (request->type == ZK_MULTI || request->type == ZK_MULTI_READ)) {
        reply->has_end = true;
        take_multi(&reader, request->type == ZK_MULTI_READ, reply);
    } else if (reply->code == ZK_OK &&
               (request->type == ZK_ADD_WATCH || request->type == ZK_GET_ALL_CHILDREN_NUMBER)) {
        reply->has_number = true;
        reply->number = integer(&reader);
    } else if (reply->code == ZK_OK && request->type == ZK_SASL) {
        (void)text(&reader);
    } else if (reply->code == ZK_OK) {
        take_record(&reader, request->type, &reply->result);
    }
    return wire_reader_done(&reader);
}

void zk_reply_release(struct zk_reply *reply)
{
    op_result_release(&reply->result);
    mem_free(reply->types);
    reply->types = NULL;
}
