/*
 * Headers of trusted proxies: lines of Forwarded, X-Forwarded-For, -Proto and -Host, one of them
 * after each line feed. Accepted clients have one form, are no trusted proxy unless all elements
 * are, and do not depend on what stands to the left of them.
 */
#include "http/forwarded.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <string.h>

static void add(struct http_lines *lines, struct slice text)
{
    if (lines->count < HTTP_FORWARDED_LINES) {
        lines->lines[lines->count] = text;
    }
    lines->count++;
}

/* The first byte of a line chooses its header. */
static struct http_forwarded_head head_of(struct slice input)
{
    struct http_forwarded_head head = {.forwarded = {.count = 0}};

    while (input.len > 0) {
        struct slice text = slice_cut(&input, '\n');
        uint8_t kind = text.len > 0 ? text.data[0] : 'x';

        text = slice_from(text, text.len > 0 ? 1 : 0);
        add(kind == 'f'   ? &head.forwarded
            : kind == 'p' ? &head.proto
            : kind == 'h' ? &head.host
                          : &head.for_lines,
            text);
    }
    return head;
}

static void check_client(const struct http_forwarded *found)
{
    struct address address;
    char text[ADDRESS_TEXT_MAX];
    struct slice client = slice_str(found->client);

    ASSERT(client.len < ADDRESS_TEXT_MAX);
    if (address_parse(client, &address)) {
        address_text(&address, text);
        ASSERT(strcmp(text, found->client) == 0);
        return;
    }
    ASSERT(client.len == 0 || client.data[0] == '_' || strcasecmp(found->client, "unknown") == 0);
    for (size_t i = 0; i < client.len; i++) {
        ASSERT(client.data[i] > ' ' && client.data[i] < 0x7f && client.data[i] != '"' &&
               client.data[i] != '<' && client.data[i] != ':');
    }
}

/* With no trusted proxy the last element alone decides; elements before it change nothing. */
static void check_left(const struct http_forwarded_head *head, const struct http_proxies *proxies,
                       const struct http_forwarded *found)
{
    struct http_forwarded_head more = *head;
    struct http_forwarded again;

    if (head->for_lines.count == 0 || head->for_lines.count >= HTTP_FORWARDED_LINES ||
        found->client[0] == '\0') {
        return;
    }
    memmove(more.for_lines.lines + 1, more.for_lines.lines,
            (HTTP_FORWARDED_LINES - 1) * sizeof(struct slice));
    more.for_lines.lines[0] = slice_str("198.51.100.77");
    more.for_lines.count++;

    const char *fault = http_forwarded_read(&more, proxies, &again);
    struct address address;
    bool all_proxies =
        address_parse(slice_str(found->client), &address) && http_proxies_have(proxies, &address);

    /* One more element may be one too many. */
    ASSERT(fault || all_proxies || strcmp(again.client, found->client) == 0);
}

static bool fuzz_one(struct slice input)
{
    static struct address_block blocks[2];
    const struct http_proxies proxies = {blocks, 2};
    struct http_forwarded_head head = head_of(input);
    struct http_forwarded found;
    bool parsed = address_block_parse(slice_str("10.0.0.0/8"), &blocks[0]) &&
                  address_block_parse(slice_str("2001:db8:a::/48"), &blocks[1]);

    ASSERT(parsed);
    if (http_forwarded_read(&head, &proxies, &found)) {
        return false;
    }
    check_client(&found);
    check_left(&head, &proxies, &found);
    ASSERT(found.host.len <= HTTP_FORWARDED_HOST_MAX);
    return true;
}

static void fuzz_seeds(struct fuzz_sink *sink)
{
    static const char plain[] = "x203.0.113.9, 10.0.0.1\nphttps\nhzk.example:8443\n";
    static const char v6[] = "x[2001:db8::1]:4711,2001:db8:a::7\n";
    static const char standard[] =
        "ffor=\"[2001:db8:cafe::17]:4711\";proto=https;host=\"zk.example\", for=10.0.0.1\n";
    static const char both[] = "ffor=203.0.113.9;proto=http\nx203.0.113.9\nphttp\n";
    static const char hidden[] = "ffor=_hidden, for=unknown\n";

    fuzz_seed(sink, "plain", slice_str(plain));
    fuzz_seed(sink, "v6", slice_str(v6));
    fuzz_seed(sink, "standard", slice_str(standard));
    fuzz_seed(sink, "both", slice_str(both));
    fuzz_seed(sink, "hidden", slice_str(hidden));
}

FUZZ_TARGET(forwarded)
