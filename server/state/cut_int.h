/* cut_int.h - saves a znode for the readers of cuts before a transaction changes it. */
#ifndef SERVER_STATE_CUT_INT_H
#define SERVER_STATE_CUT_INT_H

#include "server/state/cut.h"
#include "server/state/state_int.h"

void cuts_save(struct state *state, const struct znode *node, struct slice path);

/* Before any change of the fields, the data, the ACL, or the number of children of `node`. */
static inline void cuts_before(struct state *state, const struct znode *node, struct slice path)
{
    if (!list_empty(&state->cuts)) {
        cuts_save(state, node, path);
    }
}

#endif
