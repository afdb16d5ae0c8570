/*
 * Phase 2 on the learner's side, when the leader has purged records that the learner lacks: a
 * snapshot is received.
 *
 * The snapshot comes with the log that makes its state consistent, (start, end]. Both are staged,
 * that is kept beside the old ones, until one switch on disk (SNAP_INSTALL) puts both in place.
 * Until the switch the old log is used, in memory too. The staged data outlasts the dialogue. A
 * leader that has the same snapshot file can continue an incomplete file. If the file is whole, any
 * leader whose log reaches back to the end of the staged log can continue that log.
 */
#include "zab/zab_int.h"

static void clear_partial(struct zab *zab)
{
    blob_unref(zab->partial.bytes);
    zab->partial = (struct partial){0};
}

/* Begins to receive a snapshot from its first byte. */
static void begin(struct zab *zab)
{
    ASSERT(zab->follow.phase == FOLLOW_SNAP);

    (void)fx_persist(zab, ZAB_PERSIST_SNAP_BEGIN);
    clear_partial(zab);
    zab->follow.snap.begun = true;
    zab->follow.staged_used = true;
    zab->follow.snap.offset = 0;
}

void follow_snap_begin(struct zab *zab)
{
    ASSERT(zab->follow.phase == FOLLOW_ACKED && !zab->follow.installing);
    ASSERT(!zab->follow.snap.begun && zab->follow.chunk_count == 0);
    ASSERT(!zab->follow.newleader_seen && !zab->follow.has_staged_config);

    zab->follow.phase = FOLLOW_SNAP;
    trail_reset(&zab->follow.staged, 0, 0);
    if (zab->partial.id == 0 || zab->partial.is_whole) {
        /* There is no transfer to resume: this replica has no part of a snapshot, or it has the
         * whole file. In the second case the leader sends a new snapshot only because the leader's
         * log no longer reaches back to the end of the staged log. */
        begin(zab);
    }
}

/* ---- Pieces. ---- */

/* Installs snapshot and log in place of the old ones once the staged log covers (start, end]. */
static void install_if_whole(struct zab *zab)
{
    struct following *follow = &zab->follow;

    if (!follow->snap.complete || follow->installing || follow->staged.last < follow->snap.end) {
        return;
    }
    ASSERT(follow->snap.start <= follow->snap.end);
    follow->installing = true;
    follow->wait_token = fx_persist(zab, ZAB_PERSIST_SNAP_INSTALL)->token;
    follow->wait_state = true;
    follow->phase = FOLLOW_CUT;
}

/* Takes the first chunk, which shows whether the leader resumes the broken transfer. */
static void take_first(struct zab *zab, const struct zab_msg_snap_chunk *chunk)
{
    struct following *follow = &zab->follow;

    ASSERT(follow->phase == FOLLOW_SNAP && !follow->snap.begun && zab->partial.id != 0);
    if (chunk->offset == 0) {
        begin(zab);
        return;
    }
    if (chunk->snap_id == zab->partial.id || MUTANT(41)) {
        PROBE("zab.snapshot_resumed");
        follow->snap.offset = zab->partial.offset;
        follow->snap.id = chunk->snap_id;
        follow->snap.begun = true;
        follow->staged_used = true;
        clear_partial(zab);
    }
}

static bool is_of_this_snapshot(const struct following *follow,
                                const struct zab_msg_snap_chunk *chunk)
{
    return follow->snap.begun && chunk->offset == follow->snap.offset &&
           (chunk->offset == 0 || chunk->snap_id == follow->snap.id);
}

