#include "base/check.h"
#include "server/state/txn.h"

/* Type, flags and the length of the field of bytes, which the caller appends. */
static void begin_effect(struct buf *out, enum txn_effect_type type, uint8_t flags, size_t len)
{
    ASSERT(type >= TXN_SESSION_OPEN && type <= TXN_FORGET);
    ASSERT((flags & ~(unsigned)TXN_REPLY) == 0 && len <= UINT32_MAX);

    wire_put_u8(out, (uint8_t)type);
    wire_put_u8(out, flags);
    wire_put_u32(out, (uint32_t)len);
}

void txn_put_session_open(struct buf *out, uint8_t flags, const struct txn_session_open *open)
{
    ASSERT(open->session != 0 && open->from.len <= TXN_FROM_MAX);

    begin_effect(out, TXN_SESSION_OPEN, flags, 8 + 4 + TXN_SECRET_HASH_LEN + 4 + open->from.len);
    wire_put_u64(out, open->session);
    wire_put_u32(out, open->timeout_ms);
    wire_put_raw(out, slice_make(open->secret_hash, TXN_SECRET_HASH_LEN));
    wire_put_bytes(out, open->from);
}

void txn_put_session_close(struct buf *out, uint8_t flags, const struct txn_session_close *close)
{
    ASSERT(close->session != 0);

    begin_effect(out, TXN_SESSION_CLOSE, flags, 8 + 1);
    wire_put_u64(out, close->session);
    wire_put_u8(out, (uint8_t)close->reason);
}

void txn_put_session_move(struct buf *out, uint8_t flags, const struct txn_session_move *move)
{
    ASSERT(move->session != 0);

    begin_effect(out, TXN_SESSION_MOVE, flags, 8 + 8 + 4);
    wire_put_u64(out, move->session);
    wire_put_u64(out, move->attach);
    wire_put_u32(out, move->member);
}

void txn_put_remember(struct buf *out, const struct txn_remember *remember)
{
    ASSERT(remember->scope.len <= TXN_SCOPE_MAX && remember->key.len <= TXN_KEY_MAX);
    ASSERT(remember->result.len <= TXN_RESULT_MAX);

    begin_effect(out, TXN_REMEMBER, 0,
                 4 + remember->scope.len + 4 + remember->key.len + TXN_FINGERPRINT_LEN + 4 +
                     remember->result.len);
    wire_put_bytes(out, remember->scope);
    wire_put_bytes(out, remember->key);
    wire_put_raw(out, slice_make(remember->fingerprint, TXN_FINGERPRINT_LEN));
    wire_put_bytes(out, remember->result);
}

void txn_put_forget(struct buf *out, const struct txn_forget *forget)
{
    ASSERT(forget->horizon != 0);

    begin_effect(out, TXN_FORGET, 0, 8);
    wire_put_u64(out, forget->horizon);
}

static void get_raw(struct wire_reader *reader, uint8_t *to, size_t len)
{
    struct slice bytes = wire_get_raw(reader, len);

    ASSERT(bytes.len == len || !wire_reader_ok(reader));
    if (wire_reader_ok(reader)) {
        memcpy(to, bytes.data, len);
    }
}

static enum err end_of(const struct wire_reader *reader)
{
    ASSERT(reader->pos <= reader->end);

    return wire_reader_done(reader) ? ERR_OK : ERR_FORMAT;
}

enum err txn_get_session_open(const struct txn_effect *effect, struct txn_session_open *ret_open)
{
    ASSERT(effect->type == TXN_SESSION_OPEN);
    struct wire_reader reader;

    *ret_open = (struct txn_session_open){0};
    wire_reader_init(&reader, effect->extra);
    ret_open->session = wire_get_u64(&reader);
    ret_open->timeout_ms = wire_get_u32(&reader);
    get_raw(&reader, ret_open->secret_hash, TXN_SECRET_HASH_LEN);
    ret_open->from = wire_get_bytes(&reader, TXN_FROM_MAX);
    return ret_open->session != 0 ? end_of(&reader) : ERR_FORMAT;
}

enum err txn_get_session_close(const struct txn_effect *effect, struct txn_session_close *ret_close)
{
    ASSERT(effect->type == TXN_SESSION_CLOSE);
    struct wire_reader reader;

    wire_reader_init(&reader, effect->extra);
    ret_close->session = wire_get_u64(&reader);
    uint8_t reason = wire_get_u8(&reader);

    if (reason != TXN_CLOSED_BY_CLIENT && reason != TXN_CLOSED_EXPIRED) {
        return ERR_FORMAT;
    }
    ret_close->reason = (enum txn_close_reason)reason;
    return ret_close->session != 0 ? end_of(&reader) : ERR_FORMAT;
}

enum err txn_get_session_move(const struct txn_effect *effect, struct txn_session_move *ret_move)
{
    ASSERT(effect->type == TXN_SESSION_MOVE);
    struct wire_reader reader;

    wire_reader_init(&reader, effect->extra);
    ret_move->session = wire_get_u64(&reader);
    ret_move->attach = wire_get_u64(&reader);
    ret_move->member = wire_get_u32(&reader);
    return ret_move->session != 0 ? end_of(&reader) : ERR_FORMAT;
}

enum err txn_get_remember(const struct txn_effect *effect, struct txn_remember *ret_remember)
{
    ASSERT(effect->type == TXN_REMEMBER);
    struct wire_reader reader;

    *ret_remember = (struct txn_remember){0};
    wire_reader_init(&reader, effect->extra);
    ret_remember->scope = wire_get_bytes(&reader, TXN_SCOPE_MAX);
    ret_remember->key = wire_get_bytes(&reader, TXN_KEY_MAX);
    get_raw(&reader, ret_remember->fingerprint, TXN_FINGERPRINT_LEN);
    ret_remember->result = wire_get_bytes(&reader, TXN_RESULT_MAX);
    return end_of(&reader);
}

enum err txn_get_forget(const struct txn_effect *effect, struct txn_forget *ret_forget)
{
    ASSERT(effect->type == TXN_FORGET);
    struct wire_reader reader;

    wire_reader_init(&reader, effect->extra);
    ret_forget->horizon = wire_get_u64(&reader);
    return ret_forget->horizon != 0 ? end_of(&reader) : ERR_FORMAT;
}
