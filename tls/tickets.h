/*
 * tickets.h - the keys that seal session tickets.
 *
 * A ticket lets a client resume its session without a signature of this replica. The keys are
 * random, kept in memory only, and replaced every TLS_TICKET_PERIOD_MS; the previous key still
 * opens tickets for one more period. So a stolen key opens tickets of at most two periods, and
 * TLS 1.3 connections stay secret even then, because a resumption exchanges fresh keys. Any thread.
 */
#ifndef TLS_TICKETS_H
#define TLS_TICKETS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    TLS_TICKET_PERIOD_MS = 12 * 3600 * 1000,
    TLS_TICKET_NAME_LEN = 16,
    TLS_TICKET_SECRET_LEN = 32
};

struct tls_ticket_key {
    uint8_t name[TLS_TICKET_NAME_LEN]; /* In the ticket, to recognize the key. */
    uint8_t cipher[TLS_TICKET_SECRET_LEN];
    uint8_t mac[TLS_TICKET_SECRET_LEN];
};

struct tls_tickets {
    pthread_mutex_t mutex;
    struct tls_ticket_key current;
    struct tls_ticket_key previous;
    bool has_previous;
    uint64_t since_ms; /* When `current` was made, as os_now_ms. */
};

void tls_tickets_init(struct tls_tickets *tickets, uint64_t now_ms);
void tls_tickets_release(struct tls_tickets *tickets);

/* Replaces the keys whose period is over at `now_ms`. */
void tls_tickets_turn(struct tls_tickets *tickets, uint64_t now_ms);

struct ssl_ctx_st;

/* Makes a context seal and open its tickets with these keys, which must outlive the context. */
void tls_tickets_use(struct tls_tickets *tickets, struct ssl_ctx_st *ctx);

#endif
