/*
 * head.h - the headers that a request uses, of a head that has passed http_head_check_framing.
 *
 * Values belong to libmicrohttpd ("the library") and live as long as the request.
 */
#ifndef HTTP_HEAD_H
#define HTTP_HEAD_H

#include "base/err.h"
#include "base/slice.h"
#include "http/forwarded.h"

#include <stdint.h>

/* Media types of answers. */
enum http_media {
    HTTP_MEDIA_NONE, /* No type is acceptable. */
    HTTP_MEDIA_JSON,
    HTTP_MEDIA_RAW, /* application/octet-stream. */
    HTTP_MEDIA_TEXT,
    HTTP_MEDIA_HTML,
    HTTP_MEDIA_SSE,   /* text/event-stream. */
    HTTP_MEDIA_NDJSON /* One JSON value a line. */
};

/* X(member, name, is_list). A list may be sent as several lines; only the first line is read. */
#define HTTP_HEADERS(X)                                \
    X(host, "Host", false)                             \
    X(accept, "Accept", true)                          \
    X(prefer, "Prefer", true)                          \
    X(acl, "Zk-Acl", false)                            \
    X(origin, "Origin", false)                         \
    X(expect, "Expect", false)                         \
    X(upgrade, "Upgrade", true)                        \
    X(if_match, "If-Match", false)                     \
    X(connection, "Connection", true)                  \
    X(history, "Zk-History", false)                    \
    X(session, "Zk-Session", false)                    \
    X(min_zxid, "Zk-Min-Zxid", false)                  \
    X(content_type, "Content-Type", false)             \
    X(authorization, "Authorization", false)           \
    X(last_event_id, "Last-Event-ID", false)           \
    X(if_none_match, "If-None-Match", false)           \
    X(content_length, "Content-Length", false)         \
    X(accept_encoding, "Accept-Encoding", true)        \
    X(fetch_site, "Sec-Fetch-Site", false)             \
    X(traceparent, "traceparent", true)                \
    X(content_encoding, "Content-Encoding", true)      \
    X(idempotency_key, "Idempotency-Key", false)       \
    X(socket_key, "Sec-WebSocket-Key", false)          \
    X(transfer_encoding, "Transfer-Encoding", false)   \
    X(socket_version, "Sec-WebSocket-Version", false)  \
    X(socket_protocol, "Sec-WebSocket-Protocol", true) \
    X(access_method, "Access-Control-Request-Method", false)

struct http_head {
#define X(member, name, is_list) struct slice member;
    HTTP_HEADERS(X)
#undef X
    struct http_forwarded_head *forwarded; /* Where the lines of these headers go; NULL: they are
                                              ignored. */
    const char *fault; /* A header that must be unique is given twice; NULL: no fault. */
};

/* Whether both texts are equal, ignoring case. */
bool http_equals_nocase(struct slice a, struct slice b);

/* Returns the text without blanks and tabs at both ends. Inline, because each header of each
 * request is trimmed. */
static inline struct slice http_trim(struct slice text)
{
    while (text.len > 0 && (text.data[0] == ' ' || text.data[0] == '\t')) {
        text = slice_from(text, 1);
    }
    while (text.len > 0 && (text.data[text.len - 1] == ' ' || text.data[text.len - 1] == '\t')) {
        text.len--;
    }
    return text;
}

/* Parses a decimal number of at most 18 digits; false when the text is no such number. */
bool http_number(struct slice text, uint64_t *ret_number);

/* Adds one header; blanks around the value are dropped. May set `fault`. */
void http_head_add(struct http_head *head, struct slice name, struct slice value);

/* Returns the value of a header of struct http_head by its name; `data` NULL: not given. */
struct slice http_head_get(const struct http_head *head, const char *name);

/* Whether the browser reports that the page is from another origin (another site, or this site
 * under another host or port) without naming that origin. */
bool http_head_is_cross_origin(const struct http_head *head);

/* True when a body follows; `*ret_len` is its length, or UINT64_MAX when it is chunked. */
bool http_head_body(const struct http_head *head, uint64_t *ret_len);

/* The request line without its version. */
struct http_line {
    struct slice method;
    struct slice target; /* As sent. */
};

/* Reads a complete head that has passed http_head_check_framing, with its blank line. Returns the
 * fault of `*ret_head`. Slices point into `bytes`. `forwarded`, zeroed or NULL, becomes that of
 * `*ret_head`. */
const char *http_head_read(struct slice bytes, struct http_line *ret_line,
                           struct http_head *ret_head, struct http_forwarded_head *forwarded);

/* Whether the request waits on purpose, perhaps for hours, or transfers a subtree. A wrong result
 * does no harm: it only chooses the library's daemon for the connection. */
bool http_head_waits(const struct http_line *line, const struct http_head *head);

/* Returns the best type of `offered` (preferred first, ended by HTTP_MEDIA_NONE) for the Accept
 * header; without a header, the first type. HTTP_MEDIA_NONE when no type is acceptable. */
enum http_media http_head_media(struct slice accept, const enum http_media *offered);

/* Whether the Accept-Encoding header accepts gzip, by name or by `*`. */
bool http_head_takes_gzip(struct slice accept_encoding);

/* Whether the media type without its parameters equals `type`, ignoring case. */
bool http_media_is(struct slice content_type, const char *type);

/* True when a comma-separated list has the token, ignoring case. */
bool http_list_has(struct slice list, const char *token);

/* Cuts the next element off a comma-separated list; quoted commas do not separate. False at the
 * end. */
bool http_list_next(struct slice *list, struct slice *ret_element);

#endif
