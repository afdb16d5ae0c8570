/* Each rule of RFC 6455 for the frames of a client, with the bytes cut at every place. */
#include "base/buf.h"
#include "base/mem.h"
#include "tests/lib/unit.h"
#include "ws/frame.h"

#include <string.h>

enum {
    MESSAGE_MAX = 70000,
    OUT_MAX = 4 * MESSAGE_MAX,
    PIECES_ALL = 200 /* Frames up to this are cut at every pair of places. */
};

#define FRAME(text)                               \
    {                                             \
        (const uint8_t *)(text), sizeof(text) - 1 \
    }
#define MASK "\x80"
#define ZERO "\0\0\0\0"
#define KEY  "\x01\x02\x03\x04"

struct row {
    struct slice bytes;
    const char *decoded; /* See decode_as_text(). */
};

/* ---- What a stream decodes to, as a text ---- */

/* A message is "t:..." or "b:..." with a dot at its end; pings, pongs, closes and faults are in
 * brackets. */
static void decode_as_text(struct buf *out, enum ws_frame_kind kind, const struct ws_frame *frame,
                           bool *in_message)
{
    if (kind == WS_FRAME_PIECE) {
        if (!*in_message) {
            (void)buf_append_str(out, frame->text ? "t:" : "b:");
        }
        (void)buf_append_slice(out, frame->bytes);
        *in_message = !frame->last;
        (void)buf_append_str(out, frame->last ? "." : "");
    } else if (kind == WS_FRAME_FAULT) {
        (void)buf_printf(out, "[fault %u]", frame->code);
    } else if (kind == WS_FRAME_CLOSE) {
        (void)buf_printf(out, "[close %u %.*s]", frame->code, (int)frame->bytes.len,
                         (const char *)frame->bytes.data);
    } else {
        (void)buf_printf(out, "[%s %.*s]", kind == WS_FRAME_PING ? "ping" : "pong",
                         (int)frame->bytes.len, (const char *)frame->bytes.data);
    }
}

struct run {
    struct ws_frame_reader reader;
    struct buf decoded;
    bool in_message;
};

static void run_begin(struct run *run)
{
    ws_frame_init(&run->reader, MESSAGE_MAX);
    buf_init(&run->decoded, OUT_MAX);
    run->in_message = false;
}

/* In memory of exactly that length, so that the sanitizer notices a read beyond it. */
static void run_feed(struct run *run, const uint8_t *bytes, size_t len)
{
    uint8_t *copy = mem_dup(bytes, len > 0 ? len : 1);
    uint8_t *at = copy;
    size_t left = len;
    struct ws_frame frame;
    enum ws_frame_kind kind = WS_FRAME_PIECE;

    while (kind != WS_FRAME_NONE && kind != WS_FRAME_FAULT) {
        kind = ws_frame_next(&run->reader, &at, &left, &frame);
        assert_ptr_equal(at + left, copy + len);
        if (kind != WS_FRAME_NONE) {
            decode_as_text(&run->decoded, kind, &frame, &run->in_message);
        }
    }
    mem_free(copy);
}

static bool is_fault(const struct run *run)
{
    return run->reader.code != 0;
}

static void check_run(struct run *run, const char *decoded, size_t first, size_t second)
{
    if (strcmp(buf_cstr(&run->decoded), decoded) != 0) {
        fail_msg("cut at %zu and %zu: %s instead of %s", first, second, buf_cstr(&run->decoded),
                 decoded);
    }
    buf_release(&run->decoded);
}

static void check_cut(struct slice bytes, const char *decoded, size_t first, size_t second)
{
    struct run run;
    const size_t ends[] = {first, second, bytes.len};
    size_t at = 0;

    run_begin(&run);
    for (size_t i = 0; i < 3 && !is_fault(&run); i++) {
        run_feed(&run, bytes.data + at, ends[i] - at);
        at = ends[i];
    }
    check_run(&run, decoded, first, second);
}

