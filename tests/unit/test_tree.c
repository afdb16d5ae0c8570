/* The znodes as linked memory: order, walks, and deep trees without recursion. */
#include "base/mem.h"
#include "server/state/state_int.h"
#include "tests/lib/state_kit.h"
#include "tests/lib/unit.h"

#include <stdio.h>

static void make(struct state *state, zxid_t *zxid, const char *path)
{
    assert_int_equal(kit_make(state, ++*zxid, path, ""), ERR_OK);
}

static void assert_name(const struct znode *node, const char *name)
{
    assert_non_null(node);
    assert_true(slice_eq(znode_name(node), slice_str(name)));
}

TEST(children_come_in_byte_order)
{
    struct state *state = state_new(1);
    zxid_t zxid = 0;
    const struct znode *root = kit_find(state, "/");

    make(state, &zxid, "/b");
    make(state, &zxid, "/a-");
    make(state, &zxid, "/\xc3\xa4");
    make(state, &zxid, "/a");
    make(state, &zxid, "/B");
    const struct znode *child = znode_first_child(root, slice_make(NULL, 0));
    static const char *const order[] = {"B", "a", "a-", "b", "zookeeper", "\xc3\xa4"};

    for (size_t i = 0; i < 6; i++) {
        assert_name(child, order[i]);
        child = znode_next(child);
    }
    assert_null(child);
    assert_name(znode_first_child(root, slice_str("a")), "a-");
    assert_name(znode_first_child(root, slice_str("a,")), "a-");
    assert_null(znode_first_child(root, slice_str("\xc3\xa4")));
    assert_name(znode_child(root, slice_str("b")), "b");
    assert_null(znode_child(root, slice_str("c")));
    assert_ptr_equal(znode_parent(znode_child(root, slice_str("b"))), root);
    state_free(state);
}

static void assert_after(const struct state *state, const char *path, const char *name)
{
    const struct znode *node = tree_after(kit_find(state, "/"), slice_str(path));

    if (name == NULL) {
        assert_null(node);
    } else {
        assert_name(node, name);
    }
}

TEST(after_finds_the_next_path_even_from_a_gap)
{
    struct state *state = state_new(1);
    zxid_t zxid = 0;

    make(state, &zxid, "/a");
    make(state, &zxid, "/a/x");
    make(state, &zxid, "/a/x/y");
    make(state, &zxid, "/a-");
    assert_after(state, "/", "a");
    assert_after(state, "/a", "x");
    assert_after(state, "/a/x", "y");
    assert_after(state, "/a/x/y", "a-");
    assert_after(state, "/a/x/y/gone/deep", "a-");
    assert_after(state, "/a/w", "x");
    assert_after(state, "/a/x/a", "y");
    assert_after(state, "/a-", "zookeeper");
    assert_after(state, "/A/gone", "a");
    assert_after(state, "/zookeeper", "config");
    assert_after(state, "/zookeeper/quota", NULL);
    assert_after(state, "/zz", NULL);
    state_free(state);
}

TEST(a_walk_knows_its_path)
{
    struct state *state = state_new(1);
    zxid_t zxid = 0;
    struct walk walk;

    make(state, &zxid, "/a");
    make(state, &zxid, "/a/x");
    make(state, &zxid, "/a/x/y");
    make(state, &zxid, "/a/z");
    walk_init(&walk, kit_find(state, "/a"), slice_str("/a"));
    assert_name(walk_next(&walk, true), "x");
    assert_int_equal(walk.depth, 1);
    assert_name(walk_next(&walk, true), "y");
    assert_string_equal(buf_cstr(&walk.path), "/a/x/y");
    assert_name(walk_next(&walk, true), "z");
    assert_string_equal(buf_cstr(&walk.path), "/a/z");
    assert_null(walk_next(&walk, true));
    walk_release(&walk);
    walk_init(&walk, kit_find(state, "/a"), slice_make(NULL, 0));
    assert_name(walk_next(&walk, true), "x");
    assert_name(walk_next(&walk, false), "z");
    assert_null(walk_next(&walk, true));
    walk_release(&walk);
    walk_init_at(&walk, kit_find(state, "/a/x/y"));
    assert_string_equal(buf_cstr(&walk.path), "/a/x/y");
    assert_int_equal(walk.depth, 3);
    assert_name(walk_next(&walk, true), "z");
    walk_release(&walk);
    state_free(state);
}

TEST(the_deepest_tree_works)
{
    struct state *state = state_new(1);
    zxid_t zxid = 0;
    char *path = mem_alloc(2 * STATE_DEPTH_MAX + 1);

    for (size_t depth = 0; depth < STATE_DEPTH_MAX; depth++) {
        memcpy(path + 2 * depth, "/x", 3);
        make(state, &zxid, path);
    }
    struct state *copy = kit_copy(state, 5000);

    assert_true(state_digest(copy) == state_digest(state));
    assert_int_equal(state_node_count(copy), STATE_DEPTH_MAX + 4);
    assert_non_null(kit_find(copy, path));
    mem_free(path);
    state_free(copy);
    state_free(state);
}

TEST(a_znode_is_small)
{
    assert_true(offsetof(struct znode, name) <= 150);
}

static void count_forgotten(void *ctx, struct znode *node)
{
    (void)node;
    *(size_t *)ctx += 1;
}

TEST(dismantle_reaches_every_znode)
{
    struct znode *top = tree_node_new(slice_str("top"));
    struct znode *spine = top;
    size_t count = 0;
    char name[16];

    for (int i = 0; i < 3000; i++) {
        snprintf(name, sizeof(name), "%d", i);
        struct znode *node = tree_node_new(slice_str(name));

        tree_link(spine, node);
        spine = i % 10 == 0 ? node : spine;
    }
    tree_dismantle(top, count_forgotten, &count);
    assert_int_equal(count, 3001);
}
