#include "server/backup/backup_check.h"

#include "base/check.h"
#include "server/state/txn.h"
#include "zab/level.h"
#include "zab/msg.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

static enum err refuse(struct backup_check *check, enum err err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static enum err refuse(struct backup_check *check, enum err err, const char *format, ...)
{
    char text[BACKUP_WHY_MAX];
    va_list args;

    va_start(args, format);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): `args` was just started. */
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)snprintf(check->why, BACKUP_WHY_MAX, "%.200s%s%.300s", check->name ? check->name : "",
                   check->name ? ": " : "", text);
    return err;
}

static enum err begin_full(struct backup_check *check, const struct backup_head *head)
{
    struct replay *replay = &check->replay;

    if (check->has_full) {
        return refuse(check, ERR_GAP,
                      "is a full backup behind another one: give one full backup, then increments");
    }
    check->has_full = true;
    check->history = head->history;
    check->least = head->least;
    memcpy(check->cluster, head->cluster, sizeof check->cluster);
    if (zab_config_decode(head->config, &replay->config) != ERR_OK) {
        return ERR_CORRUPT;
    }
    replay_keep_bytes(&replay->config_bytes, head->config);
    enum err err = replay_check_level(replay, &replay->config);

    if (err != ERR_OK) {
        return refuse(check, err, "%s", replay->reason);
    }
    if (head->snapshot_bytes == 0) {
        replay->state = state_new(replay->config.history);
    }
    return ERR_OK;
}

static enum err on_head(void *ctx, const struct backup_head *head)
{
    struct backup_check *check = ctx;

    check->end = head->end;
    check->made_ms = head->made_ms;
    if (head->full) {
        return begin_full(check, head);
    }
    if (!check->has_full) {
        return refuse(check, ERR_GAP,
                      "is an increment, but the first backup: give the full backup before it");
    }
    if (head->history != check->history ||
        memcmp(head->cluster, check->cluster, sizeof check->cluster) != 0) {
        return refuse(check, ERR_GAP, "%s",
                      head->history != check->history
                          ? "is from another history than the full backup"
                          : "is from another cluster than the full backup");
    }
    return ERR_OK;
}

static enum err on_snapshot(void *ctx, const struct vfs *vfs, const char *name)
{
    struct backup_check *check = ctx;
    struct store_snap_reader *reader;
    struct store_snap_info info;
    enum err err = store_snap_open_file(vfs, name, ZAB_RECORD_BYTES_MAX, &reader, &info);

    if (err != ERR_OK) {
        return ERR_CORRUPT;
    }
    bool is_foreign =
        !slice_eq(store_snap_cluster(reader), slice_make(check->cluster, sizeof check->cluster));

    err = is_foreign ? ERR_CORRUPT : replay_snapshot(&check->replay, reader, &info);
    store_snap_close(reader);
    if (err == ERR_NEWER) {
        return refuse(check, err, "%s", check->replay.reason);
    }
    if (err == ERR_OK && info.start == info.end && !replay_fits_snapshot(&check->replay)) {
        err = ERR_CORRUPT;
    }
    return err;
}

/* Whether the record lies behind the place where the replay is to stop. A change of the members has
 * the time of the transaction before it. */
static bool is_behind(struct backup_check *check, const struct logrec *rec)
{
    struct wire_reader reader;
    struct txn_header header;

    if (check->until.has_zxid && rec->zxid > check->until.zxid) {
        return true;
    }
    if (check->until.has_time && rec->type == LOGREC_TXN &&
        txn_open(&reader, logrec_payload(rec), &header) == ERR_OK &&
        header.stamp_ms > check->until.time_ms) {
        check->next_ms = header.stamp_ms;
        return true;
    }
    return false;
}

static enum err on_record(void *ctx, struct logrec *rec)
{
    struct backup_check *check = ctx;

    check->is_cut = check->is_cut || is_behind(check, rec);
    if (check->is_cut) {
        return ERR_OK; /* The rest of the file is read, too: all of it must be sound. */
    }
    enum err err = replay_record(&check->replay, rec);

    if (err == ERR_NEWER) {
        return refuse(check, err, "%s", check->replay.reason);
    }
    check->records++;
    return err == ERR_OK ? ERR_OK : ERR_CORRUPT;
}