static void check_byte_by_byte(struct slice bytes, const char *decoded)
{
    struct run run;

    run_begin(&run);
    for (size_t i = 0; i < bytes.len && !is_fault(&run); i++) {
        run_feed(&run, bytes.data + i, 1);
    }
    check_run(&run, decoded, 1, 1);
}

static void check(struct slice bytes, const char *decoded)
{
    check_byte_by_byte(bytes, decoded);
    for (size_t first = 0; first <= bytes.len && bytes.len <= PIECES_ALL; first++) {
        for (size_t second = first; second <= bytes.len; second++) {
            check_cut(bytes, decoded, first, second);
        }
    }
    check_cut(bytes, decoded, bytes.len, bytes.len);
}

static void check_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        check(rows[i].bytes, rows[i].decoded);
    }
}

#define CHECK_ROWS(rows) check_rows(rows, sizeof(rows) / sizeof((rows)[0]))

/* ---- Valid frames ---- */

TEST(messages_pings_and_closes_are_decoded)
{
    static const struct row rows[] = {
        {FRAME("\x81\x85" ZERO "hello"), "t:hello."},
        {FRAME("\x81\x85" KEY "igohn"), "t:hello."}, /* h^1 e^2 l^3 l^4 o^1. */
        {FRAME("\x82\x82" ZERO "ab"), "b:ab."},
        {FRAME("\x81\x80" ZERO), "t:."},
        {FRAME("\x01\x82" ZERO "ab\x00\x81" ZERO "c\x80\x81" ZERO "d"), "t:abcd."},
        {FRAME("\x01\x80" ZERO "\x00\x80" ZERO "\x80\x80" ZERO), "t:."},
        {FRAME("\x01\x81" ZERO "a\x89\x82" ZERO "hi\x80\x81" ZERO "b"), "t:a[ping hi]b."},
        {FRAME("\x89\x80" ZERO "\x8a\x81" ZERO "z\x89\x81" KEY "y"), "[ping ][pong z][ping x]"},
        {FRAME("\x81\x81" ZERO "a\x81\x81" ZERO "b"), "t:a.t:b."},
        {FRAME("\x88\x80" ZERO), "[close 0 ]"},
        {FRAME("\x88\x82" ZERO "\x03\xe8"), "[close 1000 ]"},
        {FRAME("\x88\x85" ZERO "\x03\xe9"
               "bye"),
         "[close 1001 bye]"},
        /* Whatever follows a close is skipped. */
        {FRAME("\x88\x80" ZERO "\xff\xff\xff"), "[close 0 ]"},
        {FRAME("\x01\x81" ZERO "a\x88\x80" ZERO "\x80\x81" ZERO "b"), "t:a[close 0 ]"},
    };

    CHECK_ROWS(rows);
}

/* A frame with a payload of that many bytes, and its length encoded in `len_bytes`. */
static struct buf make_frame(uint8_t first, uint64_t len, int length_bytes, bool payload)
{
    struct buf out;

    buf_init(&out, OUT_MAX);
    buf_append_byte(&out, first);
    buf_append_byte(&out, (uint8_t)(0x80 | (length_bytes == 0   ? len
                                            : length_bytes == 2 ? 126
                                                                : 127)));
    for (int i = length_bytes; i > 0; i--) {
        buf_append_byte(&out, (uint8_t)(len >> (8 * (i - 1))));
    }
    (void)buf_append(&out, ZERO, 4);
    for (uint64_t i = 0; i < len && payload; i++) {
        buf_append_byte(&out, 'x');
    }
    return out;
}

static void check_length(uint64_t len, int length_bytes, const char *fault)
{
    struct buf frame = make_frame(0x82, len, length_bytes, fault == NULL);
    struct buf decoded;

    buf_init(&decoded, OUT_MAX);
    (void)buf_append_str(&decoded, fault ? fault : "b:");
    for (uint64_t i = 0; i < len && !fault; i++) {
        buf_append_byte(&decoded, 'x');
    }
    (void)buf_append_str(&decoded, fault ? "" : ".");
    check(buf_slice(&frame), buf_cstr(&decoded));
    buf_release(&frame);
    buf_release(&decoded);
}

