/* Phase 1 on the leader's side: a new epoch that a quorum has promised, and the outline of each
 * learner's log. */
#include "zab/zab_int.h"

void learner_reset(struct zab *zab, struct peer *peer)
{
    struct learner *learner = &peer->learner;
    struct flight flight = learner->flight;

    ASSERT(flight.zxids || zab->limits.window_max > 0);
    mem_free(learner->ranges);
    flight.head = 0;
    flight.count = 0;
    flight.bytes_sum = 0;
    *learner = (struct learner){.flight = flight};
}

/* Handles the CEPOCHs that came before this replica led: a follower whose election ended a moment
 * earlier has sent its promise already. */
static void take_early(struct zab *zab)
{
    for (uint32_t i = 0; i < zab->peer_count && zab->state == ZAB_LEADING; i++) {
        struct peer *peer = zab->peers[i];
        struct zab_msg msg = peer->learner.early;

        if (msg.type == ZAB_CEPOCH && peer->up) {
            PROBE("zab.early_cepoch");
            peer->learner.early = (struct zab_msg){0};
            lead_on_message(zab, peer, &msg);
        }
    }
}

void lead_start(struct zab *zab)
{
    ASSERT(zab->state == ZAB_LOOKING);
    ASSERT(quorum_self_counts(zab));
    ASSERT(zab->trail.last == zab->trail.durable || MUTANT(11));

    struct confirm_list active = zab->lead.active;
    struct confirm_list waiting = zab->lead.waiting;
    uint64_t round = zab->lead.round;

    zab->state = ZAB_LEADING;
    zab->is_ahead = false;
    zab->lead = (struct leading){
        .phase = LEADER_COLLECT,
        .deadline_ms = zab->now_ms + ticks_ms(zab, DISCOVERY_TICKS),
        .ping_ms = zab->now_ms,
        .quorum_ms = zab->now_ms,
        .active = active,
        .waiting = waiting,
        .round = round,
    };
    for_each_peer (peer, zab) {
        peer->seen_ms = zab->now_ms;
    }
    election_mark_votes_stale(zab);
    follow_snap_forget(zab);
    fx_role(zab);
    lead_outline_ready(zab);
    take_early(zab);
}

void lead_leave(struct zab *zab)
{
    ASSERT(zab->state == ZAB_LEADING);

    if (zab->lead.resigning || zab->election.resigned) {
        zab->election.not_leading_ms = zab->now_ms + ticks_ms(zab, RESIGN_TICKS);
    }
    if (zab->lead.leaves) {
        /* The next leader may have to wait for promote_ms, and be one that leaves, too. */
        zab->election.leaves_ms =
            zab->now_ms + 2 * (uint64_t)zab->limits.promote_ms + ticks_ms(zab, RESIGN_TICKS);
    }
    if (zab->lead.phase == LEADER_BROADCAST) {
        zab->heard_ms = zab->lead.quorum_ms;
    }
    for_each_peer (peer, zab) {
        if (peer->up && peer->learner.dialogue != 0) {
            tell_learner(zab, peer, (struct zab_msg){.type = ZAB_RESIGN});
        }
        learner_reset(zab, peer);
    }
    confirm_clear(zab);
}

static bool has_promise(const struct zab *zab, const struct peer *peer)
{
    ASSERT(zab->lead.phase == LEADER_COLLECT);
    return peer->up && peer->learner.stage >= LEARNER_CEPOCH && peer->learner.counted;
}

static bool has_outlined(const struct zab *zab, const struct peer *peer)
{
    ASSERT(zab->lead.phase == LEADER_OUTLINE);
    return peer->up && peer->learner.stage >= LEARNER_ACKED && peer->learner.counted;
}

static void send_newepoch(struct zab *zab, struct peer *peer)
{
    ASSERT(zab->promise.epoch == zab->lead.epoch || MUTANT(12));
    ASSERT(peer->up && peer->learner.stage == LEARNER_CEPOCH);
    peer->learner.newepoch_ms = zab->now_ms;
    tell_learner(zab, peer,
                 (struct zab_msg){.type = ZAB_NEWEPOCH,
                                  .newepoch.config = blob_slice(zab->config.committed_bytes)});
}

