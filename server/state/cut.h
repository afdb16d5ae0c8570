/*
 * cut.h - a subtree as it was at one zxid, read in slices while transactions are applied.
 *
 * The reader walks the subtree in the order of its names, under the lock for a slice at a time.
 * Before a transaction changes a znode ahead of the reader, the old version is saved, once for each
 * znode. The reader merges saved and unchanged znodes. Data and ACLs are shared by reference, so
 * saving costs little, and it is bounded: beyond the bound the cut ends.
 *
 * Locking: one thread begins, reads and frees a cut under the read lock of the state; cuts are
 * added to the state and removed by one thread at a time. Transactions hold the write lock.
 */
#ifndef SERVER_STATE_CUT_H
#define SERVER_STATE_CUT_H

#include "base/avl.h"
#include "base/list.h"
#include "server/state/state.h"

/* Why a cut cannot be read any more. */
enum state_cut_fate {
    STATE_CUT_GOOD,
    STATE_CUT_OVERRUN, /* Changes ahead of the reader exceed what may be saved. */
    STATE_CUT_LOST     /* Another state has replaced this one. */
};

/* A znode at the zxid of the cut. */
struct state_cut_znode {
    struct slice path; /* The whole path; valid until the next call. */
    struct stat_view stat;
    uint64_t owner;    /* Stored owner: see txn.h. */
    struct blob *data; /* Neither is a new reference; both are valid until the next call. */
    struct blob *acl;  /* NULL: open. */
};

enum state_cut_step {
    STATE_CUT_ZNODE,  /* A znode of the cut. */
    STATE_CUT_PASSED, /* A newer znode, which is skipped, but counts for the slice. */
    STATE_CUT_END
};

struct state_cut_saved;

struct state_cut {
    struct list node; /* In state.cuts. */
    zxid_t zxid;
    enum state_cut_fate fate;
    struct buf top;     /* Path of the subtree. */
    struct buf at;      /* Last path that was handed out or passed; empty: none yet. */
    bool pruned;        /* Znodes below `at` are skipped. */
    struct avl saved;   /* Of struct state_cut_saved, by path_order: all after `at`. */
    size_t saved_bytes; /* Bytes of saved znodes, about. */
    size_t bytes_max;

    /* The reader's, between enter and leave. */
    const struct state *state;
    struct walk walk;
    bool walking;             /* There are znodes to walk. */
    const struct znode *live; /* Next znode of the walk, not handed out yet; NULL: at its end. */
    bool consumed;            /* `live` was handed out: the walk continues after it ... */
    bool descend;             /* ... and descends into it. */
    struct state_cut_saved *current; /* The saved znode that was handed out. */
};

/* Begins a cut of the present subtree at `path`, which exists. */
void state_cut_begin(struct state_cut *cut, struct state *state, struct slice path,
                     size_t bytes_max);

/* Removes it from the state. Then it may be released without a lock. */
void state_cut_end(struct state_cut *cut);
void state_cut_release(struct state_cut *cut);

/* One slice: enter, any number of next, leave. Only with STATE_CUT_GOOD. */
void state_cut_enter(struct state_cut *cut, const struct state *state);
enum state_cut_step state_cut_next(struct state_cut *cut, struct state_cut_znode *ret_znode);
void state_cut_leave(struct state_cut *cut);

/* Skips all znodes below the one just handed out. */
void state_cut_prune(struct state_cut *cut);

/* Under the write lock: all cuts of the state are lost and removed from it. */
void state_cuts_lose(struct state *state);

#endif
