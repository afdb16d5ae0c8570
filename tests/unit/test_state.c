/* Applying transactions: ZooKeeper's counters, refusals that change nothing, the reap index. */
#include "server/state/path.h"
#include "server/state/state.h"
#include "tests/lib/state_kit.h"
#include "tests/lib/unit.h"

struct fixture {
    struct state *state;
    struct buf txn;
    struct buf before;
    struct buf after;
};

static void setup(struct fixture *fixture)
{
    fixture->state = state_new(0xabc);
    buf_init(&fixture->txn, 1 << 20);
    buf_init(&fixture->before, 1 << 20);
    buf_init(&fixture->after, 1 << 20);
}

static void teardown(struct fixture *fixture)
{
    state_free(fixture->state);
    buf_release(&fixture->txn);
    buf_release(&fixture->before);
    buf_release(&fixture->after);
}

static struct stat_view stat_of(const struct state *state, const char *path)
{
    struct stat_view stat;

    assert_non_null(kit_find(state, path));
    znode_stat(kit_find(state, path), &stat);
    return stat;
}

TEST(new_state_has_the_builtin_znodes, fixture, setup, teardown)
{
    assert_int_equal(state_node_count(fixture->state), 4);
    assert_int_equal(state_applied(fixture->state), 0);
    assert_true(state_history(fixture->state) == 0xabc);
    assert_int_equal(stat_of(fixture->state, "/").num_children, 1);
    /* As in ZooKeeper, the built-in znodes do not count as created. */
    assert_int_equal(stat_of(fixture->state, "/").cversion, -1);
    assert_int_equal(stat_of(fixture->state, "/zookeeper").num_children, 2);
    assert_int_equal(stat_of(fixture->state, "/zookeeper/config").czxid, 0);
    assert_null(znode_data(kit_find(fixture->state, "/zookeeper/quota")));
}

TEST(create_sets_the_counters, fixture, setup, teardown)
{
    struct state *state = fixture->state;

    kit_begin(&fixture->txn, 5555);
    kit_create(&fixture->txn, "/a", "xyz", 0, 2);
    assert_int_equal(kit_apply(state, 10, &fixture->txn), ERR_OK);
    struct stat_view stat = stat_of(state, "/a");

    assert_int_equal(stat.czxid, 10);
    assert_int_equal(stat.mzxid, 10);
    assert_int_equal(stat.pzxid, 10);
    assert_int_equal(stat.ctime, 5555);
    assert_int_equal(stat.mtime, 5555);
    assert_int_equal(stat.version, 0);
    assert_int_equal(stat.cversion, 0);
    assert_int_equal(stat.data_length, 3);
    assert_int_equal(stat_of(state, "/").pzxid, 10);
    assert_int_equal(stat_of(state, "/").num_children, 2);
    assert_int_equal(stat_of(state, "/").cversion, 2);
    assert_int_equal(state_applied(state), 10);
    assert_int_equal(state_data_bytes(state), strlen("zookeeperquotaconfig") + 4);
}

TEST(set_moves_only_its_own_counters, fixture, setup, teardown)
{
    struct state *state = fixture->state;

    assert_int_equal(kit_make(state, 1, "/a", "x"), ERR_OK);
    kit_begin(&fixture->txn, 7777);
    kit_set(&fixture->txn, "/a", NULL, 1);
    assert_int_equal(kit_apply(state, 2, &fixture->txn), ERR_OK);
    struct stat_view stat = stat_of(state, "/a");

    assert_int_equal(stat.czxid, 1);
    assert_int_equal(stat.mzxid, 2);
    assert_int_equal(stat.pzxid, 1);
    assert_int_equal(stat.ctime, KIT_TIME_MS);
    assert_int_equal(stat.mtime, 7777);
    assert_int_equal(stat.version, 1);
    assert_int_equal(stat.data_length, 0);
    assert_null(znode_data(kit_find(state, "/a")));
    assert_int_equal(stat_of(state, "/").pzxid, 1);
}

