/*
 * shares.h - how the places for handshakes are shared by the addresses of clients: whose turn it
 * is, and which handshake gives up its place. One thread.
 */
#ifndef TLS_SHARES_H
#define TLS_SHARES_H

#include "base/list.h"
#include "base/map.h"

#include <stdbool.h>

struct tls_shares {
    struct map addresses;  /* Of struct address, by key. */
    struct list turns;     /* The addresses with waiting ones; the first is the next. */
    struct list holders;   /* The addresses with places. */
    uint64_t holder_count; /* Of `holders`. */
    uint64_t count;        /* Of places that are taken. */
};

/* A handshake; part of the caller's. */
struct tls_shares_one {
    struct list node;
    struct tls_shares_address *address;
    uint64_t patient_ms; /* Holds its place until then. */
    bool held;           /* Has a place. */
};

void tls_shares_init(struct tls_shares *shares);
void tls_shares_release(struct tls_shares *shares); /* All must have left. */

/* A handshake begins to wait for a place. */
void tls_shares_wait(struct tls_shares *shares, struct tls_shares_one *one, uint64_t address_key);

/* The one whose turn it is; it gets a place until `patient_ms` at least. NULL: none waits. */
struct tls_shares_one *tls_shares_next(struct tls_shares *shares);
void tls_shares_hold(struct tls_shares *shares, struct tls_shares_one *one, uint64_t patient_ms);

/* Lengthens the time of one that has a place. */
void tls_shares_extend(struct tls_shares_one *one, uint64_t patient_ms);

/* Returns the one that must give up its place for a waiting one; NULL: none now. */
struct tls_shares_one *tls_shares_weakest(struct tls_shares *shares, uint64_t now_ms);

/* A handshake has ended, or does not wait any more. */
void tls_shares_leave(struct tls_shares *shares, struct tls_shares_one *one);

#endif
