/*
 * avl.h - an intrusive balanced tree (Adelson-Velsky and Landis). The caller brings the order.
 *
 * Used for the children of a znode: sorted, so that pages and snapshots walk them in name order,
 * and without a table to grow, so that one directory with a million names costs nothing extra.
 */
#ifndef BASE_AVL_H
#define BASE_AVL_H

#include <stddef.h>
#include <stdint.h>

struct avl_node {
    struct avl_node *link[2]; /* Left, right. */
    uintptr_t parent_balance; /* Parent pointer; the low two bits hold balance + 1. */
};

struct avl {
    struct avl_node *root; /* NULL when empty. */
};

/* <0 when `key` comes before `node`, 0 when it is the node's own. */
typedef int (*avl_cmp_fn)(const void *key, const struct avl_node *node);

/* The node of that key, or NULL. */
struct avl_node *avl_find(const struct avl *tree, const void *key, avl_cmp_fn cmp);

/* The first node whose key is >= `key`, or NULL. */
struct avl_node *avl_lower_bound(const struct avl *tree, const void *key, avl_cmp_fn cmp);

/* Inserts `node` under `key`; there must be no node of that key. */
void avl_insert(struct avl *tree, const void *key, struct avl_node *node, avl_cmp_fn cmp);

/* Takes `node` out; it must be in the tree. */
void avl_remove(struct avl *tree, struct avl_node *node);

/* In order; NULL at the ends. */
struct avl_node *avl_first(const struct avl *tree);
struct avl_node *avl_next(const struct avl_node *node);

/* The structure around a node; the second form is for nodes that may only be read. */
#define avl_entry(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))
#define avl_entry_const(node, type, member) \
    ((const type *)(const void *)((const char *)(node)-offsetof(type, member)))

#endif
