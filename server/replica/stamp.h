/*
 * stamp.h - the wall clock time of a transaction, which clients see as ctime and mtime.
 *
 * Any clock may be wrong, also the leader's. So the leader trusts the latest time that the clocks
 * of a majority of voters have reached, and its own clock only within STAMP_SLACK_MS of that time.
 * Heartbeats carry the clocks. When clocks are corrected by less than STAMP_HOLD_MS, stamps stand
 * still and do not go back. When stamps are further ahead, the clocks of a majority were wrong and
 * have been set right, and stamps step back once. A late heartbeat does not cause that, because its
 * largest possible delay is known. Only people read stamps, so a step back does no harm. Pure; core
 * thread.
 */
#ifndef SERVER_STAMP_H
#define SERVER_STAMP_H

#include "server/state/txn.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STAMP_MAX_MS TXN_STAMP_MAX_MS

enum {
    STAMP_SLACK_MS = 1000,
    STAMP_HOLD_MS = 10000,
    STEADY_JUMP_MS = 1000, /* A larger move against the monotonic clock is a jump. */
    STEADY_SETTLE_MS =
        60000, /* After a jump the clock is believed when it was stable for so long. */
};

/* The clock of a single voter. There is no other clock to compare it with, so the monotonic clock
 * reveals jumps. */
struct steady {
    bool known;
    int64_t ahead_ms; /* Of the monotonic clock; the value in use. */
    bool jumped;
    int64_t jump_ahead_ms; /* The value after the jump ... */
    uint64_t jump_ms;      /* ... and when; monotonic. */
};

/* The wall clock; for a while after a jump, the time without that jump. */
int64_t steady_read(struct steady *steady, uint64_t now_ms, int64_t wall_ms);

/* The nearest time that a stamp can have; 0 means no clock. */
int64_t stamp_clamp(int64_t wall_ms);

/* The latest time that `needed` of the clocks have reached; sorts them. An unknown clock is 0. */
int64_t stamp_reached(int64_t *clocks_ms, size_t count, size_t needed);

/* The latest time that a majority's clocks have reached; a range, since heartbeats take time. */
struct reached {
    int64_t least_ms; /* 0: too few clocks are known. */
    int64_t most_ms;
};

/* The next stamp, after one of `last_ms`. */
int64_t stamp_next(int64_t last_ms, int64_t wall_ms, const struct reached *reached);

#endif
