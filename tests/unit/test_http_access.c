/* Credentials and what they permit, and how a repeated request is handled. */
#include "tests/unit/http_front.h"

#define JSON  "Content-Type: application/json\r\n"
#define BOB   KIT_BOB
#define EVE   KIT_EVE
#define ROOT  KIT_ROOT
#define KEY   "Idempotency-Key: 01234567-89ab-4cde-8f01-23456789abcd\r\n"
#define OTHER "Idempotency-Key: \"01234567-89ab-4cde-8f01-23456789abce\"\r\n"

static void setup(void)
{
    gate = kit_gate_new();
    kit_permit_root(&gate->limits);
    front_start();
}

TEST(credentials_apply_to_one_request, setup, front_teardown)
{
    static const struct front_turn turns[] = {
        {BOB, 200, "\"address\":\"127.0.0.1\",\"authenticated\":true,\"super\":false"},
        {"", 200, "\"address\":\"127.0.0.1\",\"authenticated\":false,\"super\":false"},
        {BOB, 200, "\"bob:"},
        {"", 200, "{\"scheme\":\"ip\",\"id\":\"127.0.0.1\"}]"},
    };

    front_take_turns("/whoami/v1", turns, sizeof(turns) / sizeof(turns[0]));
    assert_int_equal(front_expect("GET", "/whoami/v1", ROOT, NULL, "\"super\":true"), 200);
}

TEST(malformed_credentials_are_refused, setup, front_teardown)
{
    const char *const bad[] = {
        "Authorization: Bearer x\r\n",
        "Authorization: Basic\r\n",
        "Authorization: Basic !\r\n",
        "Authorization: Basic Ym9i\r\n" /* bob */,
        "Authorization: Basic OnB3\r\n" /* :pw */,
        "Authorization:\r\n",
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(front_expect("GET", "/znodes/v1/", bad[i], NULL, "AuthFailed"), 401);
        assert_int_equal(front_expect("GET", "/whoami/v1", bad[i], NULL,
                                      "WWW-Authenticate: Basic realm=\"zabra\""),
                         401);
        assert_int_equal(front_get("/livez", bad[i]), 200);
    }
    assert_int_equal(front_get("/znodes/v1/", BOB BOB), 400);
}

TEST(an_anonymous_client_gets_a_challenge, setup, front_teardown)
{
    assert_int_equal(
        front_expect("POST", "/znodes/v1/?name=a", BOB "Zk-Acl: creator\r\n", "x", NULL), 201);
    assert_int_equal(front_expect("GET", "/znodes/v1/a", "", NULL, "WWW-Authenticate: Basic"), 401);
    assert_int_equal(front_expect("GET", "/znodes/v1/a", "", NULL, "\"status\":401"), 401);
    assert_int_equal(front_expect("PUT", "/znodes/v1/a", "", "y", "\"code\":\"NoAuth\""), 401);
    assert_int_equal(front_expect("GET", "/znodes/v1/a", EVE, NULL, "\"status\":403"), 403);
    assert_int_equal(front_expect("PUT", "/znodes/v1/a", EVE, "y", "NoAuth"), 403);
    assert_int_equal(front_get("/znodes/v1/a", BOB), 200);
    assert_int_equal(front_expect("PUT", "/znodes/v1/a", BOB, "y", NULL), 200);
    assert_int_equal(front_expect("PUT", "/znodes/v1/a", ROOT, "z", NULL), 200);
    /* Origin has nothing to do with credentials. */
    assert_int_equal(
        front_expect("PUT", "/znodes/v1/a", "Origin: https://evil.test\r\n", "y", NULL), 403);
}

