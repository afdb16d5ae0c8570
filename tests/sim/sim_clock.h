/*
 * sim_clock.h - wall clocks that jump, and what transactions may say of time.
 *
 * Checked along the committed log: the age never falls and never outruns the real time; the stamp
 * is what a majority of the voters' clocks has reached. And after each jump TTL znodes still end
 * and results of writes with a key are still forgotten.
 */
#ifndef TESTS_SIM_SIM_CLOCK_H
#define TESTS_SIM_SIM_CLOCK_H

#include "tests/sim/sim.h"

enum {
    SIM_TTL_MAX_MS = 3000
};

/* The wall clock of a node is off by so much from now on. */
void sim_clock_set(struct sim *sim, struct sim_node *node, int64_t off_ms);

/* The same, and it is set right later; 0: it stays. */
void sim_clock_jump(struct sim *sim, struct sim_node *node, int64_t off_ms, uint64_t for_ms);

/* A leader has made a record. */
void sim_clock_made(struct sim *sim, struct sim_rec *rec);

/* It is committed; in the order of the log. */
void sim_clock_committed(struct sim *sim, const struct sim_rec *rec);

/* Whether the leader still has TTL znodes or remembered results that are no newer; without a leader
 * it may. */
bool sim_clock_is_behind(struct sim *sim, zxid_t zxid);

/* Runs until all TTL znodes and remembered results of now are gone, in seeds that have them; fails
 * when that takes too long. No fault may strike meanwhile but jumps of wall clocks. */
void sim_clock_progress(struct sim *sim);

#endif
