/* Long polls: answered when the tag changes and not before, and in time when it does not change. */
#include "http/http_int.h"
#include "tests/unit/http_front.h"

#define JSON "Content-Type: application/json\r\n"
#define ACL  "{\"acl\":\"open\"}"

static void create(const char *target)
{
    assert_int_equal(front_ask("PUT", target, "If-None-Match: *\r\n", "x"), 201);
}

/* The tag that the client has. */
static void tag_of(const char *target, char tag[128])
{
    struct kit_answer answer = kit_ask(port, "GET", target, "", NULL);

    assert_int_equal(answer.status, 200);
    (void)snprintf(tag, 128, "%s", kit_header(&answer, "ETag"));
    kit_free(&answer);
}

static void send_wait(int fd, const char *target, const char *tag, int seconds)
{
    char text[512];

    (void)snprintf(text, sizeof(text),
                   "GET %s HTTP/1.1\r\nHost: localhost:%u\r\nIf-None-Match: %s\r\n"
                   "Prefer: wait=%d\r\n\r\n",
                   target, port, tag, seconds);
    kit_send(fd, text);
}

/* The value of a metric of this replica. */
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

static void wait_for_metric(const char *name, long value)
{
    uint64_t end_ms = os_now_ms() + KIT_DEADLINE_MS;

    while (metric(name) != value) {
        assert_true(os_now_ms() < end_ms);
    }
}

/* Sends a long poll on a connection and returns once it waits. */
static int begin_wait(const char *target, int seconds)
{
    int fd = kit_connect(port);
    char tag[128];

    tag_of(target, tag);
    send_wait(fd, target, tag, seconds);
    wait_for_metric("zabra_http_waits", 1);
    return fd;
}

static void expect(int fd, int status, const char *applied)
{
    struct kit_answer answer = kit_read(fd, false);

    assert_int_equal(answer.status, status);
    if (applied) {
        assert_string_equal(kit_header(&answer, "Preference-Applied"), applied);
    } else {
        assert_null(kit_header(&answer, "Preference-Applied"));
    }
    kit_free(&answer);
}

static bool is_quiet(int fd)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};

    return poll(&wait, 1, 0) == 0;
}

TEST(a_change_ends_a_wait, front_setup, front_teardown)
{
    int fd = 0;

    create("/znodes/v1/a");
    create("/znodes/v1/b");
    fd = begin_wait("/znodes/v1/a", 5);
    assert_int_equal(front_ask("PUT", "/znodes/v1/b", "", "y"), 200);
    assert_int_equal(front_ask("POST", "/znodes/v1/a?op=create&name=c", "", "y"), 201);
    assert_int_equal(metric("zabra_http_waits"), 1); /* Neither is a change of its data. */
    assert_true(is_quiet(fd));
    assert_int_equal(front_ask("PUT", "/znodes/v1/a", "", "y"), 200);
    expect(fd, 200, "wait=5");
    wait_for_metric("zabra_http_waits", 0);
    close(fd);
}

/* Each view waits for what its own tag covers. */
TEST(each_view_waits_for_its_own_changes, front_setup, front_teardown)
{
    static const struct {
        const char *target;
        const char *method;
        const char *change;
        const char *headers;
        const char *body;
        int done;
    } rows[] = {
        {"/znodes/v1/a?view=children", "POST", "/znodes/v1/a?op=create&name=c1", "", "x", 201},
        {"/znodes/v1/a?view=children", "DELETE", "/znodes/v1/a/c1", "", NULL, 204},
        {"/znodes/v1/a?view=stat", "PUT", "/znodes/v1/a", "", "x", 200},
        {"/znodes/v1/a?view=stat", "POST", "/znodes/v1/a?op=create&name=c2", "", "x", 201},
        {"/znodes/v1/a?view=stat", "PATCH", "/znodes/v1/a", JSON, ACL, 200},
        {"/znodes/v1/a?view=acl", "PATCH", "/znodes/v1/a", JSON, ACL, 200},
        {"/znodes/v1/a?view=tree", "PUT", "/znodes/v1/a/c2", "", "x", 200},
        {"/znodes/v1/a?view=tree", "PATCH", "/znodes/v1/a/c2", JSON, ACL, 200},
        {"/znodes/v1/a?view=tree", "DELETE", "/znodes/v1/a/c2", "", NULL, 204},
    };

    create("/znodes/v1/a");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int fd = begin_wait(rows[i].target, 5);

        assert_int_equal(front_ask(rows[i].method, rows[i].change, rows[i].headers, rows[i].body),
                         rows[i].done);
        expect(fd, 200, "wait=5");
        wait_for_metric("zabra_http_waits", 0);
        close(fd);
    }
}

