/* The pure parts of the front end: targets, heads, media types, routes, tags. */
#include "http/etag.h"
#include "http/framing.h"
#include "http/head.h"
#include "http/http_int.h"
#include "http/route.h"
#include "http/target.h"
#include "tests/lib/unit.h"

#include <stdio.h>

enum {
    HEAD_MAX = 8192
};

static struct buf decoded;

static enum err parse(const char *raw, struct http_target *target)
{
    const char *why = NULL;
    enum err err = http_target_parse(slice_str(raw), &decoded, target, &why);

    assert_true(err == ERR_OK || why != NULL);
    return err;
}

static void setup(void)
{
    buf_init(&decoded, 1 << 20);
}

static void teardown(void)
{
    buf_release(&decoded);
}

TEST(a_target_is_decoded_once, setup, teardown)
{
    struct http_target target;

    assert_int_equal(parse("/a%2Fb+c%25?x=1+2&y&z=%C3%A9%26=", &target), ERR_OK);
    assert_true(slice_eq(target.path, slice_str("/a/b+c%")));
    assert_int_equal(target.param_count, 3);
    assert_true(slice_eq(target.params[0].value, slice_str("1 2")));
    assert_true(slice_eq(target.params[1].name, slice_str("y")));
    assert_int_equal(target.params[1].value.len, 0);
    assert_true(slice_eq(target.params[2].value, slice_str("\xc3\xa9&=")));
    assert_int_equal(parse("http://h:1/p?q=r", &target), ERR_OK);
    assert_true(slice_eq(target.authority, slice_str("h:1")));
    assert_true(slice_eq(target.path, slice_str("/p")));
    assert_int_equal(parse("*", &target), ERR_OK);
    assert_true(target.is_asterisk);
}

TEST(bad_targets_are_refused, setup, teardown)
{
    const char *bad[] = {"",      "a",      "/%",      "/%4",       "/%zz",     "/%00",
                         "/a%1f", "/%7f",   "/%ff",    "/%c0%80",   "/?%",      "/?a=%e0%80",
                         "/#x",   "/a?b#c", "http://", "http:///x", "ftp://h/x"};
    struct http_target target;
    struct buf many;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(parse(bad[i], &target), ERR_BAD_ARGUMENTS);
    }
    buf_init(&many, 1000);
    buf_append_str(&many, "/?");
    for (int i = 0; i <= HTTP_PARAMS_MAX; i++) {
        buf_printf(&many, "a%d=1&", i);
    }
    assert_int_equal(parse(buf_cstr(&many), &target), ERR_BAD_ARGUMENTS);
    buf_release(&many);
}

TEST(a_name_is_joined_and_a_path_encoded, setup, teardown)
{
    struct http_target target;
    struct slice joined;
    struct buf out;

    assert_int_equal(parse("/parent?name=child", &target), ERR_OK);
    joined = http_target_join(&decoded, target.path, target.params[0].value);
    assert_true(slice_eq(joined, slice_str("/parent/child")));
    joined = http_target_join(&decoded, slice_str("/"), slice_str("x"));
    assert_true(slice_eq(joined, slice_str("/x")));
    buf_init(&out, 1000);
    http_target_encode(&out, slice_str("/a b/\xc3\xa9?%#+~"));
    assert_string_equal(buf_cstr(&out), "/a%20b/%C3%A9%3F%25%23+~");
    buf_release(&out);
}

/* As for the first head of a connection. */
static const char *check(const char *head)
{
    struct http_framing framing;
    struct http_refusal refusal = http_head_check_framing(slice_str(head), HEAD_MAX, &framing);
    struct http_line line;
    struct http_head parsed;

    if (refusal.err != ERR_OK || framing.head_len == 0) {
        return refusal.detail;
    }
    return http_head_read(slice_make(head, framing.head_len), &line, &parsed, NULL);
}

