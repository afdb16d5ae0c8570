/* Time that a client is given: what the server does not read is not held against it, and who reads
 * slowly is not taken for one who does not read. */
#include "tests/unit/ws_kit.h"

enum {
    BEAT_MS = 500,
    DATA_LEN = 4000,
    RECEIVE_BYTES = 32 << 10,
    PIECE_BYTES = 16 << 10, /* That a slow client takes at a time, */
    PAUSE_MS = 20,          /* and how long it does something else then. */
    READS = 1000,           /* Answers that it takes many heartbeats to read. */
    READS_BYTES = 2 << 20,  /* With that taken of them the server still does not read. */
    FEW_READS = 100,        /* Long ones, which are all asked at once. */
    LONG_LEN = 40000,
    CHILDREN = 900,          /* An answer that it takes longer than WS_KIT_SLOW_MS to read. */
    BEATS = 4,               /* More of them than a silent client may miss. */
    OFTEN_MS = 200,          /* Beats that are nearer than what a late look gives, */
    LATE_MS = 700,           /* and so long the server stands still: each look is late. */
    LATE_TURNS = 40,         /* Many times what a silent client has. */
    NOTICED_MS = 8 * BEAT_MS /* That a client is gone: with the next heartbeat, usually. */
};

/* One request at a time; clients have to say something often. */
static int setup_single(void **state)
{
    return setup_with(state, 1, BEAT_MS);
}

static int setup_busy(void **state)
{
    return setup_with(state, 100, BEAT_MS);
}

static int setup_often(void **state)
{
    return setup_with(state, 100, OFTEN_MS);
}

static int setup_calm(void **state)
{
    return setup_with(state, 100, 10000);
}

static int setup_many(void **state)
{
    return setup_with(state, 10000, BEAT_MS);
}

/* ---- The server does not read ---- */

static bool is_touched(const struct fixture *fixture)
{
    return atomic_load(&fixture->gate->touched) != 0;
}

static void take_beats(const struct fixture *fixture, int count)
{
    for (int i = 0; i < count; i++) {
        json_t *event = socket_event(fixture->socket, "heartbeat", SOCKET_TIMEOUT_MS);

        assert_non_null(event);
        json_decref(event);
    }
}

/* With as much in flight as may be the socket is not read: neither is its client silent then, nor
 * has its session been left. */
static void test_who_is_not_read_is_not_silent(void **state)
{
    struct fixture *fixture = *state;
    struct session session;
    uint64_t id = 0;

    open_session(fixture, &session);
    atomic_store(&fixture->gate->held, true);
    id = ask_set(fixture, 0);
    wait_until(one_inside, fixture);
    take_beats(fixture, 1); /* What was on its way has arrived. */
    atomic_store(&fixture->gate->touched, 0);
    take_beats(fixture, BEATS);
    assert_int_equal(atomic_load(&fixture->gate->touched), session.id);
    atomic_store(&fixture->gate->held, false);
    check_reply(fixture, id, "");
}

static bool all_have_come(const struct fixture *fixture)
{
    (void)fixture;
    return counter("\nzabra_ws_messages_total ") >= 4; /* The session was the first. */
}

/* A long message is a sign of life from its first piece, and has its time only while we read it. */
static void test_a_message_is_given_the_time_in_which_it_is_read(void **state)
{
    static const char text[] = "{\"id\":1000,\"op\":\"ping\"}";
    struct fixture *fixture = *state;
    struct session session;
    uint64_t ids[3];

    open_session(fixture, &session);
    atomic_store(&fixture->gate->held, true);
    ids[0] = ask_set(fixture, 0);
    ids[1] = socket_request(fixture->socket, "\"op\":\"get\",\"path\":\"/\"");
    ids[2] = ask_set(fixture, 1); /* Starts behind the read, and finds no room. */
    wait_until(all_have_come, fixture);
    atomic_store(&fixture->gate->touched, 0);
    socket_send_frame(fixture->socket, 0x01, text, 5, true);
    wait_until(is_touched, fixture);
    atomic_store(&fixture->gate->submit_err, ERR_THROTTLED);
    atomic_store(&fixture->gate->held, false);
    check_reply(fixture, ids[0], "");
    check_reply(fixture, ids[1], "");
    take_beats(fixture, BEATS); /* Longer than WS_KIT_BODY_MS. */
    atomic_store(&fixture->gate->submit_err, ERR_OK);
    check_reply(fixture, ids[2], "");
    socket_send_frame(fixture->socket, 0x80, text + 5, sizeof(text) - 1 - 5, true);
    check_reply(fixture, 1000, "");
}

