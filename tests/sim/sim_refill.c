#include "tests/sim/sim_member.h"
#include "tests/sim/sim_quorum.h"

#include <inttypes.h>

/*
 * Liveness of a refill, in seeds with slow links. Once the faults are over, a replica is away until
 * the log behind it is gone, and must get in step while clients write steadily. Without those
 * writes a transfer could succeed that never ends in a busy ensemble.
 */

enum {
    AWAY_US = 6 * SIM_SECOND,
    IN_STEP_US = 60 * SIM_SECOND,
    LOOK_US = 100 * SIM_MS,
    KEEP_BYTES_MIN = 64 << 20, /* Clients write less log in IN_STEP_US; a record takes a block. */
    VOTERS_MIN = 3,
    COUNTER_MIN = 200,      /* Shorter epochs end before a learner can get in step. */
    WRITE_US = 80 * SIM_MS, /* Interval of the writes in addition to the clients'. */
    BREAK_MIN_MS = 1000,    /* Between two resets of its connection, in half of the seeds. */
    BREAK_MAX_MS = 2000,
    BREAKS_IN_STEP_US = 100 * SIM_SECOND, /* Each reset costs the transfer up to a second. */
    BREAKS_CHUNK_US = 150 * SIM_MS, /* For each piece of the snapshot, with its share of resets. */
    BREAKS_COUNTER_MIN = 1 << 20,   /* A later leader may lack the log and begin again. */
    BREAKS_WRITE_US = 200 * SIM_MS,
    CREATES_MAX = 500, /* A list of all children has at most 1,000 names. */
    RATE = 20          /* Bytes per ms to and from the learner: the snapshot takes seconds. */
};

static bool serves(const struct sim_node *node)
{
    return node->up && !node->paused && !node->damaged && node->status.zab.serving;
}

static bool all_serve(struct sim *sim)
{
    for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
        if (sim_member_is(sim, &sim->nodes[id]) && !serves(&sim->nodes[id])) {
            return false;
        }
    }
    return sim_leader(sim) != NULL;
}

static void look(struct sim *sim, struct sim_event *event)
{
    (void)sim;
    (void)event;
}

static void pass(struct sim *sim, uint64_t us)
{
    sim_after(sim, us, look, "look", NULL);
    (void)sim_run(sim, sim->now_us + us, NULL);
}

/* Creates a znode that clients may delete, and one below it; or changes it, after many of them. */
static void write_some(struct sim *sim, uint64_t pause_us, uint32_t count)
{
    const struct sim_node *leader = sim_leader(sim);
    struct sim_sub parent = {.id = OP_CREATE, .path = "/k0", .data = "refill"};
    struct sim_sub child = {.id = OP_CREATE, .sequence = true, .path = "/k0/s-", .data = "refill"};

    if (count > CREATES_MAX) {
        child = (struct sim_sub){.id = OP_SET, .path = "/k0", .data = "refill"};
    }
    if (leader) {
        (void)sim_client_send(sim, leader->id, &parent, false);
        (void)sim_client_send(sim, leader->id, &child, false);
    }
    pass(sim, pause_us);
}

static void set_rate(struct sim *sim, uint32_t id, uint32_t rate)
{
    for (uint32_t other = 1; other <= sim->knobs.nodes; other++) {
        sim->links[other][id].rate = rate;
        sim->links[id][other].rate = rate;
    }
}

static struct sim_node *learner_of(struct sim *sim)
{
    const struct sim_node *leader = sim_leader(sim);

    for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
        if (id != leader->id && sim_member_is(sim, &sim->nodes[id])) {
            return &sim->nodes[id];
        }
    }
    return NULL;
}

/* Virtual time within which the learner must be in step. With resets it follows the size of the
 * snapshot, as far as the transfer has shown it: sent again from its beginning it gets no more. */
static uint64_t in_step_us(const struct sim *sim, const struct sim_node *learner, bool breaks)
{
    uint64_t chunks = learner->snap_bytes / sim->knobs.limits.chunk_bytes;

    return breaks ? BREAKS_IN_STEP_US + chunks * BREAKS_CHUNK_US : IN_STEP_US;
}

static void refill(struct sim *sim, struct sim_node *learner, bool breaks)
{
    uint64_t begun_us = sim->now_us;
    uint64_t break_us = sim->now_us;

    learner->snap_bytes = 0;
    for (uint32_t writes = 0; !serves(learner); writes++) {
        write_some(sim, breaks ? BREAKS_WRITE_US : WRITE_US, writes);
        if (breaks && sim->now_us >= break_us && sim_leader(sim)) {
            sim_net_reset(sim, sim_leader(sim)->id, learner->id);
            break_us = sim->now_us + rng_range(&sim->rng, BREAK_MIN_MS, BREAK_MAX_MS) * SIM_MS;
        }
        if (sim->now_us > begun_us + in_step_us(sim, learner, breaks)) {
            sim_fail(sim, "A24", "node %u is not in step after %" PRIu64 " s while clients write",
                     learner->id, in_step_us(sim, learner, breaks) / SIM_SECOND);
        }
    }
}

void sim_refill_check(struct sim *sim)
{
    const struct sim_knobs *knobs = &sim->knobs;
    uint64_t end_us = sim->now_us + IN_STEP_US;
    struct sim_node *learner;

    if (knobs->queue_bytes == 0 || knobs->keep_bytes_max < KEEP_BYTES_MIN ||
        sim_voters(sim) < VOTERS_MIN || knobs->limits.counter_max < COUNTER_MIN) {
        return;
    }
    while (!all_serve(sim) && sim->now_us < end_us) {
        pass(sim, LOOK_US);
    }
    if (!all_serve(sim)) {
        return; /* sim_settle judges its end. */
    }
    learner = learner_of(sim);
    sim_node_crash(sim, learner, SIM_KILL);
    end_us = sim->now_us + AWAY_US;
    while (sim->now_us < end_us) {
        write_some(sim, WRITE_US, 0);
    }
    set_rate(sim, learner->id, RATE);
    if (!learner->up) { /* An event of an earlier fault may have started it. */
        sim_node_start(sim, learner);
    }
    refill(sim, learner,
           knobs->limits.counter_max >= BREAKS_COUNTER_MIN && rng_chance(&sim->rng, 600000));
    set_rate(sim, learner->id, 0);
}
