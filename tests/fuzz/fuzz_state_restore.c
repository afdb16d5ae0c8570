/*
 * Blocks of a snapshot, each after its u16 length; after an empty one a transaction that is applied
 * as in recovery. A restored state is consistent in itself.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/state_check.h"
#include "tests/lib/state_kit.h"

enum {
    BLOCKS_MAX = 64,
    BLOCK_MAX = UINT16_MAX
};

static enum err restore(struct state *state, struct wire_reader *reader)
{
    enum err err = ERR_OK;
    struct slice block = fuzz_take(reader, BLOCK_MAX);

    for (int i = 0; i < BLOCKS_MAX && block.len > 0 && err == ERR_OK; i++) {
        err = state_restore(state, block);
        ASSERT(err == ERR_OK || err == ERR_FORMAT);
        block = fuzz_take(reader, BLOCK_MAX);
    }
    return err;
}

static bool fuzz_one(struct slice input)
{
    struct wire_reader reader;
    struct state *state = state_new(0);
    bool has_blocks = input.len > 2 && (input.data[0] | input.data[1]) != 0;

    wire_reader_init(&reader, input);

    enum err err = restore(state, &reader);

    if (err == ERR_OK && has_blocks) {
        state_restored(state, 5);
        ASSERT(state_applied(state) == 5);
        state_check(state);
        /* Malformed or not: the result must be consistent. */
        (void)state_apply(state, 6, fuzz_rest(&reader), true, NULL);
        state_check(state);
    }
    state_free(state);
    return err == ERR_OK && has_blocks;
}

static void put_blocks(const struct state *state, size_t bytes_max, struct buf *out)
{
    struct state_cursor cursor;
    struct buf block;

    buf_init(&block, BLOCK_MAX);
    state_scan_init(&cursor);
    while (!cursor.done) {
        buf_clear(&block);
        state_scan(state, &cursor, bytes_max, &block);
        fuzz_put(out, buf_slice(&block));
    }
    state_scan_release(&cursor);
    buf_release(&block);
    fuzz_put(out, slice_make(NULL, 0));
}

static void fill(struct state *state, struct buf *txn)
{
    kit_create(txn, "/a", "1", 0, 1);
    kit_create(txn, "/a/b", NULL, 0, 1);
    kit_create(txn, "/a/b-", "", 0, 2);
    kit_create(txn, "/a/b/c", "2", OWNER_TTL_MARK | 500, 1);
    kit_create(txn, "/c", "x", OWNER_CONTAINER, 2);
    kit_open(txn, 3, 1);
    kit_create(txn, "/e", "x", 3, 3);
    kit_create_acl(txn, "/a/locked", "an ACL", 3);
    kit_set_acl(txn, "/c", "an ACL", 1);
    kit_set_acl(txn, "/", "another", 1);
    kit_create(txn, "/zookeeper/quota/a", NULL, 0, 1);
    kit_create(txn, "/zookeeper/quota/a/zookeeper_limits", "count=9,bytes=-1", 0, 1);
    kit_remember(txn, "scope", "key", "result");

    enum err err = kit_apply(state, 3, txn);

    ASSERT(err == ERR_OK);
    kit_open(txn, 4, 2);
    kit_move(txn, 3, 17, 2);
    kit_remember(txn, "", "key", "");
    err = kit_apply(state, 4, txn);
    ASSERT(err == ERR_OK);
}

static void fuzz_seeds(struct fuzz_sink *sink)
{
    struct state *state = state_new(7);
    struct buf bytes;
    struct buf txn;

    buf_init(&bytes, FUZZ_INPUT_MAX);
    buf_init(&txn, 4096);
    put_blocks(state, 4096, &bytes);
    fuzz_seed(sink, "empty", buf_slice(&bytes));

    fill(state, &txn);
    buf_clear(&bytes);
    put_blocks(state, 1, &bytes);
    fuzz_seed(sink, "small-blocks", buf_slice(&bytes));

    buf_clear(&bytes);
    put_blocks(state, 4096, &bytes);
    kit_create(&txn, "/a/b/c", "2", 0, 1);
    kit_delete(&txn, "/e");
    kit_close(&txn, 3);
    kit_set(&txn, "/a", "9", 1);
    kit_remember(&txn, "scope", "key", "other");
    kit_forget(&txn, 4);
    wire_put_raw(&bytes, buf_slice(&txn));
    fuzz_seed(sink, "with-transaction", buf_slice(&bytes));
    buf_release(&bytes);
    buf_release(&txn);
    state_free(state);
}

FUZZ_TARGET(state_restore)