TEST(a_length_has_one_form)
{
    check_length(125, 0, NULL);
    check_length(126, 2, NULL);
    check_length(65535, 2, NULL);
    check_length(65536, 8, NULL);
    check_length(MESSAGE_MAX, 8, NULL);
    check_length(0, 2, "[fault 1002]");
    check_length(125, 2, "[fault 1002]");
    check_length(125, 8, "[fault 1002]");
    check_length(65535, 8, "[fault 1002]");
    check_length(UINT64_C(1) << 63, 8, "[fault 1002]");
    check_length(UINT64_MAX, 8, "[fault 1002]");
    check_length(INT64_MAX, 8, "[fault 1009]");
    check_length(MESSAGE_MAX + 1, 8, "[fault 1009]");
}

/* ---- Invalid frames ---- */

TEST(invalid_frames_are_faults)
{
    static const struct row rows[] = {
        {FRAME("\x81\x05"
               "hello"),
         "[fault 1002]"}, /* Not masked. */
        {FRAME("\x89\x00"), "[fault 1002]"},
        {FRAME("\x81\x81" ZERO "a\x81\x01"
               "b"),
         "t:a.[fault 1002]"},
        {FRAME("\xc1"), "[fault 1002]"}, /* Reserved bits. */
        {FRAME("\xa1"), "[fault 1002]"},
        {FRAME("\x91"), "[fault 1002]"},
        {FRAME("\xc9"), "[fault 1002]"},
        {FRAME("\x80"), "[fault 1002]"}, /* A continuation of nothing. */
        {FRAME("\x00"), "[fault 1002]"},
        {FRAME("\x81\x81" ZERO "a\x80"), "t:a.[fault 1002]"},
        {FRAME("\x01\x81" ZERO "a\x81"), "t:a[fault 1002]"}, /* A message in a message. */
        {FRAME("\x01\x81" ZERO "a\x02"), "t:a[fault 1002]"},
        {FRAME("\x09"), "[fault 1002]"}, /* Control frames in fragments. */
        {FRAME("\x0a"), "[fault 1002]"},
        {FRAME("\x08"), "[fault 1002]"},
        {FRAME("\x89\xfe"), "[fault 1002]"}, /* Control frames over 125 bytes. */
        {FRAME("\x88\xff"), "[fault 1002]"},
        {FRAME("\x8a\xfe"), "[fault 1002]"},
    };

    CHECK_ROWS(rows);
}

TEST(reserved_opcodes)
{
    for (unsigned opcode = 0; opcode < 16; opcode++) {
        bool known = opcode <= 2 || (opcode >= 8 && opcode <= 10);
        uint8_t first = (uint8_t)(0x80 | opcode);

        if (!known) {
            check(slice_make(&first, 1), "[fault 1002]");
        }
    }
}

/* The bound applies to a message, in however many frames. */
TEST(messages_have_a_bound)
{
    struct buf one = make_frame(0x02, MESSAGE_MAX - 1, 8, true);
    struct buf two = make_frame(0x80, 2, 0, false);
    struct buf empty = make_frame(0x80, 1, 0, true);
    struct run run;

    run_begin(&run);
    run_feed(&run, one.data, one.len);
    run_feed(&run, two.data, two.len);
    assert_int_equal(run.reader.code, 1009);
    buf_release(&run.decoded);
    run_begin(&run);
    for (int i = 0; i < 2; i++) { /* Each message again. */
        run_feed(&run, one.data, one.len);
        run_feed(&run, empty.data, empty.len);
        assert_int_equal(run.reader.code, 0);
    }
    buf_release(&run.decoded);
    buf_release(&one);
    buf_release(&two);
    buf_release(&empty);
}

/* ---- Closing ---- */

