#include "base/check.h"
#include "base/mem.h"
#include "server/op/acl.h"
#include "server/watch/watch_int.h"

enum {
    WATCH_BYTES = 288 /* What a watch needs besides its path, with its part of the tables. */
};

const char *watch_event_name(enum watch_event_type type)
{
    static const char *const names[] = {
        [WATCH_CREATED] = "NodeCreated",
        [WATCH_DELETED] = "NodeDeleted",
        [WATCH_DATA_CHANGED] = "NodeDataChanged",
        [WATCH_CHILDREN_CHANGED] = "NodeChildrenChanged",
    };

    ASSERT(type >= WATCH_CREATED && type <= WATCH_CHILDREN_CHANGED);
    return names[type];
}

/* ---- Places. ---- */

static uint32_t depth_of(struct slice path)
{
    uint32_t depth = 0;

    for (size_t i = 0; path.len > 1 && i < path.len; i++) {
        depth += path.data[i] == '/';
    }
    return depth;
}

static struct watch_place *place_new(struct watch_table *table, struct slice path)
{
    struct watch_place *place = mem_alloc(sizeof(*place) + path.len);

    *place =
        (struct watch_place){.depth = depth_of(path), .path = slice_make(place->bytes, path.len)};
    ASSERT(place->depth <= STATE_DEPTH_MAX);
    memcpy(place->bytes, path.data, path.len);
    for (int kind = 0; kind < WATCH_KINDS; kind++) {
        list_init(&place->by_kind[kind]);
    }
    map_put(&table->places, place->path, place);
    return place;
}

void watch_place_ref(struct watch_place *place)
{
    place->refs++;
}

void watch_place_unref(struct watch_table *table, struct watch_place *place)
{
    ASSERT(place->refs > 0);

    if (--place->refs == 0) {
        map_remove(&table->places, place->path);
        mem_free(place);
    }
}

/* ---- The table. ---- */

struct watch_table *watch_table_new(watch_fn on_event, void *ctx)
{
    struct watch_table *table = mem_zalloc(1, sizeof(*table));

    table->on_event = on_event;
    table->ctx = ctx;
    map_init(&table->places);
    map_init(&table->keys);
    return table;
}

void watch_table_free(struct watch_table *table)
{
    if (table == NULL) {
        return;
    }
    ASSERT(table->count == 0 && map_count(&table->places) == 0);
    map_release(&table->places);
    map_release(&table->keys);
    mem_free(table);
}

size_t watch_table_count(const struct watch_table *table)
{
    return table->count;
}

void watch_table_raise(struct watch_table *table, zxid_t zxid)
{
    size_t cursor = 0;
    struct watch_place *place;

    while ((place = map_each(&table->places, &cursor)) != NULL) {
        for (int kind = WATCH_DATA; kind < WATCH_KINDS; kind++) {
            list_for_each_entry (struct watch, watch, by_place, &place->by_kind[kind]) {
                watch->start = max_u64(watch->start, zxid);
            }
        }
    }
}

/* ---- Owners and watches. ---- */

void watch_owner_init(struct watch_owner *owner, const struct op_principal *who, uint32_t count_max,
                      size_t bytes_max)
{
    *owner = (struct watch_owner){
        .who = who, .count_max = count_max, .bytes_max = bytes_max, .next_id = 1};
    list_init(&owner->watches);
    list_init(&owner->due);
}

void watch_owner_share(struct watch_owner *owner, struct budget_shares *pool, uint64_t key)
{
    ASSERT(owner->count == 0);
    owner->pool = pool;
    owner->pool_key = key;
}

void watch_owner_release(struct watch_table *table, struct watch_owner *owner)
{
    ASSERT(!table->firing);
    while (!list_empty(&owner->watches)) {
        watch_remove(table, list_first(&owner->watches, struct watch, by_owner));
    }
    ASSERT(owner->count == 0 && owner->bytes == 0);
}

static struct watch_key key_of_id(const struct watch_owner *owner, uint32_t id)
{
    return (struct watch_key){.owner = (uintptr_t)owner, .what = id};
}

static struct watch_key key_of_place(const struct watch_owner *owner,
                                     const struct watch_place *place, enum watch_kind kind)
{
    return (struct watch_key){.owner = (uintptr_t)owner, .what = (uintptr_t)place, .kind = kind};
}

static struct slice key_bytes(const struct watch_key *key)
{
    return slice_make(key, sizeof(*key));
}

static struct watch *by_place(const struct watch_table *table, const struct watch_owner *owner,
                              enum watch_kind kind, const struct watch_place *place)
{
    struct watch_key key = key_of_place(owner, place, kind);

    return map_get(&table->keys, key_bytes(&key));
}

