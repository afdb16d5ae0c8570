/*
 * Heads of HTTP requests, as checked before the library sees them, and the values of headers. A
 * head that passes is unambiguous: one host, one length or chunks, no stray control characters.
 */
#include "http/etag.h"
#include "http/http_int.h"
#include "tests/fuzz/fuzz.h"

#include <strings.h>

static const enum http_media offered[] = {HTTP_MEDIA_JSON, HTTP_MEDIA_RAW, HTTP_MEDIA_TEXT,
                                          HTTP_MEDIA_NONE};

/* Blank lines may stand before the request line. */
static size_t blank_lines(struct slice head)
{
    size_t len = 0;

    while (len + 1 < head.len && head.data[len] == '\r' && head.data[len + 1] == '\n') {
        len += 2;
    }
    return len;
}

/* The lines after the first one, read again in the simplest way. */
static size_t add_lines(struct slice head, struct http_head *parsed, const char *counted)
{
    size_t pos = blank_lines(head);
    size_t count = 0;

    for (bool first = true; pos < head.len; first = false) {
        const uint8_t *feed = memchr(head.data + pos, '\n', head.len - pos);
        size_t end = feed ? (size_t)(feed - head.data) : head.len;
        size_t len = end - pos - (end > pos && head.data[end - 1] == '\r' ? 1 : 0);
        const uint8_t *line = head.data + pos;
        const uint8_t *colon = len > 0 ? memchr(line, ':', len) : NULL;

        pos = end + 1;
        if (first || !colon) {
            continue;
        }

        struct slice name = slice_make(line, (size_t)(colon - line));

        http_head_add(parsed, name, slice_make(colon + 1, len - name.len - 1));
        count += name.len == strlen(counted) &&
                 strncasecmp((const char *)name.data, counted, name.len) == 0;
    }
    return count;
}

static void check_values(const struct http_head *head)
{
    struct slice list = head->connection;
    struct slice element;
    uint64_t len = 0;
    size_t elements = 0;

    while (http_list_next(&list, &element)) {
        ASSERT(element.len <= head->connection.len);
        elements++;
    }
    ASSERT(elements <= head->connection.len);

    enum http_media media = http_head_media(head->accept, offered);

    ASSERT(media <= HTTP_MEDIA_TEXT);
    ASSERT(head->accept.len > 0 || media == HTTP_MEDIA_JSON);
    (void)http_etag_matches(head->if_none_match, "\"d5.1\"");
    (void)http_media_is(head->content_type, "application/json");
    (void)http_list_has(head->upgrade, "websocket");
    if (!head->fault) {
        bool has_body = http_head_body(head, &len);

        ASSERT(has_body == (len > 0));
        ASSERT(len != UINT64_MAX || head->transfer_encoding.data);
        ASSERT(!head->transfer_encoding.data || !head->content_length.data);
    }
}

static void check_host(const struct http_head *head)
{
    const struct config_clients limits = {.allowed_hosts = "example.org, zk.example.org",
                                          .allowed_origins = "https://example.org",
                                          .client_address = "127.0.0.1"};
    struct http_names names;
    struct slice plain = slice_str("example.org");

    http_names_init(&names, &limits);
    if (head->host.data) {
        (void)http_host_allowed(&names, head->host);
        (void)http_origin_listed(&names, head->origin);
        (void)http_origin_is_host(head->origin, head->host);
    }
    ASSERT(http_host_allowed(&names, plain) && !http_host_allowed(&names, slice_str("evil.org")));
}

static void check_clean(struct slice head)
{
    for (size_t i = 0; i < head.len; i++) {
        uint8_t byte = head.data[i];
        bool is_line_end = byte == '\r' || byte == '\n' || byte == '\t';

        ASSERT(byte >= 0x20 || is_line_end);
        ASSERT(byte != 0x7f);
        ASSERT(byte != '\n' || (i > 0 && head.data[i - 1] == '\r'));
    }
}

static bool fuzz_one(struct slice input)
{
    struct http_head head = {.fault = NULL};
    struct http_framing framing;

    if (http_head_check_framing(input, input.len, &framing).err != ERR_OK ||
        framing.head_len == 0) {
        return false;
    }

    struct slice bytes = slice_make(input.data, framing.head_len);

    check_clean(bytes);

    struct http_line line;
    struct http_head read;
    const char *fault = http_head_read(bytes, &line, &read, NULL);
    size_t lengths = add_lines(bytes, &head, "content-length");

    ASSERT(!head.fault || fault);
    check_values(&head);
    check_host(&head);
    ASSERT(fault || lengths <= 1);
    return !fault;
}

static void fuzz_seeds(struct fuzz_sink *sink)
{
    fuzz_seed_text(sink, "get",
                   "GET /znodes/v1/a HTTP/1.1\r\nHost: localhost:9998\r\nAccept: text/html;q=0.9, "
                   "application/octet-stream;q=0.955, */*;q=0.1\r\nIf-None-Match: W/\"d5.1\", "
                   "\"x,y\"\r\nConnection: keep-alive, close\r\n\r\n");
    fuzz_seed_text(sink, "put",
                   "PUT /znodes/v1/a?version=3 HTTP/1.1\r\nHost: example.org\r\nContent-Type: "
                   "application/json; charset=utf-8\r\nContent-Length: 17\r\nIf-Match: "
                   "\"d5.1\"\r\nIdempotency-Key: k\r\nExpect: 100-continue\r\n\r\n{\"null\":true}");
    fuzz_seed_text(sink, "chunked",
                   "POST /multi/v1 HTTP/1.1\r\nhost:[::1]:9998\r\nTransfer-Encoding:\t chunked "
                   "\r\nOrigin: http://[::1]:9998\r\nZk-Min-Zxid: 0x500000012\r\n\r\n");
    fuzz_seed_text(sink, "upgrade",
                   "GET /ws/v1 HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: "
                   "Upgrade\r\nZk-History: 9\r\nZk-Session: 1\r\n\r\n");
    fuzz_seed_text(sink, "blank-lines-first",
                   "\r\n\r\nGET http://a:1/ HTTP/1.1\r\nHost: example.org\r\n\r\n");
    fuzz_seed_text(sink, "old", "GET / HTTP/1.0\r\n\r\n");
}

FUZZ_TARGET(http_head)
