/* Streams of events and long polls of a real ensemble: events and their order on any replica,
 * during kills, for slow readers and when a replica ends. */
#include "tests/lib/stream_kit.h"
#include "tests/lib/unit.h"
#include "tests/proc/ensemble.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    PATH_MAX_LEN = 128,
    STEPS_MAX = 12
};

static struct ensemble ensemble;

static void open_three(void)
{
    ensemble_launch(&ensemble, 3, NULL);
}

static void close_all(void)
{
    ensemble_close(&ensemble);
}

/* ---- Helpers. ---- */

static uint32_t follower(void)
{
    return (ensemble_wait_leader(&ensemble) + 1) % ensemble.count;
}

static void call(uint32_t index, const char *method, const char *target, const char *body,
                 const char *headers, long status)
{
    const struct web_call web = {.method = method,
                                 .port = ensemble.replicas[index].client_port,
                                 .path = target,
                                 .body = body,
                                 .headers = headers};
    long got = web_do(ensemble.web, &web, &ensemble.reply);

    if (got != status) {
        print_message("%s %s: %ld %s\n", method, target, got, web_text(&ensemble.reply));
        ensemble_check(&ensemble, false, "the status is the expected one");
    }
}

/* "+" creates, "=" sets, "-" deletes, "!" changes the ACL; then the path below `base`. */
static void change(uint32_t index, const char *base, const char *word)
{
    char target[PATH_MAX_LEN];

    (void)snprintf(target, sizeof(target), "/znodes/v1%s%s", base, word + 1);
    switch (word[0]) {
    case '+':
        call(index, "PUT", target, "x", "If-None-Match: *", 201);
        break;
    case '=':
        call(index, "PUT", target, "y", NULL, 200);
        break;
    case '-':
        call(index, "DELETE", target, NULL, NULL, 204);
        break;
    default:
        call(index, "PATCH", target, "{\"acl\":\"open\"}", "Content-Type: application/json", 200);
        break;
    }
}

/* Opens a stream on a replica when that has applied all answered writes. */
static void open_at(struct kit_stream *stream, uint32_t index, const char *target,
                    const char *headers, const char *begin)
{
    char all[512];
    const char *zxid = web_header(&ensemble.reply, "Zk-Zxid");

    (void)snprintf(all, sizeof(all), "%sZk-Min-Zxid: %s\r\n", headers, zxid ? zxid : "0x0");
    kit_stream_open(stream, ensemble.replicas[index].client_port, target, all);
    assert_int_equal(stream->status, 200);
    assert_string_equal(kit_stream_event(stream), begin);
}

#define EVENT(stream, text) assert_string_equal(kit_stream_event(stream), text)

/* ---- The table of ZooKeeper. ---- */

struct row {
    const char *mode;
    const char *before[STEPS_MAX]; /* Executed before the stream is opened. */
    const char *after[STEPS_MAX];  /* Executed after it. */
    const char *told[STEPS_MAX];   /* Events of "" and its children; each ends its zxid. */
};

/* Of one-shot kinds, changes before the one that uses the watch up fire no event. */
static const struct row table[] = {
    {"data", {"+"}, {"!", "+/c", "=/c", "-/c", "="}, {"NodeDataChanged "}},
    {"data", {"+"}, {"!", "-"}, {"NodeDeleted "}},
    {"exists", {NULL}, {"+"}, {"NodeCreated "}},
    {"exists", {"+"}, {"!", "+/c", "=/c", "-/c", "="}, {"NodeDataChanged "}},
    {"exists", {"+"}, {"!", "-"}, {"NodeDeleted "}},
    {"children", {"+"}, {"!", "=", "+/c"}, {"NodeChildrenChanged "}},
    {"children",
     {"+", "+/c"},
     {"!", "=", "=/c", "+/c/d", "-/c/d", "-/c"},
     {"NodeChildrenChanged "}},
    {"children", {"+"}, {"=", "-"}, {"NodeDeleted "}},
    {"persistent",
     {NULL},
     {"+", "!", "=", "=", "+/c", "=/c", "+/c/d", "-/c/d", "-/c", "-", "+"},
     {"NodeCreated ", "NodeDataChanged ", "NodeDataChanged ", "NodeChildrenChanged ",
      "NodeChildrenChanged ", "NodeDeleted ", "NodeCreated "}},
    {"recursive",
     {NULL},
     {"+", "!", "=", "+/c", "=/c", "+/c/d", "-/c/d", "-/c", "-", "+"},
     {"NodeCreated ", "NodeDataChanged ", "NodeCreated /c", "NodeDataChanged /c",
      "NodeCreated /c/d", "NodeDeleted /c/d", "NodeDeleted /c", "NodeDeleted ", "NodeCreated "}},
};

