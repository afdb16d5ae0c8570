/* restore: a directory for a replica, out of backups. */
#include "base/os_rng.h"
#include "cli/args.h"
#include "cli/backup_files.h"
#include "cli/inspect_files.h"
#include "cli/out.h"
#include "server/op/ops.h"
#include "server/process/restore.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    FILES_MAX = 1000,
    TIME_MAX = 64,
    SHOW_MS = 250,
    FIELDS_OF_TIME = 6
};

struct restoring {
    const char *dir;
    char part[BACKUP_PATH_MAX]; /* The directory while it is written. */
    uint32_t id;
    bool keep_sessions;
    struct backup_until until;
    const char *until_text;
    const char *files[FILES_MAX];
    size_t count;
    struct backup_open opened[FILES_MAX];
    struct backup_input inputs[FILES_MAX];
    struct backup_check check;
    struct restore_result result;
    uint64_t history;
    const char *verb; /* For the progress. */
    size_t at;        /* The backup that is read. */
    uint64_t shown_ms;
};

static int fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)fprintf(stderr, "zabra restore: ");
    (void)vfprintf(stderr, format, args);
    (void)fprintf(stderr, "\n");
    va_end(args);
    return CMD_FAILED;
}

static void on_progress(void *ctx, uint64_t bytes, uint64_t size)
{
    struct restoring *restoring = ctx;
    uint64_t now_ms = os_now_ms();

    if (size == 0 || !isatty(STDERR_FILENO) || now_ms < restoring->shown_ms + SHOW_MS) {
        return;
    }
    restoring->shown_ms = now_ms;
    (void)fprintf(stderr, "\r%s %" PRIu64 " of %" PRIu64 " MiB (%" PRIu64 " %%) ", restoring->verb,
                  bytes >> 20, size >> 20, bytes * 100 / size);
}

static void end_progress(void)
{
    if (isatty(STDERR_FILENO)) {
        (void)fprintf(stderr, "\r\033[K");
    }
}

/* ---- Before anything is written. ---- */

static int open_files(struct restoring *restoring)
{
    for (size_t i = 0; i < restoring->count; i++) {
        int error = backup_open(restoring->files[i], &restoring->opened[i]);

        if (error != 0) {
            for (size_t j = 0; j < i; j++) {
                backup_close(&restoring->opened[j]);
            }
            return fail("%s: %s", restoring->files[i], strerrordesc_np(error));
        }
        restoring->inputs[i] = restoring->opened[i].input;
    }
    return CMD_OK;
}

static void close_files(struct restoring *restoring)
{
    for (size_t i = 0; i < restoring->count; i++) {
        backup_close(&restoring->opened[i]);
    }
}

/* Whether the directory is missing or empty. */
static int check_dir(struct restoring *restoring)
{
    if (rmdir(restoring->dir) != 0 && errno != ENOENT) {
        return errno == ENOTEMPTY || errno == EEXIST
                   ? fail("%s: is not empty; choose another directory, or move this one away",
                          restoring->dir)
                   : fail("%s: %s", restoring->dir, strerrordesc_np(errno));
    }
    return CMD_OK;
}

static int check_backups(struct restoring *restoring)
{
    struct backup_check *check = &restoring->check;
    char why[BACKUP_WHY_MAX];

    check->until = restoring->until;
    check->on_progress = on_progress;
    check->progress_ctx = restoring;
    restoring->verb = "checked";
    enum err err = backup_check(check, restoring->inputs, restoring->count, why);

    end_progress();
    if (err != ERR_OK) {
        return fail("%s; nothing was written", why);
    }
    if (!restore_is_member(check, restoring->id)) {
        (void)fail("replica %" PRIu32 " is no member in this backup; nothing was written. Its "
                   "members:",
                   restoring->id);
        for (uint32_t i = 0; i < check->replay.config.count; i++) {
            (void)fprintf(stderr, "  replica %" PRIu32 "\n", check->replay.config.members[i].id);
        }
        return CMD_FAILED;
    }
    return CMD_OK;
}

/* ---- The directory. ---- */

