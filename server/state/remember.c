#include "base/hash.h"
#include "server/state/state_int.h"

enum {
    SEED_REMEMBERED = 0x72656d
};

static struct remembered *of_order(struct avl_node *node)
{
    return node != NULL ? avl_entry(node, struct remembered, order) : NULL;
}

static int zxid_cmp(const void *key, const struct avl_node *node)
{
    zxid_t zxid = *(const zxid_t *)key;
    const struct remembered *entry = avl_entry_const(node, struct remembered, order);

    return zxid < entry->shown.zxid ? -1 : zxid > entry->shown.zxid;
}

static uint64_t size_of(const struct remembered *entry)
{
    return entry->shown.scope.len + entry->shown.key.len + entry->shown.result.len;
}

static uint64_t digest_of(const struct remembered *entry)
{
    const struct state_remembered *shown = &entry->shown;
    uint64_t hash = hash64(SEED_REMEMBERED, slice_make(entry->bytes, entry->name_len));

    hash = hash64(hash, slice_make(shown->fingerprint, TXN_FINGERPRINT_LEN));
    hash = hash64(hash, shown->result);
    return hash64_mix(hash64_mix(hash, shown->zxid), (uint64_t)shown->age_ms);
}

struct slice state_remembered_name(uint8_t *to, struct slice scope, struct slice key)
{
    ASSERT(scope.len <= TXN_SCOPE_MAX && key.len <= TXN_KEY_MAX);
    wire_store_u32(to, (uint32_t)scope.len);
    if (scope.len > 0) {
        memcpy(to + 4, scope.data, scope.len);
    }
    if (key.len > 0) {
        memcpy(to + 4 + scope.len, key.data, key.len);
    }
    return slice_make(to, 4 + scope.len + key.len);
}

struct remembered *remember_get(const struct state *state, struct slice scope, struct slice key)
{
    uint8_t name[STATE_REMEMBERED_NAME_MAX];

    if (scope.len > TXN_SCOPE_MAX || key.len > TXN_KEY_MAX) {
        return NULL;
    }
    return map_get(&state->remembers.by_name, state_remembered_name(name, scope, key));
}

struct remembered *remember_after(const struct state *state, zxid_t after)
{
    if (after == UINT64_MAX) {
        return NULL;
    }
    zxid_t least = after + 1;

    return of_order(avl_lower_bound(&state->remembers.order, &least, zxid_cmp));
}

struct remembered *remember_new(const struct state_remembered *fields)
{
    size_t name_len = 4 + fields->scope.len + fields->key.len;
    struct remembered *entry = mem_alloc(sizeof(*entry) + name_len + fields->result.len);

    entry->name_len = state_remembered_name(entry->bytes, fields->scope, fields->key).len;
    if (fields->result.len > 0) {
        memcpy(entry->bytes + name_len, fields->result.data, fields->result.len);
    }
    entry->shown = *fields;
    entry->shown.scope = slice_make(entry->bytes + 4, fields->scope.len);
    entry->shown.key = slice_make(entry->bytes + 4 + fields->scope.len, fields->key.len);
    entry->shown.result = slice_make(entry->bytes + name_len, fields->result.len);
    entry->hash = digest_of(entry);
    return entry;
}

void remember_insert(struct state *state, struct remembered *take_entry)
{
    struct remembers *remembers = &state->remembers;
    void *old = map_put(&remembers->by_name, slice_make(take_entry->bytes, take_entry->name_len),
                        take_entry);

    ASSERT(old == NULL && take_entry->shown.zxid != 0);
    avl_insert(&remembers->order, &take_entry->shown.zxid, &take_entry->order, zxid_cmp);
    remembers->bytes += size_of(take_entry);
    remembers->cost += cost_remembered(size_of(take_entry));
    state->digest += take_entry->hash;
}

void remember_remove(struct state *state, struct remembered *entry)
{
    struct remembers *remembers = &state->remembers;
    void *old = map_remove(&remembers->by_name, slice_make(entry->bytes, entry->name_len));

    ASSERT(old == entry && remembers->bytes >= size_of(entry));
    avl_remove(&remembers->order, &entry->order);
    remembers->bytes -= size_of(entry);
    remembers->cost -= cost_remembered(size_of(entry));
    state->digest -= entry->hash;
}

const struct state_remembered *state_remembered(const struct state *state, struct slice scope,
                                                struct slice key)
{
    const struct remembered *entry = remember_get(state, scope, key);

    return entry != NULL ? &entry->shown : NULL;
}

const struct state_remembered *state_remembered_after(const struct state *state, zxid_t after)
{
    const struct remembered *entry = remember_after(state, after);

    return entry != NULL ? &entry->shown : NULL;
}

uint64_t state_remembered_count(const struct state *state)
{
    return map_count(&state->remembers.by_name);
}

uint64_t state_remembered_bytes(const struct state *state)
{
    return state->remembers.bytes;
}