TEST(delete_moves_the_parent_but_not_its_creates, fixture, setup, teardown)
{
    struct state *state = fixture->state;

    assert_int_equal(kit_make(state, 1, "/a", "x"), ERR_OK);
    uint64_t digest = state_digest(state);

    kit_delete(&fixture->txn, "/a");
    assert_int_equal(kit_apply(state, 2, &fixture->txn), ERR_OK);
    assert_null(kit_find(state, "/a"));
    assert_int_equal(stat_of(state, "/").pzxid, 2);
    assert_int_equal(stat_of(state, "/").cversion, 1);
    assert_int_equal(znode_creates(kit_find(state, "/")), 1);
    assert_int_equal(state_node_count(state), 4);
    assert_true(state_digest(state) != digest);
}

TEST(version_skips_minus_one_and_wraps, fixture, setup, teardown)
{
    assert_int_equal(stat_version_next(0), 1);
    assert_int_equal(stat_version_next(-2), 0);
    assert_int_equal(stat_version_next(INT32_MAX), INT32_MIN);
}

TEST(a_multi_is_one_step, fixture, setup, teardown)
{
    struct state *state = fixture->state;
    struct state_changes changes = {0};

    kit_create(&fixture->txn, "/a", "1", 0, 2);
    kit_create(&fixture->txn, "/a/b", "2", 0, 1);
    kit_set(&fixture->txn, "/a/b", "3", 1);
    kit_check(&fixture->txn, "/a");
    kit_delete(&fixture->txn, "/a/b");
    assert_int_equal(state_apply(state, 9, buf_slice(&fixture->txn), false, &changes), ERR_OK);
    assert_int_equal(changes.count, 5);
    assert_int_equal(changes.items[1].type, TXN_CREATE);
    assert_true(changes.items[1].reply);
    assert_true(slice_eq(changes.items[1].path, slice_str("/a/b")));
    assert_int_equal(changes.items[2].stat.version, 1);
    assert_int_equal(changes.items[3].stat.num_children, 1);
    assert_int_equal(changes.items[4].type, TXN_DELETE);
    assert_int_equal(changes.items[4].stat.czxid, 0);
    assert_int_equal(stat_of(state, "/a").pzxid, 9);
    assert_int_equal(stat_of(state, "/a").cversion, 2);
    state_changes_release(&changes);
}

static void assert_changes_nothing(struct fixture *fixture, enum err want)
{
    kit_dump(fixture->state, &fixture->before);
    assert_int_equal(kit_apply(fixture->state, 1000, &fixture->txn), want);
    kit_dump(fixture->state, &fixture->after);
    assert_string_equal(buf_cstr(&fixture->before), buf_cstr(&fixture->after));
    assert_true(state_applied(fixture->state) < 1000);
}

TEST(an_impossible_effect_changes_nothing, fixture, setup, teardown)
{
    struct buf *txn = &fixture->txn;

    assert_int_equal(kit_make(fixture->state, 1, "/a", "x"), ERR_OK);
    assert_int_equal(kit_make(fixture->state, 2, "/a/b", "y"), ERR_OK);
    assert_int_equal(kit_session(fixture->state, 3), ERR_OK);
    kit_create(txn, "/e", "", 3, 3);
    assert_int_equal(kit_apply(fixture->state, 4, txn), ERR_OK);
    kit_create(txn, "/a", "x", 0, 9);
    assert_changes_nothing(fixture, ERR_CORRUPT);
    kit_create(txn, "/no/b", "x", 0, 1);
    assert_changes_nothing(fixture, ERR_CORRUPT);
    kit_create(txn, "/e/b", "x", 0, 1);
    assert_changes_nothing(fixture, ERR_CORRUPT);
    kit_create(txn, "/c", "x", 0, 3); /* The counter of creates must move. */
    assert_changes_nothing(fixture, ERR_CORRUPT);
    kit_set(txn, "/no", "x", 1);
    assert_changes_nothing(fixture, ERR_CORRUPT);
    kit_delete(txn, "/no");
    assert_changes_nothing(fixture, ERR_CORRUPT);
    kit_delete(txn, "/a");
    assert_changes_nothing(fixture, ERR_CORRUPT);
    kit_delete(txn, "/zookeeper/config");
    assert_changes_nothing(fixture, ERR_CORRUPT);
    kit_check(txn, "/no");
    assert_changes_nothing(fixture, ERR_CORRUPT);
}

