/* restore: a directory for a replica, out of backups. */
#include "cli/args.h"
#include "cli/out.h"
#include "cli/restore_int.h"
#include "server/op/ops.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    FIELDS_OF_TIME = 6
};

/* Bytes of one backup only rise: with fewer, the next one has begun. */
static void on_progress(void *ctx, uint64_t bytes, uint64_t size UNUSED)
{
    struct restoring *restoring = ctx;

    if (bytes < restoring->bytes) {
        restoring->read += restoring->bytes;
    }
    restoring->bytes = bytes;
    restoring->progress.bytes = restoring->read + bytes;
    if (isatty(STDERR_FILENO)) {
        progress_show(&restoring->progress, os_now_ms());
    }
}

/* ---- Before anything is written. ---- */

/* For the progress. */
static void take_sizes(struct restoring *restoring)
{
    struct stat stat_of;

    for (size_t i = 0; i < restoring->count; i++) {
        bool is_there = stat(restoring->files[i], &stat_of) == 0;

        restoring->inputs[i] =
            (struct backup_input){.size = is_there ? (uint64_t)stat_of.st_size : 0};
    }
}

/* One behind the wanted moment is never opened: it may be damaged, or belong to another user. */
static enum err open_file(void *ctx, size_t index, char why[BACKUP_WHY_MAX])
{
    struct restoring *restoring = ctx;
    const char *path = restoring->files[index];
    int error = backup_open(path, &restoring->opened[index]);

    if (error != 0) {
        (void)snprintf(why, BACKUP_WHY_MAX, "%.200s: %s", path, strerrordesc_np(error));
        return ERR_IO;
    }
    restoring->opened_count = index + 1;
    restoring->inputs[index] = restoring->opened[index].input;
    return ERR_OK;
}

static void close_files(struct restoring *restoring)
{
    for (size_t i = 0; i < restoring->opened_count; i++) {
        backup_close(&restoring->opened[i]);
    }
    restoring->opened_count = 0;
}

/* Whether the directory is missing, or empty and may be replaced by another one. */
static int check_dir(const struct restoring *restoring)
{
    const char *dir = restoring->dir;
    char parent[BACKUP_PATH_MAX];
    struct stat stat_of;
    struct stat stat_of_parent;
    bool empty = false;

    if (stat(dir, &stat_of) != 0) {
        return errno == ENOENT ? CMD_OK : restoring_fail("%s: %s", dir, strerrordesc_np(errno));
    }
    int error = backup_dir_is_empty(dir, &empty);

    if (error != 0) {
        return restoring_fail("%s: %s", dir, strerrordesc_np(error));
    }
    if (!empty) {
        return restoring_fail("%s: is not empty; choose another directory, or move this one away",
                              dir);
    }
    backup_parent(dir, parent);
    if (stat(parent, &stat_of_parent) == 0 && stat_of_parent.st_dev != stat_of.st_dev) {
        return restoring_fail("%s: is where a file system is mounted; name a directory in it", dir);
    }
    return CMD_OK;
}

static void print_members(const struct restoring *restoring)
{
    const struct zab_config *config = &restoring->check.replay.config;

    (void)restoring_fail("replica %" PRIu32
                         " is no member in this backup; nothing was written. Its "
                         "members:",
                         restoring->id);
    for (uint32_t i = 0; i < config->count; i++) {
        (void)fprintf(stderr, "  replica %" PRIu32 "\n", config->members[i].id);
    }
}

/* Says how to restore what is sound of a directory, after a damaged backup or a gap in it. */
static void hint_at_sound(const struct restoring *restoring)
{
    const struct backup_check *check = &restoring->check;
    zxid_t end = check->is_cut ? min_u64(check->replay.at, check->sound_end) : check->sound_end;

    if (!restoring->from_dir) {
        return;
    }
    if (check->sound > 0) {
        (void)fprintf(stderr,
                      "zabra restore: the backups before it are sound, up to zxid 0x%" PRIx64
                      ". To restore that state, without what was written later:\n"
                      "  zabra restore --from %s --dir %s --id %" PRIu32
                      "%s --until-zxid 0x%" PRIx64 "\n",
                      end, restoring->from_dir, restoring->dir, restoring->id,
                      restoring->keep_sessions ? " --keep-sessions" : "", end);
    } else if (restoring->first > 0) {
        (void)fprintf(stderr,
                      "zabra restore: to restore the backups before it, move %s to another "
                      "directory, and call this again\n",
                      restoring->files[0]);
    }
}