static void check_row(const struct row *row, uint32_t writer, uint32_t reader, const char *base)
{
    bool one_shot = strcmp(row->mode, "persistent") != 0 && strcmp(row->mode, "recursive") != 0;
    char target[PATH_MAX_LEN];
    struct kit_stream stream;

    for (size_t i = 0; row->before[i]; i++) {
        change(writer, base, row->before[i]);
    }
    (void)snprintf(target, sizeof(target), "/watch/v1%s?mode=%s", base, row->mode);
    open_at(&stream, reader, target, "", "watch fresh");
    for (size_t i = 0; row->after[i]; i++) {
        change(writer, base, row->after[i]);
    }
    for (size_t i = 0; row->told[i]; i++) {
        size_t name_len = strcspn(row->told[i], " ") + 1;
        char line[PATH_MAX_LEN];

        (void)snprintf(line, sizeof(line), "%.*s%s%s end", (int)name_len, row->told[i], base,
                       row->told[i] + name_len);
        EVENT(&stream, line);
    }
    if (one_shot) {
        assert_null(kit_stream_event(&stream));
        assert_true(stream.complete);
    }
    kit_stream_close(&stream);
}

static void open_small(void)
{
    ensemble_launch(&ensemble, 3,
                    "maxWindow=50\nmaxSocketQueueBytes=4096\nheartbeatInterval=200\n"
                    "staleLimit=5000\nslowTimeout=300000\n");
}

TEST_GROUP(open_three, close_all)

TEST(each_kind_gets_its_events_only)
{
    uint32_t reader = follower();
    uint32_t writer = (reader + 1) % ensemble.count;

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        char base[PATH_MAX_LEN];

        (void)snprintf(base, sizeof(base), "/row%zu", i);
        check_row(&table[i], writer, reader, base);
    }
}

static void multi(uint32_t index, const char *ops)
{
    call(index, "POST", "/multi/v1", ops, "Content-Type: application/json", 200);
}

TEST(a_multi_has_an_event_for_each_element)
{
    uint32_t reader = follower();
    struct kit_stream tree;
    struct kit_stream one;
    char zxid[64];

    change(reader, "/m", "+");
    open_at(&tree, reader, "/watch/v1/m?mode=recursive", "", "watch fresh");
    open_at(&one, reader, "/watch/v1/m?mode=persistent", "", "watch fresh");
    multi(reader,
          "{\"ops\":[{\"op\":\"create\",\"path\":\"/m/a\"},{\"op\":\"check\",\"path\":\"/m\","
          "\"version\":0},{\"op\":\"set\",\"path\":\"/m/a\",\"dataUtf8\":\"1\"},"
          "{\"op\":\"delete\",\"path\":\"/m/a\"},{\"op\":\"set\",\"path\":\"/m\","
          "\"dataUtf8\":\"2\"}]}");
    EVENT(&tree, "NodeCreated /m/a");
    assert_string_equal(kit_stream_id(&tree), "");
    (void)snprintf(zxid, sizeof(zxid), "%s", kit_stream_member(&tree, "zxid"));
    EVENT(&tree, "NodeDataChanged /m/a");
    EVENT(&tree, "NodeDeleted /m/a");
    EVENT(&tree, "NodeDataChanged /m end");
    assert_string_equal(kit_stream_member(&tree, "zxid"), zxid);
    assert_non_null(strstr(kit_stream_id(&tree), zxid));
    EVENT(&one, "NodeChildrenChanged /m");
    EVENT(&one, "NodeChildrenChanged /m");
    EVENT(&one, "NodeDataChanged /m end");
    kit_stream_close(&tree);
    kit_stream_close(&one);
}

TEST(refused_changes_fire_no_event)
{
    uint32_t reader = follower();
    struct kit_stream stream;

    change(reader, "/n", "+");
    open_at(&stream, reader, "/watch/v1/n?mode=recursive", "", "watch fresh");
    call(reader, "PUT", "/znodes/v1/n?version=7", "x", NULL, 412);
    call(reader, "POST", "/multi/v1",
         "{\"ops\":[{\"op\":\"set\",\"path\":\"/n\",\"dataUtf8\":\"1\"},{\"op\":\"delete\","
         "\"path\":\"/n/none\"}]}",
         "Content-Type: application/json", 404);
    call(reader, "POST", "/sync/v1", NULL, NULL, 200);
    change(reader, "/n", "=");
    EVENT(&stream, "NodeDataChanged /n end");
    kit_stream_close(&stream);
}

