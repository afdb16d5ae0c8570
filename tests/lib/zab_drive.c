#include "tests/lib/zab_drive.h"

#include "base/check.h"
#include "base/mem.h"
#include "tests/lib/zab_notice.h"

#include <stdio.h>

enum {
    TICK_STEP_MS = 10,
    PENDING_MAX = 1024
};

/* ---- The model of the disk. ---- */

static void do_append(struct drive *drive, struct logrec *rec)
{
    struct drive_log *log = drive->is_staging ? &drive->staged : NULL;

    /* The zxid before a record shows which of the two it belongs to. */
    if (!log || rec->prev != drive_log_last(log)) {
        log = &drive->disk;
    }
    ASSERT(rec->prev == drive_log_last(log));
    ASSERT(log->count < DRIVE_RECS_MAX);
    log->recs[log->count++] = logrec_ref(rec);
}

static void stage(struct drive *drive, bool is_staging, zxid_t start, uint64_t chain)
{
    drive->is_staging = is_staging;
    drive_log_reset(&drive->staged, start, chain);
}

static void do_change(struct drive *drive, const struct drive_change *change,
                      struct zab_ev_persisted *done)
{
    const struct zab_persist *persist = &change->persist;
    const struct zab_msg_snap_chunk *piece = &change->last_piece;

    switch (persist->type) {
    case ZAB_PERSIST_APPEND:
        do_append(drive, persist->append.rec);
        return;
    case ZAB_PERSIST_TRUNCATE:
        drive_log_cut(&drive->disk, persist->truncate.zxid);
        break;
    case ZAB_PERSIST_PROMISE:
        ASSERT(persist->promise.epoch > drive->promised);
        drive->promised = persist->promise.epoch;
        drive->promised_leader = persist->promise.leader;
        return;
    case ZAB_PERSIST_JOIN:
        drive->bootstrapping = false;
        return;
    case ZAB_PERSIST_QUARANTINE:
        drive->quarantined = true;
        return;
    case ZAB_PERSIST_RELEASE:
        drive->quarantined = false;
        return;
    case ZAB_PERSIST_RESET:
        drive_log_reset(&drive->disk, 0, 0);
        break;
    case ZAB_PERSIST_SNAP_BEGIN:
    case ZAB_PERSIST_SNAP_ABORT:
        stage(drive, false, 0, 0);
        return;
    case ZAB_PERSIST_SNAP_CHUNK:
        if (piece->flags & ZAB_FLAG_SNAP_LAST) {
            stage(drive, true, piece->start, piece->start_chain);
        }
        return;
    case ZAB_PERSIST_SNAP_INSTALL:
        if (drive->install_fails) {
            drive->install_fails = false;
            done->err = ERR_CORRUPT;
        } else {
            drive_log_copy(&drive->disk, &drive->staged);
        }
        stage(drive, false, 0, 0);
        break;
    }
    done->last = drive_log_last(&drive->disk);
    done->last_chain = drive_log_chain(&drive->disk, done->last);
}

/* ---- Recorded effects. ---- */

/* A copy that lives until drive_clear. */
static void *own(struct drive *drive, const void *data, size_t size)
{
    void *copy = mem_dup(data ? data : "", size);

    if (drive->owned_count == drive->owned_cap) {
        drive->owned_cap = drive->owned_cap ? drive->owned_cap * 2 : 64;
        drive->owned = mem_realloc(drive->owned, drive->owned_cap * sizeof drive->owned[0]);
    }
    drive->owned[drive->owned_count++] = copy;
    return copy;
}

static void own_slice(struct drive *drive, struct slice *bytes)
{
    bytes->data = own(drive, bytes->data, bytes->len);
}

/* The slice that a message carries, or NULL. */
static struct slice *slice_of(struct zab_msg *msg)
{
    switch ((int)msg->type) {
    case ZAB_NEWEPOCH:
        return &msg->newepoch.config;
    case ZAB_SNAP_CHUNK:
        return &msg->snap_chunk.bytes;
    case ZAB_NEWLEADER:
        return &msg->newleader.config;
    case ZAB_ACK_NEWLEADER:
        return &msg->ack.payload;
    case ZAB_PING:
        return &msg->ping.payload;
    case ZAB_PONG:
        return &msg->pong.payload;
    case ZAB_FORWARD:
    case ZAB_FORWARD_REPLY:
        return &msg->forward.bytes;
    case ZAB_CONFIG:
        return &msg->config.bytes;
    default:
        return NULL;
    }
}

