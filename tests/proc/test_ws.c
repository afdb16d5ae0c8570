/* WebSockets by themselves: refused handshakes, malformed frames, limits, drain. Other clients must
 * not be affected. */
#include "base/mem.h"
#include "tests/lib/unit.h"
#include "tests/proc/talk.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum {
    MESSAGE_MAX = 64 << 10,
    FRAME_TEXT = 0x81,
    FRAME_TEXT_MORE = 0x01,
    FRAME_REST = 0x80,
    FRAME_REST_MORE = 0x00,
    FRAME_BINARY = 0x82,
    FRAME_PING = 0x89,
    NO_TEXT = 1003,
    NO_UTF8 = 1007,
    TOO_SLOW = 1008,
    TOO_LARGE = 1009,
    PROTOCOL = 1002,
    DRAIN = 1001,
    LONG_PATH = 2048 /* Half of maxWatchBytes. */
};

static struct ensemble ensemble;

static void open_one(void)
{
    ensemble_launch(&ensemble, 1,
                    "maxMessageBytes=65536\nmaxWebSockets=20\nmaxConnectionsPerAddress=40\n"
                    "maxWatches=10\nmaxWatchBytes=4096\nbodyTimeout=5000\n"
                    "allowedOrigins=https://app.test\n");
}

static void open_quick(void)
{
    ensemble_launch(&ensemble, 1, "heartbeatInterval=500\n");
}

static void close_one(void)
{
    ensemble_close(&ensemble);
}

static uint16_t port(void)
{
    return ensemble.replicas[0].client_port;
}

/* Other clients must not be affected. */
static void check_others(void)
{
    struct socket *socket = talk_open(&ensemble, 0, NULL);

    talk_ok(&ensemble, socket, "\"op\":\"get\",\"path\":\"/\"");
    socket_close(socket);
}

/* ---- Handshakes ---- */

static long status_of(const struct socket_options *options)
{
    struct socket *socket = socket_open(port(), options);
    long status = socket_status(socket);

    socket_close(socket);
    return status;
}

TEST_GROUP(open_one, close_one)

TEST(invalid_handshakes_are_refused)
{
    assert_int_equal(status_of(NULL), 101);
    assert_int_equal(status_of(&(struct socket_options){.protocol = ""}), 400);
    assert_int_equal(status_of(&(struct socket_options){.protocol = "zabra.v9.json"}), 400);
    assert_int_equal(status_of(&(struct socket_options){.protocol = "chat, zabra.v1.json"}), 101);
    assert_int_equal(
        status_of(&(struct socket_options){.headers = "Origin: https://evil.test\r\n"}), 403);
    assert_int_equal(status_of(&(struct socket_options){.headers = "Origin: https://app.test\r\n"}),
                     101);
    assert_int_equal(status_of(&(struct socket_options){.headers = "Authorization: Bearer x\r\n"}),
                     401);
    assert_int_equal(status_of(&(struct socket_options){.path = "/ws/v1?session=x"}), 400);
    assert_int_equal(status_of(&(struct socket_options){.path = "/ws/v2"}), 404);
    check_others();
}

TEST(sockets_are_limited)
{
    struct socket *sockets[20];

    for (int i = 0; i < 20; i++) {
        sockets[i] = talk_open(&ensemble, 0, NULL);
    }
    assert_int_equal(status_of(NULL), 503);
    for (int i = 0; i < 20; i++) {
        talk_ok(&ensemble, sockets[i], "\"op\":\"ping\"");
        socket_close(sockets[i]);
    }
    ENSEMBLE_WAIT(&ensemble, status_of(NULL) == 101);
}

/* ---- Frames ---- */

static void check_code(struct socket *socket, uint32_t code)
{
    ENSEMBLE_CHECK(&ensemble, socket_wait_end(socket, ENSEMBLE_DEADLINE_MS));
    assert_int_equal(socket_close_code(socket), code);
    socket_close(socket);
    check_others();
}

TEST(binary_messages_end_the_socket)
{
    struct socket *socket = talk_open(&ensemble, 0, NULL);

    socket_send_frame(socket, FRAME_BINARY, "{}", 2, true);
    check_code(socket, NO_TEXT);
}

