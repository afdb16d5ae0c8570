/* The time that a client has: data that the server does not read is not held against it, and a
 * client that reads slowly is not taken for one that does not read. */
#include "tests/unit/ws_kit.h"

enum {
    BEAT_MS = 500,
    DATA_LEN = 4000,
    RECEIVE_BYTES = 32 << 10,
    PIECE_BYTES = 16 << 10, /* A slow client takes that much at a time, */
    PAUSE_MS = 20,          /* and pauses that long in between. */
    READS = 1000,           /* Answers whose reading takes many heartbeats. */
    READS_BYTES = 2 << 20,  /* With that many bytes of them taken the server still does not read. */
    FEW_READS = 100,        /* Long ones, all requested at once. */
    LONG_LEN = 40000,
    CHILDREN = 900,  /* An answer whose reading takes the client longer than WS_KIT_SLOW_MS. */
    BEATS = 4,       /* More heartbeats than a silent client may miss. */
    OFTEN_MS = 200,  /* Heartbeats at a shorter interval than the allowance after a late look, */
    LATE_MS = 700,   /* and pauses of the server of that length: each look is late. */
    LATE_TURNS = 40, /* Many times what a silent client gets. */
    NOTICED_MS =
        8 * BEAT_MS, /* Until a closed connection is noticed: usually with the next heartbeat. */
    ZNODES = 100,    /* Of LONG_LEN, so that each search takes some milliseconds; */
    SEARCHES = 400,  /* they fit into one piece of the connection. */
    STALE_MS = 500,  /* A byte of the client that waited for longer than that is no sign of life. */
    RATE = 1000,     /* Messages a second, */
    RATED = 6 * RATE, /* of which that many are sent at once. */
    FRESH_MS = 1500,  /* For a client whose messages wait for less than that: */
    FAST_RATE = 8000,
    FAST_STEP_MS = 20,
    FAST_FIRST = 14000,  /* The burst, and what waits for 0.75 s, */
    FAST_LIVE_MS = 4000, /* all the time. */
};

/* One request at a time; clients have to send something often. */
static void setup_single(struct fixture *fixture)
{
    setup_with(fixture, 1, BEAT_MS);
}

static void setup_busy(struct fixture *fixture)
{
    setup_with(fixture, 100, BEAT_MS);
}

static void setup_often(struct fixture *fixture)
{
    setup_with(fixture, 100, OFTEN_MS);
}

static void setup_calm(struct fixture *fixture)
{
    setup_with(fixture, 100, 10000);
}

static void setup_many(struct fixture *fixture)
{
    setup_with(fixture, 10000, BEAT_MS);
}

/* A client that takes nothing is not closed. */
static void setup_patient(struct fixture *fixture)
{
    kit_choice.slow_timeout_ms = KIT_DEADLINE_MS;
    setup_with(fixture, 10000, 10000);
    kit_choice.slow_timeout_ms = 0;
}

