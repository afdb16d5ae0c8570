/* Clients that have missed events: no reply shows a state whose events they have not received, and
 * none shows an older state than they have seen. */
#include "tests/unit/ws_kit.h"

enum {
    WATCHES = 300, /* More than catch up in one turn. */
    TEXT_MAX = 2000,
    DATA_LEN = 4000,
    RECEIVE_BYTES = 32 << 10,
    PIECE_BYTES = 16 << 10, /* A slow client takes that much at a time. */
    CHANGES_MAX = 10000,    /* Until a client that reads nothing is overrun. */
    QUEUE_BYTES = 1 << 20,  /* A large queue: events may wait up to this, replies up to less. */
    REPLIES = 4,            /* To a client that is overrun again and again. */
    REFUSED = 10,
    RESUMED = 1500, /* Watches with more events than may wait. */
    IN_FLIGHT = 2000,
    NODES_MANY = 100, /* Changes in all of them exceed everything that may be in flight. */
#ifdef __SANITIZE_THREAD__
    NODES_LARGE = 100, /* It takes too long with more, and the threads do the same. */
#else
    NODES_LARGE = 300, /* Changes in all of them exceed what one turn sends. */
#endif
    WRITE_EVERY = 50,    /* Messages that the client takes until everything has changed again. */
    PATIENT_MS = 100000, /* For a reply, and with a client that reads nothing. */
    IMPATIENT_MS = 1000,
    MOVED = 4409,
    UNFIT = 4503
};

static void setup_with_queue(struct fixture *fixture, uint32_t request_timeout_ms,
                             uint32_t queue_bytes)
{
    kit_choice.watches_max = WATCHES;
    kit_choice.request_timeout_ms = request_timeout_ms;
    kit_choice.slow_timeout_ms = PATIENT_MS;
    kit_choice.queue_bytes = queue_bytes;
    setup_with(fixture, IN_FLIGHT, 10000);
}

static void setup(struct fixture *fixture)
{
    setup_with_queue(fixture, PATIENT_MS, 0);
}

static void setup_impatient(struct fixture *fixture)
{
    setup_with_queue(fixture, IMPATIENT_MS, 0);
}

static void setup_large_queue(struct fixture *fixture)
{
    setup_with_queue(fixture, PATIENT_MS, QUEUE_BYTES);
}

static uint64_t hex(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    assert_non_null(text);
    return strtoull(text, NULL, 16);
}

/* ---- A lost place ---- */

static void make_nodes(struct fixture *fixture, int count)
{
    for (int i = 0; i < count; i++) {
        check_reply(fixture,
                    socket_request(fixture->socket, "\"op\":\"create\",\"path\":\"/n%d\"", i), "");
    }
}

static void watch_nodes(struct socket *socket, int count)
{
    for (int i = 0; i < count; i++) {
        json_decref(socket_call(
            socket, "\"op\":\"watch\",\"path\":\"/n%d\",\"kind\":\"persistent\",\"values\":true",
            i));
    }
}

/* Like the core. */
static void set_node(struct gate *gate, struct state *state, int number)
{
    struct op_request *request = op_request_new();
    struct op_message_id id;
    struct op_fault fault;
    char text[TEXT_MAX];
    int len = snprintf(text, sizeof(text),
                       "{\"id\":1,\"op\":\"set\",\"path\":\"/n%d\",\"dataUtf8\":\"new\"}", number);

    buf_init(&request->memory, TEXT_MAX);
    assert_int_equal(op_json_parse_message(slice_make(text, (size_t)len), request, &id, &fault),
                     ERR_OK);
    kit_write_in(gate, state, request);
    assert_int_equal(request->result.err, ERR_OK);
    op_request_free(request);
}

/* Everything changes, and the window drops it, while the read waits for the state. */
static uint64_t lose_within_a_read(struct fixture *fixture, const char *members)
{
    struct state *state = view_write(fixture->gate->view);
    uint64_t id = socket_request(fixture->socket, "%s", members);

    (void)socket_pump(fixture->socket);
    (void)poll(NULL, 0, 100);
    for (int i = 0; i < WATCHES; i++) {
        set_node(fixture->gate, state, i);
    }
    window_restart(fixture->gate->window, fixture->gate->zxid);
    view_write_done(fixture->gate->view);
    window_wake(fixture->gate->window);
    return id;
}

