/* Sessions, ACLs and remembered results: what is applied, refused, handed out and kept. */
#include "server/state/state_int.h"
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

static void apply(struct fixture *fixture, zxid_t zxid)
{
    assert_int_equal(kit_apply(fixture->state, zxid, &fixture->txn), ERR_OK);
    kit_verify(fixture->state);
}

/* The lists of the znodes. */
static size_t lists_used(const struct acls *acls)
{
    size_t used = 0;

    for (uint32_t i = 1; i < acls->count; i++) {
        used += acls->slots[i] != NULL && acls->slots[i]->refs > 0;
    }
    return used;
}

static void assert_refused(struct fixture *fixture, zxid_t zxid, enum err want)
{
    size_t lists = lists_used(&fixture->state->acls);

    kit_dump(fixture->state, &fixture->before);
    assert_int_equal(kit_apply(fixture->state, zxid, &fixture->txn), want);
    kit_dump(fixture->state, &fixture->after);
    assert_string_equal(buf_cstr(&fixture->before), buf_cstr(&fixture->after));
    assert_int_equal(lists_used(&fixture->state->acls), lists);
    assert_true(list_empty(&fixture->state->acls.idle));
    kit_verify(fixture->state);
}

static void assert_copy_is_equal(struct fixture *fixture)
{
    struct state *copy = kit_copy(fixture->state, 1);

    kit_dump(fixture->state, &fixture->before);
    kit_dump(copy, &fixture->after);
    assert_string_equal(buf_cstr(&fixture->before), buf_cstr(&fixture->after));
    state_free(copy);
}

TEST(a_session_is_found_by_id_and_by_hash, fixture, setup, teardown)
{
    struct state *state = fixture->state;
    uint8_t hash[TXN_SECRET_HASH_LEN];

    kit_begin(&fixture->txn, 7000);
    kit_open(&fixture->txn, 5, 99);
    apply(fixture, 5);
    assert_int_equal(kit_session(state, 9), ERR_OK);
    kit_hash(99, hash);
    const struct state_session *session = state_session_by_hash(state, hash);

    assert_non_null(session);
    assert_ptr_equal(session, state_session(state, 5));
    assert_int_equal(session->id, 5);
    assert_int_equal(session->timeout_ms, 5000);
    assert_int_equal(session->opened_ms, 7000);
    assert_int_equal(session->attach, 0);
    assert_int_equal(session->member, 0);
    assert_memory_equal(session->secret_hash, hash, sizeof(hash));
    assert_true(slice_eq(session->from, slice_str("kit")));
    assert_int_equal(state_session_count(state), 2);
    assert_int_equal(state_session_after(state, 0)->id, 5);
    assert_int_equal(state_session_after(state, 5)->id, 9);
    assert_null(state_session_after(state, 9));
    assert_null(state_session(state, 6));
    hash[31] ^= 1;
    assert_null(state_session_by_hash(state, hash));
    assert_copy_is_equal(fixture);
}

TEST(a_move_is_state_and_can_be_rolled_back, fixture, setup, teardown)
{
    struct state *state = fixture->state;

    assert_int_equal(kit_session(state, 5), ERR_OK);
    uint64_t digest = state_digest(state);

    kit_move(&fixture->txn, 5, 77, 3);
    apply(fixture, 6);
    assert_int_equal(state_session(state, 5)->attach, 77);
    assert_int_equal(state_session(state, 5)->member, 3);
    assert_true(state_digest(state) != digest);
    kit_move(&fixture->txn, 5, 78, 1);
    kit_move(&fixture->txn, 5, 79, 2);
    kit_delete(&fixture->txn, "/none");
    assert_refused(fixture, 7, ERR_CORRUPT);
    kit_move(&fixture->txn, 6, 78, 1);
    assert_refused(fixture, 7, ERR_CORRUPT);
}

