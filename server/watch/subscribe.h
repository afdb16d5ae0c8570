/*
 * subscribe.h - watches of one front-end thread, kept in step with the window of changes.
 *
 * Order is everything here. `subscribe_pump` hands out events in the order of zxids up to a bound;
 * a front end that has read state z pumps up to z *before* it sends that answer. A watch begins at
 * one exact zxid: what is above it comes from the window, what lies between it and the client's
 * `since` is told when the watch is added, by replaying the window or, where that does not reach so
 * far back, as a difference to the tree. One thread owns a subscriber.
 */
#ifndef SERVER_SUBSCRIBE_H
#define SERVER_SUBSCRIBE_H

#include "server/read/view.h"
#include "server/watch/watch.h"

#define ZXID_MAX UINT64_MAX

struct subscriber;

enum subscribe_resumed {
    SUBSCRIBE_FRESH,    /* No `since`. */
    SUBSCRIBE_REPLAYED, /* Each missed change is told. */
    SUBSCRIBE_DIFFED,   /* The difference is told: final state exact, steps between are not. */
    SUBSCRIBE_GAP       /* Neither is possible: nothing is told, read anew. */
};

enum {
    SUBSCRIBE_DIFF_NODES_MAX = 100000,  /* Znodes that a difference may visit. */
    SUBSCRIBE_DIFF_BYTES_MAX = 32 << 20 /* Of its events and their paths. */
};

/* "fresh", "replayed", "diffed", "gap". */
const char *subscribe_resumed_name(enum subscribe_resumed resumed);

/*
 * Where it all goes. No callback may add, remove or release anything or pump; but on_lost may call
 * subscribe_catch_up, and on_event may hold watches (watch_hold).
 */
struct subscribe_sink {
    void *ctx;
    /* As of a table. Events of a difference are marked by `diff`. */
    watch_fn on_event;
    /* Every change of the window, before its set's events: sessions closed and moved. May be NULL.
     */
    void (*on_change)(void *ctx, zxid_t zxid, const struct change *change);
    /* The subscriber fell behind the window, or the state was replaced: watches have not been told
     * of what is in (`from`, subscribe_at()], nor on_change. Each stays, and is told of all that
     * comes later; the front end has each catch up from `from`: at once, or, when it holds it
     * now, later and from the larger of `from` and its start. Or it tells of a gap. */
    void (*on_lost)(void *ctx, zxid_t from);
};

/* Copies the sink. Begins at the present end of the window. */
struct subscriber *subscriber_new(struct view *view, struct window *window,
                                  const struct subscribe_sink *sink);
void subscriber_free(struct subscriber *subscriber); /* All owners are gone. */

/* For owners: watch_owner_release, watch_remove, watch_by_id. */
struct watch_table *subscribe_table(struct subscriber *subscriber);

/* Fires everything up to `until` (ZXID_MAX: all there is), at most `sets_max` transactions; returns
 * subscribe_at. Going on is worth a try when that has moved. */
zxid_t subscribe_pump(struct subscriber *subscriber, zxid_t until, size_t sets_max);

/* Up to where all have been told: the zxid for a heartbeat. */
zxid_t subscribe_at(const struct subscriber *subscriber);

struct subscribe_request {
    enum watch_kind kind;
    struct slice path; /* Has passed path_check. */
    bool values;       /* Of the watch; and its format: */
    enum op_dataformat format;
    bool has_since;
    zxid_t since;     /* The client has everything up to here. */
    bool has_history; /* `since` is of this history: */
    uint64_t since_history;
};

struct subscribe_result {
    uint32_t id; /* Of the watch; good even when it is used up. */
    enum subscribe_resumed resumed;
    zxid_t zxid;  /* The watch will be told of everything above. */
    bool used_up; /* A one-shot watch that a missed change has used up: it is not in the table. */
};

/*
 * Pumps all there is, adds a watch there and hands out what it has missed since `since`, with all
 * of `*ret_result` but `used_up` set before the first of these events, so that a front end may
 * answer first. On an error nothing was added: ERR_HISTORY_CHANGED; ERR_REPLICA_BEHIND (`since` is
 * ahead of this replica: wait until it has come so far); ERR_THROTTLED (the owner's limits);
 * ERR_NOT_READY (no state).
 *
 * The same watch again keeps its id and its start; with `since` it is told of what the client says
 * it has missed, and is held no more.
 */
enum err subscribe_add(struct subscriber *subscriber, struct watch_owner *owner,
                       const struct subscribe_request *request,
                       struct subscribe_result *ret_result);

/* Adds a watch behind a read that has answered state `request->since`: pumps up to exactly there,
 * so that the first change that it is told of is the first one not in the answer. The same errors.
 */
enum err subscribe_add_at(struct subscriber *subscriber, struct watch_owner *owner,
                          const struct subscribe_request *request,
                          struct subscribe_result *ret_result);

/*
 * Tells one watch again what came after `from`: after a loss, or after it was held; it is held no
 * more. For a held one `from` is one less than the zxid of the first event that the front end has
 * not passed on (or has thrown away since). Parts of a difference may come twice. GAP: the front
 * end must say so. When `used_up` the watch is gone; a one-shot watch whose event was thrown away
 * after it was used up cannot catch up, so keep those. ERR_NOT_READY: the state is not whole yet;
 * the watch is held, try again later.
 */
enum err subscribe_catch_up(struct subscriber *subscriber, struct watch *watch, zxid_t from,
                            struct subscribe_result *ret_result);

#endif
