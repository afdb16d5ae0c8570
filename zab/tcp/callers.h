/*
 * callers.h - limits how many handshakes of TLS the callers of the peer port get, by their address.
 *
 * With a certificate a handshake costs up to a millisecond of the core thread, and a caller
 * nothing. Each address gets some per second. Addresses at which no peer has been seen also share a
 * total: one for the first handshake of an address, another one for all that follow, so that an
 * attacker with few addresses takes nothing from a peer that calls from a new one.
 *
 * Pure: the caller gives the time. Any thread.
 */
#ifndef ZAB_TCP_CALLERS_H
#define ZAB_TCP_CALLERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum {
    CALLERS_PLACES = 64,      /* Addresses that are remembered. */
    CALLERS_PER_S = 32,       /* Handshakes of one address, */
    CALLERS_BURST = 64,       /* and how many may come at once. */
    CALLERS_ALL_PER_S = 128,  /* Handshakes of all unknown addresses; twice: see above. */
    CALLERS_FRESH_MS = 10000, /* A handshake after this pause is a first one again. */
};

/* An IPv4 address, or the first 64 bits of an IPv6 address: one machine may have all the others. */
struct caller {
    uint8_t bytes[8];
};

/* A rate of permits. */
struct callers_rate {
    uint64_t due_us; /* When the permits given so far will have been earned. */
};

struct callers {
    struct {
        struct caller caller;
        uint64_t seen_ms; /* 0: unused. */
        struct callers_rate rate;
    } places[CALLERS_PLACES];

    struct callers_rate firsts;
    struct callers_rate others;
};

/* Returns the address without its port; zeros for another family. */
struct caller caller_of(const struct sockaddr_storage *address);

bool caller_eq(const struct caller *a, const struct caller *b);

/* Whether this caller gets a handshake at the time `now_ms`, which is above 0. `known`: a peer has
 * this address. */
bool callers_admit(struct callers *callers, const struct caller *caller, bool known,
                   uint64_t now_ms);

#endif
