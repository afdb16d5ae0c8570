/*
 * disk.h - faults of the replicas' disks: full disks and flipped bits.
 *
 * A small disk is a tmpfs at the data directory of a replica, in a mount namespace of the test
 * program; so no mount remains after the test.
 */
#ifndef TESTS_PROC_DISK_H
#define TESTS_PROC_DISK_H

#include "tests/proc/ensemble.h"

/* True if this process may mount. The first call enters a separate mount namespace, so it must
 * precede the start of any thread. */
bool disk_may_mount(void);

/* Call disk_mount after ensemble_open and before the replica's first start, disk_unmount while it
 * does not run. */
void disk_mount(const struct ensemble *ensemble, uint32_t index, uint32_t bytes);
void disk_unmount(const struct ensemble *ensemble, uint32_t index);

/* Fills a small disk, and frees the space. */
void disk_fill(const struct ensemble *ensemble, uint32_t index);
void disk_free(const struct ensemble *ensemble, uint32_t index);

/* Flips one bit of the file with most written bytes, usually a log; `per_mille` is the position in
 * these bytes. The replica must not run. False when too little is written. */
bool disk_flip_bit(const struct ensemble *ensemble, uint32_t index, uint32_t per_mille);

#endif
