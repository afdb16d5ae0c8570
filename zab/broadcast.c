/* Phase 3: proposals, the commit watermark, heartbeats and quorum rounds. */
#include "zab/zab_int.h"

/* Whether the whole initial history is delivered here. A leader proposes nothing before that
 * (primary integrity): a request prepared earlier would be prepared against an older tree. */
static bool has_delivered_history(const struct zab *zab)
{
    return zab->delivery.last >= zxid_make(zab->lead.epoch, 0);
}

/* Whether this replica's disk lags too far behind. A quorum may commit without this disk, but
 * records that the disk has not written stay in memory, so their number and bytes are bounded. */
static bool own_disk_lags(const struct zab *zab)
{
    const struct trail *trail = &zab->trail;
    zxid_t from = max_u64(trail->durable, zxid_make(zab->lead.epoch, 0));

    ASSERT(trail->last >= from);
    return trail->last - from >= zab->limits.pending_max ||
           trail->volatile_bytes >= zab->limits.pending_bytes_max;
}

zxid_t zab_next_zxid(const struct zab *zab)
{
    if (!is_broadcasting(zab) || zab->lead.resigning || !has_delivered_history(zab) ||
        zxid_counter(zab->trail.last) >= zab->limits.counter_max) {
        return 0;
    }
    if (zab->lead.pending_count >= zab->limits.pending_max ||
        zab->lead.pending_bytes >= zab->limits.pending_bytes_max || own_disk_lags(zab)) {
        PROBE("zab.pipeline_full");
        return 0;
    }
    ASSERT(zxid_epoch(zab->trail.last) == zab->lead.epoch);
    return zab->trail.last + 1;
}

/* Starts a new epoch when the counter of this epoch is nearly used up. No operator has to act, and
 * no write is refused. */
static void roll_over(struct zab *zab)
{
    if (is_broadcasting(zab) && zxid_counter(zab->trail.last) >= zab->limits.counter_max) {
        PROBE("zab.counter_rolled_over");
        enter_looking(zab, "the counter of this epoch is used up: a new epoch begins");
    }
}

enum err zab_propose(struct zab *zab, struct slice txn, struct zab_effects *effects)
{
    ASSERT(effects && !zab->effects);

    if (zab_next_zxid(zab) == 0) {
        return ERR_NOT_READY;
    }
    zab->effects = effects;
    broadcast_append(zab, LOGREC_TXN, txn);
    if (zab->lead.since_stamp >= zab->limits.stamp_every) {
        PROBE("zab.stamped");
        broadcast_stamp(zab, config_in_force(zab)->version);
    }
    zab->effects = NULL;
    return ERR_OK;
}

/* ---- Commit. ---- */

static void send_commit(struct zab *zab, struct peer *peer)
{
    struct learner *learner = &peer->learner;
    bool told = learner->uptodate_sent || (MUTANT(15) && learner->stage >= LEARNER_ACKED);

    if (!peer->up || !told || learner->commit_sent >= zab->committed) {
        return;
    }
    ASSERT(learner->stage == LEARNER_SYNCED || MUTANT(15));
    learner->commit_sent = zab->committed;
    tell_learner(zab, peer, (struct zab_msg){.type = ZAB_COMMIT, .commit.zxid = zab->committed});
}

/* Sends UPTODATE (COMMIT-LD in the Zab paper) with the current commit watermark. The paper leaves
 * open which zxid the message carries (issue 3 of ZooKeeper's TLA+ protocol specification). If it
 * carried the zxid that the learner has acknowledged, the learner would deliver the committed
 * records after that zxid only after the next ENTRY, COMMIT or PING. */
void broadcast_uptodate(struct zab *zab, struct peer *peer)
{
    struct learner *learner = &peer->learner;

    if (!is_in_step(peer) || learner->uptodate_sent || !is_broadcasting(zab)) {
        return;
    }
    ASSERT(learner->dialogue != 0 && learner->acked <= learner->sent);
    ASSERT(learner->newleader_sent && zab->committed >= zxid_make(zab->lead.epoch, 0));
    learner->uptodate_sent = true;
    learner->commit_sent = zab->committed;
    tell_learner(zab, peer,
                 (struct zab_msg){.type = ZAB_UPTODATE,
                                  .commit.zxid = MUTANT(17) ? learner->acked : zab->committed});
}

/* Removes the proposals committed since `from` from the counts that bound the pipeline. */
static void settle_pending(struct zab *zab, zxid_t from)
{
    ASSERT(from <= zab->committed);
    ASSERT(zab->committed <= zab->trail.last);
    for (zxid_t at = from; at < zab->committed;) {
        const struct logrec *rec = trail_after(&zab->trail, at);

        if (!rec) {
            break;
        }
        if (zxid_epoch(rec->zxid) == zab->lead.epoch && zxid_counter(rec->zxid) > 0) {
            ASSERT(zab->lead.pending_count > 0);
            zab->lead.pending_count--;
            ASSERT(zab->lead.pending_bytes >= rec->len);
            zab->lead.pending_bytes -= rec->len;
        }
        at = rec->zxid;
    }
    ASSERT(zab->lead.pending_count > 0 || zab->lead.pending_bytes == 0);
}

