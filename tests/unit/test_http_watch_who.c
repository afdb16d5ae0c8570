/* Streams and their clients: rights, and sessions that live and end. */
#include "tests/lib/stream_kit.h"
#include "tests/unit/http_front.h"

#include <poll.h>

#define BOB KIT_BOB

enum {
    BEATS = 5,
    UNREADABLE_MS = 200
};

static void setup(void)
{
    gate = kit_gate_new();
    gate->limits.heartbeat_ms = 100;
    front_start();
}

static void open_stream(struct kit_stream *stream, const char *target, const char *headers)
{
    kit_stream_open(stream, port, target, headers);
    assert_int_equal(stream->status, 200);
    assert_string_equal(kit_stream_event(stream), "watch fresh");
}

#define TOLD(stream, text) assert_string_equal(kit_stream_event(stream), text)

/* ---- Rights. ---- */

TEST(unreadable_changes_are_not_sent, setup, front_teardown)
{
    struct kit_stream anybody;
    struct kit_stream bob;

    open_stream(&anybody, "/watch/v1/?mode=recursive", "");
    open_stream(&bob, "/watch/v1/?mode=recursive", BOB);
    assert_int_equal(
        front_ask("POST", "/znodes/v1/?op=create&name=secret", BOB "Zk-Acl: creator\r\n", "x"),
        201);
    assert_int_equal(front_ask("PUT", "/znodes/v1/secret", BOB, "y"), 200);
    assert_int_equal(front_ask("POST", "/znodes/v1/?op=create&name=open", "", "x"), 201);
    TOLD(&anybody, "NodeCreated /open end");
    TOLD(&bob, "NodeCreated /secret end");
    TOLD(&bob, "NodeDataChanged /secret end");
    TOLD(&bob, "NodeCreated /open end");
    kit_stream_close(&anybody);
    kit_stream_close(&bob);
}

/* A resumption does not avoid the check. */
TEST(unreadable_changes_are_not_replayed, setup, front_teardown)
{
    struct kit_stream anybody;

    assert_int_equal(
        front_ask("POST", "/znodes/v1/?op=create&name=secret", BOB "Zk-Acl: creator\r\n", "x"),
        201);
    assert_int_equal(front_ask("POST", "/znodes/v1/?op=create&name=open", "", "x"), 201);
    kit_stream_open(&anybody, port, "/watch/v1/?mode=recursive&since=0x100000000", "");
    TOLD(&anybody, "watch replayed");
    TOLD(&anybody, "NodeCreated /open end");
    kit_stream_close(&anybody);
}

TEST(wrong_credentials_are_refused, setup, front_teardown)
{
    assert_int_equal(
        front_ask("GET", "/watch/v1/?mode=recursive", "Authorization: Basic x\r\n", NULL), 401);
}

/* ---- Sessions. ---- */

/* Opens a session; returns its header line. */
static void open_session(char header[128], const char *seconds)
{
    char target[64];
    struct kit_answer answer;
    const char *id = NULL;

    (void)snprintf(target, sizeof(target), "/sessions/v1/?op=create&expire=%s", seconds);
    answer = kit_ask(port, "POST", target, "", NULL);
    assert_int_equal(answer.status, 201);
    id = strstr((const char *)answer.body, "\"id\":\"");
    assert_non_null(id);
    (void)snprintf(header, 128, "Zk-Session: %.36s\r\n", id + strlen("\"id\":\""));
    kit_free(&answer);
}

/* The client takes all of it, heartbeats too. */
TEST(a_stream_keeps_no_session_alive_by_itself, setup, front_teardown)
{
    struct kit_stream stream;
    char header[128];

    open_session(header, "5");
    open_stream(&stream, "/watch/v1/a?mode=persistent", header);
    atomic_store(&gate->touched, 0);
    for (int i = 0; i < BEATS; i++) {
        assert_non_null(kit_stream_next(&stream));
        assert_string_equal(kit_stream_member(&stream, "event"), "heartbeat");
    }
    assert_int_equal(atomic_load(&gate->touched), 0);
    kit_stream_close(&stream);
}

TEST(a_stream_keeps_its_session_alive_when_asked, setup, front_teardown)
{
    struct kit_stream stream;
    char header[128];
    uint64_t end_ms = os_now_ms() + KIT_DEADLINE_MS;

    open_session(header, "5");
    open_stream(&stream, "/watch/v1/a?mode=persistent&keepSession=true", header);
    atomic_store(&gate->touched, 0);
    while (atomic_load(&gate->touched) == 0) {
        assert_non_null(kit_stream_next(&stream));
        assert_true(os_now_ms() < end_ms);
    }
    assert_int_equal(atomic_load(&gate->touched), 0x100000001);
    kit_stream_close(&stream);
}

TEST(the_end_of_a_session_ends_its_streams, setup, front_teardown)
{
    struct kit_stream stream;
    struct kit_stream other;
    char header[128];
    char target[128];

    open_session(header, "5");
    open_stream(&stream, "/watch/v1/a?mode=persistent", header);
    open_stream(&other, "/watch/v1/a?mode=persistent", "");
    (void)snprintf(target, sizeof(target), "/sessions/v1/%.36s", header + strlen("Zk-Session: "));
    assert_int_equal(front_ask("DELETE", target, "", NULL), 204);
    TOLD(&stream, "session closed");
    assert_string_equal(kit_stream_member(&stream, "session"), "0x100000001");
    assert_null(kit_stream_next(&stream));
    assert_true(stream.complete);
    assert_int_equal(front_ask("POST", "/znodes/v1/?op=create&name=a", "", "x"), 201);
    TOLD(&other, "NodeCreated /a end");
    kit_stream_close(&stream);
    kit_stream_close(&other);
}

/* The end of the session was among the missed changes. */
TEST(a_missing_session_has_expired, setup, front_teardown)
{
    struct kit_stream stream;
    char header[128];
    const char *event = NULL;

    open_session(header, "5");
    open_stream(&stream, "/watch/v1/a?mode=persistent", header);
    kit_put_state(gate, gate->zxid + 10);
    event = kit_stream_event(&stream);
    if (event && !strcmp(event, "overrun")) {
        event = kit_stream_event(
            &stream); /* Its queue was empty, so it looked at the missed changes. */
    }
    assert_string_equal(event, "session expired");
    assert_null(kit_stream_next(&stream));
    assert_true(stream.complete);
    kit_stream_close(&stream);
}

/* No request may read the state yet when the changes are lost. */
TEST(a_session_is_looked_up_once_the_state_can_be_read, setup, front_teardown)
{
    struct kit_stream stream;
    char header[128];
    const char *event = NULL;

    open_session(header, "5");
    open_stream(&stream, "/watch/v1/a?mode=persistent", header);
    kit_load_state(gate, gate->zxid + 10);
    (void)poll(NULL, 0, UNREADABLE_MS);
    view_set_whole(gate->view, true);
    event = kit_stream_event(&stream);
    if (event && !strcmp(event, "overrun")) {
        event = kit_stream_event(&stream);
    }
    assert_string_equal(event, "session expired");
    kit_stream_close(&stream);
}

TEST(an_unknown_session_is_refused, setup, front_teardown)
{
    assert_int_equal(front_ask("GET", "/watch/v1/?mode=recursive",
                               "Zk-Session: 123e4567-e89b-42d3-a456-426614174000\r\n", NULL),
                     401);
}
