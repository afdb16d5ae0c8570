#include "base/check.h"
#include "base/probe.h"
#include "base/wire.h"
#include "server/state/path.h"
#include "server/state/snap_int.h"
#include "server/state/walk.h"

void state_scan_init(struct state_cursor *cursor)
{
    *cursor = (struct state_cursor){.section = SNAP_HEADER};
    buf_init(&cursor->path, STATE_PATH_MAX);
}

void state_scan_release(struct state_cursor *cursor)
{
    buf_release(&cursor->path);
}

static size_t shared_len(struct slice a, struct slice b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    size_t i = 0;

    while (i < len && a.data[i] == b.data[i]) {
        i++;
    }
    return i;
}

/* The ACLs of a block so far. */
struct block_acls {
    struct map numbers; /* From the index in the state to the position in `indices`. */
    uint32_t indices[STATE_SLICE_NODES_MAX];
    uint32_t count;
};

/* The first use of a list in a block carries it, the others point back to it. */
static void put_acl(const struct state *state, struct block_acls *acls, uint32_t acl,
                    struct buf *out)
{
    if (acl == 0) {
        wire_put_varint(out, SNAP_ACL_OPEN);
        return;
    }
    const uint32_t *known = map_get_u64(&acls->numbers, acl);

    if (known != NULL) {
        wire_put_varint(out, SNAP_ACL_FIRST + (uint64_t)(known - acls->indices));
        return;
    }
    ASSERT(acls->count < STATE_SLICE_NODES_MAX);
    acls->indices[acls->count] = acl;
    map_put_u64(&acls->numbers, acl, &acls->indices[acls->count]);
    acls->count++;
    wire_put_varint(out, SNAP_ACL_NEW);
    wire_put_bytes(out, state_acl(state, acl));
}

/* Writes the difference of the path to the one before it in this block. */
static void put_path(struct slice path, struct slice before, struct buf *out)
{
    size_t shared = shared_len(path, before);

    wire_put_varint(out, shared);
    wire_put_varint(out, path.len - shared);
    wire_put_raw(out, slice_make(path.data + shared, path.len - shared));
}

static void put_fields(const struct znode *node, struct buf *out)
{
    ASSERT(node->creates <= STATE_CREATES_MAX);

    wire_put_u64(out, node->czxid);
    wire_put_u64(out, node->mzxid);
    wire_put_u64(out, node->pzxid);
    wire_put_u64(out, (uint64_t)node->ctime_ms);
    wire_put_u64(out, (uint64_t)node->mtime_ms);
    wire_put_varint(out, node->owner);
    if (owner_is_reaped(node->owner)) {
        ASSERT(node->age_ms >= 0 && node->age_ms <= TXN_AGE_MAX_MS);
        wire_put_varint(out, (uint64_t)node->age_ms);
    }
    wire_put_varint(out, (uint32_t)node->version);
    wire_put_varint(out, (uint32_t)node->aversion);
    wire_put_varint(out, node->creates);
}

static void set_path(struct buf *path, struct slice value)
{
    buf_clear(path);
    buf_append_slice(path, value);
    ASSERT(!path->overflow);
}

/* Moves to the next section that has content. */
static void next_section(const struct state *state, struct state_cursor *cursor)
{
    bool has_results = state_remembered_count(state) > 0 && !MUTANT(29);

    ASSERT(cursor->section >= SNAP_NODES && cursor->section <= SNAP_REMEMBERED);
    cursor->after = 0;
    if (cursor->section < SNAP_SESSIONS && state_session_count(state) > 0) {
        cursor->section = SNAP_SESSIONS;
    } else if (cursor->section < SNAP_REMEMBERED && has_results) {
        cursor->section = SNAP_REMEMBERED;
    } else {
        cursor->done = true;
    }
}

static void put_slice(const struct state *state, const struct znode *first,
                      struct state_cursor *cursor, size_t bytes_max, struct buf *out)
{
    size_t end = out->len + bytes_max;
    struct block_acls acls = {.count = 0};
    struct walk walk;
    struct buf before;
    const struct znode *node = first;

    walk_init_at(&walk, first);
    buf_init(&before, STATE_PATH_MAX);
    map_init(&acls.numbers);
    for (size_t count = 0; node != NULL && count < STATE_SLICE_NODES_MAX; count++) {
        if (count > 0 && out->len >= end) {
            break;
        }
        struct slice path = walk.depth == 0 ? slice_str("/") : buf_slice(&walk.path);

        ASSERT(!slice_eq(path, buf_slice(&before)));
        wire_put_u8(out, node->data == NULL ? SNAP_NULL_DATA : 0);
        put_path(path, buf_slice(&before), out);
        put_fields(node, out);
        put_acl(state, &acls, node->acl, out);
        wire_put_varint(out, blob_slice(node->data).len);
        wire_put_raw(out, blob_slice(node->data));
        set_path(&before, path);
        node = walk_next(&walk, true);
    }
    ASSERT(before.len > 0);
    set_path(&cursor->path, buf_slice(&before));
    if (node == NULL) {
        next_section(state, cursor);
    }
    map_release(&acls.numbers);
    buf_release(&before);
    walk_release(&walk);
}