/* ---- Resuming. ---- */

enum {
    MISSED = 300 /* Rounds of changes; each is five events in three transactions. */
};

static void change_round(uint32_t index, int round)
{
    char path[PATH_MAX_LEN];
    char ops[512];

    (void)snprintf(path, sizeof(path), "/znodes/v1/r/%d", round);
    call(index, "PUT", path, "x", "If-None-Match: *", 201);
    call(index, "DELETE", path, NULL, NULL, 204);
    (void)snprintf(
        ops, sizeof(ops),
        "{\"ops\":[{\"op\":\"set\",\"path\":\"/r\",\"dataUtf8\":\"%d\"},"
        "{\"op\":\"create\",\"path\":\"/r/m%d\"},{\"op\":\"delete\",\"path\":\"/r/m%d\"}]}",
        round, round, round);
    multi(index, ops);
}

/* True when all events have arrived; false when the stream ended before. `*at` is the next
 * event. */
static bool read_rounds(struct kit_stream *stream, int *at, int end, char id[128])
{
    static const struct {
        const char *before;
        bool numbered;
        const char *behind;
    } events[] = {{"NodeCreated /r/", true, " end"},
                  {"NodeDeleted /r/", true, " end"},
                  {"NodeDataChanged /r", false, ""},
                  {"NodeCreated /r/m", true, ""},
                  {"NodeDeleted /r/m", true, " end"}};

    for (; *at < end; (*at)++) {
        const char *told = kit_stream_event(stream);
        char number[16] = "";
        char line[PATH_MAX_LEN];

        if (!told) {
            return false;
        }
        if (events[*at % 5].numbered) {
            (void)snprintf(number, sizeof(number), "%d", *at / 5);
        }
        (void)snprintf(line, sizeof(line), "%s%s%s", events[*at % 5].before, number,
                       events[*at % 5].behind);
        assert_string_equal(told, line);
        if (kit_stream_id(stream)[0] != '\0') {
            (void)snprintf(id, 128, "%s", kit_stream_id(stream));
        }
    }
    return true;
}

/* Events after the last id may belong to an incomplete transaction. */
static int resume_at(int at)
{
    return at % 5 < 2 ? at : at / 5 * 5 + 2;
}

TEST(a_stream_resumes_at_another_replica)
{
    uint32_t lost = follower();
    uint32_t writer = ensemble_wait_leader(&ensemble);
    uint32_t other = 3 - lost - writer;
    struct kit_stream stream;
    char id[128] = "";
    char header[256];
    int at = 0;

    change(writer, "/r", "+");
    open_at(&stream, lost, "/watch/v1/r?mode=recursive", "", "watch fresh");
    for (int i = 0; i < MISSED; i++) {
        if (i == MISSED / 3) {
            assert_true(read_rounds(&stream, &at, 5 * (MISSED / 4), id));
            ensemble_kill(&ensemble, lost);
        }
        change_round(writer, i);
    }
    (void)read_rounds(&stream, &at, 5 * MISSED, id); /* Events that the replica sent before it was
                                                      * killed. */
    kit_stream_close(&stream);
    (void)snprintf(header, sizeof(header), "Last-Event-ID: %s\r\n", id);
    open_at(&stream, other, "/watch/v1/r?mode=recursive", header, "watch replayed");
    at = resume_at(at);
    assert_true(read_rounds(&stream, &at, 5 * MISSED, id));
    change_round(writer, MISSED);
    assert_true(read_rounds(&stream, &at, 5 * MISSED + 5, id));
    kit_stream_close(&stream);
    ensemble_start(&ensemble, lost);
    ensemble_wait_ready(&ensemble, lost);
}

TEST(another_history_is_refused)
{
    call(0, "GET", "/watch/v1/x?since=1:0x100000001", NULL, NULL, 409);
}

/* ---- Sessions. ---- */

static void open_session(uint32_t index, int seconds, char id[64])
{
    char target[PATH_MAX_LEN];
    json_t *json = NULL;

    (void)snprintf(target, sizeof(target), "/sessions/v1/?op=create&expire=%d", seconds);
    call(index, "POST", target, NULL, NULL, 201);
    json = web_json(&ensemble.reply);
    (void)snprintf(id, 64, "%s", json_string_value(json_object_get(json, "id")));
    json_decref(json);
}

