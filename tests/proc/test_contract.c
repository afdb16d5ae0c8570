/*
 * Every status that the contract names, from real replicas. Each request goes to the next replica;
 * reads wait for the last write by Zk-Min-Zxid. Every answer is checked for the headers and members
 * that all must have.
 */
#include "base/os_clock.h"
#include "tests/lib/unit.h"
#include "tests/proc/ensemble.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    PATH_MAX_BYTES = 512,
    HEADERS_MAX_BYTES = 12000
};

#define JSON  "Content-Type: application/json"
#define OCTET "Accept: application/octet-stream"

struct exchange {
    const char *method;
    const char *path;
    const char *headers; /* Additional lines, or NULL. */
    const char *body;    /* Or NULL. */
    long status;
    const char *has; /* Text in the body, or NULL. */
};

static struct ensemble ensemble;
static uint32_t turn;
static char last_zxid[64];

/* ---- Members of every answer ---- */

static void check_problem(const struct exchange *exchange)
{
    static const char *const members[] = {"type",    "title",   "detail",   "code",   "outcome",
                                          "zxidHex", "message", "instance", "request"};
    /* The acceptor refuses before it has read a request line. */
    bool raw = exchange->status == 429 || exchange->status == 431;
    size_t count = sizeof(members) / sizeof(members[0]) - (raw ? 1 : 0);
    struct web_reply *reply = &ensemble.reply;
    json_t *problem = web_json(reply);

    assert_non_null(problem);
    assert_string_equal(web_header(reply, "Content-Type"), "application/problem+json");
    assert_string_equal(web_header(reply, "Cache-Control"), "no-store");
    assert_int_equal(json_integer_value(json_object_get(problem, "status")), exchange->status);
    assert_true(json_is_integer(json_object_get(problem, "zk_code")));
    assert_true(json_is_integer(json_object_get(problem, "zxid")));
    for (size_t i = 0; i < count; i++) {
        if (!json_is_string(json_object_get(problem, members[i]))) {
            fail_msg("the problem has no member %s: %s", members[i], web_text(reply));
        }
    }
    json_decref(problem);
}

static void check_reply(const struct exchange *exchange)
{
    struct web_reply *reply = &ensemble.reply;
    bool head = strcmp(exchange->method, "HEAD") == 0;

    if (reply->status != exchange->status ||
        (exchange->has && !strstr(web_text(reply), exchange->has))) {
        ensemble_print_logs(&ensemble);
        fail_msg("%s %s: %ld, expected %ld %s\n%s", exchange->method, exchange->path, reply->status,
                 exchange->status, exchange->has ? exchange->has : "", web_text(reply));
    }
    assert_non_null(web_header(reply, "Zk-Zxid"));
    assert_int_equal(strlen(web_header(reply, "Zk-History")), 16);
    if (exchange->status >= 400 && !head && strncmp(exchange->path, "/readyz", 7) != 0) {
        check_problem(exchange);
    }
}

static long run_on(uint32_t index, const struct exchange *exchange)
{
    char headers[HEADERS_MAX_BYTES];
    struct web_call call = {.method = exchange->method,
                            .port = ensemble.replicas[index].client_port,
                            .path = exchange->path,
                            .body = exchange->body,
                            .headers = headers};
    bool waits = last_zxid[0] && !(exchange->headers && strstr(exchange->headers, "Zk-Min-Zxid"));

    (void)snprintf(headers, sizeof(headers), "%s%s%s%s", exchange->headers ? exchange->headers : "",
                   exchange->headers && waits ? "\n" : "", waits ? "Zk-Min-Zxid: " : "",
                   waits ? last_zxid : "");
    return web_do(ensemble.web, &call, &ensemble.reply);
}

/* A leader with a slower disk than a majority's may not have applied a write that is already
 * answered. */
static bool is_in_flight(void)
{
    return ensemble.reply.status == 409 && strstr(web_text(&ensemble.reply), "\"InFlight\"");
}