static bool may_be_sent(unsigned code)
{
    static const uint16_t named[] = {1000, 1001, 1002, 1003, 1007, 1008,
                                     1009, 1010, 1011, 1012, 1013, 1014};

    for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
        if (named[i] == code) {
            return true;
        }
    }
    return code >= 3000 && code < 5000;
}

/* 0-999, 1004-1006, 1015, 1016-2999 and 5000-65535 never appear in a frame. */
TEST(close_codes)
{
    for (unsigned code = 0; code <= UINT16_MAX; code++) {
        const uint8_t bytes[] = {0x88, 0x82, 0, 0, 0, 0, (uint8_t)(code >> 8), (uint8_t)code};
        struct run run;

        run_begin(&run);
        run_feed(&run, bytes, sizeof(bytes));
        assert_int_equal(run.reader.code, may_be_sent(code) ? 0 : 1002);
        assert_int_equal(run.reader.closed, may_be_sent(code));
        buf_release(&run.decoded);
    }
}

TEST(close_payloads)
{
    static const struct row rows[] = {
        {FRAME("\x88\x81" ZERO "\x03"), "[fault 1002]"},         /* Half a code. */
        {FRAME("\x88\x82" ZERO "\x13\x88"), "[fault 1002]"},     /* 5000. */
        {FRAME("\x88\x82" ZERO "\xff\xff"), "[fault 1002]"},     /* 65535. */
        {FRAME("\x88\x83" ZERO "\x03\xe8\xff"), "[fault 1007]"}, /* Not UTF-8. */
        {FRAME("\x88\x84" ZERO "\x03\xe8\xc3\xbc"), "[close 1000 \xc3\xbc]"},
        {FRAME("\x88\x83" ZERO "\x03\xe8\xc3"), "[fault 1007]"}, /* Half a character. */
    };

    CHECK_ROWS(rows);
}

TEST(a_control_frame_may_have_125_bytes)
{
    struct buf frame = make_frame(0x89, WS_FRAME_CONTROL_MAX, 0, true);
    struct buf decoded;

    buf_init(&decoded, OUT_MAX);
    (void)buf_append_str(&decoded, "[ping ");
    for (int i = 0; i < WS_FRAME_CONTROL_MAX; i++) {
        buf_append_byte(&decoded, 'x');
    }
    (void)buf_append_str(&decoded, "]");
    check(buf_slice(&frame), buf_cstr(&decoded));
    buf_release(&frame);
    buf_release(&decoded);
}

/* Our reasons must fit into a close frame next to the code. */
TEST(faults_are_final_and_have_a_reason)
{
    static const char unmasked[] = "\x81\x01";
    struct ws_frame frame;
    struct run run;
    uint8_t more[] = {0x81, 0x81, 0, 0, 0, 0, 'a'};
    uint8_t *at = more;
    size_t len = sizeof(more);

    run_begin(&run);
    run_feed(&run, (const uint8_t *)unmasked, 2);
    assert_int_equal(ws_frame_next(&run.reader, &at, &len, &frame), WS_FRAME_FAULT);
    assert_int_equal(frame.code, 1002);
    assert_string_equal(frame.reason, "a frame is not masked");
    assert_int_equal(len, sizeof(more));
    buf_release(&run.decoded);
}

/* ---- The handshake ---- */

/* The example of RFC 6455, section 1.3. */
TEST(a_handshake_gets_its_answer)
{
    struct buf out;

    buf_init(&out, OUT_MAX);
    ws_handshake_answer(&out, slice_str("dGhlIHNhbXBsZSBub25jZQ=="));
    assert_string_equal(buf_cstr(&out), "HTTP/1.1 101 Switching Protocols\r\n"
                                        "Upgrade: websocket\r\n"
                                        "Connection: Upgrade\r\n"
                                        "Sec-WebSocket-Protocol: zabra.v1.json\r\n"
                                        "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
                                        "\r\n");
    buf_release(&out);
}
