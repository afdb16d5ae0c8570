#include "tests/sim/sim_script.h"

/* Scenarios around discovery and synchronisation. */

static bool is_persist(const struct zab_effect *effect, enum zab_persist_type type)
{
    return effect->type == ZAB_FX_PERSIST && effect->persist.type == type;
}

static bool is_send(const struct zab_effect *effect, enum zab_msg_type type)
{
    return effect->type == ZAB_FX_SEND && effect->send.msg.type == type;
}

/* ---- S3: a follower dies at any point of the NEWLEADER window, then the leader. ---- */

/* `hook_arg`: the follower in the low byte, then the moment: 0 truncation, 1 a record, 2 the start
 * of the epoch, 3 the acknowledgement. */
static bool in_newleader_window(struct sim *sim, struct sim_node *node,
                                const struct zab_effect *effect)
{
    uint32_t moment = (uint32_t)(sim->hook_arg >> 8);

    if (node->id != (sim->hook_arg & 0xff) || sim->hook_hits > 0) {
        return false;
    }
    switch (moment) {
    case 0:
        return is_persist(effect, ZAB_PERSIST_TRUNCATE);
    case 1:
        return is_persist(effect, ZAB_PERSIST_APPEND) &&
               zxid_counter(effect->persist.append.rec->zxid) != 0;
    case 2:
        return is_persist(effect, ZAB_PERSIST_APPEND) &&
               zxid_counter(effect->persist.append.rec->zxid) == 0;
    default:
        return is_send(effect, ZAB_ACK_NEWLEADER);
    }
}

static void s3_round(struct sim *sim, uint32_t moment)
{
    struct sim_node *leader = script_leader(sim);
    struct sim_node *behind = script_follower(sim, (uint32_t)rng_below(&sim->rng, 2));

    script_crash(sim, behind, SIM_POWER);
    script_writes(sim, leader, 5);
    sim->hook = in_newleader_window;
    sim->hook_arg = behind->id | moment << 8;
    sim->hook_hits = 0;
    sim->hook_stays = true;
    /* In the new epoch the replica that is behind synchronises and dies. */
    script_crash(sim, leader, SIM_POWER);
    script_start(sim, behind);
    script_run(sim, rng_range(&sim->rng, 100, 4000));
    script_start(sim, leader);
    script_run(sim, rng_range(&sim->rng, 100, 4000));
    sim->hook = NULL;
    /* Now the two complete replicas may die, and the one that was behind decides. */
    for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
        if (rng_chance(&sim->rng, 500000)) {
            script_crash(sim, &sim->nodes[id], SIM_POWER);
        }
    }
    for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
        script_start(sim, &sim->nodes[id]);
    }
    sim_settle(sim);
}

static void s3(struct sim *sim)
{
    script_bootstrap(sim);
    for (uint32_t moment = 0; moment < 4; moment++) {
        s3_round(sim, moment);
        script_write(sim, script_leader(sim));
    }
}

/* ---- S4: a snapshot is interrupted, and the next leader synchronises differently. ---- */

enum {
    S4_BUSY_US = 3 * SIM_SECOND
};

static void small_history(struct sim_knobs *knobs)
{
    knobs->snap_count = 10;
    knobs->snapshots_keep = 1;
    knobs->limits.cache_max = 4;
    knobs->segment_bytes = 16 << 10;
}

static bool in_snapshot(struct sim *sim, struct sim_node *node, const struct zab_effect *effect)
{
    static const enum zab_persist_type moments[] = {ZAB_PERSIST_SNAP_BEGIN, ZAB_PERSIST_SNAP_CHUNK,
                                                    ZAB_PERSIST_APPEND, ZAB_PERSIST_SNAP_INSTALL};

    return node->id == (sim->hook_arg & 0xff) && sim->hook_hits == 0 && node->staging &&
           is_persist(effect, moments[sim->hook_arg >> 8 & 3]);
}

