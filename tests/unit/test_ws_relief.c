/* When too much waits for all clients: the slowest lose their events first, and receive all of them
 * later; no watcher stays silent, and nothing is counted for ever. */
#include "tests/unit/ws_kit.h"

enum {
    ROOM_BYTES = 128 << 10, /* maxUnsentBytes. */
    QUEUE_BYTES = 64 << 20, /* Of one socket: large enough not to matter. */
    DATA_LEN = 1000,
    LARGE_LEN = 4000,
    LOOKS = 100,   /* A millisecond apart. */
    GETS = 8,      /* In a large read. */
    CHANGES = 700, /* The window has them all. */
    RECEIVE_BYTES = 16 << 10,
    PATIENT_MS = 100000,
    FEW = 20,
    SLOW = 4508
};

static void setup(struct fixture *fixture)
{
    kit_choice.slow_timeout_ms = PATIENT_MS;
    kit_choice.queue_bytes = QUEUE_BYTES;
    kit_choice.unsent_bytes = ROOM_BYTES;
    setup_with(fixture, FEW, 10000);
}

static bool nothing_waits(const struct fixture *fixture)
{
    return budget_used(&fixture->gate->unsent) == 0;
}

/* After each test nothing waits. */
static void check_and_teardown(struct fixture *fixture)
{
    wait_until(nothing_waits, fixture);
    teardown(fixture);
}

static const struct socket_options narrow = {.receive_bytes = RECEIVE_BYTES};

static struct socket *open_narrow(const struct fixture *fixture)
{
    struct socket *socket = socket_open(kit_port(fixture->http), &narrow);

    json_decref(socket_event(socket, "hello", SOCKET_TIMEOUT_MS));
    return socket;
}

static void watch(struct socket *socket, const char *path, const char *kind)
{
    json_t *reply = socket_call(
        socket, "\"op\":\"watch\",\"path\":\"%s\",\"kind\":\"%s\",\"values\":true", path, kind);

    assert_true(json_is_true(json_object_get(reply, "ok")));
    json_decref(reply);
}

static void create(struct fixture *fixture, const char *path)
{
    check_reply(fixture, socket_request(fixture->socket, "\"op\":\"create\",\"path\":\"%s\"", path),
                "");
}

static void set_number(struct fixture *fixture, const char *path, int number, int len)
{
    char data[LARGE_LEN + 1];

    (void)snprintf(data, sizeof(data), "%0*d", len, number);
    check_reply(fixture,
                socket_request(fixture->socket,
                               "\"op\":\"set\",\"path\":\"%s\",\"dataUtf8\":\"%s\"", path, data),
                "");
}

static uint64_t ask_much(struct socket *socket)
{
    char gets[GETS * 32] = "";

    for (size_t i = 0; i < GETS; i++) {
        size_t len = strlen(gets);

        (void)snprintf(gets + len, sizeof(gets) - len, "%s{\"op\":\"get\",\"path\":\"/a\"}",
                       i > 0 ? "," : "");
    }
    return socket_request(socket, "\"op\":\"multi\",\"ops\":[%s]", gets);
}

static int number_of(const json_t *event)
{
    int number = -1;
    const char *data = json_string_value(json_object_get(event, "dataUtf8"));

    assert_non_null(data);
    assert_int_equal(sscanf(data, "%d", &number), 1);
    return number;
}

/* Expects each change once and in order; returns how often the client was overrun. */
static int read_numbers(struct socket *socket, int from, int count)
{
    int overruns = 0;

    for (int next = from; next < from + count;) {
        json_t *event = socket_event(socket, NULL, SOCKET_TIMEOUT_MS);
        const char *name = json_string_value(json_object_get(event, "event"));

        assert_non_null(event);
        if (strcmp(name, "NodeDataChanged") == 0) {
            assert_null(json_object_get(event, "diff"));
            assert_int_equal(number_of(event), next++);
        } else if (strcmp(name, "overrun") == 0) {
            overruns++;
        } else {
            assert_string_equal(name, "heartbeat");
        }
        json_decref(event);
    }
    return overruns;
}

TEST(the_slowest_client_gives_way_and_loses_nothing, fixture, setup, check_and_teardown)
{
    struct socket *slow = open_narrow(fixture);
    struct socket *quick = open_socket(fixture);

    create(fixture, "/a");
    watch(slow, "/a", "persistent");
    watch(quick, "/a", "persistent");
    for (int i = 0; i < CHANGES; i++) {
        set_number(fixture, "/a", i, DATA_LEN);
        assert_int_equal(read_numbers(quick, i, 1), 0);
        assert_true(budget_used(&fixture->gate->unsent) < ROOM_BYTES + 4 * DATA_LEN);
    }
    assert_true(read_numbers(slow, 0, CHANGES) > 0);
    wait_until(nothing_waits, fixture);
    set_number(fixture, "/a", CHANGES, DATA_LEN);
    assert_int_equal(read_numbers(slow, CHANGES, 1), 0);
    socket_close(slow);
    socket_close(quick);
}

/* The events of three watches of a socket: /n0 twice, and /n1. */
static void take_event(int taken[3], const json_t *event)
{
    const json_t *ids = json_object_get(event, "watches");

    for (size_t i = 0; i < json_array_size(ids); i++) {
        json_int_t id = json_integer_value(json_array_get(ids, i));

        assert_in_range(id, 1, 3);
        assert_int_equal(number_of(event), taken[id - 1]++);
    }
}

