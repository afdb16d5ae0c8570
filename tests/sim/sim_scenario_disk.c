#include "base/mem.h"
#include "server/read/view.h"
#include "server/state/state.h"
#include "tests/lib/vfs_mem.h"
#include "tests/sim/sim_script.h"

/* Scenarios around disks. */

/* ---- S12, S13: all machines lose power under load, also in an ensemble of one. ---- */

static void s12(struct sim *sim)
{
    script_bootstrap(sim);
    for (int round = 0; round < 8; round++) {
        for (int i = 0; i < 20; i++) {
            (void)script_send(sim, script_leader(sim));
        }
        script_run(sim, rng_range(&sim->rng, 1, 60));
        script_crash_all(sim, SIM_POWER);
        script_run(sim, 100);
        script_start_all(sim);
        sim_settle(sim);
    }
}

static void one(struct sim_knobs *knobs)
{
    knobs->nodes = 1;
    knobs->voters = 1;
    knobs->snap_count = 30;
}

/* ---- A log of more epochs than an outline lists, without a snapshot. ---- */

/* A replica that has only the first epoch receives it, finds it again after a power cut, and purges
 * it after a snapshot. */

enum {
    EPOCHS = ZAB_RANGES_MAX + 100,
    EPOCH_WRITES_MAX = 100000,
};

static void short_epochs(struct sim_knobs *knobs)
{
    knobs->nodes = 2;
    knobs->voters = 1;
    knobs->limits.counter_max = 1;
    knobs->snap_count = 6 * EPOCHS;
    knobs->segment_bytes = 1 << 20;
}

static void set_once(struct sim *sim)
{
    struct sim_sub sub = {.id = OP_SET, .path = "/k0", .data = "x"};
    const struct sim_op *op = sim_client_send(sim, 1, &sub, false);

    while (op->outcome == SIM_PENDING) {
        script_run(sim, 1);
    }
}

static void s17(struct sim *sim)
{
    struct sim_node *behind = &sim->nodes[2];

    script_bootstrap(sim);
    script_crash(sim, behind, SIM_KILL);
    while (sim->newest_epoch < EPOCHS) {
        set_once(sim);
    }
    script_start(sim, behind);
    sim_settle(sim);
    script_crash_all(sim, SIM_POWER);
    script_start_all(sim);
    sim_settle(sim);
    for (int i = 0; i < EPOCH_WRITES_MAX && sim->totals.snaps_taken < 2; i++) {
        set_once(sim);
    }
    if (sim->totals.snaps_taken < 2) {
        sim_fail(sim, "A24", "no snapshot in %d writes", EPOCH_WRITES_MAX);
    }
    script_crash(sim, behind, SIM_POWER);
    script_start(sim, behind);
}

/* ---- S15: disks fill up, first one, then a quorum, and are freed. ---- */

static void tight(struct sim_knobs *knobs)
{
    knobs->segment_bytes = 16 << 10;
    knobs->snap_count = 20;
}

static void s15(struct sim *sim)
{
    script_bootstrap(sim);
    for (uint32_t full = 1; full <= sim->knobs.nodes; full++) {
        for (uint32_t id = 1; id <= full; id++) {
            sim_disk_limit(sim, &sim->nodes[id], true);
        }
        for (int i = 0; i < 60; i++) {
            (void)script_send(sim, &sim->nodes[1 + (uint32_t)i % sim->knobs.nodes]);
            script_run(sim, 200);
        }
        script_crash(sim, &sim->nodes[full], SIM_POWER);
        script_run(sim, 2000);
        for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
            sim_disk_limit(sim, &sim->nodes[id], false);
        }
        script_start_all(sim);
        sim_settle(sim);
        script_run(sim, 3000); /* The next attempt to use the space notices it. */
        script_write(sim, script_leader(sim));
    }
}

/* ---- S16: bits flip anywhere on the disks of a minority; the damaged replica is refilled. ---- */

