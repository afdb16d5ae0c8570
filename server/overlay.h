/*
 * overlay.h - the znodes as they will be once everything proposed is applied.
 *
 * An entry is the whole znode in absolute values, not a difference: it may be dropped as soon as
 * its last change is applied, in any order, and never disagrees with the tree. Core thread.
 */
#ifndef SERVER_OVERLAY_H
#define SERVER_OVERLAY_H

#include "base/list.h"
#include "base/map.h"
#include "server/state/state.h"

/* A znode without its data. */
struct overlay_node {
    struct stat_view stat;
    uint64_t owner;   /* As stored: see txn.h. */
    uint32_t creates; /* Children ever created. */
    bool exists;
};

struct overlay_entry {
    struct list order; /* By the zxid of the last change. */
    zxid_t zxid;       /* Of the last change. */
    struct overlay_node node;
    uint16_t path_len;
    uint8_t path[];
};

/* What a change of the current request has replaced. */
struct overlay_undo {
    struct overlay_entry *entry;
    zxid_t zxid; /* 0: there was no entry. */
    struct overlay_node node;
};

struct overlay {
    struct map entries; /* By path. */
    struct list order;
    struct overlay_undo *undo;
    size_t undo_count;
    size_t undo_cap;
};

void overlay_init(struct overlay *overlay);
void overlay_release(struct overlay *overlay);
void overlay_clear(struct overlay *overlay);
size_t overlay_count(const struct overlay *overlay);

/* The znode at `path`; `exists` is false when there is none. */
void overlay_get(const struct overlay *overlay, const struct state *state, struct slice path,
                 struct overlay_node *ret_node);

/* Changes it, as a part of the current request. The cversion of the stat is computed here. */
void overlay_put(struct overlay *overlay, struct slice path, zxid_t zxid,
                 const struct overlay_node *node);

/* Ends the current request: its changes stay, or all of them are taken back. */
void overlay_commit(struct overlay *overlay);
void overlay_rollback(struct overlay *overlay);

/* Drops the entries whose last change is at or before `zxid`. */
void overlay_applied(struct overlay *overlay, zxid_t zxid);

/* Appends the paths at and below `top`, which exists, to `paths` as u16 length + bytes; stops
 * above `count_max` and returns the count, which is then larger. */
size_t overlay_subtree(const struct overlay *overlay, const struct state *state, struct slice top,
                       size_t count_max, struct buf *paths);

#endif
