/* Malformed requests, first on a connection and after others: one refusal, the same each time. */
#include "tests/hostile/attack.h"
#include "tests/lib/unit.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    QUIET_MS = 10000 * ENSEMBLE_FACTOR, /* Longer than the head's deadline: silence is a failure. */
    BYTES_MAX = 64 << 10,
    PIECE_MS = 2
};

#define HOST     "Host: localhost\r\n"
#define CHUNKED  "Transfer-Encoding: chunked\r\n\r\n"
#define GOOD     "GET /livez HTTP/1.1\r\n" HOST "\r\n"
#define LAST     "GET /livez HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n"
#define RAW_TYPE "Content-Type: application/octet-stream\r\n"

struct bad {
    const char *name;
    const char *bytes;
    size_t len;
    long status;
    const char *detail;
};

#define BAD(name, bytes, status, detail)                   \
    {                                                      \
        name, bytes, sizeof(bytes) - 1, (status), (detail) \
    }

static const struct bad table[] = {
    BAD("bare line feed", "GET /livez HTTP/1.1\nHost: localhost\r\n\r\n", 400, "carriage return"),
    BAD("bare line feed at the end", "GET /livez HTTP/1.1\r\nHost: localhost\r\n\n", 400,
        "carriage return"),
    BAD("bare carriage return", "GET /livez HTTP/1.1\r\nHost: local\rhost\r\n\r\n", 400,
        "a carriage return without a line feed"),
    BAD("folded line", "GET /livez HTTP/1.1\r\nHost: localhost\r\n .evil\r\n\r\n", 400, "folded"),
    BAD("NUL in a value", "GET /livez HTTP/1.1\r\nHost: localhost\0.evil\r\n\r\n", 400,
        "control character"),
    BAD("NUL in the target", "GET /livez\0x HTTP/1.1\r\n" HOST "\r\n", 400, "control character"),
    BAD("chunks under 1.0",
        "PUT /znodes/v1/s HTTP/1.0\r\n" HOST RAW_TYPE CHUNKED "1\r\na\r\n0\r\n\r\n", 400,
        "must not have the header Transfer-Encoding"),
    BAD("length and chunks",
        "PUT /znodes/v1/s HTTP/1.1\r\n" HOST "Content-Length: 1\r\n" CHUNKED "0\r\n\r\n", 400,
        "exclude each other"),
    BAD("two lengths",
        "PUT /znodes/v1/s HTTP/1.1\r\n" HOST "Content-Length: 1\r\nContent-Length: 1\r\n\r\na", 400,
        "given twice"),
    BAD("length with a sign", "PUT /znodes/v1/s HTTP/1.1\r\n" HOST "Content-Length: +1\r\n\r\na",
        400, "Content-Length is not a number"),
    BAD("other coding", "PUT /znodes/v1/s HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip\r\n\r\n", 400,
        "Transfer-Encoding must be chunked"),
    BAD("no Host", "GET /livez HTTP/1.1\r\n\r\n", 400, "needs a Host header"),
    BAD("two Hosts", "GET /livez HTTP/1.1\r\n" HOST HOST "\r\n", 400, "given twice"),
    BAD("two Origins", "GET /livez HTTP/1.1\r\n" HOST "Origin: a\r\nOrigin: b\r\n\r\n", 400,
        "given twice"),
    BAD("blank before the colon", "GET /livez HTTP/1.1\r\nHost : localhost\r\n\r\n", 400,
        "a character that is not allowed"),
    BAD("no colon", "GET /livez HTTP/1.1\r\n" HOST "nonsense\r\n\r\n", 400, "no colon"),
    BAD("space in the target", "GET /znodes/v1/a b HTTP/1.1\r\n" HOST "\r\n", 400,
        "the request target has a blank"),
    BAD("two spaces", "GET  /livez HTTP/1.1\r\n" HOST "\r\n", 400, "blank"),
    BAD("no target", "GET HTTP/1.1\r\n" HOST "\r\n", 400, "no target"),
    BAD("no version", "GET /livez\r\n\r\n", 400, "does not end in an HTTP version"),
    BAD("no HTTP", "\x16\x03\x01\x02", 400, "control character"),
    BAD("HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "HTTP/1.0 and HTTP/1.1"),
    BAD("chunk without a size",
        "PUT /znodes/v1/s HTTP/1.1\r\n" HOST RAW_TYPE CHUNKED "zz\r\nab\r\n0\r\n\r\n", 400,
        "not a hexadecimal number"),
    BAD("chunk with a bare line feed",
        "PUT /znodes/v1/s HTTP/1.1\r\n" HOST RAW_TYPE CHUNKED "1\na\r\n0\r\n\r\n", 400,
        "must be followed by a line end"),
    BAD("chunk longer than its size",
        "PUT /znodes/v1/s HTTP/1.1\r\n" HOST RAW_TYPE CHUNKED "1\r\nab\r\n0\r\n\r\n", 400,
        "where its size says"),
    BAD("trailer with a control",
        "PUT /znodes/v1/s HTTP/1.1\r\n" HOST RAW_TYPE CHUNKED "1\r\na\r\n0\r\nT: \x01\r\n\r\n", 400,
        "trailer"),
    BAD("trailer without a colon",
        "PUT /znodes/v1/s HTTP/1.1\r\n" HOST RAW_TYPE CHUNKED "1\r\na\r\n0\r\nT\r\n\r\n", 400,
        "a trailer line is malformed"),
    BAD("trailer with a blank in its name",
        "PUT /znodes/v1/s HTTP/1.1\r\n" HOST RAW_TYPE CHUNKED "1\r\na\r\n0\r\nT : v\r\n\r\n", 400,
        "a trailer line is malformed"),
};

enum {
    TABLE_COUNT = sizeof(table) / sizeof(table[0])
};

static struct ensemble ensemble;
static uint16_t port;

/* Bytes sent before the bad request, and the number of their answers. */
struct before {
    const char *bytes;
    uint32_t answers;
};

static const struct before befores[] = {
    {"", 0},
    {GOOD, 1},
    {"PUT /znodes/v1/s HTTP/1.1\r\n" HOST RAW_TYPE "Content-Length: 5\r\n\r\n\n\r\n\r\n", 1},
    {GOOD "PUT /znodes/v1/s HTTP/1.1\r\n" HOST RAW_TYPE CHUNKED
          "2;a=b\r\nab\r\n0\r\nT: v\r\n\r\n" GOOD,
     3},
};

enum {
    BEFORES_COUNT = sizeof(befores) / sizeof(befores[0])
};

static const char *nth_answer(struct buf *out, uint32_t nth)
{
    const char *at = buf_cstr(out);

    for (uint32_t i = 0; at && i <= nth; i++) {
        at = strstr(i > 0 ? at + 1 : at, "HTTP/1.1 ");
        while (at && (at[9] < '1' || at[9] > '5')) {
            at = strstr(at + 1, "HTTP/1.1 ");
        }
    }
    return at;
}

/* Checks for `answers` good answers, then one refusal as a problem document, then the end. */
static void check_refusal(const struct bad *bad, const char *how, uint32_t answers, struct buf *out,
                          bool closed)
{
    const char *last = nth_answer(out, answers);
    bool good = closed && attack_answers(out) == answers + 1 && last &&
                (long)strtoul(last + strlen("HTTP/1.1 "), NULL, 10) == bad->status &&
                strstr(last, "application/problem+json") && strstr(last, bad->detail) &&
                strstr(last, "Zk-Zxid: ") && (answers == 0 || attack_status(out) == 200);

    if (!good) {
        fail_msg("%s, %s: closed %d, %u answers, expected %u and then %ld:\n%s", bad->name, how,
                 closed, attack_answers(out), answers, bad->status, buf_cstr(out));
    }
}

static void try_all_at_once(const struct bad *bad, const struct before *before, const char *after)
{
    struct buf bytes;
    struct buf out;
    bool closed = false;

    buf_init(&bytes, BYTES_MAX);
    buf_init(&out, ATTACK_ANSWER_MAX);
    buf_append_str(&bytes, before->bytes);
    buf_append(&bytes, bad->bytes, bad->len);
    buf_append_str(&bytes, after);
    closed = attack_exchange(port, bytes.data, bytes.len, QUIET_MS, &out);
    check_refusal(bad, "at once", before->answers, &out, closed);
    buf_release(&bytes);
    buf_release(&out);
}

static void setup(void)
{
    ensemble_launch(&ensemble, 1, "headTimeout=1500\nbodyTimeout=30000\n");
    port = ensemble.replicas[0].client_port;
    ensemble_call_until(&ensemble, 0, "POST", "/znodes/v1/?name=s", "s", 201);
}

static void close_all(void)
{
    ensemble_close(&ensemble);
}

TEST_GROUP(setup, close_all)

TEST(a_malformed_head_is_refused_alike_at_each_position)
{
    for (size_t i = 0; i < TABLE_COUNT; i++) {
        for (size_t j = 0; j < BEFORES_COUNT; j++) {
            try_all_at_once(&table[i], &befores[j], "");
        }
    }
}

TEST(nothing_after_a_refused_head_is_answered)
{
    for (size_t i = 0; i < TABLE_COUNT; i++) {
        try_all_at_once(&table[i], &befores[0], GOOD GOOD);
        try_all_at_once(&table[i], &befores[1], GOOD GOOD);
    }
}

/* Reads until the end of the stream; false when nothing arrives for QUIET_MS. */
static bool read_all(int fd, struct buf *out)
{
    struct pollfd look = {.fd = fd, .events = POLLIN};

    while (poll(&look, 1, QUIET_MS) == 1) {
        uint8_t *to = buf_reserve(out, 4096);
        ssize_t got = to ? recv(fd, to, 4096, 0) : -1;

        if (got <= 0) {
            return true;
        }
        out->len += (size_t)got;
    }
    return false;
}

static void read_until(int fd, struct buf *out, uint32_t answers)
{
    struct pollfd look = {.fd = fd, .events = POLLIN};

    while (attack_answers(out) < answers) {
        assert_int_equal(poll(&look, 1, QUIET_MS), 1);

        uint8_t *to = buf_reserve(out, 4096);
        ssize_t got = recv(fd, to, 4096, 0);

        assert_true(got > 0);
        out->len += (size_t)got;
    }
}

TEST(a_later_head_is_checked_when_it_arrives_byte_by_byte)
{
    for (size_t i = 0; i < TABLE_COUNT; i++) {
        int fd = attack_connect(port, 0, 0);
        struct buf out;

        buf_init(&out, ATTACK_ANSWER_MAX);
        assert_true(attack_send(fd, GOOD, strlen(GOOD)));
        read_until(fd, &out, 1);
        for (size_t pos = 0; pos < table[i].len; pos++) {
            (void)attack_send(fd, table[i].bytes + pos, 1);
            if (pos % 16 == 0) {
                (void)poll(NULL, 0, PIECE_MS);
            }
        }
        bool closed = read_all(fd, &out);

        check_refusal(&table[i], "byte by byte", 1, &out, closed);
        buf_release(&out);
        close(fd);
    }
}

/* Three requests with every kind of body, cut in two at each byte: nothing is lost or doubled. */
TEST(good_requests_pass_wherever_they_are_cut)
{
    static const char bytes[] =
        "PUT /znodes/v1/s HTTP/1.1\r\n" HOST RAW_TYPE "Content-Length: 4\r\n\r\n\r\n\r\n"
        "\r\nPUT /znodes/v1/s HTTP/1.1\r\n" HOST RAW_TYPE CHUNKED
        "3;a=\"b\"\r\nabc\r\nA\r\n0123456789\r\n0\r\nT: v\r\nU:\r\n\r\n" GOOD
        "GET /livez HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n";
    size_t len = sizeof(bytes) - 1;

    for (size_t cut = 1; cut < len; cut += ENSEMBLE_FACTOR) {
        int fd = attack_connect(port, 0, 0);
        struct buf out;

        buf_init(&out, ATTACK_ANSWER_MAX);
        assert_true(attack_send(fd, bytes, cut));
        (void)poll(NULL, 0, PIECE_MS);
        assert_true(attack_send(fd, bytes + cut, len - cut));
        assert_true(read_all(fd, &out));
        if (attack_answers(&out) != 4 || strstr(buf_cstr(&out), "HTTP/1.1 4")) {
            fail_msg("cut at %zu: %s", cut, buf_cstr(&out));
        }
        buf_release(&out);
        close(fd);
    }
}

/* A request with `count` times `unit` between two texts. */
static void build(struct buf *out, const char *head, const char *unit, size_t count,
                  const char *tail)
{
    buf_clear(out);
    buf_append_str(out, head);
    for (size_t i = 0; i < count; i++) {
        buf_append_str(out, unit);
    }
    buf_append_str(out, tail);
}

/* Correct requests that libmicrohttpd alone would refuse or parse differently. */
struct good {
    const char *name;
    const char *bytes;
};

static const struct good odd[] = {
    {"blank behind the length",
     "PUT /znodes/v1/s HTTP/1.1\r\n" HOST RAW_TYPE "Content-Length:1 \t\r\n\r\na"},
    {"blank behind the coding", "PUT /znodes/v1/s HTTP/1.1\r\n" HOST RAW_TYPE
                                "Transfer-Encoding: chunked \r\n\r\n1\r\na\r\n0\r\n\r\n"},
    {"blank behind the host", "GET /livez HTTP/1.1\r\nHost: localhost \t \r\na: \t \r\n\r\n"},
};

/* Sends it first and after another request; a further request shows that it was read to its end. */
static void try_good(const struct good *good)
{
    for (uint32_t before = 0; before < 2; before++) {
        struct buf bytes;
        struct buf out;

        buf_init(&bytes, BYTES_MAX);
        buf_init(&out, ATTACK_ANSWER_MAX);
        buf_append_str(&bytes, before ? GOOD : "");
        buf_append_str(&bytes, good->bytes);
        buf_append_str(&bytes, LAST);

        bool closed = attack_exchange(port, bytes.data, bytes.len, QUIET_MS, &out);

        if (!closed || attack_answers(&out) != before + 2 || attack_status(&out) / 100 != 2 ||
            strstr(buf_cstr(&out), "HTTP/1.1 4")) {
            fail_msg("%s, behind %u: closed %d:\n%s", good->name, before, closed, buf_cstr(&out));
        }
        buf_release(&bytes);
        buf_release(&out);
    }
}

static void try_long_good(const char *name, const char *head, const char *unit, size_t count,
                          const char *tail)
{
    struct good good = {.name = name};
    struct buf bytes;

    buf_init(&bytes, BYTES_MAX - 1024);
    build(&bytes, head, unit, count, tail);
    good.bytes = buf_cstr(&bytes);
    try_good(&good);
    buf_release(&bytes);
}

TEST(cookies_cost_nothing)
{
    for (size_t count = 10; count < 1600; count += 230) {
        try_long_good("cookies",
                      "PUT /znodes/v1/s HTTP/1.1\r\n" HOST RAW_TYPE "Content-Length: 1\r\ncooKIE: ",
                      "a=1; ", count, "\r\n\r\na");
    }
    try_long_good("170 cookies", "GET /livez HTTP/1.1\r\n" HOST "Cookie:", "a=1;", 170, "\r\n\r\n");
    try_long_good("large cookie", "GET /livez HTTP/1.1\r\n" HOST "Cookie: a=", "1", 6200,
                  "\r\n\r\n");
}

TEST(trailers_cost_nothing)
{
    try_long_good("200 trailers",
                  "PUT /znodes/v1/s HTTP/1.1\r\n" HOST RAW_TYPE CHUNKED "1\r\na\r\n0\r\n", "a:\r\n",
                  200, "\r\n");
    try_long_good("trailers behind a large head",
                  "PUT /znodes/v1/s HTTP/1.1\r\n" HOST RAW_TYPE "a: ", "b", 8000,
                  "\r\n" CHUNKED "1\r\na\r\n0\r\na:\r\nb: c\r\nd:\r\n\r\n");
}

/* The answer's head has the least room that the check of request heads leaves. An executed write
 * must be answered. */
TEST(a_create_with_any_head_is_answered)
{
    struct buf head;

    buf_init(&head, BYTES_MAX);
    for (size_t count = 60; count <= 120; count++) {
        buf_clear(&head);
        buf_printf(&head, "POST /znodes/v1/?sequence=true&name=%zu", count);
        for (int i = 0; i < 280; i++) {
            buf_append_str(&head, "%C3%A4");
        }
        buf_append_str(&head, " HTTP/1.1\r\n" HOST RAW_TYPE "Accept: application/json\r\n"
                              "Content-Length: 1\r\n");
        try_long_good("create", buf_cstr(&head), "a:\r\n", count, "\r\na");
    }
    buf_release(&head);
}

TEST(odd_but_correct_requests_are_answered)
{
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        try_good(&odd[i]);
    }
}

