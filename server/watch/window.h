/*
 * window.h - the recent changes, transaction by transaction, for watches.
 *
 * The core appends while it still holds the write lock of the view, so a thread that has read a
 * state finds here all changes that led to it. Front ends keep a position, not a copy. A front end
 * that falls behind the window gets an error and computes the difference. The window is bounded in
 * transactions and bytes.
 *
 * An index by path finds the changes for one watch without a scan of all others. The index also has
 * the newest ACL of each path. After an ACL has become stricter, a client that may not read the
 * znode any more does not get earlier changes either.
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
    size_t bytes;       /* Approximate memory of the set. */
    struct logrec *rec; /* Record that slices point into; one reference. */

    /* Used by the window. */
    struct change_set *dropped;
    struct window_entry *entries; /* Entries in the index; NULL outside of the window. */
    uint32_t entry_count;
    struct state_change items[]; /* Their slices and blobs live as long as the set. */
};

/* Makes a set of the changes that state_apply reported, and returns one reference. The set uses no
 * memory of `changes`. Paths must point into `rec` (a reference is taken) or be constant. Returns
 * NULL when the transaction has only effects that the window does not keep, such as TXN_CHECK: then
 * call window_skip. */
struct change_set *change_set_new(zxid_t zxid, struct logrec *rec,
                                  const struct state_changes *changes);
struct change_set *change_set_ref(struct change_set *set);
void change_set_unref(struct change_set *set); /* Any thread. Accepts NULL. */

/* Makes a window that begins after `start`. The newest set is kept even if it exceeds `bytes_max`.
 */
struct window *window_new(size_t bytes_max, uint32_t sets_max, zxid_t start);
void window_free(struct window *window); /* All listeners must be removed. */

/* Appends a set and takes over its reference; zxids must ascend. Core thread, under the write lock
 * of the view. */
void window_append(struct window *window, struct change_set *take_set);

/* Moves the end over a record without changes. May be repeated. Core thread, under the write lock.
 */
void window_skip(struct window *window, zxid_t zxid);

/* Empties the window and begins it at `start`, which may be lower than the old end. Core thread, in
 * the same hold of the write lock in which it puts another state in place (or completes the replay
 * of the state). */
void window_restart(struct window *window, zxid_t start);

/* Makes window_read, window_search and window_acls fail until window_restart. To be called when
 * another state is about to replace the present one, or the state is not readable: the ACLs of the
 * next state may forbid what the window holds. Core thread. */
void window_suspend(struct window *window);

/* Wakes listeners when a set was appended, or the window restarted, since the last call. Core
 * thread, after it has released the write lock. */
void window_wake(struct window *window);

struct window_listener {
    struct list node;
    void (*wake)(void *ctx); /* On the core thread: only post or signal; no call to the window. */
    void *ctx;
};

/* Add and remove a listener. Any thread. After window_unlisten `wake` is not running and will not
 * run. */
void window_listen(struct window *window, struct window_listener *listener);
void window_unlisten(struct window *window, struct window_listener *listener);

/* A position in the window; the next restart of the window makes it invalid. */
struct window_mark {
    zxid_t zxid;       /* All changes up to this zxid are before the position. */
    uint64_t restarts; /* Number of restarts of the window before the position. */
};

/* Gets the newest position. Any thread. */
void window_end(struct window *window, struct window_mark *ret_end);

/* Figures of the window: it holds all changes in (base, last]; `bytes` includes the index. Any
 * thread may get them. */
struct window_extent {
    zxid_t base;
    zxid_t last;
    uint64_t restarts;
    uint32_t sets;
    size_t bytes;
};

void window_extent(struct window *window, struct window_extent *ret_extent);

/* Reads references to at most `max` sets after `after`, in order. Any thread. No set up to
 * `*ret_last` is left out. `*ret_last` is never before `after`; it may be later than the last set
 * that was read, because some zxids have no set. ERR_MISSING: `after` is before the window or from
 * before a restart. ERR_NOT_READY: the window is suspended. */
enum err window_read(struct window *window, const struct window_mark *after,
                     struct change_set **out, size_t max, size_t *ret_count, zxid_t *ret_last);

/* ---- By path. ---- */

/* A search in (after, upto]. The caller sets the members down to `life` and zeroes the others. */
struct window_search {
    struct slice path;
    bool below;      /* Also changes below the path are found. */
    zxid_t after;    /* Changes up to this zxid are not searched. */
    zxid_t upto;     /* Changes after this zxid are not returned. */
    uint64_t life;   /* `restarts` of the caller's window_mark. */
    uint64_t looked; /* Number of sets that were searched, for tests. */

    /* Used by the window. */
    bool begun;
    bool done;
    uint64_t number[2]; /* Number of the next set, for each chain. */
    uint32_t at[2];     /* Entry of the path in that set, for each chain. */
    bool more[2];
};

/* Finds the next sets that concern the path, the newest first: at most `max` references, in a
 * bounded time. Any thread. To be repeated until `done`. Sets of other paths may be among the
 * results, but no set of this path is missing. The errors are those of window_read. */
enum err window_search(struct window *window, struct window_search *search, struct change_set **out,
                       size_t max, size_t *ret_count);

/* The newest ACLs of the znodes of a set, one item for each change. */
struct set_acls {
    uint32_t count;

    struct {
        struct blob *own;    /* ACL of the znode; holds a reference. NULL: open to all. */
        struct blob *parent; /* CREATE, DELETE: ACL of the parent. */
    } items[];
};

/* Gets the newest ACLs that the window knows for the paths of a set; for a deleted znode its last
 * ACL. Any thread. `*ret_acls` is NULL when the set itself has the newest ACLs; this is the
 * common case and usually takes no lock. ERR_MISSING: the window does not hold the set any more, so
 * the ACLs are unknown. ERR_NOT_READY: the window is suspended. */
enum err window_acls(struct window *window, uint64_t life, const struct change_set *set,
                     struct set_acls **ret_acls);
void set_acls_free(struct set_acls *acls); /* Accepts NULL. */

/* Gets a reference to the newest ACL of one path; for a deleted znode to its last ACL. Any thread.
 * Returns false when the ACL is unknown. */
bool window_acl(struct window *window, struct slice path, struct blob **ret_acl);

#endif
