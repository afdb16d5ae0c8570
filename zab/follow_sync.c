/* Phase 2 on the learner's side: what synchronisation does to the log. */
#include "zab/zab_int.h"

void follow_error(struct zab *zab, const char *what)
{
    ASSERT(in_dialogue(zab));

    PROBE("zab.illegal_message");
    zab->follow.snap.id = 0;
    follow_snap_forget(zab);
    fx_disconnect(zab, zab->follow.leader);
    enter_looking(zab, what);
}

/* ---- SYNC. ---- */

/* Drops the whole log and the state of a replica in quarantine. The quarantine mark stays until the
 * refill is done. */
static void begin_refill(struct zab *zab, zxid_t common)
{
    ASSERT(zab->quarantined && zab->follow.phase == FOLLOW_ACKED);

    if (common != 0) {
        follow_error(zab, "the leader's SYNC continues the log of this replica, which is damaged");
        return;
    }
    PROBE("zab.refill_from_start");
    zab->follow.wait_token = fx_persist(zab, ZAB_PERSIST_RESET)->token;
    zab->follow.phase = FOLLOW_CUT;
    zab->follow.wait_state = true;
}

static void cut_back(struct zab *zab, zxid_t common)
{
    ASSERT(trail_has(&zab->trail, common) && common < zab->trail.last);

    zxid_t known = config_is_proven(zab) ? zab->config.pending.version : 0;
    zxid_t committed = min_u64(max_u64(zab->committed, known), zab->trail.last);

    /* NOLINTNEXTLINE(misc-redundant-expression): MUTANT(n) is 0 in a release build. */
    if (common < committed && !MUTANT(5) && !MUTANT(6)) {
        /* Rule 6 (README.md): never obey this SYNC. A quorum has lost committed data. */
        fx_halt(zab, (struct zab_notice){.type = ZAB_NOTICE_COMMITTED_LOST,
                                         .peer = zab->follow.leader,
                                         .zxid = common,
                                         .committed = committed});
        return;
    }
    (void)trail_truncate(&zab->trail, common);
    log_outline_cut(zab, common);
    struct zab_persist *persist = fx_persist(zab, ZAB_PERSIST_TRUNCATE);

    persist->truncate.zxid = common;
    zab->follow.wait_token = persist->token;
    zab->follow.wait_state = false;
    zab->follow.phase = FOLLOW_CUT;
    ASSERT(zab->trail.last == common && zab->trail.durable <= common);
}

void follow_sync(struct zab *zab, const struct zab_msg_sync *sync)
{
    ASSERT(in_dialogue(zab));

    if (zab->follow.phase != FOLLOW_ACKED) {
        follow_error(zab, "the leader sent SYNC at a time when SYNC was not expected");
        return;
    }
    if (MUTANT(1)) {
        (void)fx_persist_promise(zab, zab->follow.epoch, zab->follow.leader | MUTANT_EPOCH_WRITTEN);
    }
    zab->follow.acked = 0;
    zab->follow.target = sync->target;
    if (sync->flags & ZAB_FLAG_SNAP) {
        follow_snap_begin(zab);
        return;
    }
    if (zab->partial.is_whole) {
        follow_snap_continue(zab, sync->common);
        return;
    }
    follow_snap_forget(zab); /* This replica's log grows now: it keeps no partial snapshot. */
    if (zab->quarantined) {
        begin_refill(zab, sync->common);
    } else if (!trail_has(&zab->trail, sync->common)) {
        follow_error(zab,
                     "the leader's SYNC names a record that is not in the log of this replica");
    } else if (zab->trail.last > sync->common) {
        cut_back(zab, sync->common);
    } else {
        zab->follow.phase = FOLLOW_STREAM;
    }
}

/* ---- Records. ---- */

/* Whether the record has the next counter of its epoch, or starts a later epoch that is at most the
 * leader's. */
static bool is_next(const struct zab *zab, zxid_t last, const struct logrec *rec)
{
    uint32_t epoch = zxid_epoch(rec->zxid);

    if (rec->prev != last || epoch > zab->follow.epoch ||
        (rec->type == LOGREC_EPOCH) != (zxid_counter(rec->zxid) == 0)) {
        return false;
    }
    return zxid_counter(rec->zxid) == 0 ? epoch > zxid_epoch(last) : rec->zxid == last + 1;
}

/* Whether the record follows the log exactly. A gap is an error, never a warning (ZOOKEEPER-4925).
 */
