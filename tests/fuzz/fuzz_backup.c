/*
 * Backups by an attacker that computes checksums. A script says which full backup is written, and
 * which increment behind it; then their bytes are changed, and all checksums, hashes, chains and
 * digests made right again. Reading, checking and restoring end with a sentence, or with a replica
 * that starts: what is checked can be restored.
 */
#include "base/mem.h"
#include "server/process/recover.h"
#include "server/process/restore.h"
#include "server/read/view.h"
#include "tests/fuzz/backup_script.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/state_check.h"
#include "tests/lib/vfs_mem.h"
#include "zab/level.h"
#include "zab/msg.h"

enum {
    POKES_MAX = 8,
    REPAIRS_MAX = 6, /* Of digests: two in each snapshot and backup, and the check of the whole. */
    SEGMENT_BYTES = 64 << 10,
    NEW_HISTORY = 4711,
    INCARNATION = 99,
    EPOCHS_LEFT = 1 << 20
};

/* Bits of the first byte. */
enum {
    HAS_INCREMENT = 1,
    KEEPS_SESSIONS = 2,
    UNTIL_ZXID = 4,
    UNTIL_TIME = 8,
    NO_DIGESTS = 16 /* Digests stay as the script says. */
};

struct trial {
    uint8_t flags;
    uint64_t until;
    int64_t now_ms;
    uint8_t member; /* Index among the members. */
    struct buf files[2];
    size_t count;
};

/* ---- The backups. ---- */

static void read_trial(struct wire_reader *reader, struct trial *trial)
{
    *trial = (struct trial){.flags = wire_get_u8(reader)};
    trial->until = wire_get_u64(reader);
    trial->now_ms = (int64_t)wire_get_u64(reader);
    trial->member = wire_get_u8(reader);
    trial->count = (trial->flags & HAS_INCREMENT) != 0 ? 2 : 1;
    for (size_t i = 0; i < trial->count; i++) {
        buf_init(&trial->files[i], BACKUP_SCRIPT_MAX);
        backup_script_write(reader, &trial->files[i]);
    }
}

/* File u8, offset u16, mask u8; a mask of 0 cuts the file there. */
static void poke(struct trial *trial, struct wire_reader *reader)
{
    for (int i = 0; i < POKES_MAX && fuzz_more(reader); i++) {
        struct buf *file = &trial->files[wire_get_u8(reader) % trial->count];
        size_t offset = wire_get_u16(reader);
        uint8_t mask = wire_get_u8(reader);

        if (file->len == 0) {
            continue;
        }
        if (mask == 0) {
            file->len = offset % file->len;
        } else {
            file->data[offset % file->len] ^= mask;
        }
    }
}

static enum err read_memory(void *ctx, uint64_t offset, void *to, size_t len)
{
    const struct buf *bytes = ctx;

    ASSERT(offset <= bytes->len && len <= bytes->len - offset);
    memcpy(to, bytes->data + offset, len);
    return ERR_OK;
}

static size_t inputs_of(struct trial *trial, struct backup_input inputs[2])
{
    static const char *const names[] = {"full", "more"};

    for (size_t i = 0; i < trial->count; i++) {
        inputs[i] = (struct backup_input){.name = names[i],
                                          .size = trial->files[i].len,
                                          .read = read_memory,
                                          .ctx = &trial->files[i]};
    }
    return trial->count;
}

/* Makes the first digest right that stopped the check. False: none did. */
static bool repair_digest(struct buf *file, const struct replay *replay,
                          const struct backup_mark *mark)
{
    uint64_t digest = replay->state ? state_digest(replay->state) : 0;

    if (!replay->state) {
        return false;
    }
    bool is_new = replay->at == replay->snap_end && !replay_fits_snapshot(replay)
                      ? backup_script_set_snapshot_digest(file, digest)
                      : backup_script_set_digest(file, digest);

    backup_script_repair(file, mark->zxid, mark->chain);
    return is_new;
}

