/*
 * inlet.h - what the library reads from a connection passes here first.
 *
 * The library parses leniently and refuses with pages of its own, and it reads sockets itself, with
 * recv() and nothing else. This module defines recv() for the whole process: the dynamic linker
 * binds the library's calls to it. For sockets that are attached the bytes are judged (framing.h)
 * before the library gets them; for all others it is the plain system call. So a head reaches the
 * library only when it is complete and correct. The first bytes that are not correct are replaced
 * by one request that the handler recognizes and answers with the verdict, so the answer comes
 * behind those to earlier requests, once. If the library ever reads in another way,
 * http_inlet_begin fails an assertion with the first request: nothing passes unseen.
 *
 * Owner: the library's thread that serves the connection, except for the table of descriptors.
 */
#ifndef HTTP_INLET_H
#define HTTP_INLET_H

#include "base/buf.h"
#include "http/framing.h"

enum {
    HTTP_INLET_FDS_MAX = 1 << 21 /* Larger descriptors are not accepted. */
};

enum http_inlet_state {
    HTTP_INLET_HEAD,
    HTTP_INLET_LENGTH,
    HTTP_INLET_CHUNKS,
    HTTP_INLET_REFUSED /* What comes is thrown away. */
};

struct http_inlet {
    enum http_inlet_state state;
    size_t head_max;
    uint64_t left; /* Bytes of the body. */
    struct http_chunks chunks;
    struct http_verdict verdict; /* HTTP_INLET_REFUSED: why. */
    uint64_t heads_in;           /* Given to the library. */
    uint64_t heads_begun;        /* That the library has begun to handle. */
    struct buf held;             /* Bytes that the library has not got: `ready`, then a part of a
                                    head. Empty but for heads that come in pieces. */
    size_t ready;
    /* The first part of a head is here; the verdict was found in the middle of a request that the
     * library handles already. */
    void (*on_part)(struct http_inlet *inlet);
    void (*on_refused)(struct http_inlet *inlet);
};

void http_inlet_init(struct http_inlet *inlet, size_t head_max);
void http_inlet_release(struct http_inlet *inlet);

/* From now on reads of `fd` pass through it; until the detach, before the close. */
void http_inlet_attach(struct http_inlet *inlet, int fd);
void http_inlet_detach(struct http_inlet *inlet, int fd);

/* The library begins with a request. */
void http_inlet_begin(struct http_inlet *inlet);

/* The request begun last stands for bytes that are refused: `verdict` is its answer. */
bool http_inlet_refuses(const struct http_inlet *inlet);

/* A part of a head is here. */
static inline bool http_inlet_has_part(const struct http_inlet *inlet)
{
    return inlet->held.len > 0;
}

#endif