static void try_long(const char *name, struct buf *bytes, long status, const char *detail)
{
    struct bad bad = {name, NULL, bytes->len, status, detail};

    bad.bytes = buf_cstr(bytes);
    try_all_at_once(&bad, &befores[0], "");
    try_all_at_once(&bad, &befores[1], "");
}

TEST(oversized_requests_are_refused_at_once)
{
    struct buf bytes;

    buf_init(&bytes, BYTES_MAX - 1024);
    build(&bytes, "GET /livez?a", "&a=1", 190, " HTTP/1.1\r\n" HOST "\r\n");
    try_long("190 parameters", &bytes, 400, "more than 64 query parameters");
    build(&bytes, "GET /livez HTTP/1.1\r\n" HOST, "a:\r\n", 1000, "\r\n");
    try_long("1000 headers", &bytes, 431, "more headers and query parameters");
    build(&bytes, "GET /livez HTTP/1.1\r\n" HOST "a: ", "b", 9000, "\r\n\r\n");
    try_long("large head", &bytes, 431, "maxHeadBytes");
    build(&bytes, "GET /livez HTTP/1.1\r\n" HOST "a: ", "b", 60000, "\r\n\r\n");
    try_long("huge head", &bytes, 431, "maxHeadBytes");
    build(&bytes, "GET /", "b", 9000, " HTTP/1.1\r\n" HOST "\r\n");
    try_long("large target", &bytes, 431, "maxHeadBytes");
    build(&bytes, "PUT /znodes/v1/s HTTP/1.1\r\n" HOST RAW_TYPE CHUNKED "1;", "e", 2000,
          "\r\na\r\n0\r\n\r\n");
    try_long("chunk extension", &bytes, 400, "chunk extensions");
    build(&bytes, "PUT /znodes/v1/s HTTP/1.1\r\n" HOST RAW_TYPE CHUNKED, "1;eeeeeeeee\r\na\r\n",
          200, "0\r\n\r\n");
    try_long("chunk extensions in sum", &bytes, 400, "chunk extensions");
    build(&bytes, "PUT /znodes/v1/s HTTP/1.1\r\n" HOST RAW_TYPE CHUNKED "0\r\n", "a: b\r\n", 2000,
          "\r\n");
    try_long("trailers", &bytes, 400, "trailers");
    buf_release(&bytes);
}