/* The paths of the ephemerals of a session, each followed by a blank. */
static void assert_ephemerals(struct fixture *fixture, uint64_t session, const char *want)
{
    buf_clear(&fixture->after);
    for (const struct znode *at = state_ephemeral_first(fixture->state, session); at != NULL;
         at = state_ephemeral_next(fixture->state, at)) {
        walk_path_of(at, &fixture->after);
        buf_append_byte(&fixture->after, ' ');
    }
    assert_string_equal(buf_cstr(&fixture->after), want);
}

/* The first ephemeral of session 1 after a path, whether or not one exists at the path. */
static void assert_behind(const struct state *state, const char *path, const char *want)
{
    const struct znode *node = state_ephemeral_after(state, 1, slice_str(path));
    struct buf found;

    buf_init(&found, 100);
    if (node != NULL) {
        walk_path_of(node, &found);
    }
    assert_string_equal(buf_cstr(&found), want);
    buf_release(&found);
}

TEST(ephemerals_come_in_the_order_of_a_walk, fixture, setup, teardown)
{
    struct state *state = fixture->state;

    assert_int_equal(kit_session(state, 1), ERR_OK);
    assert_int_equal(kit_session(state, 2), ERR_OK);
    kit_create(&fixture->txn, "/b", "", 1, 2);
    kit_create(&fixture->txn, "/a", "", 0, 3);
    kit_create(&fixture->txn, "/a-", "", 1, 4);
    kit_create(&fixture->txn, "/a/z", "", 1, 1);
    kit_create(&fixture->txn, "/a/y", "", 2, 2);
    apply(fixture, 3);
    assert_ephemerals(fixture, 1, "/a/z /a- /b ");
    assert_ephemerals(fixture, 2, "/a/y ");
    assert_ephemerals(fixture, 3, "");
    assert_behind(state, "/a", "/a/z");
    assert_behind(state, "/a/z", "/a-");
    assert_behind(state, "/a/zz", "/a-");
    assert_behind(state, "/a-", "/b");
    assert_behind(state, "/b", "");
    assert_null(state_ephemeral_after(state, 3, slice_str("/a")));
    assert_int_equal(state_session(state, 1)->ephemeral_count, 3);
    assert_int_equal(state_session(state, 1)->ephemeral_bytes, 9);
    assert_copy_is_equal(fixture);
    kit_delete(&fixture->txn, "/a-");
    apply(fixture, 4);
    assert_ephemerals(fixture, 1, "/a/z /b ");
    assert_int_equal(state_session(state, 1)->ephemeral_bytes, 6);
}

TEST(a_session_closes_when_it_owns_nothing, fixture, setup, teardown)
{
    struct state *state = fixture->state;
    uint64_t digest = state_digest(state);
    uint8_t hash[TXN_SECRET_HASH_LEN];

    assert_int_equal(kit_session(state, 1), ERR_OK);
    kit_create(&fixture->txn, "/a", "", 1, 2);
    kit_create(&fixture->txn, "/b", "", 1, 3);
    apply(fixture, 2);
    kit_delete(&fixture->txn, "/a");
    kit_close(&fixture->txn, 1);
    assert_refused(fixture, 3, ERR_CORRUPT);
    kit_delete(&fixture->txn, "/a");
    kit_delete(&fixture->txn, "/b");
    kit_close(&fixture->txn, 1);
    kit_create(&fixture->txn, "/c", "", 1, 4);
    assert_refused(fixture, 3, ERR_CORRUPT);
    kit_delete(&fixture->txn, "/a");
    kit_delete(&fixture->txn, "/b");
    kit_close(&fixture->txn, 1);
    apply(fixture, 3);
    kit_hash(1, hash);
    assert_null(state_session(state, 1));
    assert_null(state_session_by_hash(state, hash));
    assert_int_equal(state_session_count(state), 0);
    assert_true(state_digest(state) != digest); /* The counters of the root have changed. */
    kit_close(&fixture->txn, 1);
    assert_refused(fixture, 4, ERR_CORRUPT);
}

