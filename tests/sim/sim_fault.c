#include "base/check.h"
#include "tests/lib/vfs_mem.h"
#include "tests/sim/sim_clock.h"
#include "tests/sim/sim_failing.h"
#include "tests/sim/sim_fault_int.h"
#include "tests/sim/sim_member.h"
#include "tests/sim/sim_quorum.h"
#include "tests/sim/sim_seat.h"

#include <inttypes.h>

/*
 * The fault plan. Harm to disks stays within the claimed limit: at any time only a minority of the
 * voters may have a disk that is damaged or replaced. The plan harms the next disk only after the
 * others have been refilled. Every other fault may hit any node at any time.
 */

typedef void (*fault_fn)(struct sim *sim);

struct fault {
    const char *name;
    fault_fn run;
    size_t knob; /* Offset of the mean interval in struct sim_knobs. */
};

enum {
    PAUSE_TICKS_MAX = 10,
    NOTICE_TICKS = 30,    /* Longer than any leader, also after a pause, leads without a quorum. */
    MOMENT_MAX_MS = 3000, /* A wall clock is wrong for at most this long. */
    CALLS_MAX = 40,
    EFFECTS_MAX = 30,
    ROT_BITS_MAX = 8,
    FAIL_MAX_S = 8,
};

uint64_t sim_fault_ticks_us(struct sim *sim, uint32_t ticks)
{
    return (uint64_t)sim->knobs.limits.tick_ms * SIM_MS * ticks;
}

struct sim_node *sim_fault_any_node(struct sim *sim)
{
    return &sim->nodes[rng_range(&sim->rng, 1, sim->knobs.nodes)];
}

/* Prefers the leader in a quarter of the draws, because most can go wrong there. */
static struct sim_node *some_node(struct sim *sim)
{
    struct sim_node *leader = rng_chance(&sim->rng, 250000) ? sim_leader(sim) : NULL;

    return leader ? leader : sim_fault_any_node(sim);
}

/* A leader that has not noticed yet that another disk is back may propose to admit the disk that
 * has gone. With two other disks of five lost, neither of the two configurations would have a
 * majority. */
static bool may_be_named(struct sim *sim, const struct sim_node *node)
{
    return sim_seat_is_named(sim, node) ||
           (node->returned_us > 0 &&
            sim->now_us < node->returned_us + sim_fault_ticks_us(sim, NOTICE_TICKS));
}

/* Number of voters whose disks may be harmed at the same time. */
static uint32_t tolerated(const struct sim *sim)
{
    uint32_t voters = sim_voters(sim);

    return voters > 0 ? (voters - 1) / 2 : 0;
}

bool sim_fault_may_harm(struct sim *sim, struct sim_node *node)
{
    uint32_t harmed = 1;

    if (!sim_member_may_lose(sim, node)) {
        return false;
    }
    if (!sim_seat_of(sim, node)) {
        return true;
    }
    for_each_member (member, &sim->config) {
        const struct sim_node *other = &sim->nodes[member->id];

        harmed += member->voter &&
                  (!sim_disk_counts(other) || (other != node && may_be_named(sim, other)));
    }
    return sim_disk_counts(node) && harmed <= tolerated(sim);
}

/* ---- Processes. ---- */

static void back(struct sim *sim, struct sim_event *event)
{
    struct sim_node *node = &sim->nodes[event->a];

    if (!node->up && !node->idle) {
        sim_node_start(sim, node);
    }
}

/* For a node whose disk changed while the node was down; a start may be due already. */
static void back_later(struct sim *sim, struct sim_node *node)
{
    uint64_t in_us = rng_range(&sim->rng, 1, sim->knobs.down_max_ms) * SIM_MS;

    sim_after(sim, in_us, back, "start", NULL)->a = node->id;
}

static enum sim_crash draw_crash(struct sim *sim)
{
    return rng_chance(&sim->rng, sim->knobs.power_ppm) ? SIM_POWER : SIM_KILL;
}

static void fault_crash(struct sim *sim)
{
    struct sim_node *node = some_node(sim);

    if (node->up) {
        sim_node_die(sim, node, draw_crash(sim));
    }
}

/* The process dies after a few more effects. */
static void fault_crash_fx(struct sim *sim)
{
    struct sim_node *node = some_node(sim);

    if (node->up) {
        node->crash_fx = (uint32_t)rng_range(&sim->rng, 1, EFFECTS_MAX);
    }
}

