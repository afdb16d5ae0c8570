#include "base/avl.h"

#include "base/check.h"

#include <stdbool.h>

/* The bits of `parent_balance` that hold balance + 1. A balance is the height of the right subtree
 * minus the height of the left subtree, -1 to 1. */
static const uintptr_t balance_mask = 3;

static struct avl_node *parent_of(const struct avl_node *node)
{
    /* The low bits of an aligned pointer are free and hold the balance; removing them needs the
     * cast. */
    return (struct avl_node *)(node->parent_balance & ~balance_mask); /* NOLINT(*-no-int-to-ptr) */
}

static int balance_of(const struct avl_node *node)
{
    return (int)(node->parent_balance & balance_mask) - 1;
}

static void set_parent(struct avl_node *node, const struct avl_node *parent)
{
    node->parent_balance = (uintptr_t)parent | (node->parent_balance & balance_mask);
}

static void set_balance(struct avl_node *node, int balance)
{
    ASSERT(balance >= -1 && balance <= 1);

    node->parent_balance = (node->parent_balance & ~balance_mask) | (uintptr_t)(balance + 1);
}

static int sign_of(int side)
{
    return side ? 1 : -1;
}

/* Puts `node`, which may be NULL, into the place of `old` below `parent` (NULL: at the root). */
static void replace_child(struct avl *tree, struct avl_node *parent, const struct avl_node *old,
                          struct avl_node *node)
{
    if (!parent) {
        tree->root = node;
    } else {
        parent->link[parent->link[1] == old] = node;
    }
    if (node) {
        set_parent(node, parent);
    }
}

/* Moves `node` down to `side`. The child of `node` on the other side takes the place of `node`, and
 * is returned. */
static struct avl_node *rotate(struct avl *tree, struct avl_node *node, int side)
{
    struct avl_node *up = node->link[!side];
    struct avl_node *middle = up->link[side];

    replace_child(tree, parent_of(node), node, up);
    node->link[!side] = middle;
    if (middle) {
        set_parent(middle, node);
    }
    up->link[side] = node;
    set_parent(node, up);
    return up;
}

/* Rebalances `node`, whose subtree on side `heavy` is two levels higher than the other subtree.
 * Returns the new top of the subtree. The balance of the top is 0 exactly when the subtree has
 * become lower. */
static struct avl_node *rebalance(struct avl *tree, struct avl_node *node, int heavy)
{
    struct avl_node *child = node->link[heavy];
    int sign = sign_of(heavy);

    if (balance_of(child) != -sign) {
        bool lower = balance_of(child) == sign;

        set_balance(node, lower ? 0 : sign);
        set_balance(child, lower ? 0 : -sign);
        return rotate(tree, node, !heavy);
    }

    struct avl_node *top = child->link[!heavy];
    int balance = balance_of(top);

    rotate(tree, child, heavy);
    rotate(tree, node, !heavy);
    set_balance(node, balance == sign ? -sign : 0);
    set_balance(child, balance == -sign ? sign : 0);
    set_balance(top, 0);
    return top;
}

struct avl_node *avl_find(const struct avl *tree, const void *key, avl_cmp_fn cmp)
{
    struct avl_node *node = tree->root;

    while (node) {
        int order = cmp(key, node);

        if (order == 0) {
            return node;
        }
        node = node->link[order > 0];
    }
    return NULL;
}

struct avl_node *avl_lower_bound(const struct avl *tree, const void *key, avl_cmp_fn cmp)
{
    struct avl_node *node = tree->root;
    struct avl_node *best = NULL;

    while (node) {
        int order = cmp(key, node);

        if (order == 0) {
            return node;
        }
        if (order < 0) {
            best = node;
        }
        node = node->link[order > 0];
    }
    return best;
}

/* Walks up from a leaf that was just linked, updates the balances and rebalances the tree. */
static void retrace_insert(struct avl *tree, struct avl_node *node)
{
    struct avl_node *parent = parent_of(node);

    while (parent) {
        int side = parent->link[1] == node;
        int balance = balance_of(parent) + sign_of(side);

        if (balance < -1 || balance > 1) {
            rebalance(tree, parent, side);
            return;
        }
        set_balance(parent, balance);
        if (balance == 0) {
            return;
        }
        node = parent;
        parent = parent_of(node);
    }
}

void avl_insert(struct avl *tree, const void *key, struct avl_node *node, avl_cmp_fn cmp)
{
    struct avl_node *parent = NULL;
    struct avl_node **place = &tree->root;

    while (*place) {
        int order = cmp(key, *place);

        ASSERT(order != 0);
        parent = *place;
        place = &parent->link[order > 0];
    }
    *node = (struct avl_node){.parent_balance = (uintptr_t)parent};
    set_balance(node, 0);
    *place = node;
    retrace_insert(tree, node);
}

/* Walks up from `node`, whose subtree on `side` has become one level lower, updates the balances
 * and rebalances the tree. */
static void retrace_remove(struct avl *tree, struct avl_node *node, int side)
{
    while (node) {
        int balance = balance_of(node) - sign_of(side);

        if (balance < -1 || balance > 1) {
            node = rebalance(tree, node, !side);
        } else {
            set_balance(node, balance);
        }
        if (balance_of(node) != 0) {
            return;
        }

        struct avl_node *parent = parent_of(node);

        side = parent && parent->link[1] == node;
        node = parent;
    }
}

static struct avl_node *leftmost(struct avl_node *node)
{
    while (node && node->link[0]) {
        node = node->link[0];
    }
    return node;
}

/* Takes out a node that has two children: the successor of the node takes its place. */
static void remove_inner(struct avl *tree, struct avl_node *node)
{
    struct avl_node *next = leftmost(node->link[1]);
    struct avl_node *start = next;
    int side = 1;

    if (next != node->link[1]) {
        start = parent_of(next);
        side = 0;
        replace_child(tree, start, next, next->link[1]);
        next->link[1] = node->link[1];
        set_parent(next->link[1], next);
    }
    next->link[0] = node->link[0];
    set_parent(next->link[0], next);
    set_balance(next, balance_of(node));
    replace_child(tree, parent_of(node), node, next);
    retrace_remove(tree, start, side);
}

void avl_remove(struct avl *tree, struct avl_node *node)
{
    struct avl_node *parent = parent_of(node);

    ASSERT(parent ? parent->link[0] == node || parent->link[1] == node : tree->root == node);

    if (node->link[0] && node->link[1]) {
        remove_inner(tree, node);
    } else {
        int side = parent && parent->link[1] == node;

        replace_child(tree, parent, node, node->link[0] ? node->link[0] : node->link[1]);
        retrace_remove(tree, parent, side);
    }
    *node = (struct avl_node){0};
}

struct avl_node *avl_first(const struct avl *tree)
{
    return leftmost(tree->root);
}

struct avl_node *avl_next(const struct avl_node *node)
{
    if (node->link[1]) {
        return leftmost(node->link[1]);
    }

    struct avl_node *parent = parent_of(node);

    while (parent && parent->link[1] == node) {
        node = parent;
        parent = parent_of(node);
    }
    return parent;
}
