#include "base/check.h"
#include "base/mem.h"
#include "tests/sim/sim_clock.h"
#include "tests/sim/sim_failing.h"
#include "tests/sim/sim_node_int.h"
#include "tests/sim/sim_release.h"
#include "tests/sim/sim_seat.h"
#include "tests/sim/sim_watch.h"

#include <inttypes.h>

/* Start and end of a process, and its pauses. */

static enum err open_store(struct sim *sim, struct sim_node *node, struct store_report *report)
{
    struct store_options options = {.vfs = node->vfs,
                                    .segment_bytes = sim->knobs.segment_bytes,
                                    .snapshots_keep = sim->knobs.snapshots_keep,
                                    .keep_bytes_max = sim->knobs.keep_bytes_max,
                                    .salt_seed = rng_u64(&sim->rng),
                                    .record_bytes_max = ZAB_RECORD_BYTES_MAX};

    return store_open(&options, false, &node->store, report);
}

static void again(struct sim *sim, struct sim_event *event)
{
    struct sim_node *node = &sim->nodes[event->a];

    if (!node->up && !node->idle) {
        sim_node_start(sim, node);
    }
}

static void start_later(struct sim *sim, struct sim_node *node)
{
    uint64_t in_us = rng_range(&sim->rng, 1, sim->knobs.down_max_ms) * SIM_MS;

    sim_after(sim, in_us, again, "start", NULL)->a = node->id;
}

void sim_node_die(struct sim *sim, struct sim_node *node, enum sim_crash how)
{
    sim_node_crash(sim, node, how);
    start_later(sim, node);
}

/* The disk stopped in the middle of the recovery: the machine has died again. */
static void abort_start(struct sim *sim, struct sim_node *node)
{
    SIM_TRACE(sim, "fault: node %u dies while it starts", node->id);
    sim->applied_count = 0;
    sim_node_die(sim, node, SIM_POWER);
}

static void count_start(struct sim *sim, const struct sim_node *node,
                        const struct store_report *report, const struct replica_options *options)
{
    SIM_TRACE(sim,
              "start %u: verdict %d quarantined %d \"%s\" base %" PRIx64 " last %" PRIx64
              " committed %" PRIx64 " applied %" PRIx64 " promised %u torn %" PRIu64,
              node->id, (int)report->verdict, options->zab.quarantined, report->reason,
              report->log_base, report->log_last, report->committed, options->zab.committed,
              report->promised_epoch, report->torn_bytes);
    if (options->zab.quarantined && !report->quarantined) {
        sim->totals.quarantines++;
    }
}

static enum err open_and_recover(struct sim *sim, struct sim_node *node,
                                 struct replica_options *options)
{
    struct store_report *report = mem_zalloc(1, sizeof(*report));
    enum err err = open_store(sim, node, report);

    if (err == ERR_OK) {
        snap_send_init(&node->send, node->store);
        node->view = view_new();
        options->view = node->view;
        sim_front_start(sim, node);
        sim->current = node;
        err = recover(node->store, report, node->view, options, &node->identity);
        sim->current = NULL;
    }
    if (err == ERR_OK) {
        count_start(sim, node, report, options);
    }
    mem_free(report);
    return err;
}

/* While the disk fails, a start is retried, whatever its directory looks like. */
static bool must_wait(const struct sim_node *node, enum err err)
{
    return node->failing != 0 && sim_disk_explains(node, err);
}

/* The disk is lost: the operator replaces it by an empty one. */
static void replace_disk(struct sim *sim, struct sim_node *node)
{
    if (!node->damaged) {
        sim_fail(sim, "A18", "node %u reports a lost disk, but the disk was not harmed", node->id);
    }
    sim->applied_count = 0;
    sim_node_crash(sim, node, SIM_KILL);
    sim_disk_empty(sim, node);
    start_later(sim, node);
}

static void started(struct sim *sim, struct sim_node *node, const struct replica_options *options)
{
    node->hello = node->identity;
    sim_check_recovered(sim, node, options);
    node->replica = replica_new(options);
    sim_net_members(sim, node);
    sim_node_look(sim, node);
    sim_node_arm(sim, node);
}

static void reset_process(struct sim *sim, struct sim_node *node)
{
    node->up = true;
    node->life++;
    node->born_us = sim->now_us;
    node->asleep_us = 0;
    node->is_reached = false;
    memset(node->reached_us, 0, sizeof(node->reached_us));
    node->tick_us = 0;
    node->applied = 0;
    node->diverged = false;
    node->state = NULL;
    node->committed = 0;
    sim_seat_started(node);
    sim_release_start(sim, node);
    node->crash_fx = 0;
    touch_set_free(node->touched);
    node->touched = touch_set_new(SIM_SESSIONS_MAX);
    node->effects = (struct replica_effects){0};
}

