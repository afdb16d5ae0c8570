/*
 * What replicas report about their clients and themselves to a dashboard: sessions and their
 * ephemerals, watches, permissions, the metrics history, and which client may see which of them.
 * Also a read-only replica.
 */
#include "tests/lib/unit.h"
#include "tests/proc/ensemble.h"
#include "tests/proc/plain.h"
#include "tests/proc/shell.h"
#include "tests/proc/socket.h"

#include <stdio.h>
#include <string.h>

#define ALICE "Authorization: Basic YWxpY2U6cHc="     /* alice:pw */
#define BOB   "Authorization: Basic Ym9iOnB3"         /* bob:pw */
#define ROOT  "Authorization: Basic c3VwZXI6cm9vdA==" /* super:root */
#define JSON  "Content-Type: application/json"
#define LINES "Content-Type: application/x-ndjson"

enum {
    READ_ONLY = 2, /* Index of the read-only replica. */
    PATH_MAX_BYTES = 300,
    HEADERS_MAX_BYTES = 600,
    UUID_LEN = 36
};

static struct ensemble ensemble;
static char last_zxid[64];

static void open_three(void)
{
    ensemble_open(&ensemble, 3, ENSEMBLE_SUPER "environment=test bed\n");

    FILE *config = fopen(ensemble.replicas[READ_ONLY].config, "a");

    assert_non_null(config);
    (void)fprintf(config, "readOnly=true\n");
    (void)fclose(config);
    for (uint32_t i = 0; i < ensemble.count; i++) {
        ensemble_start(&ensemble, i);
    }
    ensemble_wait_all_ready(&ensemble);
}

static void close_three(void)
{
    ensemble_close(&ensemble);
}

/* Each read waits for the state after the last write. */
static long call(uint32_t index, const char *method, const char *path, const char *headers,
                 const char *body)
{
    char all[HEADERS_MAX_BYTES];

    (void)snprintf(all, sizeof(all), "%s%s%s%s", headers, headers[0] && last_zxid[0] ? "\n" : "",
                   last_zxid[0] ? "Zk-Min-Zxid: " : "", last_zxid);

    long status = web_do(ensemble.web,
                         &(struct web_call){.method = method,
                                            .port = ensemble.replicas[index].client_port,
                                            .path = path,
                                            .headers = all,
                                            .body = body},
                         &ensemble.reply);

    if (status / 100 == 2 && strcmp(method, "GET") != 0) {
        (void)snprintf(last_zxid, sizeof(last_zxid), "%s", web_header(&ensemble.reply, "Zk-Zxid"));
    }
    return status;
}

static void expect(uint32_t index, const char *method, const char *path, const char *headers,
                   const char *body, long status)
{
    if (call(index, method, path, headers, body) != status) {
        ensemble_print_logs(&ensemble);
        fail_msg("%s %s (%s): %ld, not %ld: %s", method, path, headers, ensemble.reply.status,
                 status, web_text(&ensemble.reply));
    }
}

static bool says(const char *text)
{
    return strstr(web_text(&ensemble.reply), text) != NULL;
}

static json_t *ask(uint32_t index, const char *path, const char *headers)
{
    expect(index, "GET", path, headers, NULL, 200);

    json_t *value = web_json(&ensemble.reply);

    assert_non_null(value);
    return value;
}

static const char *text_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return json_is_string(value) ? json_string_value(value) : "";
}

/* ---- Sessions. ---- */

struct session {
    char id[UUID_LEN + 1];
    char header[64];
    char public[32];
};

static struct session open_session(uint32_t index, const char *headers)
{
    struct session session;

    expect(index, "POST", "/sessions/v1?expire=60", headers, NULL, 201);

    json_t *told = web_json(&ensemble.reply);

    (void)snprintf(session.id, sizeof(session.id), "%s", text_of(told, "id"));
    (void)snprintf(session.header, sizeof(session.header), "Zk-Session: %s", session.id);
    (void)snprintf(session.public, sizeof(session.public), "%s", text_of(told, "session"));
    json_decref(told);
    return session;
}

/* The entry of the session in a list, borrowed; NULL if it is not listed. */
static json_t *entry_of(const json_t *list, const struct session *session)
{
    size_t index = 0;
    json_t *entry = NULL;

    json_array_foreach(json_object_get(list, "sessions"), index, entry)
    {
        if (strcmp(text_of(entry, "session"), session->public) == 0) {
            return entry;
        }
    }
    return NULL;
}