static void pass(uint64_t ms)
{
    uint64_t end_ms = os_now_ms() + ms;

    while (os_now_ms() < end_ms) {
        (void)poll(NULL, 0, 1);
    }
}

static bool one_left(const struct fixture *fixture)
{
    (void)fixture;
    return counter("\nzabra_ws_sockets ") == 1;
}

/* What it had not read is reset with its connection, of which only a write of ours tells. */
static void test_who_is_gone_is_noticed_though_it_is_not_read(void **state)
{
    struct fixture *fixture = *state;
    struct socket *gone = open_socket(fixture);
    uint64_t start_ms = 0;

    atomic_store(&fixture->gate->held, true);
    (void)socket_request(gone, "\"op\":\"set\",\"path\":\"/\",\"dataUtf8\":\"x\"");
    wait_until(one_inside, fixture);
    pass((uint64_t)2 * BEAT_MS); /* A heartbeat has come by then. */
    socket_close(gone);
    start_ms = os_now_ms();
    wait_until(one_left, fixture);
    assert_in_range(os_now_ms() - start_ms, 0, NOTICED_MS);
    atomic_store(&fixture->gate->held, false);
}

/* ---- The server stands still ---- */

static bool one_begun(const struct fixture *fixture)
{
    (void)fixture;
    return counter("\nzabra_ws_unfinished_bytes ") > 0;
}

static json_t *need_reply(struct socket *socket, uint64_t id)
{
    json_t *reply = socket_reply(socket, id, SOCKET_TIMEOUT_MS);

    assert_non_null(reply);
    return reply;
}

/* The thread of the sockets waits for the view until it is given back. Returns the request that it
 * answers then. */
static uint64_t stop_server(const struct fixture *fixture)
{
    (void)view_write(fixture->gate->view);

    uint64_t id = socket_request(fixture->socket, "\"op\":\"get\",\"path\":\"/\"");

    (void)socket_pump(fixture->socket);
    return id;
}

/* What a client says while the thread of the sockets does not run is read before it is judged: it
 * was not silent, and the rest of its message has come in time. */
static void test_who_speaks_while_the_server_stands_still_is_heard(void **state)
{
    static const char text[] = "{\"id\":1000,\"op\":\"ping\"}";
    struct fixture *fixture = *state;
    struct socket *whole = open_socket(fixture);
    struct socket *pieces = open_socket(fixture);
    uint64_t id = 0;

    socket_send_frame(pieces, 0x01, text, 5, true);
    wait_until(one_begun, fixture);
    id = stop_server(fixture);
    pass(BEAT_MS);
    socket_send_frame(pieces, 0x80, text + 5, sizeof(text) - 1 - 5, true);
    socket_send_frame(whole, 0x81, text, sizeof(text) - 1, true);
    pass((uint64_t)BEATS * BEAT_MS);
    view_write_done(fixture->gate->view);
    check_reply(fixture, id, "");
    json_decref(need_reply(whole, 1000));
    json_decref(need_reply(pieces, 1000));
    socket_close(whole);
    socket_close(pieces);
}

/* A server that is late at every look is no reason to keep a silent client for ever. */
static void test_who_is_silent_is_cut_off_by_a_server_that_is_always_late(void **state)
{
    struct fixture *fixture = *state;
    struct socket *silent = open_socket(fixture); /* Nothing of it is read or said from here on. */
    int turns = 0;

    while (counter("\nzabra_ws_sockets ") == 2 && turns < LATE_TURNS) {
        uint64_t id = stop_server(fixture);

        pass(LATE_MS);
        view_write_done(fixture->gate->view);
        check_reply(fixture, id, "");
        turns++;
    }
    assert_in_range(turns, 2, LATE_TURNS - 1);
    socket_close(silent);
}

/* ---- The client reads slowly ---- */

static struct socket *open_narrow(const struct fixture *fixture)
{
    const struct socket_options narrow = {.receive_bytes = RECEIVE_BYTES};
    struct socket *socket = socket_open(http_port(fixture->http), &narrow);

    assert_int_equal(socket_status(socket), 101);
    return socket;
}

/* A piece from time to time, until so many bytes have come. */
static void read_slowly(const struct socket *socket, size_t bytes)
{
    uint64_t end_ms = os_now_ms() + (uint64_t)6 * KIT_DEADLINE_MS;
    char piece[PIECE_BYTES];

    for (size_t taken = 0; taken < bytes;) {
        ssize_t got = recv(socket_fd(socket), piece, sizeof(piece), MSG_DONTWAIT);

        assert_true(got > 0 || (got < 0 && errno == EAGAIN)); /* It is not closed. */
        assert_true(os_now_ms() < end_ms);
        taken += got > 0 ? (size_t)got : 0;
        (void)poll(NULL, 0, PAUSE_MS);
    }
}

