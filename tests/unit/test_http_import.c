/* Imports against a running front end: the effect of each line, and how far an import came before a
 * failure. */
#include "http/http_int.h"
#include "tests/lib/stream_kit.h"
#include "tests/unit/http_transfer.h"

enum {
    MANY = 500,
    OTHER_ADDRESS = 1,
    TEXT_MAX = 4 << 20
};

#define ROOT   KIT_ROOT
#define BOB    "Authorization: Basic Ym9iOnNlY3JldA==\r\n"
#define HEAD   "{\"export\":1,\"path\":\"/x\",\"zxid\":\"0x1\",\"history\":\"00\"}\n"
#define TOP    "{\"path\":\"\",\"data64\":\"dG9w\"}\n"
#define END(n) "{\"end\":true,\"znodes\":" #n ",\"skippedEphemerals\":0,\"skippedUnreadable\":0}\n"

static void setup(void)
{
    gate = kit_gate_new();
    gate->limits.body_timeout_ms = 1500;
    (void)snprintf(gate->limits.super_digest, sizeof(gate->limits.super_digest), KIT_SUPER);
    front_start();
}

static void expect(const char *method, const char *target, const char *headers, const char *body,
                   int status, const char *text)
{
    struct kit_answer answer = kit_ask(port, method, target, headers, body);

    if (answer.status != status || !kit_body_has(&answer, text)) {
        fail_msg("%s: %d %s, not %d %s", target, answer.status, (const char *)answer.body, status,
                 text);
    }
    kit_free(&answer);
}

static void import(const char *target, const char *body, int status, const char *text)
{
    expect("POST", target, "", body, status, text);
}

static void get(const char *path, int status, const char *text)
{
    char target[200];

    (void)snprintf(target, sizeof(target), "/znodes/v1%s?dataformat=utf8", path);
    expect("GET", target, "", NULL, status, text);
}

/* The lines of an export without the members that are specific to the original. */
static void export(const char *target, struct buf *out)
{
    struct kit_stream stream;
    const char *line = NULL;

    kit_stream_open(&stream, port, target, "");
    assert_int_equal(stream.status, 200);
    while ((line = kit_stream_next(&stream))) {
        const char *stat = strstr(line, ",\"stat\":");

        if (strstr(line, "{\"export\"") != line) {
            (void)buf_append(out, line, stat ? (size_t)(stat - line) : strlen(line));
            (void)buf_append_str(out, stat ? "}\n" : "\n");
        }
    }
    kit_stream_close(&stream);
}

/* ---- The effect of lines ---- */

TEST(an_import_restores_an_export, setup, front_teardown)
{
    struct buf first;
    struct buf second;

    buf_init(&first, TEXT_MAX);
    buf_init(&second, TEXT_MAX);
    import("/import/v1/app",
           HEAD TOP "{\"path\":\"a\",\"null\":true,\"acl\":[{\"perms\":[\"read\",\"write\"],"
                    "\"scheme\":\"world\",\"id\":\"anyone\"}]}\n"
                    "{\"path\":\"a-\",\"data64\":\"\",\"container\":true}\n"
                    "{\"path\":\"b\",\"data64\":\"AAH/\",\"ttl\":60000}\n"
                    "{\"path\":\"b/c\",\"dataUtf8\":\"\\u00e9\",\"stat\":{\"version\":7}}\n" END(5),
           200,
           "{\"dryRun\":false,\"lines\":5,\"created\":5,\"overwritten\":0,\"skipped\":0,"
           "\"multis\":1,\"zxid\":");
    export("/export/v1/app", &first);
    import("/import/v1/copy", buf_cstr(&first), 200, "\"created\":5");
    export("/export/v1/copy", &second);
    assert_string_equal(buf_cstr(&second), buf_cstr(&first));
    assert_non_null(strstr(buf_cstr(&first), "{\"path\":\"b\",\"data64\":\"AAH/\",\"ttl\":60000}"));
    assert_non_null(strstr(buf_cstr(&first), "{\"path\":\"a\",\"null\":true,\"acl\":[{"));
    kit_wait_metric("zabra_http_imported_znodes_total", 10);
    kit_wait_metric("zabra_http_imports", 0);
    assert_int_equal(kit_metric("zabra_http_imports_failed_total"), 0);
    buf_release(&first);
    buf_release(&second);
}

