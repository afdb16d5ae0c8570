/*
 * framing.h - where requests begin and end in the bytes of a connection, by our own strict rules.
 *
 * The acceptor applies them to the first head of a connection and the inlet (inlet.h) to all later
 * ones, so every head gets the same verdict. What passes leaves the library nothing to refuse by
 * itself. Pure: no I/O.
 */
#ifndef HTTP_FRAMING_H
#define HTTP_FRAMING_H

#include "base/err.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    HTTP_STATUS_VERSION = 505,     /* No symbol of enum err has it. */
    HTTP_CHUNK_DIGITS_MAX = 12,    /* Of a chunk's size. */
    HTTP_CHUNK_EXTRAS_MAX = 1024,  /* Bytes of all chunk extensions of a body. */
    HTTP_TRAILER_BYTES_MAX = 1024, /* Of the lines behind the last chunk. */
    HTTP_TARGET_PARAMS_MAX = 64,   /* Query parameters that the library may be given. */
    HTTP_ENTRY_BYTES = 64,         /* Of the library's pool, for a header or a parameter. */
    HTTP_POOL_RESERVE_BYTES = 1536 /* Of the pool, for the head of the answer without Location. */
};

/* What is wrong with a request's bytes; `err` ERR_OK: nothing. */
struct http_verdict {
    enum err err;
    uint32_t status;
    const char *detail; /* Constant. */
};

/* What follows a head. */
struct http_framing {
    size_t head_len; /* With its blank line and those before it; 0: the head is not complete. */
    bool chunked;
    uint64_t body_len; /* When not chunked. */
};

/* Bytes that start where a head does. A fault is found as early as its bytes are there. `head_max`
 * is maxHeadBytes. */
struct http_verdict http_head_judge(struct slice bytes, size_t head_max,
                                    struct http_framing *ret_framing);

/* Puts a whole head that was judged good into the form that the library needs, at the same length:
 * it takes the blanks behind a value for a part of it, and copies cookies and keeps them apart. */
void http_head_tidy(uint8_t *head, size_t len);

/* The library's memory for a connection that serves heads up to `head_max`: parsed headers need
 * room beside their text. */
size_t http_pool_bytes(size_t head_max);

/* What a head with its entries leaves of it beyond the reserve. */
size_t http_pool_left(size_t head_max, size_t head_len, size_t entries);

/* A body in chunks, as far as it has come. Zeroed at its start. */
struct http_chunks {
    uint32_t state;
    uint32_t digits;
    uint32_t extras;     /* Bytes of extensions so far. */
    uint32_t trailers;   /* Bytes of trailers so far. */
    size_t trailers_at;  /* Where trailers are among the bytes last taken, with their line ends; */
    size_t trailers_len; /* nobody needs them. */
    uint64_t left;       /* Of this chunk. */
    bool over;           /* The body is complete. */
    const char *fault;   /* Constant; NULL: none. */
};

/* Takes bytes until the end of the body or a fault; returns how many were good. */
size_t http_chunks_take(struct http_chunks *chunks, struct slice bytes);

#endif
