/* Where WebSockets leave HTTP: which first heads the front end hands over, with what, and which it
 * refuses. */
#include "server/op/auth.h"
#include "tests/lib/ws_head.h"
#include "tests/unit/http_front.h"

#define SOCKET_HEAD                                                                                \
    "Host: localhost\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n" WS_HEAD_VERSION \
        WS_HEAD_SENT_KEY
#define OFFER "Sec-WebSocket-Protocol: other, zabra.v1.json\r\n"

/* A taker that answers with one byte, so that the client knows, and closes the connection. */
struct taker {
    bool full;
    uint32_t taken;
    size_t head_len; /* Bytes found in the socket. */
    size_t told_len; /* Length of the head as handed over. */
    char key[64];
    char identity[200]; /* First identity. */
    char address[64];
};

static struct taker taker;

static bool take(void *ctx, int fd, size_t head_len, const char *key,
                 const struct op_principal *who, void *seat)
{
    struct taker *self = ctx;
    char head[4096];

    if (self->full) {
        return false;
    }
    self->taken++;
    self->head_len = (size_t)recv(fd, head, sizeof(head), 0);
    self->told_len = head_len;
    (void)snprintf(self->key, sizeof(self->key), "%s", key);
    (void)snprintf(self->address, sizeof(self->address), "%s", who->address);
    (void)snprintf(self->identity, sizeof(self->identity), "%.*s",
                   who->auth ? (int)who->auth->ids[0].id.len : 0,
                   who->auth ? (const char *)who->auth->ids[0].id.data : "");
    kit_send(fd, "!");
    http_seat_give(seat);
    close(fd);
    return true;
}

static void start(const struct http_upgrade *upgrade, uint32_t connections_max)
{
    taker = (struct taker){.taken = 0};
    gate = kit_gate_new();
    gate->limits.connections_per_address_max = connections_max;
    assert_int_equal(http_start(gate, upgrade, &http), ERR_OK);
    port = kit_port(http);
}

static void setup(void)
{
    start(&(struct http_upgrade){.take = take, .ctx = &taker}, 100);
}

/* A refused client keeps its place until its end of the connection is seen to be closed, so with
 * this few places only accepted clients pass. */
static void setup_few(void)
{
    start(&(struct http_upgrade){.take = take, .ctx = &taker}, 1);
}

static void setup_without(void)
{
    start(NULL, 100);
}

/* Status of the refusal, or 0 when the connection was taken. */
static int knock(const char *line, const char *headers, const char *has)
{
    int fd = kit_connect(port);
    char byte = 0;
    int status = 0;

    kit_send(fd, line);
    kit_send(fd, " HTTP/1.1\r\n");
    kit_send(fd, headers);
    kit_send(fd, "\r\n");
    assert_int_equal(recv(fd, &byte, 1, MSG_PEEK), 1);
    if (byte != '!') {
        struct kit_answer answer = kit_read(fd, false);

        status = answer.status;
        if (has && !kit_body_has(&answer, has) && !strstr(answer.head, has)) {
            fail_msg("%d without %s: %s", status, has, (const char *)answer.body);
        }
        kit_free(&answer);
    }
    close(fd);
    return status;
}

TEST(a_sound_request_is_handed_over_unread, setup, front_teardown)
{
    const char *line = "GET /ws/v1";
    const char *headers = SOCKET_HEAD OFFER "Authorization: Basic Ym9iOnNlY3JldA==\r\n";

    assert_int_equal(knock(line, SOCKET_HEAD OFFER, NULL), 0);
    assert_string_equal(taker.identity, "");
    assert_int_equal(knock(line, headers, NULL), 0);
    assert_int_equal(taker.taken, 2);
    assert_string_equal(taker.address, "127.0.0.1");
    assert_int_equal(strncmp(taker.identity, "bob:", 4), 0);
    assert_null(strstr(taker.identity, "secret"));
    assert_string_equal(taker.key, WS_HEAD_KEY);
    assert_int_equal(taker.told_len, taker.head_len);
    assert_int_equal(taker.head_len, strlen(line) + strlen(" HTTP/1.1\r\n\r\n") + strlen(headers));
}

