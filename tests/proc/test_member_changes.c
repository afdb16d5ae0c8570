/* Changes of the members through the API: which clients may ask for them, and when. */
#include "tests/lib/unit.h"
#include "tests/proc/ensemble.h"

#include <stdio.h>
#include <string.h>

#define ROOT    "Authorization: Basic c3VwZXI6cm9vdA==\n" /* super:root */
#define BOB     "Authorization: Basic Ym9iOnB3\n"         /* bob:pw */
#define JSON    "Content-Type: application/json"
#define MEMBERS "/ensemble/v1/members"

enum {
    FOUNDERS = 3,
    HEADERS_MAX_BYTES = 600,
    VERSION_MAX = 32
};

static struct ensemble ensemble;
static char last_tag[VERSION_MAX + 4]; /* ETag of the last answer. */

static void open_founders(void)
{
    ensemble_launch(&ensemble, FOUNDERS, ENSEMBLE_SUPER);
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
