#include "tests/sim/sim_script.h"

#include "base/check.h"

#include <inttypes.h>

enum {
    PATIENCE_MS = 60000,
    STEP_MS = 5,
};

static const struct script *const groups[] = {scripts_sync,    scripts_refill,  scripts_disk,
                                              scripts_net,     scripts_session, scripts_clock,
                                              scripts_failing, scripts_seat,    scripts_join};

static const struct script *script_at(size_t index)
{
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
        for (const struct script *script = groups[i]; script->name; script++) {
            if (index == 0) {
                return script;
            }
            index--;
        }
    }
    return NULL;
}

static const struct script *script_named(const char *name)
{
    for (size_t i = 0; script_at(i); i++) {
        if (strcmp(script_at(i)->name, name) == 0) {
            return script_at(i);
        }
    }
    return NULL;
}

const char *sim_scenario_name(size_t index)
{
    const struct script *script = script_at(index);

    return script ? script->name : NULL;
}

bool sim_scenario_run(struct sim *sim, const char *name)
{
    const struct script *script = script_named(name);

    if (!script) {
        return false;
    }
    script->run(sim);
    script_end(sim);
    return true;
}

void sim_scenario_knobs(struct sim *sim)
{
    const struct script *script = script_named(sim->options.scenario);
    struct sim_knobs *knobs = &sim->knobs;

    *knobs = (struct sim_knobs){.nodes = 3,
                                .voters = 3,
                                .clients = 1,
                                .snap_count = 1000000,
                                .segment_bytes = 64 << 10,
                                .snapshots_keep = 2,
                                .keep_bytes_max = 1 << 20,
                                .requests_max = 1000,
                                .forward_bytes = 1 << 20,
                                .slice_bytes = 1000,
                                .timeout_ticks_max = 4,
                                .ephemerals_max = 100,
                                .remembered_max = 1000,
                                .remember_ms = 600000,
                                .window_sets = 1000,
                                .front_max_us = 2000,
                                .delay_min_us = 100,
                                .delay_max_us = 1000,
                                .disk_min_us = 100,
                                .disk_max_us = 2000,
                                .down_max_ms = 500,
                                .torn = true};
    zab_limits_default(&knobs->limits);
    knobs->limits.admit_absent_ms = 2000;
    knobs->limits.admit_again_ms = 5000;
    knobs->limits.cache_max = 64;
    if (script && script->knobs) {
        script->knobs(knobs);
    }
}

/* ---- Time. ---- */

void script_run(struct sim *sim, uint64_t ms)
{
    (void)sim_run(sim, sim->now_us + ms * SIM_MS, NULL);
}

void script_until(struct sim *sim, bool (*pred)(struct sim *sim), const char *what)
{
    for (uint64_t waited_ms = 0; !pred(sim); waited_ms += STEP_MS) {
        script_run(sim, STEP_MS);
        if (waited_ms > PATIENCE_MS) {
            sim_fail(sim, "A24", "the scenario waited too long for %s", what);
        }
    }
}

bool script_has_leader(struct sim *sim)
{
    return sim_leader(sim) != NULL;
}

struct sim_node *script_leader(struct sim *sim)
{
    script_until(sim, script_has_leader, "a leader");
    return sim_leader(sim);
}

struct sim_node *script_follower(struct sim *sim, uint32_t index)
{
    const struct sim_node *leader = script_leader(sim);

    for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
        if (id != leader->id && index-- == 0) {
            return &sim->nodes[id];
        }
    }
    UNREACHABLE();
}

/* ---- Writes. ---- */

static struct sim_op *create(struct sim *sim, struct sim_node *node, const char *path,
                             bool sequence)
{
    struct sim_sub sub = {.id = OP_CREATE, .sequence = sequence};

    (void)snprintf(sub.path, sizeof(sub.path), "%s", path);
    (void)snprintf(sub.data, sizeof(sub.data), "op%zu", sim->op_count);
    return sim_client_send(sim, node->id, &sub, false);
}

struct sim_op *script_send(struct sim *sim, struct sim_node *node)
{
    return create(sim, node, "/k0/s-", true);
}

static bool nothing_pending(struct sim *sim)
{
    return sim->pending == 0;
}

void script_write(struct sim *sim, struct sim_node *node)
{
    struct sim_op *op = script_send(sim, node);

    script_until(sim, nothing_pending, "an answer to a write");
    if (op->outcome != SIM_OK) {
        sim_fail(sim, "A24", "a write without faults ended with %s", err_symbol(op->err));
    }
}

void script_try(struct sim *sim, struct sim_node *node)
{
    (void)script_send(sim, node);
    script_until(sim, nothing_pending, "the end of a write");
}

void script_writes(struct sim *sim, struct sim_node *node, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        script_write(sim, node);
    }
}

void script_bootstrap(struct sim *sim)
{
    sim_bootstrap(sim);
    sim_settle(sim);
    (void)create(sim, script_leader(sim), "/k0", false);
    script_until(sim, nothing_pending, "the first znode");
    script_write(sim, script_leader(sim));
}

/* ---- Processes and the network. ---- */

void script_isolate(struct sim *sim, struct sim_node *node, bool in, bool out)
{
    SIM_TRACE(sim, "script: isolate %u in %d out %d", node->id, in, out);
    for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
        if (id != node->id && out) {
            sim_net_cut(sim, node->id, id);
        }
        if (id != node->id && in) {
            sim_net_cut(sim, id, node->id);
        }
    }
}

void script_heal(struct sim *sim)
{
    sim_net_heal_all(sim);
}

void script_crash(struct sim *sim, struct sim_node *node, enum sim_crash how)
{
    if (node->up) {
        sim_node_crash(sim, node, how);
    }
}

void script_start(struct sim *sim, struct sim_node *node)
{
    if (!node->up) {
        sim_node_start(sim, node);
    }
}

void script_start_all(struct sim *sim)
{
    for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
        script_start(sim, &sim->nodes[id]);
    }
}

void script_crash_all(struct sim *sim, enum sim_crash how)
{
    for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
        script_crash(sim, &sim->nodes[id], how);
    }
}

void script_end(struct sim *sim)
{
    sim->hook = NULL;
    sim->drop_from = 0;
    sim_finish(sim);
}
