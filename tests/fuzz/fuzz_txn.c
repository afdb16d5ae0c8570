/*
 * Transactions on a small state. The first byte says whether they come during recovery, which
 * tolerates what a fuzzy snapshot already contains. An error changes nothing; success can be
 * repeated.
 */
#include "server/state/txn.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/state_check.h"
#include "tests/lib/state_kit.h"

enum {
    ZXID_BUILT = 10,
    ZXID = 20
};

/* One znode of each kind. */
static struct state *small_state(void)
{
    struct state *state = state_new(1);
    struct buf txn;

    buf_init(&txn, 4096);
    kit_create(&txn, "/a", "1", 0, 1);
    kit_create(&txn, "/a/b", NULL, 0, 1);
    kit_create(&txn, "/a/c", "", 0, 2);
    kit_open(&txn, ZXID_BUILT, 1);
    kit_create(&txn, "/e", "x", ZXID_BUILT, 2);
    kit_create(&txn, "/c", "x", OWNER_CONTAINER, 3);
    kit_create(&txn, "/t", "x", OWNER_TTL_MARK | 500, 4);
    kit_set_acl(&txn, "/a/c", "an ACL", 1);
    kit_create(&txn, "/zookeeper/quota/a", NULL, 0, 1);
    kit_create(&txn, "/zookeeper/quota/a/zookeeper_limits", "count=9,bytes=-1", 0, 1);
    kit_remember(&txn, "scope", "key", "result");

    enum err err = kit_apply(state, ZXID_BUILT, &txn);

    ASSERT(err == ERR_OK);
    buf_release(&txn);
    return state;
}

/* Begins a transaction with an actor. */
static void begin_with_actor(struct buf *txn)
{
    struct txn_actor actor = {.op = 6,
                              .session = 7,
                              .address = slice_str("::1"),
                              .count = 2,
                              .ids = {slice_str("digest:alice"), slice_str("x:y")}};
    struct txn_header header = {.age_ms = KIT_TIME_MS, .stamp_ms = KIT_TIME_MS};
    struct buf bytes;

    buf_init(&bytes, TXN_ACTOR_MAX);
    txn_actor_encode(&bytes, &actor);
    header.actor = buf_slice(&bytes);
    txn_begin(txn, &header);
    buf_release(&bytes);
}

/* The bytes alone: decoded fields lie within them, and decoding ends. */
static enum err read_all(struct slice txn, size_t *ret_count)
{
    struct wire_reader reader;
    struct txn_header header;
    struct txn_effect effect;
    enum err err = txn_open(&reader, txn, &header);
    struct txn_actor actor;

    *ret_count = 0;
    if (err == ERR_OK && txn_actor_decode(header.actor, &actor) == ERR_OK) {
        ASSERT(actor.count <= TXN_ACTOR_IDS_MAX && header.actor.len < txn.len);
        for (uint32_t i = 0; i < actor.count; i++) {
            ASSERT(actor.ids[i].len <= TXN_ACTOR_ID_MAX);
        }
    }
    while (err == ERR_OK) {
        err = txn_next(&reader, &effect);
        *ret_count += err == ERR_OK ? 1 : 0;
        ASSERT(*ret_count <= txn.len);
        ASSERT(err != ERR_OK || effect.path.len < txn.len);
        ASSERT(err != ERR_OK || effect.type >= TXN_SESSION_OPEN || effect.data.len < txn.len);
    }
    return err;
}

static void check_changes(const struct state *state, const struct state_changes *changes,
                          size_t count)
{
    ASSERT(changes->count == count);
    for (size_t i = 0; i < count; i++) {
        const struct state_change *change = &changes->items[i];

        ASSERT(change->type >= TXN_CREATE && change->type <= TXN_ANSWER);
        ASSERT((change->path.len > 0) == (change->type < TXN_SESSION_OPEN));
        ASSERT(change->path.len == 0 || change->path.data[0] == '/');
        ASSERT(blob_slice(change->data).len == 0 || change->type <= TXN_SET);
        ASSERT(blob_slice(change->acl).len + blob_slice(change->parent_acl).len <=
               (size_t)2 * TXN_ACL_MAX);
        ASSERT(change->stat.mzxid <= state_applied(state));
    }
}

