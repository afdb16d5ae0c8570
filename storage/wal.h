/*
 * wal.h - the write-ahead log of one replica: segments, their index in memory, and the manifest
 * that names its files.
 *
 * The header of a new segment names the place in an older segment at which the log leaves the older
 * segment and continues in the new one. So one synced header can extend the log or cut it:
 * truncation is the same single step as rotation, and no byte that was durable is ever overwritten.
 *
 * Threads: the log thread appends, truncates and restarts; any thread reads; one worker thread
 * preallocates and purges. `index_mutex` guards what readers see and is never held across a system
 * call. `files_mutex` is held while files or the manifest are made or removed; the log thread takes
 * it at rotation, truncation and restart, never for a plain append. Order: files_mutex, then
 * index_mutex.
 */
#ifndef STORAGE_WAL_H
#define STORAGE_WAL_H

#include "base/check.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "base/probe.h"
#include "base/thread.h"
#include "storage/names.h"
#include "storage/slots.h"
#include "storage/walfmt.h"

/* One batch in a segment. */
struct wal_extent {
    zxid_t first;
    zxid_t last;
    uint64_t chain;  /* Chain value after `last`. */
    uint64_t offset; /* Offset in the file. */
    uint32_t bytes;  /* Bytes in the file, a multiple of VFS_BLOCK. */
    uint32_t count;  /* Number of records. */
};

struct wal_segment {
    struct vfs_file *file; /* NULL: closed, because `is_idle` and no reader uses it now. */
    uint32_t refs;         /* One for wal_log.segments or wal_log_take's caller; one per reader. */
    /* The segment is in wal_log.segments, which holds one of `refs`. That reference alone does not
     * keep the file of an idle segment open. */
    bool is_listed;
    bool is_idle; /* No longer written to: only readers keep the file open. */
    struct walfmt_header header;
    uint64_t end; /* Offset where the log leaves this segment, or where the next batch goes. */
    struct wal_extent *extents;
    size_t count;
    size_t cap;
};

/* One log: its segments and what they hold. */
struct wal_log {
    uint64_t history;
    struct wal_segment **segments; /* Segments in log order. */
    size_t count;
    size_t cap;
    struct wal_segment *tail; /* Last segment of the list; the log thread's own. */
    zxid_t base;              /* The log holds the records after this zxid. */
    uint64_t base_chain;
    zxid_t last; /* Newest durable record, or `base`. */
    uint64_t last_chain;
    zxid_t committed;    /* Highest commit watermark written or read. */
    uint64_t batch_next; /* Number of the next batch; the log thread's own. */
    struct epochs epochs;
    uint64_t records_total; /* Records ever appended, plus those found at the start. */
    uint64_t bytes_total;
};

/* A file that a purge could not remove. Its segment is no longer in the log. */
struct wal_stuck {
    uint64_t history;
    uint64_t number;
};

/* A zero-filled file that will become a segment. It stays open, so that turning it into a segment
 * needs no descriptor: an operation whose files are reserved cannot fail for lack of a
 * descriptor. */
struct wal_next {
    struct vfs_file *file;
    uint64_t bytes;
};

struct wal {
    const struct store_options *options;   /* Not owned. */
    const struct store_identity *identity; /* Not owned; goes into headers. */
    bool is_open;                          /* `live` may be used. */
    /* Records go to `staged`. This member and all of `staged` are the log thread's own. */
    bool is_staging;

    pthread_mutex_t files_mutex;
    struct slots slots;       /* The two slots of the manifest. */
    struct manifest manifest; /* Durable value of the manifest. */
    uint64_t top;             /* Highest segment number ever used. */
    uint64_t history_top;     /* Highest history number ever seen in a file name. */
    struct wal_next *next;    /* The files for top + 1, top + 2, ... */
    size_t next_count;
    size_t next_cap;
    struct wal_stuck *stuck; /* Files that a purge could not remove. */
    size_t stuck_count;
    size_t stuck_cap;
    _Atomic bool is_low;
    _Atomic uint64_t syncs;

    pthread_mutex_t index_mutex;
    struct wal_log live;   /* Guarded by index_mutex. */
    struct wal_log staged; /* Belongs to a snapshot that is being received. */

    /* The batch being filled; log thread only. */
    struct buf raw; /* Empty when there is none. */
    struct buf framed;
    struct walfmt_batch batch;
    struct wal_extent extent;
    struct epochs batch_epochs;
};

/* ---- wal.c ---- */

