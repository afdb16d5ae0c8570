/* Streams of events against a running front end: what they send, and what it costs clients that do
 * not read. */
#include "tests/lib/stream_kit.h"
#include "tests/unit/http_front.h"

static void create(const char *path, const char *data)
{
    char target[300];

    (void)snprintf(target, sizeof(target), "/znodes/v1%s", path);
    assert_int_equal(front_ask("PUT", target, "If-None-Match: *\r\n", data), 201);
}

static void set(const char *path, const char *data)
{
    char target[300];

    (void)snprintf(target, sizeof(target), "/znodes/v1%s", path);
    assert_int_equal(front_ask("PUT", target, "", data), 200);
}

static void delete (const char *path)
{
    char target[300];

    (void)snprintf(target, sizeof(target), "/znodes/v1%s", path);
    assert_int_equal(front_ask("DELETE", target, "", NULL), 204);
}

static void open_stream(struct kit_stream *stream, const char *target)
{
    kit_stream_open(stream, port, target, "");
    assert_int_equal(stream->status, 200);
    assert_non_null(kit_stream_event(stream));
}

#define TOLD(stream, text) assert_string_equal(kit_stream_event(stream), text)

/* ---- Events. ---- */

TEST(a_stream_begins_at_once_and_sends_changes, front_setup, front_teardown)
{
    struct kit_stream stream;

    create("/a", "x");
    kit_stream_open(&stream, port, "/watch/v1/a?mode=recursive&values=true", "");
    assert_int_equal(stream.status, 200);
    assert_non_null(strstr(stream.head, "Content-Type: text/event-stream\r\n"));
    assert_non_null(strstr(stream.head, "Cache-Control: no-store\r\n"));
    assert_non_null(strstr(stream.head, "Zk-Zxid: 0x100000001\r\n"));
    TOLD(&stream, "watch fresh");
    assert_string_equal(kit_stream_id(&stream), "000000001234abcd:0x100000001");
    set("/a", "y");
    TOLD(&stream, "NodeDataChanged /a ='y' end");
    assert_string_equal(kit_stream_id(&stream), "000000001234abcd:0x100000002");
    create("/a/b", "z");
    TOLD(&stream, "NodeCreated /a/b ='z' end");
    delete ("/a/b");
    TOLD(&stream, "NodeDeleted /a/b end");
    kit_stream_close(&stream);
}

TEST(ndjson_has_the_same_objects_one_per_line, front_setup, front_teardown)
{
    struct kit_stream stream;

    kit_stream_open(&stream, port, "/watch/v1/?mode=recursive", "Accept: application/x-ndjson\r\n");
    assert_non_null(strstr(stream.head, "Content-Type: application/x-ndjson\r\n"));
    TOLD(&stream, "watch fresh");
    create("/a", "x");
    TOLD(&stream, "NodeCreated /a end");
    assert_null(strstr((const char *)stream.frame.data, "event:"));
    kit_stream_close(&stream);
}

/* Clients that receive the same change in different formats do not get each other's. */
TEST(values_come_in_the_requested_format, front_setup, front_teardown)
{
    static const struct {
        const char *query;
        const char *data;
    } rows[] = {
        {"", "\"dataUtf8\":\"[1]\""},
        {"&dataformat=base64", "\"data64\":\"WzFd\""},
        {"&dataformat=json", "\"dataJson\":[1]"},
        {"&dataformat=utf8", "\"dataUtf8\":\"[1]\""},
        {"&dataformat=none", "\"numChildren\":0"},
    };
    struct kit_stream streams[sizeof(rows) / sizeof(rows[0])];

    create("/a", "x");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char target[100];

        (void)snprintf(target, sizeof(target), "/watch/v1/a?values=true%s", rows[i].query);
        open_stream(&streams[i], target);
    }
    set("/a", "[1]");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_non_null(kit_stream_event(&streams[i]));
        assert_non_null(strstr(buf_cstr(&streams[i].frame), rows[i].data));
        assert_int_equal(strstr(buf_cstr(&streams[i].frame), "[1]") != NULL,
                         strstr(rows[i].data, "[1]") != NULL);
        kit_stream_close(&streams[i]);
    }
}

