/*
 * native_parts.h - the parts of bench_native: each loads the servers in its way and prints one line
 * of NAME=VALUE.
 */
#ifndef TESTS_BENCH_NATIVE_PARTS_H
#define TESTS_BENCH_NATIVE_PARTS_H

#include "tests/bench/clients.h"

enum {
    PART_PATH_BYTES = 32,
    PART_KEYS = 1000, /* Znodes that reads and writes go to. */
    PART_LIMIT_MS = 120000
};

struct part {
    uint16_t ports[CLIENTS_SERVERS_MAX];
    uint32_t servers;
    uint32_t pids[CLIENTS_SERVERS_MAX]; /* Of the servers, in the order of their ports; then of
                                           others whose processor time counts. */
    uint32_t pid_count;
    uint32_t connections;
    uint32_t window;  /* Requests of a connection without a reply. */
    uint32_t bytes;   /* Of a value. */
    uint32_t ms;      /* How long is measured. */
    uint32_t warm_ms; /* Load before that. */
    uint32_t rounds;
    uint32_t victim; /* Index of the server that is killed. */
};

/* Processor time of all servers. */
uint64_t part_cpu_ns(const struct part *part);

/* The path of znode `key`, of constant length. */
void part_path(char path[PART_PATH_BYTES], uint32_t key);

/* Reads or writes as fast as the windows allow: rate, latencies, processor time per 1,000. */
void part_rate(const struct part *part, int32_t type);

/* One-shot watchers of one znode: the time from a write until all have their event, and until all
 * have read again, with a new watch. */
void part_watchers(const struct part *part);

/* Opens many sessions at once, kills a server, and waits until all sessions are served again. */
void part_storm(const struct part *part);

/* Opens sessions at the first server, says so, and keeps them until a line comes on stdin. */
void part_idle(const struct part *part);

#endif
