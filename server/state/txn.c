#include "server/state/txn.h"

#include "base/check.h"
#include "base/minmax.h"
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
    FIELDS_MAX = 6, /* The largest number of fields of a type, with WIRE_END. */

    HEADER_LEN = 38,                   /* Bytes before the actor. */
    ACTOR_AT = HEADER_LEN + 2,         /* Offset of an actor, which follows its length. */
    ACTOR_SUPER = 0x80,                /* Bit in the number of identities. */
    ACTOR_CONFIRMED_AT = ACTOR_AT + 2, /* Offset of `confirmed`, if there are identities. */
    ACTOR_ADDRESS_MAX = 63,
};

/* The fields of each type, in the order of their bytes. */
static const struct wire_field fields_of[][FIELDS_MAX] = {
    [TXN_CREATE] = {PATH, DATA, INT(owner), ACL, INT(creates)},
    [TXN_SET] = {PATH, DATA, INT(version)},
    [TXN_DELETE] = {PATH}, /* Then the version, with TXN_VERSION_BEFORE. */
    [TXN_CHECK] = {PATH},
    [TXN_SET_ACL] = {PATH, ACL, INT(version)},
    [TXN_SESSION_OPEN] = {INT(open.session), INT(open.timeout_ms), RAW(open.secret_hash),
                          BYTES(open.from, TXN_FROM_MAX)},
    [TXN_SESSION_CLOSE] = {INT(close.session), INT(close.reason)},
    [TXN_SESSION_MOVE] = {INT(move.session), INT(move.attach), INT(move.member)},
    [TXN_REMEMBER] = {BYTES(remember.scope, TXN_SCOPE_MAX), BYTES(remember.key, TXN_KEY_MAX),
                      RAW(remember.fingerprint), BYTES(remember.result, TXN_RESULT_MAX)},
    [TXN_FORGET] = {INT(forget.horizon)},
    [TXN_ANSWER] = {BYTES(answer.bytes, TXN_ANSWER_MAX)},
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

    ASSERT(header->actor.len <= TXN_ACTOR_MAX);

    wire_put_u8(out, TXN_VERSION);
    wire_put_u8(out, header->actor.len > 0 ? TXN_HAS_ACTOR : 0);
    wire_put_fields(out, header_fields, header);
    if (header->actor.len > 0) {
        wire_put_u16(out, (uint16_t)header->actor.len);
        wire_put_raw(out, header->actor);
    }
}

static bool version_fits(uint8_t version, uint8_t flags)
{
    unsigned known = version >= TXN_VERSION ? (unsigned)TXN_HAS_ACTOR : 0U;

    return version >= TXN_VERSION_OLDEST && version <= TXN_VERSION && (flags & ~known) == 0;
}

bool txn_is_newer(struct slice txn)
{
    return txn.len > 0 && txn.data[0] > TXN_VERSION;
}

enum err txn_open(struct wire_reader *reader, struct slice txn, struct txn_header *ret_header)
{
    wire_reader_init(reader, txn);
    uint8_t version = wire_get_u8(reader);
    uint8_t flags = wire_get_u8(reader);

    *ret_header = (struct txn_header){0};
    if (!version_fits(version, flags)) {
        return ERR_FORMAT;
    }
    wire_get_fields(reader, header_fields, ret_header);
    if ((flags & TXN_HAS_ACTOR) != 0) {
        ret_header->actor = wire_get_raw(reader, wire_get_u16(reader));
    }
    ret_header->age_ms = age_within(ret_header->age_ms);
    ret_header->stamp_ms = stamp_within(ret_header->stamp_ms);
    return wire_reader_ok(reader) ? ERR_OK : ERR_FORMAT;
}

/* ---- The actor. ---- */

static void put_text(struct buf *out, struct slice text, size_t len_max)
{
    size_t len = min_size(text.len, len_max);

    wire_put_varint(out, len);
    wire_put_raw(out, slice_make(text.data, len));
}

static struct slice get_text(struct wire_reader *reader, size_t len_max)
{
    uint64_t len = wire_get_varint(reader);

    if (len > len_max) {
        wire_reader_fail(reader);
        return slice_make(NULL, 0);
    }
    return wire_get_raw(reader, (size_t)len);
}

