/*
 * join_int.h - replicas that are no members: what the other files of this folder call.
 */
#ifndef ZAB_JOIN_INT_H
#define ZAB_JOIN_INT_H

#include "zab/zab_int.h"

void join_init(struct zab *zab, const struct zab_init *init);
void join_free(struct zab *zab);

/* Keeps what the peer says of itself, and answers with the configuration. */
void join_on_join(struct zab *zab, struct peer *peer, const struct zab_msg_join *join);

/* Takes a configuration of a cluster as a hint: this replica has none. */
void join_take_hint(struct zab *zab, const struct zab_config *config, struct slice bytes);

/* Whether this replica has met another cluster than that of the configuration. */
bool join_is_other(const struct zab *zab, const struct zab_config *config);

/* Whether a replica without a configuration may follow a leader: unless it knows that it was not
 * added. */
bool join_may_follow(const struct zab *zab);

/* A connection is there: notes whether its disk is in a cluster. Called for each one, also if there
 * is no room for the peer. */
void join_on_up(struct zab *zab, const struct zab_ev_peer_up *up);

/* Whether the peer waits to be added to this replica's cluster. */
bool join_waits(const struct zab *zab, const struct peer *peer);

/* Whether the peer wants to found a cluster together with this replica, by its last JOIN. */
bool join_says_founds(const struct zab *zab, const struct peer *peer);

/* Whether this replica may found a cluster, as far as it alone can say. */
bool join_may_found(const struct zab *zab);

/* What the peer says of its addresses; all empty if it has not said it. */
struct zab_texts join_texts(const struct join_word *word);

/* Begins and ends the search for a leader, and sends JOIN: at the end of a step. */
void join_step(struct zab *zab);

#endif
