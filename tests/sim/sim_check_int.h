/*
 * sim_check_int.h - what the files of the invariants share.
 *
 * They are split by what is looked at: sim_check.c at what replicas say and decide,
 * sim_check_disk.c at what their disks are told and keep.
 */
#ifndef TESTS_SIM_SIM_CHECK_INT_H
#define TESTS_SIM_SIM_CHECK_INT_H

#include "tests/sim/sim.h"

enum {
    APPENDED_UNKNOWN = 1, /* In place of a zxid while a received snapshot is being installed. */
};

/* The newest committed record; 0: none. */
zxid_t sim_log_last(const struct sim *sim);
/* By a quorum of the voters' disks, as confirmed (or as they were before the plan harmed them). */
bool sim_quorum_holds(struct sim *sim, zxid_t zxid);
void sim_check_append(struct sim *sim, struct sim_node *node, struct logrec *rec);

#endif
