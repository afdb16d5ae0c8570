#include "base/check.h"
#include "base/probe.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_run.h"

/* A script of the build collects the names from the sources (probes.cmake). */
static const char *const names[] = {
#include "tests/sim/sim_probes.inc"
};

/* Probes that seeds and scenarios cannot reach, or not in each run, and the reason. */
static const char *const unreachable[] = {
    "state.restore_remembered_twice", /* No key is used again within one scan: see tests/prop. */
    "storage.truncate_below_snapshot_refused", /* The protocol never cuts below a snapshot, */
    "storage.truncate_drops_snapshot", /* because a snapshot holds committed records alone; */
    "storage.stale_snapshot",          /* tests/fault does it. */
    "storage.log_behind_snapshot",
    "storage.snapshot_of_replaced_log", /* A snapshot must end between an install and its load; see
                                           tests/unit/test_store_snap. */
    "zab.partial_forgotten", /* Another leader's log has to reach back further than that of the
                                first: not in each run; see tests/unit/test_zab_resume. */
    "zab.facts_written",     /* The replicas' files have no addresses here: see
                                tests/unit/test_zab_facts. */
    "storage.empty_segment_dropped", /* A segment's header is durable before its name. */
};

bool sim_probe_expected(size_t index)
{
    for (size_t i = 0; i < sizeof(unreachable) / sizeof(unreachable[0]); i++) {
        if (strcmp(unreachable[i], names[index]) == 0) {
            return false;
        }
    }
    return true;
}

size_t sim_probe_count(void)
{
    ASSERT(sizeof(names) / sizeof(names[0]) <= RUN_PROBES_MAX);

    return sizeof(names) / sizeof(names[0]);
}

const char *sim_probe_name(size_t index)
{
    return names[index];
}

uint64_t sim_probe_hits(const char *name)
{
    for (const struct probe *probe = probe_first(); probe; probe = probe->next) {
        if (strcmp(probe->name, name) == 0) {
            return probe->hits;
        }
    }
    return 0;
}

void sim_probe_collect(uint8_t *hit)
{
    for (const struct probe *probe = probe_first(); probe; probe = probe->next) {
        for (size_t i = 0; i < sim_probe_count(); i++) {
            if (!hit[i] && strcmp(names[i], probe->name) == 0) {
                hit[i] = 1;
            }
        }
    }
}