static bool shows(uint32_t index, const char *headers, const struct session *session)
{
    json_t *list = ask(index, "/sessions/v1", headers);
    bool shown = entry_of(list, session) != NULL;

    json_decref(list);
    return shown;
}

static void kill_session(const struct session *session)
{
    char path[PATH_MAX_BYTES];

    (void)snprintf(path, sizeof(path), "/sessions/v1?op=kill&public=%s", session->public);
    expect(0, "POST", path, ROOT, NULL, 204);
}

TEST_GROUP(open_three, close_three)

/* The super user sees all sessions, other clients their own: by identity, or without one by
 * address, which all clients of a test share. */
TEST(sessions_are_listed_to_their_owners)
{
    struct session alice = open_session(0, ALICE);
    struct session bob = open_session(1, BOB);
    struct session anonymous = open_session(0, "");

    for (uint32_t i = 0; i < ensemble.count; i++) {
        assert_true(shows(i, ROOT, &alice) && shows(i, ROOT, &bob) && shows(i, ROOT, &anonymous));
        assert_true(shows(i, ALICE, &alice) && !shows(i, ALICE, &bob));
        assert_true(shows(i, BOB, &bob) && !shows(i, BOB, &alice) && shows(i, BOB, &anonymous));
        assert_true(!shows(i, "", &alice) && shows(i, "", &anonymous));
    }

    json_t *list = ask(1, "/sessions/v1?view=list", ROOT);
    json_t *entry = entry_of(list, &alice);

    assert_string_equal(text_of(entry, "identity"), "digest:alice");
    assert_string_equal(text_of(entry, "address"), "127.0.0.1");
    assert_null(strstr(web_text(&ensemble.reply), alice.id)); /* The secret is shown to no other
                                                               * client. */
    assert_null(json_object_get(entry_of(list, &anonymous), "identity"));
    json_decref(list);

    /* A request with a session's secret gets that session. */
    expect(0, "GET", "/sessions/v1", alice.header, NULL, 200);
    assert_true(says(alice.public) && !says("sessions"));
    kill_session(&alice);
    kill_session(&bob);
    kill_session(&anonymous);
}

TEST(sessions_are_paged)
{
    struct session all[3];
    char path[PATH_MAX_BYTES] = "/sessions/v1?limit=1";
    bool more = true;
    size_t seen = 0;

    for (size_t i = 0; i < 3; i++) {
        all[i] = open_session(0, "");
    }
    for (size_t page = 0; more && page < 100; page++) {
        json_t *list = ask(0, path, ROOT);

        assert_true(json_array_size(json_object_get(list, "sessions")) <= 1);
        for (size_t i = 0; i < 3; i++) {
            seen += entry_of(list, &all[i]) != NULL;
        }
        more = json_is_true(json_object_get(list, "more"));
        (void)snprintf(path, sizeof(path), "/sessions/v1?limit=1&after=%s", text_of(list, "after"));
        json_decref(list);
    }
    assert_int_equal(seen, 3);
    for (size_t i = 0; i < 3; i++) {
        kill_session(&all[i]);
    }
}

/* The leader learns from the next heartbeat which replica has heard from a session. */
static bool is_heard_at(const struct session *session, uint32_t leader, uint32_t index)
{
    json_t *list = ask(leader, "/sessions/v1", ROOT);
    json_t *entry = entry_of(list, session);
    json_int_t at = json_integer_value(json_object_get(entry, "heard_at"));

    assert_true(json_is_true(json_object_get(list, "hears_all")));
    json_decref(list);
    return at == (json_int_t)ensemble.replicas[index].id;
}

TEST(the_leader_knows_the_last_contact_of_sessions)
{
    uint32_t leader = ensemble_wait_leader(&ensemble);
    struct session session = open_session(0, ALICE);
    char path[PATH_MAX_BYTES];

    (void)snprintf(path, sizeof(path), "/sessions/v1/%s", session.id);
    for (uint32_t i = 0; i < ensemble.count; i++) {
        expect(i, "PUT", path, "", NULL, 200); /* Also at the read-only replica. */
        ENSEMBLE_WAIT(&ensemble, is_heard_at(&session, leader, i));
    }
    kill_session(&session);
}

