/*
 * Phase 2 on the leader's side. Synchronisation and broadcast are one stream: the leader's log in
 * order, from the last common record on. A learner has no queue of its own, only a position in that
 * log (`sent`). The EPOCH record of the leader's epoch is sent as NEWLEADER, and each record after
 * it is a PROPOSE.
 */
#include "zab/zab_int.h"

static bool flight_is_sound(const struct zab *zab, const struct flight *flight)
{
    return flight->count <= zab->limits.window_max && flight->head < zab->limits.window_max &&
           (flight->count > 0 || flight->bytes_sum == 0);
}

static bool learner_is_sound(const struct zab *zab, const struct learner *learner)
{
    return (learner->stage == LEARNER_NONE || learner->dialogue != 0) &&
           learner->acked <= learner->sent && flight_is_sound(zab, &learner->flight);
}

static void flight_push(struct zab *zab, struct flight *flight, const struct logrec *rec)
{
    ASSERT(flight->count < zab->limits.window_max);

    uint32_t index = (flight->head + flight->count) % zab->limits.window_max;

    flight->zxids[index] = rec->zxid;
    flight->bytes[index] = rec->len;
    flight->bytes_sum += rec->len;
    flight->count++;
    ASSERT(flight_is_sound(zab, flight));
}

static void flight_acked(struct zab *zab, struct flight *flight, zxid_t zxid)
{
    while (flight->count > 0 && flight->zxids[flight->head] <= zxid) {
        ASSERT(flight->bytes_sum >= flight->bytes[flight->head]);
        flight->bytes_sum -= flight->bytes[flight->head];
        flight->head = (flight->head + 1) % zab->limits.window_max;
        flight->count--;
    }
    ASSERT(flight_is_sound(zab, flight));
}

static bool flight_has_room(const struct zab *zab, const struct flight *flight)
{
    return flight->count < zab->limits.window_max &&
           (flight->count == 0 || flight->bytes_sum < zab->limits.window_bytes_max);
}

void sync_on_acked(struct zab *zab, struct peer *peer, zxid_t zxid)
{
    struct learner *learner = &peer->learner;

    ASSERT(zxid <= learner->sent);
    flight_acked(zab, &learner->flight, zxid);
    if (zxid > learner->acked) {
        learner->acked = zxid;
        peer->refill_stalled = false;
    }
    keep_on_acked(zab, peer);
    ASSERT(learner_is_sound(zab, learner));
}

/* Sends NEWLEADER, the end of the initial history. `rec` is the epoch's record, or NULL for a
 * learner that has it. */
void sync_send_newleader(struct zab *zab, struct peer *peer, struct logrec *rec)
{
    struct learner *learner = &peer->learner;
    struct zab_msg_newleader newleader = {
        .rec = rec, .sent = learner->sent, .config = blob_slice(zab->config.committed_bytes)};

    ASSERT(learner->stage == LEARNER_STREAM && !learner->newleader_sent);
    learner->newleader_sent = true;
    tell_learner(zab, peer, (struct zab_msg){.type = ZAB_NEWLEADER, .newleader = newleader});
}

static void send_record(struct zab *zab, struct peer *peer, struct logrec *rec)
{
    struct learner *learner = &peer->learner;

    ASSERT(rec->prev == learner->sent);
    ASSERT(rec->zxid <= zab->trail.last);
    ASSERT(learner->stage == LEARNER_STREAM || learner->stage == LEARNER_SYNCED);
    flight_push(zab, &learner->flight, rec);
    if (rec->zxid == zxid_make(zab->lead.epoch, 0)) {
        sync_send_newleader(zab, peer, rec);
    } else {
        zxid_t commit = learner->uptodate_sent ? zab->committed : 0;
        struct zab_msg_entry entry = {.rec = rec, .commit = commit};

        tell_learner(zab, peer, (struct zab_msg){.type = ZAB_ENTRY, .entry = entry});
        learner->commit_sent = max_u64(commit, learner->commit_sent);
    }
    learner->sent = rec->zxid;
}

static void fetch_for(struct zab *zab, struct peer *peer)
{
    ASSERT(peer->learner.sent < zab->trail.last);
    if (peer->learner.fetch_token != 0) {
        return;
    }
    PROBE("zab.learner_reads_disk");
    if (!peer->keep.is_on) {
        keep_begin(zab, peer, (struct keep){.after = peer->learner.acked});
    }
    peer->learner.fetch_token = fx_fetch(zab, peer->learner.sent);
}

/* Sends the records that the learner lacks, as far as its window has room, once the EPOCH record of
 * this epoch is durable here. */
