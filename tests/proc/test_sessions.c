/* Sessions on real replicas: the same on each of them; only the leader expires them, after a
 * silence; they and their ephemerals survive the loss of any replica and of all. */
#include "tests/lib/unit.h"
#include "tests/proc/ensemble.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum {
    UUID_LEN = 36,
    TIMEOUT_MS = 6000, /* The test waits for it, so it is the same with a sanitizer. */
    LONGER_MS = 2 * TIMEOUT_MS,
    NOTICED_MS = 3000, /* Time until the test notices an expiry. */
    NEW_SESSIONS = 60,
    CROWD = 90, /* Sessions that must survive the loss of replicas. */
    PATH_MAX_BYTES = 400
};

struct session {
    char secret[UUID_LEN + 1];
    char header[100]; /* Zk-Session: ... */
    uint64_t touched_ms;
};

static struct ensemble ensemble;
static struct session sessions[CROWD];

static void open_three(void)
{
    ensemble_launch(&ensemble, 3, NULL);
}

static void open_bounded(void)
{
    ensemble_launch(&ensemble, 3,
                    "maxSessionEphemerals=3\nmaxSessions=4\nmaxSessionsPerClient=4\n"
                    "maxSessionsPerAddress=4\nminSessionTimeout=4000\n"
                    "maxSessionTimeout=9000\nsessionTimeout=5000\n");
}

static void close_three(void)
{
    ensemble_close(&ensemble);
}

static long call(uint32_t index, const char *method, const char *path, const char *headers,
                 const char *body)
{
    return web_do(ensemble.web,
                  &(struct web_call){.method = method,
                                     .port = ensemble.replicas[index].client_port,
                                     .path = path,
                                     .headers = headers,
                                     .body = body},
                  &ensemble.reply);
}

static void expect(uint32_t index, const char *method, const char *path, const char *headers,
                   long status)
{
    if (call(index, method, path, headers, NULL) != status) {
        ensemble_print_logs(&ensemble);
        fail_msg("replica %u, %s %s: %ld, not %ld: %s", index + 1, method, path,
                 ensemble.reply.status, status, web_text(&ensemble.reply));
    }
}

static bool says(const char *text)
{
    return strstr(web_text(&ensemble.reply), text) != NULL;
}

static void open_session(uint32_t index, struct session *session)
{
    char path[100];

    (void)snprintf(path, sizeof(path), "/sessions/v1/?op=create&expire=%d", TIMEOUT_MS / 1000);
    expect(index, "POST", path, NULL, 201);

    json_t *body = web_json(&ensemble.reply);

    (void)snprintf(session->secret, sizeof(session->secret), "%s",
                   json_string_value(json_object_get(body, "id")));
    json_decref(body);
    assert_int_equal(strlen(session->secret), UUID_LEN);
    (void)snprintf(session->header, sizeof(session->header), "Zk-Session: %s", session->secret);
    session->touched_ms = os_now_ms();
}

static bool touch(uint32_t index, struct session *session)
{
    uint64_t now_ms = os_now_ms();
    bool done = call(index, "PUT", "/sessions/v1/", session->header, NULL) == 200;

    session->touched_ms = done ? now_ms : session->touched_ms;
    return done;
}

static void make_ephemeral(uint32_t index, const struct session *session, const char *name)
{
    char path[PATH_MAX_BYTES];

    (void)snprintf(path, sizeof(path), "/znodes/v1/?op=create&name=%s&ephemeral=true", name);
    expect(index, "POST", path, session->header, 201);
}

/* Checks all running replicas, with the state after the last acknowledged write. */
static void expect_everywhere(const char *path, long status)
{
    char linear[PATH_MAX_BYTES];

    (void)snprintf(linear, sizeof(linear), "%s%sconsistency=linearizable", path,
                   strchr(path, '?') ? "&" : "?");
    for (uint32_t i = 0; i < ensemble.count; i++) {
        if (ensemble.replicas[i].pid != 0) {
            expect(i, "GET", linear, NULL, status);
        }
    }
}

TEST_GROUP(open_three, close_three)

