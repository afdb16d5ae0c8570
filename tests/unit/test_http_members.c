/* Changes of the members over HTTP: requests that are refused before they reach the leader, and the
 * form of the answers. */
#include "tests/unit/http_front.h"

#define ROOT    KIT_ROOT
#define MEMBERS "/ensemble/v1/members"
#define GOOD    "{\"id\":4,\"peer\":\"zk4:10998\"}"
#define TAG     "If-Match: \"m30a\"\r\n"
#define OLD_TAG "If-Match: \"m309\"\r\n"
#define ANSWERED                                                                          \
    "\"previous\":\"0x30a\",\"applied\":true,\"members\":[{\"id\":1,\"role\":\"voter\"}," \
    "{\"id\":2,\"role\":\"observer\",\"joining\":true}],"                                 \
    "\"tolerance\":{\"before\":-1,\"after\":1},\"in_step\":2}"

static void start(void)
{
    front_start_with(kit_permit_root);
}

static int ask(const char *method, const char *target, const char *body, const char *has)
{
    return front_expect(method, target, ROOT, body, has);
}

TEST(a_member_is_added, start, front_teardown)
{
    struct kit_answer answer = kit_ask(port, "POST", MEMBERS, ROOT, GOOD);

    assert_int_equal(answer.status, 201);
    assert_true(kit_body_has(&answer, ANSWERED));
    assert_true(kit_body_has(&answer, "{\"version\":\"0x"));
    assert_non_null(strstr(kit_header(&answer, "Location"), "/ensemble/v1/members/4"));
    assert_non_null(strstr(kit_header(&answer, "ETag"), "\"m"));
    assert_string_not_equal(kit_header(&answer, "ETag"), "\"m30a\"");
    kit_free(&answer);
}

TEST(members_are_set_and_removed, start, front_teardown)
{
    assert_int_equal(ask("PUT", MEMBERS "/2", "{\"role\":\"voter\"}", ANSWERED), 200);
    assert_int_equal(ask("PUT", MEMBERS "/2", "{\"id\":2,\"zone\":\"b\"}", ANSWERED), 200);
    assert_int_equal(ask("DELETE", MEMBERS "/2", NULL, ANSWERED), 200);
    assert_int_equal(ask("DELETE", MEMBERS "/2?minTolerance=0&force=true", NULL, ANSWERED), 200);
    assert_int_equal(ask("PATCH", MEMBERS, "{\"remove\":[2],\"promote\":[3]}", ANSWERED), 200);
}

TEST(a_dry_run_is_no_creation, start, front_teardown)
{
    struct kit_answer answer =
        kit_ask(port, "POST", MEMBERS, ROOT, "{\"id\":4,\"peer\":\"zk4:10998\",\"dryRun\":true}");

    assert_int_equal(answer.status, 200);
    assert_true(
        kit_body_has(&answer, "{\"version\":null,\"previous\":\"0x30a\",\"applied\":false"));
    assert_string_equal(kit_header(&answer, "ETag"), "\"m30a\"");
    assert_null(kit_header(&answer, "Location"));
    kit_free(&answer);
    assert_int_equal(ask("DELETE", MEMBERS "/2?dryRun=true", NULL, "\"applied\":false"), 200);
}

TEST(a_key_repeats_the_whole_answer, start, front_teardown)
{
    static const char headers[] = ROOT "Idempotency-Key: once\r\n";
    struct kit_answer first = kit_ask(port, "POST", MEMBERS, headers, GOOD);
    struct kit_answer again = kit_ask(port, "POST", MEMBERS, headers, GOOD);

    assert_int_equal(first.status, 201);
    assert_int_equal(again.status, 201);
    assert_string_equal((const char *)again.body, (const char *)first.body);
    assert_string_equal(kit_header(&again, "ETag"), kit_header(&first, "ETag"));
    assert_string_equal(kit_header(&again, "Idempotency-Replayed"), "true");
    kit_free(&first);
    kit_free(&again);
    assert_int_equal(front_ask("POST", MEMBERS, headers, "{\"id\":5,\"peer\":\"zk5:1\"}"), 422);
}

