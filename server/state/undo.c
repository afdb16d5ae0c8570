#include "base/check.h"
#include "base/mem.h"
#include "server/state/state_int.h"

enum {
    UNDO_CAP_MIN = 16,
    UNDO_CAP_KEPT = 1024 /* A larger journal is given back after its transaction. */
};

static struct undo_entry *push(struct undo *undo)
{
    if (undo->count == undo->cap) {
        undo->cap = undo->cap > 0 ? undo->cap * 2 : UNDO_CAP_MIN;
        undo->entries = mem_realloc(undo->entries, undo->cap * sizeof(*undo->entries));
    }
    struct undo_entry *entry = &undo->entries[undo->count++];

    ASSERT(undo->count <= undo->cap);
    *entry = (struct undo_entry){0};
    return entry;
}

void undo_create(struct undo *undo, struct znode *node, zxid_t pzxid, uint32_t creates)
{
    ASSERT(node->parent != NULL && node->num_children == 0);
    struct undo_entry *entry = push(undo);

    entry->type = TXN_CREATE;
    entry->node = node;
    entry->parent = node->parent;
    entry->pzxid = pzxid;
    entry->creates = creates;
}

void undo_delete(struct undo *undo, struct znode *take_node, struct znode *parent, zxid_t pzxid)
{
    ASSERT(take_node->parent == NULL && take_node->num_children == 0);
    struct undo_entry *entry = push(undo);

    entry->type = TXN_DELETE;
    entry->node = take_node;
    entry->parent = parent;
    entry->pzxid = pzxid;
    entry->creates = parent->creates;
}

void undo_set(struct undo *undo, struct znode *node)
{
    ASSERT(node != NULL);
    struct undo_entry *entry = push(undo);

    entry->type = TXN_SET;
    entry->node = node;
    entry->data = blob_ref(node->data);
    entry->mzxid = node->mzxid;
    entry->mtime_ms = node->mtime_ms;
    entry->version = node->version;
}

static void take_back_set(struct state *state, const struct undo_entry *entry)
{
    struct znode *node = entry->node;

    ASSERT(entry->parent == NULL);
    state_sum_out(state, node);
    blob_unref(state_swap_data(state, node, entry->data));
    node->mzxid = entry->mzxid;
    node->mtime_ms = entry->mtime_ms;
    node->version = entry->version;
    state_sum_in(state, node);
    reap_update(state, node);
}

static void take_back_child(struct state *state, const struct undo_entry *entry)
{
    ASSERT(entry->parent != NULL && entry->data == NULL);

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

void undo_rollback(struct state *state)
{
    struct undo *undo = &state->undo;

    while (undo->count > 0) {
        const struct undo_entry *entry = &undo->entries[--undo->count];

        ASSERT(entry->node != NULL);
        if (entry->type == TXN_SET) {
            take_back_set(state, entry);
        } else {
            take_back_child(state, entry);
        }
    }
}

void undo_commit(struct undo *undo)
{
    for (size_t i = 0; i < undo->count; i++) {
        const struct undo_entry *entry = &undo->entries[i];

        ASSERT(entry->node != NULL);
        ASSERT(entry->type != TXN_DELETE || entry->node->parent == NULL);
        if (entry->type == TXN_DELETE) {
            tree_node_free(entry->node);
        }
        blob_unref(entry->data);
    }
    undo->count = 0;
    if (undo->cap > UNDO_CAP_KEPT) {
        undo_release(undo);
    }
}

void undo_release(struct undo *undo)
{
    ASSERT(undo->count == 0);

    mem_free(undo->entries);
    *undo = (struct undo){0};
}
