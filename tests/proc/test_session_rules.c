/*
 * The rules of sessions across interfaces: one session is used by a WebSocket, a stream and plain
 * requests on different replicas; each of them must notice its end. Also: no secret of a session
 * may be in a log.
 */
#include "tests/lib/stream_kit.h"
#include "tests/lib/unit.h"
#include "tests/proc/talk.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    SECRET_LEN = 36,
    SECRETS_MAX = 32,
    TEXT_LEN = 512,
    SHORT_MS = 1000 * ENSEMBLE_FACTOR,
    LONG_MS = 8000 * ENSEMBLE_FACTOR,
    MIDDLE_MS = 3000 * ENSEMBLE_FACTOR,
    LOG_MAX = 64 << 20,
    MOVED = 4409,
    ENDED = 4408
};

struct session {
    char secret[SECRET_LEN + 1];
    char public[TALK_FIELD_MAX];
    char header[64]; /* Zk-Session: ... */
};

static struct ensemble ensemble;
static char secrets[SECRETS_MAX][SECRET_LEN + 1]; /* All secrets that a replica has issued. */
static size_t secret_count;

static void open_three(void)
{
    static char keys[256];

    (void)snprintf(
        keys, sizeof(keys),
        "tickTime=300\nsyncLimit=30\nstaleLimit=60000\nminSessionTimeout=%d\nsessionTimeout=%d\n"
        "maxSessionTimeout=%d\naccessLog=true\nlogLevel=debug\n",
        SHORT_MS, MIDDLE_MS, LONG_MS);
    ensemble_launch(&ensemble, 3, keys);
}

static void close_three(void)
{
    ensemble_close(&ensemble);
}

/* ---- Helpers ---- */

static long call(uint32_t index, const char *method, const char *path, const char *headers)
{
    return web_do(ensemble.web,
                  &(struct web_call){.method = method,
                                     .port = ensemble.replicas[index].client_port,
                                     .path = path,
                                     .headers = headers},
                  &ensemble.reply);
}

static void expect(uint32_t index, const char *method, const char *path, const char *headers,
                   long status)
{
    if (call(index, method, path, headers) != status) {
        ensemble_print_logs(&ensemble);
        fail_msg("replica %u, %s %s: %ld, not %ld: %s", index + 1, method, path,
                 ensemble.reply.status, status, web_text(&ensemble.reply));
    }
}

static void take_session(const json_t *answer, const char *public, struct session *ret_session)
{
    (void)snprintf(ret_session->secret, sizeof(ret_session->secret), "%s", talk_text(answer, "id"));
    (void)snprintf(ret_session->public, sizeof(ret_session->public), "%s",
                   talk_text(answer, public));
    (void)snprintf(ret_session->header, sizeof(ret_session->header), "Zk-Session: %s",
                   ret_session->secret);
    assert_int_equal(strlen(ret_session->secret), SECRET_LEN);
    assert_true(secret_count < SECRETS_MAX);
    memcpy(secrets[secret_count++], ret_session->secret, SECRET_LEN + 1);
}

static void open_by_socket(struct socket *socket, uint32_t timeout_ms, struct session *session)
{
    json_t *reply =
        socket_call(socket, "\"op\":\"session\",\"timeout_ms\":%u", (unsigned)timeout_ms);

    assert_non_null(reply);
    take_session(json_object_get(reply, "session"), "public", session);
    json_decref(reply);
}

static void open_by_http(uint32_t index, struct session *session)
{
    json_t *answer = NULL;

    expect(index, "POST", "/sessions/v1/?op=create", NULL, 201);
    answer = web_json(&ensemble.reply);
    take_session(answer, "session", session);
    json_decref(answer);
}