/* All missed events, and then the reply. */
static void check_events_before(struct fixture *fixture, uint64_t id, uint64_t watches)
{
    uint64_t events = 0;

    for (;;) {
        json_t *message = socket_next(fixture->socket, SOCKET_TIMEOUT_MS);
        const char *event = json_string_value(json_object_get(message, "event"));
        bool reply = json_object_get(message, "id") != NULL;

        assert_non_null(message);
        events += event && strcmp(event, "NodeDataChanged") == 0;
        if (reply) {
            assert_int_equal(json_integer_value(json_object_get(message, "id")), id);
            assert_true(json_is_true(json_object_get(message, "ok")));
            assert_int_equal(hex(message, "zxid"), fixture->gate->zxid);
            assert_int_equal(events, watches);
        }
        json_decref(message);
        if (reply) {
            return;
        }
    }
}

TEST(a_read_comes_after_the_events_lost_before_it, fixture, setup, teardown)
{
    static const char *const reads[] = {
        "\"op\":\"get\",\"path\":\"/n0\"",
        "\"op\":\"get\",\"path\":\"/n0\",\"consistency\":\"linearizable\"",
        "\"op\":\"exists\",\"path\":\"/none\",\"watch\":true",
        "\"op\":\"children\",\"path\":\"/\",\"limit\":1000",
    };
    make_nodes(fixture, WATCHES);
    watch_nodes(fixture->socket, WATCHES - 1); /* One more comes with a read. */
    for (size_t i = 0; i < sizeof(reads) / sizeof(reads[0]); i++) {
        check_events_before(fixture, lose_within_a_read(fixture, reads[i]), WATCHES - 1);
    }
}

/* ---- A client that does not read ---- */

static const struct socket_options slow_reader = {.receive_bytes = RECEIVE_BYTES,
                                                  .piece_bytes = PIECE_BYTES};
static const struct socket_options late_reader = {.receive_bytes = RECEIVE_BYTES};

static bool one_overrun(const struct fixture *fixture)
{
    (void)fixture;
    return counter("\nzabra_ws_overruns_total ") > 0;
}

static struct socket *open_narrow(const struct fixture *fixture,
                                  const struct socket_options *options)
{
    struct socket *socket = socket_open(kit_port(fixture->http), options);

    json_decref(socket_event(socket, "hello", SOCKET_TIMEOUT_MS));
    return socket;
}

static void set_large(struct fixture *fixture, int number)
{
    static char data[DATA_LEN + 1];

    memset(data, 'd', DATA_LEN);
    check_reply(fixture,
                socket_request(fixture->socket,
                               "\"op\":\"set\",\"path\":\"/n%d\",\"dataUtf8\":\"%s\"", number,
                               data),
                "");
}

static void overrun(struct fixture *fixture, int nodes)
{
    for (int i = 0; !one_overrun(fixture); i++) {
        assert_true(i < CHANGES_MAX);
        set_large(fixture, i % nodes);
    }
}

/* It stays that way: once the kernel takes no more, the writes exceed what may wait. */
static struct socket *open_overrun(struct fixture *fixture, const struct socket_options *options,
                                   int watches)
{
    int more = 2 + 2 * (int)fixture->gate->limits.socket_queue_bytes_max / DATA_LEN;
    struct socket *slow = NULL;

    make_nodes(fixture, watches);
    slow = open_narrow(fixture, options);
    watch_nodes(slow, watches);
    overrun(fixture, watches);
    wait_until_stuck(fixture);
    for (int i = 0; i < more; i++) {
        set_large(fixture, i % watches);
    }
    return slow;
}

/* Events are skipped. */
static json_t *take_reply(struct socket *socket)
{
    for (;;) {
        json_t *message = socket_next(socket, SOCKET_TIMEOUT_MS);

        assert_non_null(message);
        if (json_object_get(message, "id")) {
            return message;
        }
        json_decref(message);
    }
}

/* What a client knows of one znode. */
struct known {
    uint64_t zxid;
    bool overrun; /* No event has come since an overrun. */
};

