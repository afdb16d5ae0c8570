#include "tests/sim/sim.h"

const char *sim_scenario_name(size_t index)
{
    (void)index;
    return NULL;
}

bool sim_scenario_run(struct sim *sim, const char *name)
{
    (void)sim;
    (void)name;
    return false;
}
