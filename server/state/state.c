#include "server/state/state_int.h"

static void add_builtin(struct state *state, struct znode *parent, const char *name)
{
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
    map_init(&state->remembers.by_name);
    map_init(&state->quotas.by_hash);
    buf_init(&state->restore_path, STATE_PATH_MAX);
    list_init(&state->cuts);
    state->root = tree_node_new(slice_make(NULL, 0));
    state->node_count = 1;
    state->tree_cost = cost_node(0, 0) + cost_data(0); /* The cost of the root. */
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
    ASSERT(state->undo.count == 0 && list_empty(&state->cuts));
    tree_dismantle(state->root, NULL, NULL);
    map_free_values(&state->reap_entries);
    acls_release(&state->acls);
    sessions_release(&state->sessions);
    map_free_values(&state->remembers.by_name);
    quotas_release(&state->quotas);
    undo_release(&state->undo);
    buf_release(&state->restore_path);
    mem_free(state);
}

/* Recovery may repeat records that the snapshot holds. The applied zxid must not fall then. */
void state_skip(struct state *state, zxid_t zxid)
{
    state->applied = max_u64(state->applied, zxid);
}

void state_set_config(struct state *state, zxid_t zxid, struct slice text)
{
    struct znode *node = tree_find(state->root, slice_str(STATE_CONFIG_PATH));

    if (zxid > node->mzxid) {
        cuts_before(state, node, slice_str(STATE_CONFIG_PATH));
        state_sum_out(state, node);
        blob_unref(state_swap_data(state, node, blob_new(text)));
        node->mzxid = zxid;
        node->version = stat_version_next(node->version);
        state_sum_in(state, node);
    }
    state->applied = max_u64(state->applied, zxid);
}

/* ---- Figures. ---- */

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
    return state->node_count;
}

uint64_t state_data_bytes(const struct state *state)
{
    return state->data_bytes;
}

uint64_t state_ephemeral_count(const struct state *state)
{
    return state->ephemeral_count;
}

uint64_t state_memory_bytes(const struct state *state)
{
    return state->tree_cost + state->acls.cost + state->remembers.cost + state->quotas.cost +
           state->sessions.count * cost_session();
}

/* ---- Look-ups. ---- */

const struct znode *state_find(const struct state *state, struct slice path)
{
    ASSERT(path.len > 0 && path.data[0] == '/');

    return tree_find(state->root, path);
}

const struct znode *state_after(const struct state *state, struct slice path)
{
    return tree_after(state->root, path);
}

struct slice state_acl(const struct state *state, uint32_t acl)
{
    return blob_slice(acls_blob(&state->acls, acl));
}

struct blob *state_acl_blob(const struct state *state, uint32_t acl)
{
    return acls_blob(&state->acls, acl);
}

/* ---- Changes that are handed out. ---- */

void changes_clear(struct state_changes *changes)
{
    for (size_t i = 0; i < changes->count; i++) {
        const struct state_change *change = &changes->items[i];

        blob_unref(change->data);
        blob_unref(change->acl);
        blob_unref(change->parent_acl);
    }
    changes->count = 0;
}

void state_changes_release(struct state_changes *changes)
{
    changes_clear(changes);
    mem_free(changes->items);
    *changes = (struct state_changes){0};
}
