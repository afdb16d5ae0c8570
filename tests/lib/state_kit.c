#include "tests/lib/state_kit.h"

#include "base/check.h"
#include "base/hash.h"
#include "server/state/state.h"

#include <inttypes.h>

void kit_begin(struct buf *txn, int64_t time_ms)
{
    const struct txn_header header = {.age_ms = time_ms, .stamp_ms = time_ms};

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

void kit_create_acl(struct buf *txn, const char *path, const char *acl, uint32_t creates)
{
    need_header(txn);
    txn_put(txn, &(struct txn_effect){.type = TXN_CREATE,
                                      .flags = TXN_REPLY,
                                      .path = slice_str(path),
                                      .acl = slice_str(acl),
                                      .creates = creates});
}

void kit_set_acl(struct buf *txn, const char *path, const char *acl, int32_t aversion)
{
    need_header(txn);
    txn_put(txn, &(struct txn_effect){.type = TXN_SET_ACL,
                                      .flags = TXN_REPLY,
                                      .path = slice_str(path),
                                      .acl = slice_str(acl),
                                      .version = aversion});
}

void kit_hash(uint64_t secret, uint8_t ret_hash[TXN_SECRET_HASH_LEN])
{
    for (uint64_t i = 0; i < TXN_SECRET_HASH_LEN / 8; i++) {
        wire_store_u64(ret_hash + i * 8, hash64_mix(secret, i));
    }
}

void kit_open(struct buf *txn, uint64_t session, uint64_t secret)
{
    kit_open_from(txn, session, secret, "kit");
}

void kit_open_from(struct buf *txn, uint64_t session, uint64_t secret, const char *from)
{
    struct txn_session_open open = {
        .session = session, .timeout_ms = 5000, .from = slice_str(from)};

    kit_hash(secret, open.secret_hash);
    need_header(txn);
    txn_put(txn, &(struct txn_effect){.type = TXN_SESSION_OPEN, .flags = TXN_REPLY, .open = open});
}

void kit_close(struct buf *txn, uint64_t session)
{
    need_header(txn);
    txn_put(txn,
            &(struct txn_effect){.type = TXN_SESSION_CLOSE,
                                 .flags = TXN_REPLY,
                                 .close = {.session = session, .reason = TXN_CLOSED_BY_CLIENT}});
}

void kit_move(struct buf *txn, uint64_t session, uint64_t attach, uint32_t member)
{
    need_header(txn);
    txn_put(txn,
            &(struct txn_effect){.type = TXN_SESSION_MOVE,
                                 .flags = TXN_REPLY,
                                 .move = {.session = session, .attach = attach, .member = member}});
}

void kit_remember(struct buf *txn, const char *scope, const char *key, const char *result)
{
    struct txn_remember remember = {
        .scope = slice_str(scope), .key = slice_str(key), .result = slice_str(result)};

    wire_store_u64(remember.fingerprint, hash64(1, remember.key));
    need_header(txn);
    txn_put(txn, &(struct txn_effect){.type = TXN_REMEMBER, .remember = remember});
}

void kit_forget(struct buf *txn, zxid_t horizon)
{
    need_header(txn);
    txn_put(txn, &(struct txn_effect){.type = TXN_FORGET, .forget = {.horizon = horizon}});
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

enum err kit_session(struct state *state, zxid_t zxid)
{
    struct buf txn;

    buf_init(&txn, 4096);
    kit_open(&txn, zxid, zxid);
    enum err err = kit_apply(state, zxid, &txn);

    buf_release(&txn);
    return err;
}

const struct znode *kit_find(const struct state *state, const char *path)
{
    return state_find(state, slice_str(path));
}

static void dump_node(const struct state *state, const struct znode *node, struct buf *out)
{
    struct stat_view stat;
    const struct blob *data = znode_data(node);

    znode_stat(node, &stat);
    buf_printf(out, " c%" PRIx64 " m%" PRIx64 " p%" PRIx64 " %" PRId64 " %" PRId64, stat.czxid,
               stat.mzxid, stat.pzxid, stat.ctime, stat.mtime);
    buf_printf(out, " v%d cv%d av%d o%" PRIx64 "/%" PRIx64 " n%u l%u k%u", stat.version,
               stat.cversion, stat.aversion, stat.ephemeral_owner, znode_owner(node),
               stat.num_children, stat.data_length, znode_creates(node));
    buf_printf(out, " g%" PRId64 " a=", znode_age_ms(node));
    buf_append_slice(out, state_acl(state, znode_acl(node)));
    buf_append_byte(out, ' ');
    if (data == NULL) {
        buf_append_str(out, "null");
    } else {
        buf_append_slice(out, blob_slice(data));
    }
    buf_append_byte(out, '\n');
}

static void dump_sessions(const struct state *state, struct buf *out)
{
    for (const struct state_session *at = state_session_after(state, 0); at != NULL;
         at = state_session_after(state, at->id)) {
        buf_printf(out, "session %" PRIx64 " t%u a%" PRIx64 " m%u o%" PRId64 " e%u/%" PRIu64 " ",
                   at->id, at->timeout_ms, at->attach, at->member, at->opened_ms,
                   at->ephemeral_count, at->ephemeral_bytes);
        buf_append_slice(out, slice_make(at->secret_hash, TXN_SECRET_HASH_LEN));
        buf_append_slice(out, at->from);
        buf_append_byte(out, '\n');
    }
}

static void dump_remembered(const struct state *state, struct buf *out)
{
    for (const struct state_remembered *at = state_remembered_after(state, 0); at != NULL;
         at = state_remembered_after(state, at->zxid)) {
        buf_printf(out, "remembered %" PRIx64 " t%" PRId64 " ", at->zxid, at->age_ms);
        buf_append_slice(out, slice_make(at->fingerprint, TXN_FINGERPRINT_LEN));
        buf_printf(out, " %zu %zu ", at->scope.len, at->key.len);
        buf_append_slice(out, at->scope);
        buf_append_slice(out, at->key);
        buf_append_slice(out, at->result);
        buf_append_byte(out, '\n');
    }
}

void kit_quota_stats(const struct state_quota *quota, struct buf *out)
{
    buf_printf(out, "count=%" PRIu64 ",bytes=%" PRIu64, quota->count, quota->bytes);
}

static void dump_quotas(const struct state *state, struct buf *out)
{
    for (const struct state_quota *at = state_quota_after(state, slice_make(NULL, 0)); at != NULL;
         at = state_quota_after(state, at->path)) {
        buf_append_str(out, "quota ");
        buf_append_slice(out, at->path);
        buf_printf(out, " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " ", at->count_limit,
                   at->bytes_limit, at->count_hard, at->bytes_hard);
        kit_quota_stats(at, out);
        buf_append_byte(out, '\n');
    }
}

void kit_dump(const struct state *state, struct buf *out)
{
    struct walk walk;
    const struct znode *root = kit_find(state, "/");

    buf_clear(out);
    walk_init(&walk, root, slice_make(NULL, 0));
    for (const struct znode *node = root; node != NULL; node = walk_next(&walk, true)) {
        buf_append_slice(out, walk.depth == 0 ? slice_str("/") : buf_slice(&walk.path));
        dump_node(state, node, out);
    }
    walk_release(&walk);
    dump_sessions(state, out);
    dump_remembered(state, out);
    dump_quotas(state, out);
    buf_printf(out, "digest %" PRIx64 " nodes %" PRIu64 " bytes %" PRIu64 " ephemeral %" PRIu64,
               state_digest(state), state_node_count(state), state_data_bytes(state),
               state_ephemeral_count(state));
    buf_printf(out, " sessions %" PRIu64 " remembered %" PRIu64 "/%" PRIu64,
               state_session_count(state), state_remembered_count(state),
               state_remembered_bytes(state));
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
