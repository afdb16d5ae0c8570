/* The bodies of all requests together have one bound: what it refuses, what passes, and that all of
 * it is released. */
#include "http/http_int.h"
#include "tests/unit/http_front.h"

enum {
    BODY_MAX = 256 << 10,
    HELD_BYTES = 100 << 10, /* Of a body that does not end. */
    SMALL_BYTES = 8 << 10,
    LARGE_BYTES = 100 << 10,
    HOLDERS = 3,
    ROOM =
        HOLDERS * 2 * HELD_BYTES + (64 << 10), /* A buffer may be twice as large as its content. */
    LEFT = 40 << 10,
    LINES = 4000
};

static void change(struct config_clients *limits)
{
    limits->multi_bytes_max = BODY_MAX;
    limits->body_timeout_ms = KIT_DEADLINE_MS;
}

static void setup(void)
{
    front_start_with(change);
    http->bodies.budget.max = ROOM;
}

static void setup_for_one_address(void)
{
    setup();
    http->bodies.budget.max = 2 * ROOM;
    http->bodies.address_max = ROOM;
}

static void await_used(uint64_t bytes)
{
    uint64_t end_ms = os_now_ms() + KIT_DEADLINE_MS;

    while (budget_used(&http->bodies.budget) != bytes) {
        assert_true(os_now_ms() < end_ms);
        (void)poll(NULL, 0, 1);
    }
}

static void teardown(void)
{
    await_used(0);
    front_teardown();
}

