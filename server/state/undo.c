#include "base/check.h"
#include "base/mem.h"
#include "server/state/state_int.h"

enum {
    CAP_KEPT = 1024 /* A larger journal is freed after its transaction. */
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

static void take_back_acl(struct state *state, const struct undo_entry *entry)
{
    state_sum_out(state, entry->node);
    state_set_acl(state, entry->node, entry->acl);
    entry->node->aversion = entry->version;
    state_sum_in(state, entry->node);
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
        take_back_acl(state, entry);
        return;
    case TXN_SESSION_OPEN:
        /* Not freed when there were znodes of the session before: then it is invisible again. */
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

/* The old values are not needed any more. */
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