/* Opens a stream at a replica from the state of the last answer; in `session`, or NULL. */
static void open_stream(struct kit_stream *stream, uint32_t index, const char *target,
                        const struct session *session)
{
    const char *zxid = web_header(&ensemble.reply, "Zk-Zxid");
    char headers[TEXT_LEN];

    (void)snprintf(headers, sizeof(headers), "Zk-Min-Zxid: %s\r\n%s%s", zxid ? zxid : "0x0",
                   session ? session->header : "", session ? "\r\n" : "");
    kit_stream_open(stream, ensemble.replicas[index].client_port, target, headers);
    assert_int_equal(stream->status, 200);
    assert_string_equal(kit_stream_event(stream), "watch fresh");
}

static bool is_there(uint32_t index, const char *path)
{
    char target[TEXT_LEN];

    (void)snprintf(target, sizeof(target), "/znodes/v1%s?view=stat&consistency=linearizable", path);
    return call(index, "GET", target, NULL) != 404;
}

/* ---- The end of a session ---- */

enum ending {
    CLOSED_BY_HTTP,
    CLOSED_BY_SOCKET,
    EXPIRED
};

/* All users of one session. */
struct scene {
    uint32_t home; /* Replica that serves the session; not the leader. */
    uint32_t away;
    struct session session;
    char parent[32];
    struct socket *in_session;
    struct kit_stream stream_in_session;
    struct socket *watcher;
    struct kit_stream watching;
};

static void set_scene(struct scene *scene, const char *parent)
{
    char target[TEXT_LEN];

    scene->home = (ensemble_wait_leader(&ensemble) + 1) % 3;
    scene->away = (scene->home + 1) % 3;
    (void)snprintf(scene->parent, sizeof(scene->parent), "%s", parent);
    scene->in_session = talk_open(&ensemble, scene->home, NULL);
    scene->watcher = talk_open(&ensemble, scene->away, NULL);
    open_by_socket(scene->in_session, SHORT_MS, &scene->session);
    talk_ok(&ensemble, scene->in_session, "\"op\":\"create\",\"path\":\"%s\"", parent);
    talk_ok(&ensemble, scene->in_session,
            "\"op\":\"create\",\"path\":\"%s/by-socket\",\"ephemeral\":true", parent);
    (void)snprintf(target, sizeof(target),
                   "/znodes/v1%s?name=by-http-&ephemeral=true&sequence=true", parent);
    expect(scene->away, "POST", target, scene->session.header, 201);
    open_stream(&scene->stream_in_session, scene->home, "/watch/v1/none?mode=persistent",
                &scene->session);
    (void)snprintf(target, sizeof(target), "/watch/v1%s?mode=recursive", parent);
    open_stream(&scene->watching, scene->away, target, NULL);
    talk_ok(&ensemble, scene->watcher, "\"op\":\"watch\",\"path\":\"%s\",\"kind\":\"recursive\"",
            parent);
}

static void leave_scene(struct scene *scene)
{
    socket_close(scene->in_session);
    socket_close(scene->watcher);
    kit_stream_close(&scene->stream_in_session);
    kit_stream_close(&scene->watching);
}

/* Stops the replica that serves the session, so that no renewal reaches the leader. */
static void expire(struct scene *scene)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "%s/by-socket", scene->parent);
    ensemble_signal(&ensemble, scene->home, SIGSTOP);
    ENSEMBLE_WAIT(&ensemble, socket_pump(scene->watcher) && !is_there(scene->away, path));
    ensemble_signal(&ensemble, scene->home, SIGCONT);
}

static void end_session(struct scene *scene, enum ending ending)
{
    struct socket *other = NULL;

    switch (ending) {
    case CLOSED_BY_HTTP:
        expect(scene->away, "DELETE", "/sessions/v1/", scene->session.header, 204);
        break;
    case CLOSED_BY_SOCKET:
        other = talk_open(&ensemble, scene->away, NULL);
        talk_ok(&ensemble, other, "\"op\":\"close\",\"session\":\"%s\"", scene->session.secret);
        socket_close(other);
        break;
    case EXPIRED:
        expire(scene);
        break;
    }
}

