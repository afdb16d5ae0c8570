/* Streams whose clients do not read: what it costs these clients, and that it costs no other
 * client. */
#include "tests/lib/stream_kit.h"
#include "tests/unit/http_front.h"

enum {
    DATA_BYTES = 1024,
    RECEIVE_BYTES = 4096,
    PATIENCE_MS = 600000, /* slowTimeout in tests of something else. */
    WINDOW_SETS = 1000,   /* As in the kit. */
    SLOW_MS = 1500,       /* A short slowTimeout; the pauses of the server are longer. */
    STAND_MS = 1800,
    CUT_MS = 20000, /* A slow client is cut off by then: several times slowTimeout. */
    LARGE_BYTES = 4096,
    FULL_SETS = 16,
    FULL_LOOKS = 5,         /* Looks that saw no new event. */
    ROOM_BYTES = 384 << 10, /* maxUnsentBytes, in tests of the sum for all clients. */
    WIDE_BYTES = 16 << 20,  /* The same, for events that are larger than kernel buffers. */
    WIDE_DATA = 60000,
    WIDE_SETS = 40,
    WIDE_REST = 8 << 10 /* Of an event; a stream that keeps less may stay. */
};

static int writer; /* A connection that stays open. */

static void start(uint32_t slow_timeout_ms)
{
    gate = kit_gate_new();
    gate->limits.socket_queue_bytes_max = 4096;
    gate->limits.slow_timeout_ms = slow_timeout_ms;
    front_start();
    writer = kit_connect(port);
}

static void setup(void)
{
    start(PATIENCE_MS);
}

static void setup_impatient(void)
{
    start(SLOW_MS);
}

static void start_crowded(uint64_t unsent_max)
{
    gate = kit_gate_new();
    gate->limits.data_bytes_max = WIDE_DATA;
    gate->limits.socket_queue_bytes_max = 64 << 20;
    gate->limits.slow_timeout_ms = PATIENCE_MS;
    gate->unsent.max = unsent_max;
    front_start();
    writer = kit_connect(port);
}

/* The sum is short, not the room of one stream. */
static void setup_crowded(void)
{
    start_crowded(ROOM_BYTES);
}

static void setup_wide(void)
{
    start_crowded(WIDE_BYTES);
}

/* Whatever has happened: when all streams are closed, nothing waits. */
static void check_nothing_waits(void)
{
    uint64_t end_ms = os_now_ms() + KIT_DEADLINE_MS;

    while (budget_used(&gate->unsent) != 0) {
        assert_true(os_now_ms() < end_ms);
        (void)poll(NULL, 0, 1);
    }
}

static void teardown(void)
{
    check_nothing_waits();
    close(writer);
    front_teardown();
}

static void write_bytes(const char *method, const char *path, const char *headers, int number,
                        int bytes)
{
    char data[LARGE_BYTES + 1];
    struct buf out;
    struct kit_answer answer;

    (void)snprintf(data, sizeof(data), "%0*d", bytes, number);
    buf_init(&out, KIT_ANSWER_MAX);
    buf_printf(&out,
               "%s /znodes/v1%s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n%s",
               method, path, headers, bytes, data);
    kit_send_bytes(writer, out.data, out.len);
    buf_release(&out);
    answer = kit_read(writer, false);
    assert_true(answer.status == 200 || answer.status == 201);
    kit_free(&answer);
}

static void write_one(const char *method, const char *path, const char *headers, int number)
{
    write_bytes(method, path, headers, number, DATA_BYTES);
}

static void create(const char *path)
{
    write_one("PUT", path, "If-None-Match: *\r\n", 0);
}

static void set_many(const char *path, int from, int count)
{
    for (int i = from; i < from + count; i++) {
        write_one("PUT", path, "", i);
    }
}

static int number_of(struct kit_stream *stream)
{
    int number = -1;

    assert_int_equal(sscanf(kit_stream_member(stream, "dataUtf8"), "%d", &number), 1);
    return number;
}

static void open_stream(struct kit_stream *stream, const char *target, int receive_bytes)
{
    kit_stream_ask(stream, kit_stream_connect(port, receive_bytes), port, target, "");
    assert_int_equal(stream->status, 200);
    assert_string_equal(kit_stream_event(stream), "watch fresh");
}

static long metric(const char *name)
{
    struct kit_answer answer = kit_ask(port, "GET", "/metrics", "", NULL);
    char line[128];
    const char *at = NULL;
    long value = -1;

    (void)snprintf(line, sizeof(line), "\n%s ", name);
    at = strstr((const char *)answer.body, line);
    assert_non_null(at);
    assert_int_equal(sscanf(at + strlen(line), "%ld", &value), 1);
    kit_free(&answer);
    return value;
}

