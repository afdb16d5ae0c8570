#include "base/check.h"
#include "base/mem.h"
#include "base/probe.h"
#include "server/state/apply_int.h"
#include "server/state/cut_int.h"
#include "server/state/path.h"

static struct blob *data_of(const struct txn_effect *effect)
{
    return (effect->flags & TXN_NULL_DATA) != 0 ? NULL : blob_new(effect->data);
}

/* A child of `parent` was created or deleted. A fuzzy snapshot may know of later ones. */
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
    ASSERT(node->num_children == 0 && effect->type == TXN_CREATE);
}

/* The znode exists already: the snapshot saw it at a later time, perhaps after it was deleted and
 * created again. Znodes below it were created later still, so the log brings them back. */
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
        /* The snapshot saw the path of the parent after its deletion, which also deletes the child.
         */
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
    parent->creates = effect->creates > creates ? effect->creates : creates;
    state_sum_in(state, parent);
    reap_update(state, parent);
    if (!apply->fuzzy) {
        undo_create(&state->undo, node, pzxid, creates);
    }
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
    if (!apply->fuzzy) {
        undo_set(&state->undo, node);
    }
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

/* Deletes a znode with what a fuzzy snapshot may still hold below it: that was created again later.
 */
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

/* The snapshot saw the parent without the child; its pzxid still moves. */
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
    zxid_t pzxid = parent->pzxid;

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
        undo_delete(&state->undo, node, parent, pzxid);
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
    if (!apply->fuzzy) {
        undo_set_acl(&state->undo, node);
    }
    cuts_before(state, node, effect->path);
    state_sum_out(state, node);
    state_set_acl(state, node, acls_intern(&state->acls, effect->acl));
    node->aversion = effect->version;
    state_sum_in(state, node);
    apply->node = node;
    apply->acl = node->acl;
    return ERR_OK;
}

static enum err apply_effect(struct apply *apply, const struct txn_effect *effect)
{
    apply->node = NULL;
    apply->acl = 0;
    apply->parent_acl = 0;
    apply->session = 0;
    switch (effect->type) {
    case TXN_CREATE:
        return apply_create(apply, effect);
    case TXN_SET:
        return apply_set(apply, effect);
    case TXN_DELETE:
        return MUTANT(24) && apply->fuzzy && apply->closes ? ERR_OK : apply_delete(apply, effect);
    case TXN_CHECK:
        return apply_check(apply, effect);
    case TXN_SET_ACL:
        return apply_set_acl(apply, effect);
    case TXN_SESSION_OPEN:
        return apply_session_open(apply, effect);
    case TXN_SESSION_CLOSE:
        return apply_session_close(apply, effect);
    case TXN_SESSION_MOVE:
        return apply_session_move(apply, effect);
    case TXN_REMEMBER:
        return apply_remember(apply, effect);
    case TXN_FORGET:
        return apply_forget(apply, effect);
    }
    UNREACHABLE();
}

static void add_change(const struct apply *apply, const struct txn_effect *effect,
                       struct state_changes *changes)
{
    if (changes->count == changes->cap) {
        changes->cap = changes->cap > 0 ? changes->cap * 2 : 8;
        changes->items = mem_realloc(changes->items, changes->cap * sizeof(*changes->items));
    }
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
        znode_stat(apply->node, &change->stat);
    }
    if (apply->node != NULL && (effect->type == TXN_CREATE || effect->type == TXN_SET)) {
        change->data = blob_ref(apply->node->data);
    }
    if (effect->type == TXN_SESSION_MOVE) {
        change->attach = apply->attach;
        change->member = apply->member;
    }
    change->expired = effect->type == TXN_SESSION_CLOSE && apply->expired;
}

static bool is_sound(struct apply *apply, const struct txn_effect *effect)
{
    if (effect->type >= TXN_SESSION_OPEN) {
        return is_sound_extra(apply, effect);
    }
    return effect->acl.len <= TXN_ACL_MAX && effect->creates <= STATE_CREATES_MAX;
}

/* Reads the whole transaction before any change. */
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
    ASSERT(err != ERR_OK);
    return err == ERR_MISSING ? ERR_OK : err;
}

static enum err apply_all(struct apply *apply, struct slice txn, struct state_changes *changes)
{
    struct wire_reader reader;
    struct txn_header header;
    struct txn_effect effect;
    enum err err = txn_open(&reader, txn, &header);

    /* check_bytes has seen the same bytes. */
    ASSERT(err == ERR_OK);
    ASSERT(header.age_ms >= 0);
    apply->age_ms = header.age_ms;
    apply->stamp_ms = header.stamp_ms;
    while (err == ERR_OK) {
        err = txn_next(&reader, &effect);
        if (err == ERR_OK) {
            err = apply_effect(apply, &effect);
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
        state_cuts_lose(state); /* The state is not that of any zxid now. */
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
    state->age_ms = apply.age_ms > state->age_ms ? apply.age_ms : state->age_ms;
    state->stamp_ms = apply.stamp_ms;
    state_skip(state, zxid);
    return ERR_OK;
}
