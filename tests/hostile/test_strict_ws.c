/*
 * Strict RFC 6455: handshakes and frames that break one rule each, as raw bytes, against a real
 * replica. Each ends with the code that the RFC names, nothing malformed is executed, and honest
 * clients are not affected.
 */
#include "base/mem.h"
#include "tests/hostile/attack.h"
#include "tests/lib/unit.h"
#include "tests/lib/ws_head.h"
#include "tests/proc/talk.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEAD(line, more) line "\r\nHost: localhost\r\n" WS_HEAD_UPGRADE more WS_HEAD_OFFER "\r\n"
#define KEY              WS_HEAD_SENT_KEY
#define VERSION          WS_HEAD_VERSION
#define SITE(site)       "Sec-Fetch-Site: " site "\r\n"
#define UPGRADE(more)    HEAD("GET /ws/v1 HTTP/1.1", KEY VERSION more)
#define GOOD             HEAD("GET /ws/v1 HTTP/1.1", KEY VERSION)
#define ZERO             "\0\0\0\0"
#define FRAME(bytes)     bytes, sizeof(bytes) - 1

enum {
    MESSAGE_MAX = 1 << 16, /* maxMessageBytes. */
    QUIET_MS = 300 * ENSEMBLE_FACTOR,
    PINGS = 1000000 / ENSEMBLE_FACTOR,
    PINGS_AT_ONCE = 1000,
    GROWN_MAX = 64 << 20,
    CODE_NONE = 0,
    PROTOCOL = 1002,
    NOT_TEXT = 1003,
    NOT_UTF8 = 1007,
    TOO_LARGE = 1009
};

static struct ensemble ensemble;

static void open_one(void)
{
    ensemble_launch(&ensemble, 1, "maxMessageBytes=65536\n");
}

static uint16_t port(void)
{
    return ensemble.replicas[0].client_port;
}

/* ---- Raw sockets ---- */

/* Appends more bytes to `out`; false at the end, or when nothing arrives for `timeout_ms`. */
static bool receive(int fd, struct buf *out, int timeout_ms)
{
    char piece[4096];
    struct pollfd look = {.fd = fd, .events = POLLIN};

    if (poll(&look, 1, timeout_ms) <= 0) {
        return false;
    }
    ssize_t got = recv(fd, piece, sizeof(piece), 0);

    return got > 0 && buf_append(out, piece, (size_t)got);
}

