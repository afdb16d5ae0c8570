#include "cli/migrate_index.h"

#include "base/hash.h"
#include "base/mem.h"

enum {
    CAP_FIRST = 1024,
    SEED_PATH = 1,
    SEED_DATA = 2,
    SEED_NULL = 3,
    SEED_ACL = 64, /* Plus the permissions. */
    PERMS_ALL = 31
};

void migrate_index_clear(struct migrate_index *index)
{
    mem_free(index->entries);
    *index = (struct migrate_index){.entries = NULL};
}

static uint64_t hash_of(struct slice path)
{
    uint64_t hash = hash64(SEED_PATH, path);

    return hash ? hash : 1;
}

/* Returns the entry of a hash, or the free one where it belongs. */
static struct migrate_entry *find(const struct migrate_index *index, uint64_t hash)
{
    size_t at = hash & (index->cap - 1);

    while (index->entries[at].path != 0 && index->entries[at].path != hash) {
        at = (at + 1) & (index->cap - 1);
    }
    return &index->entries[at];
}

/* Returns the entry of a path, which may be gone, or NULL. */
static struct migrate_entry *find_path(const struct migrate_index *index, struct slice path)
{
    struct migrate_entry *entry = index->cap > 0 ? find(index, hash_of(path)) : NULL;

    return entry && entry->path != 0 ? entry : NULL;
}

struct migrate_entry *migrate_index_get(const struct migrate_index *index, struct slice path)
{
    struct migrate_entry *entry = find_path(index, path);

    return entry && !entry->gone ? entry : NULL;
}

static bool is_needed(const struct migrate_entry *entry)
{
    return entry->path != 0 && (!entry->gone || entry->known);
}

/* Makes room for more entries, by a larger table unless half of it was not needed any more. */
static void grow(struct migrate_index *index)
{
    size_t needed = 0;

    for (size_t i = 0; i < index->cap; i++) {
        needed += is_needed(&index->entries[i]);
    }
    struct migrate_index larger = {.cap = needed < index->cap / 2 ? index->cap : 2 * index->cap};

    larger.cap = larger.cap > 0 ? larger.cap : CAP_FIRST;
    larger.count = index->count;
    larger.used = needed;
    larger.entries = mem_zalloc(larger.cap, sizeof(*larger.entries));
    for (size_t i = 0; i < index->cap; i++) {
        if (is_needed(&index->entries[i])) {
            *find(&larger, index->entries[i].path) = index->entries[i];
        }
    }
    mem_free(index->entries);
    *index = larger;
}

void migrate_index_begin(struct migrate_index *index)
{
    for (size_t i = 0; i < index->cap; i++) {
        index->entries[i].gone = true;
        index->entries[i].seen = false;
    }
    index->count = 0;
}

void migrate_index_end(struct migrate_index *index)
{
    for (size_t i = 0; i < index->cap; i++) {
        index->entries[i].known = index->entries[i].known && !index->entries[i].gone;
    }
}

void migrate_index_put(struct migrate_index *index, struct slice path, uint64_t digest,
                       uint32_t creates, bool seen)
{
    uint64_t hash = hash_of(path);

    if (index->used >= index->cap / 4 * 3) {
        grow(index);
    }
    struct migrate_entry *entry = find(index, hash);

    index->used += entry->path == 0;
    index->count += entry->path == 0 || entry->gone;
    *entry = (struct migrate_entry){.path = hash,
                                    .digest = digest,
                                    .creates = creates,
                                    .seen = seen,
                                    .known = seen || entry->known};
}

void migrate_index_see(struct migrate_entry *entry)
{
    entry->seen = true;
    entry->known = true;
}

bool migrate_index_drop(struct migrate_index *index, struct slice path)
{
    struct migrate_entry *entry = migrate_index_get(index, path);

    if (entry) {
        entry->gone = true;
        index->count--;
    }
    return entry != NULL;
}

bool migrate_index_is_seen(const struct migrate_index *index, struct slice path)
{
    const struct migrate_entry *entry = find_path(index, path);

    return entry && entry->seen;
}

bool migrate_index_is_known(const struct migrate_index *index, struct slice path)
{
    const struct migrate_entry *entry = find_path(index, path);

    return entry && entry->known;
}

void migrate_index_disown(struct migrate_index *index, struct slice path)
{
    struct migrate_entry *entry = find_path(index, path);

    if (entry) {
        entry->known = false;
    }
}

uint64_t migrate_acl_add(uint64_t sum, uint32_t perms, struct slice scheme, struct slice id)
{
    return sum + hash64_mix(hash64(SEED_ACL + perms, scheme), hash64(SEED_ACL + perms, id));
}

uint64_t migrate_acl_done(uint64_t sum)
{
    uint64_t open = migrate_acl_add(0, PERMS_ALL, slice_str("world"), slice_str("anyone"));

    return sum == open ? 0 : sum;
}

uint64_t migrate_digest(struct slice data, bool is_null, uint64_t acl)
{
    return hash64_mix(hash64(is_null ? SEED_NULL : SEED_DATA, data), acl);
}
