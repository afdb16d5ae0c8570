#include "cli/backup_place.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    CLOCKS_DIFFER_MS = 3600000 /* One of two clocks that differ by more is wrong. */
};

int backup_place_fail(const struct backup_place *place, const char *path, int error)
{
    return cli_fail(place->cli, CMD_FAILED, "File", "%.900s: %s", path, backup_dir_error(error));
}

/* ---- Lock and list. ---- */

static int fail_locked(const struct backup_place *place)
{
    char who[32] = "";

    if (place->lock.holder > 0) {
        (void)snprintf(who, sizeof who, " (process %d)", (int)place->lock.holder);
    }
    return cli_fail(place->cli, CMD_FAILED, "File",
                    "%.900s: another zabra backup%s writes into this directory: wait for its end",
                    place->target, who);
}

static int open_dir(struct backup_place *place)
{
    int error = backup_dir_lock(place->target, &place->lock);

    if (error != 0) {
        return error == EWOULDBLOCK ? fail_locked(place)
                                    : backup_place_fail(place, place->target, error);
    }
    backup_parts_remove(place->target, place->lock.is_held);
    error = backup_dir_list(place->target, BACKUP_FILES_LISTED, &place->dir);
    return error == 0 ? CMD_OK : backup_place_fail(place, place->target, error);
}

int backup_place_open(struct backup_place *place, struct cli *cli, const char *target)
{
    bool is_there = false;
    struct stat stat_of;

    *place = (struct backup_place){
        .cli = cli, .target = target, .fd = -1, .lock = {.fd = -1}, .kind = BACKUP_TO_FILE};
    if (strcmp(target, "-") == 0) {
        place->kind = BACKUP_TO_PIPE;
        return CMD_OK;
    }
    is_there = stat(target, &stat_of) == 0;
    if (is_there && S_ISDIR(stat_of.st_mode)) {
        place->kind = BACKUP_TO_DIR;
    } else if (is_there && !S_ISREG(stat_of.st_mode)) {
        return CLI_USAGE(cli,
                         "%.900s: is neither a file nor a directory: to write to it, give - and "
                         "redirect the standard output",
                         target);
    }
    return place->kind == BACKUP_TO_DIR ? open_dir(place) : CMD_OK;
}

void backup_place_close(struct backup_place *place)
{
    backup_place_drop(place);
    backup_dir_unlock(&place->lock);
    backup_dir_release(&place->dir);
}

/* ---- Choose. ---- */

/* Reads the heads of the newest chain, `*ret_last` that of its newest file. False, with a sentence:
 * one cannot be read, or does not continue the one before it. */
static bool read_chain(const struct backup_place *place, struct backup_head *ret_last,
                       char why[BACKUP_WHY_MAX])
{
    const struct backup_dir *dir = &place->dir;
    size_t first = backup_dir_chain(dir);
    struct backup_head before = {.end = 0};

    for (size_t i = first; i < dir->count; i++) {
        const char *name = dir->files[i].name;

        if (!backup_dir_head(place->target, name, ret_last, why)) {
            return false;
        }
        if (i > first && (ret_last->from != before.end || ret_last->history != before.history)) {
            (void)snprintf(why, BACKUP_WHY_MAX, "%.200s/%s: does not continue the backup before it",
                           place->target, name);
            return false;
        }
        before = *ret_last;
    }
    return true;
}

bool backup_place_find_last(struct backup_place *place, char since[BACKUP_SINCE_MAX])
{
    char why[BACKUP_WHY_MAX];
    struct backup_head head = {.end = 0};

    if (backup_dir_chain(&place->dir) == place->dir.count) {
        out_note(&place->cli->out, "there is no full backup yet: taking one");
        return false;
    }
    if (!read_chain(place, &head, why)) {
        out_note(&place->cli->out, "%s: taking a full backup", why);
        return false;
    }
    (void)snprintf(since, BACKUP_SINCE_MAX, "%016" PRIx64 ":0x%" PRIx64, head.history, head.end);
    return true;
}

bool backup_place_needs_full(const struct backup_place *place, int64_t made_ms,
                             int64_t full_every_ms)
{
    const struct backup_dir *dir = &place->dir;
    size_t first = backup_dir_chain(dir);
    char why[BACKUP_WHY_MAX];
    struct backup_head head;

    if (dir->count - first >= BACKUP_CHAIN_MAX ||
        !backup_dir_head(place->target, dir->files[first].name, &head, why)) {
        return true;
    }
    int64_t age_ms = made_ms - head.made_ms;

    return age_ms < 0 || age_ms >= full_every_ms; /* Negative: one of the clocks was wrong. */
}

/* ---- Write. ---- */

static void name_file(struct backup_place *place, bool full)
{
    char name[BACKUP_NAME_MAX];

    if (place->kind == BACKUP_TO_DIR) {
        backup_dir_name(backup_dir_next_ms(&place->dir, os_wall_ms()), full, name);
        (void)snprintf(place->path, sizeof place->path, "%.3900s/%s", place->target, name);
    } else {
        (void)snprintf(place->path, sizeof place->path, "%.3900s", place->target);
    }
}