/* Commits what a quorum has made durable. After the commit of a configuration the new quorum alone
 * decides which further records are committed. */
static void commit_acked(struct zab *zab)
{
    bool again = true;

    while (again) {
        zxid_t acked = quorum_acked(zab);
        zxid_t version = zab->config.committed.version;

        if (acked < zxid_make(zab->lead.epoch, 0)) {
            return;
        }
        ASSERT(acked <= zab->trail.last);
        commit_to(zab, proof_limit(zab, acked));
        again = zab->config.committed.version != version;
    }
}

/* Commits what can be committed. The initial history is committed together with the epoch's start.
 */
void broadcast_commit(struct zab *zab)
{
    if (!is_broadcasting(zab)) {
        return;
    }
    zxid_t before = zab->committed;

    commit_acked(zab);
    if (zab->committed != before) {
        settle_pending(zab, before);
    }
    for_each_peer (peer, zab) {
        broadcast_uptodate(zab, peer);
        send_commit(zab, peer);
    }
    roll_over(zab);
}

/* ---- Heartbeats. ---- */

void broadcast_ping(struct zab *zab)
{
    ASSERT(zab->state == ZAB_LEADING);
    zab->lead.ping_round++;
    zab->lead.pings_ms[zab->lead.ping_round % PINGS_TIMED] = zab->now_ms;
    for_each_peer (peer, zab) {
        if (!peer->up || peer->learner.dialogue == 0) {
            continue;
        }
        struct zab_msg_ping ping = {.round = zab->lead.ping_round,
                                    .commit = peer->learner.uptodate_sent ? zab->committed : 0,
                                    .payload = buf_slice(&zab->ping_payload)};

        tell_learner(zab, peer, (struct zab_msg){.type = ZAB_PING, .ping = ping});
        confirm_ask(zab, peer);
    }
}

/* Measures the round trip of a PONG. Only the times of the last few PINGs are known, and a PONG of
 * round 0 answers no PING. */
static void time_pong(const struct zab *zab, struct learner *learner, uint64_t round)
{
    uint64_t newest = zab->lead.ping_round;

    if (round != 0 && round <= newest && newest - round < PINGS_TIMED) {
        snap_saw_trip(zab, learner, zab->lead.pings_ms[round % PINGS_TIMED]);
    }
}

void broadcast_on_pong(struct zab *zab, struct peer *peer, const struct zab_msg_pong *pong)
{
    uint32_t keep = peer->learner.flags & (uint32_t)~ZAB_FLAG_LOW_SPACE;

    ASSERT(zab->state == ZAB_LEADING);
    peer->learner.flags = keep | (pong->flags & ZAB_FLAG_LOW_SPACE);
    fx_ping_payload(zab, peer->id, pong->payload);
    time_pong(zab, &peer->learner, pong->round);
    if (pong->digest_zxid != 0) {
        digest_on_pong(zab, peer, pong);
    }
}

void zab_set_ping_payload(struct zab *zab, struct slice bytes)
{
    ASSERT(bytes.len <= ZAB_PING_PAYLOAD_MAX);
    ASSERT(!zab->effects);
    buf_clear(&zab->ping_payload);
    (void)buf_append(&zab->ping_payload, bytes.data, bytes.len);
    ASSERT(!zab->ping_payload.overflow);
}

/* ---- Quorum rounds. ---- */

static bool has_confirmed(const struct zab *zab, const struct peer *peer)
{
    ASSERT(peer->learner.confirmed <= zab->lead.round);
    if (MUTANT(26)) {
        return is_in_step(peer) && peer->learner.confirmed > 0;
    }
    return is_in_step(peer) && peer->learner.confirmed == zab->lead.round;
}

/* Answers all requests that came before the round began. */
static void round_done(struct zab *zab)
{
    zab->lead.round_active = false;
    for (size_t i = 0; i < zab->lead.active.count; i++) {
        const struct confirm *confirm = &zab->lead.active.items[i];
        const struct peer *peer = confirm->peer ? peer_find(zab, confirm->peer) : NULL;

        if (confirm->peer == 0) {
            struct zab_effect *effect = fx_add(zab, ZAB_FX_CONFIRMED);

            effect->confirmed.request = confirm->request;
            effect->confirmed.zxid = zab->committed;
        } else if (peer && peer->up && peer->learner.dialogue == confirm->dialogue) {
            struct zab_msg_read_reply reply = {.request = confirm->request, .zxid = zab->committed};

            tell_learner(zab, peer, (struct zab_msg){.type = ZAB_READ_REPLY, .read_reply = reply});
        }
    }
    zab->lead.active.count = 0;
}

