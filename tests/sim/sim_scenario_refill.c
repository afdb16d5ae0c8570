#include "tests/sim/sim_check_int.h"
#include "tests/sim/sim_script.h"

/* Scenarios around a replica that is refilled over a slow link. */

/* ---- S40: a learner behind a slow link, a short log and steady writes. ---- */

enum {
    S40_FILL = 600,   /* Writes that fill the state. */
    S40_TURN_MS = 60, /* Between two writes while the learner is refilled. */
    S40_TURNS = 1500, /* After so many the learner must be in step, under load. */
    S40_RATE = 6,     /* Bytes per ms: more than the writes need. */
};

static void slow_refill(struct sim_knobs *knobs)
{
    knobs->snap_count = 12;
    knobs->snapshots_keep = 1;
    knobs->keep_bytes_max = 64 << 20;
    knobs->limits.cache_max = 4;
    knobs->limits.chunk_bytes = 500;
    knobs->limits.window_bytes_max = 4 << 10;
    knobs->queue_bytes = 32 << 10;
    knobs->segment_bytes = 16 << 10;
}

static void set_rate(struct sim *sim, uint32_t id, uint32_t rate)
{
    for (uint32_t other = 1; other <= sim->knobs.nodes; other++) {
        sim->links[other][id].rate = rate;
        sim->links[id][other].rate = rate;
    }
}

/* The leader gets writes until `node` serves; `broken`: its connection breaks at intervals. */
static void refill_under_load(struct sim *sim, struct sim_node *node, bool broken)
{
    uint64_t reset_at = sim->now_us;

    for (int turn = 0; turn < S40_TURNS; turn++) {
        if (node->up && node->status.zab.serving) {
            return;
        }
        script_write(sim, script_leader(sim));
        script_run(sim, S40_TURN_MS);
        if (broken && sim->now_us >= reset_at) {
            sim_net_reset(sim, script_leader(sim)->id, node->id);
            reset_at = sim->now_us + rng_range(&sim->rng, 2000, 4000) * SIM_MS;
        }
    }
    sim_fail(sim, "A24", "node %u, behind a slow link, does not get in step under load", node->id);
}

static void s40(struct sim *sim)
{
    struct sim_node *learner;

    script_bootstrap(sim);
    learner = script_follower(sim, 0);
    script_crash(sim, learner, SIM_KILL);
    script_writes(sim, script_leader(sim), S40_FILL);
    set_rate(sim, learner->id, S40_RATE);
    script_start(sim, learner);
    refill_under_load(sim, learner, false);
    set_rate(sim, learner->id, 0);
    sim_settle(sim);
}

/* The same, and the connection breaks in shorter intervals than the snapshot takes. */
static void s42(struct sim *sim)
{
    struct sim_node *learner;

    script_bootstrap(sim);
    learner = script_follower(sim, 0);
    script_crash(sim, learner, SIM_KILL);
    script_writes(sim, script_leader(sim), S40_FILL);
    set_rate(sim, learner->id, S40_RATE);
    script_start(sim, learner);
    refill_under_load(sim, learner, true);
    set_rate(sim, learner->id, 0);
    sim_settle(sim);
    if (sim_probe_hits("zab.snapshot_resumed") == 0) {
        sim_fail(sim, "A24", "no broken transfer to node %u has resumed", learner->id);
    }
}

/* The leader dies in the middle of the transfer. The next leader has another snapshot, which must
 * not be combined with the received part of the first. */
static void s43(struct sim *sim)
{
    uint64_t refused = sim_probe_hits("storage.received_snapshot_refused");
    struct sim_node *learner;
    struct sim_node *leader;

    script_bootstrap(sim);
    leader = script_leader(sim);
    learner = script_follower(sim, 0);
    script_crash(sim, learner, SIM_KILL);
    script_writes(sim, leader, S40_FILL);
    set_rate(sim, learner->id, S40_RATE);
    script_start(sim, learner);
    script_run(sim, rng_range(&sim->rng, 1500, 4000));
    script_crash(sim, leader, SIM_KILL);
    script_run(sim, 2000);
    set_rate(sim, learner->id, 0);
    script_start(sim, leader);
    sim_settle(sim);
    if (sim_probe_hits("storage.received_snapshot_refused") != refused) {
        sim_fail(sim, "A25", "node %u has put parts of two snapshots together", learner->id);
    }
}

/* ---- S44, S45: the connection breaks after the snapshot, before its log has arrived. ---- */

/* A scan takes seconds, and so the log that belongs to it is long. */
static void long_scan(struct sim_knobs *knobs)
{
    slow_refill(knobs);
    knobs->slice_bytes = 100;
    knobs->disk_min_us = 2000;
    knobs->disk_max_us = 20000;
}

/* The log of each replica starts before the snapshot that another replica sends. */
static void long_scan_and_log(struct sim_knobs *knobs)
{
    long_scan(knobs);
    knobs->snapshots_keep = 5;
}

static bool has_a_part_of_the_log(struct sim *sim)
{
    const struct sim_node *learner = &sim->nodes[sim->hook_arg];

    return learner->staging && learner->staged != APPENDED_UNKNOWN;
}

