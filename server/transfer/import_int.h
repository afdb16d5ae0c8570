/* import_int.h - the inside of an import, shared by the files of the import. */
#ifndef SERVER_IMPORT_INT_H
#define SERVER_IMPORT_INT_H

#include "base/map.h"
#include "server/transfer/import.h"

enum {
    IMPORT_ITEMS_MAX = 128, /* Lines of a batch; few, so that others can write in between. */
    IMPORT_BATCH_BYTES = 256 << 10, /* Bytes of a batch; a single line may have more. */
    IMPORT_ITEM_COST = 128,         /* Bytes that each line adds beyond its path, data, ACL. */
    IMPORT_LINE_SLACK = 256 << 10,  /* Bytes that a line may have beyond 2 * maxDataBytes. */
    IMPORT_TRIES = 5, /* Attempts at a batch while other clients create or delete its znodes. */
    IMPORT_KNOWN_MAX = 1 << 17, /* Created paths that a dry run remembers. */
    IMPORT_PARENTS_KNOWN = 32   /* Created parents that a dry run remembers for each line. */
};

enum import_plan {
    IMPORT_CREATE,
    IMPORT_SKIP,
    IMPORT_SET,
    IMPORT_SET_BOTH, /* Data and ACL. */
    IMPORT_RAISE     /* The count of creates, whatever the request says about conflicts. */
};

struct import_item {
    struct op_args args; /* Arguments of a create, or of a raise. */
    struct buf memory;   /* Memory of the slices of `args`, except the path. */
    struct buf path;     /* The whole path. */
    uint64_t line;
    enum import_plan plan;
};

struct import {
    struct view *view;
    struct op_principal who; /* Holds its own reference to `auth`. */
    const struct op_args *args;
    struct import_limits limits;
    enum import_state state;
    struct op_fault fault;
    struct op_import_figures figures;

    /* Lines. */
    struct buf partial; /* An incomplete line. */
    uint64_t line;      /* Number of the last line. */
    bool over;          /* The body has ended. */
    bool has_head;
    bool has_end;
    uint64_t znodes; /* Number of lines with znodes. */

    /* The batch. */
    struct import_item items[IMPORT_ITEMS_MAX];
    uint32_t count;
    size_t bytes;
    uint32_t tries;
    struct map known; /* Paths, by hash, that a dry run would have created or given an ACL. */
};

/* ---- import_plan.c ---- */

/* Fails the import at a line, about the znode at `path` (may be empty). */
void import_fail(struct import *import, enum err err, uint64_t line, struct slice path,
                 const char *why);

/* Decides the plan of each item by the present state; a dry run also finds what the leader would
 * refuse. False when the import has failed. */
bool import_plan(struct import *import);

#endif
