/*
 * Changes of the members through the API: an observer is added, edited, promoted and removed, the
 * leader leaves, two changes come at once, answers are lost. Each replica takes the requests, and
 * all agree.
 */
#include "base/mem.h"
#include "base/thread.h"
#include "tests/lib/unit.h"
#include "tests/proc/membership.h"
#include "zab/level.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define ROOT    "Authorization: Basic c3VwZXI6cm9vdA==\n" /* super:root */
#define BOB     "Authorization: Basic Ym9iOnB3\n"         /* bob:pw */
#define JSON    "Content-Type: application/json"
#define MEMBERS "/ensemble/v1/members"

enum {
    COUNT = 4,
    FOUNDERS = 3, /* Replica 4 is added. */
    ADDED = 3,    /* Its index. */
    HEADERS_MAX_BYTES = 600,
    VERSION_MAX = 32
};

static struct ensemble ensemble;
static char last_tag[VERSION_MAX + 4]; /* ETag of the last answer. */

/* ---- Configurations: the founders do not name replica 4. ---- */

static void open_founders(void)
{
    char line[64];

    membership_open(&ensemble, COUNT, FOUNDERS, ENSEMBLE_SUPER);
    (void)snprintf(line, sizeof line, "server.4=127.0.0.1:%u:observer\n",
                   ensemble.replicas[ADDED].peer_port);
    membership_set_line(&ensemble, ADDED, "server.4=", line);
}

static void close_all(void)
{
    ensemble_close(&ensemble);
}

/* ---- Requests. ---- */

/* Asks replica `at` with more headers, each with its line feed. Returns the status. */
static long ask_with(struct web *web, struct web_reply *reply, uint32_t at, const char *method,
                     const char *path, const char *body, const char *more)
{
    char headers[HEADERS_MAX_BYTES];
    struct web_call call = {.method = method,
                            .port = ensemble.replicas[at].client_port,
                            .path = path,
                            .body = body,
                            .headers = headers};

    (void)snprintf(headers, sizeof headers, "%s%s", more, body ? JSON : "Prefer: wait=9");
    return web_do(web, &call, reply);
}

static long ask(uint32_t at, const char *method, const char *path, const char *body,
                const char *more)
{
    long status = ask_with(ensemble.web, &ensemble.reply, at, method, path, body, more);
    const char *tag = web_header(&ensemble.reply, "ETag");

    (void)snprintf(last_tag, sizeof last_tag, "%s", tag ? tag : "");
    return status;
}

static bool says(const char *text)
{
    return strstr(web_text(&ensemble.reply), text) != NULL;
}

/* The answer must have the status and the text. */
static void expect(uint32_t at, const char *method, const char *path, const char *body,
                   const char *more, long status, const char *text)
{
    long got = ask(at, method, path, body, more);

    if (got != status || !says(text)) {
        ensemble_print_logs(&ensemble);
        fail_msg("%s %s: %ld, not %ld with %s: %s", method, path, got, status, text,
                 web_text(&ensemble.reply));
    }
}

/* Whether the change may be made later: another one, perhaps the leader's own, is not committed; a
 * leader is being elected; it has just been elected, and the others are not in step yet; or its
 * disk is slower than those of the others, so that it has not applied yet what they have answered.
 */
static bool is_early(void)
{
    return says("\"InFlight\"") || says("\"UnderWay\"") || says("\"NotReady\"") ||
           says("\"NoMajority\"");
}

/* Repeats a change that the ensemble cannot make yet. */
static void change(uint32_t at, const char *method, const char *path, const char *body,
                   const char *more, long status)
{
    ENSEMBLE_WAIT(&ensemble, ask(at, method, path, body, more) == status || !is_early());
    if (ensemble.reply.status != status) {
        ensemble_print_logs(&ensemble);
        fail_msg("%s %s: %ld, not %ld: %s", method, path, ensemble.reply.status, status,
                 web_text(&ensemble.reply));
    }
}

static const char *address_of(uint32_t index)
{
    static char text[64];

    (void)snprintf(text, sizeof text, "127.0.0.1:%u", ensemble.replicas[index].peer_port);
    return text;
}