/* Both ephemerals ended in one transaction, and each watcher received one event for each. */
static void check_watchers(struct scene *scene)
{
    char zxid[TALK_FIELD_MAX];
    char orders[2][TEXT_LEN];
    char first[TEXT_LEN];
    const char *received = NULL;

    (void)snprintf(orders[0], TEXT_LEN,
                   "NodeDeleted %s/by-socket;NodeDeleted %s/by-http-0000000001.", scene->parent,
                   scene->parent);
    (void)snprintf(orders[1], TEXT_LEN,
                   "NodeDeleted %s/by-http-0000000001;NodeDeleted %s/by-socket.", scene->parent,
                   scene->parent);
    expect(scene->away, "POST", "/sync/v1", NULL, 200);
    (void)snprintf(zxid, sizeof(zxid), "%s", web_header(&ensemble.reply, "Zk-Zxid"));
    received = talk_events(&ensemble, scene->watcher, zxid);
    if (strcmp(received, orders[0]) != 0 && strcmp(received, orders[1]) != 0) {
        fail_msg("the socket received: %s", received);
    }
    (void)snprintf(first, sizeof(first), "%s", kit_stream_event(&scene->watching));
    assert_null(strstr(first, " end"));
    (void)snprintf(orders[0], TEXT_LEN, "%s", kit_stream_event(&scene->watching));
    assert_non_null(strstr(orders[0], " end"));
    assert_true((strstr(first, "/by-socket") && strstr(orders[0], "/by-http-")) ||
                (strstr(first, "/by-http-") && strstr(orders[0], "/by-socket")));
}

static void check_notified(struct scene *scene, const char *state)
{
    json_t *event = socket_event(scene->in_session, "session", ENSEMBLE_DEADLINE_MS);
    char line[64];

    ENSEMBLE_CHECK(&ensemble, event != NULL);
    assert_string_equal(talk_text(event, "state"), state);
    assert_string_equal(talk_text(event, "session"), scene->session.public);
    json_decref(event);
    assert_true(socket_wait_end(scene->in_session, ENSEMBLE_DEADLINE_MS));
    assert_int_equal(socket_close_code(scene->in_session), ENDED);
    (void)snprintf(line, sizeof(line), "session %s", state);
    assert_string_equal(kit_stream_event(&scene->stream_in_session), line);
    assert_string_equal(kit_stream_member(&scene->stream_in_session, "session"),
                        scene->session.public);
    assert_null(kit_stream_event(&scene->stream_in_session));
    assert_true(scene->stream_in_session.complete);
}

/* The session must not exist on any replica. */
static void check_gone(const struct session *session)
{
    for (uint32_t i = 0; i < 3; i++) {
        struct socket *socket = talk_open(&ensemble, i, NULL);
        char headers[128];
        struct kit_stream stream;

        assert_string_equal(
            talk_error(socket, "\"op\":\"attach\",\"session\":\"%s\"", session->secret),
            "SessionExpired");
        socket_close(socket);
        expect(i, "PUT", "/sessions/v1/", session->header, 401);
        expect(i, "GET", "/znodes/v1/", session->header, 401);
        expect(i, "POST", "/znodes/v1/?name=late&ephemeral=true", session->header, 401);
        (void)snprintf(headers, sizeof(headers), "%s\r\n", session->header);
        kit_stream_open(&stream, ensemble.replicas[i].client_port, "/watch/v1/x", headers);
        assert_int_equal(stream.status, 401);
        kit_stream_close(&stream);
        expect(i, "DELETE", "/sessions/v1/", session->header, 204);
    }
}

static void play_ending(const char *parent, enum ending ending)
{
    struct scene scene;

    set_scene(&scene, parent);
    end_session(&scene, ending);
    check_watchers(&scene);
    check_notified(&scene, ending == EXPIRED ? "expired" : "closed");
    check_gone(&scene.session);
    leave_scene(&scene);
}

TEST_GROUP(open_three, close_three)

TEST(users_of_a_closed_session_are_notified)
{
    play_ending("/closed-by-http", CLOSED_BY_HTTP);
    play_ending("/closed-by-socket", CLOSED_BY_SOCKET);
}

TEST(users_of_an_expired_session_are_notified)
{
    play_ending("/expired", EXPIRED);
}