TEST(ephemerals_of_a_session)
{
    struct session session = open_session(0, ALICE);
    char headers[HEADERS_MAX_BYTES];
    char path[PATH_MAX_BYTES];
    char list[PATH_MAX_BYTES / 2];

    (void)snprintf(headers, sizeof(headers), "%s\n%s", ALICE, session.header);
    for (uint32_t i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof(path), "/znodes/v1/?name=e%u&ephemeral=true", i);
        expect(i % 2, "POST", path, headers, NULL, 201);
    }
    (void)snprintf(list, sizeof(list), "/sessions/v1?view=ephemerals&public=%s", session.public);
    expect(2, "GET", list, ALICE, NULL, 200);
    assert_true(says("\"ephemerals\":[\"/e0\",\"/e1\",\"/e2\"],\"more\":false"));
    (void)snprintf(path, sizeof(path), "%s&limit=1", list);
    expect(1, "GET", path, ROOT, NULL, 200);
    assert_true(says("[\"/e0\"],\"more\":true,\"after\":\"/e0\""));
    (void)snprintf(path, sizeof(path), "%s&after=/e0&with=stat", list);
    expect(1, "GET", path, ALICE, NULL, 200);
    assert_true(!says("/e0") && says("{\"path\":\"/e1\",\"stat\":{") && says(session.public));
    /* The znode of `after` may be deleted. */
    (void)snprintf(path, sizeof(path), "%s&after=/e00", list);
    expect(0, "GET", path, ALICE, NULL, 200);
    assert_true(says("[\"/e1\",\"/e2\"]"));
    expect(0, "GET", list, BOB, NULL, 404);
    assert_true(says("\"NotFound\""));
    expect(0, "GET", "/sessions/v1?view=ephemerals", ALICE, NULL, 400);
    kill_session(&session);
    expect(2, "GET", "/znodes/v1/e0", "", NULL, 404);
}

TEST(only_the_super_user_closes_others)
{
    struct session session = open_session(0, ALICE);
    char headers[HEADERS_MAX_BYTES];
    char path[PATH_MAX_BYTES];

    (void)snprintf(headers, sizeof(headers), "%s\n%s", ROOT, session.header);
    (void)snprintf(path, sizeof(path), "/sessions/v1?op=kill&public=%s", session.public);
    expect(0, "POST", path, "", NULL, 401);
    expect(1, "POST", path, ALICE, NULL, 403);
    expect(1, "POST", "/sessions/v1?op=kill", ROOT, NULL, 400);
    expect(1, "POST", path, ROOT, NULL, 204);
    expect(0, "POST", path, ROOT, NULL, 404);
    expect(0, "PUT", "/sessions/v1", session.header, NULL, 401);
    /* No request in the closed session is answered. */
    expect(0, "POST", path, headers, NULL, 401);
    assert_true(says("\"SessionExpired\""));
    expect(0, "GET", "/watches/v1", headers, NULL, 401);
    assert_true(says("\"SessionExpired\""));
    (void)snprintf(headers, sizeof(headers), "%s\n%s\n%s", ROOT, session.header, JSON);
    expect(0, "POST", "/ensemble/v1/level", headers, "{\"hold\":null}", 401);
    assert_true(says("\"SessionExpired\""));
}

/* ---- Watches. ---- */

static size_t count_of(uint32_t index, const char *path, const char *headers, const char *key)
{
    json_t *told = ask(index, path, headers);
    size_t count = json_array_size(json_object_get(told, key));

    assert_true(json_is_false(json_object_get(told, "truncated")));
    json_decref(told);
    return count;
}

static struct socket *open_socket(uint32_t index, const char *authorization)
{
    char line[HEADERS_MAX_BYTES];
    struct socket *socket = NULL;

    (void)snprintf(line, sizeof(line), "%s\r\n", authorization);
    socket = socket_open(ensemble.replicas[index].client_port,
                         &(struct socket_options){.headers = authorization[0] ? line : NULL});
    assert_int_equal(socket_status(socket), 101);
    return socket;
}