static void take_event(struct known *known, const json_t *message)
{
    const char *event = json_string_value(json_object_get(message, "event"));

    if (event && strcmp(event, "NodeDataChanged") == 0) {
        assert_true(hex(message, "zxid") > known->zxid);
        *known = (struct known){.zxid = hex(message, "zxid")};
    } else if (event && strcmp(event, "overrun") == 0) {
        known->overrun = true;
    } else {
        assert_true(!event || strcmp(event, "heartbeat") == 0);
    }
}

/* Takes messages one by one, up to the next reply, while more is written than the client reads. */
static json_t *next_reply(struct fixture *fixture, struct socket *slow, struct known *known)
{
    for (;;) {
        json_t *message = socket_next(slow, SOCKET_TIMEOUT_MS);

        assert_non_null(message);
        if (json_object_get(message, "id")) {
            return message;
        }
        take_event(known, message);
        json_decref(message);
        set_large(fixture, 0);
        set_large(fixture, 0);
    }
}

/* A reply shows neither a state whose events are missing nor an older one than they showed; and
 * each reply comes, however often the client is overrun meanwhile. */
static void check_replies(struct fixture *fixture, int count)
{
    struct known known = {0};
    struct socket *slow = open_overrun(fixture, &slow_reader, 1);
    uint64_t overruns = counter("\nzabra_ws_overruns_total ");

    for (int i = 0; i < count; i++) {
        bool read = i % 2 == 0;
        uint64_t id =
            socket_request(slow, read ? "\"op\":\"get\",\"path\":\"/n0\""
                                      : "\"op\":\"set\",\"path\":\"/n0\",\"dataUtf8\":\"\"");
        json_t *reply = next_reply(fixture, slow, &known);

        assert_int_equal(json_integer_value(json_object_get(reply, "id")), id);
        assert_true(json_is_true(json_object_get(reply, "ok")));
        if (read) {
            assert_false(known.overrun);
            assert_int_equal(hex(json_object_get(reply, "stat"), "mzxid"), known.zxid);
        } else {
            assert_true(known.zxid >= hex(reply, "zxid"));
        }
        json_decref(reply);
    }
    assert_true(counter("\nzabra_ws_overruns_total ") > overruns);
    socket_close(slow);
}

TEST(replies_come_after_what_an_overrun_client_has_missed, fixture, setup, teardown)
{
    check_replies(fixture, REPLIES);
}

/* Waiting events do not keep the server from making replies. */
TEST(waiting_events_do_not_stop_replies, fixture, setup_large_queue, teardown)
{
    check_replies(fixture, 2);
}

/* A ping says up to which zxid all events were sent, and waits for nothing. */
TEST(a_ping_names_the_zxid_of_the_last_events, fixture, setup, teardown)
{
    struct known known = {0};
    struct socket *slow = open_overrun(fixture, &slow_reader, 1);
    uint64_t id = socket_request(slow, "\"op\":\"ping\"");
    json_t *reply = next_reply(fixture, slow, &known);

    assert_int_equal(json_integer_value(json_object_get(reply, "id")), id);
    assert_true(known.overrun);
    assert_true(hex(reply, "zxid") <= known.zxid);
    json_decref(reply);
    socket_close(slow);
}

/* ---- What requests bring along ---- */

static uint64_t events(void)
{
    return counter("\nzabra_ws_events_total ");
}

/* All that are sent as long as the client reads nothing. */
static uint64_t events_in_the_end(void)
{
    uint64_t before = 0;

    while (events() == 0 || events() != before) {
        before = events();
        (void)poll(NULL, 0, 200);
    }
    return before;
}

/* Each gets the missed event at once and is used up: none is ever held. */
TEST(the_missed_events_of_watches_are_bounded, fixture, setup, teardown)
{
    struct socket *slow = NULL;

    make_nodes(fixture, 1);
    slow = open_narrow(fixture, &slow_reader);
    set_large(fixture, 0);
    for (int i = 0; i < RESUMED; i++) {
        socket_request(slow, "\"op\":\"watch\",\"path\":\"/n0\",\"kind\":\"data\",\"values\":true,"
                             "\"since\":\"0x100000001\"");
    }
    assert_in_range(events_in_the_end(), 1, RESUMED / 2);
    for (int i = 0; i < RESUMED; i++) {
        json_t *reply = take_reply(slow);

        assert_true(json_is_true(json_object_get(reply, "ok")));
        json_decref(reply);
    }
    socket_close(slow);
}