void sync_pump(struct zab *zab, struct peer *peer)
{
    struct learner *learner = &peer->learner;

    if (!peer->up || zab->lead.phase < LEADER_SYNC ||
        (learner->stage != LEARNER_STREAM && learner->stage != LEARNER_SYNCED)) {
        return;
    }
    if (MUTANT(16) && learner->stage == LEARNER_STREAM && learner->newleader_sent) {
        return; /* Mutant: a learner gets only what is proposed once it is in step. */
    }
    ASSERT(zab->state == ZAB_LEADING);
    ASSERT(learner_is_sound(zab, learner));
    while (learner->sent < zab->trail.last && flight_has_room(zab, &learner->flight)) {
        struct logrec *rec = trail_after(&zab->trail, learner->sent);

        if (!rec) {
            fetch_for(zab, peer);
            return;
        }
        send_record(zab, peer, rec);
    }
}

void sync_pump_all(struct zab *zab)
{
    for_each_peer (peer, zab) {
        sync_pump(zab, peer);
    }
}

void sync_send(struct zab *zab, const struct peer *peer, zxid_t common, uint32_t flags)
{
    struct zab_msg_sync sync = {.common = common, .target = zab->trail.last, .flags = flags};

    ASSERT(zab->lead.phase >= LEADER_EPOCH);
    tell_learner(zab, peer, (struct zab_msg){.type = ZAB_SYNC, .sync = sync});
}

/* Begins a DIFF after `common` (with TRUNC when the learner's log has more). `common` follows from
 * the outlines of both logs alone. */
static void begin_diff(struct zab *zab, struct peer *peer, zxid_t common)
{
    ASSERT(trail_has(&zab->trail, common));

    struct learner *learner = &peer->learner;

    ASSERT(common <= zab->trail.last);
    /* NOLINTNEXTLINE(bugprone-branch-clone): the branches differ where probes are compiled in. */
    if (learner->last > common) {
        PROBE("zab.sync_trunc");
    } else {
        PROBE("zab.sync_diff");
    }
    learner->stage = LEARNER_STREAM;
    learner->sent = common;
    learner->acked = common;
    keep_begin(zab, peer, (struct keep){.after = common});
    sync_send(zab, peer, MUTANT(7) ? learner->last : common, 0);
    if (common >= zxid_make(zab->lead.epoch, 0)) {
        PROBE("zab.rejoined_same_epoch");
        sync_send_newleader(zab, peer, NULL);
    }
    sync_pump(zab, peer);
}

/*
 * Decides how to bring a learner in step and fixes the learner's position in the stream at once. So
 * records that are appended later reach the learner in order, without a gap and without a
 * duplicate.
 */
void sync_begin(struct zab *zab, struct peer *peer)
{
    struct learner *learner = &peer->learner;
    zxid_t common = 0;

    ASSERT(learner->stage == LEARNER_ACKED);
    ASSERT(zab->lead.phase >= LEADER_EPOCH);
    if (trail_common(&zab->trail, learner->ranges, learner->range_count, learner->base, &common) ==
        ERR_OK) {
        begin_diff(zab, peer, common);
    } else {
        snap_begin(zab, peer);
    }
}

struct peer *sync_peer_of_fetch(struct zab *zab, uint64_t token)
{
    for_each_peer (peer, zab) {
        if (token != 0 && peer->learner.fetch_token == token) {
            return peer;
        }
    }
    return NULL;
}

void sync_on_fetched(struct zab *zab, const struct zab_ev_fetched *fetched)
{
    struct peer *peer = sync_peer_of_fetch(zab, fetched->token);

    ASSERT(zab->state == ZAB_LEADING);
    if (!peer) {
        return; /* The token is of a dialogue that is over. */
    }
    struct learner *learner = &peer->learner;

    learner->fetch_token = 0;
    if (fetched->err == ERR_CORRUPT) {
        quarantine_self(zab, "a record of the log is damaged: refilling from another replica");
        return;
    }
    if (fetched->err != ERR_OK) {
        /* The record was purged before the learner got it: the learner starts again, and gets a
         * snapshot. */
        PROBE("zab.learner_fell_behind_log");
        fx_disconnect(zab, peer->id);
        return;
    }
    for (size_t i = 0; i < fetched->rec_count; i++) {
        struct logrec *rec = fetched->recs[i];

        if (rec->prev != learner->sent || !trail_has(&zab->trail, rec->zxid) ||
            !flight_has_room(zab, &learner->flight)) {
            break;
        }
        send_record(zab, peer, rec);
    }
    ASSERT(learner_is_sound(zab, learner));
    sync_pump(zab, peer);
}