static uint32_t follower(void)
{
    return ensemble_wait_leader(&ensemble) == 0 ? 1 : 0;
}

/* ---- What a replica shows. ---- */

static bool has(const json_t *object, const char *key, const char *text)
{
    const char *value = json_string_value(json_object_get(object, key));

    return value && strcmp(value, text) == 0;
}

/* Whether replica `at` shows member `id` with this text. */
static bool shows(uint32_t at, uint32_t id, const char *key, const char *text)
{
    json_t *all = membership_seen_by(&ensemble, at);
    bool does = has(membership_find(all, id - 1), key, text);

    json_decref(all);
    return does;
}

static void version_of(uint32_t at, char ret_version[VERSION_MAX])
{
    json_t *all = membership_seen_by(&ensemble, at);
    const char *version = json_string_value(json_object_get(all, "config_version"));

    (void)snprintf(ret_version, VERSION_MAX, "%s", version ? version : "");
    json_decref(all);
}

/* Whether all founders that run have committed the same configuration. */
static bool agree(void)
{
    char first[VERSION_MAX] = "";
    char other[VERSION_MAX];

    for (uint32_t i = 0; i < FOUNDERS; i++) {
        version_of(i, other);
        if (other[0] == '\0' || (first[0] != '\0' && strcmp(first, other) != 0)) {
            return false;
        }
        memcpy(first, other, sizeof first);
    }
    return true;
}

/* ---- Tests, in order: each leaves what the next one begins with. ---- */

TEST_GROUP(open_founders, close_all)

static const struct {
    const char *method;
    const char *path;
    const char *body;
} changes[] = {
    {"POST", MEMBERS, "{\"id\":9,\"peer\":\"zk9:1\"}"},
    {"PATCH", MEMBERS, "{\"remove\":[9]}"},
    {"PUT", MEMBERS "/9", "{\"role\":\"voter\"}"},
    {"DELETE", MEMBERS "/9", NULL},
};

/* Asks for each of them, with more headers. */
static void expect_all(const char *more, long status, const char *text)
{
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        expect((uint32_t)i % FOUNDERS, changes[i].method, changes[i].path, changes[i].body, more,
               status, text);
    }
}

TEST(only_the_super_user_changes_the_members)
{
    expect_all("", 401, "only the super user may change the members");
    expect_all(BOB, 403, "only the super user may change the members");
}

TEST(a_request_in_a_session_that_has_ended_is_refused)
{
    char header[HEADERS_MAX_BYTES];

    assert_int_equal(ask(0, "POST", "/sessions/v1", NULL, ""), 201);
    json_t *session = web_json(&ensemble.reply);
    const char *id = json_string_value(json_object_get(session, "id"));
    const char *public = json_string_value(json_object_get(session, "session"));
    char path[HEADERS_MAX_BYTES];

    assert_true(id && public);
    (void)snprintf(header, sizeof header, ROOT "Zk-Session: %s\n", id);
    (void)snprintf(path, sizeof path, "/sessions/v1?op=kill&public=%s", public);
    assert_int_equal(ask(0, "POST", path, NULL, ROOT), 204);
    json_decref(session);
    expect_all(header, 401, "SessionExpired");
}

/* The version is judged before anything else that depends on the configuration. */
TEST(a_change_of_another_configuration_is_refused)
{
    expect_all(ROOT "If-Match: \"mfff\"\n", 412, "\"config_version\":\"0x");
    assert_int_equal(ask(1, "GET", "/ensemble/v1", NULL, "If-None-Match: *\n"), 200);
    assert_non_null(strstr(last_tag, "\"m"));
}