/* Gives the part to the owner of the directory, when root takes a backup by hand: the timer, which
 * runs as that user, has to read it. Not in a directory where another user than its owner could
 * have put a file of that name. Returns 0 or an errno. */
static int give_to_owner(const struct backup_place *place)
{
    struct stat folder;
    struct stat part;

    if (geteuid() != 0 || place->kind != BACKUP_TO_DIR || stat(place->target, &folder) != 0 ||
        (folder.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        return 0;
    }
    if (fstat(place->fd, &part) == 0 && part.st_uid == folder.st_uid) {
        return 0; /* Some file systems refuse every change of the owner. */
    }
    return fchown(place->fd, folder.st_uid, folder.st_gid) == 0 ? 0 : errno;
}

int backup_place_begin(struct backup_place *place, bool full)
{
    const char *why = NULL;

    name_file(place, full);
    if (place->kind == BACKUP_TO_PIPE) {
        (void)snprintf(place->part, sizeof place->part, "standard output");
        place->fd = STDOUT_FILENO;
        return CMD_OK;
    }
    (void)snprintf(place->part, sizeof place->part, "%.3990s" BACKUP_PART, place->path);
    place->fd = backup_part_open(place->part, &why);
    if (place->fd < 0) {
        return cli_fail(place->cli, CMD_FAILED, "File", "%.900s: %s", place->part, why);
    }
    int error = give_to_owner(place);

    if (error != 0) {
        backup_place_drop(place);
        return backup_place_fail(place, place->part, error);
    }
    return CMD_OK;
}

void backup_place_drop(struct backup_place *place)
{
    if (place->fd >= 0 && place->kind != BACKUP_TO_PIPE) {
        (void)unlink(place->part);
        (void)close(place->fd);
    }
    place->fd = -1;
}

/* ---- Publish. ---- */

/* Whether the newest file of the directory is still what it was when it was listed. Lists it again,
 * and gives the new file a later name if it is not. */
static int list_again(struct backup_place *place, bool full, bool *ret_same)
{
    char newest[BACKUP_NAME_MAX] = "";
    const struct backup_dir *dir = &place->dir;

    if (dir->count > 0) {
        (void)snprintf(newest, sizeof newest, "%s", dir->files[dir->count - 1].name);
    }
    backup_dir_release(&place->dir);
    int error = backup_dir_list(place->target, BACKUP_FILES_LISTED, &place->dir);

    if (error != 0) {
        return backup_place_fail(place, place->target, error);
    }
    *ret_same = strcmp(newest, dir->count > 0 ? dir->files[dir->count - 1].name : "") == 0;
    if (!*ret_same) {
        name_file(place, full);
    }
    return CMD_OK;
}

enum backup_fate backup_place_publish(struct backup_place *place, bool full)
{
    bool same = true;

    if (place->kind == BACKUP_TO_DIR && list_again(place, full, &same) != CMD_OK) {
        return BACKUP_FAILED;
    }
    if (!same && !full) {
        out_note(&place->cli->out,
                 "%s: another backup was put into this directory meanwhile: taking a full backup",
                 place->target);
        return BACKUP_NEEDS_FULL;
    }
    int error = rename(place->part, place->path) == 0 ? 0 : errno;

    if (error == 0) {
        (void)close(place->fd);
        place->fd = -1;
        error = backup_sync_parent(place->path);
    }
    if (error != 0) {
        (void)backup_place_fail(place, place->path, error);
        return BACKUP_FAILED;
    }
    return BACKUP_DONE;
}

/* ---- Remove. ---- */

int backup_place_prune(struct backup_place *place, const struct backup_policy *policy,
                       int64_t made_ms, int64_t ahead_ms)
{
    char path[BACKUP_PATH_MAX];
    uint32_t removed = 0;

    if (ahead_ms > CLOCKS_DIFFER_MS || ahead_ms < -CLOCKS_DIFFER_MS) {
        out_note(&place->cli->out,
                 "the clock of this machine is %" PRId64 " s %s that of the ensemble: no old "
                 "backup is removed until they agree",
                 (ahead_ms > 0 ? ahead_ms : -ahead_ms) / 1000,
                 ahead_ms > 0 ? "ahead of" : "behind");
        return CMD_OK;
    }
    backup_dir_release(&place->dir);
    int error = backup_dir_list(place->target, BACKUP_FILES_LISTED, &place->dir);

    if (error != 0) {
        return backup_place_fail(place, place->target, error);
    }
    backup_policy_mark(policy, &place->dir, made_ms);
    backup_dir_take_heads(place->target, &place->dir);
    backup_policy_mark(policy, &place->dir, made_ms);
    error = backup_dir_remove(place->target, &place->dir, &removed, path);
    if (error != 0) {
        return backup_place_fail(place, path, error);
    }
    if (removed > 0) {
        out_say(&place->cli->out, "removed %" PRIu32 " old backup%s\n", removed,
                removed == 1 ? "" : "s");
    }
    return CMD_OK;
}