/* ---- Attaching ---- */

/* Plain requests and streams never move a session, and continue when it moves. */
TEST(only_attaching_moves_a_session)
{
    struct socket *first = talk_open(&ensemble, 0, NULL);
    struct socket *second = talk_open(&ensemble, 1, NULL);
    struct session session;
    struct kit_stream stream;
    json_t *closing = NULL;

    open_by_socket(first, LONG_MS, &session);
    for (uint32_t i = 0; i < 3; i++) {
        expect(i, "PUT", "/sessions/v1/", session.header, 200);
        expect(i, "POST", "/znodes/v1/?name=placed-&sequence=true&ephemeral=true", session.header,
               201);
    }
    open_stream(&stream, 2, "/watch/v1/moves?mode=persistent", &session);
    talk_ok(&ensemble, first, "\"op\":\"create\",\"path\":\"/placed\",\"ephemeral\":true");
    assert_true(socket_is_open(first));
    talk_ok(&ensemble, second, "\"op\":\"attach\",\"session\":\"%s\"", session.secret);
    closing = socket_event(first, "closing", ENSEMBLE_DEADLINE_MS);
    assert_string_equal(talk_text(closing, "reason"), "moved");
    json_decref(closing);
    assert_true(socket_wait_end(first, ENSEMBLE_DEADLINE_MS));
    assert_int_equal(socket_close_code(first), MOVED);
    for (uint32_t i = 0; i < 3; i++) {
        expect(i, "POST", "/znodes/v1/?name=placed-&sequence=true&ephemeral=true", session.header,
               201);
    }
    talk_ok(&ensemble, second, "\"op\":\"create\",\"path\":\"/moves\",\"ephemeral\":true");
    assert_string_equal(kit_stream_event(&stream), "NodeCreated /moves end");
    assert_string_equal(talk_field(second, "stat.ephemeralOwner",
                                   "\"op\":\"get\",\"path\":\"/placed\",\"consistency\":"
                                   "\"linearizable\""),
                        session.public);
    talk_ok(&ensemble, second, "\"op\":\"close\"");
    assert_string_equal(kit_stream_event(&stream), "NodeDeleted /moves end");
    assert_string_equal(kit_stream_event(&stream), "session closed");
    assert_false(is_there(0, "/placed"));
    kit_stream_close(&stream);
    socket_close(first);
    socket_close(second);
}

/* ---- Timeouts ---- */

TEST(timeouts_are_negotiated_on_sockets)
{
    static const struct {
        uint32_t asked_ms; /* 0: no timeout is requested. */
        int64_t granted_ms;
    } rows[] = {{0, MIDDLE_MS},
                {1, SHORT_MS},
                {SHORT_MS + 1, SHORT_MS + 1},
                {LONG_MS, LONG_MS},
                {LONG_MS + 1, LONG_MS}};
    struct socket *socket = talk_open(&ensemble, 1, NULL);
    char members[64];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        (void)snprintf(members, sizeof(members),
                       rows[i].asked_ms ? "\"op\":\"session\",\"timeout_ms\":%u"
                                        : "\"op\":\"session\"",
                       (unsigned)rows[i].asked_ms);
        assert_int_equal(talk_number(talk_field(socket, "session.timeout_ms", "%s", members)),
                         rows[i].granted_ms);
        talk_ok(&ensemble, socket, "\"op\":\"close\"");
    }
    socket_close(socket);
}

/* ---- Ephemerals ---- */

static const char *const multi = "{\"ops\":[{\"op\":\"create\",\"path\":\"/m\"},"
                                 "{\"op\":\"create\",\"path\":\"/m/e\",\"ephemeral\":true},"
                                 "{\"op\":\"create\",\"path\":\"/m/e/c\"}]}";

static void expect_multi(uint32_t index, const char *headers, const char *code)
{
    const struct web_call post = {.method = "POST",
                                  .port = ensemble.replicas[index].client_port,
                                  .path = "/multi/v1",
                                  .headers = headers,
                                  .body = multi};

    web_do(ensemble.web, &post, &ensemble.reply);
    if (!strstr(web_text(&ensemble.reply), code)) {
        fail_msg("%s, not %s", web_text(&ensemble.reply), code);
    }
}

