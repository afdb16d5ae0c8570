/*
 * disk.h - what happens to the disks of replicas: they are full, they rot.
 *
 * A small disk is a tmpfs of its own at the data directory of a replica, in a mount namespace of
 * the test program's: nothing is left behind.
 */
#ifndef TESTS_PROC_DISK_H
#define TESTS_PROC_DISK_H

#include "tests/proc/ensemble.h"

/* Whether this process may mount. The first call gives it a view of mounts of its own, and so comes
 * before any thread is started. */
bool disk_may_mount(void);

/* Behind ensemble_open, before its first start; disk_unmount when it does not run. */
void disk_mount(const struct ensemble *ensemble, uint32_t index, uint32_t bytes);
void disk_unmount(const struct ensemble *ensemble, uint32_t index);

/* Takes all space of a small disk, and gives it back. */
void disk_fill(const struct ensemble *ensemble, uint32_t index);
void disk_free(const struct ensemble *ensemble, uint32_t index);

/* Flips one bit of the file in which most bytes were written, usually a log: `per_mille` of the way
 * through these bytes. The replica does not run. False when too little has been written. */
bool disk_flip_bit(const struct ensemble *ensemble, uint32_t index, uint32_t per_mille);

#endif