static void send_confirm(struct zab *zab, const struct peer *peer)
{
    tell_learner(zab, peer,
                 (struct zab_msg){.type = ZAB_CONFIRM, .confirm.round = zab->lead.round});
}

static void round_start(struct zab *zab)
{
    struct confirm_list swap = zab->lead.active;

    ASSERT(!zab->lead.round_active && zab->lead.waiting.count > 0 && swap.count == 0);
    zab->lead.active = zab->lead.waiting;
    zab->lead.waiting = swap;
    zab->lead.round++;
    zab->lead.round_active = true;
    for_each_peer (peer, zab) {
        if (is_in_step(peer)) {
            send_confirm(zab, peer);
        }
    }
}

void confirm_check(struct zab *zab)
{
    while (is_broadcasting(zab)) {
        if (zab->lead.round_active) {
            if (!quorum_has(zab, true, has_confirmed)) {
                return;
            }
            round_done(zab);
        }
        if (zab->lead.waiting.count == 0) {
            return;
        }
        ASSERT(zab->lead.waiting.count <= CONFIRMS_MAX);
        round_start(zab);
    }
}

/* Sends CONFIRM again to a learner that has not confirmed the current round: the learner may have
 * come in step during the round, or the message was lost with a connection. Otherwise one lost
 * message would stop all rounds until the next election. */
void confirm_ask(struct zab *zab, const struct peer *peer)
{
    if (is_broadcasting(zab) && zab->lead.round_active && is_in_step(peer) &&
        peer->learner.confirmed < zab->lead.round) {
        PROBE("zab.confirm_asked_again");
        send_confirm(zab, peer);
    }
}

void confirm_add(struct zab *zab, struct confirm confirm)
{
    ASSERT(is_broadcasting(zab));
    if (zab->lead.waiting.count >= CONFIRMS_MAX) {
        return; /* The request ends at its deadline. */
    }
    struct confirm_list *list = &zab->lead.waiting;

    MEM_GROW(list->items, list->count, list->cap, CONFIRMS_MAX);
    list->items[list->count++] = confirm;
    confirm_check(zab);
}

void confirm_on_ack(struct zab *zab, struct peer *peer, uint64_t round)
{
    ASSERT(zab->state == ZAB_LEADING);
    if (round > peer->learner.confirmed && round <= zab->lead.round) {
        peer->learner.confirmed = round;
        confirm_check(zab);
    }
}

/* Drops pending rounds when the role changes: the host starts them again with the next leader. */
void confirm_clear(struct zab *zab)
{
    zab->lead.active.count = 0;
    zab->lead.waiting.count = 0;
    zab->lead.round_active = false;
}

enum err zab_confirm(struct zab *zab, uint64_t request, struct zab_effects *effects)
{
    enum err err = ERR_NOT_READY;

    ASSERT(effects && !zab->effects);
    zab->effects = effects;
    if (is_broadcasting(zab) && zab->lead.waiting.count >= CONFIRMS_MAX) {
        err = ERR_THROTTLED;
    } else if (is_broadcasting(zab)) {
        confirm_add(zab, (struct confirm){.request = request});
        err = ERR_OK;
    } else if (is_learner(zab) && zab->follow.phase == FOLLOW_SERVE) {
        tell_leader(zab, (struct zab_msg){.type = ZAB_READ_INDEX, .read_index.request = request});
        err = ERR_OK;
    }
    zab->effects = NULL;
    return err;
}

/* ---- Writes that clients sent to learners. ---- */

enum err zab_forward(struct zab *zab, uint64_t request, struct slice bytes,
                     struct zab_effects *effects)
{
    ASSERT(effects && !zab->effects);

    if (!is_learner(zab) || zab->follow.phase != FOLLOW_SERVE) {
        return ERR_NOT_READY;
    }
    struct zab_msg_forward forward = {.request = request, .bytes = bytes};

    zab->effects = effects;
    tell_leader(zab, (struct zab_msg){.type = ZAB_FORWARD, .forward = forward});
    zab->effects = NULL;
    return ERR_OK;
}

bool zab_is_dialogue(const struct zab *zab, uint32_t peer_id, uint32_t dialogue)
{
    ASSERT(dialogue != 0);

    const struct peer *peer = peer_find(zab, peer_id);

    return peer && is_broadcasting(zab) && peer->up && peer->learner.dialogue == dialogue;
}

void zab_refuse(struct zab *zab, uint32_t peer, uint32_t dialogue, uint64_t request,
                struct slice bytes, struct zab_effects *effects)
{
    ASSERT(effects && !zab->effects);

    if (!zab_is_dialogue(zab, peer, dialogue)) {
        return;
    }
    struct zab_msg msg = {
        .type = ZAB_FORWARD_REPLY,
        .dialogue = dialogue,
        .epoch = zab->lead.epoch,
        .forward = {.request = request, .bytes = bytes},
    };

    zab->effects = effects;
    fx_send(zab, peer, &msg);
    zab->effects = NULL;
}