bool follow_fits(struct zab *zab, const struct trail *trail, const struct logrec *rec)
{
    ASSERT(trail == &zab->trail || trail == &zab->follow.staged);
    if (!is_next(zab, trail->last, rec) && !MUTANT(10)) {
        follow_error(zab,
                     "the leader sent a record that does not continue the log of this replica");
        return false;
    }
    if (logrec_chain(trail->last_chain, rec->type, rec->zxid, rec->prev, logrec_payload(rec)) !=
            rec->chain &&
        !MUTANT(10)) {
        fx_halt(zab, (struct zab_notice){.type = ZAB_NOTICE_HISTORIES_DIFFER,
                                         .peer = zab->follow.leader,
                                         .zxid = rec->zxid});
        return false;
    }
    return true;
}

static void inbox_push(struct zab *zab, const struct zab_msg *msg)
{
    struct following *follow = &zab->follow;
    struct logrec *rec = zab_msg_rec(msg);

    if (follow->inbox.count == INBOX_MAX) {
        follow_error(zab, "the leader sent too many records while this replica was "
                          "changing its log or loading its state");
        return;
    }
    MEM_GROW(follow->inbox.items, follow->inbox.count, follow->inbox.cap, INBOX_MAX);
    follow->inbox.items[follow->inbox.count++] = (struct inbox_item){
        .type = msg->type,
        .rec = rec ? logrec_ref(rec) : NULL,
        .commit = msg->type == ZAB_ENTRY ? msg->entry.commit : 0,
    };
}

static void take_newleader(struct zab *zab, struct logrec *rec)
{
    zxid_t start = zxid_make(zab->follow.epoch, 0);

    if (rec && rec->zxid != start) {
        follow_error(zab, "the leader sent NEWLEADER with a record of another epoch");
        return;
    }
    if (rec) {
        if (!follow_fits(zab, &zab->trail, rec)) {
            return;
        }
        log_append(zab, logrec_ref(rec));
    } else if (zxid_epoch(zab->trail.last) != zab->follow.epoch) {
        follow_error(zab, "the leader sent NEWLEADER without the EPOCH record that begins its "
                          "epoch");
        return;
    }
    ASSERT(zxid_epoch(zab->trail.last) == zab->follow.epoch);
    zab->follow.phase = FOLLOW_NEWLEADER;
    follow_acknowledge(zab);
}

static void take_entry(struct zab *zab, struct logrec *rec, zxid_t commit)
{
    if (!follow_fits(zab, &zab->trail, rec)) {
        return;
    }
    log_append(zab, logrec_ref(rec));
    if (commit != 0 && zab->follow.phase == FOLLOW_SERVE) {
        commit_to(zab, commit);
    }
}

void follow_stream(struct zab *zab, const struct zab_msg *msg)
{
    enum follow_phase phase = zab->follow.phase;

    ASSERT(in_dialogue(zab));
    if (msg->type == ZAB_ENTRY && !msg->entry.rec) {
        follow_error(zab, "the leader sent ENTRY without a record");
    } else if (msg->type == ZAB_NEWLEADER && !config_adopt(zab, msg->newleader.config)) {
        follow_error(zab, "the leader sent NEWLEADER with a malformed configuration");
    } else if (phase == FOLLOW_CUT) {
        inbox_push(zab, msg);
    } else if (phase == FOLLOW_SNAP) {
        follow_snap_record(zab, msg);
    } else if (phase < FOLLOW_STREAM) {
        follow_error(zab, "the leader sent a record at a time when none was expected");
    } else if (msg->type == ZAB_ENTRY) {
        take_entry(zab, msg->entry.rec, msg->entry.commit);
    } else if (phase == FOLLOW_STREAM) {
        take_newleader(zab, msg->newleader.rec);
    } else {
        follow_error(zab, "the leader sent NEWLEADER at a time when NEWLEADER was not expected");
    }
}

/* ---- Back in the stream. ---- */

static void inbox_run(struct zab *zab)
{
    struct following *follow = &zab->follow;
    uint32_t count = follow->inbox.count;
    struct inbox_item *items = follow->inbox.items;

    /* Handling a message may end the role, and follow_leave then drops the messages in the inbox:
     * take them out of it first. */
    follow->inbox = (struct inbox){0};
    for (uint32_t i = 0; i < count; i++) {
        struct inbox_item *item = &items[i];
        bool live = is_learner(zab);

        if (live && item->type == ZAB_NEWLEADER && follow->phase == FOLLOW_STREAM) {
            take_newleader(zab, item->rec);
        } else if (live && item->type == ZAB_ENTRY && follow->phase >= FOLLOW_STREAM) {
            take_entry(zab, item->rec, item->commit);
        }
        logrec_unref(item->rec);
    }
    mem_free(items);
}

