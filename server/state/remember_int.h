/*
 * remember_int.h - results of writes with an idempotency key, by key and by age.
 *
 * A transaction remembers at most one result, so its zxid names it, and all order is that of zxids.
 */
#ifndef SERVER_STATE_REMEMBER_INT_H
#define SERVER_STATE_REMEMBER_INT_H

#include "base/avl.h"
#include "base/map.h"
#include "server/state/state.h"

struct remembered {
    struct state_remembered shown; /* Slices into `bytes`. */
    struct avl_node order;         /* In remembers.order. */
    uint64_t hash;                 /* Of all fields, for the digest. */
    size_t name_len;               /* Of the key in remembers.by_name, where `bytes` begins. */
    uint8_t bytes[];               /* u32 length of the scope, scope, key, result. */
};

struct remembers {
    struct map by_name; /* By scope and key. */
    struct avl order;   /* By zxid. */
    uint64_t bytes;     /* Scopes, keys and results. */
    uint64_t cost;      /* Of all of it in memory (cost.h). */
};

void remembers_init(struct remembers *remembers);
void remembers_release(struct remembers *remembers);

/* NULL when there is none. */
struct remembered *remember_get(const struct state *state, struct slice scope, struct slice key);
struct remembered *remember_after(const struct state *state, zxid_t after);

/* A copy of the fields, not yet in the table. */
struct remembered *remember_new(const struct state_remembered *fields);

/* Neither its name nor its zxid is in the table yet. */
void remember_insert(struct state *state, struct remembered *take_entry);

/* Removes it; the caller owns it, for mem_free or remember_insert. */
void remember_remove(struct state *state, struct remembered *entry);

#endif
