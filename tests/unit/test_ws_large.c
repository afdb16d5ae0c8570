/* Large replies keep references to the values, and are encoded while they are sent: in order, with
 * the values as they were when they were read, and bounded together with everything else that
 * waits. */
#include "base/base64.h"
#include "tests/unit/ws_kit.h"

enum {
    ROOM_BYTES = 256 << 10, /* maxUnsentBytes. */
    QUEUE_BYTES = 64 << 20, /* Of one socket: large enough not to matter. */
    VALUE_BYTES = 60000,    /* Above TEXT_REF_MIN. */
    PAIRS = 10,             /* Gets of each of two values in a large read: more than 1 MiB. */
    CHANGES = 3,
    SOCKETS = 4,
    NUMBER_BYTES = 16,
    RECEIVE_BYTES = 16 << 10,
    PATIENT_MS = 100000,
    FEW = 20
};

static void setup(struct fixture *fixture)
{
    kit_choice.slow_timeout_ms = PATIENT_MS;
    kit_choice.queue_bytes = QUEUE_BYTES;
    kit_choice.unsent_bytes = ROOM_BYTES;
    kit_choice.data_bytes = 2 * VALUE_BYTES;
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

static struct socket *open_narrow(const struct fixture *fixture)
{
    static const struct socket_options narrow = {.receive_bytes = RECEIVE_BYTES};
    struct socket *socket = socket_open(kit_port(fixture->http), &narrow);

    json_decref(socket_event(socket, "hello", SOCKET_TIMEOUT_MS));
    return socket;
}

/* ---- Values ---- */

/* Valid UTF-8, with everything that JSON escapes and characters of several bytes. */
static json_t *make_value(char first)
{
    static const char part[] =
        "a \"quoted\" \\ line\n\t\x01 \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80;";
    char *text = mem_alloc(VALUE_BYTES + 1);
    json_t *value = NULL;
    size_t len = 0;

    text[len++] = first;
    while (len + sizeof(part) <= VALUE_BYTES) {
        memcpy(text + len, part, sizeof(part) - 1);
        len += sizeof(part) - 1;
    }
    text[len] = '\0';
    value = json_string(text);
    assert_non_null(value);
    mem_free(text);
    return value;
}

/* In base64; the bytes are not UTF-8. */
static json_t *make_bytes(void)
{
    uint8_t *bytes = mem_alloc(VALUE_BYTES);
    struct buf text;
    json_t *value = NULL;

    for (size_t i = 0; i < VALUE_BYTES; i++) {
        bytes[i] = (uint8_t)(0xff - i % 251);
    }
    buf_init(&text, 2 * VALUE_BYTES);
    base64_encode(&text, slice_make(bytes, VALUE_BYTES));
    value = json_string(buf_cstr(&text));
    assert_non_null(value);
    buf_release(&text);
    mem_free(bytes);
    return value;
}

static void put(struct fixture *fixture, const char *op, const char *path, const char *member,
                json_t *value)
{
    size_t len = json_dumpb(value, NULL, 0, JSON_ENCODE_ANY);
    char *text = mem_zalloc(1, len + 1);

    assert_int_equal(json_dumpb(value, text, len, JSON_ENCODE_ANY), len);
    check_reply(fixture,
                socket_request(fixture->socket, "\"op\":\"%s\",\"path\":\"%s\",\"%s\":%s", op, path,
                               member, text),
                "");
    mem_free(text);
}

struct values {
    json_t *text;
    json_t *bytes;
    json_t *number;
};

/* /text, /bytes and /number. */
static void create_all(struct fixture *fixture, struct values *ret_values)
{
    *ret_values =
        (struct values){.text = make_value('1'), .bytes = make_bytes(), .number = json_string("0")};
    put(fixture, "create", "/text", "dataUtf8", ret_values->text);
    put(fixture, "create", "/bytes", "data64", ret_values->bytes);
    put(fixture, "create", "/number", "dataUtf8", ret_values->number);
}

static void values_release(struct values *values)
{
    json_decref(values->text);
    json_decref(values->bytes);
    json_decref(values->number);
}

/* ---- Reads ---- */

static uint64_t ask(struct socket *socket, const char *path)
{
    return socket_request(socket, "\"op\":\"get\",\"path\":\"%s\"", path);
}

static uint64_t ask_much(struct socket *socket)
{
    static const char pair[] =
        "{\"op\":\"get\",\"path\":\"/text\"},{\"op\":\"get\",\"path\":\"/bytes\"}";
    char gets[PAIRS * sizeof(pair)] = "";

    for (size_t i = 0; i < PAIRS; i++) {
        size_t len = strlen(gets);

        (void)snprintf(gets + len, sizeof(gets) - len, "%s%s", i > 0 ? "," : "", pair);
    }
    return socket_request(socket, "\"op\":\"multi\",\"ops\":[%s]", gets);
}

static void check_value(const json_t *object, const char *member, const json_t *value)
{
    assert_true(json_equal(json_object_get(object, member), value));
}

/* The next message of any kind. */
static json_t *next_reply(struct socket *socket, uint64_t id)
{
    json_t *reply = socket_next(socket, SOCKET_TIMEOUT_MS);

    assert_non_null(reply);
    assert_int_equal(json_integer_value(json_object_get(reply, "id")), id);
    assert_true(json_is_true(json_object_get(reply, "ok")));
    return reply;
}

static void check_get(struct socket *socket, uint64_t id, const char *member, const json_t *value)
{
    json_t *reply = next_reply(socket, id);

    check_value(reply, member, value);
    json_decref(reply);
}

static void check_much(struct socket *socket, uint64_t id, const struct values *values)
{
    json_t *reply = next_reply(socket, id);
    const json_t *results = json_object_get(reply, "results");

    assert_int_equal(json_array_size(results), 2 * PAIRS);
    for (size_t i = 0; i < PAIRS; i++) {
        check_value(json_array_get(results, 2 * i), "dataUtf8", values->text);
        check_value(json_array_get(results, 2 * i + 1), "data64", values->bytes);
    }
    json_decref(reply);
}

/* A reply with both values, which the kernel does not take. */
static bool both_wait(const struct fixture *fixture)
{
    return budget_used(&fixture->gate->unsent) > 3 * VALUE_BYTES / 2;
}

/* ---- Tests ---- */

static void watch_number(struct socket *socket)
{
    json_t *reply = socket_call(socket, "\"op\":\"watch\",\"path\":\"/number\",\"kind\":"
                                        "\"persistent\",\"values\":true");

    assert_true(json_is_true(json_object_get(reply, "ok")));
    json_decref(reply);
}

static void set_number(struct fixture *fixture, int number)
{
    char text[NUMBER_BYTES];
    json_t *value = NULL;

    (void)snprintf(text, sizeof(text), "%d", number);
    value = json_string(text);
    put(fixture, "set", "/number", "dataUtf8", value);
    json_decref(value);
}

static void check_event(struct socket *socket, int number)
{
    json_t *event = socket_next(socket, SOCKET_TIMEOUT_MS);
    const char *text = json_string_value(json_object_get(event, "dataUtf8"));
    char expected[NUMBER_BYTES];

    assert_non_null(text);
    (void)snprintf(expected, sizeof(expected), "%d", number);
    assert_string_equal(text, expected);
    json_decref(event);
}

/* Among small replies and events, to a client that begins to read when everything has happened. */
TEST(a_large_reply_arrives_in_its_place, fixture, setup, check_and_teardown)
{
    struct socket *slow = open_narrow(fixture);
    struct values values;
    uint64_t ids[4];

    create_all(fixture, &values);
    watch_number(slow);
    ids[0] = ask(slow, "/number");
    ids[1] = ask_much(slow);
    ids[2] = ask(slow, "/text");
    ids[3] = ask(slow, "/number");
    assert_true(socket_all_sent(slow));
    wait_until(both_wait, fixture);
    for (int i = 1; i <= CHANGES; i++) {
        set_number(fixture, i);
    }
    assert_true(budget_used(&fixture->gate->unsent) < 3 * VALUE_BYTES); /* Not the encoded text. */
    check_get(slow, ids[0], "dataUtf8", values.number);
    check_much(slow, ids[1], &values);
    for (int i = 1; i <= CHANGES; i++) {
        check_event(slow, i);
    }
    check_get(slow, ids[2], "dataUtf8", values.text);
    json_decref(next_reply(slow, ids[3]));
    assert_int_equal(socket_waiting(slow), 0);
    values_release(&values);
    socket_close(slow);
}

/* Waiting replies show the values as they were, and the values count until they are sent. */
TEST(replaced_values_count_and_arrive, fixture, setup, check_and_teardown)
{
    struct socket *slow = open_narrow(fixture);
    json_t *newer = make_value('2');
    struct values values;
    uint64_t ids[2];

    create_all(fixture, &values);
    ids[0] = ask_much(slow);
    assert_true(socket_all_sent(slow));
    wait_until(both_wait, fixture);
    put(fixture, "set", "/text", "dataUtf8", newer);
    check_reply(fixture, socket_request(fixture->socket, "\"op\":\"delete\",\"path\":\"/bytes\""),
                "");
    assert_true(both_wait(fixture));
    ids[1] = ask(slow, "/text");
    check_much(slow, ids[0], &values);
    check_get(slow, ids[1], "dataUtf8", newer);
    values_release(&values);
    json_decref(newer);
    socket_close(slow);
}

/* However many sockets wait for it. */
TEST(a_value_counts_once_for_all_sockets, fixture, setup, check_and_teardown)
{
    struct socket *sockets[SOCKETS];
    struct values values;

    create_all(fixture, &values);
    for (size_t i = 0; i < SOCKETS; i++) {
        sockets[i] = open_narrow(fixture);
        (void)ask_much(sockets[i]);
        assert_true(socket_all_sent(sockets[i]));
    }
    wait_until(both_wait, fixture);
    wait_for_quiet();
    assert_true(both_wait(fixture));
    assert_true(budget_used(&fixture->gate->unsent) < 3 * VALUE_BYTES);
    for (size_t i = 0; i < SOCKETS; i++) {
        socket_close(sockets[i]);
    }
    values_release(&values);
}

/* Some room is left, but less than the value needs. */
TEST(a_value_without_room_is_refused, fixture, setup, check_and_teardown)
{
    struct values values;
    json_t *reply = NULL;

    create_all(fixture, &values);
    budget_take(&fixture->gate->unsent, ROOM_BYTES - VALUE_BYTES / 2);
    reply = socket_call(fixture->socket, "\"op\":\"get\",\"path\":\"/text\"");
    assert_int_equal(json_integer_value(json_object_get(json_object_get(reply, "error"), "status")),
                     429);
    assert_non_null(json_object_get(json_object_get(reply, "error"), "retry_after_ms"));
    json_decref(reply);
    check_reply(fixture, ask_much(fixture->socket), "ThrottledOp");
    check_reply(fixture,
                socket_request(fixture->socket, "\"op\":\"get\",\"path\":\"/text\",\"watch\":true"),
                "ThrottledOp");
    assert_int_equal(counter("\nzabra_ws_unsent_refused_total "), 3);
    check_reply(fixture, ask(fixture->socket, "/number"), "");
    put(fixture, "set", "/text", "dataUtf8", values.text); /* A write that was done is confirmed. */
    assert_null(socket_event(fixture->socket, "NodeDataChanged", 0)); /* No watch was set. */
    budget_give(&fixture->gate->unsent, ROOM_BYTES - VALUE_BYTES / 2);
    check_get(fixture->socket, ask(fixture->socket, "/text"), "dataUtf8", values.text);
    values_release(&values);
}

/* What waits for the slow client leaves the budget short, not full: the refused client asks again,
 * and finds the room that the slow one has lost. */
TEST(a_refusal_closes_the_slowest_client, fixture, setup, check_and_teardown)
{
    struct socket *slow = open_narrow(fixture);
    uint64_t end_ms = os_now_ms() + KIT_DEADLINE_MS;
    struct values values;
    uint32_t refused = 0;
    json_t *reply = NULL;

    create_all(fixture, &values);
    (void)ask_much(slow);
    assert_true(socket_all_sent(slow));
    wait_until(both_wait, fixture);
    budget_take(&fixture->gate->unsent, ROOM_BYTES - 5 * VALUE_BYTES / 2);
    put(fixture, "create", "/more", "dataUtf8", values.text);
    do {
        refused += reply ? 1 : 0;
        json_decref(reply);
        reply = socket_call(fixture->socket, "\"op\":\"get\",\"path\":\"/more\"");
        (void)poll(NULL, 0, 10);
    } while (!json_is_true(json_object_get(reply, "ok")) && os_now_ms() < end_ms);
    check_value(reply, "dataUtf8", values.text);
    json_decref(reply);
    assert_true(refused > 0);
    assert_int_equal(counter("\nzabra_ws_closed_total{code=\"4508\"} "), 1);
    budget_give(&fixture->gate->unsent, ROOM_BYTES - 5 * VALUE_BYTES / 2);
    values_release(&values);
    socket_close(slow);
}

TEST(a_client_that_disconnects_leaves_nothing, fixture, setup, check_and_teardown)
{
    struct socket *slow = open_narrow(fixture);
    struct values values;

    create_all(fixture, &values);
    (void)ask_much(slow);
    assert_true(socket_all_sent(slow));
    wait_until(both_wait, fixture);
    socket_close(slow);
    wait_until(nothing_waits, fixture);
    values_release(&values);
}
