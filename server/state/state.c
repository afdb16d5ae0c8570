#include "server/state/state.h"

#include "base/check.h"
#include "base/mem.h"
#include "server/state/cost.h"
#include "server/state/state_int.h"

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
