/*
 * network.h - the network between the replicas of an ensemble: every connection between two
 * replicas passes through this program, and each direction of each pair can be blocked, delayed and
 * limited.
 *
 * A pair of replicas has one connection, which the replica with the larger id opens (zab/tcp); it
 * finds the other one at a port of this program. A blocked direction loses no bytes and delivers
 * none, as TCP above a network that drops packets: bytes wait in a bounded queue, then in the
 * sender, until the direction is open again, and so does the news that the sender has closed. While
 * one direction is blocked no new connection reaches the other replica: a handshake needs both.
 *
 * One thread moves the bytes. All calls come from one other thread.
 */
#ifndef TESTS_PROC_NETWORK_H
#define TESTS_PROC_NETWORK_H

#include "base/thread.h"
#include "tests/proc/ensemble.h"

#include <stdatomic.h>

enum {
    NETWORK_PAIRS_MAX = ENSEMBLE_MAX * (ENSEMBLE_MAX - 1) / 2,
    NETWORK_TUNNELS_MAX = 8, /* Connections of one pair, most of them dying. */
    NETWORK_QUEUE_BYTES = 256 << 10,
    NETWORK_PIECES_MAX = 256
};

/* What one direction of a pair is like. */
struct network_quality {
    bool blocked;
    uint32_t delay_ms;
    uint32_t bytes_per_s; /* 0: no limit. */
};

/* Bytes on their way in one direction of one connection. */
struct network_queue {
    uint8_t bytes[NETWORK_QUEUE_BYTES]; /* A ring. */
    size_t head;
    size_t len;

    struct {
        size_t len;
        uint64_t due_us;
    } pieces[NETWORK_PIECES_MAX]; /* A ring: what was read together arrives together. */

    uint32_t piece_head;
    uint32_t piece_count;
    uint64_t last_due_us;
    bool ended; /* The sender has closed. */
};

/* One connection. Side 0 is the replica that opened it. */
struct network_tunnel {
    int fds[2]; /* Side 1: -1 until it is dialed. */
    bool connecting;
    uint64_t number;                 /* Grows; 0: unused. */
    struct network_queue *queues[2]; /* By the side that sends. */
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
    /* By sender and receiver. */
    _Atomic bool blocked[ENSEMBLE_MAX][ENSEMBLE_MAX];
    _Atomic uint32_t delay_ms[ENSEMBLE_MAX][ENSEMBLE_MAX];
    _Atomic uint32_t bytes_per_s[ENSEMBLE_MAX][ENSEMBLE_MAX];
    uint64_t tunnels; /* Opened so far. */
    struct thread thread;
    _Atomic bool stopping;
    _Atomic uint64_t carried; /* Bytes. */
};

/* Between ensemble_open and the first ensemble_start: the replicas' configurations lead through it
 * from then on. */
void network_start(struct network *network, struct ensemble *ensemble);
void network_stop(struct network *network);

void network_set(struct network *network, uint32_t from, uint32_t to,
                 const struct network_quality *quality);

/* Resets the connections of the pair. */
void network_cut(struct network *network, uint32_t one, uint32_t other);

#endif
