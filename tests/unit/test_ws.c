/* Sockets before a gate that holds, refuses, forgets and goes back: what real replicas do only by
 * chance. */
#include "server/state/state.h"
#include "tests/proc/socket.h"
#include "tests/unit/http_kit.h"
#include "ws/ws.h"

struct fixture {
    struct gate *gate;
    struct ws *ws;
    struct http *http;
    struct socket *socket;
};

static void (*front_metrics)(void *ctx, struct buf *out);
static void *front_metrics_ctx;

void gate_set_front_metrics(struct gate *gate, void (*write)(void *ctx, struct buf *out), void *ctx)
{
    (void)gate;
    front_metrics = write;
    front_metrics_ctx = ctx;
}

static struct socket *open_socket(const struct fixture *fixture)
{
    struct socket *socket = socket_open(http_port(fixture->http), NULL);

    assert_int_equal(socket_status(socket), 101);
    json_decref(socket_event(socket, "hello", SOCKET_TIMEOUT_MS));
    return socket;
}

static int setup(void **state)
{
    struct fixture *fixture = mem_zalloc(1, sizeof(*fixture));

    fixture->gate = kit_gate_new();
    fixture->gate->limits.requests_max = 1000;
    fixture->gate->limits.web_sockets_max = 10;
    fixture->gate->limits.socket_in_flight_max = 100;
    fixture->gate->limits.message_bytes_max = 64 << 10;
    assert_int_equal(ws_start(fixture->gate, http_seat_give, &fixture->ws), ERR_OK);

    const struct http_upgrade upgrade = {.take = ws_adopt, .ctx = fixture->ws};

    assert_int_equal(http_start(fixture->gate, &upgrade, &fixture->http), ERR_OK);
    fixture->socket = open_socket(fixture);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    atomic_store(&fixture->gate->held, false);
    socket_close(fixture->socket);
    ws_drain(fixture->ws);
    http_drain(fixture->http);
    ws_stop(fixture->ws);
    http_stop(fixture->http);
    kit_gate_free(fixture->gate);
    mem_free(fixture);
    return 0;
}

/* The counter of that name, as /metrics would show it. */
static uint64_t counter(const char *name)
{
    struct buf out;
    uint64_t value = 0;

    buf_init(&out, 1 << 16);
    front_metrics(front_metrics_ctx, &out);

    const char *at = strstr(buf_cstr(&out), name);

    assert_non_null(at);
    assert_int_equal(sscanf(at + strlen(name), "%lu", &value), 1);
    buf_release(&out);
    return value;
}

static void wait_until(bool (*holds)(const struct fixture *fixture), const struct fixture *fixture)
{
    uint64_t end_ms = os_now_ms() + KIT_DEADLINE_MS;

    while (!holds(fixture)) {
        assert_true(os_now_ms() < end_ms);
        (void)poll(NULL, 0, 1);
    }
}

/* The code of the error in the reply to a request; "" when it was ok. */
static void check_reply(struct fixture *fixture, uint64_t id, const char *code)
{
    json_t *reply = socket_reply(fixture->socket, id, SOCKET_TIMEOUT_MS);
    const json_t *error = json_object_get(reply, "error");
    const char *got = json_string_value(json_object_get(error, "code"));

    assert_non_null(reply);
    assert_string_equal(got ? got : "", code);
    json_decref(reply);
}

static uint64_t ask_set(struct fixture *fixture, int version)
{
    return socket_request(fixture->socket,
                          "\"op\":\"set\",\"path\":\"/\",\"dataUtf8\":\"x\",\"version\":%d",
                          version);
}

static void test_a_plain_request_is_told_to_upgrade(void **state)
{
    struct fixture *fixture = *state;
    struct kit_answer answer = kit_ask(http_port(fixture->http), "GET", "/ws/v1", "", NULL);

    assert_int_equal(answer.status, 426);
    kit_free(&answer);
}

/* ---- The gate holds and refuses ---- */

static bool all_inside(const struct fixture *fixture)
{
    return atomic_load(&fixture->gate->inside) == 3;
}

