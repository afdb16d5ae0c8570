/* clock.h - the two times that a transaction carries: the age of the ensemble, which grows only
 * while a leader leads, and a stamp, which is a wall clock time. Pure functions; core thread. */
#ifndef SERVER_CLOCK_H
#define SERVER_CLOCK_H

#include "server/state/txn.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The age of the ensemble: for how many milliseconds a leader has led, without a wall clock.
 *
 * Idempotency keys, TTL znodes and container znodes expire by this age. It also measures the time
 * between two admissions of disks (admit_again_ms). The age satisfies two rules: it never falls
 * from one transaction to the next, and between two transactions it grows by no more than the time
 * that has passed, so that nothing expires too early.
 *
 * The leader continues from the age of its newest transaction and adds the time for which it leads,
 * by its monotonic clock. That transaction may be old, and the time since would be lost, so
 * heartbeats carry the age as well. An age from a heartbeat is valid only until a later epoch is
 * known, because the leader of that later epoch may not have received the heartbeat, and then has
 * continued from a lower age. Time without a leader does not count.
 */
enum {
    /* How late the first heartbeat of a leader may arrive. The bound on the ages in later
     * heartbeats allows for this delay (see line_ms). */
    AGE_LATE_MS = 5000
};

struct age {
    int64_t seen_ms;  /* Highest age of the transactions and admissions that this replica has. */
    int64_t heard_ms; /* Age from heartbeats of the leader of `epoch`; 0: none. */
    /* The ensemble's age at the monotonic time `line_at`: from the first heartbeat of `epoch`, from
     * a higher `seen_ms`, or as counted when this replica stopped leading. An age in a heartbeat
     * counts only up to line_ms + AGE_LATE_MS + time since line_at. */
    int64_t line_ms;
    uint64_t line_at;
    uint32_t epoch; /* The current epoch. */
    bool own;       /* This replica is elected to lead `epoch` or the next epoch. */
    bool runs; /* This replica leads: the age was `base_ms` at `since_ms`, and counts from there. */
    int64_t base_ms;
    uint64_t since_ms; /* Monotonic. */
};

/* Notes the age of a transaction, a snapshot, or an admission in the configuration. */
void age_seen(struct age *age, int64_t age_ms);

/* Notes the age in a heartbeat of the leader of `epoch`; ignores the age unless `epoch` is the
 * current one. The age counts only up to a bound (see line_ms), which grows with the monotonic
 * clock of this replica. The first heartbeat sets the bound; a transaction with a higher age raises
 * the bound. */
void age_heard(struct age *age, uint32_t epoch, int64_t age_ms, uint64_t now_ms);

/* Updates epoch and role; called in each step, and when the role changes. `epoch` is the epoch of
 * the log's end. `own`: this replica is elected to lead, in `epoch` or in the epoch that it is
 * about to begin. `leads`: this replica leads and has applied all records before `epoch`. */
void age_turn(struct age *age, uint32_t epoch, bool own, bool leads, uint64_t now_ms);

/* Returns the age now, as far as this replica knows; a leader's next transaction carries it. */
int64_t age_now(const struct age *age, uint64_t now_ms);

/*
 * The stamp: the wall clock time of a transaction, which clients see as ctime and mtime.
 *
 * Any clock may be wrong, also the leader's. So the leader trusts the latest time that the clocks
 * of a majority of voters have reached, and its own clock only within STAMP_SLACK_MS of that time.
 * Heartbeats carry the clocks. When clocks are set back by less than STAMP_HOLD_MS, stamps stand
 * still until the clocks have caught up. When stamps are ahead by more, the clocks of a majority
 * were wrong and have been set right, and stamps step back once. A late heartbeat makes a clock
 * seem to be behind, but causes no step back: its largest possible delay is known and is allowed
 * for. Only people read stamps, so a step back does no harm.
 */
#define STAMP_MAX_MS TXN_STAMP_MAX_MS

enum {
    STAMP_SLACK_MS = 1000,
    STAMP_HOLD_MS = 10000,
    STEADY_JUMP_MS = 1000,    /* A larger move against the monotonic clock is a jump. */
    STEADY_SETTLE_MS = 60000, /* Stable time after a jump until the clock is believed. */
};

/* The clock of a single voter. There is no other clock to compare it with, so the monotonic clock
 * reveals jumps. */
struct steady {
    bool known;
    int64_t ahead_ms; /* Wall clock minus monotonic clock, as steady_read uses it. */
    bool jumped;
    int64_t jump_ahead_ms; /* The same difference after the jump. */
    uint64_t jump_ms;      /* Monotonic time of the jump. */
};

/* Returns the wall clock; for a while after a jump, the time without that jump. */
int64_t steady_read(struct steady *steady, uint64_t now_ms, int64_t wall_ms);

/* Returns the nearest time from 0 to STAMP_MAX_MS; 0 also means that the clock is not known. */
int64_t stamp_clamp(int64_t wall_ms);

/* Returns the latest time that `needed` of the clocks have reached; sorts the clocks. An unknown
 * clock is 0. */
int64_t stamp_reached(int64_t *clocks_ms, size_t count, size_t needed);

/* The latest time that a majority's clocks have reached; a range, because heartbeats take time. */
struct reached {
    int64_t least_ms; /* 0: too few clocks are known. */
    int64_t most_ms;
};

/* Returns the stamp that follows the stamp `last_ms`. */
int64_t stamp_next(int64_t last_ms, int64_t wall_ms, const struct reached *reached);

#endif