static void fill_data(char data[DATA_LEN + 1])
{
    memset(data, 'd', DATA_LEN);
    data[DATA_LEN] = '\0';
}

/* Its pongs wait behind what it asks, which is not read before it has taken its answers. */
static void test_who_reads_slowly_is_not_silent(void **state)
{
    struct fixture *fixture = *state;
    struct socket *slow = open_narrow(fixture);
    char data[DATA_LEN + 1];

    fill_data(data);
    check_reply(
        fixture,
        socket_request(fixture->socket, "\"op\":\"set\",\"path\":\"/\",\"dataUtf8\":\"%s\"", data),
        "");
    for (int i = 0; i < READS; i++) {
        socket_request(slow, "\"op\":\"get\",\"path\":\"/\"");
    }
    read_slowly(slow, READS_BYTES);
    socket_close(slow);
}

static bool all_are_asked(const struct fixture *fixture)
{
    (void)fixture;
    return counter("\nzabra_ws_messages_total ") >= FEW_READS + 2; /* The set, and the session. */
}

/* It takes its answers as slowly, and its kernel would if it were frozen: the connection stays, and
 * nothing is heard of the session. */
static void test_what_a_kernel_takes_keeps_no_session(void **state)
{
    struct fixture *fixture = *state;
    struct fixture frozen = {.gate = fixture->gate, .socket = open_narrow(fixture)};
    struct session session;
    char *data = mem_zalloc(1, LONG_LEN + 1);

    memset(data, 'd', LONG_LEN);
    check_reply(
        fixture,
        socket_request(fixture->socket, "\"op\":\"set\",\"path\":\"/\",\"dataUtf8\":\"%s\"", data),
        "");
    open_session(&frozen, &session);
    for (int i = 0; i < FEW_READS; i++) {
        socket_request(frozen.socket, "\"op\":\"get\",\"path\":\"/\"");
    }
    wait_until(all_are_asked, fixture);
    atomic_store(&fixture->gate->touched, 0);
    read_slowly(frozen.socket, (size_t)FEW_READS * LONG_LEN / 2);
    assert_int_equal(atomic_load(&fixture->gate->touched), 0);
    socket_close(frozen.socket);
    mem_free(data);
}

/* A ping is of the client itself, as a pong is. */
static void test_a_ping_of_the_client_keeps_its_session(void **state)
{
    struct fixture *fixture = *state;
    struct session session;

    open_session(fixture, &session);
    atomic_store(&fixture->gate->touched, 0);
    socket_send_frame(fixture->socket, 0x89, "?", 1, true);
    wait_until(is_touched, fixture);
    assert_int_equal(atomic_load(&fixture->gate->touched), session.id);
}

/* The library has all of a large answer at once: that it moves is seen from how it arrives. */
static void test_who_takes_long_for_one_answer_is_not_closed(void **state)
{
    struct fixture *fixture = *state;
    struct socket *slow = open_narrow(fixture);
    char data[DATA_LEN + 1];

    fill_data(data);
    for (int i = 0; i < CHILDREN; i++) {
        check_reply(fixture,
                    socket_request(fixture->socket,
                                   "\"op\":\"create\",\"path\":\"/%d\",\"dataUtf8\":\"%s\"", i,
                                   data),
                    "");
    }
    socket_request(slow, "\"op\":\"children\",\"path\":\"/\",\"with\":\"data\"");
    read_slowly(slow, (size_t)CHILDREN * DATA_LEN);
    socket_close(slow);
}

#define TEST(test, setup) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_who_is_not_read_is_not_silent, setup_single),
        TEST(test_a_message_is_given_the_time_in_which_it_is_read, setup_busy),
        TEST(test_who_is_gone_is_noticed_though_it_is_not_read, setup_single),
        TEST(test_who_speaks_while_the_server_stands_still_is_heard, setup_busy),
        TEST(test_who_is_silent_is_cut_off_by_a_server_that_is_always_late, setup_often),
        TEST(test_who_reads_slowly_is_not_silent, setup_many),
        TEST(test_what_a_kernel_takes_keeps_no_session, setup_many),
        TEST(test_a_ping_of_the_client_keeps_its_session, setup_calm),
        TEST(test_who_takes_long_for_one_answer_is_not_closed, setup_calm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
