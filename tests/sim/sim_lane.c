#include "tests/sim/sim_lane.h"

#include <inttypes.h>

void sim_lane_done(struct sim *sim, struct sim_lanes *lanes, const struct sim_op *op)
{
    struct sim_lane_end *end = &lanes->ends[op->client][op->node];

    if (!sim->knobs.lanes) {
        return;
    }
    if (end->life == op->life && op->request < end->request) {
        sim_fail(sim, "A28",
                 "operation %u is executed after %u, a later write of its socket, at %" PRIx64,
                 op->number, end->number, op->logged);
    }
    *end = (struct sim_lane_end){.life = op->life, .request = op->request, .number = op->number};
}
