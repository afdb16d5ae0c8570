/*
 * sim_seat.h - which disk of each voter the committed configuration names.
 *
 * A node has one disk in its machine and perhaps another one on the shelf. The one that has the
 * seat counts, wherever it is; the other one is a stranger. Kept by the truth, for the checkers and
 * for the fault plan, which must not harm more disks than the claim allows.
 */
#ifndef TESTS_SIM_SIM_SEAT_H
#define TESTS_SIM_SIM_SEAT_H

#include "tests/sim/sim.h"

/* Its process knows nothing yet. */
void sim_seat_started(struct sim_node *node);
/* What a replica takes for the configuration in force is one that was committed. */
void sim_seat_check(struct sim *sim, struct sim_node *node);
/* A leader has proposed one: something may strike now. */
void sim_seat_proposed(struct sim *sim, const struct sim_node *leader, const struct logrec *rec);
/* One may be committed yet that gives the seat to another disk than has it now. */
bool sim_seat_is_named(struct sim *sim, const struct sim_node *node);
/* The newest committed configuration is known as such on so many disks, that of `but` aside, that
 * no majority can form without one of them. */
bool sim_seat_is_settled(const struct sim *sim, const struct sim_node *but);
/* A committed configuration says which disks count from now on. */
void sim_seat_admit(struct sim *sim, const struct logrec *rec);
/* The disk goes to the shelf, and an empty one takes its place. */
void sim_seat_keep(struct sim_node *node);
/* Machine and shelf exchange their disks. */
void sim_seat_swap(struct sim *sim, struct sim_node *node);
void sim_seat_release(struct sim_node *node);

#endif
