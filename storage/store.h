/*
 * store.h - one replica's directory: identity, promise, quarantine mark, write-ahead log and
 * snapshots. Other folders use storage through this header alone.
 *
 * An opening that ends with the verdict STORE_DAMAGED has changed no file. The protocol's changes
 * go through store_run in the order in which the protocol decided them, and become durable in this
 * order.
 *
 * Threads: while no other thread runs, the owner opens and closes, and may call all functions.
 * While other threads run, only the log thread calls store_run, and only one worker thread calls
 * store_preallocate and makes snapshots. Each function that other threads may call says so.
 */
#ifndef STORAGE_STORE_H
#define STORAGE_STORE_H

#include "base/err.h"
#include "base/logrec.h"
#include "storage/vfs.h"

enum {
    STORE_CLUSTER_LEN = 16,
    STORE_REASON_MAX = 240,
    STORE_GENESIS_MAX = 3072, /* Bytes of store_identity.genesis. */
    /* Files open at a time, besides snapshots on their way to learners: four small records, the
     * last segments of the live and the staged log, the next segment, a snapshot being received, a
     * snapshot being written, for each of three threads one snapshot and two segments that the
     * thread reads, and two segments that the thread of the audit log reads. The number does not
     * grow with the log. */
    STORE_FILES_MAX = 21,
};

/* The identity of this disk, kept in two slots. No other operation runs before it is durable. */
struct store_identity {
    uint8_t cluster[STORE_CLUSTER_LEN]; /* Id of the cluster; zero before this disk joins one. */
    uint32_t member_id;
    uint64_t incarnation; /* Random, made when the directory was formatted; never 0. */
    bool bootstrapping;   /* Formatted, but in no cluster yet: the disk counts as empty. */
    uint8_t genesis[STORE_GENESIS_MAX]; /* The first configuration, opaque here. */
    uint32_t genesis_len;
};

enum store_verdict {
    STORE_EMPTY,     /* No identity, no log, no snapshot. */
    STORE_CLEAN,     /* Everything verifies. */
    STORE_TORN_TAIL, /* A crash interrupted the write of the last batch, which is dropped. */
    STORE_DAMAGED,   /* Acknowledged data may be missing: quarantine. Nothing was changed. */
};

struct store_report {
    enum store_verdict verdict;
    bool quarantined;              /* The durable quarantine mark is set. */
    char reason[STORE_REASON_MAX]; /* Reason for damage or quarantine; a sentence for people. */
    bool has_identity;
    struct store_identity identity;
    uint32_t promised_epoch; /* 0 when there is no promise. */
    uint32_t promised_leader;
    /* A snapshot verifies and the log covers its range. The `snap_*` members describe the newest
     * such snapshot. */
    bool has_snapshot;
    zxid_t snap_start;    /* The log after this zxid is replayed over the snapshot. */
    zxid_t snap_end;      /* No request is answered before this zxid is applied. */
    uint64_t snap_digest; /* State digest at snap_end. */
    zxid_t log_base;      /* The log holds the records after this zxid. */
    zxid_t log_last;      /* Newest record, or log_base. */
    uint64_t log_chain;   /* Chain value at log_last. */
    zxid_t committed;     /* max(commit watermark in the log, snap_end). */
    uint64_t torn_bytes;  /* Bytes cut off at the tail. */
    bool one_slot_bad;    /* A small durable record had one damaged slot. */
    bool is_lost;         /* Damaged, and identity or promise cannot be read. The store takes no
                             changes; the replica needs a newly formatted directory. */
};

struct store_options {
    struct vfs vfs;
    uint64_t segment_bytes;    /* Size of a WAL segment, multiple of 4 KiB. */
    uint32_t snapshots_keep;   /* At least 1; 3 by default. */
    uint64_t salt_seed;        /* Seed of segment salts: random in production, chosen in tests. */
    uint32_t record_bytes_max; /* Payload limit; anything longer is damage. */
    uint32_t member_id;        /* Owner of the directory; 0: not checked. */
    uint64_t keep_bytes_max;   /* Bytes of log that store_keep may add to what snapshots need. */
};

/* A part of the replica that may need log that no snapshot needs. */
enum store_reader {
    STORE_LEARNERS,
    STORE_AUDIT,
    STORE_BACKUP,
    STORE_READERS
};

/* For store_keep: the reader needs no log. */
#define STORE_KEEP_NONE UINT64_MAX

struct store;

/* Opens and inspects the directory. ERR_BUSY: another process holds the directory. ERR_FOREIGN: the
 * directory belongs to the member that `ret_report->identity` names, and nothing was changed. Also
 * ERR_IO and ERR_NO_FILES. Damage is not an error here but a verdict in the report. With
 * `read_only` nothing is cut, locked or made. */
enum err store_open(const struct store_options *options, bool read_only, struct store **ret_store,
                    struct store_report *ret_report);

/* Closes the directory. `clean`: the log thread has stopped after its last operation. Then
 * store_close leaves the clean-shutdown mark: with the mark, the next opening never mistakes
 * damage at the tail for a torn write. */
void store_close(struct store *store, bool clean);

