/* Effects that are not about a znode: sessions and remembered results. */
#include "base/check.h"
#include "base/mem.h"
#include "base/probe.h"
#include "server/state/apply_int.h"

bool is_sound_extra(struct apply *apply, const struct txn_effect *effect)
{
    struct txn_session_open open;
    struct txn_session_close close;
    struct txn_session_move move;
    struct txn_remember remember;
    struct txn_forget forget;
    bool first = !apply->remembers;

    if (effect->type == TXN_SESSION_OPEN) {
        return txn_get_session_open(effect, &open) == ERR_OK && open.session == apply->zxid &&
               owner_is_session(open.session);
    }
    if (effect->type == TXN_SESSION_CLOSE) {
        apply->closes = true;
        return txn_get_session_close(effect, &close) == ERR_OK;
    }
    if (effect->type == TXN_SESSION_MOVE) {
        return txn_get_session_move(effect, &move) == ERR_OK;
    }
    if (effect->type == TXN_REMEMBER) {
        apply->remembers = true;
        return first && txn_get_remember(effect, &remember) == ERR_OK;
    }
    return txn_get_forget(effect, &forget) == ERR_OK && forget.horizon <= apply->zxid;
}

enum err apply_session_open(struct apply *apply, const struct txn_effect *effect)
{
    struct state *state = apply->state;
    struct txn_session_open open;
    enum err err = txn_get_session_open(effect, &open);
    struct session *session = session_get(state, open.session);

    /* is_sound_extra has seen the same bytes. */
    ASSERT(err == ERR_OK && open.session == apply->zxid);
    if (!apply->fuzzy &&
        (session != NULL || state_session_by_hash(state, open.secret_hash) != NULL)) {
        return ERR_CORRUPT;
    }
    if (session != NULL) {
        /* The snapshot saw it later, perhaps after a move, which is replayed. */
        PROBE("state.open_again");
        mem_free(session_shut(state, session));
    }
    struct state_session fields = {
        .id = open.session,
        .timeout_ms = open.timeout_ms,
        .opened_ms = apply->stamp_ms,
        .from = open.from,
    };

    memcpy(fields.secret_hash, open.secret_hash, sizeof(fields.secret_hash));
    session_open(state, &fields);
    if (!apply->fuzzy) {
        undo_session_open(&state->undo, session_get(state, open.session));
    }
    apply->session = open.session;
    return ERR_OK;
}

/* The bug of mutant 24: deletes the present ephemerals of the session, not those of the log. */
static void close_by_own_list(struct apply *apply, uint64_t id)
{
    struct state *state = apply->state;

    for (const struct znode *at = state_ephemeral_first(state, id); at != NULL;
         at = state_ephemeral_first(state, id)) {
        struct znode *parent = at->parent;
        struct znode *node = tree_child(parent, znode_name(at));

        state_sum_out(state, parent);
        state_drop_below(state, node);
        state_unlink(state, node);
        tree_node_free(node);
        parent->pzxid = apply->zxid > parent->pzxid ? apply->zxid : parent->pzxid;
        state_sum_in(state, parent);
        reap_update(state, parent);
    }
}

enum err apply_session_close(struct apply *apply, const struct txn_effect *effect)
{
    struct state *state = apply->state;
    struct txn_session_close close;
    enum err err = txn_get_session_close(effect, &close);
    struct session *session = session_get(state, close.session);

    ASSERT(err == ERR_OK);
    apply->session = close.session;
    apply->expired = close.reason == TXN_CLOSED_EXPIRED;
    if (MUTANT(24) && apply->fuzzy) {
        close_by_own_list(apply, close.session);
    }
    if (session == NULL) {
        PROBE("state.close_missing");
        return apply->fuzzy ? ERR_OK : ERR_CORRUPT;
    }
    if (apply->fuzzy) {
        mem_free(session_shut(state, session));
        return ERR_OK;
    }
    if (session->shown.ephemeral_count > 0) {
        return ERR_CORRUPT;
    }
    undo_session_close(&state->undo, session_shut(state, session));
    return ERR_OK;
}

enum err apply_session_move(struct apply *apply, const struct txn_effect *effect)
{
    struct state *state = apply->state;
    struct txn_session_move move;
    enum err err = txn_get_session_move(effect, &move);
    struct session *session = session_get(state, move.session);

    ASSERT(err == ERR_OK);
    apply->session = move.session;
    apply->attach = move.attach;
    apply->member = move.member;
    if (session == NULL) {
        PROBE("state.move_missing");
        return apply->fuzzy ? ERR_OK : ERR_CORRUPT;
    }
    if (!apply->fuzzy) {
        undo_session_move(&state->undo, session);
    }
    session_move(state, session, move.attach, move.member);
    return ERR_OK;
}

/* A remembered result with the same key or the same zxid. */
static struct remembered *in_the_way(const struct apply *apply, const struct txn_remember *remember)
{
    struct remembered *same = remember_get(apply->state, remember->scope, remember->key);

    if (same == NULL) {
        same = remember_after(apply->state, apply->zxid - 1);
        same = same != NULL && same->shown.zxid == apply->zxid ? same : NULL;
    }
    return same;
}

enum err apply_remember(struct apply *apply, const struct txn_effect *effect)
{
    struct state *state = apply->state;
    struct txn_remember remember;
    enum err err = txn_get_remember(effect, &remember);
    struct state_remembered fields = {.zxid = apply->zxid,
                                      .age_ms = apply->age_ms,
                                      .scope = remember.scope,
                                      .key = remember.key,
                                      .result = remember.result};

    ASSERT(err == ERR_OK);
    for (struct remembered *old = in_the_way(apply, &remember); old != NULL;
         old = in_the_way(apply, &remember)) {
        if (!apply->fuzzy) {
            return ERR_CORRUPT;
        }
        /* The same result, or one of a later use of the key, which is replayed. */
        PROBE("state.remember_again");
        remember_remove(state, old);
        mem_free(old);
    }
    memcpy(fields.fingerprint, remember.fingerprint, sizeof(fields.fingerprint));
    struct remembered *entry = remember_new(&fields);

    remember_insert(state, entry);
    if (!apply->fuzzy) {
        undo_remember(&state->undo, entry);
    }
    return ERR_OK;
}

enum err apply_forget(struct apply *apply, const struct txn_effect *effect)
{
    struct state *state = apply->state;
    struct txn_forget forget;
    enum err err = txn_get_forget(effect, &forget);
    struct remembered *entry = remember_after(state, 0);

    ASSERT(err == ERR_OK && forget.horizon <= apply->zxid);
    while (entry != NULL && entry->shown.zxid < forget.horizon) {
        remember_remove(state, entry);
        if (apply->fuzzy) {
            mem_free(entry);
        } else {
            undo_forget(&state->undo, entry);
        }
        entry = remember_after(state, 0);
    }
    return ERR_OK;
}