TEST(lists_are_accepted_where_a_znode_is_created, setup, front_teardown)
{
    const char *const bad[] = {"anyone", "world:anyone", "world:anyone:rx", "a:b:", "world:any:r,",
                               "digest:bob:hash,r", "", "::r",
                               /* The first entry lacks its permissions. */
                               "auth:,world:anyone:r", "auth:bob,digest:alice:HASH:r",
                               "x509:CN=bob,world:anyone:r"};
    const char *list = "Zk-Acl: world:anyone:r, digest:bob:ikIaKsbtGweaHnb/jKn7OHqbunM=:cdrwa\r\n";

    assert_int_equal(front_expect("POST", "/znodes/v1/?name=l", list, "x", NULL), 201);
    assert_int_equal(front_get("/znodes/v1/l", ""), 200);
    assert_int_equal(front_expect("PUT", "/znodes/v1/l", EVE, "y", NULL), 403);
    assert_int_equal(front_expect("PUT", "/znodes/v1/l", BOB, "y", NULL), 200);
    assert_int_equal(front_expect("PUT", "/znodes/v1/u?upsert=true", "Zk-Acl: read\r\n", "y", NULL),
                     201);
    assert_int_equal(front_expect("PUT", "/znodes/v1/u", "", "y", NULL), 401);
    assert_int_equal(
        front_expect("PUT", "/znodes/v1/v", "If-None-Match: *\r\nZk-Acl: read\r\n", "y", NULL),
        201);
    assert_int_equal(front_expect("PUT", "/znodes/v1/v", "Zk-Acl: open\r\n", "y", "upsert=true"),
                     400);
    assert_int_equal(
        front_expect("POST", "/znodes/v1/", JSON,
                     "{\"path\":\"/j\",\"acl\":[{\"perms\":[\"read\"],\"scheme\":\"world\","
                     "\"id\":\"anyone\"}]}",
                     NULL),
        201);
    assert_int_equal(front_expect("PUT", "/znodes/v1/j", "", "y", NULL), 401);
    assert_int_equal(front_expect("POST", "/znodes/v1/", JSON "Zk-Acl: open\r\n",
                                  "{\"path\":\"/k\",\"acl\":\"open\"}", "another one in the body"),
                     400);
    assert_int_equal(front_expect("GET", "/znodes/v1/", "Zk-Acl: open\r\n", NULL, "Zk-Acl"), 400);
    assert_int_equal(front_expect("POST", "/multi/v1", JSON "Zk-Acl: open\r\n", "{}", "Zk-Acl"),
                     400);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char header[100];

        (void)snprintf(header, sizeof(header), "Zk-Acl: %s\r\n", bad[i]);
        assert_int_equal(front_expect("POST", "/znodes/v1/?name=bad", header, "x", "InvalidACL"),
                         400);
    }
}

TEST(a_list_is_read_and_set_by_its_tag, setup, front_teardown)
{
    static const char open[] = "{\"acl\":\"open\"}";
    char tag[200];
    struct kit_answer answer;

    assert_int_equal(
        front_expect("POST", "/znodes/v1/?name=a", BOB "Zk-Acl: creator\r\n", "x", NULL), 201);
    assert_int_equal(front_get("/znodes/v1/a?view=acl", ""), 401);
    answer = kit_ask(port, "GET", "/znodes/v1/a?view=acl", BOB, NULL);
    assert_int_equal(answer.status, 200);
    assert_string_equal(kit_header(&answer, "ETag"), "\"a100000001.0\"");
    assert_true(kit_body_has(&answer, "\"aversion\":0"));
    assert_true(kit_body_has(&answer, "\"scheme\":\"digest\""));
    (void)snprintf(tag, sizeof(tag), "%sIf-Match: %s\r\n", BOB JSON, kit_header(&answer, "ETag"));
    kit_free(&answer);

    assert_int_equal(front_expect("PATCH", "/znodes/v1/a", EVE JSON, open, NULL), 403);
    assert_int_equal(front_expect("PATCH", "/znodes/v1/a", tag, open, "ETag: \"a100000001.1\""),
                     200);
    assert_int_equal(front_expect("PATCH", "/znodes/v1/a", tag, open, "ETag: \"a100000001.1\""),
                     412);
    assert_int_equal(front_expect("PATCH", "/znodes/v1/a", JSON,
                                  "{\"acl\":\"open\",\"aversion\":0}", "BadVersion"),
                     412);
    assert_int_equal(
        front_expect("PATCH", "/znodes/v1/a", JSON, "{\"acl\":\"read\",\"aversion\":1}", NULL),
        200);
    assert_int_equal(front_expect("PATCH", "/znodes/v1/none", JSON, open, NULL), 404);
    assert_int_equal(front_expect("PATCH", "/znodes/v1/a", "If-Match: \"d100000001.0\"\r\n" JSON,
                                  open, "ETag of the znode's ACL"),
                     400);
    assert_int_equal(front_expect("GET", "/znodes/v1/a?view=acl",
                                  "If-None-Match: \"a100000001.2\"\r\n", NULL, NULL),
                     304);
}