TEST(a_change_that_cannot_be_made_says_why)
{
    expect(follower(), "DELETE", MEMBERS "/9", NULL, ROOT, 404, "there is no member 9");
    expect(0, "PUT", MEMBERS "/9", "{\"zone\":\"b\"}", ROOT, 404, "there is no member 9");
    expect(1, "PATCH", MEMBERS, "{\"remove\":[9]}", ROOT, 404, "there is no member 9");
    expect(2, "POST", MEMBERS, "{\"id\":3,\"peer\":\"zk9:1\"}", ROOT, 409, "\"IdInUse\"");
    expect(follower(), "PUT", MEMBERS "/2", "{\"role\":\"voter\"}", ROOT, 409, "\"NotObserver\"");
    expect(1, "PATCH", MEMBERS, "{\"remove\":[1,2,3]}", ROOT, 409, "\"LastVoter\"");
    expect(2, "DELETE", MEMBERS "/2?minTolerance=1", NULL, ROOT, 409, "\"MinTolerance\"");
    expect(0, "DELETE", MEMBERS "/2", NULL, ROOT, 409, "\"NoTolerance\"");
}

TEST(a_dry_run_says_what_would_be)
{
    char before[VERSION_MAX];
    char after[VERSION_MAX];

    version_of(0, before);
    expect(follower(), "POST", MEMBERS, "{\"id\":4,\"peer\":\"zk4:1\",\"dryRun\":true}", ROOT, 200,
           "\"applied\":false");
    assert_true(says("{\"id\":4,\"role\":\"observer\"}"));
    assert_true(says("\"tolerance\":{\"before\":1,\"after\":1},\"in_step\":3"));
    expect(ensemble_wait_leader(&ensemble), "DELETE", MEMBERS "/2?dryRun=true&force=true", NULL,
           ROOT, 200, "\"tolerance\":{\"before\":1,\"after\":0},\"in_step\":2");
    version_of(0, after);
    assert_string_equal(before, after);
}

/* A follower takes the request. After a lost answer another replica repeats it. */
TEST(an_observer_is_added)
{
    static const char keyed[] = ROOT "Idempotency-Key: add-4\n";
    char body[256];
    char first[1024];

    (void)snprintf(body, sizeof body,
                   "{\"id\":4,\"peer\":\"%s\",\"client\":\"127.0.0.1:%u\",\"zone\":\"b\"}",
                   address_of(ADDED), ensemble.replicas[ADDED].client_port);
    change(follower(), "POST", MEMBERS, body, keyed, 201);
    assert_non_null(strstr(web_header(&ensemble.reply, "Location"), MEMBERS "/4"));
    (void)snprintf(first, sizeof first, "%s", web_text(&ensemble.reply));
    assert_true(says("{\"id\":4,\"role\":\"observer\"}"));
    for (uint32_t i = 0; i < FOUNDERS; i++) {
        change(i, "POST", MEMBERS, body, keyed, 201);
        assert_string_equal(web_text(&ensemble.reply), first);
        assert_string_equal(web_header(&ensemble.reply, "Idempotency-Replayed"), "true");
    }
    expect_all(keyed, 422, "IdempotencyKeyReused");
    (void)snprintf(body, sizeof body, "{\"id\":5,\"peer\":\"%s\"}", address_of(ADDED));
    expect(1, "POST", MEMBERS, body, ROOT, 409, "\"AddressInUse\"");
    ensemble_start(&ensemble, ADDED);
    ensemble_wait_ready(&ensemble, ADDED);
    for (uint32_t i = 0; i < COUNT; i++) {
        ENSEMBLE_WAIT(&ensemble, shows(i, 4, "state", "observer"));
        assert_true(shows(i, 4, "role", "observer"));
        assert_true(shows(i, 4, "zone", "b"));
    }
    ensemble_call_until(&ensemble, ADDED, "PUT", "/znodes/v1/by4?upsert=true", "x", 201);
}