static void run(const struct exchange *exchange)
{
    uint32_t index = turn++ % ensemble.count;
    uint64_t end_ms = os_now_ms() + ENSEMBLE_DEADLINE_MS;

    (void)run_on(index, exchange);
    while (is_in_flight() && os_now_ms() < end_ms) {
        assert_string_equal(web_header(&ensemble.reply, "Retry-After"), "1");
        ensemble_breathe();
        (void)run_on(index, exchange);
    }
    check_reply(exchange);
    if (strcmp(exchange->method, "GET") != 0 && exchange->status < 300) {
        (void)snprintf(last_zxid, sizeof(last_zxid), "%s", web_header(&ensemble.reply, "Zk-Zxid"));
    }
}

static void run_all(const struct exchange *exchanges, size_t exchange_count)
{
    for (size_t i = 0; i < exchange_count; i++) {
        run(&exchanges[i]);
    }
}

#define RUN(exchanges) run_all(exchanges, sizeof(exchanges) / sizeof((exchanges)[0]))

static void one(const char *method, const char *path, const char *headers, const char *body,
                long status)
{
    run(&(struct exchange){method, path, headers, body, status, NULL});
}

/* ---- The parts of the contract ---- */

static void open_ensemble(void)
{
    ensemble_launch(&ensemble, 3,
                    "maxDataBytes=4096\nrequestTimeout=2000\nmaxWait=500\n"
                    "maxConnectionsPerAddress=60\n");
}

static void close_ensemble(void)
{
    ensemble_close(&ensemble);
}

TEST_GROUP(open_ensemble, close_ensemble)