/* Writes wait inside, one behind the other; what comes behind them waits with them. */
static void test_replies_wait_for_those_before_them(void **state)
{
    struct fixture *fixture = *state;
    uint64_t ids[5];

    atomic_store(&fixture->gate->held, true);
    for (int i = 0; i < 3; i++) {
        ids[i] = ask_set(fixture, i);
    }
    ids[3] = socket_request(fixture->socket, "\"op\":\"get\",\"path\":\"/\"");
    ids[4] = ask_set(fixture, 3);
    (void)socket_pump(fixture->socket);
    wait_until(all_inside, fixture); /* Not the one behind the read. */
    assert_null(socket_reply(fixture->socket, ids[4], 50));
    assert_int_equal(atomic_load(&fixture->gate->inside), 3);
    atomic_store(&fixture->gate->held, false);
    for (int i = 0; i < 5; i++) {
        json_t *reply = socket_next(fixture->socket, SOCKET_TIMEOUT_MS);

        assert_int_equal(json_integer_value(json_object_get(reply, "id")), ids[i]);
        assert_true(json_is_true(json_object_get(reply, "ok")));
        json_decref(reply);
    }
}

static void test_a_gate_without_room_is_asked_again(void **state)
{
    struct fixture *fixture = *state;
    uint64_t ids[20];

    atomic_store(&fixture->gate->submit_err, ERR_THROTTLED);
    for (int i = 0; i < 20; i++) {
        ids[i] = ask_set(fixture, i);
    }
    assert_null(socket_reply(fixture->socket, ids[0], 50));
    atomic_store(&fixture->gate->submit_err, ERR_OK);
    for (int i = 0; i < 20; i++) {
        check_reply(fixture, ids[i], "");
    }
}

static void test_a_gate_that_is_closed_is_an_error(void **state)
{
    struct fixture *fixture = *state;

    atomic_store(&fixture->gate->submit_err, ERR_CLOSED);
    check_reply(fixture, ask_set(fixture, 0), "NotReady");
    check_reply(fixture,
                socket_request(fixture->socket,
                               "\"op\":\"get\",\"path\":\"/\",\"consistency\":\"linearizable\""),
                "NotReady");
    check_reply(fixture, socket_request(fixture->socket, "\"op\":\"get\",\"path\":\"/\""), "");
}

static void test_what_the_core_says_is_passed_on(void **state)
{
    struct fixture *fixture = *state;

    atomic_store(&fixture->gate->reply_err, ERR_OUTCOME_UNKNOWN);
    check_reply(fixture, ask_set(fixture, 0), "OperationTimeout");
    atomic_store(&fixture->gate->reply_err, ERR_REPLICA_BEHIND);
    check_reply(fixture,
                socket_request(fixture->socket,
                               "\"op\":\"get\",\"path\":\"/\",\"min_zxid\":\"0x1ff000000\""),
                "ReplicaBehind");
    check_reply(fixture,
                socket_request(fixture->socket, "\"op\":\"watch\",\"path\":\"/\",\"kind\":\"data\","
                                                "\"since\":\"0x1ff000000\""),
                "ReplicaBehind");
}

/* ---- The client goes ---- */

static bool two_inside(const struct fixture *fixture)
{
    return atomic_load(&fixture->gate->inside) == 2;
}

static bool none_open(const struct fixture *fixture)
{
    (void)fixture;
    return counter("\nzabra_ws_sockets ") == 0;
}

static bool none_inside(const struct fixture *fixture)
{
    return atomic_load(&fixture->gate->inside) == 0;
}

static void test_requests_outlive_their_socket(void **state)
{
    struct fixture *fixture = *state;

    atomic_store(&fixture->gate->held, true);
    (void)ask_set(fixture, 0);
    (void)ask_set(fixture, 1);
    (void)socket_request(fixture->socket, "\"op\":\"get\",\"path\":\"/\"");
    (void)ask_set(fixture, 1);
    (void)socket_pump(fixture->socket);
    wait_until(two_inside, fixture);
    socket_close(fixture->socket);
    fixture->socket = NULL;
    wait_until(none_open, fixture);
    atomic_store(&fixture->gate->held, false);
    wait_until(none_inside, fixture);
}

/* ---- The state goes back ---- */