TEST(impossible_sessions_are_refused, fixture, setup, teardown)
{
    assert_int_equal(kit_session(fixture->state, 3), ERR_OK);
    kit_open(&fixture->txn, 5, 5); /* Its id is the zxid. */
    assert_refused(fixture, 6, ERR_FORMAT);
    kit_open(&fixture->txn, 6, 3); /* The secret of another session. */
    assert_refused(fixture, 6, ERR_CORRUPT);
    kit_open(&fixture->txn, 6, 6);
    kit_open(&fixture->txn, 6, 7);
    assert_refused(fixture, 6, ERR_CORRUPT);
    kit_create(&fixture->txn, "/a", "", 6, 2); /* Not open yet. */
    kit_open(&fixture->txn, 6, 6);
    assert_refused(fixture, 6, ERR_CORRUPT);
    kit_open(&fixture->txn, 6, 6);
    kit_create(&fixture->txn, "/a", "", 6, 2);
    kit_create(&fixture->txn, "/a/b", "", 0, 1); /* An ephemeral has no children. */
    assert_refused(fixture, 6, ERR_CORRUPT);
    kit_close(&fixture->txn, 3);
    kit_open(&fixture->txn, 6, 3);
    apply(fixture, 6);
    assert_null(state_session(fixture->state, 3));
}

TEST(a_fuzzy_snapshot_may_lack_the_session, fixture, setup, teardown)
{
    struct state *state = fixture->state;

    kit_create(&fixture->txn, "/e", "", 4, 2);
    assert_int_equal(state_apply(state, 5, buf_slice(&fixture->txn), true, NULL), ERR_OK);
    buf_clear(&fixture->txn);
    assert_ephemerals(fixture, 4, "/e ");
    assert_int_equal(state_session_count(state), 0);
    kit_verify(state);
    kit_open(&fixture->txn, 4, 4);
    kit_move(&fixture->txn, 3, 1, 1);
    assert_int_equal(state_apply(state, 4, buf_slice(&fixture->txn), true, NULL), ERR_OK);
    buf_clear(&fixture->txn);
    assert_int_equal(state_session(state, 4)->ephemeral_count, 1);
    kit_verify(state);
    kit_close(&fixture->txn, 4);
    kit_close(&fixture->txn, 3);
    assert_int_equal(state_apply(state, 6, buf_slice(&fixture->txn), true, NULL), ERR_OK);
    buf_clear(&fixture->txn);
    assert_ephemerals(fixture, 4, "/e ");
    kit_verify(state);
    kit_delete(&fixture->txn, "/e");
    apply(fixture, 7);
    assert_ephemerals(fixture, 4, "");
}

TEST(acls_are_stored_once_and_released, fixture, setup, teardown)
{
    struct state *state = fixture->state;

    kit_create_acl(&fixture->txn, "/a", "one", 2);
    kit_create_acl(&fixture->txn, "/b", "one", 3);
    kit_create_acl(&fixture->txn, "/c", "two", 4);
    apply(fixture, 1);
    uint32_t one = znode_acl(kit_find(state, "/a"));

    assert_int_equal(lists_used(&state->acls), 2);
    assert_int_equal(one, znode_acl(kit_find(state, "/b")));
    assert_true(slice_eq(state_acl(state, one), slice_str("one")));
    assert_null(state_acl_blob(state, znode_acl(kit_find(state, "/"))));
    assert_copy_is_equal(fixture);
    kit_set_acl(&fixture->txn, "/a", "", 1);
    kit_delete(&fixture->txn, "/b");
    apply(fixture, 2);
    /* No znode uses it any more, but a client may have seen its index. */
    assert_true(slice_eq(state_acl(state, one), slice_str("one")));
    assert_int_equal(znode_acl(kit_find(state, "/a")), 0);
    struct stat_view stat;

    znode_stat(kit_find(state, "/a"), &stat);
    assert_int_equal(stat.aversion, 1);
    assert_int_equal(stat.mzxid, 1);
    assert_int_equal(lists_used(&state->acls), 1);
    kit_create_acl(&fixture->txn, "/d", "three", 5);
    apply(fixture, 3);
    assert_int_equal(znode_acl(kit_find(state, "/d")), one); /* The index is used again. */
    kit_set_acl(&fixture->txn, "/d", "four", 1);
    kit_create_acl(&fixture->txn, "/e", "five", 6);
    kit_delete(&fixture->txn, "/c");
    kit_set_acl(&fixture->txn, "/none", "six", 1);
    assert_refused(fixture, 4, ERR_CORRUPT);
}