TEST(znodes_are_created_changed_and_deleted)
{
    static const struct exchange exchanges[] = {
        {"POST", "/znodes/v1/?op=create&name=app", NULL, "hello", 201, "\"path\":\"/app\""},
        {"POST", "/znodes/v1/?name=app", NULL, "hello", 409, "NodeExists"},
        {"GET", "/znodes/v1/app", NULL, NULL, 200, "\"data64\":\"aGVsbG8=\""},
        {"GET", "/znodes/v1?path=/app", NULL, NULL, 200, "\"data64\":\"aGVsbG8=\""},
        {"GET", "/znodes/v1/app?dataformat=utf8", NULL, NULL, 200, "\"dataUtf8\":\"hello\""},
        {"GET", "/znodes/v1/app?dataformat=json", NULL, NULL, 406, "NotAcceptable"},
        {"GET", "/znodes/v1/app?dataformat=none", NULL, NULL, 200, "\"version\":0"},
        {"GET", "/znodes/v1/app", OCTET, NULL, 200, "hello"},
        {"HEAD", "/znodes/v1/app", NULL, NULL, 200, NULL},
        {"HEAD", "/znodes/v1/app", OCTET, NULL, 204, NULL},
        {"HEAD", "/znodes/v1/none", NULL, NULL, 404, NULL},
        {"PUT", "/znodes/v1/app", NULL, "two", 200, "\"version\":1"},
        {"PUT", "/znodes/v1/app?version=1", OCTET, "three", 204, NULL},
        {"PUT", "/znodes/v1/app?version=1", NULL, "four", 412, "BadVersion"},
        {"PUT", "/znodes/v1/app?null=true", NULL, NULL, 200, "\"dataLength\":0"},
        {"GET", "/znodes/v1/app", OCTET, NULL, 204, NULL},
        {"PUT", "/znodes/v1/none", NULL, "x", 404, "NoNode"},
        {"PUT", "/znodes/v1/up?upsert=true", NULL, "x", 201, NULL},
        {"PUT", "/znodes/v1/up?upsert=true", NULL, "y", 200, NULL},
        {"PUT", "/znodes/v1/up", "If-None-Match: *", "y", 412, NULL},
        {"PUT", "/znodes/v1/new", "If-None-Match: *", "y", 201, NULL},
        {"POST", "/znodes/v1/app?name=q-&sequence=true", NULL, "", 201, "/app/q-0000000000"},
        {"POST", "/znodes/v1/app?sequence=true", NULL, "", 201, "/app/0000000001"},
        {"POST", "/znodes/v1/app/x/y?name=z&parents=true", NULL, "", 201, "/app/x/y/z"},
        {"POST", "/znodes/v1/no/no?name=z", NULL, "", 404, "NoNode"},
        {"POST", "/znodes/v1/app?name=c&container=true", NULL, "", 201, NULL},
        {"POST", "/znodes/v1/app?name=t&ttl=600000", NULL, "", 201, NULL},
        {"POST", "/znodes/v1/app?name=j", JSON, "{\"dataJson\":{\"a\": 1.50}}", 201, NULL},
        {"GET", "/znodes/v1/app/j?dataformat=json", NULL, NULL, 200, "\"dataJson\":{\"a\": 1.50}"},
        {"GET", "/znodes/v1/app?view=children", NULL, NULL, 200,
         "\"children\":[\"0000000001\",\"c\",\"j\",\"q-0000000000\",\"t\",\"x\"]"},
        {"GET", "/znodes/v1/app?view=children&limit=2&after=c", NULL, NULL, 200,
         "[\"j\",\"q-0000000000\"],\"more\":true"},
        {"GET", "/znodes/v1/app?view=stat", NULL, NULL, 200, "\"numChildren\":6"},
        {"GET", "/znodes/v1/app/x?view=tree&with=stat", NULL, NULL, 200, "\"path\":\"/app/x/y/z\""},
        {"DELETE", "/znodes/v1/app", NULL, NULL, 409, "NotEmpty"},
        {"DELETE", "/znodes/v1/app?recursive=true&max=3", NULL, NULL, 409, NULL},
        {"DELETE", "/znodes/v1/app?recursive=true&max=100", NULL, NULL, 204, NULL},
        {"DELETE", "/znodes/v1/up?version=7", NULL, NULL, 412, NULL},
        {"DELETE", "/znodes/v1/up?version=1", NULL, NULL, 204, NULL},
        {"DELETE", "/znodes/v1/up", NULL, NULL, 404, NULL},
        {"DELETE", "/znodes/v1/zookeeper", NULL, NULL, 400, "BadArguments"},
    };

    RUN(exchanges);
}

TEST(conditions_hold_across_recreation)
{
    char etag[128];
    char match[160];
    char none_match[160];

    one("POST", "/znodes/v1/?name=tagged", NULL, "1", 201);
    (void)snprintf(etag, sizeof(etag), "%s", web_header(&ensemble.reply, "ETag"));
    (void)snprintf(match, sizeof(match), "If-Match: %s", etag);
    (void)snprintf(none_match, sizeof(none_match), "If-None-Match: %s", etag);
    one("GET", "/znodes/v1/tagged", none_match, NULL, 304);
    assert_string_equal(web_header(&ensemble.reply, "ETag"), etag);
    assert_string_equal(web_header(&ensemble.reply, "Cache-Control"), "no-cache");
    /* Raw bytes and JSON have the same entity tag, so caches must distinguish them by Vary. */
    one("GET", "/znodes/v1/tagged", "Accept: application/octet-stream", NULL, 200);
    assert_string_equal(web_header(&ensemble.reply, "ETag"), etag);
    assert_string_equal(web_header(&ensemble.reply, "Cache-Control"), "no-store");
    one("DELETE", "/znodes/v1/tagged", NULL, NULL, 204);
    one("POST", "/znodes/v1/?name=tagged", NULL, "1", 201);
    /* The version is 0 again, but the entity tag differs. */
    one("PUT", "/znodes/v1/tagged", match, "2", 412);
    assert_non_null(strstr(web_text(&ensemble.reply), "\"stat\":{"));
    (void)snprintf(match, sizeof(match), "If-Match: %s", web_header(&ensemble.reply, "ETag"));
    one("PUT", "/znodes/v1/tagged", match, "2", 200);
    one("DELETE", "/znodes/v1/tagged", match, NULL, 412);
    one("GET", "/znodes/v1/tagged", none_match, NULL, 200);
}

