#include "tests/sim/sim.h"

/*
 * Swarm testing: a seed first draws which faults exist and how often they strike. A run with all
 * faults at once reaches less than many runs with a few frequent faults each.
 */

enum {
    ROOM_EVERY = 8,  /* One seed in so many has limits for the tree. */
    LANES_EVERY = 4, /* One seed in so many, different ones, has clients with sockets. */
    LINKS_EVERY = 8, /* One seed in so many, different ones, has slow links. */
    ROOM_SALT = 0x726f6f6d,
    LINKS_SALT = 0x6c696e6b,
    LINKS_WINDOW = 16,       /* Fewer records in a round trip could be less than clients write. */
    QUEUE_BYTES = 256 << 10, /* Far more than the window of such a seed. */
    KEEP_PLENTY = 256 << 20, /* Far more log than clients write while a snapshot is on its way. */
    CLOCK_EVERY = 8, /* One seed in so many, different ones, has TTL znodes and clocks that jump. */
    CLOCK_PENDING = 16, /* Each look removes at least as many, so the time for all is bounded. */
    CLOCK_SALT = 0x636c6f63,
    FAILING_EVERY = 8, /* One seed in so many, different ones, has disks that fail or rot in use. */
    FAILING_SALT = 0x6661696c,
    FAILING_VOTERS_MIN = 3, /* One of so many voters may rot. */
    RELEASES_EVERY =
        8, /* One seed in so many, different ones, has processes of several releases. */
    RELEASES_SALT = 0x6c65766c,
    MEMBERS_SALT = 0x6d656d62,
};

static uint32_t pick(struct rng *rng, const uint32_t *values, size_t count)
{
    return values[rng_below(rng, count)];
}

