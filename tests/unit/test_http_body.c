/* Answers with large values: their bytes, their cost while they wait, and that all of it is
 * released. */
#include "base/base64.h"
#include "http/http_int.h"
#include "tests/unit/http_front.h"

#include <stdlib.h>

enum {
    VALUE_BYTES = 60 << 10,
    VALUES = 8,
    RECEIVE_BYTES = 4096,
    SLOW_MS = 1000,
    PATIENCE_MS = 60000,
    WAIT_MS = 30000,
    ROOM = 1 << 20,
    TRICKLERS = 4,
    TRICKLE_GETS = 15, /* Of one value: more than kernels buffer. */
    TRICKLE_BYTES = 800,
    TRICKLE_MS = 100,
    TRICKLE_LEFT = 100 << 10 /* Remaining room: too little for one value. */
};

static char value[VALUE_BYTES + 1];

static void change(struct config_clients *limits)
{
    limits->data_bytes_max = VALUE_BYTES;
    limits->slow_timeout_ms = PATIENCE_MS;
}

static void change_impatient(struct config_clients *limits)
{
    change(limits);
    limits->slow_timeout_ms = SLOW_MS;
}

static void put(const char *path, const char *data)
{
    char target[64];

    (void)snprintf(target, sizeof(target), "/znodes/v1%s", path);
    assert_int_equal(front_ask("PUT", target, "If-None-Match: *\r\n", data), 201);
}

/* Contains everything that JSON escapes, at every place of a word. */
static void fill_value(void)
{
    static const char odd[] = "\"\\\n\t\x01\xc3\xbc/plain text ";

    for (size_t i = 0; i < VALUE_BYTES; i++) {
        value[i] = odd[i % (sizeof(odd) - 1)];
    }
    value[VALUE_BYTES - 1] = 'z';
    value[VALUE_BYTES - 2] = 'z'; /* Not half of a character. */
    value[VALUE_BYTES] = '\0';
}

static void put_values(void)
{
    char path[16];

    fill_value();
    put("/small", "x");
    for (int i = 0; i < VALUES; i++) {
        (void)snprintf(path, sizeof(path), "/v%d", i);
        put(path, value);
    }
}

static void start(void (*limits)(struct config_clients *limits), uint64_t unsent_max)
{
    gate = kit_gate_new();
    limits(&gate->limits);
    budget_init(&gate->unsent, unsent_max);
    front_start();
    put_values();
}

static void setup(void)
{
    start(change, ROOM);
}

static void setup_impatient(void)
{
    start(change_impatient, ROOM);
}

static void setup_short(void)
{
    start(change, (uint64_t)VALUES * VALUE_BYTES + (200 << 10));
}

/* Everything that answers keep is released shortly after the client has received them. */
static bool is_all_back(void)
{
    uint64_t end_ms = os_now_ms() + WAIT_MS;

    while (budget_used(&gate->unsent) > 0 && os_now_ms() < end_ms) {
        (void)poll(NULL, 0, 1);
    }
    return budget_used(&gate->unsent) == 0;
}

static void ask_for(const char *target, struct kit_answer *ret_answer)
{
    *ret_answer = kit_ask(port, "GET", target, "", NULL);
    assert_int_equal(ret_answer->status, 200);
}

static const char *member(const struct kit_answer *answer, const char *name)
{
    const char *at = strstr((const char *)answer->body, name);

    assert_non_null(at);
    return at + strlen(name);
}

TEST(large_values_arrive_in_every_form, setup, front_teardown)
{
    struct kit_answer answer;
    struct buf expected;
    struct jsonw json;

    buf_init(&expected, KIT_ANSWER_MAX);
    ask_for("/znodes/v1/v0?dataformat=base64", &answer);
    base64_encode(&expected, slice_str(value));
    assert_memory_equal(member(&answer, "\"data64\":\""), expected.data, expected.len);
    kit_free(&answer);

    ask_for("/znodes/v1/v0?dataformat=utf8", &answer);
    buf_clear(&expected);
    jsonw_init(&json, &expected);
    jsonw_string(&json, slice_str(value));
    assert_memory_equal(member(&answer, "\"dataUtf8\":"), expected.data, expected.len);
    assert_int_equal(answer.body[answer.body_len - 1], '}');
    kit_free(&answer);

    answer = kit_ask(port, "GET", "/znodes/v1/v0", "Accept: application/octet-stream\r\n", NULL);
    assert_int_equal(answer.body_len, VALUE_BYTES);
    assert_memory_equal(answer.body, value, VALUE_BYTES);
    kit_free(&answer);
    assert_true(is_all_back());
    buf_release(&expected);
}