/* Returns a learner that has a whole snapshot and a part of its log. */
static struct sim_node *nearly_whole(struct sim *sim)
{
    struct sim_node *learner;

    script_bootstrap(sim);
    learner = script_follower(sim, 0);
    script_crash(sim, learner, SIM_KILL);
    script_writes(sim, script_leader(sim), S40_FILL);
    set_rate(sim, learner->id, S40_RATE);
    script_start(sim, learner);
    sim->hook_arg = learner->id;
    script_until(sim, has_a_part_of_the_log, "the end of the snapshot and the start of its log");
    return learner;
}

/* One connection carries only a part of that log: without the parts of earlier connections the
 * transfer would never end. */
static void s44(struct sim *sim)
{
    uint64_t continued = sim_probe_hits("zab.snapshot_log_resumed");
    struct sim_node *learner = nearly_whole(sim);

    refill_under_load(sim, learner, true);
    set_rate(sim, learner->id, 0);
    sim_settle(sim);
    if (sim_probe_hits("zab.snapshot_log_resumed") == continued) {
        sim_fail(sim, "A24", "node %u got a second snapshot", learner->id);
    }
}

static bool two_serve(struct sim *sim)
{
    uint32_t serving = 0;

    for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
        serving += sim->nodes[id].up && sim->nodes[id].status.zab.serving;
    }
    return serving == 2;
}

/* The leader dies at that moment. The next leader does not have that snapshot, but it has the log;
 * and it needs the learner for its quorum. */
static void s45(struct sim *sim)
{
    uint64_t continued = sim_probe_hits("zab.snapshot_log_resumed");
    struct sim_node *learner = nearly_whole(sim);
    struct sim_node *leader = script_leader(sim);

    script_crash(sim, leader, SIM_KILL);
    script_until(sim, two_serve, "both remaining replicas in step");
    if (sim_probe_hits("zab.snapshot_log_resumed") == continued) {
        sim_fail(sim, "A24", "node %u got a second snapshot from another leader", learner->id);
    }
    set_rate(sim, learner->id, 0);
    script_start(sim, leader);
    sim_settle(sim);
}

/* ---- S46: the connection breaks when the learner serves again, but is far behind. ---- */

enum {
    S46_WRITES = 40 /* They cause snapshots and purges. */
};

/* The leader has no snapshot left that the learner's log follows, but it has kept the log. */
static void s46(struct sim *sim)
{
    uint64_t installed = sim_probe_hits("zab.installed");
    struct sim_node *learner = nearly_whole(sim);

    refill_under_load(sim, learner, false); /* It lacks what was written meanwhile. */
    script_isolate(sim, learner, true, true);
    sim_net_reset(sim, script_leader(sim)->id, learner->id);
    script_writes(sim, script_leader(sim), S46_WRITES);
    script_heal(sim);
    refill_under_load(sim, learner, false);
    if (sim_probe_hits("zab.installed") != installed + 1) {
        sim_fail(sim, "A24", "node %u got a second snapshot", learner->id);
    }
    set_rate(sim, learner->id, 0);
    sim_settle(sim);
}

/* ---- S41: a learner stalls in the middle of its snapshot: the leader purges the log. ---- */

enum {
    S41_BREAK_MS = 1500, /* The transfer has started. */
    S41_STALL_MS = 320000,
    S41_WRITES = 60, /* They cause snapshots and purges. */
};

static uint64_t kept_bytes(const struct sim_node *node)
{
    struct store_figures figures;

    store_figures(node->store, &figures);
    return figures.kept_bytes;
}

static void s41(struct sim *sim)
{
    struct sim_node *learner;

    script_bootstrap(sim);
    learner = script_follower(sim, 0);
    script_crash(sim, learner, SIM_KILL);
    script_writes(sim, script_leader(sim), S40_FILL);
    set_rate(sim, learner->id, S40_RATE);
    script_start(sim, learner);
    script_run(sim, S41_BREAK_MS);
    sim_node_pause(sim, learner, 3600 * UINT64_C(1000000));
    script_writes(sim, script_leader(sim), S41_WRITES);
    if (kept_bytes(script_leader(sim)) == 0) {
        sim_fail(sim, "A24", "no log is kept for node %u, which receives a snapshot", learner->id);
    }
    script_run(sim, S41_STALL_MS);
    script_writes(sim, script_leader(sim), S41_WRITES);
    if (kept_bytes(script_leader(sim)) > 0) {
        sim_fail(sim, "A25", "log is still kept for node %u, which has stalled", learner->id);
    }
    sim_node_resume(sim, learner);
    set_rate(sim, learner->id, 0);
    sim_settle(sim);
}

const struct script scripts_refill[] = {
    {.name = "S40", .run = s40, .knobs = slow_refill},
    {.name = "S42", .run = s42, .knobs = slow_refill},
    {.name = "S43", .run = s43, .knobs = slow_refill},
    {.name = "S44", .run = s44, .knobs = long_scan},
    {.name = "S45", .run = s45, .knobs = long_scan_and_log},
    {.name = "S46", .run = s46, .knobs = long_scan},
    {.name = "S41", .run = s41, .knobs = slow_refill},
    {.name = NULL},
};