/* Watches of one socket share events, lose them together, and receive them again one by one. */
TEST(each_watch_continues_from_its_place, fixture, setup, check_and_teardown)
{
    struct socket *slow = open_narrow(fixture);
    int taken[3] = {0, 0, 0};

    create(fixture, "/n0");
    create(fixture, "/n1");
    watch(slow, "/n0", "persistent");
    watch(slow, "/n0", "recursive");
    watch(slow, "/n1", "persistent");
    for (int i = 0; i < CHANGES; i++) {
        set_number(fixture, i % 2 == 0 ? "/n0" : "/n1", i / 2, DATA_LEN);
    }
    assert_true(counter("\nzabra_ws_overruns_total ") > 0);
    while (taken[0] + taken[1] + taken[2] < 3 * CHANGES / 2) {
        json_t *event = socket_event(slow, "NodeDataChanged", SOCKET_TIMEOUT_MS);

        assert_non_null(event);
        take_event(taken, event);
        json_decref(event);
    }
    socket_close(slow);
}

/* Other clients' answers take all the room. */
TEST(without_any_room_events_come_later, fixture, setup, check_and_teardown)
{
    struct socket *socket = open_socket(fixture);

    create(fixture, "/a");
    watch(socket, "/a", "persistent");
    budget_take(&fixture->gate->unsent, ROOM_BYTES);
    for (int i = 0; i < FEW; i++) {
        set_number(fixture, "/a", i, DATA_LEN);
    }
    json_decref(socket_event(socket, "overrun", SOCKET_TIMEOUT_MS));
    assert_null(socket_event(socket, "NodeDataChanged", 100));
    budget_give(&fixture->gate->unsent, ROOM_BYTES);
    (void)read_numbers(socket, 0, FEW);
    socket_close(socket);
}

/* The event of a one-shot watch is its only one. */
TEST(without_any_room_one_shot_watches_still_fire, fixture, setup, check_and_teardown)
{
    struct socket *socket = open_socket(fixture);

    create(fixture, "/a");
    watch(socket, "/a", "data");
    budget_take(&fixture->gate->unsent, ROOM_BYTES);
    set_number(fixture, "/a", 0, DATA_LEN);
    assert_int_equal(read_numbers(socket, 0, 1), 0);
    budget_give(&fixture->gate->unsent, ROOM_BYTES);
    socket_close(socket);
}

TEST(without_any_room_large_reads_are_refused, fixture, setup, check_and_teardown)
{
    create(fixture, "/a");
    create(fixture, "/b");
    set_number(fixture, "/a", 0, LARGE_LEN);
    set_number(fixture, "/b", 0, DATA_LEN);
    budget_take(&fixture->gate->unsent, ROOM_BYTES);
    check_reply(fixture, ask_much(fixture->socket), "ThrottledOp");
    check_reply(fixture, socket_request(fixture->socket, "\"op\":\"get\",\"path\":\"/b\""), "");
    set_number(fixture, "/a", 1, LARGE_LEN); /* A write that was done is confirmed. */
    budget_give(&fixture->gate->unsent, ROOM_BYTES);
    check_reply(fixture, ask_much(fixture->socket), "");
}

static bool one_waits(const struct fixture *fixture)
{
    return budget_used(&fixture->gate->unsent) >= ROOM_BYTES / 4;
}

/* Until replies wait that neither the client nor the kernel takes: what has just been queued may
 * still move into the kernel. */
static void ask_until_it_waits(const struct fixture *fixture, struct socket *slow)
{
    for (int looks = 0; looks < LOOKS; looks++) {
        if (!one_waits(fixture)) {
            (void)ask_much(slow);
            (void)socket_all_sent(slow);
            looks = 0;
        }
        (void)poll(NULL, 0, 1);
    }
}

static bool one_is_closed(const struct fixture *fixture)
{
    (void)fixture;
    return counter("\nzabra_ws_closed_total{code=\"4508\"} ") > 0;
}

TEST(replies_that_take_the_room_end_their_socket, fixture, setup, check_and_teardown)
{
    struct socket *slow = open_narrow(fixture);

    create(fixture, "/a");
    set_number(fixture, "/a", 0, LARGE_LEN);
    ask_until_it_waits(fixture, slow);
    budget_take(&fixture->gate->unsent, ROOM_BYTES);
    wait_until(one_is_closed, fixture);
    budget_give(&fixture->gate->unsent, ROOM_BYTES);
    check_reply(fixture, socket_request(fixture->socket, "\"op\":\"ping\""), "");
    socket_close(slow);
}

TEST(a_client_that_disconnects_leaves_nothing, fixture, setup, check_and_teardown)
{
    struct socket *slow = open_narrow(fixture);

    create(fixture, "/a");
    watch(slow, "/a", "persistent");
    for (int i = 0; budget_used(&fixture->gate->unsent) < ROOM_BYTES / 4; i++) {
        set_number(fixture, "/a", i, DATA_LEN);
    }
    socket_close(slow);
    wait_until(nothing_waits, fixture);
}
