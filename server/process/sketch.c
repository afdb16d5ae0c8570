#include "server/process/sketch.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

static struct slice key_of(const struct sketch *sketch, uint32_t at)
{
    return slice_make(sketch->entries[at].key, sketch->entries[at].len);
}

/* Returns the entry of the key; sketch->count: it has none. */
static uint32_t find(const struct sketch *sketch, uint32_t hash, struct slice key)
{
    for (uint32_t i = 0; i < sketch->count; i++) {
        if (sketch->hashes[i] == hash && slice_eq(key_of(sketch, i), key)) {
            return i;
        }
    }
    return sketch->count;
}

static uint32_t least(const struct sketch *sketch)
{
    uint32_t at = 0;

    for (uint32_t i = 1; i < sketch->count; i++) {
        at = sketch->totals[i] < sketch->totals[at] ? i : at;
    }
    return at;
}

/* Returns an entry for a new key: a free one, or the one with the least total, which the new key
 * inherits as its error. */
static uint32_t take_entry(struct sketch *sketch, uint32_t hash, struct slice key)
{
    bool is_full = sketch->count == SKETCH_ENTRIES;
    uint32_t at = is_full ? least(sketch) : sketch->count++;
    struct sketch_entry *entry = &sketch->entries[at];

    sketch->totals[at] = is_full ? sketch->totals[at] : 0;
    sketch->hashes[at] = hash;
    entry->reads = 0;
    entry->writes = 0;
    entry->len = (uint32_t)key.len;
    if (key.len > 0) {
        memcpy(entry->key, key.data, key.len);
    }
    return at;
}

void sketch_clear(struct sketch *sketch)
{
    sketch->count = 0;
}

void sketch_add(struct sketch *sketch, struct slice key, bool is_write)
{
    ASSERT(key.len <= SKETCH_KEY_MAX);
    uint32_t hash = (uint32_t)hash64(0, key);
    uint32_t at = find(sketch, hash, key);

    if (at == sketch->count) {
        at = take_entry(sketch, hash, key);
    }
    sketch->totals[at]++;
    *(is_write ? &sketch->entries[at].writes : &sketch->entries[at].reads) += 1;
}

/* Adds what the sketch knows about the key of the row. A key without an entry in a full sketch was
 * added at most as often as the least entry. */
static void add_known(const struct sketch *sketch, uint32_t hash, struct sketch_row *row)
{
    uint32_t at = find(sketch, hash, row->key);

    if (at < sketch->count) {
        const struct sketch_entry *entry = &sketch->entries[at];

        row->reads += entry->reads;
        row->writes += entry->writes;
        row->error += sketch->totals[at] - entry->reads - entry->writes;
    } else if (sketch->count == SKETCH_ENTRIES) {
        row->error += sketch->totals[least(sketch)];
    }
}

static bool is_known(const struct sketch *const *sketches, uint32_t count, uint32_t hash,
                     struct slice key)
{
    for (uint32_t i = 0; i < count; i++) {
        if (find(sketches[i], hash, key) < sketches[i]->count) {
            return true;
        }
    }
    return false;
}

/* The most observed first; equal ones in the order of their keys. */
static int compare(const void *left, const void *right)
{
    const struct sketch_row *a = left;
    const struct sketch_row *b = right;
    uint64_t seen_a = a->reads + a->writes;
    uint64_t seen_b = b->reads + b->writes;

    return seen_a == seen_b ? slice_cmp(a->key, b->key) : (seen_a < seen_b ? 1 : -1);
}

uint32_t sketch_sum(const struct sketch *const *sketches, uint32_t count,
                    struct sketch_row rows[SKETCH_ENTRIES])
{
    struct sketch_row *all = mem_zalloc((size_t)max_u32(count, 1) * SKETCH_ENTRIES, sizeof(*all));
    uint32_t found = 0;

    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t at = 0; at < sketches[i]->count; at++) {
            uint32_t hash = sketches[i]->hashes[at];
            struct slice key = key_of(sketches[i], at);

            if (is_known(sketches, i, hash, key)) {
                continue; /* It has its row. */
            }
            all[found].key = key;
            for (uint32_t other = 0; other < count; other++) {
                add_known(sketches[other], hash, &all[found]);
            }
            found++;
        }
    }
    qsort(all, found, sizeof(*all), compare);
    found = min_u32(found, SKETCH_ENTRIES);
    memcpy(rows, all, found * sizeof(*all));
    mem_free(all);
    return found;
}
