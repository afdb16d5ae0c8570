/*
 * backup_reader.h - reads a backup from end to end, and checks all of it: order and checksums of
 * the parts, the snapshot's own hash, the chain of the records, SHA-256 of the whole.
 *
 * A caller that must not act on half a backup reads it twice: once to check, once to act.
 */
#ifndef SERVER_BACKUP_READER_H
#define SERVER_BACKUP_READER_H

#include "server/backup/backup_file.h"

enum {
    BACKUP_WHY_MAX = 512 /* Bytes of a sentence, with its NUL. */
};

/* The bytes of a backup. */
struct backup_input {
    const char *name; /* For messages. */
    uint64_t size;
    /* Reads exactly `len` bytes. */
    enum err (*read)(void *ctx, uint64_t offset, void *to, size_t len);
    void *ctx;
};

/* A place in the history. */
struct backup_mark {
    bool is_known; /* False: the first record of the backup is believed. */
    zxid_t zxid;
    uint64_t chain;
};

/* What to do with the contents; an error ends the reading. A member may be NULL. */
struct backup_visitor {
    enum err (*on_head)(void *ctx, const struct backup_head *head);
    /* The snapshot: a file `name` of `vfs`, valid until the return. */
    enum err (*on_snapshot)(void *ctx, const struct vfs *vfs, const char *name);
    /* The next record; the visitor keeps it only by a reference of its own. */
    enum err (*on_record)(void *ctx, struct logrec *rec);
    void (*on_progress)(void *ctx, uint64_t bytes, uint64_t size);
    void *ctx;
};

/* Reads all of it. `inout_mark`: where the backup must continue, if that is known; then its end.
 * Errors, with a sentence that begins with the name: ERR_CORRUPT (cut or damaged), ERR_FORMAT (no
 * backup), ERR_NEWER, ERR_GAP (does not continue at the mark), ERR_IO, and those
 * of the visitor, whose sentence stays if `why` is not empty then. */
enum err backup_read(const struct backup_input *input, const struct backup_visitor *visitor,
                     struct backup_mark *inout_mark, struct backup_end *ret_end,
                     char why[BACKUP_WHY_MAX]);

/* Reads HEAD alone. `config` of the head points into `memory`, which the caller releases. */
enum err backup_read_head(const struct backup_input *input, struct buf *memory,
                          struct backup_head *ret_head, char why[BACKUP_WHY_MAX]);

#endif
