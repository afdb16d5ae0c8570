/* What a leader checks in each step: heartbeats, whether its disk is still a voter, and when to
 * give up or to hand over. */
#include "zab/zab_int.h"

static bool heard_lately(const struct zab *zab, const struct peer *peer)
{
    uint64_t limit_ms = ticks_ms(zab, zab->limits.sync_limit);

    return peer->up && peer->learner.stage >= LEARNER_CEPOCH &&
           zab->now_ms - peer->learner.heard_ms < limit_ms;
}

/* Whether some voter has all records, and disk space if this leader's disk is nearly full: such a
 * voter can take over without delay. */
static bool successor_ready(const struct zab *zab)
{
    for_each_peer (peer, zab) {
        if (is_in_step(peer) && quorum_counts(zab, peer->id, peer->incarnation) &&
            !(zab->low_space && (peer->learner.flags & ZAB_FLAG_LOW_SPACE)) &&
            peer->learner.acked == zab->trail.last) {
            return true;
        }
    }
    return false;
}

/* Hands leadership over to a voter with space when this leader's disk is nearly full. */
static void space_tick(struct zab *zab)
{
    if (!zab->low_space || zab->lead.resigning || zab->now_ms < zab->lead.space_resign_ms) {
        return;
    }
    zab->lead.space_resign_ms = zab->now_ms + ticks_ms(zab, zab->limits.init_limit);
    for_each_peer (peer, zab) {
        if (is_in_step(peer) && quorum_counts(zab, peer->id, peer->incarnation) &&
            !(peer->learner.flags & ZAB_FLAG_LOW_SPACE)) {
            PROBE("zab.resigns_for_space");
            zab->lead.resigning = true;
            zab->lead.resign_deadline_ms = zab->now_ms + ticks_ms(zab, 1);
            return;
        }
    }
}

/* Ends the role when this leader's disk hangs: for sync_limit ticks the disk has made no record
 * durable while the other replicas commit. */
static void disk_tick(struct zab *zab)
{
    if (zab->trail.durable != zab->lead.durable_seen || zab->trail.durable >= zab->committed) {
        zab->lead.durable_seen = zab->trail.durable;
        zab->lead.durable_ms = zab->now_ms;
    } else if (!zab->lead.resigning &&
               zab->now_ms - zab->lead.durable_ms >= ticks_ms(zab, zab->limits.sync_limit)) {
        PROBE("zab.resigns_for_its_disk");
        enter_looking(zab, "this replica's disk does not respond: another replica should lead");
        zab->election.not_leading_ms = zab->now_ms + ticks_ms(zab, RESIGN_TICKS);
    }
}

static bool may_leave(const struct zab *zab)
{
    return zab->committed == zab->trail.last && successor_ready(zab);
}

static void resign_tick(struct zab *zab)
{
    space_tick(zab);
    if (!zab->lead.resigning) {
        return;
    }
    if (may_leave(zab)) {
        PROBE("zab.resigned");
        enter_looking(zab, "leadership has been handed over");
    } else if (zab->now_ms >= zab->lead.resign_deadline_ms) {
        zab->lead.resigning = false; /* No voter can take over now. */
        zab->lead.leaves = false;
    }
}

/*
 * Ends the role when another disk has this replica's seat. A record of an earlier leader may have
 * admitted the other disk. While that record is not known to be committed, this replica's disk
 * counts as well: this replica can be elected, and then commits the loss of its own seat. After the
 * commit its disk is unknown, and a leader cannot admit its own disk, so the role ends in the same
 * step. The learners in step get COMMIT before RESIGN. If COMMIT is lost, a majority still has the
 * record in its log, and this replica sends the configuration to each peer whose vote names an
 * older one.
 */
static void seat_tick(struct zab *zab)
{
    if (!quorum_self_counts(zab) && !MUTANT(54)) {
        PROBE("zab.resigns_without_a_seat");
        enter_looking(zab, "the disk of this replica has lost its vote: the cluster has admitted "
                           "another disk in its place, or the members have changed");
    }
}

static void check_quorum_alive(struct zab *zab)
{
    if (quorum_has(zab, true, heard_lately)) {
        zab->lead.quorum_ms = zab->now_ms;
        return;
    }
    if (zab->now_ms >= zab->lead.grace_ms) {
        PROBE("zab.leader_lost_quorum");
        enter_looking(zab, "no heartbeat from a quorum");
    }
}

void lead_tick(struct zab *zab)
{
    static void (*const checks[])(struct zab *) = {check_quorum_alive, resign_tick, disk_tick,
                                                   step_tick, change_tick};

    ASSERT(zab->state == ZAB_LEADING);
    seat_tick(zab);
    if (zab->state != ZAB_LEADING) {
        return;
    }
    if (zab->lead.phase != LEADER_BROADCAST && zab->now_ms >= zab->lead.deadline_ms &&
        zab->now_ms >= zab->lead.grace_ms) {
        enter_looking(zab, "no quorum of replicas followed this replica as leader in time");
        return;
    }
    if (zab->now_ms >= zab->lead.ping_ms) {
        zab->lead.ping_ms = zab->now_ms + zab->limits.tick_ms / 2;
        broadcast_ping(zab);
        digest_compare(zab);
    }
    if (zab->state == ZAB_LEADING) {
        sync_retry(zab, false);
        snap_pump(zab);
        keep_tick(zab);
    }
    /* Each check may end the role, and stored votes may then begin a new role at once: the next
     * check runs only if this replica still broadcasts. */
    for (size_t i = 0; i < sizeof checks / sizeof checks[0] && is_broadcasting(zab); i++) {
        checks[i](zab);
    }
}

uint64_t lead_wake_ms(const struct zab *zab)
{
    uint64_t wake_ms = zab->lead.ping_ms;

    if (zab->lead.phase != LEADER_BROADCAST) {
        wake_ms = min_u64(wake_ms, zab->lead.deadline_ms);
    }
    if (zab->lead.resigning) {
        wake_ms = min_u64(wake_ms, may_leave(zab) ? zab->now_ms : zab->lead.resign_deadline_ms);
    }
    return max_u64(min_u64(wake_ms, snap_wake_ms(zab)), zab->now_ms + 1);
}