/* The head is already accepted when the broken chunk arrives. */
TEST(a_chunk_that_breaks_later_is_answered_once)
{
    static const char head[] = "PUT /znodes/v1/s HTTP/1.1\r\n" HOST RAW_TYPE CHUNKED "2\r\nab\r\n";
    static const char rest[] = "Q\r\n\r\n" GOOD;
    const struct bad bad = {"broken later", rest, sizeof(rest) - 1, 400,
                            "not a hexadecimal number"};
    int fd = attack_connect(port, 0, 0);
    struct buf out;

    buf_init(&out, ATTACK_ANSWER_MAX);
    assert_true(attack_send(fd, GOOD, strlen(GOOD)));
    read_until(fd, &out, 1);
    assert_true(attack_send(fd, head, strlen(head)));
    (void)poll(NULL, 0, 100);
    assert_true(attack_send(fd, rest, strlen(rest)));

    bool closed = read_all(fd, &out);

    check_refusal(&bad, "in a later segment", 1, &out, closed);
    buf_release(&out);
    close(fd);
}

TEST(a_partial_later_head_has_the_deadline_of_a_head)
{
    static const char part[] = "GET /livez HTT";
    const struct bad bad = {"part", part, sizeof(part) - 1, 408, "within headTimeout"};
    int fd = attack_connect(port, 0, 0);
    struct buf out;

    buf_init(&out, ATTACK_ANSWER_MAX);
    assert_true(attack_send(fd, GOOD GOOD "GET /livez HTT", 2 * strlen(GOOD) + strlen(part)));

    bool closed = read_all(fd, &out);

    check_refusal(&bad, "with silence behind", 2, &out, closed);
    buf_release(&out);
    close(fd);
}

