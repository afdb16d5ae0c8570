/*
 * inspect.h - reads a replica's directory file by file and reports the contents, good or bad, for
 * people and tests. It never prints, locks or changes anything.
 *
 * Unlike store_open, inspect_dir does not judge the directory as a whole. It also shows files and
 * batches that the log no longer reaches (left-overs, batches that were cut off), and continues
 * behind damage where it can.
 */
#ifndef STORAGE_INSPECT_H
#define STORAGE_INSPECT_H

#include "storage/names.h"
#include "storage/snapfile.h"
#include "storage/walfmt.h"

struct inspect_slot {
    const char *file;
    unsigned index;
    bool is_valid;
    uint64_t seq; /* Sequence number; the slot with the higher number counts. */
};

struct inspect_segment {
    const char *file;
    uint64_t size;
    bool is_valid; /* The header verifies and fits the name. */
    /* The segment has the manifest's history and is not before the manifest's first segment. */
    bool is_ours;
    struct walfmt_header header;
};

struct inspect_batch {
    uint64_t offset;
    uint64_t bytes;
    struct walfmt_batch head;
    /* NULL: the batch verifies. Else what is wrong; nothing behind the batch is shown. */
    const char *fault;
};

struct inspect_snapshot {
    const char *file;
    bool is_valid; /* All of it was read and verifies. */
    bool is_ours;
    struct snapfile_info info;
};

/* Callbacks, each of which may be NULL. Their arguments are valid during the call only. */
struct inspect_visitor {
    void *arg;
    void (*manifest)(void *arg, const struct manifest *manifest);
    void (*slot)(void *arg, const struct inspect_slot *slot);
    void (*segment)(void *arg, const struct inspect_segment *segment);
    void (*batch)(void *arg, const struct inspect_segment *segment,
                  const struct inspect_batch *batch);
    void (*record)(void *arg, const struct inspect_batch *batch,
                   const struct walfmt_record *record);
    void (*snapshot)(void *arg, const struct inspect_snapshot *snapshot);
    void (*other)(void *arg, const char *file); /* Next files, temporary and unknown files. */
};

/* Visits slots, segments in order with their batches and records, snapshots, and the other files.
 * Only the vfs and record_bytes_max of `options` affect the result; segment_bytes is only checked.
 * ERR_IO: the directory cannot be listed. ERR_FULL: it has more than NAMES_MAX names. */
enum err inspect_dir(const struct store_options *options, const struct inspect_visitor *visitor);

#endif