TEST(lines_may_be_written_by_hand, setup, front_teardown)
{
    import("/import/v1/?conflict=skip",
           "{\"path\":\"h\",\"dataUtf8\":\"x\"}\n\r\n{\"path\":\"h/i\"}", 200, "\"created\":2");
    get("/h", 200, "\"dataUtf8\":\"x\"");
    get("/h/i", 200, "\"dataUtf8\":\"\"");
    import("/import/v1/", "{\"path\":\"k\",\"dataJson\": {\"a\": 1.50} }\n", 200, "\"created\":1");
    get("/k", 200, "{\\\"a\\\": 1.50}");
    import("/import/v1/deep/er", TOP, 404, "line 1: /deep/er: the parent does not exist");
    import("/import/v1/deep/er?parents=true", TOP, 200, "\"created\":1");
    import("/import/v1/none", "", 200, "\"lines\":0");
}

TEST(an_existing_znode_is_a_conflict_kept_or_replaced, setup, front_teardown)
{
    static const char body[] =
        HEAD TOP "{\"path\":\"a\",\"dataUtf8\":\"new\"}\n{\"path\":\"b\",\"dataUtf8\":\"new\","
                 "\"acl\":[{\"perms\":[\"all\"],\"scheme\":\"ip\",\"id\":\"127.0.0.1\"}]}\n" END(3);

    import("/import/v1/app", HEAD TOP "{\"path\":\"a\",\"dataUtf8\":\"old\"}\n" END(2), 200,
           "\"created\":2");
    import("/import/v1/app", body, 409, "line 2: /app: znode already exists");
    get("/app/b", 404, "");
    import("/import/v1/app?conflict=skip", body, 200,
           "\"created\":1,\"overwritten\":0,\"skipped\":2");
    get("/app/a", 200, "\"dataUtf8\":\"old\"");
    import("/import/v1/app?conflict=overwrite", body, 200,
           "\"created\":0,\"overwritten\":3,\"skipped\":0");
    get("/app/a", 200, "\"dataUtf8\":\"new\"");
    expect("GET", "/znodes/v1/app/b?view=acl", "", NULL, 200, "\"aversion\":0");
    /* The ACL is that of the line, even if the line has none. */
    import("/import/v1/app?conflict=overwrite", "{\"path\":\"b\"}\n", 200, "\"overwritten\":1");
    expect("GET", "/znodes/v1/app/b?view=acl", "", NULL, 200, "\"id\":\"anyone\"}],\"aversion\":1");
    import("/import/v1/app?conflict=never", body, 400, "conflict must be fail, skip or overwrite");
}

TEST(built_in_znodes_are_no_conflict, setup, front_teardown)
{
    import("/import/v1/", HEAD TOP "{\"path\":\"n\"}\n" END(2), 200,
           "\"created\":1,\"overwritten\":0,\"skipped\":1");
    get("/", 200, "\"dataLength\":0");
    import("/import/v1/?conflict=overwrite", HEAD TOP "{\"path\":\"zookeeper/config\"}\n" END(2),
           200, "\"overwritten\":1,\"skipped\":1");
    get("/", 200, "\"dataUtf8\":\"top\"");
}