TEST(multi_is_all_or_nothing)
{
    static const struct exchange exchanges[] = {
        {"POST", "/multi/v1", JSON,
         "{\"ops\":[{\"op\":\"create\",\"path\":\"/m\",\"dataUtf8\":\"1\"},"
         "{\"op\":\"create\",\"path\":\"/m/a-\",\"dataUtf8\":\"\",\"sequence\":true},"
         "{\"op\":\"set\",\"path\":\"/m\",\"data64\":\"Mg==\",\"version\":0},"
         "{\"op\":\"check\",\"path\":\"/m\",\"version\":1}]}",
         200, "\"path\":\"/m/a-0000000000\""},
        {"POST", "/multi/v1", JSON,
         "{\"ops\":[{\"op\":\"set\",\"path\":\"/m\",\"dataUtf8\":\"3\"},"
         "{\"op\":\"check\",\"path\":\"/m\",\"version\":7}]}",
         412, "\"op_index\":1"},
        {"GET", "/znodes/v1/m?dataformat=utf8", NULL, NULL, 200, "\"dataUtf8\":\"2\""},
        {"POST", "/multi/v1", JSON,
         "{\"ops\":[{\"op\":\"get\",\"path\":\"/m\"},{\"op\":\"stat\",\"path\":\"/none\"},"
         "{\"op\":\"exists\",\"path\":\"/none\"},{\"op\":\"children\",\"path\":\"/m\"}]}",
         200, "\"exists\":false"},
        {"POST", "/multi/v1", JSON,
         "{\"ops\":[{\"op\":\"get\",\"path\":\"/m\"},{\"op\":\"delete\",\"path\":\"/m\"}]}", 400,
         NULL},
        {"POST", "/multi/v1", JSON, "{\"ops\":[{\"op\":\"get\",\"path\":\"/m\",\"x\":1}]}", 400,
         "x is not a member"},
        {"POST", "/multi/v1", JSON, "{\"ops\":", 400, "not valid JSON"},
        {"POST", "/multi/v1", JSON, "", 400, "the body is empty"},
        {"POST", "/multi/v1?consistency=linearizable", JSON,
         "{\"ops\":[{\"op\":\"get\",\"path\":\"/m\"},{\"op\":\"exists\",\"path\":\"/none\"}]}", 200,
         "\"data64\":\"Mg==\""},
        {"POST", "/multi/v1?consistency=linearizable", JSON,
         "{\"ops\":[{\"op\":\"check\",\"path\":\"/m\",\"version\":1}]}", 200, "\"ok\":true"},
        {"POST", "/multi/v1", "Content-Type: text/plain", "x", 400, "not valid JSON"},
        {"POST", "/multi/v1", "Content-Type: text/xml", "x", 415, NULL},
    };

    RUN(exchanges);
}

#define KEY "Idempotency-Key: 01234567-89ab-4cde-8f01-23456789abcd"
#define BOB "Authorization: Basic Ym9iOnB3"

