/*
 * plain.h - one HTTP/1.1 connection over a plain socket, for tests that must know the connection
 * and that no request is sent twice: libraries repeat a request by themselves when a kept-alive
 * connection turns out to be closed.
 *
 * Calls wait at most for their timeout, and never fail the test by themselves. One thread uses a
 * connection.
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

/* Connects to loopback; NULL when no server accepts in time. */
struct plain *plain_open(uint16_t port, uint32_t timeout_ms);
void plain_close(struct plain *plain); /* Accepts NULL. */

/* False after a missing answer, or after the server has announced that it closes. */
bool plain_is_open(const struct plain *plain);

struct plain_call {
    const char *method;
    const char *target;
    const char *headers; /* Each ends with CR LF; NULL: none. */
    const char *body;    /* NULL: none. */
};

/* Returns the status. */
long plain_do(struct plain *plain, const struct plain_call *call, uint32_t timeout_ms,
              struct plain_answer *answer);

/* A GET with an endless answer: returns the status; plain_line reads the body. */
long plain_stream(struct plain *plain, const char *target, const char *headers, uint32_t timeout_ms,
                  struct plain_answer *answer);

/* The next line of a stream without its line feed, in memory of the connection that the next call
 * overwrites; NULL when none arrived in time, or the stream has ended. */
const char *plain_line(struct plain *plain, uint32_t timeout_ms);

/* The value of a header, valid until the next call; NULL: absent. */
const char *plain_header(struct plain_answer *answer, const char *name);

/* The body as JSON (the caller drops it with json_decref), or NULL. */
json_t *plain_json(const struct plain_answer *answer);

#endif
