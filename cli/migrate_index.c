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

struct migrate_entry *migrate_index_get(const struct migrate_index *index, struct slice path)
{
    struct migrate_entry *entry = index->cap > 0 ? find(index, hash_of(path)) : NULL;

    return entry && entry->path != 0 && !entry->gone ? entry : NULL;
}

static void grow(struct migrate_index *index)
{
    struct migrate_index larger = {.cap = index->cap > 0 ? 2 * index->cap : CAP_FIRST};

    larger.entries = mem_zalloc(larger.cap, sizeof(*larger.entries));
    for (size_t i = 0; i < index->cap; i++) {
        if (index->entries[i].path != 0 && !index->entries[i].gone) {
            *find(&larger, index->entries[i].path) = index->entries[i];
            larger.count++;
        }
    }
    larger.used = larger.count;
    mem_free(index->entries);
    *index = larger;
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
    *entry =
        (struct migrate_entry){.path = hash, .digest = digest, .creates = creates, .seen = seen};
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
