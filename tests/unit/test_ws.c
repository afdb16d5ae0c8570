/* Sockets before a gate that holds, refuses, loses state and goes back: what real replicas do only
 * by chance. */
#include "server/watch/subscribe_int.h"
#include "tests/unit/ws_kit.h"

enum {
    NO_ROOM = 1013,
    ENDED = 4408,
    MOVED = 4409,
    TEXT_MAX = 2000, /* Of an event. */
    UNREADABLE_MS = 200
};

static void setup(struct fixture *fixture)
{
    setup_with(fixture, 100, 1000);
}

TEST(a_plain_request_gets_426, fixture, setup, teardown)
{
    struct kit_answer answer = kit_ask(kit_port(fixture->http), "GET", "/ws/v1", "", NULL);

    assert_int_equal(answer.status, 426);
    kit_free(&answer);
}

/* ---- The gate holds and refuses ---- */

static bool all_inside(const struct fixture *fixture)
{
    return atomic_load(&fixture->gate->inside) == 3;
}

/* Writes wait inside one after another; later requests of the socket wait with them. */
TEST(replies_wait_for_those_before_them, fixture, setup, teardown)
{
    uint64_t ids[5];

    atomic_store(&fixture->gate->held, true);
    for (int i = 0; i < 3; i++) {
        ids[i] = ask_set(fixture, i);
    }
    ids[3] = socket_request(fixture->socket, "\"op\":\"get\",\"path\":\"/\"");
    ids[4] = ask_set(fixture, 3);
    (void)socket_pump(fixture->socket);
    wait_until(all_inside, fixture); /* Not the request after the read. */
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

TEST(a_gate_without_room_is_tried_again, fixture, setup, teardown)
{
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

TEST(a_gate_that_is_closed_is_an_error, fixture, setup, teardown)
{
    atomic_store(&fixture->gate->submit_err, ERR_CLOSED);
    check_reply(fixture, ask_set(fixture, 0), "NotReady");
    check_reply(fixture,
                socket_request(fixture->socket,
                               "\"op\":\"get\",\"path\":\"/\",\"consistency\":\"linearizable\""),
                "NotReady");
    check_reply(fixture, socket_request(fixture->socket, "\"op\":\"get\",\"path\":\"/\""), "");
}

TEST(errors_of_the_core_reach_the_client, fixture, setup, teardown)
{
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

/* ---- The client disconnects ---- */

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

TEST(requests_outlive_their_socket, fixture, setup, teardown)
{
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

/* ---- Sessions ---- */

/* Requests that arrive together are checked when their turn comes. */
TEST(a_key_belongs_to_the_session_requested_before_it, fixture, setup, teardown)
{
    uint64_t ids[4];

    ids[0] = socket_request(fixture->socket, "\"op\":\"session\"");
    ids[1] = socket_request(fixture->socket, "\"op\":\"create\",\"path\":\"/a\",\"key\":\"1\"");
    ids[2] = socket_request(fixture->socket, "\"op\":\"detach\"");
    ids[3] = socket_request(fixture->socket, "\"op\":\"create\",\"path\":\"/b\",\"key\":\"2\"");
    for (int i = 0; i < 3; i++) {
        check_reply(fixture, ids[i], "");
    }
    check_reply(fixture, ids[3], "BadArguments");
}

static uint64_t ask_attach(struct socket *socket, const struct session *session)
{
    uint64_t id = socket_request(socket, "\"op\":\"attach\",\"session\":\"%s\"", session->secret);

    (void)socket_pump(socket);
    return id;
}

/* Even if the earlier socket learns of its own attachment later. */
TEST(the_last_socket_to_attach_keeps_the_session, fixture, setup, teardown)
{
    struct socket *first = open_socket(fixture);
    struct socket *last = open_socket(fixture);
    struct session session;
    uint64_t id = 0;

    open_session(fixture, &session);
    json_decref(socket_call(fixture->socket, "\"op\":\"detach\""));
    atomic_store(&fixture->gate->held, true);
    (void)ask_attach(first, &session);
    wait_until(one_inside, fixture);
    id = ask_attach(last, &session);
    wait_until(two_inside, fixture);
    atomic_store(&fixture->gate->reversed, true);
    atomic_store(&fixture->gate->held, false);
    assert_true(socket_wait_end(first, SOCKET_TIMEOUT_MS));
    assert_int_equal(socket_close_code(first), MOVED);
    json_decref(socket_reply(last, id, SOCKET_TIMEOUT_MS));

    json_t *reply = socket_call(last, "\"op\":\"getsession\"");

    assert_true(json_is_true(json_object_get(reply, "ok")));
    json_decref(reply);
    socket_close(first);
    socket_close(last);
}

/* Whatever happened to the session that it had before. */
TEST(losing_a_session_while_attaching_another_keeps_the_new_one, fixture, setup, teardown)
{
    struct socket *thief = open_socket(fixture);
    struct session lost;
    struct session kept;
    json_t *reply = NULL;
    uint64_t id = 0;

    open_session(fixture, &kept);
    json_decref(socket_call(fixture->socket, "\"op\":\"detach\""));
    open_session(fixture, &lost);
    atomic_store(&fixture->gate->held, true);
    id = ask_attach(fixture->socket, &kept);
    wait_until(one_inside, fixture);
    (void)ask_attach(thief, &lost);
    wait_until(two_inside, fixture);
    atomic_store(&fixture->gate->reversed, true);
    atomic_store(&fixture->gate->held, false);
    reply = socket_reply(fixture->socket, id, SOCKET_TIMEOUT_MS);
    assert_true(json_is_true(json_object_get(reply, "ok")));
    json_decref(reply);
    socket_close(thief);
}

/* ---- The state goes back ---- */

TEST(no_reply_shows_an_older_state_than_the_one_before, fixture, setup, teardown)
{
    zxid_t zxid = fixture->gate->zxid;

    check_reply(fixture, ask_set(fixture, 0), "");
    kit_put_state(fixture->gate, zxid);
    check_reply(fixture, socket_request(fixture->socket, "\"op\":\"get\",\"path\":\"/\""),
                "ReplicaBehind");
    socket_close(fixture->socket);
    fixture->socket = open_socket(fixture); /* Another client has not seen anything yet. */
    check_reply(fixture, socket_request(fixture->socket, "\"op\":\"get\",\"path\":\"/\""), "");
}

/* A subscriber that has lost its place reports it, and its watches continue from there. */
TEST(watches_survive_a_state_that_is_replaced, fixture, setup, teardown)
{
    zxid_t zxid = fixture->gate->zxid + 10;
    json_t *event = NULL;

    check_reply(fixture,
                socket_request(fixture->socket,
                               "\"op\":\"watch\",\"path\":\"/gone\",\"kind\":\"persistent\""),
                "");
    check_reply(fixture, socket_request(fixture->socket, "\"op\":\"create\",\"path\":\"/gone\""),
                "");
    json_decref(socket_event(fixture->socket, "NodeCreated", SOCKET_TIMEOUT_MS));
    kit_put_state(fixture->gate, zxid);
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

/* Between two slices of a difference, on the thread of the sockets: the next watch in line reads a
 * later state than the one that the subscriber has reached. */
static void replace_once(void *ctx)
{
    struct ws *ws = ctx;

    ws->subscriber->between = NULL;
    kit_replace(ws->gate);
}

static void watch_root(struct socket *socket, const char *kind)
{
    json_t *reply = socket_call(socket, "\"op\":\"watch\",\"path\":\"/\",\"kind\":\"%s\"", kind);

    assert_true(json_is_true(json_object_get(reply, "ok")));
    json_decref(reply);
}

static void check_overrun(struct socket *socket, zxid_t zxid)
{
    json_t *event = socket_event(socket, "overrun", SOCKET_TIMEOUT_MS);
    const char *from = json_string_value(json_object_get(event, "from"));

    assert_non_null(from);
    assert_int_equal(strtoull(from, NULL, 16), zxid);
    json_decref(event);
}

/* By then a watch may be ahead of the subscriber: it misses nothing after its own place. */
TEST(an_overrun_names_the_position_of_its_watch, fixture, setup, teardown)
{
    struct socket *other = open_socket(fixture);
    struct subscriber *subscriber = fixture->ws->subscriber;
    zxid_t zxid = fixture->gate->zxid;

    watch_root(fixture->socket, "recursive");
    watch_root(other, "persistent");
    subscriber->slice_nodes = 1;
    subscriber->between = replace_once;
    kit_replace(fixture->gate);
    check_overrun(fixture->socket, zxid);
    check_overrun(other, zxid);
    check_overrun(fixture->socket, zxid + 1);
    check_overrun(other, zxid + 2); /* The difference covered the whole second state. */
    socket_close(other);
}

/* As with a stream: the end of the session was among the missed changes. */
TEST(a_missing_session_has_expired, fixture, setup, teardown)
{
    struct session session;
    json_t *event = NULL;

    open_session(fixture, &session);
    kit_put_state(fixture->gate, fixture->gate->zxid + 10);
    event = socket_event(fixture->socket, "session", SOCKET_TIMEOUT_MS);
    assert_non_null(event);
    assert_string_equal(json_string_value(json_object_get(event, "state")), "expired");
    json_decref(event);
    assert_true(socket_wait_end(fixture->socket, SOCKET_TIMEOUT_MS));
    assert_int_equal(socket_close_code(fixture->socket), ENDED);
}

/* No request may read the state yet when the changes are lost. */
TEST(a_session_is_looked_up_once_the_state_can_be_read, fixture, setup, teardown)
{
    struct session session;
    json_t *event = NULL;

    open_session(fixture, &session);
    kit_load_state(fixture->gate, fixture->gate->zxid + 10);
    event = socket_event(fixture->socket, "session", UNREADABLE_MS);
    assert_null(event);
    view_set_whole(fixture->gate->view, true);
    event = socket_event(fixture->socket, "session", SOCKET_TIMEOUT_MS);
    assert_non_null(event);
    assert_string_equal(json_string_value(json_object_get(event, "state")), "expired");
    json_decref(event);
    assert_true(socket_wait_end(fixture->socket, SOCKET_TIMEOUT_MS));
}

/* ---- Events ---- */

static void watch_values(struct socket *socket, const char *kind, const char *format)
{
    json_t *reply = socket_call(
        socket, "\"op\":\"watch\",\"path\":\"/\",\"kind\":\"%s\",\"values\":true%s", kind, format);

    assert_true(json_is_true(json_object_get(reply, "ok")));
    json_decref(reply);
}

static void check_event(struct socket *socket, const char *data)
{
    static const char *const names[] = {"dataUtf8", "data64", "dataJson"};
    json_t *event = socket_event(socket, "NodeDataChanged", SOCKET_TIMEOUT_MS);
    char text[TEXT_MAX];
    size_t len = json_dumpb(event, text, sizeof(text) - 1, JSON_COMPACT);

    assert_in_range(len, 1, sizeof(text) - 1);
    text[len] = '\0';
    assert_non_null(event);
    assert_non_null(json_object_get(event, "stat"));
    assert_non_null(strstr(text, data));
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        bool asked = strstr(data, names[i]) != NULL;

        assert_int_equal(json_object_get(event, names[i]) != NULL, asked);
    }
    json_decref(event);
}

/* Clients that receive the same change in different formats do not get each other's. */
TEST(values_come_in_the_requested_format, fixture, setup, teardown)
{
    static const struct {
        const char *format;
        const char *data;
    } rows[] = {
        {"", "\"dataUtf8\":\"[1]\""},
        {",\"dataformat\":\"base64\"", "\"data64\":\"WzFd\""},
        {",\"dataformat\":\"json\"", "\"dataJson\":[1]"},
        {",\"dataformat\":\"utf8\"", "\"dataUtf8\":\"[1]\""},
        {",\"dataformat\":\"none\"", ""},
    };
    struct socket *sockets[sizeof(rows) / sizeof(rows[0])];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        sockets[i] = open_socket(fixture);
        watch_values(sockets[i], "persistent", rows[i].format);
    }
    check_reply(
        fixture,
        socket_request(fixture->socket, "\"op\":\"set\",\"path\":\"/\",\"dataUtf8\":\"[1]\""), "");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_event(sockets[i], rows[i].data);
        socket_close(sockets[i]);
    }
}

/* One event for several watches: in the format of the oldest that wants any. */
TEST(watches_of_one_socket_agree_on_a_format, fixture, setup, teardown)
{
    watch_values(fixture->socket, "persistent", ",\"dataformat\":\"none\"");
    watch_values(fixture->socket, "recursive", ",\"dataformat\":\"json\"");
    watch_values(fixture->socket, "data", ",\"dataformat\":\"base64\"");
    check_reply(
        fixture,
        socket_request(fixture->socket, "\"op\":\"set\",\"path\":\"/\",\"dataUtf8\":\"[1]\""), "");
    check_event(fixture->socket, "\"dataJson\":[1]");
}

/* ---- Messages in pieces ---- */

enum {
    PIECE = 16 << 10,     /* That many bytes of a message have arrived, */
    PIECES_MAX = 40 << 10 /* and there is room for two such messages. */
};

static void setup_narrow(struct fixture *fixture)
{
    kit_choice.pieces_max = PIECES_MAX;
    setup(fixture);
}

static void setup_narrow_for_one_address(struct fixture *fixture)
{
    kit_choice.address_pieces_max = PIECES_MAX;
    setup(fixture);
}

static void teardown_narrow(struct fixture *fixture)
{
    kit_choice.pieces_max = 0;
    kit_choice.address_pieces_max = 0;
    teardown(fixture);
}

/* The first bytes of a message that is white space up to its end. */
static void begin_message(struct socket *socket)
{
    char piece[PIECE];

    memset(piece, ' ', sizeof(piece));
    socket_send_frame(socket, 0x01, piece, sizeof(piece), true);
}

static void end_message(struct socket *socket)
{
    static const char text[] = "{\"id\":1000,\"op\":\"ping\"}";
    json_t *reply = NULL;

    socket_send_frame(socket, 0x80, text, sizeof(text) - 1, true);
    reply = socket_reply(socket, 1000, SOCKET_TIMEOUT_MS);
    assert_true(json_is_true(json_object_get(reply, "ok")));
    json_decref(reply);
}

static void check_no_room(struct socket *socket)
{
    json_t *event = socket_event(socket, "closing", SOCKET_TIMEOUT_MS);

    assert_non_null(event);
    assert_string_equal(
        json_string_value(json_object_get(event, "reason")),
        "unfinished messages use all memory reserved for them or the share of one address; "
        "try again later");
    json_decref(event);
    assert_true(socket_wait_end(socket, SOCKET_TIMEOUT_MS));
    assert_int_equal(socket_close_code(socket), NO_ROOM);
}

static bool one_begun(const struct fixture *fixture)
{
    (void)fixture;
    return counter("\nzabra_ws_unfinished_bytes ") == PIECE;
}

static bool two_begun(const struct fixture *fixture)
{
    (void)fixture;
    return counter("\nzabra_ws_unfinished_bytes ") == (uint64_t)2 * PIECE;
}

/* The socket whose next piece does not fit is closed; those that have begun can finish, and others
 * can begin. */
TEST(unfinished_messages_have_a_bound, fixture, setup_narrow, teardown_narrow)
{
    struct socket *one = open_socket(fixture);
    struct socket *two = open_socket(fixture);
    struct socket *late = open_socket(fixture);

    begin_message(one);
    begin_message(two);
    wait_until(two_begun, fixture);
    begin_message(late);
    check_no_room(late);
    end_message(one);
    end_message(two);
    begin_message(one);
    begin_message(two);
    wait_until(two_begun, fixture);
    socket_close(one); /* Its unfinished message is released with it. */
    wait_until(one_begun, fixture);
    begin_message(fixture->socket);
    end_message(fixture->socket);
    end_message(two);
    assert_int_equal(counter("zabra_ws_closed_total{code=\"1013\"} "), 1);
    socket_close(two);
    socket_close(late);
}

/* Other addresses have room, which this one cannot use. */
TEST(one_address_gets_only_a_part_of_the_room_for_messages, fixture, setup_narrow_for_one_address,
     teardown_narrow)
{
    struct socket *one = open_socket(fixture);
    struct socket *late = open_socket(fixture);

    begin_message(one);
    begin_message(fixture->socket);
    wait_until(two_begun, fixture);
    begin_message(late);
    check_no_room(late);
    end_message(one);
    end_message(fixture->socket);
    socket_close(one);
    socket_close(late);
}

/* ---- The replica may not answer ---- */

TEST(a_replica_that_may_not_answer_redirects_its_clients, fixture, setup, teardown)
{
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

/* The missed changes of a watch are as old as a read would be: a replica that may not answer a read
 * must not claim that nothing was missed. */
TEST(a_replica_that_may_not_answer_resumes_no_watch, fixture, setup, teardown)
{
    atomic_store(&fixture->gate->local_err, ERR_NOT_READY);
    check_reply(fixture,
                socket_request(fixture->socket, "\"op\":\"watch\",\"path\":\"/\","
                                                "\"kind\":\"persistent\",\"since\":\"0x0\""),
                "NotReady");
    assert_int_equal(counter("\nzabra_ws_watches "), 0);
}

TEST(a_close_frame_is_answered, fixture, setup, teardown)
{
    socket_say_close(fixture->socket, 1000);
    assert_true(socket_wait_end(fixture->socket, SOCKET_TIMEOUT_MS));
    assert_int_equal(socket_close_code(fixture->socket), 1000);
    wait_until(none_open, fixture);
}
