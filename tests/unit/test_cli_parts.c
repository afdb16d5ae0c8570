/* Small parts of the command line: URLs, endpoints, JSON, times, ACLs, the lines of --curl. */
#include "cli/acl_text.h"
#include "cli/client.h"
#include "cli/copy.h"
#include "cli/out.h"
#include "cli/shell_line.h"
#include "cli/url.h"
#include "tests/lib/unit.h"

#include <stdlib.h>
#include <string.h>

TEST(urls_are_escaped)
{
    struct settings settings = {.linearizable = false};
    struct client client = {.settings = &settings};
    struct client_request request = {.target = "/znodes/v1",
                                     .path = "/a b/\xc3\xa9%?#",
                                     .params = {{"name", "x&y=z"},
                                                {"after", NULL},
                                                {"null", url_flag(true)},
                                                {"upsert", url_flag(false)},
                                                {"version", URL_NUMBER(-1)}}};
    struct buf url;

    client_url(&client, "http://h:1", &request, &url);
    assert_string_equal(
        buf_cstr(&url),
        "http://h:1/znodes/v1/a%20b/%C3%A9%25%3F%23?name=x%26y%3Dz&null=true&version=-1");
    buf_release(&url);
}

TEST(paths_are_checked_and_split)
{
    struct buf parent;

    buf_init(&parent, URL_MAX);
    assert_null(url_path_fault("/", false));
    assert_null(url_path_fault("/a/b", false));
    assert_non_null(url_path_fault("a", false));
    assert_non_null(url_path_fault("/a/", false));
    assert_non_null(url_path_fault("/a//b", true));
    assert_non_null(url_path_fault("/a/../b", false));
    assert_null(url_path_fault("/a/", true));
    assert_string_equal(url_split("/a/b", &parent), "b");
    assert_string_equal(buf_cstr(&parent), "/a");
    assert_string_equal(url_split("/a", &parent), "a");
    assert_string_equal(buf_cstr(&parent), "/");
    buf_release(&parent);
}

TEST(endpoints_are_a_list)
{
    struct endpoints endpoints;
    const char *fault = NULL;

    assert_true(endpoints_parse(&endpoints, "a:1, http://b/ ,[::1]:3,[::1]", &fault));
    assert_int_equal(endpoints.count, 4);
    assert_string_equal(endpoints_url(&endpoints), "http://a:1");
    endpoints_turn(&endpoints);
    assert_string_equal(endpoints_url(&endpoints), "http://b:9998");
    assert_string_equal(endpoints.urls[2], "http://[::1]:3");
    assert_string_equal(endpoints.urls[3], "http://[::1]:9998");
    assert_false(endpoints_parse(&endpoints, "a:1,,b", &fault));
    assert_string_equal(fault, ",b");
    assert_false(endpoints_parse(&endpoints, "bob:pw@a:1", &fault));
    assert_false(endpoints_parse(&endpoints, "", &fault));
    assert_true(endpoints_parse(&endpoints, "a:65535,10.0.0.1:1", &fault));
    assert_false(endpoints_parse(&endpoints, "9998", &fault));
    assert_false(endpoints_parse(&endpoints, "a:65536", &fault));
    assert_false(endpoints_parse(&endpoints, "a:0", &fault));
    assert_false(endpoints_parse(&endpoints, "a:", &fault));
    assert_false(endpoints_parse(&endpoints, ":9998", &fault));
    assert_false(endpoints_parse(&endpoints, "a:1;b:2", &fault));
    assert_false(endpoints_parse(&endpoints, "a:x,b:2", &fault));
    assert_false(endpoints_parse(&endpoints, "ftp://a:1", &fault));
}

TEST(endpoints_may_be_https)
{
    struct endpoints endpoints;
    const char *fault = NULL;

    assert_true(endpoints_parse(&endpoints, "https://a:1,https://b/,c,https://[::1]", &fault));
    assert_string_equal(endpoints.urls[0], "https://a:1");
    assert_string_equal(endpoints.urls[1], "https://b:9998");
    assert_string_equal(endpoints.urls[2], "http://c:9998");
    assert_string_equal(endpoints.urls[3], "https://[::1]:9998");
    assert_false(endpoints_parse(&endpoints, "https://", &fault));
    assert_false(endpoints_parse(&endpoints, "https://9998", &fault));
    assert_false(endpoints_parse(&endpoints, "https://bob:pw@a:1", &fault));
    assert_false(endpoints_parse(&endpoints, "https://http://a:1", &fault));
    assert_false(endpoints_parse(&endpoints, "HTTPS://a:1", &fault));
    assert_true(url_is_secure("https://a:1"));
    assert_false(url_is_secure("http://a:1"));
    assert_true(url_same_place("https://a:1", "http://a:1"));
    assert_false(url_same_place("https://a:1", "http://a:2"));
}

