/*
 * inlet.h - checks the bytes of a connection before the library reads them.
 *
 * libmicrohttpd ("the library") parses leniently and refuses with pages of its own. It reads
 * sockets itself, with recv() and nothing else. This module defines recv() for the whole process:
 * the dynamic linker binds the library's calls to this function. For attached sockets recv() checks
 * the bytes (framing.h) before the library gets them; for all others recv() is the plain system
 * call. So a head reaches the library only when it is complete and correct. The first incorrect
 * bytes are replaced by one request that the handler recognizes and answers with the refusal; so
 * the refusal follows the answers to earlier requests, and is sent once. If the library ever reads
 * in another way, http_inlet_begin fails an assertion at the first request: no byte passes
 * unchecked.
 *
 * Owner: the library's thread that serves the connection; the table of descriptors is shared.
 */
#ifndef HTTP_INLET_H
#define HTTP_INLET_H

#include "tls/socket.h"

#include "base/buf.h"
#include "http/framing.h"

enum {
    HTTP_INLET_FDS_MAX = TLS_FDS_MAX /* Larger descriptors are not accepted. */
};

enum http_inlet_state {
    HTTP_INLET_HEAD,
    HTTP_INLET_LENGTH,
    HTTP_INLET_CHUNKS,
    HTTP_INLET_REFUSED /* Incoming bytes are discarded. */
};

struct http_inlet {
    enum http_inlet_state state;
    size_t head_max;
    uint64_t left; /* Bytes of the body that have not arrived yet. */
    struct http_chunks chunks;
    struct http_refusal refusal; /* The reason of HTTP_INLET_REFUSED. */
    uint64_t heads_in;           /* Heads given to the library. */
    uint64_t heads_begun;        /* Heads that the library has begun to handle. */
    struct buf held; /* Bytes that the library has not read: first checked bytes, then the start of
                        a head. Only used for heads that arrive in pieces, and for the request that
                        replaces refused bytes. */
    size_t ready;    /* The number of checked bytes in `held`. */
    /* on_part is called when a head has started to arrive, on_refused when a fault is found in the
     * middle of a request that the library already handles. */
    void (*on_part)(struct http_inlet *inlet);
    void (*on_refused)(struct http_inlet *inlet);
};

void http_inlet_init(struct http_inlet *inlet, size_t head_max);
void http_inlet_release(struct http_inlet *inlet);

/* Makes reads of `fd` pass through the inlet. The inlet must be detached before `fd` is closed. */
void http_inlet_attach(struct http_inlet *inlet, int fd);
void http_inlet_detach(struct http_inlet *inlet, int fd);

/* Notes that the library begins to handle a request. */
void http_inlet_begin(struct http_inlet *inlet);

/* Whether the request that the library began last stands for refused bytes; its answer is then
 * `refusal`. */
bool http_inlet_refuses(const struct http_inlet *inlet);

#endif
