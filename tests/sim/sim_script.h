/* sim_script.h - the functions that scenarios are written with. */
#ifndef TESTS_SIM_SIM_SCRIPT_H
#define TESTS_SIM_SIM_SCRIPT_H

#include "tests/sim/sim.h"

/* Time. */
void script_run(struct sim *sim, uint64_t ms);
/* Ends the run when the condition does not become true in time. */
void script_until(struct sim *sim, bool (*pred)(struct sim *sim), const char *what);
bool script_has_leader(struct sim *sim);

/* Bootstraps the ensemble and creates the znode under which scenarios write. */
void script_bootstrap(struct sim *sim);
struct sim_node *script_leader(struct sim *sim); /* Waits for a leader. */
struct sim_node *script_follower(struct sim *sim, uint32_t index);

/* Sends a write; `script_write` waits for the acknowledgement. */
struct sim_op *script_send(struct sim *sim, struct sim_node *node);
void script_write(struct sim *sim, struct sim_node *node);
void script_try(struct sim *sim, struct sim_node *node); /* The same, with any outcome. */
void script_writes(struct sim *sim, struct sim_node *node, uint32_t count);

/* Processes and the network. */
void script_isolate(struct sim *sim, struct sim_node *node, bool in, bool out);
void script_heal(struct sim *sim);
void script_crash(struct sim *sim, struct sim_node *node, enum sim_crash how);
void script_start(struct sim *sim, struct sim_node *node);
void script_crash_all(struct sim *sim, enum sim_crash how);
void script_start_all(struct sim *sim);

/* The end of each scenario: all faults end, all replicas converge, the history holds. */
void script_end(struct sim *sim);

struct script {
    const char *name;
    void (*run)(struct sim *sim);
    void (*knobs)(struct sim_knobs *knobs); /* NULL: three voters. */
};

/* Ends with a NULL name. */
extern const struct script scripts_sync[];
extern const struct script scripts_refill[];
extern const struct script scripts_disk[];
extern const struct script scripts_net[];
extern const struct script scripts_session[];
extern const struct script scripts_clock[];
extern const struct script scripts_failing[];
extern const struct script scripts_seat[];
extern const struct script scripts_join[];

#endif