/* The tag of a tree for a reader with `headers`. */
static void tree_tag(const char *target, const char *headers, char tag[200])
{
    struct kit_answer answer = kit_ask(port, "GET", target, headers, NULL);

    assert_int_equal(answer.status, 200);
    assert_non_null(strstr(kit_header(&answer, "Vary"), "Authorization"));
    (void)snprintf(tag, 200, "%sIf-None-Match: %s\r\n", headers, kit_header(&answer, "ETag"));
    kit_free(&answer);
}

/* What a tree shows depends on the reader and on ACLs, which its zxids do not cover. */
TEST(the_tag_of_a_tree_is_that_of_what_is_shown, setup, front_teardown)
{
    const char *const targets[] = {"/znodes/v1/t?view=tree", "/znodes/v1/t?view=tree&with=stat"};
    char mine[200];
    char theirs[200];

    assert_int_equal(front_expect("POST", "/znodes/v1/?name=t", "", "x", NULL), 201);
    assert_int_equal(
        front_expect("POST", "/znodes/v1/t?name=a", BOB "Zk-Acl: creator\r\n", "x", NULL), 201);
    assert_int_equal(front_expect("POST", "/znodes/v1/t/a?name=b", BOB, "x", NULL), 201);
    assert_int_equal(front_expect("PUT", "/znodes/v1/t", "", "y", NULL), 200);
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        tree_tag(targets[i], BOB, mine);
        tree_tag(targets[i], "", theirs);
        assert_string_not_equal(mine + strlen(BOB), theirs);
        assert_int_equal(front_get(targets[i], mine), 304);
        assert_int_equal(front_get(targets[i], theirs), 304);
        assert_int_equal(
            front_expect("PATCH", "/znodes/v1/t/a", BOB JSON, "{\"acl\":\"open\"}", NULL), 200);
        assert_int_equal(front_get(targets[i], mine), 200);
        assert_int_equal(front_get(targets[i], theirs), 200);
        assert_int_equal(
            front_expect("PATCH", "/znodes/v1/t/a", BOB JSON, "{\"acl\":\"creator\"}", NULL), 200);
    }
}

TEST(a_malformed_patch_is_refused, setup, front_teardown)
{
    assert_int_equal(front_expect("PATCH", "/znodes/v1/", JSON, "{}", "acl must be given"), 400);
    assert_int_equal(front_expect("PATCH", "/znodes/v1/", JSON, "{\"acl\":\"all\"}", "InvalidACL"),
                     400);
    assert_int_equal(front_expect("PATCH", "/znodes/v1/", JSON, "{\"acl\":[]}", "InvalidACL"), 400);
    assert_int_equal(
        front_expect("PATCH", "/znodes/v1/", JSON, "{\"acl\":\"open\",\"path\":\"/x\"}", "path"),
        400);
    assert_int_equal(
        front_expect("PATCH", "/znodes/v1/", JSON, "{\"acl\":\"open\",\"data64\":\"\"}", NULL),
        400);
    assert_int_equal(front_expect("PATCH", "/znodes/v1/", "Content-Type: text/xml\r\n", "x", NULL),
                     415);
}

/* Content types that clients add by themselves, and types that users set. */
static const char *const data_types[] = {
    "",
    "Content-Type: application/x-www-form-urlencoded\r\n",
    "Content-Type: text/plain;charset=UTF-8\r\n",
    "Content-Type: multipart/form-data; boundary=x\r\n",
    "Content-Type: application/octet-stream\r\n",
    "Content-Type: text/xml\r\n",
    "Content-Type: application/jsonl\r\n",
    "Content-Type: no type at all\r\n",
    "Content-Type:\r\n",
};

static void check_data(const char *target, const void *bytes, size_t len)
{
    struct kit_answer answer =
        kit_ask(port, "GET", target, "Accept: application/octet-stream\r\n", NULL);

    assert_int_equal(answer.status, 200);
    assert_int_equal(answer.body_len, len);
    assert_memory_equal(answer.body, bytes, len);
    kit_free(&answer);
}

