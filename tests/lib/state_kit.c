#include "tests/lib/state_kit.h"

#include "base/check.h"
#include "server/state/walk.h"

#include <inttypes.h>

void kit_begin(struct buf *txn, int64_t time_ms)
{
    const struct txn_header header = {.time_ms = time_ms};

    ASSERT(txn->len == 0);
    txn_begin(txn, &header);
}

static void need_header(struct buf *txn)
{
    if (txn->len == 0) {
        kit_begin(txn, KIT_TIME_MS);
    }
}

static struct slice text_of(const char *text)
{
    return text != NULL ? slice_str(text) : slice_make(NULL, 0);
}

static uint8_t flags_of(const char *data)
{
    return data != NULL ? TXN_REPLY : TXN_REPLY | TXN_NULL_DATA;
}

void kit_create(struct buf *txn, const char *path, const char *data, uint64_t owner,
                uint32_t creates)
{
    need_header(txn);
    txn_put(txn, &(struct txn_effect){.type = TXN_CREATE,
                                      .flags = flags_of(data),
                                      .path = slice_str(path),
                                      .data = text_of(data),
                                      .owner = owner,
                                      .creates = creates});
}

void kit_set(struct buf *txn, const char *path, const char *data, int32_t version)
{
    need_header(txn);
    txn_put(txn, &(struct txn_effect){.type = TXN_SET,
                                      .flags = flags_of(data),
                                      .path = slice_str(path),
                                      .data = text_of(data),
                                      .version = version});
}

void kit_delete(struct buf *txn, const char *path)
{
    need_header(txn);
    txn_put(txn,
            &(struct txn_effect){.type = TXN_DELETE, .flags = TXN_REPLY, .path = slice_str(path)});
}

void kit_check(struct buf *txn, const char *path)
{
    need_header(txn);
    txn_put(txn,
            &(struct txn_effect){.type = TXN_CHECK, .flags = TXN_REPLY, .path = slice_str(path)});
}

enum err kit_apply(struct state *state, zxid_t zxid, struct buf *txn)
{
    enum err err = state_apply(state, zxid, buf_slice(txn), false, NULL);

    buf_clear(txn);
    return err;
}

enum err kit_make(struct state *state, zxid_t zxid, const char *path, const char *data)
{
    const char *slash = strrchr(path, '/');
    size_t parent_len = slash == path ? 1 : (size_t)(slash - path);
    const struct znode *parent = state_find(state, slice_make(path, parent_len));
    struct buf txn;

    buf_init(&txn, 1 << 24);
    kit_create(&txn, path, data, 0, parent != NULL ? znode_creates(parent) + 1 : 1);
    enum err err = kit_apply(state, zxid, &txn);

    buf_release(&txn);
    return err;
}

const struct znode *kit_find(const struct state *state, const char *path)
{
    return state_find(state, slice_str(path));
}

static void dump_node(const struct znode *node, struct buf *out)
{
    struct stat_view stat;
    const struct blob *data = znode_data(node);

    znode_stat(node, &stat);
    buf_printf(out, " c%" PRIx64 " m%" PRIx64 " p%" PRIx64 " %" PRId64 " %" PRId64, stat.czxid,
               stat.mzxid, stat.pzxid, stat.ctime, stat.mtime);
    buf_printf(out, " v%d cv%d av%d o%" PRIx64 "/%" PRIx64 " n%u l%u k%u a%u ", stat.version,
               stat.cversion, stat.aversion, stat.ephemeral_owner, znode_owner(node),
               stat.num_children, stat.data_length, znode_creates(node), znode_acl(node));
    if (data == NULL) {
        buf_append_str(out, "null");
    } else {
        buf_append_slice(out, blob_slice(data));
    }
    buf_append_byte(out, '\n');
}

void kit_dump(const struct state *state, struct buf *out)
{
    struct walk walk;
    const struct znode *root = kit_find(state, "/");

    buf_clear(out);
    walk_init(&walk, root, slice_make(NULL, 0));
    for (const struct znode *node = root; node != NULL; node = walk_next(&walk, true)) {
        buf_append_slice(out, walk.depth == 0 ? slice_str("/") : buf_slice(&walk.path));
        dump_node(node, out);
    }
    walk_release(&walk);
    buf_printf(out, "digest %" PRIx64 " nodes %" PRIu64 " bytes %" PRIu64 " ephemeral %" PRIu64,
               state_digest(state), state_node_count(state), state_data_bytes(state),
               state_ephemeral_count(state));
    ASSERT(!out->overflow);
}

struct state *kit_copy(const struct state *state, size_t bytes_max)
{
    struct state *copy = state_new(0);
    struct state_cursor cursor;
    struct buf block;

    buf_init(&block, 1 << 26);
    state_scan_init(&cursor);
    while (!cursor.done) {
        buf_clear(&block);
        state_scan(state, &cursor, bytes_max, &block);
        enum err err = state_restore(copy, buf_slice(&block));

        ASSERT(err == ERR_OK);
    }
    state_restored(copy, state_applied(state));
    state_scan_release(&cursor);
    buf_release(&block);
    return copy;
}