/* Returns all epochs of the log, ascending, in memory that the caller frees; `*ret_count` is their
 * number, which is bounded only by the number of records. Any thread. */
struct epoch_range *store_epochs(struct store *store, size_t *ret_count);

/* Reads records after `after`, in order, up to `bytes_max` of payload (at least one record when
 * there is any) and `recs_max`; the caller gets references. Only durable records are seen.
 * ERR_MISSING: `after` is below the log's base or not in the log. ERR_CORRUPT: damage.
 * ERR_NO_FILES: there is no descriptor for an older segment; try again. Any thread. */
enum err store_read(struct store *store, zxid_t after, size_t bytes_max, size_t recs_max,
                    struct logrec **ret_recs, size_t *ret_count);

/* ---- Changes: a FIFO of operations, run by the log thread. ---- */

enum store_op_type {
    STORE_APPEND,       /* Records that follow the log's last one. */
    STORE_TRUNCATE,     /* Drop everything after `zxid`. */
    STORE_PROMISE,      /* Promise `epoch` to `leader`. */
    STORE_IDENTITY,     /* Write the identity: the first one formats the directory. */
    STORE_QUARANTINE,   /* Set the mark with `reason`. */
    STORE_RELEASE,      /* Clear the mark. */
    STORE_RESET,        /* Forget log and snapshots; an empty log starts. Used before a refill. */
    STORE_SNAP_BEGIN,   /* Start to receive a snapshot; an unfinished earlier one is dropped. From
                           here to INSTALL, APPENDs go to the log of the new snapshot, which follows
                           the snapshot's start; the old log and snapshots stay as they are. */
    STORE_SNAP_CHUNK,   /* The next piece of the snapshot. */
    STORE_SNAP_INSTALL, /* Verify the snapshot, then put it and its log in place by one atomic
                           switch. Before the switch a crash, TRUNCATE, RESET, BEGIN or ABORT drops
                           what was received. */
    STORE_SNAP_ABORT,   /* Drop what STORE_SNAP_BEGIN started, if anything. */
};

struct store_op {
    enum store_op_type type;
    struct logrec **recs; /* APPEND; references owned by the operation's owner. */
    size_t rec_count;
    zxid_t committed; /* APPEND: records up to this zxid are known to be committed. */
    zxid_t zxid;      /* TRUNCATE: the last record to keep. */
    uint32_t epoch;   /* PROMISE: the promised epoch. */
    uint32_t leader;
    const struct store_identity *identity; /* IDENTITY. */
    const char *reason;                    /* QUARANTINE. */
    uint64_t snap_offset;                  /* SNAP_CHUNK: offset in the file; consecutive. */
    struct slice snap_bytes;               /* SNAP_CHUNK. */
    /* Why SNAP_INSTALL was refused; log and snapshots are then unchanged. ERR_CORRUPT: the snapshot
     * does not verify, or the staged log does not cover (start, end]. ERR_NO_SPACE: snapshot or log
     * did not fit. */
    enum err ret_err;
    zxid_t ret_last;     /* Last zxid of the log; valid after TRUNCATE, RESET and SNAP_INSTALL. */
    uint64_t ret_chain;  /* Chain value at `ret_last`. */
    zxid_t ret_snap_end; /* End of the snapshot, after SNAP_INSTALL. */
};

/* Runs operations in order; neighbouring appends become one batch and one sync. After OK all
 * operations are durable, except those of a refused reception: they are skipped, and the
 * reception's INSTALL reports the refusal. ERR_NO_SPACE: `*ret_done` operations are durable, and
 * the others are untouched; the caller runs the others again later. ERR_NO_FILES: as with
 * ERR_NO_SPACE, but a descriptor is lacking. Any other error: the caller must end the process at
 * once. */
enum err store_run(struct store *store, struct store_op **ops, size_t count, size_t *ret_done);
enum err store_run_one(struct store *store, struct store_op *op);

/* Makes purges keep the log after `zxid` (0: all of the log), which `reader` needs, even if no
 * snapshot here needs it. Valid until the next call for this reader; each reader is judged alone.
 * `keep_bytes_max` and a full disk override the call: the log is purged all the same, and for
 * learners `keeps_lost` counts the purge. Any thread; a purge that already runs may not see the
 * call. */
void store_keep(struct store *store, enum store_reader reader, zxid_t zxid);

/* Zero-fills the next segment if it does not exist; the worker thread calls this after each
 * rotation. When there is no space, log that is kept for learners is purged and the attempt
 * repeated. When there is space, log that was kept for learners is purged once no learner needs it.
 * ERR_NO_SPACE is expected: store_is_low is true until a call succeeds. ERR_NO_FILES is expected as
 * well. */
enum err store_preallocate(struct store *store);

/* True while there is no next segment because the disk is full: the space left in the current
 * segment is then the only reserve. Any thread. */
bool store_is_low(struct store *store);

/* ---- Snapshots. ---- */

