#include "base/probe.h"
#include "server/state/state_int.h"

/* One transaction that is being applied. Inside a fuzzy range no effect fails: if the state is
 * newer than the effect expects, later effects of the range correct the result. */
struct apply {
    struct state *state;
    zxid_t zxid;
    int64_t age_ms;
    int64_t stamp_ms;
    bool fuzzy;
    bool remembers; /* A result was remembered; a second one is an error. */
    bool closes;    /* A session was closed. */

    /* Details of the last effect, for the change that is handed out. */
    const struct znode *node; /* Znode of the effect; NULL when it was deleted. */
    uint32_t acl;             /* ACL of the znode; for a DELETE, the ACL before it. */
    uint32_t parent_acl;
    uint64_t session;
};

/* Notes old values for a rollback. A fuzzy range has no rollback, so it needs no old values. */
static void keep_old(const struct apply *apply, const struct undo_entry *entry)
{
    if (!apply->fuzzy) {
        undo_add(&apply->state->undo, entry);
    }
}

/* ---- Effects on znodes. ---- */

static struct blob *data_of(const struct txn_effect *effect)
{
    return (effect->flags & TXN_NULL_DATA) != 0 ? NULL : blob_new(effect->data);
}

/* Sets the pzxid of `parent` after a child was created or deleted. The pzxid does not fall: a fuzzy
 * snapshot may already hold the pzxid of a later transaction. */
static void touch_parent(const struct apply *apply, struct znode *parent)
{
    bool lower = MUTANT(23) && apply->fuzzy;

    if (lower || apply->zxid > parent->pzxid) {
        parent->pzxid = apply->zxid;
    }
}

static void fill_new(const struct apply *apply, const struct txn_effect *effect, struct znode *node)
{
    node->czxid = apply->zxid;
    node->mzxid = apply->zxid;
    node->pzxid = apply->zxid;
    node->ctime_ms = apply->stamp_ms;
    node->mtime_ms = apply->stamp_ms;
    node->age_ms = owner_is_reaped(effect->owner) ? apply->age_ms : 0;
    node->version = 0;
    node->aversion = 0;
    node->creates = 0;
}

/* Creates a znode that exists already, because the snapshot saw it at a later time, perhaps after
 * it was deleted and created again. Znodes below it are dropped: they were created later still, so
 * the log brings them back. */
static void create_again(const struct apply *apply, const struct txn_effect *effect,
                         struct znode *node)
{
    struct state *state = apply->state;

    ASSERT(apply->fuzzy && node->parent != NULL);
    PROBE("state.create_again");
    state_sum_out(state, node);
    state_drop_below(state, node);
    blob_unref(state_swap_data(state, node, data_of(effect)));
    fill_new(apply, effect, node);
    state_set_owner(state, node, effect->owner);
    state_set_acl(state, node, acls_intern(&state->acls, effect->acl));
    state_sum_in(state, node);
}

static struct znode *create_new(const struct apply *apply, const struct txn_effect *effect,
                                struct znode *parent)
{
    struct znode *node = tree_node_new(path_name(effect->path));

    blob_unref(tree_node_swap_data(node, data_of(effect)));
    fill_new(apply, effect, node);
    node->owner = effect->owner;
    node->acl = acls_intern(&apply->state->acls, effect->acl);
    state_link(apply->state, parent, node);
    return node;
}

static bool may_create(const struct state *state, const struct txn_effect *effect,
                       const struct znode *parent)
{
    if (owner_is_session(effect->owner) && session_get(state, effect->owner) == NULL) {
        return false;
    }
    return !owner_is_session(parent->owner) && effect->creates > parent->creates;
}

static enum err apply_create(struct apply *apply, const struct txn_effect *effect)
{
    struct state *state = apply->state;
    struct znode *parent = tree_find(state->root, path_parent(effect->path));

    if (path_is_builtin(effect->path)) {
        return ERR_CORRUPT;
    }
    if (parent == NULL) {
        /* The snapshot saw this path after the parent was deleted. The log deletes this child
         * before the parent, so the child is not needed. */
        PROBE("state.create_orphan");
        return apply->fuzzy ? ERR_OK : ERR_CORRUPT;
    }
    struct znode *node = tree_child(parent, path_name(effect->path));