static void s16(struct sim *sim)
{
    script_bootstrap(sim);
    for (int round = 0; round < 10; round++) {
        struct sim_node *node = script_follower(sim, (uint32_t)rng_below(&sim->rng, 2));

        script_writes(sim, script_leader(sim), 8);
        script_crash(sim, node, rng_chance(&sim->rng, 500000) ? SIM_POWER : SIM_KILL);
        sim_disk_rot(sim, node, (uint32_t)rng_range(&sim->rng, 1, 60));
        script_write(sim, script_leader(sim));
        script_start(sim, node);
        sim_settle(sim);
    }
}

/* A disk rots and heals at once, and the leader dies right after. The replica must hold again
 * everything that it had acknowledged before it counts. */
static void s16_leader(struct sim *sim)
{
    script_bootstrap(sim);
    for (int round = 0; round < 6; round++) {
        struct sim_node *leader = script_leader(sim);
        struct sim_node *node = script_follower(sim, 0);
        struct sim_node *other = script_follower(sim, 1);

        script_crash(sim, other, SIM_POWER);
        script_writes(sim, leader, 10);
        script_crash(sim, node, SIM_KILL);
        sim_disk_rot(sim, node, 2000);
        script_start(sim, node);
        script_run(sim, rng_range(&sim->rng, 1, 1500));
        script_crash(sim, leader, SIM_KILL);
        script_start(sim, other);
        script_run(sim, rng_range(&sim->rng, 100, 5000));
        script_start_all(sim);
        sim_settle(sim);
    }
}

/* ---- S19: A and B acknowledge x while C is away; A's disk is replaced; C comes, B goes. ---- */

static bool never(struct sim *sim)
{
    return sim_leader(sim) != NULL;
}

static void s19(struct sim *sim)
{
    script_bootstrap(sim);
    for (int round = 0; round < 3; round++) {
        struct sim_node *a = script_leader(sim);
        struct sim_node *b = script_follower(sim, 0);
        struct sim_node *c = script_follower(sim, 1);

        script_crash(sim, c, SIM_POWER);
        script_writes(sim, a, 3);
        script_crash(sim, a, SIM_POWER);
        script_crash(sim, b, SIM_POWER);
        sim_disk_empty(sim, a);
        script_start(sim, a);
        script_start(sim, c);
        script_run(sim, 15000);
        if (never(sim)) {
            sim_fail(sim, "A23", "a replaced disk and one that lags have elected a leader");
        }
        script_start(sim, b);
        sim_settle(sim);
        script_write(sim, a);
    }
}

/* ---- S20: a disk returns to an older image. ---- */

static void s20(struct sim *sim)
{
    script_bootstrap(sim);
    for (int round = 0; round < 4; round++) {
        struct sim_node *node = script_follower(sim, (uint32_t)round % 2);
        struct vfs_mem *image;

        script_writes(sim, script_leader(sim), 5);
        script_crash(sim, node, SIM_POWER);
        image = sim_disk_image(node);
        script_start(sim, node);
        sim_settle(sim);
        script_writes(sim, script_leader(sim), 10);
        script_crash(sim, node, SIM_POWER);
        sim_disk_roll_back(sim, node, image);
        script_start(sim, node);
        sim_settle(sim);
    }
}

/* ---- Unreadable files: identity, promise, or a snapshot that is being received. ---- */

static void s16_lost(struct sim *sim)
{
    static const char *const parts[] = {"identity", "promise", "manifest", "quarantine"};

    script_bootstrap(sim);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        struct sim_node *node = script_follower(sim, (uint32_t)i % 2);

        script_writes(sim, script_leader(sim), 3);
        script_crash(sim, node, SIM_KILL);
        sim_disk_ruin(sim, node, parts[i]);
        script_start(sim, node);
        sim_settle(sim);
        script_write(sim, node);
    }
}

/* The identity is lost, and so is a write that a clean stop had completed. */
static void s16_gone(struct sim *sim)
{
    script_bootstrap(sim);
    for (int round = 0; round < 4; round++) {
        struct sim_node *node = script_follower(sim, (uint32_t)round % 2);

        script_writes(sim, script_leader(sim), 5);
        sim_settle(sim);
        script_crash(sim, node, round % 2 ? SIM_KILL : SIM_STOP);
        if (round % 2) {
            sim_disk_remove(sim, node, "identity");
        } else {
            sim_disk_forget(sim, node);
        }
        script_start(sim, node);
        sim_settle(sim);
        script_write(sim, node);
    }
}