/* The same lists, created in another order: other indices, same digest. */
TEST(the_digest_knows_bytes_of_acls_only, fixture, setup, teardown)
{
    struct state *other = state_new(0xabc);
    struct buf *txn = &fixture->txn;

    kit_create_acl(txn, "/a", "one", 2);
    kit_create_acl(txn, "/b", "two", 3);
    apply(fixture, 1);
    kit_set_acl(txn, "/", "three", 0);
    kit_set_acl(txn, "/", "two", 0);
    kit_set_acl(txn, "/", "", 0);
    kit_create_acl(txn, "/a", "one", 2);
    kit_create_acl(txn, "/b", "two", 3);
    assert_int_equal(kit_apply(other, 1, txn), ERR_OK);
    assert_true(state_digest(other) == state_digest(fixture->state));
    assert_int_not_equal(znode_acl(kit_find(other, "/a")),
                         znode_acl(kit_find(fixture->state, "/a")));
    kit_set_acl(txn, "/a", "two", 0);
    assert_int_equal(kit_apply(other, 2, txn), ERR_OK);
    assert_true(state_digest(other) != state_digest(fixture->state));
    state_free(other);
}

TEST(changes_contain_what_watches_need, fixture, setup, teardown)
{
    struct state_changes changes = {0};
    struct state *state = fixture->state;

    kit_open(&fixture->txn, 1, 1);
    kit_create_acl(&fixture->txn, "/a", "one", 2);
    kit_create(&fixture->txn, "/a/e", "x", 1, 1);
    kit_set(&fixture->txn, "/a/e", "y", 1);
    kit_set(&fixture->txn, "/a/e", "zz", 2);
    kit_set_acl(&fixture->txn, "/a/e", "two", 1);
    kit_delete(&fixture->txn, "/a/e");
    kit_delete(&fixture->txn, "/a");
    kit_move(&fixture->txn, 1, 7, 3);
    kit_remember(&fixture->txn, "", "k", "r");
    kit_close(&fixture->txn, 1);
    assert_int_equal(state_apply(state, 1, buf_slice(&fixture->txn), false, &changes), ERR_OK);
    assert_int_equal(changes.count, 11);
    const struct state_change *at = changes.items;

    assert_int_equal(at[0].session, 1);
    assert_int_equal(at[0].path.len, 0);
    assert_true(slice_eq(blob_slice(at[1].acl), slice_str("one")));
    assert_null(at[1].parent_acl);
    assert_int_equal(at[1].session, 0);
    /* The state has dropped all of it, and the changes still hold it. */
    assert_true(slice_eq(blob_slice(at[2].data), slice_str("x")));
    assert_true(slice_eq(blob_slice(at[2].parent_acl), slice_str("one")));
    assert_int_equal(at[2].session, 1);
    assert_true(slice_eq(blob_slice(at[3].data), slice_str("y")));
    assert_true(slice_eq(blob_slice(at[4].data), slice_str("zz")));
    assert_null(at[4].acl);
    assert_true(slice_eq(blob_slice(at[5].acl), slice_str("two")));
    assert_null(at[5].data);
    assert_int_equal(at[6].session, 1);
    assert_true(slice_eq(blob_slice(at[6].acl), slice_str("two")));
    assert_true(slice_eq(blob_slice(at[6].parent_acl), slice_str("one")));
    assert_int_equal(at[7].session, 0);
    assert_int_equal(at[8].attach, 7);
    assert_int_equal(at[8].member, 3);
    assert_false(at[9].reply);
    assert_int_equal(at[10].session, 1);
    assert_true(at[10].reply);
    assert_false(at[10].expired);
    state_changes_release(&changes);
}