    if (!apply->fuzzy && (node != NULL || !may_create(state, effect, parent))) {
        return ERR_CORRUPT;
    }
    zxid_t pzxid = parent->pzxid;
    uint32_t creates = parent->creates;

    cuts_before(state, parent, path_parent(effect->path));
    state_sum_out(state, parent);
    if (node != NULL) {
        create_again(apply, effect, node);
    } else {
        node = create_new(apply, effect, parent);
    }
    touch_parent(apply, parent);
    parent->creates = max_u32(effect->creates, creates);
    state_sum_in(state, parent);
    reap_update(state, parent);
    keep_old(apply, &(struct undo_entry){.type = TXN_CREATE,
                                         .node = node,
                                         .parent = parent,
                                         .pzxid = pzxid,
                                         .creates = creates});
    apply->node = node;
    apply->acl = node->acl;
    apply->parent_acl = parent->acl;
    apply->session = owner_is_session(node->owner) ? node->owner : 0;
    return ERR_OK;
}

static enum err apply_set(struct apply *apply, const struct txn_effect *effect)
{
    struct state *state = apply->state;
    struct znode *node = tree_find(state->root, effect->path);

    if (node == NULL) {
        PROBE("state.set_missing");
        return apply->fuzzy ? ERR_OK : ERR_CORRUPT;
    }
    apply->node = node;
    apply->acl = node->acl;
    keep_old(apply, &(struct undo_entry){.type = TXN_SET,
                                         .node = node,
                                         .data = apply->fuzzy ? NULL : blob_ref(node->data),
                                         .mzxid = node->mzxid,
                                         .mtime_ms = node->mtime_ms,
                                         .age_ms = node->age_ms,
                                         .version = node->version});
    cuts_before(state, node, effect->path);
    state_sum_out(state, node);
    blob_unref(state_swap_data(state, node, data_of(effect)));
    node->mzxid = apply->zxid;
    node->mtime_ms = apply->stamp_ms;
    if (owner_is_ttl(node->owner)) {
        node->age_ms = apply->age_ms;
    }
    node->version = effect->version;
    state_sum_in(state, node);
    reap_update(state, node);
    return ERR_OK;
}

/* Deletes a znode and all znodes that a fuzzy snapshot holds below it. These belong to a later
 * znode of the same path, so the log creates them again. */
static void delete_fuzzy(const struct apply *apply, struct znode *node)
{
    struct state *state = apply->state;

    if (node->num_children > 0) {
        PROBE("state.delete_parent_of_later_life");
        state_sum_out(state, node);
        state_drop_below(state, node);
        state_sum_in(state, node);
        reap_update(state, node);
    }
    state_unlink(state, node);
    tree_node_free(node);
}

/* Applies the delete of a missing child. In a fuzzy range the snapshot read the parent after this
 * delete, so the child is missing; the delete then only sets the pzxid of the parent. */
static enum err delete_missing(const struct apply *apply, struct znode *parent)
{
    PROBE("state.delete_missing");
    if (!apply->fuzzy) {
        return ERR_CORRUPT;
    }
    if (parent != NULL && !MUTANT(23)) {
        state_sum_out(apply->state, parent);
        touch_parent(apply, parent);
        state_sum_in(apply->state, parent);
    }
    return ERR_OK;
}

static enum err apply_delete(struct apply *apply, const struct txn_effect *effect)
{
    struct state *state = apply->state;

    if (MUTANT(24) && apply->fuzzy && apply->closes) {
        return ERR_OK;
    }
    if (path_is_builtin(effect->path)) {
        return ERR_CORRUPT;
    }
    struct znode *parent = tree_find(state->root, path_parent(effect->path));
    struct znode *node = parent != NULL ? tree_child(parent, path_name(effect->path)) : NULL;

