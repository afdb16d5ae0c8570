#include "base/check.h"
#include "base/mem.h"
#include "server/state/state.h"
#include "tests/lib/zab_notice.h"
#include "tests/sim/sim_clock.h"
#include "tests/sim/sim_failing.h"
#include "tests/sim/sim_member.h"
#include "tests/sim/sim_node_int.h"
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

void sim_node_tick(struct sim *sim, struct sim_event *event)
{
    struct sim_node *node = &sim->nodes[event->node];
    struct zab_event step = {.type = ZAB_EV_TICK};

    if (event->at_us != node->tick_us && event->a == 0) {
        return; /* An earlier tick was requested in the meantime. */
    }
    node->tick_us = 0;
    sim_node_step(sim, node, &step);
}

void sim_node_arm(struct sim *sim, struct sim_node *node)
{
    uint64_t now_ms = sim_node_ms(sim, node);
    uint64_t wake_ms = replica_wake_ms(node->replica);
    uint64_t in_us = wake_ms > now_ms ? (wake_ms - now_ms) * SIM_MS : 100;
    uint64_t at_us = sim->now_us + in_us;

    if (node->tick_us != 0 && node->tick_us <= at_us && node->tick_us >= sim->now_us) {
        return;
    }
    node->tick_us = at_us;
    sim_after(sim, in_us, sim_node_tick, "tick", node);
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
    case ZAB_FX_MEMBERS:
        sim_net_members(sim, node);
        break;
    case ZAB_FX_REMOVED:
        sim_member_removed(sim, node);
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
        sim_node_arm(sim, node);
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

void sim_node_look(struct sim *sim, struct sim_node *node)
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
    sim_node_look(sim, node);
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
    sim_node_look(sim, node);
    sim_node_effects(sim, node);
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
