/*
 * proxy.h - a faulty connection to a replica: requests arrive, but some answers are lost.
 *
 * This is the worst case for a write: it is executed, and its client does not know. The proxy reads
 * the whole answer that it loses, discards it, then closes the client's connection. One thread and
 * at most PROXY_CONNECTIONS connections.
 *
 * proxy_orphan leaves both ends of each connection as the reboot of a machine would: sent bytes are
 * acknowledged but not delivered, and neither side learns that the other has closed.
 */
#ifndef TESTS_PROC_PROXY_H
#define TESTS_PROC_PROXY_H

#include "base/rng.h"
#include "base/thread.h"

#include <stdatomic.h>
#include <stdbool.h>

enum {
    PROXY_CONNECTIONS = 64,
    PROXY_BYTES = 65536 /* Largest answer that is handled at once. */
};

struct proxy_link {
    int client; /* -1: unused. */
    int server;
    bool asked;  /* The client has sent something since the last answer. */
    bool orphan; /* Received bytes are discarded. */
    bool client_ended;
    bool server_ended;
};

struct proxy {
    uint16_t port;         /* Port of the proxy. */
    uint16_t target;       /* Port of the replica. */
    uint32_t drop_percent; /* Share of lost answers. */
    int listen_fd;
    struct thread thread;
    struct rng rng;
    struct proxy_link links[PROXY_CONNECTIONS];
    uint8_t bytes[PROXY_BYTES];
    _Atomic bool stopping;
    _Atomic bool deaf;      /* Requests reach the target, its answers are discarded. */
    _Atomic bool orphaning; /* Set by proxy_orphan, cleared by the thread. */
    _Atomic uint64_t passed;
    _Atomic uint64_t dropped;
};

void proxy_start(struct proxy *proxy, uint16_t target, uint32_t drop_percent, uint64_t seed);
void proxy_stop(struct proxy *proxy);

/* Existing connections deliver nothing from now on; new ones work. */
void proxy_orphan(struct proxy *proxy);

#endif