static void own_message(struct drive *drive, struct zab_msg *msg)
{
    if (zab_msg_rec(msg)) {
        (void)logrec_ref(zab_msg_rec(msg));
    }
    if (slice_of(msg)) {
        own_slice(drive, slice_of(msg));
    }
    if (msg->type == ZAB_ACKEPOCH) {
        msg->ackepoch.ranges = own(drive, msg->ackepoch.ranges,
                                   msg->ackepoch.range_count * sizeof msg->ackepoch.ranges[0]);
    }
}

/* What the core must never send, in any test. */
static void judge_message(struct drive *drive, const struct zab_msg *msg)
{
    zxid_t last = drive_log_last(&drive->disk);

    if (msg->type == ZAB_ACKEPOCH) {
        ASSERT(drive->promised >= msg->epoch);
        ASSERT(msg->ackepoch.last <= last);
    } else if (msg->type == ZAB_NEWEPOCH) {
        ASSERT(drive->promised == msg->epoch);
    } else if (msg->type == ZAB_ACK_NEWLEADER) {
        ASSERT(!drive->quarantined);
        ASSERT(zxid_epoch(last) == msg->epoch && msg->ack.zxid <= last);
    } else if (msg->type == ZAB_ACK) {
        ASSERT(msg->ack.zxid <= last);
    } else if (msg->type == ZAB_CEPOCH) {
        ASSERT(msg->cepoch.promised == drive->promised);
        drive->dialogue = msg->dialogue;
    } else if (msg->type == ZAB_VOTE) {
        ASSERT(msg->vote.last <= last);
        drive->round = msg->vote.round;
    }
}

/* What the core must never do. */
static void judge(struct drive *drive, const struct zab_effect *effect)
{
    if (effect->type == ZAB_FX_DELIVER) {
        const struct logrec *rec = effect->deliver.rec;

        ASSERT(rec->prev == drive->delivered);
        ASSERT(rec->zxid <= drive_log_last(&drive->disk));
        drive->delivered = rec->zxid;
        drive->delivered_count++;
    } else if (effect->type == ZAB_FX_SEND) {
        judge_message(drive, &effect->send.msg);
    }
}

static void take_change(struct drive *drive, struct zab_persist *persist)
{
    ASSERT(drive->pending_count < PENDING_MAX);
    ASSERT(drive->pending_count == 0 ||
           drive->pending[drive->pending_count - 1].persist.token < persist->token);
    if (persist->type == ZAB_PERSIST_APPEND) {
        (void)logrec_ref(persist->append.rec);
    } else if (persist->type == ZAB_PERSIST_SNAP_CHUNK) {
        own_slice(drive, &persist->snap_chunk.bytes);
    } else if (persist->type == ZAB_PERSIST_JOIN) {
        persist->join.config = own(drive, persist->join.config, sizeof *persist->join.config);
    }
    drive->pending[drive->pending_count++] = (struct drive_change){.persist = *persist};
}

static void take(struct drive *drive, const struct zab_effect *from)
{
    struct zab_effect effect = *from;

    judge(drive, &effect);
    if (effect.type == ZAB_FX_SEND) {
        own_message(drive, &effect.send.msg);
    } else if (effect.type == ZAB_FX_PERSIST) {
        take_change(drive, &effect.persist);
    } else if (effect.type == ZAB_FX_FORWARDED) {
        own_slice(drive, &effect.forwarded.bytes);
        drive->forwarded = effect.forwarded;
    } else if (effect.type == ZAB_FX_REFUSED) {
        own_slice(drive, &effect.refused.bytes);
    } else if (effect.type == ZAB_FX_PING_PAYLOAD) {
        own_slice(drive, &effect.ping_payload.bytes);
    } else if (effect.type == ZAB_FX_FETCH) {
        drive->fetch = effect;
    } else if (effect.type == ZAB_FX_SNAP_FETCH) {
        drive->snap_fetch[effect.snap_fetch.peer] = effect.snap_fetch;
    } else if (effect.type == ZAB_FX_RESTORE) {
        drive->restore = effect;
    }
    if (drive->seen_count == drive->seen_cap) {
        drive->seen_cap = drive->seen_cap ? drive->seen_cap * 2 : 64;
        drive->seen = mem_realloc(drive->seen, drive->seen_cap * sizeof drive->seen[0]);
    }
    drive->seen[drive->seen_count++] = effect;
}

