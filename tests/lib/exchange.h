/*
 * exchange.h - notes what the clients of tests ask and are told, for the tests of the contract.
 *
 * Only where the environment names a directory (ZABRA_EXCHANGES): one file for each program, one
 * JSON object a line, and of each kind of exchange no more than a few, so that a test that makes
 * millions of calls notes no more than another. Any thread.
 */
#ifndef TESTS_LIB_EXCHANGE_H
#define TESTS_LIB_EXCHANGE_H

#include "base/slice.h"

enum {
    EXCHANGE_EACH_MAX = 24,    /* Of one kind. */
    EXCHANGE_KINDS_MAX = 4096, /* Of a program. */
    EXCHANGE_BYTES_MAX = 128 << 10,
    EXCHANGE_FLIGHT = 1 << 14, /* Requests of a socket whose operation is known; a power of two. */
    EXCHANGE_OPS_MAX = 64
};

/* False: nothing is noted, and nothing need be prepared. */
bool exchange_on(void);

struct exchange {
    const char *method;
    const char *target;
    const char *headers; /* Of the request, a line each; NULL: none. */
    const char *body;    /* NULL: none. */
    struct slice head;   /* Of the answer, from the status line on. */
    struct slice answer; /* Its body; of a stream nothing. */
    bool stream;
};

/* One request and its answer. */
void exchange_http(const struct exchange *exchange);

/* One event of a stream: its object, and for server-sent events its name and id (else NULL). */
void exchange_event(const char *name, const char *id, const char *object);

/* What is known of a socket. */
struct exchange_socket {
    uint64_t number; /* 0: not yet. */
    uint8_t ops[EXCHANGE_FLIGHT];
};

void exchange_sent(struct exchange_socket *socket, struct slice text);
void exchange_received(struct exchange_socket *socket, struct slice text);
void exchange_closed(uint32_t code);

#endif
