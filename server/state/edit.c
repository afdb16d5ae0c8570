/* Small changes of the tree, which keep all derived data correct (digest, counts, costs, indexes);
 * and the journal that rolls back one transaction. */
#include "server/state/state_int.h"

static uint64_t size_of(const struct znode *node)
{
    return (uint64_t)node->name_len + blob_slice(node->data).len;
}

/* Returns the cost of a znode with its data. The ACL is not included, because znodes share it. */
static uint64_t cost_of(const struct znode *node)
{
    return cost_node(node->name_len, node->owner) + cost_data(blob_slice(node->data).len);
}

static uint64_t hash_of(const struct state *state, const struct znode *node)
{
    return tree_node_hash(node, node->acl != 0 ? acls_hash(&state->acls, node->acl) : 0);
}

void state_sum_out(struct state *state, const struct znode *node)
{
    state->digest -= hash_of(state, node);
}

void state_sum_in(struct state *state, const struct znode *node)
{
    state->digest += hash_of(state, node);
}

/* Updates counts and indexes for a znode that has got an owner. */
static void own(struct state *state, struct znode *node)
{
    if (owner_is_session(node->owner)) {
        state->ephemeral_count++;
        ephemeral_joined(state, node);
    }
    reap_update(state, node);
}

/* Updates counts and indexes for a znode that loses its owner. The znode may be unlinked, so this
 * looks at no other znode. */
static void disown(struct state *state, struct znode *node)
{
    if (owner_is_session(node->owner)) {
        ASSERT(state->ephemeral_count > 0);
        state->ephemeral_count--;
        ephemeral_left(state, node);
    }
    reap_forget(state, node);
}

void state_link(struct state *state, struct znode *parent, struct znode *node)
{
    ASSERT(node->num_children == 0 && parent->num_children < UINT32_MAX);

    tree_link(parent, node);
    state->node_count++;
    state->data_bytes += size_of(node);
    state->tree_cost += cost_of(node);
    own(state, node);
    acls_ref(&state->acls, node->acl);
    state_sum_in(state, node);
    quota_joined(state, node);
}

/* Removes a znode that is being deleted from all indexes and sums. */
static void forget(void *ctx, struct znode *node)
{
    struct state *state = ctx;

    ASSERT(state->node_count > STATE_BUILTIN_COUNT);
    ASSERT(state->data_bytes >= size_of(node) && state->tree_cost > cost_of(node));
    state_sum_out(state, node);
    state->node_count--;
    state->data_bytes -= size_of(node);
    state->tree_cost -= cost_of(node);
    acls_unref(&state->acls, node->acl);
    disown(state, node);
}

void state_unlink(struct state *state, struct znode *node)
{
    ASSERT(node->num_children == 0 && node->parent != NULL);

    quota_leaving(state, node);
    forget(state, node);
    tree_unlink(node);
}

void state_drop_below(struct state *state, struct znode *node)
{
    const struct znode *child = znode_first_child(node, slice_make(NULL, 0));

    quota_leaving_below(state, node);
    while (child != NULL) {
        struct znode *top = tree_child(node, znode_name(child));

        tree_unlink(top);
        tree_dismantle(top, forget, state);
        child = znode_first_child(node, slice_make(NULL, 0));
    }
}

struct blob *state_swap_data(struct state *state, struct znode *node, struct blob *take_data)
{
    state->data_bytes -= size_of(node);
    state->tree_cost -= cost_of(node);
    struct blob *old = tree_node_swap_data(node, take_data);

    state->data_bytes += size_of(node);
    state->tree_cost += cost_of(node);
    quota_resized(state, node, blob_slice(old).len);
    return old;
}

void state_set_owner(struct state *state, struct znode *node, uint64_t owner)
{
    disown(state, node);
    state->tree_cost -= cost_of(node);
    node->owner = owner;
    state->tree_cost += cost_of(node);
    own(state, node);
}