static void s4_round(struct sim *sim, uint32_t moment)
{
    struct sim_node *leader = script_leader(sim);
    struct sim_node *behind = script_follower(sim, 0);

    script_crash(sim, behind, SIM_POWER);
    script_writes(sim, leader, 60);
    sim->hook = in_snapshot;
    sim->hook_arg = behind->id | moment << 8;
    sim->hook_hits = 0;
    sim->hook_stays = false;
    script_start(sim, behind);
    script_run(sim, rng_range(&sim->rng, 5, 300));
    script_crash(sim, leader, SIM_KILL);
    script_run(sim, rng_range(&sim->rng, 100, 6000));
    script_start(sim, leader);
    sim->hook = NULL;
    script_run(sim, 1000);
    for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
        script_start(sim, &sim->nodes[id]);
    }
    sim_settle(sim);
}

/* The worker thread is busy, and the handshake restarts repeatedly: a damaged log is reset each
 * time before the empty state of the last reset has been loaded. */
static bool busy_at_restore(struct sim *sim, struct sim_node *node, const struct zab_effect *effect)
{
    if (node->id == sim->hook_arg && effect->type == ZAB_FX_RESTORE && effect->restore.start == 0) {
        node->worker_us = sim->now_us + S4_BUSY_US;
    }
    return false;
}

static void s4_again(struct sim *sim)
{
    script_bootstrap(sim);
    for (int round = 0; round < 3; round++) {
        struct sim_node *node = script_follower(sim, (uint32_t)round % 2);

        script_crash(sim, node, SIM_KILL);
        script_writes(sim, script_leader(sim), 60);
        sim_disk_ruin(sim, node, "wal-");
        sim->hook = busy_at_restore;
        sim->hook_arg = node->id;
        script_start(sim, node);
        for (int i = 0; i < 5; i++) {
            script_run(sim, rng_range(&sim->rng, 100, 500));
            sim_net_reset(sim, script_leader(sim)->id, node->id);
        }
        sim_settle(sim);
        sim->hook = NULL;
    }
}

static void s4(struct sim *sim)
{
    script_bootstrap(sim);
    for (uint32_t moment = 0; moment < 4; moment++) {
        s4_round(sim, moment);
    }
}

/* ---- S5: a truncation is interrupted. S6: divergent tails. ---- */

/* The leader alone has some writes on its own disk; no follower acknowledges them. */
static struct sim_node *lonely_tail(struct sim *sim)
{
    struct sim_node *leader = script_leader(sim);

    script_isolate(sim, leader, true, true);
    for (int i = 0; i < 5; i++) {
        (void)script_send(sim, leader);
    }
    script_run(sim, 200);
    script_crash(sim, leader, SIM_KILL);
    script_heal(sim);
    return leader;
}

static bool in_cut(struct sim *sim, struct sim_node *node, const struct zab_effect *effect)
{
    if (node->id != sim->hook_arg || !is_persist(effect, ZAB_PERSIST_TRUNCATE)) {
        return false;
    }
    /* The disk stops in the middle of the truncation. */
    sim_disk_plan_crash(sim, node, (uint32_t)rng_range(&sim->rng, 1, 12));
    return false;
}

static void s5(struct sim *sim)
{
    script_bootstrap(sim);
    for (int round = 0; round < 4; round++) {
        struct sim_node *old = lonely_tail(sim);

        script_writes(sim, script_leader(sim), 3);
        sim->hook = in_cut;
        sim->hook_arg = old->id;
        script_start(sim, old);
        script_run(sim, rng_range(&sim->rng, 200, 1500));
        script_crash(sim, script_leader(sim), SIM_POWER);
        script_run(sim, 2000);
        sim->hook = NULL;
        for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
            script_start(sim, &sim->nodes[id]);
        }
        sim_settle(sim);
    }
}

static void five(struct sim_knobs *knobs)
{
    knobs->nodes = 5;
    knobs->voters = 5;
}

