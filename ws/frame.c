#include "ws/frame.h"

#include "base/base64.h"
#include "base/check.h"
#include "base/crypto.h"
#include "base/utf8.h"
#include "server/json/op_json.h"

#include <string.h>

enum {
    FIN = 0x80, /* FIN, RESERVED, OPCODE: bits of the first byte. */
    RESERVED = 0x70,
    OPCODE = 0x0f,
    CONTROL = 0x08, /* Set in the opcodes of control frames. */

    OPCODE_MORE = 0x0,
    OPCODE_TEXT = 0x1,
    OPCODE_BINARY = 0x2,
    OPCODE_CLOSE = 0x8,
    OPCODE_PING = 0x9,
    OPCODE_PONG = 0xa,

    MASKED = 0x80, /* A bit of the second byte. */
    LEN_16_BITS = 126,
    LEN_64_BITS = 127,
    MASK_LEN = 4,
    WORD = 8, /* Bytes that are unmasked at a time. */

    CODE_LEN = 2,
    HANDSHAKE_HASHED_MAX = 128
};

void ws_frame_init(struct ws_frame_reader *reader, uint64_t message_max)
{
    *reader = (struct ws_frame_reader){.message_max = message_max};
}

static bool fail(struct ws_frame_reader *reader, uint16_t code, const char *reason)
{
    ASSERT(reader->code == 0);
    reader->code = code;
    reader->reason = reason;
    return false;
}

static bool break_rule(struct ws_frame_reader *reader, const char *rule)
{
    return fail(reader, WS_CODE_PROTOCOL, rule);
}

static uint8_t opcode_of(const struct ws_frame_reader *reader)
{
    return reader->head[0] & OPCODE;
}

static bool is_control(const struct ws_frame_reader *reader)
{
    return (reader->head[0] & CONTROL) != 0;
}

static bool is_final(const struct ws_frame_reader *reader)
{
    return (reader->head[0] & FIN) != 0;
}

/* ---- The head ---- */

/* Checks the first byte: the opcode, and whether this opcode may follow the earlier frames. */
static bool check_first(struct ws_frame_reader *reader)
{
    uint8_t opcode = opcode_of(reader);

    if ((reader->head[0] & RESERVED) != 0) {
        return break_rule(reader, "a frame has a reserved bit set");
    }
    if (is_control(reader) ? opcode > OPCODE_PONG : opcode > OPCODE_BINARY) {
        return break_rule(reader, "a frame has a reserved opcode");
    }
    if (is_control(reader)) {
        return is_final(reader) || break_rule(reader, "a control frame is split into fragments");
    }
    if (opcode == OPCODE_MORE && !reader->in_message) {
        return break_rule(reader, "a continuation frame arrived while no message was unfinished");
    }
    if (opcode != OPCODE_MORE && reader->in_message) {
        return break_rule(reader,
                          "a message begins before the last fragment of the previous message");
    }
    return true;
}

static bool check_second(struct ws_frame_reader *reader)
{
    uint8_t second = reader->head[1];

    if ((second & MASKED) == 0) {
        return break_rule(reader, "a frame is not masked");
    }
    if (is_control(reader) && (second & ~MASKED) > WS_FRAME_CONTROL_MAX) {
        return break_rule(reader, "a control frame has more than 125 bytes");
    }
    return true;
}

static size_t length_bytes(const struct ws_frame_reader *reader)
{
    uint8_t len = reader->head[1] & (uint8_t)~MASKED;

    return len == LEN_16_BITS ? 2 : len == LEN_64_BITS ? 8 : 0;
}

