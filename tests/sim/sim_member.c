#include "tests/sim/sim_member.h"

#include "base/check.h"
#include "tests/sim/sim_failing.h"
#include "tests/sim/sim_quorum.h"
#include "tests/sim/sim_seat.h"

#include <inttypes.h>

/*
 * Machines that join and leave, and their addresses. All random numbers of the operation are its
 * own, so that without it a seed is the same as before.
 */

enum {
    MEMBER_SALT = 0x6a6f696e,
    START_MAX_MS = 3000,   /* A new member's process starts so long after the commit. */
    LEARNT_MAX_MS = 500,   /* A process that was removed ends within this time. */
    RETIRE_MAX_MS = 20000, /* The operator stops a machine that was removed. */
    AGAIN_US = SIM_SECOND,
    REACHED_US = 10 * SIM_SECOND, /* A machine counts as reached for so long. */
    LAG_TICKS = 4,                /* A leader looks at its log twice a tick, and may be paused. */
};

/* ---- Which disks may be lost. ---- */

/* Without the disk of `but` a majority of these voters has sound disks in their machines. The
 * leader may make a joining `but` a voter at any moment, before it notices that its disk is lost.
 */
static bool is_alive(const struct sim *sim, const struct zab_config *config,
                     const struct sim_node *but)
{
    uint32_t voters = 0;
    uint32_t count = 0;

    for_each_member (member, config) {
        const struct sim_node *node = &sim->nodes[member->id];

        voters += member->voter || (member->joining && node == but);
        count += member->voter && node != but && sim_disk_counts(node) &&
                 node->identity.incarnation == member->incarnation;
    }
    return count > voters / 2;
}

static bool needs(const struct sim *sim, const struct zab_config *config,
                  const struct sim_node *node)
{
    const struct zab_member *member = zab_config_find(config, node->id);

    return member && (member->voter || member->joining) && !is_alive(sim, config, node);
}

bool sim_member_may_lose(struct sim *sim, const struct sim_node *node)
{
    const struct sim_members *members = &sim->members;

    if (sim->knobs.change_ms == 0) {
        return true;
    }
    const struct zab_member *member = zab_config_find(&sim->config, node->id);

    if (member && member->joining && needs(sim, &sim->config, node)) {
        return false;
    }
    for (size_t i = 0; i < members->proposed_count; i++) {
        if (needs(sim, &members->proposed[i], node)) {
            return false;
        }
    }
    for (uint32_t i = 0; i < members->wish_count; i++) {
        if (needs(sim, &members->wishes[i].config, node)) {
            return false;
        }
    }
    return true;
}

bool sim_member_is_safe(struct sim *sim, const struct zab_config *config)
{
    const struct sim_members *members = &sim->members;
    bool is_safe = is_alive(sim, config, NULL) && is_alive(sim, &sim->config, NULL);

    for (size_t i = 0; i < members->proposed_count; i++) {
        is_safe &= is_alive(sim, &members->proposed[i], NULL);
    }
    return is_safe;
}

/* ---- Machines. ---- */

static uint16_t port_of(uint32_t id, uint32_t number)
{
    return (uint16_t)(7000 + id * 100 + number);
}

uint16_t sim_member_port(struct sim *sim, const struct sim_node *node)
{
    return port_of(node->id, (uint32_t)rng_below(&sim->members.rng, 100));
}

void sim_member_init(struct sim *sim)
{
    rng_init(&sim->members.rng, sim->options.seed ^ MEMBER_SALT);
    for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
        sim->nodes[id].idle = id > sim->knobs.members;
        sim->nodes[id].port = port_of(id, 0);
    }
}

/* Before the founding, that of the founders. */
static uint32_t list(struct sim *sim)
{
    uint32_t count = 0;

    for_each_member (member, &sim->config) {
        sim->seeds[count++] =
            (struct zab_seed){.id = member->id, .voter = member->voter || member->empty_seat};
    }
    for (uint32_t id = 1; sim->config.count == 0 && id <= sim->knobs.members; id++) {
        sim->seeds[count++] = (struct zab_seed){.id = id, .voter = id <= sim->knobs.voters};
    }
    return count;
}

void sim_member_options(struct sim *sim, struct sim_node *node, struct zab_init *init)
{
    static const char *const hosts[SIM_NODES_MAX + 1] = {"",   "m1", "m2", "m3",
                                                         "m4", "m5", "m6", "m7"};

    init->bootstrap = sim->knobs.bootstrap;
    init->seed_count = init->bootstrap > 0 || node->joins ? 0 : list(sim);
    init->texts = (struct zab_texts){.host = slice_str(hosts[node->id]), .port = node->port};
    init->auto_join = sim->knobs.auto_join;
    init->max_observers = SIM_NODES_MAX;
}

/* ---- Which machines are reached. ---- */

static void tell_reached(struct sim *sim, struct sim_event *event)
{
    struct sim_node *node = &sim->nodes[event->node];
    struct zab_event step = {.type = ZAB_EV_REACHED, .is_all_reached = event->a != 0};

    sim_node_step(sim, node, &step);
}