static void fault_crash_vfs(struct sim *sim)
{
    struct sim_node *node = some_node(sim);

    if (node->up) {
        sim_disk_plan_crash(sim, node, (uint32_t)rng_range(&sim->rng, 1, CALLS_MAX));
    }
}

static void fault_power(struct sim *sim)
{
    SIM_TRACE(sim, "fault: power cut of all machines");
    for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
        struct sim_node *node = &sim->nodes[id];

        if (node->up) {
            sim_node_die(sim, node, SIM_POWER);
        }
    }
}

static void fault_stop(struct sim *sim)
{
    struct sim_node *node = some_node(sim);

    if (node->up && !node->paused) {
        sim_node_drain(sim, node);
    }
}

static void fault_pause(struct sim *sim)
{
    struct sim_node *node = some_node(sim);

    if (node->up && !node->paused) {
        sim_node_pause(sim, node,
                       rng_range(&sim->rng, 1, sim_fault_ticks_us(sim, PAUSE_TICKS_MAX)));
    }
}

static void fault_jump(struct sim *sim)
{
    struct sim_node *node = sim_fault_any_node(sim);
    int64_t year_ms = INT64_C(31536000000);
    int64_t off_ms = (int64_t)rng_below(&sim->rng, (uint64_t)(20 * year_ms)) - 10 * year_ms;
    bool moment = sim->knobs.ttl_ppm > 0 && rng_chance(&sim->rng, 700000);

    sim_clock_jump(sim, node, off_ms, moment ? rng_range(&sim->rng, 10, MOMENT_MAX_MS) : 0);
}

/* ---- Disks. ---- */

static void quick_again(struct sim *sim, struct sim_event *event)
{
    sim->nodes[event->a].slow = false;
}

static void fault_slow(struct sim *sim)
{
    struct sim_node *node = some_node(sim);

    SIM_TRACE(sim, "fault: disk of node %u is slow", node->id);
    node->slow = true;
    sim_after(sim, rng_range(&sim->rng, 1, 20) * SIM_SECOND, quick_again, "quick", NULL)->a =
        node->id;
}

static void fault_rot(struct sim *sim)
{
    struct sim_node *node = sim_fault_any_node(sim);

    if (!sim_fault_may_harm(sim, node)) {
        return;
    }
    if (node->up) {
        sim_node_crash(sim, node, rng_chance(&sim->rng, 300000) ? SIM_STOP : draw_crash(sim));
    }
    sim_disk_rot(sim, node, (uint32_t)rng_range(&sim->rng, 1, ROT_BITS_MAX));
    back_later(sim, node);
}

static void fault_empty(struct sim *sim)
{
    struct sim_node *node = sim_fault_any_node(sim);

    if (!sim_fault_may_harm(sim, node)) {
        return;
    }
    if (node->up) {
        sim_node_crash(sim, node, SIM_POWER);
    }
    sim_disk_mend(sim, node);
    sim_disk_limit(sim, node, false);
    if (sim_seat_of(sim, node)) {
        sim_seat_keep(node);
    }
    sim_disk_empty(sim, node);
    back_later(sim, node);
}

/* The disk from the shelf comes back, whatever its successor has reached by now. */
static void swap_disks(struct sim *sim, struct sim_node *node)
{
    if (!node->spare || (!node->emptied && !sim_fault_may_harm(sim, node))) {
        return;
    }
    if (node->up) {
        sim_node_crash(sim, node, SIM_POWER);
    }
    sim_seat_swap(sim, node);
    back_later(sim, node);
}

static void fault_swap(struct sim *sim)
{
    swap_disks(sim, sim_fault_any_node(sim));
}

static void freed(struct sim *sim, struct sim_event *event)
{
    sim_disk_limit(sim, &sim->nodes[event->a], false);
}

static void fault_full(struct sim *sim)
{
    struct sim_node *node = some_node(sim);

    SIM_TRACE(sim, "fault: disk of node %u is full", node->id);
    sim->totals.full++;
    sim_disk_limit(sim, node, true);
    sim_after(sim, rng_range(&sim->rng, 1, 15) * SIM_SECOND, freed, "freed", NULL)->a = node->id;
}

