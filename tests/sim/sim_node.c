#include "base/check.h"
#include "base/mem.h"
#include "server/state/state.h"
#include "tests/lib/zab_notice.h"
#include "tests/sim/sim_clock.h"
#include "tests/sim/sim_failing.h"
#include "tests/sim/sim_release.h"
#include "tests/sim/sim_seat.h"
#include "tests/sim/sim_watch.h"

#include <inttypes.h>

/* The host of one replica: the work of the server's main loop, without sockets and threads. */

enum {
    CLOCK_BASE_MS = 1000000,
    EFFECTS_AHEAD_MAX = 40,
};

uint64_t sim_node_ms(struct sim *sim, struct sim_node *node)
{
    int64_t us = (int64_t)sim->now_us;
    int64_t ms = (us + us / 1000000 * node->drift_ppm) / SIM_MS;
    uint64_t now_ms = (uint64_t)(ms + node->clock_off_ms);

    node->clock_ms = max_u64(node->clock_ms, now_ms);
    return node->clock_ms;
}

void sim_node_touch(struct sim *sim, struct sim_node *node, uint64_t session)
{
    (void)sim;
    (void)touch_add(node->touched, session);
}

/* ---- Timers. ---- */

static void tick(struct sim *sim, struct sim_event *event)
{
    struct sim_node *node = &sim->nodes[event->node];
    struct zab_event step = {.type = ZAB_EV_TICK};

    if (event->at_us != node->tick_us && event->a == 0) {
        return; /* An earlier tick was requested in the meantime. */
    }
    node->tick_us = 0;
    sim_node_step(sim, node, &step);
}

/* Schedules a tick for the time at which the replica wants to wake. */
static void arm(struct sim *sim, struct sim_node *node)
{
    uint64_t now_ms = sim_node_ms(sim, node);
    uint64_t wake_ms = replica_wake_ms(node->replica);
    uint64_t in_us = wake_ms > now_ms ? (wake_ms - now_ms) * SIM_MS : 100;
    uint64_t at_us = sim->now_us + in_us;

    if (node->tick_us != 0 && node->tick_us <= at_us && node->tick_us >= sim->now_us) {
        return;
    }
    node->tick_us = at_us;
    sim_after(sim, in_us, tick, "tick", node);
}

/* ---- Effects. ---- */

/* Frees the rest of a list of effects that is not carried out. */
static void drop_effects(struct zab_effects *effects, size_t from)
{
    for (size_t i = from; i < effects->count; i++) {
        const struct zab_effect *effect = &effects->items[i];

        if (effect->type == ZAB_FX_PERSIST && effect->persist.type == ZAB_PERSIST_APPEND) {
            logrec_unref(effect->persist.append.rec);
        }
    }
    zab_effects_clear(effects);
}

static void carry_out(struct sim *sim, struct sim_node *node, struct zab_effect *effect)
{
    char text[ZAB_TEXT_MAX];

    switch (effect->type) {
    case ZAB_FX_SEND:
        sim_check_send(sim, node, effect->send.peer, &effect->send.msg);
        sim_net_send(sim, node, effect->send.peer, &effect->send.msg);
        break;
    case ZAB_FX_DISCONNECT:
        sim_net_close(sim, node, effect->disconnect.peer);
        break;
    case ZAB_FX_PERSIST:
        sim_check_persist(sim, node, &effect->persist);
        sim_disk_persist(sim, node, &effect->persist);
        break;
    case ZAB_FX_FETCH:
    case ZAB_FX_SNAP_FETCH:
        sim_disk_fetch(sim, node, effect);
        break;
    case ZAB_FX_RESTORE:
        sim_disk_restore(sim, node, effect->restore.start);
        break;
    case ZAB_FX_ALARM:
        zab_notice_text(&effect->notice, text);
        SIM_TRACE(sim, "alarm %u: %s", node->id, text);
        break;
    case ZAB_FX_SEARCH:
        break; /* Every node reaches every other one. */
    case ZAB_FX_DELIVER:
    case ZAB_FX_CONFIRMED:
    case ZAB_FX_FORWARDED:
    case ZAB_FX_REFUSED:
    case ZAB_FX_PING_PAYLOAD:
    case ZAB_FX_ROLE:
    case ZAB_FX_MEMBERS:
    case ZAB_FX_REMOVED:
    case ZAB_FX_HALT:
        sim_fail(sim, "host", "node %u: effect %d is not for this host", node->id,
                 (int)effect->type);
    }
}

static bool dies_here(struct sim *sim, struct sim_node *node, const struct zab_effect *effect)
{
    bool hit = sim->hook && sim->hook(sim, node, effect);

    sim->hook_hits += hit ? 1 : 0;
    return hit || (node->crash_fx > 0 && --node->crash_fx == 0);
}

static void die_here(struct sim *sim, struct sim_node *node)
{
    enum sim_crash how = rng_chance(&sim->rng, sim->knobs.power_ppm) ? SIM_POWER : SIM_KILL;

    if (sim->hook_stays) {
        sim_node_crash(sim, node, how);
    } else {
        sim_node_die(sim, node, how);
    }
}

static bool halts_here(struct sim *sim, struct sim_node *node, const struct zab_effect *effect)
{
    char text[ZAB_TEXT_MAX];

    if (effect->type != ZAB_FX_HALT) {
        return false;
    }
    zab_notice_text(&effect->notice, text);
    if (!sim->may_halt && !sim_disk_explains_halt(node, effect->notice.type) &&
        !sim_release_explains_halt(sim, node, effect->notice.type)) {
        sim_fail(sim, "HALT", "node %u: %s", node->id, text);
    }
    SIM_TRACE(sim, "halt %u: %s", node->id, text);
    sim->halts++;
    return true;
}