TEST(large_json_is_shown_unchanged, setup, front_teardown)
{
    char text[VALUE_BYTES + 1];
    struct kit_answer answer;

    memset(text, ' ', VALUE_BYTES);
    text[0] = '[';
    text[VALUE_BYTES - 1] = ']';
    text[VALUE_BYTES] = '\0';
    put("/json", text);
    ask_for("/znodes/v1/json?dataformat=json", &answer);
    assert_memory_equal(member(&answer, "\"dataJson\":"), text, VALUE_BYTES);
    kit_free(&answer);
    assert_int_equal(front_ask("GET", "/znodes/v1/v0?dataformat=json", "", NULL), 406);
    assert_true(is_all_back());
}

TEST(lists_with_large_values_arrive_completely, setup, front_teardown)
{
    struct kit_answer answer;
    struct kit_answer head;

    ask_for("/znodes/v1/?view=children&with=data", &answer);
    assert_true(answer.body_len > VALUES * VALUE_BYTES);
    head = kit_ask(port, "HEAD", "/znodes/v1/?view=children&with=data", "", NULL);
    assert_int_equal(head.status, 200);
    assert_int_equal(strtoull(kit_header(&head, "Content-Length"), NULL, 10), answer.body_len);
    kit_free(&answer);
    kit_free(&head);
    assert_true(is_all_back());
}

TEST(head_and_not_modified_keep_no_value, setup, front_teardown)
{
    struct kit_answer answer;
    char headers[128];

    answer = kit_ask(port, "HEAD", "/znodes/v1/v0", "", NULL);
    assert_int_equal(answer.status, 200);
    (void)snprintf(headers, sizeof(headers), "If-None-Match: %s\r\n", kit_header(&answer, "ETag"));
    kit_free(&answer);
    assert_true(is_all_back());
    assert_int_equal(front_ask("GET", "/znodes/v1/v0", headers, NULL), 304);
    assert_true(is_all_back());
    assert_int_equal(
        front_ask("HEAD", "/znodes/v1/v0", "Accept: application/octet-stream\r\n", NULL), 204);
    assert_true(is_all_back());
}

/* The receive buffer is set before the window is announced, so that the client's kernel takes
 * little. */
