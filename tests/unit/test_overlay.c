/* Changes in flight: seen, taken back, dropped once applied. */
#include "server/overlay.h"
#include "tests/lib/state_kit.h"
#include "tests/lib/unit.h"

struct fixture {
    struct state *state;
    struct overlay overlay;
};

static int setup(void **context)
{
    static struct fixture fixture;

    fixture.state = state_new(1);
    overlay_init(&fixture.overlay);
    *context = &fixture;
    return 0;
}

static int teardown(void **context)
{
    struct fixture *fixture = *context;

    overlay_release(&fixture->overlay);
    state_free(fixture->state);
    return 0;
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

static void test_the_tree_shows_through(void **context)
{
    struct fixture *fixture = *context;

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

static void test_rollback_restores_what_was_in_flight(void **context)
{
    struct fixture *fixture = *context;

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

static void test_applied_drops_by_the_last_change(void **context)
{
    struct fixture *fixture = *context;

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

static void test_subtree_merges_both(void **context)
{
    struct fixture *fixture = *context;

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

#define OVERLAY_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        OVERLAY_TEST(test_the_tree_shows_through),
        OVERLAY_TEST(test_rollback_restores_what_was_in_flight),
        OVERLAY_TEST(test_applied_drops_by_the_last_change),
        OVERLAY_TEST(test_subtree_merges_both),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
