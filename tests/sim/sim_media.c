#include "base/check.h"
#include "base/mem.h"
#include "tests/lib/vfs_mem.h"
#include "tests/sim/sim_quorum.h"

#include <inttypes.h>

/* The disk itself: its contents after a crash, and the harm that the fault plan does to it. */

enum {
    SLACK_MAX = 96 << 10, /* Bytes that still fit on a disk that "fills up". */
};

void sim_disk_init(struct sim *sim, struct sim_node *node)
{
    (void)sim;
    node->disk = vfs_mem_new(0);
    node->vfs = vfs_mem_vfs(node->disk);
}

void sim_disk_release(struct sim_node *node)
{
    vfs_mem_free(node->disk);
    persist_dones_release(&node->dones);
}

static enum vfs_mem_crash_mode draw_mode(struct sim *sim, enum sim_crash how)
{
    if (how != SIM_POWER) {
        return VFS_MEM_PROCESS;
    }
    if (!sim->knobs.torn || rng_chance(&sim->rng, 200000)) {
        return VFS_MEM_LOSE_ALL;
    }
    return VFS_MEM_SECTORS; /* A sector of 512 bytes is written completely or not at all. */
}

void sim_disk_freeze(struct sim *sim, struct sim_node *node, enum sim_crash how)
{
    if (how != SIM_STOP) {
        vfs_mem_crash(node->disk, &sim->rng, draw_mode(sim, how));
    }
}

/* A clean stop has written its mark by now. */
void sim_disk_reset(struct sim *sim, struct sim_node *node, enum sim_crash how)
{
    if (how == SIM_STOP) {
        vfs_mem_crash(node->disk, &sim->rng, VFS_MEM_PROCESS);
    }
    sim_disk_plan_crash(sim, node, 0);
}

void sim_disk_plan_crash(struct sim *sim, struct sim_node *node, uint32_t calls)
{
    (void)sim;
    vfs_mem_crash_at(node->disk, calls > 0 ? vfs_mem_calls(node->disk) + calls : 0);
}

bool sim_disk_crashed(struct sim_node *node)
{
    return vfs_mem_fault_hit(node->disk);
}

/* This disk's copy does not count from now on, until it is refilled. */
static void harm(struct sim_node *node)
{
    node->damaged = true;
    sim_disk_harmed(node);
}

void sim_disk_empty(struct sim *sim, struct sim_node *node)
{
    ASSERT(!node->up);

    SIM_TRACE(sim, "fault: disk of node %u is replaced", node->id);
    harm(node);
    sim_disk_discarded(node, node->identity.incarnation);
    vfs_mem_wipe(node->disk);
    node->emptied = true;
    node->failing = 0;
    node->identity = (struct store_identity){0}; /* Until it is formatted. */
    node->shadow = (struct sim_shadow){0};
    node->harm = (struct sim_harm){0};
    node->issue_count = 0;
    sim->totals.emptied++;
}

void sim_disk_rot(struct sim *sim, struct sim_node *node, uint32_t bits)
{
    ASSERT(!node->up);

    SIM_TRACE(sim, "fault: %u bits flip on the disk of node %u", bits, node->id);
    for (uint32_t i = 0; i < bits; i++) {
        (void)vfs_mem_rot(node->disk, &sim->rng);
    }
    harm(node);
    sim->totals.rotted++;
}

struct ruin {
    struct sim *sim;
    struct vfs_mem *disk;
    const char *part;
    bool once;
};

static void ruin_file(void *arg, const char *name)
{
    struct ruin *ruin = arg;
    uint64_t size = 0;

    if (!strstr(name, ruin->part) || !vfs_mem_size(ruin->disk, name, &size) || size == 0) {
        return;
    }
    if (ruin->once) {
        vfs_mem_flip(ruin->disk, name, rng_below(&ruin->sim->rng, size), 1);
        return;
    }
    for (uint64_t at = 0; at < size; at += VFS_BLOCK) {
        vfs_mem_flip(ruin->disk, name, at + rng_below(&ruin->sim->rng, 16), 1);
    }
}

void sim_disk_ruin(struct sim *sim, struct sim_node *node, const char *part)
{
    struct ruin ruin = {.sim = sim, .disk = node->disk, .part = part};

    ASSERT(!node->up);

    SIM_TRACE(sim, "fault: %s of node %u is ruined", part, node->id);
    vfs_mem_each(node->disk, ruin_file, &ruin);
    harm(node);
    sim->totals.rotted++;
}

