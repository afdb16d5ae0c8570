/* REST against a running front end: representations, conditions and errors, as the contract
 * describes. */
#include "tests/unit/http_front.h"

/* The status of one request; checks that the answer contains `has` when not NULL. */
static int ask(const char *method, const char *target, const char *headers, const char *body,
               const char *has)
{
    struct kit_answer answer = kit_ask(port, method, target, headers, body);
    int status = answer.status;

    if (has && !kit_body_has(&answer, has)) {
        print_message("%s %s: %s\n%s\n", method, target, answer.head, (char *)answer.body);
        fail_msg("the answer does not contain %s", has);
    }
    if (status != 0) {
        assert_non_null(kit_header(&answer, "Zk-Zxid"));
        assert_string_equal(kit_header(&answer, "Zk-History"), "000000001234abcd");
    }
    kit_free(&answer);
    return status;
}

static int get(const char *target)
{
    return ask("GET", target, "", NULL, NULL);
}

static int create(const char *parent, const char *query, const char *data)
{
    char target[300];

    (void)snprintf(target, sizeof(target), "/znodes/v1%s?op=create&%s", parent, query);
    return ask("POST", target, "", data, NULL);
}

TEST(a_znode_can_be_created_read_set_and_deleted, front_setup, front_teardown)
{
    assert_int_equal(create("/", "name=a", "hello"), 201);
    assert_int_equal(ask("GET", "/znodes/v1/a", "", NULL, "\"data64\":\"aGVsbG8=\""), 200);
    assert_int_equal(ask("GET", "/znodes/v1/a?dataformat=utf8", "", NULL, "\"dataUtf8\":\"hello\""),
                     200);
    assert_int_equal(ask("PUT", "/znodes/v1/a?version=0", "", "bye", "\"version\":1"), 200);
    assert_int_equal(ask("PUT", "/znodes/v1/a?version=0", "", "bye", "BadVersion"), 412);
    assert_int_equal(ask("DELETE", "/znodes/v1/a", "", NULL, NULL), 204);
    assert_int_equal(ask("GET", "/znodes/v1/a", "", NULL, "\"code\":\"NoNode\",\"zk_code\":-101"),
                     404);
}

TEST(a_raw_read_has_nine_headers, front_setup, front_teardown)
{
    assert_int_equal(create("/", "name=raw", "bytes"), 201);

    struct kit_answer answer =
        kit_ask(port, "GET", "/znodes/v1/raw", "Accept: application/octet-stream\r\n", NULL);
    int headers = 0;

    assert_int_equal(answer.status, 200);
    assert_string_equal((char *)answer.body, "bytes");
    for (const char *at = strchr(answer.head, '\n'); at; at = strchr(at + 1, '\n')) {
        headers++;
    }
    assert_int_equal(headers, 9);
    assert_string_equal(kit_header(&answer, "X-Content-Type-Options"), "nosniff");
    assert_string_equal(kit_header(&answer, "Content-Security-Policy"), "sandbox");
    assert_string_equal(kit_header(&answer, "Cache-Control"), "no-store");
    assert_string_equal(kit_header(&answer, "Content-Type"), "application/octet-stream");
    assert_non_null(strstr(kit_header(&answer, "Zk-Stat"), "czxid=0x100000001, mzxid="));
    assert_non_null(strstr(kit_header(&answer, "ETag"), "\"d100000001.0\""));
    kit_free(&answer);
    assert_int_equal(create("/", "name=null&null=true", NULL), 201);
    assert_int_equal(
        ask("GET", "/znodes/v1/null", "Accept: application/octet-stream\r\n", NULL, NULL), 204);
    assert_int_equal(
        ask("HEAD", "/znodes/v1/raw", "Accept: application/octet-stream\r\n", NULL, NULL), 204);
    assert_int_equal(ask("HEAD", "/znodes/v1/raw", "", NULL, NULL), 200);
    assert_int_equal(ask("HEAD", "/znodes/v1/none", "", NULL, NULL), 404);
    assert_int_equal(
        ask("PUT", "/znodes/v1/raw", "Accept: application/octet-stream\r\n", "x", NULL), 204);
}

