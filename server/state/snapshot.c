/*
 * Snapshots: a block is a section number u8, then entries of that section to the end of the block.
 *
 * Sections come in the order of their numbers, and a section may have many blocks. Each block
 * carries the ACLs that it uses, each at its first use, because the table of ACLs changes during a
 * scan. The bytes of a znode: flags u8, length of the prefix shared with the previous path in this
 * block, length and bytes of the remaining part (both lengths varints), czxid mzxid pzxid u64,
 * ctime mtime i64, then varints: owner, age (TTL znode: age at its last set or, if there was none,
 * its create; container: age at its create; other znodes: left out), version, aversion, creates,
 * ACL, length of the data; and the data.
 */
#include "base/probe.h"
#include "server/state/state_int.h"

enum {
    SNAP_FORMAT = 2,
    SNAP_NULL_DATA = 1U << 0 /* Flag of a znode. */
};

/* These numbers are on disk and on the wire: never renumber. This version refuses the reserved
 * section. */
enum snap_section {
    SNAP_HEADER = 1,     /* Format u32, history u64, age and stamp of the newest transaction i64. */
    SNAP_ACLS = 2,       /* Count u32, always 0: other blocks carry the ACLs. */
    SNAP_NODES = 3,      /* Znodes, depth first. */
    SNAP_SESSIONS = 4,   /* Sessions by id; left out when there are none. */
    SNAP_REMEMBERED = 5, /* Remembered results by zxid; left out when there are none. */
    SNAP_CONFIG = 6,     /* Reserved. */
};

/* How a znode refers to its ACL. */
enum snap_acl {
    SNAP_ACL_OPEN = 0,
    SNAP_ACL_NEW = 1,  /* A list that is new in this block follows. */
    SNAP_ACL_FIRST = 2 /* From here on: lists of this block, numbered by first use. */
};

#define SESSION(form, member)    WIRE_FIELD(WIRE_##form, struct state_session, member)
#define REMEMBERED(form, member) WIRE_FIELD(WIRE_##form, struct state_remembered, member)

static const struct wire_field session_fields[] = {
    SESSION(INT, id),
    SESSION(INT, timeout_ms),
    SESSION(INT, member),
    SESSION(INT, attach),
    SESSION(INT, opened_ms),
    SESSION(RAW, secret_hash),
    WIRE_SLICE(struct state_session, from, TXN_FROM_MAX),
    {.form = WIRE_END},
};
static const struct wire_field remembered_fields[] = {
    REMEMBERED(INT, zxid),
    REMEMBERED(INT, age_ms),
    REMEMBERED(RAW, fingerprint),
    WIRE_SLICE(struct state_remembered, scope, TXN_SCOPE_MAX),
    WIRE_SLICE(struct state_remembered, key, TXN_KEY_MAX),
    WIRE_SLICE(struct state_remembered, result, TXN_RESULT_MAX),
    {.form = WIRE_END},
};

/* ---- Scan. ---- */

void state_scan_init(struct state_cursor *cursor)
{
    *cursor = (struct state_cursor){.section = SNAP_HEADER};
    buf_init(&cursor->path, STATE_PATH_MAX);
}

void state_scan_release(struct state_cursor *cursor)
{
    buf_release(&cursor->path);
}

/* The ACLs that the present block already has. */
struct written_acls {
    struct map numbers; /* Maps an index in the state to the place in `indices`. */
    uint32_t indices[STATE_SLICE_NODES_MAX];
    uint32_t count;
};

/* Writes the ACL of a znode: the list itself at its first use in a block, and its number after
 * that. */