/* Does the handshake and reads all of the answer and the hello. */
static int shake_hands(void)
{
    int fd = attack_connect(port(), 0, 0);
    struct buf in;

    assert_true(fd >= 0);
    assert_true(attack_send(fd, GOOD, strlen(GOOD)));
    buf_init(&in, ATTACK_ANSWER_MAX);
    while (!strstr(buf_cstr(&in), "}}")) { /* The limits end the hello. */
        assert_true(receive(fd, &in, ENSEMBLE_DEADLINE_MS));
    }
    assert_int_equal(attack_status(&in), 101);
    assert_non_null(strstr(buf_cstr(&in), "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    buf_release(&in);
    return fd;
}

struct server_frame {
    uint8_t first;
    struct slice payload;
};

/* Takes the frame at `*at` and advances `*at` behind it. */
static bool next_frame(const struct buf *in, size_t *at, struct server_frame *ret_frame)
{
    const uint8_t *bytes = in->data + *at;
    size_t left = in->len - *at;
    size_t head = 2;
    size_t len = 0;

    if (left < head) {
        return false;
    }
    assert_int_equal(bytes[1] & 0x80, 0);
    head += bytes[1] == 126 ? 2 : bytes[1] == 127 ? 8 : 0;
    if (left < head) {
        return false;
    }
    len = bytes[1] < 126 ? bytes[1] : 0;
    for (size_t i = 2; i < head; i++) {
        len = len << 8 | bytes[i];
    }
    if (left - head < len) {
        return false;
    }
    *ret_frame = (struct server_frame){bytes[0], slice_make(bytes + head, len)};
    *at += head + len;
    return true;
}

/* The code of the last frame if that is a close frame, else CODE_NONE. */
static unsigned close_code(const struct buf *in)
{
    struct server_frame frame = {.first = 0};
    size_t at = 0;

    while (next_frame(in, &at, &frame)) {
    }
    return at == in->len && frame.first == 0x88 && frame.payload.len >= 2
               ? (unsigned)(frame.payload.data[0] << 8 | frame.payload.data[1])
               : CODE_NONE;
}

/* Receives everything up to the end of the connection and answers a close frame. True: it was
 * closed. */
static bool receive_all(int fd, struct buf *in, int timeout_ms)
{
    static const char answer[] = "\x88\x80" ZERO;
    struct pollfd look = {.fd = fd, .events = POLLIN};
    bool answered = false;

    while (receive(fd, in, timeout_ms)) {
        if (!answered && close_code(in) != CODE_NONE) {
            answered = true;
            (void)attack_send(fd, answer, sizeof(answer) - 1);
        }
    }
    return poll(&look, 1, 0) > 0;
}

/* Sends the bytes on a new socket, in one piece or byte by byte. */
static void check_code(const char *what, const char *bytes, size_t len, unsigned code, bool whole)
{
    int fd = shake_hands();
    struct buf in;
    bool closed = false;

    buf_init(&in, ATTACK_ANSWER_MAX);
    for (size_t i = 0; i < (whole ? 1 : len); i++) {
        (void)attack_send(fd, bytes + i, whole ? len : 1);
    }
    closed = receive_all(fd, &in, code == CODE_NONE ? QUIET_MS : ENSEMBLE_DEADLINE_MS);
    if (close_code(&in) != code || closed != (code != CODE_NONE)) {
        fail_msg("%s%s: code %u, %s", what, whole ? "" : ", byte by byte", close_code(&in),
                 closed ? "closed" : "still open");
    }
    buf_release(&in);
    close(fd);
}

static bool exists(const char *path)
{
    struct socket *socket = talk_open(&ensemble, 0, NULL);
    json_t *reply = socket_call(socket, "\"op\":\"exists\",\"path\":\"%s\"", path);
    bool found = false;

    assert_true(json_is_true(json_object_get(reply, "ok")));
    found = json_is_true(json_object_get(reply, "exists"));
    json_decref(reply);
    socket_close(socket);
    return found;
}

/* ---- Frames ---- */

static const struct {
    const char *what;
    const char *bytes;
    size_t len;
    unsigned code;
} rows[] = {
    {"a text without a mask", FRAME("\x81\x02{}"), PROTOCOL},
    {"a ping without a mask", FRAME("\x89\x00"), PROTOCOL},
    {"a close without a mask", FRAME("\x88\x02\x03\xe8"), PROTOCOL},
    {"RSV1", FRAME("\xc1\x82" ZERO "{}"), PROTOCOL},
    {"RSV2", FRAME("\xa1\x82" ZERO "{}"), PROTOCOL},
    {"RSV3", FRAME("\x91\x82" ZERO "{}"), PROTOCOL},
    {"a reserved opcode for data", FRAME("\x83\x80" ZERO), PROTOCOL},
    {"a reserved opcode for control", FRAME("\x8b\x80" ZERO), PROTOCOL},
    {"a ping in fragments", FRAME("\x09\x81" ZERO "x"), PROTOCOL},
    {"a close in fragments", FRAME("\x08\x80" ZERO), PROTOCOL},
    {"a ping of 126 bytes", FRAME("\x89\xfe\x00\x7e" ZERO), PROTOCOL},
    {"a continuation of nothing", FRAME("\x80\x82" ZERO "{}"), PROTOCOL},
    {"a message inside of another", FRAME("\x01\x81" ZERO "{\x81\x82" ZERO "{}"), PROTOCOL},
    {"5 bytes in a length of 16 bits", FRAME("\x81\xfe\x00\x05" ZERO "{   }"), PROTOCOL},
    {"5 bytes in a length of 64 bits", FRAME("\x81\xff\0\0\0\0\0\0\0\x05" ZERO "{   }"), PROTOCOL},
    {"65535 in a length of 64 bits", FRAME("\x81\xff\0\0\0\0\0\0\xff\xff" ZERO), PROTOCOL},
    {"the top bit of a length", FRAME("\x81\xff\x80\0\0\0\0\0\0\x01" ZERO), PROTOCOL},
    {"a close of one byte", FRAME("\x88\x81" ZERO "\x03"), PROTOCOL},
    {"code 0", FRAME("\x88\x82" ZERO "\x00\x00"), PROTOCOL},
    {"code 999", FRAME("\x88\x82" ZERO "\x03\xe7"), PROTOCOL},
    {"code 1004", FRAME("\x88\x82" ZERO "\x03\xec"), PROTOCOL},
    {"code 1005", FRAME("\x88\x82" ZERO "\x03\xed"), PROTOCOL},
    {"code 1006", FRAME("\x88\x82" ZERO "\x03\xee"), PROTOCOL},
    {"code 1015", FRAME("\x88\x82" ZERO "\x03\xf7"), PROTOCOL},
    {"code 2999", FRAME("\x88\x82" ZERO "\x0b\xb7"), PROTOCOL},
    {"code 5000", FRAME("\x88\x82" ZERO "\x13\x88"), PROTOCOL},
    {"code 65535", FRAME("\x88\x82" ZERO "\xff\xff"), PROTOCOL},
    {"a reason that is not UTF-8", FRAME("\x88\x84" ZERO "\x03\xe8\xc3\x28"), NOT_UTF8},
    {"a text that is not UTF-8", FRAME("\x81\x82" ZERO "\xc3\x28"), NOT_UTF8},
    {"half a character at the end", FRAME("\x81\x81" ZERO "\xc3"), NOT_UTF8},
    {"a binary message", FRAME("\x82\x82" ZERO "{}"), NOT_TEXT},
    {"a message of 65537 bytes", FRAME("\x81\xff\0\0\0\0\0\x01\0\x01" ZERO), TOO_LARGE},
    {"a message of 2^63 - 1", FRAME("\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff" ZERO), TOO_LARGE},
    {"a close", FRAME("\x88\x82" ZERO "\x03\xe8"), 1000},
    {"a close with a private code",
     FRAME("\x88\x85" ZERO "\x0f\xa0"
           "bye"),
     4000},
    {"a ping between fragments", FRAME("\x01\x81" ZERO "{\x89\x80" ZERO "\x80\x81" ZERO "}"), 0},
    {"an unsolicited pong", FRAME("\x8a\x83" ZERO "abc"), 0},
    {"a message of no bytes", FRAME("\x81\x80" ZERO), 0},
};

static void close_all(void)
{
    ensemble_close(&ensemble);
}

TEST_GROUP(open_one, close_all)

TEST(each_broken_rule_has_its_close_code)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_code(rows[i].what, rows[i].bytes, rows[i].len, rows[i].code, true);
        if (rows[i].code != CODE_NONE) {
            check_code(rows[i].what, rows[i].bytes, rows[i].len, rows[i].code, false);
        }
    }
    ensemble_call_until(&ensemble, 0, "GET", "/readyz", NULL, 200);
}

