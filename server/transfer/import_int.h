/* import_int.h - a batch on its way, shared by the files of the import. */
#ifndef SERVER_IMPORT_INT_H
#define SERVER_IMPORT_INT_H

#include "base/map.h"
#include "server/transfer/import.h"

enum {
    IMPORT_ITEMS_MAX = 128,         /* Lines of a batch: others write, too. */
    IMPORT_BATCH_BYTES = 256 << 10, /* Of their paths, data and ACLs; or one line alone. */
    IMPORT_ITEM_COST = 128,         /* Bytes that each line counts for, besides those. */
    IMPORT_LINE_SLACK = 256 << 10,  /* Of a line, beyond twice the data that it may hold. */
    IMPORT_TRIES = 5,               /* When others create or delete the same at the same time. */
    IMPORT_KNOWN_MAX = 1 << 17,     /* Paths that a dry run remembers to have made ... */
    IMPORT_PARENTS_KNOWN = 32       /* ... and how many of those above a line. */
};

enum import_plan {
    IMPORT_CREATE,
    IMPORT_SKIP,
    IMPORT_SET,
    IMPORT_SET_BOTH /* Data and ACL. */
};

struct import_item {
    struct op_args args; /* A create. */
    struct buf memory;   /* What its slices point into, but for the path. */
    struct buf path;     /* Full. */
    uint64_t line;
    enum import_plan plan;
};

struct import {
    struct view *view;
    struct op_principal who; /* A reference of its own. */
    const struct op_args *args;
    struct import_limits limits;
    enum import_state state;
    struct op_fault fault;
    struct op_import_figures figures;

    /* Lines. */
    struct buf partial; /* A line that is not whole yet. */
    uint64_t line;      /* Number of the last one. */
    bool over;          /* There are no more. */
    bool has_head;
    bool has_end;
    uint64_t znodes; /* Lines of them. */

    /* The batch. */
    struct import_item items[IMPORT_ITEMS_MAX];
    uint32_t count;
    size_t bytes;
    uint32_t tries;
    struct map known; /* Hashes of paths that a dry run would have made. */
};

/* ---- import_plan.c ---- */

/* Line `line` and why, about the znode at `path` (may be empty). */
void import_fail(struct import *import, enum err err, uint64_t line, struct slice path,
                 const char *why);

/* Decides for each item by what there is; a dry run also finds what would be refused. False when
 * the import has failed. */
bool import_plan(struct import *import);

#endif
