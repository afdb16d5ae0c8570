/*
 * names.h - the files of a replica's directory by name, and the manifest that says which of them
 * are the log.
 */
#ifndef STORAGE_NAMES_H
#define STORAGE_NAMES_H

#include "base/buf.h"
#include "base/err.h"
#include "base/logrec.h"
#include "storage/vfs.h"

#define NAME_IDENTITY   "identity"
#define NAME_PROMISE    "promise"
#define NAME_QUARANTINE "quarantine"
#define NAME_MANIFEST   "manifest"
#define NAME_SNAP_LOCAL "snap-local.tmp"
#define NAME_SNAP_RECV  "snap-received.tmp"

enum {
    NAMES_MAX = 100000,            /* A directory with more names is not a replica's. */
    NAME_HISTORY_MAX = 0x7fffffff, /* A higher number is foreign: no replica counts that far. */
};

#define NAME_NUMBER_MAX (UINT64_MAX / 2) /* A higher segment number is foreign. */

enum name_kind {
    NAME_KIND_OTHER, /* Not a file of the store; left alone. */
    NAME_KIND_SLOTS, /* One of the four small records. */
    NAME_KIND_WAL,   /* wal-<history>-<number>: a segment. */
    NAME_KIND_NEXT,  /* next-<number>: a zero-filled file for a later segment. */
    NAME_KIND_SNAP,  /* snap-<history>-<start>. */
    NAME_KIND_TEMP,  /* An unfinished file. */
};

struct name {
    enum name_kind kind;
    uint64_t history;
    uint64_t number; /* Segment number, or a snapshot's start. */
    char text[VFS_NAME_MAX];
};

struct names {
    struct name *list; /* Sorted: kind, history, number. */
    size_t count;
    size_t cap;
};

/* Lists the directory. ERR_IO, ERR_FULL. */
enum err names_list(const struct vfs *vfs, struct names *ret_names);
void names_release(struct names *names);

/* Returns the name, or NULL when there is no such file. */
const struct name *names_find(const struct names *names, enum name_kind kind, uint64_t history,
                              uint64_t number);

struct name name_parse(const char *text);
unsigned name_slots(const char *text); /* The enum slots_kind of a small record; 0: another file. */
void name_wal(char out[VFS_NAME_MAX], uint64_t history, uint64_t number);
void name_next(char out[VFS_NAME_MAX], uint64_t number);
void name_snap(char out[VFS_NAME_MAX], uint64_t history, uint64_t start);

/*
 * The small record that says which files are the log, kept in two slots (slots.h). When a log
 * starts again (reset, installed snapshot), the write of this record is the one atomic switch.
 *
 * File names carry the history number. A file with another number is left over from a switch that
 * did not happen, or from the state before the last switch.
 */
struct manifest {
    uint64_t history;      /* History number in the names of log and snapshots. */
    uint64_t first;        /* Number of the log's first segment. */
    uint64_t top;          /* Highest segment that may hold records; its absence is damage. */
    bool clean;            /* The store was closed cleanly, and the log ended at the place below. */
    uint64_t clean_number; /* Number of the segment in which the log ended. */
    uint64_t clean_offset;
    zxid_t clean_last;
    uint64_t clean_chain;
};

enum {
    MANIFEST_BYTES_MAX = 128
};

void manifest_encode(const struct manifest *manifest, struct buf *out);
/* Decodes a manifest. ERR_CORRUPT. */
enum err manifest_decode(struct slice bytes, struct manifest *ret_manifest);

#endif
