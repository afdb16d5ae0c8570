/* The index of the window by path: which sets concern a path, and its newest ACL. */
#include "base/hash.h"
#include "base/mem.h"
#include "server/state/path.h"
#include "server/watch/window_int.h"

enum {
    BUCKETS_MIN = 64
};

void index_init(struct window_index *index, uint32_t sets_max)
{
    uint64_t buckets = BUCKETS_MIN;

    while (buckets < sets_max && buckets < WINDOW_BUCKETS_MAX) {
        buckets *= 2;
    }
    *index = (struct window_index){.mask = buckets - 1};
    index->buckets = mem_zalloc(buckets, sizeof(struct window_path *));
    /* The seed is random, so that no client can choose paths that all fall into one bucket. */
    index->seed = hash64_mix((uintptr_t)index, (uintptr_t)index->buckets);
}

void index_release(struct window_index *index)
{
    ASSERT(index->bytes == 0);
    mem_free(index->buckets);
    mem_free(index->scratch);
    *index = (struct window_index){0};
}

bool window_same_acl(const struct blob *a, const struct blob *b)
{
    return a == b || (a != NULL && b != NULL && slice_eq(blob_slice(a), blob_slice(b)));
}

/* ---- Paths. ---- */

static struct window_path *find_hashed(const struct window_index *index, struct slice path,
                                       uint64_t hash)
{
    struct window_path *found = index->buckets[hash & index->mask];

    while (found != NULL && (found->hash != hash || !slice_eq(found->path, path))) {
        found = found->next;
    }
    return found;
}

struct window_path *index_find(const struct window_index *index, struct slice path)
{
    return find_hashed(index, path, hash64(index->seed, path));
}

static size_t cost_of(const struct window_path *path)
{
    return sizeof(*path) + path->path.len;
}

static struct window_path *path_new(struct window_index *index, struct slice path, uint64_t hash)
{
    struct window_path *made = mem_alloc(sizeof(*made) + path.len);
    struct window_path **bucket = &index->buckets[hash & index->mask];

    *made = (struct window_path){
        .next = *bucket, .hash = hash, .path = slice_make(made->bytes, path.len)};
    memcpy(made->bytes, path.data, path.len);
    *bucket = made;
    index->bytes += cost_of(made);
    return made;
}

static void path_free(struct window_index *index, struct window_path *path)
{
    struct window_path **link = &index->buckets[path->hash & index->mask];

    while (*link != path) {
        link = &(*link)->next;
    }
    *link = path->next;
    ASSERT(index->bytes >= cost_of(path));
    index->bytes -= cost_of(path);
    blob_unref(path->acl);
    mem_free(path);
}

/* ---- Entries. ---- */

/* Enters a path in one role. A set has one entry for each path and role, also when it concerns the
 * path more than once. */
static struct window_path *enter(struct window_index *index, struct slice name, uint64_t number,
                                 enum window_role role)
{
    uint64_t hash = hash64(index->seed, name);
    struct window_path *path = find_hashed(index, name, hash);

    if (path == NULL) {
        path = path_new(index, name, hash);
    }
    struct window_chain *chain = &path->chains[role];

    if (chain->sets > 0 && chain->newest == number) {
        return path;
    }
    uint64_t prev = chain->sets > 0 ? chain->newest : number;
    uint32_t prev_at = chain->sets > 0 ? chain->newest_at : 0;

    chain->newest = number;
    chain->newest_at = index->scratch_count;
    chain->sets++;
    MEM_GROW(index->scratch, index->scratch_count, index->scratch_cap, MEM_ITEMS_MAX);
    index->scratch[index->scratch_count++] = (struct window_entry){
        .path = path, .prev = (uint32_t)prev, .prev_at = prev_at & INT32_MAX, .role = role & 1U};
    return path;
}

/* Enters the ancestors in the role WINDOW_BELOW, from the root down to the parent or to depth
 * WINDOW_DEPTH_MAX. */
static void enter_above(struct window_index *index, struct slice path, uint64_t number)
{
    uint32_t depth = 0;

    for (size_t i = 0; i < path.len && path.len > 1 && depth <= WINDOW_DEPTH_MAX; i++) {
        if (path.data[i] == '/') {
            (void)enter(index, slice_make(path.data, i > 0 ? i : 1), number, WINDOW_BELOW);
            depth++;
        }
    }
}

/* Sets the newest ACL. Returns true when the path had another ACL before. */
static bool learn_acl(struct window_path *path, struct blob *acl)
{
    bool moved = path->has_acl && !window_same_acl(path->acl, acl);

    if (path->acl != acl) {
        blob_unref(path->acl);
        path->acl = blob_ref(acl);
    }
    path->has_acl = true;
    return moved;
}

static bool enter_change(struct window_index *index, const struct state_change *change,
                         uint64_t number)
{
    struct window_path *own = enter(index, change->path, number, WINDOW_AT);
    bool moved = learn_acl(own, change->acl);

    if (change->type == TXN_SET) {
        return moved;
    }
    struct window_path *parent = enter(index, path_parent(change->path), number, WINDOW_AT);

    return learn_acl(parent, change->parent_acl) || moved;
}

static bool has_parent(const struct state_change *change)
{
    return change->path.len > 1;
}

bool index_add(struct window_index *index, struct change_set *set, uint64_t number)
{
    /* Parent of the last path for which enter_above ran. The next path needs no second run if it
     * has the same parent, because the ancestors are then the same. */
    struct slice above = slice_make(NULL, 0);
    bool moved = false;

    ASSERT(index->scratch_count == 0 && set->entries == NULL);
    for (uint32_t i = 0; i < set->count; i++) {
        const struct state_change *change = &set->items[i];

        if (change->type == TXN_SET_ACL) {
            /* A change of an ACL fires no event, so it has no entry in a chain. If the path is not
             * in the index, the window has no event that this ACL could hide. */
            struct window_path *path = index_find(index, change->path);

            moved = (path != NULL && learn_acl(path, change->acl)) || moved;
        } else if (change->type == TXN_CREATE || change->type == TXN_SET ||
                   change->type == TXN_DELETE) {
            moved = enter_change(index, change, number) || moved;
            if (has_parent(change) && !slice_eq(path_parent(change->path), above)) {
                above = path_parent(change->path);
                enter_above(index, change->path, number);
            }
        }
    }
    size_t bytes = index->scratch_count * sizeof(struct window_entry);

    set->entry_count = index->scratch_count;
    set->entries = bytes > 0 ? mem_dup(index->scratch, bytes) : NULL;
    set->bytes += bytes;
    index->scratch_count = 0;
    return moved;
}

void index_drop(struct window_index *index, struct change_set *set)
{
    for (uint32_t i = 0; i < set->entry_count; i++) {
        struct window_path *path = set->entries[i].path;

        ASSERT(path->chains[set->entries[i].role].sets > 0);
        path->chains[set->entries[i].role].sets--;
        if (path->chains[WINDOW_AT].sets == 0 && path->chains[WINDOW_BELOW].sets == 0) {
            path_free(index, path);
        }
    }
    mem_free(set->entries);
    set->entries = NULL;
    set->entry_count = 0;
}
