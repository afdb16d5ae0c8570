/* Order: events come before the reply that shows their effect, also while this replica installs
 * another state; and other clients' messages come between watches that resume. */
#include "server/watch/subscribe_int.h"
#include "tests/unit/ws_kit.h"

enum {
    FEW = 20,
    CALM_MS = 10000,
    QUIET_MS = 100,  /* That long, no reply may come. */
    SHORT_MS = 200,  /* requestTimeout, where a test waits for it. */
    WATCHES = 30,    /* That resume at once, */
    WORK_MS = 6,     /* each longer than WS_WORK_US. */
    ANSWERED_BY = 5, /* At most that many of them may resume before another client is answered. */
    GIVE_UP_MS = 20000,
    KINDS = 2
};

static void setup(struct fixture *fixture)
{
    kit_choice.request_timeout_ms = 0;
    setup_with(fixture, 2 * WATCHES, CALM_MS);
}

static void setup_impatient(struct fixture *fixture)
{
    kit_choice.request_timeout_ms = SHORT_MS;
    setup_with(fixture, FEW, CALM_MS);
}

/* ---- Another state is being installed ---- */

static void watch_root(struct socket *socket)
{
    json_t *reply = socket_call(socket, "\"op\":\"watch\",\"path\":\"/\",\"kind\":\"persistent\"");

    assert_true(json_is_true(json_object_get(reply, "ok")));
    json_decref(reply);
}

static zxid_t zxid_of(const json_t *message)
{
    const char *text = json_string_value(json_object_get(message, "zxid"));

    assert_non_null(text);
    return strtoull(text, NULL, 16);
}

static zxid_t next_event(struct socket *socket, const char *name)
{
    json_t *event = socket_next(socket, SOCKET_TIMEOUT_MS);
    zxid_t zxid = 0;

    assert_non_null(event);
    assert_string_equal(json_string_value(json_object_get(event, "event")), name);
    zxid = strcmp(name, "overrun") == 0 ? 0 : zxid_of(event);
    json_decref(event);
    return zxid;
}

static zxid_t next_reply(struct socket *socket, uint64_t id)
{
    json_t *reply = socket_next(socket, SOCKET_TIMEOUT_MS);
    zxid_t zxid = 0;

    assert_int_equal(json_integer_value(json_object_get(reply, "id")), id);
    assert_true(json_is_true(json_object_get(reply, "ok")));
    zxid = zxid_of(reply);
    json_decref(reply);
    return zxid;
}

static bool none_inside(const struct fixture *fixture)
{
    return atomic_load(&fixture->gate->inside) == 0;
}

static void resume(struct fixture *fixture)
{
    wait_until(none_inside, fixture); /* The core is idle. */
    kit_resume(fixture->gate);
}

/* Its write is done and its event has not been sent: the reply waits, and so does a read that shows
 * the write, even one of another client. */
TEST(replies_wait_while_no_event_can_be_sent, fixture, setup, teardown)
{
    struct socket *other = open_socket(fixture);
    uint64_t ids[KINDS];
    uint64_t id = 0;
    zxid_t zxid = 0;

    watch_root(fixture->socket);
    watch_root(other);
    atomic_store(&fixture->gate->suspends, true);
    ids[0] = ask_set(fixture, 0);
    assert_null(socket_next(fixture->socket, QUIET_MS));
    ids[1] = socket_request(fixture->socket, "\"op\":\"get\",\"path\":\"/\"");
    id = socket_request(other, "\"op\":\"get\",\"path\":\"/\"");
    assert_null(socket_next(other, QUIET_MS));
    assert_null(socket_next(fixture->socket, QUIET_MS));
    resume(fixture);
    (void)next_event(fixture->socket, "overrun");
    zxid = next_event(fixture->socket, "NodeDataChanged");
    assert_int_equal(next_reply(fixture->socket, ids[0]), zxid);
    assert_int_equal(next_reply(fixture->socket, ids[1]), zxid);
    (void)next_event(other, "overrun");
    assert_int_equal(next_event(other, "NodeDataChanged"), zxid);
    assert_int_equal(next_reply(other, id), zxid);
    socket_close(other);
}

static void check_error(json_t *take_reply, const char *code, const char *outcome)
{
    const json_t *error = json_object_get(take_reply, "error");

    assert_string_equal(json_string_value(json_object_get(error, "code")), code);
    assert_string_equal(json_string_value(json_object_get(error, "outcome")), outcome);
    json_decref(take_reply);
}

/* A write may have been done in a state that is gone; the client may repeat a read elsewhere. */
TEST(replies_do_not_wait_for_ever, fixture, setup_impatient, teardown)
{
    struct socket *other = open_socket(fixture);
    json_t *reply = NULL;

    atomic_store(&fixture->gate->suspends, true);
    reply = socket_reply(fixture->socket, ask_set(fixture, 0), SOCKET_TIMEOUT_MS);
    check_error(reply, "OperationTimeout", "unknown");
    reply = socket_call(other, "\"op\":\"get\",\"path\":\"/\"");
    check_error(reply, "ReplicaBehind", "not-applied");
    resume(fixture);
    reply = socket_call(other, "\"op\":\"get\",\"path\":\"/\"");
    assert_true(json_is_true(json_object_get(reply, "ok")));
    json_decref(reply);
    socket_close(other);
}