static void mended(struct sim *sim, struct sim_event *event)
{
    sim_disk_mend(sim, &sim->nodes[event->a]);
}

/* A disk whose reads fail may make its replica give up the log, which counts as harm. Failed writes
 * and syncs do no harm: acknowledged records are still there. */
static void fault_fail(struct sim *sim)
{
    static const unsigned kinds[] = {VFS_MEM_FAIL_WRITES, VFS_MEM_FAIL_SYNCS, VFS_MEM_FAIL_READS,
                                     VFS_MEM_FAIL_ALL};

    struct sim_node *node = some_node(sim);
    unsigned kind = kinds[rng_below(&sim->rng, sizeof(kinds) / sizeof(kinds[0]))];

    if (node->failing != VFS_MEM_FAIL_NONE) {
        return;
    }
    if ((kind & VFS_MEM_FAIL_READS) != 0 && !sim_fault_may_harm(sim, node)) {
        kind = VFS_MEM_FAIL_SYNCS;
    }
    sim_disk_fail(sim, node, kind);
    sim_after(sim, rng_range(&sim->rng, 1, FAIL_MAX_S) * SIM_SECOND, mended, "mended", NULL)->a =
        node->id;
}

static void fault_decay(struct sim *sim)
{
    struct sim_node *node = some_node(sim);

    if (node->up && sim_disk_is_sound(node) && sim_fault_may_harm(sim, node)) {
        (void)sim_disk_decay(sim, node, (enum sim_decay)rng_below(&sim->rng, SIM_DECAYS));
    }
}

static void fault_spoil(struct sim *sim)
{
    uint32_t id = sim_fault_any_node(sim)->id;

    if (sim->spoil_loaded == 0) {
        sim->spoil_loaded = id;
    }
}

/* ---- While a configuration is in the log and not yet committed. ---- */

enum {
    STRIKE_NEAR_US = 20 * SIM_MS,
    STRIKE_TICKS_MAX = 2,
};

/* The leader and the node with the new disk are on one side, all others on the other. The node with
 * the new disk comes back to the others first. */
static void cut_off_pair(struct sim *sim, uint32_t leader, uint32_t fresh, uint64_t for_us)
{
    for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
        if (id != leader && id != fresh) {
            sim_fault_cut_for(sim, leader, id, for_us);
            sim_fault_cut_for(sim, id, leader, for_us);
            sim_fault_cut_for(sim, fresh, id, for_us / 2);
            sim_fault_cut_for(sim, id, fresh, for_us / 2);
        }
    }
}

static void swap_later(struct sim *sim, struct sim_event *event)
{
    if (sim->phase == SIM_SAFETY) {
        swap_disks(sim, &sim->nodes[event->a]);
    }
}

static void strike_config(struct sim *sim, struct sim_event *event)
{
    struct sim_node *leader = &sim->nodes[event->a];
    struct sim_node *fresh = &sim->nodes[event->b];
    uint64_t for_us = rng_range(&sim->rng, 1, sim_fault_ticks_us(sim, CUT_TICKS_MAX));
    uint64_t kind = rng_below(&sim->rng, 4);

    if (sim->phase != SIM_SAFETY || !leader->up) {
        return;
    }
    SIM_TRACE(sim, "fault: strike %" PRIu64 " at the configuration of leader %u for node %u", kind,
              leader->id, fresh->id);
    sim->totals.strikes++;
    if (kind == 0) {
        sim_node_die(sim, leader, draw_crash(sim));
    } else if (kind == 1) {
        sim_fault_isolate(sim, leader, for_us, 0);
    } else {
        cut_off_pair(sim, leader->id, fresh->id, for_us);
    }
    if (kind != 1 && fresh->id != leader->id) {
        sim_after(sim, rng_below(&sim->rng, for_us), swap_later, "swap", NULL)->a = fresh->id;
    }
}

void sim_fault_at_config(struct sim *sim, const struct sim_node *leader, uint32_t fresh)
{
    struct sim_event *event;
    uint64_t within_us = STRIKE_NEAR_US;

    if (sim->phase != SIM_SAFETY || !rng_chance(&sim->rng, sim->knobs.config_ppm)) {
        return;
    }
    if (rng_chance(&sim->rng, 400000)) {
        within_us = sim_fault_ticks_us(sim, STRIKE_TICKS_MAX);
    }
    event = sim_after(sim, rng_below(&sim->rng, within_us), strike_config, "strike", NULL);
    event->a = leader->id;
    event->b = fresh;
}

