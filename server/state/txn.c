#include "server/state/txn.h"

#include "base/check.h"
#include "server/state/path.h"
#include "server/state/state.h"

#define INT(member)            WIRE_FIELD(WIRE_INT, struct txn_effect, member)
#define RAW(member)            WIRE_FIELD(WIRE_RAW, struct txn_effect, member)
#define BYTES(member, len_max) WIRE_SLICE(struct txn_effect, member, len_max)
#define PATH                   BYTES(path, STATE_PATH_MAX)
#define DATA                   BYTES(data, UINT32_MAX)
#define ACL                    BYTES(acl, UINT32_MAX)

#define HEADER(member) WIRE_FIELD(WIRE_INT, struct txn_header, member)

/* The fields of a header, which come after version and flags. */
static const struct wire_field header_fields[] = {
    HEADER(origin_member), HEADER(origin_boot), HEADER(request),
    HEADER(age_ms),        HEADER(stamp_ms),    {.form = WIRE_END},
};

enum {
    FIELDS_MAX = 6 /* The largest number of fields of a type, with WIRE_END. */
};

/* The fields of each type, in the order of their bytes. */
static const struct wire_field fields_of[][FIELDS_MAX] = {
    [TXN_CREATE] = {PATH, DATA, INT(owner), ACL, INT(creates)},
    [TXN_SET] = {PATH, DATA, INT(version)},
    [TXN_DELETE] = {PATH},
    [TXN_CHECK] = {PATH},
    [TXN_SET_ACL] = {PATH, ACL, INT(version)},
    [TXN_SESSION_OPEN] = {INT(open.session), INT(open.timeout_ms), RAW(open.secret_hash),
                          BYTES(open.from, TXN_FROM_MAX)},
    [TXN_SESSION_CLOSE] = {INT(close.session), INT(close.reason)},
    [TXN_SESSION_MOVE] = {INT(move.session), INT(move.attach), INT(move.member)},
    [TXN_REMEMBER] = {BYTES(remember.scope, TXN_SCOPE_MAX), BYTES(remember.key, TXN_KEY_MAX),
                      RAW(remember.fingerprint), BYTES(remember.result, TXN_RESULT_MAX)},
    [TXN_FORGET] = {INT(forget.horizon)},
};

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
    ASSERT(header->age_ms == age_within(header->age_ms));
    ASSERT(header->stamp_ms == stamp_within(header->stamp_ms));

    wire_put_u8(out, TXN_VERSION);
    wire_put_u8(out, 0);
    wire_put_fields(out, header_fields, header);
}

enum err txn_open(struct wire_reader *reader, struct slice txn, struct txn_header *ret_header)
{
    wire_reader_init(reader, txn);
    uint8_t version = wire_get_u8(reader);
    uint8_t flags = wire_get_u8(reader);

    if (version != TXN_VERSION || flags != 0) {
        return ERR_FORMAT;
    }
    wire_get_fields(reader, header_fields, ret_header);
    ret_header->age_ms = age_within(ret_header->age_ms);
    ret_header->stamp_ms = stamp_within(ret_header->stamp_ms);
    return wire_reader_ok(reader) ? ERR_OK : ERR_FORMAT;
}

static bool is_about_znode(enum txn_effect_type type)
{
    return type < TXN_SESSION_OPEN;
}

static bool flags_fit(const struct txn_effect *effect)
{
    bool has_data = effect->type == TXN_CREATE || effect->type == TXN_SET;

    if ((effect->flags & ~(unsigned)(TXN_REPLY | TXN_NULL_DATA)) != 0) {
        return false;
    }
    return (effect->flags & TXN_NULL_DATA) == 0 || (has_data && effect->data.len == 0);
}

void txn_put(struct buf *out, const struct txn_effect *effect)
{
    ASSERT(effect->type >= TXN_CREATE && effect->type <= TXN_FORGET && flags_fit(effect));

    wire_put_u8(out, (uint8_t)effect->type);
    wire_put_u8(out, effect->flags);
    if (is_about_znode(effect->type)) {
        wire_put_fields(out, fields_of[effect->type], effect);
        return;
    }
    size_t len_at = out->len;

    wire_put_u32(out, 0);
    wire_put_fields(out, fields_of[effect->type], effect);
    if (!out->overflow) {
        wire_store_u32(out->data + len_at, (uint32_t)(out->len - len_at - sizeof(uint32_t)));
    }
}

/* Whether the effect keeps the rules that the table of fields cannot express. */
static bool is_sound(const struct txn_effect *effect)
{
    switch (effect->type) {
    case TXN_CREATE:
    case TXN_SET:
    case TXN_DELETE:
    case TXN_CHECK:
    case TXN_SET_ACL:
        return path_check(effect->path, NULL) == ERR_OK;
    case TXN_SESSION_OPEN:
        return effect->open.session != 0;
    case TXN_SESSION_CLOSE:
        return effect->close.session != 0 && (effect->close.reason == TXN_CLOSED_BY_CLIENT ||
                                              effect->close.reason == TXN_CLOSED_EXPIRED);
    case TXN_SESSION_MOVE:
        return effect->move.session != 0;
    case TXN_REMEMBER:
        return true;
    case TXN_FORGET:
        return effect->forget.horizon != 0;
    }
    UNREACHABLE();
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
    if (!is_about_znode(ret_effect->type)) {
        /* The fields are inside one field of bytes and must fill it exactly. */
        struct wire_reader fields;

        wire_reader_init(&fields, wire_get_bytes(reader, UINT32_MAX));
        wire_get_fields(&fields, fields_of[type], ret_effect);
        if (!wire_reader_done(&fields)) {
            return ERR_FORMAT;
        }
    } else {
        wire_get_fields(reader, fields_of[type], ret_effect);
    }
    return wire_reader_ok(reader) && flags_fit(ret_effect) && is_sound(ret_effect) ? ERR_OK
                                                                                   : ERR_FORMAT;
}
