/*
 * sim_seat.h - the disk of each voter that the committed configuration names.
 *
 * A node has one disk in its machine and perhaps another on the shelf. The disk with the seat
 * counts, wherever it is; the other is an unknown disk. The truth keeps this for the checkers and
 * for the fault plan, which must not harm more disks than the claim allows.
 */
#ifndef TESTS_SIM_SIM_SEAT_H
#define TESTS_SIM_SIM_SEAT_H

#include "tests/sim/sim.h"

/* The new process knows no configuration yet. */
void sim_seat_started(struct sim_node *node);
/* The configuration that a replica treats as in force must have been committed. */
void sim_seat_check(struct sim *sim, struct sim_node *node);
/* At the end all replicas have the configuration that was committed last. */
void sim_seat_check_end(struct sim *sim);
/* A leader has proposed a configuration, after the one before was committed (A37): a fault may
 * strike now. */
void sim_seat_proposed(struct sim *sim, const struct sim_node *leader, const struct logrec *rec);
/* A proposed configuration that gives the seat to another disk may still be committed. */
bool sim_seat_is_named(struct sim *sim, const struct sim_node *node);
/* A replica takes a configuration into its log. */
void sim_seat_appended(struct sim *sim, const struct sim_node *node, const struct logrec *rec);
/* A committed configuration decides which disks count from now on. */
void sim_seat_admit(struct sim *sim, const struct logrec *rec);
/* The disk goes to the shelf, and an empty one takes its place. */
void sim_seat_keep(struct sim_node *node);
/* Machine and shelf exchange their disks. */
void sim_seat_swap(struct sim *sim, struct sim_node *node);
void sim_seat_release(struct sim_node *node);

#endif
