/* Sessions over WebSockets: opened, attached, moved, lost, ended; and identities. */
#include "tests/lib/unit.h"
#include "tests/proc/talk.h"

#include <stdio.h>
#include <string.h>

enum {
    SHORT_MS = 2000,
    SECRET_LEN = 36,
    MOVED = 4409,
    ENDED = 4408
};

static struct ensemble ensemble;

static void open_three(void)
{
    ensemble_launch(&ensemble, 3, "advertiseClient=zabra.test:9998\n");
}

static void close_three(void)
{
    ensemble_close(&ensemble);
}

struct session {
    char secret[SECRET_LEN + 1];
    char public[TALK_FIELD_MAX];
};

static void open_session(struct socket *socket, uint32_t timeout_ms, struct session *ret_session)
{
    json_t *reply =
        socket_call(socket, "\"op\":\"session\",\"timeout_ms\":%u", (unsigned)timeout_ms);
    const json_t *session = json_object_get(reply, "session");

    assert_non_null(session);
    (void)snprintf(ret_session->secret, sizeof(ret_session->secret), "%s",
                   talk_text(session, "id"));
    (void)snprintf(ret_session->public, sizeof(ret_session->public), "%s",
                   talk_text(session, "public"));
    assert_int_equal(strlen(ret_session->secret), SECRET_LEN);
    json_decref(reply);
}

static bool is_there(uint32_t index, const char *path)
{
    char target[TALK_FIELD_MAX * 2];

    (void)snprintf(target, sizeof(target), "/znodes/v1%s?view=stat&consistency=linearizable", path);
    return ensemble_call(&ensemble, index, "GET", target, NULL) == 200;
}

/* Expects the session event, the closing event, and the close code. */
static void check_end(struct socket *socket, const char *state, const char *public, uint32_t code)
{
    json_t *event = socket_event(socket, "session", ENSEMBLE_DEADLINE_MS);

    ENSEMBLE_CHECK(&ensemble, event != NULL);
    assert_string_equal(talk_text(event, "state"), state);
    assert_string_equal(talk_text(event, "session"), public);
    json_decref(event);
    event = socket_event(socket, "closing", ENSEMBLE_DEADLINE_MS);
    assert_non_null(event);
    assert_string_equal(talk_text(event, "reason"), state);
    assert_true(json_is_array(json_object_get(event, "servers")));
    assert_in_range(json_array_size(json_object_get(event, "servers")), 0, 2); /* The other
                                                                                * replicas. */
    json_decref(event);
    assert_true(socket_wait_end(socket, ENSEMBLE_DEADLINE_MS));
    assert_int_equal(socket_close_code(socket), code);
    assert_string_equal(socket_close_reason(socket), state);
}

/* ---- Moving ---- */

static void move(uint32_t from, uint32_t to, const char *path)
{
    struct socket *old = talk_open(&ensemble, from, NULL);
    struct socket *new = talk_open(&ensemble, to, NULL);
    struct session session;

    open_session(old, 15000, &session);
    talk_ok(&ensemble, old, "\"op\":\"create\",\"path\":\"%s\",\"ephemeral\":true", path);
    assert_string_equal(
        talk_field(new, "session.public", "\"op\":\"attach\",\"session\":\"%s\"", session.secret),
        session.public);
    check_end(old, "moved", session.public, MOVED);
    assert_true(is_there(to, path));
    talk_ok(&ensemble, new, "\"op\":\"close\"");
    assert_false(is_there(to, path));
    socket_close(old);
    socket_close(new);
}

TEST_GROUP(open_three, close_three)

TEST(attaching_moves_a_session)
{
    move(0, 1, "/moved-01");
    move(1, 2, "/moved-12");
    move(2, 2, "/moved-22");
}

/* Requests of the old socket after the move are refused without effect: none is executed outside of
 * the session. The client does not know of the move, so it sends them in one pipeline. */
