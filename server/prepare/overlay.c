#include "server/prepare/overlay.h"

#include "base/check.h"
#include "base/mem.h"
#include "server/prepare/overlay_int.h"
#include "server/state/path.h"

void overlay_init(struct overlay *overlay)
{
    *overlay = (struct overlay){0};
    for (int kind = 0; kind < OVERLAY_KINDS; kind++) {
        map_init(&overlay->entries[kind]);
    }
    map_init(&overlay->by_hash);
    list_init(&overlay->order);
}

void overlay_release(struct overlay *overlay)
{
    overlay_clear(overlay);
    for (int kind = 0; kind < OVERLAY_KINDS; kind++) {
        map_release(&overlay->entries[kind]);
    }
    map_release(&overlay->by_hash);
    mem_free(overlay->undo);
}

/* ---- Indexes besides the name. ---- */

static const struct overlay_entry *of_owned(const struct avl_node *node)
{
    return avl_entry_const(node, struct overlay_entry, owned);
}

/* Ephemerals by owner, those of one owner by path. */
static int owned_cmp(const void *key, const struct avl_node *node)
{
    const struct overlay_entry *a = key;
    const struct overlay_entry *b = of_owned(node);

    if (a->value.node.owner != b->value.node.owner) {
        return a->value.node.owner < b->value.node.owner ? -1 : 1;
    }
    return slice_cmp(overlay_name(a), overlay_name(b));
}

static bool is_ephemeral(const struct overlay_entry *entry)
{
    return entry->kind == OVERLAY_NODE && entry->value.node.exists &&
           owner_is_session(entry->value.node.owner);
}

static bool is_open(const struct overlay_entry *entry)
{
    return entry->kind == OVERLAY_SESSION && entry->value.session.open;
}

static struct slice hash_of(const struct overlay_entry *entry)
{
    return slice_make(entry->value.session.secret_hash, TXN_SECRET_HASH_LEN);
}

static void index_entry(struct overlay *overlay, struct overlay_entry *entry)
{
    if (is_ephemeral(entry)) {
        avl_insert(&overlay->ephemerals, entry, &entry->owned, owned_cmp);
    }
    if (is_open(entry)) {
        void *old = map_put(&overlay->by_hash, hash_of(entry), entry);

        ASSERT(old == NULL);
    }
}

static void unindex_entry(struct overlay *overlay, struct overlay_entry *entry)
{
    if (is_ephemeral(entry)) {
        avl_remove(&overlay->ephemerals, &entry->owned);
    }
    if (is_open(entry)) {
        void *removed = map_remove(&overlay->by_hash, hash_of(entry));

        ASSERT(removed == entry);
    }
}

/* ---- References that a value holds. ---- */

static void ref_value(enum overlay_kind kind, const union overlay_value *value)
{
    if (kind == OVERLAY_NODE) {
        (void)blob_ref(value->node.acl);
    } else if (kind == OVERLAY_SESSION) {
        (void)blob_ref(value->session.from);
    }
}

static void unref_value(enum overlay_kind kind, const union overlay_value *value)
{
    if (kind == OVERLAY_NODE) {
        blob_unref(value->node.acl);
    } else if (kind == OVERLAY_SESSION) {
        blob_unref(value->session.from);
    }
}

/* ---- Entries. ---- */

struct overlay_entry *overlay_find(const struct overlay *overlay, enum overlay_kind kind,
                                   struct slice name)
{
    return map_get(&overlay->entries[kind], name);
}

struct overlay_entry *overlay_add(struct overlay *overlay, enum overlay_kind kind,
                                  struct slice name, const union overlay_value *value)
{
    ASSERT(name.len <= STATE_PATH_MAX);
    struct overlay_entry *entry = mem_alloc(sizeof(*entry) + name.len);

    *entry = (struct overlay_entry){.kind = kind, .value = *value, .name_len = (uint16_t)name.len};
    memcpy(entry->name, name.data, name.len);
    list_init(&entry->order);
    map_put(&overlay->entries[kind], overlay_name(entry), entry);
    ref_value(kind, value);
    index_entry(overlay, entry);
    return entry;
}

static void drop(struct overlay *overlay, struct overlay_entry *entry)
{
    void *removed = map_remove(&overlay->entries[entry->kind], overlay_name(entry));

    ASSERT(removed == entry);
    unindex_entry(overlay, entry);
    unref_value(entry->kind, &entry->value);
    list_remove(&entry->order);
    mem_free(entry);
}

void overlay_clear(struct overlay *overlay)
{
    ASSERT(overlay->undo_count == 0);

    while (!list_empty(&overlay->order)) {
        drop(overlay, list_first(&overlay->order, struct overlay_entry, order));
    }
}

size_t overlay_count(const struct overlay *overlay)
{
    size_t count = 0;

    for (int kind = 0; kind < OVERLAY_KINDS; kind++) {
        count += map_count(&overlay->entries[kind]);
    }
    return count;
}

/* The entry takes over the reference in `value`; the caller has that of the old value. */
static void set_value(struct overlay *overlay, struct overlay_entry *entry,
                      const union overlay_value *value)
{
    overlay->session_count -= is_open(entry) ? 1 : 0;
    unindex_entry(overlay, entry);
    entry->value = *value;
    index_entry(overlay, entry);
    overlay->session_count += is_open(entry) ? 1 : 0;
}

