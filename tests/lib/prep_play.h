/*
 * prep_play.h - makes requests out of bytes, and prepares many of them before any is applied. A
 * naive model, which changes at once, must give the same refusals, the same answers, also to
 * repeated requests, and in the end the same state. Every property is an ASSERT.
 */
#ifndef TESTS_LIB_PREP_PLAY_H
#define TESTS_LIB_PREP_PLAY_H

#include "base/wire.h"
#include "server/prepare/prep.h"

struct prep_play;

/* `inherit_acl` as in struct prep_limits. */
struct prep_play *prep_play_new(bool inherit_acl);
void prep_play_free(struct prep_play *play);

/* Takes one request out of the bytes, prepares it, and applies some of those in flight. False when
 * there is no room for more requests. When the bytes have ended, zeros are read. */
bool prep_play_step(struct prep_play *play, struct wire_reader *reader);

/* Applies everything in flight and compares the states. */
void prep_play_settle(struct prep_play *play);

/* Returns the number of transactions prepared so far. */
size_t prep_play_prepared(const struct prep_play *play);

/* Requests refused because the tree had no room. */
size_t prep_play_full(const struct prep_play *play);
const struct state *prep_play_state(const struct prep_play *play);

#endif