/* Description of a snapshot. */
struct store_snap_info {
    /* Last applied zxid when the scan of the tree began. The log after this zxid is replayed over
     * the snapshot. */
    zxid_t start;
    uint64_t start_chain; /* Chain value at `start`. */
    zxid_t end;           /* Last applied zxid when the scan ended. */
    uint64_t digest;      /* State digest at `end`. */
    uint64_t node_count;
    uint64_t file_bytes;
    /* Hash of the file's contents, trailer included. Two files with the same id have the same
     * bytes, on whichever replicas they were written. */
    uint64_t id;
    /* The name of the file consists of this history number and `start`. */
    uint64_t history;
    bool is_checked; /* store_snap_checked was called for it. */
};

/* Writes one snapshot: begin, any number of blocks, then finish or abort. Worker thread. */
struct store_snap_writer;

/* Begins a snapshot. `config` is the replicated configuration committed at `start`, opaque here.
 * ERR_NO_SPACE, ERR_NO_FILES, ERR_IO. */
enum err store_snap_begin(struct store *store, zxid_t start, uint64_t start_chain,
                          struct slice config, struct store_snap_writer **ret_writer);

/* Adds one block with a checksum. The file is written in pieces of at most 1 MiB, each synced. */
enum err store_snap_block(struct store_snap_writer *writer, struct slice block);

/* Finishes the snapshot: writes the trailer, syncs, reads the file back, verifies it, renames it,
 * syncs the directory and purges. A file that the purge cannot remove does not fail the snapshot.
 * Frees the writer. The log must already be durable up to `end`. ERR_CLOSED: the log was reset,
 * replaced or cut meanwhile, and the snapshot is dropped. ERR_NO_FILES: the snapshot could not be
 * read back, and is dropped. */
enum err store_snap_finish(struct store_snap_writer *take_writer, zxid_t end, uint64_t digest,
                           uint64_t node_count);
void store_snap_abort(struct store_snap_writer *take_writer);

/* Reads the newest usable snapshot. Worker thread, or the owner at start. */
struct store_snap_reader;

/* Opens the newest usable snapshot. ERR_MISSING: there is none. ERR_CORRUPT: its head or trailer
 * does not verify; `ret_info` names the snapshot. ERR_NO_FILES: lack of a descriptor, which says
 * nothing about the snapshot. A snapshot that is not checked is read from the disk, not from the
 * cache. */
enum err store_snap_open(struct store *store, struct store_snap_reader **ret_reader,
                         struct store_snap_info *ret_info);

/* Opens any file that holds a snapshot, such as a part of a backup. Any thread. ERR_CORRUPT. */
enum err store_snap_open_file(const struct vfs *vfs, const char *name, uint32_t record_bytes_max,
                              struct store_snap_reader **ret_reader,
                              struct store_snap_info *ret_info);

/* True while store_snap_open() would open the file that `info` describes. Any thread. */
bool store_snap_is_newest(struct store *store, const struct store_snap_info *info);

/* Returns the configuration under which the snapshot was taken. It points into the reader. */
struct slice store_snap_config(const struct store_snap_reader *reader);

/* Cluster of the snapshot, STORE_CLUSTER_LEN bytes that point into the reader, and the chain value
 * at its end. */
struct slice store_snap_cluster(const struct store_snap_reader *reader);
uint64_t store_snap_end_chain(const struct store_snap_reader *reader);

/* Returns the next block, which points into the reader until the next call. ERR_MISSING: after the
 * last block. ERR_CORRUPT. */
enum err store_snap_next(struct store_snap_reader *reader, struct slice *ret_block);

/* Falls back from the newest snapshot, which turned out to be damaged, to the next older usable
 * one; updates `snap_*` and `has_snapshot` of the report. ERR_MISSING: neither a snapshot nor a log
 * from the very beginning is left, which is damage. Called by the owner at start, while no reader
 * is open. */
enum err store_snap_discard(struct store *store, struct store_report *report);

/* Notes that all of the snapshot was read and verifies. Any thread. */
void store_snap_checked(struct store *store, const struct store_snap_info *info);

/* Notes that the snapshot does not verify: it is not used again, and the next purge removes it. Any
 * thread. */
void store_snap_condemn(struct store *store, const struct store_snap_info *info);

/* Reads raw bytes of the file, to send them to a learner. A short count means the end of the file.
 */
enum err store_snap_read_raw(struct store_snap_reader *reader, uint64_t offset, void *data,
                             size_t len, size_t *ret_len);
void store_snap_close(struct store_snap_reader *reader);

/* ---- Figures, any thread. ---- */

struct store_figures {
    uint64_t log_bytes;
    uint32_t segments;
    uint32_t snapshots;
    zxid_t snap_newest_end;
    uint64_t records_since_snap; /* Appended since the newest snapshot began. */
    uint64_t bytes_since_snap;
    uint64_t syncs;
    zxid_t log_base;     /* The log holds the records after this zxid. */
    uint32_t unremoved;  /* Files that a purge could not remove; the next purge tries again. */
    uint64_t kept_bytes; /* Bytes of log that the last purge kept for learners alone. */
    uint64_t keeps_lost; /* How often log was purged although a learner needed it. */
};

void store_figures(struct store *store, struct store_figures *ret_figures);

#endif