TEST(long_integers_are_read)
{
    char error[JSONR_ERROR_MAX];
    json_t *value = jsonr_parse(slice_str("{\"a\":9223372036854775808,\"b\":-12,\"c\":\"1\\\""
                                          "12345678901234567890\",\"d\":{\"e\":[1.5]}}"),
                                error);
    struct buf out;

    assert_non_null(value);
    assert_string_equal(jsonr_text(value, "a"), "9223372036854775808");
    assert_int_equal(jsonr_number(value, "b"), -12);
    assert_string_equal(jsonr_text(value, "c"), "1\"12345678901234567890");
    assert_true(json_is_array(jsonr_at(value, "d.e")));
    assert_null(jsonr_at(value, "d.x"));
    assert_null(jsonr_at(value, "b.x"));
    buf_init(&out, 1024);
    jsonr_put(&out, jsonr_at(value, "d"));
    assert_string_equal(buf_cstr(&out), "{\"e\":[1.5]}");
    buf_release(&out);
    json_decref(value);
    assert_null(jsonr_parse(slice_str("{\"a\":"), error));
    assert_non_null(strstr(error, "line 1"));
}

/* Numbers stay numbers, and a string that looks like an option value stays as it is. */
TEST(numbers_are_written_as_they_were_read)
{
    static const char *const texts[] = {
        "{\"a\":9223372036854775808,\"b\":[-12345678901234567890,18446744073709551615]}",
        "[\"9223372036854775808\",\"9223372036854775808\\u0000\"]",
        "[\"9223372036854775808\\u0000\\u0000\"]",
        "[\"\\u0000\",\"\\\\u0000\",\"9223372036854775808\\\\u0000\",\"\\u0000x\",\"\"]",
        "123456789012345678901234567890",
    };
    char error[JSONR_ERROR_MAX];

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        json_t *value = jsonr_parse(slice_str(texts[i]), error);
        struct buf out;

        assert_non_null(value);
        buf_init(&out, 1024);
        jsonr_put(&out, value);
        assert_string_equal(buf_cstr(&out), texts[i]);
        buf_release(&out);
        json_decref(value);
    }
}

TEST(times_are_shown_as_dates)
{
    json_auto_t *epoch = out_time(0);
    json_auto_t *leap_day = out_time(INT64_C(1709210096789));
    json_auto_t *before = out_time(-1);

    assert_string_equal(json_string_value(epoch), "1970-01-01T00:00:00Z");
    assert_string_equal(json_string_value(leap_day), "2024-02-29T12:34:56Z");
    assert_string_equal(json_string_value(before), "1969-12-31T23:59:59Z");
}

static void expect_line(struct settings *settings, const struct client_request *request,
                        const char *line)
{
    struct client *client = client_open(settings);
    struct buf out;

    assert_non_null(client);
    buf_init(&out, 1 << 20);
    client_put_curl(client, request, &out);
    assert_string_equal(buf_cstr(&out), line);
    buf_release(&out);
    client_close(client);
}

TEST(requests_are_shown_as_curl)
{
    struct settings settings = {.endpoints = "h:1"};
    struct client_request request = {.target = "/znodes/v1/a"};

    expect_line(&settings, &request, "curl -sS 'http://h:1/znodes/v1/a'\n");
    settings.linearizable = true;
    expect_line(&settings, &request,
                "curl -sS 'http://h:1/znodes/v1/a?consistency=linearizable'\n");
    request.method = "PUT";
    request.has_body = true;
    request.body = slice_str("it's");
    request.headers[0] = "If-Match: \"d1.0\"";
    expect_line(&settings, &request,
                "curl -sS -X PUT -H 'If-Match: "
                "\"d1.0\"' --data-raw 'it'\\''s' 'http://h:1/znodes/v1/a'\n");
    request.body_from = "@-";
    request.headers[0] = NULL;
    expect_line(&settings, &request,
                "curl -sS -X PUT --data-binary @- "
                "'http://h:1/znodes/v1/a'\n");
}

/* --linearizable adds the parameter to each read that a replica may answer from an old state, and
 * to nothing else. */
TEST(linearizable_is_added_to_reads)
{
    static const struct {
        struct client_request request;
        const char *query;
    } samples[] = {
        {{.target = "/znodes/v1/a"}, "?consistency=linearizable"},
        {{.target = "/znodes/v1/consistency=1"}, "?consistency=linearizable"},
        {{.target = "/znodes/v1/a?view=stat"}, "?view=stat&consistency=linearizable"},
        {{.target = "/znodes/v1/a?consistency=local"}, "?consistency=local"},
        {{.target = "/znodes/v1/a", .method = "PUT"}, NULL},
        {{.target = "/multi/v1", .method = "POST", .reads = true}, "?consistency=linearizable"},
        {{.target = "/multi/v1", .method = "POST"}, NULL},
        {{.target = "/sessions/v1?view=list"}, "?view=list&consistency=linearizable"},
        {{.target = "/sessions/v1/"}, "?consistency=linearizable"},
        {{.target = "/sessions/v1/", .method = "DELETE"}, NULL},
        {{.target = "/status/v1"}, NULL},
    };
    struct settings settings = {.linearizable = true};
    struct client client = {.settings = &settings};
    const char *fault = NULL;

    assert_true(endpoints_parse(&client.endpoints, "127.0.0.1:1", &fault));
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        struct buf url;

        client_url(&client, endpoints_url(&client.endpoints), &samples[i].request, &url);
        const char *query = strchr(buf_cstr(&url), '?');

        assert_string_equal(query ? query : "", samples[i].query ? samples[i].query : "");
        buf_release(&url);
    }
}