TEST(late_requests_of_the_old_socket_are_refused)
{
    enum {
        LATE = 200
    };
    struct socket *old = talk_open(&ensemble, 0, NULL);
    struct socket *new = talk_open(&ensemble, 1, NULL);
    struct session session;
    uint64_t ids[LATE];
    int refused = 0;
    int applied = 0;

    open_session(old, 15000, &session);
    talk_ok(&ensemble, old, "\"op\":\"create\",\"path\":\"/late\"");
    uint64_t attach = socket_request(new, "\"op\":\"attach\",\"session\":\"%s\"", session.secret);

    for (int i = 0; i < LATE; i++) {
        ids[i] = socket_request(old, "\"op\":\"create\",\"path\":\"/late/%d\"", i);
        (void)socket_pump(new);
        (void)socket_pump(old);
    }
    json_t *attached = socket_reply(new, attach, SOCKET_TIMEOUT_MS);
    uint64_t moved = talk_hex(talk_text(attached, "zxid"));

    assert_true(json_is_true(json_object_get(attached, "ok")));
    json_decref(attached);
    for (int i = 0; i < LATE; i++) {
        json_t *reply = socket_reply(old, ids[i], SOCKET_TIMEOUT_MS);

        if (!reply) {
            refused++; /* Sent while the server closed the socket. */
        } else if (json_is_true(json_object_get(reply, "ok"))) {
            applied++;
            assert_int_equal(refused, 0); /* In order: none after a refused one, */
            assert_true(talk_hex(talk_text(reply, "zxid")) < moved); /* nor after the move. */
        } else {
            refused++;
            assert_string_equal(talk_text(json_object_get(reply, "error"), "code"), "SessionMoved");
        }
        json_decref(reply);
    }
    json_t *children = socket_call(new, "\"op\":\"children\",\"path\":\"/late\","
                                        "\"consistency\":\"linearizable\"");

    assert_int_equal(json_array_size(json_object_get(children, "children")), applied);
    json_decref(children);
    talk_ok(&ensemble, new, "\"op\":\"close\"");
    socket_close(old);
    socket_close(new);
}

TEST(attaching_again_on_the_same_socket_changes_nothing)
{
    struct socket *socket = talk_open(&ensemble, 1, NULL);
    struct session session;

    open_session(socket, 15000, &session);
    talk_ok(&ensemble, socket, "\"op\":\"create\",\"path\":\"/again\",\"ephemeral\":true");
    for (int i = 0; i < 5; i++) {
        talk_ok(&ensemble, socket, "\"op\":\"attach\",\"session\":\"%s\"", session.secret);
        talk_ok(&ensemble, socket, "\"op\":\"set\",\"path\":\"/again\",\"dataUtf8\":\"%d\"", i);
    }
    talk_ok(&ensemble, socket, "\"op\":\"close\"");
    assert_true(socket_is_open(socket));
    assert_false(is_there(1, "/again"));
    socket_close(socket);
}

/* ---- Ending ---- */

TEST(a_closed_session_ends_the_socket_it_is_attached_to)
{
    struct socket *owner = talk_open(&ensemble, 2, NULL);
    struct socket *other = talk_open(&ensemble, 0, NULL);
    struct session session;

    open_session(owner, 15000, &session);
    talk_ok(&ensemble, other, "\"op\":\"close\",\"session\":\"%s\"", session.secret);
    check_end(owner, "closed", session.public, ENDED);
    assert_string_equal(talk_error(other, "\"op\":\"attach\",\"session\":\"%s\"", session.secret),
                        "SessionExpired");
    socket_close(owner);
    socket_close(other);
}

TEST(without_a_session_there_is_none_to_close)
{
    struct socket *socket = talk_open(&ensemble, 0, NULL);
    struct session session;

    assert_string_equal(talk_error(socket, "\"op\":\"close\""), "UnknownSession");
    assert_string_equal(talk_error(socket, "\"op\":\"touch\""), "UnknownSession");
    assert_string_not_equal(
        talk_error(socket, "\"op\":\"create\",\"path\":\"/x\",\"ephemeral\":true"), "");
    open_session(socket, 15000, &session);
    talk_ok(&ensemble, socket, "\"op\":\"touch\"");
    assert_string_equal(talk_field(socket, "session.public", "\"op\":\"getsession\""),
                        session.public);
    talk_ok(&ensemble, socket, "\"op\":\"close\"");
    assert_string_equal(talk_error(socket, "\"op\":\"close\""), "UnknownSession");
    socket_close(socket);
}

/* ---- Time ---- */

/* A client that only answers pings keeps its session; without a socket the session expires. */
TEST(an_attached_socket_keeps_its_session_alive)
{
    struct socket *socket = talk_open(&ensemble, 1, NULL);
    struct session session;
    uint64_t end_ms = 0;

    open_session(socket, SHORT_MS, &session);
    talk_ok(&ensemble, socket, "\"op\":\"create\",\"path\":\"/alive\",\"ephemeral\":true");
    end_ms = os_now_ms() + 3 * SHORT_MS;
    while (os_now_ms() < end_ms) {
        ENSEMBLE_CHECK(&ensemble, socket_wait(socket, 100));
    }
    assert_true(is_there(0, "/alive"));
    end_ms = os_now_ms() + SHORT_MS / 2;
    socket_close(socket);
    /* The loss of the socket does not end the session; only the timeout does. */
    assert_true(is_there(0, "/alive") || os_now_ms() > end_ms);
    ENSEMBLE_WAIT(&ensemble, !is_there(0, "/alive"));
}

