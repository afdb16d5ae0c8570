/* Changes in flight: visible, rolled back, dropped once applied. */
#include "server/prepare/overlay.h"
#include "tests/lib/state_kit.h"
#include "tests/lib/unit.h"

struct fixture {
    struct state *state;
    struct overlay overlay;
};

static void setup(struct fixture *fixture)
{
    fixture->state = state_new(1);
    overlay_init(&fixture->overlay);
}

static void teardown(struct fixture *fixture)
{
    overlay_release(&fixture->overlay);
    state_free(fixture->state);
}

static struct overlay_node get(struct fixture *fixture, const char *path)
{
    struct overlay_node node;

    overlay_get(&fixture->overlay, fixture->state, slice_str(path), &node);
    return node;
}

static void put(struct fixture *fixture, const char *path, zxid_t zxid, bool exists)
{
    const struct overlay_node node = {.exists = exists, .stat = {.mzxid = zxid}, .creates = 3};

    overlay_put(&fixture->overlay, slice_str(path), zxid, &node);
}

TEST(the_tree_shows_through, fixture, setup, teardown)
{
    assert_true(get(fixture, "/zookeeper").exists);
    assert_int_equal(get(fixture, "/zookeeper").stat.num_children, 2);
    assert_false(get(fixture, "/a").exists);
    put(fixture, "/a", 5, true);
    put(fixture, "/zookeeper", 5, false);
    overlay_commit(&fixture->overlay);
    assert_true(get(fixture, "/a").exists);
    assert_int_equal(get(fixture, "/a").stat.cversion, 6);
    assert_false(get(fixture, "/zookeeper").exists);
}

TEST(a_rollback_restores_what_was_in_flight, fixture, setup, teardown)
{
    put(fixture, "/a", 5, true);
    overlay_commit(&fixture->overlay);
    put(fixture, "/a", 6, false);
    put(fixture, "/b", 6, true);
    put(fixture, "/a", 6, true);
    put(fixture, "/b", 6, false);
    overlay_rollback(&fixture->overlay);
    assert_int_equal(overlay_count(&fixture->overlay), 1);
    assert_int_equal(get(fixture, "/a").stat.mzxid, 5);
    overlay_applied(&fixture->overlay, 5);
    assert_int_equal(overlay_count(&fixture->overlay), 0);
}

TEST(an_entry_is_dropped_with_its_last_change, fixture, setup, teardown)
{
    put(fixture, "/a", 5, true);
    put(fixture, "/b", 6, true);
    put(fixture, "/a", 7, true);
    overlay_commit(&fixture->overlay);
    overlay_applied(&fixture->overlay, 4);
    assert_int_equal(overlay_count(&fixture->overlay), 2);
    overlay_applied(&fixture->overlay, 6);
    assert_int_equal(overlay_count(&fixture->overlay), 1);
    assert_true(get(fixture, "/a").exists);
    assert_false(get(fixture, "/b").exists);
    overlay_clear(&fixture->overlay);
    assert_int_equal(overlay_count(&fixture->overlay), 0);
}

static size_t subtree(struct fixture *fixture, const char *top, size_t count_max)
{
    struct buf paths;

    buf_init(&paths, 4096);
    size_t count =
        overlay_subtree(&fixture->overlay, fixture->state, slice_str(top), count_max, &paths);

    buf_release(&paths);
    return count;
}

TEST(a_subtree_merges_state_and_overlay, fixture, setup, teardown)
{
    assert_int_equal(kit_make(fixture->state, 1, "/a", ""), ERR_OK);
    assert_int_equal(kit_make(fixture->state, 2, "/a/x", ""), ERR_OK);
    assert_int_equal(kit_make(fixture->state, 3, "/a/y", ""), ERR_OK);
    put(fixture, "/a/x", 4, false);
    put(fixture, "/a/z", 4, true);
    put(fixture, "/a/z/z", 4, true);
    put(fixture, "/a/gone", 4, false);
    put(fixture, "/ab", 4, true);
    overlay_commit(&fixture->overlay);
    assert_int_equal(subtree(fixture, "/a", 100), 4);
    assert_int_equal(subtree(fixture, "/a/z", 100), 2);
    assert_int_equal(subtree(fixture, "/a", 2), 3);
    assert_int_equal(subtree(fixture, "/a", 3), 4);
}