/* Chooses the new epoch once a quorum has sent its promises. The new epoch is above all of them,
 * and this replica promises it before any learner does. */
static void choose_epoch(struct zab *zab)
{
    uint32_t highest = zab->promise.epoch;

    for_each_peer (peer, zab) {
        const struct learner *learner = &peer->learner;

        if (learner->stage >= LEARNER_CEPOCH) {
            highest = max_u32(highest, learner->promised);
        }
    }
    highest = max_u32(highest, zab->election.epoch_floor);
    ASSERT(highest < UINT32_MAX - 1);
    zab->lead.epoch = highest + 1;
    zab->lead.phase = LEADER_PROMISE;
    ASSERT(zab->lead.epoch > zxid_epoch(zab->trail.last));
    zab->lead.promise_token = fx_persist_promise(zab, zab->lead.epoch, zab->id);
    if (MUTANT(12)) {
        for_each_peer (peer, zab) {
            if (peer->up && peer->learner.stage == LEARNER_CEPOCH) {
                send_newepoch(zab, peer);
            }
        }
    }
}

static void announce_epoch(struct zab *zab)
{
    ASSERT(zab->promise.epoch == zab->lead.epoch);
    zab->lead.phase = LEADER_OUTLINE;
    zab->lead.deadline_ms = zab->now_ms + ticks_ms(zab, DISCOVERY_TICKS);
    for_each_peer (peer, zab) {
        if (peer->up && peer->learner.stage == LEARNER_CEPOCH && !MUTANT(12)) {
            send_newepoch(zab, peer);
        }
    }
    lead_outline_ready(zab);
}

/*
 * Establishes the epoch. The initial history of the epoch is this replica's log. An EPOCH record,
 * which is appended to this log, marks the start of the epoch. Learners get the EPOCH record as
 * NEWLEADER.
 */
static void establish(struct zab *zab)
{
    struct buf stamp;

    ASSERT(zab->lead.epoch > zxid_epoch(zab->trail.last));
    PROBE("zab.established");
    zab->lead.phase = LEADER_EPOCH;
    zab->lead.deadline_ms = zab->now_ms + ticks_ms(zab, zab->limits.init_limit);
    buf_init(&stamp, 1 << 16);
    admit_stamp_payload(zab, config_in_force(zab)->version, &stamp);
    proof_established(zab);
    log_append(zab, logrec_new(LOGREC_EPOCH, zxid_make(zab->lead.epoch, 0), zab->trail.last,
                               zab->trail.last_chain, buf_slice(&stamp)));
    buf_release(&stamp);
    for_each_peer (peer, zab) {
        if (peer->up && peer->learner.stage == LEARNER_ACKED) {
            sync_begin(zab, peer);
        }
    }
}

/* Takes each step of discovery that has become possible. */
void lead_outline_ready(struct zab *zab)
{
    ASSERT(zab->state == ZAB_LEADING);

    if (zab->lead.phase == LEADER_COLLECT && quorum_has(zab, true, has_promise)) {
        choose_epoch(zab);
    }
    if (zab->lead.phase == LEADER_OUTLINE && quorum_has(zab, true, has_outlined)) {
        establish(zab);
    }
}

static bool acked_newleader(const struct zab *zab, const struct peer *peer)
{
    return is_in_step(peer) && peer->learner.acked >= zxid_make(zab->lead.epoch, 0);
}

void lead_on_persisted(struct zab *zab)
{
    ASSERT(zab->state == ZAB_LEADING);
    if (zab->lead.phase == LEADER_PROMISE && zab->disk.done >= zab->lead.promise_token) {
        announce_epoch(zab);
    }
    zxid_t start = zxid_make(zab->lead.epoch, 0);

    if (zab->lead.phase == LEADER_EPOCH && zab->trail.durable >= start) {
        zab->lead.phase = LEADER_SYNC;
    }
    if (zab->lead.phase == LEADER_SYNC && quorum_has(zab, true, acked_newleader) &&
        proof_of_history(zab)) {
        ASSERT(zab->promise.epoch == zab->lead.epoch);
        zab->lead.phase = LEADER_BROADCAST;
        zab->lead.began_ms = zab->now_ms;
        zab->lead.quorum_ms = zab->now_ms;
        zab->heard_ms = zab->now_ms;
        zab->reason = NULL;
        fx_role(zab);
        election_announce(zab);
    }
    broadcast_commit(zab);
    sync_pump_all(zab);
}