void follow_snap_chunk(struct zab *zab, const struct zab_msg_snap_chunk *chunk)
{
    struct following *follow = &zab->follow;
    uint32_t chunks_max = sizeof follow->chunks / sizeof follow->chunks[0];

    if (follow->phase == FOLLOW_SNAP && !follow->snap.begun) {
        take_first(zab, chunk);
    }
    if (follow->phase != FOLLOW_SNAP || follow->snap.complete ||
        !is_of_this_snapshot(follow, chunk) || follow->chunk_count == chunks_max ||
        chunk->end < chunk->start || zxid_epoch(chunk->end) > follow->epoch) {
        follow_error(zab, "the leader sent a piece of a snapshot at a time when none was expected");
        return;
    }
    struct zab_persist *persist = fx_persist(zab, ZAB_PERSIST_SNAP_CHUNK);

    persist->snap_chunk.offset = chunk->offset;
    persist->snap_chunk.bytes = chunk->bytes;
    follow->snap.id = chunk->snap_id;
    follow->snap.offset += chunk->bytes.len;
    follow->chunks[follow->chunk_count].token = persist->token;
    follow->chunks[follow->chunk_count].offset = follow->snap.offset;
    follow->chunk_count++;
    if (!(chunk->flags & ZAB_FLAG_SNAP_LAST)) {
        return;
    }
    follow->snap.complete = true;
    follow->snap.start = chunk->start;
    follow->snap.end = chunk->end;
    trail_reset(&follow->staged, chunk->start, chunk->start_chain);
    install_if_whole(zab);
}

void follow_snap_persisted(struct zab *zab, uint64_t token)
{
    ASSERT(zab->follow.phase == FOLLOW_SNAP);

    struct following *follow = &zab->follow;
    uint32_t done = 0;

    while (done < follow->chunk_count && follow->chunks[done].token <= token) {
        done++;
    }
    if (done == 0) {
        return;
    }
    uint64_t offset = follow->chunks[done - 1].offset;

    follow->chunk_count -= done;
    memmove(follow->chunks, follow->chunks + done, follow->chunk_count * sizeof follow->chunks[0]);
    tell_leader(zab, (struct zab_msg){.type = ZAB_SNAP_ACK, .snap_ack.offset = offset});
}

/* ---- The log that belongs to the snapshot. ---- */

static void stage_config(struct zab *zab, const struct logrec *rec)
{
    struct following *follow = &zab->follow;
    struct zab_config config;

    config_verify(zab, rec);
    if (zab_config_decode(logrec_payload(rec), &config) != ERR_OK ||
        config.level > zab->level_max) {
        return; /* The process stops. */
    }
    if (follow->has_staged_config) {
        /* A leader proposes a configuration only after the previous one is committed, so the one
         * that was staged before is committed. */
        config_bind(zab, &follow->staged_config, blob_slice(follow->staged_bytes));
    }
    config.version = rec->zxid;
    config_keep(&config, logrec_payload(rec), &follow->staged_bytes);
    follow->staged_config = config;
    follow->has_staged_config = true;
}

static bool stage_record(struct zab *zab, struct logrec *rec)
{
    struct following *follow = &zab->follow;

    ASSERT(follow->staged_used && follow->snap.complete && !follow->installing);
    if (!follow_fits(zab, &follow->staged, rec)) {
        return false;
    }
    if (rec->type == LOGREC_CONFIG) {
        stage_config(zab, rec);
    }
    zxid_t proof = zab_proven_config(rec);

    follow->staged_proof = proof != 0 ? proof : follow->staged_proof;

    struct zab_persist *persist = fx_persist(zab, ZAB_PERSIST_APPEND);

    persist->append.rec = logrec_ref(rec);
    trail_append(&follow->staged, rec, persist->token);
    return true;
}

void follow_snap_record(struct zab *zab, const struct zab_msg *msg)
{
    struct logrec *rec = zab_msg_rec(msg);

    ASSERT(zab->follow.phase == FOLLOW_SNAP);
    if (!zab->follow.snap.complete || (msg->type == ZAB_ENTRY && !rec)) {
        follow_error(zab, "the leader sent a record before the end of the snapshot");
        return;
    }
    if (rec && !stage_record(zab, rec)) {
        return;
    }
    if (msg->type == ZAB_NEWLEADER) {
        if (zxid_epoch(zab->follow.staged.last) != zab->follow.epoch) {
            follow_error(
                zab, "the leader sent NEWLEADER without the EPOCH record that begins its epoch");
            return;
        }
        zab->follow.newleader_seen = true;
    }
    install_if_whole(zab);
}