/* ---- Snapshots of a tree in which directories come and go while they are written. ---- */

static void small_slices(struct sim_knobs *knobs)
{
    knobs->snap_count = 12;
    knobs->slice_bytes = 60;
    knobs->disk_min_us = 1000;
    knobs->disk_max_us = 10000;
}

/* Few names, so that each is created and deleted often; one sorts after all others. */
static void come_and_go(struct sim *sim, struct sim_node *node)
{
    static const enum op_id kinds[] = {OP_CREATE, OP_CREATE, OP_DELETE, OP_SET};

    static const char *const paths[] = {"/k1", "/k1/c0", "/k1/c1", "/zz", "/zz/c0"};
    struct sim_sub sub = {.id = kinds[rng_below(&sim->rng, 4)]};

    (void)snprintf(sub.data, sizeof(sub.data), "op%zu", sim->op_count);
    (void)snprintf(sub.path, sizeof(sub.path), "%s",
                   paths[rng_below(&sim->rng, sizeof(paths) / sizeof(paths[0]))]);
    (void)sim_client_send(sim, node->id, &sub, false);
}

static void fuzzy(struct sim *sim)
{
    script_bootstrap(sim);
    script_writes(sim, script_leader(sim), 20);
    for (int round = 0; round < 60; round++) {
        struct sim_node *node = script_follower(sim, (uint32_t)round % 2);

        for (int i = 0; i < 16; i++) {
            come_and_go(sim, script_leader(sim));
            script_run(sim, rng_below(&sim->rng, 12));
        }
        script_crash(sim, node, round % 3 ? SIM_KILL : SIM_POWER);
        script_run(sim, 50);
        script_start(sim, node);
        script_run(sim, rng_below(&sim->rng, 600));
    }
}

static void fat(struct sim_knobs *knobs)
{
    knobs->snap_count = 20;
    knobs->snapshots_keep = 1;
    knobs->limits.cache_max = 4;
    knobs->pad_bytes = 20000;
    knobs->slice_bytes = 100000;
    knobs->segment_bytes = 128 << 10;
}

static void fat_five(struct sim_knobs *knobs)
{
    fat(knobs);
    knobs->disk_min_us = 5000;
    knobs->disk_max_us = 60000;
    knobs->nodes = 5;
    knobs->voters = 5;
}

/* All of the leader's snapshots rot, and only a learner's transfer reads them: the leader takes a
 * new one, and no learner receives a snapshot that does not verify. */
static void spoilt(struct sim *sim)
{
    script_bootstrap(sim);
    for (int round = 0; round < 3; round++) {
        struct sim_node *leader = script_leader(sim);
        struct sim_node *behind = script_follower(sim, 0);

        script_crash(sim, behind, SIM_KILL);
        script_writes(sim, leader, 60);
        sim_disk_spoil(sim, leader, "snap-0"); /* Only complete snapshots. */
        script_start(sim, behind);
        script_run(sim, 3000);
        script_writes(sim, leader, 40);
        sim_settle(sim);
    }
}

/* Two learners fetch pieces at the same time, and the leader replaces the snapshot meanwhile. */
static void pieces(struct sim *sim)
{
    script_bootstrap(sim);
    for (int round = 0; round < 3; round++) {
        struct sim_node *leader = script_leader(sim);

        for (uint32_t i = 0; i < 2; i++) {
            script_crash(sim, script_follower(sim, i), SIM_KILL);
        }
        script_writes(sim, leader, 60);
        for (int i = 0; i < 100; i++) {
            if (i % 15 == 0 && i < 30) {
                script_start(sim, script_follower(sim, (uint32_t)i / 15));
            }
            (void)script_send(sim, script_leader(sim));
            script_run(sim, 20);
        }
        sim_settle(sim);
    }
}

/* ---- A state differs in memory: digests detect it, and the replica is refilled. ---- */