TEST(a_dry_run_changes_nothing_and_reports_its_plan, setup, front_teardown)
{
    import(
        "/import/v1/app?dryRun=true", HEAD TOP "{\"path\":\"a\"}\n{\"path\":\"a/b\"}\n" END(3), 200,
        "{\"dryRun\":true,\"lines\":3,\"created\":3,\"overwritten\":0,\"skipped\":0,\"multis\":0}");
    get("/app", 404, "");
    import("/import/v1/app?dryRun=true", HEAD TOP "{\"path\":\"x/b\"}\n" END(2), 404,
           "line 3: /app/x/b: the parent does not exist");
    import("/import/v1/app?dryRun=true", TOP "{\"path\":\"b\"}\n{\"path\":\"b\"}\n", 409,
           "line 3: /app/b: znode already exists");
    import("/import/v1/app", HEAD TOP END(1), 200, "\"created\":1");
    import("/import/v1/app?dryRun=true", HEAD TOP END(1), 409,
           "line 2: /app: znode already exists");
    import("/import/v1/app?dryRun=true&conflict=overwrite", HEAD TOP END(1), 200,
           "\"overwritten\":1");
    import("/import/v1/app?dryRun=true",
           "{\"path\":\"c\",\"acl\":[{\"perms\":[\"all\"],\"scheme\":\"digest\",\"id\":\"me\"}]}\n",
           400, "line 1: /app/c: each entry needs");
    kit_wait_metric("zabra_http_imported_znodes_total", 1);
}

/* The ACLs of its own lines count as if they were in place, in the order of the lines. */
TEST(a_dry_run_applies_the_acls_of_its_own_lines, setup, front_teardown)
{
    static const char closed[] = "{\"path\":\"c\",\"acl\":\"read\"}\n";
    static const char below[] = "{\"path\":\"c/d\"}\n";
    char body[512];

    (void)snprintf(body, sizeof(body), "%s%s%s", TOP, closed, below);
    import("/import/v1/app?dryRun=true", body, 401,
           "line 3: /app/c/d: an earlier line gives the parent an ACL");
    import("/import/v1/app", body, 401, "line 3: /app/c/d");
    (void)snprintf(body, sizeof(body), "%s%s%s", TOP, "{\"path\":\"c\"}\n", below);
    import("/import/v1/app", body, 200, "\"created\":3");
    (void)snprintf(body, sizeof(body), "%s%s", closed, "{\"path\":\"c/e\"}\n");
    import("/import/v1/app?dryRun=true&conflict=overwrite", body, 401,
           "line 2: /app/c/e: an earlier line");
    import("/import/v1/app?dryRun=true&conflict=skip", body, 200, "\"skipped\":1");
}

TEST(an_import_has_the_rights_of_its_caller, setup, front_teardown)
{
    static const char body[] = "{\"path\":\"a\"}\n";

    expect("PUT", "/znodes/v1/bobs", BOB "If-None-Match: *\r\nZk-Acl: creator\r\n", "", 201, "");
    import("/import/v1/bobs", body, 401, "line 1: /bobs/a: permission denied");
    import("/import/v1/bobs?dryRun=true", body, 401, "line 1: /bobs/a: permission denied");
    expect("POST", "/import/v1/bobs?dryRun=true", BOB, body, 200, "\"created\":1");
    expect("POST", "/import/v1/bobs", BOB, body, 200, "\"created\":1");
    expect("POST", "/import/v1/bobs?conflict=overwrite", "", "{\"path\":\"\"}\n", 401,
           "permission denied");
}

/* ---- Mistakes ---- */