/* ---- Sessions, while replies wait ---- */

static uint64_t awaited; /* A session. */

static bool is_touched(const struct fixture *fixture)
{
    return atomic_load(&fixture->gate->touched) == awaited;
}

/* The client reads nothing, so no reply can have been made. */
static uint64_t ask_about(struct fixture *fixture, struct socket *slow, const char *op,
                          struct session *ret_session)
{
    uint64_t id = 0;

    open_session(fixture, ret_session);
    awaited = ret_session->id;
    json_decref(socket_call(fixture->socket, "\"op\":\"detach\""));
    atomic_store(&fixture->gate->touched, 0);
    id = socket_request(slow, "\"op\":\"%s\",\"session\":\"%s\"", op, ret_session->secret);
    wait_until(is_touched, fixture);
    return id;
}

static void check_slow_reply(struct socket *slow, uint64_t id, const char *code)
{
    json_t *reply = socket_reply(slow, id, SOCKET_TIMEOUT_MS);
    const char *got = json_string_value(json_object_get(json_object_get(reply, "error"), "code"));

    assert_non_null(reply);
    assert_string_equal(got ? got : "", code);
    json_decref(reply);
}

TEST(a_touch_waits_for_nothing, fixture, setup, teardown)
{
    struct socket *slow = open_overrun(fixture, &late_reader, 1);
    struct session session;
    uint64_t id = ask_about(fixture, slow, "touch", &session);

    /* Even behind a request whose reply waits. */
    atomic_store(&fixture->gate->touched, 0);
    socket_request(slow, "\"op\":\"touch\",\"session\":\"%s\"", session.secret);
    wait_until(is_touched, fixture);
    check_slow_reply(slow, id, "");
    socket_close(slow);
}

TEST(a_session_is_attached_before_its_reply_can_be_sent, fixture, setup, teardown)
{
    struct socket *slow = open_overrun(fixture, &late_reader, 1);
    struct session session;

    check_slow_reply(slow, ask_about(fixture, slow, "attach", &session), "");
    socket_close(slow);
}

/* By the time that the reply can be sent, the session has moved. */
TEST(a_session_that_has_moved_is_not_reported_as_attached, fixture, setup, teardown)
{
    struct socket *slow = open_overrun(fixture, &late_reader, 1);
    struct session session;
    uint64_t id = ask_about(fixture, slow, "attach", &session);

    json_decref(
        socket_call(fixture->socket, "\"op\":\"attach\",\"session\":\"%s\"", session.secret));
    check_slow_reply(slow, id, "SessionMoved");
    assert_true(socket_wait_end(slow, SOCKET_TIMEOUT_MS));
    assert_int_equal(socket_close_code(slow), MOVED);
    socket_close(slow);
}

/* The same through another replica. */
static void move(struct gate *gate, const struct session *session)
{
    struct state *state = view_write(gate->view);
    struct op_request *request = op_request_new();
    uint8_t hash[TXN_SECRET_HASH_LEN];

    request->def = ops_by_id(OP_ATTACH);
    op_args_init(&request->args, OP_ATTACH);
    request->args.secret = slice_str(session->secret);
    op_args_hash_secret(&request->args, hash);
    kit_write_in(gate, state, request);
    assert_int_equal(request->result.err, ERR_OK);
    op_request_free(request);
    view_write_done(gate->view);
    window_wake(gate->window);
}

TEST(nor_is_one_that_has_moved_to_another_replica, fixture, setup, teardown)
{
    struct socket *slow = open_overrun(fixture, &late_reader, 1);
    struct session session;
    uint64_t id = ask_about(fixture, slow, "attach", &session);

    move(fixture->gate, &session);
    check_slow_reply(slow, id, "SessionMoved");
    assert_true(socket_wait_end(slow, SOCKET_TIMEOUT_MS));
    assert_int_equal(socket_close_code(slow), MOVED);
    socket_close(slow);
}

