/*
 * backup_files.h - files with backups: reads them, lists those of a directory, and says which of
 * them a policy keeps.
 *
 * A directory holds files TIME-full.backup and TIME-more.backup, by the UTC time at which they were
 * made, so that their names sort by age. A chain is a full backup and the increments after it, up
 * to the next full one: what is kept or removed is always a whole chain.
 */
#ifndef CLI_BACKUP_FILES_H
#define CLI_BACKUP_FILES_H

#include "cli/cmd.h"
#include "server/backup/backup_check.h"

enum {
    BACKUP_NAME_MAX = 64,
    BACKUP_PATH_MAX = 4096,
    BACKUP_FILES_LISTED = 100000, /* Files of a directory. */
    BACKUP_CHAIN_MAX = 500,       /* Files of a chain that a new increment is added to. */
    BACKUP_RULES_MAX = 8
};

#define BACKUP_SUFFIX ".backup"
#define BACKUP_PART   ".part" /* Added to the name of a backup while it is written. */

/* An open file. */
struct backup_open {
    struct backup_input input;
    int fd;
};

/* Opens a file. Returns 0, or the number of a system error. */
int backup_open(const char *path, struct backup_open *ret_open);
void backup_close(struct backup_open *open);

/* Opens a file for a backup that is to be written, empty, locked, and readable by its owner only. A
 * file that is there already is used only if it can be what a killed backup has left; on a file
 * system without locks it is never used. Returns the descriptor; -1, with a sentence: it cannot be
 * opened, or another process writes it. */
int backup_part_open(const char *path, const char **ret_why);

/* Writes why bytes of a backup could not be written; of a full disk also how many there are about,
 * and for how many there was room. `need` 0: not known. */
void backup_write_why(int fd, int error, uint64_t need, char out[BACKUP_WHY_MAX]);

/* One file of a directory. */
struct backup_file {
    char name[BACKUP_NAME_MAX];
    int64_t made_ms; /* From the name, or from HEAD (backup_dir_take_heads); ms since 1970. */
    bool full;
    bool kept;
};

struct backup_dir {
    struct backup_file *files; /* By age, the oldest first. */
    size_t count;
    size_t cap;
    size_t max;
    bool overflow;
};

/* The lock of a directory, which ends with its process. */
struct backup_lock {
    int fd; /* -1: none. */
    bool is_held;
    pid_t holder; /* The process that has it instead; 0: not known. */
};

/* Locks a directory. Returns 0, or the number of a system error: EWOULDBLOCK if another process has
 * it locked. On a file system without such locks `is_held` stays false. */
int backup_dir_lock(const char *path, struct backup_lock *ret_lock);
void backup_dir_unlock(struct backup_lock *lock);

/* Lists the backups of a directory; other files are ignored. Returns 0, or the number of a system
 * error: EOVERFLOW if there are more than `files_max`. */
int backup_dir_list(const char *path, size_t files_max, struct backup_dir *ret_dir);

/* The text of an error of backup_dir_list. */
const char *backup_dir_error(int error);
void backup_dir_release(struct backup_dir *dir);

/* The path of the directory that a file or directory is in. */
void backup_parent(const char *path, char out[BACKUP_PATH_MAX]);

/* Whether the directory has no entries. Returns 0, or the number of a system error. */
int backup_dir_is_empty(const char *path, bool *ret_empty);

/* Makes the name of a file or directory durable. Returns 0, or the number of a system error. */
int backup_sync_parent(const char *path);

/* Reads the head of a file of the directory, without its configuration. False, with a sentence: it
 * cannot be read. */
bool backup_dir_head(const char *path, const char *name, struct backup_head *ret_head,
                     char why[BACKUP_WHY_MAX]);

/* Replaces the times of the names, which are from the clock of the machine that took the backups,
 * by those of the replicas that made them, as far as the files can be read. */
void backup_dir_take_heads(const char *path, struct backup_dir *dir);

/* Removes the unfinished backups of the directory that no process writes any more; also those that
 * cannot be opened, because they are another user's, if the directory is locked. */
void backup_parts_remove(const char *path, bool is_locked);

/* The time for the name of the next backup: now, but behind the newest one of the directory also
 * when the clock was set back, because chains are read in the order of the names. */
int64_t backup_dir_next_ms(const struct backup_dir *dir, int64_t now_ms);

/* The name of a backup that was made at this time. */
void backup_dir_name(int64_t made_ms, bool full, char name[BACKUP_NAME_MAX]);

/* Of the backups that are at most `age_ms` old, one is kept in each `every_ms`. */
struct backup_rule {
    int64_t age_ms;
    int64_t every_ms;
};

struct backup_policy {
    struct backup_rule rules[BACKUP_RULES_MAX];
    size_t count;
};

/* Parses "24h" or "7d" into ms. False: it is malformed. */
bool backup_span_parse(const char *text, int64_t *ret_ms);

/* Parses "24h:1h,30d:1d". False: it is malformed. */
bool backup_policy_parse(const char *text, struct backup_policy *ret_policy);

/* Index of the first file of the newest chain; `dir->count` if no file is full. */
size_t backup_dir_chain(const struct backup_dir *dir);

/* Index behind the last file of the chain that begins at `first`. */
size_t backup_dir_chain_end(const struct backup_dir *dir, size_t first);

/* Marks, besides what is marked already, what the policy keeps: the newest chain always; of the
 * others those that are the oldest in their interval of a rule. The age of a chain is that of its
 * last file. Pure. */
void backup_policy_mark(const struct backup_policy *policy, struct backup_dir *dir, int64_t now_ms);

/* Removes the files that are not marked, the newest first: an increment that stays without its full
 * backup would seem to belong to the chain before. Returns 0, or the number of a system error and
 * the path. */
int backup_dir_remove(const char *path, const struct backup_dir *dir, uint32_t *ret_removed,
                      char ret_path[BACKUP_PATH_MAX]);

#endif