/* Each request goes to the next replica. */
TEST(a_write_sent_twice_is_done_once)
{
    static const struct exchange exchanges[] = {
        {"POST", "/znodes/v1/?name=key-&sequence=true", KEY, "x", 201, "/key-00"},
        {"POST", "/znodes/v1/?name=key-&sequence=true", KEY, "x", 201, "/key-00"},
        {"POST", "/znodes/v1/?name=key-&sequence=true", KEY, "y", 422, "IdempotencyKeyReused"},
        {"PUT", "/znodes/v1/zookeeper", KEY, "x", 422, NULL},
        {"PUT", "/znodes/v1/key?upsert=true", BOB "\nIdempotency-Key: k1", "x", 201, NULL},
        {"PUT", "/znodes/v1/key?upsert=true", BOB "\nIdempotency-Key: \"k1\"", "x", 201, NULL},
        {"GET", "/znodes/v1/key", NULL, NULL, 200, "\"version\":0"},
        {"PUT", "/znodes/v1/key?upsert=true", BOB "\nIdempotency-Key: k2", "x", 200, NULL},
        {"POST", "/multi/v1", JSON "\n" BOB "\nIdempotency-Key: m",
         "{\"ops\":[{\"op\":\"create\",\"path\":\"/key/s-\",\"sequence\":true}]}", 200,
         "/key/s-0000000000"},
        {"POST", "/multi/v1", JSON "\n" BOB "\nIdempotency-Key: m",
         "{\"ops\":[{\"op\":\"create\",\"path\":\"/key/s-\",\"sequence\":true}]}", 200,
         "/key/s-0000000000"},
        {"DELETE", "/znodes/v1/key/s-0000000000", BOB "\nIdempotency-Key: d", NULL, 204, NULL},
        {"DELETE", "/znodes/v1/key/s-0000000000", BOB "\nIdempotency-Key: d", NULL, 204, NULL},
        {"DELETE", "/znodes/v1/key/s-0000000000", BOB, NULL, 404, NULL},
        /* An error was not applied, so it is not remembered. */
        {"PUT", "/znodes/v1/key/late", BOB "\nIdempotency-Key: e", "x", 404, NULL},
        {"POST", "/znodes/v1/key?name=late", NULL, "", 201, NULL},
        {"PUT", "/znodes/v1/key/late", BOB "\nIdempotency-Key: e", "x", 200, NULL},
    };

    RUN(exchanges);
    assert_null(web_header(&ensemble.reply, "Idempotency-Replayed"));
    run(&exchanges[0]);
    assert_string_equal(web_header(&ensemble.reply, "Idempotency-Replayed"), "true");
}

TEST(quotas_hold)
{
    static const struct exchange exchanges[] = {
        {"POST", "/znodes/v1/?name=full", NULL, "", 201, NULL},
        {"POST", "/znodes/v1/zookeeper/quota/full?name=zookeeper_limits&parents=true", NULL,
         "count=-1,bytes=-1=;byteHardLimit=10;countHardLimit=3", 201, NULL},
        {"POST", "/znodes/v1/full?name=a", NULL, "12345", 201, NULL},
        {"PUT", "/znodes/v1/full/a", NULL, "12345678901", 507, "QuotaExceeded"},
        {"POST", "/znodes/v1/full?name=b", NULL, "12345", 201, NULL},
        {"POST", "/znodes/v1/full?name=c", NULL, "", 507, "QuotaExceeded"},
        {"POST", "/multi/v1", JSON,
         "{\"ops\":[{\"op\":\"delete\",\"path\":\"/full/a\"},"
         "{\"op\":\"create\",\"path\":\"/full/c\"}]}",
         200, NULL},
        {"DELETE", "/znodes/v1/zookeeper/quota/full/zookeeper_limits", NULL, NULL, 204, NULL},
        {"POST", "/znodes/v1/full?name=d", NULL, "1234567890", 201, NULL},
    };

    RUN(exchanges);
}

static bool is_missing(const char *path)
{
    return run_on(turn++ % ensemble.count,
                  &(struct exchange){"GET", path, NULL, NULL, 404, NULL}) == 404;
}