/* ---- Messages of learners. ---- */

/* Starts an election for an epoch above `promised`, which a learner has promised to another
 * candidate. This happens at most once per REDISCOVER_MS. The promise is durable, even if the
 * candidate never led, so the learner refuses all leaders of lower epochs. */
static void rediscover(struct zab *zab, uint32_t promised)
{
    ASSERT(promised > zab->lead.epoch);
    zab->election.epoch_floor = max_u32(zab->election.epoch_floor, promised);
    if (zab->now_ms < zab->election.rediscover_ms) {
        return;
    }
    PROBE("zab.rediscover");
    zab->election.rediscover_ms = zab->now_ms + REDISCOVER_MS;
    enter_looking(zab, "a voter has promised a higher epoch: a new epoch begins");
}

static bool epoch_is_sane(struct zab *zab, const struct peer *peer, uint32_t epoch)
{
    uint32_t highest = max_u32(zab->promise.epoch, zab->lead.epoch);

    if (epoch <= highest || epoch - highest <= EPOCH_JUMP_MAX) {
        return true;
    }
    fx_alarm(zab, (struct zab_notice){.type = ZAB_NOTICE_EPOCH_CLAIMED,
                                      .peer = peer->id,
                                      .epoch = epoch,
                                      .highest = highest});
    fx_disconnect(zab, peer->id);
    return false;
}

/* Sends EXCLUDE to a learner. The message carries the dialogue of the CEPOCH that it answers. If
 * that CEPOCH was delayed, the learner may be in a later dialogue, and then ignores the message. */
static void tell_excluded(struct zab *zab, const struct peer *peer, uint32_t dialogue,
                          uint32_t flags)
{
    struct zab_msg msg = {
        .type = ZAB_EXCLUDE,
        .dialogue = dialogue,
        .epoch = zab->lead.epoch,
        .exclude = {.zxid = peer->known_last, .flags = flags},
    };

    ASSERT(dialogue != 0);
    fx_send(zab, peer->id, &msg);
}

/*
 * Handles a promise above this leader's epoch. A new election for the sake of one learner is right
 * for a voter, and for a learner that was in step before. Another disk has its log and its promise
 * from elsewhere, as when a replica is added whose directory is not empty: that must not cost an
 * election. It is refused until a later leader's epoch is above its promise. A disk without a log
 * has only tried to join candidates that have failed.
 */
static void on_higher_promise(struct zab *zab, struct peer *peer, const struct zab_msg *msg)
{
    uint32_t promised = msg->cepoch.promised;

    if (quorum_counts(zab, peer->id, peer->incarnation) || admit_knows(peer) ||
        msg->cepoch.last == 0) {
        rediscover(zab, promised);
        return;
    }
    zab->election.epoch_floor = max_u32(zab->election.epoch_floor, promised);
    tell_excluded(zab, peer, msg->dialogue, ZAB_FLAG_AHEAD);
    if (zab->now_ms >= peer->ahead_alarm_ms) {
        peer->ahead_alarm_ms = zab->now_ms + AHEAD_ALARM_MS;
        fx_alarm(zab, (struct zab_notice){.type = ZAB_NOTICE_PROMISE_AHEAD,
                                          .peer = peer->id,
                                          .epoch = promised,
                                          .highest = zab->lead.epoch});
    }
}