static struct overlay_session session(struct fixture *fixture, uint64_t id)
{
    struct overlay_session found;

    overlay_session(&fixture->overlay, fixture->state, id, &found);
    return found;
}

/* Opens or closes a session; its secret is its number. */
static void put_session(struct fixture *fixture, uint64_t id, uint64_t secret, bool open)
{
    struct overlay_session value = {.id = id, .open = open};

    kit_hash(secret, value.secret_hash);
    overlay_put_session(&fixture->overlay, fixture->state, 10 + id, &value);
}

/* The session with that secret; 0: none. */
static uint64_t by_secret(struct fixture *fixture, uint64_t secret)
{
    uint8_t hash[TXN_SECRET_HASH_LEN];
    struct overlay_session found;

    kit_hash(secret, hash);
    overlay_session_by_hash(&fixture->overlay, fixture->state, hash, &found);
    return found.open ? found.id : 0;
}

static uint64_t sessions(struct fixture *fixture)
{
    return overlay_session_count(&fixture->overlay, fixture->state);
}

TEST(sessions_in_flight_are_found, fixture, setup, teardown)
{
    assert_int_equal(kit_session(fixture->state, 1), ERR_OK);
    assert_true(session(fixture, 1).open);
    assert_int_equal(by_secret(fixture, 1), 1);
    put_session(fixture, 1, 1, false);
    assert_int_equal(by_secret(fixture, 1), 0);
    assert_int_equal(sessions(fixture), 0);
    put_session(fixture, 2, 1, true); /* The same secret again. */
    put_session(fixture, 3, 3, true);
    overlay_commit(&fixture->overlay);
    assert_int_equal(by_secret(fixture, 1), 2);
    assert_int_equal(sessions(fixture), 2);
    put_session(fixture, 2, 1, false);
    put_session(fixture, 4, 4, true);
    put_session(fixture, 5, 5, true);
    assert_int_equal(sessions(fixture), 3);
    overlay_rollback(&fixture->overlay);
    assert_int_equal(sessions(fixture), 2);
    assert_int_equal(by_secret(fixture, 1), 2);
    assert_int_equal(by_secret(fixture, 4), 0);
    overlay_clear(&fixture->overlay);
    assert_int_equal(sessions(fixture), 1);
    assert_int_equal(by_secret(fixture, 1), 1);
}

static size_t ephemerals(struct fixture *fixture, uint64_t id)
{
    struct buf paths;

    buf_init(&paths, 4096);
    size_t count = overlay_ephemerals(&fixture->overlay, fixture->state, id, &paths);

    buf_release(&paths);
    return count;
}

static void put_owned(struct fixture *fixture, const char *path, uint64_t owner)
{
    const struct overlay_node node = {.exists = owner != 0, .owner = owner};

    overlay_put(&fixture->overlay, slice_str(path), 10, &node);
}