TEST(heads_are_checked)
{
    assert_null(check("GET / HTTP/1.1\r\nHost: a\r\nAccept: x\r\nAccept: y\r\n\r\n"));
    assert_null(check("GET / HTTP/1.0\r\n\r\n"));
    assert_non_null(check("GET / HTTP/1.1\r\n\r\n"));
    assert_non_null(check("GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n"));
    assert_non_null(check("GET / HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n"));
    assert_non_null(check("GET / HTTP/1.1\r\nHost: a\r\nIf-Match: *\r\nIf-Match: *\r\n\r\n"));
    assert_non_null(check("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1\r\n\r\n"));
    assert_non_null(check("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n"));
    assert_non_null(check("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: \r\n\r\n"));
    assert_non_null(check("GET /\r\nHost: a\r\n\r\n"));
    assert_non_null(check("GET / HTTP\r\nHost: a\r\n\r\n"));
    assert_non_null(check("GET / HTTP/2.0\r\n\r\n"));
    /* Blank lines before a head hide no fault in it. */
    assert_null(check("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert_non_null(check("\r\n\r\nGET / HTTP/1.1\r\n\r\n"));
    assert_non_null(check("\r\nGET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"));
    /* As soon as the faulty bytes have arrived. */
    assert_null(check("GET / HTTP/1.0\r\nb\r"));
    assert_non_null(check("GET / HTTP/1.0\r\nb\r\rb"));
    assert_non_null(check("GET / HTTP/1.0\r\nb\x01"));
    assert_non_null(check("\na"));
}

static enum http_media media(const char *accept)
{
    static const enum http_media offered[] = {HTTP_MEDIA_JSON, HTTP_MEDIA_RAW, HTTP_MEDIA_NONE};

    return http_head_media(slice_str(accept), offered);
}

TEST(accept_chooses_the_media_type)
{
    assert_int_equal(media(""), HTTP_MEDIA_JSON);
    assert_int_equal(media("*/*"), HTTP_MEDIA_JSON);
    assert_int_equal(media("application/octet-stream"), HTTP_MEDIA_RAW);
    assert_int_equal(media("application/*"), HTTP_MEDIA_JSON);
    assert_int_equal(media("application/json;q=0.5, application/octet-stream"), HTTP_MEDIA_RAW);
    assert_int_equal(media("application/json;q=0.5 , application/octet-stream; q=0.4"),
                     HTTP_MEDIA_JSON);
    assert_int_equal(media("application/json;q=0, */*"), HTTP_MEDIA_RAW);
    assert_int_equal(media("text/html, */*;q=0.1"), HTTP_MEDIA_JSON);
    assert_int_equal(media("text/html"), HTTP_MEDIA_NONE);
    assert_int_equal(media("APPLICATION/JSON"), HTTP_MEDIA_JSON);
    assert_int_equal(media(", ,;q=,"), HTTP_MEDIA_NONE);
}

TEST(routes_follow_from_the_table)
{
    static struct http_routes routes;
    struct slice path;
    const struct http_route *route = NULL;
    struct buf allow;

    http_routes_init(&routes);
    for (const struct op_def *def = ops_table(); def->name; def++) {
        if (def->route[0] != '\0') {
            char url[100];

            (void)snprintf(url, sizeof(url), "%.*s", (int)strcspn(def->route, "{"), def->route);
            route = http_route_find(&routes, slice_str(url), &path);
            assert_non_null(route);
            assert_non_null(http_route_method(route, slice_str(def->method)));
        }
    }
    route = http_route_find(&routes, slice_str("/znodes/v1/a/b"), &path);
    assert_true(slice_eq(path, slice_str("/a/b")));
    assert_true(slice_eq(http_route_key(route, slice_str("GET")), slice_str("view")));
    assert_int_equal(http_route_select(route, slice_str("GET"), slice_str("tree"))->id, OP_TREE);
    assert_int_equal(http_route_method(route, slice_str("GET"))->id, OP_GET);
    assert_null(http_route_select(route, slice_str("POST"), slice_str("tree")));
    assert_int_equal(http_route_method(route, slice_str("PATCH"))->id, OP_SETACL);
    assert_null(http_route_find(&routes, slice_str("/znodes/v10"), &path));
    assert_null(http_route_find(&routes, slice_str("/status/v1/"), &path));
    assert_null(http_route_find(&routes, slice_str(""), &path));
    buf_init(&allow, 200);
    http_route_allow(route, false, &allow);
    assert_string_equal(buf_cstr(&allow), "GET, PUT, POST, DELETE, PATCH, HEAD, OPTIONS");
    buf_clear(&allow);
    route = http_route_find(&routes, slice_str("/sessions/v1/x"), &path);
    http_route_allow(route, false, &allow);
    assert_string_equal(buf_cstr(&allow), "POST, PUT, GET, DELETE, HEAD, OPTIONS");
    buf_clear(&allow);
    http_route_allow(route, true, &allow);
    assert_string_equal(buf_cstr(&allow), "PUT, GET, DELETE, HEAD, OPTIONS");
    buf_release(&allow);
}

TEST(tags_and_stats_are_written)
{
    struct stat_view stat = {.czxid = UINT64_MAX,
                             .mzxid = 0,
                             .ctime = INT64_MIN,
                             .version = -7,
                             .ephemeral_owner = UINT64_MAX,
                             .data_length = UINT32_MAX,
                             .num_children = UINT32_MAX,
                             .pzxid = UINT64_MAX,
                             .mtime = INT64_MIN,
                             .cversion = INT32_MIN,
                             .aversion = INT32_MIN};
    char etag[HTTP_ETAG_MAX];
    char text[HTTP_STAT_MAX];

    http_etag_changed(OP_SET, &stat, etag);
    assert_string_equal(etag, "\"dffffffffffffffff.-7\"");
    http_stat_text(&stat, text);
    assert_non_null(strstr(text, "mzxid=0x0, ctime=-9223372036854775808, "));
    assert_true(http_etag_matches(slice_str("\"a\", W/\"b\""), "\"b\""));
    assert_true(http_etag_matches(slice_str("\"a,b\""), "\"a,b\""));
    assert_false(http_etag_matches(slice_str("\"a\""), "\"b\""));
    assert_true(http_etag_matches(slice_str("*"), "\"b\""));
}

TEST(hosts_and_origins_are_matched)
{
    struct config_clients limits = {.client_address = "127.0.0.1",
                                    .allowed_hosts = "a.test, b.test",
                                    .allowed_origins = "https://o.test"};
    struct http_names names;
    const char *good[] = {"localhost", "LOCALHOST:1", "127.0.0.1:99", "[::1]:5", "[::1]", "b.test"};
    const char *bad[] = {"",         ":80",
                         "[::1",     "evil",
                         "10.0.0.1", "a.test.evil",
                         "[]",       "a.test, b.test",
                         "127.evil", "127.0.0.1.evil:80",
                         "127."};

    http_names_init(&names, &limits);
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(http_host_allowed(&names, slice_str(good[i])));
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(http_host_allowed(&names, slice_str(bad[i])));
    }
    assert_true(http_origin_listed(&names, slice_str("https://o.test")));
    assert_false(http_origin_listed(&names, slice_str("http://o.test")));
    assert_true(http_origin_is_host(slice_str("http://h:1"), slice_str("h:1")));
    assert_false(http_origin_is_host(slice_str("http://h:2"), slice_str("h:1")));
    assert_false(http_origin_is_host(slice_str("null"), slice_str("")));
    (void)snprintf(limits.client_address, sizeof(limits.client_address), "0.0.0.0");
    http_names_init(&names, &limits);
    assert_true(http_host_allowed(&names, slice_str("10.0.0.1:80")));
}

/* A page from any replica may contact any other. */
TEST(pages_of_any_replica_have_an_accepted_origin)
{
    struct slice clients = slice_str("127.0.0.1:9998 c.test:9999 [2001:db8::1]:80 bad ");
    const char *ours[] = {"http://127.0.0.1:9998", "http://localhost:9998",
                          "http://[::1]:9998",     "https://c.test:9999",
                          "http://C.TEST:9999",    "http://[2001:db8::1]:80"};
    const char *others[] = {"http://127.0.0.1:9997",
                            "http://c.test:9998",
                            "http://c.test",
                            "http://c.test.evil:9999",
                            "ftp://c.test:9999",
                            "null",
                            "",
                            "http://",
                            "http://127.0.0.1.evil:9998",
                            "http://localhost.evil:9998",
                            "http://127.0.0.1:9998.evil"};

    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
        assert_true(http_origin_is_replica(clients, slice_str(ours[i])));
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_false(http_origin_is_replica(clients, slice_str(others[i])));
    }
    assert_false(http_origin_is_replica(slice_str(""), slice_str("http://127.0.0.1:9998")));
}

