#include "base/check.h"
#include "base/mem.h"
#include "server/state/state_int.h"

enum {
    UNDO_CAP_MIN = 16,
    UNDO_CAP_KEPT = 1024 /* A larger journal is freed after its transaction. */
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
    entry->age_ms = node->age_ms;
    entry->version = node->version;
}

void undo_set_acl(struct undo *undo, struct znode *node)
{
    ASSERT(node != NULL);
    struct undo_entry *entry = push(undo);

    entry->type = TXN_SET_ACL;
    entry->node = node;
    entry->acl = node->acl;
    entry->version = node->aversion;
}

void undo_session_open(struct undo *undo, struct session *session)
{
    ASSERT(session->open);
    struct undo_entry *entry = push(undo);

    entry->type = TXN_SESSION_OPEN;
    entry->session = session;
}

void undo_session_close(struct undo *undo, struct session *take_session)
{
    ASSERT(!take_session->open && take_session->shown.ephemeral_count == 0);
    struct undo_entry *entry = push(undo);

    entry->type = TXN_SESSION_CLOSE;
    entry->session = take_session;
}

void undo_session_move(struct undo *undo, struct session *session)
{
    ASSERT(session->open);
    struct undo_entry *entry = push(undo);

    entry->type = TXN_SESSION_MOVE;
    entry->session = session;
    entry->attach = session->shown.attach;
    entry->member = session->shown.member;
}

void undo_remember(struct undo *undo, struct remembered *entry)
{
    struct undo_entry *undo_entry = push(undo);

    ASSERT(entry->shown.zxid != 0);
    undo_entry->type = TXN_REMEMBER;
    undo_entry->remembered = entry;
}

void undo_forget(struct undo *undo, struct remembered *take_entry)
{
    struct undo_entry *undo_entry = push(undo);

    ASSERT(take_entry->shown.zxid != 0);
    undo_entry->type = TXN_FORGET;
    undo_entry->remembered = take_entry;
}

static void take_back_set(struct state *state, const struct undo_entry *entry)
{
    struct znode *node = entry->node;

    ASSERT(node != NULL);
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
    ASSERT(entry->parent != NULL && entry->node != NULL);

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
    ASSERT(entry->node != NULL);

    state_sum_out(state, entry->node);
    state_set_acl(state, entry->node, entry->acl);
    entry->node->aversion = entry->version;
    state_sum_in(state, entry->node);
}

/* The entry is freed, unless there were znodes of the session before: then it is invisible again.
 */
static void take_back_open(struct state *state, struct session *session)
{
    struct session *gone = session_shut(state, session);

    ASSERT(gone == NULL || gone == session);
    mem_free(gone);
}

static void take_back_remember(struct state *state, struct remembered *entry)
{
    ASSERT(entry != NULL);

    remember_remove(state, entry);
    mem_free(entry);
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
        take_back_open(state, entry->session);
        return;
    case TXN_SESSION_CLOSE:
        session_reopen(state, entry->session);
        return;
    case TXN_SESSION_MOVE:
        session_move(state, entry->session, entry->attach, entry->member);
        return;
    case TXN_REMEMBER:
        take_back_remember(state, entry->remembered);
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
    ASSERT(undo->count == 0);
}

/* The old values are not needed any more. */
static void drop(const struct undo_entry *entry)
{
    ASSERT(entry->type != TXN_DELETE || entry->node->parent == NULL);

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