static bool take_length(struct ws_frame_reader *reader)
{
    size_t bytes = length_bytes(reader);
    uint64_t len = bytes == 0 ? reader->head[1] & (uint8_t)~MASKED : 0;

    for (size_t i = 0; i < bytes; i++) {
        len = len << 8 | reader->head[2 + i];
    }
    if (bytes == 8 && len > INT64_MAX) {
        return break_rule(reader, "the length of a frame has the top bit set");
    }
    if ((bytes == 2 && len < LEN_16_BITS) || (bytes == 8 && len <= UINT16_MAX)) {
        return break_rule(reader, "the length of a frame is encoded in more bytes than necessary");
    }
    if (!is_control(reader) && len > reader->message_max - reader->message) {
        return fail(reader, WS_CODE_TOO_LARGE, "the message is larger than maxMessageBytes");
    }
    reader->left = len;
    return true;
}

/* Checks the bytes of the head that have arrived; false when there is a fault. */
static bool check_head(struct ws_frame_reader *reader)
{
    if (reader->head_len == 1) {
        return check_first(reader);
    }
    if (reader->head_len == 2 && !check_second(reader)) {
        return false;
    }
    return reader->head_len != 2 + length_bytes(reader) || take_length(reader);
}

static void begin_payload(struct ws_frame_reader *reader)
{
    reader->in_payload = true;
    reader->mask_at = 0;
    reader->control_len = 0;
    if (is_control(reader)) {
        return;
    }
    if (opcode_of(reader) != OPCODE_MORE) {
        reader->text = opcode_of(reader) == OPCODE_TEXT;
    }
    reader->message += reader->left;
    reader->in_message = !is_final(reader);
}

/* Takes bytes of the head. False when the head is incomplete or has a fault. */
static bool take_head(struct ws_frame_reader *reader, uint8_t **at, size_t *len)
{
    while (!reader->in_payload) {
        if (*len == 0) {
            return false;
        }
        reader->head[reader->head_len++] = **at;
        (*at)++;
        (*len)--;
        if (!check_head(reader)) {
            return false;
        }
        if (reader->head_len >= 2 &&
            reader->head_len == 2 + length_bytes(reader) + (size_t)MASK_LEN) {
            begin_payload(reader);
        }
    }
    return true;
}

/* ---- The payload ---- */

static void unmask(struct ws_frame_reader *reader, uint8_t *bytes, size_t len)
{
    const uint8_t *mask = reader->head + reader->head_len - MASK_LEN;
    uint8_t turned[WORD];
    uint64_t key = 0;
    size_t i = 0;

    for (size_t k = 0; k < WORD; k++) {
        turned[k] = mask[(reader->mask_at + k) % MASK_LEN];
    }
    memcpy(&key, turned, WORD);
    for (; i + WORD <= len; i += WORD) {
        uint64_t word = 0;

        memcpy(&word, bytes + i, WORD);
        word ^= key;
        memcpy(bytes + i, &word, WORD);
    }
    for (; i < len; i++) {
        bytes[i] ^= turned[i % WORD];
    }
    reader->mask_at = (uint8_t)((reader->mask_at + len) % MASK_LEN);
}

static struct slice take_payload(struct ws_frame_reader *reader, uint8_t **at, size_t *len)
{
    size_t take = *len < reader->left ? *len : (size_t)reader->left;
    struct slice bytes = slice_make(*at, take);

    unmask(reader, *at, take);
    *at += take;
    *len -= take;
    reader->left -= take;
    return bytes;
}

static void end_frame(struct ws_frame_reader *reader)
{
    reader->in_payload = false;
    reader->head_len = 0;
}

/* Takes payload of a message. Returns WS_FRAME_NONE for an empty frame in the middle of a message,
 * which has no effect. */
static enum ws_frame_kind take_piece(struct ws_frame_reader *reader, uint8_t **at, size_t *len,
                                     struct ws_frame *frame)
{
    bool first = opcode_of(reader) != OPCODE_MORE;
    bool empty = reader->left == 0;

    frame->bytes = take_payload(reader, at, len);
    frame->text = reader->text;
    frame->last = reader->left == 0 && is_final(reader);
    if (reader->left == 0) {
        end_frame(reader);
    }
    if (frame->last) {
        reader->message = 0;
    }
    return !empty || first || frame->last ? WS_FRAME_PIECE : WS_FRAME_NONE;
}

