#include "base/avl.h"
#include "tests/lib/unit.h"

#include <string.h>

struct item {
    struct avl_node node;
    int key;
};

static const struct item *item_of(const struct avl_node *node)
{
    return avl_entry_const(node, struct item, node);
}

static int compare(const void *key, const struct avl_node *node)
{
    return *(const int *)key - item_of(node)->key;
}

TEST(empty)
{
    struct avl tree = {0};
    int key = 1;

    assert_null(avl_first(&tree));
    assert_null(avl_find(&tree, &key, compare));
    assert_null(avl_lower_bound(&tree, &key, compare));
}

TEST(lower_bound)
{
    struct avl tree = {0};
    struct item items[10];

    for (int i = 0; i < 10; i++) {
        items[i].key = i * 2;
        avl_insert(&tree, &items[i].key, &items[i].node, compare);
    }
    for (int key = -1; key < 18; key++) {
        int expected = key < 0 ? 0 : (key + 1) / 2 * 2;

        assert_int_equal(item_of(avl_lower_bound(&tree, &key, compare))->key, expected);
    }

    int beyond = 19;

    assert_null(avl_lower_bound(&tree, &beyond, compare));
}

TEST(one_node_in_and_out)
{
    struct avl tree = {0};
    struct item item = {.key = 5};

    avl_insert(&tree, &item.key, &item.node, compare);
    assert_ptr_equal(avl_find(&tree, &item.key, compare), &item.node);
    assert_ptr_equal(avl_first(&tree), &item.node);
    assert_null(avl_next(&item.node));
    avl_remove(&tree, &item.node);
    assert_null(tree.root);
    avl_insert(&tree, &item.key, &item.node, compare);
    assert_ptr_equal(tree.root, &item.node);
}

TEST(sorted_input_stays_shallow)
{
    struct avl tree = {0};
    static struct item items[1023];
    int depth = 0;

    for (int i = 0; i < 1023; i++) {
        items[i].key = i;
        avl_insert(&tree, &items[i].key, &items[i].node, compare);
    }
    for (struct avl_node *node = tree.root; node; node = node->link[1]) {
        depth++;
    }
    assert_int_equal(depth, 10);
    assert_int_equal(item_of(tree.root)->key, 511);
}
