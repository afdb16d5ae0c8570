#include "tests/sim/sim_release.h"

#include <inttypes.h>

enum {
    RELEASE_SALT = 0x72656c73,
    NEWEST = SIM_LEVELS - 1,
    /* What a process has said may be this old: the leader was paused, or has not yet noticed that
     * the process is gone. */
    SAID_TICKS = 14,
    SAID_MORE_MS = 3000, /* Added for slow networks. */
};

void sim_release_start(const struct sim *sim, struct sim_node *node)
{
    struct rng rng;

    node->level = 0;
    if (sim->knobs.newest_ppm == 0) {
        node->level = sim->knobs.change_ms > 0 || sim->knobs.bootstrap > 0 ? NEWEST : 0;
        return;
    }
    rng_init(&rng, sim->options.seed ^ RELEASE_SALT ^ (uint64_t)node->id << 48 ^
                       (uint64_t)node->life << 32);
    bool newest = rng_chance(&rng, sim->knobs.newest_ppm);

    if (node->upgraded || sim->now_us >= (uint64_t)sim->knobs.newest_after_ms * SIM_MS) {
        node->level = NEWEST;
    } else if (node->life == 1) {
        node->level = newest ? NEWEST - 1 : NEWEST - 2;
    } else {
        node->level = newest ? NEWEST : NEWEST - 1;
    }
}

void sim_release_end(const struct sim *sim, struct sim_node *node)
{
    for (uint16_t level = 0; level <= node->level; level++) {
        node->said_us[level] = sim->now_us;
    }
}

void sim_release_made(struct sim *sim, uint16_t level)
{
    sim->level_made = level > sim->level_made ? level : sim->level_made;
}

static bool has_said(const struct sim *sim, const struct sim_node *node, uint16_t level)
{
    const struct zab_limits *limits = &sim->knobs.limits;
    uint64_t window_us =
        ((uint64_t)limits->tick_ms * (limits->sync_limit + SAID_TICKS) + SAID_MORE_MS) * SIM_MS;

    if (node->up && node->level >= level) {
        return true;
    }
    return level < SIM_LEVELS && node->said_us[level] > 0 &&
           sim->now_us - node->said_us[level] <= window_us;
}

void sim_release_proposed(struct sim *sim, const struct sim_node *leader,
                          const struct zab_config *config)
{
    if (config->level <= zab_config(replica_zab(leader->replica))->level) {
        return;
    }
    sim->totals.raises++;
    for_each_member (member, config) {
        const struct sim_node *node = &sim->nodes[member->id];

        if (!has_said(sim, node, config->level)) {
            sim_fail(sim, "A36",
                     "leader %u raises the level to %u, but the release of node %u knows %u",
                     leader->id, config->level, node->id, node->level);
        }
    }
}

/* A process finds the level on its disk or in a message, and ends with this step. */
static bool halts(const struct sim_node *node)
{
    const struct zab_effects *effects = &node->effects.zab;

    for (size_t i = 0; i < effects->count; i++) {
        if (effects->items[i].type == ZAB_FX_HALT &&
            effects->items[i].notice.type == ZAB_NOTICE_NEWER) {
            return true;
        }
    }
    return false;
}

void sim_release_check(struct sim *sim, const struct sim_node *node,
                       const struct zab_config *config)
{
    if (config->level > node->level && !halts(node)) {
        sim_fail(sim, "A36",
                 "node %u, whose release knows level %u, takes the configuration %" PRIx64
                 " of level %u",
                 node->id, node->level, config->version, config->level);
    }
}

bool sim_release_explains_halt(struct sim *sim, struct sim_node *node, enum zab_notice_type type)
{
    if (type != ZAB_NOTICE_NEWER || node->level >= sim->level_made) {
        return false;
    }
    node->upgraded = true;
    sim->totals.unread++;
    return true;
}