/* The tag of an answer is that of the next change. */
TEST(each_version_is_changed_once)
{
    char header[HEADERS_MAX_BYTES];

    assert_int_equal(ask(0, "GET", "/ensemble/v1", NULL, ""), 200);
    (void)snprintf(header, sizeof header, ROOT "If-Match: %s\n", last_tag);
    expect(1, "PUT", MEMBERS "/4", "{\"zone\":\"c\"}", header, 200, "\"applied\":true");
    char next[HEADERS_MAX_BYTES];

    (void)snprintf(next, sizeof next, ROOT "If-Match: %s\n", last_tag);
    expect(2, "PUT", MEMBERS "/4", "{\"zone\":\"d\"}", header, 412, "\"BadVersion\"");
    for (uint32_t i = 0; i < COUNT; i++) {
        ENSEMBLE_WAIT(&ensemble, shows(i, 4, "zone", "c"));
    }
    change(ADDED, "PUT", MEMBERS "/4", "{\"zone\":\"d\"}", next, 200);
}

/* ---- Two at once. ---- */

struct caller {
    struct web *web;
    struct web_reply reply;
    const char *body;
    uint32_t at;
    long status;
    _Atomic bool done;
};

static void run_caller(void *ctx)
{
    struct caller *caller = ctx;

    caller->status =
        ask_with(caller->web, &caller->reply, caller->at, "PUT", MEMBERS "/4", caller->body, ROOT);
    caller->done = true;
}

static void begin(struct caller *caller, struct thread *thread, uint32_t at, const char *body)
{
    *caller = (struct caller){.web = web_open(), .body = body, .at = at};
    web_reply_init(&caller->reply);
    thread_start(thread, "caller", run_caller, caller);
}

static void end(struct caller *caller, struct thread *thread)
{
    thread_join(thread);
    web_close(caller->web);
}

/* Requests in flight at a replica. */
static int64_t requests_at(uint32_t at)
{
    int64_t count = 0;

    if (ensemble_call(&ensemble, at, "GET", "/status/v1", NULL) == 200) {
        json_t *status = web_json(&ensemble.reply);

        count = json_integer_value(json_object_get(status, "requests"));
        json_decref(status);
    }
    return count;
}

static bool is_pending(uint32_t at)
{
    json_t *all = membership_seen_by(&ensemble, at);
    bool is = json_is_object(json_object_get(all, "pending"));

    json_decref(all);
    return is;
}

/* The followers are stopped, so the first change cannot be committed while the second one comes. */
TEST(of_two_changes_one_waits)
{
    uint32_t leader = ensemble_wait_leader(&ensemble);
    struct caller first;
    struct caller second;
    struct thread threads[2];

    for (uint32_t i = 0; i < COUNT; i++) {
        if (i != leader) {
            ensemble_signal(&ensemble, i, SIGSTOP);
        }
    }
    begin(&first, &threads[0], leader, "{\"zone\":\"first\"}");
    ENSEMBLE_WAIT(&ensemble, is_pending(leader));
    json_t *all = membership_seen_by(&ensemble, leader);
    const json_t *pending = json_object_get(all, "pending");

    assert_true(json_string_length(json_object_get(pending, "version")) > 0);
    assert_true(json_is_integer(json_object_get(pending, "pending_ms")));
    assert_int_equal(json_array_size(json_object_get(pending, "members")), COUNT);
    json_decref(all);
    begin(&second, &threads[1], leader, "{\"zone\":\"second\"}");
    /* The second one waits for a quorum, too: it is there once the leader counts it. */
    ENSEMBLE_WAIT(&ensemble, requests_at(leader) >= 2);
    for (uint32_t i = 0; i < COUNT; i++) {
        if (i != leader) {
            ensemble_signal(&ensemble, i, SIGCONT);
        }
    }
    end(&first, &threads[0]);
    end(&second, &threads[1]);
    assert_int_equal(first.status, 200);
    assert_int_equal(second.status, 409);
    assert_non_null(strstr(web_text(&second.reply), "\"UnderWay\""));
    web_reply_release(&first.reply);
    web_reply_release(&second.reply);
    ENSEMBLE_WAIT(&ensemble, agree() && shows(ADDED, 4, "zone", "first"));
    assert_false(is_pending(leader));
}

/* ---- The leader. ---- */

