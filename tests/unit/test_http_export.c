/* Searches and exports against a running front end: what they contain, for which client, and how
 * they end. */
#include "server/transfer/export.h"
#include "tests/lib/stream_kit.h"
#include "tests/unit/http_transfer.h"

enum {
    LARGE = 4000, /* Bytes of data; a few hundred such znodes exceed every buffer on the way. */
    MANY = 1500,
    CLOSED = 9000,
    SMALL_BUFFER = 4096,
    SLOW_MS = 1000,
    PATIENCE_MS = 60000 /* For a reader that waits while this test writes. */
};

static void setup_with(uint32_t slow_timeout_ms)
{
    gate = kit_gate_new();
    gate->limits.slow_timeout_ms = slow_timeout_ms;
    kit_permit_root(&gate->limits);
    front_start();
}

static void setup(void)
{
    setup_with(PATIENCE_MS);
}

static void setup_impatient(void)
{
    setup_with(SLOW_MS);
}

static void create(const char *path, const char *headers, const char *data)
{
    char target[300];
    char lines[300];

    (void)snprintf(target, sizeof(target), "/znodes/v1%s", path);
    (void)snprintf(lines, sizeof(lines), "If-None-Match: *\r\n%s", headers);
    assert_int_equal(front_ask("PUT", target, lines, data), 201);
}

static void make_tree(void)
{
    create("/app", "", "top");
    create("/app/a", "", "one");
    create("/app/a/x", "", "two");
    create("/app/b", "Zk-Acl: digest:bob:AAAAAAAAAAAAAAAAAAAAAAAAAAA=:cdrwa\r\n", "closed");
    assert_int_equal(front_ask("POST", "/znodes/v1/app?op=create&name=c&container=true", "", ""),
                     201);
    assert_int_equal(
        front_ask("POST", "/znodes/v1/app?op=create&name=n&null=true&ttl=5000", "", NULL), 201);
    create("/apple", "", "two");
}

static void expect(const char *target, const char *headers, int status, const char *text)
{
    struct kit_answer answer = kit_ask(port, "GET", target, headers, NULL);

    if (answer.status != status || !kit_body_has(&answer, text)) {
        fail_msg("%s: %d %s, not %d %s", target, answer.status, (const char *)answer.body, status,
                 text);
    }
    kit_free(&answer);
}

/* ---- Searches ---- */

TEST(a_search_answers_with_paths_and_a_cursor, setup, front_teardown)
{
    make_tree();
    expect("/search/v1/app?name=x", "", 200, "\"nodes\":[\"/app/a/x\"],\"more\":false");
    expect("/search/v1/app?data=two", "", 200, "\"nodes\":[\"/app/a/x\"],\"more\":false");
    expect("/search/v1/?data=two&with=stat", "", 200, "{\"path\":\"/apple\",\"stat\":{");
    expect("/search/v1?path=/app&name=%2A&with=stat", "", 200,
           "{\"path\":\"/app/b\",\"hidden\":true}");
    expect("/search/v1/app?limit=1", "", 200,
           "\"nodes\":[\"/app\"],\"more\":true,\"after\":\"/app\",\"looked\":1}");
    expect("/search/v1/app?name=x&with=data&dataformat=utf8", "", 200, "\"dataUtf8\":\"two\"");
    expect("/search/v1/app?after=/apple", "", 400, "after= must be");
    expect("/search/v1/app/none", "", 404, "NoNode");
    expect("/search/v1/app/b", "", 401, "NoAuth");
    expect("/search/v1/app?name=x&depth=1", "", 200, "\"nodes\":[],\"more\":false");
    expect("/search/v1/app?name=x&depth=2", "", 200, "\"nodes\":[\"/app/a/x\"],\"more\":false");
    expect("/search/v1/app?colour=red", "", 400, "unknown query parameter colour");
    assert_int_equal(front_ask("POST", "/search/v1/app", "", NULL), 405);
}

/* ---- Exports ---- */

static void open_export(struct kit_stream *stream, const char *target, const char *headers)
{
    kit_stream_open(stream, port, target, headers);
    assert_int_equal(stream->status, 200);
    assert_non_null(strstr(stream->head, "application/x-ndjson"));
}

static void next_has(struct kit_stream *stream, const char *text)
{
    const char *line = kit_stream_next(stream);

    if (!line || !strstr(line, text)) {
        fail_msg("%s, not %s", line ? line : "nothing", text);
    }
}

static void ends(struct kit_stream *stream)
{
    assert_null(kit_stream_next(stream));
    assert_true(stream->complete);
    kit_stream_close(stream);
}

