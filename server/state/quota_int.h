/*
 * quota_int.h - usage at and below the paths that have a limits znode.
 *
 * Derived from the tree alone. A quota is found by the running hash of a path that each znode has
 * anyway, and then compared with the path. So a plain znode needs no field for quotas, and without
 * quotas there is no work.
 */
#ifndef SERVER_STATE_QUOTA_INT_H
#define SERVER_STATE_QUOTA_INT_H

#include "base/avl.h"
#include "base/map.h"
#include "server/state/state.h"

struct quota {
    struct state_quota shown;
    struct avl_node order;   /* In quotas.order. */
    struct quota *same_hash; /* Next one with the same hash in quotas.by_hash. */
    uint64_t path_hash;
    uint8_t path[]; /* Memory of shown.path. */
};

struct quotas {
    struct map by_hash; /* First struct quota of each path hash. */
    struct avl order;   /* By path. */
    size_t count;
    uint64_t cost; /* In memory (cost.h). */
};

void quotas_init(struct quotas *quotas);
void quotas_release(struct quotas *quotas);

/* A znode with its data was linked, is about to be unlinked, or had `old_len` bytes of data before.
 * It and its parents are linked. */
void quota_joined(struct state *state, const struct znode *node);
void quota_leaving(struct state *state, const struct znode *node);
void quota_resized(struct state *state, const struct znode *node, uint64_t old_len);

/* All znodes below `node` are about to be unlinked. */
void quota_leaving_below(struct state *state, const struct znode *node);

#endif