TEST(an_invalid_import_is_refused_with_its_line, setup, front_teardown)
{
    import("/import/v1/app", "{\"path\":\"\"}\nnonsense\n", 400,
           "line 2: the line is not valid JSON");
    import("/import/v1/app", "{\"path\":\"\",\"dat64\":\"\"}\n", 400,
           "line 1: dat64 is not a member of this operation");
    import("/import/v1/app", "{\"data64\":\"\"}\n", 400, "line 1: path must be given");
    import("/import/v1/app", "[]\n", 400, "must be a JSON object");
    import("/import/v1/app", "{\"path\":\"../b\"}\n", 400, "component");
    import("/import/v1/app", "{\"path\":\"/b\"}\n", 400, "empty component");
    import("/import/v1/app", "{\"path\":\"b\",\"ephemeral\":true}\n", 400,
           "must not be in a line of an import");
    import("/import/v1/app", "{\"path\":\"b\",\"ttl\":5,\"container\":true}\n", 400,
           "exclude each other");
    import("/import/v1/app", "{\"export\":2}\n", 400, "export must be 1");
    import("/import/v1/app", HEAD TOP, 400, "the export was cut off");
    get("/app", 200, "\"dataUtf8\":\"top\"");
    import("/import/v1/app", HEAD "{\"path\":\"a\"}\n" END(2), 400, "lines were lost");
    import("/import/v1/app", HEAD "{\"path\":\"b\"}\n{\"error\":{}}\n", 400, "ended with an error");
    import("/import/v1/app", HEAD END(0) "{\"path\":\"c\"}\n", 400, "after the last line");
    import("/import/v1/app", HEAD HEAD, 400, "other lines come before it");
    get("/app/a", 404, "");
    expect("POST", "/import/v1/app", "Content-Type: application/json\r\n", TOP, 415, "x-ndjson");
    expect("POST", "/import/v1/app",
           "Idempotency-Key: \"0189abcd-1234-4abc-89ab-0123456789ab\"\r\n", TOP, 400,
           "conflict=skip");
    expect("POST", "/import/v1/app?name=x", "", TOP, 400, "unknown query parameter");
    expect("GET", "/import/v1/app", "", NULL, 405, "");
}

/* Batches of fifty lines: the one with the bad line fails, those before it are done. */
static void make_many(struct buf *out, int bad)
{
    (void)buf_append_str(out, HEAD TOP);
    for (int i = 1; i < MANY; i++) {
        buf_printf(out, "{\"path\":\"%s%04d\",\"dataUtf8\":\"%d\"}\n", i == bad ? "none/" : "", i,
                   i);
    }
    (void)buf_append_str(out, END(500));
}

TEST(a_failure_reports_the_progress, setup, front_teardown)
{
    struct buf body;

    buf_init(&body, TEXT_MAX);
    make_many(&body, 420);
    import("/import/v1/app", buf_cstr(&body), 404,
           "\"import\":{\"dryRun\":false,\"lines\":400,\"created\":400,\"overwritten\":0,"
           "\"skipped\":0,\"multis\":8,\"zxid\":");
    import("/import/v1/app?conflict=skip", buf_cstr(&body), 404, "\"line\":422}");
    get("/app/0399", 200, "");
    get("/app/0400", 404, "");
    buf_clear(&body);
    make_many(&body, 0);
    import("/import/v1/app?conflict=skip", buf_cstr(&body), 200,
           "\"lines\":500,\"created\":100,\"overwritten\":0,\"skipped\":400,\"multis\":2");
    atomic_store(&gate->reply_err, ERR_OUTCOME_UNKNOWN);
    import("/import/v1/app?conflict=overwrite", buf_cstr(&body), 504, "\"outcome\":\"unknown\"");
    atomic_store(&gate->reply_err, ERR_OK);
    atomic_store(&gate->submit_err, ERR_THROTTLED);
    import("/import/v1/app?conflict=overwrite", buf_cstr(&body), 429, "\"lines\":0");
    atomic_store(&gate->submit_err, ERR_OK);
    buf_release(&body);
}

TEST(a_line_is_bounded, setup, front_teardown)
{
    static char line[(256 << 10) + 4096 * 2 + 100];
    static char data[6000];

    memset(line, ' ', sizeof(line) - 1);
    line[0] = '{';
    import("/import/v1/app", line, 413, "line 1: the line is longer");
    (void)snprintf(data, sizeof(data), "{\"path\":\"\",\"dataUtf8\":\"%05000d\"}\n", 0);
    import("/import/v1/app", data, 413, "maxDataBytes");
}

/* ---- How the body comes ---- */

