/*
 * restore_int.h - a run of 'zabra restore', which cmd_restore.c begins and reports; restore_write.c
 * makes the directory. One thread.
 */
#ifndef CLI_RESTORE_INT_H
#define CLI_RESTORE_INT_H

#include "cli/backup_files.h"
#include "cli/progress.h"
#include "server/process/restore.h"

#include <sys/stat.h>

enum {
    RESTORE_FILES_MAX = 1000
};

struct restoring {
    const char *dir;
    char part[BACKUP_PATH_MAX]; /* The directory while it is written. */
    uint32_t id;
    bool keep_sessions;
    struct backup_until until;
    const char *until_text;
    const char *files[RESTORE_FILES_MAX];
    size_t count;
    const char *from_dir; /* A directory with backups; NULL: the files were named. */
    struct backup_dir backups;
    size_t first;                   /* File of `backups` with which the chain in `files` begins. */
    char (*paths)[BACKUP_PATH_MAX]; /* Of `files`, if they come from there. */
    struct backup_open opened[RESTORE_FILES_MAX];
    size_t opened_count;
    struct backup_input inputs[RESTORE_FILES_MAX]; /* Of one that is not open yet only the size. */
    struct backup_check check;
    struct restore_result result;
    uint64_t history;
    struct progress progress;
    bool is_roots; /* The files belong to root. */
    int part_fd;   /* For give_one. */
    struct stat owner;
    uint64_t read;  /* Bytes of the backups before the one that is read, */
    uint64_t bytes; /* and of that one. */
};

/* Reports a failure. Returns CMD_FAILED. */
int restoring_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Begins the progress of a step that reads all backups. */
void restoring_begin(struct restoring *restoring, const char *verb);

/* Writes the checked backups into a new directory, and puts it in place. Returns the exit code;
 * after a failure nothing is left, or the message names what is. */
int restoring_write(struct restoring *restoring);

#endif