/* Reads the numbers from `from` on, in order; returns the one that follows them. */
static int read_numbers(struct kit_stream *stream, int from, int count)
{
    for (int i = 0; i < count; i++) {
        const char *event = kit_stream_event(stream);

        assert_non_null(event);
        if (strncmp(event, "NodeDataChanged", 15) != 0 || strstr(event, " diff")) {
            return from + i;
        }
        assert_int_equal(number_of(stream), from + i);
    }
    return from + count;
}

/* The window still contains what did not fit. */
TEST(a_reader_that_stops_for_a_while_loses_nothing, setup, teardown)
{
    enum {
        COUNT = 800
    };

    struct kit_stream slow;
    struct kit_stream quick;

    create("/a");
    open_stream(&slow, "/watch/v1/a?mode=persistent&values=true", RECEIVE_BYTES);
    open_stream(&quick, "/watch/v1/a?mode=persistent&values=true", 0);
    for (int i = 0; i < COUNT; i++) {
        set_many("/a", i, 1);
        assert_int_equal(read_numbers(&quick, i, 1), i + 1); /* It does not have to wait. */
    }
    assert_int_equal(read_numbers(&slow, 0, COUNT), COUNT);
    set_many("/a", COUNT, 1);
    assert_int_equal(read_numbers(&slow, COUNT, 1), COUNT + 1);
    assert_int_equal(metric("zabra_http_stream_overruns_total"), 0);
    kit_stream_close(&slow);
    kit_stream_close(&quick);
}

/* The window has moved on: the stream sends the rest as a difference, and says that it is one. */
TEST(a_reader_that_stops_for_long_gets_an_overrun, setup, teardown)
{
    enum {
        COUNT = 4 * WINDOW_SETS
    };

    struct kit_stream slow;
    int overruns = 0;

    create("/a");
    open_stream(&slow, "/watch/v1/a?mode=persistent&values=true", RECEIVE_BYTES);
    set_many("/a", 0, COUNT);
    for (int next = read_numbers(&slow, 0, COUNT); next < COUNT;) {
        assert_string_equal(kit_stream_member(&slow, "event"), "overrun");
        assert_string_equal(kit_stream_id(&slow), "");
        assert_non_null(strstr(kit_stream_event(&slow), " diff end"));
        assert_true(number_of(&slow) >= next);
        next = number_of(&slow) + 1;
        next = read_numbers(&slow, next, COUNT - next);
        overruns++;
    }
    assert_true(overruns > 0); /* Once, unless the server itself was paused in between. */
    set_many("/a", COUNT, 3);
    assert_int_equal(read_numbers(&slow, COUNT, 3), COUNT + 3);
    assert_int_equal(metric("zabra_http_stream_overruns_total"), overruns);
    assert_int_equal(metric("zabra_http_stream_gaps_total"), 0);
    kit_stream_close(&slow);
}

/* Reads events of created znodes up to the one of that name; false: a gap. */
static bool reports_creation_of(struct kit_stream *stream, const char *name)
{
    const char *event = kit_stream_event(stream);

    while (strncmp(event, "NodeCreated", 11) == 0) {
        if (strstr(event, name)) {
            return true;
        }
        event = kit_stream_event(stream);
    }
    assert_string_equal(kit_stream_member(stream, "event"), "gap");
    assert_string_not_equal(kit_stream_id(stream), ""); /* From here on the stream is complete. */
    return false;
}

/* A difference larger than a queue does not help a slow client. */
TEST(too_large_a_difference_becomes_a_gap, setup, teardown)
{
    struct kit_stream slow;
    char path[32];
    int gaps = -1;

    create("/a");
    open_stream(&slow, "/watch/v1/a?mode=recursive&values=true", RECEIVE_BYTES);
    for (int i = 0; i < 4 * WINDOW_SETS; i++) {
        (void)snprintf(path, sizeof(path), "/a/%d", i);
        create(path);
    }
    do { /* Another gap appears only if the server itself was paused in between. */
        gaps++;
        (void)snprintf(path, sizeof(path), "/a/mark-%d", gaps);
        create(path);
    } while (!reports_creation_of(&slow, path));
    assert_true(gaps > 0);
    set_many("/a", 0, 3);
    assert_int_equal(read_numbers(&slow, 0, 3), 3);
    assert_int_equal(metric("zabra_http_stream_gaps_total"), gaps);
    kit_stream_close(&slow);
}

TEST(too_large_a_resumption_is_a_gap_from_the_start, setup, teardown)
{
    struct kit_stream stream;
    char path[32];

    create("/a");
    for (int i = 0; i < 2 * WINDOW_SETS; i++) {
        (void)snprintf(path, sizeof(path), "/a/%d", i);
        create(path);
    }
    kit_stream_open(&stream, port, "/watch/v1/a?mode=recursive&since=0x100000001", "");
    assert_string_equal(kit_stream_event(&stream), "watch gap");
    create("/a/new");
    assert_string_equal(kit_stream_event(&stream), "NodeCreated /a/new end");
    kit_stream_close(&stream);
}