static void five_in_haste(struct sim_knobs *knobs)
{
    five(knobs);
    knobs->limits.tick_ms = 200;
    knobs->limits.sync_limit = 2;
    knobs->disk_max_us = 100000;
}

static void s6(struct sim *sim)
{
    struct sim_node *old[2];

    script_bootstrap(sim);
    for (int round = 0; round < 3; round++) {
        old[0] = lonely_tail(sim);
        old[1] = lonely_tail(sim);
        script_write(sim, script_leader(sim));
        script_start(sim, old[round % 2]);
        script_run(sim, rng_range(&sim->rng, 0, 3000));
        script_start(sim, old[1 - round % 2]);
        sim_settle(sim);
    }
}

/* The same, but the common point is purged meanwhile: a snapshot replaces the divergent tail,
 * slowly, while the leader commits writes. */
static void s6_snap(struct sim *sim)
{
    script_bootstrap(sim);
    for (int round = 0; round < 3; round++) {
        struct sim_node *old = lonely_tail(sim);

        script_writes(sim, script_leader(sim), 50);
        old->slow = true;
        script_start(sim, old);
        for (int i = 0; i < 60; i++) {
            script_write(sim, script_leader(sim));
            script_run(sim, 100);
        }
        old->slow = false;
        sim_settle(sim);
    }
}

/* ---- S7: many epochs without a write, then an old leader with a record of its own. ---- */

static void s7(struct sim *sim)
{
    struct sim_node *old;

    script_bootstrap(sim);
    old = lonely_tail(sim);
    for (int i = 0; i < 8; i++) {
        struct sim_node *leader = script_leader(sim);

        script_crash(sim, leader, SIM_KILL);
        script_start(sim, leader);
        script_run(sim, 1500);
    }
    script_start(sim, old);
    sim_settle(sim);
    script_write(sim, old);
}

/* ---- S8: two candidates take the same epoch from overlapping quorums. ---- */

static bool promise_is_issued(struct sim *sim)
{
    const struct sim_node *node = &sim->nodes[3];

    return node->issue_count > 0 && node->issues[0].type == ZAB_PERSIST_PROMISE;
}

static bool before_sync(struct sim *sim, struct sim_node *node, const struct zab_effect *effect)
{
    return node->id == 2 && sim->hook_hits == 0 && is_send(effect, ZAB_SYNC);
}

static bool is_hit(struct sim *sim)
{
    return sim->hook_hits > 0 || sim_leader(sim); /* The other replica may have the longer log. */
}

/*
 * Node 3 chooses an epoch with node 1 and pauses before its own promise is durable. Node 2 chooses
 * the same epoch with node 1, is established and dies. Node 1 returns to node 3, which wakes: its
 * promise to node 2 must not count.
 */
static void s8_round(struct sim *sim)
{
    script_crash(sim, &sim->nodes[2], SIM_KILL);
    script_crash(sim, &sim->nodes[3], SIM_KILL);
    sim->nodes[3].slow = true;
    script_start(sim, &sim->nodes[3]);
    script_until(sim, promise_is_issued, "a promise of node 3");
    sim_node_pause(sim, &sim->nodes[3], 3600 * UINT64_C(1000000));
    sim->hook = before_sync;
    sim->hook_hits = 0;
    sim->hook_stays = true;
    script_start(sim, &sim->nodes[2]);
    script_until(sim, is_hit, "the death of node 2");
    sim->hook = NULL;
    script_run(sim, rng_below(&sim->rng, 20));
    sim->nodes[3].slow = false;
    sim_node_resume(sim, &sim->nodes[3]);
    script_run(sim, 4000);
    script_start(sim, &sim->nodes[2]);
    sim_settle(sim);
}

static void s8(struct sim *sim)
{
    script_bootstrap(sim);
    for (int round = 0; round < 4; round++) {
        s8_round(sim);
        script_write(sim, script_leader(sim));
    }
}

