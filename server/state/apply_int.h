/*
 * apply_int.h - one transaction that is being applied.
 *
 * Inside a fuzzy range no effect fails; the rest of the range repairs what an effect finds.
 */
#ifndef SERVER_STATE_APPLY_INT_H
#define SERVER_STATE_APPLY_INT_H

#include "server/state/state_int.h"

struct apply {
    struct state *state;
    zxid_t zxid;
    int64_t age_ms;
    int64_t stamp_ms;
    bool fuzzy;
    bool remembers; /* It remembers a result; at most one. */
    bool closes;    /* It closes a session. */

    /* About the last effect, for the change that is handed out. */
    const struct znode *node; /* NULL when it is gone. */
    uint32_t acl;             /* Of the znode; before it was deleted. */
    uint32_t parent_acl;
    uint64_t session;
    uint64_t attach; /* Of a move. */
    bool expired;    /* A session that was closed. */
    uint32_t member;
};

/* Whether the fields of an effect that is not about a znode are valid. */
bool is_sound_extra(struct apply *apply, const struct txn_effect *effect);

enum err apply_session_open(struct apply *apply, const struct txn_effect *effect);
enum err apply_session_close(struct apply *apply, const struct txn_effect *effect);
enum err apply_session_move(struct apply *apply, const struct txn_effect *effect);
enum err apply_remember(struct apply *apply, const struct txn_effect *effect);
enum err apply_forget(struct apply *apply, const struct txn_effect *effect);

#endif