TEST(a_deletion_ends_a_wait, front_setup, front_teardown)
{
    int fd = 0;

    create("/znodes/v1/a");
    fd = begin_wait("/znodes/v1/a", 5);
    assert_int_equal(front_ask("DELETE", "/znodes/v1/a", "", NULL), 204);
    expect(fd, 404, "wait=5");
    close(fd);
}

/* Asks for an absent znode without a tag, and returns once that waits. */
static int begin_absent(const char *target, int seconds)
{
    int fd = kit_connect(port);
    char text[512];

    (void)snprintf(text, sizeof(text),
                   "GET %s HTTP/1.1\r\nHost: localhost:%u\r\nPrefer: wait=%d\r\n\r\n", target, port,
                   seconds);
    kit_send(fd, text);
    wait_for_metric("zabra_http_waits", 1);
    return fd;
}

TEST(a_wait_for_an_absent_znode_ends_with_its_creation, front_setup, front_teardown)
{
    static const char *const views[] = {"", "?view=stat", "?view=children", "?view=tree",
                                        "?view=acl"};
    char target[100];

    for (size_t i = 0; i < sizeof(views) / sizeof(views[0]); i++) {
        int fd = 0;

        (void)snprintf(target, sizeof(target), "/znodes/v1/a%s", views[i]);
        fd = begin_absent(target, 5);
        create("/znodes/v1/b");
        assert_true(is_quiet(fd));
        create("/znodes/v1/a");
        expect(fd, 200, "wait=5");
        assert_int_equal(front_ask("DELETE", "/znodes/v1/a", "", NULL), 204);
        assert_int_equal(front_ask("DELETE", "/znodes/v1/b", "", NULL), 204);
        close(fd);
    }
}

TEST(a_wait_for_a_znode_that_stays_absent_ends_in_time, front_setup, front_teardown)
{
    uint64_t start_ms = os_now_ms();
    int fd = begin_absent("/znodes/v1/a", 1);

    expect(fd, 404, "wait=1");
    assert_true(os_now_ms() - start_ms >= 1000);
    close(fd);
    fd = begin_absent("/znodes/v1/a", 5);
    kit_replace(gate); /* It reads again, and continues to wait. */
    wait_for_metric("zabra_http_waits", 1);
    create("/znodes/v1/a");
    expect(fd, 200, "wait=5");
    close(fd);
    /* Writes never wait for a change. */
    assert_int_equal(front_ask("PUT", "/znodes/v1/none", "Prefer: wait=5\r\n", "x"), 404);
}

TEST(without_a_change_the_answer_comes_in_time, front_setup, front_teardown)
{
    int fd = 0;
    uint64_t start_ms = os_now_ms();

    create("/znodes/v1/a");
    fd = begin_wait("/znodes/v1/a", 1);
    expect(fd, 304, "wait=1");
    assert_true(os_now_ms() - start_ms >= 1000);
    /* The connection stays open. */
    kit_send(fd, "GET /znodes/v1/a HTTP/1.1\r\nHost: localhost\r\n\r\n");
    expect(fd, 200, NULL);
    close(fd);
}

static void short_waits(struct config_clients *limits)
{
    limits->wait_max_ms = 1000;
    limits->streams_max = 1;
}

static void setup_short_waits(void)
{
    front_start_with(short_waits);
}

TEST(a_wait_is_bounded_in_time_and_number, setup_short_waits, front_teardown)
{
    int fd = 0;
    char tag[128];
    char headers[256];

    create("/znodes/v1/a");
    tag_of("/znodes/v1/a", tag);
    fd = begin_wait("/znodes/v1/a", 3600);
    (void)snprintf(headers, sizeof(headers), "If-None-Match: %s\r\nPrefer: wait=1\r\n", tag);
    assert_int_equal(front_ask("GET", "/znodes/v1/a", headers, NULL), 429);
    expect(fd, 304, "wait=1");
    close(fd);
}

/* A change that the client does not know yet is answered at once, and the answer does not claim to
 * have waited. */
TEST(without_a_matching_tag_there_is_no_wait, front_setup, front_teardown)
{
    int fd = kit_connect(port);

    create("/znodes/v1/a");
    send_wait(fd, "/znodes/v1/a", "\"d1.9\"", 5);
    expect(fd, 200, NULL);
    kit_send(fd, "GET /znodes/v1/a HTTP/1.1\r\nHost: localhost\r\nPrefer: wait=5\r\n\r\n");
    expect(fd, 200, NULL);
    send_wait(fd, "/znodes/v1/none", "\"d1.9\"", 5);
    expect(fd, 404, NULL);
    close(fd);
}