TEST(invalid_utf8_ends_the_socket)
{
    struct socket *socket = talk_open(&ensemble, 0, NULL);

    socket_send_frame(socket, FRAME_TEXT, "{\"id\":1,\"op\":\"\xff\"}", 17, true);
    check_code(socket, NO_UTF8);
}

TEST(messages_have_a_maximal_size)
{
    struct socket *socket = talk_open(&ensemble, 0, NULL);
    char *text = mem_alloc(MESSAGE_MAX + 1);
    int len = snprintf(text, MESSAGE_MAX, "{\"id\":1,\"op\":\"ping\",\"pad\":\"");

    memset(text + len, 'x', (size_t)(MESSAGE_MAX + 1 - len));
    text[MESSAGE_MAX - 2] = '"';
    text[MESSAGE_MAX - 1] = '}';
    socket_send_text(socket, text, MESSAGE_MAX);

    json_t *reply = socket_reply(socket, 1, SOCKET_TIMEOUT_MS);

    assert_true(json_is_true(json_object_get(reply, "ok")));
    json_decref(reply);
    socket_send_text(socket, text, MESSAGE_MAX + 1);
    check_code(socket, TOO_LARGE);
    mem_free(text);
}

/* Requests before the fault are answered first. */
TEST(a_closing_socket_answers_earlier_requests)
{
    struct socket *socket = talk_open(&ensemble, 0, NULL);
    uint64_t first = socket_request(socket, "\"op\":\"create\",\"path\":\"/before\"");
    uint64_t second = socket_request(socket, "\"op\":\"get\",\"path\":\"/before\"");
    json_t *reply = NULL;

    socket_send_frame(socket, FRAME_BINARY, "{}", 2, true);
    reply = socket_reply(socket, first, SOCKET_TIMEOUT_MS);
    assert_true(json_is_true(json_object_get(reply, "ok")));
    json_decref(reply);
    reply = socket_reply(socket, second, SOCKET_TIMEOUT_MS);
    assert_true(json_is_true(json_object_get(reply, "ok")));
    json_decref(reply);
    check_code(socket, NO_TEXT);
}

TEST(a_message_may_be_fragmented)
{
    static const char text[] = "{\"id\":77,\"op\":\"ping\"}";
    struct socket *socket = talk_open(&ensemble, 0, NULL);
    size_t len = strlen(text);

    for (size_t i = 0; i < len; i++) {
        uint8_t first = i == 0 ? FRAME_TEXT_MORE : i + 1 < len ? FRAME_REST_MORE : FRAME_REST;

        socket_send_frame(socket, first, text + i, 1, true);
        socket_send_frame(socket, FRAME_PING, "p", 1, true); /* Allowed between fragments. */
    }
    json_t *reply = socket_reply(socket, 77, SOCKET_TIMEOUT_MS);

    ENSEMBLE_CHECK(&ensemble, json_is_true(json_object_get(reply, "ok")));
    json_decref(reply);
    socket_close(socket);
}

/* The server does not wait for an endless message. */
TEST(a_fragmented_message_must_end)
{
    struct socket *socket = talk_open(&ensemble, 0, NULL);

    socket_send_frame(socket, FRAME_TEXT_MORE, "{", 1, true);
    check_code(socket, TOO_SLOW);
}

static void check_malformed(uint8_t first, const char *data, size_t len)
{
    struct socket *socket = talk_open(&ensemble, 0, NULL);

    socket_send_frame(socket, first, data, len, true);
    ENSEMBLE_CHECK(&ensemble, socket_wait_end(socket, ENSEMBLE_DEADLINE_MS));
    assert_int_equal(socket_close_code(socket), PROTOCOL);
    socket_close(socket);
    check_others();
}

TEST(malformed_frames_end_the_socket)
{
    check_malformed(0x83, "x", 1);       /* An unknown opcode. */
    check_malformed(0xC1, "x", 1);       /* A reserved bit. */
    check_malformed(FRAME_REST, "x", 1); /* A continuation without a start. */
    check_malformed(0x09, "x", 1);       /* A fragmented ping. */
}

