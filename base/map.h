/*
 * map.h - a hash table from u64 or bytes to a pointer. The map owns neither keys nor values. A key
 * of bytes is not copied: its bytes must live as long as the entry, so callers let the value own
 * them. One map has one kind of key. Iteration order is arbitrary and must never reach the wire,
 * the disk or a digest.
 */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include "base/slice.h"

struct map_slot {
    uint64_t hash;    /* 0 marks a free slot. */
    struct slice key; /* For u64 keys: `data` is NULL, `len` the key itself. */
    void *value;
};

struct map {
    struct map_slot *slots; /* `cap` slots, a power of two; open addressing, linear probing. */
    size_t cap;
    size_t count;
};

void map_init(struct map *map);
void map_release(struct map *map);
void map_free_values(struct map *map); /* Frees the values as well, by mem_free. */
size_t map_count(const struct map *map);

void *map_get(const struct map *map, struct slice key); /* NULL when absent. */
void *map_get_u64(const struct map *map, uint64_t key);

/* Inserts or replaces a value; returns the old value or NULL. `value` must not be NULL. */
void *map_put(struct map *map, struct slice key, void *value);
void *map_put_u64(struct map *map, uint64_t key, void *value);

/* Removes a key; returns its value or NULL. */
void *map_remove(struct map *map, struct slice key);
void *map_remove_u64(struct map *map, uint64_t key);

/* For a map of amounts, which are kept in the pointers themselves; 0 for an absent key. */
uint64_t map_amount(const struct map *map, uint64_t key);
void map_set_amount(struct map *map, uint64_t key, uint64_t amount);

/* Walks all values: start with *cursor = 0, stop at NULL. The map must not change meanwhile. */
void *map_each(const struct map *map, size_t *cursor);

#endif
