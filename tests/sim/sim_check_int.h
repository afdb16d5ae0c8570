/*
 * sim_check_int.h - shared by the files of the invariants.
 *
 * sim_check.c checks messages and decisions of replicas; sim_check_disk.c checks the changes that
 * they order from their disks, and the contents of the disks.
 */
#ifndef TESTS_SIM_SIM_CHECK_INT_H
#define TESTS_SIM_SIM_CHECK_INT_H

#include "tests/sim/sim.h"

enum {
    APPENDED_UNKNOWN = 1, /* Stands for the zxid while a received snapshot is being installed. */
};

/* The newest committed record; 0: none. */
zxid_t sim_log_last(const struct sim *sim);
void sim_check_append(struct sim *sim, struct sim_node *node, struct logrec *rec);

#endif
