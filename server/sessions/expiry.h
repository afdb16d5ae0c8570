/*
 * expiry.h - the deadline of each session at the leader, and which sessions have expired.
 *
 * The basic rule: the silence of a client counts only while replicas listen. A pause of this
 * process does not count. No session expires before the reports of every replica in step cover its
 * deadline. A touch (activity of the client) extends the deadline. A lost replica may have served
 * any session since its last report. So the loss of a replica extends the deadline of every
 * session, but at most once for each replica until the next touch of the session.
 *
 * A report may arrive seconds after it was sent, and tells nothing about these seconds. So the
 * leader sends marks of its own time to the replicas. A report names the newest mark that its
 * replica has seen, and covers the time up to this mark only. Clocks of different replicas are not
 * compared. The timeout restarts when a touch arrives at the leader, so a session may expire late,
 * but never early.
 *
 * The code is pure: the caller passes the time. Core thread of the leader.
 */
#ifndef SERVER_EXPIRY_H
#define SERVER_EXPIRY_H

#include "base/slice.h"
#include "server/state/state.h"

enum {
    EXPIRY_DUE_MAX = 1000, /* Maximum number of sessions that expire in one turn. */
    /* A replica counts as lost when the mark of its newest report is older than this number of
     * report intervals. */
    EXPIRY_BEHIND_REPORTS = 10,
};

struct expiry;

/* Makes an empty table. Replicas report every `report_ms`. */
struct expiry *expiry_new(uint32_t report_ms);
void expiry_free(struct expiry *expiry); /* Accepts NULL. */

/* To be called when the leader begins to serve: all sessions of the state get their whole timeout
 * from now on. */
void expiry_begin(struct expiry *expiry, const struct state *state, uint64_t now_ms);

/* To be called when the role ends: all sessions are dropped, and nothing expires. */
void expiry_end(struct expiry *expiry);
bool expiry_is_on(const struct expiry *expiry);

/* Advances the clock; to be called in each turn, before anything else, and at least once in a
 * report interval. */
void expiry_turn(struct expiry *expiry, uint64_t now_ms);

/* Whether expiry waits for expiry_renewed, because the process was paused for more than two report
 * intervals. expiry_renewed notes that a quorum round has confirmed that this replica still leads.
 * After that, sessions expire again once one report interval has passed since the pause. */
bool expiry_stands(const struct expiry *expiry);
void expiry_renewed(struct expiry *expiry);

/* To be called as transactions are applied. Opening a known session or closing an unknown one has
 * no effect. */
void expiry_opened(struct expiry *expiry, uint64_t session, uint32_t timeout_ms);
void expiry_closed(struct expiry *expiry, uint64_t session);

/* Notes that the client of the session was active. */
void expiry_touch(struct expiry *expiry, uint64_t session);

/* Returns the mark of the present time, for the heartbeats to all replicas. The mark is never 0,
 * and never falls. */
uint64_t expiry_mark(const struct expiry *expiry);

/* Notes that expiry_touch was called for all sessions that were active at `member` before the
 * member saw the mark. Mark 0: the member has seen no mark. A mark that was not sent yet is
 * ignored. */
void expiry_reported(struct expiry *expiry, uint32_t member, uint64_t mark);

/* Notes that `member` is in step and serves clients, so expiry waits for its reports from now on.
 * To be called before each expiry_due; no effect for a known member. */
void expiry_joined(struct expiry *expiry, uint32_t member);

/* Notes that the connection to `member` is gone. */
void expiry_lost(struct expiry *expiry, uint32_t member);

/* Forgets all replicas but `ids`, as lost; others may take their places. If ZAB_MEMBERS_MAX
 * replicas are known and none of them is lost, another one finds no place; then no session expires
 * before a place is free or that replica is lost. */
void expiry_keep(struct expiry *expiry, const uint32_t *ids, size_t count);

/* Returns expired sessions, at most `max`. Each is returned again until its expiry is proposed, or
 * the session is touched or closed. */
size_t expiry_due(struct expiry *expiry, uint64_t *out, size_t max);

/* Notes that the expiry is proposed: later touches do not save the session. */
void expiry_proposed(struct expiry *expiry, uint64_t session);

size_t expiry_count(const struct expiry *expiry); /* Number of known sessions. */

#endif
