#include "server/state/txn.h"

#include "base/check.h"
#include "server/state/path.h"
#include "server/state/state.h"

static int64_t age_within(int64_t age_ms)
{
    return age_ms >= 0 && age_ms <= TXN_AGE_MAX_MS ? age_ms : 0;
}

static int64_t stamp_within(int64_t stamp_ms)
{
    if (stamp_ms < -TXN_STAMP_MAX_MS) {
        return -TXN_STAMP_MAX_MS;
    }
    return stamp_ms > TXN_STAMP_MAX_MS ? TXN_STAMP_MAX_MS : stamp_ms;
}

void txn_begin(struct buf *out, const struct txn_header *header)
{
    ASSERT(!out->overflow);
    ASSERT(header->age_ms == age_within(header->age_ms));
    ASSERT(header->stamp_ms == stamp_within(header->stamp_ms));

    wire_put_u8(out, TXN_VERSION);
    wire_put_u8(out, 0);
    wire_put_u32(out, header->origin_member);
    wire_put_u64(out, header->origin_boot);
    wire_put_u64(out, header->request);
    wire_put_u64(out, (uint64_t)header->age_ms);
    wire_put_u64(out, (uint64_t)header->stamp_ms);
}

void txn_put(struct buf *out, const struct txn_effect *effect)
{
    ASSERT(effect->type >= TXN_CREATE && effect->type <= TXN_FORGET);
    ASSERT((effect->flags & TXN_NULL_DATA) == 0 || effect->data.len == 0);
    ASSERT(effect->type >= TXN_SESSION_OPEN || effect->path.len > 0);

    wire_put_u8(out, (uint8_t)effect->type);
    wire_put_u8(out, effect->flags);
    if (effect->type >= TXN_SESSION_OPEN) {
        wire_put_bytes(out, effect->extra);
        return;
    }
    wire_put_bytes(out, effect->path);
    if (effect->type == TXN_CREATE) {
        wire_put_bytes(out, effect->data);
        wire_put_u64(out, effect->owner);
        wire_put_bytes(out, effect->acl);
        wire_put_u32(out, effect->creates);
    } else if (effect->type == TXN_SET) {
        wire_put_bytes(out, effect->data);
        wire_put_u32(out, (uint32_t)effect->version);
    } else if (effect->type == TXN_SET_ACL) {
        wire_put_bytes(out, effect->acl);
        wire_put_u32(out, (uint32_t)effect->version);
    }
}

enum err txn_open(struct wire_reader *reader, struct slice txn, struct txn_header *ret_header)
{
    ASSERT(txn.data != NULL || txn.len == 0);

    wire_reader_init(reader, txn);
    uint8_t version = wire_get_u8(reader);
    uint8_t flags = wire_get_u8(reader);

    if (version != TXN_VERSION || flags != 0) {
        return ERR_FORMAT;
    }
    ret_header->origin_member = wire_get_u32(reader);
    ret_header->origin_boot = wire_get_u64(reader);
    ret_header->request = wire_get_u64(reader);
    ret_header->age_ms = age_within((int64_t)wire_get_u64(reader));
    ret_header->stamp_ms = stamp_within((int64_t)wire_get_u64(reader));
    return wire_reader_ok(reader) ? ERR_OK : ERR_FORMAT;
}

/* The fields after the path, of the types that have one. */
static void get_fields(struct wire_reader *reader, struct txn_effect *effect)
{
    ASSERT(effect->type < TXN_SESSION_OPEN && effect->path.len <= STATE_PATH_MAX);

    if (effect->type == TXN_CREATE) {
        effect->data = wire_get_bytes(reader, UINT32_MAX);
        effect->owner = wire_get_u64(reader);
        effect->acl = wire_get_bytes(reader, UINT32_MAX);
        effect->creates = wire_get_u32(reader);
    } else if (effect->type == TXN_SET) {
        effect->data = wire_get_bytes(reader, UINT32_MAX);
        effect->version = (int32_t)wire_get_u32(reader);
    } else if (effect->type == TXN_SET_ACL) {
        effect->acl = wire_get_bytes(reader, UINT32_MAX);
        effect->version = (int32_t)wire_get_u32(reader);
    }
}

static bool flags_fit(const struct txn_effect *effect)
{
    bool has_data = effect->type == TXN_CREATE || effect->type == TXN_SET;

    ASSERT(has_data || effect->data.len == 0);
    if ((effect->flags & ~(unsigned)(TXN_REPLY | TXN_NULL_DATA)) != 0) {
        return false;
    }
    return (effect->flags & TXN_NULL_DATA) == 0 || (has_data && effect->data.len == 0);
}

enum err txn_next(struct wire_reader *reader, struct txn_effect *ret_effect)
{
    if (wire_reader_done(reader)) {
        return ERR_MISSING;
    }
    uint8_t type = wire_get_u8(reader);

    if (type < TXN_CREATE || type > TXN_FORGET) {
        return ERR_FORMAT;
    }
    *ret_effect = (struct txn_effect){.type = (enum txn_effect_type)type};
    ret_effect->flags = wire_get_u8(reader);
    if (type >= TXN_SESSION_OPEN) {
        ret_effect->extra = wire_get_bytes(reader, UINT32_MAX);
    } else {
        ret_effect->path = wire_get_bytes(reader, STATE_PATH_MAX);
        get_fields(reader, ret_effect);
    }
    if (!wire_reader_ok(reader) || !flags_fit(ret_effect)) {
        return ERR_FORMAT;
    }
    if (type < TXN_SESSION_OPEN && path_check(ret_effect->path, NULL) != ERR_OK) {
        return ERR_FORMAT;
    }
    ASSERT(reader->pos <= reader->end);
    return ERR_OK;
}