TEST(expired_znodes_and_emptied_containers_are_deleted)
{
    static const struct exchange exchanges[] = {
        {"POST", "/znodes/v1/?name=box&container=true", NULL, "", 201, NULL},
        {"POST", "/znodes/v1/box?name=in", NULL, "", 201, NULL},
        {"POST", "/znodes/v1/?name=empty&container=true", NULL, "", 201, NULL},
        {"POST", "/znodes/v1/?name=brief&ttl=100", NULL, "", 201, NULL},
        {"POST", "/znodes/v1/brief?name=holds", NULL, "", 201, NULL},
        {"POST", "/znodes/v1/?name=short&ttl=100", NULL, "", 201, NULL},
    };

    RUN(exchanges);
    ENSEMBLE_WAIT(&ensemble, is_missing("/znodes/v1/short"));
    one("GET", "/znodes/v1/box", NULL, NULL, 200);
    one("GET", "/znodes/v1/empty", NULL, NULL, 200); /* It never had a child yet. */
    one("GET", "/znodes/v1/brief", NULL, NULL, 200);
    one("DELETE", "/znodes/v1/box/in", NULL, NULL, 204);
    one("DELETE", "/znodes/v1/brief/holds", NULL, NULL, 204);
    ENSEMBLE_WAIT(&ensemble, is_missing("/znodes/v1/box"));
    ENSEMBLE_WAIT(&ensemble, is_missing("/znodes/v1/brief"));
    one("GET", "/znodes/v1/empty", NULL, NULL, 200);
}

TEST(invalid_requests_are_refused_with_the_reason)
{
    static const struct exchange exchanges[] = {
        {"GET", "/znodes/v1/a%00b", NULL, NULL, 400, NULL},
        {"GET", "/znodes/v1/a%zz", NULL, NULL, 400, NULL},
        {"GET", "/znodes/v1/%ff", NULL, NULL, 400, NULL},
        {"GET", "/znodes/v1/a/../b", NULL, NULL, 400, NULL},
        {"GET", "/znodes/v1/a//b", NULL, NULL, 400, NULL},
        {"GET", "/znodes/v1/a/", NULL, NULL, 400, NULL},
        {"GET", "/znodes/v1/?colour=red", NULL, NULL, 400, "colour"},
        {"GET", "/znodes/v1/?=", NULL, NULL, 400, "unknown query parameter"},
        {"GET", "/?=", NULL, NULL, 400, "unknown query parameter"},
        {"GET", "/znodes/v1/?view=data&view=stat", NULL, NULL, 400, "twice"},
        {"PUT", "/znodes/v1/a?version=one", NULL, "x", 400, "version"},
        {"GET", "/znodes/v1/?callback=f", NULL, NULL, 406, NULL},
        {"GET", "/znodes/v1/", "Accept: text/xml", NULL, 406, NULL},
        {"GET", "/znodes/v1/?session=0000", NULL, NULL, 401, "UnknownSession"},
        {"GET", "/znodes/v1/", "Zk-Session: 0000", NULL, 401, "UnknownSession"},
        {"PUT", "/znodes/v1/zookeeper", "Origin: http://evil.example", "x", 403, NULL},
        {"GET", "/", "Host: evil.example", NULL, 421, "Misdirected"},
        {"GET", "/nothing", NULL, NULL, 404, "NotFound"},
        {"GET", "/openapi.json", NULL, NULL, 200, NULL},
        {"GET", "/openapi.yaml", NULL, NULL, 404, NULL},
        {"PUT", "/multi/v1", NULL, "x", 405, NULL},
        {"FOO", "/znodes/v1/", NULL, NULL, 405, NULL},
        {"GET", "/znodes/v1/", "If-Match: \"d0.0\"", NULL, 400, "does not support If-Match"},
        {"HEAD", "/znodes/v1/?view=children", "If-Match: *", NULL, 400, NULL},
        {"PUT", "/znodes/v1/zookeeper", JSON, "{}", 200, NULL},
        {"PUT", "/znodes/v1/zookeeper", "Content-Type: application/x-www-form-urlencoded", "x", 200,
         NULL},
        {"PUT", "/znodes/v1/zookeeper", "Content-Encoding: gzip", "x", 415, NULL},
        {"GET", "/whoami/v1", "Authorization: Bearer x", NULL, 401, "AuthFailed"},
        {"GET", "/znodes/v1/", "Zk-Acl: open", NULL, 400, "Zk-Acl"},
        {"POST", "/znodes/v1/?name=e", "Zk-Acl: bob", "", 400, "InvalidACL"},
        {"POST", "/sync/v1", NULL, "x", 400, "no body"},
        {"GET", "/znodes/v1/?view=acl", NULL, NULL, 200, NULL},
        {"PATCH", "/znodes/v1/", JSON, "{}", 400, "BadArguments"},
        {"POST", "/sessions/v1/?op=create&expire=5", NULL, NULL, 201, NULL},
        {"GET", "/watch/v1/a?since=x", NULL, NULL, 400, "BadArguments"},
        {"GET", "/ws/v1", NULL, NULL, 426, NULL},
        {"POST", "/znodes/v1/?name=e&ephemeral=true", NULL, "", 401, "UnknownSession"},
        {"PUT", "/znodes/v1/zookeeper", "Idempotency-Key: 1", "x", 400, "BadArguments"},
        {"GET", "/znodes/v1/", "Zk-Min-Zxid: 0x1\nZk-History: 1", NULL, 409, "HistoryChanged"},
    };

    RUN(exchanges);
    one("DELETE", "/sync/v1", NULL, NULL, 405);
    assert_string_equal(web_header(&ensemble.reply, "Allow"), "POST, OPTIONS");
}