static bool is_change(const struct zab_effect *effect, enum zab_persist_type type)
{
    return effect->type == ZAB_FX_PERSIST && effect->persist.type == type;
}

void drive_clear(struct drive *drive)
{
    for (size_t i = 0; i < drive->seen_count; i++) {
        const struct zab_effect *effect = &drive->seen[i];

        if (effect->type == ZAB_FX_SEND) {
            logrec_unref(zab_msg_rec(&effect->send.msg));
        } else if (effect->type == ZAB_FX_DELIVER) {
            logrec_unref(effect->deliver.rec);
        } else if (is_change(effect, ZAB_PERSIST_APPEND)) {
            logrec_unref(effect->persist.append.rec);
        }
    }
    for (size_t i = 0; i < drive->owned_count; i++) {
        mem_free(drive->owned[i]);
    }
    drive->seen_count = 0;
    drive->owned_count = 0;
}

static bool is_message(const struct zab_effect *effect, uint32_t peer, enum zab_msg_type type)
{
    return effect->type == ZAB_FX_SEND && effect->send.peer == peer &&
           effect->send.msg.type == type;
}

const struct zab_msg *drive_sent(const struct drive *drive, uint32_t peer, enum zab_msg_type type)
{
    for (size_t i = drive->seen_count; i-- > 0;) {
        const struct zab_effect *effect = &drive->seen[i];

        if (is_message(effect, peer, type)) {
            return &effect->send.msg;
        }
    }
    return NULL;
}

size_t drive_sent_count(const struct drive *drive, uint32_t peer, enum zab_msg_type type)
{
    size_t count = 0;

    for (size_t i = 0; i < drive->seen_count; i++) {
        count += is_message(&drive->seen[i], peer, type);
    }
    return count;
}

const struct zab_effect *drive_effect(const struct drive *drive, enum zab_effect_type type)
{
    for (size_t i = drive->seen_count; i-- > 0;) {
        if (drive->seen[i].type == type) {
            return &drive->seen[i];
        }
    }
    return NULL;
}

const char *drive_notice(const struct drive *drive, enum zab_effect_type type)
{
    static char text[ZAB_TEXT_MAX];

    ASSERT(type == ZAB_FX_HALT || type == ZAB_FX_ALARM);
    zab_notice_text(&drive_effect(drive, type)->notice, text);
    return text;
}

size_t drive_effect_count(const struct drive *drive, enum zab_effect_type type)
{
    size_t count = 0;

    for (size_t i = 0; i < drive->seen_count; i++) {
        count += drive->seen[i].type == type;
    }
    return count;
}

const struct zab_persist *drive_asked(const struct drive *drive, enum zab_persist_type type)
{
    for (size_t i = drive->seen_count; i-- > 0;) {
        const struct zab_effect *effect = &drive->seen[i];

        if (is_change(effect, type)) {
            return &effect->persist;
        }
    }
    return NULL;
}

struct zab_status drive_status(const struct drive *drive)
{
    struct zab_status status;

    zab_status(drive->observed, &status);
    return status;
}

static void drop_change(const struct drive_change *change)
{
    if (change->persist.type == ZAB_PERSIST_APPEND) {
        logrec_unref(change->persist.append.rec);
    }
}

/* ---- Start and end. ---- */