/* ---- The plan. ---- */

#define FAULT(text, function, field)                                                 \
    {                                                                                \
        .name = (text), .run = (function), .knob = offsetof(struct sim_knobs, field) \
    }

static const struct fault faults[] = {
    FAULT("crash", fault_crash, crash_ms),
    FAULT("crash fx", fault_crash_fx, crash_fx_ms),
    FAULT("crash vfs", fault_crash_vfs, crash_vfs_ms),
    FAULT("power", fault_power, power_ms),
    FAULT("stop", fault_stop, stop_ms),
    FAULT("pause", fault_pause, pause_ms),
    FAULT("reset", sim_fault_reset, reset_ms),
    FAULT("cut", sim_fault_cut, cut_ms),
    FAULT("clog", sim_fault_clog, clog_ms),
    FAULT("leader", sim_fault_leader, leader_ms),
    FAULT("slow", fault_slow, slow_ms),
    FAULT("rot", fault_rot, rot_ms),
    FAULT("empty", fault_empty, empty_ms),
    FAULT("swap", fault_swap, swap_ms),
    FAULT("full", fault_full, full_ms),
    FAULT("jump", fault_jump, jump_ms),
    FAULT("fail", fault_fail, fail_ms),
    FAULT("decay", fault_decay, decay_ms),
    FAULT("spoil", fault_spoil, spoil_ms),
};

static uint32_t mean_ms(const struct sim *sim, const struct fault *fault)
{
    uint32_t value;

    memcpy(&value, (const uint8_t *)&sim->knobs + fault->knob, sizeof(value));
    return value;
}

static void strike(struct sim *sim, struct sim_event *event);

static void plan(struct sim *sim, size_t index)
{
    uint32_t ms = mean_ms(sim, &faults[index]);

    if (ms > 0) {
        sim_after(sim, rng_range(&sim->rng, 1, (uint64_t)ms * 2) * SIM_MS, strike,
                  faults[index].name, NULL)
            ->a = index;
    }
}

static void strike(struct sim *sim, struct sim_event *event)
{
    if (sim->phase != SIM_SAFETY) {
        return;
    }
    plan(sim, event->a);
    faults[event->a].run(sim);
}

void sim_fault_begin(struct sim *sim)
{
    ASSERT(sim->phase == SIM_SAFETY);

    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        plan(sim, i);
    }
}

static bool keeps_no_majority(struct sim *sim)
{
    uint32_t harmed = 0;

    for_each_member (member, &sim->config) {
        const struct sim_node *node = &sim->nodes[member->id];

        harmed += member->voter && (!sim_disk_counts(node) || sim_seat_is_named(sim, node));
    }
    return harmed > tolerated(sim);
}

/*
 * A leader may propose to admit a disk that is back on the shelf by then, after another voter has
 * lost its own disk. That configuration needs two majorities, and neither may be available. If it
 * is never committed, the lost disks come back.
 */
static void return_disks(struct sim *sim)
{
    for (uint32_t id = 1; keeps_no_majority(sim) && id <= sim->knobs.nodes; id++) {
        struct sim_node *node = &sim->nodes[id];

        if (node->emptied && node->spare && node->spare_seat) {
            if (node->up) {
                sim_node_crash(sim, node, SIM_POWER);
            }
            sim_seat_swap(sim, node);
        }
    }
}

void sim_fault_end(struct sim *sim)
{
    sim_net_heal_all(sim);
    sim->spoil_loaded = 0;
    sim_member_end(sim);
    return_disks(sim);
    for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
        struct sim_node *node = &sim->nodes[id];

        sim_disk_limit(sim, node, false);
        sim_disk_mend(sim, node);
        sim_disk_plan_crash(sim, node, 0);
        node->slow = false;
        node->crash_fx = 0;
        if (node->paused) {
            sim_node_resume(sim, node);
        }
        /* A restart finds rot; without one the rot must do no harm, or a reader must detect it. */
        if (node->up && node->rotten && rng_chance(&sim->rng, 500000)) {
            sim_node_crash(sim, node, SIM_KILL);
        }
        if (!node->up && !node->idle) {
            sim_node_start(sim, node);
        }
    }
}