/* More connections one after another than may exist at once. */
TEST(a_released_seat_is_free_again, setup_few, front_teardown)
{
    for (int i = 0; i < 10; i++) {
        assert_int_equal(knock("GET /ws/v1", SOCKET_HEAD OFFER, NULL), 0);
    }
    assert_int_equal(taker.taken, 10);
}

TEST(mistakes_in_a_handshake_are_named, setup, front_teardown)
{
    assert_int_equal(knock("GET /ws/v1", SOCKET_HEAD, "zabra.v1.json"), 400);
    assert_int_equal(knock("GET /ws/v1?session=x", SOCKET_HEAD OFFER, "attach"), 400);
    assert_int_equal(knock("GET /ws/v1", SOCKET_HEAD OFFER "Content-Length: 1\r\n", "body"), 400);
    assert_int_equal(
        knock("GET /ws/v1", SOCKET_HEAD OFFER "Origin: https://evil.test\r\n", "allowedOrigins"),
        403);
    assert_int_equal(knock("GET /ws/v1", SOCKET_HEAD OFFER "Origin: https://app.test\r\n", NULL),
                     0);
    assert_int_equal(
        knock("GET /ws/v1", SOCKET_HEAD OFFER "Authorization: Bearer x\r\n", "WWW-Authenticate"),
        401);
    assert_int_equal(knock("GET /ws/v1",
                           "Host: evil.test\r\nUpgrade: websocket\r\nConnection: upgrade\r\n",
                           "allowedHosts"),
                     421);
    assert_int_equal(knock("GET /ws/v1",
                           "Host: localhost\r\nUpgrade: websocket\r\nConnection: upgrade\r\n",
                           "Sec-WebSocket-Version: 13"),
                     426);
    taker.full = true;
    assert_int_equal(knock("GET /ws/v1", SOCKET_HEAD OFFER, "Retry-After"), 503);
}

/* Without a WebSocket as the connection's first request, the client gets the headers that it must
 * send; elsewhere an upgrade is ignored, as RFC 9110 has it. */
TEST(other_requests_go_to_the_library, setup, front_teardown)
{
    int fd = kit_connect(port);
    struct kit_answer answer;

    assert_int_equal(knock("GET /ws/v1", "Host: localhost\r\n", "Upgrade: websocket"), 426);
    assert_int_equal(knock("GET /status/v1", SOCKET_HEAD OFFER, NULL), 200);
    kit_send(fd, "GET /status/v1 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    answer = kit_read(fd, false);
    assert_int_equal(answer.status, 200);
    kit_free(&answer);
    kit_send(fd, "GET /ws/v1 HTTP/1.1\r\n" SOCKET_HEAD OFFER "\r\n");
    answer = kit_read(fd, false);
    assert_int_equal(answer.status, 426);
    assert_string_equal(kit_header(&answer, "Connection"), "close");
    kit_free(&answer);
    assert_true(kit_closed(fd));
    close(fd);
    assert_int_equal(taker.taken, 0);
}

TEST(without_a_taker_there_are_no_sockets, setup_without, front_teardown)
{
    struct kit_answer answer = kit_ask(port, "GET", "/ws/v1", "", NULL);

    assert_int_equal(answer.status, 426);
    kit_free(&answer);
    assert_int_equal(knock("GET /ws/v1", SOCKET_HEAD OFFER, NULL), 501);
}

TEST(nothing_is_handed_over_after_a_drain, setup, front_teardown)
{
    int fd = kit_connect(port);
    struct kit_answer answer;

    kit_send(fd, "GET /ws/v1 HTTP/1.1\r\n");
    http_drain(http);
    assert_int_equal(taker.taken, 0);
    answer = kit_read(fd, false);
    kit_free(&answer);
    close(fd);
}