/* Computed data changes without a change of the znode. So it has no tag, and no wait. */
TEST(the_stats_of_a_quota_have_no_tag, front_setup, front_teardown)
{
    static const char *const targets[] = {
        "/znodes/v1/zookeeper/quota/a/zookeeper_stats",
        "/znodes/v1/zookeeper/quota/a/zookeeper_stats?view=stat",
        "/znodes/v1/zookeeper/quota/a?view=tree&with=data",
    };
    int fd = kit_connect(port);

    create("/znodes/v1/a");
    create("/znodes/v1/zookeeper/quota/a");
    create("/znodes/v1/zookeeper/quota/a/zookeeper_limits");
    create("/znodes/v1/zookeeper/quota/a/zookeeper_stats");
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        struct kit_answer answer = kit_ask(port, "GET", targets[i], "", NULL);

        assert_int_equal(answer.status, 200);
        assert_null(kit_header(&answer, "ETag"));
        kit_free(&answer);
        send_wait(fd, targets[i], "*", 5);
        expect(fd, 200, NULL);
    }
    close(fd);
}

/* Only the first preference counts. */
TEST(the_first_preference_counts, front_setup, front_teardown)
{
    int fd = kit_connect(port);
    uint64_t start_ms = os_now_ms();
    char tag[128];
    char text[512];

    create("/znodes/v1/a");
    tag_of("/znodes/v1/a", tag);
    (void)snprintf(text, sizeof(text),
                   "GET /znodes/v1/a HTTP/1.1\r\nHost: localhost:%u\r\nIf-None-Match: %s\r\n"
                   "Prefer: respond-async, wait=1, wait=9\r\n\r\n",
                   port, tag);
    kit_send(fd, text);
    expect(fd, 304, "wait=1");
    assert_true(os_now_ms() - start_ms >= 1000);
    close(fd);
}

TEST(a_client_that_disconnects_releases_its_place, front_setup, front_teardown)
{
    create("/znodes/v1/a");
    close(begin_wait("/znodes/v1/a", 5));
    wait_for_metric("zabra_http_waits", 0);
}

TEST(a_replica_that_is_cut_off_keeps_no_client_waiting, front_setup, front_teardown)
{
    int fd = 0;

    create("/znodes/v1/a");
    fd = begin_wait("/znodes/v1/a", 5);
    atomic_store(&gate->local_err, ERR_NOT_READY);
    expect(fd, 503, "wait=5");
    close(fd);
}

/* It reads again, and continues to wait. */
TEST(a_replaced_state_keeps_waits_whose_tag_is_unchanged, front_setup, front_teardown)
{
    int fd = 0;

    create("/znodes/v1/a");
    fd = begin_wait("/znodes/v1/a", 5);
    kit_replace(gate);
    assert_int_equal(front_ask("POST", "/znodes/v1/a?op=create&name=c", "", "y"), 201);
    assert_true(is_quiet(fd));
    assert_int_equal(front_ask("PUT", "/znodes/v1/a", "", "y"), 200);
    expect(fd, 200, "wait=5");
    close(fd);
}

TEST(draining_answers_waits_at_once, front_setup, front_teardown)
{
    int fd = 0;

    create("/znodes/v1/a");
    fd = begin_wait("/znodes/v1/a", 5);
    http_drain(http);
    expect(fd, 304, "wait=5");
    close(fd);
}

/* The waits have ended, and a connection that is still open asks for another. */
TEST(no_wait_begins_while_draining, front_setup, front_teardown)
{
    int fd = kit_connect(port);
    char tag[128];

    create("/znodes/v1/a");
    tag_of("/znodes/v1/a", tag);
    atomic_store(&http->draining, true);
    send_wait(fd, "/znodes/v1/a", tag, 5);
    expect(fd, 304, NULL);
    close(fd);
}

/* Writers and waiting readers: each wait ends with a change, none is missed. */
TEST(no_change_is_lost_between_the_read_and_the_wait, front_setup, front_teardown)
{
    enum {
        ROUNDS = 300
    };

    int fd = kit_connect(port);
    int writer = kit_connect(port);
    char tag[128];

    create("/znodes/v1/a");
    tag_of("/znodes/v1/a", tag);
    for (int i = 0; i < ROUNDS; i++) {
        struct kit_answer answer;

        send_wait(fd, "/znodes/v1/a", tag, 5);
        kit_send(writer, "PUT /znodes/v1/a HTTP/1.1\r\nHost: localhost\r\n"
                         "Content-Length: 1\r\n\r\nx");
        answer = kit_read(fd, false);
        assert_int_equal(answer.status, 200);
        (void)snprintf(tag, sizeof(tag), "%s", kit_header(&answer, "ETag"));
        kit_free(&answer);
        answer = kit_read(writer, false);
        assert_int_equal(answer.status, 200);
        kit_free(&answer);
    }
    close(fd);
    close(writer);
}