void drive_init(struct drive *drive, uint32_t id, uint32_t voters)
{
    struct zab_config *config = &drive->init.config;

    ASSERT(id >= 1 && id <= voters && voters <= DRIVE_SEEDS_MAX);
    *drive = (struct drive){.now_ms = 1000};
    drive->pending = mem_zalloc(PENDING_MAX, sizeof drive->pending[0]);
    zab_limits_default(&drive->init.limits);
    drive->init.limits.window_max = 64;
    drive->init.id = id;
    drive->init.incarnation = DRIVE_INCARNATION + id;
    drive->init.seed_count = voters;
    drive->init.rng_seed = id;
    config->history = 7;
    config->count = voters;
    memset(config->cluster, 5, sizeof config->cluster);
    for (uint32_t i = 0; i < voters; i++) {
        drive->seeds[i] = (struct zab_seed){.id = i + 1, .voter = true};
        config->members[i] = (struct zab_member){
            .id = i + 1, .voter = true, .incarnation = DRIVE_INCARNATION + i + 1};
    }
}

void drive_prepare(struct drive *drive)
{
    struct zab_init *init = &drive->init;

    init->seeds = drive->seeds;
    init->ranges = drive->ranges;
    init->range_count = drive_log_ranges(&drive->disk, drive->ranges);
    init->log_base = drive->disk.base;
    init->log_last = drive_log_last(&drive->disk);
    init->log_chain = drive_log_chain(&drive->disk, init->log_last);
    init->committed_chain = drive_log_chain(&drive->disk, init->committed);
    init->now_ms = drive->now_ms;
    if (init->promised_epoch < zxid_epoch(init->log_last)) {
        init->promised_epoch = zxid_epoch(init->log_last);
    }
    drive->promised = init->promised_epoch;
    drive->promised_leader = init->promised_leader;
    drive->quarantined = init->quarantined;
    drive->bootstrapping = init->bootstrapping;
    drive->delivered = init->committed;
}

void drive_start(struct drive *drive)
{
    drive_prepare(drive);
    drive->zab = zab_new(&drive->init);
    drive->observed = drive->zab;
    drive_tick(drive, 0);
}

void drive_release(struct drive *drive)
{
    drive_clear(drive);
    for (size_t i = 0; i < drive->pending_count; i++) {
        drop_change(&drive->pending[i]);
    }
    mem_free(drive->pending);
    mem_free(drive->seen);
    mem_free(drive->owned);
    zab_free(drive->zab);
    drive_log_release(&drive->disk);
    drive_log_release(&drive->staged);
    drive_log_release(&drive->theirs);
}

/* ---- Events. ---- */

/* Takes all of them; returns whether a restore among them needs an answer at once. */
static bool take_all(struct drive *drive, const struct zab_effects *effects)
{
    bool restore = false;

    for (size_t i = 0; i < effects->count; i++) {
        take(drive, &effects->items[i]);
        restore |= effects->items[i].type == ZAB_FX_RESTORE;
    }
    return restore && !drive->restores_by_hand;
}

static bool step_once(struct drive *drive, struct zab_event *event)
{
    struct zab_effects effects;

    zab_effects_init(&effects);
    event->now_ms = drive->now_ms;
    event->age_ms = drive->age_ms;
    if (drive->host) {
        drive->host(drive->host_ctx, event, &effects);
    } else {
        zab_step(drive->zab, event, &effects);
    }
    bool restore = take_all(drive, &effects);

    zab_effects_release(&effects);
    return restore;
}

/* Reports the state as loaded. If the core then requests another load, reports that one, too. */
void drive_restored(struct drive *drive)
{
    bool again = true;

    while (again) {
        zxid_t start = drive->restore.restore.start;
        struct zab_event event = {
            .type = ZAB_EV_RESTORED,
            .restored = {.start = start,
                         .start_chain = drive_log_chain(&drive->disk, start),
                         .end = drive->restored_end ? drive->restored_end : start,
                         .digest = drive->restored_digest},
        };

        drive->delivered = start;
        again = step_once(drive, &event);
    }
}

void drive_take(struct drive *drive, const struct zab_effects *effects)
{
    if (take_all(drive, effects)) {
        drive_restored(drive);
    }
}

void drive_step(struct drive *drive, struct zab_event *event)
{
    if (step_once(drive, event)) {
        drive_restored(drive);
    }
}