/* Messages before a fault are answered; the faulty one and those behind it are not executed. */
TEST(nothing_malformed_is_executed)
{
    static const char before[] = "{\"id\":1,\"op\":\"create\",\"path\":\"/before\"}";
    static const char text[] = "{\"id\":2,\"op\":\"create\",\"path\":\"/unmasked\"}";
    static const char behind[] = "{\"id\":3,\"op\":\"create\",\"path\":\"/behind\"}";
    int fd = shake_hands();
    struct buf out;
    struct buf in;

    buf_init(&out, ATTACK_ANSWER_MAX);
    buf_init(&in, ATTACK_ANSWER_MAX);
    buf_printf(&out, "\x81%c", (char)(0x80 | (sizeof(before) - 1)));
    buf_append(&out, ZERO, 4);
    buf_append_str(&out, before);
    buf_printf(&out, "\x81%c%s", (char)(sizeof(text) - 1), text);
    buf_printf(&out, "\x81%c", (char)(0x80 | (sizeof(behind) - 1)));
    buf_append(&out, ZERO, 4);
    buf_append_str(&out, behind);
    assert_true(attack_send(fd, out.data, out.len));
    assert_true(receive_all(fd, &in, ENSEMBLE_DEADLINE_MS));
    assert_int_equal(close_code(&in), PROTOCOL);
    assert_non_null(memmem(in.data, in.len, "\"id\":1,\"ok\":true", 15));
    assert_non_null(memmem(in.data, in.len, "malformed frame", 15));
    assert_non_null(memmem(in.data, in.len, "a frame is not masked", 21));
    close(fd);
    assert_true(exists("/before"));
    assert_false(exists("/unmasked"));
    assert_false(exists("/behind"));
    buf_release(&out);
    buf_release(&in);
}

