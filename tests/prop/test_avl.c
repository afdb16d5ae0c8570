/* Random insertions and removals in an AVL tree, compared with an array of flags. */
#include "base/avl.h"
#include "base/rng.h"
#include "tests/lib/unit.h"

#include <stdbool.h>

enum {
    KEYS = 200,
    SEEDS = 20,
    STEPS = 3000,
    HEIGHT_MAX = 16
};

struct item {
    struct avl_node node;
    int key;
    bool present; /* The model. */
    int height;   /* Scratch of check_shape. */
};

static const struct item *item_of(const struct avl_node *node)
{
    return avl_entry_const(node, struct item, node);
}

static int compare(const void *key, const struct avl_node *node)
{
    int wanted = *(const int *)key;

    return wanted < item_of(node)->key ? -1 : wanted > item_of(node)->key;
}

static struct avl_node *parent_of(const struct avl_node *node)
{
    return (struct avl_node *)(node->parent_balance & ~(uintptr_t)3); /* NOLINT(*-int-to-ptr) */
}

static int height_of(const struct avl_node *node)
{
    return node ? item_of(node)->height : 0;
}

/* Computes heights from the bottom up: collects nodes from the top, then takes them in reverse. */
static void check_shape(const struct avl *tree)
{
    struct avl_node *nodes[KEYS];
    int count = 0;

    if (tree->root) {
        assert_null(parent_of(tree->root));
        nodes[count++] = tree->root;
    }
    for (int i = 0; i < count; i++) {
        for (int side = 0; side < 2; side++) {
            struct avl_node *child = nodes[i]->link[side];

            if (child) {
                assert_ptr_equal(parent_of(child), nodes[i]);
                assert_true(count < KEYS);
                nodes[count++] = child;
            }
        }
    }
    for (int i = count - 1; i >= 0; i--) {
        int left = height_of(nodes[i]->link[0]);
        int right = height_of(nodes[i]->link[1]);

        assert_int_equal((int)(nodes[i]->parent_balance & 3) - 1, right - left);
        avl_entry(nodes[i], struct item, node)->height = 1 + (left > right ? left : right);
    }
}

/* A walk and every lookup agree with the flags. */
static void check_contents(const struct avl *tree, const struct item *items)
{
    const struct avl_node *walk = avl_first(tree);

    for (int key = 0; key < KEYS; key++) {
        if (items[key].present) {
            assert_ptr_equal(walk, &items[key].node);
            assert_ptr_equal(avl_find(tree, &key, compare), walk);
            walk = avl_next(walk);
        } else {
            assert_null(avl_find(tree, &key, compare));
            assert_ptr_equal(avl_lower_bound(tree, &key, compare), walk);
        }
    }
    assert_null(walk);
}

static void run_seed(uint64_t seed)
{
    struct item items[KEYS] = {{.key = 0}};
    struct avl tree = {0};
    struct rng rng;

    rng_init(&rng, seed);
    for (int key = 0; key < KEYS; key++) {
        items[key].key = key;
    }
    for (int step = 0; step < STEPS; step++) {
        /* Waves of growing and shrinking reach both the full and the empty tree. */
        bool grow = rng_below(&rng, 100) < (step / 500 % 2 == 0 ? 70U : 30U);
        struct item *item = &items[rng_below(&rng, KEYS)];

        if (grow && !item->present) {
            avl_insert(&tree, &item->key, &item->node, compare);
            item->present = true;
        } else if (!grow && item->present) {
            avl_remove(&tree, &item->node);
            item->present = false;
        }
        if (step % 7 == 0) {
            check_shape(&tree);
            check_contents(&tree, items);
        }
    }
}

TEST(random_operations)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        run_seed(seed);
    }
}

/* Six keys inserted in every order, then removed in one of several orders. */
TEST(small_trees_in_every_order)
{
    enum {
        N = 6,
        ORDERS = 720
    };

    for (unsigned in = 0; in < ORDERS; in++) {
        struct item items[KEYS] = {{.key = 0}};
        struct avl tree = {0};
        unsigned code = in;
        int left[N] = {0, 1, 2, 3, 4, 5};

        for (unsigned n = N; n > 0; n--) {
            unsigned pick = code % n;
            struct item *item = &items[left[pick]];

            code /= n;
            item->key = left[pick];
            left[pick] = left[n - 1];
            item->present = true;
            avl_insert(&tree, &item->key, &item->node, compare);
            check_shape(&tree);
        }
        for (unsigned i = 0; i < N; i++) {
            struct item *item = &items[(i * (1 + in % 5 / 4 * 4) + in) % N];

            avl_remove(&tree, &item->node);
            item->present = false;
            check_shape(&tree);
            check_contents(&tree, items);
        }
    }
}
