/*
 * store_int.h - what the files of the store share. See store.h for the threads.
 *
 * wal.files_mutex guards the set of snapshots, like everything else that names files.
 * wal.index_mutex guards the figures, so that a query for figures never waits for a disk.
 */
#ifndef STORAGE_STORE_INT_H
#define STORAGE_STORE_INT_H

#include "base/check.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "base/probe.h"
#include "storage/snapfile.h"
#include "storage/store.h"
#include "storage/wal.h"

#include <stdatomic.h>

struct snap_entry {
    struct snapfile_info info; /* If the snapshot is bad, only its start is known. */
    bool is_bad;               /* The snapshot does not verify, or was discarded. */
    bool is_verified;          /* All of it was read and found good since the store was opened. */
    bool is_checked; /* All of it was read and verified once more, to send it to a learner. */
};

/* The snapshots of this history, ascending by start. */
struct snap_set {
    struct snap_entry *list;
    size_t count;
    size_t cap;
};

/* A snapshot being received, with the log that follows its start (wal.staged). */
struct snap_recv {
    bool is_on;            /* True from BEGIN to INSTALL, or until the reception is dropped. */
    struct vfs_file *file; /* NULL when the reception is refused. */
    uint64_t offset;       /* Where the next chunk goes. */
    uint64_t unsynced;
    /* Not OK: the snapshot does not verify, or the disk is full. The received files are removed,
     * further pieces are ignored, and the install is refused. */
    enum err refused;
};

struct store {
    struct store_options options;
    bool is_read_only;
    bool has_failed; /* An error that ends the process has occurred: nothing is written any more. */
    bool is_damaged; /* The log may not be used until a reset or an installed snapshot. */
    bool is_lost;    /* Identity or promise cannot be read: no changes at all. */
    bool has_identity;
    struct store_identity identity;
    struct slots identity_slots;
    struct slots promise_slots;
    struct slots quarantine_slots;
    uint32_t promised_epoch;
    uint32_t promised_leader;
    bool is_quarantined; /* Written by the log thread under wal.files_mutex. */
    char quarantine_reason[STORE_REASON_MAX];
    struct wal wal;
    struct snap_set snaps;
    struct snap_recv recv;
    struct store_snap_writer *writer;   /* The snapshot being written; worker thread. */
    _Atomic zxid_t keep[STORE_READERS]; /* Each reader needs the log after this zxid. */
    /* The last purge kept log for this reader; without any reader it would have removed the log up
     * to this zxid. 0: it kept nothing for this one. Worker thread. */
    zxid_t kept_below[STORE_READERS];

    /* Guarded by wal.index_mutex. */
    uint32_t snap_count;
    zxid_t snap_newest_end;
    uint64_t snap_records_mark; /* wal.records_total when the newest snapshot began. */
    uint64_t snap_bytes_mark;
    uint32_t unremoved;  /* Files that the last purge could not remove. */
    uint64_t kept_bytes; /* Bytes of log that the last purge kept for learners alone. */
    uint64_t keeps_lost; /* How often a purge removed log that a learner needed. */
};

/* ---- store_records.c: identity, promise, quarantine. ---- */

void identity_encode(const struct store_identity *identity, struct buf *out);

/* Opens and decodes the small records. Damage goes into the report. ERR_MISSING: there is no
 * identity. ERR_IO. */
enum err records_open(struct store *store, struct store_report *report);
enum err records_heal(struct store *store);
enum err records_sync(struct store *store);
void records_close(struct store *store);

enum err record_promise(struct store *store, uint32_t epoch, uint32_t leader);
enum err record_quarantine(struct store *store, const char *reason); /* NULL: release. */
enum err record_identity(struct store *store, const struct store_identity *identity);

/* Makes the records of an empty directory, except the identity, which record_identity writes after
 * all other files are made. */
enum err records_create(struct store *store);

/* ---- store_recover.c ---- */

/* Reads the directory and judges it. */
enum err store_recover(struct store *store, struct store_report *report);

/* ---- store_tidy.c ---- */

/* Unlinks temporary files, and the segments, next files and snapshots that do not belong to the log
 * or to the set of snapshots. */
enum err leftovers_remove(struct store *store, const struct names *names);

/* Removes every file of earlier histories and resets the figures, after a switch to a new history.
 * The caller holds files_mutex. */
enum err restart_tidy(struct store *store);

/* If the manifest's file is missing, makes a manifest that names no existing file. The caller holds
 * files_mutex. */
enum err manifest_ensure(struct store *store);

/* ---- store_change.c ---- */

enum err change_run(struct store *store, struct store_op *op);

/* ---- store_receive.c: a snapshot and its log from a leader. ---- */

enum err receive_begin(struct store *store);
enum err receive_chunk(struct store *store, const struct store_op *op);

/* Called before appends while a snapshot is being received: makes sure that the staged log is
 * begun, or the reception refused. `first` is the next record, NULL if there is none. */
enum err receive_stage(struct store *store, const struct logrec *first);

/* Drops what was received. Further chunks are ignored, and STORE_SNAP_INSTALL reports `why`. */
enum err receive_refuse(struct store *store, enum err why);

/* Drops the received snapshot and the staged log. */
enum err receive_abort(struct store *store);
enum err receive_install(struct store *store, struct store_op *op);

/* ---- snap_set.c: the caller holds wal.files_mutex, or is the owner. ---- */

/* Adds a snapshot; replaces a snapshot with the same start. */
void snap_set_add(struct snap_set *set, const struct snap_entry *entry);
struct snap_entry *snap_set_find(struct snap_set *set, zxid_t start);
struct snap_entry *snap_set_newest(struct snap_set *set); /* The newest that is not bad, or NULL. */

/* Returns the entry of `start` if `history` is still the history of the log, else NULL. The caller
 * holds wal.files_mutex. */
struct snap_entry *snap_find(struct store *store, uint64_t history, zxid_t start);

/* Unlinks a snapshot and removes it from the set. A snapshot that cannot be unlinked stays in the
 * set. */
enum err snap_unlink(struct store *store, size_t index);

/* Brings the figures up to date with the set. */
void snap_figures(struct store *store);

/* Finds the snapshots of this history and judges them against the log. */
enum err snaps_recover(struct store *store, const struct names *names, struct store_report *report);

/* Fills in the snapshot part of the report. */
void snaps_report(struct store *store, struct store_report *report);

/* Purges: keeps the newest snapshots that verify and the log after the oldest of them. A file that
 * cannot be removed is counted and never used again, and the next purge tries again. `may_keep`
 * false: the disk is full, and log that learners need is purged as well. After an error the
 * process must end. Worker thread, without any mutex. */
enum err snaps_purge(struct store *store, bool may_keep);

/* Whether the last purge has kept log that no learner needs any more. Worker thread. */
bool snaps_keeps_too_much(const struct store *store);

/* Whether the last purge has kept log for a reader. */
bool snaps_keeps(const struct store *store);

#endif