TEST(conditions_are_checked, front_setup, front_teardown)
{
    assert_int_equal(create("/", "name=c", "1"), 201);
    assert_int_equal(
        ask("GET", "/znodes/v1/c", "If-None-Match: \"x\", W/\"d100000001.0\"\r\n", NULL, NULL),
        304);
    assert_int_equal(ask("GET", "/znodes/v1/c", "If-None-Match: \"d100000001.1\"\r\n", NULL, NULL),
                     200);
    assert_int_equal(ask("PUT", "/znodes/v1/c", "If-Match: \"d100000001.0\"\r\n", "2", NULL), 200);

    struct kit_answer answer =
        kit_ask(port, "PUT", "/znodes/v1/c", "If-Match: \"d100000001.0\"\r\n", "3");

    assert_int_equal(answer.status, 412);
    assert_string_equal(kit_header(&answer, "ETag"), "\"d100000001.1\"");
    assert_true(kit_body_has(&answer, "\"stat\":{"));
    assert_true(kit_body_has(&answer, "\"outcome\":\"not-applied\""));
    kit_free(&answer);
    assert_int_equal(ask("PUT", "/znodes/v1/c", "If-Match: *\r\n", "4", NULL), 200);
    assert_int_equal(ask("PUT", "/znodes/v1/none", "If-Match: *\r\n", "4", NULL), 412);
    assert_int_equal(ask("PUT", "/znodes/v1/c", "If-None-Match: *\r\n", "4", NULL), 412);
    assert_int_equal(ask("PUT", "/znodes/v1/new", "If-None-Match: *\r\n", "4", NULL), 201);
    assert_int_equal(ask("PUT", "/znodes/v1/new2?upsert=true", "", "4", NULL), 201);
    assert_int_equal(ask("PUT", "/znodes/v1/new2?upsert=true", "", "4", NULL), 200);
    assert_int_equal(ask("PUT", "/znodes/v1/c", "If-Match: d1\r\n", "4", NULL), 400);
    assert_int_equal(ask("POST", "/znodes/v1/c?name=x", "If-Match: *\r\n", "4", NULL), 400);
}

TEST(children_are_listed_in_pages, front_setup, front_teardown)
{
    assert_int_equal(create("/", "name=p", ""), 201);
    assert_int_equal(create("/p", "name=b", "2"), 201);
    assert_int_equal(create("/p", "name=a", "1"), 201);
    assert_int_equal(
        ask("GET", "/znodes/v1/p?view=children", "", NULL, "\"children\":[\"a\",\"b\"]"), 200);
    assert_int_equal(ask("GET", "/znodes/v1/p?view=children&limit=1", "", NULL,
                         "[\"a\"],\"more\":true,\"after\":\"a\""),
                     200);
    assert_int_equal(ask("GET", "/znodes/v1/p?view=children&after=a", "", NULL, "[\"b\"]"), 200);
    assert_int_equal(ask("GET", "/znodes/v1/p?view=children&with=data&dataformat=utf8", "", NULL,
                         "{\"name\":\"a\",\"dataUtf8\":\"1\",\"stat\":{"),
                     200);
    assert_int_equal(ask("GET", "/znodes/v1/?view=children", "", NULL, "/znodes/v1/{child}\""),
                     200);
    assert_int_equal(
        ask("GET", "/znodes/v1/p?view=tree", "", NULL, "\"nodes\":[\"/p\",\"/p/a\",\"/p/b\"]"),
        200);
    assert_int_equal(ask("GET", "/znodes/v1/p?view=stat", "", NULL, "\"numChildren\":2"), 200);
    assert_int_equal(ask("DELETE", "/znodes/v1/p", "", NULL, "NotEmpty"), 409);
    assert_int_equal(ask("DELETE", "/znodes/v1/p?recursive=true&max=1", "", NULL, NULL), 409);
    assert_int_equal(ask("DELETE", "/znodes/v1/p?recursive=true&max=10", "", NULL, NULL), 204);
}