TEST(secrets_are_not_shown)
{
    struct settings settings = {.endpoints = "h:1", .user = "b\"o'b", .password_file = "/p w"};
    struct client_request request = {.target = "/a"};

    expect_line(
        &settings, &request,
        "{ sed -n '1{s/[\"\\\\]/\\\\&/g;s/.*/user = \"b\\\\\"o'\\''b:&\"/p;}' '/p w'; } | curl "
        "-K - -sS 'http://h:1/a'\n");
    settings = (struct settings){.endpoints = "h:1", .session = "5e55"};
    request = (struct client_request){
        .target = "/a", .method = "POST", .has_body = true, .body_from = "@-", .type = "x/y"};
    expect_line(
        &settings, &request,
        "{ { printf 'header = \"Zk-Session: %s\"\\n' \"$ZABRA_SESSION\"; } | curl -K - -sS -X "
        "POST -H 'Content-Type: x/y' --data-binary @/dev/fd/3 'http://h:1/a'; } 3<&0\n");
}

TEST(acls_are_text)
{
    json_t *list = acl_text_parse("world:anyone:r, digest:bob:x=:cdrwa");
    struct buf out;

    assert_int_equal(json_array_size(list), 2);
    acl_text_add(list, acl_text_entry(slice_str("world:anyone:rw")));
    acl_text_add(list, acl_text_entry(slice_str("ip:10.0.0.0/8:a")));
    assert_false(acl_text_remove(list, "world:everyone"));
    assert_true(acl_text_remove(list, "digest:bob:x="));
    buf_init(&out, 1024);
    for (size_t i = 0; i < json_array_size(list); i++) {
        acl_text_put(json_array_get(list, i), &out);
        buf_append_byte(&out, ' ');
    }
    assert_string_equal(buf_cstr(&out), "world:anyone:rw ip:10.0.0.0/8:a ");
    buf_release(&out);
    json_decref(list);
    list = acl_text_parse("creator");
    assert_string_equal(json_string_value(list), "creator");
    json_decref(list);
    assert_null(acl_text_parse("world:anyone"));
    assert_null(acl_text_parse("world:anyone:rx"));
    assert_null(acl_text_parse("world:anyone:"));
    assert_null(acl_text_parse("world:anyone:r,"));
    assert_null(acl_text_parse(""));
}

/* Members that a later version may add to a line are skipped. */
TEST(exported_znodes_are_created)
{
    char error[JSONR_ERROR_MAX];
    json_t *line = jsonr_parse(slice_str("{\"path\":\"a\",\"data64\":\"eA==\",\"ttl\":5,"
                                         "\"acl\":[1],\"stat\":{},\"new\":1}"),
                               error);
    json_t *op = copy_create_op(line, "/b", true);
    struct buf out;

    buf_init(&out, 1024);
    jsonr_put(&out, op);
    assert_string_equal(buf_cstr(&out), "{\"op\":\"create\",\"path\":\"/b\",\"data64\":\"eA==\","
                                        "\"ttl\":5,\"acl\":[1]}");
    buf_release(&out);
    json_decref(op);
    op = copy_create_op(line, "/b", false);
    assert_null(json_object_get(op, "acl"));
    json_decref(op);
    json_decref(line);
}

/* A try that met its own write in flight, then the answer. */
TEST(a_success_ends_an_earlier_error)
{
    struct settings settings = {.endpoints = "h:1"};
    struct client *client = client_open(&settings);

    assert_non_null(client);
    assert_int_equal(client_judge(client, 409, slice_str("{\"code\":\"InFlight\"}")), CMD_CONFLICT);
    assert_string_equal(client->error.code, "InFlight");
    assert_int_equal(client_judge(client, 200, slice_str("{}")), CMD_OK);
    assert_string_equal(client->error.code, "");
    assert_null(client->error.problem);
    client_close(client);
}

/* The address sanitizer would report the memory that the library of lines keeps. */
TEST(a_shell_leaks_no_memory)
{
    struct shell_line *line = NULL;

    (void)unsetenv("XDG_STATE_HOME"); /* No history is read or saved. */
    (void)unsetenv("HOME");
    line = shell_line_open(true);
    assert_non_null(line);
    shell_line_close(line);
}