TEST(a_failing_multi_is_rolled_back, fixture, setup, teardown)
{
    struct buf *txn = &fixture->txn;

    assert_int_equal(kit_session(fixture->state, 1), ERR_OK);
    kit_create(txn, "/a", "x", OWNER_CONTAINER, 2);
    kit_create(txn, "/a/b", NULL, OWNER_TTL_MARK | 5, 1);
    kit_create(txn, "/a/b/c", "z", 1, 1);
    assert_int_equal(kit_apply(fixture->state, 2, txn), ERR_OK);
    kit_set(txn, "/a/b/c", "new", 1);
    kit_delete(txn, "/a/b/c");
    kit_set(txn, "/a/b", "new", 1);
    kit_delete(txn, "/a/b");
    kit_create(txn, "/a/b", "again", 0, 2);
    kit_create(txn, "/a/b/d", "again", 0, 1);
    kit_set(txn, "/a/b", "again 2", 1);
    kit_delete(txn, "/none");
    assert_changes_nothing(fixture, ERR_CORRUPT);
    buf_clear(&fixture->before);
    assert_int_equal(state_reap_candidates(fixture->state, INT64_MAX - 1, 9, &fixture->before), 0);
}

TEST(malformed_bytes_change_nothing, fixture, setup, teardown)
{
    struct buf *txn = &fixture->txn;

    kit_create(txn, "/a", "x", 0, 2);
    buf_append_byte(txn, TXN_SET);
    assert_changes_nothing(fixture, ERR_FORMAT);
    kit_create(txn, "/a", "x", 0, 2);
    wire_put_u8(txn, TXN_SESSION_OPEN);
    wire_put_u8(txn, 0);
    wire_put_bytes(txn, slice_str("s"));
    assert_changes_nothing(fixture, ERR_FORMAT);
    kit_begin(txn, 1);
    static const uint8_t acl[TXN_ACL_MAX + 1];

    txn_put(txn, &(struct txn_effect){.type = TXN_SET_ACL,
                                      .path = slice_str("/"),
                                      .acl = slice_make(acl, sizeof(acl))});
    assert_changes_nothing(fixture, ERR_FORMAT);
    kit_create(txn, "/a", "x", 0, UINT32_MAX);
    assert_changes_nothing(fixture, ERR_FORMAT);
}

TEST(digest_sees_swapped_values, fixture, setup, teardown)
{
    struct state *other = state_new(0xabc);

    assert_true(state_digest(other) == state_digest(fixture->state));
    kit_create(&fixture->txn, "/a", "1", 0, 2);
    kit_create(&fixture->txn, "/b", "2", 0, 3);
    assert_int_equal(kit_apply(fixture->state, 1, &fixture->txn), ERR_OK);
    kit_create(&fixture->txn, "/a", "2", 0, 2);
    kit_create(&fixture->txn, "/b", "1", 0, 3);
    assert_int_equal(kit_apply(other, 1, &fixture->txn), ERR_OK);
    assert_true(state_digest(other) != state_digest(fixture->state));
    state_free(other);
}

TEST(config_is_set_once_per_zxid, fixture, setup, teardown)
{
    struct state *state = fixture->state;
    const struct znode *node = kit_find(state, STATE_CONFIG_PATH);

    state_set_config(state, 5, slice_str("one"));
    assert_int_equal(state_applied(state), 5);
    assert_int_equal(stat_of(state, STATE_CONFIG_PATH).version, 1);
    uint64_t digest = state_digest(state);

    state_skip(state, 8);
    state_set_config(state, 5, slice_str("one"));
    state_set_config(state, 4, slice_str("old"));
    assert_true(state_digest(state) == digest);
    assert_int_equal(state_applied(state), 8);
    assert_true(slice_eq(blob_slice(znode_data(node)), slice_str("one")));
    assert_int_equal(stat_of(state, STATE_CONFIG_PATH).mzxid, 5);
}

