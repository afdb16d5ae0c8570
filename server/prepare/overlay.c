#include "server/prepare/overlay.h"

#include "base/check.h"
#include "base/mem.h"
#include "server/state/path.h"

static struct slice name_of(const struct overlay_entry *entry)
{
    return slice_make(entry->name, entry->name_len);
}

/* Appends a path to a list of paths: u16 length and bytes. */
static void put_path(struct buf *paths, struct slice path)
{
    wire_put_u16(paths, (uint16_t)path.len);
    wire_put_raw(paths, path);
}

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

/* Orders ephemerals by owner, and the ephemerals of one owner by path. */
static int owned_cmp(const void *key, const struct avl_node *node)
{
    const struct overlay_entry *a = key;
    const struct overlay_entry *b = of_owned(node);

    if (a->value.node.owner != b->value.node.owner) {
        return a->value.node.owner < b->value.node.owner ? -1 : 1;
    }
    return slice_cmp(name_of(a), name_of(b));
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

/* Returns the entry of that name, or NULL. */
static struct overlay_entry *find(const struct overlay *overlay, enum overlay_kind kind,
                                  struct slice name)
{
    return map_get(&overlay->entries[kind], name);
}

/* Adds an entry whose value is not part of any change yet: its zxid is 0, so that a rollback of the
 * first change drops the entry. */
static struct overlay_entry *add(struct overlay *overlay, enum overlay_kind kind, struct slice name,
                                 const union overlay_value *value)
{
    ASSERT(name.len <= STATE_PATH_MAX);
    struct overlay_entry *entry = mem_alloc(sizeof(*entry) + name.len);

    *entry = (struct overlay_entry){.kind = kind, .value = *value, .name_len = (uint16_t)name.len};
    memcpy(entry->name, name.data, name.len);
    list_init(&entry->order);
    map_put(&overlay->entries[kind], name_of(entry), entry);
    ref_value(kind, value);
    index_entry(overlay, entry);
    return entry;
}

static void drop(struct overlay *overlay, struct overlay_entry *entry)
{
    void *removed = map_remove(&overlay->entries[entry->kind], name_of(entry));

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

/* Replaces the value. The entry takes over the reference in `value`; the caller takes over the
 * reference of the old value. */
static void set_value(struct overlay *overlay, struct overlay_entry *entry,
                      const union overlay_value *value)
{
    overlay->session_count -= is_open(entry) ? 1 : 0;
    unindex_entry(overlay, entry);
    entry->value = *value;
    index_entry(overlay, entry);
    overlay->session_count += is_open(entry) ? 1 : 0;
}

/* Gives the entry another value, as a part of the current request. */
static void change(struct overlay *overlay, struct overlay_entry *entry, zxid_t zxid,
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

/* Gives the entry of that name another value. The entry is added when there is none. */
static void set(struct overlay *overlay, enum overlay_kind kind, struct slice name, zxid_t zxid,
                const union overlay_value *value)
{
    static const union overlay_value nothing;
    struct overlay_entry *entry = find(overlay, kind, name);

    change(overlay, entry != NULL ? entry : add(overlay, kind, name, &nothing), zxid, value);
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
        /* The entry stays at the end of the order. So it may be dropped later than necessary, but
         * never earlier. */
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

void overlay_get(const struct overlay *overlay, const struct state *state, struct slice path,
                 struct overlay_node *ret_node)
{
    const struct overlay_entry *entry = find(overlay, OVERLAY_NODE, path);
    const struct znode *znode = entry == NULL ? state_find(state, path) : NULL;

    *ret_node = (struct overlay_node){.exists = znode != NULL};
    if (entry != NULL) {
        *ret_node = entry->value.node;
    } else if (znode != NULL) {
        znode_stat(znode, &ret_node->stat);
        ret_node->owner = znode_owner(znode);
        ret_node->age_ms = znode_age_ms(znode);
        ret_node->creates = znode_creates(znode);
        ret_node->acl = state_acl_blob(state, znode_acl(znode));
    }
}

void overlay_put(struct overlay *overlay, struct slice path, zxid_t zxid,
                 const struct overlay_node *node)
{
    union overlay_value value = {.node = *node};

    value.node.stat.cversion = stat_cversion(node->creates, node->stat.num_children);
    set(overlay, OVERLAY_NODE, path, zxid, &value);
}

/* ---- Idempotency keys whose writes are in flight, and the total of remembered results. ---- */

const uint8_t *overlay_key(const struct overlay *overlay, struct slice scope, struct slice key)
{
    uint8_t name[STATE_REMEMBERED_NAME_MAX];
    const struct overlay_entry *entry =
        find(overlay, OVERLAY_KEY, state_remembered_name(name, scope, key));

    return entry != NULL ? entry->value.fingerprint : NULL;
}

void overlay_put_key(struct overlay *overlay, zxid_t zxid, const struct txn_remember *remember)
{
    uint8_t name[STATE_REMEMBERED_NAME_MAX];
    union overlay_value value = {.fingerprint = {0}};

    memcpy(value.fingerprint, remember->fingerprint, TXN_FINGERPRINT_LEN);
    set(overlay, OVERLAY_KEY, state_remembered_name(name, remember->scope, remember->key), zxid,
        &value);
}

/* Name of the one entry for the total of remembered results. */
static const char memory_name[] = "memory";

void overlay_memory(const struct overlay *overlay, const struct state *state,
                    struct overlay_memory *ret_memory)
{
    const struct overlay_entry *entry = find(overlay, OVERLAY_MEMORY, slice_str(memory_name));

    *ret_memory = entry != NULL ? entry->value.memory
                                : (struct overlay_memory){.count = state_remembered_count(state),
                                                          .bytes = state_remembered_bytes(state)};
}

void overlay_put_memory(struct overlay *overlay, zxid_t zxid, const struct overlay_memory *memory)
{
    const union overlay_value value = {.memory = *memory};

    set(overlay, OVERLAY_MEMORY, slice_str(memory_name), zxid, &value);
}

/* ---- Sessions that are opened, moved or closed in flight. ---- */

enum {
    ID_LEN = 8
};

static struct slice id_name(uint8_t to[ID_LEN], uint64_t id)
{
    wire_store_u64(to, id);
    return slice_make(to, ID_LEN);
}

static void from_state(const struct state_session *session, struct overlay_session *ret_session)
{
    *ret_session = (struct overlay_session){.open = session != NULL};
    if (session != NULL) {
        ret_session->id = session->id;
        ret_session->attach = session->attach;
        ret_session->ephemeral_count = session->ephemeral_count;
        ret_session->ephemeral_bytes = session->ephemeral_bytes;
        memcpy(ret_session->secret_hash, session->secret_hash, TXN_SECRET_HASH_LEN);
    }
}

void overlay_session(const struct overlay *overlay, const struct state *state, uint64_t id,
                     struct overlay_session *ret_session)
{
    uint8_t name[ID_LEN];
    const struct overlay_entry *entry = find(overlay, OVERLAY_SESSION, id_name(name, id));

    if (entry != NULL) {
        *ret_session = entry->value.session;
    } else {
        from_state(state_session(state, id), ret_session);
    }
}

void overlay_session_by_hash(const struct overlay *overlay, const struct state *state,
                             const uint8_t hash[TXN_SECRET_HASH_LEN],
                             struct overlay_session *ret_session)
{
    const struct overlay_entry *entry =
        map_get(&overlay->by_hash, slice_make(hash, TXN_SECRET_HASH_LEN));
    const struct state_session *applied = state_session_by_hash(state, hash);

    if (entry != NULL) {
        *ret_session = entry->value.session;
    } else if (applied != NULL) {
        /* A request in flight may have closed this session. */
        overlay_session(overlay, state, applied->id, ret_session);
    } else {
        *ret_session = (struct overlay_session){.open = false};
    }
}

void overlay_put_session(struct overlay *overlay, const struct state *state, zxid_t zxid,
                         const struct overlay_session *session)
{
    ASSERT(owner_is_session(session->id));
    const union overlay_value value = {.session = *session};
    uint8_t name[ID_LEN];
    struct overlay_entry *entry = find(overlay, OVERLAY_SESSION, id_name(name, session->id));

    if (entry == NULL) {
        union overlay_value was = {.session = {.open = false}};

        overlay->session_count = overlay_session_count(overlay, state);
        from_state(state_session(state, session->id), &was.session);
        entry = add(overlay, OVERLAY_SESSION, id_name(name, session->id), &was);
    }
    change(overlay, entry, zxid, &value);
}

uint64_t overlay_session_count(const struct overlay *overlay, const struct state *state)
{
    return map_count(&overlay->entries[OVERLAY_SESSION]) > 0 ? overlay->session_count
                                                             : state_session_count(state);
}

/* ---- Shares. ---- */

static uint64_t share_count(const struct overlay *overlay, const struct state *state,
                            struct slice name)
{
    const struct overlay_entry *entry = find(overlay, OVERLAY_SHARE, name);

    return entry != NULL ? entry->value.share : state_share_count(state, name);
}

uint64_t overlay_share(const struct overlay *overlay, const struct state *state, struct slice from,
                       enum state_share kind)
{
    struct state_share_name name;

    return share_count(overlay, state, state_share_name(from, kind, &name));
}

void overlay_count_shares(struct overlay *overlay, const struct state *state, zxid_t zxid,
                          struct slice from, bool opened)
{
    struct state_share_name bytes;

    for (int kind = 0; kind < STATE_SHARES; kind++) {
        struct slice name = state_share_name(from, (enum state_share)kind, &bytes);
        uint64_t count = share_count(overlay, state, name);
        const union overlay_value value = {.share = opened ? count + 1 : count - 1};

        ASSERT(opened || count > 0);
        set(overlay, OVERLAY_SHARE, name, zxid, &value);
    }
}

/* ---- Ephemerals. ---- */

/* Comparison that finds the first ephemeral of that owner or, if there is none, of the next owner.
 */
static int owner_cmp(const void *key, const struct avl_node *node)
{
    uint64_t owner = *(const uint64_t *)key;
    const struct overlay_entry *entry = avl_entry_const(node, struct overlay_entry, owned);

    return owner <= entry->value.node.owner ? -1 : 1;
}

static size_t add_from_state(const struct overlay *overlay, const struct state *state,
                             uint64_t session, struct buf *paths)
{
    const struct znode *node = state_ephemeral_first(state, session);
    struct buf path;
    size_t count = 0;

    buf_init(&path, STATE_PATH_MAX);
    for (; node != NULL; node = state_ephemeral_next(state, node)) {
        buf_clear(&path);
        walk_path_of(node, &path);
        if (find(overlay, OVERLAY_NODE, buf_slice(&path)) == NULL) {
            put_path(paths, buf_slice(&path));
            count++;
        }
    }
    buf_release(&path);
    return count;
}

size_t overlay_ephemerals(const struct overlay *overlay, const struct state *state,
                          uint64_t session, struct buf *paths)
{
    size_t count = add_from_state(overlay, state, session, paths);
    const struct avl_node *node = avl_lower_bound(&overlay->ephemerals, &session, owner_cmp);

    /* Adds all ephemerals with an entry, which add_from_state has left out. */
    for (; node != NULL; node = avl_next(node)) {
        const struct overlay_entry *entry = avl_entry_const(node, struct overlay_entry, owned);

        if (entry->value.node.owner != session) {
            break;
        }
        put_path(paths, name_of(entry));
        count++;
    }
    return count;
}

/* ---- Whole subtrees. ---- */

static bool has_entry(const struct overlay *overlay, struct slice path)
{
    return find(overlay, OVERLAY_NODE, path) != NULL;
}

/* Adds znodes of the tree that no request in flight has changed. */
static size_t add_from_tree(const struct overlay *overlay, const struct znode *top,
                            struct slice path, size_t count_max, struct buf *paths)
{
    struct walk walk;
    size_t count = 0;

    walk_init(&walk, top, path);
    for (const struct znode *node = top; node != NULL && count <= count_max;
         node = walk_next(&walk, true)) {
        if (!has_entry(overlay, buf_slice(&walk.path))) {
            put_path(paths, buf_slice(&walk.path));
            count++;
        }
    }
    walk_release(&walk);
    return count;
}

/* Whether the entry is of a znode at or below `top`, and that znode will exist. */
static bool is_within(const struct overlay_entry *entry, struct slice top)
{
    return entry->kind == OVERLAY_NODE && entry->value.node.exists &&
           path_is_within(name_of(entry), top);
}

size_t overlay_subtree(const struct overlay *overlay, const struct state *state, struct slice top,
                       size_t count_max, struct buf *paths)
{
    ASSERT(top.len > 1);
    const struct znode *node = state_find(state, top);
    size_t count = node != NULL ? add_from_tree(overlay, node, top, count_max, paths) : 0;

    list_for_each_entry (struct overlay_entry, entry, order, &overlay->order) {
        if (count > count_max) {
            break;
        }
        if (is_within(entry, top)) {
            put_path(paths, name_of(entry));
            count++;
        }
    }
    return count;
}

/* ---- Quotas. ---- */

void overlay_quota(const struct overlay *overlay, const struct state *state, struct slice path,
                   struct overlay_quota *ret_quota)
{
    const struct overlay_entry *entry = find(overlay, OVERLAY_QUOTA, path);
    const struct state_quota *applied = entry == NULL ? state_quota_find(state, path) : NULL;

    *ret_quota = (struct overlay_quota){.exists = applied != NULL};
    if (entry != NULL) {
        *ret_quota = entry->value.quota;
    } else if (applied != NULL) {
        ret_quota->count = applied->count;
        ret_quota->bytes = applied->bytes;
        ret_quota->count_hard = applied->count_hard;
        ret_quota->bytes_hard = applied->bytes_hard;
    }
}

void overlay_put_quota(struct overlay *overlay, struct slice path, zxid_t zxid,
                       const struct overlay_quota *quota)
{
    const union overlay_value value = {.quota = *quota};

    set(overlay, OVERLAY_QUOTA, path, zxid, &value);
}

bool overlay_has_quotas(const struct overlay *overlay, const struct state *state)
{
    return map_count(&overlay->entries[OVERLAY_QUOTA]) > 0 ||
           state_quota_after(state, slice_make(NULL, 0)) != NULL;
}

void overlay_usage(const struct overlay *overlay, const struct state *state, struct slice top,
                   uint64_t *ret_count, uint64_t *ret_bytes)
{
    const struct znode *first = state_find(state, top);
    struct walk walk;

    *ret_count = 0;
    *ret_bytes = 0;
    if (first != NULL) {
        walk_init(&walk, first, top);
        for (const struct znode *node = first; node != NULL; node = walk_next(&walk, true)) {
            if (!has_entry(overlay, buf_slice(&walk.path))) {
                *ret_count += 1;
                *ret_bytes += blob_slice(znode_data(node)).len;
            }
        }
        walk_release(&walk);
    }
    list_for_each_entry (struct overlay_entry, entry, order, &overlay->order) {
        if (is_within(entry, top)) {
            *ret_count += 1;
            *ret_bytes += entry->value.node.stat.data_length;
        }
    }
}