TEST(a_detached_session_expires)
{
    struct socket *socket = talk_open(&ensemble, 1, NULL);
    struct session session;

    uint64_t end_ms = os_now_ms() + SHORT_MS;

    open_session(socket, SHORT_MS, &session);
    talk_ok(&ensemble, socket, "\"op\":\"create\",\"path\":\"/left\",\"ephemeral\":true");
    talk_ok(&ensemble, socket, "\"op\":\"detach\"");
    assert_true(is_there(0, "/left") || os_now_ms() > end_ms);
    ENSEMBLE_WAIT(&ensemble, !is_there(0, "/left") && socket_pump(socket));
    assert_true(socket_is_open(socket));
    assert_string_equal(talk_error(socket, "\"op\":\"attach\",\"session\":\"%s\"", session.secret),
                        "SessionExpired");
    socket_close(socket);
}

/* A client that reads nothing and sends nothing. */
TEST(a_silent_client_is_notified_of_the_expiry)
{
    struct socket *socket = talk_open(&ensemble, 2, NULL);
    struct session session;

    open_session(socket, SHORT_MS, &session);
    talk_ok(&ensemble, socket, "\"op\":\"create\",\"path\":\"/silent\",\"ephemeral\":true");
    ENSEMBLE_WAIT(&ensemble, !is_there(0, "/silent"));
    check_end(socket, "expired", session.public, ENDED);
    socket_close(socket);
}

/* ---- Identities ---- */

TEST(identities_are_added_one_by_one)
{
    struct socket *socket = talk_open(&ensemble, 0, NULL);
    json_t *reply = NULL;

    assert_string_equal(
        talk_error(socket, "\"op\":\"auth\",\"scheme\":\"nope\",\"credential\":\"a:b\""),
        "AuthFailed");
    talk_ok(&ensemble, socket, "\"op\":\"auth\",\"scheme\":\"digest\",\"credential\":\"a:b\"");
    talk_ok(&ensemble, socket, "\"op\":\"auth\",\"scheme\":\"digest\",\"credential\":\"c:d\"");
    reply = socket_call(socket, "\"op\":\"whoami\"");
    assert_true(json_is_true(json_object_get(json_object_get(reply, "whoami"), "authenticated")));
    json_decref(reply);
    talk_ok(&ensemble, socket,
            "\"op\":\"create\",\"path\":\"/acl\",\"acl\":\"creator\",\"dataUtf8\":\"x\"");
    talk_ok(&ensemble, socket, "\"op\":\"get\",\"path\":\"/acl\"");
    socket_close(socket);
}

TEST(credentials_of_the_handshake_count)
{
    const struct socket_options shown = {.headers = "Authorization: Basic ZTpm\r\n"}; /* e:f */
    struct socket *socket = talk_open(&ensemble, 0, &shown);
    struct socket *anonymous = talk_open(&ensemble, 0, NULL);

    talk_ok(&ensemble, socket, "\"op\":\"create\",\"path\":\"/shown\",\"acl\":\"creator\"");
    talk_ok(&ensemble, socket, "\"op\":\"get\",\"path\":\"/shown\"");
    assert_string_equal(talk_error(anonymous, "\"op\":\"get\",\"path\":\"/shown\""), "NoAuth");
    socket_close(socket);
    socket_close(anonymous);
}

TEST(a_key_makes_a_retry_harmless)
{
    struct socket *socket = talk_open(&ensemble, 1, NULL);
    char path[TALK_FIELD_MAX];
    const char *create = "\"op\":\"create\",\"path\":\"/keyed-\",\"sequence\":true,"
                         "\"key\":\"0b0c6f4e-3f9b-4a52-9d0c-5a1f0e6a7c11\"";

    (void)snprintf(path, sizeof(path), "%s", talk_field(socket, "path", "%s", create));
    /* A leader with a slower disk than a majority's may not have applied it yet: InFlight. */
    ENSEMBLE_WAIT(&ensemble,
                  strcmp(talk_field(socket, "error.code", "%s", create), "InFlight") != 0);
    assert_string_equal(talk_field(socket, "path", "%s", create), path);
    assert_string_equal(talk_error(socket, "\"op\":\"create\",\"path\":\"/keyed-2\",\"key\":\"a\""),
                        "BadArguments");
    socket_close(socket);
}
