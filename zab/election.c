/*
 * The end of a role, and phase 0: the election that follows it. Safety does not depend on the
 * election: phase 1 (discovery) compares the promises and the logs of a quorum again.
 */
#include "zab/join_int.h"

/* Whether this replica leaves the election to others at first: it has handed over because of a
 * change that takes its vote. If several voters lose theirs, they would hand over to each other. */
static bool gives_way(const struct zab *zab)
{
    return zab->now_ms < zab->election.leaves_ms &&
           zab->now_ms - zab->election.began_ms < ticks_ms(zab, RESIGN_TICKS);
}

static bool self_candidate(const struct zab *zab)
{
    return quorum_self_counts(zab) && !zab->election.resigned &&
           zab->now_ms >= zab->election.not_leading_ms && !gives_way(zab);
}

static void vote_initial(struct zab *zab)
{
    bool stands = self_candidate(zab);

    zab->election.candidate = stands ? zab->id : 0;
    zab->election.candidate_last = stands ? reported_last_zxid(zab) : 0;
    zab->election.finalize_ms = 0;
}

static uint32_t current_leader(const struct zab *zab)
{
    if (zab->state == ZAB_LEADING) {
        return zab->id;
    }
    return is_learner(zab) ? zab->follow.leader : zab->election.candidate;
}

static void send_vote(struct zab *zab, const struct peer *peer)
{
    struct zab_msg msg = {
        .type = ZAB_VOTE,
        .vote = {.round = zab->election.round,
                 .state = (uint8_t)zab->state,
                 .candidate = current_leader(zab),
                 .candidate_last = zab->state == ZAB_LOOKING ? zab->election.candidate_last
                                                             : reported_last_zxid(zab),
                 .last = reported_last_zxid(zab),
                 .promised = zab->promise.epoch,
                 .config_version = config_in_force(zab)->version,
                 .voters = zab_config_voters(config_in_force(zab)),
                 .flags = self_flags(zab)},
    };

    ASSERT(zab->election.settled || zab->state != ZAB_LOOKING);
    fx_send(zab, peer->id, &msg);
}

/* Sends this replica's vote or role to all connected peers. The start of a role must be sent:
 * a peer that is looking joins an existing leader only if a majority follows that leader
 * (majority_names), and counts this replica as looking until this message arrives. */
void election_announce(struct zab *zab)
{
    for_each_peer (peer, zab) {
        if (peer->up) {
            send_vote(zab, peer);
        }
    }
}

static void broadcast_vote(struct zab *zab)
{
    election_announce(zab);
    zab->election.revote_ms = zab->now_ms + zab->limits.tick_ms;
}

/* Whether this replica may vote. A vote waits until the disk has finished all changes of the old
 * role, because the log that the vote reports must be on the disk. */
static bool may_vote(struct zab *zab)
{
    if (!zab->election.settled && (zab->disk.done == zab->disk.persist_issued || MUTANT(11))) {
        zab->election.settled = true;
        vote_initial(zab);
    }
    return zab->election.settled;
}

static void election_start(struct zab *zab)
{
    ASSERT(zab->state == ZAB_LOOKING);

    zab->election.round++;
    for_each_peer (peer, zab) {
        /* A vote that reports a role may be older than the event that started this election. */
        if (peer->vote.valid && peer->vote.state != ZAB_LOOKING) {
            peer->vote.valid = false;
        }
        /* A CEPOCH that came during an earlier election is obsolete. */
        peer->learner.early = (struct zab_msg){0};
    }
    vote_initial(zab);
    if (may_vote(zab)) {
        broadcast_vote(zab);
    }
    election_check(zab);
}

/* Whether candidate `id`, whose log ends at `zxid`, is better than `than_id` (0: no candidate). The
 * higher last zxid wins; if both are equal, the higher id wins. The current epoch needs no
 * comparison of its own: each epoch has an EPOCH record in the log, so the last zxid contains it.
 */