/* Opens and replays the backups. `*ret_late`: they begin after what is wanted, which is not
 * reported if that may be so. */
static int check_backups(struct restoring *restoring, bool may_be_late, bool *ret_late)
{
    struct backup_check *check = &restoring->check;
    char why[BACKUP_WHY_MAX];

    *ret_late = false;
    *check = (struct backup_check){.until = restoring->until,
                                   .ends_early = restoring->from_dir != NULL,
                                   .open = open_file,
                                   .open_ctx = restoring,
                                   .on_progress = on_progress,
                                   .progress_ctx = restoring};
    take_sizes(restoring);
    restoring_begin(restoring, "checked");
    enum err err = backup_check(check, restoring->inputs, restoring->count, why);

    progress_clear(&restoring->progress);
    if (err == ERR_OK && restore_is_member(check, restoring->id)) {
        return CMD_OK;
    }
    *ret_late = may_be_late && err == ERR_BAD_ARGUMENTS;
    if (err == ERR_OK) {
        print_members(restoring);
    } else if (!*ret_late) {
        (void)restoring_fail("%s; nothing was written", why);
        if (err != ERR_BAD_ARGUMENTS) {
            hint_at_sound(restoring);
        }
    }
    close_files(restoring);
    backup_check_release(check);
    return CMD_FAILED;
}

/* ---- The chain of a directory with backups. ---- */

/* Whether a chain that begins with this file can have what is wanted. */
static bool suits(const struct restoring *restoring, const struct backup_file *file)
{
    const struct backup_until *until = &restoring->until;
    char why[BACKUP_WHY_MAX];
    struct backup_head head;

    if (!file->full || (until->has_time && file->made_ms > until->time_ms)) {
        return false;
    }
    /* One that cannot be read is reported when it is replayed. */
    return !until->has_zxid || !backup_dir_head(restoring->from_dir, file->name, &head, why) ||
           head.least <= until->zxid;
}

/* Whether the file has the zxid where the replay is to stop: then those after it are not needed. */
static bool has_until(const struct restoring *restoring, const struct backup_file *file)
{
    char why[BACKUP_WHY_MAX];
    struct backup_head head;

    return restoring->until.has_zxid &&
           backup_dir_head(restoring->from_dir, file->name, &head, why) &&
           head.end >= restoring->until.zxid;
}

static int take_chain(struct restoring *restoring, size_t first)
{
    size_t end = backup_dir_chain_end(&restoring->backups, first);

    restoring->count = 0;
    restoring->first = first;
    for (size_t i = first; i < end; i++) {
        const struct backup_file *file = &restoring->backups.files[i];
        char *path = restoring->paths[restoring->count];

        if (restoring->count == RESTORE_FILES_MAX) {
            return restoring_fail(
                "%s: more than %d increments follow %s; nothing was written. An earlier "
                "moment (--until-zxid) needs fewer",
                restoring->from_dir, (int)RESTORE_FILES_MAX - 1,
                restoring->backups.files[first].name);
        }
        (void)snprintf(path, BACKUP_PATH_MAX, "%.3900s/%s", restoring->from_dir, file->name);
        restoring->files[restoring->count++] = path;
        if (has_until(restoring, file)) {
            break;
        }
    }
    return CMD_OK;
}

/* Checks the newest chain that has what is wanted. The one after it comes first if it begins after
 * the wanted time, and the chain ends before: its log may reach back so far. */
static int check_chain(struct restoring *restoring)
{
    const struct backup_dir *dir = &restoring->backups;
    size_t first = dir->count;
    bool late = false;

    for (size_t i = 0; i < dir->count; i++) {
        if (suits(restoring, &dir->files[i]) || (dir->files[i].full && first == dir->count)) {
            first = i;
        }
    }
    if (first == dir->count) {
        return restoring_fail("%s: has no full backup", restoring->from_dir);
    }
    size_t next = backup_dir_chain_end(dir, first);

    if (restoring->until.has_time && next < dir->count &&
        dir->files[next - 1].made_ms < restoring->until.time_ms) {
        int code = take_chain(restoring, next);

        if (code == CMD_OK) {
            code = check_backups(restoring, true, &late);
        }
        if (!late) {
            return code;
        }
    }
    int code = take_chain(restoring, first);

    return code == CMD_OK ? check_backups(restoring, false, &late) : code;
}