    if (node == NULL) {
        return delete_missing(apply, parent);
    }
    if (node->num_children > 0 && !apply->fuzzy) {
        return ERR_CORRUPT;
    }
    apply->acl = node->acl;
    apply->parent_acl = parent->acl;
    apply->session = owner_is_session(node->owner) ? node->owner : 0;
    cuts_before(state, node, effect->path);
    cuts_before(state, parent, path_parent(effect->path));
    state_sum_out(state, parent);
    if (apply->fuzzy) {
        delete_fuzzy(apply, node);
    } else {
        state_unlink(state, node);
        undo_add(&state->undo, &(struct undo_entry){.type = TXN_DELETE,
                                                    .node = node,
                                                    .parent = parent,
                                                    .pzxid = parent->pzxid,
                                                    .creates = parent->creates});
    }
    touch_parent(apply, parent);
    state_sum_in(state, parent);
    reap_update(state, parent);
    return ERR_OK;
}

static enum err apply_check(struct apply *apply, const struct txn_effect *effect)
{
    apply->node = state_find(apply->state, effect->path);
    apply->acl = apply->node != NULL ? apply->node->acl : 0;
    return apply->node != NULL || apply->fuzzy ? ERR_OK : ERR_CORRUPT;
}

static enum err apply_set_acl(struct apply *apply, const struct txn_effect *effect)
{
    struct state *state = apply->state;
    struct znode *node = tree_find(state->root, effect->path);

    if (node == NULL) {
        PROBE("state.set_acl_missing");
        return apply->fuzzy ? ERR_OK : ERR_CORRUPT;
    }
    keep_old(apply,
             &(struct undo_entry){
                 .type = TXN_SET_ACL, .node = node, .acl = node->acl, .version = node->aversion});
    cuts_before(state, node, effect->path);
    state_sum_out(state, node);
    state_set_acl(state, node, acls_intern(&state->acls, effect->acl));
    node->aversion = effect->version;
    state_sum_in(state, node);
    apply->node = node;
    apply->acl = node->acl;
    return ERR_OK;
}

/* ---- Sessions and remembered results. ---- */

static enum err apply_session_open(struct apply *apply, const struct txn_effect *effect)
{
    struct state *state = apply->state;
    const struct txn_session_open *open = &effect->open;
    struct session *session = session_get(state, open->session);

    if (!apply->fuzzy &&
        (session != NULL || state_session_by_hash(state, open->secret_hash) != NULL)) {
        return ERR_CORRUPT;
    }
    if (session != NULL) {
        /* The snapshot saw the session at a later time, perhaps after a move. The log replays the
         * move. */
        PROBE("state.open_again");
        mem_free(session_shut(state, session));
    }
    struct state_session fields = {
        .id = open->session,
        .timeout_ms = open->timeout_ms,
        .opened_ms = apply->stamp_ms,
        .from = open->from,
    };

    memcpy(fields.secret_hash, open->secret_hash, sizeof(fields.secret_hash));
    session = session_open(state, &fields);
    keep_old(apply, &(struct undo_entry){.type = TXN_SESSION_OPEN, .session = session});
    apply->session = open->session;
    return ERR_OK;
}

/* Mutant 24, a bug on purpose: deletes the present ephemerals of the session instead of the
 * ephemerals that the log deletes. */
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
        parent->pzxid = max_u64(apply->zxid, parent->pzxid);
        state_sum_in(state, parent);
        reap_update(state, parent);
    }
}

static enum err apply_session_close(struct apply *apply, const struct txn_effect *effect)
{
    struct state *state = apply->state;
    struct session *session = session_get(state, effect->close.session);

    apply->session = effect->close.session;
    if (MUTANT(24) && apply->fuzzy) {
        close_by_own_list(apply, effect->close.session);
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
    undo_add(&state->undo, &(struct undo_entry){.type = TXN_SESSION_CLOSE,
                                                .session = session_shut(state, session)});
    return ERR_OK;
}

static enum err apply_session_move(struct apply *apply, const struct txn_effect *effect)
{
    struct state *state = apply->state;
    struct session *session = session_get(state, effect->move.session);

    apply->session = effect->move.session;
    if (session == NULL) {
        PROBE("state.move_missing");
        return apply->fuzzy ? ERR_OK : ERR_CORRUPT;
    }
    keep_old(apply, &(struct undo_entry){.type = TXN_SESSION_MOVE,
                                         .session = session,
                                         .attach = session->shown.attach,
                                         .member = session->shown.member});
    session_move(state, session, effect->move.attach, effect->move.member);
    return ERR_OK;
}

/* Returns a remembered result with the same key or the same zxid, or NULL. */
static struct remembered *in_the_way(const struct apply *apply, const struct txn_remember *remember)
{
    struct remembered *same = remember_get(apply->state, remember->scope, remember->key);