/* Checks the first backups; true if another digest of the last one may help. */
static bool check_first(struct trial *trial, size_t count, struct backup_mark *inout_mark)
{
    struct backup_check *check = mem_zalloc(1, sizeof *check);
    struct backup_mark before = *inout_mark;
    struct backup_input inputs[2];
    char why[BACKUP_WHY_MAX];

    (void)inputs_of(trial, inputs);
    enum err err = backup_check(check, inputs, count, why);
    bool goes_on =
        err == ERR_CORRUPT && repair_digest(&trial->files[count - 1], &check->replay, &before);

    if (err == ERR_OK) {
        *inout_mark = check->at;
    }
    backup_check_release(check);
    mem_free(check);
    return goes_on;
}

static void repair(struct trial *trial)
{
    struct backup_mark mark = {.zxid = 0};

    for (size_t i = 0; i < trial->count; i++) {
        backup_script_repair(&trial->files[i], mark.zxid, mark.chain);
        if ((trial->flags & NO_DIGESTS) == 0) {
            for (int tries = 0; tries < REPAIRS_MAX && check_first(trial, i + 1, &mark); tries++) {
            }
        }
    }
}

/* ---- What must hold. ---- */

static void check_why(enum err err, const char why[BACKUP_WHY_MAX])
{
    ASSERT(memchr(why, 0, BACKUP_WHY_MAX));
    ASSERT(err == ERR_OK || why[0] != '\0');
}

/* As `zabra inspect` does: each file alone. */
static void read_alone(const struct backup_input *input)
{
    static const struct backup_visitor none = {.ctx = NULL};
    struct backup_mark mark = {.is_known = false};
    struct backup_head head;
    struct backup_end end;
    char why[BACKUP_WHY_MAX];
    struct buf memory;
    enum err head_err = backup_read_head(input, &memory, &head, why);

    check_why(head_err, why);
    buf_release(&memory);
    enum err err = backup_read(input, &none, &mark, &end, why);

    check_why(err, why);
    if (err == ERR_OK) {
        ASSERT(head_err == ERR_OK && end.zxid == head.end && end.digest == head.digest);
        ASSERT(memchr(head.release, 0, sizeof head.release));
        for (const char *at = head.release; *at != '\0'; at++) {
            ASSERT(*at > 0x20 && *at < 0x7f);
        }
    }
}

static struct store_options options_of(struct vfs_mem *disk)
{
    return (struct store_options){.vfs = vfs_mem_vfs(disk),
                                  .segment_bytes = SEGMENT_BYTES,
                                  .keep_bytes_max = 1 << 20,
                                  .snapshots_keep = 1,
                                  .salt_seed = 5,
                                  .record_bytes_max = ZAB_RECORD_BYTES_MAX};
}

/* A replica with this directory starts, with the state that was restored. */
static void start(struct vfs_mem *disk, uint32_t id, const struct restore_result *result)
{
    struct store_options options = options_of(disk);
    struct replica_options replica = {
        .zab = {.id = id, .incarnation = 1, .level_max = ZAB_LEVEL_KNOWN}};
    struct view *view = view_new();
    struct store_identity identity;
    struct store_report report;
    struct store *store;

    zab_limits_default(&replica.zab.limits);
    enum err err = store_open(&options, false, &store, &report);

    ASSERT(err == ERR_OK && report.verdict == STORE_CLEAN);
    err = recover(store, &report, view, &replica, &identity);
    ASSERT(err == ERR_OK && !replica.zab.quarantined);
    const struct state *state = view_read(view);

    ASSERT(state && state_applied(state) == result->last);
    ASSERT(state_digest(state) == result->digest && state_history(state) == NEW_HISTORY);
    view_read_done(view);
    ASSERT(zab_config_voters(&replica.zab.config) == 1);
    ASSERT(zab_config_is_voter(&replica.zab.config, id, INCARNATION));
    ASSERT(replica.zab.promised_epoch > zxid_epoch(result->last));
    ASSERT(replica.zab.promised_epoch < UINT32_MAX - EPOCHS_LEFT);
    zab_free(zab_new(&replica.zab)); /* What it asserts of its log holds. */
    recover_release(&replica);
    view_free(view);
    store_close(store, true);
}