TEST(an_export_has_a_head_a_line_for_each_znode_and_an_end, setup, front_teardown)
{
    struct kit_stream stream;

    make_tree();
    open_export(&stream, "/export/v1/app", "");
    next_has(&stream, "{\"export\":1,\"path\":\"/app\",\"zxid\":\"0x");
    next_has(&stream, "{\"path\":\"\",\"data64\":\"dG9w\",\"stat\":{\"czxid\":\"0x");
    next_has(&stream, "{\"path\":\"a\",\"data64\":\"b25l\",");
    next_has(&stream, "{\"path\":\"a/x\",\"data64\":\"dHdv\",");
    next_has(&stream, "{\"path\":\"c\",\"data64\":\"\",\"container\":true,");
    next_has(&stream, "{\"path\":\"n\",\"null\":true,\"ttl\":5000,");
    next_has(&stream, "{\"end\":true,\"znodes\":5,\"skippedEphemerals\":0,"
                      "\"skippedUnreadable\":1,\"maskedAcls\":0}");
    ends(&stream);
    open_export(&stream, "/export/v1/app/a/x?dataformat=auto", "");
    next_has(&stream, "\"export\":1");
    next_has(&stream, "{\"path\":\"\",\"dataUtf8\":\"two\",");
    next_has(&stream, "\"znodes\":1");
    ends(&stream);
    assert_int_equal(kit_metric("zabra_http_exports_total"), 2);
    kit_wait_metric("zabra_http_exported_znodes_total", 6);
    kit_wait_metric("zabra_http_exports", 0);
    assert_int_equal(kit_metric("zabra_http_exports_failed_total"), 0);
}

/* Znodes that no client may read. */
static void make_closed(void)
{
    struct buf body;

    buf_init(&body, KIT_ANSWER_MAX);
    (void)buf_append_str(&body, "{\"path\":\"\"}\n");
    for (int i = 0; i < CLOSED; i++) {
        buf_printf(&body,
                   "{\"path\":\"%d\",\"acl\":[{\"perms\":[\"all\"],\"scheme\":\"ip\","
                   "\"id\":\"10.0.0.1\"}]}\n",
                   i);
    }
    assert_int_equal(front_ask("POST", "/import/v1/closed", "", buf_cstr(&body)), 200);
    buf_release(&body);
}

TEST(hashes_are_shown_only_with_the_right_to_administer, setup, front_teardown)
{
    struct kit_stream stream;

    create("/app", "Zk-Acl: world:anyone:r, digest:bob:AAAAAAAAAAAAAAAAAAAAAAAAAAA=:cdrwa\r\n", "");
    open_export(&stream, "/export/v1/app", "");
    next_has(&stream, "\"export\":1");
    next_has(&stream, "\"scheme\":\"digest\",\"id\":\"bob:x\"}");
    next_has(&stream, "\"maskedAcls\":1}");
    ends(&stream);
    open_export(&stream, "/export/v1/app", KIT_ROOT);
    next_has(&stream, "\"export\":1");
    next_has(&stream, "\"id\":\"bob:AAAAAAAAAAAAAAAAAAAAAAAAAAA=\"}");
    next_has(&stream, "\"maskedAcls\":0}");
    ends(&stream);
}

TEST(an_export_of_the_root_leaves_out_the_ensembles_own_znodes, setup, front_teardown)
{
    struct kit_stream stream;

    create("/only", "", "1");
    open_export(&stream, "/export/v1/", "");
    next_has(&stream, "\"path\":\"/\"");
    next_has(&stream, "{\"path\":\"\",");
    next_has(&stream, "{\"path\":\"only\",");
    next_has(&stream, "\"znodes\":2");
    ends(&stream);
    open_export(&stream, "/export/v1/zookeeper", "");
    next_has(&stream, "\"path\":\"/zookeeper\"");
    next_has(&stream, "{\"path\":\"\",");
    next_has(&stream, "{\"path\":\"config\",");
    next_has(&stream, "{\"path\":\"quota\",");
    next_has(&stream, "\"znodes\":3");
    ends(&stream);
}