TEST(a_body_in_pieces_is_the_same_body, setup, front_teardown)
{
    static const size_t pieces[] = {1, 7, 333, 20000};
    struct buf body;

    buf_init(&body, TEXT_MAX);
    make_many(&body, 0);
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        int fd = kit_begin_chunked(i == 0 ? "/import/v1/app" : "/import/v1/app?conflict=overwrite");

        for (size_t at = 0; at < body.len; at += pieces[i]) {
            size_t left = body.len - at;

            kit_send_chunk(fd, (const char *)body.data + at, left < pieces[i] ? left : pieces[i]);
        }
        kit_send(fd, "0\r\n\r\n");
        struct kit_answer answer = kit_read(fd, false);

        assert_int_equal(answer.status, 200);
        assert_true(kit_body_has(&answer, "\"lines\":500"));
        kit_free(&answer);
        close(fd);
    }
    kit_wait_metric("zabra_http_imported_znodes_total", (uint64_t)MANY * 4);
    buf_release(&body);
}

TEST(places_are_bounded_and_released, setup, front_teardown)
{
    int first = kit_begin_chunked("/import/v1/app");
    int second = kit_begin_chunked("/import/v1/app");

    kit_wait_metric("zabra_http_imports", 2);
    import("/import/v1/app", TOP, 429, "maxTransfers");
    expect("GET", "/export/v1/", "", NULL, 429, "maxTransfers");
    assert_true(budget_shares_try_take(&http->transfers.places, OTHER_ADDRESS, 1));
    budget_shares_give(&http->transfers.places, OTHER_ADDRESS, 1);
    close(first);
    kit_wait_metric("zabra_http_imports", 1);
    import("/import/v1/app", TOP, 200, "\"created\":1");
    close(second);
    kit_wait_metric("zabra_http_imports", 0);
    assert_int_equal(kit_metric("zabra_http_imports_failed_total"), 2);
}

/* In one batch as in several: the second line meets the znode that the first has made. */
TEST(a_line_may_appear_twice, setup, front_teardown)
{
    static const char body[] = "{\"path\":\"\"}\n{\"path\":\"a\",\"dataUtf8\":\"one\"}\n"
                               "{\"path\":\"a\",\"dataUtf8\":\"two\"}\n";
    static const char upward[] = "{\"path\":\"x/y\"}\n{\"path\":\"x\",\"dataUtf8\":\"late\"}\n";

    import("/import/v1/app?conflict=skip&dryRun=true", body, 200,
           "\"lines\":3,\"created\":2,\"overwritten\":0,\"skipped\":1");
    import("/import/v1/app?conflict=skip", body, 200,
           "\"lines\":3,\"created\":2,\"overwritten\":0,\"skipped\":1");
    get("/app/a", 200, "\"dataUtf8\":\"one\"");
    import("/import/v1/two?conflict=overwrite&dryRun=true", body, 200,
           "\"lines\":3,\"created\":2,\"overwritten\":1,\"skipped\":0");
    import("/import/v1/two?conflict=overwrite", body, 200,
           "\"lines\":3,\"created\":2,\"overwritten\":1,\"skipped\":0");
    get("/two/a", 200, "\"dataUtf8\":\"two\"");
    import("/import/v1/up?conflict=overwrite&parents=true&dryRun=true", upward, 200,
           "\"created\":1,\"overwritten\":1");
    import("/import/v1/up?conflict=overwrite&parents=true", upward, 200,
           "\"created\":1,\"overwritten\":1");
    get("/up/x", 200, "\"dataUtf8\":\"late\"");
    import("/import/v1/up?parents=true&dryRun=true", "{\"path\":\"z/y\"}\n{\"path\":\"z\"}\n", 409,
           "line 2: /up/z: znode already exists");
    import("/import/v1/up?parents=true", "{\"path\":\"z/y\"}\n{\"path\":\"z\"}\n", 409,
           "line 2: /up/z: znode already exists");
}

/* This holds even if nothing is written that the leader would refuse. */
TEST(an_expired_session_is_reported, setup, front_teardown)
{
    static const char gone[] = "Zk-Session: 0b8f2c1e-5d6a-4c8e-9f10-2a3b4c5d6e7f\r\n";

    import("/import/v1/app", TOP, 200, "\"created\":1");
    expect("POST", "/import/v1/app", gone, TOP, 401, "\"code\":\"SessionExpired\"");
    expect("POST", "/import/v1/app?dryRun=true", gone, TOP, 401, "\"code\":\"SessionExpired\"");
    expect("POST", "/import/v1/app?conflict=skip", gone, TOP, 401, "\"code\":\"SessionExpired\"");
}

