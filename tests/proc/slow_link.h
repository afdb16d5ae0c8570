/*
 * slow_link.h - a slow connection to the peer port of a replica: a limited rate towards the dialing
 * replica; bytes in transit are lost when the link breaks.
 *
 * Its buffers are small, so that the sender notices at once that its bytes are not delivered. One
 * thread and at most SLOW_LINK_CONNECTIONS connections.
 */
#ifndef TESTS_PROC_SLOW_LINK_H
#define TESTS_PROC_SLOW_LINK_H

#include "base/thread.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    SLOW_LINK_CONNECTIONS = 8,
    SLOW_LINK_PIECE = 4096 /* Forwarded at a time. */
};

struct slow_link_pair {
    int dialer; /* -1: unused. */
    int target;
};

struct slow_link {
    uint16_t port; /* Port of the link. */
    uint16_t target;
    int listen_fd;
    struct thread thread;
    struct slow_link_pair pairs[SLOW_LINK_CONNECTIONS];
    uint64_t due_us;         /* Time of the next piece towards the dialers. */
    _Atomic uint32_t rate;   /* Bytes a second towards the dialers, in sum; 0: no limit. */
    _Atomic uint64_t passed; /* Forwarded bytes towards them. */
    _Atomic bool break_now;  /* Requests that all connections are closed once. */
    _Atomic uint32_t breaks; /* How often that was done. */
    _Atomic bool stopping;
};

void slow_link_start(struct slow_link *link, uint16_t target, uint32_t rate);
void slow_link_stop(struct slow_link *link);

/* Closes all connections, and waits until that is done. */
void slow_link_break(struct slow_link *link);

#endif