TEST(ephemerals_include_those_in_flight, fixture, setup, teardown)
{
    struct buf txn;

    buf_init(&txn, 1000);
    assert_int_equal(kit_session(fixture->state, 1), ERR_OK);
    kit_create(&txn, "/a", "", 1, 1);
    kit_create(&txn, "/b", "", 1, 2);
    kit_create(&txn, "/c", "", 1, 3);
    assert_int_equal(kit_apply(fixture->state, 2, &txn), ERR_OK);
    buf_release(&txn);
    assert_int_equal(ephemerals(fixture, 1), 3);
    put_owned(fixture, "/a", 0);
    put_owned(fixture, "/b", 1); /* Its data has been set. */
    put_owned(fixture, "/d", 1);
    put_owned(fixture, "/d/no", OWNER_CONTAINER);
    put_owned(fixture, "/e", 2);
    overlay_commit(&fixture->overlay);
    assert_int_equal(ephemerals(fixture, 1), 3);
    assert_int_equal(ephemerals(fixture, 2), 1);
    assert_int_equal(ephemerals(fixture, 3), 0);
    put_owned(fixture, "/c", 2); /* Deleted, and created again by another session. */
    put_owned(fixture, "/d", 0);
    assert_int_equal(ephemerals(fixture, 1), 1);
    assert_int_equal(ephemerals(fixture, 2), 2);
    overlay_rollback(&fixture->overlay);
    assert_int_equal(ephemerals(fixture, 1), 3);
    overlay_applied(&fixture->overlay, 10);
    assert_int_equal(ephemerals(fixture, 1), 3);
}

TEST(keys_are_known_while_they_are_in_flight, fixture, setup, teardown)
{
    struct txn_remember remember = {.scope = slice_str("a"), .key = slice_str("bc")};
    struct overlay_memory memory;

    remember.fingerprint[0] = 7;
    overlay_put_key(&fixture->overlay, 5, &remember);
    overlay_put_memory(&fixture->overlay, 5, &(struct overlay_memory){.count = 1, .bytes = 3});
    overlay_commit(&fixture->overlay);
    assert_int_equal(overlay_key(&fixture->overlay, remember.scope, remember.key)[0], 7);
    assert_null(overlay_key(&fixture->overlay, slice_str("ab"), slice_str("c")));
    remember.key = slice_str("d");
    overlay_put_key(&fixture->overlay, 6, &remember);
    overlay_put_memory(&fixture->overlay, 6, &(struct overlay_memory){.count = 2, .bytes = 5});
    overlay_rollback(&fixture->overlay);
    assert_null(overlay_key(&fixture->overlay, remember.scope, remember.key));
    overlay_memory(&fixture->overlay, fixture->state, &memory);
    assert_true(memory.count == 1 && memory.bytes == 3 && memory.horizon == 0);
    overlay_applied(&fixture->overlay, 5);
    overlay_memory(&fixture->overlay, fixture->state, &memory);
    assert_int_equal(memory.count, 0); /* As in the state. */
    assert_int_equal(overlay_count(&fixture->overlay), 0);
}

TEST(usage_and_quotas_show_what_is_in_flight, fixture, setup, teardown)
{
    struct overlay_quota quota;
    uint64_t count = 0;
    uint64_t bytes = 0;

    assert_int_equal(kit_make(fixture->state, 1, "/a", "four"), ERR_OK);
    assert_int_equal(kit_make(fixture->state, 2, "/a/x", "one"), ERR_OK);
    assert_false(overlay_has_quotas(&fixture->overlay, fixture->state));
    put(fixture, "/a/x", 4, false);
    put(fixture, "/a/y", 4, true);
    overlay_put_quota(&fixture->overlay, slice_str("/a"), 4,
                      &(struct overlay_quota){.exists = true, .count_hard = 3});
    overlay_commit(&fixture->overlay);
    overlay_usage(&fixture->overlay, fixture->state, slice_str("/a"), &count, &bytes);
    assert_true(count == 2 && bytes == 4);
    overlay_usage(&fixture->overlay, fixture->state, slice_str("/no"), &count, &bytes);
    assert_true(count == 0 && bytes == 0);
    assert_true(overlay_has_quotas(&fixture->overlay, fixture->state));
    overlay_quota(&fixture->overlay, fixture->state, slice_str("/a"), &quota);
    assert_true(quota.exists && quota.count_hard == 3);
    overlay_quota(&fixture->overlay, fixture->state, slice_str("/b"), &quota);
    assert_false(quota.exists);
}