/* ---- What an answer may reveal. ---- */

/* The answer must not depend on the version or on the existence of children. */
static void check_silent(const char *method, const char *path, const char *headers,
                         const char *body)
{
    const struct web_call call = {
        .method = method, .port = port, .path = path, .headers = headers, .body = body};
    struct web_reply *reply = &ensemble.reply;
    long status = web_do(ensemble.web, &call, reply);

    if (status != 412 || web_header(reply, "ETag") || web_header(reply, "Zk-Stat") ||
        strstr(web_text(reply), "ersion\":") || strstr(web_text(reply), "hildren\":") ||
        strstr(web_text(reply), "\"stat\"")) {
        fail_msg("%s %s: %ld %s", method, path, status, web_text(reply));
    }
}

TEST(a_delete_of_an_unreadable_znode_reveals_nothing)
{
    static const char json[] = "Content-Type: application/json";
    const struct web_call make = {.method = "POST",
                                  .port = port,
                                  .path = "/znodes/v1/?name=hidden",
                                  .headers = "Authorization: Basic dTpw\nZk-Acl: creator",
                                  .body = "x"};
    const struct web_call child = {.method = "POST",
                                   .port = port,
                                   .path = "/znodes/v1/hidden?name=c",
                                   .headers = make.headers,
                                   .body = "x"};

    assert_int_equal(web_do(ensemble.web, &make, &ensemble.reply), 201);
    for (int i = 0; i < 2; i++) {
        check_silent("DELETE", "/znodes/v1/hidden?version=7", NULL, NULL);
        check_silent("DELETE", "/znodes/v1/hidden?recursive=true&version=7", NULL, NULL);
        check_silent("DELETE", "/znodes/v1/hidden", "If-Match: \"d1.7\"", NULL);
        check_silent("POST", "/multi/v1", json,
                     "{\"ops\":[{\"op\":\"delete\",\"path\":\"/hidden\",\"version\":7},"
                     "{\"op\":\"check\",\"path\":\"/none\",\"version\":0}]}");
        if (i == 0) {
            assert_int_equal(web_do(ensemble.web, &child, &ensemble.reply), 201);
        }
    }
}

