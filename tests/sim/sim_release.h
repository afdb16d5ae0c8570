/*
 * sim_release.h - processes of different releases: each knows the feature levels up to a number of
 * its own, and the leader raises the level of the ensemble once all members know a higher one.
 */
#ifndef TESTS_SIM_SIM_RELEASE_H
#define TESTS_SIM_SIM_RELEASE_H

#include "tests/sim/sim.h"

/* Draws the release of the process that starts now; it depends on nothing but seed, node and life.
 */
void sim_release_start(const struct sim *sim, struct sim_node *node);

/* The process ends: until now the node has said that it knows the levels of its release. */
void sim_release_end(const struct sim *sim, struct sim_node *node);

/* A founder, or a leader, has made a configuration of this level. */
void sim_release_made(struct sim *sim, uint16_t level);

/* A leader proposes this configuration. When that raises the level, each member's release must know
 * it, by the last word that can have reached the leader (A36). */
void sim_release_proposed(struct sim *sim, const struct sim_node *leader,
                          const struct zab_config *config);

/* The replica takes this configuration into its log, or treats it as in force (A36). */
void sim_release_check(struct sim *sim, const struct sim_node *node,
                       const struct zab_config *config);

/* The process halts because it does not know the level of the ensemble: the operator starts the
 * newest release in its place. */
bool sim_release_explains_halt(struct sim *sim, struct sim_node *node, enum zab_notice_type type);

#endif
