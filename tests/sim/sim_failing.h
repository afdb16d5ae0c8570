/*
 * sim_failing.h - disks that fail or rot while a process uses them.
 *
 * A failing disk answers some kinds of calls with an I/O error until it is mended; what is on it is
 * sound. A rotten one holds closed files that are not what was written, and its process does not
 * know that yet. Both go on in use, so they count for durability: the tail of the log is sound.
 */
#ifndef TESTS_SIM_SIM_FAILING_H
#define TESTS_SIM_SIM_FAILING_H

#include "tests/sim/sim.h"

enum sim_decay {
    SIM_DECAY_FLIP,       /* One bit. */
    SIM_DECAY_ZERO,       /* One sector is zeros. */
    SIM_DECAY_UNREADABLE, /* One block gives an I/O error. */
    SIM_DECAYS
};

/* Nothing of it is harmed, and it gives back what it holds. */
bool sim_disk_is_sound(const struct sim_node *node);

/* The same, and its replica has no reason to disown it. */
bool sim_disk_counts(const struct sim_node *node);

/* The disk may be why its process has got this error, or halts for this reason. */
bool sim_disk_explains(const struct sim_node *node, enum err err);
bool sim_disk_explains_halt(const struct sim_node *node, enum zab_notice_type type);

/* Calls of these kinds (a sum of vfs_mem_failing) fail from now on. */
void sim_disk_fail(struct sim *sim, struct sim_node *node, unsigned kinds);
void sim_disk_mend(struct sim *sim, struct sim_node *node);

/* One place in one closed file: a segment that another one continues, or a whole snapshot. False
 * when there is none. */
bool sim_disk_decay(struct sim *sim, struct sim_node *node, enum sim_decay decay);

/* Every block of every closed segment. */
void sim_disk_decay_log(struct sim *sim, struct sim_node *node, enum sim_decay decay);

/* Its process has ended: the next one finds out, and until then the disk does not count. */
void sim_disk_left(struct sim_node *node);

#endif
