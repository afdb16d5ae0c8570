/*
 * window.h - the recent changes: what was applied, transaction by transaction, for those who watch.
 *
 * The core appends while it still holds the write lock of the view, so whoever has read a state
 * finds here all that led to it. Front ends keep a position, not a copy: one that falls behind the
 * window is told so and computes the difference. Bounded in transactions and bytes.
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

/* One change; slices and blobs live as long as the set. */
struct change {
    enum txn_effect_type type; /* CREATE, SET, DELETE, SET_ACL, SESSION_*. */
    struct slice path;         /* Of the znode; empty for a session. */
    struct stat_view stat;     /* After it; of a DELETE zero. */
    struct blob *data;         /* After a CREATE or SET; NULL when null. */
    struct blob *acl;          /* Of the znode, as it was when this happened; NULL: open. */
    struct blob *parent_acl;   /* CREATE, DELETE: of the parent. */
    uint64_t session;          /* SESSION_*; CREATE and DELETE: owner of an ephemeral, or 0. */
    uint64_t attach;           /* SESSION_MOVE: the new number. */
    uint32_t member;           /* SESSION_MOVE: where to. */
    bool expired;              /* SESSION_CLOSE: by the leader, not by its client. */
};

/* All changes of one zxid; immutable, one allocation. */
struct change_set {
    _Atomic uint32_t refs;
    uint32_t count;
    zxid_t zxid;
    size_t bytes;               /* What it costs, about. */
    struct logrec *rec;         /* Slices point into it; one reference. */
    struct change_set *dropped; /* The window's. */
    struct change items[];
};

/* What a transaction has done, as state_apply told it: one reference, none of the memory of
 * `changes`. Paths must point into `rec` (of which a reference is taken) or live for ever. NULL
 * when nothing of it concerns anybody: then window_skip. */
struct change_set *change_set_new(zxid_t zxid, struct logrec *rec,
                                  const struct state_changes *changes);
struct change_set *change_set_ref(struct change_set *set);
void change_set_unref(struct change_set *set); /* Any thread. Accepts NULL. */

/* All up to `start` is before the window. At least the newest set is kept, whatever it costs. */
struct window *window_new(size_t bytes_max, uint32_t sets_max, zxid_t start);
void window_free(struct window *window); /* Nobody listens any more. */

/* Core thread, under the write lock of the view. Takes the reference; zxids ascend. */
void window_append(struct window *window, struct change_set *take_set);

/* Core thread, under the write lock: a record without changes moves the end, too. Harmless when
 * repeated. */
void window_skip(struct window *window, zxid_t zxid);

/* Core thread, under the same hold of the write lock that put another state in place (or replayed
 * it up to where it is whole): there is nothing before `start`, which may be lower than the end
 * was. */
void window_restart(struct window *window, zxid_t start);

/* Core thread, after the lock is free: wakes listeners when a set was appended, or the window
 * restarted, since the last time. */
void window_wake(struct window *window);

struct window_listener {
    struct list node;
    void (*wake)(void *ctx); /* Core thread: only post or signal; no call back into the window. */
    void *ctx;
};

/* Any thread. After window_unlisten `wake` is not running and will not run. */
void window_listen(struct window *window, struct window_listener *listener);
void window_unlisten(struct window *window, struct window_listener *listener);

/* A place in the changes of one life of the window. */
struct window_mark {
    zxid_t zxid;       /* Everything up to here is behind. */
    uint64_t restarts; /* The life: how often the window had restarted. */
};

/* Any thread: the newest place. */
void window_end(struct window *window, struct window_mark *ret_end);

/* Any thread: what it holds: all changes in (base, last]. */
struct window_extent {
    zxid_t base;
    zxid_t last;
    uint64_t restarts;
    uint32_t sets;
    size_t bytes;
};

void window_extent(struct window *window, struct window_extent *ret_extent);

/* Any thread: references to at most `max` sets behind `after`, in order; `*ret_last` is up to where
 * they are complete (also when there is no change at all), never before `after`. ERR_MISSING:
 * `after` is before the window or of another life. */
enum err window_read(struct window *window, const struct window_mark *after,
                     struct change_set **out, size_t max, size_t *ret_count, zxid_t *ret_last);

#endif