TEST(changes_show_whether_a_session_has_expired, fixture, setup, teardown)
{
    struct state_changes changes = {0};
    const struct txn_effect expired = {.type = TXN_SESSION_CLOSE,
                                       .flags = TXN_REPLY,
                                       .close = {.session = 1, .reason = TXN_CLOSED_EXPIRED}};

    kit_open(&fixture->txn, 1, 1);
    txn_put(&fixture->txn, &expired);
    assert_int_equal(state_apply(fixture->state, 1, buf_slice(&fixture->txn), false, &changes),
                     ERR_OK);
    assert_false(changes.items[0].expired);
    assert_true(changes.items[1].expired);
    state_changes_release(&changes);
}

TEST(results_are_remembered_and_forgotten, fixture, setup, teardown)
{
    struct state *state = fixture->state;
    struct buf *txn = &fixture->txn;

    for (zxid_t zxid = 1; zxid <= 4; zxid++) {
        const char key[] = {(char)('a' + zxid), '\0'};

        kit_begin(txn, (int64_t)zxid * 10);
        kit_remember(txn, "scope", key, "result");
        apply(fixture, zxid);
    }
    const struct state_remembered *found =
        state_remembered(state, slice_str("scope"), slice_str("c"));

    assert_non_null(found);
    assert_int_equal(found->zxid, 2);
    assert_int_equal(found->age_ms, 20);
    assert_true(slice_eq(found->result, slice_str("result")));
    assert_null(state_remembered(state, slice_str("scop"), slice_str("ec")));
    assert_int_equal(state_remembered_count(state), 4);
    assert_int_equal(state_remembered_bytes(state), 4 * 12);
    assert_int_equal(state_remembered_after(state, 0)->zxid, 1);
    assert_copy_is_equal(fixture);
    kit_remember(txn, "scope", "c", "other"); /* Already remembered. */
    assert_refused(fixture, 5, ERR_CORRUPT);
    kit_remember(txn, "scope", "x", "");
    kit_remember(txn, "scope", "y", "");
    assert_refused(fixture, 5, ERR_FORMAT);
    kit_forget(txn, 6);
    assert_refused(fixture, 5, ERR_FORMAT);
    kit_forget(txn, 5);
    kit_remember(txn, "scope", "c", "other");
    kit_delete(txn, "/none");
    assert_refused(fixture, 5, ERR_CORRUPT);
    kit_forget(txn, 3);
    kit_remember(txn, "scope", "c", "other");
    apply(fixture, 5);
    assert_int_equal(state_remembered_count(state), 3);
    assert_int_equal(state_remembered_after(state, 0)->zxid, 3);
    assert_int_equal(state_remembered(state, slice_str("scope"), slice_str("c"))->zxid, 5);
    assert_copy_is_equal(fixture);
}

TEST(transactions_beyond_the_bounds_are_refused, fixture, setup, teardown)
{
    static char text[TXN_SCOPE_MAX + 2];
    struct txn_remember remember = {.scope = slice_make(text, TXN_SCOPE_MAX)};

    memset(text, 'x', sizeof(text) - 1);
    kit_begin(&fixture->txn, 1);
    txn_put(&fixture->txn, &(struct txn_effect){.type = TXN_REMEMBER, .remember = remember});
    apply(fixture, 1);
    assert_null(state_remembered(fixture->state, slice_str(text), slice_str("")));
    assert_non_null(state_remembered(fixture->state, remember.scope, slice_str("")));
    assert_copy_is_equal(fixture);
}
