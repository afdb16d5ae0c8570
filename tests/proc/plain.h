/*
 * plain.h - one HTTP/1.1 connection over a plain socket, for tests that must know which connection
 * it was and that nothing was ever sent twice: libraries repeat a request by themselves when a
 * kept-alive connection turns out to be dead.
 *
 * Calls wait at most as long as they are told, and never fail the test by themselves. One thread
 * uses a connection.
 */
#ifndef TESTS_PROC_PLAIN_H
#define TESTS_PROC_PLAIN_H

#include "base/buf.h"

#include <jansson.h>

enum {
    PLAIN_HEAD_MAX = 64 << 10,
    PLAIN_BYTES_MAX = 64 << 20
};

struct plain;

struct plain_answer {
    long status; /* 0: none. */
    bool sent;   /* The request may have reached the server. */
    struct buf head;
    struct buf body;
};

void plain_answer_init(struct plain_answer *answer);
void plain_answer_release(struct plain_answer *answer);

/* Connects to loopback; NULL when nobody answers in time. */
struct plain *plain_open(uint16_t port, uint32_t timeout_ms);
void plain_close(struct plain *plain); /* Accepts NULL. */

/* False once an answer failed to come, or the server has said that it closes. */
bool plain_is_open(const struct plain *plain);

struct plain_call {
    const char *method;
    const char *target;
    const char *headers; /* Each ended by CR LF; NULL: none. */
    const char *body;    /* NULL: none. */
};

/* Returns the status. */
long plain_do(struct plain *plain, const struct plain_call *call, uint32_t timeout_ms,
              struct plain_answer *answer);

/* A GET whose answer has no end: returns the status, with the body still to come. */
long plain_stream(struct plain *plain, const char *target, const char *headers, uint32_t timeout_ms,
                  struct plain_answer *answer);

/* The next line of a stream without its end, in memory of the connection's that the next call
 * overwrites; NULL when none came in time, or the stream has ended. */
const char *plain_line(struct plain *plain, uint32_t timeout_ms);

/* The value of a header, until the next call; NULL: absent. */
const char *plain_header(struct plain_answer *answer, const char *name);

/* The body as JSON (the caller drops it with json_decref), or NULL. */
json_t *plain_json(const struct plain_answer *answer);

#endif