/* A client may begin to read late, also on a machine that is slow just then. */
static void setup_lenient(struct fixture *fixture)
{
    kit_choice.slow_timeout_ms = KIT_DEADLINE_MS;
    setup_many(fixture);
    kit_choice.slow_timeout_ms = 0;
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

/* With the maximum in flight the server does not read the socket: its client does not count as
 * silent then, and its session does not expire. */
TEST(a_client_that_the_server_does_not_read_is_not_silent, fixture, setup_single, teardown)
{
    struct session session;
    uint64_t id = 0;

    open_session(fixture, &session);
    atomic_store(&fixture->gate->held, true);
    id = ask_set(fixture, 0);
    wait_until(one_inside, fixture);
    take_beats(fixture, 1); /* What was in flight has arrived. */
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

/* The first piece of a long message is a sign of life, and its deadline counts only while the
 * server reads. */
TEST(the_time_to_read_a_message_is_not_counted_against_it, fixture, setup_busy, teardown)
{
    static const char text[] = "{\"id\":1000,\"op\":\"ping\"}";
    struct session session;
    uint64_t ids[3];

    open_session(fixture, &session);
    atomic_store(&fixture->gate->held, true);
    ids[0] = ask_set(fixture, 0);
    ids[1] = socket_request(fixture->socket, "\"op\":\"get\",\"path\":\"/\"");
    ids[2] = ask_set(fixture, 1); /* Starts after the read, and finds no room. */
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

/* Its unread bytes are reset with its connection, which only a write of the server discovers. */
TEST(a_closed_connection_is_noticed_without_reading, fixture, setup_single, teardown)
{
    struct socket *gone = open_socket(fixture);
    uint64_t start_ms = 0;

    atomic_store(&fixture->gate->held, true);
    (void)socket_request(gone, "\"op\":\"set\",\"path\":\"/\",\"dataUtf8\":\"x\"");
    wait_until(one_inside, fixture);
    pass((uint64_t)2 * BEAT_MS); /* A heartbeat has been sent by then. */
    socket_close(gone);
    start_ms = os_now_ms();
    wait_until(one_left, fixture);
    assert_in_range(os_now_ms() - start_ms, 0, NOTICED_MS);
    atomic_store(&fixture->gate->held, false);
}

/* ---- The server is busy ---- */

static bool are_taken(const struct fixture *fixture, uint64_t count)
{
    (void)fixture;
    return counter("\nzabra_ws_messages_total ") >= count;
}

static bool all_are_searched_for(const struct fixture *fixture)
{
    return are_taken(fixture, ZNODES + SEARCHES);
}

static void create_long(struct fixture *fixture)
{
    char *data = mem_zalloc(1, LONG_LEN + 1);

    memset(data, 'd', LONG_LEN);
    for (int i = 0; i < ZNODES; i++) {
        uint64_t id = socket_request(
            fixture->socket, "\"op\":\"create\",\"path\":\"/%d\",\"dataUtf8\":\"%s\"", i, data);

        check_reply(fixture, id, "");
    }
    mem_free(data);
}

/* What has arrived from another client is read between two of its messages. */
TEST(one_busy_client_keeps_no_other_waiting, fixture, setup_many, teardown)
{
    uint64_t end_ms = os_now_ms() + KIT_DEADLINE_MS;
    uint64_t last = 0;

    create_long(fixture);
    struct socket *busy = open_socket(fixture); /* It answers heartbeats from here on. */

    for (int i = 0; i < SEARCHES; i++) {
        last = socket_request(busy, "\"op\":\"search\",\"path\":\"/\",\"data\":\"dx\"");
    }
    while (!all_are_searched_for(fixture)) {
        assert_true(os_now_ms() < end_ms);
        (void)socket_pump(busy);
    }
    json_decref(socket_call(fixture->socket, "\"op\":\"ping\""));
    (void)socket_pump(busy);
    assert_null(socket_reply(busy, last, 0));
    socket_close(busy);
}

/* ---- Bytes that wait ---- */

/* Keeps the session alive as long as its client does not answer. */
struct rated {
    struct fixture fixture;
    uint64_t start_ms;
    uint64_t sent_ms;    /* From there until the last byte has left the client. */
    uint64_t touched_ms; /* The last time. */
    uint64_t taken;      /* Messages. */
    uint64_t taken_ms;
};

static void open_rated(struct fixture *fixture, struct rated *rated, uint32_t rate,
                       uint32_t stale_ms)
{
    struct session session;

    fixture->gate->limits.socket_messages_per_s = rate;
    fixture->gate->limits.request_timeout_ms = stale_ms;
    *rated = (struct rated){.fixture = {.gate = fixture->gate, .socket = open_socket(fixture)}};
    open_session(&rated->fixture, &session);
    rated->start_ms = os_now_ms();
    rated->taken = counter("\nzabra_ws_messages_total ");
}

static void ask_pings(struct rated *rated, int count)
{
    for (int i = 0; i < count; i++) {
        socket_request(rated->fixture.socket, "\"op\":\"ping\"");
    }
}

static void look_at_session(struct rated *rated)
{
    uint64_t taken = counter("\nzabra_ws_messages_total ");
    uint64_t now_ms = os_now_ms();

    if (atomic_exchange(&rated->fixture.gate->touched, 0) != 0) {
        rated->touched_ms = now_ms;
    }
    if (taken != rated->taken) {
        rated->taken = taken;
        rated->taken_ms = now_ms;
    }
    (void)poll(NULL, 0, 1);
}

/* The client is frozen, and its messages are read for seconds: they were sent before. */
TEST(bytes_that_waited_long_keep_no_session, fixture, setup_calm, teardown)
{
    struct rated rated;
    uint64_t end_ms = os_now_ms() + KIT_DEADLINE_MS;

    open_rated(fixture, &rated, RATE, STALE_MS);
    ask_pings(&rated, RATED);
    while (rated.taken < RATED) {
        if (!socket_all_sent(rated.fixture.socket)) {
            (void)socket_pump(rated.fixture.socket);
            rated.sent_ms = os_now_ms() - rated.start_ms;
        }
        look_at_session(&rated);
        assert_true(os_now_ms() < end_ms);
    }
    print_message("sent %lu ms, heard %lu ms, taken %lu ms\n", rated.sent_ms,
                  rated.touched_ms - rated.start_ms, rated.taken_ms - rated.start_ms);
    assert_true(rated.touched_ms + STALE_MS < rated.taken_ms);
    socket_close(rated.fixture.socket);
}

/* A pong repeats when its ping left: the client was alive then, however long the pong waits. */
TEST(a_pong_shows_when_its_client_was_alive, fixture, setup_many, teardown)
{
    struct rated rated;

    open_rated(fixture, &rated, FAST_RATE, FRESH_MS);
    ask_pings(&rated, FAST_FIRST);
    for (uint64_t next_ms = rated.start_ms; os_now_ms() < rated.start_ms + FAST_LIVE_MS;) {
        if (os_now_ms() >= next_ms) {
            next_ms += FAST_STEP_MS;
            ask_pings(&rated, FAST_RATE * FAST_STEP_MS / 1000);
        }
        assert_true(socket_pump(rated.fixture.socket));
        look_at_session(&rated);
    }
    print_message("heard %lu ms\n", rated.touched_ms - rated.start_ms);
    assert_true(rated.touched_ms + FRESH_MS > rated.start_ms + FAST_LIVE_MS);
    socket_close(rated.fixture.socket);
}

/* ---- The server is paused ---- */

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

/* The thread of the sockets waits for the view until it is released. Returns the request that it
 * answers then. */
static uint64_t stop_server(const struct fixture *fixture)
{
    (void)view_write(fixture->gate->view);

    uint64_t id = socket_request(fixture->socket, "\"op\":\"get\",\"path\":\"/\"");

    (void)socket_pump(fixture->socket);
    return id;
}

/* Bytes of a client that arrive while the thread of the sockets is paused are read before the
 * client is judged: it was not silent, and the rest of its message arrived in time. */
TEST(messages_sent_during_a_pause_of_the_server_count, fixture, setup_busy, teardown)
{
    static const char text[] = "{\"id\":1000,\"op\":\"ping\"}";
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

/* A server that is late at every look must not keep a silent client for ever. */
TEST(a_server_that_is_always_late_cuts_off_silent_clients, fixture, setup_often, teardown)
{
    struct socket *silent = open_socket(fixture); /* It reads and sends nothing from here on. */
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
    struct socket *socket = socket_open(kit_port(fixture->http), &narrow);

    assert_int_equal(socket_status(socket), 101);
    return socket;
}

/* Reads a piece from time to time, until that many bytes have come. */
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

/* Its pongs wait behind its requests, which the server reads only after the client has taken its
 * answers. */
TEST(a_client_that_reads_slowly_is_not_silent, fixture, setup_many, teardown)
{
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

/* The client takes its answers slowly, as the kernel of a frozen client would: the connection
 * stays, and the session receives no sign of life. */
TEST(bytes_taken_by_a_kernel_keep_no_session, fixture, setup_lenient, teardown)
{
    struct fixture frozen = {.gate = fixture->gate, .socket = open_narrow(fixture)};
    struct session session;
    char *data = mem_zalloc(1, LONG_LEN + 1);

    memset(data, 'd', LONG_LEN);
    check_reply(
        fixture,
        socket_request(fixture->socket, "\"op\":\"set\",\"path\":\"/\",\"dataUtf8\":\"%s\"", data),
        "");
    open_session(&frozen, &session);
    socket_hold(frozen.socket,
                true); /* In one piece: the server takes no more once replies wait. */
    for (int i = 0; i < FEW_READS; i++) {
        socket_request(frozen.socket, "\"op\":\"get\",\"path\":\"/\"");
    }
    socket_hold(frozen.socket, false);
    wait_until(all_are_asked, fixture);
    atomic_store(&fixture->gate->touched, 0);
    read_slowly(frozen.socket, (size_t)FEW_READS * LONG_LEN / 2);
    assert_int_equal(atomic_load(&fixture->gate->touched), 0);
    socket_close(frozen.socket);
    mem_free(data);
}

static bool one_answer_has_left(const struct fixture *fixture)
{
    (void)fixture;
    return counter("\nzabra_ws_sent_bytes_total ") > LONG_LEN;
}

/* It takes none of its answers, and sends something: the server reads that, though it makes no more
 * answers. */
TEST(messages_count_while_their_answers_wait, fixture, setup_patient, teardown)
{
    struct fixture busy = {.gate = fixture->gate, .socket = open_narrow(fixture)};
    struct session session;
    char *data = mem_zalloc(1, LONG_LEN + 1);

    memset(data, 'd', LONG_LEN);
    check_reply(
        fixture,
        socket_request(fixture->socket, "\"op\":\"set\",\"path\":\"/\",\"dataUtf8\":\"%s\"", data),
        "");
    open_session(&busy, &session);
    for (int i = 0; i < FEW_READS; i++) {
        socket_request(busy.socket, "\"op\":\"get\",\"path\":\"/\"");
    }
    wait_until(one_answer_has_left, fixture);
    wait_until_stuck(fixture);
    atomic_store(&fixture->gate->touched, 0);
    socket_send_frame(busy.socket, 0x8a, "", 0, true);
    wait_until(is_touched, fixture);
    assert_int_equal(atomic_load(&fixture->gate->touched), session.id);
    socket_close(busy.socket);
    mem_free(data);
}

/* A ping comes from the client itself, like a pong. */
TEST(a_ping_of_the_client_keeps_its_session, fixture, setup_calm, teardown)
{
    struct session session;

    open_session(fixture, &session);
    atomic_store(&fixture->gate->touched, 0);
    socket_send_frame(fixture->socket, 0x89, "?", 1, true);
    wait_until(is_touched, fixture);
    assert_int_equal(atomic_load(&fixture->gate->touched), session.id);
}

/* The library holds a large answer as a whole: only its arrival shows that it moves. */
TEST(a_client_that_takes_long_for_one_answer_is_not_closed, fixture, setup_calm, teardown)
{
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