static void corrupt(struct sim_node *node, const char *data)
{
    struct txn_header header = {.age_ms = 1, .stamp_ms = 1};
    struct txn_effect effect = {
        .type = TXN_SET, .path = slice_str("/k0"), .data = slice_str(data), .version = 77};
    struct buf txn;
    struct state *state = view_write(node->view);

    buf_init(&txn, 4096);
    txn_begin(&txn, &header);
    txn_put(&txn, &effect);
    (void)state_apply(state, state_applied(state), buf_slice(&txn), true, NULL);
    view_write_done(node->view);
    buf_release(&txn);
    node->diverged = true;
}

static void diverged(struct sim *sim)
{
    script_bootstrap(sim);
    for (int round = 0; round < 3; round++) {
        corrupt(round == 1 ? script_leader(sim) : script_follower(sim, 0), "rot");
        for (int i = 0; i < 140; i++) {
            script_try(sim, script_leader(sim));
        }
        script_run(sim, 5000);
        for (int i = 0; i < 70; i++) {
            script_try(sim, script_leader(sim));
        }
        sim_settle(sim);
    }
}

static bool is_spoilt(struct sim *sim)
{
    return sim->spoil_loaded == 0;
}

/* A snapshot arrives intact, but the loaded state is wrong. Its digest shows that where the log
 * covers it, and the replica must answer no client from that state. */
static void bad_load(struct sim *sim)
{
    script_bootstrap(sim);
    for (int round = 0; round < 6; round++) {
        struct sim_node *node = script_follower(sim, (uint32_t)round % 2);
        uint64_t caught = sim->totals.quarantines;

        script_crash(sim, node, SIM_KILL);
        script_writes(sim, script_leader(sim), 60);
        script_start(sim, node);
        sim->spoil_loaded = node->id;
        while (!is_spoilt(sim)) {
            (void)script_send(sim, script_leader(sim));
            script_run(sim, 10);
        }
        for (int i = 0; i < 20; i++) {
            (void)script_send(sim, node);
            script_run(sim, 20);
        }
        sim_settle(sim);
        /* Another snapshot may have replaced the state before it was whole. */
        if (sim->totals.quarantines == caught && node->diverged) {
            sim_fail(sim, "A17", "node %u continues with a state that its snapshot contradicts",
                     node->id);
        }
    }
}

static bool all_halted(struct sim *sim)
{
    return sim->halts == sim->knobs.nodes;
}

/* All states differ: no replica may continue, and the disks stay sound. */
static void all_diverged(struct sim *sim)
{
    static const char *const data[] = {"rot", "mould"};

    script_bootstrap(sim);
    for (uint32_t i = 0; i < 2; i++) {
        corrupt(script_follower(sim, i), data[i]);
    }
    sim->may_halt = true;
    for (int i = 0; i < 70; i++) {
        (void)script_send(sim, script_leader(sim));
    }
    script_until(sim, all_halted, "the end of all processes");
    sim->may_halt = false;
    script_start_all(sim);
    sim_settle(sim);
    script_write(sim, script_leader(sim));
}

const struct script scripts_disk[] = {
    {.name = "S16-lost", .run = s16_lost},
    {.name = "S16-gone", .run = s16_gone},
    {.name = "fuzzy", .run = fuzzy, .knobs = small_slices},
    {.name = "S4-spoilt", .run = spoilt, .knobs = fat},
    {.name = "S4-pieces", .run = pieces, .knobs = fat_five},
    {.name = "diverged", .run = diverged},
    {.name = "diverged-all", .run = all_diverged},
    {.name = "bad-load", .run = bad_load, .knobs = fat},
    {.name = "S12", .run = s12},
    {.name = "S13", .run = s12, .knobs = one},
    {.name = "S17", .run = s17, .knobs = short_epochs},
    {.name = "S15", .run = s15, .knobs = tight},
    {.name = "S16", .run = s16, .knobs = tight},
    {.name = "S16-leader", .run = s16_leader},
    {.name = "S19", .run = s19},
    {.name = "S20", .run = s20},
    {.name = NULL},
};