/* An answer that the leader took with it is given again by another replica. */
TEST(a_key_survives_the_leader)
{
    static const char keyed[] = ROOT "Idempotency-Key: zone-e\n";
    uint32_t leader = ensemble_wait_leader(&ensemble);
    uint32_t other = (leader + 1) % FOUNDERS;
    char first[1024];

    change(leader, "PUT", MEMBERS "/4", "{\"zone\":\"e\"}", keyed, 200);
    (void)snprintf(first, sizeof first, "%s", web_text(&ensemble.reply));
    ensemble_kill(&ensemble, leader);
    change(other, "PUT", MEMBERS "/4", "{\"zone\":\"e\"}", keyed, 200);
    assert_string_equal(web_text(&ensemble.reply), first);
    ensemble_start(&ensemble, leader);
    ensemble_wait_ready(&ensemble, leader);
    ENSEMBLE_WAIT(&ensemble, agree());
}

static bool is_promoted(uint32_t at, uint32_t id)
{
    char path[64];

    (void)snprintf(path, sizeof path, MEMBERS "/%u", id);
    return ask(at, "PUT", path, "{\"role\":\"voter\"}", ROOT) == 200;
}

/* A member that is not in step yet is refused with what it lacks. */
TEST(an_observer_becomes_a_voter)
{
    ENSEMBLE_WAIT(&ensemble,
                  is_promoted(follower(), 4) || (!says("\"NotInStep\"") && !says("\"UnderWay\"")));
    assert_int_equal(ensemble.reply.status, 200);
    assert_true(says("{\"id\":4,\"role\":\"voter\"}") && says("\"in_step\":4"));
    for (uint32_t i = 0; i < COUNT; i++) {
        ENSEMBLE_WAIT(&ensemble, shows(i, 4, "role", "voter"));
    }
    ENSEMBLE_WAIT(&ensemble, shows(0, 4, "state", "follower"));
}

/* The leader is asked itself: it hands over, and the next leader makes the change. */
TEST(the_leader_leaves)
{
    uint32_t leader = ensemble_wait_leader(&ensemble);
    char path[64];

    (void)snprintf(path, sizeof path, MEMBERS "/%u", leader + 1);
    change(leader, "PUT", path, "{\"role\":\"observer\"}", ROOT, 200);
    assert_true(ensemble_wait_leader(&ensemble) != leader);
    ENSEMBLE_WAIT(&ensemble, shows(leader, leader + 1, "role", "observer"));
    ENSEMBLE_WAIT(&ensemble, shows(leader, leader + 1, "state", "observer"));
    ENSEMBLE_WAIT(&ensemble,
                  is_promoted(leader, leader + 1) ||
                      (!says("\"NotInStep\"") && !says("\"UnderWay\"") && !says("\"NotReady\"")));
    assert_int_equal(ensemble.reply.status, 200);
}

/* Its disk may not come back. */
TEST(a_removed_replica_ends)
{
    /* After an election the others are in step again only when they have the leader's log. */
    ENSEMBLE_WAIT(&ensemble,
                  ask(0, "PATCH", MEMBERS, "{\"remove\":[4],\"minTolerance\":1,\"dryRun\":true}",
                      ROOT) == 200 &&
                      says("\"tolerance\":{\"before\":1,\"after\":1},\"in_step\":3"));
    change(0, "PATCH", MEMBERS, "{\"remove\":[4],\"minTolerance\":1}", ROOT, 200);
    assert_int_equal(ensemble_wait_end(&ensemble, ADDED), MEMBERSHIP_EXIT);
    ENSEMBLE_WAIT(&ensemble, agree());
    json_t *all = membership_seen_by(&ensemble, 2);

    assert_null(membership_find(all, ADDED));
    assert_int_equal(json_array_size(json_object_get(all, "removed")), 1);
    assert_true(json_is_null(json_object_get(all, "pending")));
    json_decref(all);
    ENSEMBLE_WAIT(&ensemble, ask(1, "DELETE", MEMBERS "/3?force=true&minTolerance=0&dryRun=true",
                                 NULL, ROOT) == 200);
    change(1, "DELETE", MEMBERS "/3?force=true&minTolerance=0", NULL, ROOT, 200);
    assert_int_equal(ensemble_wait_end(&ensemble, 2), MEMBERSHIP_EXIT);
}
