/* What hostile, broken and slow clients get: an answer where one is possible, and never a hang. */
#include "http/http_int.h"
#include "tests/unit/http_front.h"

enum {
    MOMENT_MS = 50,
    TRIES = 3
};

static void short_deadlines(struct config_clients *limits)
{
    limits->head_timeout_ms = 300;
    limits->body_timeout_ms = 300;
    limits->idle_timeout_ms = 300;
}

static void few_connections(struct config_clients *limits)
{
    limits->connections_max = 4;
    limits->connections_per_address_max = 3;
}

static void two_in_all(struct config_clients *limits)
{
    limits->connections_max = 2;
}

static void setup_short(void)
{
    front_start_with(short_deadlines);
}

static void setup_few(void)
{
    front_start_with(few_connections);
}

static void setup_two(void)
{
    front_start_with(two_in_all);
}

static void teardown(void)
{
    http_stop(http);
    kit_gate_free(gate);
}

/* Sends bytes as they are; returns the status. If `closes`, the server must then close the
 * connection. */
static int say(const char *text, bool closes)
{
    int fd = kit_connect(port);
    struct kit_answer answer;
    int status = 0;

    kit_send(fd, text);
    answer = kit_read(fd, false);
    status = answer.status;
    kit_free(&answer);
    if (closes) {
        assert_true(kit_closed(fd));
    }
    close(fd);
    return status;
}