/* The paths that are due at `now_ms`, each followed by a blank. */
static void assert_due(struct fixture *fixture, int64_t now_ms, const char *want)
{
    struct wire_reader reader;

    buf_clear(&fixture->before);
    buf_clear(&fixture->after);
    size_t count = state_reap_candidates(fixture->state, now_ms, 100, &fixture->before);

    wire_reader_init(&reader, buf_slice(&fixture->before));
    for (size_t i = 0; i < count; i++) {
        buf_append_slice(&fixture->after, wire_get_raw(&reader, wire_get_u16(&reader)));
        buf_append_byte(&fixture->after, ' ');
    }
    assert_true(wire_reader_done(&reader));
    assert_string_equal(buf_cstr(&fixture->after), want);
}

TEST(ttl_and_containers_become_due, fixture, setup, teardown)
{
    struct buf *txn = &fixture->txn;

    kit_begin(txn, 1000);
    kit_create(txn, "/ttl", "", OWNER_TTL_MARK | 50, 2);
    kit_create(txn, "/box", "", OWNER_CONTAINER, 3);
    assert_int_equal(kit_apply(fixture->state, 1, txn), ERR_OK);
    assert_due(fixture, 1049, "");
    assert_due(fixture, 1050, "/ttl ");
    assert_due(fixture, 1000 + STATE_CONTAINER_UNUSED_MS, "/ttl /box ");
    kit_begin(txn, 1040);
    kit_set(txn, "/ttl", "", 1); /* Restarts the TTL. */
    kit_create(txn, "/box/a", "", 0, 1);
    assert_int_equal(kit_apply(fixture->state, 2, txn), ERR_OK);
    assert_due(fixture, 1050, "");
    assert_due(fixture, INT64_MAX, "/ttl ");
    kit_create(txn, "/ttl/a", "", 0, 1); /* Children block the removal. */
    kit_delete(txn, "/box/a");
    assert_int_equal(kit_apply(fixture->state, 3, txn), ERR_OK);
    assert_due(fixture, INT64_MAX, "/box ");
    kit_delete(txn, "/box");
    assert_int_equal(kit_apply(fixture->state, 4, txn), ERR_OK);
    assert_due(fixture, INT64_MAX, "");
}

/* Whether something waits for the age after `txn`. */
static bool waits_after(struct fixture *fixture, zxid_t zxid)
{
    assert_int_equal(kit_apply(fixture->state, zxid, &fixture->txn), ERR_OK);
    kit_verify(fixture->state);
    return state_counts_age(fixture->state, state_age_ms(fixture->state));
}

TEST(the_state_knows_whether_anything_waits_for_the_age, fixture, setup, teardown)
{
    struct buf *txn = &fixture->txn;

    assert_false(state_counts_age(fixture->state, 0));
    kit_create(txn, "/a", "", 0, 2);
    assert_false(waits_after(fixture, 1));
    kit_create(txn, "/box", "", OWNER_CONTAINER, 3); /* Never used: due after a while. */
    assert_true(waits_after(fixture, 2));
    kit_create(txn, "/box/a", "", 0, 1); /* Used: due once it is empty. */
    assert_false(waits_after(fixture, 3));
    kit_delete(txn, "/box/a");
    assert_false(waits_after(fixture, 4));
    kit_create(txn, "/ttl", "", OWNER_TTL_MARK | 50, 4);
    assert_true(waits_after(fixture, 5));
    kit_create(txn, "/ttl/a", "", 0, 1); /* The TTL continues beside its child. */
    assert_true(waits_after(fixture, 6));
    assert_true(state_counts_age(fixture->state, KIT_TIME_MS + 49));
    assert_false(state_counts_age(fixture->state, KIT_TIME_MS + 50)); /* Due, but for the child. */
    kit_delete(txn, "/ttl/a");
    kit_delete(txn, "/ttl");
    assert_false(waits_after(fixture, 7));
    kit_remember(txn, "scope", "key", "result");
    assert_true(waits_after(fixture, 8));
    kit_forget(txn, 9);
    assert_false(waits_after(fixture, 9));
}