/* The links that work change all the time, and promises are slow to reach the disk. */
static void storm(struct sim *sim)
{
    script_bootstrap(sim);
    for (int round = 0; round < 60; round++) {
        uint64_t for_ms = rng_range(&sim->rng, 50, 2500);

        for (uint32_t a = 1; a <= sim->knobs.nodes; a++) {
            for (uint32_t b = a + 1; b <= sim->knobs.nodes; b++) {
                if (rng_chance(&sim->rng, 400000)) {
                    sim_net_reset(sim, a, b);
                    sim_net_cut(sim, a, b);
                    sim_net_cut(sim, b, a);
                }
            }
        }
        script_run(sim, for_ms);
        script_heal(sim);
        script_run(sim, rng_range(&sim->rng, 1, 300));
    }
    sim_settle(sim);
    script_write(sim, script_leader(sim));
}

/* ---- S9: a voter has promised a higher epoch to a leader that is gone. ---- */

static bool after_newepoch(struct sim *sim, struct sim_node *node, const struct zab_effect *effect)
{
    (void)sim;
    (void)node;
    return is_send(effect, ZAB_ACKEPOCH) && sim->hook_hits == 0 && node->id == sim->hook_arg;
}

static void s9(struct sim *sim)
{
    struct sim_node *leader;
    struct sim_node *stuck;

    script_bootstrap(sim);
    leader = script_leader(sim);
    stuck = script_follower(sim, 0);
    /* The promise is made, and no replica receives it. */
    sim->hook = after_newepoch;
    sim->hook_arg = stuck->id;
    sim->hook_stays = true;
    script_crash(sim, leader, SIM_KILL);
    script_run(sim, 6000);
    sim->hook = NULL;
    script_isolate(sim, stuck, true, true);
    script_start(sim, leader);
    script_start(sim, stuck);
    script_until(sim, script_has_leader, "a leader of the other two");
    script_heal(sim);
    sim_settle(sim);
}

/* ---- S11: a replica with a slow disk changes its role repeatedly. ---- */

static void s11(struct sim *sim)
{
    script_bootstrap(sim);
    for (int round = 0; round < 5; round++) {
        struct sim_node *slow = &sim->nodes[rng_range(&sim->rng, 1, sim->knobs.nodes)];

        slow->slow = true;
        for (int i = 0; i < 4; i++) {
            (void)script_send(sim, script_leader(sim));
            script_isolate(sim, script_leader(sim), true, true);
            script_run(sim, rng_range(&sim->rng, 500, 5000));
            script_heal(sim);
            script_run(sim, rng_range(&sim->rng, 10, 1500));
        }
        slow->slow = false;
        sim_settle(sim);
    }
}

/* ---- A gap in the stream, as a faulty middlebox might cause it. ---- */

static void gap(struct sim *sim)
{
    script_bootstrap(sim);
    for (int round = 0; round < 5; round++) {
        struct sim_node *leader = script_leader(sim);

        sim->drop_from = leader->id;
        sim->drop_to = script_follower(sim, (uint32_t)round % 2)->id;
        script_writes(sim, leader, 4);
        sim_settle(sim);
    }
    sim->illegal = sim_probe_hits("zab.illegal_message"); /* The replica had to refuse these. */
}

const struct script scripts_sync[] = {
    {.name = "S3", .run = s3},
    {.name = "S4", .run = s4, .knobs = small_history},
    {.name = "S4-again", .run = s4_again},
    {.name = "S5", .run = s5},
    {.name = "S6", .run = s6, .knobs = five},
    {.name = "S6-snap", .run = s6_snap, .knobs = small_history},
    {.name = "S7", .run = s7},
    {.name = "S8", .run = s8},
    {.name = "storm", .run = storm, .knobs = five_in_haste},
    {.name = "S9", .run = s9},
    {.name = "S11", .run = s11},
    {.name = "gap", .run = gap},
    {.name = NULL},
};