static void scan_nodes(const struct state *state, struct state_cursor *cursor, size_t bytes_max,
                       struct buf *out)
{
    bool at_start = cursor->path.len == 0;
    const struct znode *first =
        at_start ? state->root : tree_after(state->root, buf_slice(&cursor->path));

    if (first != NULL) {
        put_slice(state, first, cursor, bytes_max, out);
        return;
    }
    PROBE("state.scan_end_was_deleted");
    next_section(state, cursor);
}

static void put_session(const struct state_session *session, struct buf *out)
{
    ASSERT(session->from.len <= TXN_FROM_MAX);

    wire_put_u64(out, session->id);
    wire_put_u32(out, session->timeout_ms);
    wire_put_u32(out, session->member);
    wire_put_u64(out, session->attach);
    wire_put_u64(out, (uint64_t)session->opened_ms);
    wire_put_raw(out, slice_make(session->secret_hash, TXN_SECRET_HASH_LEN));
    wire_put_bytes(out, session->from);
}

/* After a session that was closed since the last block comes the next existing one. */
static void scan_sessions(const struct state *state, struct state_cursor *cursor, size_t bytes_max,
                          struct buf *out)
{
    size_t end = out->len + bytes_max;
    const struct state_session *session = state_session_after(state, cursor->after);

    for (size_t count = 0; session != NULL && count < STATE_SLICE_NODES_MAX; count++) {
        if (count > 0 && out->len >= end) {
            break;
        }
        put_session(session, out);
        cursor->after = session->id;
        session = state_session_after(state, cursor->after);
    }
    if (session == NULL) {
        next_section(state, cursor);
    }
}

static void put_remembered(const struct state_remembered *entry, struct buf *out)
{
    ASSERT(entry->result.len <= TXN_RESULT_MAX);
    ASSERT(entry->age_ms >= 0 && entry->age_ms <= TXN_AGE_MAX_MS);

    wire_put_u64(out, entry->zxid);
    wire_put_u64(out, (uint64_t)entry->age_ms);
    wire_put_raw(out, slice_make(entry->fingerprint, TXN_FINGERPRINT_LEN));
    wire_put_bytes(out, entry->scope);
    wire_put_bytes(out, entry->key);
    wire_put_bytes(out, entry->result);
}

static void scan_remembered(const struct state *state, struct state_cursor *cursor,
                            size_t bytes_max, struct buf *out)
{
    size_t end = out->len + bytes_max;
    const struct state_remembered *entry = state_remembered_after(state, cursor->after);

    for (size_t count = 0; entry != NULL && count < STATE_SLICE_NODES_MAX; count++) {
        if (count > 0 && out->len >= end) {
            break;
        }
        put_remembered(entry, out);
        cursor->after = entry->zxid;
        entry = state_remembered_after(state, cursor->after);
    }
    if (entry == NULL) {
        next_section(state, cursor);
    }
}

void state_scan(const struct state *state, struct state_cursor *cursor, size_t bytes_max,
                struct buf *out)
{
    ASSERT(!cursor->done && cursor->section >= SNAP_HEADER && cursor->section <= SNAP_REMEMBERED);

    wire_put_u8(out, (uint8_t)cursor->section);
    if (cursor->section == SNAP_HEADER) {
        ASSERT(state->age_ms >= 0 && state->age_ms <= TXN_AGE_MAX_MS);
        wire_put_u32(out, SNAP_FORMAT);
        wire_put_u64(out, state->history);
        wire_put_u64(out, (uint64_t)state->age_ms);
        wire_put_u64(out, (uint64_t)state->stamp_ms);
        cursor->section = SNAP_ACLS;
    } else if (cursor->section == SNAP_ACLS) {
        wire_put_u32(out, 0);
        cursor->section = SNAP_NODES;
    } else if (cursor->section == SNAP_NODES) {
        scan_nodes(state, cursor, bytes_max, out);
    } else if (cursor->section == SNAP_SESSIONS) {
        scan_sessions(state, cursor, bytes_max, out);
    } else {
        scan_remembered(state, cursor, bytes_max, out);
    }
    ASSERT(!out->overflow);
}
