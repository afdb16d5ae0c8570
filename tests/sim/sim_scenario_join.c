#include "tests/sim/sim_member.h"
#include "tests/sim/sim_script.h"
#include "tests/sim/sim_seat.h"

/* Scenarios of replicas that join or found without a list of the members. */

/* ---- The machines of the founders are created again, while the ensemble has another member. ----
 */

enum {
    FOUNDERS = 3,
    OTHER = 4,        /* It joins, and is added as an observer. */
    APART_MS = 15000, /* Longer than a machine counts as reached. */
    TOGETHER_MS = 30000,
};

static void by_number(struct sim_knobs *knobs)
{
    knobs->nodes = OTHER;
    knobs->bootstrap = FOUNDERS;
    knobs->auto_join = true;
}

static bool is_added(struct sim *sim)
{
    return sim_member_is(sim, &sim->nodes[OTHER]);
}

static void empty_founders(struct sim *sim)
{
    for (uint32_t id = 1; id <= FOUNDERS; id++) {
        script_crash(sim, &sim->nodes[id], SIM_POWER);
        sim_seat_keep(&sim->nodes[id]);
        sim_disk_empty(sim, &sim->nodes[id]);
    }
}

static void take_disks_back(struct sim *sim)
{
    for (uint32_t id = 1; id <= FOUNDERS; id++) {
        script_crash(sim, &sim->nodes[id], SIM_KILL);
        sim_seat_swap(sim, &sim->nodes[id]);
    }
}

static void start_founders(struct sim *sim)
{
    for (uint32_t id = 1; id <= FOUNDERS; id++) {
        script_start(sim, &sim->nodes[id]);
    }
}

/* A30 and A39 fail if they found a second cluster. */
static void refound(struct sim *sim)
{
    struct sim_node *other = &sim->nodes[OTHER];

    script_bootstrap(sim);
    script_until(sim, is_added, "autoJoin");
    script_writes(sim, script_leader(sim), 5);
    sim_settle(sim);
    script_isolate(sim, other, true, true);
    empty_founders(sim);
    start_founders(sim);
    script_run(sim, APART_MS);
    script_heal(sim);
    script_run(sim, TOGETHER_MS);
    take_disks_back(sim);
    start_founders(sim);
    sim_settle(sim);
    script_write(sim, script_leader(sim));
}

const struct script scripts_join[] = {
    {.name = "refound", .run = refound, .knobs = by_number},
    {.name = NULL},
};
