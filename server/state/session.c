#include "base/hash.h"
#include "server/state/state_int.h"

enum {
    SEED_SESSION = 0x73657373
};

/* An ephemeral znode in the index of its owner. */
struct ephemeral {
    struct avl_node order;
    struct znode *node;
    struct session *session;
    uint64_t path_len;
};

static struct session *of_order(struct avl_node *node)
{
    return node != NULL ? avl_entry(node, struct session, order) : NULL;
}

static struct ephemeral *of_ephemeral(struct avl_node *node)
{
    return node != NULL ? avl_entry(node, struct ephemeral, order) : NULL;
}

static int id_cmp(const void *key, const struct avl_node *node)
{
    uint64_t id = *(const uint64_t *)key;
    const struct session *session = avl_entry_const(node, struct session, order);

    return id < session->shown.id ? -1 : id > session->shown.id;
}

static struct slice hash_of(const struct session *session)
{
    return slice_make(session->shown.secret_hash, TXN_SECRET_HASH_LEN);
}

/* Returns the hash of an open session for the digest. It covers each stored field. */
static uint64_t digest_of(const struct session *session)
{
    const struct state_session *shown = &session->shown;
    uint64_t hash = hash64(SEED_SESSION, hash_of(session));

    hash = hash64_mix(hash, shown->id);
    hash = hash64_mix(hash, (uint64_t)shown->timeout_ms << 32 | shown->member);
    hash = hash64_mix(hash, shown->attach);
    hash = hash64_mix(hash, (uint64_t)shown->opened_ms);
    return hash64(hash, shown->from);
}

/* ---- Shares: how many sessions each client and each network has open. ---- */

struct share {
    uint64_t count;
    uint32_t name_len;
    uint8_t name[];
};

/* First byte in the name of a network's share. It distinguishes this name from that of a client
 * without identity, because no address begins with this byte. */
static const uint8_t network_mark = '*';

struct slice state_share_name(struct slice from, enum state_share kind,
                              struct state_share_name *name)
{
    size_t address = slice_find(from, ' '); /* An identity follows after a blank. */
    char text[NETWORK_TEXT_MAX];
    struct slice part = network_of(slice_make(from.data, address), text);
    size_t len = 0;

    if (kind == STATE_SHARE_CLIENT && address < from.len) {
        part = slice_from(from, address);
    }
    if (kind == STATE_SHARE_NETWORK) {
        name->bytes[len++] = network_mark;
    }
    ASSERT(len + part.len <= sizeof(name->bytes));
    if (part.len > 0) {
        memcpy(name->bytes + len, part.data, part.len);
    }
    return slice_make(name->bytes, len + part.len);
}

static void add_one(struct map *shares, struct slice name)
{
    struct share *share = map_get(shares, name);

    if (share == NULL) {
        share = mem_alloc(sizeof(*share) + name.len);
        *share = (struct share){.name_len = (uint32_t)name.len};
        memcpy(share->name, name.data, name.len);
        map_put(shares, slice_make(share->name, share->name_len), share);
    }
    share->count++;
}

static void drop_one(struct map *shares, struct slice name)
{
    struct share *share = map_get(shares, name);

    ASSERT(share != NULL && share->count > 0);
    share->count--;
    if (share->count == 0) {
        (void)map_remove(shares, name);
        mem_free(share);
    }
}

/* Counts one more (`opened`) or one less session in the two shares of its opener. */
static void count_shares(struct map *shares, struct slice from, bool opened)
{
    struct state_share_name name;

    for (int kind = 0; kind < STATE_SHARES; kind++) {
        struct slice share = state_share_name(from, (enum state_share)kind, &name);

        if (opened) {
            add_one(shares, share);
        } else {
            drop_one(shares, share);
        }
    }
}

/* ---- Sessions. ---- */

void sessions_init(struct sessions *sessions)
{
    *sessions = (struct sessions){0};
    map_init(&sessions->owners);
    map_init(&sessions->by_hash);
    map_init(&sessions->ephemerals);
    map_init(&sessions->shares);
}

void sessions_release(struct sessions *sessions)
{
    map_release(&sessions->by_hash);
    map_free_values(&sessions->shares);
    map_free_values(&sessions->owners);
    map_free_values(&sessions->ephemerals);
}

