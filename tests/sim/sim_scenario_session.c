#include "tests/sim/sim_clock.h"
#include "tests/sim/sim_script.h"

/*
 * Sessions in situations that random faults meet too seldom. The clients are those of random seeds;
 * the faults are scripted.
 */

enum {
    ROUNDS = 12,
    HOUR_MS = 3600000,
    MOVES = 8,
    LATE_FACTOR = 3000, /* Messages take up to three ticks: no report is late by that. */
};

static uint64_t ticks_ms(const struct sim *sim, uint32_t tenths)
{
    return (uint64_t)sim->knobs.limits.tick_ms * tenths / 10;
}

static void begin(struct sim *sim)
{
    script_bootstrap(sim);
    sim_client_begin(sim);
    script_run(sim, ticks_ms(sim, 80));
}

/* The leader pauses, too briefly to be replaced. Its clients and those of the other replicas
 * continue: their messages wait in the leader's sockets when it wakes. */
static void leader_pauses(struct sim *sim)
{
    begin(sim);
    for (int i = 0; i < ROUNDS; i++) {
        struct sim_node *leader = script_leader(sim);
        uint64_t for_ms = rng_range(&sim->rng, ticks_ms(sim, 11), ticks_ms(sim, 35));

        sim_node_pause(sim, leader, for_ms * SIM_MS);
        script_run(sim, for_ms + rng_range(&sim->rng, 1, ticks_ms(sim, 40)));
    }
}

/* The operator sets wall clocks forward and back. */
static void clocks_jump(struct sim *sim)
{
    begin(sim);
    for (int i = 0; i < ROUNDS; i++) {
        struct sim_node *leader = script_leader(sim);

        sim_clock_set(sim, leader,
                      leader->wall_off_ms + (rng_chance(&sim->rng, 700000) ? HOUR_MS : -HOUR_MS));
        script_run(sim, rng_range(&sim->rng, ticks_ms(sim, 10), ticks_ms(sim, 60)));
    }
}

/* Sessions with ephemerals open and close while each replica writes snapshots continually and
 * restarts from them. */
static void snapshots_and_restarts(struct sim *sim)
{
    begin(sim);
    for (int i = 0; i < 4 * ROUNDS; i++) {
        struct sim_node *node = &sim->nodes[rng_range(&sim->rng, 1, sim->knobs.nodes)];

        script_run(sim, rng_range(&sim->rng, 1, ticks_ms(sim, 20)));
        if (node->up) {
            sim_node_die(sim, node, SIM_KILL);
        }
        (void)script_leader(sim);
    }
}

/* Leaders die repeatedly, and each new leader must learn of all sessions. */
static void leaders_die(struct sim *sim)
{
    begin(sim);
    for (int i = 0; i < ROUNDS; i++) {
        sim_node_die(sim, script_leader(sim), SIM_POWER);
        script_run(sim, rng_range(&sim->rng, 1, ticks_ms(sim, 60)));
    }
}

static void clients_move(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->knobs.clients; i++) {
        sim->clients[i].node = (uint32_t)rng_range(&sim->rng, 1, sim->knobs.nodes);
    }
}

/* Messages of one follower reach the leader late, and clients move from one replica to another. A
 * report that was made before a client moved is sent ahead of the report that names its session. */
static void reports_are_late(struct sim *sim)
{
    begin(sim);
    for (int i = 0; i < ROUNDS; i++) {
        const struct sim_node *leader = script_leader(sim);
        const struct sim_node *slow = script_follower(sim, (uint32_t)rng_below(&sim->rng, 2));
        struct sim_link *link = &sim->links[slow->id][leader->id];

        link->delay_factor = LATE_FACTOR;
        for (int k = 0; k < MOVES; k++) {
            clients_move(sim);
            script_run(sim, rng_range(&sim->rng, 1, ticks_ms(sim, 20)));
        }
        link->delay_factor = 1;
        script_run(sim, rng_range(&sim->rng, 1, ticks_ms(sim, 40)));
    }
}

static void knobs_sessions(struct sim_knobs *knobs)
{
    knobs->clients = 6;
    knobs->think_ms = 200;
    knobs->sessions = 4;
    knobs->timeout_ticks_max = 5;
    knobs->close_ppm = 20000;
    knobs->key_ppm = 300000;
    knobs->watch_ppm = 100000;
    knobs->limits.sync_limit = 5;
}

static void knobs_late(struct sim_knobs *knobs)
{
    knobs_sessions(knobs);
    knobs->timeout_ticks_max = 3;
}

static void knobs_snapshots(struct sim_knobs *knobs)
{
    knobs_sessions(knobs);
    knobs->snap_count = 12;
    knobs->close_ppm = 150000;
    knobs->key_ppm = 0;
    knobs->watch_ppm = 0;
    knobs->slice_bytes = 100;
    knobs->disk_max_us = 20000;
    knobs->think_ms = 600;
    knobs->window_sets = 8;
}

const struct script scripts_session[] = {
    {"S22-sessions", leader_pauses, knobs_sessions},
    {"S21-sessions", clocks_jump, knobs_sessions},
    {"S30", leaders_die, knobs_sessions},
    {"S33", snapshots_and_restarts, knobs_snapshots},
    {"late-reports", reports_are_late, knobs_late},
    {.name = NULL},
};