/* `join` has the addresses of all machines that are in service. */
static void look_around(struct sim *sim, struct sim_node *node)
{
    bool is_reached = true;

    if (!node->up || node->paused) {
        return;
    }
    for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
        uint64_t at_us = node->reached_us[id];

        is_reached &= id == node->id || sim->nodes[id].idle ||
                      (at_us != 0 && sim->now_us < at_us + REACHED_US);
    }
    if (is_reached != node->is_reached) {
        node->is_reached = is_reached;
        sim_after(sim, 0, tell_reached, "reached", node)->a = is_reached;
    }
}

void sim_member_met(struct sim *sim, struct sim_node *a, struct sim_node *b)
{
    uint64_t conn = sim->ends[a->id][b->id];

    if (sim->knobs.bootstrap == 0) {
        return;
    }
    if (conn != 0 && conn == sim->ends[b->id][a->id]) {
        a->reached_us[b->id] = sim->now_us;
        b->reached_us[a->id] = sim->now_us;
    }
    look_around(sim, a);
    look_around(sim, b);
}

/* ---- Machines that come and go. ---- */

bool sim_member_is(const struct sim *sim, const struct sim_node *node)
{
    return zab_config_find(&sim->config, node->id) != NULL;
}

static uint64_t draw_us(struct sim *sim, uint32_t max_ms)
{
    return rng_range(&sim->members.rng, 1, max_ms) * SIM_MS;
}

static void start(struct sim *sim, struct sim_event *event)
{
    struct sim_node *node = &sim->nodes[event->a];

    if (!node->up && !node->idle) {
        sim_node_start(sim, node);
    }
}

static void start_later(struct sim *sim, struct sim_node *node)
{
    node->idle = false;
    node->joins |= sim->knobs.join_ms > 0 && rng_chance(&sim->members.rng, 500000);
    sim_after(sim, draw_us(sim, START_MAX_MS), start, "start", NULL)->a = node->id;
}

static void put_out(struct sim *sim, struct sim_node *node)
{
    if (node->up) {
        sim_node_crash(sim, node, rng_chance(&sim->members.rng, 500000) ? SIM_KILL : SIM_POWER);
    }
    node->idle = true;
}

/* The operator stops a machine that is no member any more. */
static void retire(struct sim *sim, struct sim_event *event)
{
    struct sim_node *node = &sim->nodes[event->a];

    if (node->idle || sim_member_is(sim, node) || sim->members.is_over) {
        return;
    }
    if (!sim_member_may_lose(sim, node)) {
        sim_after(sim, AGAIN_US, retire, "retire", NULL)->a = node->id;
        return;
    }
    SIM_TRACE(sim, "machine %u is taken out of service", node->id);
    put_out(sim, node);
}

/* A machine that is no member starts with addresses to join, and waits. Its disk is empty, or is
 * the one that was removed. */
static void join(struct sim *sim, struct sim_event *event)
{
    struct rng *rng = &sim->members.rng;
    uint32_t id = (uint32_t)rng_range(rng, 1, sim->knobs.nodes);
    struct sim_node *node = &sim->nodes[id];
    bool is_free = node->idle && !node->up && !sim_member_is(sim, node);

    (void)event;
    if (sim->phase != SIM_SAFETY) {
        return;
    }
    sim_after(sim, rng_range(rng, 1, (uint64_t)sim->knobs.join_ms * 2) * SIM_MS, join, "join",
              NULL);
    if (!is_free || !sim_member_may_lose(sim, node)) {
        return;
    }
    if (node->identity.incarnation != 0 && rng_chance(rng, 900000)) {
        sim_disk_empty(sim, node);
    }
    SIM_TRACE(sim, "machine %u starts to join", id);
    node->port = sim_member_port(sim, node);
    node->joins = true;
    node->idle = false;
    sim_node_start(sim, node);
    sim_after(sim, draw_us(sim, RETIRE_MAX_MS), retire, "retire", NULL)->a = id;
}

void sim_member_begin(struct sim *sim)
{
    if (sim->knobs.join_ms > 0) {
        sim_after(sim, rng_range(&sim->members.rng, 1, sim->knobs.join_ms) * SIM_MS, join, "join",
                  NULL);
    }
}

void sim_member_committed(struct sim *sim)
{
    if (sim->knobs.change_ms == 0) {
        return;
    }
    for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
        struct sim_node *node = &sim->nodes[id];

        if (sim_member_is(sim, node) && node->idle) {
            start_later(sim, node);
        } else if (!sim_member_is(sim, node) && !node->idle) {
            sim_after(sim, draw_us(sim, RETIRE_MAX_MS), retire, "retire", NULL)->a = id;
        }
    }
}

/* A member's machine has got a disk that was removed: the operator empties it. */
static void replace_disk(struct sim *sim, struct sim_event *event)
{
    struct sim_node *node = &sim->nodes[event->a];

    if (node->up || node->idle || !sim_member_is(sim, node)) {
        return;
    }
    sim_disk_empty(sim, node);
    start_later(sim, node);
}

