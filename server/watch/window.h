/*
 * window.h - the recent changes, transaction by transaction, for watches.
 *
 * The core appends while it still holds the write lock of the view, so a thread that has read a
 * state finds here all changes that led to it. Front ends keep a position, not a copy. A front end
 * that falls behind the window gets an error and computes the difference. Bounded in transactions
 * and bytes.
 *
 * An index by path finds the changes for one watch without a scan of all others, and the newest ACL
 * of each path: changes from before an ACL was tightened are not shown afterwards.
 */
#ifndef SERVER_WINDOW_H
#define SERVER_WINDOW_H

#include "base/blob.h"
#include "base/err.h"
#include "base/list.h"
#include "base/logrec.h"
#include "server/state/state.h"

#include <stdatomic.h>

struct window;
struct window_path;
struct window_entry;

/* All changes of one zxid; immutable, one allocation. */
struct change_set {
    _Atomic uint32_t refs;
    uint32_t count;
    zxid_t zxid;
    size_t bytes;       /* Its cost, about. */
    struct logrec *rec; /* Slices point into it; one reference. */

    /* The window's. */
    struct change_set *dropped;
    struct window_entry *entries; /* In the index; NULL outside of the window. */
    uint32_t entry_count;
    struct state_change items[]; /* Slices and blobs live as long as the set. */
};

/* The changes of a transaction, as state_apply reported them: one reference, which uses no memory
 * of `changes`. Paths must point into `rec` (a reference is taken) or be constant. NULL when it
 * concerns no watch: then call window_skip. */
struct change_set *change_set_new(zxid_t zxid, struct logrec *rec,
                                  const struct state_changes *changes);
struct change_set *change_set_ref(struct change_set *set);
void change_set_unref(struct change_set *set); /* Any thread. Accepts NULL. */

/* All changes up to `start` are before the window. At least the newest set is kept, whatever its
 * cost. */
struct window *window_new(size_t bytes_max, uint32_t sets_max, zxid_t start);
void window_free(struct window *window); /* There are no listeners any more. */

/* Core thread, under the write lock of the view. Takes the reference; zxids ascend. */
void window_append(struct window *window, struct change_set *take_set);

/* Core thread, under the write lock: a record without changes also moves the end. May be repeated.
 */
void window_skip(struct window *window, zxid_t zxid);

/* Core thread, under the same hold of the write lock that put another state in place (or replayed
 * it until it was whole): there is nothing before `start`, which may be lower than the old end. */
void window_restart(struct window *window, zxid_t start);

/* Core thread: another state is about to replace the present one, or the state is not readable.
 * Until window_restart all reads fail, because ACLs may forbid what the window holds. */
void window_suspend(struct window *window);

/* Core thread, after the lock is free: wakes listeners when a set was appended, or the window
 * restarted, since the last call. */
void window_wake(struct window *window);

struct window_listener {
    struct list node;
    void (*wake)(void *ctx); /* Core thread: only post or signal; no call back into the window. */
    void *ctx;
};

/* Any thread. After window_unlisten `wake` is not running and will not run. */
void window_listen(struct window *window, struct window_listener *listener);
void window_unlisten(struct window *window, struct window_listener *listener);

/* A position in the changes since a restart of the window. */
struct window_mark {
    zxid_t zxid;       /* Everything up to here is behind. */
    uint64_t restarts; /* How often the window had restarted. */
};

/* Any thread: the newest position. */
void window_end(struct window *window, struct window_mark *ret_end);

/* Any thread: figures: all changes in (base, last] are held; the bytes include the index. */
struct window_extent {
    zxid_t base;
    zxid_t last;
    uint64_t restarts;
    uint32_t sets;
    size_t bytes;
};

void window_extent(struct window *window, struct window_extent *ret_extent);

/* Any thread: references to at most `max` sets after `after`, in order. They are complete up to
 * `*ret_last` (also without changes), never before `after`. ERR_MISSING: `after` is before the
 * window or from before a restart. ERR_NOT_READY: it is suspended. */
enum err window_read(struct window *window, const struct window_mark *after,
                     struct change_set **out, size_t max, size_t *ret_count, zxid_t *ret_last);

/* ---- By path. ---- */

/* A search in (after, upto]. Zero all but the first group. */
struct window_search {
    struct slice path;
    bool below;      /* Also changes below the path. */
    zxid_t after;    /* Everything up to here is behind. */
    zxid_t upto;     /* End of the search. */
    uint64_t life;   /* As in a mark. */
    uint64_t looked; /* Sets that were searched, for tests. */

    /* The window's. */
    bool begun;
    bool done;
    uint64_t number[2]; /* The next set of a chain ... */
    uint32_t at[2];     /* ... and its entry. */
    bool more[2];
};

/* Any thread: the next sets that concern the path, the newest first; at most `max` references, for
 * a bounded time. To be repeated until `done`. Some sets of other paths may be among them, none is
 * missing. The same errors as window_read. */
enum err window_search(struct window *window, struct window_search *search, struct change_set **out,
                       size_t max, size_t *ret_count);

/* The newest ACLs of the znodes of a set, change by change. */
struct set_acls {
    uint32_t count;

    struct {
        struct blob *own;    /* A reference; NULL: open. */
        struct blob *parent; /* CREATE, DELETE: of the parent. */
    } items[];
};

/* Any thread: the newest ACLs known for the paths of a set since the last restart; of a deleted
 * znode its last one. NULL: they are those of the set itself, the common case, which takes no lock.
 * ERR_MISSING: the window does not hold the set any more, so they are unknown. ERR_NOT_READY: it is
 * suspended. */
enum err window_acls(struct window *window, uint64_t life, const struct change_set *set,
                     struct set_acls **ret_acls);
void set_acls_free(struct set_acls *acls); /* Accepts NULL. */

/* Any thread: the newest ACL of one path, of a deleted znode its last one, as a reference. False:
 * unknown. */
bool window_acl(struct window *window, struct slice path, struct blob **ret_acl);

#endif