TEST(a_session_is_the_same_on_every_replica)
{
    struct session session;
    char url[100];

    open_session(0, &session);
    (void)snprintf(url, sizeof(url), "/sessions/v1/%s", session.secret);
    for (uint32_t i = 0; i < 3; i++) {
        expect(i, "GET", url, NULL, 200);
        expect(i, "PUT", url, NULL, 200);
        expect(i, "GET", "/whoami/v1", session.header, 200);
        ENSEMBLE_CHECK(&ensemble, says("\"session\":\"0x"));
    }
    make_ephemeral(1, &session, "one");
    make_ephemeral(2, &session, "two");
    expect(0, "POST", "/znodes/v1/one?name=child", session.header, 409);
    expect_everywhere("/znodes/v1/one", 200);
    ENSEMBLE_CHECK(&ensemble, !says("\"ephemeralOwner\":0,"));
    expect(2, "GET", "/sessions/v1/?consistency=linearizable", session.header, 200);
    ENSEMBLE_CHECK(&ensemble, says("\"ephemerals\":2"));
    expect(1, "DELETE", url, NULL, 204);
    expect_everywhere("/znodes/v1/one", 404);
    expect_everywhere("/znodes/v1/two", 404);
    for (uint32_t i = 0; i < 3; i++) {
        expect(i, "GET", "/znodes/v1/?consistency=linearizable", session.header, 401);
        expect(i, "PUT", url, NULL, 404);
        ENSEMBLE_CHECK(&ensemble, says("SessionExpired"));
        expect(i, "PUT", "/sessions/v1/", session.header, 401);
        ENSEMBLE_CHECK(&ensemble, says("SessionExpired"));
        expect(i, "DELETE", url, NULL, 204);
    }
}

/* A new session is valid on every replica at once, even on one that has not applied it yet; its end
 * holds at once, too. */
TEST(a_new_session_is_found_everywhere)
{
    for (uint32_t i = 0; i < NEW_SESSIONS; i++) {
        struct session session;
        char name[32];
        char path[PATH_MAX_BYTES];

        open_session(i % 3, &session);
        expect((i + 1) % 3, "GET", "/znodes/v1/", session.header, 200);
        (void)snprintf(name, sizeof(name), "new-%u", i);
        make_ephemeral((i + 2) % 3, &session, name);
        expect(i % 3, "DELETE", "/sessions/v1/", session.header, 204);
        (void)snprintf(path, sizeof(path), "/znodes/v1/%s", name);
        expect_everywhere(path, 404);
        expect((i + 1) % 3, "POST", "/znodes/v1/?name=late&ephemeral=true", session.header, 401);
    }
}

static bool is_gone(uint32_t index, const char *path)
{
    return call(index, "GET", path, NULL, NULL) == 404;
}

/* True if an ephemeral of a silent session ends while an active session sends requests to any
 * replica. */
static bool gone_while_lively(const char *path, const struct session *lively, uint32_t turn)
{
    expect(turn % 3, "GET", "/status/v1", lively->header, 200);
    return is_gone(turn % 3, path);
}

TEST(a_silent_session_expires_and_an_active_one_does_not)
{
    struct session silent;
    struct session lively;
    uint32_t turn = 0;

    open_session(0, &silent);
    open_session(1, &lively);
    make_ephemeral(1, &silent, "silent");
    make_ephemeral(2, &lively, "lively");
    /* Otherwise a lagging replica may not have it yet. */
    expect_everywhere("/znodes/v1/silent", 200);
    (void)touch(2, &silent);
    ENSEMBLE_WAIT(&ensemble, gone_while_lively("/znodes/v1/silent", &lively, turn++));
    assert_true(os_now_ms() - silent.touched_ms >= TIMEOUT_MS);
    expect_everywhere("/znodes/v1/silent", 404);
    expect_everywhere("/znodes/v1/lively", 200);
    for (uint32_t i = 0; i < 3; i++) {
        expect(i, "GET", "/znodes/v1/?consistency=linearizable", silent.header, 401);
    }
    expect(0, "DELETE", "/sessions/v1/", lively.header, 204);
    expect_everywhere("/znodes/v1/lively", 404);
}

static uint32_t live_index(uint32_t from)
{
    for (uint32_t i = 0; i < ensemble.count; i++) {
        if (ensemble.replicas[(from + i) % ensemble.count].pid != 0) {
            return (from + i) % ensemble.count;
        }
    }
    fail_msg("no replica runs");
    return 0;
}

/* Renews each session at any replica that answers, several times in each timeout. */
static void touch_all(uint32_t turn)
{
    for (uint32_t i = 0; i < CROWD; i++) {
        (void)touch(live_index(turn + i), &sessions[i]);
    }
}

static void touch_for(uint64_t time_ms)
{
    uint64_t end_ms = os_now_ms() + time_ms;

    for (uint32_t turn = 0; os_now_ms() < end_ms; turn++) {
        touch_all(turn);
        (void)poll(NULL, 0, TIMEOUT_MS / 20);
    }
}

/* Renews those of the first `count` sessions that have been silent for a quarter of their timeout:
 * on a busy machine a loop over the crowd takes longer than a timeout. */
static void touch_due(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (os_now_ms() - sessions[i].touched_ms > TIMEOUT_MS / 4) {
            (void)touch(live_index(i), &sessions[i]);
        }
    }
}

