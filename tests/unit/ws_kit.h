/*
 * ws_kit.h - WebSockets and HTTP before a gate that is one replica in memory, and one client.
 */
#ifndef TESTS_UNIT_WS_KIT_H
#define TESTS_UNIT_WS_KIT_H

#include "tests/proc/socket.h"
#include "tests/unit/http_kit.h"
#include "ws/ws_int.h"

#include <stdlib.h>

enum {
    WS_KIT_BODY_MS = 400,    /* For a message in pieces. */
    WS_KIT_QUIET_MS = 100,   /* Without a byte sent. */
    WS_KIT_PING_BYTES = 400, /* More than the answer to a ping takes. */
    WS_KIT_TURNS = 20,
    WS_KIT_TURN_MS = 5,
    WS_KIT_SLOW_MS = 1500, /* For a client that takes nothing. */
};

struct fixture {
    struct gate *gate;
    struct ws *ws;
    struct http *http;
    struct socket *socket;
};

/* Settings of the next front end; 0: the default. */
static struct {
    size_t pieces_max;
    size_t address_pieces_max; /* Of one address. */
    uint32_t watches_max;
    uint32_t request_timeout_ms;
    uint32_t slow_timeout_ms;
    uint32_t queue_bytes;
    uint64_t unsent_bytes;
    uint32_t data_bytes; /* Of one znode; messages may be twice as long. */
    bool require_identity;
    uint32_t head_timeout_ms;
} kit_choice;

static inline struct socket *open_socket(const struct fixture *fixture)
{
    struct socket *socket = socket_open(kit_port(fixture->http), NULL);

    assert_int_equal(socket_status(socket), 101);
    json_decref(socket_event(socket, "hello", SOCKET_TIMEOUT_MS));
    return socket;
}

static inline void setup_with(struct fixture *fixture, uint32_t in_flight_max,
                              uint32_t heartbeat_ms)
{
    fixture->gate = kit_gate_new();
    fixture->gate->limits.requests_max = 1000;
    fixture->gate->limits.web_sockets_max = 10;
    fixture->gate->limits.socket_in_flight_max = in_flight_max;
    fixture->gate->limits.message_bytes_max = 64 << 10;
    fixture->gate->limits.heartbeat_ms = heartbeat_ms;
    fixture->gate->limits.body_timeout_ms = WS_KIT_BODY_MS;
    fixture->gate->limits.slow_timeout_ms = WS_KIT_SLOW_MS;
    if (kit_choice.watches_max > 0) {
        fixture->gate->limits.watches_max = kit_choice.watches_max;
    }
    if (kit_choice.request_timeout_ms > 0) {
        fixture->gate->limits.request_timeout_ms = kit_choice.request_timeout_ms;
    }
    if (kit_choice.slow_timeout_ms > 0) {
        fixture->gate->limits.slow_timeout_ms = kit_choice.slow_timeout_ms;
    }
    fixture->gate->limits.require_identity = kit_choice.require_identity;
    if (kit_choice.head_timeout_ms > 0) {
        fixture->gate->limits.head_timeout_ms = kit_choice.head_timeout_ms;
    }
    if (kit_choice.queue_bytes > 0) {
        fixture->gate->limits.socket_queue_bytes_max = kit_choice.queue_bytes;
    }
    if (kit_choice.unsent_bytes > 0) {
        fixture->gate->unsent.max = kit_choice.unsent_bytes;
    }
    if (kit_choice.data_bytes > 0) {
        fixture->gate->limits.data_bytes_max = kit_choice.data_bytes;
        fixture->gate->limits.message_bytes_max = 2 * kit_choice.data_bytes;
        fixture->gate->limits.body_timeout_ms = KIT_DEADLINE_MS; /* Messages come in pieces. */
    }
    assert_int_equal(ws_start(fixture->gate, http_seat_give, &fixture->ws), ERR_OK);
    if (kit_choice.pieces_max > 0) {
        /* No socket exists yet that could read it. */
        fixture->ws->pieces.budget.max = kit_choice.pieces_max;
    }
    if (kit_choice.address_pieces_max > 0) {
        fixture->ws->pieces.address_max = kit_choice.address_pieces_max;
    }

    const struct http_upgrade upgrade = {.take = ws_adopt, .ctx = fixture->ws};

    assert_int_equal(http_start(fixture->gate, &upgrade, &fixture->http), ERR_OK);
    fixture->socket = open_socket(fixture);
}

