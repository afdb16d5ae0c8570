/* watch_int.h - the inside of the watch table: places, and which kinds an event concerns. */
#ifndef SERVER_WATCH_INT_H
#define SERVER_WATCH_INT_H

#include "base/map.h"
#include "server/watch/watch.h"

/* A path with watches. */
struct watch_place {
    struct list by_kind[WATCH_KINDS]; /* Watches, oldest first; place 0 is not used. */
    uint32_t refs;                    /* Watches, and the table while it fires. */
    uint32_t depth;                   /* Components of the path. */
    struct slice path;                /* Into `bytes`. */
    uint8_t bytes[];
};

struct watch_table {
    watch_fn on_event;
    void *ctx;
    struct map places; /* By path. */
    struct map keys;   /* By struct watch_key. */
    size_t count;
    uint64_t serial; /* Of the last trigger. */
    bool firing;

    /* Recursive watches, in total and by the depth of their paths: a prefix is looked up only where
     * there are some. */
    size_t recursive;
    uint32_t recursive_at[STATE_DEPTH_MAX + 1];
};

/* Takes or drops a reference; a place without watches and references is freed. */
void watch_place_ref(struct watch_place *place);
void watch_place_unref(struct watch_table *table, struct watch_place *place);

#endif