void wal_init(struct wal *wal, const struct store_options *options,
              const struct store_identity *identity);
void wal_release(struct wal *wal);

/* Makes sure that there is space for all these records and that the files for them are open: an
 * operation is written completely or not at all. ERR_NO_SPACE, ERR_NO_FILES, ERR_IO. */
enum err wal_reserve(struct wal *wal, struct logrec *const *recs, size_t count);

/* Adds a record to the batch being filled, after wal_reserve; may write full batches. After an
 * error the process must end. */
enum err wal_push(struct wal *wal, const struct logrec *rec, zxid_t committed);

/* Writes and syncs the batch being filled, if any. After an error the process must end. */
enum err wal_flush(struct wal *wal);

/* ---- wal_index.c ---- */

/* Returns the log that records go to now. Log thread. */
struct wal_log *wal_target(struct wal *wal);

struct wal_segment *wal_segment_new(struct vfs_file *take_file, const struct walfmt_header *header);
void wal_segment_ref(struct wal *wal, struct wal_segment *segment);   /* Takes index_mutex. */
void wal_segment_unref(struct wal *wal, struct wal_segment *segment); /* Takes index_mutex. */

/* Opens the file unless it is open. The caller holds a reference, or no other thread reads.
 * ERR_MISSING: the log does not hold the segment any more. ERR_NO_FILES, ERR_CORRUPT, ERR_IO. */
enum err wal_segment_open(struct wal *wal, struct wal_segment *segment);

/* Marks a segment that is no longer the tail as idle: its file is closed while no reader uses it.
 * So the log needs the same few descriptors at any length. Takes index_mutex. */
void wal_segment_idle(struct wal *wal, struct wal_segment *segment);

void wal_segment_push_extent(struct wal_segment *segment, const struct wal_extent *extent);

/* Appends a segment to the list. The caller holds index_mutex if other threads may read. */
void wal_log_push(struct wal_log *log, struct wal_segment *take_segment);

/* Takes the segments from `from` up to and without `to` out of the list. Returns them with their
 * references as a NULL-terminated array, which the caller frees. From then on a file is closed with
 * its last reference, which may be a reader's. Must come before the unlink: a reader that does not
 * find a file then knows that the segment has left the log. The caller holds index_mutex if other
 * threads may read. */
struct wal_segment **wal_log_take(struct wal_log *log, size_t from, size_t to);

/* Makes a durable batch visible. The caller holds index_mutex if other threads may read. */
void wal_log_add(struct wal_log *log, const struct wal_extent *extent, const struct epochs *epochs,
                 zxid_t committed);

/* Releases all segments and memory. Takes index_mutex. */
void wal_log_release(struct wal *wal, struct wal_log *log);

/* The place of a zxid in the log. */
struct wal_spot {
    size_t segment; /* Index of the segment in which the log would be cut. */
    size_t keep;    /* Number of this segment's batches that end at or before the zxid. */
    bool is_inside; /* The zxid lies inside the batch behind these, before its last record. */
};

/* Finds the place of `zxid`. ERR_MISSING when `zxid` is not between base and last. The caller holds
 * index_mutex, or is the log thread. */
enum err wal_find(const struct wal_log *log, zxid_t zxid, struct wal_spot *ret_spot);

/* ---- wal_files.c, wal_cut.c: the caller of each function holds files_mutex. ---- */

/* Zero-fills and syncs the `ahead`-th next file unless it exists with at least `bytes`.
 * ERR_NO_SPACE and ERR_NO_FILES leave everything as it was. */
enum err wal_next_ensure(struct wal *wal, size_t ahead, uint64_t bytes);

/* Closes the next files and forgets them. */
void wal_next_release(struct wal *wal);

/* Returns the header of the next segment of `log`. The caller sets prev_number and prev_offset if
 * the segment continues an older one. */
struct walfmt_header wal_header_next(const struct wal *wal, const struct wal_log *log);

/* Turns the next file into a segment, with a header and, unless `first` is empty, `first` as its
 * first batch. The segment is durable when the function returns, but in no list. ERR_NO_SPACE,
 * ERR_NO_FILES, ERR_IO. */
enum err wal_segment_make(struct wal *wal, struct walfmt_header *header, struct slice first,
                          struct wal_segment **ret_segment);

/* Releases segments taken out of a list and frees the array. Unlinks their files unless `err` says
 * that the switch away from them failed. Does not sync the directory: if a crash undoes an
 * unlink, the next opening removes the file, because the log does not contain it. */