/* Sends bytes that text functions and form decoders would change. */
static void put_bytes(const char *method, const char *target, const char *type, uint32_t status)
{
    static const char bytes[] = "a=b&c=%41+d\r\n\0\xff{\"x\":";
    struct kit_answer answer;
    char head[512];
    int fd = kit_connect(port);

    (void)snprintf(head, sizeof(head),
                   "%s %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %zu\r\n\r\n", method,
                   target, type, sizeof(bytes));
    kit_send(fd, head);
    kit_send_bytes(fd, bytes, sizeof(bytes));
    answer = kit_read(fd, false);
    assert_int_equal(answer.status, status);
    kit_free(&answer);
    close(fd);
    check_data(status == 201 ? "/znodes/v1/made" : target, bytes, sizeof(bytes));
}

TEST(data_of_any_type_is_stored_byte_for_byte, setup, front_teardown)
{
    assert_int_equal(front_expect("PUT", "/znodes/v1/a?upsert=true", "", "", NULL), 201);
    put_bytes("PUT", "/znodes/v1/a", JSON, 200);
    for (size_t i = 0; i < sizeof(data_types) / sizeof(data_types[0]); i++) {
        put_bytes("PUT", "/znodes/v1/a", data_types[i], 200);
        put_bytes("POST", "/znodes/v1/?op=create&name=made", data_types[i], 201);
        assert_int_equal(front_expect("DELETE", "/znodes/v1/made", "", NULL, NULL), 204);
    }
}

TEST(only_a_create_decodes_a_json_body, setup, front_teardown)
{
    static const char json[] = "{\"dataUtf8\":\"x\"}";

    assert_int_equal(front_expect("POST", "/znodes/v1/?name=f", JSON, json, NULL), 201);
    check_data("/znodes/v1/f", "x", 1);
    assert_int_equal(front_expect("POST", "/znodes/v1/?name=g", JSON, "x", "not valid JSON"), 400);
    assert_int_equal(front_expect("POST", "/znodes/v1/?name=g", data_types[1], json, NULL), 201);
    check_data("/znodes/v1/g", json, strlen(json));
    assert_int_equal(front_expect("PUT", "/znodes/v1/f", JSON, json, NULL), 200);
    check_data("/znodes/v1/f", json, strlen(json));
}

/* Where JSON is the only form, the types that clients add by themselves are ignored. */
TEST(json_needs_no_type, setup, front_teardown)
{
    static const char multi[] = "{\"ops\":[{\"op\":\"check\",\"path\":\"/\"}]}";

    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(front_expect("POST", "/multi/v1", data_types[i], multi, "results"), 200);
        assert_int_equal(front_expect("POST", "/multi/v1", data_types[i], "a=b", "not valid JSON"),
                         400);
        assert_int_equal(
            front_expect("PATCH", "/znodes/v1/", data_types[i], "{\"acl\":\"open\"}", NULL), 200);
    }
    for (size_t i = 3; i < 8; i++) {
        assert_int_equal(front_expect("POST", "/multi/v1", data_types[i], multi, "send it as"),
                         415);
        assert_int_equal(
            front_expect("PATCH", "/znodes/v1/", data_types[i], "{\"acl\":\"open\"}", NULL), 415);
    }
    /* curl -d @FILE drops line ends. */
    assert_int_equal(front_expect("POST", "/import/v1", data_types[1], "{}", "--data-binary"), 415);
}

TEST(ephemerals_may_be_created_by_put, setup, front_teardown)
{
    struct kit_answer answer = kit_ask(port, "POST", "/sessions/v1/?op=create", "", NULL);
    char header[100];

    (void)snprintf(header, sizeof(header), "Zk-Session: %.36s\r\n",
                   strstr((const char *)answer.body, "\"id\":\"") + 6);
    kit_free(&answer);
    assert_int_equal(front_expect("PUT", "/znodes/v1/e?ephemeral=true", header, "x", "upsert=true"),
                     400);
    assert_int_equal(front_expect("PUT", "/znodes/v1/e?ephemeral=true&upsert=true", "", "x", NULL),
                     401);
    assert_int_equal(front_expect("PUT", "/znodes/v1/e?ephemeral=true&upsert=true", header, "x",
                                  "\"ephemeralOwner\":4294967297"),
                     201);
    assert_int_equal(
        front_expect("PUT", "/znodes/v1/e?ephemeral=true&upsert=true", header, "y", NULL), 200);
    assert_int_equal(front_expect("DELETE", "/sessions/v1/", header, NULL, NULL), 204);
    assert_int_equal(front_get("/znodes/v1/e", ""), 404);
}

