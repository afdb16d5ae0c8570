/*
 * window_int.h - the inside of the window: the ring of sets, and its index by path.
 *
 * A set has one entry for each path that it concerns, or two if it concerns the path in both roles
 * (enum window_role). An entry refers to the previous entry of the same path and role, so the sets
 * of a path in one role are a chain from the newest to the oldest. Entries never change.
 * Links are numbers of sets and not pointers: a link to a set before the oldest one ends the chain.
 */
#ifndef SERVER_WINDOW_INT_H
#define SERVER_WINDOW_INT_H

#include "base/thread.h"
#include "server/watch/window.h"

enum {
    WINDOW_DEPTH_MAX = 16,        /* Deepest path with a chain of all changes below it. */
    WINDOW_BUCKETS_MAX = 1 << 20, /* Maximum number of buckets in the table. */
    WINDOW_HOLD_MAX = 512         /* Sets that a reader searches in one hold of the mutex. */
};

enum window_role {
    WINDOW_AT,    /* Changes of the path, and of its list of children. */
    WINDOW_BELOW, /* Changes below the path. */
    WINDOW_ROLES
};

/* The sets of one path in one role. */
struct window_chain {
    uint64_t newest;    /* Number of the newest set. */
    uint32_t newest_at; /* Index of the entry in that set. */
    uint32_t sets;      /* Count of sets; 0: the chain is empty. */
};

/* A path that a set of the window concerns. */
struct window_path {
    struct window_path *next; /* Next path in the same bucket. */
    uint64_t hash;
    struct window_chain chains[WINDOW_ROLES];
    /* Newest ACL of the znode, or its last one if it is deleted; holds a reference. NULL: open to
     * all. */
    struct blob *acl;
    bool has_acl;      /* `acl` is known. */
    struct slice path; /* Slice of `bytes`. */
    uint8_t bytes[];
};

struct window_entry {
    struct window_path *path;
    /* Low 32 bits of the number of the previous set in the chain. A set that began the chain has
     * its own number here. */
    uint32_t prev;
    uint32_t prev_at : 31;
    uint32_t role : 1;
};

struct window_index {
    struct window_path **buckets;
    uint64_t mask;
    uint64_t seed;
    size_t bytes; /* Memory of the paths, in bytes. */
    struct window_entry *scratch;
    uint32_t scratch_count;
    uint32_t scratch_cap;
};

struct window {
    size_t bytes_max;
    uint32_t sets_max;
    bool news; /* A set was appended, or the window restarted, since the last wake. Core thread. */

    /* The ACLs in sets after this zxid are the newest ones, and no such set was dropped. Any thread
     * reads the zxid without the mutex. */
    _Atomic zxid_t settled;

    pthread_mutex_t mutex;    /* Guards the members down to `index`; held briefly. */
    struct change_set **ring; /* `sets_max` places; the oldest set is at `first`. */
    uint32_t first;
    uint32_t count;
    uint64_t oldest; /* Number of the oldest set: count of sets dropped before it. */
    size_t bytes;
    zxid_t base;
    zxid_t last;
    uint64_t restarts;
    bool suspended;
    struct window_index index;

    pthread_mutex_t listeners_mutex; /* A separate mutex, because waking makes system calls. */
    struct list listeners;
};

/* Returns the place of the i-th oldest set. */
static inline struct change_set **window_place(struct window *window, uint32_t i)
{
    uint64_t at = (uint64_t)window->first + i;

    return &window->ring[at < window->sets_max ? at : at - window->sets_max];
}

/* ---- window_index.c; all but the first two are called with the mutex held. ---- */

void index_init(struct window_index *index, uint32_t sets_max);
void index_release(struct window_index *index); /* The index must be empty. */

/* Gives the set its entries and adds their cost to its `bytes`. Returns true when the newest ACL of
 * a path has changed: then the ACLs in earlier sets may be out of date. */
bool index_add(struct window_index *index, struct change_set *set, uint64_t number);
void index_drop(struct window_index *index, struct change_set *set);

/* Returns the path, or NULL when no set of the window concerns it. */
struct window_path *index_find(const struct window_index *index, struct slice path);

/* Whether two ACLs are equal. */
bool window_same_acl(const struct blob *a, const struct blob *b);

#endif
