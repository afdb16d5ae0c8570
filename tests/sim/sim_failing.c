#include "tests/sim/sim_failing.h"

#include "base/check.h"
#include "tests/lib/vfs_mem.h"
#include "tests/sim/sim_quorum.h"

#include <inttypes.h>

enum {
    HISTORY_LEN = 13, /* Of "wal-", the digits of the history and a dash. */
    PROBE_LEN = 16,
    TRIES = 8, /* Attempts to find a place that holds something. */
};

bool sim_disk_is_sound(const struct sim_node *node)
{
    return !node->damaged && !node->rotten && (node->failing & VFS_MEM_FAIL_READS) == 0;
}

bool sim_disk_counts(const struct sim_node *node)
{
    return sim_disk_is_sound(node) && !node->diverged;
}

bool sim_disk_explains(const struct sim_node *node, enum err err)
{
    bool is_error = err == ERR_IO || err == ERR_CORRUPT;

    return is_error && (node->failing != VFS_MEM_FAIL_NONE || node->rotten || node->damaged);
}

bool sim_disk_explains_halt(const struct sim_node *node, enum zab_notice_type type)
{
    return (type == ZAB_NOTICE_UNREADABLE_LOG || type == ZAB_NOTICE_UNREADABLE_SNAPSHOT) &&
           !sim_disk_is_sound(node);
}

void sim_disk_fail(struct sim *sim, struct sim_node *node, unsigned kinds)
{
    ASSERT(kinds != VFS_MEM_FAIL_NONE);

    SIM_TRACE(sim, "fault: disk of node %u fails (kinds %u)", node->id, kinds);
    node->failing = kinds;
    vfs_mem_fail(node->disk, kinds, rng_u64(&sim->rng));
    sim->totals.failing++;
}

void sim_disk_mend(struct sim *sim, struct sim_node *node)
{
    if (node->failing == VFS_MEM_FAIL_NONE) {
        return;
    }
    SIM_TRACE(sim, "disk of node %u works again", node->id);
    sim->totals.io_errors += vfs_mem_io_errors(node->disk);
    node->failing = VFS_MEM_FAIL_NONE;
    vfs_mem_fail(node->disk, VFS_MEM_FAIL_NONE, 0);
}

void sim_disk_left(struct sim_node *node)
{
    if (node->rotten) {
        node->rotten = false;
        node->damaged = true;
        sim_disk_harmed(node);
    }
}

/* ---- Rot in closed files. ---- */

struct decay {
    struct sim *sim;
    struct vfs_mem *disk;
    enum sim_decay kind;
    bool all;                  /* Every place in the log, instead of one place in any file. */
    char before[VFS_NAME_MAX]; /* The segment that was visited before this one. */
    char chosen[VFS_NAME_MAX];
    uint64_t count;
};

static bool holds_something(const struct vfs_mem *disk, const char *name, uint64_t offset)
{
    static const uint8_t zeros[PROBE_LEN];
    uint8_t bytes[PROBE_LEN];

    return vfs_mem_read(disk, name, offset, bytes, sizeof(bytes)) &&
           memcmp(bytes, zeros, sizeof(bytes)) != 0;
}

static void hit(const struct decay *decay, const char *name, uint64_t offset)
{
    static const uint8_t zeros[VFS_SECTOR];

    SIM_TRACE(decay->sim, "fault: decay %d of %s at %" PRIu64, (int)decay->kind, name, offset);
    switch (decay->kind) {
    case SIM_DECAY_FLIP:
        vfs_mem_flip(decay->disk, name, offset, (uint8_t)(1U << rng_below(&decay->sim->rng, 8)));
        break;
    case SIM_DECAY_ZERO:
        vfs_mem_poke(decay->disk, name, offset, zeros, sizeof(zeros));
        break;
    case SIM_DECAY_UNREADABLE:
        vfs_mem_unreadable(decay->disk, name, offset);
        break;
    case SIM_DECAYS:
        UNREACHABLE();
    }
}

static void hit_blocks(const struct decay *decay, const char *name)
{
    uint64_t size = 0;

    (void)vfs_mem_size(decay->disk, name, &size);
    for (uint64_t at = VFS_BLOCK; at < size; at += VFS_BLOCK) {
        hit(decay, name, at);
    }
}

static void hit_somewhere(const struct decay *decay, const char *name)
{
    uint64_t size = 0;
    uint64_t at = 0;

    (void)vfs_mem_size(decay->disk, name, &size);
    if (size < VFS_SECTOR) {
        return;
    }
    for (uint32_t i = 0; i < TRIES && !holds_something(decay->disk, name, at); i++) {
        at = rng_below(&decay->sim->rng, size / VFS_SECTOR) * VFS_SECTOR;
    }
    hit(decay, name, at);
}

static void consider(struct decay *decay, const char *name)
{
    decay->count++;
    if (decay->all) {
        hit_blocks(decay, name);
    } else if (rng_below(&decay->sim->rng, decay->count) == 0) {
        (void)snprintf(decay->chosen, sizeof(decay->chosen), "%s", name);
    }
}

/* Visits in the order of names: a segment is closed when another of its history follows. */
static void visit(void *arg, const char *name)
{
    struct decay *decay = arg;

    if (strncmp(name, "wal-", 4) == 0) {
        if (strncmp(name, decay->before, HISTORY_LEN) == 0) {
            consider(decay, decay->before);
        }
        (void)snprintf(decay->before, sizeof(decay->before), "%s", name);
    } else if (!decay->all && strncmp(name, "snap-", 5) == 0 && !strstr(name, ".tmp")) {
        consider(decay, name);
    }
}

static bool decay_run(struct decay *decay, struct sim_node *node)
{
    ASSERT(node->up && sim_disk_is_sound(node));

    decay->disk = node->disk;
    vfs_mem_each(node->disk, visit, decay);
    if (decay->count == 0) {
        return false;
    }
    if (!decay->all) {
        hit_somewhere(decay, decay->chosen);
    }
    node->rotten = true;
    decay->sim->totals.decayed++;
    return true;
}

bool sim_disk_decay(struct sim *sim, struct sim_node *node, enum sim_decay decay)
{
    struct decay plan = {.sim = sim, .kind = decay};

    return decay_run(&plan, node);
}

void sim_disk_decay_log(struct sim *sim, struct sim_node *node, enum sim_decay decay)
{
    struct decay plan = {.sim = sim, .kind = decay, .all = true};

    if (!decay_run(&plan, node)) {
        sim_fail(sim, "host", "the log of node %u has no closed segment", node->id);
    }
}