static bool better(zxid_t zxid, uint32_t id, zxid_t than_zxid, uint32_t than_id)
{
    if (id == 0) {
        return false;
    }
    return than_id == 0 || zxid > than_zxid || (zxid == than_zxid && id > than_id);
}

/*
 * Whether the peer, which knows only a configuration older than the one in force here, has lost
 * its vote since. If it were a voter by a configuration that this replica lacks, it would know the
 * one before that, which is not older.
 *
 * Such a peer gets the configuration (config_tell). Until it knows that it was removed it takes
 * itself for a voter, perhaps with the longest log: as a candidate it would be elected again and
 * again, and never collect a quorum.
 */
static bool is_outdated(const struct zab *zab, const struct peer *peer)
{
    return peer->vote.valid && peer->vote.config_version < config_in_force(zab)->version &&
           !quorum_counts(zab, peer->id, peer->incarnation) && !MUTANT(76);
}

/* Whether the peer's vote is that of a voter. It may be a voter by a configuration that this
 * replica lacks: so this replica can vote for a candidate that it does not know as a voter. */
static bool votes_as_voter(const struct zab *zab, const struct peer *peer)
{
    const struct vote *vote = &peer->vote;

    return peer->up && vote->valid &&
           (quorum_counts_peer(zab, peer, vote->flags) ||
            ((vote->flags & ZAB_FLAG_ELIGIBLE) && !is_outdated(zab, peer)));
}

/* Whether a vote for `id` makes sense. A peer must be connected. If `id` is this replica, its disk
 * must be a voter's disk: another disk may have been admitted in its place while this replica was
 * away. This replica may learn that when it has voted for itself already. */
static bool is_worth_a_vote(const struct zab *zab, uint32_t id)
{
    const struct peer *peer = id == zab->id ? NULL : peer_find(zab, id);

    return id == zab->id ? quorum_self_counts(zab)
                         : peer && peer->up && !peer->is_outsider && !is_outdated(zab, peer);
}

static bool consider(struct zab *zab, const struct vote *vote)
{
    ASSERT(vote->round == zab->election.round);
    if (!better(vote->zxid, vote->candidate, zab->election.candidate_last,
                zab->election.candidate) ||
        !is_worth_a_vote(zab, vote->candidate) || vote->candidate == zab->id) {
        return false;
    }
    zab->election.candidate = vote->candidate;
    zab->election.candidate_last = vote->zxid;
    zab->election.finalize_ms = 0;
    return true;
}

static bool agrees_with_me(const struct zab *zab, const struct peer *peer)
{
    const struct vote *vote = &peer->vote;

    ASSERT(zab->election.candidate != 0);
    return peer->up && vote->valid && !vote->stale && vote->state == ZAB_LOOKING &&
           vote->round == zab->election.round && quorum_counts_peer(zab, peer, vote->flags) &&
           vote->candidate == zab->election.candidate;
}

/* Whether each connected voter votes for this replica's candidate: then the election need not wait
 * for a better vote. */
static bool unanimous(const struct zab *zab)
{
    for_each_peer (peer, zab) {
        if (peer->up && quorum_counts(zab, peer->id, peer->incarnation) &&
            !agrees_with_me(zab, peer)) {
            return false;
        }
    }
    return true;
}

static void decide(struct zab *zab)
{
    uint32_t candidate = zab->election.candidate;

    if (candidate == zab->id) {
        lead_start(zab);
    } else {
        follow_start(zab, candidate);
    }
}

/*
 * Whether a majority of the voters follows `leader`, this replica included. A replica with a new or
 * damaged disk may know no configuration, or an old one: so the number of voters is the one that
 * the leader reports. Safety does not depend on votes.
 */
