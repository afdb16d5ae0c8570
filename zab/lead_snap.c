/* Phase 2 on the leader's side, when the log that a learner lacks is purged: a snapshot is sent. */
#include "zab/zab_int.h"

/* ---- Pace: refills must not delay commits. ---- */

/* Whether refill_rate allows to read a chunk now. All learners share this rate, because they share
 * the leader's disk and network. Before broadcast the rate does not apply: there is no commit to
 * delay, and the quorum may need a learner that waits for chunks. */
static bool refill_may_go(const struct zab *zab)
{
    return zab->limits.refill_rate == 0 || zab->lead.phase != LEADER_BROADCAST ||
           zab->now_ms * 1000 >= zab->lead.refill_due_us;
}

static void refill_goes(struct zab *zab, uint64_t bytes)
{
    uint64_t from_ms = zab->now_ms > REFILL_BURST_MS ? zab->now_ms - REFILL_BURST_MS : 0;

    if (zab->limits.refill_rate == 0 || zab->lead.phase != LEADER_BROADCAST) {
        return; /* Without a limit a chunk does not delay later chunks. */
    }
    zab->lead.refill_due_us = max_u64(zab->lead.refill_due_us, from_ms * 1000) +
                              bytes * 1000000 / zab->limits.refill_rate;
}

/* Notes the shortest round trip, from NEWEPOCH to ACKEPOCH or from PING to PONG. A PING waits in
 * the connection's queue behind snapshot chunks, so a longer round trip includes this wait. */
void snap_saw_trip(const struct zab *zab, struct learner *learner, uint64_t since_ms)
{
    uint64_t trip_ms = zab->now_ms - since_ms;

    trip_ms = min_u64(trip_ms, SNAP_TRIP_MAX_MS);
    if (!learner->has_trip || trip_ms < learner->trip_ms) {
        learner->has_trip = true;
        learner->trip_ms = trip_ms;
    }
}

/* Starts to time a chunk if no chunk is being timed; window_acked adapts the window to its delay.
 * On the learner's connection heartbeats wait behind the chunks in flight. So the window is
 * kept so small that the delay of a chunk, less the shortest round trip, is about SNAP_DELAY_MS. */
static void window_sent(struct zab *zab, struct learner *learner)
{
    ASSERT(learner->snap.window > 0 && learner->snap.window <= SNAP_WINDOW);
    if (learner->snap.probe == 0) {
        learner->snap.probe = learner->snap.offset;
        learner->snap.probe_ms = zab->now_ms;
    }
}

static void window_acked(struct zab *zab, struct learner *learner)
{
    uint64_t delay_ms = zab->now_ms - learner->snap.probe_ms;

    delay_ms -= min_u64(delay_ms, learner->trip_ms);
    if (learner->snap.probe == 0 || learner->snap.acked < learner->snap.probe) {
        return;
    }
    learner->snap.probe = 0;
    if (delay_ms <= SNAP_DELAY_MS && learner->snap.window < SNAP_WINDOW) {
        learner->snap.window++;
    } else if (delay_ms > 2 * (uint64_t)SNAP_DELAY_MS && learner->snap.window > 1) {
        PROBE("zab.snap_window_shrinks");
        learner->snap.window /= 2;
    }
    ASSERT(learner->snap.window > 0 && learner->snap.window <= SNAP_WINDOW);
}

static void snap_fetch(struct zab *zab, struct peer *peer)
{
    struct learner *learner = &peer->learner;

    ASSERT(learner->snap.acked <= learner->snap.offset);
    if (learner->fetch_token != 0 || learner->snap.done || learner->snap.retry_ms != 0 ||
        learner->snap.offset - learner->snap.acked >=
            (uint64_t)learner->snap.window * zab->limits.chunk_bytes) {
        return;
    }
    if (zab->lead.refill_waits || !refill_may_go(zab)) {
        zab->lead.refill_waits = true;
        return;
    }
    refill_goes(zab, zab->limits.chunk_bytes);
    zab->lead.refill_turn = peer->id;
    learner->fetch_token = ++zab->disk.issued;
    fx_add(zab, ZAB_FX_SNAP_FETCH)->snap_fetch =
        (struct zab_snap_fetch){.token = learner->fetch_token,
                                .peer = peer->id,
                                .oldest = zab->trail.base,
                                .offset = learner->snap.offset,
                                .len = zab->limits.chunk_bytes,
                                .is_first = !learner->snap.known,
                                .id = learner->snap.id};
}

/* Reads chunks for the learners in turn, beginning with the learner after the one served last. */
void snap_pump(struct zab *zab)
{
    ASSERT(zab->state == ZAB_LEADING);
    if (!zab->lead.refill_waits || !refill_may_go(zab)) {
        return;
    }
    uint32_t from = 0;

    while (from < zab->peer_count && zab->peers[from]->id <= zab->lead.refill_turn) {
        from++;
    }
    zab->lead.refill_waits = false;
    for (uint32_t i = 0; i < zab->peer_count; i++) {
        struct peer *peer = zab->peers[(from + i) % zab->peer_count];

        if (peer->learner.stage == LEARNER_SNAP) {
            snap_fetch(zab, peer);
        }
    }
}

uint64_t snap_wake_ms(const struct zab *zab)
{
    return zab->lead.refill_waits ? (zab->lead.refill_due_us + 999) / 1000 : UINT64_MAX;
}

/* ---- The transfer. ---- */