    if (same == NULL) {
        same = remember_after(apply->state, apply->zxid - 1);
        same = same != NULL && same->shown.zxid == apply->zxid ? same : NULL;
    }
    return same;
}

static enum err apply_remember(struct apply *apply, const struct txn_effect *effect)
{
    struct state *state = apply->state;
    const struct txn_remember *remember = &effect->remember;
    struct state_remembered fields = {.zxid = apply->zxid,
                                      .age_ms = apply->age_ms,
                                      .scope = remember->scope,
                                      .key = remember->key,
                                      .result = remember->result};

    for (struct remembered *old = in_the_way(apply, remember); old != NULL;
         old = in_the_way(apply, remember)) {
        if (!apply->fuzzy) {
            return ERR_CORRUPT;
        }
        /* This is the same result, or the result of a later use of the key, which the log replays.
         */
        PROBE("state.remember_again");
        remember_remove(state, old);
        mem_free(old);
    }
    memcpy(fields.fingerprint, remember->fingerprint, sizeof(fields.fingerprint));
    struct remembered *entry = remember_new(&fields);

    remember_insert(state, entry);
    keep_old(apply, &(struct undo_entry){.type = TXN_REMEMBER, .remembered = entry});
    return ERR_OK;
}

static enum err apply_forget(struct apply *apply, const struct txn_effect *effect)
{
    struct state *state = apply->state;
    struct remembered *entry = remember_after(state, 0);

    while (entry != NULL && entry->shown.zxid < effect->forget.horizon) {
        remember_remove(state, entry);
        if (apply->fuzzy) {
            mem_free(entry);
        } else {
            undo_add(&state->undo, &(struct undo_entry){.type = TXN_FORGET, .remembered = entry});
        }
        entry = remember_after(state, 0);
    }
    return ERR_OK;
}

/* ---- The whole transaction. ---- */

static enum err (*const apply_of[])(struct apply *, const struct txn_effect *) = {
    [TXN_CREATE] = apply_create,
    [TXN_SET] = apply_set,
    [TXN_DELETE] = apply_delete,
    [TXN_CHECK] = apply_check,
    [TXN_SET_ACL] = apply_set_acl,
    [TXN_SESSION_OPEN] = apply_session_open,
    [TXN_SESSION_CLOSE] = apply_session_close,
    [TXN_SESSION_MOVE] = apply_session_move,
    [TXN_REMEMBER] = apply_remember,
    [TXN_FORGET] = apply_forget,
};

static void add_change(const struct apply *apply, const struct txn_effect *effect,
                       struct state_changes *changes)
{
    MEM_GROW(changes->items, changes->count, changes->cap, TXN_EFFECTS_MAX);
    struct state_change *change = &changes->items[changes->count++];