static void restore(const struct trial *trial, struct backup_check *check,
                    const struct backup_input *inputs)
{
    const struct zab_config *config = &check->replay.config;
    struct vfs_mem *disk = vfs_mem_new(0);
    struct store_options options = options_of(disk);
    struct restore_target target = {.id = config->members[trial->member % config->count].id,
                                    .incarnation = INCARNATION,
                                    .history = NEW_HISTORY,
                                    .now_ms = trial->now_ms,
                                    .keep_sessions = (trial->flags & KEEPS_SESSIONS) != 0};
    struct restore_result result;
    struct store_report report;
    char why[BACKUP_WHY_MAX];
    enum err err = store_open(&options, false, &target.store, &report);

    ASSERT(err == ERR_OK);
    err = restore_write(&target, check, inputs, trial->count, &result, why);
    check_why(err, why);
    ASSERT(err == ERR_OK);
    store_close(target.store, true);
    state_check(check->replay.state);
    start(disk, target.id, &result);
    vfs_mem_free(disk);
}

static bool fuzz_one(struct slice input)
{
    struct wire_reader reader;
    struct trial trial;
    struct backup_input inputs[2];
    char why[BACKUP_WHY_MAX];

    wire_reader_init(&reader, input);
    read_trial(&reader, &trial);
    poke(&trial, &reader);
    repair(&trial);
    size_t count = inputs_of(&trial, inputs);

    for (size_t i = 0; i < count; i++) {
        read_alone(&inputs[i]);
    }
    struct backup_check *check = mem_zalloc(1, sizeof *check);

    check->until = (struct backup_until){.has_zxid = (trial.flags & UNTIL_ZXID) != 0,
                                         .has_time = (trial.flags & UNTIL_TIME) != 0,
                                         .zxid = trial.until,
                                         .time_ms = (int64_t)trial.until};
    enum err err = backup_check(check, inputs, count, why);

    check_why(err, why);
    if (err == ERR_OK) {
        state_check(check->replay.state);
        restore(&trial, check, inputs);
    }
    backup_check_release(check);
    mem_free(check);
    for (size_t i = 0; i < count; i++) {
        buf_release(&trial.files[i]);
    }
    return err == ERR_OK;
}

/* ---- Seeds. ---- */

static void begin_trial(struct buf *out, uint8_t flags, uint64_t until)
{
    buf_clear(out);
    wire_put_u8(out, flags);
    wire_put_u64(out, until);
    wire_put_u64(out, 5000000);
    wire_put_u8(out, 1);
}

static void fuzz_seeds(struct fuzz_sink *sink)
{
    struct buf bytes;

    buf_init(&bytes, FUZZ_INPUT_MAX);
    begin_trial(&bytes, 0, 0);
    backup_script_seed(&bytes, BACKUP_SEED_LOG);
    fuzz_seed(sink, "log-alone", buf_slice(&bytes));
    begin_trial(&bytes, KEEPS_SESSIONS, 0);
    backup_script_seed(&bytes, BACKUP_SEED_SNAPSHOT);
    fuzz_seed(sink, "snapshot", buf_slice(&bytes));
    begin_trial(&bytes, HAS_INCREMENT, 0);
    backup_script_seed(&bytes, BACKUP_SEED_FUZZY);
    backup_script_seed(&bytes, BACKUP_SEED_INCREMENT);
    fuzz_seed(sink, "increment", buf_slice(&bytes));
    begin_trial(&bytes, HAS_INCREMENT | UNTIL_ZXID, zxid_make(2, 1));
    backup_script_seed(&bytes, BACKUP_SEED_FUZZY);
    backup_script_seed(&bytes, BACKUP_SEED_INCREMENT);
    fuzz_seed(sink, "until-zxid", buf_slice(&bytes));
    begin_trial(&bytes, UNTIL_TIME, 1500);
    backup_script_seed(&bytes, BACKUP_SEED_LOG);
    fuzz_seed(sink, "until-time", buf_slice(&bytes));
    buf_release(&bytes);
}

FUZZ_TARGET(backup)
