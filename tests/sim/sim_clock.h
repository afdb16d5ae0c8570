/*
 * sim_clock.h - wall clocks that jump, and the times in transactions.
 *
 * Checked along the committed log: the age never falls and never outruns real time; the stamp
 * follows the time that a majority of the voters' clocks has reached. After each jump TTL znodes
 * must still end, and results of writes with a key must still be forgotten.
 */
#ifndef TESTS_SIM_SIM_CLOCK_H
#define TESTS_SIM_SIM_CLOCK_H

#include "tests/sim/sim.h"

enum {
    SIM_TTL_MAX_MS = 3000
};

/* Sets the offset of a node's wall clock. */
void sim_clock_set(struct sim *sim, struct sim_node *node, int64_t off_ms);

/* The same, and the clock is corrected after `for_ms`; 0: never. */
void sim_clock_jump(struct sim *sim, struct sim_node *node, int64_t off_ms, uint64_t for_ms);

/* Until then a new process may not have read its wall clock: it trusts what it finds. */
uint64_t sim_clock_read_by(const struct sim_node *node);

/* A leader has made a record. */
void sim_clock_made(struct sim *sim, struct sim_rec *rec);

/* The record is committed; called in the order of the log. */
void sim_clock_committed(struct sim *sim, const struct sim_rec *rec);

/* The leader still has TTL znodes or remembered results from `zxid` or before; also true without a
 * leader. */
bool sim_clock_is_behind(struct sim *sim, zxid_t zxid);

/* Runs until all present TTL znodes and remembered results are gone, in seeds that have them; fails
 * when that takes too long. Only jumps of wall clocks may happen meanwhile. */
void sim_clock_progress(struct sim *sim);

#endif