struct session *session_get(const struct state *state, uint64_t id)
{
    struct session *session = map_get_u64(&state->sessions.owners, id);

    return session != NULL && session->open ? session : NULL;
}

/* Returns the entry of an owner. If there is none, makes one that has only the id. */
static struct session *need_owner(struct state *state, uint64_t id)
{
    struct session *session = map_get_u64(&state->sessions.owners, id);

    ASSERT(owner_is_session(id));
    if (session == NULL) {
        session = mem_zalloc(1, sizeof(*session));
        session->shown.id = id;
        map_put_u64(&state->sessions.owners, id, session);
    }
    return session;
}

/* Makes the session visible. Its fields are already set. */
static void show(struct state *state, struct session *session)
{
    struct sessions *sessions = &state->sessions;

    ASSERT(!session->open);
    session->open = true;
    avl_insert(&sessions->order, &session->shown.id, &session->order, id_cmp);
    /* If two sessions have the same secret, the later one is found. Only a fuzzy snapshot can hold
     * both. */
    map_put(&sessions->by_hash, hash_of(session), session);
    sessions->count++;
    count_shares(&sessions->shares, session->shown.from, true);
    state->digest += digest_of(session);
}

struct session *session_open(struct state *state, const struct state_session *fields)
{
    struct session *session = need_owner(state, fields->id);
    uint32_t count = session->shown.ephemeral_count;
    uint64_t bytes = session->shown.ephemeral_bytes;

    ASSERT(fields->from.len <= TXN_FROM_MAX);
    session->shown = *fields;
    session->shown.ephemeral_count = count;
    session->shown.ephemeral_bytes = bytes;
    if (fields->from.len > 0) {
        memcpy(session->from, fields->from.data, fields->from.len);
    }
    session->shown.from = slice_make(session->from, fields->from.len);
    show(state, session);
    return session;
}

struct session *session_shut(struct state *state, struct session *session)
{
    struct sessions *sessions = &state->sessions;

    ASSERT(session->open && sessions->count > 0);
    state->digest -= digest_of(session);
    avl_remove(&sessions->order, &session->order);
    if (map_get(&sessions->by_hash, hash_of(session)) == session) {
        map_remove(&sessions->by_hash, hash_of(session));
    }
    sessions->count--;
    count_shares(&sessions->shares, session->shown.from, false);
    session->open = false;
    if (session->shown.ephemeral_count > 0) {
        return NULL;
    }
    void *removed = map_remove_u64(&sessions->owners, session->shown.id);

    ASSERT(removed == session && session->ephemerals.root == NULL);
    return session;
}

void session_reopen(struct state *state, struct session *take_session)
{
    ASSERT(take_session->shown.ephemeral_count == 0 && !take_session->open);
    void *old = map_put_u64(&state->sessions.owners, take_session->shown.id, take_session);

    ASSERT(old == NULL);
    show(state, take_session);
}

void session_move(struct state *state, struct session *session, uint64_t attach, uint32_t member)
{
    state->digest -= digest_of(session);
    session->shown.attach = attach;
    session->shown.member = member;
    state->digest += digest_of(session);
}

/* ---- Ephemerals. ---- */

static const struct znode *ancestor(const struct znode *node, size_t levels)
{
    for (; levels > 0; levels--) {
        node = node->parent;
    }
    return node;
}

/* Compares two znodes by their order in a walk. */
static int path_cmp(const void *key, const struct avl_node *order)
{
    const struct znode *a = key;
    const struct znode *b = avl_entry_const(order, struct ephemeral, order)->node;
    size_t a_depth = znode_depth(a);
    size_t b_depth = znode_depth(b);
    int deeper = a_depth < b_depth ? -1 : a_depth > b_depth;

    a = ancestor(a, a_depth > b_depth ? a_depth - b_depth : 0);
    b = ancestor(b, b_depth > a_depth ? b_depth - a_depth : 0);
    if (a == b) {
        return deeper;
    }
    while (a->parent != b->parent) {
        a = a->parent;
        b = b->parent;
    }
    return slice_cmp(znode_name(a), znode_name(b));
}