/* ---- Partial and complete snapshots. ---- */

void follow_snap_forget(struct zab *zab)
{
    if (zab->partial.id != 0) {
        PROBE("zab.partial_forgotten");
        (void)fx_persist(zab, ZAB_PERSIST_SNAP_ABORT);
        clear_partial(zab);
        trail_reset(&zab->follow.staged, 0, 0);
    }
}

static bool is_worth_keeping(const struct following *follow)
{
    ASSERT(follow->staged_used && !follow->installing);

    return follow->phase == FOLLOW_SNAP && follow->snap.offset > 0 && follow->snap.id != 0 &&
           !MUTANT(42) && !(follow->snap.complete && MUTANT(43));
}

static void keep_partial(struct zab *zab)
{
    const struct following *follow = &zab->follow;

    ASSERT(zab->partial.id == 0);
    zab->partial = (struct partial){.id = follow->snap.id, .offset = follow->snap.offset};
    if (follow->snap.complete) {
        PROBE("zab.whole_snapshot_broken_off");
        zab->partial.is_whole = true;
        zab->partial.end = follow->snap.end;
        zab->partial.has_config = follow->has_staged_config;
        zab->partial.config = follow->staged_config;
        zab->partial.bytes = blob_ref(follow->staged_bytes);
        zab->partial.proof = follow->staged_proof;
    }
}

/* Ends the reception when the dialogue ends. If the snapshot's id is known, the next dialogue can
 * continue the reception: the received part of the file stays on the disk and, if the file is
 * whole, the staged log stays, too. */
void follow_snap_abort(struct zab *zab)
{
    struct following *follow = &zab->follow;

    ASSERT(zab->state != ZAB_LEADING);
    if (follow->staged_used && !follow->installing) {
        if (is_worth_keeping(follow)) {
            PROBE("zab.snapshot_broken_off");
            keep_partial(zab);
        } else {
            PROBE("zab.snapshot_aborted");
            (void)fx_persist(zab, ZAB_PERSIST_SNAP_ABORT);
            trail_reset(&follow->staged, 0, 0);
        }
    }
    follow->staged_used = false;
}

/* Continues the staged log of a snapshot whose file is whole. The leader sends the records after
 * the end of that log. */
void follow_snap_continue(struct zab *zab, zxid_t common)
{
    struct following *follow = &zab->follow;
    const struct partial *partial = &zab->partial;

    ASSERT(follow->phase == FOLLOW_ACKED && partial->is_whole);
    if (common != follow->staged.last) {
        follow_error(
            zab,
            "the leader's SYNC leaves out a part of the log that belongs to the snapshot of this "
            "replica");
        return;
    }
    ASSERT(follow->staged.last < partial->end && !follow->installing);
    PROBE("zab.snapshot_log_resumed");
    follow->phase = FOLLOW_SNAP;
    follow->snap.begun = true;
    follow->snap.complete = true;
    follow->staged_used = true;
    follow->snap.id = partial->id;
    follow->snap.offset = partial->offset;
    follow->snap.start = follow->staged.base;
    follow->snap.end = partial->end;
    follow->has_staged_config = partial->has_config;
    follow->staged_config = partial->config;
    ASSERT(!follow->staged_bytes);
    follow->staged_bytes = blob_ref(partial->bytes);
    follow->staged_proof = partial->proof;
    clear_partial(zab);
}

/* Requests that the host load the state at `start`, the base of the log as it is now. */
static void load_state(struct zab *zab, zxid_t start)
{
    ASSERT(!zab->restore.missed || zab->restore.under_way == 1);

    zab->digests = (struct checkpoints){0}; /* Digests of the old state must not be sent. */
    zab->restore.start = start;
    if (zab->restore.missed) {
        zab->restore.missed = false; /* This load replaces the load that failed. */
    } else {
        zab->restore.under_way++;
    }
    fx_add(zab, ZAB_FX_RESTORE)->restore.start = start;
}

