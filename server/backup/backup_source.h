/*
 * backup_source.h - makes the bytes of a backup out of a running replica, piece by piece.
 *
 * The end of a backup is chosen once, as the zxid that is applied when its first bytes are made:
 * the backup is exact there, whatever is written meanwhile. The log behind the snapshot is kept as
 * long as the source is open; if it is purged all the same, because the disk is full or
 * maxRefillLogBytes is reached, the source fails.
 *
 * The source reads the disk, and may hang in a file system: only a thread of its own calls it.
 */
#ifndef SERVER_BACKUP_SOURCE_H
#define SERVER_BACKUP_SOURCE_H

#include "server/backup/backup_file.h"

struct view;

enum {
    BACKUP_FILES_MAX = 3 /* Open at a time: a snapshot, and two segments of the log. */
};

struct backup_host {
    struct store *store;
    struct view *view;
    const struct store_identity *identity; /* Must not change while a source is open. */
    const char *release;
    /* The time of the clocks of a majority, as far as it is known, ms since 1970. Any thread. */
    int64_t (*wall_ms)(void *ctx);
    void *wall_ctx;
};

/* What a client asks for. */
struct backup_ask {
    bool increment; /* Only the records after `since`. */
    zxid_t since;
    uint64_t history; /* History to which `since` belongs; 0: that of the replica. */
};

struct backup_source;

struct backup_source *backup_source_new(const struct backup_host *host,
                                        const struct backup_ask *ask);

/* Makes the next piece: clears `out`, appends at most BACKUP_RECORDS_MAX bytes of payload, or one
 * longer record; `out` may stay empty. `*ret_read` is the number of bytes that were read from the
 * disk. An error ends the source; `*ret_why` is a sentence:
 * ERR_NOT_READY (there is no whole state), ERR_GAP (the log does not reach back to `since`, or was
 * purged), ERR_HISTORY_CHANGED, ERR_REPLICA_BEHIND (`since` lies ahead), ERR_CORRUPT, ERR_NO_FILES.
 */
enum err backup_source_next(struct backup_source *source, struct buf *out, size_t *ret_read,
                            const char **ret_why);

/* Whether END was made. */
bool backup_source_is_done(const struct backup_source *source);

/* HEAD; valid once a piece was made. */
const struct backup_head *backup_source_head(const struct backup_source *source);

void backup_source_free(struct backup_source *source);

#endif
