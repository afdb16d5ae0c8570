/*
 * sim_quorum.h - the truth about the ensemble: which configuration is committed, and what the disks
 * of its voters hold.
 *
 * The configuration of the founding counts from the first leader on. A CONFIG record counts from
 * its commit on. A voter is a disk, named by id and incarnation, wherever the disk is: in its
 * machine, on the shelf, or thrown away.
 */
#ifndef TESTS_SIM_SIM_QUORUM_H
#define TESTS_SIM_SIM_QUORUM_H

#include "tests/sim/sim.h"

/* A leader is established: a majority has promised it the epoch (A32). The first leader tells the
 * configuration of the founding. */
void sim_quorum_established(struct sim *sim, const struct sim_node *leader, uint32_t epoch);

/* The disk in the machine has durably promised the epoch. */
void sim_quorum_promised(struct sim *sim, const struct sim_node *node, uint32_t epoch,
                         uint32_t leader);

/* A leader has proposed the configuration: it may be committed. */
void sim_quorum_proposed(struct sim *sim, const struct logrec *rec,
                         const struct zab_config *config);

/* A leader has appended a record that may name a configuration as committed: the majorities of that
 * one and of the one before it have it on disk (A38), and from now on it alone decides (A32). */
void sim_quorum_stamped(struct sim *sim, const struct sim_node *leader, const struct logrec *rec);

/* A leader reports that the records up to `zxid`, which is not older than the committed
 * configuration, are committed: a majority of its voters has a record on disk that proves it (A38),
 * so that they can start without the voters before them. */
void sim_quorum_answered(struct sim *sim, const struct sim_node *leader, zxid_t zxid);

/* The configuration is in force from now on. */
void sim_quorum_set(struct sim *sim, const struct zab_config *config);

/* The node's seat in the committed configuration; NULL: it has none. An empty seat is one. */
const struct zab_member *sim_seat_of(const struct sim *sim, const struct sim_node *node);

/* The number of voters. */
uint32_t sim_voters(const struct sim *sim);

/* A majority of this configuration's voters has `zxid` on disk: as the store has confirmed it, or
 * as it was before the plan harmed or discarded the disk. */
bool sim_config_holds(struct sim *sim, const struct zab_config *config, zxid_t zxid);
/* This disk has `zxid`, in the same sense. */
bool sim_disk_has(struct sim *sim, uint32_t id, uint64_t incarnation, zxid_t zxid);
/* The same as sim_config_holds, for the committed configuration. */
bool sim_quorum_holds(struct sim *sim, zxid_t zxid);

/* Traces which disks of the committed configuration hold `zxid`. */
void sim_quorum_trace(struct sim *sim, zxid_t zxid);

/* The plan has harmed the disk in the machine, or its replica gives up the log: until its refill
 * the disk counts as what it held before. */
void sim_disk_harmed(struct sim_node *node);

/* The disk with this incarnation is thrown away; it counts as what it held. */
void sim_disk_discarded(struct sim_node *node, uint64_t incarnation);

void sim_quorum_release(struct sim *sim);

#endif
