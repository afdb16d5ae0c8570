/* Over HTTP: which requests count as slow and what is noted of them; trace ids in the access log.
 */
#include "base/log.h"
#include "tests/unit/http_front.h"

#include <stdlib.h>

#define TRACE_ID    "0af7651916cd43dd8448eb211c80319c"
#define TRACEPARENT "traceparent: 00-" TRACE_ID "-b7ad6b7169203331-01\r\n"

enum {
    SLOW_MS = 300, /* Far longer than a request takes that nothing delays. */
    WAIT_MS = 2 * SLOW_MS,
    WAIT_S = 50
};

static void make_slow(struct config_clients *limits)
{
    limits->slow_request_ms = SLOW_MS;
}

static void setup(void)
{
    front_start_with(make_slow);
}

/* Sends a request that the gate holds for longer than SLOW_MS; returns its connection. */
static int ask_held(const char *method, const char *target, const char *headers, const char *body)
{
    int fd = kit_connect(port);
    char text[1024];

    (void)snprintf(text, sizeof(text),
                   "%s %s HTTP/1.1\r\nHost: localhost:%u\r\n%sContent-Length: %zu\r\n\r\n%s",
                   method, target, port, headers, strlen(body), body);
    atomic_store(&gate->held, true);
    kit_send(fd, text);
    kit_hold_for(gate, SLOW_MS, NULL, NULL);
    return fd;
}

static void expect_slow(enum op_id op, enum err err, const char *trace)
{
    const struct gate_slow *slow = &gate->slow;

    kit_wait_slow(gate);
    MUTEX_HOLD(&gate->front_mutex);
    assert_int_equal(atomic_load(&gate->slow_count), 1);
    assert_int_equal(slow->def->id, op);
    assert_int_equal(slow->err, err);
    assert_string_equal(gate->slow_path, "/zookeeper/x");
    assert_string_equal(gate->slow_trace, trace);
    assert_true(strlen(gate->slow_request) > 0);
    assert_true(slow->begin_ms > 0 && slow->end_ms >= slow->served_ms);
    assert_true(slow->served_ms - slow->begin_ms >= SLOW_MS);
}

/* Also true of the requests before, because a connection is closed after they were counted. */
static void expect_none(void)
{
    http_drain(http);
    assert_int_equal(atomic_load(&gate->slow_count), 0);
}

static void expect_status(int fd, int status)
{
    struct kit_answer answer = kit_read(fd, false);

    assert_int_equal(answer.status, status);
    kit_free(&answer);
    close(fd);
}

static void create(void)
{
    assert_int_equal(front_ask("PUT", "/znodes/v1/zookeeper/x", "If-None-Match: *\r\n", "x"), 201);
}

/* ---- What is slow ---- */

TEST(a_slow_write_is_noted, setup, front_teardown)
{
    create();
    expect_status(ask_held("PUT", "/znodes/v1/zookeeper/x", TRACEPARENT, "y"), 200);
    expect_slow(OP_SET, ERR_OK, TRACE_ID);
    assert_true(gate->slow.is_write && gate->slow.zxid != 0);
}

TEST(a_slow_refusal_is_noted, setup, front_teardown)
{
    expect_status(ask_held("DELETE", "/znodes/v1/zookeeper/x", "", ""), 404);
    expect_slow(OP_DELETE, ERR_NO_NODE, "");
}

TEST(a_slow_linearizable_read_is_noted, setup, front_teardown)
{
    create();
    expect_status(ask_held("GET", "/znodes/v1/zookeeper/x?consistency=linearizable", "", ""), 200);
    expect_slow(OP_GET, ERR_OK, "");
    assert_false(gate->slow.is_write);
}

/* The znode of a create is not in the URL, and the body that names it is freed with the answer. */
TEST(the_path_of_a_create_is_noted, setup, front_teardown)
{
    expect_status(ask_held("POST", "/znodes/v1/zookeeper?op=create&name=x", "", "y"), 201);
    expect_slow(OP_CREATE, ERR_OK, "");
}

/* The secret of a session is in the URL, but it is no path of a znode. */
TEST(a_secret_is_in_no_line, setup, front_teardown)
{
    struct kit_answer answer = kit_ask(port, "POST", "/sessions/v1?op=create&expire=10", "", "");
    const char *location = kit_header(&answer, "Location");
    char target[128];

    assert_int_equal(answer.status, 201);
    assert_non_null(location);
    (void)snprintf(target, sizeof(target), "%s", strstr(location, "/sessions/v1/"));
    kit_free(&answer);
    expect_status(ask_held("DELETE", target, "", ""), 204);
    kit_wait_slow(gate);
    assert_int_equal(gate->slow.def->id, OP_CLOSE);
    assert_string_equal(gate->slow_path, "");
}

/* ---- What is not ---- */