TEST(ephemerals_are_left_out_and_counted, setup, front_teardown)
{
    struct kit_stream stream;
    char headers[128];
    char closed[256];
    struct kit_answer answer = kit_ask(port, "POST", "/sessions/v1/?op=create", "", NULL);
    const char *id = strstr((const char *)answer.body, "\"id\":\"");

    assert_non_null(id);
    (void)snprintf(headers, sizeof(headers), "Zk-Session: %.36s\r\n", id + 6);
    kit_free(&answer);
    create("/app", "", "top");
    assert_int_equal(
        front_ask("POST", "/znodes/v1/app?op=create&name=e&ephemeral=true", headers, "x"), 201);
    /* One that the client may not read is left out for the same reason. */
    (void)snprintf(closed, sizeof(closed),
                   "%sZk-Acl: digest:bob:AAAAAAAAAAAAAAAAAAAAAAAAAAA=:cdrwa\r\n", headers);
    assert_int_equal(
        front_ask("POST", "/znodes/v1/app?op=create&name=f&ephemeral=true", closed, "x"), 201);
    open_export(&stream, "/export/v1/app", headers);
    next_has(&stream, "\"export\":1");
    next_has(&stream, "{\"path\":\"\",");
    next_has(&stream, "\"znodes\":1,\"skippedEphemerals\":2,\"skippedUnreadable\":0");
    ends(&stream);
}

TEST(an_impossible_export_is_refused_at_once, setup, front_teardown)
{
    make_tree();
    expect("/export/v1/none", "", 404, "NoNode");
    expect("/export/v1/app/b", "", 401, "NoAuth");
    expect("/export/v1/app?dataformat=utf8", "", 400, "base64 or auto");
    expect("/export/v1/app?with=data", "", 400, "unknown query parameter");
    expect("/export/v1/app", "Accept: application/json\r\n", 406, "NotAcceptable");
    expect("/export/v1/app", "If-Match: *\r\n", 400, "If-Match");
    assert_int_equal(front_ask("POST", "/export/v1/app", "", NULL), 405);
    assert_int_equal(front_ask("HEAD", "/export/v1/app", "", NULL), 200);
    assert_int_equal(front_ask("HEAD", "/export/v1/none", "", NULL), 404);
    atomic_store(&gate->local_err, ERR_NOT_READY);
    expect("/export/v1/app", "", 503, "cut off");
    atomic_store(&gate->local_err, ERR_OK);
    assert_int_equal(kit_metric("zabra_http_exports_total"), 0);
}

/* Nothing but znodes that are left out: no other client has to wait until all of them are passed.
 */
TEST(znodes_that_are_left_out_delay_no_other_client, setup, front_teardown)
{
    static const struct op_principal who = {.address = "127.0.0.1"};
    struct op_args args;
    struct op_result result;
    struct kit_stream stream;
    struct buf text;
    uint32_t empty = 0;
    size_t len = 0;

    make_closed();
    buf_init(&text, KIT_ANSWER_MAX);
    op_result_init(&result);
    op_args_init(&args, OP_EXPORT);
    args.path = slice_str("/closed");
    struct export *export = export_new(gate->view, &who, &args, 1, 1 << 20, &result);

    assert_non_null(export);
    while (export_write(export, &text)) {
        empty += text.len == len;
        len = text.len;
        assert_true(empty < CLOSED);
    }
    assert_true(empty > 0);
    assert_int_equal(export_figures(export)->unreadable, CLOSED);
    export_free(export);
    op_result_release(&result);
    buf_release(&text);
    open_export(&stream, "/export/v1/closed", "");
    next_has(&stream, "\"export\":1");
    next_has(&stream, "{\"path\":\"\",");
    next_has(&stream, "\"znodes\":1,\"skippedEphemerals\":0,\"skippedUnreadable\":9000");
    ends(&stream);
}

/* So much that the server has to wait for its reader. */
static void make_many(void)
{
    static char data[LARGE + 1];
    char path[64];

    memset(data, 'd', LARGE);
    create("/many", "", "");
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(path, sizeof(path), "/many/%05d", i);
        create(path, "", data);
    }
}

/* The export is in progress, and its reader has taken the head alone. */
static void open_slow(struct kit_stream *stream)
{
    kit_stream_ask(stream, kit_stream_connect(port, SMALL_BUFFER), port, "/export/v1/many", "");
    assert_int_equal(stream->status, 200);
}

static uint32_t read_znodes(struct kit_stream *stream, const char **ret_last)
{
    const char *line = NULL;
    uint32_t count = 0;

    while ((line = kit_stream_next(stream)) && strstr(line, "{\"path\":") == line) {
        assert_null(strstr(line, "bmV3")); /* "new" */
        count++;
    }
    *ret_last = line;
    return count;
}

