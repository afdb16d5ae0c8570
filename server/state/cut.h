/*
 * cut.h - a subtree as it was at one zxid, read in slices while transactions are applied.
 *
 * The reader walks the subtree in the order of its names, and holds the lock for one slice at a
 * time. Before a transaction changes a znode ahead of the reader, the old version is saved, once
 * for each znode. The reader merges saved and unchanged znodes. Data and ACLs are shared by
 * reference, so saving costs little. The saved bytes are bounded: when they exceed the bound, the
 * cut ends.
 *
 * Locking: one thread begins, reads and frees a cut under the read lock of the state. No two
 * threads add or remove cuts of a state at the same time. Transactions hold the write lock.
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
    STATE_CUT_LOST     /* The state of the cut was replaced, or must not be read any more. */
};

/* A znode at the zxid of the cut. */
struct state_cut_znode {
    struct slice path; /* The whole path; valid until the next call. */
    struct stat_view stat;
    uint64_t owner;    /* Stored owner: see txn.h. */
    struct blob *data; /* Valid until the next call, like `acl`; no new reference. */
    struct blob *acl;  /* NULL: open to all. */
};

enum state_cut_step {
    STATE_CUT_ZNODE,  /* A znode of the cut. */
    STATE_CUT_PASSED, /* A znode newer than the cut was skipped. The caller counts such steps, too,
                         because each takes time under the lock. */
    STATE_CUT_END
};

struct state_cut_saved;

struct state_cut {
    struct list node; /* Entry in state.cuts. */
    zxid_t zxid;
    enum state_cut_fate fate;
    struct buf top;     /* Path of the subtree. */
    struct buf at;      /* Last path that was handed out or passed; empty: none yet. */
    bool pruned;        /* Znodes below `at` are skipped. */
    struct avl saved;   /* Each struct state_cut_saved by path_order; all are after `at`. */
    size_t saved_bytes; /* Approximate bytes of the saved znodes. */
    size_t bytes_max;

    /* State of the reader between enter and leave. */
    const struct state *state;
    struct walk walk;
    bool walking;                    /* `walk` is initialised. */
    const struct znode *live;        /* Present znode of the walk; NULL: the walk has ended. */
    bool consumed;                   /* `live` was handed out or passed, so the next call moves. */
    bool descend;                    /* The next move may visit the znodes below `live`. */
    struct state_cut_saved *current; /* The saved znode that was handed out. */
};

/* Begins a cut of the subtree at `path` as it is now. The path must exist. */
void state_cut_begin(struct state_cut *cut, struct state *state, struct slice path,
                     size_t bytes_max);

/* Removes the cut from the state. After that, state_cut_release needs no lock. */
void state_cut_end(struct state_cut *cut);
void state_cut_release(struct state_cut *cut);

/* Read one slice: state_cut_enter, any number of state_cut_next, state_cut_leave. The fate must be
 * STATE_CUT_GOOD. */
void state_cut_enter(struct state_cut *cut, const struct state *state);
enum state_cut_step state_cut_next(struct state_cut *cut, struct state_cut_znode *ret_znode);
void state_cut_leave(struct state_cut *cut);

/* Skips all znodes below the znode just handed out. */
void state_cut_prune(struct state_cut *cut);

/* Marks all cuts as lost and removes them from the state. Under the write lock. */
void state_cuts_lose(struct state *state);

#endif