static inline void teardown(struct fixture *fixture)
{
    atomic_store(&fixture->gate->held, false);
    socket_close(fixture->socket);
    ws_drain(fixture->ws);
    http_drain(fixture->http);
    ws_stop(fixture->ws);
    http_stop(fixture->http);
    kit_gate_free(fixture->gate);
}

/* The counter of that name, as /metrics would show it. */
static inline uint64_t counter(const char *name)
{
    struct buf out;
    uint64_t value = 0;

    buf_init(&out, 1 << 16);
    kit_write_front_metrics(&out);

    const char *at = strstr(buf_cstr(&out), name);

    assert_non_null(at);
    assert_int_equal(sscanf(at + strlen(name), "%lu", &value), 1);
    buf_release(&out);
    return value;
}

/* Until nothing more is sent: the kernel has taken what it can. */
static inline void wait_for_quiet(void)
{
    uint64_t sent = 0;

    do {
        sent = counter("\nzabra_ws_sent_bytes_total ");
        (void)poll(NULL, 0, WS_KIT_QUIET_MS);
    } while (sent != counter("\nzabra_ws_sent_bytes_total "));
}

/* Whether the thread of the sockets sends more than the answer to a ping in that ping's turn. */
static inline bool sends_more(struct fixture *fixture)
{
    uint64_t before = counter("\nzabra_ws_sent_bytes_total ");

    json_decref(socket_call(fixture->socket, "\"op\":\"ping\""));
    return counter("\nzabra_ws_sent_bytes_total ") - before > WS_KIT_PING_BYTES;
}

/* Until the kernel takes nothing more for a client that reads nothing. The thread has had its
 * turns, however late. */
static inline void wait_until_stuck(struct fixture *fixture)
{
    for (int turns = 0; turns < WS_KIT_TURNS; turns++) {
        if (sends_more(fixture)) {
            turns = -1;
        }
        (void)poll(NULL, 0, WS_KIT_TURN_MS);
    }
}

static inline void wait_until(bool (*holds)(const struct fixture *fixture),
                              const struct fixture *fixture)
{
    uint64_t end_ms = os_now_ms() + KIT_DEADLINE_MS;

    while (!holds(fixture)) {
        assert_true(os_now_ms() < end_ms);
        (void)poll(NULL, 0, 1);
    }
}

/* The code of the error in the reply to a request; "" when it was ok. */
static inline void check_reply(struct fixture *fixture, uint64_t id, const char *code)
{
    json_t *reply = socket_reply(fixture->socket, id, SOCKET_TIMEOUT_MS);
    const json_t *error = json_object_get(reply, "error");
    const char *got = json_string_value(json_object_get(error, "code"));

    assert_non_null(reply);
    assert_string_equal(got ? got : "", code);
    json_decref(reply);
}

static inline uint64_t ask_set(struct fixture *fixture, int version)
{
    return socket_request(fixture->socket,
                          "\"op\":\"set\",\"path\":\"/\",\"dataUtf8\":\"x\",\"version\":%d",
                          version);
}

static inline bool one_inside(const struct fixture *fixture)
{
    return atomic_load(&fixture->gate->inside) == 1;
}

struct session {
    char secret[OP_SECRET_LEN + 1];
    uint64_t id;
};

static inline void open_session(struct fixture *fixture, struct session *ret_session)
{
    json_t *reply = socket_call(fixture->socket, "\"op\":\"session\",\"timeout_ms\":1000");
    const json_t *session = json_object_get(reply, "session");
    const char *secret = json_string_value(json_object_get(session, "id"));
    const char *id = json_string_value(json_object_get(session, "public"));

    assert_non_null(secret);
    assert_non_null(id);
    (void)snprintf(ret_session->secret, sizeof(ret_session->secret), "%s", secret);
    ret_session->id = strtoull(id, NULL, 16);
    json_decref(reply);
}

#endif
