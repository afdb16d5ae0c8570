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
    ASSERT(i <= a.len && i <= b.len);
    return i;
}

/* The path is written as what differs from the one before it in this block. */
static void put_node(const struct znode *node, struct slice path, struct slice before,
                     struct buf *out)
{
    size_t shared = shared_len(path, before);

    ASSERT(path.len > 0 && path.len <= STATE_PATH_MAX);
    wire_put_u8(out, node->data == NULL ? SNAP_NULL_DATA : 0);
    wire_put_varint(out, shared);
    wire_put_varint(out, path.len - shared);
    wire_put_raw(out, slice_make(path.data + shared, path.len - shared));
    wire_put_u64(out, node->czxid);
    wire_put_u64(out, node->mzxid);
    wire_put_u64(out, node->pzxid);
    wire_put_u64(out, (uint64_t)node->ctime_ms);
    wire_put_u64(out, (uint64_t)node->mtime_ms);
    wire_put_varint(out, node->owner);
    wire_put_varint(out, (uint32_t)node->version);
    wire_put_varint(out, (uint32_t)node->aversion);
    wire_put_varint(out, node->creates);
    wire_put_varint(out, node->acl);
    wire_put_varint(out, blob_slice(node->data).len);
    wire_put_raw(out, blob_slice(node->data));
}

static void set_path(struct buf *path, struct slice value)
{
    buf_clear(path);
    buf_append_slice(path, value);
    ASSERT(!path->overflow);
}

static void put_slice(const struct znode *first, struct state_cursor *cursor, size_t bytes_max,
                      struct buf *out)
{
    size_t end = out->len + bytes_max;
    struct walk walk;
    struct buf before;
    const struct znode *node = first;

    walk_init_at(&walk, first);
    buf_init(&before, STATE_PATH_MAX);
    for (size_t count = 0; node != NULL && count < STATE_SLICE_NODES_MAX; count++) {
        if (count > 0 && out->len >= end) {
            break;
        }
        struct slice path = walk.depth == 0 ? slice_str("/") : buf_slice(&walk.path);

        ASSERT(!slice_eq(path, buf_slice(&before)));
        put_node(node, path, buf_slice(&before), out);
        set_path(&before, path);
        node = walk_next(&walk, true);
    }
    ASSERT(before.len > 0);
    set_path(&cursor->path, buf_slice(&before));
    cursor->done = node == NULL;
    buf_release(&before);
    walk_release(&walk);
}

static void scan_nodes(const struct state *state, struct state_cursor *cursor, size_t bytes_max,
                       struct buf *out)
{
    ASSERT(cursor->section == SNAP_NODES);
    bool at_start = cursor->path.len == 0;
    const struct znode *first =
        at_start ? state->root : tree_after(state->root, buf_slice(&cursor->path));

    if (first != NULL) {
        put_slice(first, cursor, bytes_max, out);
        return;
    }
    PROBE("state.scan_end_was_deleted");
    cursor->done = true;
}

void state_scan(const struct state *state, struct state_cursor *cursor, size_t bytes_max,
                struct buf *out)
{
    ASSERT(!cursor->done && cursor->section >= SNAP_HEADER && cursor->section <= SNAP_NODES);

    wire_put_u8(out, (uint8_t)cursor->section);
    if (cursor->section == SNAP_HEADER) {
        wire_put_u32(out, SNAP_FORMAT);
        wire_put_u64(out, state->history);
        cursor->section = SNAP_ACLS;
    } else if (cursor->section == SNAP_ACLS) {
        wire_put_u32(out, 0);
        cursor->section = SNAP_NODES;
    } else {
        scan_nodes(state, cursor, bytes_max, out);
    }
    ASSERT(!out->overflow);
}
