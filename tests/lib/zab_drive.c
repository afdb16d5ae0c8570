#include "tests/lib/zab_drive.h"

#include "base/check.h"
#include "base/mem.h"

#include <stdio.h>

enum {
    TICK_STEP_MS = 10,
    PENDING_MAX = 1024
};

/* ---- The model of the disk. ---- */

static void do_append(struct drive *drive, struct logrec *rec)
{
    struct drive_log *log = drive->is_staging ? &drive->staged : NULL;

    /* Which of the two a record belongs to, the zxid before it says. */
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

static void do_change(struct drive *drive, const struct zab_effect *effect, struct zab_event *event)
{
    switch (effect->persist) {
    case ZAB_PERSIST_APPEND:
        do_append(drive, effect->rec);
        return;
    case ZAB_PERSIST_TRUNCATE:
        drive_log_cut(&drive->disk, effect->zxid);
        break;
    case ZAB_PERSIST_PROMISE:
        ASSERT(effect->epoch > drive->promised);
        drive->promised = effect->epoch;
        drive->promised_leader = effect->leader;
        return;
    case ZAB_PERSIST_JOIN:
        drive->founding = false;
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
        if (effect->msg.flags & ZAB_FLAG_SNAP_LAST) {
            stage(drive, true, effect->msg.zxid, effect->msg.chain);
        }
        return;
    case ZAB_PERSIST_SNAP_INSTALL:
        if (drive->install_fails) {
            drive->install_fails = false;
            event->err = ERR_CORRUPT;
        } else {
            drive_log_copy(&drive->disk, &drive->staged);
        }
        stage(drive, false, 0, 0);
        break;
    }
    event->zxid = drive_log_last(&drive->disk);
    event->chain = drive_log_chain(&drive->disk, event->zxid);
}

/* ---- Effects, kept. ---- */

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

static void own_message(struct drive *drive, struct zab_msg *msg)
{
    if (msg->rec) {
        (void)logrec_ref(msg->rec);
    }
    msg->bytes.data = own(drive, msg->bytes.data, msg->bytes.len);
    msg->ranges = own(drive, msg->ranges, msg->range_count * sizeof msg->ranges[0]);
}

/* What must never be said, whatever the test does. */
static void judge_message(struct drive *drive, const struct zab_msg *msg)
{
    zxid_t last = drive_log_last(&drive->disk);

    if (msg->type == ZAB_ACKEPOCH) {
        ASSERT(drive->promised >= msg->epoch);
        ASSERT(msg->zxid <= last);
    } else if (msg->type == ZAB_NEWEPOCH) {
        ASSERT(drive->promised == msg->epoch);
    } else if (msg->type == ZAB_ACK_NEWLEADER) {
        ASSERT(!drive->quarantined);
        ASSERT(zxid_epoch(last) == msg->epoch && msg->zxid <= last);
    } else if (msg->type == ZAB_ACK) {
        ASSERT(msg->zxid <= last);
    } else if (msg->type == ZAB_CEPOCH) {
        ASSERT(msg->epoch == drive->promised);
        drive->link = msg->link;
    } else if (msg->type == ZAB_VOTE) {
        ASSERT(msg->commit <= last);
        drive->round = msg->round;
    }
}

/* What must never be done. */
static void judge(struct drive *drive, const struct zab_effect *effect)
{
    if (effect->type == ZAB_FX_DELIVER) {
        ASSERT(effect->rec->prev == drive->delivered);
        ASSERT(effect->zxid <= drive_log_last(&drive->disk));
        drive->delivered = effect->zxid;
        drive->delivered_count++;
    } else if (effect->type == ZAB_FX_SEND) {
        judge_message(drive, &effect->msg);
    }
}

static void take(struct drive *drive, const struct zab_effect *from)
{
    struct zab_effect effect = *from;

    judge(drive, &effect);
    effect.bytes.data = own(drive, from->bytes.data, from->bytes.len);
    if (from->config) {
        effect.config = own(drive, from->config, sizeof *from->config);
    }
    if (effect.type == ZAB_FX_SEND) {
        own_message(drive, &effect.msg);
    }
    if (effect.type == ZAB_FX_PERSIST) {
        ASSERT(drive->pending_count < PENDING_MAX);
        ASSERT(drive->pending_count == 0 ||
               drive->pending[drive->pending_count - 1].token < effect.token);
        drive->pending[drive->pending_count++] = effect;
        if (effect.rec) {
            (void)logrec_ref(effect.rec);
        }
    }
    if (drive->seen_count == drive->seen_cap) {
        drive->seen_cap = drive->seen_cap ? drive->seen_cap * 2 : 64;
        drive->seen = mem_realloc(drive->seen, drive->seen_cap * sizeof drive->seen[0]);
    }
    drive->seen[drive->seen_count++] = effect;
}

void drive_clear(struct drive *drive)
{
    for (size_t i = 0; i < drive->seen_count; i++) {
        logrec_unref(drive->seen[i].rec);
        if (drive->seen[i].type == ZAB_FX_SEND) {
            logrec_unref(drive->seen[i].msg.rec);
        }
    }
    for (size_t i = 0; i < drive->owned_count; i++) {
        mem_free(drive->owned[i]);
    }
    drive->seen_count = 0;
    drive->owned_count = 0;
}

const struct zab_msg *drive_sent(const struct drive *drive, uint32_t peer, enum zab_msg_type type)
{
    for (size_t i = drive->seen_count; i-- > 0;) {
        const struct zab_effect *effect = &drive->seen[i];

        if (effect->type == ZAB_FX_SEND && effect->peer == peer && effect->msg.type == type) {
            return &effect->msg;
        }
    }
    return NULL;
}

size_t drive_sent_count(const struct drive *drive, uint32_t peer, enum zab_msg_type type)
{
    size_t count = 0;

    for (size_t i = 0; i < drive->seen_count; i++) {
        const struct zab_effect *effect = &drive->seen[i];

        count += effect->type == ZAB_FX_SEND && effect->peer == peer && effect->msg.type == type;
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

size_t drive_effect_count(const struct drive *drive, enum zab_effect_type type)
{
    size_t count = 0;

    for (size_t i = 0; i < drive->seen_count; i++) {
        count += drive->seen[i].type == type;
    }
    return count;
}

const struct zab_effect *drive_asked(const struct drive *drive, enum zab_persist_type type)
{
    for (size_t i = drive->seen_count; i-- > 0;) {
        const struct zab_effect *effect = &drive->seen[i];

        if (effect->type == ZAB_FX_PERSIST && effect->persist == type) {
            return effect;
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

/* ---- Life. ---- */

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
    drive->founding = init->founding;
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
        logrec_unref(drive->pending[i].rec);
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

/* Takes all of them; says whether a restore among them is to be answered at once. */
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

/* Says that the state is loaded, and again when that asks for another one. */
void drive_restored(struct drive *drive)
{
    bool again = true;

    while (again) {
        const struct zab_effect *restore = drive_effect(drive, ZAB_FX_RESTORE);
        struct zab_event event = {.type = ZAB_EV_RESTORED,
                                  .zxid = restore->zxid,
                                  .base = drive->restored_end ? drive->restored_end : restore->zxid,
                                  .digest = drive->restored_digest};

        event.chain = drive_log_chain(&drive->disk, restore->zxid);
        drive->delivered = restore->zxid;
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

void drive_up_as(struct drive *drive, uint32_t peer, uint64_t incarnation, bool founding)
{
    struct zab_event event = {
        .type = ZAB_EV_PEER_UP, .peer = peer, .incarnation = incarnation, .flag = founding};

    if (!founding) {
        memset(event.cluster, 5, sizeof event.cluster);
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

/* Where a snapshot starts stands in its file, which the model does not have: it takes that from the
 * message with the last piece, if the core has kept that piece. */
static void note_last_piece(struct drive *drive, uint64_t last_token, const struct zab_msg *msg)
{
    for (size_t i = 0; i < drive->pending_count; i++) {
        struct zab_effect *effect = &drive->pending[i];

        if (effect->token > last_token && effect->persist == ZAB_PERSIST_SNAP_CHUNK) {
            effect->msg =
                (struct zab_msg){.zxid = msg->zxid, .chain = msg->chain, .flags = msg->flags};
        }
    }
}

void drive_recv(struct drive *drive, uint32_t peer, const struct zab_msg *msg)
{
    struct zab_event event = {.type = ZAB_EV_RECV, .peer = peer, .msg = msg};
    size_t count = drive->pending_count;
    uint64_t last_token = count > 0 ? drive->pending[count - 1].token : 0;

    drive_step(drive, &event);
    if (msg->type == ZAB_SNAP_CHUNK) {
        note_last_piece(drive, last_token, msg);
    }
}

bool drive_persist_next(struct drive *drive)
{
    if (drive->pending_count == 0) {
        return false;
    }
    struct zab_effect effect = drive->pending[0];
    struct zab_event event = {.type = ZAB_EV_PERSISTED, .token = effect.token};

    drive->pending_count--;
    memmove(drive->pending, drive->pending + 1, drive->pending_count * sizeof drive->pending[0]);
    do_change(drive, &effect, &event);
    logrec_unref(effect.rec);
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
    const struct zab_effect *fetch = drive_effect(drive, ZAB_FX_FETCH);
    struct zab_event event = {.type = ZAB_EV_FETCHED, .token = fetch->token};
    size_t first = 0;

    while (first < drive->disk.count && drive->disk.recs[first]->zxid <= fetch->zxid) {
        first++;
    }
    if (fetch->zxid < drive->disk.base) {
        event.err = ERR_MISSING;
    } else {
        event.recs = &drive->disk.recs[first];
        event.rec_count = drive->disk.count - first;
    }
    drive_step(drive, &event);
}