void overlay_change(struct overlay *overlay, struct overlay_entry *entry, zxid_t zxid,
                    const union overlay_value *value)
{
    ASSERT(zxid != 0);
    MEM_GROW(overlay->undo, overlay->undo_count, overlay->undo_cap, MEM_ITEMS_MAX);
    overlay->undo[overlay->undo_count++] =
        (struct overlay_undo){.entry = entry, .zxid = entry->zxid, .value = entry->value};
    ref_value(entry->kind, value);
    set_value(overlay, entry, value);
    entry->zxid = zxid;
    list_remove(&entry->order);
    list_push_back(&overlay->order, &entry->order);
}

void overlay_set(struct overlay *overlay, enum overlay_kind kind, struct slice name, zxid_t zxid,
                 const union overlay_value *value)
{
    static const union overlay_value nothing;
    struct overlay_entry *entry = overlay_find(overlay, kind, name);

    overlay_change(overlay, entry != NULL ? entry : overlay_add(overlay, kind, name, &nothing),
                   zxid, value);
}

void overlay_commit(struct overlay *overlay)
{
    while (overlay->undo_count > 0) {
        const struct overlay_undo *undo = &overlay->undo[--overlay->undo_count];

        unref_value(undo->entry->kind, &undo->value);
    }
}

void overlay_rollback(struct overlay *overlay)
{
    while (overlay->undo_count > 0) {
        const struct overlay_undo *undo = &overlay->undo[--overlay->undo_count];
        struct overlay_entry *entry = undo->entry;

        unref_value(entry->kind, &entry->value);
        set_value(overlay, entry, &undo->value);
        /* It stays at the end of the order, so it is dropped late, but never early. */
        entry->zxid = undo->zxid;
        if (entry->zxid == 0) {
            drop(overlay, entry);
        }
    }
}

void overlay_applied(struct overlay *overlay, zxid_t zxid)
{
    ASSERT(overlay->undo_count == 0);

    while (!list_empty(&overlay->order)) {
        struct overlay_entry *entry = list_first(&overlay->order, struct overlay_entry, order);

        if (entry->zxid > zxid) {
            break;
        }
        drop(overlay, entry);
    }
}

/* ---- Znodes. ---- */

static void from_tree(const struct state *state, const struct znode *znode,
                      struct overlay_node *ret_node)
{
    *ret_node = (struct overlay_node){.exists = znode != NULL};
    if (znode != NULL) {
        znode_stat(znode, &ret_node->stat);
        ret_node->owner = znode_owner(znode);
        ret_node->age_ms = znode_age_ms(znode);
        ret_node->creates = znode_creates(znode);
        ret_node->acl = state_acl_blob(state, znode_acl(znode));
    }
}

void overlay_get(const struct overlay *overlay, const struct state *state, struct slice path,
                 struct overlay_node *ret_node)
{
    const struct overlay_entry *entry = overlay_find(overlay, OVERLAY_NODE, path);

    if (entry != NULL) {
        *ret_node = entry->value.node;
    } else {
        from_tree(state, state_find(state, path), ret_node);
    }
}

void overlay_put(struct overlay *overlay, struct slice path, zxid_t zxid,
                 const struct overlay_node *node)
{
    union overlay_value value = {.node = *node};

    value.node.stat.cversion = stat_cversion(node->creates, node->stat.num_children);
    overlay_set(overlay, OVERLAY_NODE, path, zxid, &value);
}

/* ---- Idempotency keys whose writes are in flight, and the total of remembered results. ---- */

const uint8_t *overlay_key(const struct overlay *overlay, struct slice scope, struct slice key)
{
    uint8_t name[STATE_REMEMBERED_NAME_MAX];
    const struct overlay_entry *entry =
        overlay_find(overlay, OVERLAY_KEY, state_remembered_name(name, scope, key));

    return entry != NULL ? entry->value.key.fingerprint : NULL;
}

void overlay_put_key(struct overlay *overlay, zxid_t zxid, const struct txn_remember *remember)
{
    uint8_t name[STATE_REMEMBERED_NAME_MAX];
    union overlay_value value = {.key = {.fingerprint = {0}}};

    memcpy(value.key.fingerprint, remember->fingerprint, TXN_FINGERPRINT_LEN);
    overlay_set(overlay, OVERLAY_KEY, state_remembered_name(name, remember->scope, remember->key),
                zxid, &value);
}

/* The total of remembered results is one entry. */
static struct slice memory_name(void)
{
    return slice_str("memory");
}

void overlay_memory(const struct overlay *overlay, const struct state *state,
                    struct overlay_memory *ret_memory)
{
    const struct overlay_entry *entry = overlay_find(overlay, OVERLAY_MEMORY, memory_name());

    *ret_memory = entry != NULL ? entry->value.memory
                                : (struct overlay_memory){.count = state_remembered_count(state),
                                                          .bytes = state_remembered_bytes(state)};
}

void overlay_put_memory(struct overlay *overlay, zxid_t zxid, const struct overlay_memory *memory)
{
    const union overlay_value value = {.memory = *memory};

    overlay_set(overlay, OVERLAY_MEMORY, memory_name(), zxid, &value);
}