TEST(gzip_needs_an_accept_encoding)
{
    const char *takes[] = {"gzip", "gzip, deflate, br", "br;q=1.0, GZIP;q=0.1", "*", "x, *;q=0.5"};
    const char *refuses[] = {"", "identity", "br", "gzip;q=0", "*, gzip;q=0", "*;q=0", "gzipped"};

    for (size_t i = 0; i < sizeof(takes) / sizeof(takes[0]); i++) {
        assert_true(http_head_takes_gzip(slice_str(takes[i])));
    }
    for (size_t i = 0; i < sizeof(refuses) / sizeof(refuses[0]); i++) {
        assert_false(http_head_takes_gzip(slice_str(refuses[i])));
    }
}

/* The other replicas redirect clients here by that name. */
TEST(the_advertised_name_is_an_allowed_host)
{
    struct config_clients limits = {.client_address = "127.0.0.1",
                                    .advertise_client = "c.test:9998"};
    struct http_names names;

    http_names_init(&names, &limits);
    assert_true(http_host_allowed(&names, slice_str("C.test:9998")));
    assert_true(http_host_allowed(&names, slice_str("c.test"))); /* As a proxy may send it. */
    assert_false(http_host_allowed(&names, slice_str("c.test.evil:9998")));
    assert_false(http_host_allowed(&names, slice_str("9998")));
    limits.advertise_client[0] = '\0';
    http_names_init(&names, &limits);
    assert_false(http_host_allowed(&names, slice_str("c.test:9998")));
    assert_false(http_host_allowed(&names, slice_str("")));
}
