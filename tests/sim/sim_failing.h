/*
 * sim_failing.h - disks that fail or rot while a process uses them.
 *
 * A failing disk returns I/O errors for some kinds of calls until it is mended; its contents are
 * sound. A rotten disk holds closed files that differ from what was written, and its process has
 * not noticed yet. Both stay in use and count for durability: the tail of the log is sound.
 */
#ifndef TESTS_SIM_SIM_FAILING_H
#define TESTS_SIM_SIM_FAILING_H

#include "tests/sim/sim.h"

enum sim_decay {
    SIM_DECAY_FLIP,       /* One bit is flipped. */
    SIM_DECAY_ZERO,       /* One sector becomes zeros. */
    SIM_DECAY_UNREADABLE, /* One block gives an I/O error. */
    SIM_DECAYS
};

/* The contents are as written, and reads return them. */
bool sim_disk_is_sound(const struct sim_node *node);

/* The same, and its replica has no reason to give up its state or log. */
bool sim_disk_counts(const struct sim_node *node);

/* The disk may be the cause of this error of its process, or of this reason to halt. */
bool sim_disk_explains(const struct sim_node *node, enum err err);
bool sim_disk_explains_halt(const struct sim_node *node, enum zab_notice_type type);

/* Calls of these kinds (a combination of vfs_mem_failing) fail from now on. */
void sim_disk_fail(struct sim *sim, struct sim_node *node, unsigned kinds);
void sim_disk_mend(struct sim *sim, struct sim_node *node);

/* Damages one place in one closed file: a segment that another segment continues, or a complete
 * snapshot. False when there is none. */
bool sim_disk_decay(struct sim *sim, struct sim_node *node, enum sim_decay decay);

/* Damages every block of every closed segment. */
void sim_disk_decay_log(struct sim *sim, struct sim_node *node, enum sim_decay decay);

/* Its process has ended: the next one detects the rot, and until then the disk does not count. */
void sim_disk_left(struct sim_node *node);

#endif
