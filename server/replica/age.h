/*
 * age.h - the age of the ensemble: for how many milliseconds a leader has led, without a wall
 * clock.
 *
 * Idempotency keys, TTL and container znodes and admissions of disks expire by it. It satisfies two
 * rules: it never falls from one transaction to the next, and between two transactions it grows by
 * no more than the time that has passed, so that nothing expires too early.
 *
 * The leader continues from the age of its newest transaction and adds the time for which it leads,
 * by its monotonic clock. That transaction may be old, so heartbeats carry the age as well. An age
 * from a heartbeat is valid only until a later epoch is known, because the leader of that epoch may
 * not have received it, and has continued from a lower age. Time without a leader does not count.
 * Pure; core thread.
 */
#ifndef SERVER_AGE_H
#define SERVER_AGE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    AGE_LATE_MS = 5000 /* The first heartbeat may have been so late. */
};

struct age {
    int64_t seen_ms;  /* Highest of all transactions and admissions that this replica has. */
    int64_t heard_ms; /* From heartbeats of the leader of `epoch`; 0: none. */
    int64_t line_ms;  /* Bounds later heartbeats: the age was this ... */
    uint64_t line_at; /* ... at this monotonic time of this replica. */
    uint32_t epoch;   /* The current one. */
    bool own;         /* This replica is to lead that epoch, or the next one. */
    bool runs;        /* It leads: the age was `base_ms` at `since_ms`, and counts from there. */
    int64_t base_ms;
    uint64_t since_ms; /* Monotonic. */
};

/* Of a transaction, a snapshot, or an admission in the configuration. */
void age_seen(struct age *age, int64_t age_ms);

/* A heartbeat of the leader of `epoch` carries this age; ignored unless that is the current epoch.
 * After the first heartbeat, or a later transaction, the age grows no faster than the time passes
 * on this replica. */
void age_heard(struct age *age, uint32_t epoch, int64_t age_ms, uint64_t now_ms);

/* To be called in each step, and when the role changes. `epoch` is that of the log's end. `own`:
 * this replica is elected to lead, in `epoch` or in the one that it is about to begin. `leads`: it
 * leads and has applied all records before `epoch`. */
void age_turn(struct age *age, uint32_t epoch, bool own, bool leads, uint64_t now_ms);

/* The age now, as far as this replica knows; a leader's next transaction carries it. */
int64_t age_now(const struct age *age, uint64_t now_ms);

#endif
