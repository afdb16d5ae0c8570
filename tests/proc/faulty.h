/*
 * faulty.h - a replica whose wall clock and disk calls can be wrong: a library that is loaded
 * before the C library (LD_PRELOAD), and a shared page by which a test controls it.
 *
 * The wall clock is shifted; monotonic clocks are not, as when an operator or an NTP server sets
 * the time. Failing writes and syncs answer EIO and do nothing. Files of a file system that hangs
 * are neither opened, described nor synced until it answers again.
 */
#ifndef TESTS_PROC_FAULTY_H
#define TESTS_PROC_FAULTY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define FAULTY_VARIABLE "ZABRA_FAULTY" /* Environment variable: path of the file that both map. */

struct faulty {
    _Atomic int64_t wall_offset_ms;
    _Atomic bool writes_fail;
    _Atomic bool syncs_fail;
    _Atomic uint32_t sync_ms; /* Each sync takes that much longer. */
    _Atomic uint64_t failed;  /* Calls that have failed with EIO. */
    char hanging[256];        /* Begin of the paths that hang; written while `hangs` is false. */
    _Atomic bool hangs;
};

/* For the test: makes the file and maps it, with all faults off. The mapping lasts as long as the
 * test. */
struct faulty *faulty_open(const char *path);

#endif
