/* Over a WebSocket: slow messages are noted, with the trace id that the message has. */
#include "tests/unit/ws_kit.h"

#define TRACE_ID "0af7651916cd43dd8448eb211c80319c"

enum {
    SLOW_MS = 300,
    IN_FLIGHT = 20,
    CALM_MS = 10000
};

static void setup(struct fixture *fixture)
{
    setup_with(fixture, IN_FLIGHT, CALM_MS);
    fixture->gate->limits.slow_request_ms = SLOW_MS;
}

static void pump(void *socket)
{
    (void)socket_pump(socket);
}

/* Sends a message whose request the gate holds for SLOW_MS; returns whether it succeeded. */
static bool ask_held(const struct fixture *fixture, const char *members, uint64_t *ret_id)
{
    json_t *reply = NULL;
    bool ok = false;

    atomic_store(&fixture->gate->held, true);
    *ret_id = socket_request(fixture->socket, "%s", members);
    kit_hold_for(fixture->gate, SLOW_MS, pump, fixture->socket);
    reply = socket_reply(fixture->socket, *ret_id, SOCKET_TIMEOUT_MS);
    ok = json_is_true(json_object_get(reply, "ok"));
    json_decref(reply);
    return ok;
}

static void expect(const struct fixture *fixture, enum err err, uint64_t id, const char *trace)
{
    char number[32];

    kit_wait_slow(fixture->gate);
    (void)snprintf(number, sizeof(number), "%llu", (unsigned long long)id);
    MUTEX_HOLD(&fixture->gate->front_mutex);
    assert_int_equal(atomic_load(&fixture->gate->slow_count), 1);
    assert_int_equal(fixture->gate->slow.def->id, OP_CREATE);
    assert_true(fixture->gate->slow.is_write);
    assert_int_equal(fixture->gate->slow.err, err);
    assert_true(fixture->gate->slow.served_ms - fixture->gate->slow.begin_ms >= SLOW_MS);
    assert_string_equal(fixture->gate->slow_path, "/a");
    assert_string_equal(fixture->gate->slow_trace, trace);
    assert_string_equal(fixture->gate->slow_request, number);
}

TEST(a_slow_message_is_noted, fixture, setup, teardown)
{
    uint64_t id = 0;

    assert_true(ask_held(fixture,
                         "\"op\":\"create\",\"path\":\"/a\",\"traceparent\":\"00-" TRACE_ID
                         "-b7ad6b7169203331-01\"",
                         &id));
    expect(fixture, ERR_OK, id, TRACE_ID);
}

TEST(a_malformed_traceparent_is_ignored, fixture, setup, teardown)
{
    json_t *reply = socket_call(fixture->socket, "\"op\":\"create\",\"path\":\"/a\"");
    uint64_t id = 0;

    assert_true(json_is_true(json_object_get(reply, "ok")));
    json_decref(reply);
    assert_false(ask_held(fixture, "\"op\":\"create\",\"path\":\"/a\",\"traceparent\":7", &id));
    expect(fixture, ERR_NODE_EXISTS, id, "");
}

TEST(quick_messages_are_not_noted, fixture, setup, teardown)
{
    json_t *reply = socket_call(fixture->socket, "\"op\":\"create\",\"path\":\"/a\"");

    json_decref(reply);
    reply = socket_call(fixture->socket, "\"op\":\"get\",\"path\":\"/a\"");
    json_decref(reply);
    assert_int_equal(atomic_load(&fixture->gate->slow_count), 0);
}
