#include "base/mem.h"
#include "server/process/sole_voter.h"
#include "tests/sim/sim_quorum.h"
#include "tests/sim/sim_script.h"
#include "tests/sim/sim_seat.h"

/* Scenarios around the seats of voters: which disks have a vote, and which replicas know it. */

/* ---- A disk comes back while the admission of another disk to its seat is pending. ---- */

/* Its replica gets that record, is elected, and commits the loss of its own seat. */

enum {
    SEAT_NODE = 3, /* Among equal logs the highest id leads. */
    SEAT_APART_MS = 8000,
    DURABLE_MS = 1000, /* Time for the disk to write the record, and for the leader to give up. */
};

/* The fault must strike after the proposal, before a majority can have it. */
static void slow_net(struct sim_knobs *knobs)
{
    knobs->delay_min_us = 15000;
    knobs->delay_max_us = 20000;
}

static bool is_named(struct sim *sim)
{
    return sim_seat_is_named(sim, &sim->nodes[SEAT_NODE]);
}

static void seat(struct sim *sim)
{
    struct sim_node *node = &sim->nodes[SEAT_NODE];
    uint32_t leader;

    script_bootstrap(sim);
    script_writes(sim, script_leader(sim), 5);
    script_crash(sim, node, SIM_POWER);
    sim_seat_keep(node);
    sim_disk_empty(sim, node);
    leader = script_leader(sim)->id;
    script_start(sim, node);
    script_until(sim, is_named, "an admission");
    sim_net_cut(sim, leader, SEAT_NODE - leader);
    sim_net_cut(sim, SEAT_NODE - leader, leader);
    script_crash(sim, node, SIM_POWER);
    sim_seat_swap(sim, node);
    script_start(sim, node);
    script_run(sim, SEAT_APART_MS);
    script_heal(sim);
    sim_settle(sim);
    script_write(sim, script_leader(sim));
}

/* ---- A majority is lost for good: a forced recovery; the others come back empty. ---- */

static void tight(struct sim_knobs *knobs)
{
    knobs->segment_bytes = 16 << 10;
    knobs->snap_count = 20;
}

static void recover_alone(struct sim *sim, struct sim_node *node)
{
    struct store_options options = {.vfs = node->vfs,
                                    .segment_bytes = sim->knobs.segment_bytes,
                                    .snapshots_keep = sim->knobs.snapshots_keep,
                                    .salt_seed = rng_u64(&sim->rng),
                                    .record_bytes_max = ZAB_RECORD_BYTES_MAX};
    struct store_report *report = mem_zalloc(1, sizeof(*report));
    struct sole_voter *survivor = mem_zalloc(1, sizeof(*survivor));
    struct store *store;
    const char *why;

    if (store_open(&options, false, &store, report) != ERR_OK ||
        sole_voter_check(store, report, node->id, survivor, &why) != ERR_OK ||
        sole_voter_write(store, survivor, rng_u64(&sim->rng) | 1, survivor->stamp_ms) != ERR_OK) {
        sim_fail(sim, "A18", "node %u cannot recover alone", node->id);
    }
    store_close(store, true);
    (void)store_open(&options, true, &store, report);
    node->shadow.promised_epoch = report->promised_epoch;
    if (sole_voter_check(store, report, node->id, survivor, &why) != ERR_OK) {
        sim_fail(sim, "A18", "node %u holds no configuration after its recovery", node->id);
    }
    sim_quorum_set(sim, &survivor->config);
    store_close(store, false);
    mem_free(survivor);
    mem_free(report);
}

/* All machines stop; only the disk of `node` is left, and its replica continues alone. */
static void leave_one(struct sim *sim, struct sim_node *node, enum sim_crash how)
{
    script_crash_all(sim, how);
    for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
        if (id != node->id) {
            sim_disk_empty(sim, &sim->nodes[id]);
        }
    }
    recover_alone(sim, node);
    script_start(sim, node);
    script_write(sim, node);
}

static void survivor(struct sim *sim)
{
    script_bootstrap(sim);
    for (int round = 0; round < 3; round++) {
        struct sim_node *node = script_follower(sim, (uint32_t)round % 2);

        script_writes(sim, script_leader(sim), 20);
        sim_settle(sim); /* The survivor has all records; others would be lost by design. */
        leave_one(sim, node, round % 2 ? SIM_POWER : SIM_KILL);
        script_start_all(sim);
        sim_settle(sim);
        script_write(sim, script_leader(sim));
    }
}

/* ---- A voter does not know that it votes, and the quorum needs it. ---- */

/* The survivor of a recovery has the admission of a second disk in its log. That disk must count
 * for the commit, but its replica does not have the record. */
static void unaware(struct sim *sim)
{
    struct sim_node *node = &sim->nodes[SEAT_NODE];
    struct sim_node *alone = &sim->nodes[1];

    script_bootstrap(sim);
    script_writes(sim, script_leader(sim), 5);
    sim_settle(sim);
    leave_one(sim, alone, SIM_POWER);
    script_start(sim, node);
    script_until(sim, is_named, "an admission");
    script_isolate(sim, node, true, true);
    script_run(sim, DURABLE_MS);
    if (!sim_seat_is_named(sim, node)) {
        sim_fail(sim, "host", "the admission is committed, or lost");
    }
    script_crash(sim, alone, SIM_POWER);
    script_crash(sim, node, SIM_POWER); /* With the record in its socket. */
    script_heal(sim);
    script_start(sim, alone);
    script_start(sim, node);
    script_write(sim, script_leader(sim));
    script_start_all(sim);
    sim_settle(sim);
    script_write(sim, script_leader(sim));
}

const struct script scripts_seat[] = {
    {.name = "seat", .run = seat, .knobs = slow_net},
    {.name = "survivor", .run = survivor, .knobs = tight},
    {.name = "unaware", .run = unaware, .knobs = slow_net},
    {.name = NULL},
};