static bool fuzz_one(struct slice input)
{
    bool fuzzy = input.len > 0 && (input.data[0] & 1U) != 0;
    struct slice txn =
        slice_make(input.data + (input.len > 0 ? 1 : 0), input.len - (input.len > 0));
    struct state *state = small_state();
    struct state *before = kit_copy(state, 4096);
    struct state_changes changes = {0};
    size_t count = 0;
    enum err read_err = read_all(txn, &count);
    enum err err = state_apply(state, ZXID, txn, fuzzy, &changes);

    ASSERT(err == ERR_OK || err == ERR_FORMAT || (err == ERR_CORRUPT && !fuzzy));
    ASSERT(read_err == ERR_MISSING || err == ERR_FORMAT);
    if (err != ERR_OK) {
        ASSERT(changes.count == 0 && state_applied(state) == ZXID_BUILT);
        state_check_same(state, before);
    } else {
        uint64_t digest = state_digest(state);

        ASSERT(state_applied(state) == ZXID);
        check_changes(state, &changes, count);
        state_check(state);
        err = state_apply(state, ZXID, txn, true, NULL);
        ASSERT(err == ERR_OK && state_digest(state) == digest);
    }
    state_changes_release(&changes);
    state_free(before);
    state_free(state);
    return err == ERR_OK;
}

static void seed_txn(struct fuzz_sink *sink, const char *name, bool fuzzy, struct buf *txn)
{
    struct buf bytes;

    buf_init(&bytes, 4096);
    wire_put_u8(&bytes, fuzzy);
    wire_put_raw(&bytes, buf_slice(txn));
    fuzz_seed(sink, name, buf_slice(&bytes));
    buf_release(&bytes);
    buf_clear(txn);
}

static void fuzz_seeds(struct fuzz_sink *sink)
{
    struct buf txn;

    buf_init(&txn, 4096);
    kit_create(&txn, "/n", "data", 0, 5);
    kit_create(&txn, "/n/m", NULL, OWNER_TTL_MARK | 9, 1);
    kit_create(&txn, "/c/x", "y", OWNER_CONTAINER, 1);
    seed_txn(sink, "create", false, &txn);
    kit_set(&txn, "/a", "2", 1);
    kit_set(&txn, "/zookeeper/quota", NULL, 5);
    kit_check(&txn, "/t");
    seed_txn(sink, "set", false, &txn);
    kit_delete(&txn, "/a/b");
    kit_delete(&txn, "/a/c");
    kit_delete(&txn, "/a");
    kit_create(&txn, "/a", "again", 0, 5);
    seed_txn(sink, "delete-and-again", false, &txn);
    kit_create(&txn, "/a", "again", 0, 4);
    kit_create(&txn, "/a/b", "again", 0, 1);
    kit_delete(&txn, "/e");
    kit_delete(&txn, "/gone");
    kit_set(&txn, "/gone", "x", 1);
    kit_create(&txn, "/gone/child", "x", 0, 1);
    seed_txn(sink, "fuzzy", true, &txn);
    kit_open(&txn, ZXID, 2);
    kit_create(&txn, "/s", "x", ZXID, 5);
    kit_move(&txn, ZXID, 5, 1);
    kit_delete(&txn, "/e");
    kit_close(&txn, ZXID_BUILT);
    seed_txn(sink, "sessions", false, &txn);
    kit_open(&txn, ZXID, 1);
    kit_move(&txn, 99, 5, 1);
    kit_close(&txn, ZXID_BUILT);
    kit_create(&txn, "/s", "x", ZXID_BUILT, 5);
    seed_txn(sink, "sessions-fuzzy", true, &txn);
    kit_set_acl(&txn, "/a/c", "another", 2);
    kit_create_acl(&txn, "/a/d", "an ACL", 3);
    kit_set_acl(&txn, "/a/c", "", 3);
    seed_txn(sink, "acl", false, &txn);
    begin_with_actor(&txn);
    txn_put(&txn, &(struct txn_effect){.type = TXN_DELETE,
                                       .flags = TXN_VERSION_BEFORE,
                                       .path = slice_str("/a/b"),
                                       .version = 3});
    seed_txn(sink, "actor", false, &txn);
    kit_forget(&txn, ZXID);
    kit_remember(&txn, "scope", "key", "again");
    seed_txn(sink, "remembered", false, &txn);
    kit_set(&txn, "/zookeeper/quota/a/zookeeper_limits", "bytes=5=;byteHardLimit=7", 1);
    kit_create(&txn, "/zookeeper/quota/a/c", NULL, 0, 2);
    kit_create(&txn, "/zookeeper/quota/a/c/zookeeper_limits", "", 0, 1);
    kit_delete(&txn, "/a/c");
    seed_txn(sink, "quotas", false, &txn);
    buf_release(&txn);
}

FUZZ_TARGET(txn)