TEST(a_create_answers_like_zookeepers_gateway, front_setup, front_teardown)
{
    char want[100];
    struct kit_answer answer;

    assert_int_equal(create("/", "name=q", ""), 201);
    answer = kit_ask(port, "POST", "/znodes/v1/q?op=create&name=c-&sequence=true", "", "x");
    assert_int_equal(answer.status, 201);
    (void)snprintf(want, sizeof(want),
                   "{\"path\":\"/q/c-0000000000\",\"uri\":\"http://localhost:%u/znodes/v1/q\"",
                   port);
    assert_true(kit_body_has(&answer, want));
    (void)snprintf(want, sizeof(want), "http://localhost:%u/znodes/v1/q/c-0000000000", port);
    assert_string_equal(kit_header(&answer, "Location"), want);
    kit_free(&answer);
    assert_int_equal(create("/q", "sequence=true", "x"), 201);
    assert_int_equal(create("/q", "name=x&container=true", NULL), 201);
    assert_int_equal(create("/q", "name=t&ttl=5000", NULL), 201);
    assert_int_equal(create("/q", "name=q", NULL), 201);
    assert_int_equal(create("/q", "name=q", NULL), 409);
    assert_int_equal(create("/q/no", "name=q", NULL), 404);
    assert_int_equal(create("/q/no", "name=q&parents=true", NULL), 201);
    assert_int_equal(create("/q", "op=create", NULL), 400);
    assert_int_equal(create("/q", "", NULL), 400);
    assert_int_equal(create("/q", "name=a/b", NULL), 400);
    assert_int_equal(create("/q", "name=e&ephemeral=true", NULL), 401);
}

TEST(a_create_may_come_as_json, front_setup, front_teardown)
{
    const char *json = "Content-Type: application/json\r\n";

    assert_int_equal(ask("POST", "/znodes/v1/?name=j", json, "{\"dataJson\":{\"k\": 1.10 }}", NULL),
                     201);
    assert_int_equal(
        ask("GET", "/znodes/v1/j?dataformat=json", "", NULL, "\"dataJson\":{\"k\": 1.10 }"), 200);
    assert_int_equal(ask("POST", "/znodes/v1/j", json, "{\"path\":\"/j/k\",\"dataUtf8\":\"x\"}",
                         "\"path\":\"/j/k\""),
                     201);
    assert_int_equal(
        ask("POST", "/znodes/v1/j", json, "{\"path\":\"/k\",\"dataUtf8\":\"x\"}", NULL), 400);
    assert_int_equal(ask("POST", "/znodes/v1/j", json, "{\"dataUtf8\":\"x\"}", "has no name"), 400);
    assert_int_equal(ask("POST", "/znodes/v1/j?name=y", json, "{\"dataUtf8\":\"x\",\"z\":1}",
                         "z is not a member"),
                     400);
}

TEST(a_multi_is_atomic, front_setup, front_teardown)
{
    assert_int_equal(ask("POST", "/multi/v1", "Content-Type: application/json\r\n",
                         "{\"ops\":[{\"op\":\"create\",\"path\":\"/m\",\"dataUtf8\":\"1\"},"
                         "{\"op\":\"set\",\"path\":\"/m\",\"data64\":\"Mg==\",\"version\":0},"
                         "{\"op\":\"check\",\"path\":\"/m\",\"version\":1}]}",
                         "{\"op\":\"create\",\"ok\":true,\"path\":\"/m\""),
                     200);
    assert_int_equal(ask("POST", "/multi/v1", "",
                         "{\"ops\":[{\"op\":\"set\",\"path\":\"/m\",\"dataUtf8\":\"3\"},"
                         "{\"op\":\"delete\",\"path\":\"/none\"}]}",
                         "\"op_index\":1"),
                     404);
    assert_int_equal(ask("GET", "/znodes/v1/m?dataformat=auto", "", NULL, "\"dataUtf8\":\"2\""),
                     200);
    assert_int_equal(
        ask("POST", "/multi/v1", "",
            "{\"ops\":[{\"op\":\"get\",\"path\":\"/m\",\"dataformat\":\"utf8\"},"
            "{\"op\":\"get\",\"path\":\"/none\"},{\"op\":\"exists\",\"path\":\"/none\"},"
            "{\"op\":\"children\",\"path\":\"/\"}]}",
            "{\"op\":\"exists\",\"ok\":true,\"path\":\"/none\",\"exists\":false}"),
        200);
    assert_int_equal(ask("POST", "/multi/v1", "",
                         "{\"ops\":[{\"op\":\"get\",\"path\":\"/m\"},"
                         "{\"op\":\"delete\",\"path\":\"/m\"}]}",
                         "either reads or writes"),
                     400);
    assert_int_equal(ask("POST", "/multi/v1", "", "{\"ops\":[]}", NULL), 400);
    assert_int_equal(ask("POST", "/multi/v1", "", "{\"ops\":[", "not valid JSON"), 400);
    assert_int_equal(ask("POST", "/multi/v1", "Content-Type: text/xml\r\n", "<x/>", NULL), 415);
}

