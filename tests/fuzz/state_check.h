/*
 * state_check.h - whether a state is consistent in itself: everything that it derives (digest,
 * counts, the index of znodes to be reaped) equals what a state rebuilt from its snapshot derives.
 */
#ifndef TESTS_FUZZ_STATE_CHECK_H
#define TESTS_FUZZ_STATE_CHECK_H

#include "server/state/state.h"

/* Asserts consistency. */
void state_check(const struct state *state);

/* Asserts that both hold the same znodes and figures. */
void state_check_same(const struct state *a, const struct state *b);

#endif