#define PICK(rng, ...)                           \
    pick((rng), (const uint32_t[]){__VA_ARGS__}, \
         sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static void draw_limits(struct rng *rng, struct zab_limits *limits)
{
    zab_limits_default(limits);
    limits->tick_ms = PICK(rng, 200, 500, 1000, 1000);
    limits->init_limit = PICK(rng, 5, 10);
    limits->sync_limit = PICK(rng, 2, 3, 5);
    limits->pending_max = PICK(rng, 4, 16, 200, 20000);
    limits->pending_bytes_max = PICK(rng, 1 << 12, 1 << 16, 1 << 20);
    limits->cache_max = PICK(rng, 1, 8, 64, 1000);
    limits->cache_bytes_max = PICK(rng, 1 << 10, 1 << 16, 1 << 20);
    limits->window_max = PICK(rng, 1, 4, 16, 1000);
    limits->window_bytes_max = PICK(rng, 1 << 10, 1 << 16, 1 << 20);
    limits->counter_max = PICK(rng, 40, 200, 1000, 1 << 30, 1 << 30);
    limits->admit_absent_ms = PICK(rng, 1000, 3000);
    limits->admit_again_ms = PICK(rng, 2000, 10000);
    limits->stamp_every = PICK(rng, 16, 100, 1000);
}

static void draw_shape(struct rng *rng, struct sim_knobs *knobs)
{
    knobs->voters = PICK(rng, 1, 2, 3, 3, 3, 3, 3, 4, 5, 5, 5, 7);
    knobs->nodes = knobs->voters;
    if (knobs->voters < SIM_NODES_MAX && rng_chance(rng, 300000)) {
        knobs->nodes++;
    }
    knobs->clients = (uint32_t)rng_range(rng, 2, 8);
    knobs->snap_count = PICK(rng, 20, 60, 200, 2000);
    knobs->segment_bytes = PICK(rng, 64 << 10, 64 << 10, 128 << 10, 256 << 10);
    knobs->snapshots_keep = PICK(rng, 1, 2, 3);
    knobs->keep_bytes_max = 1 << 20;
    knobs->slice_bytes = PICK(rng, 100, 500, 4096);
    knobs->pad_bytes = rng_chance(rng, 40000) ? (uint32_t)rng_range(rng, 2000, 20000) : 0;
    knobs->requests_max = PICK(rng, 8, 100, 1000);
    knobs->forward_bytes = knobs->requests_max * 300 + knobs->pad_bytes * 8;
    knobs->delay_min_us = PICK(rng, 50, 200, 1000);
    knobs->delay_max_us = knobs->delay_min_us * PICK(rng, 2, 5, 30);
    knobs->delay_tail_ppm = PICK(rng, 0, 1000, 20000);
    knobs->disk_min_us = PICK(rng, 50, 200, 2000);
    knobs->disk_max_us = knobs->disk_min_us * PICK(rng, 2, 5, 20);
    knobs->drift_ppm = PICK(rng, 0, 0, 100, 50000);
    knobs->think_ms = PICK(rng, 100, 400, 1000);
    knobs->burst_ppm = PICK(rng, 0, 20000, 100000);
    knobs->lost_ppm = PICK(rng, 0, 10000, 100000);
}

/* Half of the seeds have none of this, so that they test the protocol as deeply as before. */
static void draw_coordination(struct rng *rng, struct sim_knobs *knobs)
{
    bool sessions = rng_chance(rng, 500000);
    bool watches = rng_chance(rng, 400000);

    knobs->sessions = sessions ? PICK(rng, 1, 2, 4) : 0;
    knobs->timeout_ticks_max = PICK(rng, 4, 10);
    knobs->close_ppm = PICK(rng, 5000, 10000, 100000);
    knobs->ephemerals_max = PICK(rng, 2, 100, 100);
    knobs->acl_ppm = PICK(rng, 0, 0, 0, 60000);
    knobs->quota_ppm = PICK(rng, 0, 0, 0, 40000);
    knobs->key_ppm = PICK(rng, 0, 0, 300000, 900000);
    knobs->remembered_max = PICK(rng, 5, 1000, 1000);
    knobs->remember_ms = PICK(rng, 5000, 600000);
    knobs->watch_ppm = watches ? PICK(rng, 50000, 300000) : 0;
    knobs->window_sets = PICK(rng, 4, 32, 1000);
    knobs->front_max_us = PICK(rng, 2000, 2000, 500000);
}

/* A fault exists in `share_percent` of the seeds; its mean interval is drawn. */
static uint32_t every_ms(struct rng *rng, uint32_t share_percent, uint32_t low_ms, uint32_t high_ms)
{
    if (!rng_chance(rng, share_percent * 10000)) {
        return 0;
    }
    return (uint32_t)rng_range(rng, low_ms, high_ms);
}

static void draw_faults(struct rng *rng, struct sim_knobs *knobs)
{
    knobs->crash_ms = every_ms(rng, 60, 2000, 20000);
    knobs->crash_fx_ms = every_ms(rng, 40, 2000, 15000);
    knobs->crash_vfs_ms = every_ms(rng, 40, 2000, 15000);
    knobs->power_ms = every_ms(rng, 15, 10000, 40000);
    knobs->stop_ms = every_ms(rng, 20, 8000, 30000);
    knobs->power_ppm = PICK(rng, 0, 500000, 1000000);
    knobs->down_max_ms = PICK(rng, 300, 2000, 10000);
    knobs->again_ppm = PICK(rng, 0, 100000, 300000);
    knobs->pause_ms = every_ms(rng, 30, 3000, 20000);
    knobs->reset_ms = every_ms(rng, 40, 300, 8000);
    knobs->cut_ms = every_ms(rng, 40, 4000, 20000);
    knobs->clog_ms = every_ms(rng, 30, 1000, 10000);
    knobs->leader_ms = every_ms(rng, 30, 5000, 20000);
    knobs->slow_ms = every_ms(rng, 30, 5000, 20000);
    knobs->rot_ms = every_ms(rng, 15, 8000, 30000);
    knobs->full_ms = every_ms(rng, 15, 8000, 30000);
    knobs->jump_ms = every_ms(rng, 20, 2000, 20000);
    knobs->torn = rng_chance(rng, 800000);
}

/* Two seeds in five replace disks, most of them all the time. Each replacement makes two or more
 * configurations, and a fault while one is pending is the worst case. */
static void draw_disks(struct rng *rng, struct sim_knobs *knobs)
{
    knobs->empty_ms = every_ms(rng, 40, 3000, 20000);
    knobs->swap_ms = every_ms(rng, 60, 4000, 20000);
    knobs->config_ppm = PICK(rng, 0, 300000, 900000);
    if (knobs->empty_ms > 0) {
        knobs->limits.admit_absent_ms = PICK(rng, 300, 1000, 3000);
        knobs->limits.admit_again_ms = PICK(rng, 500, 2000, 10000);
    }
}

/*
 * One seed in five refills replicas all the time. Each snapshot purges the log behind it, so a
 * replica that was away gets a snapshot. A snapshot taken under load has a fuzzy part, and the log
 * records of that part come from the disk. Epochs are drawn last, because a snapshot of an older
 * epoch hides all this.
 */
static void draw_refills(struct rng *rng, struct sim_knobs *knobs)
{
    if (!rng_chance(rng, 200000)) {
        return;
    }
    knobs->snap_count = 20;
    knobs->snapshots_keep = 1;
    knobs->segment_bytes = 64 << 10;
    knobs->slice_bytes = PICK(rng, 100, 300);
    knobs->limits.cache_max = PICK(rng, 1, 4);
    knobs->limits.counter_max = 1 << 30;
    knobs->think_ms = PICK(rng, 50, 100, 200);
    if (rng_chance(rng, 500000)) {
        knobs->empty_ms = (uint32_t)rng_range(rng, 3000, 10000);
    } else {
        knobs->empty_ms = 0;
        knobs->rot_ms = (uint32_t)rng_range(rng, 2000, 6000);
    }
    knobs->crash_ms = knobs->crash_ms > 0 ? 5000 : 0;
    knobs->reset_ms = PICK(rng, 0, 1000, 4000);
    knobs->slow_ms = PICK(rng, 0, 2000, 4000);
    knobs->full_ms = PICK(rng, 0, 0, 6000);
    knobs->leader_ms = 0;
    knobs->crash_vfs_ms = 0;
    knobs->power_ms = 0;
}

/* It has its own random numbers, so that all other seeds stay the same. */
void sim_draw_room(uint64_t seed, struct sim_knobs *knobs)
{
    struct rng rng;

    rng_init(&rng, seed ^ ROOM_SALT);
    knobs->tree_bytes = seed % ROOM_EVERY == ROOM_EVERY - 1 ? PICK(&rng, 3000, 6000, 12000) : 0;
}

/* It draws no random numbers, for the same reason. */
void sim_draw_lanes(uint64_t seed, struct sim_knobs *knobs)
{
    knobs->lanes = seed % LANES_EVERY == 1;
}

/* Slow links and snapshots of many pieces: a transfer lasts for seconds, with concurrent writes and
 * a short log. */
void sim_draw_links(uint64_t seed, struct sim_knobs *knobs)
{
    struct rng rng;

    if (seed % LINKS_EVERY != 3) {
        return;
    }
    rng_init(&rng, seed ^ LINKS_SALT);
    for (size_t i = 0; i < sizeof(knobs->link_rates) / sizeof(knobs->link_rates[0]); i++) {
        knobs->link_rates[i] = PICK(&rng, 0, 50, 100, 400);
    }
    knobs->queue_bytes = QUEUE_BYTES;
    knobs->keep_bytes_max = PICK(&rng, 0, 256 << 10, KEEP_PLENTY, KEEP_PLENTY);
    knobs->pad_bytes = 0;
    knobs->snap_count = PICK(&rng, 20, 60);
    knobs->snapshots_keep = 1;
    knobs->limits.chunk_bytes = PICK(&rng, 100, 500, 2000);
    knobs->limits.window_bytes_max = PICK(&rng, 1 << 10, 8 << 10);
    if (knobs->limits.window_max < LINKS_WINDOW) {
        knobs->limits.window_max = LINKS_WINDOW;
    }
    knobs->limits.refill_rate = PICK(&rng, 0, 20000, 1 << 20);
    knobs->limits.pending_bytes_max = 1 << 16;
    if (knobs->empty_ms == 0) {
        knobs->empty_ms = 15000; /* Causes refills. */
    }
    knobs->full_ms = PICK(&rng, knobs->full_ms, 3000, 6000);
}

/* TTL znodes, results that are forgotten soon, and wall clocks that jump. */
void sim_draw_clocks(uint64_t seed, struct sim_knobs *knobs)
{
    struct rng rng;

    if (seed % CLOCK_EVERY != 4) {
        return;
    }
    rng_init(&rng, seed ^ CLOCK_SALT);
    if (knobs->limits.pending_max < CLOCK_PENDING) {
        knobs->limits.pending_max = CLOCK_PENDING;
    }
    knobs->ttl_ppm = PICK(&rng, 50000, 300000);
    knobs->reap_ms = PICK(&rng, 100, 500);
    knobs->key_ppm = PICK(&rng, 100000, 900000);
    knobs->remember_ms = PICK(&rng, 1000, 5000);
    knobs->jump_ms = PICK(&rng, 1000, 3000, 10000);
    knobs->keep_age_ms = PICK(&rng, 200, 1000, 60000);
}

/*
 * Disks that fail or rot in use, and states that are wrong after loading a snapshot. Both cause a
 * refill while the process runs with a newer state. So that this matters, the in-memory log behind
 * a snapshot is short, and snapshots are fuzzy.
 */
void sim_draw_failing(uint64_t seed, struct sim_knobs *knobs)
{
    struct rng rng;

    if (seed % FAILING_EVERY != 6) {
        return;
    }
    rng_init(&rng, seed ^ FAILING_SALT);
    if (knobs->voters < FAILING_VOTERS_MIN) {
        knobs->nodes += FAILING_VOTERS_MIN - knobs->voters;
        knobs->voters = FAILING_VOTERS_MIN;
    }
    knobs->fail_ms = PICK(&rng, 0, 4000, 8000, 16000);
    knobs->decay_ms = PICK(&rng, 2000, 4000, 8000);
    knobs->spoil_ms = PICK(&rng, 0, 1000, 3000);
    knobs->snap_count = PICK(&rng, 20, 20, 60);
    knobs->snapshots_keep = PICK(&rng, 1, 1, 2);
    knobs->segment_bytes = 64 << 10;
    knobs->slice_bytes = PICK(&rng, 100, 300);
    knobs->limits.cache_max = PICK(&rng, 1, 4);
    knobs->limits.counter_max = 1 << 30;
    knobs->think_ms = PICK(&rng, 50, 100, 200);
    if (knobs->crash_ms == 0) {
        knobs->crash_ms = 8000; /* Causes refills. */
    }
}

/* Releases that know more and more levels, and restarts, so that a node may come back with a newer
 * one or with an older one. */
void sim_draw_releases(uint64_t seed, struct sim_knobs *knobs)
{
    struct rng rng;

    if (seed % RELEASES_EVERY != 2) {
        return;
    }
    rng_init(&rng, seed ^ RELEASES_SALT);
    knobs->newest_ppm = PICK(&rng, 300000, 600000, 900000);
    knobs->limits.level_ms = PICK(&rng, 300, 1000, 5000);
    knobs->newest_after_ms = PICK(&rng, 10000, 20000, 40000);
    knobs->crash_ms = knobs->crash_ms > 0 ? knobs->crash_ms : 8000;
    knobs->stop_ms = knobs->stop_ms > 0 ? knobs->stop_ms : 6000;
}

/* Every seed: requests for other members, and machines that are no members yet. */
void sim_draw_members(uint64_t seed, struct sim_knobs *knobs)
{
    struct rng rng;

    rng_init(&rng, seed ^ MEMBERS_SALT);
    knobs->change_ms = PICK(&rng, 1000, 2000, 4000, 8000);
    knobs->limits.promote_ms = PICK(&rng, 300, 1000, 3000, 10000);
    knobs->limits.step_lag_ms = PICK(&rng, 300, 1000);
    knobs->nodes += PICK(&rng, 1, 1, 1, 2, 3);
    knobs->join_ms = PICK(&rng, 0, 2000, 5000, 10000);
    knobs->auto_join = PICK(&rng, 0, 0, 1) != 0;
    if (knobs->voters == knobs->members && knobs->newest_ppm == 0 && PICK(&rng, 0, 0, 1) != 0) {
        knobs->bootstrap = knobs->voters;
    }
    if (knobs->nodes > SIM_NODES_MAX) {
        knobs->nodes = SIM_NODES_MAX;
    }
    if (knobs->config_ppm == 0) {
        knobs->config_ppm = PICK(&rng, 0, 200000);
    }
}

void sim_draw(struct rng *rng, struct sim_knobs *knobs)
{
    draw_limits(rng, &knobs->limits);
    draw_shape(rng, knobs);
    draw_coordination(rng, knobs);
    draw_faults(rng, knobs);
    draw_disks(rng, knobs);
    draw_refills(rng, knobs);
}
