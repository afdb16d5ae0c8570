/* Phases 1 and 3 on the learner's side: its dialogue with one leader. */
#include "zab/join_int.h"

static void send_cepoch(struct zab *zab)
{
    struct zab_msg_cepoch cepoch = {
        .promised = zab->promise.epoch, .last = reported_last_zxid(zab), .flags = self_flags(zab)};

    zab->follow.resend_ms = zab->now_ms + zab->limits.tick_ms / 2;
    tell_leader(zab, (struct zab_msg){.type = ZAB_CEPOCH, .cepoch = cepoch});
}

void follow_start(struct zab *zab, uint32_t leader)
{
    struct trail staged = zab->follow.staged;
    struct inbox inbox = zab->follow.inbox;

    blob_unref(zab->follow.staged_bytes);
    ASSERT(leader != zab->id && leader != 0 && zab->state == ZAB_LOOKING);
    ASSERT(!zab->follow.staged_used && inbox.count == 0);
    ASSERT(!zab->follow.installing || MUTANT(11));
    zab->state = quorum_self_counts(zab) ? ZAB_FOLLOWING : ZAB_OBSERVING;
    zab->follow = (struct following){
        .phase = FOLLOW_CEPOCH,
        .leader = leader,
        .dialogue = ++zab->dialogue_seq,
        .heard_ms = zab->now_ms,
        .grace_ms = zab->follow.grace_ms,
        .staged = staged,
        .inbox = inbox,
    };
    if (zab->follow.dialogue == 0) {
        zab->follow.dialogue = ++zab->dialogue_seq;
    }
    keep_clear(zab);
    election_mark_votes_stale(zab);
    fx_role(zab);
    if (zab->now_ms < zab->rejoin_ms) {
        zab->follow.resend_ms = zab->rejoin_ms;
    } else {
        send_cepoch(zab);
    }
}

void inbox_clear(struct inbox *inbox)
{
    for (uint32_t i = 0; i < inbox->count; i++) {
        logrec_unref(inbox->items[i].rec);
    }
    inbox->count = 0;
}

void follow_leave(struct zab *zab)
{
    ASSERT(in_dialogue(zab));

    inbox_clear(&zab->follow.inbox);
    zab->follow.leader = 0;
    zab->follow.dialogue = 0;
    follow_snap_abort(zab);
}

/* Leaves the chosen leader when that peer's vote shows that the peer does not lead: it follows
 * another leader, or is looking in a later round. */
void follow_on_vote(struct zab *zab, const struct peer *peer)
{
    ASSERT(in_dialogue(zab));

    if (zab->follow.phase != FOLLOW_CEPOCH || peer->id != zab->follow.leader ||
        peer->vote.state == ZAB_LEADING) {
        return;
    }
    if (peer->vote.state != ZAB_LOOKING || peer->vote.round > zab->election.round) {
        enter_looking(zab, "the chosen leader does not lead");
    }
}

/* ---- Discovery. ---- */

/* Outlines the newest ZAB_RANGES_MAX epochs of the log. If the log has more epochs, the last record
 * before the outlined ones is sent as the base. */
static void outline(const struct trail *trail, struct zab_msg_ackepoch *msg)
{
    uint32_t count = (uint32_t)trail->epochs.count;
    uint32_t skip = count > ZAB_RANGES_MAX ? count - ZAB_RANGES_MAX : 0;

    msg->base = trail->base;
    msg->ranges = trail->epochs.ranges; /* NULL when the log has no ranges. */
    msg->range_count = count - skip;
    if (skip > 0) {
        const struct epoch_range *before = &trail->epochs.ranges[skip - 1];

        msg->ranges += skip;
        msg->base = zxid_make(before->epoch, before->last);
    }
    ASSERT(msg->base <= trail->last);
}

/* Outlines the log that the leader's stream may continue: this replica's own log (in quarantine: no
 * log) or, if the whole file of a snapshot is here, the staged log: the records received after the
 * snapshot's start. A staged log that reaches the snapshot's end is installed at once, so this one
 * ends earlier. All records up to the snapshot's end are committed. So each leader has the records
 * of the staged log, or has purged them. */