TEST(invalid_urls_are_refused, front_setup, front_teardown)
{
    assert_int_equal(get("/znodes/v1/a%00b"), 400);
    assert_int_equal(get("/znodes/v1/a%zz"), 400);
    assert_int_equal(get("/znodes/v1/a%ff"), 400);
    assert_int_equal(get("/znodes/v1/a/../b"), 400);
    assert_int_equal(get("/znodes/v1/a//b"), 400);
    assert_int_equal(get("/znodes/v1/a/"), 400);
    assert_int_equal(
        ask("GET", "/znodes/v1/a?colour=red", "", NULL, "unknown query parameter colour"), 400);
    assert_int_equal(get("/znodes/v1/?view=data&view=data"), 400);
    assert_int_equal(get("/znodes/v1/?view=colour"), 400);
    assert_int_equal(get("/znodes/v1/?dataformat=xml"), 400);
    assert_int_equal(get("/znodes/v1/?callback=f"), 406);
    assert_int_equal(ask("GET", "/znodes/v1/", "Accept: text/xml\r\n", NULL, NULL), 406);
    assert_int_equal(get("/znodes/v1/?session=x"), 401);
    assert_int_equal(get("/sessions/v1/"), 200); /* All of them; a heartbeat must name one. */
    assert_int_equal(get("/sessions/v1/?view=session"), 400);
    assert_int_equal(get("/sessions/v1/0b8f2c1e-5d6a-4c8e-9f10-2a3b4c5d6e7f?view=list"), 400);
    assert_int_equal(get("/sessions/v1/?public=5"), 400);
    assert_int_equal(get("/watches/v1?path=a"), 400);
    assert_int_equal(get("/sessions/v1/x"), 401);
    assert_int_equal(get("/ws/v1"), 426);
    assert_int_equal(get("/watch/v1/a?since=x"), 400);
    assert_int_equal(get("/nothing"), 404);
    assert_int_equal(get("/znodes/v1?path=/"), 200);
    assert_int_equal(get("/znodes/v1"), 200);
    assert_int_equal(get("/znodes/v1/zookeeper%2Fquota"), 200);
    assert_int_equal(get("/znodes/v1/a?path=/b"), 400);
    assert_int_equal(ask("PATCH", "/znodes/v1/", "", "{}", NULL), 400);
    assert_int_equal(ask("FOO", "/znodes/v1/", "", NULL, NULL), 405);

    struct kit_answer answer = kit_ask(port, "DELETE", "/multi/v1", "", NULL);

    assert_int_equal(answer.status, 405);
    assert_string_equal(kit_header(&answer, "Allow"), "POST, OPTIONS");
    kit_free(&answer);
}

