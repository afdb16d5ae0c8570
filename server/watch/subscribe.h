/*
 * subscribe.h - watches of one front-end thread, kept in step with the window of changes.
 *
 * Order is essential. `subscribe_pump` delivers events in the order of zxids up to a bound; a front
 * end that has read state z pumps up to z *before* it sends that answer. A watch begins at one
 * exact zxid. Later changes come from the window. Changes between the client's `since` and that
 * zxid are delivered when the watch is added: the window is replayed or, when it does not reach
 * back so far, the difference to the tree is delivered. One thread owns a subscriber.
 */
#ifndef SERVER_SUBSCRIBE_H
#define SERVER_SUBSCRIBE_H

#include "server/read/view.h"
#include "server/watch/watch.h"

#define ZXID_MAX UINT64_MAX

struct subscriber;

enum subscribe_resumed {
    SUBSCRIBE_FRESH,    /* No `since`. */
    SUBSCRIBE_REPLAYED, /* Each missed change is delivered. */
    SUBSCRIBE_DIFFED, /* The difference is delivered: the final state is exact, steps in between are
                         missing. */
    SUBSCRIBE_GAP     /* Neither is possible: nothing is delivered, the client must read again. */
};

enum {
    SUBSCRIBE_DIFF_NODES_MAX = 100000,  /* Znodes that a difference may visit. */
    SUBSCRIBE_DIFF_BYTES_MAX = 32 << 20 /* Of its events and their paths. */
};

/* "fresh", "replayed", "diffed", "gap". */
const char *subscribe_resumed_name(enum subscribe_resumed resumed);

/* The receiver. No callback may add, remove or release anything or pump; but on_lost may call
 * subscribe_catch_up, and on_event may hold watches (watch_hold). */
struct subscribe_sink {
    void *ctx;
    /* As for a table. Events of a difference are marked by `diff`. */
    watch_fn on_event;
    /* Each change of the window, before the events of its set: for closed and moved sessions. May
     * be NULL. */
    void (*on_change)(void *ctx, zxid_t zxid, const struct state_change *change);
    /* The subscriber fell behind the window, or the state was replaced: neither watches nor
     * on_change got the changes of (`from`, subscribe_at()]. Each watch stays and gets all later
     * changes. The front end lets each watch catch up from `from`, now or, if it holds the watch,
     * later and from the larger of `from` and its start. Or it reports a gap. */
    void (*on_lost)(void *ctx, zxid_t from);
};

/* Copies the sink. Begins at the present end of the window. */
struct subscriber *subscriber_new(struct view *view, struct window *window,
                                  const struct subscribe_sink *sink);
void subscriber_free(struct subscriber *subscriber); /* All owners were released. */

/* For owners: watch_owner_release, watch_remove, watch_by_id. */
struct watch_table *subscribe_table(struct subscriber *subscriber);

/* Delivers all changes up to `until` (ZXID_MAX: all), at most `sets_max` transactions; returns
 * subscribe_at. When that has moved, there may be more. */
zxid_t subscribe_pump(struct subscriber *subscriber, zxid_t until, size_t sets_max);

/* All watches have all changes up to this zxid: that of a heartbeat. */
zxid_t subscribe_at(const struct subscriber *subscriber);

struct subscribe_request {
    enum watch_kind kind;
    struct slice path; /* Has passed path_check. */
    bool values;       /* Of the watch; and its format: */
    enum op_dataformat format;
    bool has_since;
    zxid_t since;     /* The client has all changes up to here. */
    bool has_history; /* `since` is of this history: */
    uint64_t since_history;
};

struct subscribe_result {
    uint32_t id; /* Of the watch; valid even when it is used up. */
    enum subscribe_resumed resumed;
    zxid_t zxid;  /* The watch will get all changes above. */
    bool used_up; /* A missed change has used up the one-shot watch, so it is not in the table. */
};

/* Delivers all changes, adds a watch and delivers what it has missed since `since`. All of
 * `*ret_result` but `used_up` is set before the first of these events, so that a front end may
 * answer first. On an error nothing was added: ERR_HISTORY_CHANGED; ERR_REPLICA_BEHIND (`since` is
 * ahead of this replica: retry when it has caught up); ERR_THROTTLED (the limits of the owner);
 * ERR_NOT_READY (no state). The same watch again keeps its id and its start; with `since` it gets
 * what the client has missed, and is held no more. */
enum err subscribe_add(struct subscriber *subscriber, struct watch_owner *owner,
                       const struct subscribe_request *request,
                       struct subscribe_result *ret_result);

/* Adds a watch after a read of state `request->since`: delivers changes up to exactly there, so
 * that the first event of the watch is the first change that the answer does not show. The same
 * errors. */
enum err subscribe_add_at(struct subscriber *subscriber, struct watch_owner *owner,
                          const struct subscribe_request *request,
                          struct subscribe_result *ret_result);

/* Delivers the changes after `from` to one watch again, after a loss or after it was held; it is
 * held no more. For a held watch `from` is one less than the zxid of the first event that the front
 * end has not passed on (or has dropped since). Parts of a difference may be repeated. GAP: the
 * front end must report it. When `used_up` the watch is gone; a one-shot watch whose event was
 * dropped after it was used up cannot catch up, so such events must be kept. ERR_NOT_READY: the
 * state is not whole yet; the watch is held, retry later. */
enum err subscribe_catch_up(struct subscriber *subscriber, struct watch *watch, zxid_t from,
                            struct subscribe_result *ret_result);

#endif