/* In a scenario that expects it the process stays down. */
static void halt(struct sim *sim, struct sim_node *node)
{
    (sim->may_halt ? sim_node_crash : sim_node_die)(sim, node, SIM_KILL);
}

static void finish_step(struct sim *sim, struct sim_node *node)
{
    uint32_t life = node->life;
    bool take_snapshot = node->effects.take_snapshot;

    zab_effects_clear(&node->effects.zab);
    if (take_snapshot) {
        sim_disk_snapshot(sim, node);
    }
    if (node->up && node->life == life) {
        replica_effects_clear(&node->effects);
        sim_disk_kick(sim, node);
        arm(sim, node);
    }
}

void sim_node_effects(struct sim *sim, struct sim_node *node)
{
    struct zab_effects *effects = &node->effects.zab;

    store_keep(node->store, STORE_LEARNERS, zab_keep(replica_zab(node->replica)));
    sim_check_step(sim, node);
    for (size_t i = 0; i < effects->count; i++) {
        if (dies_here(sim, node, &effects->items[i])) {
            SIM_TRACE(sim, "fault: node %u dies before effect %zu of %zu", node->id, i,
                      effects->count);
            drop_effects(effects, i);
            die_here(sim, node);
            return;
        }
        if (halts_here(sim, node, &effects->items[i])) {
            drop_effects(effects, i);
            halt(sim, node);
            return;
        }
        carry_out(sim, node, &effects->items[i]);
    }
    finish_step(sim, node);
}

static void trace_role(struct sim *sim, const struct sim_node *node, const struct zab_status *old)
{
    const struct zab_status *now = &node->status.zab;

    if (old->state != now->state || old->phase != now->phase || old->serving != now->serving) {
        SIM_TRACE(sim, "role %u: state %d phase %d serving %d epoch %u promised %u leader %u %s",
                  node->id, (int)now->state, (int)now->phase, now->serving, now->epoch,
                  now->promised, now->leader, now->reason);
    }
}

/* Reads the replica's status; a change of role enters the trace. */
static void look(struct sim *sim, struct sim_node *node)
{
    struct zab_status old = node->status.zab;
    const struct zab_status *now = &node->status.zab;

    replica_status(node->replica, &node->status);
    if (sim->options.trace) {
        trace_role(sim, node, &old);
    }
    if (old.state != now->state || old.leader != now->leader || old.epoch != now->epoch ||
        old.serving != now->serving) {
        node->steady_us = sim->now_us;
    }
    if (now->serving && (!old.serving || old.epoch != now->epoch)) {
        node->stints = node->served_epoch == now->epoch ? node->stints + 1 : 1;
        node->served_epoch = now->epoch;
    }
    sim_mix(sim, node->status.applied ^ (uint64_t)node->status.zab.state << 60);
}

void sim_node_step(struct sim *sim, struct sim_node *node, struct zab_event *event)
{
    ASSERT(node->up && !node->paused);

    event->now_ms = sim_node_ms(sim, node);
    sim->current = node;
    replica_step(node->replica, event, sim_node_wall_ms(sim, node), &node->effects);
    sim->current = NULL;
    look(sim, node);
    sim_node_effects(sim, node);
}

void sim_node_aside(struct sim *sim, struct sim_node *node, const char *why)
{
    ASSERT(node->up && !node->paused);
    sim->current = node;
    replica_stand_aside(node->replica,
                        &(struct replica_aside){.why = why, .log_waits = why != NULL},
                        sim_node_ms(sim, node), &node->effects);
    sim->current = NULL;
    look(sim, node);
    sim_node_effects(sim, node);
}

/* ---- Start and end of a process. ---- */

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

    if (!node->up) {
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
    look(sim, node);
    arm(sim, node);
}

static void reset_process(struct sim *sim, struct sim_node *node)
{
    node->up = true;
    node->life++;
    node->born_us = sim->now_us;
    node->asleep_us = 0;
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
    look(sim, node);
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
        sim_after(sim, 0, tick, "tick", node)->a = 1;
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
    sim_after(sim, 0, tick, "tick", node)->a = 1;
}

struct sim_node *sim_leader(struct sim *sim)
{
    struct sim_node *best = NULL;

    for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
        struct sim_node *node = &sim->nodes[id];
        const struct zab_status *zab = &node->status.zab;

        if (node->up && zab->state == ZAB_LEADING && zab->serving &&
            (!best || zab->epoch > best->status.zab.epoch)) {
            best = node;
        }
    }
    return best;
}

void sim_node_init(struct sim *sim, struct sim_node *node, uint32_t id)
{
    uint32_t drift = sim->knobs.drift_ppm;

    node->id = id;
    node->clock_off_ms = CLOCK_BASE_MS + (int64_t)rng_below(&sim->rng, CLOCK_BASE_MS);
    if (drift > 0) {
        node->drift_ppm = (int32_t)rng_below(&sim->rng, drift * 2) - (int32_t)drift;
    }
    persist_batch_init(&node->filling);
    persist_batch_init(&node->running);
    sim_disk_init(sim, node);
}

void sim_node_release(struct sim *sim, struct sim_node *node)
{
    if (node->up) {
        sim_node_crash(sim, node, SIM_KILL);
    }
    sim_disk_release(node);
    touch_set_free(node->touched);
    mem_free(node->inbox);
    mem_free(node->issues);
    sim_seat_release(node);
}
