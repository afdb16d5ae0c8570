/*
 * subscribe_int.h - the inside of a subscriber, and what one watch has missed: gathered first, told
 * afterwards, because callbacks run only when all looks at window and tree are over.
 */
#ifndef SERVER_SUBSCRIBE_INT_H
#define SERVER_SUBSCRIBE_INT_H

#include "base/buf.h"
#include "server/watch/subscribe.h"

struct subscriber {
    struct view *view;
    struct window *window;
    struct subscribe_sink sink;
    struct watch_table *table;
    struct window_mark at; /* Where it stands. */
    bool telling;          /* Inside on_event or on_change. */

    uint32_t slice_nodes;       /* That a walk visits in one hold of the lock. Tests take fewer, */
    void (*between)(void *ctx); /* and change the state in between. NULL but in tests. */
};

/* One event of a difference. */
struct diff_event {
    zxid_t zxid;
    size_t order; /* Of being found: the second key. */
    enum watch_event_type type;
    size_t path_at; /* Its path: in missed.paths. */
    size_t path_len;
    struct change change; /* `data` is a reference. */
};

/* One set of a replay. */
struct missed_set {
    struct change_set *set; /* A reference. */
    struct set_acls *acls;  /* Newer ones; NULL: none. */
};

struct missed {
    enum subscribe_resumed resumed;
    zxid_t since;            /* All of (since, upto] is in here: */
    zxid_t upto;             /* where the watch continues. */
    bool used_up;            /* By the difference. */
    struct missed_set *sets; /* REPLAYED; the newest first. */
    size_t set_count;
    size_t set_cap;
    uint64_t looked;           /* Sets that were looked at to find them. */
    struct diff_event *events; /* DIFFED; in the order of zxids. */
    size_t event_count;
    size_t event_cap;
    struct buf paths;
};

/* Whose loss it is. */
struct missed_by {
    const struct watch_owner *owner;
    enum watch_kind kind;
    struct slice path;
    zxid_t since;
};

/* Nothing missed: the watch begins at `upto`. */
void missed_init(struct missed *missed, enum subscribe_resumed resumed, zxid_t upto);
void missed_release(struct missed *missed);

/* Gathers into an initialised `missed`. ERR_NOT_READY when the state is needed and not there. */
enum err missed_gather(const struct subscriber *subscriber, const struct missed_by *by,
                       struct missed *missed);

/* The difference alone. ERR_TOO_LARGE: it cannot be told, because it is larger than its bounds or
 * the state was replaced meanwhile; what was gathered is to be given up. */
enum err diff_gather(const struct subscriber *subscriber, const struct missed_by *by,
                     struct missed *missed);

/* Gives up what was gathered: a gap, behind which the watch begins at `upto`. */
void missed_give_up(struct missed *missed, zxid_t upto);

/* Hands it out; true when that uses the watch up. */
bool missed_tell(struct subscriber *subscriber, struct watch *watch, const struct missed *missed);

#endif
