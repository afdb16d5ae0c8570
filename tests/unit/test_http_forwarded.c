/* What trusted proxies say about their clients. */
#include "base/buf.h"
#include "http/forwarded.h"
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

/* The proxies: 10.0.0.0/8 and 2001:db8:a::/48. */
static struct address_block blocks[2];
static struct http_proxies proxies;

static void setup(void)
{
    assert_true(address_block_parse(slice_str("10.0.0.0/8"), &blocks[0]));
    assert_true(address_block_parse(slice_str("2001:db8:a::/48"), &blocks[1]));
    proxies = (struct http_proxies){blocks, 2};
}

static void teardown(void)
{
}

static struct http_lines line(const char *text)
{
    return text ? (struct http_lines){.lines = {slice_str(text)}, .count = 1}
                : (struct http_lines){.count = 0};
}

/* Returns the client; NULL: the headers are refused. */
static const char *client_of(const struct http_forwarded_head *head)
{
    static struct http_forwarded found;
    const char *fault = http_forwarded_read(head, &proxies, &found);

    assert_true(!fault || strstr(fault, "roxy") || strstr(fault, "Forwarded"));
    return fault ? NULL : found.client;
}

static void check(const char *text, const char *got, const char *wanted)
{
    if ((got == NULL) != (wanted == NULL) || (got && strcmp(got, wanted) != 0)) {
        fail_msg("%s: %s, not %s", text, got ? got : "refused", wanted ? wanted : "refused");
    }
}

struct row {
    const char *text;
    const char *client; /* NULL: refused. */
};