static void put_acl(const struct state *state, struct written_acls *acls, uint32_t acl,
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

/* Writes how the path differs from the previous one in this block. */
static void put_path(struct slice path, struct slice before, struct buf *out)
{
    size_t len = min_size(path.len, before.len);
    size_t shared = 0;

    while (shared < len && path.data[shared] == before.data[shared]) {
        shared++;
    }
    wire_put_varint(out, shared);
    wire_put_varint(out, path.len - shared);
    wire_put_raw(out, slice_make(path.data + shared, path.len - shared));
}

static void put_fields(const struct znode *node, struct buf *out)
{
    wire_put_u64(out, node->czxid);
    wire_put_u64(out, node->mzxid);
    wire_put_u64(out, node->pzxid);
    wire_put_u64(out, (uint64_t)node->ctime_ms);
    wire_put_u64(out, (uint64_t)node->mtime_ms);
    wire_put_varint(out, node->owner);
    if (owner_is_reaped(node->owner)) {
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
    struct written_acls acls = {.count = 0};
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

        wire_put_u8(out, node->data == NULL ? SNAP_NULL_DATA : 0);
        put_path(path, buf_slice(&before), out);
        put_fields(node, out);
        put_acl(state, &acls, node->acl, out);
        wire_put_varint(out, blob_slice(node->data).len);
        wire_put_raw(out, blob_slice(node->data));
        set_path(&before, path);
        node = walk_next(&walk, true);
    }
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

/* A session or a remembered result. `entry` NULL: there is none. `number` is the id of the session
 * or the zxid of the result. */
struct item {
    const struct wire_field *fields;
    const void *entry;
    uint64_t number;
};

/* Returns the first entry after the last written one, which may have been removed since then. */
static struct item next_item(const struct state *state, const struct state_cursor *cursor)
{
    if (cursor->section == SNAP_SESSIONS) {
        const struct state_session *session = state_session_after(state, cursor->after);

        return (struct item){session_fields, session, session != NULL ? session->id : 0};
    }
    const struct state_remembered *result = state_remembered_after(state, cursor->after);

    return (struct item){remembered_fields, result, result != NULL ? result->zxid : 0};
}

static void scan_items(const struct state *state, struct state_cursor *cursor, size_t bytes_max,
                       struct buf *out)
{
    size_t end = out->len + bytes_max;
    struct item item = next_item(state, cursor);

    for (size_t count = 0; item.entry != NULL && count < STATE_SLICE_NODES_MAX; count++) {
        if (count > 0 && out->len >= end) {
            break;
        }
        wire_put_fields(out, item.fields, item.entry);
        cursor->after = item.number;
        item = next_item(state, cursor);
    }
    if (item.entry == NULL) {
        next_section(state, cursor);
    }
}

void state_scan(const struct state *state, struct state_cursor *cursor, size_t bytes_max,
                struct buf *out)
{
    ASSERT(!cursor->done && cursor->section >= SNAP_HEADER && cursor->section <= SNAP_REMEMBERED);

    wire_put_u8(out, (uint8_t)cursor->section);
    if (cursor->section == SNAP_HEADER) {
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
    } else {
        scan_items(state, cursor, bytes_max, out);
    }
    ASSERT(!out->overflow);
}

/* ---- Restore. ---- */

/* The ACLs of the block that is being restored: their indices in the state. */
struct read_acls {
    uint32_t *indices;
    size_t count;
    size_t cap;
};

/* Whether a transaction can have this age. Any other age is damage, or a defect of the sender. */
static bool age_fits(int64_t age_ms)
{
    return age_ms >= 0 && age_ms <= TXN_AGE_MAX_MS;
}

static bool stamp_fits(int64_t stamp_ms)
{
    return stamp_ms >= -TXN_STAMP_MAX_MS && stamp_ms <= TXN_STAMP_MAX_MS;
}

static enum err restore_header(struct state *state, struct wire_reader *reader)
{
    uint32_t format = wire_get_u32(reader);
    uint64_t history = wire_get_u64(reader);
    int64_t age_ms = (int64_t)wire_get_u64(reader);
    int64_t stamp_ms = (int64_t)wire_get_u64(reader);

    if (!wire_reader_done(reader) || format != SNAP_FORMAT || !age_fits(age_ms) ||
        !stamp_fits(stamp_ms)) {
        return ERR_FORMAT;
    }
    state->history = history;
    state->age_ms = MUTANT(52) ? 0 : age_ms;
    state->stamp_ms = stamp_ms;
    return ERR_OK;
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
    path->len = (size_t)shared;
    if (!buf_append_slice(path, wire_get_raw(reader, (size_t)len))) {
        wire_reader_fail(reader);
    }
}

static uint32_t get_new_acl(struct state *state, struct wire_reader *reader, struct read_acls *acls)
{
    struct slice bytes = wire_get_bytes(reader, TXN_ACL_MAX);

    if (!wire_reader_ok(reader) || bytes.len == 0) {
        wire_reader_fail(reader);
        return 0;
    }
    MEM_GROW(acls->indices, acls->count, acls->cap, MEM_ITEMS_MAX);
    acls->indices[acls->count] = acls_intern(&state->acls, bytes);
    return acls->indices[acls->count++];
}

static uint32_t get_acl(struct state *state, struct wire_reader *reader, struct read_acls *acls)
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
    node->czxid = wire_get_u64(reader);
    node->mzxid = wire_get_u64(reader);
    node->pzxid = wire_get_u64(reader);
    node->ctime_ms = (int64_t)wire_get_u64(reader);
    node->mtime_ms = (int64_t)wire_get_u64(reader);
    node->owner = wire_get_varint(reader);
    node->age_ms = owner_is_reaped(node->owner) ? (int64_t)wire_get_varint(reader) : 0;
    node->version = (int32_t)get_u32(reader);
    node->aversion = (int32_t)get_u32(reader);
    node->creates = get_u32(reader);
    if (!age_fits(node->age_ms) || !stamp_fits(node->ctime_ms) || !stamp_fits(node->mtime_ms)) {
        wire_reader_fail(reader);
    }
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

/* Restores a built-in znode. It exists already and has no children, so only its fields are set. */
static void restore_builtin(struct state *state, struct wire_reader *reader, struct read_acls *acls,
                            struct znode *node, uint8_t flags)
{
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

static void restore_new(struct state *state, struct wire_reader *reader, struct read_acls *acls,
                        struct slice path, uint8_t flags)
{
    struct znode *parent = tree_find(state->root, path_parent(path));

    /* An ephemeral parent is no error: between two slices the parent may have been deleted and
     * created again as an ephemeral. */
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
                             struct read_acls *acls)
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
    struct read_acls acls = {0};
    enum err err = ERR_OK;

    buf_clear(&state->restore_path);
    while (err == ERR_OK && !wire_reader_done(reader)) {
        err = restore_node(state, reader, &acls);
    }
    mem_free(acls.indices);
    return err;
}

static enum err restore_sessions(struct state *state, struct wire_reader *reader)
{
    while (!wire_reader_done(reader)) {
        struct state_session fields = {0};

        wire_get_fields(reader, session_fields, &fields);
        if (!wire_reader_ok(reader) || !stamp_fits(fields.opened_ms) ||
            fields.id <= state->restore_after || !owner_is_session(fields.id)) {
            return ERR_FORMAT;
        }
        state->restore_after = fields.id;
        (void)session_open(state, &fields);
    }
    return ERR_OK;
}

static enum err restore_remembered(struct state *state, struct wire_reader *reader)
{
    while (!wire_reader_done(reader)) {
        struct state_remembered fields = {0};

        wire_get_fields(reader, remembered_fields, &fields);
        if (!wire_reader_ok(reader) || !age_fits(fields.age_ms) ||
            fields.zxid <= state->restore_after) {
            return ERR_FORMAT;
        }
        state->restore_after = fields.zxid;
        struct remembered *old = remember_get(state, fields.scope, fields.key);

        if (old != NULL) {
            /* After the scan had written the old result, its key was forgotten and used again. */
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
        return wire_get_u32(&reader) == 0 && wire_reader_done(&reader) ? ERR_OK : ERR_FORMAT;
    case SNAP_NODES:
        return restore_nodes(state, &reader);
    case SNAP_SESSIONS:
        return restore_sessions(state, &reader);
    case SNAP_REMEMBERED:
        return restore_remembered(state, &reader);
    default:
        /* A later version wrote this section. It is refused, because its content would be lost
         * otherwise. */
        return ERR_FORMAT;
    }
}

void state_restored(struct state *state, zxid_t start)
{
    ASSERT(state->restore_section != 0);

    state->applied = start;
}
