/*
 * backup_check.h - replays a full backup and the increments behind it into a state, and compares
 * the digests. What was checked so can be restored.
 */
#ifndef SERVER_BACKUP_CHECK_H
#define SERVER_BACKUP_CHECK_H

#include "server/backup/backup_reader.h"
#include "server/backup/replay.h"

/* Highest epoch of a backup that can be restored: a restore adds up to 2^28 for
 * the seconds since (sole_voter.c), and the ensemble begins epochs after it. */
#define BACKUP_EPOCH_MAX UINT32_C(0xe0000000)

/* Where to stop. */
struct backup_until {
    bool has_zxid;
    bool has_time;
    zxid_t zxid;     /* The last record to take. */
    int64_t time_ms; /* Take nothing from the first transaction on that is later; ms since 1970. */
};

struct backup_check {
    struct backup_until until;
    bool ends_early; /* Backups behind the one where the replay stops are not read. */
    struct replay replay;
    uint8_t cluster[STORE_CLUSTER_LEN];
    uint64_t history;
    zxid_t least;          /* Whole from here on. */
    zxid_t end;            /* End of the last backup. */
    int64_t made_ms;       /* When that was made. */
    struct backup_mark at; /* Where the replay stopped. */
    bool is_cut;           /* Because of `until`. */
    int64_t last_ms;       /* Time of the last transaction that was replayed; 0: none has one. */
    int64_t next_ms;       /* With has_time and is_cut: time of the first transaction left out. */
    size_t sound;          /* Backups that were read to their end without an error. */
    zxid_t sound_end;      /* End of the last one of them. */
    uint64_t records;      /* Records that were replayed. */

    /* Opens a backup before it is read, and fills in its input; an error, with a sentence, ends the
     * check. NULL: all are open. */
    enum err (*open)(void *ctx, size_t index, char why[BACKUP_WHY_MAX]);
    void *open_ctx;
    void (*on_progress)(void *ctx, uint64_t bytes, uint64_t size);
    void *progress_ctx;
    /* Only for the time of the call. */
    struct backup_mark mark;
    bool has_full;
    char *why;
    const char *name; /* Of the backup that is read; NULL: none is. */
};

/* Replays the backups in their order; the first is a full one. `sound` is the number of those that
 * were read. The caller sets `until`, `ends_early`, `open` and the progress beforehand, and calls
 * backup_check_release after it. Errors, with a sentence: those of backup_read and `open`;
 * ERR_CORRUPT also if a digest differs; ERR_TOO_LARGE if no epochs or zxids would be left; ERR_GAP
 * if the backups do not follow each other or are from different histories; ERR_BAD_ARGUMENTS if
 * `until` lies outside of them. */
enum err backup_check(struct backup_check *check, const struct backup_input *inputs, size_t count,
                      char why[BACKUP_WHY_MAX]);

/* Frees also the state. */
void backup_check_release(struct backup_check *check);

#endif