static bool majority_names(const struct zab *zab, const struct peer *leader)
{
    uint32_t named = quorum_self_counts(zab) ? 1 : 0;

    for_each_peer (peer, zab) {
        if (votes_as_voter(zab, peer) && peer->vote.state != ZAB_LOOKING &&
            peer->vote.candidate == leader->id) {
            named++;
        }
    }
    ASSERT(named <= zab->peer_count + 1);
    return leader->vote.voters > 0 && named > leader->vote.voters / 2;
}

/* Follows a peer that reports itself as the leader if a majority (with this replica) follows that
 * peer. Returns true when there is such a peer. */
static bool check_settled(struct zab *zab)
{
    if (!join_may_follow(zab)) {
        return false;
    }
    for_each_peer (peer, zab) {
        const struct vote *vote = &peer->vote;

        if (!peer->up || !vote->valid || vote->state != ZAB_LEADING ||
            vote->candidate != peer->id || is_outdated(zab, peer)) {
            continue;
        }
        if (majority_names(zab, peer)) {
            follow_start(zab, peer->id);
            return true;
        }
    }
    return false;
}

static bool is_looking_voter(const struct zab *zab, const struct peer *peer)
{
    return votes_as_voter(zab, peer) && !peer->vote.stale && peer->vote.state == ZAB_LOOKING;
}

/*
 * Weighs the votes of the peers that are looking, including votes from before this replica was
 * looking. If a peer is in a later round, this replica joins that round and first votes for itself
 * again. Then it votes for the best candidate of the round. Returns true when its vote has changed.
 */
static bool weigh_votes(struct zab *zab)
{
    bool changed = false;
    uint64_t round = zab->election.round;

    for_each_peer (peer, zab) {
        round = is_looking_voter(zab, peer) ? max_u64(round, peer->vote.round) : round;
    }
    if (round > zab->election.round) {
        zab->election.round = round;
        vote_initial(zab);
        changed = true;
    }
    for_each_peer (peer, zab) {
        if (is_looking_voter(zab, peer) && peer->vote.round == zab->election.round) {
            changed = consider(zab, &peer->vote) || changed;
        }
    }
    ASSERT(zab->election.round >= round);
    return changed;
}

void election_check(struct zab *zab)
{
    if (zab->state != ZAB_LOOKING) {
        return;
    }
    bool was_settled = zab->election.settled;

    if (!may_vote(zab)) {
        return;
    }
    if (!was_settled) {
        broadcast_vote(zab);
    }
    if (zab->election.candidate != 0 && !is_worth_a_vote(zab, zab->election.candidate)) {
        vote_initial(zab);
        zab->election.round++;
        broadcast_vote(zab);
    }
    if (weigh_votes(zab)) {
        broadcast_vote(zab);
    }
    if (check_settled(zab)) {
        return;
    }
    if (zab->election.candidate == 0 || !quorum_has(zab, quorum_self_counts(zab), agrees_with_me)) {
        zab->election.finalize_ms = 0;
        return;
    }
    if (unanimous(zab) ||
        (zab->election.finalize_ms != 0 && zab->now_ms >= zab->election.finalize_ms)) {
        decide(zab);
    } else if (zab->election.finalize_ms == 0) {
        zab->election.finalize_ms = zab->now_ms + FINALIZE_MS;
    }
}

void election_on_vote(struct zab *zab, struct peer *peer, const struct zab_msg_vote *vote)
{
    if (vote->state < ZAB_LOOKING || vote->state > ZAB_OBSERVING) {
        return;
    }
    peer->vote = (struct vote){
        .valid = true,
        .state = (enum zab_state)vote->state,
        .round = vote->round,
        .candidate = vote->candidate,
        .zxid = vote->candidate_last,
        .last = vote->last,
        .voters = vote->voters,
        .config_version = vote->config_version,
        .flags = vote->flags,
    };
    config_tell(zab, peer, vote->config_version);
    if (zab->state != ZAB_LOOKING) {
        if (vote->state == ZAB_LOOKING) {
            send_vote(zab, peer);
        }
        if (zab->state != ZAB_LEADING) {
            follow_on_vote(zab, peer);
        }
        return;
    }
    /* A peer in an earlier round gets this replica's vote and joins the later round. election_check
     * weighs all other votes. */
    if (may_vote(zab) && vote->state == ZAB_LOOKING && vote->round < zab->election.round) {
        send_vote(zab, peer);
    }
    election_check(zab);
}

