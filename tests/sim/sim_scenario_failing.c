#include "tests/lib/vfs_mem.h"
#include "tests/sim/sim_failing.h"
#include "tests/sim/sim_script.h"

/* Scenarios around disks that fail or rot while a process uses them. */

enum {
    AWAY_MS = 3000,
    BEHIND_WRITES = 40, /* They fill and close some segments. */
};

static void tight(struct sim_knobs *knobs)
{
    knobs->segment_bytes = 16 << 10;
    knobs->limits.cache_max = 1;
}

static bool has_ended(struct sim *sim)
{
    return sim->nodes[sim->hook_arg].life != sim->hook_hits || !sim->nodes[sim->hook_arg].up;
}

/* The process whose disk fails ends at its next write. The next leader accepts writes, and once the
 * disk works the replica returns with everything that it has acknowledged. */
static void fail_once(struct sim *sim, struct sim_node *node, unsigned kinds)
{
    uint64_t quarantines = sim->totals.quarantines;

    sim->hook_arg = node->id;
    sim->hook_hits = node->life;
    sim_disk_fail(sim, node, kinds);
    (void)script_send(sim, script_leader(sim));
    script_until(sim, has_ended, "the end of a process whose disk fails");
    script_run(sim, AWAY_MS);
    script_writes(sim, script_leader(sim), 5);
    sim_disk_mend(sim, node);
    sim_settle(sim);
    if (sim->totals.quarantines != quarantines) {
        sim_fail(sim, "A18", "node %u was refilled, although its disk lost nothing", node->id);
    }
    script_writes(sim, node, 3);
}

static void disk_fails(struct sim *sim)
{
    static const unsigned kinds[] = {VFS_MEM_FAIL_SYNCS, VFS_MEM_FAIL_WRITES, VFS_MEM_FAIL_ALL};

    script_bootstrap(sim);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        script_writes(sim, script_leader(sim), 3);
        fail_once(sim, script_follower(sim, (uint32_t)i % 2), kinds[i]);
        fail_once(sim, script_leader(sim), kinds[i]);
    }
}

/* A learner needs a part of the log that its leader can no longer read. The leader detects that,
 * resigns, and is refilled by the third replica, which synchronises both. */
static void disk_decays(struct sim *sim)
{
    script_bootstrap(sim);
    for (int kind = 0; kind < SIM_DECAYS; kind++) {
        struct sim_node *leader = script_leader(sim);
        struct sim_node *behind = script_follower(sim, (uint32_t)kind % 2);
        uint64_t quarantines = sim->totals.quarantines;

        script_crash(sim, behind, SIM_KILL);
        script_writes(sim, leader, BEHIND_WRITES);
        sim_disk_decay_log(sim, leader, (enum sim_decay)kind);
        script_write(sim, leader);
        script_start(sim, behind);
        sim_settle(sim);
        if (sim->totals.quarantines == quarantines) {
            sim_fail(sim, "A18", "leader %u continues with a log that it cannot read", leader->id);
        }
        script_writes(sim, leader, 3);
    }
}

/* The same damage at a follower: it does no harm in use, and the next start detects it. */
static void disk_decays_unseen(struct sim *sim)
{
    script_bootstrap(sim);
    for (int kind = 0; kind < SIM_DECAYS; kind++) {
        struct sim_node *node = script_follower(sim, (uint32_t)kind % 2);

        script_writes(sim, script_leader(sim), BEHIND_WRITES);
        sim_disk_decay_log(sim, node, (enum sim_decay)kind);
        script_writes(sim, node, 5);
        script_crash(sim, node, SIM_KILL);
        script_write(sim, script_leader(sim));
        script_start(sim, node);
        sim_settle(sim);
        script_writes(sim, node, 3);
    }
}

const struct script scripts_failing[] = {
    {.name = "disk-fails", .run = disk_fails, .knobs = tight},
    {.name = "disk-decays", .run = disk_decays, .knobs = tight},
    {.name = "disk-decays-unseen", .run = disk_decays_unseen, .knobs = tight},
    {.name = NULL},
};
