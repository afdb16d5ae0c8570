/*
 * watch.h - the table of watches of one front-end thread: which change is for which owner.
 *
 * The rules are exactly those of ZooKeeper: the kinds, which change fires which kind, and one-shot
 * watches that are used up. A change fires up to two triggers; a trigger is an event type at a
 * path. An owner gets one event for a trigger even when several of its watches match, and none when
 * the owner may not read the znode. The table works on all changes of a zxid together, so each
 * event tells whether it is the last one of its zxid for its owner. The code is pure; one thread
 * owns a table and all its watches.
 */
#ifndef SERVER_WATCH_H
#define SERVER_WATCH_H

#include "base/budget.h"
#include "base/list.h"
#include "server/op/op.h"
#include "server/watch/window.h"

enum watch_event_type {
    WATCH_CREATED = 1,
    WATCH_DELETED,
    WATCH_DATA_CHANGED,
    WATCH_CHILDREN_CHANGED
};

/* Returns ZooKeeper's name: "NodeCreated", "NodeDeleted", "NodeDataChanged" or
 * "NodeChildrenChanged". */
const char *watch_event_name(enum watch_event_type type);

/* Whether the first event uses the watch up. */
static inline bool watch_is_one_shot(enum watch_kind kind)
{
    return kind <= WATCH_CHILDREN;
}

struct watch;

/* An owner of watches: a connection or a stream. It is embedded in a struct of the front end. */
struct watch_owner {
    const struct op_principal *who; /* Read at each event, so the front end may change it. */
    uint32_t count_max;             /* Maximum number of watches. */
    size_t bytes_max;               /* Maximum bytes of their paths. */
    struct list watches;            /* All watches, by watch.by_owner, oldest first. */
    uint32_t count;
    size_t bytes;
    uint32_t next_id;
    struct budget_shares *pool; /* Memory of the watches of many owners; NULL: no such bound. */
    uint64_t pool_key;

    /* Used by the table while it fires. */
    struct list due;
    struct watch *hits;
    struct watch *hits_end;
    uint64_t stamp; /* Serial number of the trigger that `hits` belong to. */
    uint64_t last;  /* Serial number of the set's last trigger with an event for this owner. */
};

/* A key in watch_table.keys. Each watch has two: (owner, id, 0) and (owner, place, kind). */
struct watch_key {
    uintptr_t owner;
    uintptr_t what;
    uint64_t kind;
};

struct watch {
    uint32_t id; /* Unique in its owner, from 1, never reused. */
    enum watch_kind kind;
    struct watch_owner *owner;
    struct watch *hit_next; /* During on_event: the next watch that gets the event. */
    struct list by_owner;
    bool values;    /* The front end sends stat and data with the events. */
    bool held;      /* The watch gets no events for now: see watch_hold. */
    uint8_t format; /* The front end sends the data in this format, an enum op_dataformat. */
    zxid_t start;   /* Changes up to this zxid do not concern the watch. */

    /* Used by the subscriber. */
    /* The first `start` of the watch, or a lower `since` of a later request. The owner has all
     * changes up to this zxid, so the watch never has to catch up from before it. */
    zxid_t begin;
    zxid_t diff_since; /* The last difference delivered covers (diff_since, diff_upto]. */
    zxid_t diff_upto;

    /* Used by the table. */
    struct list by_place;
    struct watch_place *place;
    struct watch_key id_key;
    struct watch_key place_key;
    uint64_t used; /* Serial number of the first trigger of the set that uses the watch up. */
};

struct watch_event {
    enum watch_event_type type;
    struct slice path;
    zxid_t zxid;
    /* This is the last event of its zxid (or of a difference) for its owner. A client may resume
     * from this zxid only after this event. */
    bool last;
    bool diff; /* The event is part of a difference: see subscribe.h. */
    const struct state_change
        *change; /* The change of this event, with stat and data. NULL for CHILDREN_CHANGED. */
};

struct watch_table;

/* Called once for each owner that gets an event. `hits` are the watches of the owner that match,
 * chained by `hit_next`. The event and its change are valid during the call. One-shot watches among
 * the hits are used up and removed afterwards. The function must not add or remove watches; it may
 * hold them. */
typedef void (*watch_fn)(void *ctx, struct watch_owner *owner, struct watch *hits,
                         const struct watch_event *event);

struct watch_table *watch_table_new(watch_fn on_event, void *ctx);
void watch_table_free(struct watch_table *table); /* All owners must be released. */
size_t watch_table_count(const struct watch_table *table);

void watch_owner_init(struct watch_owner *owner, const struct op_principal *who, uint32_t count_max,
                      size_t bytes_max);

/* Makes the watches of the owner count in a pool, in the part of the address `key`. Call it before
 * the first watch is added; the pool must outlive the owner. */
void watch_owner_share(struct watch_owner *owner, struct budget_shares *pool, uint64_t key);
void watch_owner_release(struct watch_table *table, struct watch_owner *owner);

/* Adds a watch; path_check must have accepted `path`. If the owner has a watch of the same kind and
 * path already, that watch is returned and keeps its `start`. Returns NULL when the owner is at its
 * limits, which watch_may_add checks beforehand. */
struct watch *watch_add(struct watch_table *table, struct watch_owner *owner, enum watch_kind kind,
                        struct slice path, zxid_t start);
bool watch_may_add(const struct watch_table *table, const struct watch_owner *owner,
                   enum watch_kind kind, struct slice path);
void watch_remove(struct watch_table *table, struct watch *watch);

/* watch_by_id and watch_find return NULL when there is no such watch. */
struct watch *watch_by_id(const struct watch_table *table, const struct watch_owner *owner,
                          uint32_t id);
struct watch *watch_find(const struct watch_table *table, const struct watch_owner *owner,
                         enum watch_kind kind, struct slice path);
struct slice watch_path(const struct watch *watch);

/* Iterates over the watches of all owners at a path: returns the watch that follows `after` (NULL:
 * the first watch), or NULL at the end. */
const struct watch *watch_at(const struct watch_table *table, struct slice path,
                             const struct watch *after);

/* Holds a watch whose owner cannot take more events now. Until subscribe_catch_up or
 * subscribe_add ends the hold, the watch gets no events, and a one-shot watch is not used up. If
 * on_event calls this function, the present event does not use the watch up either. */
void watch_hold(struct watch *watch);

/* Makes all watches ignore changes up to `zxid`. */
void watch_table_raise(struct watch_table *table, zxid_t zxid);

/* Fires the events of a set; watches that are used up are removed afterwards. An owner gets an
 * event only if both the ACL in the set and the newest ACL let the owner read. `acls` has the
 * newest ACLs; NULL: the ACLs in the set are the newest. */
void watch_fire(struct watch_table *table, const struct change_set *set,
                const struct set_acls *acls);

/* Fires the events of the set for one watch only, without regard to its `start`. Stops when the
 * watch is held. Returns true when an event uses the watch up; the caller must remove the watch. */
bool watch_fire_one(struct watch_table *table, struct watch *watch, const struct change_set *set,
                    const struct set_acls *acls);

/* Fires one event for one watch, without a check of rights. */
void watch_tell(struct watch_table *table, struct watch *watch, const struct watch_event *event);

/* Whether the owner may read a znode with this ACL (NULL: open). */
bool watch_may_read(const struct watch_owner *owner, const struct blob *acl);

#endif
