/*
 * sim_fault_int.h - shared by the files of the fault plan: sim_fault.c has the plan, and the faults
 * of processes and disks; sim_fault_net.c has those of the network.
 */
#ifndef TESTS_SIM_SIM_FAULT_INT_H
#define TESTS_SIM_SIM_FAULT_INT_H

#include "tests/sim/sim.h"

enum {
    CUT_TICKS_MAX = 12
};

uint64_t sim_fault_ticks_us(struct sim *sim, uint32_t ticks);
struct sim_node *sim_fault_any_node(struct sim *sim);

/* One direction of one pair carries nothing for a while. */
void sim_fault_cut_for(struct sim *sim, uint32_t from, uint32_t to, uint64_t for_us);

/* `which` 0: no message reaches or leaves the node; 1: none reaches it; 2: none leaves it. */
void sim_fault_isolate(struct sim *sim, const struct sim_node *node, uint64_t for_us,
                       uint64_t which);

/* Random faults. */
void sim_fault_reset(struct sim *sim);
void sim_fault_clog(struct sim *sim);
void sim_fault_cut(struct sim *sim);
void sim_fault_leader(struct sim *sim);

#endif