static void on_cepoch(struct zab *zab, struct peer *peer, const struct zab_msg *msg)
{
    struct learner *learner = &peer->learner;
    const struct zab_msg_cepoch *cepoch = &msg->cepoch;

    if (msg->dialogue == 0 || !config_names(zab, peer->id) ||
        !epoch_is_sane(zab, peer, cepoch->promised)) {
        return;
    }
    if (!(cepoch->flags & ZAB_FLAG_QUARANTINE) && admit_is_rolled_back(peer, cepoch)) {
        PROBE("zab.rolled_back_refused");
        tell_excluded(zab, peer, msg->dialogue, ZAB_FLAG_ROLLED_BACK);
        return;
    }
    learner_reset(zab, peer);
    peer->digests = (struct peer_checkpoints){0};
    learner->stage = LEARNER_CEPOCH;
    learner->dialogue = msg->dialogue;
    learner->promised = cepoch->promised;
    learner->flags = cepoch->flags;
    learner->heard_ms = zab->now_ms;
    learner->counted = quorum_counts_peer(zab, peer, cepoch->flags);
    ASSERT(learner->flight.count == 0 && !learner->newleader_sent);
    if (zab->lead.phase == LEADER_COLLECT) {
        lead_outline_ready(zab);
        return;
    }
    if (zab->lead.phase == LEADER_PROMISE) {
        return;
    }
    if (cepoch->promised > zab->lead.epoch) {
        on_higher_promise(zab, peer, msg);
        return;
    }
    send_newepoch(zab, peer);
}

static void take_outline(struct zab *zab, struct peer *peer, const struct zab_msg_ackepoch *msg)
{
    struct learner *learner = &peer->learner;

    ASSERT(learner->stage == LEARNER_CEPOCH && learner->dialogue != 0);
    snap_saw_trip(zab, learner, learner->newepoch_ms);
    learner->stage = LEARNER_ACKED;
    learner->flags = msg->flags;
    learner->last = msg->last;
    learner->base = msg->base;
    learner->snap.id = msg->snap_id;
    learner->snap.offset = msg->snap_offset;
    mem_free(learner->ranges);
    learner->ranges = mem_dup(msg->ranges, msg->range_count * sizeof msg->ranges[0]);
    learner->range_count = msg->range_count;
    learner->counted = (msg->flags & ZAB_FLAG_COUNTED) && quorum_counts_peer(zab, peer, msg->flags);
    /* SYNC may cut back a log that ends in an earlier epoch. If the learner had promised this epoch
     * before this dialogue, its promise stays the same, and a shorter log with the same promise
     * would later look like a rollback (admit_is_rolled_back). So in this case the last zxid is not
     * noted. */
    if (learner->counted &&
        (learner->promised < zab->lead.epoch || zxid_epoch(msg->last) == zab->lead.epoch)) {
        admit_learn(peer, learner->promised, msg->last);
    }
}

static void on_ackepoch(struct zab *zab, struct peer *peer, const struct zab_msg *msg)
{
    if (peer->learner.stage != LEARNER_CEPOCH || msg->epoch != zab->lead.epoch ||
        zab->lead.phase < LEADER_OUTLINE) {
        fx_disconnect(zab, peer->id);
        return;
    }
    take_outline(zab, peer, &msg->ackepoch);
    if (zab->lead.phase == LEADER_OUTLINE) {
        if (peer->learner.counted &&
            msg->ackepoch.last > (MUTANT(1) ? reported_last_zxid(zab) : zab->trail.last)) {
            PROBE("zab.elected_without_best_log");
            enter_looking(zab, "a follower has a longer log: another replica should lead");
            return;
        }
        lead_outline_ready(zab);
        return;
    }
    sync_begin(zab, peer);
}

static void on_ack_newleader(struct zab *zab, struct peer *peer, const struct zab_msg *msg)
{
    struct learner *learner = &peer->learner;

    if (learner->stage != LEARNER_STREAM || !learner->newleader_sent ||
        msg->epoch != zab->lead.epoch || msg->ack.zxid > learner->sent) {
        fx_disconnect(zab, peer->id);
        return;
    }
    ASSERT(learner->sent >= zxid_make(zab->lead.epoch, 0));
    learner->stage = LEARNER_SYNCED;
    if (MUTANT(16)) {
        learner->sent = zab->trail.last;
    }
    sync_on_acked(zab, peer, msg->ack.zxid);
    if (peer->incarnation != 0) {
        admit_learn(peer, zab->lead.epoch, msg->ack.zxid);
    }
    lead_on_persisted(zab);
    broadcast_uptodate(zab, peer);
    confirm_ask(zab, peer);
}