void txn_actor_encode(struct buf *out, const struct txn_actor *actor)
{
    ASSERT(actor->count <= TXN_ACTOR_IDS_MAX && actor->address.len <= ACTOR_ADDRESS_MAX);

    wire_put_u8(out, actor->op);
    wire_put_u8(out, (uint8_t)(actor->count | (actor->super ? ACTOR_SUPER : 0U)));
    if (actor->count > 0) {
        wire_put_u16(out, (uint16_t)actor->confirmed);
    }
    wire_put_varint(out, actor->session);
    put_text(out, actor->address, ACTOR_ADDRESS_MAX);
    for (uint32_t i = 0; i < actor->count; i++) {
        put_text(out, actor->ids[i], TXN_ACTOR_ID_MAX);
    }
}

enum err txn_actor_decode(struct slice bytes, struct txn_actor *ret_actor)
{
    struct wire_reader reader;

    *ret_actor = (struct txn_actor){0};
    wire_reader_init(&reader, bytes);
    ret_actor->op = wire_get_u8(&reader);
    uint8_t count = wire_get_u8(&reader);

    ret_actor->super = (count & ACTOR_SUPER) != 0;
    ret_actor->count = count & ~(unsigned)ACTOR_SUPER;
    if (ret_actor->count > TXN_ACTOR_IDS_MAX) {
        return ERR_FORMAT;
    }
    if (ret_actor->count > 0) {
        ret_actor->confirmed = wire_get_u16(&reader);
    }
    ret_actor->session = wire_get_varint(&reader);
    ret_actor->address = get_text(&reader, ACTOR_ADDRESS_MAX);
    for (uint32_t i = 0; i < ret_actor->count; i++) {
        ret_actor->ids[i] = get_text(&reader, TXN_ACTOR_ID_MAX);
    }
    return wire_reader_done(&reader) ? ERR_OK : ERR_FORMAT;
}

void txn_confirm(struct buf *txn, uint32_t confirmed)
{
    bool has_actor =
        !txn->overflow && txn->len > ACTOR_CONFIRMED_AT + 1 && (txn->data[1] & TXN_HAS_ACTOR) != 0;

    if (has_actor && (txn->data[ACTOR_AT + 1] & ~(unsigned)ACTOR_SUPER) != 0) {
        txn->data[ACTOR_CONFIRMED_AT] = (uint8_t)confirmed;
        txn->data[ACTOR_CONFIRMED_AT + 1] = (uint8_t)(confirmed >> 8U);
    }
}

/* ---- Effects. ---- */

static bool is_about_znode(enum txn_effect_type type)
{
    return type < TXN_SESSION_OPEN;
}

static bool flags_fit(const struct txn_effect *effect)
{
    bool has_data = effect->type == TXN_CREATE || effect->type == TXN_SET;
    unsigned known = TXN_REPLY | TXN_NULL_DATA;

    known |= effect->type == TXN_DELETE ? (unsigned)TXN_VERSION_BEFORE : 0U;
    if ((effect->flags & ~known) != 0) {
        return false;
    }
    return (effect->flags & TXN_NULL_DATA) == 0 || (has_data && effect->data.len == 0);
}

void txn_put(struct buf *out, const struct txn_effect *effect)
{
    ASSERT(effect->type >= TXN_CREATE && effect->type <= TXN_ANSWER && flags_fit(effect));

    wire_put_u8(out, (uint8_t)effect->type);
    wire_put_u8(out, effect->flags);
    if (is_about_znode(effect->type)) {
        wire_put_fields(out, fields_of[effect->type], effect);
        if ((effect->flags & TXN_VERSION_BEFORE) != 0) {
            wire_put_u32(out, (uint32_t)effect->version);
        }
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
    case TXN_ANSWER:
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

    if (type < TXN_CREATE || type > TXN_ANSWER) {
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
        if (type == TXN_DELETE && (ret_effect->flags & TXN_VERSION_BEFORE) != 0) {
            ret_effect->version = (int32_t)wire_get_u32(reader);
        }
    }
    return wire_reader_ok(reader) && flags_fit(ret_effect) && is_sound(ret_effect) ? ERR_OK
                                                                                   : ERR_FORMAT;
}
