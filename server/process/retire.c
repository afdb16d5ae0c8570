#include "server/process/retire.h"

#include "base/minmax.h"

enum {
    FRESH_TICKS = 4,     /* A report of another replica counts for so many ticks, */
    FRESH_MIN_MS = 1000, /* and at least for so long. */
};

static bool has_slot(const struct config *config, uint64_t wall_ms)
{
    uint64_t index = (uint64_t)(config_self(config) - config->peers.servers);
    uint64_t within_ms = wall_ms % RETIRE_SLOT_MS;

    return wall_ms / RETIRE_SLOT_MS % config->peers.server_count == index &&
           within_ms >= RETIRE_MARGIN_MS && within_ms < RETIRE_SLOT_MS - RETIRE_MARGIN_MS;
}

/* Whether the other voters are a quorum, as far as their last reports say. */
static bool is_spare(const struct retire_view *view)
{
    const struct config *config = view->config;
    uint64_t fresh_ms = max_u64((uint64_t)config->zab.tick_ms * FRESH_TICKS, FRESH_MIN_MS);
    size_t voters = 0;
    size_t working = 0;

    for (uint32_t i = 0; i < config->peers.server_count; i++) {
        voters += config->peers.servers[i].voter ? 1 : 0;
    }
    for (size_t i = 0; i < view->heartbeat_count; i++) {
        const struct heartbeat *beat = &view->heartbeats[i];
        const struct config_server *entry = config_find_server(config, beat->id);

        working +=
            entry && entry->voter && entry->id != config->id && beat->epoch == view->status.epoch &&
                    (beat->flags & HEARTBEAT_SERVING) != 0 && beat->at_ms + fresh_ms > view->now_ms
                ? 1
                : 0;
    }
    return working > voters / 2;
}

enum retire retire_judge(const struct retire_view *view, uint32_t peer, uint64_t removed_ms)
{
    if (view->now_ms - removed_ms >= RETIRE_ALWAYS_MS) {
        return RETIRE_NOW;
    }
    /* A leader leaves this to its followers, which know of their requests. */
    if (view->status.state == ZAB_LEADING || view->status.leader == 0 ||
        !has_slot(view->config, view->wall_ms)) {
        return RETIRE_NOT;
    }
    return view->status.leader != peer || is_spare(view) ? RETIRE_IDLE : RETIRE_NOT;
}
