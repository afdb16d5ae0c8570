#include "server/state/state.h"

#include "base/check.h"
#include "base/mem.h"
#include "server/state/cost.h"
#include "server/state/cut_int.h"
#include "server/state/state_int.h"

static uint64_t size_of(const struct znode *node)
{
    return (uint64_t)node->name_len + blob_slice(node->data).len;
}

/* A znode with its data, without its ACL: lists are shared. */
static uint64_t cost_of(const struct znode *node)
{
    return cost_node(node->name_len, node->owner) + cost_data(blob_slice(node->data).len);
}

static void add_builtin(struct state *state, struct znode *parent, const char *name)
{
    ASSERT(tree_child(parent, slice_str(name)) == NULL);

    state_sum_out(state, parent);
    state_link(state, parent, tree_node_new(slice_str(name)));
    state_sum_in(state, parent);
}

struct state *state_new(uint64_t history)
{
    struct state *state = mem_zalloc(1, sizeof(*state));

    state->history = history;
    map_init(&state->reap_entries);
    acls_init(&state->acls);
    sessions_init(&state->sessions);
    remembers_init(&state->remembers);
    quotas_init(&state->quotas);
    buf_init(&state->restore_path, STATE_PATH_MAX);
    list_init(&state->cuts);
    state->root = tree_node_new(slice_make(NULL, 0));
    state->node_count = 1;
    state->tree_cost = cost_of(state->root);
    state_sum_in(state, state->root);
    add_builtin(state, state->root, "zookeeper");
    struct znode *zookeeper = tree_child(state->root, slice_str("zookeeper"));

    add_builtin(state, zookeeper, "quota");
    add_builtin(state, zookeeper, "config");
    ASSERT(state->node_count == STATE_BUILTIN_COUNT && state->ephemeral_count == 0);
    return state;
}

void state_free(struct state *state)
{
    if (state == NULL) {
        return;
    }
    ASSERT(state->undo.count == 0 && state->root->parent == NULL);
    ASSERT(list_empty(&state->cuts));
    tree_dismantle(state->root, NULL, NULL);
    reap_release(state);
    acls_release(&state->acls);
    sessions_release(&state->sessions);
    remembers_release(&state->remembers);
    quotas_release(&state->quotas);
    undo_release(&state->undo);
    buf_release(&state->restore_path);
    mem_free(state);
}

zxid_t state_applied(const struct state *state)
{
    return state->applied;
}

uint64_t state_digest(const struct state *state)
{
    return state->digest;
}

int64_t state_age_ms(const struct state *state)
{
    ASSERT(state->age_ms >= 0);

    return state->age_ms;
}

int64_t state_stamp_ms(const struct state *state)
{
    return state->stamp_ms;
}

uint64_t state_history(const struct state *state)
{
    return state->history;
}

void state_set_history(struct state *state, uint64_t history)
{
    ASSERT(history != 0);

    state->history = history;
}

uint64_t state_node_count(const struct state *state)
{
    ASSERT(state->node_count >= STATE_BUILTIN_COUNT);

    return state->node_count;
}

uint64_t state_data_bytes(const struct state *state)
{
    return state->data_bytes;
}

uint64_t state_ephemeral_count(const struct state *state)
{
    ASSERT(state->ephemeral_count < state->node_count);

    return state->ephemeral_count;
}

uint64_t state_memory_bytes(const struct state *state)
{
    ASSERT(state->tree_cost > state->data_bytes);

    return state->tree_cost + state->acls.cost + state->remembers.cost + state->quotas.cost +
           state->sessions.count * cost_session();
}

void changes_clear(struct state_changes *changes)
{
    for (size_t i = 0; i < changes->count; i++) {
        const struct state_change *change = &changes->items[i];

        ASSERT(change->type >= TXN_CREATE && change->type <= TXN_FORGET);
        blob_unref(change->data);
        blob_unref(change->acl);
        blob_unref(change->parent_acl);
    }
    changes->count = 0;
}

void state_changes_release(struct state_changes *changes)
{
    ASSERT(changes->count <= changes->cap);

    changes_clear(changes);
    mem_free(changes->items);
    *changes = (struct state_changes){0};
}

const struct znode *state_find(const struct state *state, struct slice path)
{
    ASSERT(path.len > 0 && path.data[0] == '/');

    return tree_find(state->root, path);
}

const struct znode *state_after(const struct state *state, struct slice path)
{
    ASSERT(path.len > 0 && path.data[0] == '/');

    return tree_after(state->root, path);
}

struct slice state_acl(const struct state *state, uint32_t acl)
{
    return blob_slice(acls_blob(&state->acls, acl));
}

bool state_has_acl(const struct state *state, struct slice acl)
{
    return acls_has(&state->acls, acl);
}

struct blob *state_acl_blob(const struct state *state, uint32_t acl)
{
    return acls_blob(&state->acls, acl);
}

static uint64_t hash_of(const struct state *state, const struct znode *node)
{
    return tree_node_hash(node, node->acl != 0 ? acls_hash(&state->acls, node->acl) : 0);
}

void state_sum_out(struct state *state, const struct znode *node)
{
    ASSERT(state->node_count > 0);

    state->digest -= hash_of(state, node);
}

void state_sum_in(struct state *state, const struct znode *node)
{
    ASSERT(node->parent != NULL || node == state->root);

    state->digest += hash_of(state, node);
}

/* The znode has got its owner. */
static void own(struct state *state, struct znode *node)
{
    ASSERT(node->parent != NULL);

    if (owner_is_session(node->owner)) {
        state->ephemeral_count++;
        ephemeral_joined(state, node);
    }
    reap_update(state, node);
}

/* The znode loses its owner. It may hang in the air: looks at no other znode. */
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

/* The znode is leaving: takes it out of everything but the tree. */
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

        ASSERT(top == child);
        tree_unlink(top);
        tree_dismantle(top, forget, state);
        child = znode_first_child(node, slice_make(NULL, 0));
    }
    ASSERT(node->num_children == 0);
}

struct blob *state_swap_data(struct state *state, struct znode *node, struct blob *take_data)
{
    ASSERT(state->data_bytes >= size_of(node));

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
    ASSERT(node->parent != NULL);

    disown(state, node);
    state->tree_cost -= cost_of(node);
    node->owner = owner;
    state->tree_cost += cost_of(node);
    own(state, node);
}

void state_set_acl(struct state *state, struct znode *node, uint32_t acl)
{
    ASSERT(node->parent != NULL || node == state->root);

    /* In this order: it may be the same one. */
    acls_ref(&state->acls, acl);
    acls_unref(&state->acls, node->acl);
    node->acl = acl;
}

void state_skip(struct state *state, zxid_t zxid)
{
    /* Recovery may repeat what the snapshot already holds. */
    if (zxid > state->applied) {
        state->applied = zxid;
    }
}

void state_set_config(struct state *state, zxid_t zxid, struct slice text)
{
    struct znode *node = tree_find(state->root, slice_str(STATE_CONFIG_PATH));

    ASSERT(node != NULL && node->owner == 0);
    if (zxid > node->mzxid) {
        cuts_before(state, node, slice_str(STATE_CONFIG_PATH));
        state_sum_out(state, node);
        blob_unref(state_swap_data(state, node, blob_new(text)));
        node->mzxid = zxid;
        node->version = stat_version_next(node->version);
        state_sum_in(state, node);
        ASSERT(node->version != -1);
    }
    if (zxid > state->applied) {
        state->applied = zxid;
    }
}
