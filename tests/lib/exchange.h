/*
 * exchange.h - records the requests of test clients and the answers to them, for the tests of the
 * contract.
 *
 * Nothing is recorded unless the environment names a file (ZABRA_EXCHANGES_FILE). The file is
 * emptied first; then each exchange is a line of JSON. Only a few exchanges of each kind are
 * recorded, so that a test with millions of calls does not fill the file. Any thread.
 */
#ifndef TESTS_LIB_EXCHANGE_H
#define TESTS_LIB_EXCHANGE_H

#include "base/slice.h"

enum {
    EXCHANGE_EACH_MAX = 24,    /* Exchanges of one kind. */
    EXCHANGE_KINDS_MAX = 4096, /* Kinds in one program. */
    EXCHANGE_BYTES_MAX = 128 << 10,
    EXCHANGE_FLIGHT = 1 << 14, /* Newest requests with a known operation; a power of two. */
    EXCHANGE_OPS_MAX = 64
};

/* False: nothing is recorded, and nothing needs to be prepared. */
bool exchange_on(void);

struct exchange {
    const char *method;
    const char *target;
    const char *headers; /* Of the request, a line each; NULL: none. */
    const char *body;    /* NULL: none. */
    struct slice head;   /* Of the answer, from the status line on. */
    struct slice answer; /* Its body; empty for a stream. */
    bool stream;
};

/* One request and its answer. */
void exchange_http(const struct exchange *exchange);

/* One event of a stream: its object, and for server-sent events its name and id (else NULL). */
void exchange_event(const char *name, const char *id, const char *object);

/* The state of one socket. */
struct exchange_socket {
    uint64_t number; /* 0: none yet. */
    uint8_t ops[EXCHANGE_FLIGHT];
};

void exchange_sent(struct exchange_socket *socket, struct slice text);
void exchange_received(struct exchange_socket *socket, struct slice text);
void exchange_closed(uint32_t code);

#endif
