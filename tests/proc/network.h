/*
 * network.h - the network between the replicas of an ensemble: every connection between two
 * replicas passes through this program, and each direction of each pair can be blocked, delayed and
 * limited. The program can search the bytes for a text, and change them.
 *
 * A pair of replicas has one connection, which the replica with the larger id opens (zab/tcp), or,
 * while it looks for an ensemble, the other one. Each dials a port of this program. A blocked
 * direction loses no bytes and delivers none, like TCP on a network that drops packets: bytes wait
 * in a bounded queue, then in the sender, until the direction is open again. The sender's close
 * waits in the same way. While one direction is blocked no new connection reaches the other
 * replica, because a handshake needs both.
 *
 * One thread moves the bytes. All calls come from one other thread.
 */
#ifndef TESTS_PROC_NETWORK_H
#define TESTS_PROC_NETWORK_H

#include "base/thread.h"
#include "tests/proc/ensemble.h"

#include <stdatomic.h>

enum {
    NETWORK_PAIRS_MAX =
        ENSEMBLE_MAX * (ENSEMBLE_MAX - 1), /* Each replica has a port for each other one. */
    NETWORK_TUNNELS_MAX = 8,               /* Connections of one pair, most of them closing. */
    NETWORK_QUEUE_BYTES = 256 << 10,
    NETWORK_PIECES_MAX = 256
};

/* The quality of one direction of a pair. */
struct network_quality {
    bool blocked;
    uint32_t delay_ms;
    uint32_t bytes_per_s; /* 0: no limit. */
};

/* Bytes in transit in one direction of one connection. */
struct network_queue {
    uint8_t bytes[NETWORK_QUEUE_BYTES]; /* A ring. */
    size_t head;
    size_t len;

    struct {
        size_t len;
        uint64_t due_us;
    } pieces[NETWORK_PIECES_MAX]; /* A ring: bytes read together arrive together. */

    uint32_t piece_head;
    uint32_t piece_count;
    uint64_t last_due_us;
    bool ended; /* The sender has closed. */
};

/* One connection. Side 0 is the replica that opened it. */
struct network_tunnel {
    int fds[2]; /* Side 1: -1 until this program dials it. */
    bool connecting;
    uint64_t number;                 /* Increases; 0: unused. */
    struct network_queue *queues[2]; /* Indexed by the sending side. */
};

struct network_pair {
    uint32_t members[2]; /* Index of the replica that dials, and of the other one. */
    int listen_fd;
    uint16_t port;
    uint16_t target;
    struct network_tunnel tunnels[NETWORK_TUNNELS_MAX];
    _Atomic bool cut; /* Reset all connections. */
};

struct network {
    uint32_t pair_count;
    struct network_pair pairs[NETWORK_PAIRS_MAX];
    /* Indexed by sender and receiver. */
    _Atomic bool blocked[ENSEMBLE_MAX][ENSEMBLE_MAX];
    _Atomic uint32_t delay_ms[ENSEMBLE_MAX][ENSEMBLE_MAX];
    _Atomic uint32_t bytes_per_s[ENSEMBLE_MAX][ENSEMBLE_MAX];
    /* A text that all bytes are searched for; NULL: none. It is found within one read. */
    const char *_Atomic wanted;
    _Atomic uint32_t seen;                         /* Reads in which it was. */
    _Atomic bool flip[ENSEMBLE_MAX][ENSEMBLE_MAX]; /* Change a bit of the next bytes, once. */
    uint64_t tunnels;                              /* Opened so far. */
    struct thread thread;
    _Atomic bool stopping;
    _Atomic uint64_t carried; /* Number of bytes. */
};

/* Call between ensemble_open and the first ensemble_start: it changes the replicas' configurations
 * so that they dial this program. */
void network_start(struct network *network, struct ensemble *ensemble);
void network_stop(struct network *network);

void network_set(struct network *network, uint32_t from, uint32_t to,
                 const struct network_quality *quality);

/* Changes one bit of the next bytes that `from` sends to `to`. */
void network_flip(struct network *network, uint32_t from, uint32_t to);

/* Searches all bytes from now on for a text; network_seen returns how often it was there. */
void network_search(struct network *network, const char *text);
uint32_t network_seen(const struct network *network);

/* Resets the connections of the pair. */
void network_cut(struct network *network, uint32_t one, uint32_t other);

#endif