zxid_t drive_propose(struct drive *drive, const char *text)
{
    struct zab_effects effects;
    zxid_t zxid = zab_next_zxid(drive->zab);

    zab_effects_init(&effects);
    ASSERT(zab_propose(drive->zab, slice_str(text), &effects) == ERR_OK);
    drive_take(drive, &effects);
    zab_effects_release(&effects);
    return zxid;
}

void drive_pause(struct drive *drive, uint64_t ms)
{
    struct zab_event event = {.type = ZAB_EV_TICK};

    drive->now_ms += ms;
    drive_step(drive, &event);
}

void drive_tick(struct drive *drive, uint64_t ms)
{
    uint64_t end_ms = drive->now_ms + ms;

    do {
        uint64_t rest_ms = end_ms - drive->now_ms;

        drive_pause(drive, rest_ms < TICK_STEP_MS ? rest_ms : TICK_STEP_MS);
    } while (drive->now_ms < end_ms);
}

void drive_up_as(struct drive *drive, uint32_t peer, uint64_t incarnation, bool bootstrapping)
{
    struct zab_ev_peer_up up = {
        .incarnation = incarnation, .bootstrapping = bootstrapping, .level = drive->peer_level};
    struct zab_event event = {.type = ZAB_EV_PEER_UP, .peer = peer, .peer_up = up};

    if (!bootstrapping) {
        memset(event.peer_up.cluster, 5, sizeof event.peer_up.cluster);
    }
    drive_step(drive, &event);
}

void drive_up(struct drive *drive, uint32_t peer)
{
    drive_up_as(drive, peer, DRIVE_INCARNATION + peer, false);
}

void drive_down(struct drive *drive, uint32_t peer)
{
    struct zab_event event = {.type = ZAB_EV_PEER_DOWN, .peer = peer};

    drive_step(drive, &event);
}

/* The start of a snapshot is in its file, which the model does not have: the model takes it from
 * the message with the last piece, if the core has kept that piece. */
static void note_last_piece(struct drive *drive, uint64_t last_token,
                            const struct zab_msg_snap_chunk *piece)
{
    for (size_t i = 0; i < drive->pending_count; i++) {
        struct drive_change *change = &drive->pending[i];

        if (change->persist.token > last_token && change->persist.type == ZAB_PERSIST_SNAP_CHUNK) {
            change->last_piece = *piece;
        }
    }
}

void drive_recv(struct drive *drive, uint32_t peer, const struct zab_msg *msg)
{
    struct zab_event event = {.type = ZAB_EV_RECV, .peer = peer, .msg = msg};
    size_t count = drive->pending_count;
    uint64_t last_token = count > 0 ? drive->pending[count - 1].persist.token : 0;

    drive_step(drive, &event);
    if (msg->type == ZAB_SNAP_CHUNK) {
        note_last_piece(drive, last_token, &msg->snap_chunk);
    }
}

bool drive_persist_next(struct drive *drive)
{
    if (drive->pending_count == 0) {
        return false;
    }
    struct drive_change change = drive->pending[0];
    struct zab_event event = {.type = ZAB_EV_PERSISTED, .persisted.token = change.persist.token};

    drive->pending_count--;
    memmove(drive->pending, drive->pending + 1, drive->pending_count * sizeof drive->pending[0]);
    do_change(drive, &change, &event.persisted);
    drop_change(&change);
    drive_step(drive, &event);
    return true;
}

void drive_persist(struct drive *drive)
{
    while (drive_persist_next(drive)) {
        ASSERT(drive->pending_count < PENDING_MAX);
    }
}

void drive_fetched(struct drive *drive)
{
    zxid_t after = drive->fetch.fetch.after;
    struct zab_event event = {.type = ZAB_EV_FETCHED, .fetched.token = drive->fetch.fetch.token};
    size_t first = 0;

    drive->fetch.fetch.token = 0;

    while (first < drive->disk.count && drive->disk.recs[first]->zxid <= after) {
        first++;
    }
    if (after < drive->disk.base) {
        event.fetched.err = ERR_MISSING;
    } else {
        event.fetched.recs = &drive->disk.recs[first];
        event.fetched.rec_count = drive->disk.count - first;
    }
    drive_step(drive, &event);
}
