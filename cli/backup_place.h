/*
 * backup_place.h - where a backup is put: a file, a pipe, or a directory with chains of backups.
 *
 * The order is: lock the directory, list it, choose what the new backup continues, write a part,
 * publish it under its name, remove what a policy does not keep. The lock is held until
 * backup_place_close(), so that what was listed stays true. Some network file systems have no such
 * locks: before the new backup gets its name, the directory is therefore listed again.
 *
 * Functions that return an exit code have reported the error. One thread.
 */
#ifndef CLI_BACKUP_PLACE_H
#define CLI_BACKUP_PLACE_H

#include "cli/backup_files.h"
#include "cli/cli.h"

enum {
    BACKUP_SINCE_MAX = 64
};

enum backup_kind {
    BACKUP_TO_FILE,
    BACKUP_TO_DIR,
    BACKUP_TO_PIPE
};

/* What publishing, or the replica, has shown about the backup. */
enum backup_fate {
    BACKUP_DONE,
    BACKUP_FAILED,     /* The error was reported. */
    BACKUP_NEEDS_FULL, /* An increment is of no use, and a note says why. */
};

struct backup_place {
    struct cli *cli;
    const char *target; /* FILE, DIR or "-". */
    enum backup_kind kind;
    struct backup_lock lock;    /* Of DIR. */
    struct backup_dir dir;      /* What DIR has. */
    char path[BACKUP_PATH_MAX]; /* Of the file when it is complete. */
    char part[BACKUP_PATH_MAX]; /* While it is written. */
    int fd;                     /* Of the part; -1: none is open. */
};

/* Finds out what the target is. A directory is locked, cleaned of unfinished backups, and listed.
 * Call backup_place_close() also after an error. */
int backup_place_open(struct backup_place *place, struct cli *cli, const char *target);

/* Whether the newest chain of the directory can be continued; then `since` gets the end of its
 * newest file. False: a full backup is needed, and a note says why. */
bool backup_place_find_last(struct backup_place *place, char since[BACKUP_SINCE_MAX]);

/* Whether a full backup must follow the increment that was made at `made_ms`, because of the age or
 * the length of its chain. Both times are by the clocks of the ensemble. */
bool backup_place_needs_full(const struct backup_place *place, int64_t made_ms,
                             int64_t full_every_ms);

/* Opens the part, or the pipe. */
int backup_place_begin(struct backup_place *place, bool full);

/* Removes the part; the backups of before stay. */
void backup_place_drop(struct backup_place *place);

/* Gives the part, which was synced and checked, its name, and closes it. An increment must still
 * continue the newest file. */
enum backup_fate backup_place_publish(struct backup_place *place, bool full);

/* Removes what the policy does not keep. `made_ms`: the time of the new backup, by the clocks of
 * the ensemble; `ahead_ms`: how far the clock here was ahead of them when the backup was made.
 * Nothing is removed if the clocks differ, which a note says. */
int backup_place_prune(struct backup_place *place, const struct backup_policy *policy,
                       int64_t made_ms, int64_t ahead_ms);

/* Removes the part, if one is open, and releases the lock. */
void backup_place_close(struct backup_place *place);

/* Reports an error of the system about a path. Returns CMD_FAILED. */
int backup_place_fail(const struct backup_place *place, const char *path, int error);

#endif