/* Checks the files of the command line, or those of a directory. */
static int check_all(struct restoring *restoring)
{
    bool late = false;
    struct stat stat_of;

    if (restoring->count > 1 || stat(restoring->files[0], &stat_of) != 0 ||
        !S_ISDIR(stat_of.st_mode)) {
        return check_backups(restoring, false, &late);
    }
    restoring->from_dir = restoring->files[0];
    int error = backup_dir_list(restoring->from_dir, BACKUP_FILES_LISTED, &restoring->backups);

    if (error != 0) {
        return restoring_fail("%s: %s", restoring->from_dir, backup_dir_error(error));
    }
    if (restoring->until.has_time) {
        backup_dir_take_heads(restoring->from_dir, &restoring->backups);
    }
    restoring->paths = mem_zalloc(RESTORE_FILES_MAX, sizeof *restoring->paths);
    return check_chain(restoring);
}

/* ---- The result. ---- */

/* Between which transactions the replay has stopped. */
static void report_cut(const struct backup_check *check)
{
    json_auto_t *last = out_time(check->last_ms);
    json_auto_t *next = out_time(check->next_ms);

    (void)printf("the last transaction is of %s, the first one that was left out of %s\n",
                 json_string_value(last), json_string_value(next));
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
    if (restoring->until.has_time && check->is_cut) {
        report_cut(check);
    }
    if (restoring->until.has_time && !check->is_cut) {
        (void)printf("the backups end before %s: they were restored to their end\n",
                     restoring->until_text);
    }
    if (restoring->is_roots) {
        (void)printf("The files belong to root. If the replica has a user of its own, such as "
                     "zabra, first:\n  chown -R zabra: %s\n",
                     restoring->dir);
    }
    (void)printf(
        "Start this replica, then the other members with empty directories. Replicas with\n"
        "directories of before must not be started again: move these away.\n");
}

static int restore(struct restoring *restoring)
{
    int code = check_dir(restoring);

    if (code == CMD_OK) {
        code = check_all(restoring);
    }
    if (code == CMD_OK) {
        code = restoring_write(restoring);
        close_files(restoring);
        if (code == CMD_OK) {
            report(restoring);
        }
        backup_check_release(&restoring->check);
    }
    backup_dir_release(&restoring->backups);
    mem_free(restoring->paths);
    return code;
}

/* ---- The command line. ---- */

/* Parses "2026-11-27T14:02:00Z", or the same without Z in local time. The library would make
 * another moment of a day or an hour that does not exist. */
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
    const struct tm given = tm;

    restoring->until.has_time = true;
    restoring->until_text = text;
    restoring->until.time_ms = (int64_t)(text[end] == 'Z' ? timegm(&tm) : mktime(&tm)) * 1000;
    return tm.tm_mon == given.tm_mon && tm.tm_mday == given.tm_mday &&
           tm.tm_hour == given.tm_hour && tm.tm_min == given.tm_min && tm.tm_sec == given.tm_sec;
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
    if (restoring->count == RESTORE_FILES_MAX) {
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
            return OUT_USAGE(&cmd_restore, "more than %d backups", (int)RESTORE_FILES_MAX);
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
    .usage = "--from FULL [INCREMENT...] | --from BACKUPS --dir DIR --id N [--until-zxid ZXID] "
             "[--until-time TIME] [--keep-sessions]",
    .text =
        "Reads a full backup of 'zabra backup', and the increments after it in their order; of\n"
        "a directory of 'zabra backup' the newest that have the wanted moment. All of them are\n"
        "checked before anything is written: a damaged, foreign or missing one is named. DIR\n"
        "must be missing or empty. --until-zxid or --until-time stop after the last record\n"
        "that is not later. Replica N becomes the only voter of its cluster, with a new\n"
        "history, so that clients learn that data that they have seen may be gone; start it,\n"
        "then the other members with empty directories, which it refills. Sessions of the\n"
        "backup are closed, unless --keep-sessions gives each its whole timeout. Exit code 0:\n"
        "done; 1: refused or failed, and DIR was not made.\n",
    .run_alone = run};