static void outline_what_continues(const struct zab *zab, struct zab_msg_ackepoch *msg)
{
    if (zab->partial.is_whole) {
        ASSERT(zab->follow.staged.durable == zab->follow.staged.last || MUTANT(11));
        outline(&zab->follow.staged, msg);
        return;
    }
    if (!zab->quarantined) {
        outline(&zab->trail, msg);
    }
    msg->snap_id = zab->partial.id;
    msg->snap_offset = zab->partial.offset;
}

static void send_ackepoch(struct zab *zab)
{
    uint32_t counted = zab->follow.counted ? ZAB_FLAG_COUNTED : 0;
    struct zab_msg_ackepoch ackepoch = {.flags = self_flags(zab) | counted};

    ASSERT(zab->promise.epoch >= zab->follow.epoch || MUTANT(13));
    ASSERT(zab->follow.phase <= FOLLOW_PROMISE);
    if (!zab->quarantined) {
        ackepoch.last = reported_last_zxid(zab);
        ackepoch.last_chain = zab->trail.last_chain;
    }
    outline_what_continues(zab, &ackepoch);
    zab->follow.phase = FOLLOW_ACKED;
    tell_leader(zab, (struct zab_msg){.type = ZAB_ACKEPOCH, .ackepoch = ackepoch});
}

static void promise(struct zab *zab)
{
    ASSERT(zab->follow.epoch >= zab->promise.epoch);
    ASSERT(!zab->bootstrapping && zab->config.committed.count > 0);

    struct following *follow = &zab->follow;

    if (follow->epoch > zab->promise.epoch) {
        follow->wait_token = fx_persist_promise(zab, follow->epoch, follow->leader);
        follow->phase = FOLLOW_PROMISE;
        follow->counted = true;
        if (MUTANT(13)) {
            send_ackepoch(zab);
        }
        return;
    }
    /* Promised before: the ACKEPOCH counts only for the leader to which the epoch was promised. */
    PROBE("zab.epoch_promised_before");
    follow->counted = zab->promise.leader == follow->leader || MUTANT(14);
    send_ackepoch(zab);
}

/* Makes a new disk a member of the leader's cluster. This is the right cluster: without a
 * configuration a replica follows only a leader that a majority of the voters follows. */
static void join(struct zab *zab, struct slice bytes)
{
    ASSERT(zab->bootstrapping || zab->config.committed.count == 0);

    struct zab_config config;

    if (zab_config_decode(bytes, &config) != ERR_OK) {
        enter_looking(zab, "the leader has sent a malformed configuration");
        return;
    }
    if (join_is_other(zab, &config)) {
        enter_looking(zab, "the leader is of another cluster than the one that this replica met");
        return;
    }
    /* Its disk must not have a configuration without it: that is how a removed disk looks. */
    if (!zab_config_find(&config, zab->id)) {
        join_take_hint(zab, &config, bytes);
        fx_alarm(zab,
                 (struct zab_notice){.type = ZAB_NOTICE_LEADER_LIST, .peer = zab->follow.leader});
        enter_looking(zab, "this replica is no member of the leader's cluster");
        return;
    }
    if (!config_is_known(zab, &config)) {
        enter_looking(zab, "the cluster has a feature level that this release does not know");
        return;
    }
    PROBE("zab.joined");
    config_set(zab, &config, bytes);
    struct zab_persist *persist = fx_persist(zab, ZAB_PERSIST_JOIN);

    persist->join.config = &zab->config.committed;
    zab->follow.wait_token = persist->token;
    zab->follow.phase = FOLLOW_JOIN;
}