/* As when a replica has died and its clients move to the others. */
TEST(many_streams_resume_at_once, setup, teardown)
{
    enum {
        STREAMS = 40,
        COUNT = 400
    };

    struct kit_stream streams[STREAMS];

    create("/a");
    set_many("/a", 0, COUNT);
    for (int i = 0; i < STREAMS; i++) {
        kit_stream_send(&streams[i], kit_stream_connect(port, RECEIVE_BYTES), port,
                        "/watch/v1/a?mode=persistent&values=true&since=0x100000001", "");
    }
    for (int i = 0; i < STREAMS; i++) {
        kit_stream_read_head(&streams[i]);
        assert_string_equal(kit_stream_event(&streams[i]), "watch replayed");
    }
    for (int i = 0; i < STREAMS; i++) {
        assert_int_equal(read_numbers(&streams[i], 0, COUNT), COUNT);
        kit_stream_close(&streams[i]);
    }
}

/* ---- The bound for all clients together ---- */

/* The stream continues from the window: it loses nothing and repeats nothing. */
TEST(the_slowest_client_gives_way_and_loses_nothing, setup_crowded, teardown)
{
    enum {
        COUNT = 950 /* The window contains them all. */
    };

    struct kit_stream slow;
    struct kit_stream quick;

    create("/a");
    open_stream(&slow, "/watch/v1/a?mode=persistent&values=true", RECEIVE_BYTES);
    open_stream(&quick, "/watch/v1/a?mode=persistent&values=true", 0);
    for (int i = 0; i < COUNT; i++) {
        set_many("/a", i, 1);
        assert_int_equal(read_numbers(&quick, i, 1), i + 1);
        assert_true(budget_used(&gate->unsent) < ROOM_BYTES + 2 * DATA_BYTES);
    }
    assert_int_equal(read_numbers(&slow, 0, COUNT), COUNT);
    check_nothing_waits();
    set_many("/a", COUNT, 1);
    assert_int_equal(read_numbers(&slow, COUNT, 1), COUNT + 1);
    kit_stream_close(&slow);
    kit_stream_close(&quick);
}

/* Other clients' answers take all the room: events that a stream misses meanwhile come later. */
TEST(without_any_room_events_come_later, setup_crowded, teardown)
{
    struct kit_stream stream;

    create("/a");
    open_stream(&stream, "/watch/v1/a?mode=persistent&values=true", 0);
    budget_take(&gate->unsent, ROOM_BYTES);
    set_many("/a", 0, 20);
    assert_false(kit_stream_has_more(&stream));
    budget_give(&gate->unsent, ROOM_BYTES);
    assert_int_equal(read_numbers(&stream, 0, 20), 20);
    kit_stream_close(&stream);
}

/* A stream sends a difference whole or later; a client that resumes with one must try again. */
TEST(without_any_room_a_difference_comes_later, setup_crowded, teardown)
{
    struct kit_stream stream;
    struct kit_stream late;
    const char *event = NULL;

    create("/a");
    open_stream(&stream, "/watch/v1/a?mode=persistent&values=true", 0);
    budget_take(&gate->unsent, ROOM_BYTES);
    set_many("/a", 0, 2 * WINDOW_SETS);
    kit_stream_send(&late, kit_stream_connect(port, 0), port,
                    "/watch/v1/a?mode=recursive&values=true&since=0x100000001", "");
    kit_stream_read_head(&late);
    assert_int_equal(late.status, 429);
    kit_stream_close(&late);
    budget_give(&gate->unsent, ROOM_BYTES);
    assert_string_equal(kit_stream_event(&stream), "overrun");
    event = kit_stream_event(&stream);
    assert_non_null(strstr(event, " diff end"));
    assert_int_equal(number_of(&stream), 2 * WINDOW_SETS - 1);
    kit_stream_close(&stream);
}

/* For a client that reads nothing: kernels take some of the values, and the queue keeps the others.
 */
static void write_wide_values(void)
{
    char *data = mem_alloc(WIDE_DATA + 1);

    memset(data, 'w', WIDE_DATA);
    data[WIDE_DATA] = '\0';
    for (int i = 0; i < WIDE_SETS; i++) {
        assert_int_equal(front_ask("PUT", "/znodes/v1/a", "", data), 200);
    }
    mem_free(data);
}

/* While there is no room. False: the stream keeps so little that it may stay. */
static bool is_cut_off_without_room(long before)
{
    uint64_t end_ms = os_now_ms() + KIT_DEADLINE_MS;

    for (int i = 0;; i++) {
        uint64_t used = budget_used(&gate->unsent);

        if (metric("zabra_http_stream_slow_total") != before) {
            return true;
        }
        if (used < WIDE_BYTES + WIDE_REST) {
            return false;
        }
        assert_true(os_now_ms() < end_ms);
        set_many("/b", i, 1); /* Each event makes the server look for room. */
    }
}

