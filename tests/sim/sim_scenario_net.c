#include "tests/sim/sim_script.h"

/* Scenarios around pauses and partitions. */

static struct sim_op *read_at(struct sim *sim, struct sim_node *node)
{
    struct sim_sub sub = {.id = OP_CHILDREN, .path = "/k0"};

    return sim_client_send(sim, node->id, &sub, true);
}

static bool is_replaced(struct sim *sim)
{
    struct sim_node *leader = sim_leader(sim);

    return leader && leader->id != sim->hook_arg;
}

static bool nothing_pending(struct sim *sim)
{
    return sim->pending == 0;
}

/* ---- S22: the leader is paused while another is elected; requests wait in its sockets. ---- */

static void s22(struct sim *sim)
{
    script_bootstrap(sim);
    for (int round = 0; round < 6; round++) {
        struct sim_node *old = script_leader(sim);

        sim->hook_arg = old->id;
        (void)read_at(sim, old);
        script_run(sim, 1);
        sim_node_pause(sim, old, 3600 * UINT64_C(1000000));
        (void)read_at(sim, old);
        (void)script_send(sim, old);
        script_until(sim, is_replaced, "another leader");
        script_writes(sim, script_leader(sim), 3);
        (void)read_at(sim, old);
        sim_node_resume(sim, old);
        (void)read_at(sim, old);
        script_until(sim, nothing_pending, "answers");
        sim_settle(sim);
    }
}

/* ---- S24: the leader can send but not receive, or receive but not send. ---- */

static void s24(struct sim *sim)
{
    script_bootstrap(sim);
    for (int round = 0; round < 6; round++) {
        struct sim_node *old = script_leader(sim);

        sim->hook_arg = old->id;
        script_isolate(sim, old, round % 2 == 0, round % 2 != 0);
        (void)script_send(sim, old);
        (void)read_at(sim, old);
        script_until(sim, is_replaced, "another leader");
        script_writes(sim, script_leader(sim), 2);
        (void)read_at(sim, old);
        script_run(sim, rng_range(&sim->rng, 1, 3000));
        script_heal(sim);
        (void)read_at(sim, old);
        script_until(sim, nothing_pending, "answers");
        sim_settle(sim);
    }
}

/* ---- A learner joins repeatedly while clients write. ---- */

static void narrow(struct sim_knobs *knobs)
{
    knobs->snap_count = 40;
    knobs->limits.window_max = 2;
    knobs->limits.cache_max = 8;
    knobs->segment_bytes = 16 << 10;
    knobs->snapshots_keep = 1;
}

static void s10(struct sim *sim)
{
    script_bootstrap(sim);
    for (int round = 0; round < 20; round++) {
        struct sim_node *node = script_follower(sim, (uint32_t)rng_below(&sim->rng, 2));

        for (int i = 0; i < 30; i++) {
            (void)script_send(sim, script_leader(sim));
        }
        sim_net_reset(sim, script_leader(sim)->id, node->id);
        script_run(sim, rng_range(&sim->rng, 1, 400));
        if (round % 4 == 0) {
            script_crash(sim, node, SIM_POWER);
            script_run(sim, rng_range(&sim->rng, 1, 2000));
            script_start(sim, node);
        }
    }
    script_until(sim, nothing_pending, "answers");
    sim_settle(sim);
}

const struct script scripts_net[] = {
    {.name = "S10", .run = s10, .knobs = narrow},
    {.name = "S22", .run = s22},
    {.name = "S24", .run = s24},
    {.name = NULL},
};
