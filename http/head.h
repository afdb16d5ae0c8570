/*
 * head.h - the headers that a request uses, and what is wrong with them.
 *
 * The library accepts ambiguous framing (two lengths, a length next to chunks, two hosts, names
 * with blanks). A proxy in front may read such a request differently, so it is refused and the
 * connection ends. Values belong to the library and live as long as the request.
 */
#ifndef HTTP_HEAD_H
#define HTTP_HEAD_H

#include "base/err.h"
#include "base/slice.h"

#include <stdint.h>

/* Media types of answers. */
enum http_media {
    HTTP_MEDIA_NONE, /* None that is available. */
    HTTP_MEDIA_JSON,
    HTTP_MEDIA_RAW, /* application/octet-stream. */
    HTTP_MEDIA_TEXT,
    HTTP_MEDIA_HTML,
    HTTP_MEDIA_SSE,   /* text/event-stream. */
    HTTP_MEDIA_NDJSON /* One JSON value a line. */
};

struct http_head {
    struct slice accept;
    struct slice accept_encoding;
    struct slice access_method; /* Access-Control-Request-Method. */
    struct slice acl;           /* Zk-Acl. */
    struct slice authorization;
    struct slice connection;
    struct slice content_encoding;
    struct slice content_length;
    struct slice content_type;
    struct slice expect;
    struct slice fetch_site; /* Sec-Fetch-Site. */
    struct slice host;
    struct slice idempotency_key;
    struct slice if_match;
    struct slice if_none_match;
    struct slice last_event_id;
    struct slice origin;
    struct slice prefer;
    struct slice socket_key; /* Sec-WebSocket-Key. */
    struct slice socket_protocol;
    struct slice socket_version;
    struct slice transfer_encoding;
    struct slice upgrade;
    struct slice history; /* Zk-History. */
    struct slice min_zxid;
    struct slice session;
    const char *fault; /* Why the head is ambiguous or malformed; NULL: it is correct. */
};

/* Equal, ignoring case. */
bool http_equals_nocase(struct slice a, struct slice b);

/* Without blanks and tabs at both ends. Inline, because each header of each request is trimmed. */
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

/* A decimal number of at most 18 digits. */
bool http_number(struct slice text, uint64_t *ret_number);

/* Adds one header; blanks around the value are dropped. */
void http_head_add(struct http_head *head, struct slice name, struct slice value);

/* The same for a header that the inlet has checked. */
void http_head_add_checked(struct http_head *head, struct slice name, struct slice value);

/* The value of a header of struct http_head by its name; `data` NULL: not given. */
struct slice http_head_get(const struct http_head *head, const char *name);

/* Checks that need all headers; sets `fault`. */
void http_head_finish(struct http_head *head);

/* The browser says that the page is from another origin (another site, or this site under another
 * host or port), but not from which. */
bool http_head_is_cross_origin(const struct http_head *head);

/* True when a body follows; `*ret_len` is its length, or UINT64_MAX when it is chunked. */
bool http_head_body(const struct http_head *head, uint64_t *ret_len);

/* Checks the bytes of a head that have arrived: bare line feeds, control characters and folded
 * lines are faults. Returns a constant sentence, or NULL when there is none. */
const char *http_head_lint(struct slice bytes);

/* The same for one complete line without its end. */
const char *http_line_lint(struct slice line);

/* A method or the name of a header. */
bool http_is_token(struct slice text);

/* The request line without its version. */
struct http_line {
    struct slice method;
    struct slice target; /* As sent. */
};

/* Reads a complete head that has passed the lint, with its blank line. Returns a constant sentence,
 * or NULL when there is no fault. Slices point into `bytes`. */
const char *http_head_read(struct slice bytes, struct http_line *ret_line,
                           struct http_head *ret_head);

/* The request waits on purpose, perhaps for hours, or moves a subtree. A guess is enough. */
bool http_head_waits(const struct http_line *line, const struct http_head *head);

/* The best of `offered` (preferred first, ended by HTTP_MEDIA_NONE) for the Accept header; without
 * a header the first. HTTP_MEDIA_NONE when none is acceptable. */
enum http_media http_head_media(struct slice accept, const enum http_media *offered);

/* The Accept-Encoding header accepts gzip, by its name or by `*`. */
bool http_head_takes_gzip(struct slice accept_encoding);

/* The media type without parameters equals `type`, ignoring case. */
bool http_media_is(struct slice content_type, const char *type);

/* True when a comma-separated list has the token, ignoring case. */
bool http_list_has(struct slice list, const char *token);

/* Cuts the next element off a comma-separated list; quoted commas do not separate. False at the
 * end. */
bool http_list_next(struct slice *list, struct slice *ret_element);

#endif
