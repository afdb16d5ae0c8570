/* Sockets of clients without an identity, before a gate that requires one. */
#include "tests/unit/ws_kit.h"

enum {
    POLICY = 1008,
    IDENTITY_MS = 300
};

static void setup_closed(struct fixture *fixture)
{
    kit_choice.require_identity = true;
    setup_with(fixture, 100, 1000);
}

static void setup_impatient(struct fixture *fixture)
{
    kit_choice.head_timeout_ms = IDENTITY_MS;
    setup_closed(fixture);
}

static void teardown_closed(struct fixture *fixture)
{
    kit_choice.require_identity = false;
    kit_choice.head_timeout_ms = 0;
    teardown(fixture);
}

static struct socket *open_anonymous(struct fixture *fixture)
{
    struct socket *socket = socket_open(kit_port(fixture->http), NULL);
    json_t *hello = NULL;

    assert_int_equal(socket_status(socket), 101);
    hello = socket_event(socket, "hello", SOCKET_TIMEOUT_MS);
    assert_true(json_is_true(json_object_get(hello, "identity_required")));
    json_decref(hello);
    return socket;
}

static void check_closed(struct socket *socket)
{
    json_t *event = socket_event(socket, "closing", SOCKET_TIMEOUT_MS);

    assert_non_null(event);
    assert_string_equal(json_string_value(json_object_get(event, "reason")),
                        "the client has no identity");
    json_decref(event);
    assert_true(socket_wait_end(socket, SOCKET_TIMEOUT_MS));
    assert_int_equal(socket_close_code(socket), POLICY);
    socket_close(socket);
}

/* Checks that the message is refused as the first one of a socket, and ends the socket. */
static void check_first(struct fixture *fixture, const char *members)
{
    struct socket *socket = open_anonymous(fixture);
    uint64_t id = socket_request(socket, "%s", members);
    json_t *reply = socket_reply(socket, id, SOCKET_TIMEOUT_MS);
    const json_t *error = json_object_get(reply, "error");

    if (json_integer_value(json_object_get(error, "status")) != 401) {
        fail_msg("%s: %s", members, json_dumps(reply, 0));
    }
    assert_string_equal(json_string_value(json_object_get(error, "code")), "NoAuth");
    assert_non_null(strstr(json_string_value(json_object_get(error, "detail")), "send auth first"));
    json_decref(reply);
    check_closed(socket);
}

TEST(a_socket_begins_with_auth, fixture, setup_closed, teardown_closed)
{
    static const char *const others[] = {
        "\"op\":\"ping\"",
        "\"op\":\"get\",\"path\":\"/\"",
        "\"op\":\"get\",\"path\":\"/\",\"consistency\":\"linearizable\"",
        "\"op\":\"create\",\"path\":\"/x\"",
        "\"op\":\"session\"",
        "\"op\":\"sync\"",
        "\"op\":\"status\"",
        "\"op\":\"watch\",\"path\":\"/\",\"kind\":\"persistent\"",
        "\"op\":\"nothing\"",
        "\"op\":\"auth\",\"scheme\":\"digest\",\"credential\":\"b:p\",\"key\":\"k\"",
    };

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        check_first(fixture, others[i]);
    }
    assert_int_equal(atomic_load(&fixture->gate->rounds), 0); /* No quorum was asked for them. */
}

static const char auth[] = "\"op\":\"auth\",\"scheme\":\"digest\",\"credential\":\"bob:pw\"";

/* The refusal does not repeat what a client without an identity has sent. */
TEST(a_refusal_has_no_path_that_is_too_long, fixture, setup_closed, teardown_closed)
{
    enum {
        LONG = STATE_PATH_MAX + 1
    };

    struct socket *socket = open_anonymous(fixture);
    char *path = mem_alloc(LONG + 1);
    json_t *reply = NULL;

    memset(path, 'a', LONG);
    path[LONG] = '\0';
    reply = socket_reply(socket, socket_request(socket, "\"op\":\"get\",\"path\":\"/%s\"", path),
                         SOCKET_TIMEOUT_MS);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(reply, "error"), "status")),
                     401);
    assert_null(json_object_get(json_object_get(reply, "error"), "path"));
    json_decref(reply);
    mem_free(path);
    check_closed(socket);
}

/* Messages behind `auth` need not wait for its reply. */
TEST(messages_may_follow_auth_at_once, fixture, setup_closed, teardown_closed)
{
    struct socket *socket = open_anonymous(fixture);

    uint64_t ids[] = {
        socket_request(socket, "%s", auth),
        socket_request(socket, "\"op\":\"create\",\"path\":\"/x\""),
        socket_request(socket, "\"op\":\"get\",\"path\":\"/x\",\"consistency\":\"linearizable\""),
        socket_request(socket, "\"op\":\"ping\""),
    };

    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        json_t *reply = socket_reply(socket, ids[i], SOCKET_TIMEOUT_MS);

        assert_true(json_is_true(json_object_get(reply, "ok")));
        json_decref(reply);
    }
    socket_close(socket);
}

TEST(a_failed_auth_leaves_the_socket_anonymous, fixture, setup_closed, teardown_closed)
{
    struct socket *socket = open_anonymous(fixture);
    json_t *reply = NULL;

    reply = socket_call(socket, "\"op\":\"auth\",\"scheme\":\"digest\",\"credential\":\"bob\"");
    assert_string_equal(json_string_value(json_object_get(json_object_get(reply, "error"), "code")),
                        "AuthFailed");
    json_decref(reply);
    reply = socket_call(socket, "%s", auth);
    assert_true(json_is_true(json_object_get(reply, "ok")));
    json_decref(reply);
    socket_close(socket);
    socket = open_anonymous(fixture);
    (void)socket_request(socket, "\"op\":\"auth\",\"scheme\":\"digest\",\"credential\":\"bob\"");
    (void)socket_request(socket, "\"op\":\"create\",\"path\":\"/never\"");
    check_closed(socket);
    json_decref(socket_call(fixture->socket, "%s", auth));
    reply = socket_call(fixture->socket, "\"op\":\"exists\",\"path\":\"/never\"");
    assert_true(json_is_false(json_object_get(reply, "exists")));
    json_decref(reply);
}

TEST(a_silent_socket_without_an_identity_is_closed, fixture, setup_impatient, teardown_closed)
{
    struct socket *socket = open_anonymous(fixture);

    check_closed(socket);
}

TEST(credentials_of_the_handshake_are_an_identity, fixture, setup_impatient, teardown_closed)
{
    struct socket *socket = NULL;
    json_t *hello = NULL;
    json_t *reply = NULL;

    socket = socket_open(kit_port(fixture->http),
                         &(struct socket_options){.headers = "Authorization: Basic Ym9iOnB3\r\n"});
    hello = socket_event(socket, "hello", SOCKET_TIMEOUT_MS);
    assert_null(json_object_get(hello, "identity_required"));
    json_decref(hello);
    json_decref(socket_event(socket, "heartbeat", SOCKET_TIMEOUT_MS));
    json_decref(socket_event(socket, "heartbeat", SOCKET_TIMEOUT_MS)); /* Longer than that. */
    reply = socket_call(socket, "\"op\":\"ping\"");
    assert_true(json_is_true(json_object_get(reply, "ok")));
    json_decref(reply);
    socket_close(socket);
}
