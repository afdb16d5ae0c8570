/* watch_int.h - the inside of the watch table: its members, and paths with watches. */
#ifndef SERVER_WATCH_INT_H
#define SERVER_WATCH_INT_H

#include "base/map.h"
#include "server/watch/watch.h"

/* A path with watches. */
struct watch_place {
    struct list by_kind[WATCH_KINDS]; /* Watches, oldest first; index 0 is not used. */
    uint32_t refs;                    /* One for each watch, and one while remove_used runs. */
    uint32_t depth;                   /* Components of the path. */
    struct slice path;                /* Slice of `bytes`. */
    uint8_t bytes[];
};

struct watch_table {
    watch_fn on_event;
    void *ctx;
    struct map places; /* Places by path. */
    struct map keys;   /* Watches by struct watch_key. */
    size_t count;
    uint64_t serial; /* Serial number of the last trigger. */
    bool firing;

    /* Number of recursive watches, in total and by the depth of their paths. A prefix of a path is
     * looked up only at depths that have recursive watches. */
    size_t recursive;
    uint32_t recursive_at[STATE_DEPTH_MAX + 1];
};

/* Take and drop a reference. Dropping the last one frees the place. */
void watch_place_ref(struct watch_place *place);
void watch_place_unref(struct watch_table *table, struct watch_place *place);

#endif