/* Over both interfaces, alone and within a multi, which then has no effect. */
TEST(ephemerals_have_no_children_and_need_a_session)
{
    const char *ops = strchr(multi, '[');
    int ops_len = (int)strlen(ops) - 1;
    struct socket *socket = talk_open(&ensemble, 2, NULL);
    struct session session;
    char headers[128];

    assert_string_equal(
        talk_error(socket, "\"op\":\"create\",\"path\":\"/alone\",\"ephemeral\":true"),
        "UnknownSession");
    expect(0, "POST", "/znodes/v1/?name=alone&ephemeral=true", NULL, 401);
    open_by_socket(socket, LONG_MS, &session);
    (void)snprintf(headers, sizeof(headers), "%s\nContent-Type: application/json", session.header);
    talk_ok(&ensemble, socket, "\"op\":\"create\",\"path\":\"/alone\",\"ephemeral\":true");
    assert_string_equal(talk_error(socket, "\"op\":\"create\",\"path\":\"/alone/c\""),
                        "NoChildrenForEphemerals");
    expect(1, "POST", "/znodes/v1/alone?name=c", session.header, 409);
    assert_string_equal(talk_error(socket, "\"op\":\"multi\",\"ops\":%.*s", ops_len, ops),
                        "NoChildrenForEphemerals");
    expect_multi(1, headers, "\"op_index\":2");
    expect_multi(0, headers, "NoChildrenForEphemerals");
    expect_multi(0, "Content-Type: application/json", "UnknownSession");
    assert_false(is_there(0, "/m"));
    talk_ok(&ensemble, socket, "\"op\":\"close\"");
    assert_false(is_there(0, "/alone"));
    socket_close(socket);
}

/* ---- Secrets ---- */

static void read_log(const struct replica *replica, struct buf *out)
{
    int fd = open(replica->log, O_RDONLY | O_CLOEXEC);
    ssize_t got = 1;

    assert_true(fd >= 0);
    buf_clear(out);
    while (got > 0) {
        uint8_t *to = buf_reserve(out, BUFSIZ);

        assert_non_null(to);
        got = read(fd, to, BUFSIZ);
        out->len += got > 0 ? (size_t)got : 0;
    }
    close(fd);
}

/* Uses the secrets in every way, at replicas with the highest log level. */
TEST(no_secret_is_in_a_log)
{
    struct session session;
    struct socket *socket = talk_open(&ensemble, 1, NULL);
    struct buf log;
    char path[128];

    open_by_http(0, &session);
    (void)snprintf(path, sizeof(path), "/sessions/v1/%s", session.secret);
    expect(1, "GET", path, NULL, 200);
    expect(1, "PUT", path, NULL, 200);
    (void)snprintf(path, sizeof(path), "/znodes/v1/none?session=%s", session.secret);
    expect(2, "GET", path, NULL, 404);
    assert_null(strstr(web_text(&ensemble.reply), session.secret));
    talk_ok(&ensemble, socket, "\"op\":\"attach\",\"session\":\"%s\"", session.secret);
    assert_string_not_equal(
        talk_error(socket, "\"op\":\"attach\",\"session\":\"%s!\"", session.secret), "");
    talk_ok(&ensemble, socket, "\"op\":\"close\"");
    socket_close(socket);
    buf_init(&log, LOG_MAX);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(ensemble_stop(&ensemble, i), 0); /* A clean stop flushes the log. */
        read_log(&ensemble.replicas[i], &log);
        assert_non_null(strstr(buf_cstr(&log), "/sessions/v1"));
        for (size_t k = 0; k < secret_count; k++) {
            if (strstr(buf_cstr(&log), secrets[k])) {
                fail_msg("the log of replica %u has the secret of a session", i + 1);
            }
        }
    }
    buf_release(&log);
}