TEST(watches_are_listed)
{
    struct session session = open_session(0, ALICE);
    struct socket *socket = open_socket(0, ALICE);
    struct plain *stream = plain_open(ensemble.replicas[0].client_port, WEB_TIMEOUT_MS);
    struct plain_answer answer;
    char path[PATH_MAX_BYTES];

    plain_answer_init(&answer);
    json_decref(socket_call(socket, "\"op\":\"attach\",\"session\":\"%s\"", session.id));
    json_decref(socket_call(socket, "\"op\":\"watch\",\"path\":\"/w\",\"kind\":\"recursive\""));
    json_decref(socket_call(socket, "\"op\":\"watch\",\"path\":\"/w\",\"kind\":\"exists\""));
    json_decref(socket_call(socket, "\"op\":\"watch\",\"path\":\"/v\""));
    assert_int_equal(plain_stream(stream, "/watch/v1/w", "Accept: application/x-ndjson\r\n",
                                  WEB_TIMEOUT_MS, &answer),
                     200);
    assert_non_null(plain_line(stream, WEB_TIMEOUT_MS));

    assert_int_equal(count_of(0, "/watches/v1", ROOT, "watches"), 4);
    assert_true(says("\"over\":\"stream\"") && says("\"identity\":\"digest:alice\""));
    /* Without a change that would fire them. */
    ENSEMBLE_WAIT(&ensemble, ensemble_metric(&ensemble, 0, "zabra_ws_watches") == 3);
    assert_int_equal(count_of(0, "/watches/v1?path=/w", ROOT, "watches"), 3);
    assert_int_equal(count_of(0, "/watches/v1?path=/", ROOT, "watches"), 0);
    assert_int_equal(count_of(0, "/watches/v1?clients=true", ROOT, "clients"), 2);
    assert_true(says("\"watches\":3"));
    (void)snprintf(path, sizeof(path), "/watches/v1?public=%s", session.public);
    assert_int_equal(count_of(0, path, ROOT, "watches"), 3);
    assert_int_equal(count_of(1, path, ROOT, "watches"), 0); /* Each replica lists its own. */
    assert_int_equal(count_of(0, path, BOB, "watches"), 0);
    assert_int_equal(count_of(0, path, ALICE, "watches"), 3);
    assert_int_equal(count_of(0, "/watches/v1", "", "watches"), 1); /* The stream has no
                                                                     * credentials. */

    json_t *told = ask(0, "/watches/v1?limit=2", ROOT);

    assert_int_equal(json_array_size(json_object_get(told, "watches")), 2);
    assert_true(json_is_true(json_object_get(told, "truncated")));
    json_decref(told);
    plain_close(stream);
    socket_close(socket);
    plain_answer_release(&answer);
    kill_session(&session);
    ENSEMBLE_WAIT(&ensemble, count_of(0, "/watches/v1", ROOT, "watches") == 0);
}

/* ---- The same over a WebSocket. ---- */

TEST(listings_by_websocket)
{
    struct session session = open_session(0, ALICE);
    struct socket *socket = open_socket(0, ROOT);
    json_t *reply = socket_call(socket, "\"op\":\"sessions\",\"limit\":1000");

    assert_non_null(entry_of(reply, &session));
    json_decref(reply);
    reply = socket_call(socket, "\"op\":\"ephemerals\",\"public\":\"%s\"", session.public);
    assert_int_equal(json_array_size(json_object_get(reply, "ephemerals")), 0);
    json_decref(reply);
    reply = socket_call(socket, "\"op\":\"stat\",\"path\":\"/\",\"perms\":true");
    assert_int_equal(json_array_size(json_object_get(reply, "perms")), 5);
    json_decref(reply);
    reply = socket_call(socket, "\"op\":\"kill\",\"public\":\"%s\"", session.public);
    assert_true(json_is_true(json_object_get(reply, "ok")));
    json_decref(reply);
    reply = socket_call(socket, "\"op\":\"kill\",\"public\":\"%s\"", session.public);
    assert_string_equal(text_of(json_object_get(reply, "error"), "code"), "NotFound");
    json_decref(reply);
    socket_close(socket);
}

/* ---- Permissions. ---- */

TEST(permissions_are_shown_on_request)
{
    expect(0, "POST", "/znodes/v1/?name=r", ALICE "\nZk-Acl: world:anyone:r,auth::cdrwa", NULL,
           201);
    expect(1, "GET", "/znodes/v1/r?perms=true", "", NULL, 200);
    assert_true(says("\"perms\":[\"read\"]"));
    expect(2, "GET", "/znodes/v1/r?view=stat&perms=true", ALICE, NULL, 200);
    assert_true(says("\"perms\":[\"read\",\"write\",\"create\",\"delete\",\"admin\"]"));
    expect(0, "GET", "/znodes/v1/r?view=children&perms=true", BOB, NULL, 200);
    assert_true(says("\"perms\":[\"read\"]"));
    expect(0, "GET", "/znodes/v1/r?view=stat", ALICE, NULL, 200);
    assert_true(!says("perms")); /* Only on request. */
    expect(1, "GET", "/znodes/v1/r?view=acl&perms=true", BOB, NULL, 200);
    assert_true(says("\"aversion\":0,\"perms\":[\"read\"]"));
    expect(0, "GET", "/znodes/v1/r?view=acl&as=digest:alice", ALICE, NULL, 200);
    assert_true(says("\"as\":\"digest:alice\",\"perms\":[\"read\",\"write\""));
    expect(0, "GET", "/znodes/v1/r?view=acl&as=digest:bob", ROOT, NULL, 200);
    assert_true(says("\"as\":\"digest:bob\",\"perms\":[\"read\"]"));
    expect(0, "GET", "/znodes/v1/r?view=acl&as=digest:alice", BOB, NULL, 403);
    expect(0, "GET", "/znodes/v1/r?view=acl&as=alice", ALICE, NULL, 400);
    expect(0, "DELETE", "/znodes/v1/r", "", NULL, 204);
}