void sim_node_start(struct sim *sim, struct sim_node *node)
{
    struct replica_options *options = mem_zalloc(1, sizeof(*options));
    struct store_identity before = node->identity;
    enum err err;

    ASSERT(!node->up);
    reset_process(sim, node);
    sim_front_open(sim, node);
    sim_node_options(sim, node, options);
    node->boot = options->boot;
    if (sim->phase == SIM_SAFETY && rng_chance(&sim->rng, sim->knobs.again_ppm)) {
        sim_disk_plan_crash(sim, node, (uint32_t)rng_range(&sim->rng, 1, 60));
    }
    err = open_and_recover(sim, node, options);
    if (before.incarnation != 0 && (err != ERR_OK || sim_disk_crashed(node))) {
        node->identity = before; /* The disk is unchanged, although this start could not read it. */
    }
    if (sim_disk_crashed(node)) {
        abort_start(sim, node);
    } else if (err == ERR_NO_SPACE || (err == ERR_IO && node->full) || must_wait(node, err)) {
        /* The next process formats a directory again when its formatting was interrupted. */
        sim->applied_count = 0;
        sim_node_die(sim, node, SIM_KILL);
    } else if (err == ERR_NEWER && sim_release_explains_halt(sim, node, ZAB_NOTICE_NEWER)) {
        SIM_TRACE(sim, "start %u: refused, its release does not know the level", node->id);
        sim->halts++;
        sim->applied_count = 0;
        sim_node_die(sim, node, SIM_KILL);
    } else if (err == ERR_CORRUPT) {
        replace_disk(sim, node);
    } else if (err != ERR_OK) {
        sim_fail(sim, "A18", "node %u does not start: %s", node->id, err_symbol(err));
    } else {
        started(sim, node, options);
    }
    recover_release(options);
    mem_free(options);
}

static const char *crash_name(enum sim_crash how)
{
    return how == SIM_KILL ? "kill" : how == SIM_POWER ? "power cut" : "stop";
}

/* The order matters: the disk stops first, so that nothing that is freed now can write to it. */
void sim_node_crash(struct sim *sim, struct sim_node *node, enum sim_crash how)
{
    ASSERT(node->up);

    SIM_TRACE(sim, "crash %u: %s", node->id, crash_name(how));
    sim_disk_left(node);
    sim_release_end(sim, node);
    node->up = false;
    node->paused = false;
    sim->totals.crashes++;
    sim->totals.power_cuts += how == SIM_POWER;
    sim_net_node_down(sim, node, how == SIM_POWER && rng_chance(&sim->rng, 700000));
    sim_disk_drop(sim, node, how);
    sim_front_stop(sim, node);
    if (node->replica) {
        replica_free(node->replica);
        node->replica = NULL;
    }
    sim_client_lost(sim, node);
    sim_front_close(node);
    if (node->store) {
        store_close(node->store, how == SIM_STOP);
        node->store = NULL;
    }
    sim_disk_reset(sim, node, how);
    if (node->view) {
        view_free(node->view);
        node->view = NULL;
    }
    zab_effects_release(&node->effects.zab);
    for (size_t i = 0; i < node->inbox_count; i++) {
        mem_free(node->inbox[i].ptr);
    }
    node->inbox_count = 0;
    node->status = (struct replica_status){0};
}

/* ---- Clean shutdown. ---- */

enum {
    DRAIN_LOOK_US = 50 * SIM_MS,
    DRAIN_MAX_US = 8 * SIM_SECOND,
};

static void drain(struct sim *sim, struct sim_event *event)
{
    struct sim_node *node = &sim->nodes[event->node];
    uint32_t life = node->life;
    uint64_t begin_us = event->a;
    bool late = sim->now_us - begin_us > DRAIN_MAX_US;
    bool done;

    sim->current = node;
    done = replica_drain(node->replica, sim_node_ms(sim, node), &node->effects);
    sim->current = NULL;
    sim_node_look(sim, node);
    sim_node_effects(sim, node);
    if (!node->up || node->life != life) {
        return;
    }
    if ((done || late) && !node->disk_busy && node->filling.count == 0) {
        sim_node_die(sim, node, SIM_STOP);
    } else {
        sim_after(sim, DRAIN_LOOK_US, drain, "drain", node)->a = begin_us;
    }
}

void sim_node_drain(struct sim *sim, struct sim_node *node)
{
    SIM_TRACE(sim, "fault: clean stop of %u", node->id);
    node->stopping = node->life;
    sim_after(sim, 0, drain, "drain", node)->a = sim->now_us;
}

/* ---- Pauses. ---- */

static void wake(struct sim *sim, struct sim_event *event)
{
    struct sim_node *node = &sim->nodes[event->a];

    if (node->up && node->paused && node->life == event->b) {
        sim_node_resume(sim, node);
    }
}

void sim_node_pause(struct sim *sim, struct sim_node *node, uint64_t for_us)
{
    struct sim_event *event;

    ASSERT(node->up && !node->paused);
    SIM_TRACE(sim, "fault: pause %u for %" PRIu64 " ms", node->id, for_us / SIM_MS);
    node->paused = true;
    if (sim->now_us <= sim_clock_read_by(node)) {
        node->asleep_us += for_us;
    }
    sim->totals.pauses++;
    event = sim_after(sim, for_us, wake, "wake", NULL);
    event->a = node->id;
    event->b = node->life;
}

/* After a pause a process may handle its timers before its sockets, or after them. */
void sim_node_resume(struct sim *sim, struct sim_node *node)
{
    SIM_TRACE(sim, "resume %u with %zu events", node->id, node->inbox_count);
    node->paused = false;
    node->awake_us = sim->now_us;
    node->awake_seq = sim->seq;
    if (rng_chance(&sim->rng, 500000)) {
        sim_after(sim, 0, sim_node_tick, "tick", node)->a = 1;
    }
    for (size_t i = 0; i < node->inbox_count; i++) {
        struct sim_event *held = &node->inbox[i];
        struct sim_event *event = sim_after(sim, 0, held->run, held->name, node);

        event->a = held->a;
        event->b = held->b;
        event->ptr = held->ptr;
    }
    node->inbox_count = 0;
    node->tick_us = 0;
    sim_after(sim, 0, sim_node_tick, "tick", node)->a = 1;
}
