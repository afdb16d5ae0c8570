/*
 * The log that learners still need. A learner that is being brought in step receives the leader's
 * log from a fixed zxid on: the snapshot's start, or the last common zxid of the two logs. If the
 * log after that zxid is purged, all that the learner has received is useless. So the leader
 * reports the oldest such zxid to its host (zab_keep), from the decision how to synchronise until
 * the records that the learner lacks are all in memory. The zxid stays reported for a while after
 * the learner's connection is lost, since the learner will come back.
 *
 * After REFILL_STALL_TICKS without progress the log is no longer kept for a learner. The host
 * decides how many bytes of log may be kept.
 */
#include "zab/zab_int.h"

static void keep_end(struct peer *peer)
{
    peer->keep = (struct keep){0};
}

/* Begins to keep log for a learner. A reconnect does not count as progress. */
void keep_begin(struct zab *zab, struct peer *peer, struct keep keep)
{
    ASSERT(keep.after <= zab->trail.last);

    keep.is_on = true;
    keep.moved_ms = peer->keep.is_on ? peer->keep.moved_ms : zab->now_ms;
    peer->keep = keep;
}

void keep_peer_down(struct peer *peer)
{
    peer->refill_stalled = false; /* The status reports its absence instead. */
    if (MUTANT(44) && peer->learner.stage == LEARNER_SYNCED) {
        keep_end(peer); /* Mutant: no log is kept for a learner that was in step. */
    }
}

void keep_progress(struct zab *zab, struct peer *peer)
{
    peer->keep.moved_ms = zab->now_ms;
    peer->refill_stalled = false;
}

/* Whether all records that the learner lacks are in memory. */
static bool needs_no_disk(const struct zab *zab, const struct learner *learner)
{
    ASSERT(learner->acked <= zab->trail.last);

    return learner->stage == LEARNER_SYNCED &&
           (learner->acked == zab->trail.last || trail_after(&zab->trail, learner->acked));
}

void keep_on_acked(struct zab *zab, struct peer *peer)
{
    const struct learner *learner = &peer->learner;

    ASSERT(zab->state == ZAB_LEADING);
    peer->refill_stalled = peer->refill_stalled && learner->stage != LEARNER_SYNCED;
    if (!peer->keep.is_on || learner->stage < LEARNER_STREAM) {
        return;
    }
    if (needs_no_disk(zab, learner)) {
        keep_end(peer);
    } else if (learner->acked > peer->keep.after) {
        peer->keep.after = learner->acked;
        keep_progress(zab, peer);
    }
}

void keep_tick(struct zab *zab)
{
    uint64_t limit_ms = ticks_ms(zab, REFILL_STALL_TICKS);

    ASSERT(zab->state == ZAB_LEADING);
    for_each_peer (peer, zab) {
        if (!peer->keep.is_on || zab->now_ms - peer->keep.moved_ms < limit_ms) {
            continue;
        }
        PROBE("zab.refill_stalled");
        if (peer->up) {
            peer->refill_stalled = true;
            fx_alarm(zab, (struct zab_notice){.type = ZAB_NOTICE_REFILL_STALLED,
                                              .peer = peer->id,
                                              .seconds = limit_ms / 1000});
        }
        keep_end(peer);
    }
}

/* Handles the loss of log that a learner needs. A snapshot on its way to the learner is useless
 * without the log that follows its start. */
static void lose(struct zab *zab, struct peer *peer)
{
    ASSERT(peer->keep.is_on && peer->keep.after < zab->trail.base);

    PROBE("zab.refill_lost_its_log");
    keep_end(peer);
    if (!peer->up) {
        return;
    }
    if (zab->now_ms >= peer->keep_alarm_ms) {
        peer->keep_alarm_ms = zab->now_ms + REFILL_ALARM_MS;
        fx_alarm(zab, (struct zab_notice){.type = ZAB_NOTICE_REFILL_LOST_LOG, .peer = peer->id});
    }
    if (peer->learner.stage == LEARNER_SNAP) {
        fx_disconnect(zab, peer->id);
    }
}

void keep_on_purged(struct zab *zab)
{
    ASSERT(zab->state == ZAB_LEADING);
    for_each_peer (peer, zab) {
        if (peer->keep.is_on && !peer->keep.is_open && peer->keep.after < zab->trail.base) {
            lose(zab, peer);
        }
    }
}

/* Stops keeping log for all learners. Called only when another replica leads: if this replica leads
 * the next epoch too, its learners continue where they were. */
void keep_clear(struct zab *zab)
{
    for_each_peer (peer, zab) {
        keep_end(peer);
        peer->refill_stalled = false;
    }
}

zxid_t zab_keep(const struct zab *zab)
{
    zxid_t after = ZAB_KEEP_NONE;

    for_each_peer (peer, zab) {
        after = peer->keep.is_on && !MUTANT(40) ? min_u64(after, peer->keep.after) : after;
    }
    return after;
}

uint32_t keep_count(const struct zab *zab)
{
    uint32_t count = 0;

    for_each_peer (peer, zab) {
        count += peer->keep.is_on ? 1 : 0;
    }
    return count;
}
