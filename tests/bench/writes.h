/*
 * writes.h - how long the writes of one client take, one after another.
 */
#ifndef TESTS_BENCH_WRITES_H
#define TESTS_BENCH_WRITES_H

#include "tests/proc/ensemble.h"

/* Writes /small at the replica with this index for so many ms or, when `ms` is 0, until `is_done`,
 * which is asked after each write. Prints the distribution under the name `what`; returns the 99th
 * percentile in microseconds. A write that fails ends the program. */
uint32_t writes_measure(struct ensemble *ensemble, uint32_t leader, const char *what, uint64_t ms,
                        bool (*is_done)(void));

#endif