static int write_store(struct restoring *restoring, struct vfs vfs)
{
    const struct restore_target base = {.id = restoring->id,
                                        .incarnation = os_random_u64() | 1,
                                        .history = os_random_u64() | 1,
                                        .keep_sessions = restoring->keep_sessions};
    struct restore_target target = base;
    struct store_report report;
    char why[BACKUP_WHY_MAX];
    enum err err = inspect_open(vfs, false, &target.store, &report, NULL);

    if (err != ERR_OK) {
        return fail("%s: %s", restoring->part, err_text(err));
    }
    restoring->history = target.history;
    restoring->verb = "restored";
    err = restore_write(&target, &restoring->check, restoring->inputs, restoring->count,
                        &restoring->result, why);
    end_progress();
    store_close(target.store, err == ERR_OK);
    return err == ERR_OK ? CMD_OK : fail("%s; %s was removed", why, restoring->part);
}

/* Removes the files of a directory that has none but files, and the directory. */
static void remove_part(struct vfs vfs, const char *dir);

static void remove_one(void *arg, const char *name)
{
    const struct vfs *vfs = arg;

    (void)vfs->ops->unlink(vfs->ctx, name);
}

static void remove_part(struct vfs vfs, const char *dir)
{
    (void)vfs.ops->list(vfs.ctx, remove_one, &vfs);
    (void)rmdir(dir);
}

static int write_dir(struct restoring *restoring)
{
    struct vfs vfs;

    (void)snprintf(restoring->part, sizeof restoring->part, "%.4000s.part", restoring->dir);
    if (mkdir(restoring->part, 0700) != 0) {
        return fail("%s: %s%s", restoring->part, strerrordesc_np(errno),
                    errno == EEXIST ? "; an earlier restore has not ended: remove it" : "");
    }
    enum err err = vfs_posix_open(restoring->part, &vfs);

    if (err != ERR_OK) {
        return fail("%s: %s", restoring->part, err_text(err));
    }
    int code = write_store(restoring, vfs);

    if (code != CMD_OK) {
        remove_part(vfs, restoring->part);
    }
    vfs_posix_close(&vfs);
    if (code == CMD_OK && rename(restoring->part, restoring->dir) != 0) {
        return fail("%s: %s", restoring->dir, strerrordesc_np(errno));
    }
    return code;
}

static void report(const struct restoring *restoring)
{
    const struct backup_check *check = &restoring->check;
    const struct restore_result *result = &restoring->result;

    (void)printf("%s: replica %" PRIu32 " at zxid 0x%" PRIx64 ", digest %016" PRIx64
                 ", history %016" PRIx64 "\n",
                 restoring->dir, restoring->id, check->at.zxid, result->digest, restoring->history);
    if (!restoring->keep_sessions) {
        (void)printf("%" PRIu64 " sessions and their ephemerals were removed\n", result->sessions);
    }
    if (restoring->until.has_time && !check->is_cut) {
        (void)printf("the backups end before %s: they were restored to their end\n",
                     restoring->until_text);
    }
    (void)printf(
        "Start this replica, then the other members with empty directories. Replicas with\n"
        "directories of before must not be started again: move these away.\n");
}

static int restore(struct restoring *restoring)
{
    int code = check_dir(restoring);

    if (code == CMD_OK) {
        code = open_files(restoring);
    }
    if (code != CMD_OK) {
        return code;
    }
    code = check_backups(restoring);
    if (code == CMD_OK) {
        code = write_dir(restoring);
    }
    close_files(restoring);
    if (code == CMD_OK) {
        report(restoring);
    }
    backup_check_release(&restoring->check);
    return code;
}

/* ---- The command line. ---- */

/* Parses "2026-11-27T14:02:00Z", or the same without Z in local time. */
static bool take_time(struct restoring *restoring, const char *text)
{
    struct tm tm = {.tm_isdst = -1};
    int end = 0;

    if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour,
               &tm.tm_min, &tm.tm_sec, &end) != FIELDS_OF_TIME ||
        (text[end] != '\0' && strcmp(text + end, "Z") != 0)) {
        return false;
    }
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    restoring->until.has_time = true;
    restoring->until_text = text;
    restoring->until.time_ms = (int64_t)(text[end] == 'Z' ? timegm(&tm) : mktime(&tm)) * 1000;
    return true;
}