static void halt_without_state(struct zab *zab)
{
    ASSERT(zab->restore.under_way > 0);
    fx_halt(zab, (struct zab_notice){.type = ZAB_NOTICE_UNREADABLE_SNAPSHOT,
                                     .zxid = zab->restore.start});
}

/* Handles the completion of the switch on disk, in any role: puts the new log in place and has the
 * host load the state. */
void follow_install_done(struct zab *zab, const struct zab_ev_persisted *done)
{
    struct following *follow = &zab->follow;
    struct trail old = zab->trail;

    ASSERT(follow->installing || MUTANT(11));
    follow->installing = false;
    follow->staged_used = false;
    if (done->err != ERR_OK) {
        PROBE("zab.install_refused");
        trail_reset(&follow->staged, 0, 0);
        /* The disk is full or the snapshot does not verify. The next snapshot may fail in the same
         * way, so the next dialogue begins a tick later. */
        zab->rejoin_ms = zab->now_ms + ticks_ms(zab, 1);
        if (zab->restore.missed) {
            /* An earlier load of the state failed, and only this install would have requested
             * another load. So no state will come. */
            halt_without_state(zab);
        }
        return;
    }
    PROBE("zab.installed");
    (void)trail_persisted(&follow->staged, done->token);
    zab->trail = follow->staged;
    follow->staged = old;
    trail_reset(&follow->staged, 0, 0);
    log_outline_cut(zab, 0);
    if (follow->has_staged_config) {
        config_pend(zab, &follow->staged_config, blob_slice(follow->staged_bytes));
        config_prove(zab, follow->staged_proof);
    }
    ASSERT(zab->trail.base == follow->snap.start);
    ASSERT(zab->trail.durable == zab->trail.last);
    ASSERT(zab->trail.durable >= follow->snap.end || MUTANT(11));
    zab->has_snapshot = true;
    zab->committed = max_u64(follow->snap.end, zab->committed);
    config_committed(zab);
    load_state(zab, follow->snap.start);
    fx_role(zab);
}

void follow_reset_done(struct zab *zab)
{
    ASSERT(zab->quarantined);

    trail_reset(&zab->trail, 0, 0);
    log_outline_cut(zab, 0);
    zab->has_snapshot = false;
    zab->committed = 0;
    zab->delivery.last = 0;
    zab->delivery.chain = 0;
    load_state(zab, 0);
    fx_role(zab);
}

/* Whether another reset or install of the log is on its way to the disk. */
static bool is_switch_pending(const struct zab *zab)
{
    for (uint32_t i = 0; i < zab->disk.change_count; i++) {
        enum zab_persist_type type = zab->disk.changes[i].type;

        if (type == ZAB_PERSIST_RESET || type == ZAB_PERSIST_SNAP_INSTALL) {
            return true;
        }
    }
    return false;
}

void follow_on_restored(struct zab *zab, const struct zab_ev_restored *restored)
{
    ASSERT(zab->restore.under_way > 0 && !zab->restore.missed);

    /* A second reset or install may have been done before the first state was loaded. Then this
     * answer may be about the state of an older log, and only the last answer counts. */
    if (zab->restore.under_way > 1) {
        PROBE("zab.restored_again");
        zab->restore.under_way--;
        return;
    }
    if (restored->err != ERR_OK || restored->start != zab->restore.start) {
        if (is_switch_pending(zab)) {
            zab->restore.missed = true;
        } else {
            halt_without_state(zab);
        }
        return;
    }
    zab->restore.under_way = 0;
    zab->delivery.last = restored->start;
    zab->delivery.chain = restored->start_chain;
    zab->delivery.fuzzy_end = restored->end;
    /* The state may belong to an earlier dialogue, while a new install is on its way to the disk:
     * resume only when the disk has finished. */
    if (is_learner(zab) && zab->follow.phase == FOLLOW_CUT &&
        zab->disk.done >= zab->follow.wait_token) {
        follow_resume(zab);
    }
}