/* ---- A socket that is to be closed ---- */

/* Only the state could show the missed changes, and it is older than what the client has received.
 */
static void forget(struct gate *gate)
{
    struct state *old = state_new(KIT_HISTORY);

    kit_replace(gate);
    view_replace(gate->view, old);
}

/* A request for the present state is refused, and one that would wait for ever is abandoned: the
 * client is redirected. */
TEST(a_close_does_not_wait_for_events_that_cannot_be_sent, fixture, setup_large_queue, teardown)
{
    struct socket *slow = open_overrun(fixture, &late_reader, 1);
    uint64_t read = socket_request(slow, "\"op\":\"get\",\"path\":\"/n0\"");
    uint64_t write = socket_request(slow, "\"op\":\"delete\",\"path\":\"/none\"");
    json_t *event = NULL;

    forget(fixture->gate);
    atomic_store(&fixture->gate->local_err, ERR_NOT_READY);
    check_slow_reply(slow, read, "NotReady");
    event = socket_event(slow, "closing", SOCKET_TIMEOUT_MS);
    assert_non_null(event);
    json_decref(event);
    assert_null(socket_reply(slow, write, 0));
    assert_true(socket_wait_end(slow, SOCKET_TIMEOUT_MS));
    assert_int_equal(socket_close_code(slow), UNFIT);
    socket_close(slow);
}

/* ---- A client that never catches up ---- */

/* While the changes in all of them exceed what the client reads, something is always missing. */
static json_t *read_too_slowly(struct fixture *fixture, struct socket *slow, int nodes)
{
    for (int i = 0;; i++) {
        json_t *message = socket_next(slow, SOCKET_TIMEOUT_MS);

        assert_non_null(message);
        if (json_object_get(message, "id")) {
            return message;
        }
        json_decref(message);
        for (int node = 0; node < nodes && i % WRITE_EVERY == 0; node++) {
            set_large(fixture, node);
        }
    }
}

/* Each exceeds what may wait when a reply is made, and something is always missing after it. */
TEST(large_differences_do_not_keep_replies_waiting, fixture, setup_impatient, teardown)
{
    struct socket *slow = open_narrow(fixture, &slow_reader);

    make_nodes(fixture, NODES_LARGE);
    json_decref(socket_call(slow, "\"op\":\"watch\",\"path\":\"/\",\"kind\":\"recursive\","
                                  "\"values\":true"));
    overrun(fixture, NODES_LARGE);
    socket_request(slow, "\"op\":\"get\",\"path\":\"/n0\"");
    json_decref(read_too_slowly(fixture, slow, NODES_LARGE));
    socket_close(slow);
}

static void check_throttled(json_t *take_reply)
{
    const json_t *error = json_object_get(take_reply, "error");
    const char *code = json_string_value(json_object_get(error, "code"));

    assert_string_equal(code ? code : "", "ThrottledOp");
    json_decref(take_reply);
}

static void catch_up(struct fixture *fixture, struct socket *slow)
{
    uint64_t reached = 0;

    while (reached < atomic_load(&fixture->gate->applied)) {
        json_t *reply = NULL;

        socket_request(slow, "\"op\":\"ping\"");
        reply = take_reply(slow);
        reached = hex(reply, "zxid");
        json_decref(reply);
    }
}

/* All that it has asked by then; once the writes stop it reads everything, and the socket works as
 * before. */
TEST(a_client_that_never_catches_up_gets_an_error, fixture, setup_impatient, teardown)
{
    struct socket *slow = open_overrun(fixture, &slow_reader, NODES_MANY);
    json_t *reply = NULL;

    for (int i = 0; i < REFUSED; i++) {
        socket_request(slow, "\"op\":\"get\",\"path\":\"/n0\"");
    }
    check_throttled(read_too_slowly(fixture, slow, NODES_MANY));
    for (int i = 1; i < REFUSED; i++) {
        check_throttled(take_reply(slow));
    }
    catch_up(fixture, slow);
    reply = socket_call(slow, "\"op\":\"get\",\"path\":\"/n0\"");
    assert_true(json_is_true(json_object_get(reply, "ok")));
    json_decref(reply);
    socket_close(slow);
}
