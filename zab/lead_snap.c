/* Phase 2 on the leader's side, when the logs have nothing in common: a snapshot on its way. */
#include "zab/zab_int.h"

static void snap_fetch(struct zab *zab, struct peer *peer)
{
    struct learner *learner = &peer->learner;

    ASSERT(learner->stage == LEARNER_SNAP);
    ASSERT(learner->snap_acked <= learner->snap_offset);
    if (learner->fetch_token != 0 || learner->snap_done ||
        learner->snap_offset - learner->snap_acked >=
            (uint64_t)SNAP_WINDOW * zab->limits.chunk_bytes) {
        return;
    }
    struct zab_effect *effect = fx_add(zab, ZAB_FX_SNAP_FETCH);

    effect->peer = peer->id;
    effect->offset = learner->snap_offset;
    effect->len = zab->limits.chunk_bytes;
    effect->token = ++zab->token_issued;
    learner->fetch_token = effect->token;
}

void snap_begin(struct zab *zab, struct peer *peer)
{
    struct learner *learner = &peer->learner;

    ASSERT(learner->stage == LEARNER_ACKED);
    if (!zab->has_snapshot) {
        fx_text(zab, ZAB_FX_ALARM, "peer %u needs a snapshot and there is none", peer->id);
        fx_disconnect(zab, peer->id);
        return;
    }
    PROBE("zab.sync_snap");
    learner->stage = LEARNER_SNAP;
    learner->snap_offset = 0;
    learner->snap_acked = 0;
    learner->snap_done = false;
    learner->fetch_token = 0;
    keep_begin_open(zab, peer);
    sync_send(zab, peer, 0, ZAB_FLAG_SNAP);
    snap_fetch(zab, peer);
}

/* From here on the learner's place in the stream is the snapshot's start. */
static void snap_sent(struct zab *zab, struct peer *peer, zxid_t start)
{
    struct learner *learner = &peer->learner;

    ASSERT(learner->stage == LEARNER_SNAP);
    if (!trail_has(&zab->trail, start)) {
        fx_disconnect(zab, peer->id); /* Purged meanwhile. */
        return;
    }
    learner->snap_done = true;
    learner->stage = LEARNER_STREAM;
    learner->sent = MUTANT(3) ? zab->trail.last : start;
    learner->acked = start;
    if (start >= zxid_make(zab->lead.epoch, 0)) {
        sync_send_newleader(zab, peer, NULL);
    }
    sync_pump(zab, peer);
}

static void send_chunk(struct zab *zab, struct peer *peer, const struct zab_event *event)
{
    struct zab_msg msg = {
        .type = ZAB_SNAP_CHUNK,
        .link = peer->learner.link,
        .epoch = zab->lead.epoch,
        .zxid = event->zxid,
        .chain = event->snap_chain,
        .commit = event->base,
        .offset = event->offset,
        .bytes = event->bytes,
        .flags = event->flag ? ZAB_FLAG_SNAP_LAST : 0,
    };

    ASSERT(event->bytes.len <= ZAB_CHUNK_BYTES_MAX);
    if (event->flag) {
        /* What was changed before the snapshot's start is in no record that follows it. */
        config_tell(zab, peer, 0);
    }
    fx_send(zab, peer->id, &msg);
    peer->learner.snap_offset += event->bytes.len;
}

/* The host has chosen a snapshot. False: the log does not reach back to its start any more. */
static bool take_start(struct zab *zab, struct peer *peer, zxid_t start)
{
    ASSERT(peer->learner.snap_offset == 0);
    if (!trail_has(&zab->trail, start)) {
        return false;
    }
    peer->learner.snap_start = start;
    keep_begin(zab, peer, start);
    return true;
}

void sync_on_snap_fetched(struct zab *zab, const struct zab_event *event)
{
    struct peer *peer = sync_peer_of_fetch(zab, event->token);

    ASSERT(zab->state == ZAB_LEADING);
    if (!peer || peer->learner.stage != LEARNER_SNAP) {
        return;
    }
    struct learner *learner = &peer->learner;

    learner->fetch_token = 0;
    if (event->err != ERR_OK && event->offset == 0 && learner->snap_offset == 0) {
        /* Not one verifies any more. The host takes a new one; the learner waits for it here rather
         * than go round in circles. */
        learner->snap_retry_ms = zab->now_ms + ticks_ms(zab, 1);
        return;
    }
    if (event->offset == 0 && !take_start(zab, peer, event->zxid)) {
        fx_disconnect(zab, peer->id);
        return;
    }
    /* Pieces of two snapshots make none: the newest may have changed on the way. */
    if (event->err != ERR_OK || event->offset != learner->snap_offset ||
        event->zxid != learner->snap_start) {
        fx_disconnect(zab, peer->id);
        return;
    }
    send_chunk(zab, peer, event);
    if (event->flag) {
        snap_sent(zab, peer, event->zxid);
    } else {
        snap_fetch(zab, peer);
    }
}

void sync_retry(struct zab *zab, bool now)
{
    ASSERT(zab->state == ZAB_LEADING);
    for (uint32_t i = 0; i < zab->peer_count; i++) {
        struct peer *peer = &zab->peers[i];
        struct learner *learner = &peer->learner;

        if (learner->stage == LEARNER_SNAP && learner->snap_retry_ms != 0 &&
            (now || zab->now_ms >= learner->snap_retry_ms)) {
            learner->snap_retry_ms = 0;
            snap_fetch(zab, peer);
        }
    }
}

void sync_on_snap_ack(struct zab *zab, struct peer *peer, uint64_t offset)
{
    struct learner *learner = &peer->learner;

    if (learner->stage != LEARNER_SNAP || offset > learner->snap_offset ||
        offset <= learner->snap_acked) {
        return;
    }
    learner->snap_acked = offset;
    ASSERT(learner->snap_acked <= learner->snap_offset);
    keep_progress(zab, peer);
    snap_fetch(zab, peer);
}