static void on_ack(struct zab *zab, struct peer *peer, zxid_t zxid)
{
    struct learner *learner = &peer->learner;

    /* A learner sends ACK only after ACK_NEWLEADER, and messages keep their order. */
    if (learner->stage != LEARNER_SYNCED || zxid > learner->sent || zxid < learner->acked) {
        fx_disconnect(zab, peer->id);
        return;
    }
    sync_on_acked(zab, peer, zxid);
    admit_learn(peer, zab->lead.epoch, zxid);
    if (zab->lead.phase == LEADER_SYNC) {
        lead_on_persisted(zab);
        return;
    }
    broadcast_commit(zab);
    sync_pump(zab, peer);
}

static void on_read_index(struct zab *zab, struct peer *peer, const struct zab_msg *msg)
{
    if (is_broadcasting(zab) && is_in_step(peer)) {
        confirm_add(zab, (struct confirm){.request = msg->read_index.request,
                                          .peer = peer->id,
                                          .dialogue = msg->dialogue});
    }
}

static void on_forward(struct zab *zab, struct peer *peer, const struct zab_msg *msg)
{
    if (is_broadcasting(zab) && is_in_step(peer)) {
        fx_add(zab, ZAB_FX_FORWARDED)->forwarded =
            (struct zab_forwarded){.peer = peer->id,
                                   .dialogue = msg->dialogue,
                                   .request = msg->forward.request,
                                   .bytes = msg->forward.bytes};
    }
}

/* Extends the deadline when a learner makes progress: a long transfer to a learner that the quorum
 * needs is no reason to give up and begin the transfer again. */
static void lead_made_progress(struct zab *zab)
{
    if (zab->lead.phase == LEADER_SYNC || zab->lead.phase == LEADER_EPOCH) {
        zab->lead.deadline_ms = zab->now_ms + ticks_ms(zab, zab->limits.init_limit);
    }
}

static void on_sync_ack(struct zab *zab, struct peer *peer, zxid_t zxid)
{
    if (zxid <= peer->learner.sent) {
        sync_on_acked(zab, peer, zxid);
        lead_made_progress(zab);
        sync_pump(zab, peer);
    }
}

void lead_on_message(struct zab *zab, struct peer *peer, const struct zab_msg *msg)
{
    ASSERT(zab->state == ZAB_LEADING);

    if (msg->type == ZAB_CEPOCH) {
        on_cepoch(zab, peer, msg);
        return;
    }
    if (msg->dialogue == 0 || msg->dialogue != peer->learner.dialogue) {
        return; /* The message belongs to a dialogue that is over. */
    }
    peer->learner.heard_ms = zab->now_ms;
    if (msg->type == ZAB_ACKEPOCH) {
        on_ackepoch(zab, peer, msg);
    } else if (msg->type == ZAB_ACK_NEWLEADER) {
        /* Reports the payload first, so that the host has the payloads of a quorum before this
         * leader serves. */
        fx_ping_payload(zab, peer->id, msg->ack.payload);
        on_ack_newleader(zab, peer, msg);
    } else if (msg->type == ZAB_ACK) {
        on_ack(zab, peer, msg->ack.zxid);
    } else if (msg->type == ZAB_SYNC_ACK) {
        on_sync_ack(zab, peer, msg->ack.zxid);
    } else if (msg->type == ZAB_SNAP_ACK) {
        lead_made_progress(zab);
        sync_on_snap_ack(zab, peer, msg->snap_ack.offset);
    } else if (msg->type == ZAB_PONG) {
        broadcast_on_pong(zab, peer, &msg->pong);
    } else if (msg->type == ZAB_CONFIRM_ACK) {
        confirm_on_ack(zab, peer, msg->confirm.round);
    } else if (msg->type == ZAB_READ_INDEX) {
        on_read_index(zab, peer, msg);
    } else if (msg->type == ZAB_FORWARD) {
        on_forward(zab, peer, msg);
    }
}

/* Leaves the role at once, not after a timeout, when too few connections are left for a quorum. */
void lead_peer_down(struct zab *zab, struct peer *peer)
{
    ASSERT(!peer->up);

    keep_peer_down(peer);
    learner_reset(zab, peer);
    if (!quorum_has(zab, true, peer_is_up)) {
        enter_looking(zab, "connections to a quorum are lost");
    }
}