    *change = (struct state_change){
        .type = effect->type,
        .reply = (effect->flags & TXN_REPLY) != 0,
        .path = effect->path,
        .acl = blob_ref(acls_blob(&apply->state->acls, apply->acl)),
        .parent_acl = blob_ref(acls_blob(&apply->state->acls, apply->parent_acl)),
        .session = apply->session,
    };
    if (apply->node != NULL) {
        state_shown_stat(apply->state, apply->node, &change->stat);
    }
    if (apply->node != NULL && (effect->type == TXN_CREATE || effect->type == TXN_SET)) {
        change->data = state_shown_data(apply->state, apply->node);
    }
    if (effect->type == TXN_ANSWER) {
        change->data = blob_new(effect->answer.bytes);
    }
    if (effect->type == TXN_SESSION_MOVE) {
        change->attach = effect->move.attach;
        change->member = effect->move.member;
    }
    change->expired =
        effect->type == TXN_SESSION_CLOSE && effect->close.reason == TXN_CLOSED_EXPIRED;
}

/* Whether the effect is possible in this transaction. txn_next has already checked each field by
 * itself. */
static bool is_sound(struct apply *apply, const struct txn_effect *effect)
{
    bool first = !apply->remembers;

    switch (effect->type) {
    case TXN_CREATE:
        return effect->acl.len <= TXN_ACL_MAX && effect->creates <= STATE_CREATES_MAX;
    case TXN_SET_ACL:
        return effect->acl.len <= TXN_ACL_MAX;
    case TXN_SESSION_OPEN:
        return effect->open.session == apply->zxid && owner_is_session(effect->open.session);
    case TXN_SESSION_CLOSE:
        apply->closes = true;
        return true;
    case TXN_REMEMBER:
        apply->remembers = true;
        return first;
    case TXN_FORGET:
        return effect->forget.horizon <= apply->zxid;
    case TXN_SET:
    case TXN_DELETE:
    case TXN_CHECK:
    case TXN_SESSION_MOVE:
    case TXN_ANSWER:
        return true;
    }
    UNREACHABLE();
}

/* Checks the bytes of the whole transaction before any change. */
static enum err check_bytes(struct apply *apply, struct slice txn)
{
    struct wire_reader reader;
    struct txn_header header;
    struct txn_effect effect;
    size_t count = 0;
    enum err err = txn_open(&reader, txn, &header);

    while (err == ERR_OK) {
        err = txn_next(&reader, &effect);
        if (err == ERR_OK && (!is_sound(apply, &effect) || ++count > TXN_EFFECTS_MAX)) {
            err = ERR_FORMAT;
        }
    }
    return err == ERR_MISSING ? ERR_OK : err;
}

static enum err apply_all(struct apply *apply, struct slice txn, struct state_changes *changes)
{
    struct wire_reader reader;
    struct txn_header header;
    struct txn_effect effect;
    enum err err = txn_open(&reader, txn, &header);

    ASSERT(err == ERR_OK); /* check_bytes has read the same bytes without an error. */
    apply->age_ms = header.age_ms;
    apply->stamp_ms = header.stamp_ms;
    while (err == ERR_OK) {
        err = txn_next(&reader, &effect);
        if (err == ERR_OK) {
            apply->node = NULL;
            apply->acl = 0;
            apply->parent_acl = 0;
            apply->session = 0;
            /* An answer changes nothing. */
            err = effect.type == TXN_ANSWER ? ERR_OK : apply_of[effect.type](apply, &effect);
        }
        if (err == ERR_OK && changes != NULL) {
            add_change(apply, &effect, changes);
        }
    }
    return err == ERR_MISSING ? ERR_OK : err;
}

enum err state_apply(struct state *state, zxid_t zxid, struct slice txn, bool fuzzy,
                     struct state_changes *ret_changes)
{
    ASSERT(fuzzy || zxid > state->applied);
    struct apply apply = {.state = state, .zxid = zxid, .fuzzy = fuzzy};

    if (ret_changes != NULL) {
        changes_clear(ret_changes);
    }
    acls_collect(&state->acls);
    if (fuzzy) {
        state_cuts_lose(state); /* A fuzzy state is not the state of any single zxid. */
    }
    if (check_bytes(&apply, txn) != ERR_OK) {
        return ERR_FORMAT;
    }
    ASSERT(state->undo.count == 0);
    if (apply_all(&apply, txn, ret_changes) != ERR_OK) {
        ASSERT(!fuzzy);
        undo_rollback(state);
        acls_collect(&state->acls);
        if (ret_changes != NULL) {
            changes_clear(ret_changes);
        }
        return ERR_CORRUPT;
    }
    undo_commit(&state->undo);
    state->age_ms = max_i64(state->age_ms, apply.age_ms);
    state->stamp_ms = apply.stamp_ms;
    state_skip(state, zxid);
    return ERR_OK;
}

enum err state_apply_config(struct state *state, zxid_t zxid, struct slice text, struct slice txn,
                            bool fuzzy, struct state_changes *ret_changes)
{
    enum err err = txn.len > 0 ? state_apply(state, zxid, txn, fuzzy, ret_changes) : ERR_OK;

    if (err == ERR_OK) {
        state_set_config(state, zxid, text);
    }
    return err;
}