/* A multi that reads one znode, padded with spaces to that length. */
static void send_multi(int fd, size_t len, size_t sent)
{
    static const char json[] = "{\"ops\":[{\"op\":\"get\",\"path\":\"/zookeeper\"}]}";
    char head[256];
    char *body = mem_alloc(len);

    memset(body, ' ', len);
    memcpy(body, json, sizeof(json) - 1);
    (void)snprintf(head, sizeof(head),
                   "POST /multi/v1 HTTP/1.1\r\nHost: localhost\r\n"
                   "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                   len);
    kit_send(fd, head);
    kit_send_bytes(fd, body, sent);
    mem_free(body);
}

/* On a connection that is used again: 429 does not end it. */
static int ask(int fd, size_t len)
{
    struct kit_answer answer;
    int status = 0;

    send_multi(fd, len, len);
    answer = kit_read(fd, false);
    status = answer.status;
    if (status == 429) {
        assert_true(kit_body_has(&answer, "request bodies"));
        assert_true(kit_body_has(&answer, "ThrottledOp"));
        assert_string_equal(kit_header(&answer, "Retry-After"), "1");
    }
    kit_free(&answer);
    return status;
}

/* Sends bodies that do not end; returns what they take. */
static uint64_t hold_room(int *fds)
{
    uint64_t end_ms = os_now_ms() + KIT_DEADLINE_MS;

    for (uint64_t i = 0; i < HOLDERS; i++) {
        uint64_t before = budget_used(&http->bodies.budget);

        fds[i] = kit_connect(port);
        send_multi(fds[i], HELD_BYTES + 1, HELD_BYTES);
        while (budget_used(&http->bodies.budget) <= before + HELD_BYTES) {
            assert_true(os_now_ms() < end_ms);
            (void)poll(NULL, 0, 1);
        }
    }
    return budget_used(&http->bodies.budget);
}

static void drop_room(const int *fds)
{
    for (int i = 0; i < HOLDERS; i++) {
        close(fds[i]);
    }
    await_used(0);
}

static void check_metric(const char *name, uint64_t value)
{
    struct kit_answer answer = kit_ask(port, "GET", "/metrics", "", NULL);
    char line[96];

    (void)snprintf(line, sizeof(line), "\n%s %llu\n", name, (unsigned long long)value);
    assert_true(kit_body_has(&answer, line));
    kit_free(&answer);
}

TEST(unfinished_bodies_have_one_bound, setup, teardown)
{
    int fds[HOLDERS];
    int fd = kit_connect(port);
    uint64_t held = 0;

    held = hold_room(fds);
    check_metric("zabra_http_body_bytes", held);
    budget_take(&http->bodies.budget, ROOM - held - LEFT);
    check_metric("zabra_http_body_refused_total", 0);
    assert_int_equal(ask(fd, LARGE_BYTES), 429);
    assert_int_equal(ask(fd, BODY_MAX), 429);
    assert_int_equal(budget_used(&http->bodies.budget), ROOM - LEFT);
    check_metric("zabra_http_body_refused_total", 2);
    assert_int_equal(ask(fd, SMALL_BYTES), 200);
    budget_give(&http->bodies.budget, ROOM - held - LEFT);
    drop_room(fds);
    assert_int_equal(ask(fd, LARGE_BYTES), 200);
    close(fd);
}

/* Other addresses still have room, which this one cannot use. */
TEST(one_address_gets_only_a_part_of_the_room, setup_for_one_address, teardown)
{
    int fds[HOLDERS];
    int fd = kit_connect(port);

    (void)hold_room(fds);
    assert_int_equal(ask(fd, LARGE_BYTES), 429);
    assert_int_equal(ask(fd, SMALL_BYTES), 200);
    drop_room(fds);
    assert_int_equal(ask(fd, LARGE_BYTES), 200);
    close(fd);
}

/* Small bodies are counted and never refused. */
TEST(without_any_room_small_bodies_pass, setup, teardown)
{
    int fd = kit_connect(port);

    budget_take(&http->bodies.budget, ROOM);
    assert_int_equal(ask(fd, SMALL_BYTES), 200);
    assert_int_equal(ask(fd, 4 * SMALL_BYTES), 429);
    assert_int_equal(ask(fd, SMALL_BYTES), 200);
    budget_give(&http->bodies.budget, ROOM);
    close(fd);
}

/* While the gate has the request, its body and the decoded form exist. */
TEST(a_body_counts_until_its_request_is_answered, setup, teardown)
{
    static const char start[] = "{\"ops\":[{\"op\":\"set\",\"path\":\"/zookeeper\",\"dataUtf8\":\"";
    static const char end[] = "\"}]}";
    struct kit_answer answer;
    struct buf body;
    int fd = kit_connect(port);
    char head[256];

    atomic_store(&gate->held, true);
    buf_init(&body, BODY_MAX);
    buf_append_str(&body, start);
    for (int i = 0; i < 1000; i++) {
        buf_append_str(&body, "\\u0041\\n");
    }
    buf_append_str(&body, end);
    (void)snprintf(head, sizeof(head),
                   "POST /multi/v1 HTTP/1.1\r\nHost: localhost\r\n"
                   "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                   body.len);
    kit_send(fd, head);
    kit_send_bytes(fd, body.data, body.len);
    while (atomic_load(&gate->inside) == 0) {
        (void)poll(NULL, 0, 1);
    }
    assert_true(budget_used(&http->bodies.budget) > body.len);
    atomic_store(&gate->held, false);
    answer = kit_read(fd, false);
    assert_int_equal(answer.status, 200);
    kit_free(&answer);
    await_used(0); /* The connection is still open. */
    close(fd);
    buf_release(&body);
}

TEST(a_body_without_a_length_counts_as_it_arrives, setup, teardown)
{
    enum {
        CHUNK = 32 << 10,
        CHUNKS = BODY_MAX / CHUNK
    };

    static char chunk[CHUNK];
    struct kit_answer answer;
    int fd = kit_connect(port);

    budget_take(&http->bodies.budget, ROOM - (100 << 10));
    memset(chunk, ' ', sizeof(chunk));
    kit_send(fd, "POST /multi/v1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                 "Transfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < CHUNKS; i++) {
        kit_send(fd, "8000\r\n");
        kit_send_bytes(fd, chunk, sizeof(chunk));
        kit_send(fd, "\r\n");
    }
    await_used(ROOM - (100 << 10)); /* Refused midway: the server drops the received bytes there. */
    kit_send(fd, "0\r\n\r\n");
    answer = kit_read(fd, false);
    assert_int_equal(answer.status, 429);
    kit_free(&answer);
    budget_give(&http->bodies.budget, ROOM - (100 << 10));
    assert_int_equal(ask(fd, LARGE_BYTES), 200);
    close(fd);
}

/* The import handles its lines as they arrive: it keeps no body. */
TEST(an_import_needs_no_room, setup, teardown)
{
    struct kit_answer answer;
    struct buf body;

    budget_take(&http->bodies.budget, ROOM);
    buf_init(&body, KIT_ANSWER_MAX);
    for (int i = 0; i < LINES; i++) {
        buf_printf(&body, "{\"path\":\"line-%d\",\"dataUtf8\":\"%d\"}\n", i, i);
    }
    assert_true(body.len > BODY_MAX / 2);
    answer = kit_ask(port, "POST", "/import/v1/", "", buf_cstr(&body));
    assert_int_equal(answer.status, 200);
    kit_free(&answer);
    budget_give(&http->bodies.budget, ROOM);
    buf_release(&body);
}