void ephemeral_joined(struct state *state, struct znode *node)
{
    struct session *session = need_owner(state, node->owner);
    struct ephemeral *entry = mem_zalloc(1, sizeof(*entry));

    entry->node = node;
    entry->session = session;
    entry->path_len = tree_path_len(node);
    avl_insert(&session->ephemerals, node, &entry->order, path_cmp);
    void *old = map_put_u64(&state->sessions.ephemerals, znode_key(node), entry);

    ASSERT(old == NULL);
    session->shown.ephemeral_count++;
    session->shown.ephemeral_bytes += entry->path_len;
}

void ephemeral_left(struct state *state, struct znode *node)
{
    struct ephemeral *entry = map_remove_u64(&state->sessions.ephemerals, znode_key(node));

    ASSERT(entry != NULL && entry->node == node);
    struct session *session = entry->session;

    ASSERT(session->shown.ephemeral_count > 0 && session->shown.ephemeral_bytes >= entry->path_len);

    avl_remove(&session->ephemerals, &entry->order);
    session->shown.ephemeral_count--;
    session->shown.ephemeral_bytes -= entry->path_len;
    mem_free(entry);
    if (session->shown.ephemeral_count == 0 && !session->open) {
        map_remove_u64(&state->sessions.owners, session->shown.id);
        mem_free(session);
    }
}

/* ---- Look-ups. ---- */

const struct state_session *state_session(const struct state *state, uint64_t id)
{
    const struct session *session = session_get(state, id);

    return session != NULL ? &session->shown : NULL;
}

const struct state_session *state_session_by_hash(const struct state *state,
                                                  const uint8_t hash[TXN_SECRET_HASH_LEN])
{
    const struct session *session =
        map_get(&state->sessions.by_hash, slice_make(hash, TXN_SECRET_HASH_LEN));

    return session != NULL ? &session->shown : NULL;
}

const struct state_session *state_session_after(const struct state *state, uint64_t after)
{
    if (after == UINT64_MAX) {
        return NULL;
    }
    uint64_t least = after + 1;
    const struct session *session =
        of_order(avl_lower_bound(&state->sessions.order, &least, id_cmp));

    return session != NULL ? &session->shown : NULL;
}

uint64_t state_session_count(const struct state *state)
{
    return state->sessions.count;
}

uint64_t state_share_count(const struct state *state, struct slice name)
{
    const struct share *share = map_get(&state->sessions.shares, name);

    return share != NULL ? share->count : 0;
}

const struct znode *state_ephemeral_first(const struct state *state, uint64_t session)
{
    const struct session *owner = map_get_u64(&state->sessions.owners, session);
    const struct ephemeral *first =
        owner != NULL ? of_ephemeral(avl_first(&owner->ephemerals)) : NULL;

    return first != NULL ? first->node : NULL;
}

const struct znode *state_ephemeral_next(const struct state *state, const struct znode *node)
{
    const struct ephemeral *entry = map_get_u64(&state->sessions.ephemerals, znode_key(node));

    ASSERT(entry != NULL && entry->node == node);
    const struct ephemeral *next = of_ephemeral(avl_next(&entry->order));

    return next != NULL ? next->node : NULL;
}

/* Compares with a key that lies right after `path`. No ephemeral equals this key, so the search
 * ends at the first ephemeral after `path`. */
static int behind_cmp(const void *key, const struct avl_node *order)
{
    const struct ephemeral *entry = avl_entry_const(order, struct ephemeral, order);
    const struct slice *path = key;
    struct buf own;

    buf_init(&own, STATE_PATH_MAX);
    walk_path_of(entry->node, &own);
    int before = path_order(*path, buf_slice(&own)) < 0 ? -1 : 1;

    buf_release(&own);
    return before;
}

const struct znode *state_ephemeral_after(const struct state *state, uint64_t session,
                                          struct slice path)
{
    const struct session *owner = map_get_u64(&state->sessions.owners, session);
    const struct ephemeral *first =
        owner != NULL ? of_ephemeral(avl_lower_bound(&owner->ephemerals, &path, behind_cmp)) : NULL;

    return first != NULL ? first->node : NULL;
}
