/*
 * restore.h - makes the directory of a replica out of backups that were checked.
 *
 * The new replica is the only voter of its cluster, with a new history, and an epoch far above all
 * earlier ones: so zxids never go back, and clients of the old history get 409. The distance grows
 * with the age of the backups, because the ensemble may have begun more epochs since, or may have
 * been restored from them before. The other members join with empty directories. Unless they are
 * kept, all sessions are closed, because their clients have left long ago: each by a transaction of
 * its own, which also deletes its ephemerals.
 */
#ifndef SERVER_RESTORE_H
#define SERVER_RESTORE_H

#include "server/backup/backup_check.h"

struct restore_target {
    struct store *store; /* Open for writing, and empty. */
    uint32_t id;         /* A member of the cluster. */
    uint64_t incarnation;
    uint64_t history; /* Random, not 0. */
    int64_t now_ms;   /* Wall clock, ms since 1970. */
    bool keep_sessions;
};

struct restore_result {
    zxid_t last;       /* The last record. */
    uint64_t sessions; /* Sessions that were closed. */
    uint64_t digest;   /* Of the state at `last`. */
};

/* Whether replica `id` is a member in the state that was checked. */
bool restore_is_member(const struct backup_check *check, uint32_t id);

/* Writes the directory; the state of `check` moves on to that of the result. After an error, with a
 * sentence, the directory is of no use. */
enum err restore_write(const struct restore_target *target, struct backup_check *check,
                       const struct backup_input *inputs, size_t count,
                       struct restore_result *ret_result, char why[BACKUP_WHY_MAX]);

#endif