TEST(a_write_sent_twice_is_done_once, setup, front_teardown)
{
    const char *create = "/znodes/v1/?op=create&name=q-&sequence=true";

    assert_int_equal(front_expect("POST", create, KEY, "x", "/q-0000000000"), 201);
    assert_int_equal(front_expect("POST", create, KEY, "x", "Idempotency-Replayed: true"), 201);
    assert_int_equal(front_expect("POST", create, KEY, "x", "/q-0000000000"), 201);
    assert_int_equal(front_expect("POST", create, KEY, "y", "IdempotencyKeyReused"), 422);
    assert_int_equal(front_expect("POST", create, OTHER, "y", "/q-0000000001"), 201);
    assert_int_equal(
        front_expect("DELETE", "/znodes/v1/q-0000000001", BOB "Idempotency-Key: d\r\n", NULL, NULL),
        204);
    assert_int_equal(front_expect("DELETE", "/znodes/v1/q-0000000001",
                                  BOB "Idempotency-Key: \"d\"\r\n", NULL,
                                  "Idempotency-Replayed: true"),
                     204);
    assert_int_equal(
        front_expect("DELETE", "/znodes/v1/q-0000000001", EVE "Idempotency-Key: d\r\n", NULL, NULL),
        404);
    atomic_store(&gate->reply_err, ERR_IN_FLIGHT);
    assert_int_equal(front_expect("POST", create, KEY, "x", "Retry-After"), 409);
    assert_int_equal(front_expect("POST", create, KEY, "x", "\"outcome\":\"unknown\""), 409);
}

TEST(malformed_keys_are_refused, setup, front_teardown)
{
    const char *const bad[] = {"", "\"\"", "a b", "\"a\"b\"", "\x80", "\xc3\xa9"};
    char header[400];

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        (void)snprintf(header, sizeof(header), BOB "Idempotency-Key: %s\r\n", bad[i]);
        assert_int_equal(
            front_expect("PUT", "/znodes/v1/zookeeper", header, "x", "Idempotency-Key"), 400);
    }
    (void)snprintf(header, sizeof(header), BOB "Idempotency-Key: %0256d\r\n", 1);
    assert_int_equal(front_expect("PUT", "/znodes/v1/zookeeper", header, "x", NULL), 200);
    (void)snprintf(header, sizeof(header), BOB "Idempotency-Key: %0257d\r\n", 1);
    assert_int_equal(front_expect("PUT", "/znodes/v1/zookeeper", header, "x", NULL), 400);
    assert_int_equal(front_expect("PUT", "/znodes/v1/zookeeper", "Idempotency-Key: mine\r\n", "x",
                                  "must be a UUID"),
                     400);
    assert_int_equal(front_get("/znodes/v1/", "Idempotency-Key: mine\r\n"), 200);
    assert_int_equal(front_expect("POST", "/sync/v1", "Idempotency-Key: mine\r\n", NULL, NULL),
                     200);
}

TEST(cross_origin_pages_may_read_the_headers_they_need, setup, front_teardown)
{
    struct kit_answer answer =
        kit_ask(port, "GET", "/znodes/v1/", "Origin: https://app.test\r\n", NULL);
    const char *exposed = kit_header(&answer, "Access-Control-Expose-Headers");

    assert_non_null(strstr(exposed, "Idempotency-Replayed"));
    assert_non_null(strstr(exposed, "WWW-Authenticate"));
    kit_free(&answer);
    answer = kit_ask(port, "OPTIONS", "/znodes/v1/a",
                     "Origin: https://app.test\r\nAccess-Control-Request-Method: PATCH\r\n", NULL);
    assert_non_null(strstr(kit_header(&answer, "Access-Control-Allow-Methods"), "PATCH"));
    assert_non_null(strstr(kit_header(&answer, "Access-Control-Allow-Headers"), "Zk-Acl"));
    kit_free(&answer);
}
