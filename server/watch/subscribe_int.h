/* subscribe_int.h - the inside of a subscriber, and what one watch has missed. It is gathered first
 * and delivered afterwards, because callbacks run only when no lock of window or tree is held. */
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
    struct window_mark at; /* Its position in the window. */
    bool telling;          /* Inside on_event or on_change. */

    uint32_t slice_nodes;       /* Most znodes of one slice. Tests take fewer, ... */
    void (*between)(void *ctx); /* ... and change the state in between. NULL except in tests. */
};

/* One event of a difference. */
struct diff_event {
    zxid_t zxid;
    size_t order; /* In which it was found: the second sort key. */
    enum watch_event_type type;
    size_t path_at; /* Its path in missed.paths. */
    size_t path_len;
    struct state_change change; /* `data` is a reference. */
};

/* One set of a replay. */
struct missed_set {
    struct change_set *set; /* A reference. */
    struct set_acls *acls;  /* Newer ACLs; NULL: none. */
};

struct missed {
    enum subscribe_resumed resumed;
    zxid_t since;            /* Covers (since, upto]; ... */
    zxid_t upto;             /* ... the watch continues there. */
    bool used_up;            /* The difference uses the watch up. */
    struct missed_set *sets; /* REPLAYED; the newest first. */
    size_t set_count;
    size_t set_cap;
    uint64_t looked;           /* Sets that were searched. */
    struct diff_event *events; /* DIFFED; in the order of zxids. */
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

/* Nothing missed: the watch begins at `upto`. */
void missed_init(struct missed *missed, enum subscribe_resumed resumed, zxid_t upto);
void missed_release(struct missed *missed);

/* Gathers into an initialised `missed`. ERR_NOT_READY when the state is needed and not available.
 */
enum err missed_gather(const struct subscriber *subscriber, const struct missed_by *by,
                       struct missed *missed);

/* Gathers the difference only. ERR_TOO_LARGE: it exceeds its bounds, or the state was replaced
 * meanwhile; the gathered events must be dropped. */
enum err diff_gather(const struct subscriber *subscriber, const struct missed_by *by,
                     struct missed *missed);

/* Drops what was gathered: a gap, after which the watch begins at `upto`. */
void missed_give_up(struct missed *missed, zxid_t upto);

/* Delivers it; true when that uses the watch up. */
bool missed_tell(struct subscriber *subscriber, struct watch *watch, const struct missed *missed);

#endif
