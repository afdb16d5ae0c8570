#include "server/process/retire.h"

#include "base/minmax.h"

enum {
    FRESH_TICKS = 4,     /* A report of another replica counts for so many ticks, */
    FRESH_MIN_MS = 1000, /* and at least for so long. */
};

/* Whether the present time is this replica's part. A replica that is no member has none. */
static bool has_slot(const struct retire_view *view)
{
    const struct zab_config *members = view->members;
    const struct zab_member *self = zab_config_find(members, view->config->id);
    uint64_t within_ms = view->wall_ms % RETIRE_SLOT_MS;

    return self &&
           view->wall_ms / RETIRE_SLOT_MS % members->count == (uint64_t)(self - members->members) &&
           within_ms >= RETIRE_MARGIN_MS && within_ms < RETIRE_SLOT_MS - RETIRE_MARGIN_MS;
}

/* Whether the replica of this report is another voter and works. */
static bool works(const struct retire_view *view, const struct heartbeat *beat)
{
    const struct zab_member *member = zab_config_find(view->members, beat->id);
    uint64_t fresh_ms = max_u64((uint64_t)view->config->zab.tick_ms * FRESH_TICKS, FRESH_MIN_MS);

    return member && member->voter && member->id != view->config->id &&
           beat->epoch == view->status.epoch && (beat->flags & HEARTBEAT_SERVING) != 0 &&
           beat->at_ms + fresh_ms > view->now_ms;
}

/* Whether the other voters are a quorum, as far as their last reports say. */
static bool is_spare(const struct retire_view *view)
{
    size_t working = 0;

    for (size_t i = 0; i < view->heartbeat_count; i++) {
        working += works(view, &view->heartbeats[i]) ? 1 : 0;
    }
    return working > zab_config_voters(view->members) / 2;
}

enum retire retire_judge(const struct retire_view *view, uint32_t peer, uint64_t removed_ms)
{
    if (view->now_ms - removed_ms >= RETIRE_ALWAYS_MS) {
        return RETIRE_NOW;
    }
    /* A leader leaves this to its followers, which know of their requests. */
    if (view->status.state == ZAB_LEADING || view->status.leader == 0 || !has_slot(view)) {
        return RETIRE_NOT;
    }
    return view->status.leader != peer || is_spare(view) ? RETIRE_IDLE : RETIRE_NOT;
}