TEST(a_refusal_has_a_reason_for_programs, start, front_teardown)
{
    static const char body[] = "{\"id\":9,\"peer\":\"zk4:10998\"}";

    assert_int_equal(ask("POST", MEMBERS, body, "\"code\":\"ChangeRefused\""), 409);
    assert_int_equal(ask("POST", MEMBERS, body, "\"reason\":\"IdInUse\""), 409);
    assert_int_equal(ask("POST", MEMBERS, body, "\"detail\":\"the kit says \\\"no\\\"\""), 409);
    assert_int_equal(ask("POST", MEMBERS, body, "\"outcome\":\"not-applied\""), 409);
}

TEST(if_match_names_the_configuration, start, front_teardown)
{
    assert_int_equal(front_ask("DELETE", MEMBERS "/2", ROOT TAG, NULL), 200);
    assert_int_equal(front_ask("DELETE", MEMBERS "/2", ROOT "If-Match: *\r\n", NULL), 200);

    struct kit_answer answer = kit_ask(port, "DELETE", MEMBERS "/2", ROOT OLD_TAG, NULL);

    assert_int_equal(answer.status, 412);
    assert_true(kit_body_has(&answer, "\"code\":\"BadVersion\""));
    assert_true(kit_body_has(&answer, "\"config_version\":\"0x30a\""));
    assert_string_equal(kit_header(&answer, "ETag"), "\"m30a\"");
    kit_free(&answer);
    assert_int_equal(front_expect("DELETE", MEMBERS "/2", ROOT "If-Match: \"d1.2\"\r\n", NULL,
                                  "If-Match must be * or the ETag of GET /ensemble/v1"),
                     400);
    assert_int_equal(front_ask("DELETE", MEMBERS "/2", ROOT "If-None-Match: *\r\n", NULL), 400);
}

/* The tag covers the configuration alone, so it saves no answer about the live state. */
TEST(the_ensemble_has_a_tag_and_is_never_unchanged, start, front_teardown)
{
    struct kit_answer answer =
        kit_ask(port, "GET", "/ensemble/v1", "If-None-Match: \"m30a\"\r\n", NULL);

    assert_int_equal(answer.status, 200);
    assert_string_equal(kit_header(&answer, "ETag"), "\"m30a\"");
    assert_string_equal(kit_header(&answer, "Cache-Control"), "no-store");
    kit_free(&answer);
    answer = kit_ask(port, "GET", "/status/v1", "", NULL);
    assert_null(kit_header(&answer, "ETag"));
    kit_free(&answer);
}

TEST(the_url_names_a_member_by_its_number, start, front_teardown)
{
    static const char *const ids[] = {"0",   "65536", "-1",  "x",    "",
                                      "4/5", "0x4",   "4.0", "%204", "99999999999999999999"};
    char target[64];

    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        (void)snprintf(target, sizeof(target), MEMBERS "/%s", ids[i]);
        assert_int_equal(
            ask("DELETE", target, NULL, "id must be the id of a member: a number from 1 to 65535"),
            400);
    }
    assert_int_equal(ask("PUT", MEMBERS "/4", "{\"id\":5,\"role\":\"voter\"}",
                         "the id in the body must be the same as the id in the URL"),
                     400);
}

TEST(each_resource_has_its_methods, start, front_teardown)
{
    struct kit_answer answer = kit_ask(port, "DELETE", MEMBERS, ROOT, NULL);

    assert_int_equal(answer.status, 405);
    assert_string_equal(kit_header(&answer, "Allow"), "POST, PATCH, OPTIONS");
    kit_free(&answer);
    answer = kit_ask(port, "POST", MEMBERS "/4", ROOT, GOOD);
    assert_int_equal(answer.status, 405);
    assert_string_equal(kit_header(&answer, "Allow"), "PUT, DELETE, OPTIONS");
    kit_free(&answer);
    answer = kit_ask(port, "OPTIONS", MEMBERS "/4", "", NULL);
    assert_int_equal(answer.status, 204);
    assert_string_equal(kit_header(&answer, "Allow"), "PUT, DELETE, OPTIONS");
    kit_free(&answer);
    assert_int_equal(ask("PUT", MEMBERS, "{\"role\":\"voter\"}", NULL), 405);
    assert_int_equal(ask("GET", MEMBERS, NULL, NULL), 405);
    assert_int_equal(ask("GET", MEMBERS "/4", NULL, NULL), 405);
    assert_int_equal(ask("PATCH", MEMBERS "/4", "{\"remove\":[1]}", NULL), 405);
}