TEST(information_resources_are_served)
{
    static const struct exchange exchanges[] = {
        {"GET", "/status/v1", NULL, NULL, 200, "\"role\""},
        {"GET", "/ensemble/v1", NULL, NULL, 200, NULL},
        {"GET", "/limits/v1", NULL, NULL, 200, NULL},
        {"GET", "/whoami/v1", NULL, NULL, 200, "127.0.0.1"},
        {"GET", "/livez", NULL, NULL, 200, "[+] core"},
        {"GET", "/readyz?verbose", NULL, NULL, 200, "[+] leader: "},
        {"GET", "/readyz", "Accept: application/json", NULL, 200, "\"checks\":["},
        {"GET", "/metrics", NULL, NULL, 200, "zabra_http_requests_total{code=\"2xx\"}"},
        {"GET", "/", NULL, NULL, 200, "\"/znodes/v1/{path}\""},
        {"GET", "/", "Accept: text/html", NULL, 200, "<!doctype html>"},
        {"POST", "/sync/v1", NULL, NULL, 200, "\"zxidHex\""},
        {"OPTIONS", "/znodes/v1/a", NULL, NULL, 204, NULL},
        {"GET", "/znodes/v1/?consistency=linearizable", NULL, NULL, 200, NULL},
        {"GET", "/znodes/v1/?consistency=sometimes", NULL, NULL, 400, NULL},
    };

    RUN(exchanges);
}

TEST(limits_are_answered)
{
    static char large[4098];
    char headers[HEADERS_MAX_BYTES] = "";
    char line[1000];

    memset(large, 'x', sizeof(large) - 1);
    one("PUT", "/znodes/v1/zookeeper", NULL, large, 413);
    memset(line, 'y', sizeof(line) - 1);
    line[sizeof(line) - 1] = '\0';
    for (int i = 0; i < 10; i++) {
        size_t len = strlen(headers);

        (void)snprintf(headers + len, sizeof(headers) - len, "%sX-%d: %s", i ? "\n" : "", i, line);
    }

    /* The server closes the connection. */
    struct web *web = ensemble.web;
    struct exchange exchange = {"GET", "/", headers, NULL, 431, "maxHeadBytes"};

    ensemble.web = web_open();
    run(&exchange);
    web_close(ensemble.web);
    ensemble.web = web;
}