static int connect_small(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int bytes = RECEIVE_BYTES;

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

/* A short request for `count` values, from `first` on in steps of `step`. */
static int ask_for_values(int first, int step, int count)
{
    struct buf body;
    struct buf out;
    int fd = connect_small();

    buf_init(&body, KIT_ANSWER_MAX);
    buf_init(&out, KIT_ANSWER_MAX);
    buf_append_str(&body, "{\"ops\":[");
    for (int i = 0; i < count; i++) {
        buf_printf(&body, "%s{\"op\":\"get\",\"path\":\"/v%d\"}", i ? "," : "", first + i * step);
    }
    buf_append_str(&body, "]}");
    buf_printf(&out,
               "POST /multi/v1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
               "Content-Length: %zu\r\n\r\n",
               body.len);
    buf_append_slice(&out, buf_slice(&body));
    kit_send_bytes(fd, out.data, out.len);
    buf_release(&body);
    buf_release(&out);
    return fd;
}

static int ask_and_read_nothing(void)
{
    return ask_for_values(0, 1, VALUES);
}

static bool keeps(uint64_t bytes)
{
    uint64_t end_ms = os_now_ms() + WAIT_MS;

    while (budget_used(&gate->unsent) < bytes && os_now_ms() < end_ms) {
        (void)poll(NULL, 0, 1);
    }
    return budget_used(&gate->unsent) >= bytes;
}

TEST(values_count_once_for_all_clients_that_read_nothing, setup, front_teardown)
{
    int first = ask_and_read_nothing();
    int second = -1;

    assert_true(keeps(VALUES * VALUE_BYTES));
    second = ask_and_read_nothing();
    assert_true(keeps(VALUES * VALUE_BYTES + (2 * 64 << 10))); /* Plus a block for each client. */
    assert_true(budget_used(&gate->unsent) < (uint64_t)VALUES * VALUE_BYTES + (300 << 10));
    close(first);
    close(second);
    assert_true(is_all_back());
}

TEST(without_room_large_reads_are_refused_and_small_ones_pass, setup, front_teardown)
{
    static const char raw[] = "Accept: application/octet-stream\r\n";
    struct kit_answer answer;

    budget_take(&gate->unsent, ROOM);
    answer = kit_ask(port, "GET", "/znodes/v1/v0", "", NULL);
    assert_int_equal(answer.status, 429);
    assert_string_equal(kit_header(&answer, "Retry-After"), "1");
    assert_true(kit_body_has(&answer, "maxUnsentBytes"));
    assert_true(kit_body_has(&answer, "ThrottledOp"));
    kit_free(&answer);
    assert_int_equal(front_ask("GET", "/znodes/v1/v0", raw, NULL), 429);
    assert_int_equal(front_ask("GET", "/znodes/v1/?view=children&with=data", "", NULL), 429);
    assert_int_equal(front_ask("GET", "/znodes/v1/small", "", NULL), 200);
    assert_int_equal(front_ask("GET", "/znodes/v1/?view=children", "", NULL), 200);
    answer = kit_ask(port, "GET", "/metrics", "", NULL);
    assert_int_equal(answer.status, 200);
    assert_true(kit_body_has(&answer, "\nzabra_http_unsent_refused_total 3\n"));
    kit_free(&answer);
    budget_give(&gate->unsent, ROOM);
    assert_true(is_all_back());
    assert_int_equal(front_ask("GET", "/znodes/v1/v0", raw, NULL), 200);
    assert_true(is_all_back());
}

/* Many answers of 60 KB weigh as much as a few large ones; the smallest always pass. */
TEST(without_any_room_reads_above_16_kib_are_refused, setup, front_teardown)
{
    static const char raw[] = "Accept: application/octet-stream\r\n";
    char text[20 << 10];

    memset(text, 't', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    put("/middle", text);
    text[8 << 10] = '\0';
    put("/low", text);
    assert_int_equal(front_ask("GET", "/znodes/v1/middle", "", NULL), 200);
    assert_true(is_all_back());
    budget_take(&gate->unsent, ROOM);
    assert_int_equal(front_ask("GET", "/znodes/v1/middle", "", NULL), 429);
    assert_int_equal(front_ask("GET", "/znodes/v1/middle", raw, NULL), 429);
    assert_int_equal(front_ask("GET", "/znodes/v1/low", "", NULL), 200);
    assert_int_equal(front_ask("GET", "/znodes/v1/low", raw, NULL), 200);
    budget_give(&gate->unsent, ROOM);
    assert_true(is_all_back());
    assert_int_equal(front_ask("GET", "/znodes/v1/middle", raw, NULL), 200);
}

/* A write that was done is answered, however long the answer is. */
TEST(without_any_room_writes_are_answered, setup, front_teardown)
{
    enum {
        CREATES = 100,
        NAME_LEN = 580
    };

    char name[NAME_LEN + 1];
    struct kit_answer answer;
    struct buf body;

    memset(name, 'n', NAME_LEN);
    name[NAME_LEN] = '\0';
    buf_init(&body, KIT_ANSWER_MAX);
    buf_append_str(&body, "{\"ops\":[");
    for (int i = 0; i < CREATES; i++) {
        buf_printf(&body, "%s{\"op\":\"create\",\"path\":\"/%d%s\"}", i ? "," : "", i, name);
    }
    buf_append_str(&body, "]}");
    budget_take(&gate->unsent, ROOM);
    answer =
        kit_ask(port, "POST", "/multi/v1", "Content-Type: application/json\r\n", buf_cstr(&body));
    assert_int_equal(answer.status, 200);
    assert_true(answer.body_len > TEXT_SMALL_BYTES);
    kit_free(&answer);
    budget_give(&gate->unsent, ROOM);
    buf_release(&body);
}

static bool is_closed_by(int fd, uint64_t end_ms)
{
    struct pollfd wait = {.fd = fd, .events = POLLRDHUP | POLLHUP};

    while (os_now_ms() < end_ms) {
        if (poll(&wait, 1, 50) > 0) {
            return true;
        }
    }
    return false;
}

TEST(a_client_that_takes_nothing_for_slow_timeout_is_cut_off, setup_impatient, front_teardown)
{
    uint64_t start_ms = os_now_ms();
    int fd = ask_and_read_nothing();

    assert_true(keeps(VALUES * VALUE_BYTES));
    assert_true(is_closed_by(fd, start_ms + WAIT_MS));
    assert_true(os_now_ms() - start_ms >= SLOW_MS);
    assert_true(is_all_back());
    close(fd);
}

/* The kernel has taken all of it and the connection is idle: idleTimeout alone would keep it. */
TEST(an_answer_in_the_kernels_buffer_has_the_same_deadline, setup_impatient, front_teardown)
{
    uint64_t start_ms = os_now_ms();
    int bytes = RECEIVE_BYTES;
    int fd = kit_connect(port);

    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
    kit_send(fd, "GET /znodes/v1/v0 HTTP/1.1\r\nHost: localhost\r\n"
                 "Accept: application/octet-stream\r\n\r\n");
    assert_true(is_closed_by(fd, start_ms + WAIT_MS));
    assert_true(os_now_ms() - start_ms >= SLOW_MS);
    assert_true(is_all_back());
    close(fd);
}

/* A little now and then is progress. */
TEST(a_client_that_reads_slowly_is_not_cut_off, setup_impatient, front_teardown)
{
    char piece[16 << 10];
    int fd = ask_and_read_nothing();
    uint64_t end_ms = os_now_ms() + 3 * SLOW_MS;

    while (os_now_ms() < end_ms) {
        assert_true(recv(fd, piece, sizeof(piece), 0) > 0);
        (void)poll(NULL, 0, SLOW_MS / 5);
    }
    close(fd);
    assert_true(is_all_back());
}

/* Long before slowTimeout, because other clients need the room that it keeps. */
TEST(when_room_is_short_the_slowest_client_is_cut_off, setup_short, front_teardown)
{
    uint64_t start_ms = os_now_ms();
    struct kit_answer answer;
    int fd = ask_and_read_nothing();

    assert_true(keeps(VALUES * VALUE_BYTES));
    assert_true(is_closed_by(fd, start_ms + WAIT_MS));
    assert_true(is_all_back());
    close(fd);
    answer = kit_ask(port, "GET", "/metrics", "", NULL);
    assert_true(kit_body_has(&answer, "\nzabra_http_slowest_closed_total 1\n"));
    kit_free(&answer);
}

/* The floor: 16 bytes a ms. Bytes that the client took at once protect it for 4 s, and no longer.
 */
TEST(a_reader_is_slow_below_the_floor_rate, setup, front_teardown)
{
    int64_t credit = HTTP_PACE_CREDIT;
    int looks = 0;

    for (int i = 0; i < 1000; i++) {
        credit = http_pace_credit(credit, 250 * HTTP_BYTES_PER_MS, 250);
        assert_int_equal(credit, HTTP_PACE_CREDIT);
    }
    credit = http_pace_credit(credit, UINT64_MAX, 250); /* Into a client's large kernel buffer. */
    assert_int_equal(credit, HTTP_PACE_CREDIT);
    while (credit >= 0) {
        credit = http_pace_credit(credit, 1, 250);
        looks++;
    }
    assert_int_equal(looks, 17);
    credit = http_pace_credit(HTTP_PACE_CREDIT, 0, UINT64_MAX); /* The process was paused. */
    assert_true(credit > 0);
    for (int i = 0; i < 1000; i++) {
        credit = http_pace_credit(credit, 0, 1000);
    }
    assert_int_equal(http_pace_credit(credit, 2000 * 16000, 250), HTTP_PACE_CREDIT);
}

/* Eight clients keep one value and nothing else: only closing the last of them releases it. */
TEST(readers_of_one_value_are_closed_until_it_is_released, setup, front_teardown)
{
    enum {
        SHARERS = 8,
        NOW_MS = 100000
    };

    static struct http_conn conns[SHARERS];
    struct http_relief relief = {.refusals = 0};
    struct http_slowest slowest = {.level = BUDGET_SHORT, .now_ms = NOW_MS, .used = 80};
    uint32_t closed = 0;
    uint32_t looks = 0;

    slowest.excess = 6;
    for (int i = 0; i < SHARERS; i++) {
        conns[i].kept = 80;
        conns[i].pace.moved_ms = NOW_MS - 2000;
    }
    while (closed < SHARERS) {
        uint32_t chosen = 0;

        slowest.count = SHARERS - closed;
        for (uint32_t i = 0; i < slowest.count; i++) {
            slowest.conns[i] = &conns[closed + i];
        }
        chosen = http_slow_choose(&relief, &slowest);
        assert_true(chosen > 0);
        closed += chosen;
        looks++;
    }
    assert_int_equal(looks, 4); /* 1, 2, 4, and the last one. */
}

TEST(no_more_readers_are_closed_than_needed, setup, front_teardown)
{
    enum {
        READERS = 8,
        NOW_MS = 100000
    };

    static struct http_conn conns[READERS];
    struct http_relief relief = {.refusals = 0};
    struct http_slowest slowest = {.level = BUDGET_FULL, .now_ms = NOW_MS, .used = 100};

    for (uint32_t i = 0; i < READERS; i++) {
        conns[i].kept = 10;
        conns[i].pace.moved_ms = NOW_MS;
        conns[i].pace.credit = HTTP_PACE_CREDIT;
        slowest.conns[i] = &conns[i];
    }
    slowest.excess = 25;
    slowest.count = READERS;
    slowest.going = 1; /* An earlier connection was cut off and has not released its bytes. */
    assert_int_equal(http_slow_choose(&relief, &slowest), 0);
    slowest.going = 0;
    assert_int_equal(http_slow_choose(&relief, &slowest), 3);
    /* Other clients have taken what was released. Fast readers pay for what is missing, and no
     * more. */
    assert_int_equal(http_slow_choose(&relief, &slowest), 3);
    assert_int_equal(http_slow_choose(&relief, &slowest), 3);
    slowest.used = 70;
    slowest.excess = 0;
    assert_int_equal(http_slow_choose(&relief, &slowest), 0);
}

static int answer_status(const char *target)
{
    return front_ask("GET", target, "", NULL);
}

static void trickle(const int *fds)
{
    char piece[TRICKLE_BYTES];

    for (int i = 0; i < TRICKLERS; i++) {
        (void)recv(fds[i], piece, sizeof(piece), MSG_DONTWAIT);
    }
    (void)poll(NULL, 0, TRICKLE_MS);
}

/* Each client takes something several times a second, at half the floor rate: 8 KB a second. */
TEST(a_client_that_trickles_gives_way_to_others, setup, front_teardown)
{
    uint64_t end_ms = os_now_ms() + WAIT_MS;
    struct kit_answer answer;
    int fds[TRICKLERS];
    uint64_t ballast = 0;
    int refused = 0;

    for (int i = 0; i < TRICKLERS; i++) {
        fds[i] = ask_for_values(i, 0, TRICKLE_GETS);
        assert_true(keeps((uint64_t)(i + 1) * (VALUE_BYTES + (128 << 10))));
    }
    ballast = ROOM - TRICKLE_LEFT - budget_used(&gate->unsent);
    budget_take(&gate->unsent, ballast);
    while (answer_status("/znodes/v1/v7") != 200) {
        assert_true(os_now_ms() < end_ms);
        trickle(fds);
        refused++;
    }
    assert_true(refused > 0);
    answer = kit_ask(port, "GET", "/metrics", "", NULL);
    assert_false(kit_body_has(&answer, "\nzabra_http_slowest_closed_total 0\n"));
    kit_free(&answer);
    budget_give(&gate->unsent, ballast);
    for (int i = 0; i < TRICKLERS; i++) {
        close(fds[i]);
    }
    assert_true(is_all_back());
}