TEST(owners_have_kinds, fixture, setup, teardown)
{
    assert_int_equal(kit_session(fixture->state, 7), ERR_OK);
    kit_create(&fixture->txn, "/e", "", 7, 2);
    kit_create(&fixture->txn, "/box", "", OWNER_CONTAINER, 3);
    kit_create(&fixture->txn, "/ttl", "", OWNER_TTL_MARK | 50, 4);
    assert_int_equal(kit_apply(fixture->state, 8, &fixture->txn), ERR_OK);
    assert_int_equal(state_ephemeral_count(fixture->state), 1);
    assert_int_equal(stat_of(fixture->state, "/e").ephemeral_owner, 7);
    assert_int_equal(stat_of(fixture->state, "/box").ephemeral_owner, 0);
    assert_int_equal(stat_of(fixture->state, "/ttl").ephemeral_owner, 0);
    assert_true(znode_owner(kit_find(fixture->state, "/box")) == OWNER_CONTAINER);
    kit_delete(&fixture->txn, "/e");
    assert_int_equal(kit_apply(fixture->state, 9, &fixture->txn), ERR_OK);
    assert_int_equal(state_ephemeral_count(fixture->state), 0);
}

#define ZEROS "\0\0\0\0\0\0\0\0" /* 8 bytes. */

static enum err restore_bytes(const char *bytes, size_t len)
{
    struct state *state = state_new(0);
    enum err err = state_restore(state, slice_make(bytes, len));

    state_free(state);
    return err;
}

TEST(blocks_of_an_unknown_kind_are_refused, fixture, setup, teardown)
{
    assert_int_equal(restore_bytes("", 0), ERR_FORMAT);
    assert_int_equal(restore_bytes("\3", 1), ERR_FORMAT); /* The header comes first. */
    assert_int_equal(restore_bytes("\1\2\0\0\0" ZEROS ZEROS ZEROS, 29), ERR_OK);
    assert_int_equal(restore_bytes("\1\1\0\0\0" ZEROS ZEROS ZEROS, 29), ERR_FORMAT);
    assert_int_equal(restore_bytes("\1\3\0\0\0" ZEROS ZEROS ZEROS, 29), ERR_FORMAT);
    assert_int_equal(restore_bytes("\1\2\0\0\0" ZEROS ZEROS ZEROS, 28), ERR_FORMAT);
    assert_int_equal(restore_bytes("\1\2\0\0\0" ZEROS "\0\0\0\0\0\0\0\x80" ZEROS, 29), ERR_FORMAT);
    struct state *state = state_new(0);

    assert_int_equal(state_restore(state, slice_make("\1\2\0\0\0" ZEROS ZEROS ZEROS, 29)), ERR_OK);
    assert_int_equal(state_restore(state, slice_make("\6", 1)), ERR_FORMAT);
    state_free(state);
}

/* Restores a copy of its snapshot with `to` in place of occurrence number `place` of `from`. False
 * if there are fewer. */
static bool restore_with(const struct state *state, const struct buf *from, const struct buf *to,
                         size_t place, enum err *ret_err)
{
    struct state *copy = state_new(0);
    struct state_cursor cursor;
    struct buf block;
    bool found = false;

    assert_int_equal(from->len, to->len);
    *ret_err = ERR_OK;
    buf_init(&block, 1 << 20);
    state_scan_init(&cursor);
    while (!cursor.done && *ret_err == ERR_OK) {
        buf_clear(&block);
        state_scan(state, &cursor, 1 << 16, &block);
        for (size_t i = 0; !found && i + from->len <= block.len; i++) {
            if (memcmp(block.data + i, from->data, from->len) == 0 && place-- == 0) {
                memcpy(block.data + i, to->data, to->len);
                found = true;
            }
        }
        *ret_err = block.len > 0 ? state_restore(copy, buf_slice(&block)) : ERR_OK;
    }
    state_scan_release(&cursor);
    buf_release(&block);
    state_free(copy);
    return found;
}