TEST(other_requests_are_not_noted, setup, front_teardown)
{
    create();
    assert_int_equal(front_ask("GET", "/znodes/v1/zookeeper/x", TRACEPARENT, NULL), 200);
    assert_int_equal(front_ask("GET", "/metrics", TRACEPARENT, NULL), 200);
    assert_int_equal(front_ask("GET", "/nothing", TRACEPARENT, NULL), 404);
    expect_none();
}

TEST(zero_notes_nothing, front_setup, front_teardown)
{
    create();
    expect_status(ask_held("PUT", "/znodes/v1/zookeeper/x", "", "y"), 200);
    expect_none();
}

static int begin_wait(void)
{
    struct kit_answer answer = kit_ask(port, "GET", "/znodes/v1/zookeeper/x", "", NULL);
    int fd = kit_connect(port);
    char text[512];

    (void)snprintf(text, sizeof(text),
                   "GET /znodes/v1/zookeeper/x HTTP/1.1\r\nHost: localhost:%u\r\n"
                   "If-None-Match: %s\r\nPrefer: wait=%d\r\n\r\n",
                   port, kit_header(&answer, "ETag"), WAIT_S);
    kit_free(&answer);
    kit_send(fd, text);
    return fd;
}

TEST(the_wait_for_a_change_does_not_count, setup, front_teardown)
{
    int fd = 0;

    create();
    fd = begin_wait();
    kit_pass(WAIT_MS);
    assert_int_equal(front_ask("PUT", "/znodes/v1/zookeeper/x", "", "y"), 200);
    expect_status(fd, 200);
    expect_none();
}

/* Reads the head of the answer to a stream and its first event. */
static void expect_greeting(int fd)
{
    struct buf got;

    buf_init(&got, KIT_ANSWER_MAX); /* kit_recv reserves much at each call. */
    while (!strstr(buf_cstr(&got), "event: watch")) {
        assert_true(kit_recv(fd, &got));
    }
    assert_int_equal(strncmp(buf_cstr(&got), "HTTP/1.1 200 ", strlen("HTTP/1.1 200 ")), 0);
    buf_release(&got);
}

TEST(a_stream_does_not_count, setup, front_teardown)
{
    int fd = kit_connect(port);
    char text[256];

    create();
    (void)snprintf(text, sizeof(text),
                   "GET /watch/v1/zookeeper/x?mode=persistent HTTP/1.1\r\nHost: localhost:%u\r\n"
                   "Accept: text/event-stream\r\n\r\n",
                   port);
    kit_send(fd, text);
    expect_greeting(fd); /* The replica serves the stream. */
    kit_pass(WAIT_MS);
    close(fd);
    expect_none();
}

TEST(the_time_of_a_client_that_sends_slowly_does_not_count, setup, front_teardown)
{
    int fd = kit_connect(port);
    char text[256];

    create();
    (void)snprintf(text, sizeof(text),
                   "PUT /znodes/v1/zookeeper/x HTTP/1.1\r\nHost: localhost:%u\r\n"
                   "Content-Length: 2\r\n\r\na",
                   port);
    kit_send(fd, text);
    kit_pass(WAIT_MS);
    kit_send(fd, "b");
    expect_status(fd, 200);
    expect_none();
}

/* ---- The access log ---- */

static void log_accesses(struct config_clients *limits)
{
    limits->access_log = true;
}

static void setup_log(void)
{
    front_start_with(log_accesses);
}

/* The line of the request must end so. The lines of connections may be in another order. */
static void expect_end(const char *text, const char *target, const char *end)
{
    const char *line = strstr(text, target);
    size_t len = line ? strcspn(line, "\n") : 0;

    if (len < strlen(end) || strncmp(line + len - strlen(end), end, strlen(end)) != 0) {
        fail_msg("%s does not end with %s: %s", target, end, text);
    }
}

TEST(the_access_log_has_the_trace_id, setup_log, front_teardown)
{
    char file[] = "/tmp/zabra-test-XXXXXX";
    char text[8192];
    int fd = mkstemp(file);
    ssize_t len = 0;

    assert_true(fd >= 0);
    log_setup(LOG_INFO, false, fd);
    assert_int_equal(front_ask("GET", "/znodes/v1/one", TRACEPARENT, NULL), 404);
    assert_int_equal(front_ask("GET", "/znodes/v1/two", "traceparent: " TRACE_ID "\r\n", NULL),
                     404);
    assert_int_equal(front_ask("GET", "/znodes/v1/three", "", NULL), 404);
    http_drain(http); /* All lines are written. */
    log_setup(LOG_WARN, false, STDERR_FILENO);
    len = pread(fd, text, sizeof(text) - 1, 0);
    assert_true(len > 0);
    text[len] = '\0';
    assert_non_null(strstr(text, "target=/znodes/v1/one status=404"));
    expect_end(text, "target=/znodes/v1/one", " code=NoNode trace=" TRACE_ID);
    expect_end(text, "target=/znodes/v1/two", " code=NoNode trace=-");
    expect_end(text, "target=/znodes/v1/three", " code=NoNode trace=-");
    close(fd);
    assert_int_equal(unlink(file), 0);
}
