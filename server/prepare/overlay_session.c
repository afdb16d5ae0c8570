/* Sessions that are opened, moved or closed in flight, their shares and ephemerals. */
#include "base/check.h"
#include "base/wire.h"
#include "server/prepare/overlay_int.h"
#include "server/state/walk.h"

struct session_name {
    uint8_t bytes[8];
};

static struct slice name_of(struct session_name *name, uint64_t id)
{
    wire_store_u64(name->bytes, id);
    return slice_make(name->bytes, sizeof(name->bytes));
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
    struct session_name name;
    const struct overlay_entry *entry = overlay_find(overlay, OVERLAY_SESSION, name_of(&name, id));

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
        /* It may be closed in flight. */
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
    struct session_name name;
    struct overlay_entry *entry =
        overlay_find(overlay, OVERLAY_SESSION, name_of(&name, session->id));

    if (entry == NULL) {
        union overlay_value was = {.session = {.open = false}};

        overlay->session_count = overlay_session_count(overlay, state);
        from_state(state_session(state, session->id), &was.session);
        entry = overlay_add(overlay, OVERLAY_SESSION, name_of(&name, session->id), &was);
    }
    overlay_change(overlay, entry, zxid, &value);
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
    const struct overlay_entry *entry = overlay_find(overlay, OVERLAY_SHARE, name);

    return entry != NULL ? entry->value.share.count : state_share_count(state, name);
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
        const union overlay_value value = {.share = {.count = opened ? count + 1 : count - 1}};

        ASSERT(opened || count > 0);
        overlay_set(overlay, OVERLAY_SHARE, name, zxid, &value);
    }
}

/* ---- Ephemerals. ---- */

/* The first entry of an ephemeral of that owner or a later one. */
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
        if (overlay_find(overlay, OVERLAY_NODE, buf_slice(&path)) == NULL) {
            overlay_put_path(paths, buf_slice(&path));
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

    /* All ephemerals with an entry, also those that the state has as well. */
    for (; node != NULL; node = avl_next(node)) {
        const struct overlay_entry *entry = avl_entry_const(node, struct overlay_entry, owned);

        if (entry->value.node.owner != session) {
            break;
        }
        overlay_put_path(paths, overlay_name(entry));
        count++;
    }
    return count;
}
