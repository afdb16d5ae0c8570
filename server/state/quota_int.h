/*
 * quota_int.h - how much there is below the paths that have a limits znode.
 *
 * Derived from the tree alone. A quota is found by the running hash of a path that each znode has
 * anyway, and then compared with the path, so that a plain znode pays nothing for it: no field, and
 * no step at all while there are no quotas.
 */
#ifndef SERVER_STATE_QUOTA_INT_H
#define SERVER_STATE_QUOTA_INT_H

#include "base/avl.h"
#include "base/map.h"
#include "server/state/state.h"

struct quota {
    struct state_quota shown;
    struct avl_node order;   /* In quotas.order. */
    struct quota *same_hash; /* Next one in the same place of quotas.by_hash. */
    uint64_t path_hash;
    uint8_t path[]; /* What shown.path points into. */
};

struct quotas {
    struct map by_hash; /* First struct quota of each path hash. */
    struct avl order;   /* By path. */
    size_t count;
    uint64_t cost; /* In memory (cost.h). */
};

void quotas_init(struct quotas *quotas);
void quotas_release(struct quotas *quotas);

/* A znode with its data has joined the tree, is about to leave it, or had `old_len` bytes of data
 * until now. It and its parents are linked. */
void quota_joined(struct state *state, const struct znode *node);
void quota_leaving(struct state *state, const struct znode *node);
void quota_resized(struct state *state, const struct znode *node, uint64_t old_len);

/* All that is below `node` is about to leave. */
void quota_leaving_below(struct state *state, const struct znode *node);

#endif
