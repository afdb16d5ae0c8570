/*
 * proxy.h - a faulty way to a replica: what clients ask arrives, but some answers never come back.
 *
 * The worst thing that a network does to a write: it is done, and its client cannot know. An answer
 * that is to be lost is read from the replica whole and thrown away, then the client's connection
 * is closed. One thread and at most PROXY_CONNECTIONS connections.
 *
 * proxy_orphan leaves both ends of each connection as the reboot of a machine would: what is sent
 * is acknowledged and goes nowhere, and the end of one side is not told to the other.
 */
#ifndef TESTS_PROC_PROXY_H
#define TESTS_PROC_PROXY_H

#include "base/rng.h"
#include "base/thread.h"

#include <stdatomic.h>
#include <stdbool.h>

enum {
    PROXY_CONNECTIONS = 64,
    PROXY_BYTES = 65536 /* Of an answer that is looked at in one piece. */
};

struct proxy_link {
    int client; /* -1: unused. */
    int server;
    bool asked;  /* The client has sent something since the last answer. */
    bool orphan; /* What comes is thrown away. */
    bool client_ended;
    bool server_ended;
};

struct proxy {
    uint16_t port;         /* Where it listens. */
    uint16_t target;       /* Port of the replica. */
    uint32_t drop_percent; /* Of the answers. */
    int listen_fd;
    struct thread thread;
    struct rng rng;
    struct proxy_link links[PROXY_CONNECTIONS];
    uint8_t bytes[PROXY_BYTES];
    _Atomic bool stopping;
    _Atomic bool deaf; /* Nothing comes back from the target, and what is sent to it arrives. */
    _Atomic bool orphaning; /* Set by proxy_orphan, cleared by the thread. */
    _Atomic uint64_t passed;
    _Atomic uint64_t dropped;
};

void proxy_start(struct proxy *proxy, uint16_t target, uint32_t drop_percent, uint64_t seed);
void proxy_stop(struct proxy *proxy);

/* The connections that exist lead nowhere from now on; new ones pass. */
void proxy_orphan(struct proxy *proxy);

#endif