/* Later events are dropped and sent later. An event that has begun must be completed: when there is
 * no room for it, the stream ends. Nothing else ends it: slowTimeout is PATIENCE_MS. */
static void check_cut_off(const char *accept)
{
    uint64_t end_ms = os_now_ms() + KIT_DEADLINE_MS;
    struct kit_stream slow;
    bool cut = false;

    while (!cut) {
        long before = metric("zabra_http_stream_slow_total");

        assert_true(os_now_ms() < end_ms);
        kit_stream_send(&slow, kit_stream_connect(port, RECEIVE_BYTES), port,
                        "/watch/v1/a?mode=persistent&values=true", accept);
        kit_stream_read_head(&slow);
        assert_int_equal(slow.status, 200);
        write_wide_values();
        budget_take(&gate->unsent, WIDE_BYTES);
        cut = is_cut_off_without_room(before);
        budget_give(&gate->unsent, WIDE_BYTES);
        kit_stream_close(&slow);
        check_nothing_waits();
    }
}

TEST(without_any_room_a_stream_is_cut_off_in_the_middle_of_an_event, setup_wide, teardown)
{
    struct kit_stream quick;

    create("/a");
    create("/b");
    open_stream(&quick, "/watch/v1/a?mode=persistent", 0);
    check_cut_off("Accept: text/event-stream\r\n");
    check_cut_off("Accept: application/x-ndjson\r\n");
    assert_string_equal(kit_stream_event(&quick),
                        "NodeDataChanged /a end"); /* This stream is still open. */
    kit_stream_close(&quick);
}

static bool is_another_cut_off(long before)
{
    uint64_t end_ms = os_now_ms() + CUT_MS;

    while (metric("zabra_http_stream_slow_total") == before) {
        if (os_now_ms() >= end_ms) {
            return false;
        }
        (void)poll(NULL, 0, 10);
    }
    return true;
}

/* Those of the writer and of the metrics request are left. */
static bool is_closed(void)
{
    uint64_t end_ms = os_now_ms() + CUT_MS;

    while (metric("zabra_http_connections") > 2) {
        if (os_now_ms() >= end_ms) {
            return false;
        }
        (void)poll(NULL, 0, 10);
    }
    return true;
}

/* Writes until a client that reads nothing receives no further event: its kernel takes no more. */
static void write_until_full(void)
{
    long sent = 0;
    int still = 0;

    while (still < FULL_LOOKS) {
        long before = sent;

        for (int i = 0; i < FULL_SETS; i++) {
            write_bytes("PUT", "/a", "", i, LARGE_BYTES);
        }
        (void)poll(NULL, 0, 20);
        sent = metric("zabra_http_stream_events_total");
        still = sent > 0 && sent == before ? still + 1 : 0;
    }
}

/* On a loaded machine the server's threads may get so little of the processor that the kernel takes
 * everything and the connection stays. That proves nothing, so the test tries again. */
TEST(a_client_that_never_reads_is_cut_off, setup_impatient, teardown)
{
    struct kit_stream slow;
    uint64_t end_ms = os_now_ms() + KIT_DEADLINE_MS;
    bool closed = false;

    create("/a");
    while (!closed) {
        long before = metric("zabra_http_stream_slow_total");

        open_stream(&slow, "/watch/v1/a?mode=persistent&values=true", RECEIVE_BYTES);
        while (metric("zabra_http_stream_slow_total") == before) {
            assert_true(os_now_ms() < end_ms);
            write_bytes("PUT", "/a", "", 0, LARGE_BYTES);
        }
        assert_int_equal(metric("zabra_http_streams"), 0);
        closed = is_closed();
        kit_stream_close(&slow);
    }
}

/* A server that is late at each look still cuts the client off in the end. */
TEST(an_often_paused_server_cuts_off_a_client_that_never_reads, setup_impatient, teardown)
{
    struct kit_stream slow;
    uint64_t end_ms = os_now_ms() + KIT_DEADLINE_MS;
    bool cut = false;

    create("/a");
    while (!cut) {
        assert_true(os_now_ms() < end_ms);
        open_stream(&slow, "/watch/v1/a?mode=persistent&values=true", RECEIVE_BYTES);
        write_until_full();
        if (metric("zabra_http_streams") == 0) { /* Cut off before the server is paused. */
            kit_stream_close(&slow);
            continue;
        }

        long before =
            metric("zabra_http_stream_slow_total"); /* Those that were cut off without a pause. */

        atomic_store(&gate->stand_ms, STAND_MS);
        cut = is_another_cut_off(before);
        atomic_store(&gate->stand_ms, 0);
        kit_stream_close(&slow);
    }
}
