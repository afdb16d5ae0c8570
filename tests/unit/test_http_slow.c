/* Streams whose clients do not read: what it costs them, and that it costs nobody else. */
#include "tests/lib/stream_kit.h"
#include "tests/unit/http_front.h"

enum {
    DATA_BYTES = 1024,
    RECEIVE_BYTES = 4096,
    PATIENCE_MS = 600000, /* Where it is not the point how long a client reads nothing. */
    WINDOW_SETS = 1000,   /* As the kit has it. */
    SLOW_MS = 1500,       /* Patience where it is; a server stands still for longer than that. */
    STAND_MS = 1800,
    CUT_MS = 20000, /* By then whoever is slow is cut off: several times the patience. */
    LARGE_BYTES = 4096,
    FULL_SETS = 16,
    FULL_LOOKS = 5,         /* At which nothing more was told. */
    ROOM_BYTES = 384 << 10, /* maxUnsentBytes, where what waits in sum is the point. */
    WIDE_BYTES = 16 << 20,  /* The same, for events that are larger than kernels keep. */
    WIDE_DATA = 60000,
    WIDE_SETS = 40,
    WIDE_REST = 8 << 10 /* Of an event; a stream that keeps less may be left alone. */
};

static int writer; /* A connection that is kept. */

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

/* The sum is what is short, and not the room of one stream. */
static void setup_crowded(void)
{
    start_crowded(ROOM_BYTES);
}

static void setup_wide(void)
{
    start_crowded(WIDE_BYTES);
}

/* Whatever has happened: when all streams are gone nothing waits. */
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
    assert_string_equal(kit_stream_told(stream), "watch fresh");
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

/* Each is told, in order, from `from` on; returns what comes behind. */
static int read_numbers(struct kit_stream *stream, int from, int count)
{
    for (int i = 0; i < count; i++) {
        const char *told = kit_stream_told(stream);

        assert_non_null(told);
        if (strncmp(told, "NodeDataChanged", 15) != 0 || strstr(told, " diff")) {
            return from + i;
        }
        assert_int_equal(number_of(stream), from + i);
    }
    return from + count;
}

/* The window still has what did not fit. */
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
        assert_int_equal(read_numbers(&quick, i, 1), i + 1); /* Is not kept waiting. */
    }
    assert_int_equal(read_numbers(&slow, 0, COUNT), COUNT);
    set_many("/a", COUNT, 1);
    assert_int_equal(read_numbers(&slow, COUNT, 1), COUNT + 1);
    assert_int_equal(metric("zabra_http_stream_overruns_total"), 0);
    kit_stream_close(&slow);
    kit_stream_close(&quick);
}

/* The window has moved on: what is left to tell is told as a difference, and that it is one. */
TEST(a_reader_that_stops_for_long_is_told_of_the_overrun, setup, teardown)
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
        assert_non_null(strstr(kit_stream_told(&slow), " diff end"));
        assert_true(number_of(&slow) >= next);
        next = number_of(&slow) + 1;
        next = read_numbers(&slow, next, COUNT - next);
        overruns++;
    }
    assert_true(overruns > 0); /* Once, unless the server itself stood still in between. */
    set_many("/a", COUNT, 3);
    assert_int_equal(read_numbers(&slow, COUNT, 3), COUNT + 3);
    assert_int_equal(metric("zabra_http_stream_overruns_total"), overruns);
    assert_int_equal(metric("zabra_http_stream_gaps_total"), 0);
    kit_stream_close(&slow);
}

/* Takes what is told of znodes that were made until it is the one of that name; false: a gap. */
static bool is_told_of(struct kit_stream *stream, const char *name)
{
    const char *told = kit_stream_told(stream);

    while (strncmp(told, "NodeCreated", 11) == 0) {
        if (strstr(told, name)) {
            return true;
        }
        told = kit_stream_told(stream);
    }
    assert_string_equal(kit_stream_member(stream, "event"), "gap");
    assert_string_not_equal(kit_stream_id(stream), ""); /* From here on all is told. */
    return false;
}

/* A difference larger than a queue is no use to somebody who is slow. */
TEST(what_is_too_much_to_tell_is_a_gap, setup, teardown)
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
    do { /* Another gap only if the server itself stood still in between. */
        gaps++;
        (void)snprintf(path, sizeof(path), "/a/mark-%d", gaps);
        create(path);
    } while (!is_told_of(&slow, path));
    assert_true(gaps > 0);
    set_many("/a", 0, 3);
    assert_int_equal(read_numbers(&slow, 0, 3), 3);
    assert_int_equal(metric("zabra_http_stream_gaps_total"), gaps);
    kit_stream_close(&slow);
}