TEST(writes_continue_and_the_export_does_not_see_them, setup, front_teardown)
{
    struct kit_stream stream;
    const char *last = NULL;

    make_many();
    open_slow(&stream);
    assert_int_equal(front_ask("PUT", "/znodes/v1/many/01499", "", "new"), 200);
    assert_int_equal(front_ask("DELETE", "/znodes/v1/many/01498", "", NULL), 204);
    create("/many/00700-", "", "new");
    next_has(&stream, "\"export\":1");
    assert_int_equal(read_znodes(&stream, &last), MANY + 1);
    assert_non_null(last);
    assert_non_null(strstr(last, "\"znodes\":1501"));
    ends(&stream);
}

TEST(too_many_changes_end_an_export_with_an_error, setup, front_teardown)
{
    struct kit_stream stream;
    const char *last = NULL;
    char target[64];

    make_many();
    open_slow(&stream);
    for (int i = MANY - 1; i > MANY - 30; i--) {
        (void)snprintf(target, sizeof(target), "/znodes/v1/many/%05d", i);
        assert_int_equal(front_ask("PUT", target, "", "new"), 200);
    }
    next_has(&stream, "\"export\":1");
    assert_true(read_znodes(&stream, &last) < MANY);
    assert_non_null(last);
    assert_non_null(strstr(last, "{\"error\":{"));
    assert_non_null(strstr(last, "maxExportBytes"));
    ends(&stream);
    kit_wait_metric("zabra_http_exports_failed_total", 1);
}

/* Reported by a thread without a lock: the first reason does not change any more. */
TEST(the_first_reason_is_kept, setup, front_teardown)
{
    struct kit_stream stream;
    const char *last = NULL;
    char target[64];
    struct state *other = state_new(KIT_HISTORY);

    make_many();
    open_slow(&stream);
    for (int i = MANY - 1; i > MANY - 30; i--) {
        (void)snprintf(target, sizeof(target), "/znodes/v1/many/%05d", i);
        assert_int_equal(front_ask("PUT", target, "", "new"), 200);
    }
    state_skip(other, gate->zxid);
    view_replace(gate->view, other);
    view_set_whole(gate->view, true);
    next_has(&stream, "\"export\":1");
    assert_true(read_znodes(&stream, &last) < MANY);
    assert_non_null(last);
    assert_non_null(strstr(last, "maxExportBytes"));
    ends(&stream);
}

TEST(another_state_ends_an_export_with_an_error, setup, front_teardown)
{
    struct kit_stream stream;
    const char *last = NULL;
    struct state *other = state_new(KIT_HISTORY);

    make_many();
    open_slow(&stream);
    state_skip(other, gate->zxid);
    view_replace(gate->view, other);
    view_set_whole(gate->view, true);
    next_has(&stream, "\"export\":1");
    assert_true(read_znodes(&stream, &last) < MANY);
    assert_non_null(last);
    assert_non_null(strstr(last, "state of this replica was replaced"));
    ends(&stream);
}

TEST(places_are_bounded_and_released, setup, front_teardown)
{
    struct kit_stream first;
    struct kit_stream second;

    make_many();
    open_slow(&first);
    open_slow(&second);
    struct kit_answer answer = kit_ask(port, "GET", "/export/v1/many", "", NULL);

    assert_int_equal(answer.status, 429);
    assert_string_equal(kit_header(&answer, "Retry-After"), "1");
    kit_free(&answer);
    kit_stream_close(&first);
    kit_wait_metric("zabra_http_exports", 1);
    open_slow(&first);
    kit_stream_close(&first);
    kit_stream_close(&second);
    kit_wait_metric("zabra_http_exports", 0);
    assert_int_equal(kit_metric("zabra_http_exports_failed_total"), 3);
}

TEST(a_client_that_reads_nothing_is_cut_off, setup_impatient, front_teardown)
{
    struct kit_stream stream;

    make_many();
    open_slow(&stream);
    kit_wait_metric("zabra_http_exports", 0);
    assert_int_equal(kit_metric("zabra_http_exports_failed_total"), 1);
    kit_stream_close(&stream);
}

static void drain(void *arg)
{
    (void)arg;
    http_drain(http);
}

TEST(a_stopping_replica_ends_an_export_with_an_error, setup, front_teardown)
{
    struct kit_stream stream;
    struct thread stopper;
    const char *last = NULL;

    make_many();
    open_slow(&stream);
    next_has(&stream, "\"export\":1");
    thread_start(&stopper, "stopper", drain, NULL);
    assert_true(read_znodes(&stream, &last) < MANY);
    assert_non_null(last);
    assert_non_null(strstr(last, "shutting down"));
    kit_stream_close(&stream);
    thread_join(&stopper);
}
