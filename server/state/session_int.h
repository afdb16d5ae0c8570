/*
 * session_int.h - the open sessions, and the ephemerals of each owner.
 *
 * A fuzzy snapshot may hold an ephemeral without its session, or the other way round. So an owner
 * has an entry here while it has either. Only an open session is visible, hashed and scanned.
 */
#ifndef SERVER_STATE_SESSION_INT_H
#define SERVER_STATE_SESSION_INT_H

#include "base/avl.h"
#include "base/map.h"
#include "server/state/share_int.h"
#include "server/state/state.h"

struct session {
    struct state_session shown;
    struct avl_node order; /* In sessions.order while open. */
    struct avl ephemerals; /* struct ephemeral by path. */
    bool open;
    uint8_t from[TXN_FROM_MAX]; /* Memory of shown.from. */
};

struct sessions {
    struct map owners;     /* struct session by id, open or not. */
    struct avl order;      /* The open ones by id. */
    struct map by_hash;    /* The open ones by the hash of their secret. */
    struct map ephemerals; /* struct ephemeral by the address of the znode. */
    uint64_t count;        /* Open ones. */
    struct shares shares;  /* The open ones by client and by network. */
};

void sessions_init(struct sessions *sessions);
void sessions_release(struct sessions *sessions);

/* The open session, or NULL. */
struct session *session_get(const struct state *state, uint64_t id);

/* Opens a session that is not open, with these fields (ephemerals are counted here). */
void session_open(struct state *state, const struct state_session *fields);

/* Closes an open session. Without ephemerals the caller owns it, for session_reopen or mem_free;
 * otherwise its ephemerals stay and NULL is returned. */
struct session *session_shut(struct state *state, struct session *session);
void session_reopen(struct state *state, struct session *take_session);
void session_move(struct state *state, struct session *session, uint64_t attach, uint32_t member);

/* A session becomes the owner of a linked znode, or is its owner no more. The second form looks at
 * no other znode. */
void ephemeral_joined(struct state *state, struct znode *node);
void ephemeral_left(struct state *state, struct znode *node);

#endif