void snap_begin(struct zab *zab, struct peer *peer)
{
    struct learner *learner = &peer->learner;

    ASSERT(learner->stage == LEARNER_ACKED && !learner->snap.known && learner->fetch_token == 0);
    if (!zab->has_snapshot) {
        fx_alarm(zab, (struct zab_notice){.type = ZAB_NOTICE_NO_SNAPSHOT, .peer = peer->id});
        fx_disconnect(zab, peer->id);
        return;
    }
    PROBE("zab.sync_snap");
    learner->stage = LEARNER_SNAP;
    learner->snap.offset = learner->snap.id != 0 ? learner->snap.offset : 0;
    learner->snap.acked = learner->snap.offset;
    learner->snap.window = SNAP_WINDOW_START;
    keep_begin(zab, peer, (struct keep){.is_open = true});
    sync_send(zab, peer, 0, ZAB_FLAG_SNAP);
    snap_fetch(zab, peer);
}

/* Begins the stream of records at the snapshot's start, once all of the snapshot is sent. */
static void snap_sent(struct zab *zab, struct peer *peer, zxid_t start)
{
    struct learner *learner = &peer->learner;

    if (!trail_has(&zab->trail, start)) {
        fx_disconnect(zab, peer->id); /* The log was purged meanwhile. */
        return;
    }
    learner->snap.done = true;
    learner->stage = LEARNER_STREAM;
    learner->sent = MUTANT(3) ? zab->trail.last : start;
    learner->acked = start;
    if (start >= zxid_make(zab->lead.epoch, 0)) {
        sync_send_newleader(zab, peer, NULL);
    }
    sync_pump(zab, peer);
}

static void send_chunk(struct zab *zab, struct peer *peer, const struct zab_ev_snap_fetched *piece)
{
    struct zab_msg_snap_chunk chunk = {.snap_id = piece->id,
                                       .offset = piece->offset,
                                       .bytes = piece->bytes,
                                       .start = piece->start,
                                       .start_chain = piece->start_chain,
                                       .end = piece->end,
                                       .flags = piece->is_last ? ZAB_FLAG_SNAP_LAST : 0};

    ASSERT(piece->bytes.len <= ZAB_CHUNK_BYTES_MAX);
    if (piece->is_last) {
        /* Sends the committed configuration: if its CONFIG record is from before the snapshot's
         * start, that record is not among the records that follow. */
        config_tell(zab, peer, 0);
    }
    tell_learner(zab, peer, (struct zab_msg){.type = ZAB_SNAP_CHUNK, .snap_chunk = chunk});
    peer->learner.snap.offset += piece->bytes.len;
    window_sent(zab, &peer->learner);
}

/* Notes which snapshot the host has chosen for the learner. Returns false if the log does not reach
 * back to the start of that snapshot any more. */
static bool take_start(struct zab *zab, struct peer *peer, const struct zab_ev_snap_fetched *piece)
{
    struct learner *learner = &peer->learner;

    ASSERT(!learner->snap.known);
    ASSERT(piece->offset == 0 || piece->offset == learner->snap.offset);
    if (!trail_has(&zab->trail, piece->start)) {
        return false;
    }
    learner->snap.known = true;
    learner->snap.start = piece->start;
    learner->snap.id = piece->id;
    learner->snap.offset = piece->offset;
    learner->snap.acked = piece->offset;
    keep_begin(zab, peer, (struct keep){.after = piece->start});
    return true;
}

void sync_on_snap_fetched(struct zab *zab, const struct zab_ev_snap_fetched *piece)
{
    struct peer *peer = sync_peer_of_fetch(zab, piece->token);

    ASSERT(zab->state == ZAB_LEADING);
    if (!peer || peer->learner.stage != LEARNER_SNAP) {
        return;
    }
    struct learner *learner = &peer->learner;

    learner->fetch_token = 0;
    if (piece->err != ERR_OK && !learner->snap.known) {
        /* No snapshot verifies. The host takes a new snapshot, and the learner waits for it in this
         * dialogue. */
        learner->snap.retry_ms = zab->now_ms + ticks_ms(zab, 1);
        return;
    }
    if (!learner->snap.known && !take_start(zab, peer, piece)) {
        fx_disconnect(zab, peer->id);
        return;
    }
    /* The host may have read the piece from a newer snapshot, which does not continue this one. */
    if (piece->err != ERR_OK || piece->offset != learner->snap.offset ||
        piece->start != learner->snap.start) {
        fx_disconnect(zab, peer->id);
        return;
    }
    send_chunk(zab, peer, piece);
    if (piece->is_last) {
        snap_sent(zab, peer, piece->start);
    } else {
        snap_fetch(zab, peer);
    }
}

void sync_retry(struct zab *zab, bool now)
{
    ASSERT(zab->state == ZAB_LEADING);
    for_each_peer (peer, zab) {
        struct learner *learner = &peer->learner;

        if (learner->stage == LEARNER_SNAP && learner->snap.retry_ms != 0 &&
            (now || zab->now_ms >= learner->snap.retry_ms)) {
            learner->snap.retry_ms = 0;
            snap_fetch(zab, peer);
        }
    }
}

void sync_on_snap_ack(struct zab *zab, struct peer *peer, uint64_t offset)
{
    struct learner *learner = &peer->learner;

    if (learner->stage != LEARNER_SNAP || offset > learner->snap.offset ||
        offset <= learner->snap.acked) {
        return;
    }
    learner->snap.acked = offset;
    ASSERT(learner->snap.acked <= learner->snap.offset);
    keep_progress(zab, peer);
    window_acked(zab, learner);
    snap_fetch(zab, peer);
}