void sim_disk_remove(struct sim *sim, struct sim_node *node, const char *name)
{
    ASSERT(!node->up);

    SIM_TRACE(sim, "fault: %s of node %u is gone", name, node->id);
    vfs_mem_remove(node->disk, name);
    harm(node);
}

struct newest {
    char name[VFS_NAME_MAX];
};

static void note_segment(void *arg, const char *name)
{
    struct newest *newest = arg;

    if (strncmp(name, "wal-", 4) == 0) { /* Files are visited in the order of their names. */
        (void)snprintf(newest->name, sizeof(newest->name), "%s", name);
    }
}

void sim_disk_forget(struct sim *sim, struct sim_node *node)
{
    static const uint8_t zeros[VFS_BLOCK];
    uint8_t block[VFS_BLOCK];
    struct newest newest = {.name = ""};
    uint64_t size = 0;

    ASSERT(!node->up);
    vfs_mem_each(node->disk, note_segment, &newest);
    if (!vfs_mem_size(node->disk, newest.name, &size)) {
        return;
    }
    SIM_TRACE(sim, "fault: the last write to %s of node %u is lost", newest.name, node->id);
    for (uint64_t at = size; at > 2 * VFS_BLOCK; at -= VFS_BLOCK) {
        (void)vfs_mem_read(node->disk, newest.name, at - VFS_BLOCK, block, sizeof(block));
        if (memcmp(block, zeros, sizeof(block)) != 0) {
            vfs_mem_poke(node->disk, newest.name, at - VFS_BLOCK, zeros, sizeof(zeros));
            break;
        }
    }
    harm(node);
}

void sim_disk_spoil(struct sim *sim, struct sim_node *node, const char *part)
{
    struct ruin ruin = {.sim = sim, .disk = node->disk, .part = part, .once = true};

    SIM_TRACE(sim, "fault: one bit of each %s of node %u flips", part, node->id);
    vfs_mem_each(node->disk, ruin_file, &ruin);
}

struct vfs_mem *sim_disk_image(struct sim_node *node)
{
    return vfs_mem_clone(node->disk);
}

void sim_disk_roll_back(struct sim *sim, struct sim_node *node, struct vfs_mem *take_image)
{
    ASSERT(!node->up);

    SIM_TRACE(sim, "fault: disk of node %u is rolled back", node->id);
    vfs_mem_free(node->disk);
    node->disk = take_image;
    node->failing = 0;
    node->vfs = vfs_mem_vfs(node->disk);
    vfs_mem_crash(node->disk, &sim->rng, VFS_MEM_KEEP_ALL);
    harm(node);
    node->rolled_back = true;
}

struct usage {
    const struct vfs_mem *disk;
    uint64_t bytes;
};

static void add_size(void *arg, const char *name)
{
    struct usage *usage = arg;
    uint64_t size = 0;

    if (vfs_mem_size(usage->disk, name, &size)) {
        usage->bytes += size;
    }
}

void sim_disk_limit(struct sim *sim, struct sim_node *node, bool full)
{
    struct usage usage = {.disk = node->disk};

    node->full = full;
    if (!full) {
        vfs_mem_set_capacity(node->disk, 0);
        return;
    }
    vfs_mem_each(node->disk, add_size, &usage);
    vfs_mem_set_capacity(node->disk, usage.bytes + rng_below(&sim->rng, SLACK_MAX) + 1);
}

void sim_disk_verify(struct sim *sim, struct sim_node *node)
{
    struct vfs_mem *copy = vfs_mem_clone(node->disk);
    struct store_report *report = mem_zalloc(1, sizeof(*report));
    struct store_options options = {.segment_bytes = sim->knobs.segment_bytes,
                                    .snapshots_keep = sim->knobs.snapshots_keep,
                                    .record_bytes_max = ZAB_RECORD_BYTES_MAX};
    struct store *store = NULL;

    vfs_mem_crash(copy, &sim->rng, VFS_MEM_LOSE_ALL);
    options.vfs = vfs_mem_vfs(copy);
    if (store_open(&options, true, &store, report) != ERR_OK) {
        sim_fail(sim, "A18", "the disk of node %u cannot be opened at the end", node->id);
    }
    if (!node->damaged && !node->rotten &&
        (report->verdict == STORE_DAMAGED ||
         !sim_log_holds(sim, report->log_last, node->shadow.last))) {
        sim_fail(sim, "A4",
                 "node %u: after a power cut its disk would hold the log only up to %" PRIx64
                 ", not up to %" PRIx64 " (%s)",
                 node->id, report->log_last, node->shadow.last, report->reason);
    }
    store_close(store, false);
    mem_free(report);
    vfs_mem_free(copy);
}