TEST(the_client_is_the_rightmost_address_that_is_no_proxy, setup, teardown)
{
    static const struct row rows[] = {
        {"203.0.113.9", "203.0.113.9"},
        {"203.0.113.9, 10.0.0.1", "203.0.113.9"},
        {"198.51.100.1, 203.0.113.9,10.0.0.1 ,\t10.9.9.9", "203.0.113.9"},
        /* What the client sent itself does not count, whatever it is. */
        {"10.0.0.1, 203.0.113.9", "203.0.113.9"},
        {"<script>, 203.0.113.9", "203.0.113.9"},
        {"\", 203.0.113.9, 10.0.0.1", "203.0.113.9"},
        {"203.0.113.9:4711", "203.0.113.9"},
        {"203.0.113.9:4711, 10.0.0.1:80", "203.0.113.9"},
        {"2001:db8::1", "2001:db8::1"},
        {"2001:DB8:0::1, 2001:db8:a::7", "2001:db8::1"},
        {"[2001:db8::1]", "2001:db8::1"},
        {"[2001:db8::1]:4711", "2001:db8::1"},
        {"::ffff:203.0.113.9", "203.0.113.9"},
        {"unknown", "unknown"},
        {"203.0.113.9, unknown", "unknown"},
        {"203.0.113.9, unknown, 10.0.0.1", "unknown"},
        {"_hidden", "_hidden"},
        {"_a.b-c_1", "_a.b-c_1"},
        /* All are proxies: the first one asks for itself. */
        {"10.0.0.2, 10.0.0.1", "10.0.0.2"},
        {"", ""},
        {" , ", ""},
        {",203.0.113.9,", "203.0.113.9"},
        {"203.0.113.9, nonsense", NULL},
        {"nonsense, 10.0.0.1", NULL},
        {"203.0.113.9:", NULL},
        {"203.0.113.9:x", NULL},
        {"203.0.113.9:70000", NULL},
        {"203.0.113.9 10.0.0.1", NULL},
        {"203.0.113", NULL},
        {"[2001:db8::1", NULL},
        {"[2001:db8::1]4711", NULL},
        {"[203.0.113.9]", NULL},
        {"2001:db8::1:::", NULL},
        {"fe80::1%eth0", NULL},
        {"_", NULL},
        {"_a b", NULL},
        {"_a<b>", NULL},
        {"\"203.0.113.9\"", NULL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct http_forwarded_head head = {.for_lines = line(rows[i].text)};

        check(rows[i].text, client_of(&head), rows[i].client);
    }
}

TEST(forwarded_follows_its_standard, setup, teardown)
{
    static const struct row rows[] = {
        {"for=203.0.113.9", "203.0.113.9"},
        {"For=\"203.0.113.9:4711\";proto=https;by=10.0.0.1", "203.0.113.9"},
        {"for=198.51.100.1, for=203.0.113.9;proto=http, for=10.0.0.1", "203.0.113.9"},
        {"for=\"[2001:db8:cafe::17]:4711\"", "2001:db8:cafe::17"},
        {"for=\"[2001:db8:cafe::17]\"", "2001:db8:cafe::17"},
        {"for=unknown", "unknown"},
        {"for=Unknown;proto=http, for=10.0.0.1", "Unknown"},
        {"for=_mdn", "_mdn"},
        {"for=_hidden, for=_SEVKISEK", "_SEVKISEK"},
        {"for=\"203.0.113.9:_port\"", "203.0.113.9"},
        {"for=203.0.113.9 ; proto=https", "203.0.113.9"},
        {"for=203.0.113.9;secret=\"a b\";x=y", "203.0.113.9"},
        {"for=10.0.0.2;host=a, for=10.0.0.1", "10.0.0.2"},
        {"for=nonsense, for=203.0.113.9", "203.0.113.9"},
        {"", ""},
        {"for=203.0.113.9;for=10.0.0.1", NULL},
        {"for=203.0.113.9;proto=http;proto=https", NULL},
        {"for=203.0.113.9;", NULL},
        {"for", NULL},
        {"for=", NULL},
        {"for=\"\"", NULL},
        {"=203.0.113.9", NULL},
        {"for = 203.0.113.9", NULL},
        {"for=\"203.0.113.9", NULL},
        {"for=\"203.0.113.9\\\"", NULL},
        {"for=\"203.0.113.9\"x", NULL},
        {"for=203.0.113.9 for=10.0.0.1", NULL},
        {"for=[2001:db8::1]", NULL},
        {"for=2001:db8::1", NULL},
        {"for=\"2001:db8::1\"", NULL},
        {"for=203.0.113.9:4711", NULL},
        {"for=203.0.113.9;proto=ftp", NULL},
        {"for=203.0.113.9;host=\"a b\"", NULL},
        {"proto=https", NULL},
        {"for=203.0.113.9, proto=https", NULL},
        /* A client's quote cannot swallow what the proxy adds. */
        {"for=\"203.0.113.9, for=198.51.100.1", NULL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct http_forwarded_head head = {.forwarded = line(rows[i].text)};

        check(rows[i].text, client_of(&head), rows[i].client);
    }
}

/* Some proxies append to the line, others add one. */
TEST(lines_of_a_header_are_one_list, setup, teardown)
{
    struct http_forwarded_head head = {
        .for_lines = {.lines = {slice_str("198.51.100.1"), slice_str("203.0.113.9, 10.0.0.1"),
                                slice_str("10.0.0.2")},
                      .count = 3}};

    assert_string_equal(client_of(&head), "203.0.113.9");
    head.for_lines.count = 2;
    assert_string_equal(client_of(&head), "203.0.113.9");
    head.for_lines.count = 1;
    assert_string_equal(client_of(&head), "198.51.100.1");
    head.for_lines.count = HTTP_FORWARDED_LINES + 1;
    assert_null(client_of(&head));
    head = (struct http_forwarded_head){
        .forwarded = {.lines = {slice_str("for=\"198.51.100.1"), slice_str("for=203.0.113.9")},
                      .count = 2}};
    assert_null(client_of(&head));
}

/* Returns `first` and then `count` times `again`. */
static struct slice repeat(struct buf *out, const char *first, const char *again, int count)
{
    buf_clear(out);
    buf_append_str(out, first);
    for (int i = 0; i < count; i++) {
        buf_append_str(out, again);
    }
    return buf_slice(out);
}

TEST(the_elements_are_bounded, setup, teardown)
{
    struct http_forwarded_head head = {.for_lines = {.count = 1}};
    struct buf text;

    buf_init(&text, 4096);
    head.for_lines.lines[0] =
        repeat(&text, "203.0.113.9", ",10.0.0.1", HTTP_FORWARDED_ELEMENTS - 1);
    assert_string_equal(client_of(&head), "203.0.113.9");
    head.for_lines.lines[0] = repeat(&text, "203.0.113.9", ",10.0.0.1", HTTP_FORWARDED_ELEMENTS);
    assert_null(client_of(&head));
    head = (struct http_forwarded_head){.forwarded = {.count = 1}};
    head.forwarded.lines[0] = repeat(&text, "", ",for=10.0.0.1", HTTP_FORWARDED_ELEMENTS);
    assert_string_equal(client_of(&head), "10.0.0.1");
    head.forwarded.lines[0] = repeat(&text, "", ",for=10.0.0.1", HTTP_FORWARDED_ELEMENTS + 1);
    assert_null(client_of(&head));
    buf_release(&text);
}

/* A proxy that sets one of the headers may pass on the other one as its client sent it. */
TEST(both_headers_must_agree, setup, teardown)
{
    static const struct {
        const char *forwarded;
        const char *for_text;
        const char *proto;
        const char *client;
    } rows[] = {
        {"for=203.0.113.9", "203.0.113.9", NULL, "203.0.113.9"},
        {"for=203.0.113.9, for=10.0.0.1", "1.1.1.1, 203.0.113.9", NULL, "203.0.113.9"},
        {"for=203.0.113.9;proto=https", "203.0.113.9", "https", "203.0.113.9"},
        {"for=203.0.113.9", "198.51.100.1", NULL, NULL},
        {"for=unknown", "198.51.100.1", NULL, NULL},
        {"for=203.0.113.9;proto=https", "203.0.113.9", "http", NULL},
        {"for=203.0.113.9", "nonsense", NULL, NULL},
        {"nonsense", "203.0.113.9", NULL, NULL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct http_forwarded_head head = {.forwarded = line(rows[i].forwarded),
                                                 .for_lines = line(rows[i].for_text),
                                                 .proto = line(rows[i].proto)};

        check(rows[i].forwarded, client_of(&head), rows[i].client);
    }
}

static struct http_forwarded read_all(const struct http_forwarded_head *head)
{
    struct http_forwarded found;

    assert_null(http_forwarded_read(head, &proxies, &found));
    return found;
}

TEST(scheme_and_host_are_those_of_the_client, setup, teardown)
{
    struct http_forwarded_head head = {
        .forwarded = line("for=9.9.9.9;proto=http;host=evil.test, "
                          "for=203.0.113.9;proto=https;host=\"zk.example:8443\", "
                          "for=10.0.0.1;proto=http;host=inner")};
    struct http_forwarded found = read_all(&head);

    assert_true(found.has_scheme && found.is_https);
    assert_true(slice_eq(found.host, slice_str("zk.example:8443")));
    head = (struct http_forwarded_head){
        .for_lines = line("203.0.113.9"), .proto = line("https"), .host = line("zk.example")};
    found = read_all(&head);
    assert_true(found.has_scheme && found.is_https);
    assert_true(slice_eq(found.host, slice_str("zk.example")));
    head.proto = line("https, http"); /* The proxy next to this replica says http. */
    head.host = line("evil.test, zk.example");
    found = read_all(&head);
    assert_true(found.has_scheme && !found.is_https);
    assert_true(slice_eq(found.host, slice_str("zk.example")));
    head = (struct http_forwarded_head){.for_lines = line("203.0.113.9")};
    found = read_all(&head);
    assert_false(found.has_scheme);
    assert_null(found.host.data);
    head.proto = line("gopher");
    assert_null(client_of(&head));
    head.proto = line("");
    assert_null(client_of(&head));
    head.proto = line(NULL);
    head.host = line("a/b");
    assert_null(client_of(&head));
    head.host = line("");
    assert_null(client_of(&head));
}
