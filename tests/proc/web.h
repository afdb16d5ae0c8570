/*
 * web.h - a client for tests: one keep-alive handle of libcurl per thread, one call, one reply.
 *
 * A call never fails the test by itself: a missing answer is status 0, which tests of crashes
 * expect.
 */
#ifndef TESTS_PROC_WEB_H
#define TESTS_PROC_WEB_H

#include "base/buf.h"

#include <jansson.h>

enum {
    WEB_TIMEOUT_MS = 60000,
    WEB_BODY_MAX = 64 << 20,
    WEB_KEY_LEN = 36
};

struct web_call {
    const char *method; /* NULL: GET. */
    uint16_t port;
    const char *path;    /* Including the query. */
    const char *body;    /* NULL: none; sent as application/octet-stream. */
    const char *headers; /* Additional ones, separated by line feeds; NULL: none. */
    long timeout_ms;     /* 0: WEB_TIMEOUT_MS. */
    bool fresh;          /* On a new connection. */
};

struct web_reply {
    long status;     /* 0: no answer. */
    bool refused;    /* The connection was refused. */
    const char *why; /* Reason of a missing answer, or NULL. */
    struct buf headers;
    struct buf body;
    uint64_t took_ms;
};

struct web;

/* Call once per process, before any thread is started. */
void web_setup(void);

struct web *web_open(void);
void web_close(struct web *web);

/* Returns the status and overwrites the reply, so one is enough for many calls. */
long web_do(struct web *web, const struct web_call *call, struct web_reply *reply);

void web_reply_init(struct web_reply *reply);
void web_reply_release(struct web_reply *reply);

/* The value of a header in a block of lines, in a buffer that the thread's next call overwrites;
 * NULL: absent. */
const char *web_header_of(const char *headers, const char *name);
const char *web_header(struct web_reply *reply, const char *name);

/* A new Idempotency-Key: a random UUID of version 4. */
void web_make_key(char ret_key[WEB_KEY_LEN + 1]);

/* The body as C string. */
const char *web_text(struct web_reply *reply);

/* The body as JSON (the caller drops it with json_decref), or NULL. */
json_t *web_json(struct web_reply *reply);

#endif