TEST(frames_without_a_mask_end_the_socket)
{
    static const char text[] = "{\"id\":5,\"op\":\"create\",\"path\":\"/unmasked\"}";
    struct socket *socket = talk_open(&ensemble, 0, NULL);
    json_t *reply = NULL;

    socket_send_frame(socket, FRAME_TEXT, text, strlen(text), false);
    ENSEMBLE_CHECK(&ensemble, socket_wait_end(socket, ENSEMBLE_DEADLINE_MS));
    assert_int_equal(socket_close_code(socket), PROTOCOL);
    assert_string_equal(socket_close_reason(socket), "a frame is not masked");
    socket_close(socket);
    socket = talk_open(&ensemble, 0, NULL);
    reply = socket_call(socket, "\"op\":\"exists\",\"path\":\"/unmasked\"");
    assert_true(json_is_false(json_object_get(reply, "exists")));
    json_decref(reply);
    socket_close(socket);
}

/* ---- Messages ---- */

TEST(invalid_messages_are_answered)
{
    static const char *const texts[] = {
        "",
        "{",
        "[]",
        "null",
        "{}",
        "{\"op\":\"ping\"}",
        "{\"id\":-1,\"op\":\"ping\"}",
        "{\"id\":\"1\",\"op\":\"ping\"}",
        "\"",
        "{\"id\":1,\"op\":\"ping\"}x",
    };
    struct socket *socket = talk_open(&ensemble, 0, NULL);

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        json_t *reply = NULL;

        socket_send_text(socket, texts[i], strlen(texts[i]));
        do {
            json_decref(reply);
            reply = socket_next(socket, SOCKET_TIMEOUT_MS);
            ENSEMBLE_CHECK(&ensemble, reply != NULL);
        } while (json_object_get(reply, "event"));
        assert_true(json_is_false(json_object_get(reply, "ok")));
        assert_true(json_is_null(json_object_get(reply, "id")));
        assert_string_equal(talk_text(json_object_get(reply, "error"), "outcome"), "not-applied");
        json_decref(reply);
    }
    talk_ok(&ensemble, socket, "\"op\":\"ping\"");
    socket_close(socket);
}

TEST(internal_operations_are_unknown)
{
    struct socket *socket = talk_open(&ensemble, 0, NULL);

    assert_string_equal(talk_error(socket, "\"op\":\"reap\",\"path\":\"/\""), "Unimplemented");
    assert_string_equal(talk_error(socket, "\"op\":\"expire\",\"session\":1"), "Unimplemented");
    assert_string_equal(talk_error(socket, "\"op\":\"check\",\"path\":\"/\""), "BadArguments");
    socket_close(socket);
}

TEST(watches_of_a_socket_are_limited)
{
    struct socket *socket = talk_open(&ensemble, 0, NULL);

    for (int i = 0; i < 10; i++) {
        talk_ok(&ensemble, socket, "\"op\":\"watch\",\"path\":\"/%d\",\"kind\":\"exists\"", i);
    }
    assert_string_equal(
        talk_error(socket, "\"op\":\"watch\",\"path\":\"/more\",\"kind\":\"exists\""),
        "ThrottledOp");
    assert_string_equal(talk_error(socket, "\"op\":\"get\",\"path\":\"/\",\"watch\":true"),
                        "ThrottledOp");
    talk_ok(&ensemble, socket, "\"op\":\"unwatch\",\"watch\":1");
    talk_ok(&ensemble, socket, "\"op\":\"get\",\"path\":\"/\",\"watch\":true");
    socket_close(socket);
}

/* A path of the maximal length that begins with `first`. */
static const char *long_path(char text[LONG_PATH + 1], char first)
{
    memset(text, 'x', LONG_PATH);
    text[0] = '/';
    text[1] = first;
    text[LONG_PATH] = '\0';
    return text;
}

