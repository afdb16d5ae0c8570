/*
 * state_kit.h - another state for the gate of http_kit.h.
 *
 * Included by one test program each, behind that one.
 */
#ifndef TESTS_UNIT_STATE_KIT_H
#define TESTS_UNIT_STATE_KIT_H

#include "server/state/state.h"
#include "tests/unit/http_kit.h"

/* Another state, an empty one, takes the place of this one, as after a snapshot. */
static inline void kit_put_state(struct gate *gate, zxid_t zxid)
{
    struct state *state = state_new(KIT_HISTORY);

    state_skip(state, zxid);
    view_replace(gate->view, state);
    (void)view_write(gate->view);
    window_restart(gate->window, zxid);
    view_write_done(gate->view);
    view_set_whole(gate->view, true);
    window_wake(gate->window);
}

#endif