static void leave(struct sim *sim, struct sim_event *event)
{
    struct sim_node *node = &sim->nodes[event->node];
    bool is_member = sim_member_is(sim, node);

    SIM_TRACE(sim, "the process of node %u ends: its disk was removed", node->id);
    put_out(sim, node);
    if (is_member) {
        node->idle = false;
        sim_after(sim, AGAIN_US, replace_disk, "replace", NULL)->a = node->id;
    }
}

void sim_member_removed(struct sim *sim, struct sim_node *node)
{
    SIM_TRACE(sim, "node %u learns that its disk was removed", node->id);
    sim_after(sim, draw_us(sim, LEARNT_MAX_MS), leave, "leave", node);
}

void sim_member_persists(struct sim *sim, const struct sim_node *node,
                         const struct zab_config *config)
{
    struct sim_members *members = &sim->members;

    if (!members->is_founded) {
        members->is_founded = true;
        memcpy(members->cluster, config->cluster, ZAB_CLUSTER_LEN);
    }
    if (memcmp(members->cluster, config->cluster, ZAB_CLUSTER_LEN) != 0) {
        sim_fail(sim, "A39", "node %u is in the cluster %02x%02x, which is the second one",
                 node->id, config->cluster[0], config->cluster[1]);
    }
}

/* ---- What leaders propose, and which disks lead. ---- */

/* The newest record that the leader's log held so long ago. */
static zxid_t held_before(struct sim *sim, const struct sim_node *leader, uint64_t lag_us)
{
    const struct sim_rec *rec = sim_rec_find(sim, leader->appended);

    while (rec && rec->made_us + lag_us > sim->now_us) {
        rec = rec->parent;
    }
    return rec ? rec->rec->zxid : 0;
}

/* The leader compares the learner's last acknowledgement with its own log of a while ago; it looks
 * twice a tick. An admission to a seat has rules of its own. */
static void check_in_step(struct sim *sim, const struct sim_node *leader, const struct logrec *rec,
                          const struct zab_member *member)
{
    const struct zab_limits *limits = &sim->knobs.limits;
    uint64_t lag_us =
        ((uint64_t)limits->step_lag_ms + (uint64_t)LAG_TICKS * limits->tick_ms) * SIM_MS;
    zxid_t must = held_before(sim, leader, lag_us);

    if (!sim_disk_has(sim, member->id, member->incarnation, must)) {
        sim_fail(sim, "A35",
                 "leader %u proposes %" PRIx64 " with node %u as a voter, whose disk lacks %" PRIx64
                 " of more than %" PRIu64 " ms ago",
                 leader->id, rec->zxid, member->id, must, lag_us / SIM_MS);
    }
}

static void check_removed(struct sim *sim, const struct sim_node *leader, const struct logrec *rec,
                          const struct zab_config *config)
{
    const struct zab_config *now = zab_config(replica_zab(leader->replica));

    for (uint32_t i = 0; i < now->removed_count; i++) {
        const struct zab_removed *removed = &now->removed[i];

        if (!zab_config_find_removed(config, removed->id, removed->incarnation)) {
            sim_fail(sim, "A34",
                     "leader %u proposes %" PRIx64 ", which forgets that a disk of node %u was "
                     "removed",
                     leader->id, rec->zxid, removed->id);
        }
    }
}

void sim_member_proposed(struct sim *sim, const struct sim_node *leader, const struct logrec *rec,
                         const struct zab_config *config)
{
    const struct zab_config *now = zab_config(replica_zab(leader->replica));

    check_removed(sim, leader, rec, config);
    for_each_member (member, config) {
        const struct zab_member *was = zab_config_find(now, member->id);

        if (zab_config_find_removed(config, member->id, member->incarnation)) {
            sim_fail(sim, "A34", "leader %u proposes %" PRIx64 " with the removed disk of node %u",
                     leader->id, rec->zxid, member->id);
        }
        if (member->voter && was && !was->voter && !was->empty_seat) {
            check_in_step(sim, leader, rec, member);
        }
    }
}

void sim_member_established(struct sim *sim, const struct sim_node *leader)
{
    const struct zab_config *config = zab_config(replica_zab(leader->replica));

    if (zab_config_find_removed(config, leader->id, leader->identity.incarnation)) {
        sim_fail(sim, "A34", "node %u leads, but knows that its disk was removed", leader->id);
    }
}

/* ---- Addresses. ---- */

/* Without texts, the server list has the address. */
static bool has_address(const struct zab_config *config, struct slice bytes,
                        const struct sim_node *to)
{
    struct zab_texts texts = {.port = 0};

    if (!config || !zab_config_find(config, to->id)) {
        return false;
    }
    (void)zab_config_texts(bytes, to->id, &texts);
    return texts.port == 0 || texts.port == to->port;
}

bool sim_member_reaches(struct sim *sim, const struct sim_node *from, const struct sim_node *to)
{
    const struct zab *zab = replica_zab(from->replica);

    return sim->knobs.change_ms == 0 || sim->members.is_over || zab_config(zab)->count == 0 ||
           has_address(zab_config(zab), zab_config_bytes(zab), to) ||
           has_address(zab_pending(zab), zab_pending_bytes(zab), to);
}

void sim_member_end(struct sim *sim)
{
    sim->members.is_over = true;
}