TEST(ambiguous_framing_is_refused_and_ends_the_connection, front_setup, teardown)
{
    assert_int_equal(say("PUT /znodes/v1/zookeeper HTTP/1.1\r\nHost: localhost\r\n"
                         "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                         true),
                     400);
    assert_int_equal(say("PUT /znodes/v1/zookeeper HTTP/1.1\r\nHost: localhost\r\n"
                         "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx",
                         true),
                     400);
    assert_int_equal(say("GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", true),
                     400);
    assert_int_equal(say("GET / HTTP/1.1\r\nHost: localhost\r\nX-A : b\r\n\r\n", true), 400);
    assert_int_equal(say("GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: +1\r\n\r\n", true),
                     400);
    assert_int_equal(
        say("GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n", true), 400);
}

TEST(the_first_head_is_checked_byte_by_byte, front_setup, teardown)
{
    static const char with_nul[] = "GET / HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\n\r\n";
    int fd = -1;
    struct kit_answer answer;

    assert_int_equal(say("GET / HTTP/1.1\nHost: localhost\n\n", true), 400);
    assert_int_equal(say("GET / HTTP/1.1\r\nHost: localhost\n\r\n", true), 400);
    assert_int_equal(say("GET / HTTP/1.1\r\nHost: localhost\r\n X: folded\r\n\r\n", true), 400);
    assert_int_equal(say("GET / HTTP/1.1\r\nHost: localhost\r\nX: a\rb\r\n\r\n", true), 400);
    fd = kit_connect(port);
    kit_send_bytes(fd, with_nul, sizeof(with_nul) - 1);
    answer = kit_read(fd, false);
    assert_int_equal(answer.status, 400);
    assert_string_equal(kit_header(&answer, "Content-Type"), "application/problem+json");
    kit_free(&answer);
    close(fd);
}

/* Header and body of a refusal have the same zxid, also if a record is applied meanwhile. */
TEST(a_refusal_names_one_zxid, front_setup, teardown)
{
    int fd = kit_connect(port);
    struct kit_answer answer;
    char member[64];

    atomic_store(&gate->applies, 1);
    kit_send(fd, "OPTIONS / HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/html\r\n"
                 "Content-Type: text/plain\r\n\r\n");
    answer = kit_read(fd, false);
    assert_int_equal(answer.status, 400);
    (void)snprintf(member, sizeof(member), "\"zxidHex\":\"%s\"", kit_header(&answer, "Zk-Zxid"));
    assert_true(kit_body_has(&answer, member));
    atomic_store(&gate->applies, 0);
    kit_free(&answer);
    close(fd);
}

/* A repeated framing header on a kept-alive connection is found by the handler. */
TEST(later_heads_are_checked_too, front_setup, teardown)
{
    int fd = kit_connect(port);
    struct kit_answer answer;

    kit_send(fd, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
    answer = kit_read(fd, false);
    assert_int_equal(answer.status, 200);
    kit_free(&answer);
    kit_send(fd, "GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n");
    answer = kit_read(fd, false);
    assert_int_equal(answer.status, 400);
    kit_free(&answer);
    assert_true(kit_closed(fd));
    close(fd);
}

TEST(a_head_may_come_byte_by_byte, front_setup, teardown)
{
    const char *text = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
    int fd = kit_connect(port);
    struct kit_answer answer;

    for (const char *at = text; *at; at++) {
        kit_send_bytes(fd, at, 1);
        poll(NULL, 0,
             1); /* Gives the acceptor time to look at each length; nothing depends on it. */
    }
    answer = kit_read(fd, false);
    assert_int_equal(answer.status, 200);
    kit_free(&answer);
    close(fd);
}

TEST(pipelined_requests_are_answered_in_order, front_setup, teardown)
{
    int fd = kit_connect(port);

    kit_send(fd,
             "PUT /znodes/v1/zookeeper HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx"
             "GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");

    struct buf all;

    buf_init(&all, KIT_ANSWER_MAX);
    while (kit_recv(fd, &all)) {
    }

    char *text = buf_cstr(&all);
    const char *first = strstr(text, "HTTP/1.1 200");
    const char *second = strstr(text, "HTTP/1.1 404");

    assert_non_null(first);
    assert_non_null(second);
    assert_true(first < second);
    buf_release(&all);
    close(fd);
}

TEST(a_large_head_gets_its_own_error, front_setup, teardown)
{
    static char large[10000];
    int fd = kit_connect(port);
    struct kit_answer answer;

    memset(large, 'a', sizeof(large) - 1);
    kit_send(fd, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Large: ");
    kit_send(fd, large);
    kit_send(fd, "\r\n\r\n");
    answer = kit_read(fd, false);
    assert_int_equal(answer.status, 431);
    assert_true(kit_body_has(&answer, "maxHeadBytes"));
    kit_free(&answer);
    close(fd);
    /* The largest permitted head passes. */
    large[8192 - 60] = '\0';
    fd = kit_connect(port);
    kit_send(fd, "GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Large: ");
    kit_send(fd, large);
    kit_send(fd, "\r\n\r\n");
    answer = kit_read(fd, false);
    assert_int_equal(answer.status, 200);
    kit_free(&answer);
    close(fd);
}

TEST(many_small_headers_fit, front_setup, teardown)
{
    struct buf out;
    int fd = kit_connect(port);
    struct kit_answer answer;

    buf_init(&out, KIT_ANSWER_MAX);
    buf_append_str(&out, "GET /livez HTTP/1.1\r\nHost: localhost\r\n");
    for (int i = 0; i < 60; i++) {
        buf_printf(&out, "X-Header-%d: value-%d\r\n", i, i);
    }
    buf_append_str(&out, "\r\n");
    kit_send_bytes(fd, out.data, out.len);
    answer = kit_read(fd, false);
    assert_int_equal(answer.status, 200);
    kit_free(&answer);
    buf_release(&out);
    close(fd);
}

TEST(long_names_work_up_to_the_heads_limit, front_setup, teardown)
{
    char target[4200];
    char name[4001];
    struct kit_answer answer;

    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    (void)snprintf(target, sizeof(target), "/znodes/v1/?name=%s", name);
    answer = kit_ask(port, "POST", target, "", "x");
    assert_int_equal(answer.status, 201);
    kit_free(&answer);
    (void)snprintf(target, sizeof(target), "/znodes/v1/%s", name);
    answer = kit_ask(port, "GET", target, "", NULL);
    assert_int_equal(answer.status, 200);
    assert_true(kit_body_has(&answer, name));
    kit_free(&answer);
}

/* A client that trickles meets its deadline, however often it sends a byte. */
static void trickle(const char *start, int status)
{
    int fd = kit_connect(port);
    uint64_t end_ms = os_now_ms() + KIT_DEADLINE_MS;
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    struct kit_answer answer;

    kit_send(fd, start);
    while (poll(&wait, 1, 20) == 0) {
        assert_true(os_now_ms() < end_ms);
        kit_send(fd, "x");
    }
    answer = kit_read(fd, false);
    assert_int_equal(answer.status, status);
    kit_free(&answer);
    close(fd);
}

TEST(slow_requests_meet_their_deadline, setup_short, teardown)
{
    trickle("GET / HTTP/1.1\r\nHost: localhost\r\nX: ", 408);
    trickle("PUT /znodes/v1/zookeeper HTTP/1.1\r\nHost: localhost\r\n"
            "Content-Length: 4000\r\n\r\n",
            408);
}

/* Keeps sending after the answer has arrived, then reads it; returns whether no reset came. */
static bool sends_on(int fd, const char *rest)
{
    struct pollfd answer = {.fd = fd, .events = POLLIN};
    struct pollfd reset = {.fd = fd, .events = 0};
    struct kit_answer late;
    bool met = false;

    assert_int_equal(poll(&answer, 1, KIT_DEADLINE_MS), 1);
    kit_send(fd, rest);
    met = poll(&reset, 1, MOMENT_MS) > 0;
    kit_send(fd, "x");
    met = met || poll(&reset, 1, MOMENT_MS) > 0;
    late = kit_read(fd, false);
    assert_int_equal(late.status, 408);
    kit_free(&late);
    return !met;
}

/* In the end it is reset: no client may send for ever. */
static void expect_reset(int fd)
{
    struct pollfd reset = {.fd = fd, .events = 0};
    uint64_t end_ms = os_now_ms() + KIT_DEADLINE_MS;

    while (poll(&reset, 1, MOMENT_MS) == 0) {
        assert_true(os_now_ms() < end_ms);
        kit_send(fd, "x");
    }
}

/* A client in the middle of sending looks for an answer only afterwards. On a loaded machine that
 * moment is long: one success is enough. */
TEST(a_client_that_is_still_sending_is_not_reset_at_once, setup_short, teardown)
{
    static const struct {
        const char *start;
        const char *rest;
    } rows[] = {
        {"PUT /znodes/v1/zookeeper HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000\r\n\r\n",
         "x"},
        {"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
         "PUT /znodes/v1/zookeeper HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000\r\nX: ",
         "\r\n\r\nx"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        bool fine = false;

        for (int tries = 0; tries < TRIES && !fine; tries++) {
            int fd = kit_connect(port);
            struct kit_answer first;

            kit_send(fd, rows[i].start);
            if (i == 1) {
                first = kit_read(fd, false);
                kit_free(&first);
            }
            fine = sends_on(fd, rows[i].rest);
            expect_reset(fd);
            close(fd);
        }
        assert_true(fine);
    }
}

TEST(idle_connections_are_closed, setup_short, teardown)
{
    int silent = kit_connect(port);
    int kept = kit_connect(port);
    struct kit_answer answer;

    kit_send(kept, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
    answer = kit_read(kept, false);
    assert_int_equal(answer.status, 200);
    kit_free(&answer);
    assert_true(kit_closed(silent));
    assert_true(kit_closed(kept));
    close(silent);
    close(kept);
}

TEST(a_kept_connection_that_trickles_its_next_head_is_cut_off, setup_short, teardown)
{
    int fd = kit_connect(port);
    uint64_t end_ms = os_now_ms() + KIT_DEADLINE_MS;
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    struct kit_answer answer;

    kit_send(fd, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
    answer = kit_read(fd, false);
    kit_free(&answer);
    kit_send(fd, "GET /livez HTTP/1.1\r\nHost: localhost\r\nX: ");
    while (poll(&wait, 1, 20) == 0) {
        assert_true(os_now_ms() < end_ms);
        kit_send(fd, "x");
    }
    answer = kit_read(fd, false);
    assert_true(answer.status == 408 || answer.closed);
    kit_free(&answer);
    close(fd);
}

TEST(connections_over_a_cap_are_answered, setup_few, teardown)
{
    int fds[3];
    struct kit_answer answer;

    for (int i = 0; i < 3; i++) {
        fds[i] = kit_connect(port);
        kit_send(fds[i], "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
        answer = kit_read(fds[i], false);
        assert_int_equal(answer.status, 200);
        kit_free(&answer);
    }
    answer = kit_ask(port, "GET", "/livez", "", NULL); /* Probes have a seat of their own. */
    assert_int_equal(answer.status, 200);
    assert_string_equal(kit_header(&answer, "Connection"), "close");
    kit_free(&answer);
    answer = kit_ask(port, "GET", "/", "", NULL);
    assert_int_equal(answer.status, 429);
    assert_string_equal(kit_header(&answer, "Retry-After"), "1");
    kit_free(&answer);
    for (int i = 0; i < 3; i++) {
        close(fds[i]);
    }
    /* The places are free again once the server has noticed. */
    for (uint64_t end_ms = os_now_ms() + KIT_DEADLINE_MS;;) {
        answer = kit_ask(port, "GET", "/", "", NULL);
        if (answer.status == 200) {
            break;
        }
        assert_true(os_now_ms() < end_ms);
        kit_free(&answer);
    }
    kit_free(&answer);
}

TEST(a_full_replica_reports_it, setup_two, teardown)
{
    int fds[2];
    struct kit_answer answer;

    for (int i = 0; i < 2; i++) {
        fds[i] = kit_connect(port);
        kit_send(fds[i], "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
        answer = kit_read(fds[i], false);
        kit_free(&answer);
    }
    answer = kit_ask(port, "GET", "/", "", NULL);
    assert_int_equal(answer.status, 503);
    kit_free(&answer);
    close(fds[0]);
    close(fds[1]);
}

static void hasty(struct config_clients *limits)
{
    limits->request_timeout_ms = 300;
}

static void setup_hasty(void)
{
    front_start_with(hasty);
}

static void set_large_running(uint32_t running)
{
    pthread_mutex_lock(&http->large.mutex);
    http->large.running = running;
    pthread_mutex_unlock(&http->large.mutex);
}

TEST(a_large_read_waits_its_turn_and_no_longer_than_its_timeout, setup_hasty, teardown)
{
    struct kit_answer answer;

    set_large_running(http->large.running_max);
    answer = kit_ask(port, "GET", "/znodes/v1/?view=tree", "", NULL);
    assert_int_equal(answer.status, 503);
    assert_non_null(memmem(answer.body, answer.body_len, "other large reads", 17));
    kit_free(&answer);
    answer = kit_ask(port, "GET", "/znodes/v1/", "", NULL);
    assert_int_equal(answer.status, 200);
    kit_free(&answer);
    assert_int_equal(atomic_load(&http->suspended), 0);
    set_large_running(0);
    answer = kit_ask(port, "GET", "/znodes/v1/?view=tree", "", NULL);
    assert_int_equal(answer.status, 200);
    kit_free(&answer);
    assert_int_equal(http->large.running, 0);
}

/* Requests in progress are answered; idle and new connections are closed. */
static void drain_worker(void *arg)
{
    http_drain(arg);
}

TEST(a_drain_answers_requests_in_progress, front_setup, teardown)
{
    int busy = kit_connect(port);
    int idle = kit_connect(port);
    uint64_t end_ms = os_now_ms() + KIT_DEADLINE_MS;
    struct thread drainer;
    struct kit_answer answer;

    kit_send(idle, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
    answer = kit_read(idle, false);
    kit_free(&answer);
    atomic_store(&gate->held, true);
    kit_send(busy, "PUT /znodes/v1/zookeeper HTTP/1.1\r\nHost: localhost\r\n"
                   "Content-Length: 1\r\n\r\nx");
    while (atomic_load(&gate->inside) == 0) {
        assert_true(os_now_ms() < end_ms);
        poll(NULL, 0, 1);
    }
    thread_start(&drainer, "drainer", drain_worker, http);
    for (bool refused = false; !refused;) {
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        refused = connect(fd, (const struct sockaddr *)&to, sizeof(to)) != 0;
        assert_true(os_now_ms() < end_ms);
        close(fd);
    }
    atomic_store(&gate->held, false);
    answer = kit_read(busy, false);
    assert_int_equal(answer.status, 200);
    assert_string_equal(kit_header(&answer, "Connection"), "close");
    kit_free(&answer);
    assert_true(kit_closed(busy));
    thread_join(&drainer);
    assert_true(kit_closed(idle));
    close(busy);
    close(idle);
}

TEST(a_port_in_use_is_reported, front_setup, teardown)
{
    struct gate *other = kit_gate_new();
    struct http *second = NULL;

    other->limits.client_port = port;
    assert_int_equal(http_start(other, NULL, &second), ERR_BUSY);
    kit_gate_free(other);
}

TEST(a_stop_with_open_connections_is_clean, front_setup, teardown)
{
    int fds[5];

    for (int i = 0; i < 5; i++) {
        fds[i] = kit_connect(port);
        kit_send(fds[i], i % 2 ? "GET / HT"
                               : "PUT /znodes/v1/zookeeper HTTP/1.1\r\n"
                                 "Host: localhost\r\nContent-Length: 9\r\n\r\nx");
    }
    http_stop(http);
    assert_int_equal(http_start(gate, NULL, &http), ERR_OK);
    for (int i = 0; i < 5; i++) {
        close(fds[i]);
    }
}