/* Containers and TTL znodes are marked, and no others. */
TEST(containers_and_ttl_znodes_are_marked)
{
    expect(0, "POST", "/znodes/v1/?name=box&container=true", "", NULL, 201);
    expect(0, "POST", "/znodes/v1/box?name=soon&ttl=600000", "", NULL, 201);
    expect(0, "POST", "/znodes/v1/box?name=stays", "", NULL, 201);
    expect(1, "GET", "/znodes/v1/box?view=stat", "", NULL, 200);
    assert_true(says("\"container\":true") && !says("\"ttl\""));
    expect(1, "GET", "/znodes/v1/box?view=children&with=stat", "", NULL, 200);
    assert_true(says("\"ttl\":600000}}") && says("\"container\":true"));
    expect(2, "GET", "/znodes/v1/box/stays", "", NULL, 200);
    assert_true(!says("\"ttl\"") && !says("\"container\""));
    expect(0, "DELETE", "/znodes/v1/box?recursive=true", "", NULL, 204);
}

/* ---- The metrics history. ---- */

static size_t history_len(const char *path)
{
    json_t *told = ask(0, path, "");
    size_t times = json_array_size(json_object_get(told, "times"));
    const char *name = NULL;
    json_t *values = NULL;

    json_object_foreach(json_object_get(told, "series"), name, values)
    {
        assert_int_equal(json_array_size(values), times);
    }
    json_decref(told);
    return times;
}

TEST(history_of_metrics)
{
    char path[PATH_MAX_BYTES];

    ENSEMBLE_WAIT(&ensemble, history_len("/metrics/history/v1") >= 3);
    assert_true(says("\"reads\":[") && says("\"memory_bytes\":[") && says("\"log_sync_p99_ms\":["));
    (void)history_len("/metrics/history/v1?step=10");
    assert_true(says("\"step\":10"));
    (void)history_len("/metrics/history/v1?series=writes,cpu");
    assert_true(says("\"writes\":[") && says("\"cpu\":[") && !says("\"reads\":["));

    json_t *told = ask(0, "/metrics/history/v1", "");
    json_t *times = json_object_get(told, "times");
    json_int_t last = json_integer_value(json_array_get(times, json_array_size(times) - 1));

    json_decref(told);
    (void)snprintf(path, sizeof(path), "/metrics/history/v1?since=%lld", (long long)last);
    ENSEMBLE_WAIT(&ensemble, history_len(path) > 0);
    told = ask(0, path, "");
    assert_true(json_integer_value(json_array_get(json_object_get(told, "times"), 0)) > last);
    json_decref(told);
    expect(0, "GET", "/metrics/history/v1?step=5", "", NULL, 400);
    expect(0, "GET", "/metrics/history/v1?series=colour", "", NULL, 400);
}

/* ---- A read-only replica. ---- */

