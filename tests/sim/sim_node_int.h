/*
 * sim_node_int.h - shared by the files of a node: sim_node.c carries out the steps of its replica,
 * sim_process.c starts and ends its process.
 */
#ifndef TESTS_SIM_SIM_NODE_INT_H
#define TESTS_SIM_SIM_NODE_INT_H

#include "tests/sim/sim.h"

/* The event of a tick; `a` not 0: whatever tick is due. */
void sim_node_tick(struct sim *sim, struct sim_event *event);

/* Schedules a tick for the time at which the replica wants to wake. */
void sim_node_arm(struct sim *sim, struct sim_node *node);

/* Reads the replica's status; a change of role enters the trace. */
void sim_node_look(struct sim *sim, struct sim_node *node);

#endif