/* How often a snapshot contains `from`; a restore must be refused for each one that is replaced by
 * `to`. */
static size_t count_refused(const struct state *state, const struct buf *from, const struct buf *to)
{
    enum err err = ERR_OK;
    size_t count = 0;

    while (restore_with(state, from, to, count, &err)) {
        assert_int_equal(err, ERR_FORMAT);
        count++;
    }
    assert_int_equal(err, ERR_OK);
    return count;
}

static void put_time(struct buf *out, int64_t ms, bool varint)
{
    buf_clear(out);
    if (varint) {
        wire_put_varint(out, (uint64_t)ms);
    } else {
        wire_put_u64(out, (uint64_t)ms);
    }
}

/* No transaction could have put them there. */
TEST(a_snapshot_with_absurd_times_is_refused, fixture, setup, teardown)
{
    struct buf *from = &fixture->before;
    struct buf *to = &fixture->after;
    const struct txn_header header = {.age_ms = TXN_AGE_MAX_MS - 1,
                                      .stamp_ms = TXN_STAMP_MAX_MS - 1};

    txn_begin(&fixture->txn, &header);
    kit_create(&fixture->txn, "/ttl", "", OWNER_TTL_MARK | 50, 1);
    kit_open(&fixture->txn, 1, 1);
    kit_remember(&fixture->txn, "scope", "key", "result");
    assert_int_equal(kit_apply(fixture->state, 1, &fixture->txn), ERR_OK);
    put_time(from, TXN_AGE_MAX_MS - 1, true);
    put_time(to, TXN_AGE_MAX_MS + 1, true);
    assert_int_equal(count_refused(fixture->state, from, to), 1); /* Of the znode. */
    put_time(from, TXN_AGE_MAX_MS - 1, false);
    put_time(to, TXN_AGE_MAX_MS + 1, false);
    assert_int_equal(count_refused(fixture->state, from, to), 2); /* Header, result. */
    put_time(from, TXN_STAMP_MAX_MS - 1, false);
    put_time(to, TXN_STAMP_MAX_MS + 1, false);
    assert_int_equal(count_refused(fixture->state, from, to), 4); /* Header, znode, session. */
    put_time(to, -TXN_STAMP_MAX_MS - 1, false);
    assert_int_equal(count_refused(fixture->state, from, to), 4);
}

/* Every prefix of a block and every flipped byte is refused or accepted, but never harmful. */
TEST(damaged_blocks_do_no_harm, fixture, setup, teardown)
{
    struct state_cursor cursor;

    assert_int_equal(kit_make(fixture->state, 1, "/a", "x"), ERR_OK);
    assert_int_equal(kit_make(fixture->state, 2, "/a/b", NULL), ERR_OK);
    state_scan_init(&cursor);
    struct buf *block = &fixture->before;
    struct buf *header = &fixture->after;

    state_scan(fixture->state, &cursor, 1 << 16, header);
    state_scan(fixture->state, &cursor, 1 << 16, block);
    buf_clear(block);
    state_scan(fixture->state, &cursor, 1 << 16, block);
    assert_true(cursor.done);
    state_scan_release(&cursor);
    for (size_t i = 0; i < 2 * block->len; i++) {
        struct state *state = state_new(0);
        uint8_t *byte = &block->data[i / 2];
        uint8_t kept = *byte;
        size_t len = i % 2 == 0 ? i / 2 : block->len;

        *byte ^= i % 2 == 0 ? 0 : 0xff;
        assert_int_equal(state_restore(state, buf_slice(header)), ERR_OK);
        enum err err = state_restore(state, slice_make(block->data, len));

        assert_true(err == ERR_OK || err == ERR_FORMAT);
        *byte = kept;
        state_free(state);
    }
}
