/*
 * The bytes of a WebSocket client: any bytes, or frames made of the input's fields, cut anywhere.
 * The result must equal that of the rules of RFC 6455, written down again here for all bytes at
 * once: the same messages, pings, closes and fault wherever the bytes are cut, nothing after the
 * end, never more than a message may have.
 */
#include "base/mem.h"
#include "base/utf8.h"
#include "tests/fuzz/fuzz.h"
#include "ws/frame.h"

enum {
    MODE_BYTES,
    MODE_FRAMES,
    MODE_COUNT,

    MESSAGE_MAX = 3000,
    DECODED_MAX = 1 << 20,
    UNMASKED = 1, /* Bits of a field: a frame that breaks a rule. */
    LONG_FORM = 2,

    PROTOCOL = 1002,
    NOT_UTF8 = 1007,
    TOO_LARGE = 1009
};

/* ---- What the bytes decode to, as marks and payloads ---- */

static void mark(struct buf *decoded, char what, uint16_t code)
{
    buf_append_byte(decoded, (uint8_t)what);
    wire_put_u16(decoded, code);
}

static void put_tail(struct buf *decoded, char what, uint16_t code, struct slice bytes)
{
    mark(decoded, what, code);
    wire_put_bytes(decoded, bytes);
}

/* ---- The rules, written down again ---- */

struct oracle {
    struct slice bytes;
    size_t at;
    struct buf decoded;
    struct buf message;
    char kind; /* Of the message: 't', 'b'; '\0': none. */
    bool fault;
};

static uint16_t byte_at(const struct oracle *oracle, size_t i)
{
    return oracle->bytes.data[oracle->at + i];
}

static size_t left(const struct oracle *oracle)
{
    return oracle->bytes.len - oracle->at;
}

static bool end(struct oracle *oracle, uint16_t code)
{
    if (oracle->kind != '\0') {
        put_tail(&oracle->decoded, oracle->kind, 1, buf_slice(&oracle->message)); /* Not whole. */
    }
    if (code != 0) {
        mark(&oracle->decoded, 'f', code);
        oracle->fault = true;
    }
    return false;
}

static bool is_bad_first(const struct oracle *oracle, unsigned first)
{
    static const char known[] = "ynn-----yyy-----"; /* 'n': begins a message. */
    unsigned opcode = first % 16;

    if (first / 16 % 8 != 0 || known[opcode] == '-') {
        return true;
    }
    if (opcode >= 8) {
        return first < 128;
    }
    return (known[opcode] == 'n') == (oracle->kind != '\0');
}

static bool code_is_bad(unsigned code)
{
    return code < 1000 || (code >= 1004 && code <= 1006) || (code >= 1015 && code < 3000) ||
           code >= 5000;
}

static bool tell_close(struct oracle *oracle, struct slice payload)
{
    unsigned code = payload.len >= 2 ? payload.data[0] * 256U + payload.data[1] : 0;

    if (payload.len == 1 || (payload.len >= 2 && code_is_bad(code))) {
        return end(oracle, PROTOCOL);
    }
    struct slice reason =
        payload.len >= 2 ? slice_make(payload.data + 2, payload.len - 2) : slice_make(NULL, 0);

    if (!utf8_valid(reason)) {
        return end(oracle, NOT_UTF8);
    }
    if (oracle->kind != '\0') {
        (void)end(oracle, 0);
    }
    put_tail(&oracle->decoded, 'c', (uint16_t)code, reason);
    return false;
}

static bool tell_control(struct oracle *oracle, unsigned opcode, struct slice payload)
{
    if (opcode == 8) {
        return tell_close(oracle, payload);
    }
    put_tail(&oracle->decoded, opcode == 9 ? 'i' : 'o', 0, payload);
    return true;
}

static void unmask(struct buf *out, const uint8_t *mask, const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        buf_append_byte(out, bytes[i] ^ mask[i % 4]);
    }
}

/* The payload from `head` on; false at the end of all. */
static bool take_payload(struct oracle *oracle, unsigned first, size_t head, uint64_t len)
{
    const uint8_t *mask = oracle->bytes.data + oracle->at + head - 4;
    size_t here = left(oracle) - head < len ? left(oracle) - head : (size_t)len;
    bool whole = here == len;
    bool goes_on = whole;
    struct buf control;

    if (first % 16 >= 8) {
        buf_init(&control, 125);
        unmask(&control, mask, mask + 4, here);
        goes_on = whole ? tell_control(oracle, first % 16, buf_slice(&control)) : end(oracle, 0);
        buf_release(&control);
    } else {
        if (first % 16 != 0 && (here > 0 || whole)) { /* A head alone gives no event yet. */
            oracle->kind = first % 16 == 1 ? 't' : 'b';
        }
        unmask(&oracle->message, mask, mask + 4, here);
        if (whole && first >= 128) {
            put_tail(&oracle->decoded, oracle->kind, 0, buf_slice(&oracle->message));
            oracle->kind = '\0';
            buf_clear(&oracle->message);
        } else if (!whole) {
            (void)end(oracle, 0);
        }
    }
    oracle->at += head + here;
    return goes_on;
}