static void check_call(const char *method, const char *headers, const char *body, long status,
                       const char *words)
{
    const struct web_call call = {
        .method = method, .port = port, .path = "/znodes/v1/s", .headers = headers, .body = body};

    assert_int_equal(web_do(ensemble.web, &call, &ensemble.reply), status);
    if (!strstr(web_text(&ensemble.reply), words)) {
        fail_msg("%s", web_text(&ensemble.reply));
    }
}

TEST(a_write_of_another_site_is_refused_without_an_origin)
{
    check_call("PUT", "Sec-Fetch-Site: cross-site", "s", 403, "allowedOrigins");
    check_call("DELETE", "Sec-Fetch-Site: cross-site", NULL, 403, "allowedOrigins");
    check_call("PUT", "Sec-Fetch-Site: Cross-Site", "s", 403, "allowedOrigins");
    check_call("PUT", "Sec-Fetch-Site: same-site", "s", 403, "Sec-Fetch-Site: same-site");
    check_call("PUT", "Sec-Fetch-Site: same-origin", "s", 200, "");
    check_call("PUT", "Sec-Fetch-Site: none", "s", 200, "");
    check_call("GET", "Sec-Fetch-Site: cross-site", NULL, 200, "");
}

TEST(a_compressed_body_is_refused_and_its_coding_named)
{
    check_call("PUT", "Content-Encoding: gzip", "s", 415, "Content-Encoding gzip");
    assert_string_equal(web_header(&ensemble.reply, "Accept-Encoding"), "identity");
    check_call("PUT", "Content-Encoding: identity, br", "s", 415, "Content-Encoding br");
    check_call("PUT", "Content-Encoding: identity", "s", 200, "");
    check_call("GET", "Content-Encoding: gzip", NULL, 200, "");
}
