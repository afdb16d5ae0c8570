/*
 * sim_run.h - many seeds in worker processes. A failed assertion ends a worker; the run records it
 * as the failure of that seed, and the next worker continues after it.
 */
#ifndef TESTS_SIM_SIM_RUN_H
#define TESTS_SIM_SIM_RUN_H

#include "tests/sim/sim.h"

enum {
    RUN_JOBS_MAX = 8,
    RUN_FAILURES_MAX = 64,
    RUN_PROBES_MAX = 1024,
};

struct run_failure {
    uint64_t seed;
    char text[SIM_REASON_MAX];
};

struct run_result {
    struct sim_totals totals;
    uint8_t probes[RUN_PROBES_MAX]; /* Probes that were reached at least once. */
    struct run_failure failures[RUN_FAILURES_MAX];
    uint32_t failure_count;
    uint64_t wall_ms;
};

struct run_plan {
    struct sim_options options; /* Options of every seed. */
    uint64_t first;
    uint64_t last;
    uint32_t jobs;
    uint32_t failures_max; /* Stop after so many. */
    bool quiet;            /* Discards the output of the workers. */
};

/* Runs one seed in this process, which ends when the seed fails. Returns the hash of the trace. */
uint64_t run_one(const struct sim_options *options, struct sim_totals *totals);

/* Runs all seeds of the plan. */
void run_all(const struct run_plan *plan, struct run_result *ret_result);

void run_print(const struct run_result *result);

/* Prints probes that were not reached; returns how many. */
size_t run_print_unhit(const struct run_result *result);

/* `sim --mutants`: looks for seeds that catch each mutant, or the mutant `only`; 0: all. Returns
 * the number not caught. */
int mutants_search(int only, uint64_t budget, uint32_t finds, uint32_t jobs);

/* Runs each line of a file of seeds; those with a mutant must fail. Returns the number of lines
 * that went wrong. */
int replay_file(const char *path);

/* Corrupts histories and expects the checker to notice. Returns the number not noticed. */
int selftest_run(void);

#endif