static void on_newepoch(struct zab *zab, const struct zab_msg *msg)
{
    struct following *follow = &zab->follow;

    if (follow->phase != FOLLOW_CEPOCH) {
        return;
    }
    if (msg->epoch < zab->promise.epoch) {
        enter_looking(zab, "the leader's epoch is below the epoch that this replica has promised");
        return;
    }
    if (msg->epoch - zab->promise.epoch > EPOCH_JUMP_MAX && zab->promise.epoch != 0) {
        fx_alarm(zab, (struct zab_notice){.type = ZAB_NOTICE_EPOCH_PROPOSED,
                                          .peer = follow->leader,
                                          .epoch = msg->epoch,
                                          .highest = zab->promise.epoch});
        enter_looking(zab, "the leader's epoch is implausibly high");
        return;
    }
    follow->epoch = msg->epoch;
    zab->is_ahead = false;
    if (zab->bootstrapping || zab->config.committed.count == 0) {
        join(zab, msg->newepoch.config);
    } else {
        promise(zab);
    }
}

/* ---- Broadcast. ---- */

static void on_uptodate(struct zab *zab, const struct zab_msg *msg)
{
    if (zab->follow.phase != FOLLOW_WAIT) {
        fx_disconnect(zab, zab->follow.leader);
        return;
    }
    ASSERT(zxid_epoch(zab->trail.durable) == zab->follow.epoch);
    zab->follow.phase = FOLLOW_SERVE;
    zab->heard_ms = zab->now_ms;
    zab->reason = NULL;
    commit_to(zab, msg->commit.zxid);
    fx_role(zab);
    election_announce(zab);
}

static void send_pong(struct zab *zab, uint64_t round)
{
    struct checkpoint newest = digest_newest(zab);
    struct zab_msg_pong pong = {.round = round,
                                .last = reported_last_zxid(zab),
                                .digest_zxid = newest.zxid,
                                .digest = newest.digest,
                                .flags = self_flags(zab),
                                .payload = buf_slice(&zab->ping_payload)};

    ASSERT(!zab->quarantined || newest.zxid == 0);
    tell_leader(zab, (struct zab_msg){.type = ZAB_PONG, .pong = pong});
}

static void on_ping(struct zab *zab, const struct zab_msg_ping *ping)
{
    if (zab->follow.phase == FOLLOW_SERVE) {
        /* The state is fresh if it has all that was committed at the previous PING. PINGs alone do
         * not prove this. */
        if (zab->delivery.last >= zab->follow.ping_commit) {
            zab->heard_ms = zab->now_ms;
        }
        commit_to(zab, ping->commit);
        zab->follow.ping_commit = ping->commit;
    }
    fx_ping_payload(zab, zab->follow.leader, ping->payload);
    send_pong(zab, ping->round);
}

/* Sends a PONG at once, without a PING, when the disk is nearly full or has space again. The
 * records that come before the next PING could fill the log segment, and a nearly full disk may
 * have no room for another segment. */
void follow_tell_space(struct zab *zab)
{
    if (is_learner(zab) && zab->follow.phase > FOLLOW_CEPOCH) {
        send_pong(zab, 0);
    }
}

/* Confirms that this replica is still in this epoch. A replica that has promised a higher epoch
 * never confirms. */
static void on_confirm(struct zab *zab, const struct zab_msg *msg)
{
    if (zab->promise.epoch != zab->follow.epoch || zab->follow.phase < FOLLOW_WAIT) {
        return;
    }
    ASSERT(zxid_epoch(zab->trail.last) == zab->follow.epoch || MUTANT(10));
    ASSERT(zab->trail.durable >= zxid_make(zab->follow.epoch, 0) || MUTANT(2));
    tell_leader(zab, (struct zab_msg){.type = ZAB_CONFIRM_ACK, .confirm = msg->confirm});
}

static void on_read_reply(struct zab *zab, const struct zab_msg *msg)
{
    if (zab->follow.phase != FOLLOW_SERVE) {
        return;
    }
    struct zab_effect *effect = fx_add(zab, ZAB_FX_CONFIRMED);

    effect->confirmed.request = msg->read_reply.request;
    effect->confirmed.zxid = msg->read_reply.zxid;
}

static void on_forward_reply(struct zab *zab, const struct zab_msg *msg)
{
    struct zab_effect *effect = fx_add(zab, ZAB_FX_REFUSED);

    effect->refused.request = msg->forward.request;
    effect->refused.bytes = msg->forward.bytes;
}