void state_set_acl(struct state *state, struct znode *node, uint32_t acl)
{
    /* The new ACL is referenced first: if it is the old one, its count must not fall to 0. */
    acls_ref(&state->acls, acl);
    acls_unref(&state->acls, node->acl);
    node->acl = acl;
}

/* ---- The journal of one transaction. ---- */

enum {
    CAP_KEPT = 1024 /* Entries; a larger journal is freed after its transaction. */
};

void undo_add(struct undo *undo, const struct undo_entry *entry)
{
    MEM_GROW(undo->entries, undo->count, undo->cap, MEM_ITEMS_MAX);
    undo->entries[undo->count++] = *entry;
}

static void take_back_set(struct state *state, const struct undo_entry *entry)
{
    struct znode *node = entry->node;

    state_sum_out(state, node);
    blob_unref(state_swap_data(state, node, entry->data));
    node->mzxid = entry->mzxid;
    node->mtime_ms = entry->mtime_ms;
    node->age_ms = entry->age_ms;
    node->version = entry->version;
    state_sum_in(state, node);
    reap_update(state, node);
}

static void take_back_child(struct state *state, const struct undo_entry *entry)
{
    state_sum_out(state, entry->parent);
    if (entry->type == TXN_CREATE) {
        state_unlink(state, entry->node);
        tree_node_free(entry->node);
    } else {
        state_link(state, entry->parent, entry->node);
    }
    entry->parent->pzxid = entry->pzxid;
    entry->parent->creates = entry->creates;
    state_sum_in(state, entry->parent);
    reap_update(state, entry->parent);
}

static void take_back(struct state *state, const struct undo_entry *entry)
{
    switch (entry->type) {
    case TXN_CREATE:
    case TXN_DELETE:
        take_back_child(state, entry);
        return;
    case TXN_SET:
        take_back_set(state, entry);
        return;
    case TXN_SET_ACL:
        state_sum_out(state, entry->node);
        state_set_acl(state, entry->node, entry->acl);
        entry->node->aversion = entry->version;
        state_sum_in(state, entry->node);
        return;
    case TXN_SESSION_OPEN:
        /* If the owner had ephemerals before the session was opened, session_shut returns NULL: the
         * struct stays for these ephemerals. */
        mem_free(session_shut(state, entry->session));
        return;
    case TXN_SESSION_CLOSE:
        session_reopen(state, entry->session);
        return;
    case TXN_SESSION_MOVE:
        session_move(state, entry->session, entry->attach, entry->member);
        return;
    case TXN_REMEMBER:
        remember_remove(state, entry->remembered);
        mem_free(entry->remembered);
        return;
    case TXN_FORGET:
        remember_insert(state, entry->remembered);
        return;
    case TXN_CHECK:
    case TXN_ANSWER:
        break;
    }
    UNREACHABLE();
}

void undo_rollback(struct state *state)
{
    struct undo *undo = &state->undo;

    while (undo->count > 0) {
        take_back(state, &undo->entries[--undo->count]);
    }
}

/* Frees the old values of an entry, which are not needed any more. */
static void drop(const struct undo_entry *entry)
{
    if (entry->type == TXN_DELETE) {
        tree_node_free(entry->node);
    } else if (entry->type == TXN_SET) {
        blob_unref(entry->data);
    } else if (entry->type == TXN_SESSION_CLOSE) {
        mem_free(entry->session);
    } else if (entry->type == TXN_FORGET) {
        mem_free(entry->remembered);
    }
}

void undo_commit(struct undo *undo)
{
    for (size_t i = 0; i < undo->count; i++) {
        drop(&undo->entries[i]);
    }
    undo->count = 0;
    if (undo->cap > CAP_KEPT) {
        undo_release(undo);
    }
}

void undo_release(struct undo *undo)
{
    ASSERT(undo->count == 0);

    mem_free(undo->entries);
    *undo = (struct undo){0};
}
