/*
 * stamp.h - the wall clock time that a transaction shows: ctime and mtime.
 *
 * Any clock may be wrong, the leader's as well. So the leader trusts what a majority of all voters'
 * clocks has reached, and its own clock only within STAMP_SLACK_MS of that. Heartbeats carry the
 * clocks. Stamps do not go back while they are near that time: where clocks are corrected by less
 * than STAMP_HOLD_MS they stand still. When they are further ahead, the clocks of a majority were
 * wrong before and have been set right: stamps step back once. A heartbeat that was late is no
 * reason for that: how late it may be at the most is known. Nothing but people reads stamps, so
 * that does no harm. Pure; core thread.
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
    STEADY_JUMP_MS = 1000,    /* A clock that moves by more against the monotonic one has jumped. */
    STEADY_SETTLE_MS = 60000, /* It must stay there for so long to be believed. */
};

/* The clock of a voter that votes alone: no other clock can be compared with it, so jumps are
 * noticed by the monotonic clock. */
struct steady {
    bool known;
    int64_t ahead_ms; /* Of the monotonic clock, as believed. */
    bool jumped;
    int64_t jump_ahead_ms; /* Where it has jumped to ... */
    uint64_t jump_ms;      /* ... and when; monotonic. */
};

/* The wall clock, unless it has just jumped: then what it would have been without. */
int64_t steady_read(struct steady *steady, uint64_t now_ms, int64_t wall_ms);

/* Within what a stamp can be; 0 is no clock. */
int64_t stamp_clamp(int64_t wall_ms);

/* The latest time that `needed` of the clocks have reached; sorts them. A clock that has not been
 * heard of is 0. */
int64_t stamp_reached(int64_t *clocks_ms, size_t count, size_t needed);

/* What a majority's clocks have reached, as far as heartbeats tell: they take time to arrive. */
struct reached {
    int64_t least_ms; /* Certainly; 0: too few clocks are known. */
    int64_t most_ms;
};

/* The next stamp, after one of `last_ms`. */
int64_t stamp_next(int64_t last_ms, int64_t wall_ms, const struct reached *reached);

#endif