/* Another state takes the place of this one, as after a snapshot. */
static void put_state(struct gate *gate, zxid_t zxid)
{
    struct state *state = state_new(KIT_HISTORY);

    state_skip(state, zxid);
    view_replace(gate->view, state);
    (void)view_write(gate->view);
    window_restart(gate->window, zxid);
    view_write_done(gate->view);
    view_set_whole(gate->view, true);
    window_wake(gate->window);
}

static void test_no_reply_shows_less_than_the_one_before(void **state)
{
    struct fixture *fixture = *state;
    zxid_t zxid = fixture->gate->zxid;

    check_reply(fixture, ask_set(fixture, 0), "");
    put_state(fixture->gate, zxid);
    check_reply(fixture, socket_request(fixture->socket, "\"op\":\"get\",\"path\":\"/\""),
                "ReplicaBehind");
    socket_close(fixture->socket);
    fixture->socket = open_socket(fixture); /* Another client has seen nothing yet. */
    check_reply(fixture, socket_request(fixture->socket, "\"op\":\"get\",\"path\":\"/\""), "");
}

/* A subscriber that has lost its place says so, and its watches go on from there. */
static void test_watches_survive_a_state_that_is_replaced(void **state)
{
    struct fixture *fixture = *state;
    zxid_t zxid = fixture->gate->zxid + 10;
    json_t *event = NULL;

    check_reply(fixture,
                socket_request(fixture->socket,
                               "\"op\":\"watch\",\"path\":\"/gone\",\"kind\":\"persistent\""),
                "");
    check_reply(fixture, socket_request(fixture->socket, "\"op\":\"create\",\"path\":\"/gone\""),
                "");
    json_decref(socket_event(fixture->socket, "NodeCreated", SOCKET_TIMEOUT_MS));
    put_state(fixture->gate, zxid);
    fixture->gate->zxid = zxid;
    event = socket_event(fixture->socket, "overrun", SOCKET_TIMEOUT_MS);
    assert_non_null(event);
    assert_int_equal(json_array_size(json_object_get(event, "watches")), 1);
    json_decref(event);
    check_reply(fixture, socket_request(fixture->socket, "\"op\":\"create\",\"path\":\"/gone\""),
                "");
    event = socket_event(fixture->socket, "NodeCreated", SOCKET_TIMEOUT_MS);
    assert_non_null(event);
    json_decref(event);
}

/* ---- The replica may not answer ---- */

static void test_who_may_not_answer_sends_its_clients_elsewhere(void **state)
{
    struct fixture *fixture = *state;
    json_t *event = NULL;

    atomic_store(&fixture->gate->local_err, ERR_NOT_READY);
    check_reply(fixture, socket_request(fixture->socket, "\"op\":\"get\",\"path\":\"/\""),
                "NotReady");
    event = socket_event(fixture->socket, "closing", SOCKET_TIMEOUT_MS);
    assert_non_null(event);
    assert_string_equal(json_string_value(json_object_get(event, "reason")), "stale");
    assert_int_equal(json_array_size(json_object_get(event, "servers")), 1);
    json_decref(event);
    assert_true(socket_wait_end(fixture->socket, SOCKET_TIMEOUT_MS));
    assert_int_equal(socket_close_code(fixture->socket), 4503);
    wait_until(none_open, fixture);
    assert_int_equal(counter("zabra_ws_closed_total{code=\"4503\"} "), 1);
}

static void test_a_goodbye_is_answered(void **state)
{
    struct fixture *fixture = *state;

    socket_say_close(fixture->socket, 1000);
    assert_true(socket_wait_end(fixture->socket, SOCKET_TIMEOUT_MS));
    assert_int_equal(socket_close_code(fixture->socket), 1000);
    wait_until(none_open, fixture);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_plain_request_is_told_to_upgrade),
        TEST(test_replies_wait_for_those_before_them),
        TEST(test_a_gate_without_room_is_asked_again),
        TEST(test_a_gate_that_is_closed_is_an_error),
        TEST(test_what_the_core_says_is_passed_on),
        TEST(test_requests_outlive_their_socket),
        TEST(test_no_reply_shows_less_than_the_one_before),
        TEST(test_watches_survive_a_state_that_is_replaced),
        TEST(test_who_may_not_answer_sends_its_clients_elsewhere),
        TEST(test_a_goodbye_is_answered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