/* One frame; false at the end. A fault is reported as soon as its byte is there. */
static bool take_frame(struct oracle *oracle)
{
    unsigned first = left(oracle) > 0 ? byte_at(oracle, 0) : 0;
    unsigned second = left(oracle) > 1 ? byte_at(oracle, 1) : 0x80;
    size_t more = second % 128 == 126 ? 2 : second % 128 == 127 ? 8 : 0;
    uint64_t len = more == 0 ? second % 128 : 0;

    if (left(oracle) == 0) {
        return end(oracle, 0);
    }
    if (is_bad_first(oracle, first) || second < 128 || (first % 16 >= 8 && second % 128 > 125)) {
        return end(oracle, PROTOCOL);
    }
    if (left(oracle) < 2 + more) {
        return end(oracle, 0);
    }
    for (size_t i = 0; i < more; i++) {
        len = len * 256 + byte_at(oracle, 2 + i);
    }
    if (len > INT64_MAX || (more == 2 && len < 126) || (more == 8 && len < 65536)) {
        return end(oracle, PROTOCOL);
    }
    if (first % 16 < 8 && oracle->message.len + len > MESSAGE_MAX) {
        return end(oracle, TOO_LARGE);
    }
    return left(oracle) < 2 + more + 4 ? end(oracle, 0)
                                       : take_payload(oracle, first, 2 + more + 4, len);
}

/* ---- What the reader decodes ---- */

struct run {
    struct ws_frame_reader reader;
    struct buf decoded;
    struct buf message;
    char kind;
};

static void take(struct run *run, enum ws_frame_kind kind, const struct ws_frame *frame)
{
    if (kind == WS_FRAME_PIECE) {
        ASSERT(run->kind == '\0' || run->kind == (frame->text ? 't' : 'b'));
        run->kind = frame->text ? 't' : 'b';
        (void)buf_append_slice(&run->message, frame->bytes);
        ASSERT(run->message.len <= MESSAGE_MAX);
        if (frame->last) {
            put_tail(&run->decoded, run->kind, 0, buf_slice(&run->message));
            buf_clear(&run->message);
            run->kind = '\0';
        }
    } else if (kind == WS_FRAME_CLOSE) {
        if (run->kind != '\0') {
            put_tail(&run->decoded, run->kind, 1, buf_slice(&run->message));
        }
        put_tail(&run->decoded, 'c', frame->code, frame->bytes);
    } else if (kind != WS_FRAME_FAULT) {
        put_tail(&run->decoded, kind == WS_FRAME_PING ? 'i' : 'o', 0, frame->bytes);
    }
}

/* One piece, in memory of exactly its length. False when nothing more may come. */
static bool feed(struct run *run, struct slice piece)
{
    uint8_t *copy = mem_dup(piece.data, piece.len);
    uint8_t *at = copy;
    size_t len = piece.len;
    struct ws_frame frame;
    enum ws_frame_kind kind = WS_FRAME_PIECE;

    while (kind != WS_FRAME_NONE && kind != WS_FRAME_FAULT) {
        kind = ws_frame_next(&run->reader, &at, &len, &frame);
        ASSERT(at + len == copy + piece.len);
        ASSERT(run->reader.message <= MESSAGE_MAX);
        ASSERT(kind != WS_FRAME_NONE || len == 0);
        if (kind != WS_FRAME_NONE) {
            take(run, kind, &frame);
        }
    }
    mem_free(copy);
    return kind != WS_FRAME_FAULT;
}

static void finish(struct run *run)
{
    if (run->kind != '\0' && !run->reader.closed) {
        put_tail(&run->decoded, run->kind, 1, buf_slice(&run->message));
    }
    if (run->reader.code != 0) {
        ASSERT(strlen(run->reader.reason) <= WS_FRAME_CONTROL_MAX - 2);
        mark(&run->decoded, 'f', run->reader.code);
    }
}

/* Pieces of 1 to `size_max` bytes, by a generator that starts at `seed`. */
static void check_cut(struct slice bytes, uint32_t seed, uint32_t size_max, struct slice decoded)
{
    struct run run = {.kind = '\0'};
    bool more = true;

    ws_frame_init(&run.reader, MESSAGE_MAX);
    buf_init(&run.decoded, DECODED_MAX);
    buf_init(&run.message, MESSAGE_MAX);
    for (size_t at = 0; more && at < bytes.len;) {
        seed = seed * 1103515245U + 12345U;

        size_t size = 1 + (seed >> 16) % size_max;

        size = size < bytes.len - at ? size : bytes.len - at;
        more = feed(&run, slice_make(bytes.data + at, size));
        at += size;
    }
    finish(&run);
    ASSERT(!run.decoded.overflow && slice_eq(buf_slice(&run.decoded), decoded));
    buf_release(&run.decoded);
    buf_release(&run.message);
}

/* ---- Inputs ---- */

