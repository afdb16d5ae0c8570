#include "tests/sim/sim_clock.h"
#include "tests/sim/sim_script.h"

/*
 * Clocks of leaders and of majorities jump, and TTLs and remembered results must still end. The
 * clients are those of random seeds, with TTL znodes and idempotency keys.
 */

#define YEARS_MS INT64_C(315360000000) /* Ten. */

enum {
    ROUNDS = 5,
    BAD_MS = 1500,
    IDLE_MS = 8000,
    BREAKS = 40,
    NIGHT_TTL_MS = 3000,
    NIGHTS = 20,
    DAY_MS = 700, /* The leader writes the age every 200 ms. */
};

static void begin(struct sim *sim)
{
    script_bootstrap(sim);
    sim_client_begin(sim);
    script_run(sim, 2000);
}

static int64_t some_offset(struct sim *sim)
{
    return rng_chance(&sim->rng, 700000) ? YEARS_MS : -YEARS_MS;
}

static void restart_all(struct sim *sim)
{
    for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
        if (sim->nodes[id].up) {
            sim_node_die(sim, &sim->nodes[id], SIM_KILL);
        }
    }
    script_run(sim, sim->knobs.down_max_ms + 1);
}

/* The leader's wall clock is wrong for a second; now and then all replicas restart. */
static void leaders_clock_jumps(struct sim *sim)
{
    begin(sim);
    for (int i = 0; i < ROUNDS; i++) {
        sim_clock_jump(sim, script_leader(sim), some_offset(sim), BAD_MS);
        script_run(sim, rng_range(&sim->rng, 1, 2 * BAD_MS));
        if (rng_chance(&sim->rng, 400000)) {
            restart_all(sim);
        }
        sim_clock_progress(sim);
    }
}

/* The clocks of a majority are wrong and corrected later: stamps step back once. */
static void a_majoritys_clocks_jump(struct sim *sim)
{
    begin(sim);
    for (int i = 0; i < ROUNDS; i++) {
        int64_t off_ms = some_offset(sim);

        for (uint32_t id = 1; id <= sim->knobs.voters / 2 + 1; id++) {
            sim_clock_set(sim, &sim->nodes[id], off_ms);
        }
        script_run(sim, rng_range(&sim->rng, 1, 2 * BAD_MS));
        sim_clock_progress(sim);
        for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
            sim_clock_set(sim, &sim->nodes[id], 0);
        }
        script_run(sim, rng_range(&sim->rng, 1, 2 * BAD_MS));
        sim_clock_progress(sim);
    }
}

/*
 * The ensemble is idle for a while, and one follower does not receive the heartbeats that carry the
 * age. If that follower leads next, it continues from a smaller age, and the other follower must
 * forget the larger age that it has received.
 */
static void a_leader_has_not_heard_of_idle_time(struct sim *sim)
{
    script_bootstrap(sim);
    for (int i = 0; i < ROUNDS; i++) {
        struct sim_node *first = script_leader(sim);
        struct sim_node *deaf = script_follower(sim, (uint32_t)i % 2);

        sim_net_cut(sim, first->id, deaf->id);
        sim_net_cut(sim, deaf->id, first->id);
        script_run(sim, IDLE_MS);
        script_crash(sim, first, SIM_KILL);
        script_heal(sim);

        struct sim_node *second = script_leader(sim);

        script_write(sim, second);
        script_crash(sim, second, SIM_KILL);
        script_start(sim, first); /* Node 3 has the newest log and leads. */
        script_write(sim, script_leader(sim));
        script_start(sim, second);
        sim_settle(sim);
    }
}

/* The ensemble restarts every night, and is never up for as long as the TTL. The TTL must still
 * end, because the log contains the age of an idle ensemble. */
static void a_ttl_ends_though_all_restart_each_night(struct sim *sim)
{
    struct sim_sub sub = {.id = OP_CREATE, .path = "/k0/ttl", .data = "x", .ttl_ms = NIGHT_TTL_MS};

    script_bootstrap(sim);
    (void)sim_client_send(sim, script_leader(sim)->id, &sub, false);
    script_write(sim, script_leader(sim));
    zxid_t zxid = sim->log[sim->log_count - 1]->rec->zxid;

    for (int i = 0; i < NIGHTS; i++) {
        (void)script_leader(sim);
        script_run(sim, DAY_MS);
        restart_all(sim);
    }
    (void)script_leader(sim);
    if (sim_clock_is_behind(sim, zxid)) {
        sim_fail(sim, "clock", "after %d days of %d ms a TTL of %d ms has not ended", NIGHTS,
                 DAY_MS, NIGHT_TTL_MS);
    }
}

/* A majority's clocks are always right. Connections break and processes pause, for less time than a
 * voter may be silent: no stamp steps back. */
static void one_clock_is_wrong_while_connections_break(struct sim *sim)
{
    begin(sim);
    sim_clock_set(sim, &sim->nodes[sim->knobs.voters], -YEARS_MS);
    script_run(sim, BAD_MS);
    for (int i = 0; i < BREAKS; i++) {
        uint32_t a = (uint32_t)rng_range(&sim->rng, 1, sim->knobs.voters);
        struct sim_node *node = &sim->nodes[a];

        sim_net_reset(sim, a, a % sim->knobs.voters + 1);
        if (!node->paused && rng_chance(&sim->rng, 300000)) {
            sim_node_pause(sim, node, rng_range(&sim->rng, 1, BAD_MS * SIM_MS));
        }
        script_run(sim, rng_range(&sim->rng, 1, BAD_MS));
    }
    if (sim->times.steps_back > 0) {
        sim_fail(sim, "clock",
                 "stamps have stepped back, although only one clock of three was wrong");
    }
}

static void knobs_clock(struct sim_knobs *knobs)
{
    knobs->clients = 4;
    knobs->think_ms = 300;
    knobs->ttl_ppm = 300000;
    knobs->reap_ms = 200;
    knobs->key_ppm = 500000;
    knobs->remember_ms = 2000;
    knobs->snap_count = 40;
}

static void knobs_nights(struct sim_knobs *knobs)
{
    knobs->reap_ms = 100;
    knobs->keep_age_ms = 200;
}

static void knobs_one(struct sim_knobs *knobs)
{
    knobs_clock(knobs);
    knobs->nodes = 1;
    knobs->voters = 1;
}

const struct script scripts_clock[] = {
    {"S34", leaders_clock_jumps, knobs_clock},
    {"S34-one", leaders_clock_jumps, knobs_one},
    {"S35", a_majoritys_clocks_jump, knobs_clock},
    {"S36", a_leader_has_not_heard_of_idle_time, NULL},
    {"S38", one_clock_is_wrong_while_connections_break, knobs_clock},
    {"S37", a_ttl_ends_though_all_restart_each_night, knobs_nights},
    {.name = NULL},
};