struct watch *watch_find(const struct watch_table *table, const struct watch_owner *owner,
                         enum watch_kind kind, struct slice path)
{
    const struct watch_place *place = map_get(&table->places, path);

    return place != NULL ? by_place(table, owner, kind, place) : NULL;
}

struct watch *watch_by_id(const struct watch_table *table, const struct watch_owner *owner,
                          uint32_t id)
{
    struct watch_key key = key_of_id(owner, id);

    return map_get(&table->keys, key_bytes(&key));
}

struct slice watch_path(const struct watch *watch)
{
    return watch->place->path;
}

/* Adds the watch to the lists of its owner and its place, and under both keys. */
static void link_watch(struct watch_table *table, struct watch *watch)
{
    struct watch_owner *owner = watch->owner;
    struct watch_place *place = watch->place;

    watch->id_key = key_of_id(owner, watch->id);
    watch->place_key = key_of_place(owner, place, watch->kind);
    map_put(&table->keys, key_bytes(&watch->id_key), watch);
    map_put(&table->keys, key_bytes(&watch->place_key), watch);
    list_push_back(&owner->watches, &watch->by_owner);
    list_push_back(&place->by_kind[watch->kind], &watch->by_place);
    watch_place_ref(place);
    owner->count++;
    owner->bytes += place->path.len;
    if (owner->pool) {
        budget_shares_take(owner->pool, owner->pool_key, WATCH_BYTES + place->path.len);
    }
    table->count++;
    if (watch->kind == WATCH_RECURSIVE) {
        table->recursive++;
        table->recursive_at[place->depth]++;
    }
}

static bool has_room(const struct watch_owner *owner, struct slice path)
{
    return owner->count < owner->count_max && owner->bytes + path.len <= owner->bytes_max &&
           (!owner->pool || !budget_shares_is_full(owner->pool, owner->pool_key));
}

bool watch_may_add(const struct watch_table *table, const struct watch_owner *owner,
                   enum watch_kind kind, struct slice path)
{
    return has_room(owner, path) || watch_find(table, owner, kind, path) != NULL;
}

struct watch *watch_add(struct watch_table *table, struct watch_owner *owner, enum watch_kind kind,
                        struct slice path, zxid_t start)
{
    ASSERT(!table->firing && kind >= WATCH_DATA && kind <= WATCH_RECURSIVE);
    ASSERT(path.len > 0 && path.len <= STATE_PATH_MAX && path.data[0] == '/');
    struct watch_place *place = map_get(&table->places, path);
    struct watch *watch = place != NULL ? by_place(table, owner, kind, place) : NULL;

    if (watch != NULL) {
        return watch;
    }
    if (!has_room(owner, path)) {
        return NULL;
    }
    watch = mem_alloc(sizeof(*watch));
    *watch = (struct watch){.id = owner->next_id++,
                            .kind = kind,
                            .owner = owner,
                            .start = start,
                            .begin = start,
                            .place = place != NULL ? place : place_new(table, path)};
    link_watch(table, watch);
    return watch;
}

void watch_remove(struct watch_table *table, struct watch *watch)
{
    struct watch_owner *owner = watch->owner;
    struct watch_place *place = watch->place;

    ASSERT(!table->firing && owner->count > 0 && table->count > 0);
    map_remove(&table->keys, key_bytes(&watch->id_key));
    map_remove(&table->keys, key_bytes(&watch->place_key));
    list_remove(&watch->by_owner);
    list_remove(&watch->by_place);
    owner->count--;
    owner->bytes -= place->path.len;
    if (owner->pool) {
        budget_shares_give(owner->pool, owner->pool_key, WATCH_BYTES + place->path.len);
    }
    table->count--;
    if (watch->kind == WATCH_RECURSIVE) {
        table->recursive--;
        table->recursive_at[place->depth]--;
    }
    watch_place_unref(table, place);
    mem_free(watch);
}

void watch_hold(struct watch *watch)
{
    watch->held = true;
}

bool watch_may_read(const struct watch_owner *owner, const struct blob *acl)
{
    return acl == NULL || acl_allows(blob_slice(acl), owner->who, ACL_READ);
}

const struct watch *watch_at(const struct watch_table *table, struct slice path,
                             const struct watch *after)
{
    const struct watch_place *place = after ? after->place : map_get(&table->places, path);
    uint32_t kind = after ? (uint32_t)after->kind + 1 : WATCH_DATA;

    if (after && after->by_place.next != &place->by_kind[after->kind]) {
        return list_entry(after->by_place.next, struct watch, by_place);
    }
    for (; place && kind < WATCH_KINDS; kind++) {
        if (!list_empty(&place->by_kind[kind])) {
            return list_first(&place->by_kind[kind], struct watch, by_place);
        }
    }
    return NULL;
}