TEST(only_the_last_event_of_a_transaction_may_be_resumed_from, front_setup, front_teardown)
{
    struct kit_stream stream;

    open_stream(&stream, "/watch/v1/?mode=recursive");
    assert_int_equal(front_ask("POST", "/multi/v1", "Content-Type: application/json\r\n",
                               "{\"ops\":[{\"op\":\"create\",\"path\":\"/a\"},"
                               "{\"op\":\"create\",\"path\":\"/b\"}]}"),
                     200);
    TOLD(&stream, "NodeCreated /a");
    assert_string_equal(kit_stream_id(&stream), "");
    TOLD(&stream, "NodeCreated /b end");
    assert_string_equal(kit_stream_id(&stream), "000000001234abcd:0x100000001");
    kit_stream_close(&stream);
}

TEST(a_one_shot_stream_ends_after_its_event, front_setup, front_teardown)
{
    struct kit_stream stream;

    create("/a", "x");
    open_stream(&stream, "/watch/v1/a?mode=data");
    set("/a", "y");
    TOLD(&stream, "NodeDataChanged /a end");
    assert_null(kit_stream_next(&stream));
    assert_true(stream.complete); /* Not just cut off. */
    kit_stream_close(&stream);
}

/* A connection that has served other requests, and will serve more. */
TEST(a_stream_may_follow_other_requests_of_its_connection, front_setup, front_teardown)
{
    int fd = kit_connect(port);
    struct kit_stream stream;
    struct kit_answer answer;

    create("/a", "x");
    for (int i = 0; i < 3; i++) {
        kit_send(fd, "GET /znodes/v1/a HTTP/1.1\r\nHost: localhost\r\n\r\n");
        answer = kit_read(fd, false);
        assert_int_equal(answer.status, 200);
        kit_free(&answer);
        kit_stream_ask(&stream, fd, port, "/watch/v1/a?mode=data", "");
        TOLD(&stream, "watch fresh");
        set("/a", "y");
        TOLD(&stream, "NodeDataChanged /a end");
        assert_null(kit_stream_next(&stream));
        stream.fd = dup(fd);
        kit_stream_close(&stream);
    }
    close(fd);
}

TEST(heartbeats_carry_the_zxid, front_setup, front_teardown)
{
    struct kit_stream stream;

    open_stream(&stream, "/watch/v1/a?mode=persistent");
    create("/b", "x"); /* Not what this stream watches. */
    do {
        assert_non_null(kit_stream_next(&stream));
        assert_string_equal(kit_stream_member(&stream, "event"), "heartbeat");
    } while (strcmp(kit_stream_id(&stream), "000000001234abcd:0x100000001") != 0);
    kit_stream_close(&stream);
}

/* ---- Resuming. ---- */

TEST(a_stream_continues_where_another_has_ended, front_setup, front_teardown)
{
    struct kit_stream stream;

    create("/a", "1");
    set("/a", "2");
    delete ("/a");
    kit_stream_open(&stream, port, "/watch/v1/a?mode=persistent&since=0x100000001", "");
    TOLD(&stream, "watch replayed");
    assert_string_equal(kit_stream_id(&stream), "");
    TOLD(&stream, "NodeDataChanged /a end");
    TOLD(&stream, "NodeDeleted /a end");
    create("/a", "3");
    TOLD(&stream, "NodeCreated /a end");
    kit_stream_close(&stream);
    kit_stream_open(&stream, port, "/watch/v1/a?mode=persistent",
                    "Last-Event-ID: 000000001234abcd:0x100000003\r\n");
    TOLD(&stream, "watch replayed");
    TOLD(&stream, "NodeCreated /a end");
    kit_stream_close(&stream);
}

TEST(a_missed_one_shot_event_ends_the_stream_at_once, front_setup, front_teardown)
{
    struct kit_stream stream;

    create("/a", "1");
    set("/a", "2");
    set("/a", "3");
    kit_stream_open(&stream, port, "/watch/v1/a?mode=data&since=0x100000001", "");
    TOLD(&stream, "watch replayed");
    TOLD(&stream, "NodeDataChanged /a end");
    assert_null(kit_stream_next(&stream));
    kit_stream_close(&stream);
}

TEST(a_position_of_another_history_is_refused, front_setup, front_teardown)
{
    assert_int_equal(front_ask("GET", "/watch/v1/a?mode=persistent",
                               "Last-Event-ID: 0000000000000001:0x100000001\r\n", NULL),
                     409);
}

TEST(a_stream_waits_for_a_zxid_that_is_not_here_yet, front_setup, front_teardown)
{
    struct kit_stream stream;
    int fd = kit_connect(port);
    char text[256];

    create("/a", "1");
    (void)snprintf(text, sizeof(text),
                   "GET /watch/v1/a?mode=persistent&since=0x100000002 HTTP/1.1\r\n"
                   "Host: localhost:%u\r\n\r\n",
                   port);
    kit_send(fd, text);
    set("/a", "2");
    set("/a", "3");
    kit_stream_open(&stream, port, "/watch/v1/a?mode=persistent&since=0x100000002", "");
    TOLD(&stream, "watch replayed");
    TOLD(&stream, "NodeDataChanged /a end");
    kit_stream_close(&stream);
    close(fd);
}

