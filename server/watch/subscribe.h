/*
 * subscribe.h - watches of one front-end thread, kept in step with the window of changes.
 *
 * Order is essential. `subscribe_pump` delivers events in the order of zxids up to a bound. A front
 * end that has read the state at zxid z pumps up to z *before* it sends the answer. A watch begins
 * at one exact zxid and gets later changes from the window. Changes between the client's `since`
 * and this zxid are delivered when the watch is added. They are replayed from the window or, if the
 * window does not reach back to `since`, delivered as the difference to the present tree. One
 * thread owns a subscriber.
 */
#ifndef SERVER_SUBSCRIBE_H
#define SERVER_SUBSCRIBE_H

#include "server/read/view.h"
#include "server/watch/watch.h"

#define ZXID_MAX UINT64_MAX

struct subscriber;

enum subscribe_resumed {
    SUBSCRIBE_FRESH,    /* The request has no `since`. */
    SUBSCRIBE_REPLAYED, /* Each missed change is delivered. */
    SUBSCRIBE_DIFFED,   /* The difference is delivered: the final state without the steps to it. */
    SUBSCRIBE_GAP       /* Neither replay nor difference is possible: the client must read again. */
};

enum {
    SUBSCRIBE_DIFF_NODES_MAX = 100000,  /* Znodes that a difference may visit. */
    SUBSCRIBE_DIFF_BYTES_MAX = 32 << 20 /* Bytes of the events of a difference. */
};

/* Returns "fresh", "replayed", "diffed" or "gap". */
const char *subscribe_resumed_name(enum subscribe_resumed resumed);

/* The receiver of events. A callback must not pump, and must not add, remove or release watches or
 * owners. Exceptions: on_lost may call subscribe_catch_up, and on_event may call watch_hold. */
struct subscribe_sink {
    void *ctx;
    /* Gets events as watch_fn does. Events of a difference are marked by `diff`. */
    watch_fn on_event;
    /* Gets each change of a set before the events of this set. Front ends find closed and moved
     * sessions by these changes. May be NULL. */
    void (*on_change)(void *ctx, zxid_t zxid, const struct state_change *change);
    /* Called when the subscriber fell behind the window, or the state was replaced: watches and
     * on_change have not got the changes in (`from`, subscribe_at()]. Each watch stays and gets all
     * later changes. The front end lets each watch catch up from `from`, or reports a gap. To let
     * a watch catch up later, the front end holds the watch, and keeps the larger of `from` and
     * watch.start as the `from` of subscribe_catch_up, because the watch needs no change up to
     * either zxid. A watch that was held before the loss needs no action: it catches up when its
     * hold ends. */
    void (*on_lost)(void *ctx, zxid_t from);
};

/* Makes a subscriber with a copy of the sink. It begins at the present end of the window. */
struct subscriber *subscriber_new(struct view *view, struct window *window,
                                  const struct subscribe_sink *sink);
void subscriber_free(struct subscriber *subscriber); /* All owners must be released. */

/* Returns the table, for watch_owner_release, watch_remove and watch_by_id. */
struct watch_table *subscribe_table(struct subscriber *subscriber);

/* Delivers all changes up to `until` (ZXID_MAX: all), at most `sets_max` transactions. Returns
 * subscribe_at; if subscribe_at has risen, there may be more changes. */
zxid_t subscribe_pump(struct subscriber *subscriber, zxid_t until, size_t sets_max);

/* Returns the zxid up to which all watches have all changes. Heartbeats carry it. */
zxid_t subscribe_at(const struct subscriber *subscriber);

struct subscribe_request {
    enum watch_kind kind;
    struct slice path; /* path_check has accepted it. */
    bool values;       /* Events carry stat and data, shown in `format`. */
    enum op_dataformat format;
    bool has_since;
    zxid_t since;     /* The client has all changes up to this zxid. */
    bool has_history; /* The client names the history of `since`: `since_history`. */
    uint64_t since_history;
};

struct subscribe_result {
    uint32_t id; /* Id of the watch; valid even when the watch is used up. */
    enum subscribe_resumed resumed;
    zxid_t zxid;  /* The watch will get all changes above this zxid. */
    bool used_up; /* A missed change has used up the one-shot watch, so it is not in the table. */
};

/* Delivers all present changes, adds a watch and delivers the events that the watch has missed
 * after `since`. Before the first missed event, all of `*ret_result` except `used_up` is set, so
 * that on_event can answer the request before it sends the event. On an error nothing was added:
 * ERR_HISTORY_CHANGED; ERR_REPLICA_BEHIND (`since` is ahead of this replica: retry when it has
 * caught up); ERR_THROTTLED (the limits of the owner); ERR_NOT_READY (no state). A watch that
 * exists already keeps its id, and its start if the request has no `since`. If the request has
 * `since`, such a watch gets what the client has missed, and its hold ends. */
enum err subscribe_add(struct subscriber *subscriber, struct watch_owner *owner,
                       const struct subscribe_request *request,
                       struct subscribe_result *ret_result);

/* Adds a watch after a read whose answer shows the state at zxid `request->since`. First delivers
 * changes exactly up to `since`, so that the first event of the watch is the first change that the
 * answer does not show. The errors are those of subscribe_add. */
enum err subscribe_add_at(struct subscriber *subscriber, struct watch_owner *owner,
                          const struct subscribe_request *request,
                          struct subscribe_result *ret_result);

/* Lets one watch catch up after a loss, or ends its hold: delivers the changes after `from`. For a
 * held watch, take the first event that the front end did not queue, or dropped from its queue:
 * `from` is its zxid minus 1, so this event and later ones are delivered again. Parts of a
 * difference may be repeated. SUBSCRIBE_GAP: the front end must report the gap. If `used_up` is
 * set, the watch is gone. A one-shot watch that is used up cannot catch up, so the front end must
 * not drop its event. ERR_NOT_READY: the state is not complete yet; the watch is held, retry later.
 */
enum err subscribe_catch_up(struct subscriber *subscriber, struct watch *watch, zxid_t from,
                            struct subscribe_result *ret_result);

#endif
