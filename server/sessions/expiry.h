/*
 * expiry.h - by when the leader must have heard of each session, and which ones are over.
 *
 * The rule that decides everything: silence counts only where somebody has listened. Time in which
 * this process stood still does not pass here; no session is over before every replica that reports
 * has done so behind its deadline; and a replica that is lost may have heard of any session since
 * it last reported, so that counts as a touch, once for each replica until the session is heard of
 * again.
 *
 * A report may wait behind a slow link for seconds: it says nothing of the time in which it waited.
 * So the leader gives marks of its time to the replicas, a report names the newest mark that its
 * replica had seen, and covers the time up to that mark alone. Clocks are not compared. A touch
 * counts from its arrival: it may count late, never early.
 *
 * Pure: the caller brings the time. Core thread of the leader.
 */
#ifndef SERVER_EXPIRY_H
#define SERVER_EXPIRY_H

#include "base/slice.h"
#include "server/state/state.h"

enum {
    EXPIRY_DUE_MAX = 1000,      /* Sessions that end in one turn. */
    EXPIRY_BEHIND_REPORTS = 10, /* Report intervals that the mark of the newest report of a replica
                                   may be behind; after that the replica counts as lost. */
};

struct expiry;

/* Replicas report every `report_ms`. */
struct expiry *expiry_new(uint32_t report_ms);
void expiry_free(struct expiry *expiry); /* Accepts NULL. */

/* The leader begins to serve: all sessions of the state have their whole time-out from now on. */
void expiry_begin(struct expiry *expiry, const struct state *state, uint64_t now_ms);

/* It leads no more: nothing is known, and nothing is over. */
void expiry_end(struct expiry *expiry);
bool expiry_is_on(const struct expiry *expiry);

/* Advances the clock; to be called in each turn, before anything else, and at least once in a
 * report interval. */
void expiry_turn(struct expiry *expiry, uint64_t now_ms);

/* The process has stood still for longer than that: nothing is over until a quorum has said since
 * then that this is still its leader, and one more interval has passed. */
bool expiry_stands(const struct expiry *expiry);
void expiry_renewed(struct expiry *expiry);

/* As transactions are applied. What is not known, or known already, is ignored. */
void expiry_opened(struct expiry *expiry, uint64_t session, uint32_t timeout_ms);
void expiry_closed(struct expiry *expiry, uint64_t session);

/* Somebody has heard of the session. */
void expiry_touch(struct expiry *expiry, uint64_t session);

/* A mark of the present, to be given to all replicas that report. Never 0, and never falls. */
uint64_t expiry_mark(const struct expiry *expiry);

/* All that `member` had heard of when it saw the mark has been touched. 0: it has not seen any. A
 * mark that was not given yet is no report. */
void expiry_reported(struct expiry *expiry, uint32_t member, uint64_t mark);

/* `member` is in step, so it hears of sessions: it is waited for from now on, also before its first
 * report. To be told before each expiry_due; what is known already changes nothing. */
void expiry_joined(struct expiry *expiry, uint32_t member);

/* The connection to `member` is gone. */
void expiry_lost(struct expiry *expiry, uint32_t member);

/* The sessions that are over, at most `max`; each is given again until it is proposed, touched or
 * closed. */
size_t expiry_due(struct expiry *expiry, uint64_t *out, size_t max);

/* Its end is proposed: it cannot be saved any more. */
void expiry_proposed(struct expiry *expiry, uint64_t session);

size_t expiry_count(const struct expiry *expiry); /* Sessions known. */

#endif