/* ---- Pings ---- */

/* The payload of the last pong. */
static struct slice last_pong(const struct buf *in)
{
    struct server_frame frame;
    struct slice last = slice_make(NULL, 0);
    size_t at = 0;

    while (next_frame(in, &at, &frame)) {
        last = frame.first == 0x8a ? frame.payload : last;
    }
    return last;
}

static void await_pong(int fd, struct buf *in, const char *payload)
{
    while (!slice_eq(last_pong(in), slice_str(payload))) {
        assert_true(receive(fd, in, ENSEMBLE_DEADLINE_MS));
    }
}

TEST(the_newest_ping_is_answered)
{
    static const char pings[] = "\x89\x83" ZERO "one\x89\x83" ZERO "two";
    int fd = shake_hands();
    struct buf in;

    buf_init(&in, ATTACK_ANSWER_MAX);
    for (int i = 0; i < 100; i++) {
        assert_true(attack_send(fd, pings, sizeof(pings) - 1));
        await_pong(fd, &in, "two");
        buf_clear(&in);
    }
    buf_release(&in);
    close(fd);
}

/* A client that sends pings endlessly and reads nothing uses no additional memory. */
TEST(endless_pings_use_no_memory)
{
    static const char ping[] = "\x89\x84" ZERO "ping";
    static const char last[] = "\x89\x84" ZERO "last";
    uint64_t before = ensemble_resident_bytes(ensemble.replicas[0].pid);
    int fd = shake_hands();
    struct buf many;
    struct buf in;

    buf_init(&many, ATTACK_ANSWER_MAX);
    buf_init(&in, ATTACK_ANSWER_MAX);
    for (int i = 0; i < PINGS_AT_ONCE; i++) {
        buf_append(&many, ping, sizeof(ping) - 1);
    }
    for (int i = 0; i < PINGS / PINGS_AT_ONCE; i++) {
        assert_true(attack_send(fd, many.data, many.len));
    }
    assert_true(attack_send(fd, last, sizeof(last) - 1));
    await_pong(fd, &in, "last");
    assert_true(ensemble_resident_bytes(ensemble.replicas[0].pid) < before + GROWN_MAX);
    buf_release(&many);
    buf_release(&in);
    close(fd);
}

/* ---- Handshakes ---- */

/* A problem document may name HTTP/1.1, too. */
static int count_problems(struct buf *out)
{
    static const char type[] = "Content-Type: application/problem+json";
    int count = 0;

    for (const char *at = strstr(buf_cstr(out), type); at; at = strstr(at + 1, type)) {
        count++;
    }
    return count;
}

static void check_handshake(const char *head, long status, const char *has)
{
    struct buf out;

    buf_init(&out, ATTACK_ANSWER_MAX);
    (void)attack_exchange(port(), head, strlen(head), QUIET_MS, &out);
    if (attack_status(&out) != status || (has && !strstr(buf_cstr(&out), has))) {
        fail_msg("%s answered with %s", head, buf_cstr(&out));
    }
    assert_true(status == 101 || count_problems(&out) == 1);
    buf_release(&out);
}

