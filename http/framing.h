/*
 * framing.h - where requests begin and end in the bytes of a connection, by our own strict rules.
 *
 * The acceptor applies the rules to the first head of a connection, and the inlet (inlet.h) to each
 * head that libmicrohttpd ("the library") reads. The library has no reason to refuse a request that
 * has passed these rules. By itself the library accepts ambiguous framing (two lengths, a length
 * next to chunks, two hosts, names with blanks). A proxy in front may read such a request
 * differently, so the request is refused here and the connection ends. Pure: no I/O.
 */
#ifndef HTTP_FRAMING_H
#define HTTP_FRAMING_H

#include "base/err.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    HTTP_STATUS_VERSION = 505,     /* No value of enum err has this status. */
    HTTP_CHUNK_DIGITS_MAX = 12,    /* Digits of the size of a chunk. */
    HTTP_CHUNK_EXTRAS_MAX = 1024,  /* Bytes of all chunk extensions of a body. */
    HTTP_TRAILER_BYTES_MAX = 1024, /* Bytes of the lines after the last chunk. */
    HTTP_TARGET_PARAMS_MAX = 64,   /* Query parameters that may reach the library. */
    HTTP_ENTRY_BYTES = 64,         /* Bytes of the library's pool for each header or parameter. */
    HTTP_POOL_RESERVE_BYTES = 1536 /* Bytes of the pool for the answer's head without Location. */
};

/* Why the bytes of a request are refused; `err` ERR_OK: they are not refused. */
struct http_refusal {
    enum err err;
    uint32_t status;
    const char *detail; /* Constant. */
};

/* Returns a refusal with the HTTP status of the error. */
static inline struct http_refusal http_refusal_make(enum err err, const char *detail)
{
    return (struct http_refusal){err, (uint32_t)err_http_status(err), detail};
}

static inline struct http_refusal http_refusal_late(const char *detail)
{
    return (struct http_refusal){ERR_BAD_ARGUMENTS, 408, detail};
}

/* The length of a head, and of the body after it. */
struct http_framing {
    size_t head_len; /* Includes all blank lines; 0: the head is incomplete. */
    bool chunked;
    uint64_t body_len; /* Valid when not chunked. */
};

/* Checks bytes that start with a head, which may be incomplete: a fault is found as soon as its
 * bytes have arrived. `head_max` is maxHeadBytes. */
struct http_refusal http_head_check_framing(struct slice bytes, size_t head_max,
                                            struct http_framing *ret_framing);

/* Rewrites a complete, correct head for the library, which would otherwise keep blanks after a
 * value and copy cookies into its memory. The length does not change. */
void http_head_tidy(uint8_t *head, size_t len);

/* Returns the size of the library's memory (pool) for a connection with heads up to `head_max`:
 * 12 KiB for the default of maxHeadBytes, 8 KiB. The pool holds the text of the head, its parsed
 * headers and the head of the answer, for which a request must leave HTTP_POOL_RESERVE_BYTES.
 * `Location` is left out when it does not fit into the rest of the pool. */
size_t http_pool_bytes(size_t head_max);

/* Returns how many bytes of the pool are left when the head, with `entries` headers and
 * parameters, and HTTP_POOL_RESERVE_BYTES are subtracted. */
size_t http_pool_left(size_t head_max, size_t head_len, size_t entries);

/* The state of a chunked body. Zeroed at the start of the body. */
struct http_chunks {
    uint32_t state;
    uint32_t digits;
    uint32_t extras;     /* Bytes of extensions so far. */
    uint32_t trailers;   /* Bytes of trailers so far. */
    size_t trailers_at;  /* Start of the trailers (with line ends) in the bytes of the last call. */
    size_t trailers_len; /* Length of these trailers; the caller removes them. */
    uint64_t left;       /* Bytes left of this chunk. */
    bool over;           /* The body is complete. */
    const char *fault;   /* Constant; NULL: none. */
};

/* Takes bytes until the end of the body or a fault; returns how many were correct. */
size_t http_chunks_take(struct http_chunks *chunks, struct slice bytes);

#endif
