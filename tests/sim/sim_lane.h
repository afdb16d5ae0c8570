/* sim_lane.h - the order of writes within a lane: the FIFO of one client's requests to one replica,
 * over one socket. */
#ifndef TESTS_SIM_SIM_LANE_H
#define TESTS_SIM_SIM_LANE_H

#include "tests/sim/sim.h"

/* The newest write of each lane in the log, by client and node; 0 before the first. */
struct sim_lanes {
    struct sim_lane_end {
        uint32_t life;
        uint64_t request;
        uint32_t number;
    } ends[SIM_CLIENTS_MAX][SIM_NODES_MAX + 1];
};

/* The write is the next one in the log: it must not follow a later write of its lane. */
void sim_lane_done(struct sim *sim, struct sim_lanes *lanes, const struct sim_op *op);

#endif
