/*
 * watch.h - the table of watches of one front-end thread: which change is for which owner.
 *
 * Exactly as in ZooKeeper: the kinds, what fires what, one-shot watches that are used up, one event
 * per owner and trigger however many of its watches match, and no event that the owner may not
 * read. The table works on whole sets of changes, so each event tells whether it is the last one of
 * that zxid for its owner. Pure; one thread owns a table and all its watches.
 */
#ifndef SERVER_WATCH_H
#define SERVER_WATCH_H

#include "base/list.h"
#include "server/op/op.h"
#include "server/watch/window.h"

enum watch_event_type {
    WATCH_CREATED = 1,
    WATCH_DELETED,
    WATCH_DATA_CHANGED,
    WATCH_CHILDREN_CHANGED
};

/* ZooKeeper's: "NodeCreated", "NodeDeleted", "NodeDataChanged", "NodeChildrenChanged". */
const char *watch_event_name(enum watch_event_type type);

/* Used up by its first event. */
static inline bool watch_is_one_shot(enum watch_kind kind)
{
    return kind <= WATCH_CHILDREN;
}

struct watch;

/* An owner of watches: a connection or a stream. Embedded in the struct of the front end. */
struct watch_owner {
    const struct op_principal *who; /* The front end's; read at each event, so it may change. */
    uint32_t count_max;             /* Watches. */
    size_t bytes_max;               /* Of their paths. */
    struct list watches;            /* By watch.by_owner, oldest first. */
    uint32_t count;
    size_t bytes;
    uint32_t next_id;

    /* The table's, while it fires. */
    struct list due;
    struct watch *hits;
    struct watch *hits_end;
    uint64_t stamp; /* The trigger of `hits`. */
    uint64_t last;  /* Last trigger of the set that is for this owner. */
};

/* The keys of a watch: (owner, id, 0) and (owner, place, kind). */
struct watch_key {
    uintptr_t owner;
    uintptr_t what;
    uint64_t kind;
};

struct watch {
    uint32_t id; /* Unique in its owner, from 1, never reused. */
    enum watch_kind kind;
    struct watch_owner *owner;
    struct watch *hit_next; /* In on_event: the next watch that the event is for. */
    struct list by_owner;
    bool values;    /* Events carry stat and data: for the front end. */
    bool held;      /* See watch_hold. */
    uint8_t format; /* Of the data, an enum op_dataformat: for the front end. */
    zxid_t start;   /* Changes up to here do not concern it. */

    /* The subscriber's. */
    zxid_t begin;      /* What its owner had when it was added: it gets no earlier change. */
    zxid_t diff_since; /* The last difference that it got: (since, upto]. */
    zxid_t diff_upto;

    /* The table's. */
    struct list by_place;
    struct watch_place *place;
    struct watch_key id_key;
    struct watch_key place_key;
    uint64_t used; /* First trigger of the set that uses it up. */
};

struct watch_event {
    enum watch_event_type type;
    struct slice path;
    zxid_t zxid;
    bool last; /* The last event of this zxid for its owner (or of a difference): only after it a
                  client may resume from this zxid. */
    bool diff; /* Of a difference: see subscribe.h. */
    const struct state_change
        *change; /* The change of this event: stat, data. NULL for CHILDREN_CHANGED. */
};

struct watch_table;

/* Called once for each owner of an event. `hits` are its watches that match, chained by `hit_next`.
 * The event and its change are valid during the call. One-shot watches among them are used up and
 * removed afterwards. It must not add or remove watches; it may hold them. */
typedef void (*watch_fn)(void *ctx, struct watch_owner *owner, struct watch *hits,
                         const struct watch_event *event);

struct watch_table *watch_table_new(watch_fn on_event, void *ctx);
void watch_table_free(struct watch_table *table); /* All owners were released. */
size_t watch_table_count(const struct watch_table *table);

void watch_owner_init(struct watch_owner *owner, const struct op_principal *who, uint32_t count_max,
                      size_t bytes_max);
void watch_owner_release(struct watch_table *table, struct watch_owner *owner);

/* `path` must have passed path_check. The same kind of the same path twice is one watch: it is
 * returned again and keeps its `start`. NULL when the owner is at its limits, which the second form
 * checks beforehand. */
struct watch *watch_add(struct watch_table *table, struct watch_owner *owner, enum watch_kind kind,
                        struct slice path, zxid_t start);
bool watch_may_add(const struct watch_table *table, const struct watch_owner *owner,
                   enum watch_kind kind, struct slice path);
void watch_remove(struct watch_table *table, struct watch *watch);

/* NULL when there is none. */
struct watch *watch_by_id(const struct watch_table *table, const struct watch_owner *owner,
                          uint32_t id);
struct watch *watch_find(const struct watch_table *table, const struct watch_owner *owner,
                         enum watch_kind kind, struct slice path);
struct slice watch_path(const struct watch *watch);

/* All watches of a path, of all owners: the first one, or the one after `after`. NULL at the end.
 */
const struct watch *watch_at(const struct watch_table *table, struct slice path,
                             const struct watch *after);

/* Holds a watch: from now on (in on_event, from the present event) events pass it by, and a
 * one-shot watch is not used up, because its owner takes no more. subscribe_catch_up ends that. */
void watch_hold(struct watch *watch);

/* Changes up to `zxid` concern no watch any more. */
void watch_table_raise(struct watch_table *table, zxid_t zxid);

/* Fires the events of a set; watches that are used up are removed afterwards. An owner gets an
 * event only if both the ACL in the set and the newest one (NULL: the same) let it read. */
void watch_fire(struct watch_table *table, const struct change_set *set,
                const struct set_acls *acls);

/* Fires the events of the set for one watch only, whatever its `start`, until it is held. True when
 * that uses it up; it is not removed. */
bool watch_fire_one(struct watch_table *table, struct watch *watch, const struct change_set *set,
                    const struct set_acls *acls);

/* Fires one event for one watch, without a check of rights. */
void watch_tell(struct watch_table *table, struct watch *watch, const struct watch_event *event);

/* Whether the owner may read a znode with this ACL (NULL: open). */
bool watch_may_read(const struct watch_owner *owner, const struct blob *acl);

#endif