static void on_progress(void *ctx, uint64_t bytes, uint64_t size)
{
    struct backup_check *check = ctx;

    if (check->on_progress) {
        check->on_progress(check->progress_ctx, bytes, size);
    }
}

/* Whether a restored ensemble has epochs and zxids left: its sessions are closed behind the place
 * where the replay has stopped. */
static enum err check_numbers(struct backup_check *check)
{
    const struct replay *replay = &check->replay;
    uint32_t epoch = max_u32(zxid_epoch(check->end), zxid_epoch(replay->config.version));
    uint64_t counters = UINT32_MAX - zxid_counter(replay->at);

    if (epoch > BACKUP_EPOCH_MAX) {
        return refuse(check, ERR_TOO_LARGE,
                      "has epoch %" PRIu32 ": above %" PRIu32 " no ensemble can be restored", epoch,
                      (uint32_t)BACKUP_EPOCH_MAX);
    }
    if (counters < state_session_count(replay->state)) {
        return refuse(check, ERR_TOO_LARGE,
                      "is restored at zxid 0x%" PRIx64
                      ": no zxids are left in its epoch to close its sessions",
                      replay->at);
    }
    return ERR_OK;
}

static enum err check_one(struct backup_check *check, const struct backup_input *input)
{
    const struct backup_visitor visitor = {.on_head = on_head,
                                           .on_snapshot = on_snapshot,
                                           .on_record = on_record,
                                           .on_progress = on_progress,
                                           .ctx = check};
    struct backup_end end;

    check->name = input->name;
    enum err err = backup_read(input, &visitor, &check->mark, &end, check->why);

    if (err == ERR_OK && !check->is_cut && state_digest(check->replay.state) != end.digest) {
        err = refuse(check, ERR_CORRUPT,
                     "the state at its end has another digest than that of the replica");
    }
    if (err == ERR_OK &&
        memcmp(check->replay.config.cluster, check->cluster, sizeof check->cluster) != 0) {
        err = refuse(check, ERR_CORRUPT, "has a configuration of another cluster");
    }
    if (err == ERR_OK) {
        check->sound++;
        check->sound_end = check->end;
    }
    return err;
}

/* Whether the place where the replay was to stop lies in the backups. */
static enum err check_until(struct backup_check *check)
{
    const struct backup_until *until = &check->until;

    check->last_ms = state_stamp_ms(check->replay.state);
    if (until->has_zxid && until->zxid > check->end) {
        return refuse(check, ERR_BAD_ARGUMENTS,
                      "zxid 0x%" PRIx64 " lies behind the end of the backups, 0x%" PRIx64
                      ": give the increments up to it",
                      until->zxid, check->end);
    }
    if (check->at.zxid < check->least) {
        return refuse(check, ERR_BAD_ARGUMENTS,
                      "this full backup can be restored at zxid 0x%" PRIx64
                      " at the earliest: use an older one",
                      check->least);
    }
    if (until->has_time && check->last_ms == 0) {
        return refuse(check, ERR_BAD_ARGUMENTS,
                      "no transaction of the backups is as old as the time: give a later time, or "
                      "an older backup");
    }
    if (until->has_time && check->last_ms > until->time_ms) {
        return refuse(check, ERR_BAD_ARGUMENTS,
                      "this full backup is later than the time: use an older one");
    }
    return ERR_OK;
}

enum err backup_check(struct backup_check *check, const struct backup_input *inputs, size_t count,
                      char why[BACKUP_WHY_MAX])
{
    enum err err = ERR_OK;

    ASSERT(count > 0);
    check->why = why;
    check->replay.level_max = ZAB_LEVEL_KNOWN;
    check->mark = (struct backup_mark){.is_known = false};
    check->sound = 0;
    for (size_t i = 0; i < count && err == ERR_OK; i++) {
        if (check->ends_early && check->is_cut) {
            break;
        }
        err = check->open ? check->open(check->open_ctx, i, why) : ERR_OK;
        THEN(err, check_one(check, &inputs[i]));
    }
    THEN(err, check_numbers(check));
    check->name = NULL;
    if (err != ERR_OK) {
        return err;
    }
    check->at = (struct backup_mark){
        .is_known = true, .zxid = check->replay.at, .chain = check->replay.chain};
    return check_until(check);
}

void backup_check_release(struct backup_check *check)
{
    if (check->replay.state) {
        state_free(check->replay.state);
        check->replay.state = NULL;
    }
    replay_release(&check->replay);
}
