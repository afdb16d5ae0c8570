/*
 * age.h - the age of the ensemble: milliseconds in which some leader led, and no wall clock.
 *
 * Keys of writes, TTL and container znodes and admissions of disks count it. It must satisfy two
 * rules. It never falls from one transaction to the next. And between two transactions it grows by
 * no more than the time that has passed, so that nothing is forgotten too early.
 *
 * The leader continues from the age of its newest transaction and adds the time in which it leads,
 * by its monotonic clock. A transaction may be old, so heartbeats carry the age as well. What a
 * replica has heard is good only until it knows of a later epoch: that epoch's leader may not have
 * heard it, and has counted on from less. Time without a leader does not count. Pure; core thread.
 */
#ifndef SERVER_AGE_H
#define SERVER_AGE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    AGE_LATE_MS = 5000 /* The heartbeat that was heard first may have been so late. */
};

struct age {
    int64_t seen_ms;   /* Highest of all transactions and admissions that this replica has. */
    int64_t heard_ms;  /* What the leader of `epoch` has said; 0: nothing. */
    int64_t line_ms;   /* Where what was heard can be checked: the age was this ... */
    uint64_t line_at;  /* ... at this time, monotonic, of this replica. */
    uint32_t epoch;    /* The current one. */
    bool own;          /* This replica is to lead that epoch, or the next one. */
    bool runs;         /* It leads: the age was `base_ms` at `since_ms`. */
    int64_t base_ms;   /* While it runs. */
    uint64_t since_ms; /* Monotonic. */
};

/* Of a transaction, a snapshot, or an admission in the configuration. */
void age_seen(struct age *age, int64_t age_ms);

/* The leader of `epoch` says it with a heartbeat; ignored unless that is the current epoch. From
 * what it says first, or what the log says since, the age grows no faster than the time passes
 * here. */
void age_heard(struct age *age, uint32_t epoch, int64_t age_ms, uint64_t now_ms);

/* To be called in each step, and when the role changes. `epoch` is that of the log's end. `own`:
 * this replica is elected to lead, in `epoch` or in the one that it is about to begin. `leads`: it
 * does, and has applied all that came before `epoch`. */
void age_turn(struct age *age, uint32_t epoch, bool own, bool leads, uint64_t now_ms);

/* The age now, as far as it is known here; a leader's next transaction has it. */
int64_t age_now(const struct age *age, uint64_t now_ms);

#endif
