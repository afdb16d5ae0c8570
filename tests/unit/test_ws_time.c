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
    CHILDREN = 900,           /* An answer that it takes longer than WS_KIT_SLOW_MS to read. */
    BEATS = 4,                /* More of them than a silent client may miss. */
    OFTEN_MS = 200,           /* Beats that are nearer than what a late look gives, */
    LATE_MS = 700,            /* and so long the server stands still: each look is late. */
    LATE_TURNS = 40,          /* Many times what a silent client has. */
    NOTICED_MS = 8 * BEAT_MS, /* That a client is gone: with the next heartbeat, usually. */
    ZNODES = 100,             /* Of LONG_LEN, so that each search takes some milliseconds; */
    SEARCHES = 400,           /* they fit in one piece of the connection. */
    STALE_MS = 500,           /* So long a byte of the client may have waited to be a sign of it. */
    RATE = 1000,              /* Messages a second, */
    RATED = 6 * RATE,         /* of which so many are sent at once. */
    FRESH_MS = 1500,          /* For a client whose messages wait for less than that: */
    FAST_RATE = 8000,
    FAST_STEP_MS = 20,
    FAST_FIRST = 14000,  /* The burst, and 0.75 s that wait, */
    FAST_LIVE_MS = 4000, /* all the time. */
};

/* One request at a time; clients have to say something often. */
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
TEST(who_is_not_read_is_not_silent, fixture, setup_single, teardown)
{
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
TEST(a_message_is_given_the_time_in_which_it_is_read, fixture, setup_busy, teardown)
{
    static const char text[] = "{\"id\":1000,\"op\":\"ping\"}";
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
TEST(who_is_gone_is_noticed_though_it_is_not_read, fixture, setup_single, teardown)
{
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

/* ---- The server has much to do ---- */

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

/* What has arrived of another client is read between two of its messages. */
TEST(what_one_client_asks_keeps_no_other_waiting, fixture, setup_many, teardown)
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

/* Keeps its session as long as its client does not answer. */
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

/* It is frozen, and its messages are read for seconds: they were sent before. */
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

/* The pong repeats when its ping left: the client was alive then, however long the pong waits. */
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
TEST(who_speaks_while_the_server_stands_still_is_heard, fixture, setup_busy, teardown)
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

/* A server that is late at every look is no reason to keep a silent client for ever. */
TEST(who_is_silent_is_cut_off_by_a_server_that_is_always_late, fixture, setup_often, teardown)
{
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
TEST(who_reads_slowly_is_not_silent, fixture, setup_many, teardown)
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

/* It takes its answers as slowly, and its kernel would if it were frozen: the connection stays, and
 * nothing is heard of the session. */
TEST(what_a_kernel_takes_keeps_no_session, fixture, setup_many, teardown)
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

static bool one_is_told(const struct fixture *fixture)
{
    (void)fixture;
    return counter("\nzabra_ws_sent_bytes_total ") > LONG_LEN;
}

/* It takes none of its answers, and says something: that is read, though no more are made. */
TEST(a_client_is_heard_while_its_answers_wait, fixture, setup_patient, teardown)
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
    wait_until(one_is_told, fixture);
    wait_until_stuck(fixture);
    atomic_store(&fixture->gate->touched, 0);
    socket_send_frame(busy.socket, 0x8a, "", 0, true);
    wait_until(is_touched, fixture);
    assert_int_equal(atomic_load(&fixture->gate->touched), session.id);
    socket_close(busy.socket);
    mem_free(data);
}

/* A ping is of the client itself, as a pong is. */
TEST(a_ping_of_the_client_keeps_its_session, fixture, setup_calm, teardown)
{
    struct session session;

    open_session(fixture, &session);
    atomic_store(&fixture->gate->touched, 0);
    socket_send_frame(fixture->socket, 0x89, "?", 1, true);
    wait_until(is_touched, fixture);
    assert_int_equal(atomic_load(&fixture->gate->touched), session.id);
}

/* The library has all of a large answer at once: that it moves is seen from how it arrives. */
TEST(who_takes_long_for_one_answer_is_not_closed, fixture, setup_calm, teardown)
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
