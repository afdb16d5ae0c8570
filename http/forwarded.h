/*
 * forwarded.h - what a trusted proxy says about its client: Forwarded (RFC 7239), X-Forwarded-For,
 * X-Forwarded-Proto, X-Forwarded-Host. Pure.
 *
 * A client can send these headers itself; a proxy appends to them. So the elements are read from
 * the right, as long as they name trusted proxies: the first one that does not is the client, and
 * nothing to its left counts. The caller asks only for connections of trusted proxies.
 */
#ifndef HTTP_FORWARDED_H
#define HTTP_FORWARDED_H

#include "base/address.h"

enum {
    HTTP_FORWARDED_LINES = 4,     /* Lines of one header; some proxies add a line, others append. */
    HTTP_FORWARDED_ELEMENTS = 32, /* Elements of all lines of one header that are read. */
    HTTP_FORWARDED_HOST_MAX = 255 /* Bytes of a host with its port. */
};

/* The lines of a header, in order. */
struct http_lines {
    struct slice lines[HTTP_FORWARDED_LINES];
    uint32_t count; /* May be above HTTP_FORWARDED_LINES: the lines beyond are not kept. */
};

/* The headers as sent. */
struct http_forwarded_head {
    struct http_lines forwarded;
    struct http_lines for_lines; /* X-Forwarded-For. */
    struct http_lines proto;     /* X-Forwarded-Proto. */
    struct http_lines host;      /* X-Forwarded-Host. */
};

/* The proxies whose headers count. */
struct http_proxies {
    const struct address_block *blocks;
    uint32_t count;
};

struct http_forwarded {
    /* The client's address; or, if its proxy hides it, the identifier that it gives instead
     * ("unknown", "_abc"), which matches no ACL of the scheme ip. "": the headers name none. */
    char client[ADDRESS_TEXT_MAX];
    bool is_present; /* The proxy has sent at least one of the headers, also with an empty value. */
    bool has_scheme;
    bool is_https;
    struct slice host; /* Of the request as the client sent it; `data` NULL: not given. */
};

bool http_proxies_have(const struct http_proxies *proxies, const struct address *address);

/* Reads the headers of a request from a trusted proxy. Returns NULL, or a constant sentence about
 * what is wrong: the headers are malformed, too long, or contradict each other. */
const char *http_forwarded_read(const struct http_forwarded_head *head,
                                const struct http_proxies *proxies,
                                struct http_forwarded *ret_forwarded);

#endif
