/* subscribe_int.h - the inside of a subscriber, and what one watch has missed. Missed changes are
 * gathered first and delivered afterwards, because callbacks run only when no lock of window or
 * tree is held. */
#ifndef SERVER_SUBSCRIBE_INT_H
#define SERVER_SUBSCRIBE_INT_H

#include "base/buf.h"
#include "base/check.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "server/watch/subscribe.h"

struct subscriber {
    struct view *view;
    struct window *window;
    struct subscribe_sink sink;
    struct watch_table *table;
    struct window_mark at; /* Position of the subscriber in the window. */
    bool telling;          /* on_event or on_change is running. */

    uint32_t slice_nodes; /* Znodes of a slice (one hold of the lock), at most; fewer in tests. */
    void (*between)(void *ctx); /* Called between slices, in tests; else NULL. */
};

/* One event of a difference. */
struct diff_event {
    zxid_t zxid;
    size_t order; /* Order in which the events were found: the second sort key. */
    enum watch_event_type type;
    size_t path_at; /* Offset of the path in missed.paths. */
    size_t path_len;
    struct state_change change; /* Holds one reference to its `data`. */
};

/* One set of a replay. */
struct missed_set {
    struct change_set *set; /* Holds one reference. */
    struct set_acls *acls;  /* Newest ACLs; NULL: the ACLs in the set are the newest. */
};

struct missed {
    enum subscribe_resumed resumed;
    zxid_t since;            /* The changes of (since, upto] are gathered. */
    zxid_t upto;             /* The watch continues after this zxid. */
    bool used_up;            /* The difference uses the watch up. */
    struct missed_set *sets; /* REPLAYED: sets, the newest first. */
    size_t set_count;
    size_t set_cap;
    uint64_t looked;           /* Number of sets that were searched. */
    struct diff_event *events; /* DIFFED: events in the order of zxids. */
    size_t event_count;
    size_t event_cap;
    struct buf paths;
};

/* The watch that has missed changes. */
struct missed_by {
    const struct watch_owner *owner;
    enum watch_kind kind;
    struct slice path;
    zxid_t since;
};

/* Initialises `missed` with no changes: the watch begins at `upto`. */
void missed_init(struct missed *missed, enum subscribe_resumed resumed, zxid_t upto);
void missed_release(struct missed *missed);

/* Gathers missed changes into an initialised `missed`. ERR_NOT_READY: the state is needed and not
 * available. */
enum err missed_gather(const struct subscriber *subscriber, const struct missed_by *by,
                       struct missed *missed);

/* Gathers the difference only. ERR_TOO_LARGE: the difference exceeds its bounds, or the state was
 * replaced meanwhile; the caller must drop the gathered events. */
enum err diff_gather(const struct subscriber *subscriber, const struct missed_by *by,
                     struct missed *missed);

/* Drops what was gathered. The result is a gap, after which the watch begins at `upto`. */
void missed_give_up(struct missed *missed, zxid_t upto);

/* Delivers the gathered changes; returns true when they use the watch up. */
bool missed_tell(struct subscriber *subscriber, struct watch *watch, const struct missed *missed);

#endif