static void short_requests(struct config_clients *limits)
{
    limits->request_timeout_ms = 100;
}

static void setup_short_requests(void)
{
    front_start_with(short_requests);
}

TEST(a_replica_that_stays_behind_reports_it, setup_short_requests, front_teardown)
{
    assert_int_equal(front_ask("GET", "/watch/v1/a?mode=persistent&since=0x100000009", "", NULL),
                     503);
}

TEST(a_replaced_state_is_sent_as_a_difference, front_setup, front_teardown)
{
    struct kit_stream stream;
    struct kit_stream one_shot;

    create("/a", "1");
    open_stream(&stream, "/watch/v1/a?mode=persistent");
    open_stream(&one_shot, "/watch/v1/b?mode=exists");
    kit_replace(gate);
    TOLD(&stream, "overrun");
    set("/a", "2");
    TOLD(&stream, "NodeDataChanged /a end");
    create("/b", "1");
    TOLD(&one_shot, "overrun");
    TOLD(&one_shot, "NodeCreated /b end");
    assert_null(kit_stream_next(&one_shot));
    kit_stream_close(&stream);
    kit_stream_close(&one_shot);
}

/* ---- Refusals. ---- */

TEST(impossible_watches_are_refused, front_setup, front_teardown)
{
    assert_int_equal(front_ask("GET", "/watch/v1/a?mode=nonsense", "", NULL), 400);
    assert_int_equal(front_ask("GET", "/watch/v1/a?mode=data&since=nonsense", "", NULL), 400);
    assert_int_equal(front_ask("GET", "/watch/v1/a?mode=data&what=1", "", NULL), 400);
    assert_int_equal(front_ask("GET", "/watch/v1/a/../b?mode=data", "", NULL), 400);
    assert_int_equal(front_ask("GET", "/watch/v1/a?mode=data", "Accept: image/png\r\n", NULL), 406);
    assert_int_equal(front_ask("PUT", "/watch/v1/a?mode=data", "", NULL), 405);
    assert_int_equal(front_ask("HEAD", "/watch/v1/a?mode=data", "", NULL), 200);
    atomic_store(&gate->local_err, ERR_NOT_READY);
    assert_int_equal(front_ask("GET", "/watch/v1/a?mode=data", "", NULL), 503);
}

static void few_streams(struct config_clients *limits)
{
    limits->streams_max = 2;
}

static void setup_few_streams(void)
{
    front_start_with(few_streams);
}

TEST(the_number_of_streams_is_bounded, setup_few_streams, front_teardown)
{
    struct kit_stream a;
    struct kit_stream b;
    int status = 0;

    open_stream(&a, "/watch/v1/a?mode=data");
    open_stream(&b, "/watch/v1/a?mode=data");
    assert_int_equal(front_ask("GET", "/watch/v1/a?mode=data", "", NULL), 429);
    kit_stream_close(&b); /* A client that disconnects releases its place. */
    for (uint64_t end = os_now_ms() + KIT_DEADLINE_MS; status != 200 && os_now_ms() < end;) {
        kit_stream_open(&b, port, "/watch/v1/a?mode=data", "");
        status = b.status;
        if (status != 200) {
            kit_stream_close(&b);
        }
    }
    assert_int_equal(status, 200);
    kit_stream_close(&a);
    kit_stream_close(&b);
}

/* ---- The end. ---- */

TEST(a_replica_that_is_cut_off_redirects_its_streams, front_setup, front_teardown)
{
    struct kit_stream stream;

    open_stream(&stream, "/watch/v1/a?mode=persistent");
    atomic_store(&gate->local_err, ERR_NOT_READY);
    TOLD(&stream, "closing cut-off");
    assert_non_null(strstr((const char *)stream.frame.data, "127.0.0.1:9998"));
    assert_null(kit_stream_next(&stream));
    kit_stream_close(&stream);
}

TEST(draining_ends_streams, front_setup, front_teardown)
{
    struct kit_stream stream;

    open_stream(&stream, "/watch/v1/a?mode=persistent");
    http_drain(http);
    TOLD(&stream, "closing drain");
    assert_null(kit_stream_next(&stream));
    kit_stream_close(&stream);
}