/* A frame of the input's fields, valid except for what its flags and first byte say. */
static void put_frame(struct wire_reader *reader, struct buf *out)
{
    uint8_t first = wire_get_u8(reader);
    uint8_t flags = wire_get_u8(reader);
    struct slice given = wire_get_raw(reader, 4);
    uint8_t mask[4] = {0};
    struct slice payload = fuzz_take(reader, MESSAGE_MAX);
    bool wide = payload.len > 125 || (flags & LONG_FORM) != 0;
    uint8_t bit = (flags & UNMASKED) != 0 ? 0 : 0x80;

    buf_append_byte(out, first);
    buf_append_byte(out, bit | (wide ? 126 : (uint8_t)payload.len));
    if (wide) {
        buf_append_byte(out, (uint8_t)(payload.len >> 8));
        buf_append_byte(out, (uint8_t)payload.len);
    }
    if (given.len == sizeof(mask)) {
        memcpy(mask, given.data, sizeof(mask));
    }
    if (bit != 0) {
        wire_put_raw(out, slice_make(mask, sizeof(mask)));
    }
    unmask(out, mask, payload.data, payload.len);
}

static void make_stream(struct wire_reader *reader, unsigned mode, struct buf *out)
{
    if (mode == MODE_BYTES) {
        (void)buf_append_slice(out, fuzz_rest(reader));
        return;
    }
    while (fuzz_more(reader)) {
        put_frame(reader, out);
    }
}

/* Accepted: all frames are valid. */
static bool fuzz_one(struct slice input)
{
    struct wire_reader reader;
    struct oracle oracle = {.kind = '\0'};
    struct buf stream;

    wire_reader_init(&reader, input);

    unsigned mode = wire_get_u8(&reader) % MODE_COUNT;
    uint32_t seed = wire_get_u32(&reader);

    buf_init(&stream, DECODED_MAX);
    make_stream(&reader, mode, &stream);
    buf_init(&oracle.decoded, DECODED_MAX);
    buf_init(&oracle.message, MESSAGE_MAX);
    oracle.bytes = buf_slice(&stream);
    while (take_frame(&oracle)) {
    }
    ASSERT(!stream.overflow && !oracle.decoded.overflow);
    check_cut(buf_slice(&stream), seed, UINT16_MAX, buf_slice(&oracle.decoded));
    check_cut(buf_slice(&stream), seed, 1, buf_slice(&oracle.decoded));
    check_cut(buf_slice(&stream), seed, 1 + seed % 64, buf_slice(&oracle.decoded));
    buf_release(&oracle.decoded);
    buf_release(&oracle.message);
    buf_release(&stream);
    return !oracle.fault;
}

static void seed_bytes(struct fuzz_sink *sink, const char *name, const char *bytes, size_t len)
{
    struct buf out;

    buf_init(&out, FUZZ_INPUT_MAX);
    wire_put_u8(&out, MODE_BYTES);
    wire_put_u32(&out, 7);
    wire_put_raw(&out, slice_make((const uint8_t *)bytes, len));
    fuzz_seed(sink, name, buf_slice(&out));
    buf_release(&out);
}

static void seed_frame(struct buf *out, uint8_t first, const char *payload, size_t len)
{
    wire_put_u8(out, first);
    wire_put_u8(out, 0);
    wire_put_u32(out, 0x01020304);
    fuzz_put(out, slice_make((const uint8_t *)payload, len));
}

#define SEED_BYTES(name, bytes) seed_bytes(sink, name, bytes, sizeof(bytes) - 1)
#define ZERO                    "\0\0\0\0"

static void fuzz_seeds(struct fuzz_sink *sink)
{
    static const char longer[200];
    struct buf out;

    SEED_BYTES("text", "\x81\x85" ZERO "hello");
    SEED_BYTES("ping-in-message", "\x01\x81" ZERO "a\x89\x82" ZERO "hi\x80\x81" ZERO "b");
    SEED_BYTES("close", "\x88\x85" ZERO "\x03\xe8"
                        "bye");
    SEED_BYTES("empty", "\x01\x80" ZERO "\x00\x80" ZERO "\x80\x80" ZERO);
    SEED_BYTES("half", "\x82\xfe\x01\x00" ZERO "half");
    buf_init(&out, FUZZ_INPUT_MAX);
    wire_put_u8(&out, MODE_FRAMES);
    wire_put_u32(&out, 99);
    seed_frame(&out, 0x01, "{\"id\":1,", 8);
    seed_frame(&out, 0x89, "are you there", 13);
    seed_frame(&out, 0x00, longer, sizeof(longer));
    seed_frame(&out, 0x80, "}", 1);
    seed_frame(&out, 0x8a, "", 0);
    seed_frame(&out, 0x82, longer, sizeof(longer));
    seed_frame(&out, 0x88, "\x0f\xa0why", 5);
    fuzz_seed(sink, "frames", buf_slice(&out));
    buf_release(&out);
}

FUZZ_TARGET(ws_frame)
