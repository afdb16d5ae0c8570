/*
 * shaker.h - one thread that makes the handshakes of clients, so that no other thread pays for
 * them.
 *
 * The acceptor gives a connection whose first byte announces TLS, and gets it back through `done`
 * when the handshake is complete or has failed. At most `most` handshakes run at a time; further
 * connections wait for a place, and the addresses take turns. Waiting connections are bounded by
 * the limits of connections.
 *
 * While some wait, a running handshake gives up its place if it has not been completed in its time:
 * TLS_HELLO_MS until the hello of the client is complete, TLS_FLIGHT_MS from the server's answer
 * on. The bytes that the client sends meanwhile do not lengthen this, so neither half handshakes
 * nor those that arrive byte by byte keep out others. It is one of the address that has the most
 * places, among those that have at least an equal share; so a slow client of another address keeps
 * its place.
 */
#ifndef TLS_SHAKER_H
#define TLS_SHAKER_H

#include "tls/current.h"
#include "tls/shares.h"
#include "tls/socket.h"

#include "base/list.h"
#include "base/loop.h"
#include "base/mailbox.h"

#include <stdatomic.h>

enum {
    TLS_HELLO_MS = 250,
    TLS_FLIGHT_MS = 1000
};

/* One handshake; part of the caller's connection. */
struct tls_shake {
    struct list node; /* In the mailboxes, and in `waiting` or `running` of the thread. */
    int fd;
    uint64_t deadline_ms; /* As os_now_ms. */
    uint64_t address_key;
    _Atomic int cut; /* An enum tls_failure: if the handshake fails, the caller is the cause. */
    /* The result. */
    struct tls_socket *socket; /* Complete, not attached; NULL: failed. The receiver owns it. */
    enum tls_failure failure;
    char detail[TLS_DETAIL_MAX];
    /* For the thread. */
    struct tls_shaker *shaker;
    struct tls_socket *running;
    struct loop_watch watch;
    uint64_t begun_us;
    bool answered; /* The hello of the client was complete. */
    struct tls_shares_one share;
};

struct tls_shaker;

/* Starts the thread. `most`: handshakes at a time. The current context must outlive the shaker. */
struct tls_shaker *tls_shaker_start(struct tls_current *current, uint32_t most);

/* Ends all handshakes, which come back through `done` as failed, and the thread. */
void tls_shaker_stop(struct tls_shaker *shaker);

/* Frees the shaker; `done` must be empty. Accepts NULL. */
void tls_shaker_free(struct tls_shaker *shaker);

/* Gives a connection, whose descriptor the shaker alone uses until it comes back. False: the shaker
 * has stopped. */
bool tls_shaker_give(struct tls_shaker *shaker, struct tls_shake *shake);

/* The connections that come back, by tls_shake.node. One thread receives them. */
struct mailbox *tls_shaker_done(struct tls_shaker *shaker);

#endif
