/* share_int.h - how many sessions each client and each network has open. Derived, never stored. */
#ifndef SERVER_STATE_SHARE_INT_H
#define SERVER_STATE_SHARE_INT_H

#include "base/map.h"
#include "server/state/state.h"

struct shares {
    struct map by_name; /* struct share, each with a count of at least 1. */
};

void shares_init(struct shares *shares);
void shares_release(struct shares *shares);

/* A session of this opener was opened or closed. */
void shares_add(struct shares *shares, struct slice from);
void shares_drop(struct shares *shares, struct slice from);

#endif
