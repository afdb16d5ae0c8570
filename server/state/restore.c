#include "base/check.h"
#include "base/wire.h"
#include "server/state/path.h"
#include "server/state/snap_int.h"

static enum err restore_header(struct state *state, struct wire_reader *reader)
{
    ASSERT(state->restore_section == SNAP_HEADER);
    uint32_t format = wire_get_u32(reader);
    uint64_t history = wire_get_u64(reader);

    if (!wire_reader_done(reader) || format != SNAP_FORMAT) {
        return ERR_FORMAT;
    }
    state->history = history;
    return ERR_OK;
}

static enum err restore_acls(struct wire_reader *reader)
{
    uint32_t count = wire_get_u32(reader);

    return wire_reader_done(reader) && count == 0 ? ERR_OK : ERR_FORMAT;
}

static uint32_t get_u32(struct wire_reader *reader)
{
    uint64_t value = wire_get_varint(reader);

    if (value > UINT32_MAX) {
        wire_reader_fail(reader);
    }
    return (uint32_t)value;
}

/* Reads the path of the next znode into state->restore_path. */
static void get_path(struct state *state, struct wire_reader *reader)
{
    uint64_t shared = wire_get_varint(reader);
    uint64_t len = wire_get_varint(reader);
    struct buf *path = &state->restore_path;

    if (shared > path->len || len > STATE_PATH_MAX) {
        wire_reader_fail(reader);
        return;
    }
    ASSERT(path->len <= STATE_PATH_MAX);
    path->len = (size_t)shared;
    if (!buf_append_slice(path, wire_get_raw(reader, (size_t)len))) {
        wire_reader_fail(reader);
    }
}

/* The fields behind the path, into a znode of its own or one of the built-in ones. */
static void get_fields(struct wire_reader *reader, struct znode *node)
{
    ASSERT(node->num_children == 0 || node->owner == 0);

    node->czxid = wire_get_u64(reader);
    node->mzxid = wire_get_u64(reader);
    node->pzxid = wire_get_u64(reader);
    node->ctime_ms = (int64_t)wire_get_u64(reader);
    node->mtime_ms = (int64_t)wire_get_u64(reader);
    node->owner = wire_get_varint(reader);
    node->version = (int32_t)get_u32(reader);
    node->aversion = (int32_t)get_u32(reader);
    node->creates = get_u32(reader);
    node->acl = get_u32(reader);
    if (node->creates > STATE_CREATES_MAX || node->acl != 0) {
        node->creates = 0;
        node->acl = 0;
        wire_reader_fail(reader);
    }
}

static struct blob *get_data(struct wire_reader *reader, uint8_t flags)
{
    uint64_t len = wire_get_varint(reader);

    if (flags > SNAP_NULL_DATA || len > UINT32_MAX || (flags == SNAP_NULL_DATA && len > 0)) {
        wire_reader_fail(reader);
    }
    struct slice bytes = wire_get_raw(reader, (size_t)len);

    ASSERT(bytes.len <= UINT32_MAX);
    return wire_reader_ok(reader) && flags == 0 ? blob_new(bytes) : NULL;
}

/* A built-in znode is there already, without children: only its fields are taken. */
static void restore_builtin(struct state *state, struct wire_reader *reader, struct znode *node,
                            uint8_t flags)
{
    ASSERT(node != NULL && node->owner == 0);

    state_sum_out(state, node);
    get_fields(reader, node);
    if (node->owner != 0) {
        node->owner = 0;
        wire_reader_fail(reader);
    }
    blob_unref(state_swap_data(state, node, get_data(reader, flags)));
    state_sum_in(state, node);
}

static void restore_new(struct state *state, struct wire_reader *reader, struct slice path,
                        uint8_t flags)
{
    struct znode *parent = tree_find(state->root, path_parent(path));

    /* An ephemeral parent is no error: between two slices it may have had another life. */
    if (parent == NULL || tree_child(parent, path_name(path)) != NULL) {
        wire_reader_fail(reader);
        return;
    }
    struct znode *node = tree_node_new(path_name(path));

    get_fields(reader, node);
    blob_unref(tree_node_swap_data(node, get_data(reader, flags)));
    if (!wire_reader_ok(reader)) {
        tree_node_free(node);
        return;
    }
    state_sum_out(state, parent);
    state_link(state, parent, node);
    ASSERT(parent->num_children > 0);
    state_sum_in(state, parent);
    reap_update(state, parent);
}

static enum err restore_nodes(struct state *state, struct wire_reader *reader)
{
    ASSERT(state->restore_section == SNAP_NODES);

    buf_clear(&state->restore_path);
    while (!wire_reader_done(reader)) {
        uint8_t flags = wire_get_u8(reader);

        get_path(state, reader);
        struct slice path = buf_slice(&state->restore_path);

        if (!wire_reader_ok(reader) || path_check(path, NULL) != ERR_OK) {
            return ERR_FORMAT;
        }
        if (path_is_builtin(path)) {
            restore_builtin(state, reader, tree_find(state->root, path), flags);
        } else {
            restore_new(state, reader, path, flags);
        }
        if (!wire_reader_ok(reader)) {
            return ERR_FORMAT;
        }
    }
    return ERR_OK;
}

enum err state_restore(struct state *state, struct slice block)
{
    struct wire_reader reader;

    wire_reader_init(&reader, block);
    uint32_t section = wire_get_u8(&reader);
    bool first = state->restore_section == 0;

    ASSERT(state->undo.count == 0);
    if (first != (section == SNAP_HEADER) || section < state->restore_section) {
        return ERR_FORMAT;
    }
    state->restore_section = section;
    switch (section) {
    case SNAP_HEADER:
        return restore_header(state, &reader);
    case SNAP_ACLS:
        return restore_acls(&reader);
    case SNAP_NODES:
        return restore_nodes(state, &reader);
    default:
        /* Written by a later version: to leave it out would be to lose it. */
        return ERR_FORMAT;
    }
}

void state_restored(struct state *state, zxid_t start)
{
    ASSERT(state->restore_section != 0);

    state->applied = start;
}