TEST(bodies_that_do_not_fit_are_refused, start, front_teardown)
{
    static const struct {
        const char *method;
        const char *target;
        const char *body;
        const char *has;
    } rows[] = {
        {"POST", MEMBERS, NULL, "the body is empty"},
        {"POST", MEMBERS, "[]", "must be a JSON object"},
        {"POST", MEMBERS, "{}", "id must be given"},
        {"POST", MEMBERS, "{\"id\":4}", "peer must be given"},
        {"POST", MEMBERS, "{\"id\":4,\"peer\":\"zk4\"}", "peer must be host:port"},
        {"POST", MEMBERS, "{\"id\":4,\"peer\":\"zk4:1\",\"size\":1}", "size is not a member"},
        {"POST", MEMBERS, "{\"id\":4,\"id\":5,\"peer\":\"zk4:1\"}", "duplicate"},
        {"POST", MEMBERS, "{\"id\":4,\"peer\":\"zk4:1\",\"minTolerance\":1}",
         "minTolerance is not"},
        {"POST", MEMBERS "?dryRun=true", GOOD, "unknown query parameter"},
        {"PUT", MEMBERS "/4", "{}", "nothing to change"},
        {"PUT", MEMBERS "/4", "{\"role\":\"leader\"}", "role must be voter or observer"},
        {"PUT", MEMBERS "/4", "{\"role\":\"voter\",\"zone\":\"b\"}", "role excludes"},
        {"PATCH", MEMBERS, "{}", "remove, promote or demote must be given"},
        {"PATCH", MEMBERS, "{\"remove\":[]}", "must be given"},
        {"PATCH", MEMBERS, "{\"remove\":[4],\"promote\":[4]}", "twice"},
        {"PATCH", MEMBERS, "{\"remove\":[65536]}", "from 1 to 65535"},
        {"DELETE", MEMBERS "/4", "{}", "takes no body"},
        {"DELETE", MEMBERS "/4?minTolerance=65", NULL, "minTolerance is out of range"},
        {"DELETE", MEMBERS "/4?force=yes", NULL, "force must be true or false"},
        {"DELETE", MEMBERS "/4?remove=5", NULL, "unknown query parameter"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(ask(rows[i].method, rows[i].target, rows[i].body, rows[i].has), 400);
    }
}

/* The longest body that the server takes is read and then refused by a bound of its own. */
TEST(a_long_body_names_the_bound, start, front_teardown)
{
    enum {
        LONG = 65000 /* maxMultiBytes of the kit is 64 KiB. */
    };

    static const char begin[] = "{\"id\":4,\"peer\":\"zk4:1\",\"zone\":\"";
    char *body = mem_alloc(LONG + 100);
    size_t at = strlen(begin);

    memcpy(body, begin, at);
    memset(body + at, 'z', LONG);
    memcpy(body + at + LONG, "\"}", 3);
    assert_int_equal(ask("POST", MEMBERS, body, "zone must be at most 63 bytes"), 400);
    (void)snprintf(body, LONG, "{\"remove\":[");
    for (at = strlen(body); at < LONG; at += 2) {
        memcpy(body + at, "1,", 2);
    }
    memcpy(body + at, "1]}", 4);
    assert_int_equal(ask("PATCH", MEMBERS, body, "more than 64 ids"), 400);
    mem_free(body);
}

TEST(nobody_else_changes_the_members, start, front_teardown)
{
    assert_int_equal(front_expect("POST", MEMBERS, "", GOOD, "only the super user may change"),
                     401);
    assert_int_equal(front_ask("DELETE", MEMBERS "/2?dryRun=true", KIT_BOB, NULL), 403);
    assert_int_equal(front_ask("PATCH", MEMBERS, KIT_BOB, "{\"remove\":[2]}"), 403);
}
