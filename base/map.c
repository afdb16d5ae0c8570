#include "base/map.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"

enum {
    CAP_MIN = 16,
    FILL_MAX_PERCENT = 70
};

/* What a look-up compares a slot with. */
struct wanted {
    uint64_t hash;
    struct slice key;
    bool is_u64;
};

/* Returns the hash with its top bit set, because 0 marks a free slot. The position in the table
 * does not depend on the top bit. */
static uint64_t never_zero(uint64_t hash)
{
    return hash | UINT64_C(1) << 63;
}

static struct wanted want_bytes(struct slice key)
{
    return (struct wanted){.hash = never_zero(hash64(0, key)), .key = key};
}

static struct wanted want_u64(uint64_t key)
{
    return (struct wanted){
        .hash = never_zero(hash64_mix(key, 0)), .key = slice_make(NULL, key), .is_u64 = true};
}

static bool matches(const struct map_slot *slot, const struct wanted *wanted)
{
    if (slot->hash != wanted->hash) {
        return false;
    }
    return wanted->is_u64 ? slot->key.len == wanted->key.len : slice_eq(slot->key, wanted->key);
}

/* Returns the slot of the key, or the free slot where the key would go. */
static size_t probe(const struct map *map, const struct wanted *wanted)
{
    size_t mask = map->cap - 1;
    size_t i = wanted->hash & mask;

    while (map->slots[i].hash != 0 && !matches(&map->slots[i], wanted)) {
        i = (i + 1) & mask;
    }
    return i;
}

static void grow(struct map *map)
{
    struct map old = *map;

    map->cap = old.cap ? old.cap * 2 : CAP_MIN;
    map->slots = mem_zalloc(map->cap, sizeof(*map->slots));
    for (size_t i = 0; i < old.cap; i++) {
        size_t to = old.slots[i].hash & (map->cap - 1);

        if (old.slots[i].hash == 0) {
            continue;
        }
        while (map->slots[to].hash != 0) {
            to = (to + 1) & (map->cap - 1);
        }
        map->slots[to] = old.slots[i];
    }
    mem_free(old.slots);
}

static void *get(const struct map *map, struct wanted wanted)
{
    return map->count ? map->slots[probe(map, &wanted)].value : NULL;
}

static void *put(struct map *map, struct wanted wanted, void *value)
{
    ASSERT(value);

    if ((map->count + 1) * 100 > map->cap * FILL_MAX_PERCENT) {
        grow(map);
    }

    struct map_slot *slot = &map->slots[probe(map, &wanted)];
    void *old = slot->value;

    map->count += old ? 0 : 1;
    *slot = (struct map_slot){.hash = wanted.hash, .key = wanted.key, .value = value};
    return old;
}

/* Fills the hole, so that no tombstones are needed. Looks at the entries up to the next free slot:
 * an entry whose hash points to the hole, or to a slot before it, moves into the hole, and the slot
 * that the entry leaves is the hole from then on. */
static void shift_back(struct map *map, size_t hole)
{
    size_t mask = map->cap - 1;

    for (size_t i = (hole + 1) & mask; map->slots[i].hash != 0; i = (i + 1) & mask) {
        size_t home = map->slots[i].hash & mask;

        if (((i - home) & mask) >= ((i - hole) & mask)) {
            map->slots[hole] = map->slots[i];
            hole = i;
        }
    }
    map->slots[hole] = (struct map_slot){0};
}

static void *take(struct map *map, struct wanted wanted)
{
    if (map->count == 0) {
        return NULL;
    }

    size_t i = probe(map, &wanted);
    void *value = map->slots[i].value;

    if (value) {
        shift_back(map, i);
        map->count--;
    }
    return value;
}

void map_init(struct map *map)
{
    *map = (struct map){0};
}

void map_release(struct map *map)
{
    mem_free(map->slots);
    *map = (struct map){0};
}

size_t map_count(const struct map *map)
{
    return map->count;
}

void *map_get(const struct map *map, struct slice key)
{
    return get(map, want_bytes(key));
}

void *map_get_u64(const struct map *map, uint64_t key)
{
    return get(map, want_u64(key));
}

void *map_put(struct map *map, struct slice key, void *value)
{
    return put(map, want_bytes(key), value);
}

void *map_put_u64(struct map *map, uint64_t key, void *value)
{
    return put(map, want_u64(key), value);
}

void *map_remove(struct map *map, struct slice key)
{
    return take(map, want_bytes(key));
}

void *map_remove_u64(struct map *map, uint64_t key)
{
    return take(map, want_u64(key));
}

void *map_each(const struct map *map, size_t *cursor)
{
    while (*cursor < map->cap) {
        void *value = map->slots[(*cursor)++].value;

        if (value) {
            return value;
        }
    }
    return NULL;
}

void map_free_values(struct map *map)
{
    for (size_t i = 0; i < map->cap; i++) {
        mem_free(map->slots[i].value);
    }
    map_release(map);
}

uint64_t map_amount(const struct map *map, uint64_t key)
{
    return (uintptr_t)map_get_u64(map, key);
}

void map_set_amount(struct map *map, uint64_t key, uint64_t amount)
{
    if (amount == 0) {
        (void)map_remove_u64(map, key);
    } else {
        /* NOLINTNEXTLINE(performance-no-int-to-ptr): an amount, never followed. */
        (void)map_put_u64(map, key, (void *)(uintptr_t)amount);
    }
}
