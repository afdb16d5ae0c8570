/*
 * bench.h - clients that ask as fast as they are answered, and how long that takes: one thread, a
 * connection each.
 */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "base/rng.h"
#include "cli/cli.h"
#include "cli/hist.h"

#include <signal.h>

enum {
    BENCH_PERCENT = 100
};

enum bench_what {
    BENCH_READ,
    BENCH_WRITE,
    BENCH_EVENT,
    BENCH_WHATS
};

struct bench_worker;

struct bench {
    struct cli *cli;
    void *multi; /* A CURLM. */
    struct bench_worker *workers;
    int worker_count;
    int clients;
    int reads_percent;
    bool watches;
    int64_t time_ms;
    int64_t size;
    int64_t znodes;
    struct buf base; /* The znode that all is below. */
    struct buf data;
    struct rng rng;
    struct hist hists[BENCH_WHATS];
    uint64_t errors[BENCH_WHATS];
    uint64_t start_ms;
    uint64_t end_ms;
    uint64_t shown_ms;
    const volatile sig_atomic_t *stopped; /* By a signal: ends it early. */
    int missing_events;                   /* Of the last write. */
};

/* Drives the znodes z0, z1, ... below `base` (reads and writes), or watches `base` itself, for
 * `time_ms`; fills `hists`, `errors`, `start_ms` and `end_ms`. */
void bench_run(struct bench *bench);

#endif