TEST(bytes_of_watch_paths_are_limited)
{
    struct socket *socket = talk_open(&ensemble, 0, NULL);
    char path[LONG_PATH + 1];

    talk_ok(&ensemble, socket, "\"op\":\"watch\",\"path\":\"%s\",\"kind\":\"exists\"",
            long_path(path, 'a'));
    talk_ok(&ensemble, socket, "\"op\":\"watch\",\"path\":\"%s\",\"kind\":\"exists\"",
            long_path(path, 'b'));
    assert_string_equal(talk_error(socket, "\"op\":\"watch\",\"path\":\"/c\",\"kind\":\"exists\""),
                        "ThrottledOp");
    talk_ok(&ensemble, socket, "\"op\":\"unwatch\",\"watch\":1");
    talk_ok(&ensemble, socket, "\"op\":\"watch\",\"path\":\"/c\",\"kind\":\"exists\"");
    socket_close(socket);
}

TEST(metrics_count)
{
    struct socket *socket = talk_open(&ensemble, 0, NULL);
    struct web_reply *reply = &ensemble.reply;

    talk_ok(&ensemble, socket, "\"op\":\"watch\",\"path\":\"/\",\"kind\":\"recursive\"");
    talk_ok(&ensemble, socket, "\"op\":\"create\",\"path\":\"/counted\"");
    assert_int_equal(ensemble_call(&ensemble, 0, "GET", "/metrics", NULL), 200);
    assert_non_null(strstr(web_text(reply), "\nzabra_ws_sockets "));
    assert_non_null(strstr(web_text(reply), "\nzabra_ws_messages_total "));
    assert_null(strstr(web_text(reply), "\nzabra_ws_events_total 0\n"));
    assert_null(strstr(web_text(reply), "zabra_ws_closed_total{code=\"1009\"} 0\n"));
    socket_close(socket);
}

/* ---- Drain ---- */

/* The last test of this group: it ends the replica. */
TEST(draining_is_announced_and_closes_sockets)
{
    struct socket *socket = talk_open(&ensemble, 0, NULL);
    json_t *event = NULL;

    ensemble_signal(&ensemble, 0, SIGTERM);
    event = socket_event(socket, "closing", ENSEMBLE_DEADLINE_MS);
    ENSEMBLE_CHECK(&ensemble, event != NULL);
    assert_string_equal(talk_text(event, "reason"), "drain");
    json_decref(event);
    assert_true(socket_wait_end(socket, ENSEMBLE_DEADLINE_MS));
    assert_int_equal(socket_close_code(socket), DRAIN);
    assert_int_equal(ensemble_wait_end(&ensemble, 0), 0);
    socket_close(socket);
}

/* ---- Frequent heartbeats ---- */

TEST_GROUP(open_quick, close_one)

/* A client that has vanished, or does not answer pings. First test of its group, because it counts
 * sockets. */
TEST(a_silent_client_is_disconnected)
{
    struct socket *socket = talk_open(&ensemble, 0, NULL);

    /* It reads nothing, so it answers no ping. */
    ENSEMBLE_WAIT(&ensemble, ensemble_metric(&ensemble, 0, "zabra_ws_sockets_total") == 1 &&
                                 ensemble_metric(&ensemble, 0, "zabra_ws_sockets") == 0);
    ENSEMBLE_CHECK(&ensemble, socket_wait_end(socket, ENSEMBLE_DEADLINE_MS));
    assert_int_equal(socket_close_code(socket), SOCKET_LOST);
    socket_close(socket);
}

TEST(heartbeats_name_the_last_sent_zxid)
{
    struct socket *socket = talk_open(&ensemble, 0, NULL);
    char zxid[TALK_FIELD_MAX];
    uint64_t named = 0;

    (void)snprintf(zxid, sizeof(zxid), "%s",
                   talk_ok(&ensemble, socket, "\"op\":\"create\",\"path\":\"/beat\""));
    while (named < talk_hex(zxid)) {
        json_t *event = socket_event(socket, "heartbeat", ENSEMBLE_DEADLINE_MS);

        ENSEMBLE_CHECK(&ensemble, event != NULL);
        assert_true(talk_hex(talk_text(event, "zxid")) >= named);
        named = talk_hex(talk_text(event, "zxid"));
        json_decref(event);
    }
    socket_close(socket);
}