static int take_until(struct restoring *restoring, const char *zxid, const char *time)
{
    if (zxid) {
        restoring->until.has_zxid = true;
        if (!op_zxid_parse(slice_str(zxid), &restoring->until.zxid)) {
            return OUT_USAGE(&cmd_restore, "--until-zxid must be a zxid, such as 0x100000045");
        }
    }
    if (time && !take_time(restoring, time)) {
        return OUT_USAGE(&cmd_restore, "--until-time must be like 2026-11-27T14:02:00Z, or without "
                                       "Z in local time");
    }
    return CMD_OK;
}

static int take_id(struct restoring *restoring, const char *id)
{
    int64_t number = 0;

    if (!id || !args_number(id, (struct cmd_range){1, ZAB_ID_MAX, 0}, &number)) {
        return OUT_USAGE(&cmd_restore, "--id must be the number of the replica");
    }
    restoring->id = (uint32_t)number;
    return CMD_OK;
}

static bool take_file(struct restoring *restoring, const char *file)
{
    if (restoring->count == FILES_MAX) {
        return false;
    }
    restoring->files[restoring->count++] = file;
    return true;
}

static int take_args(struct restoring *restoring, int arg_count, char **args)
{
    const char *id = NULL;
    const char *zxid = NULL;
    const char *time = NULL;

    for (int i = 0; i < arg_count;) {
        const char *value;
        bool ok = true;

        if ((value = cmd_option("id", arg_count, args, &i))) {
            id = value;
        } else if ((value = cmd_option("dir", arg_count, args, &i))) {
            restoring->dir = value;
        } else if ((value = cmd_option("until-zxid", arg_count, args, &i))) {
            zxid = value;
        } else if ((value = cmd_option("until-time", arg_count, args, &i))) {
            time = value;
        } else if ((value = cmd_option("from", arg_count, args, &i))) {
            ok = take_file(restoring, value);
        } else if (strcmp(args[i], "--keep-sessions") == 0) {
            restoring->keep_sessions = true;
            i++;
        } else if (args[i][0] == '-') {
            return OUT_USAGE(&cmd_restore, "unexpected argument \"%s\"", args[i]);
        } else {
            ok = take_file(restoring, args[i++]);
        }
        if (!ok) {
            return OUT_USAGE(&cmd_restore, "more than %d backups", (int)FILES_MAX);
        }
    }
    if (restoring->count == 0) {
        return OUT_USAGE(&cmd_restore, "--from FULL is missing");
    }
    if (!restoring->dir || !*restoring->dir) {
        return OUT_USAGE(&cmd_restore, "--dir DIR is missing");
    }
    int code = take_id(restoring, id);

    return code == CMD_OK ? take_until(restoring, zxid, time) : code;
}

static int run(int arg_count, char **args)
{
    struct restoring *restoring = mem_zalloc(1, sizeof *restoring);
    int code = take_args(restoring, arg_count, args);

    if (code == CMD_OK) {
        code = restore(restoring);
    }
    mem_free(restoring);
    return code;
}

const struct cmd cmd_restore = {
    .name = "restore",
    .summary = "make the directory of a replica out of backups",
    .usage = "--from FULL [INCREMENT...] --dir DIR --id N [--until-zxid ZXID] "
             "[--until-time TIME] [--keep-sessions]",
    .text = "Reads a full backup of 'zabra backup', and the increments after it in their order.\n"
            "All of them are checked before anything is written: a damaged, foreign or missing\n"
            "one is named. DIR must be missing or empty. --until-zxid or --until-time stop after\n"
            "the last record that is not later. Replica N becomes the only voter of its cluster,\n"
            "with a new history, so that clients learn that data that they have seen may be\n"
            "gone; start it, then the other members with empty directories, which it refills.\n"
            "Sessions of the backup are closed, unless --keep-sessions gives each its whole\n"
            "timeout. Exit code 0: done; 1: refused or failed, and DIR was not made.\n",
    .run_alone = run};