enum err wal_segments_remove(struct wal *wal, struct wal_segment **take_segments, enum err err);

/* Makes wal->manifest durable. */
enum err wal_manifest_write(struct wal *wal);

/* Begins a new segment of at least `bytes` bytes for the log that records go to (wal_target). */
enum err wal_rotate(struct wal *wal, uint64_t bytes);

/* Drops everything after `zxid` from the live log. ERR_MISSING: `zxid` is not in the log. */
enum err wal_truncate(struct wal *wal, zxid_t zxid);

/* Starts a log of a new history after `base`. Until wal_stage_switch, an opening of the store
 * removes the files of this log as left-overs. ERR_NO_SPACE, ERR_NO_FILES, ERR_IO. */
enum err wal_stage_begin(struct wal *wal, zxid_t base, uint64_t base_chain);

/* Removes the staged log, if there is one. */
enum err wal_stage_drop(struct wal *wal);

/* Makes the staged log live, with a single durable write of the manifest; then removes the old log.
 */
enum err wal_stage_switch(struct wal *wal);

/* Removes the live log's segments that hold nothing after `zxid`. The next call tries again to
 * remove files that could not be removed. ERR_IO: the manifest could not be written. */
enum err wal_purge(struct wal *wal, zxid_t zxid);

/* Returns the bytes of the segments that a purge at `to` removes and a purge at `from` does not. */
uint64_t wal_purge_bytes(const struct wal *wal, zxid_t from, zxid_t to);

/* Sets or clears the clean-shutdown mark. */
enum err wal_mark_clean(struct wal *wal, bool clean);

/* ---- wal_recover.c: called by the owner, before any thread runs. ---- */

struct wal_found {
    enum store_verdict verdict; /* CLEAN, TORN_TAIL or DAMAGED. */
    uint64_t torn_from;         /* Offset of the torn batch in the last segment. */
    uint64_t torn_to;
};

/* Sets the verdict DAMAGED with a reason, unless the report has that verdict already. Always
 * returns false. */
bool report_damage(struct store_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Reads the log that wal->manifest names and builds the index. ERR_IO, ERR_NO_FILES: a file cannot
 * be opened. Damage is not an error: the verdict and the report state it, and the log is not
 * open. */
enum err wal_recover(struct wal *wal, const struct names *names, struct store_report *report,
                     struct wal_found *ret_found);

/* Whether everything behind the header of a segment is zero: no batch was ever written. */
bool wal_is_never_used(const struct vfs *vfs, struct vfs_file *file);

/* Restores the zeros behind the last good batch and makes the zeros durable. */
enum err wal_cut_torn(struct wal *wal, const struct wal_found *found);

/* ---- wal_read.c: any thread. ---- */

/* A verified batch in memory. */
struct wal_loaded {
    struct buf bytes;
    struct walfmt_batch head;
    struct walfmt_cursor cursor; /* Stands at the first record. */
};

/* Reads and verifies the batch at `place`, which has at most `size_max` bytes in the file.
 * ERR_CORRUPT, ERR_IO; ERR_MISSING when its first sector is zero. Release `ret_loaded` also on
 * error. */
enum err wal_load(const struct wal *wal, struct vfs_file *file, const struct walfmt_place *place,
                  uint64_t size_max, struct wal_loaded *ret_loaded);
void wal_loaded_release(struct wal_loaded *loaded);

/* Like wal_load, from a segment to which the caller holds a reference. Also ERR_NO_FILES. */
enum err wal_segment_load(struct wal *wal, struct wal_segment *segment,
                          const struct walfmt_place *place, uint64_t size_max,
                          struct wal_loaded *ret_loaded);

/* Returns the place of batch `index` of a segment. */
struct walfmt_place wal_place(const struct wal_segment *segment, size_t index);

/* Returns the largest size that a batch can have in a file; it depends on record_bytes_max. */
uint64_t wal_batch_bytes_max(const struct wal *wal);

enum err wal_read(struct wal *wal, zxid_t after, size_t bytes_max, size_t recs_max,
                  struct logrec **ret_recs, size_t *ret_count);

/* Returns the chain value at `zxid`. ERR_MISSING when `zxid` is not in the log; ERR_CORRUPT,
 * ERR_IO, ERR_NO_FILES. */
enum err wal_chain_at(struct wal *wal, zxid_t zxid, uint64_t *ret_chain);
enum err wal_chain_in(struct wal *wal, const struct wal_log *log, zxid_t zxid, uint64_t *ret_chain);

#endif