/* A session that could not be announced to the client is not attached. */
TEST(a_session_whose_reply_cannot_be_sent_is_not_attached, fixture, setup_impatient, teardown)
{
    struct session session;

    open_session(fixture, &session);
    json_decref(socket_call(fixture->socket, "\"op\":\"detach\""));
    atomic_store(&fixture->gate->suspends, true);
    check_reply(
        fixture,
        socket_request(fixture->socket, "\"op\":\"attach\",\"session\":\"%s\"", session.secret),
        "OperationTimeout");
    resume(fixture);
    check_reply(fixture, socket_request(fixture->socket, "\"op\":\"close\""), "UnknownSession");
    check_reply(
        fixture,
        socket_request(fixture->socket, "\"op\":\"attach\",\"session\":\"%s\"", session.secret),
        "");
}

/* ---- Many watches resume ---- */

/* On the thread of the sockets, in the middle of each watch that resumes. */
static struct {
    _Atomic uint32_t resumed;
    _Atomic bool asked;    /* The other client's message has left it, */
    _Atomic bool answered; /* and its reply has come. */
    _Atomic bool late;
} between;

static void await_flag(_Atomic bool *flag)
{
    uint64_t end_ms = os_now_ms() + GIVE_UP_MS;

    while (!atomic_load(flag) && os_now_ms() < end_ms) {
        (void)poll(NULL, 0, 1);
    }
    if (!atomic_load(flag)) {
        atomic_store(&between.late, true);
    }
}

static void on_between(void *ctx)
{
    uint32_t resumed = atomic_fetch_add(&between.resumed, 1) + 1;

    (void)ctx;
    (void)poll(NULL, 0, WORK_MS);
    if (resumed == 1) {
        await_flag(&between.asked);
    } else if (resumed == ANSWERED_BY) {
        await_flag(&between.answered);
    }
}

static bool one_resumes(const struct fixture *fixture)
{
    (void)fixture;
    return atomic_load(&between.resumed) > 0;
}

/* Each on a path of its own, by a difference of two slices. */
static void ask_to_resume(struct fixture *fixture, zxid_t since, uint64_t ids[WATCHES])
{
    for (size_t i = 0; i < WATCHES; i++) {
        ids[i] = socket_request(fixture->socket,
                                "\"op\":\"watch\",\"path\":\"/%zu\",\"kind\":\"recursive\","
                                "\"since\":\"0x%llx\"",
                                i, (unsigned long long)since);
    }
    (void)socket_pump(fixture->socket);
}

static void create_pairs(struct fixture *fixture)
{
    for (int i = 0; i < WATCHES; i++) {
        check_reply(fixture,
                    socket_request(fixture->socket, "\"op\":\"create\",\"path\":\"/%d\"", i), "");
        check_reply(fixture,
                    socket_request(fixture->socket, "\"op\":\"create\",\"path\":\"/%d/c\"", i), "");
    }
}

static void check_resumed(struct fixture *fixture, const uint64_t ids[WATCHES])
{
    for (size_t i = 0; i < WATCHES; i++) {
        json_t *reply = socket_reply(fixture->socket, ids[i], SOCKET_TIMEOUT_MS);
        const char *resumed = json_string_value(json_object_get(reply, "resumed"));

        assert_non_null(resumed);
        assert_string_equal(resumed, "diffed");
        json_decref(reply);
    }
}

/* One watch after another resumes for longer than a slice: another client's message, which arrived
 * during the first, is answered before the last. */
TEST(other_clients_are_answered_between_resuming_watches, fixture, setup, teardown)
{
    struct socket *other = open_socket(fixture);
    uint64_t ids[WATCHES];
    zxid_t since = fixture->gate->zxid;
    uint64_t id = 0;
    json_t *reply = NULL;

    create_pairs(fixture);
    kit_replace(fixture->gate); /* The window does not reach back. */
    fixture->ws->subscriber->slice_nodes = 1;
    fixture->ws->subscriber->between = on_between;
    ask_to_resume(fixture, since, ids);
    wait_until(one_resumes, fixture);
    id = socket_request(other, "\"op\":\"ping\"");
    assert_true(socket_all_sent(other));
    atomic_store(&between.asked, true);
    reply = socket_reply(other, id, SOCKET_TIMEOUT_MS);
    atomic_store(&between.answered, true);
    assert_true(json_is_true(json_object_get(reply, "ok")));
    json_decref(reply);
    check_resumed(fixture, ids);
    assert_false(atomic_load(&between.late));
    assert_true(atomic_load(&between.resumed) >= WATCHES);
    socket_close(other);
}