TEST(a_handshake_is_strict)
{
    static const char upgrade[] = "Sec-WebSocket-Version: 13";

    check_handshake(GOOD, 101, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    check_handshake(HEAD("GET /ws/v1 HTTP/1.0", KEY VERSION), 400, "HTTP/1.1");
    check_handshake(HEAD("GET /ws/v1 HTTP/1.1", VERSION), 400, "Sec-WebSocket-Key");
    check_handshake(HEAD("GET /ws/v1 HTTP/1.1", VERSION "Sec-WebSocket-Key: c2hvcnQ=\r\n"), 400,
                    "Sec-WebSocket-Key");
    check_handshake(
        HEAD("GET /ws/v1 HTTP/1.1", VERSION "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25j*Q==\r\n"), 400,
        "Sec-WebSocket-Key");
    check_handshake(
        HEAD("GET /ws/v1 HTTP/1.1", VERSION "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZXh4\r\n"), 400,
        "Sec-WebSocket-Key");
    check_handshake(HEAD("GET /ws/v1 HTTP/1.1", KEY), 426, upgrade);
    check_handshake(HEAD("GET /ws/v1 HTTP/1.1", KEY "Sec-WebSocket-Version: 8\r\n"), 426, upgrade);
    check_handshake(HEAD("POST /ws/v1 HTTP/1.1", KEY VERSION "Content-Length: 0\r\n"), 426,
                    "begins with GET");
}

/* A page of another site; the browser sends no Origin. */
TEST(a_handshake_of_another_site_is_refused)
{
    check_handshake(UPGRADE(SITE("cross-site")), 403, "allowedOrigins");
    check_handshake(UPGRADE(SITE("Cross-Site")), 403, "allowedOrigins");
    check_handshake(UPGRADE(SITE("same-origin")), 101, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    check_handshake(UPGRADE(SITE("none")), 101, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

/* ---- What a reply may reveal ---- */

static const char *const deletes[] = {
    "\"op\":\"delete\",\"path\":\"/hidden\",\"version\":7",
    "\"op\":\"delete\",\"path\":\"/hidden\",\"version\":7,\"recursive\":true",
    ("\"op\":\"multi\",\"ops\":[{\"op\":\"delete\",\"path\":\"/hidden\",\"version\":7},"
     "{\"op\":\"check\",\"path\":\"/none\",\"version\":0}]"),
};

/* Each is refused for its version; the refusal shows the znode's version if `shows`, else
 * nothing. */
static void check_deletes(struct socket *socket, bool shows)
{
    for (size_t i = 0; i < sizeof(deletes) / sizeof(deletes[0]); i++) {
        json_t *reply = socket_call(socket, "%s", deletes[i]);
        json_t *error = json_object_get(reply, "error");
        size_t len = json_dumpb(reply, NULL, 0, JSON_COMPACT);
        char *text = mem_zalloc(1, len + 1);

        assert_int_equal(json_dumpb(reply, text, len, JSON_COMPACT), len);
        assert_string_equal(json_string_value(json_object_get(error, "code")), "BadVersion");
        if ((strstr(text, "ersion\":") != NULL) != shows ||
            (!shows && (strstr(text, "hildren\":") || strstr(text, "\"stat\"")))) {
            fail_msg("%s: %s", deletes[i], text);
        }
        mem_free(text);
        json_decref(reply);
    }
}

/* The refusal must not depend on the version or on the existence of children. */
TEST(a_delete_of_an_unreadable_znode_reveals_nothing)
{
    struct socket *owner = talk_open(&ensemble, 0, NULL);
    struct socket *other = talk_open(&ensemble, 0, NULL);

    (void)talk_ok(&ensemble, owner, "\"op\":\"auth\",\"scheme\":\"digest\",\"credential\":\"u:p\"");
    (void)talk_ok(&ensemble, owner, "\"op\":\"create\",\"path\":\"/hidden\",\"acl\":\"creator\"");
    check_deletes(owner, true);
    check_deletes(other, false);
    (void)talk_ok(&ensemble, owner, "\"op\":\"create\",\"path\":\"/hidden/c\"");
    check_deletes(other, false);
    assert_string_equal(talk_error(other, "\"op\":\"get\",\"path\":\"/hidden\""), "NoAuth");
    socket_close(owner);
    socket_close(other);
}
