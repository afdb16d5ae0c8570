#include "server/state/state_int.h"

/* A TTL or container znode in the order of due times. */
struct reap_entry {
    struct avl_node order;
    int64_t due_ms;
    uint64_t serial;
    struct znode *node;
    bool counts_age;
};

static int entry_cmp(const void *key, const struct avl_node *node)
{
    const struct reap_entry *a = key;
    const struct reap_entry *b = avl_entry_const(node, struct reap_entry, order);

    if (a->due_ms != b->due_ms) {
        return a->due_ms < b->due_ms ? -1 : 1;
    }
    if (a->serial != b->serial) {
        return a->serial < b->serial ? -1 : 1;
    }
    return 0;
}

static int64_t add_ms(int64_t age_ms, int64_t span_ms)
{
    int64_t sum = 0;

    return __builtin_add_overflow(age_ms, span_ms, &sum) ? INT64_MAX : sum;
}

int64_t state_reap_due_ms(uint64_t owner, uint32_t creates, int64_t age_ms)
{
    if (owner_is_container(owner)) {
        return creates > 0 ? INT64_MIN : add_ms(age_ms, STATE_CONTAINER_UNUSED_MS);
    }
    if (owner_is_ttl(owner)) {
        return add_ms(age_ms, (int64_t)(owner & OWNER_TTL_MASK));
    }
    return INT64_MAX;
}

/* Whether the znode waits for an age. A container that had children does not: it is due as soon as
 * it is empty. */
static bool counts_age(const struct znode *node)
{
    return owner_is_ttl(node->owner) || node->creates == 0;
}

static void set_counts_age(struct state *state, struct reap_entry *entry, bool counts)
{
    ASSERT(!entry->counts_age || state->reap_counting > 0);
    state->reap_counting -= entry->counts_age;
    state->reap_counting += counts;
    entry->counts_age = counts;
    if (state->reap_counting == 0) {
        state->reap_until_ms = 0;
    }
}

/* Notes until which age the znode waits. Children prevent the removal of a znode with a TTL, but
 * its time continues to count. */
static void note_age(struct state *state, struct reap_entry *entry)
{
    const struct znode *node = entry->node;

    set_counts_age(state, entry, counts_age(node));
    if (entry->counts_age) {
        int64_t until_ms = state_reap_due_ms(node->owner, node->creates, node->age_ms);

        if (until_ms > state->reap_until_ms) {
            state->reap_until_ms = until_ms;
        }
    }
}

void reap_update(struct state *state, struct znode *node)
{
    if (!owner_is_reaped(node->owner)) {
        return;
    }
    struct reap_entry *entry = map_get_u64(&state->reap_entries, znode_key(node));
    int64_t due_ms = node->num_children > 0
                         ? INT64_MAX
                         : state_reap_due_ms(node->owner, node->creates, node->age_ms);

    if (entry != NULL) {
        note_age(state, entry);
    }
    if (entry != NULL && entry->due_ms == due_ms) {
        return;
    }
    if (entry == NULL) {
        entry = mem_zalloc(1, sizeof(*entry));
        entry->node = node;
        entry->serial = ++state->reap_serial;
        note_age(state, entry);
        map_put_u64(&state->reap_entries, znode_key(node), entry);
    } else {
        avl_remove(&state->reap, &entry->order);
    }
    entry->due_ms = due_ms;
    avl_insert(&state->reap, entry, &entry->order, entry_cmp);
}

void reap_forget(struct state *state, struct znode *node)
{
    if (!owner_is_reaped(node->owner)) {
        return;
    }
    struct reap_entry *entry = map_remove_u64(&state->reap_entries, znode_key(node));

    ASSERT(entry != NULL && entry->node == node);
    set_counts_age(state, entry, false);
    avl_remove(&state->reap, &entry->order);
    mem_free(entry);
}

/* Appends one path and returns true, or leaves `out` as it was when the path does not fit. */
static bool put_path(const struct znode *node, struct buf *out)
{
    size_t before = out->len;

    wire_put_u16(out, 0);
    walk_path_of(node, out);
    if (out->overflow) {
        out->len = before;
        return false;
    }
    size_t len = out->len - before - 2;

    out->data[before] = (uint8_t)len;
    out->data[before + 1] = (uint8_t)(len >> 8);
    return true;
}

size_t state_reap_candidates(const struct state *state, int64_t age_ms, size_t paths_max,
                             struct buf *out)
{
    struct avl_node *at = avl_first(&state->reap);
    size_t count = 0;

    while (at != NULL && count < paths_max) {
        const struct reap_entry *entry = avl_entry_const(at, struct reap_entry, order);

        ASSERT(entry->node->num_children == 0 || entry->due_ms == INT64_MAX);
        if (entry->due_ms > age_ms || entry->due_ms == INT64_MAX || !put_path(entry->node, out)) {
            break;
        }
        count++;
        at = avl_next(at);
    }
    return count;
}

bool state_counts_age(const struct state *state, int64_t age_ms)
{
    return age_ms < state->reap_until_ms || state_remembered_count(state) > 0;
}