/* A line that is skipped because its znode exists must not be gone in the state that the client has
 * seen. */
TEST(no_plan_uses_an_older_state, setup, front_teardown)
{
    import("/import/v1/app", TOP, 200, "\"created\":1");
    expect("POST", "/import/v1/app?conflict=skip", "Zk-Min-Zxid: 0x1\r\n", TOP, 200,
           "\"skipped\":1");
    assert_int_equal(atomic_load(&gate->rounds), 0);
    expect("POST", "/import/v1/app?conflict=skip", "Zk-Min-Zxid: 0x7fff00000000\r\n", TOP, 200,
           "\"skipped\":1");
    assert_int_equal(atomic_load(&gate->rounds), 1);
    expect("POST", "/import/v1/app?dryRun=true", "Zk-Min-Zxid: 0x7fff00000000\r\n", "", 200,
           "\"lines\":0");
    assert_int_equal(atomic_load(&gate->rounds), 2);
    atomic_store(&gate->reply_err, ERR_REPLICA_BEHIND);
    expect("POST", "/import/v1/app?conflict=skip", "Zk-Min-Zxid: 0x7fff00000000\r\n", TOP, 503,
           "\"code\":\"ReplicaBehind\"");
    atomic_store(&gate->reply_err, ERR_OK);
}

/* Other clients write the same at the same time: the import makes its plan again. */
TEST(a_race_is_no_failure, setup, front_teardown)
{
    int fd = kit_begin_chunked("/import/v1/app?conflict=skip");
    struct kit_answer answer;

    atomic_store(&gate->held, true);
    kit_send_chunk(fd, TOP, sizeof(TOP) - 1);
    int other = kit_connect(port);

    kit_send(other, "PUT /znodes/v1/app HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: *\r\n"
                    "Content-Length: 1\r\n\r\nx");
    uint64_t end_ms = os_now_ms() + KIT_DEADLINE_MS;

    while (atomic_load(&gate->inside) < 1) {
        assert_true(os_now_ms() < end_ms);
    }
    kit_send(fd, "0\r\n\r\n");
    while (atomic_load(&gate->inside) < 2) {
        assert_true(os_now_ms() < end_ms);
    }
    atomic_store(&gate->held, false);
    answer = kit_read(fd, false);
    assert_int_equal(answer.status, 200);
    assert_true(kit_body_has(&answer, "\"created\":0,\"overwritten\":0,\"skipped\":1"));
    kit_free(&answer);
    answer = kit_read(other, false);
    assert_int_equal(answer.status, 201);
    kit_free(&answer);
    close(fd);
    close(other);
}

TEST(the_super_user_raises_counts_of_creates, setup, front_teardown)
{
    static const char body[] =
        "{\"path\":\"q\"}\n{\"path\":\"q/a\"}\n{\"path\":\"q\",\"creates\":50}\n";

    expect("POST", "/import/v1/?conflict=overwrite&dryRun=true", "", body, 401,
           "line 3: /q: only the super user may raise the count of creates");
    expect("POST", "/import/v1/?conflict=overwrite&dryRun=true", ROOT, body, 200, "\"lines\":3");
    expect("POST", "/import/v1/?conflict=overwrite", ROOT, body, 200,
           "\"lines\":3,\"created\":2,\"overwritten\":1");
    expect("GET", "/znodes/v1/q?view=stat", "", NULL, 200, "\"cversion\":99");
    expect("POST", "/znodes/v1/q?op=create&name=s&sequence=true", "", "", 201, "s0000000050");
    expect("POST", "/import/v1/", ROOT, "{\"path\":\"none\",\"creates\":1}\n", 404,
           "line 1: /none");
    expect("POST", "/import/v1/", ROOT, "{\"path\":\"q\",\"creates\":0}\n", 400, "creates");
    expect("POST", "/import/v1/", ROOT, "{\"path\":\"q\",\"creates\":1,\"null\":true}\n", 400,
           "null");
}