static void open_crowd(void)
{
    for (uint32_t i = 0; i < CROWD; i++) {
        char name[32];

        touch_due(i);
        open_session(i % 3, &sessions[i]);
        (void)snprintf(name, sizeof(name), "crowd-%u", i);
        make_ephemeral((i + 1) % 3, &sessions[i], name);
    }
}

static void expect_crowd(long status)
{
    for (uint32_t i = 0; i < CROWD; i++) {
        char path[64];

        touch_due(CROWD);
        (void)snprintf(path, sizeof(path), "/znodes/v1/crowd-%u?consistency=linearizable", i);
        expect(live_index(i), "GET", path, NULL, status);
    }
}

/* The loss of a replica does not lose its contacts: no session expires whose client renews it in
 * time. */
TEST(sessions_outlive_replicas)
{
    open_crowd();

    uint32_t leader = ensemble_wait_leader(&ensemble);
    uint32_t follower = (leader + 1) % 3;

    touch_all(0);
    ensemble_kill(&ensemble, follower);
    touch_for(LONGER_MS);
    expect_crowd(200);
    ensemble_start(&ensemble, follower);
    ensemble_wait_ready(&ensemble, follower);
    touch_all(1);
    ensemble_kill(&ensemble, leader);
    touch_for(LONGER_MS);
    expect_crowd(200);
    ensemble_start(&ensemble, leader);
    ensemble_wait_ready(&ensemble, leader);
    touch_all(2);
    expect_crowd(200);
}

static bool crowd_is_gone(void)
{
    for (uint32_t i = 0; i < CROWD; i++) {
        char path[64];

        (void)snprintf(path, sizeof(path), "/znodes/v1/crowd-%u", i);
        if (!is_gone(i % 3, path)) {
            return false;
        }
    }
    return true;
}

/* All sessions are silent and all replicas are killed: the new leader gives each session a whole
 * timeout, then they expire with their ephemerals. */
TEST(sessions_survive_the_loss_of_all_replicas_and_then_expire)
{
    uint64_t ready_ms = 0;

    for (uint32_t i = 0; i < 3; i++) {
        ensemble_kill(&ensemble, i);
    }
    for (uint32_t i = 0; i < 3; i++) {
        ensemble_start(&ensemble, i);
    }
    (void)ensemble_wait_leader(&ensemble);
    ready_ms = os_now_ms();
    ensemble_wait_all_ready(&ensemble);
    ENSEMBLE_WAIT(&ensemble, crowd_is_gone());
    /* The test notices the new leader a moment late. */
    assert_true(os_now_ms() - ready_ms + NOTICED_MS >= TIMEOUT_MS);
    for (uint32_t i = 0; i < CROWD; i++) {
        expect(i % 3, "GET", "/sessions/v1/", sessions[i].header, 401);
    }
}

static uint32_t timeout_for(const char *query)
{
    char path[100];
    struct session session;

    (void)snprintf(path, sizeof(path), "/sessions/v1/?op=create%s", query);
    expect(1, "POST", path, NULL, 201);

    json_t *body = web_json(&ensemble.reply);
    uint32_t timeout_ms = (uint32_t)json_integer_value(json_object_get(body, "timeout_ms"));

    (void)snprintf(session.header, sizeof(session.header), "Zk-Session: %s",
                   json_string_value(json_object_get(body, "id")));
    json_decref(body);
    expect(2, "DELETE", "/sessions/v1/", session.header, 204);
    return timeout_ms;
}

TEST_GROUP(open_bounded, close_three)

TEST(timeouts_are_negotiated)
{
    assert_int_equal(timeout_for(""), 5000);
    assert_int_equal(timeout_for("&expire=1"), 4000);
    assert_int_equal(timeout_for("&expire=6"), 6000);
    assert_int_equal(timeout_for("&timeout_ms=6001"), 6001);
    assert_int_equal(timeout_for("&expire=4000000"), 9000);
}

TEST(sessions_are_bounded)
{
    struct session four[4];
    const char *one = "/znodes/v1/?name=full-&sequence=true&ephemeral=true";

    for (uint32_t i = 0; i < 4; i++) {
        open_session(i % 3, &four[i]);
    }
    expect(0, "POST", "/sessions/v1/?op=create", NULL, 429);
    ENSEMBLE_CHECK(&ensemble, web_header(&ensemble.reply, "Retry-After") != NULL);
    for (uint32_t i = 0; i < 3; i++) {
        expect(i, "POST", one, four[0].header, 201);
    }
    expect(1, "POST", one, four[0].header, 507);
    ENSEMBLE_CHECK(&ensemble, says("maxSessionEphemerals"));
    expect(1, "POST", one, four[1].header, 201);
    expect(2, "DELETE", "/sessions/v1/", four[0].header, 204);
    expect(0, "POST", "/sessions/v1/?op=create", NULL, 201);
}