/* Whether a close frame may carry this code (RFC 6455, section 7.4, and IANA's registry). */
static bool is_close_code(uint16_t code)
{
    return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
           (code >= 3000 && code <= 4999);
}

/* Checks the payload of a close frame; false when there is a fault. */
static bool check_close(struct ws_frame_reader *reader, struct ws_frame *frame)
{
    const uint8_t *bytes = reader->control;
    size_t len = reader->control_len;

    if (len == 0) {
        return true;
    }
    if (len < CODE_LEN) {
        return break_rule(reader, "a close frame has only one byte of the two-byte close code");
    }
    frame->code = (uint16_t)(bytes[0] << 8 | bytes[1]);
    if (!is_close_code(frame->code)) {
        return break_rule(reader, "a close frame has a close code that a client must not send");
    }
    frame->bytes = slice_make(bytes + CODE_LEN, len - CODE_LEN);
    return utf8_valid(frame->bytes) ||
           fail(reader, WS_CODE_NOT_UTF8, "the reason for closing is not UTF-8");
}

static enum ws_frame_kind take_control(struct ws_frame_reader *reader, uint8_t **at, size_t *len,
                                       struct ws_frame *frame)
{
    struct slice bytes = take_payload(reader, at, len);

    if (bytes.len > 0) {
        memcpy(reader->control + reader->control_len, bytes.data, bytes.len);
    }
    reader->control_len = (uint8_t)(reader->control_len + bytes.len);
    if (reader->left > 0) {
        return WS_FRAME_NONE;
    }
    end_frame(reader);
    frame->bytes = slice_make(reader->control, reader->control_len);
    if (opcode_of(reader) != OPCODE_CLOSE) {
        return opcode_of(reader) == OPCODE_PING ? WS_FRAME_PING : WS_FRAME_PONG;
    }
    reader->closed = check_close(reader, frame);
    return reader->closed ? WS_FRAME_CLOSE : WS_FRAME_NONE;
}

enum ws_frame_kind ws_frame_next(struct ws_frame_reader *reader, uint8_t **at, size_t *len,
                                 struct ws_frame *ret_frame)
{
    enum ws_frame_kind kind = WS_FRAME_NONE;

    *ret_frame = (struct ws_frame){.code = 0};
    if (reader->closed) {
        *at += *len;
        *len = 0;
        return WS_FRAME_NONE;
    }
    while (kind == WS_FRAME_NONE && reader->code == 0 && take_head(reader, at, len) &&
           (reader->left == 0 || *len > 0)) {
        kind = is_control(reader) ? take_control(reader, at, len, ret_frame)
                                  : take_piece(reader, at, len, ret_frame);
    }
    if (reader->code != 0) {
        *ret_frame = (struct ws_frame){.code = reader->code, .reason = reader->reason};
        return WS_FRAME_FAULT;
    }
    return kind;
}

/* ---- The handshake ---- */

void ws_handshake_answer(struct buf *out, struct slice key)
{
    uint8_t hash[CRYPTO_SHA1_LEN];
    struct buf hashed;

    buf_init(&hashed, HANDSHAKE_HASHED_MAX);
    (void)buf_append_slice(&hashed, key);
    (void)buf_append_str(&hashed, "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"); /* See RFC 6455, 1.3. */
    crypto_sha1(buf_slice(&hashed), hash);
    buf_release(&hashed);
    (void)buf_append_str(out, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                              "Connection: Upgrade\r\n"
                              "Sec-WebSocket-Protocol: " OP_PROTOCOL "\r\n"
                              "Sec-WebSocket-Accept: ");
    base64_encode(out, slice_make(hash, sizeof(hash)));
    (void)buf_append_str(out, "\r\n\r\n");
}