TEST(a_resumption_that_is_too_much_is_a_gap_from_the_start, setup, teardown)
{
    struct kit_stream stream;
    char path[32];

    create("/a");
    for (int i = 0; i < 2 * WINDOW_SETS; i++) {
        (void)snprintf(path, sizeof(path), "/a/%d", i);
        create(path);
    }
    kit_stream_open(&stream, port, "/watch/v1/a?mode=recursive&since=0x100000001", "");
    assert_string_equal(kit_stream_told(&stream), "watch gap");
    create("/a/new");
    assert_string_equal(kit_stream_told(&stream), "NodeCreated /a/new end");
    kit_stream_close(&stream);
}

/* As when a replica has died and its clients come to the others. */
TEST(many_resume_at_once, setup, teardown)
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
        assert_string_equal(kit_stream_told(&streams[i]), "watch replayed");
    }
    for (int i = 0; i < STREAMS; i++) {
        assert_int_equal(read_numbers(&streams[i], 0, COUNT), COUNT);
        kit_stream_close(&streams[i]);
    }
}

/* ---- What waits for all of them ---- */

/* It goes on from the window: nothing is lost, and nothing comes twice. */
TEST(the_slowest_gives_way_and_loses_nothing, setup_crowded, teardown)
{
    enum {
        COUNT = 950 /* The window has them all. */
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

/* Other clients' answers take all there is: what a stream misses meanwhile comes later. */
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

/* A difference is told as a whole or later; a client that resumes with one is to try again. */
TEST(without_any_room_a_difference_comes_later, setup_crowded, teardown)
{
    struct kit_stream stream;
    struct kit_stream late;
    const char *told = NULL;

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
    assert_string_equal(kit_stream_told(&stream), "overrun");
    told = kit_stream_told(&stream);
    assert_non_null(strstr(told, " diff end"));
    assert_int_equal(number_of(&stream), 2 * WINDOW_SETS - 1);
    kit_stream_close(&stream);
}

/* To somebody who reads nothing: kernels take some of them, and the queue keeps the others. */
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

/* While there is no room. False: what the stream keeps is so little that it may stay. */
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
        set_many("/b", i, 1); /* Each event is a reason to look for room. */
    }
}

/* What comes later is thrown away and told later. An event that has begun must go on: when there is
 * no room for it the stream ends. Nothing else ends it: it may be slow for PATIENCE_MS. */
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

TEST(without_any_room_a_stream_in_the_middle_of_an_event_is_cut_off, setup_wide, teardown)
{
    struct kit_stream quick;

    create("/a");
    create("/b");
    open_stream(&quick, "/watch/v1/a?mode=persistent", 0);
    check_cut_off("Accept: text/event-stream\r\n");
    check_cut_off("Accept: application/x-ndjson\r\n");
    assert_string_equal(kit_stream_told(&quick), "NodeDataChanged /a end"); /* It is still there. */
    kit_stream_close(&quick);
}

static bool is_another_cut_off(long before)
{
    uint64_t end_ms = os_now_ms() + CUT_MS;

    while (metric("zabra_http_stream_slow_total") == before) {
        if (os_now_ms() >= end_ms) {
            return false;
        }
        (void)poll(NULL, 0, 1);
    }
    return true;
}

/* The writer's is left, and that of who asks. */
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

/* Until nothing more is told to somebody who reads nothing: the kernel keeps no more for it. */
static void write_until_full(void)
{
    long told = 0;
    int still = 0;

    while (still < FULL_LOOKS) {
        long before = told;

        for (int i = 0; i < FULL_SETS; i++) {
            write_bytes("PUT", "/a", "", i, LARGE_BYTES);
        }
        (void)poll(NULL, 0, 20);
        told = metric("zabra_http_stream_events_total");
        still = told > 0 && told == before ? still + 1 : 0;
    }
}

/* Where the server's threads have so little of the processor that they seem to be a client that
 * does not read, the kernel takes all and the connection is left: that proves nothing, and is tried
 * again. */
TEST(whoever_never_reads_is_cut_off, setup_impatient, teardown)
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

/* A server is late at each look, and does not wait for ever all the same. */
TEST(whoever_never_reads_is_cut_off_by_a_server_that_often_stands_still, setup_impatient, teardown)
{
    struct kit_stream slow;
    uint64_t end_ms = os_now_ms() + KIT_DEADLINE_MS;
    bool cut = false;

    create("/a");
    while (!cut) {
        assert_true(os_now_ms() < end_ms);
        open_stream(&slow, "/watch/v1/a?mode=persistent&values=true", RECEIVE_BYTES);
        write_until_full();
        if (metric("zabra_http_streams") == 0) { /* Cut off before it stands still. */
            kit_stream_close(&slow);
            continue;
        }

        long before = metric("zabra_http_stream_slow_total"); /* By now: without standing still. */

        atomic_store(&gate->stand_ms, STAND_MS);
        cut = is_another_cut_off(before);
        atomic_store(&gate->stand_ms, 0);
        kit_stream_close(&slow);
    }
}