/* Opens connections until one is over the cap for its address. */
TEST(too_many_connections_are_refused)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(ensemble.replicas[0].client_port)};
    int fds[64];
    size_t fd_count = sizeof(fds) / sizeof(fds[0]);
    struct web *web = ensemble.web;

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (size_t i = 0; i < fd_count; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(fds[i], (const struct sockaddr *)&to, sizeof(to)), 0);
    }
    ensemble.web = web_open();
    struct exchange exchange = {"GET", "/", NULL, NULL, 429, "ThrottledOp"};

    (void)run_on(0, &exchange);
    check_reply(&exchange);
    assert_string_equal(web_header(&ensemble.reply, "Retry-After"), "1");
    web_close(ensemble.web);
    ensemble.web = web;
    for (size_t i = 0; i < fd_count; i++) {
        close(fds[i]);
    }
}

TEST(a_read_at_a_future_zxid_is_refused)
{
    struct exchange exchange = {"GET", "/znodes/v1/", "Zk-Min-Zxid: 0xffffffff00000000",
                                NULL,  503,           "ReplicaBehind"};

    run(&exchange);
    assert_string_equal(web_header(&ensemble.reply, "Retry-After"), "1");
}

/* Stopped followers cannot acknowledge, so the outcome of the proposal is unknown. */
TEST(an_unknown_outcome_is_reported)
{
    uint32_t leader = ensemble_wait_leader(&ensemble);
    struct exchange exchange = {"PUT", "/znodes/v1/zookeeper",   NULL, "x",
                                504,   "\"outcome\":\"unknown\""};

    for (uint32_t i = 0; i < ensemble.count; i++) {
        if (i != leader) {
            ensemble_signal(&ensemble, i, SIGSTOP);
        }
    }
    (void)run_on(leader, &exchange);
    for (uint32_t i = 0; i < ensemble.count; i++) {
        if (i != leader) {
            ensemble_signal(&ensemble, i, SIGCONT);
        }
    }
    check_reply(&exchange);
    ensemble_wait_all_ready(&ensemble);
}

static void wait_for_status(const struct exchange *exchange)
{
    uint64_t end_ms = os_now_ms() + ENSEMBLE_DEADLINE_MS;

    while (run_on(0, exchange) != exchange->status && os_now_ms() < end_ms) {
        ensemble_breathe();
    }
    check_reply(exchange);
}

TEST(without_a_quorum_nothing_is_applied)
{
    ensemble_kill(&ensemble, 1);
    ensemble_kill(&ensemble, 2);
    wait_for_status(&(struct exchange){"PUT", "/znodes/v1/zookeeper", NULL, "x", 503,
                                       "\"outcome\":\"not-applied\""});
    assert_string_equal(web_header(&ensemble.reply, "Retry-After"), "1");
    wait_for_status(&(struct exchange){"GET", "/readyz", NULL, NULL, 503, "[-] in_step"});
    ensemble_start(&ensemble, 1);
    ensemble_start(&ensemble, 2);
    ensemble_wait_all_ready(&ensemble);
}

/* Returns how long a write with these headers waits for a quorum; it is not applied. */
static uint64_t refused_after_ms(const char *headers)
{
    uint64_t start_ms = os_now_ms();

    (void)run_on(0, &(struct exchange){"PUT", "/znodes/v1/zookeeper", headers, "x", 503, NULL});
    assert_int_equal(ensemble.reply.status, 503);
    assert_non_null(strstr(web_text(&ensemble.reply), "\"outcome\":\"not-applied\""));
    return os_now_ms() - start_ms;
}

TEST(a_write_is_answered_in_its_clients_time)
{
    ensemble_kill(&ensemble, 1);
    ensemble_kill(&ensemble, 2);
    wait_for_status(&(struct exchange){"PUT", "/znodes/v1/zookeeper", NULL, "x", 503, NULL});
    /* maxWait is lower, but applies to reads only. */
    assert_in_range(refused_after_ms("Prefer: wait=1"), 900, 1900);
    assert_true(refused_after_ms(NULL) >= 1900);
    assert_true(refused_after_ms("Prefer: wait=9") >= 1900); /* requestTimeout limits it. */
    ensemble_start(&ensemble, 1);
    ensemble_start(&ensemble, 2);
    ensemble_wait_all_ready(&ensemble);
}
