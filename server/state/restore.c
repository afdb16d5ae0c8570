#include "base/check.h"
#include "base/mem.h"
#include "base/probe.h"
#include "base/wire.h"
#include "server/state/path.h"
#include "server/state/snap_int.h"

/* The ACLs of this block, by index in the state. */
struct block_acls {
    uint32_t *indices;
    size_t count;
    size_t cap;
};

/* No transaction can have brought such a time: it is damage, or a defect of the sender. */
static int64_t age_of(struct wire_reader *reader, uint64_t value)
{
    if (value > (uint64_t)TXN_AGE_MAX_MS) {
        wire_reader_fail(reader);
        return 0;
    }
    return (int64_t)value;
}

static int64_t get_stamp(struct wire_reader *reader)
{
    int64_t stamp_ms = (int64_t)wire_get_u64(reader);

    if (stamp_ms < -TXN_STAMP_MAX_MS || stamp_ms > TXN_STAMP_MAX_MS) {
        wire_reader_fail(reader);
        return 0;
    }
    return stamp_ms;
}

static enum err restore_header(struct state *state, struct wire_reader *reader)
{
    uint32_t format = wire_get_u32(reader);
    uint64_t history = wire_get_u64(reader);
    int64_t age_ms = age_of(reader, wire_get_u64(reader));
    int64_t stamp_ms = get_stamp(reader);

    if (!wire_reader_done(reader) || format != SNAP_FORMAT) {
        return ERR_FORMAT;
    }
    state->history = history;
    state->age_ms = MUTANT(52) ? 0 : age_ms;
    state->stamp_ms = stamp_ms;
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

static uint32_t get_new_acl(struct state *state, struct wire_reader *reader,
                            struct block_acls *acls)
{
    struct slice bytes = wire_get_bytes(reader, TXN_ACL_MAX);

