/* The state as a whole: created, freed, and moved over records that are no transactions. */
#include "base/check.h"
#include "base/mem.h"
#include "server/state/cost.h"
#include "server/state/cut_int.h"
#include "server/state/state_int.h"

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
    state->tree_cost = cost_node(0, 0) + cost_data(0); /* Of the root. */
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

void state_skip(struct state *state, zxid_t zxid)
{
    /* Recovery may repeat records that the snapshot already holds. */
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
    }
    if (zxid > state->applied) {
        state->applied = zxid;
    }
}