static void on_commit(struct zab *zab, zxid_t zxid)
{
    if (zab->follow.phase == FOLLOW_SERVE) {
        commit_to(zab, zxid);
    } else if (MUTANT(15)) {
        commit_to(zab, min_u64(zxid, zab->trail.last));
    }
}

void follow_on_message(struct zab *zab, struct peer *peer, const struct zab_msg *msg)
{
    ASSERT(in_dialogue(zab));

    if (peer->id != zab->follow.leader || msg->dialogue != zab->follow.dialogue) {
        return; /* The message belongs to a dialogue that is over. */
    }
    if (zab->follow.phase > FOLLOW_CEPOCH && msg->epoch != zab->follow.epoch &&
        msg->type != ZAB_PING && msg->type != ZAB_RESIGN) {
        return;
    }
    zab->follow.heard_ms = zab->now_ms;
    if (msg->type == ZAB_ENTRY || msg->type == ZAB_NEWLEADER) {
        follow_stream(zab, msg);
    } else if (msg->type == ZAB_COMMIT) {
        on_commit(zab, msg->commit.zxid);
    } else if (msg->type == ZAB_PING) {
        on_ping(zab, &msg->ping);
    } else if (msg->type == ZAB_CONFIRM) {
        on_confirm(zab, msg);
    } else if (msg->type == ZAB_READ_REPLY) {
        on_read_reply(zab, msg);
    } else if (msg->type == ZAB_FORWARD_REPLY) {
        on_forward_reply(zab, msg);
    } else if (msg->type == ZAB_NEWEPOCH) {
        on_newepoch(zab, msg);
    } else if (msg->type == ZAB_SYNC) {
        follow_sync(zab, &msg->sync);
    } else if (msg->type == ZAB_SNAP_CHUNK) {
        follow_snap_chunk(zab, &msg->snap_chunk);
    } else if (msg->type == ZAB_UPTODATE) {
        on_uptodate(zab, msg);
    } else if (msg->type == ZAB_RESIGN) {
        enter_looking(zab, "the leader has resigned");
    }
}

/* ---- The disk. ---- */

void follow_on_persisted(struct zab *zab, const struct zab_ev_persisted *done)
{
    struct following *follow = &zab->follow;

    ASSERT(done->token == zab->disk.done);
    follow_sync_persisted(zab, done);
    if (!is_learner(zab)) {
        return;
    }
    if (follow->phase == FOLLOW_JOIN && done->token >= follow->wait_token) {
        fx_role(zab);
        promise(zab);
    } else if (follow->phase == FOLLOW_PROMISE && done->token >= follow->wait_token) {
        send_ackepoch(zab);
    }
    follow_acknowledge(zab);
}

/* ---- Time. ---- */

static uint64_t silence_limit_ms(const struct zab *zab)
{
    uint32_t ticks = zab->follow.phase == FOLLOW_CEPOCH ? DISCOVERY_TICKS : zab->limits.sync_limit;

    return zab->follow.heard_ms + ticks_ms(zab, ticks);
}

void follow_tick(struct zab *zab)
{
    ASSERT(in_dialogue(zab));

    if (zab->now_ms >= silence_limit_ms(zab) && zab->now_ms >= zab->follow.grace_ms) {
        PROBE("zab.leader_silent");
        enter_looking(zab, "the leader is silent");
        return;
    }
    if (zab->follow.phase == FOLLOW_CEPOCH && zab->now_ms >= zab->follow.resend_ms) {
        send_cepoch(zab);
    }
}

uint64_t follow_wake_ms(const struct zab *zab)
{
    uint64_t wake_ms = max_u64(silence_limit_ms(zab), zab->follow.grace_ms);

    if (zab->follow.phase == FOLLOW_CEPOCH) {
        wake_ms = min_u64(wake_ms, zab->follow.resend_ms);
    }
    return max_u64(wake_ms, zab->now_ms + 1);
}