    if (!wire_reader_ok(reader) || bytes.len == 0) {
        wire_reader_fail(reader);
        return 0;
    }
    if (acls->count == acls->cap) {
        acls->cap = acls->cap > 0 ? acls->cap * 2 : 8;
        acls->indices = mem_realloc(acls->indices, acls->cap * sizeof(*acls->indices));
    }
    acls->indices[acls->count] = acls_intern(&state->acls, bytes);
    return acls->indices[acls->count++];
}

static uint32_t get_acl(struct state *state, struct wire_reader *reader, struct block_acls *acls)
{
    uint64_t number = wire_get_varint(reader);

    if (number == SNAP_ACL_OPEN) {
        return 0;
    }
    if (number == SNAP_ACL_NEW) {
        return get_new_acl(state, reader, acls);
    }
    if (number - SNAP_ACL_FIRST >= acls->count) {
        wire_reader_fail(reader);
        return 0;
    }
    return acls->indices[number - SNAP_ACL_FIRST];
}

/* Reads the fields after the path, into a new znode or a built-in one. */
static void get_fields(struct wire_reader *reader, struct znode *node)
{
    ASSERT(node->num_children == 0 || node->owner == 0);

    node->czxid = wire_get_u64(reader);
    node->mzxid = wire_get_u64(reader);
    node->pzxid = wire_get_u64(reader);
    node->ctime_ms = get_stamp(reader);
    node->mtime_ms = get_stamp(reader);
    node->owner = wire_get_varint(reader);
    node->age_ms = owner_is_reaped(node->owner) ? age_of(reader, wire_get_varint(reader)) : 0;
    node->version = (int32_t)get_u32(reader);
    node->aversion = (int32_t)get_u32(reader);
    node->creates = get_u32(reader);
    if (node->creates > STATE_CREATES_MAX) {
        node->creates = 0;
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

    return wire_reader_ok(reader) && flags == 0 ? blob_new(bytes) : NULL;
}

/* A built-in znode exists already, without children: only its fields are set. */
static void restore_builtin(struct state *state, struct wire_reader *reader,
                            struct block_acls *acls, struct znode *node, uint8_t flags)
{
    ASSERT(node != NULL && node->owner == 0);

    state_sum_out(state, node);
    get_fields(reader, node);
    if (node->owner != 0) {
        node->owner = 0;
        wire_reader_fail(reader);
    }
    state_set_acl(state, node, get_acl(state, reader, acls));
    blob_unref(state_swap_data(state, node, get_data(reader, flags)));
    state_sum_in(state, node);
}

static void restore_new(struct state *state, struct wire_reader *reader, struct block_acls *acls,
                        struct slice path, uint8_t flags)
{
    struct znode *parent = tree_find(state->root, path_parent(path));

    /* An ephemeral parent is no error: between two slices it may have been deleted and created
     * again. */
    if (parent == NULL || tree_child(parent, path_name(path)) != NULL) {
        wire_reader_fail(reader);
        return;
    }
    struct znode *node = tree_node_new(path_name(path));

    get_fields(reader, node);
    node->acl = get_acl(state, reader, acls);
    blob_unref(tree_node_swap_data(node, get_data(reader, flags)));
    if (!wire_reader_ok(reader)) {
        tree_node_free(node);
        return;
    }
    state_sum_out(state, parent);
    state_link(state, parent, node);
    state_sum_in(state, parent);
    reap_update(state, parent);
}

static enum err restore_node(struct state *state, struct wire_reader *reader,
                             struct block_acls *acls)
{
    uint8_t flags = wire_get_u8(reader);

    get_path(state, reader);
    struct slice path = buf_slice(&state->restore_path);

    if (!wire_reader_ok(reader) || path_check(path, NULL) != ERR_OK) {
        return ERR_FORMAT;
    }
    if (path_is_builtin(path)) {
        restore_builtin(state, reader, acls, tree_find(state->root, path), flags);
    } else {
        restore_new(state, reader, acls, path, flags);
    }
    return wire_reader_ok(reader) ? ERR_OK : ERR_FORMAT;
}

static enum err restore_nodes(struct state *state, struct wire_reader *reader)
{
    struct block_acls acls = {0};
    enum err err = ERR_OK;

    buf_clear(&state->restore_path);
    while (err == ERR_OK && !wire_reader_done(reader)) {
        err = restore_node(state, reader, &acls);
    }
    mem_free(acls.indices);
    return err;
}

static void get_hash(struct wire_reader *reader, uint8_t *to, size_t len)
{
    struct slice bytes = wire_get_raw(reader, len);

    if (wire_reader_ok(reader)) {
        memcpy(to, bytes.data, len);
    }
}

static enum err restore_sessions(struct state *state, struct wire_reader *reader)
{
    while (!wire_reader_done(reader)) {
        struct state_session fields = {.id = wire_get_u64(reader)};

        fields.timeout_ms = wire_get_u32(reader);
        fields.member = wire_get_u32(reader);
        fields.attach = wire_get_u64(reader);
        fields.opened_ms = get_stamp(reader);
        get_hash(reader, fields.secret_hash, sizeof(fields.secret_hash));
        fields.from = wire_get_bytes(reader, TXN_FROM_MAX);
        if (!wire_reader_ok(reader) || fields.id <= state->restore_after ||
            !owner_is_session(fields.id)) {
            return ERR_FORMAT;
        }
        state->restore_after = fields.id;
        ASSERT(session_get(state, fields.id) == NULL);
        session_open(state, &fields);
    }
    return ERR_OK;
}

static enum err restore_remembered(struct state *state, struct wire_reader *reader)
{
    while (!wire_reader_done(reader)) {
        struct state_remembered fields = {.zxid = wire_get_u64(reader)};

        fields.age_ms = age_of(reader, wire_get_u64(reader));
        get_hash(reader, fields.fingerprint, sizeof(fields.fingerprint));
        fields.scope = wire_get_bytes(reader, TXN_SCOPE_MAX);
        fields.key = wire_get_bytes(reader, TXN_KEY_MAX);
        fields.result = wire_get_bytes(reader, TXN_RESULT_MAX);
        if (!wire_reader_ok(reader) || fields.zxid <= state->restore_after) {
            return ERR_FORMAT;
        }
        state->restore_after = fields.zxid;
        struct remembered *old = remember_get(state, fields.scope, fields.key);

        if (old != NULL) {
            /* The key was forgotten and used again while the scan was between the two. */
            PROBE("state.restore_remembered_twice");
            remember_remove(state, old);
            mem_free(old);
        }
        remember_insert(state, remember_new(&fields));
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
    if (section != state->restore_section) {
        state->restore_after = 0;
    }
    state->restore_section = section;
    switch (section) {
    case SNAP_HEADER:
        return restore_header(state, &reader);
    case SNAP_ACLS:
        return restore_acls(&reader);
    case SNAP_NODES:
        return restore_nodes(state, &reader);
    case SNAP_SESSIONS:
        return restore_sessions(state, &reader);
    case SNAP_REMEMBERED:
        return restore_remembered(state, &reader);
    default:
        /* Of a later version: to ignore it would be to lose it. */
        return ERR_FORMAT;
    }
}

void state_restored(struct state *state, zxid_t start)
{
    ASSERT(state->restore_section != 0);

    state->applied = start;
}
