/* How closely the learners follow the leader's log. A learner is in step while it has acknowledged
 * what the log held step_lag_ms ago. */
#include "zab/zab_int.h"

/* Returns the zxid that a learner must have acknowledged to be in step: the end of the log
 * step_lag_ms ago, or when this replica began to broadcast. */
static zxid_t wanted(const struct zab *zab)
{
    const struct step *step = &zab->lead.step;
    zxid_t zxid = zab->trail.last;

    for (uint32_t i = 0; i < step->count && i < STEP_SAMPLES; i++) {
        const struct step_sample *sample = &step->samples[(step->count - 1 - i) % STEP_SAMPLES];

        zxid = sample->last;
        if (zab->now_ms - sample->ms >= zab->limits.step_lag_ms) {
            break;
        }
    }
    return zxid;
}

bool step_is_kept(const struct zab *zab, const struct peer *peer)
{
    return is_present(zab, peer) && peer->learner.acked >= wanted(zab);
}

uint64_t step_kept_ms(const struct zab *zab, const struct peer *peer)
{
    return peer->learner.step_ms == 0 || !step_is_kept(zab, peer)
               ? 0
               : zab->now_ms - peer->learner.step_ms;
}

void step_tick(struct zab *zab)
{
    struct step *step = &zab->lead.step;

    ASSERT(is_broadcasting(zab));
    if (zab->now_ms < step->due_ms) {
        return;
    }
    step->due_ms = zab->now_ms + zab->limits.step_lag_ms / (STEP_SAMPLES / 2);
    step->samples[step->count++ % STEP_SAMPLES] =
        (struct step_sample){.ms = zab->now_ms, .last = zab->trail.last};
    for_each_peer (peer, zab) {
        struct learner *learner = &peer->learner;

        if (!step_is_kept(zab, peer)) {
            learner->step_ms = 0;
        } else if (learner->step_ms == 0) {
            learner->step_ms = max_u64(zab->now_ms, 1);
        }
    }
}