void follow_resume(struct zab *zab)
{
    ASSERT(zab->follow.phase == FOLLOW_CUT && !zab->follow.installing);
    ASSERT(zab->disk.done >= zab->follow.wait_token);

    zab->follow.phase = FOLLOW_STREAM;
    zab->follow.wait_state = false;
    if (zab->follow.newleader_seen) {
        zab->follow.newleader_seen = false;
        zab->follow.phase = FOLLOW_NEWLEADER;
    }
    inbox_run(zab);
    if (is_learner(zab)) {
        follow_acknowledge(zab);
    }
}

void follow_sync_persisted(struct zab *zab, const struct zab_ev_persisted *done)
{
    struct following *follow = &zab->follow;

    ASSERT(is_learner(zab));
    if (follow->phase == FOLLOW_SNAP) {
        follow_snap_persisted(zab, done->token);
        return;
    }
    if (follow->phase != FOLLOW_CUT || done->token < follow->wait_token) {
        return;
    }
    if (done->err == ERR_NO_SPACE) {
        fx_disconnect(zab, follow->leader);
        enter_looking(zab, "no disk space for the received snapshot");
    } else if (done->err != ERR_OK) {
        follow_error(zab, "the received snapshot fails verification");
    } else if (!follow->wait_state || zab->restore.under_way == 0) {
        follow_resume(zab); /* There is no state to wait for, or it is loaded already. */
    }
}

/* ---- Acknowledgements: only of what the disk has confirmed. ---- */

static void send_ack(struct zab *zab, enum zab_msg_type type, zxid_t zxid)
{
    struct zab_msg msg = {.type = type, .ack.zxid = zxid};

    ASSERT(zxid >= zab->follow.acked);
    zab->follow.acked = zxid;
    if (type == ZAB_ACK_NEWLEADER) {
        msg.ack.payload = buf_slice(&zab->ping_payload);
    }
    tell_leader(zab, msg);
}

/* Acknowledges the records up to `zxid`, which are durable, unless that was done before. */
static void ack_newer(struct zab *zab, enum zab_msg_type type, zxid_t zxid)
{
    if (zxid > zab->follow.acked) {
        send_ack(zab, type, zxid);
    }
}

/*
 * Ends quarantine once the refilled log holds all that the leader's log held at SYNC. Before the
 * damage this disk may have acknowledged records of the leader's epoch. It counts again only when
 * it has those records.
 */
static void release_refilled(struct zab *zab, zxid_t durable)
{
    struct following *follow = &zab->follow;

    if (durable < follow->target) {
        ack_newer(zab, ZAB_SYNC_ACK, durable); /* This makes room in the leader's window. */
    } else if (!follow->release_sent) {
        PROBE("zab.refilled");
        follow->release_sent = true;
        (void)fx_persist(zab, ZAB_PERSIST_RELEASE);
    }
}

/* Acknowledges NEWLEADER once everything up to the epoch's start is durable. */
static void acknowledge_newleader(struct zab *zab)
{
    struct following *follow = &zab->follow;
    zxid_t durable = MUTANT(2) ? zab->trail.last : zab->trail.durable;

    if (durable < zxid_make(follow->epoch, 0)) {
        return;
    }
    if (zab->quarantined) {
        release_refilled(zab, durable);
        return;
    }
    follow->phase = FOLLOW_WAIT;
    send_ack(zab, ZAB_ACK_NEWLEADER, durable);
}

void follow_acknowledge(struct zab *zab)
{
    struct following *follow = &zab->follow;

    ASSERT(in_dialogue(zab));
    if (follow->phase == FOLLOW_SNAP && follow->snap.complete) {
        ack_newer(zab, ZAB_SYNC_ACK, follow->staged.durable);
    } else if (follow->phase == FOLLOW_STREAM) {
        ack_newer(zab, ZAB_SYNC_ACK, zab->trail.durable);
    } else if (follow->phase == FOLLOW_NEWLEADER) {
        acknowledge_newleader(zab);
    } else if (follow->phase > FOLLOW_NEWLEADER) {
        ack_newer(zab, ZAB_ACK, zab->trail.durable);
    }
}