/* A stream with keepSession=true renews the session far beyond its timeout. Without the stream the
 * ephemeral ends, and each watcher gets one event. */
TEST(a_stream_keeps_an_ephemeral)
{
    enum {
        SECONDS = 4
    };

    uint32_t reader = follower();
    uint32_t leader = ensemble_wait_leader(&ensemble);
    uint64_t end_ms = 0;
    struct kit_stream in_session;
    struct kit_stream watcher;
    char id[64];
    char header[128];

    change(reader, "/e", "+");
    open_session(reader, SECONDS, id);
    (void)snprintf(header, sizeof(header), "Zk-Session: %s", id);
    call(reader, "POST", "/znodes/v1/e?op=create&name=x&ephemeral=true", "x", header, 201);
    (void)snprintf(header, sizeof(header), "Zk-Session: %s\r\n", id);
    open_at(&in_session, reader, "/watch/v1/e?mode=persistent&keepSession=true", header,
            "watch fresh");
    open_at(&watcher, leader, "/watch/v1/e?mode=recursive", "", "watch fresh");
    end_ms = os_now_ms() + UINT64_C(2000) * SECONDS;
    while (os_now_ms() < end_ms) {
        assert_non_null(kit_stream_next(&in_session));
        assert_string_equal(kit_stream_member(&in_session, "event"), "heartbeat");
    }
    call(reader, "GET", "/znodes/v1/e/x", NULL, NULL, 200);
    kit_stream_close(&in_session);
    EVENT(&watcher, "NodeDeleted /e/x end");
    kit_stream_close(&watcher);
}

TEST(closing_a_session_ends_its_streams)
{
    uint32_t reader = follower();
    struct kit_stream stream;
    char id[64];
    char header[128];
    char target[PATH_MAX_LEN];

    open_session(ensemble_wait_leader(&ensemble), 30, id);
    (void)snprintf(header, sizeof(header), "Zk-Session: %s\r\n", id);
    open_at(&stream, reader, "/watch/v1/e?mode=persistent", header, "watch fresh");
    (void)snprintf(target, sizeof(target), "/sessions/v1/%s", id);
    call(ensemble_wait_leader(&ensemble), "DELETE", target, NULL, NULL, 204);
    EVENT(&stream, "session closed");
    assert_null(kit_stream_event(&stream));
    kit_stream_close(&stream);
}

/* ---- Long polls. ---- */

/* Sends a long poll with the current entity tag, and does not wait for the answer. */
static void begin_wait(struct kit_stream *wait, uint32_t index, const char *target)
{
    uint16_t port = ensemble.replicas[index].client_port;
    char headers[512];
    const char *etag = NULL;

    call(index, "GET", target, NULL, NULL, 200);
    etag = web_header(&ensemble.reply, "ETag");
    assert_non_null(etag);
    (void)snprintf(headers, sizeof(headers), "If-None-Match: %s\r\nPrefer: wait=20\r\n", etag);
    kit_stream_send(wait, kit_stream_connect(port, 0), port, target, headers);
}

/* Many long polls wait, each for another znode: one change wakes exactly one. */
TEST(a_long_poll_wakes_on_its_change_alone)
{
    enum {
        WAITS = 20
    };

    uint32_t reader = follower();
    struct kit_stream waits[WAITS];
    char path[PATH_MAX_LEN];

    for (int i = 0; i < WAITS; i++) {
        (void)snprintf(path, sizeof(path), "/znodes/v1/w%d", i);
        call(reader, "PUT", path, "x", "If-None-Match: *", 201);
        begin_wait(&waits[i], reader, path);
    }
    ENSEMBLE_WAIT(&ensemble, ensemble_metric(&ensemble, reader, "zabra_http_waits") == WAITS);
    for (int i = 0; i < WAITS; i++) {
        for (int j = i; j < WAITS; j++) {
            assert_false(kit_stream_has_more(&waits[j]));
        }
        (void)snprintf(path, sizeof(path), "/znodes/v1/w%d", i);
        call((reader + 1) % 3, "PUT", path, "y", NULL, 200);
        kit_stream_read_head(&waits[i]);
        assert_int_equal(waits[i].status, 200);
        assert_non_null(strstr(waits[i].head, "Preference-Applied: wait=20\r\n"));
        kit_stream_close(&waits[i]);
    }
}

/* ---- The end of a replica. ---- */