TEST(read_only_replica_refuses_writes)
{
    static const struct {
        const char *method;
        const char *path;
        const char *headers;
        const char *body;
    } writes[] = {
        {"PUT", "/znodes/v1/ro", "", "x"},
        {"POST", "/znodes/v1/?name=ro2", "", "x"},
        {"DELETE", "/znodes/v1/ro", "", NULL},
        {"PATCH", "/znodes/v1/ro", JSON, "{\"acl\":\"read\"}"},
        {"POST", "/multi/v1", JSON, "{\"ops\":[{\"op\":\"delete\",\"path\":\"/ro\"}]}"},
        {"POST", "/import/v1/ro", LINES, "{\"path\":\"a\"}\n"},
        {"POST", "/sessions/v1", "", NULL},
        {"POST", "/sessions/v1?op=kill&public=0x1", ROOT, NULL},
        {"POST", "/ensemble/v1/level", ROOT "\n" JSON, "{\"hold\":null}"},
        {"POST", "/ensemble/v1/members", ROOT "\n" JSON, "{\"id\":9,\"peer\":\"zk9:1\"}"},
        {"PATCH", "/ensemble/v1/members", ROOT "\n" JSON, "{\"remove\":[9]}"},
        {"PUT", "/ensemble/v1/members/9", ROOT "\n" JSON, "{\"role\":\"voter\"}"},
        {"DELETE", "/ensemble/v1/members/9", ROOT, NULL},
    };

    expect(0, "POST", "/znodes/v1/?name=ro", "", "first", 201);
    for (size_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++) {
        expect(READ_ONLY, writes[i].method, writes[i].path, writes[i].headers, writes[i].body, 403);
        assert_true(says("\"NotReadOnly\"") && says("\"outcome\":\"not-applied\""));
    }
    expect(READ_ONLY, "GET", "/znodes/v1/ro?dataformat=utf8", "", NULL, 200);
    assert_true(says("\"first\""));
    expect(READ_ONLY, "POST", "/multi/v1", JSON, "{\"ops\":[{\"op\":\"get\",\"path\":\"/ro\"}]}",
           200);
    expect(READ_ONLY, "POST", "/import/v1/ro?dryRun=true", LINES, "{\"path\":\"a\"}\n", 200);
    expect(READ_ONLY, "POST", "/sync/v1", "", NULL, 200);
    expect(0, "DELETE", "/znodes/v1/ro", "", NULL, 204);
}

/* A read-only replica first in the list is tried first, and the command then succeeds elsewhere. */
TEST(writes_of_the_command_line_go_elsewhere)
{
    shell_open(&ensemble);
    shell_expect("RO=${ZABRA_ENDPOINTS##*,}; zabra create /by-command x --endpoints $RO", 5,
                 "this replica takes no writes");
    shell_expect("zabra create /by-command x --endpoints ${ZABRA_ENDPOINTS##*,},127.0.0.1:1", 5,
                 "this replica takes no writes");
    shell_expect("RO=${ZABRA_ENDPOINTS##*,}; zabra create /by-command x --endpoints "
                 "$RO,$RO,${ZABRA_ENDPOINTS%%,*}",
                 0, "/by-command\n");
    shell_expect("RO=${ZABRA_ENDPOINTS##*,}; zabra session --endpoints "
                 "$RO,${ZABRA_ENDPOINTS%%,*} -- true",
                 0, "");
    shell_expect("zabra get /by-command --linearizable --endpoints ${ZABRA_ENDPOINTS##*,}", 0, "x");
}

TEST(read_only_replica_serves_sessions_and_watches)
{
    struct session session = open_session(0, "");
    struct socket *socket = open_socket(READ_ONLY, "");
    json_t *reply = socket_call(socket, "\"op\":\"watch\",\"path\":\"/rw\",\"kind\":\"recursive\"");

    assert_true(json_is_true(json_object_get(reply, "ok")));
    json_decref(reply);
    reply = socket_call(socket, "\"op\":\"create\",\"path\":\"/rw\"");
    assert_string_equal(text_of(json_object_get(reply, "error"), "code"), "NotReadOnly");
    json_decref(reply);
    expect(0, "POST", "/znodes/v1/?name=rw", "", NULL, 201);
    reply = socket_event(socket, "NodeCreated", SOCKET_TIMEOUT_MS);
    assert_non_null(reply);
    json_decref(reply);
    /* A read-only replica renews sessions, but does not open or close them. */
    expect(READ_ONLY, "GET", "/znodes/v1/rw", session.header, NULL, 200);
    expect(READ_ONLY, "DELETE", "/sessions/v1", session.header, NULL, 403);
    expect(0, "DELETE", "/sessions/v1", session.header, NULL, 204);
    expect(0, "DELETE", "/znodes/v1/rw", "", NULL, 204);
    socket_close(socket);
}

TEST(replicas_report_whether_they_are_read_only)
{
    expect(READ_ONLY, "GET", "/status/v1", "", NULL, 200);
    assert_true(says("\"read_only\":true") && says("\"environment\":\"test bed\""));
    expect(READ_ONLY, "GET", "/whoami/v1", "", NULL, 200);
    assert_true(says("\"read_only\":true"));
    expect(0, "GET", "/status/v1", "", NULL, 200);
    assert_true(says("\"read_only\":false"));
}