TEST(other_hosts_and_origins_are_refused, front_setup, front_teardown)
{
    struct kit_answer answer;
    int fd = kit_connect(port);

    kit_send(fd, "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    answer = kit_read(fd, false);
    assert_int_equal(answer.status, 421);
    kit_free(&answer);
    kit_send(fd, "GET / HTTP/1.1\r\nHost: ZABRA.test:80\r\n\r\n");
    answer = kit_read(fd, false);
    assert_int_equal(answer.status, 200);
    kit_free(&answer);
    close(fd);
    assert_int_equal(ask("GET", "/znodes/v1/", "Origin: http://evil.example\r\n", NULL, NULL), 200);
    assert_int_equal(
        ask("PUT", "/znodes/v1/zookeeper", "Origin: http://evil.example\r\n", "x", NULL), 403);
    answer = kit_ask(port, "OPTIONS", "/znodes/v1/a",
                     "Origin: https://app.test\r\nAccess-Control-Request-Method: PUT\r\n", NULL);
    assert_int_equal(answer.status, 204);
    assert_string_equal(kit_header(&answer, "Access-Control-Allow-Origin"), "https://app.test");
    assert_string_equal(kit_header(&answer, "Access-Control-Allow-Methods"),
                        "GET, PUT, POST, DELETE, PATCH, HEAD, OPTIONS");
    assert_non_null(kit_header(&answer, "Access-Control-Expose-Headers"));
    kit_free(&answer);
}

TEST(probes_and_status_pages_answer, front_setup, front_teardown)
{
    assert_int_equal(ask("GET", "/livez", "", NULL, "[+] disk\n"), 200);
    assert_int_equal(ask("GET", "/readyz?verbose", "", NULL, "[+] disk: there is room"), 200);
    atomic_store(&gate->ready, false);
    assert_int_equal(ask("GET", "/readyz", "", NULL, "[-] leader: in step"), 503);
    assert_int_equal(ask("GET", "/readyz", "Accept: application/json\r\n", NULL,
                         "\"name\":\"leader\",\"ok\":false"),
                     503);
    assert_int_equal(ask("GET", "/metrics", "", NULL, "zabra_http_requests_total{code=\"2xx\"}"),
                     200);
    assert_int_equal(ask("GET", "/", "", NULL, "/znodes/v1/{path}"), 200);
    assert_int_equal(ask("GET", "/", "Accept: text/html,*/*;q=0.8\r\n", NULL, "<!doctype html>"),
                     200);
    assert_int_equal(ask("GET", "/status/v1", "", NULL, "\"role\""), 200);
    assert_int_equal(ask("GET", "/whoami/v1", "", NULL, "127.0.0.1"), 200);
    assert_int_equal(ask("POST", "/sync/v1", "", NULL, "\"zxidHex\""), 200);
    assert_int_equal(ask("POST", "/sync/v1", "", "x", NULL), 400);
    assert_int_equal(ask("DELETE", "/livez", "", NULL, NULL), 405);
}

TEST(the_contract_is_served, front_setup, front_teardown)
{
    struct kit_answer answer = kit_ask(port, "GET", "/openapi.json", "", NULL);
    char known[256];

    assert_int_equal(answer.status, 200);
    assert_string_equal(kit_header(&answer, "Content-Type"), "application/json");
    assert_true(kit_body_has(&answer, "\"/znodes/v1/{path}\""));
    assert_int_equal(answer.body[answer.body_len - 1], '\n');
    (void)snprintf(known, sizeof(known), "If-None-Match: \"x\", %s\r\n",
                   kit_header(&answer, "ETag"));
    kit_free(&answer);
    assert_int_equal(ask("GET", "/openapi.json", known, NULL, NULL), 304);
    assert_int_equal(ask("GET", "/asyncapi.json", known, NULL, "zabra.v1.json"), 200);
    assert_int_equal(ask("HEAD", "/asyncapi.json", "", NULL, NULL), 200);
    assert_int_equal(ask("PUT", "/asyncapi.json", "", "{}", NULL), 405);
    assert_int_equal(ask("GET", "/", "", NULL, "\"/openapi.json\",\"/asyncapi.json\""), 200);
    assert_int_equal(ask("GET", "/", "Accept: text/html\r\n", NULL, "<a href=\"/openapi.json\">"),
                     200);
}

TEST(bodies_have_limits, front_setup, front_teardown)
{
    static char large[5000];
    int fd = kit_connect(port);
    struct kit_answer answer;

    memset(large, 'x', sizeof(large) - 1);
    assert_int_equal(create("/", "name=big", large), 413);
    kit_send(fd, "PUT /znodes/v1/big HTTP/1.1\r\nHost: localhost\r\n"
                 "Content-Length: 5000000\r\nExpect: 100-continue\r\n\r\n");
    answer = kit_read(fd, false);
    assert_int_equal(answer.status, 413);
    assert_string_equal(kit_header(&answer, "Connection"), "close");
    kit_free(&answer);
    assert_true(kit_closed(fd));
    close(fd);
    fd = kit_connect(port);
    kit_send(fd, "PUT /znodes/v1/big HTTP/1.1\r\nHost: localhost\r\n"
                 "Transfer-Encoding: chunked\r\n\r\n1000\r\n");
    kit_send_bytes(fd, large, 0x1000);
    kit_send(fd, "\r\n1\r\nx\r\n0\r\n\r\n");
    answer = kit_read(fd, false);
    assert_int_equal(answer.status, 413);
    kit_free(&answer);
    /* The connection can still be used: the body was read to its end. */
    kit_send(fd, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
    answer = kit_read(fd, false);
    assert_int_equal(answer.status, 200);
    kit_free(&answer);
    close(fd);
}

TEST(consistency_goes_through_the_core, front_setup, front_teardown)
{
    assert_int_equal(get("/znodes/v1/?consistency=linearizable"), 200);
    assert_int_equal(get("/znodes/v1/?consistency=eventual"), 400);
    assert_int_equal(ask("GET", "/znodes/v1/", "Zk-Min-Zxid: 0x1\r\n", NULL, NULL), 200);
    assert_int_equal(ask("GET", "/znodes/v1/", "Zk-Min-Zxid: zz\r\n", NULL, "decimal"), 400);
    assert_int_equal(ask("GET", "/znodes/v1/", "Zk-Min-Zxid: 1f\r\n", NULL, NULL), 400);
    /* Bodies show zxids as decimal numbers: read as hexadecimal digits this one would be far ahead.
     */
    atomic_store(&gate->reply_err, ERR_REPLICA_BEHIND);
    assert_int_equal(ask("GET", "/znodes/v1/", "Zk-Min-Zxid: 4294967296\r\n", NULL, NULL), 200);
    atomic_store(&gate->reply_err, ERR_OK);
    assert_int_equal(
        ask("GET", "/znodes/v1/", "Zk-Min-Zxid: 0x1\r\nZk-History: 77\r\n", NULL, NULL), 409);
    atomic_store(&gate->reply_err, ERR_REPLICA_BEHIND);
    assert_int_equal(
        ask("GET", "/znodes/v1/", "Zk-Min-Zxid: 0xffffffffffff\r\n", NULL, "ReplicaBehind"), 503);
    atomic_store(&gate->reply_err, ERR_OUTCOME_UNKNOWN);
    assert_int_equal(ask("PUT", "/znodes/v1/zookeeper", "", "x", "\"outcome\":\"unknown\""), 504);
    atomic_store(&gate->reply_err, ERR_DISK_FULL);
    assert_int_equal(ask("PUT", "/znodes/v1/zookeeper", "", "x", NULL), 507);
    atomic_store(&gate->submit_err, ERR_THROTTLED);

    struct kit_answer answer = kit_ask(port, "PUT", "/znodes/v1/zookeeper", "", "x");

    assert_int_equal(answer.status, 429);
    assert_string_equal(kit_header(&answer, "Retry-After"), "1");
    assert_string_equal(kit_header(&answer, "Cache-Control"), "no-store");
    kit_free(&answer);
    atomic_store(&gate->local_err, ERR_NOT_READY);
    assert_int_equal(ask("GET", "/znodes/v1/", "", NULL, "cut off from the leader"), 503);
}

/* A client that disconnects while its write waits must not harm others. */
TEST(a_client_may_disconnect_while_it_waits, front_setup, front_teardown)
{
    uint64_t end_ms = os_now_ms() + KIT_DEADLINE_MS;

    atomic_store(&gate->held, true);
    for (int i = 0; i < 20; i++) {
        int fd = kit_connect(port);

        kit_send(fd, "PUT /znodes/v1/zookeeper HTTP/1.1\r\nHost: localhost\r\n"
                     "Content-Length: 1\r\n\r\nx");
        while (atomic_load(&gate->inside) != (uint32_t)i + 1) {
            assert_true(os_now_ms() < end_ms);
            poll(NULL, 0, 1);
        }
        close(fd);
    }
    assert_int_equal(get("/znodes/v1/"), 200);
    atomic_store(&gate->held, false);
    assert_int_equal(ask("PUT", "/znodes/v1/zookeeper", "", "y", NULL), 200);
    assert_true(atomic_load(&gate->counted) > 0);
}
