/*
 * slow.h - the log of slow requests: which they are, their phases, and how many lines.
 *
 * A request is slow when its answer was complete later than slowRequest after the whole request had
 * arrived. The time in which the client reads the answer is shown, but makes no request slow: else
 * a client that reads slowly could fill the log. A second has at most SLOW_LINES lines, and at most
 * SLOW_ADDRESS_LINES from one address, so that no client hides the slow requests of others; the
 * next line says how many were left out. Any thread.
 */
#ifndef SERVER_SLOW_H
#define SERVER_SLOW_H

#include "base/metric.h"
#include "server/process/gate.h"

#include <pthread.h>

enum {
    SLOW_LINES = 20,
    SLOW_ADDRESS_LINES = 5,
    SLOW_ADDRESSES = 64 /* Addresses share these counters by their hash. */
};

struct slow_log {
    struct metric_counter requests; /* Slow requests, logged or not. */
    struct metric_counter unlogged;
    pthread_mutex_t mutex; /* Guards the members below. */
    uint64_t second;       /* The second that `lines` and `of_address` count. */
    uint32_t lines;
    uint32_t of_address[SLOW_ADDRESSES];
    uint64_t left_out; /* Since the last line. */
};

/* In ms; they add up to the time from `begin_ms` to `end_ms`. */
struct slow_phases {
    uint64_t queued;
    uint64_t prepared; /* Of a read: to read and encode. */
    uint64_t synced;   /* 0 for reads. */
    uint64_t quorum;
    uint64_t applied;
    uint64_t written;
};

void slow_init(struct slow_log *log);
void slow_release(struct slow_log *log);

/* Pure. A write that was not answered in time has the rest of its time in the phase that it did not
 * leave. */
struct slow_phases slow_phases_of(const struct gate_slow *slow);

/* Whether a line may be written now; counts it. `ret_left_out`: how many were left out before. */
bool slow_may_log(struct slow_log *log, struct slice address, uint64_t now_ms,
                  uint64_t *ret_left_out);

/* Counts and logs a slow request. */
void slow_note(struct slow_log *log, const struct gate_slow *slow);

#endif
