/*
 * manifest.h - which files are the log: the record whose change is the one atomic switch when a
 * log starts again (reset, installed snapshot). Kept in two slots.
 *
 * File names carry the history number; whatever has another one is a left-over of a switch that did
 * not happen, or of the state before one that did.
 */
#ifndef STORAGE_MANIFEST_H
#define STORAGE_MANIFEST_H

#include "base/buf.h"
#include "base/err.h"
#include "base/logrec.h"

struct manifest {
    uint64_t history;      /* Names of log and snapshots carry it. */
    uint64_t first;        /* Number of the log's first segment. */
    uint64_t top;          /* Highest segment that may hold records; a missing one is damage. */
    bool clean;            /* The store was closed with the log's end exactly as below. */
    uint64_t clean_number; /* Segment. */
    uint64_t clean_offset;
    zxid_t clean_last;
    uint64_t clean_chain;
};

enum {
    MANIFEST_BYTES_MAX = 128
};

void manifest_encode(const struct manifest *manifest, struct buf *out);
/* ERR_CORRUPT. */
enum err manifest_decode(struct slice bytes, struct manifest *ret_manifest);

#endif
