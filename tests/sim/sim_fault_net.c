#include "tests/sim/sim_fault_int.h"

#include <inttypes.h>

/* Faults of the network: connections that break, partitions, and links that carry nothing. */

void sim_fault_reset(struct sim *sim)
{
    uint32_t a = sim_fault_any_node(sim)->id;
    uint32_t b = sim_fault_any_node(sim)->id;

    if (a != b) {
        sim_net_reset(sim, a, b);
    }
}

/* The cut of one direction of one pair ends. */
static void heal(struct sim *sim, struct sim_event *event)
{
    sim_net_heal(sim, (uint32_t)event->a, (uint32_t)event->b);
}

void sim_fault_cut_for(struct sim *sim, uint32_t from, uint32_t to, uint64_t for_us)
{
    struct sim_event *event;

    sim_net_cut(sim, from, to);
    event = sim_after(sim, for_us, heal, "heal", NULL);
    event->a = from;
    event->b = to;
}

void sim_fault_clog(struct sim *sim)
{
    uint32_t a = sim_fault_any_node(sim)->id;
    uint32_t b = sim_fault_any_node(sim)->id;

    if (a != b) {
        SIM_TRACE(sim, "fault: link %u->%u carries nothing", a, b);
        sim_fault_cut_for(sim, a, b, rng_range(&sim->rng, 1, 5000) * SIM_MS);
    }
}

static bool cut_between(struct sim *sim, uint32_t kind, const uint8_t *side, uint32_t a, uint32_t b)
{
    uint32_t distance = a > b ? a - b : b - a;

    switch (kind) {
    case 0: /* Two sides. */
        return side[a] != side[b];
    case 1: /* Two sides, one direction. */
        return side[a] > side[b];
    case 2: /* A ring: each node reaches its neighbours only. */
        return distance != 1 && distance != sim->knobs.nodes - 1;
    default: /* A bridge: node 1 reaches both sides. */
        return a != 1 && b != 1 && side[a] != side[b];
    }
}

void sim_fault_cut(struct sim *sim)
{
    uint8_t side[SIM_NODES_MAX + 1] = {0};
    uint32_t kind = (uint32_t)rng_below(&sim->rng, 4);
    uint64_t for_us = rng_range(&sim->rng, 1, sim_fault_ticks_us(sim, CUT_TICKS_MAX));

    SIM_TRACE(sim, "fault: partition of kind %u for %" PRIu64 " ms", kind, for_us / SIM_MS);
    sim->totals.partitions++;
    for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
        side[id] = (uint8_t)rng_below(&sim->rng, 2);
    }
    for (uint32_t a = 1; a <= sim->knobs.nodes; a++) {
        for (uint32_t b = 1; b <= sim->knobs.nodes; b++) {
            if (a != b && cut_between(sim, kind, side, a, b)) {
                sim_fault_cut_for(sim, a, b, for_us + rng_below(&sim->rng, SIM_SECOND));
            }
        }
    }
}

void sim_fault_isolate(struct sim *sim, const struct sim_node *node, uint64_t for_us,
                       uint64_t which)
{
    SIM_TRACE(sim, "fault: leader %u is isolated (%" PRIu64 ")", node->id, which);
    sim->totals.partitions++;
    for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
        if (id != node->id && which != 1) {
            sim_fault_cut_for(sim, node->id, id, for_us);
        }
        if (id != node->id && which != 2) {
            sim_fault_cut_for(sim, id, node->id, for_us);
        }
    }
}

void sim_fault_leader(struct sim *sim)
{
    struct sim_node *leader = sim_leader(sim);
    uint64_t for_us = rng_range(&sim->rng, 1, sim_fault_ticks_us(sim, CUT_TICKS_MAX));

    if (leader) {
        sim_fault_isolate(sim, leader, for_us, rng_below(&sim->rng, 3));
    }
}