void election_greet(struct zab *zab, struct peer *peer)
{
    if (zab->state != ZAB_LOOKING || may_vote(zab)) {
        send_vote(zab, peer);
    }
    election_check(zab);
}

/* Marks all votes so far as stale. The vote that elected a leader stays stored while it leads. If
 * the leader falls silent, that vote must not count in the next election. */
void election_mark_votes_stale(struct zab *zab)
{
    ASSERT(zab->state != ZAB_LOOKING);

    for_each_peer (peer, zab) {
        peer->vote.stale = true;
    }
}

void election_tick(struct zab *zab)
{
    ASSERT(zab->state == ZAB_LOOKING);
    bootstrap_check(zab);
    if (zab->state != ZAB_LOOKING) {
        return;
    }
    election_check(zab);
    if (zab->state != ZAB_LOOKING || !zab->election.settled ||
        zab->now_ms < zab->election.revote_ms) {
        return;
    }
    PROBE("zab.revote");
    /* A replica that has no candidate may have become a possible candidate itself. The vote is sent
     * again because messages may have been lost. */
    if (zab->election.candidate == 0) {
        vote_initial(zab);
    }
    broadcast_vote(zab);
    election_check(zab);
}

uint64_t election_wake_ms(const struct zab *zab)
{
    uint64_t wake_ms =
        zab->election.settled ? zab->election.revote_ms : zab->now_ms + zab->limits.tick_ms;

    if (!zab->election.started) {
        return zab->now_ms; /* A single voter gets no message: a TICK must start its election. */
    }
    if (zab->election.finalize_ms != 0) {
        wake_ms = min_u64(wake_ms, zab->election.finalize_ms);
    }
    return max_u64(wake_ms, zab->now_ms + 1);
}

/* ---- The end of a role. ---- */

void enter_looking(struct zab *zab, const char *why)
{
    if (MUTANT(5) && may_deliver(zab)) {
        commit_to(zab, zab->trail.durable);
        deliver(zab);
    }
    if (zab->state == ZAB_LEADING) {
        lead_leave(zab);
    } else if (is_learner(zab)) {
        follow_leave(zab);
    }
    zab->delivery.fetch_token = 0;
    ASSERT(zab->follow.inbox.count == 0);
    zab->state = ZAB_LOOKING;
    zab->election.settled = false;
    zab->election.began_ms = zab->now_ms;
    zab->reason = why;
    fx_role(zab);
    election_start(zab);
}

void quarantine_self(struct zab *zab, const char *reason)
{
    if (zab->quarantined) {
        return;
    }
    PROBE("zab.quarantined_while_running");
    zab->quarantined = true;
    fx_persist(zab, ZAB_PERSIST_QUARANTINE)->quarantine.reason = reason;
    fx_alarm(zab, (struct zab_notice){.type = ZAB_NOTICE_QUARANTINED, .reason = reason});
    enter_looking(zab, reason);
    ASSERT(zab->state != ZAB_LEADING);
}

static bool is_serving(const struct zab *zab)
{
    bool whole = zab->delivery.last >= zab->delivery.fuzzy_end || MUTANT(38);

    return may_deliver(zab) && zab->restore.under_way == 0 && whole &&
           zab->delivery.last >= zxid_make(zxid_epoch(zab->trail.last), 0) && !zab->quarantined;
}

void note_serving(struct zab *zab)
{
    if (is_serving(zab) != zab->was_serving) {
        zab->was_serving = !zab->was_serving;
        fx_role(zab);
    }
}
