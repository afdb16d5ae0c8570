/* Status queries: the answers are computed when the host asks. */
#include "zab/join_int.h"

static enum zab_phase phase_of(const struct zab *zab)
{
    bool leads = zab->state == ZAB_LEADING;

    if (zab->state == ZAB_LOOKING) {
        return ZAB_PHASE_ELECTION;
    }
    if (leads ? zab->lead.phase == LEADER_BROADCAST : zab->follow.phase == FOLLOW_SERVE) {
        return ZAB_PHASE_BROADCAST;
    }
    return (leads ? zab->lead.phase >= LEADER_EPOCH : zab->follow.phase > FOLLOW_ACKED)
               ? ZAB_PHASE_SYNC
               : ZAB_PHASE_DISCOVERY;
}

static bool is_low(const struct peer *peer)
{
    return (peer->learner.flags & ZAB_FLAG_LOW_SPACE) != 0;
}

static bool has_space(const struct zab *zab, const struct peer *peer)
{
    ASSERT(peer->id != zab->id);
    return is_in_step(peer) && !is_low(peer);
}

static void leader_status(const struct zab *zab, struct zab_status *status)
{
    if (zab->state != ZAB_LEADING) {
        return;
    }
    status->refills = keep_count(zab);
    status->low_voters = zab->low_space ? 1 : 0;
    for_each_peer (peer, zab) {
        status->refills_stalled += peer->refill_stalled ? 1 : 0;
        status->low_voters += is_low(peer) ? 1 : 0;
    }
    status->quorum_low = status->low_voters > 0 && !quorum_has(zab, !zab->low_space, has_space);
    ASSERT(status->low_voters <= zab->peer_count + 1);
}

/* The same as `explain` for a replica without a configuration. NULL: that is not the reason. */
static const char *explain_new(const struct zab *zab, const struct zab_status *status)
{
    if (status->outside) {
        return "this replica is no member of the cluster that it has met: it waits to be added";
    }
    if (zab->bootstrapping && zab->join.bootstrap != 0 && zab->join.met_ms != 0) {
        return "new data directory: this replica has met a cluster, so it founds none: it waits "
               "for that cluster's leader";
    }
    if (zab->bootstrapping && zab->join.bootstrap != 0) {
        return "new data directory: this replica waits until all founders are connected and all "
               "addresses of 'join' are reached, or for a leader of an existing cluster";
    }
    if (zab->servers.count == 0) {
        return "this replica looks for a cluster at the addresses of 'join'";
    }
    if (zab->bootstrapping) {
        return "new data directory: this replica waits until all voters of the server list "
               "report, or for a leader of an existing cluster";
    }
    return NULL;
}

/* Returns one sentence: why this replica does not vote or serve. */
static const char *explain(const struct zab *zab, const struct zab_status *status)
{
    const char *text = zab->config.committed.count == 0 ? explain_new(zab, status) : NULL;

    if (text) {
        return text;
    }
    if (zab->quarantined) {
        return "quarantine: the leader refills the log of this replica, which does not vote until "
               "then";
    }
    if (zab->is_ahead && is_learner(zab)) {
        return "the leader does not know this disk, which has promised a later epoch than the "
               "cluster has: empty this data directory if it is from elsewhere, or wait for a "
               "later epoch";
    }
    if (status->unknown_disk) {
        return "this disk is new to the cluster: the leader refills this replica, which does not "
               "vote until the disk is admitted";
    }
    if (zab->state == ZAB_LOOKING && quorum_lacks_one_of_two(zab)) {
        return "a change of the members, or the admission of a new disk, may be committed already: "
               "an election needs a majority of the voters before it, and of those after it";
    }
    if (status->serving) {
        return "";
    }
    return zab->reason ? zab->reason
                       : "this replica has not been in step with a leader since it started";
}

void zab_status(const struct zab *zab, struct zab_status *ret_status)
{
    const struct zab_member *self = zab_config_find(&zab->config.committed, zab->id);
    struct zab_status status = {
        .state = zab->state,
        .phase = phase_of(zab),
        .serving = zab->was_serving,
        .quarantined = zab->quarantined,
        .bootstrapping = zab->bootstrapping,
        .outside = !join_may_follow(zab),
        .searching = zab->join.searches,
        /* Only the committed configuration counts here: an operator must not rely on an admission
         * that is under way. */
        .unknown_disk = self && has_seat(self) &&
                        !zab_config_is_voter(&zab->config.committed, zab->id, zab->incarnation),
        .epoch = zxid_epoch(zab->trail.last),
        .promised = zab->promise.epoch,
        .last = zab->trail.last,
        .durable = zab->trail.durable,
        .committed = zab->committed,
        .delivered = zab->delivery.last,
        .delivered_chain = zab->delivery.chain,
        .heard_ms = zab->heard_ms,
    };

    ASSERT(status.durable <= status.last);
    ASSERT(status.delivered <= status.committed);
    ASSERT(!status.serving || !status.quarantined);
    if (zab->state == ZAB_LEADING) {
        status.leader = zab->id;
        if (zab->lead.phase == LEADER_BROADCAST) { /* Before broadcast the leader has no quorum. */
            status.heard_ms = zab->lead.quorum_ms;
        }
    } else if (is_learner(zab)) {
        status.leader = zab->follow.leader;
    }
    leader_status(zab, &status);
    status.reason = explain(zab, &status);
    *ret_status = status;
}

size_t zab_peers(const struct zab *zab, struct zab_peer_status *out, size_t out_max)
{
    size_t count = 0;

    for_each_peer (peer, zab) {
        if (peer->is_outsider || count == out_max) {
            continue;
        }
        const struct zab_member *member = zab_config_find(&zab->config.committed, peer->id);

        out[count++] = (struct zab_peer_status){
            .id = peer->id,
            .voter = member ? has_seat(member) : list_votes(zab, peer->id),
            .connected = peer->up,
            .synced = peer->learner.stage == LEARNER_SYNCED,
            .counted = zab_config_is_voter(&zab->config.committed, peer->id, peer->incarnation),
            .level = peer->level,
            .acked = peer->learner.acked,
            .voted = peer->vote.valid && peer->vote.state == ZAB_LOOKING ? peer->vote.last : 0,
            .heard_ms = peer->heard_ms,
            .state = peer->vote.valid ? peer->vote.state : ZAB_LOOKING,
            .flags = peer->learner.flags,
        };
    }
    return count;
}
