/*
 * cut.h - a subtree as it was at one zxid, read in slices while transactions go on.
 *
 * The reader walks the subtree in the order of its names and has the lock for a slice at a time.
 * What a transaction is about to change ahead of the reader is put aside first, once for each
 * znode; the reader merges that with what it finds. Data and ACLs are shared by reference, so what
 * is put aside costs little, and it is bounded: beyond that the cut is over.
 *
 * Locking: a cut is begun, read and freed under the read lock of the state, by one thread; cuts are
 * put into the state and taken out by one thread at a time. Transactions have the write lock.
 */
#ifndef SERVER_STATE_CUT_H
#define SERVER_STATE_CUT_H

#include "base/avl.h"
#include "base/list.h"
#include "server/state/state.h"
#include "server/state/walk.h"

/* Why a cut cannot be read any more. */
enum state_cut_fate {
    STATE_CUT_GOOD,
    STATE_CUT_OVERRUN, /* More was changed ahead of the reader than may be put aside. */
    STATE_CUT_LOST     /* Another state has taken the place of this one. */
};

/* A znode as it was. */
struct state_cut_znode {
    struct slice path; /* Full; good until the next call. */
    struct stat_view stat;
    uint64_t owner;    /* Stored owner: see txn.h. */
    struct blob *data; /* Neither is a new reference, and both are good until the next call. */
    struct blob *acl;  /* NULL: open. */
};

enum state_cut_step {
    STATE_CUT_ZNODE,  /* One that was there. */
    STATE_CUT_PASSED, /* One that is newer: nothing to hand out, but it counts for the slice. */
    STATE_CUT_END
};

struct state_cut_saved;

struct state_cut {
    struct list node; /* In state.cuts. */
    zxid_t zxid;
    enum state_cut_fate fate;
    struct buf top;     /* Path of the subtree. */
    struct buf at;      /* Last path that was handed out or passed; empty: none yet. */
    bool pruned;        /* Nothing below `at` is wanted. */
    struct avl saved;   /* Of struct state_cut_saved, by path_order: all behind `at`. */
    size_t saved_bytes; /* What is put aside, about. */
    size_t bytes_max;

    /* The reader's, between enter and leave. */
    const struct state *state;
    struct walk walk;
    bool walking;             /* There was something to walk. */
    const struct znode *live; /* Where the walk stands, not handed out yet; NULL: at its end. */
    bool consumed;            /* `live` was handed out: the walk continues behind it. */
    bool descend;             /* ... into it. */
    struct state_cut_saved *current; /* Handed out from there. */
};

/* A cut of the subtree at `path`, which is there, as the state is now. */
void state_cut_begin(struct state_cut *cut, struct state *state, struct slice path,
                     size_t bytes_max);

/* Takes it out of the state. Then it may be released without any lock. */
void state_cut_end(struct state_cut *cut);
void state_cut_release(struct state_cut *cut);

/* One slice: enter, next as often as the caller likes, leave. The fate is good. */
void state_cut_enter(struct state_cut *cut, const struct state *state);
enum state_cut_step state_cut_next(struct state_cut *cut, struct state_cut_znode *ret_znode);
void state_cut_leave(struct state_cut *cut);

/* What is below the znode just handed out is left out. */
void state_cut_prune(struct state_cut *cut);

/* Under the write lock: all cuts of the state are lost, and out of it. */
void state_cuts_lose(struct state *state);

#endif