TEST(a_stopping_replica_closes_its_streams)
{
    uint32_t reader = follower();
    struct kit_stream stream;
    struct kit_stream wait;

    change(reader, "/d", "+");
    open_at(&stream, reader, "/watch/v1/d?mode=persistent", "", "watch fresh");
    begin_wait(&wait, reader, "/znodes/v1/d");
    ENSEMBLE_WAIT(&ensemble, ensemble_metric(&ensemble, reader, "zabra_http_waits") == 1);
    assert_int_equal(ensemble_stop(&ensemble, reader), 0);
    EVENT(&stream, "closing drain");
    assert_non_null(strstr(buf_cstr(&stream.frame), "\"servers\":["));
    assert_null(kit_stream_event(&stream));
    assert_true(stream.complete);
    kit_stream_read_head(&wait);
    assert_int_equal(wait.status, 304);
    kit_stream_close(&stream);
    kit_stream_close(&wait);
    ensemble_start(&ensemble, reader);
    ensemble_wait_ready(&ensemble, reader);
}

/* ---- Small limits. ---- */

static void set_many(uint32_t index, const char *target, int count)
{
    static char data[4096];

    memset(data, 'x', sizeof(data) - 1);
    for (int i = 0; i < count; i++) {
        call(index, "PUT", target, data, NULL, 200);
    }
}

TEST_GROUP(open_small, close_all)

TEST(a_slow_reader_gets_an_overrun)
{
    uint32_t reader = follower();
    uint16_t port = ensemble.replicas[reader].client_port;
    struct kit_stream stream;
    const char *told = NULL;
    int count = 0;
    int overruns = 0; /* One, unless the replica itself paused in between. */

    change(reader, "/o", "+");
    kit_stream_ask(&stream, kit_stream_connect(port, 4096), port,
                   "/watch/v1/o?mode=persistent&values=true", "");
    EVENT(&stream, "watch fresh");
    set_many(reader, "/znodes/v1/o", 1500);
    change(reader, "/o", "=");
    do {
        told = kit_stream_event(&stream);
        assert_non_null(told);
        if (strcmp(told, "overrun") == 0) {
            overruns++;
        } else {
            assert_memory_equal(told, "NodeDataChanged /o", 18);
            count++;
        }
    } while (!strstr(told, "='y'"));
    assert_true(overruns > 0);
    assert_in_range(count, 2, 1500);
    change(reader, "/o", "-");
    EVENT(&stream, "NodeDeleted /o end");
    kit_stream_close(&stream);
}

TEST(changes_missed_long_ago_are_a_difference_or_a_gap)
{
    uint32_t reader = follower();
    struct kit_stream stream;
    char since[128];
    char target[256];

    change(reader, "/g", "+");
    (void)snprintf(since, sizeof(since), "%s", web_header(&ensemble.reply, "Zk-Zxid"));
    change(reader, "/g", "+/a");
    for (int i = 0; i < 60; i++) {
        change(reader, "/g", "=");
    }
    (void)snprintf(target, sizeof(target), "/watch/v1/g?mode=recursive&since=%s", since);
    open_at(&stream, reader, target, "", "watch diffed");
    EVENT(&stream, "NodeChildrenChanged /g diff");
    EVENT(&stream, "NodeCreated /g/a diff");
    EVENT(&stream, "NodeDataChanged /g diff end");
    kit_stream_close(&stream);
    for (int i = 0; i < 100; i++) {
        char word[32];

        (void)snprintf(word, sizeof(word), "+/%d", i);
        change(reader, "/g", word);
    }
    open_at(&stream, reader, target, "", "watch gap"); /* More than a queue may hold. */
    change(reader, "/g", "=");
    EVENT(&stream, "NodeDataChanged /g end");
    kit_stream_close(&stream);
}

/* A replica that has lost the others must not keep silent streams open. */
TEST(an_isolated_replica_closes_its_streams)
{
    uint32_t reader = follower();
    struct kit_stream stream;

    open_at(&stream, reader, "/watch/v1/x?mode=persistent", "", "watch fresh");
    ensemble_kill(&ensemble, (reader + 1) % 3);
    ensemble_kill(&ensemble, (reader + 2) % 3);
    EVENT(&stream, "closing cut-off");
    assert_null(kit_stream_event(&stream));
    kit_stream_close(&stream);
    call(reader, "GET", "/watch/v1/x?mode=persistent", NULL, NULL, 503);
    call(reader, "GET", "/znodes/v1/", NULL, NULL, 503); /* Plain reads are refused, too. */
}
