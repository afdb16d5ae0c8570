#include "tests/sim/sim_member.h"
#include "tests/sim/sim_watch.h"

/* Start options of a process: the limits that the seed has drawn, and its random numbers. */

enum {
    REAP_EVERY_MS = 60000,
    KEEP_AGE_MS = 60000,
};

/* Each node has a different limit, the same in all its lives; every third node has none. */
static uint64_t tree_bytes_of(const struct sim_knobs *knobs, uint32_t id)
{
    return id % 3 == 0 ? 0 : knobs->tree_bytes - (uint64_t)id * knobs->tree_bytes / 20;
}

void sim_node_options(struct sim *sim, struct sim_node *node, struct replica_options *ret_options)
{
    const struct sim_knobs *knobs = &sim->knobs;

    *ret_options = (struct replica_options){
        .zab = {.id = node->id, .seeds = sim->seeds, .limits = knobs->limits},
        .prep = {.data_bytes_max = 1 << 20,
                 .txn_bytes_max = 4 << 20,
                 .multi_ops_max = 100,
                 .tree.recursive_max = 1000,
                 .tree.session_min_ms = 1,
                 .tree.session_max_ms = 60000,
                 .tree.session_default_ms = 10000,
                 .tree.sessions_max = SIM_SESSIONS_MAX,
                 .tree.session_ephemerals_max = knobs->ephemerals_max,
                 .tree.session_ephemeral_bytes_max = 10000,
                 .tree.remembered_max = knobs->remembered_max,
                 .tree.remembered_bytes_max = 1 << 20,
                 .tree.result_bytes_max = 1 << 16,
                 .tree.remember_ms = knobs->remember_ms},
        .boot = rng_u64(&sim->rng),
        .requests_max = knobs->requests_max,
        .forward_bytes_max = knobs->forward_bytes,
        .forward_peer_bytes_max = knobs->forward_bytes / 2,
        /* Some nodes stay within the leader's limit, others exceed it. */
        .forward_out_bytes_max = node->id % 2 ? knobs->forward_bytes / 2 : knobs->forward_bytes * 2,
        .snap_count = knobs->snap_count,
        .snap_bytes = 64 << 20,
        .reap_every_ms = knobs->reap_ms ? knobs->reap_ms : REAP_EVERY_MS,
        .keep_age_ms = knobs->keep_age_ms ? knobs->keep_age_ms : KEEP_AGE_MS,
        .tree_bytes_max = tree_bytes_of(knobs, node->id),
        .window = sim_front_window(node),
        .touched = node->touched,
    };
    ret_options->zab.incarnation = rng_u64(&sim->rng) | 1;
    ret_options->zab.level_max = node->level;
    sim_member_options(sim, node, &ret_options->zab);
    ret_options->zab.rng_seed = rng_u64(&sim->rng);
    ret_options->zab.now_ms = sim_node_ms(sim, node);
}
