/*
 * avl.h - an intrusive balanced tree (Adelson-Velsky and Landis). The caller defines the order.
 *
 * The tree holds the children of a znode. It is sorted, so that pages and snapshots walk the
 * children in name order. It has no table that must grow: even a million children need no memory
 * beyond their nodes.
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

/* Returns <0 when `key` comes before `node`, 0 when `key` is the key of `node`, >0 otherwise. */
typedef int (*avl_cmp_fn)(const void *key, const struct avl_node *node);

/* Returns the node of that key, or NULL. */
struct avl_node *avl_find(const struct avl *tree, const void *key, avl_cmp_fn cmp);

/* Returns the first node whose key is >= `key`, or NULL. */
struct avl_node *avl_lower_bound(const struct avl *tree, const void *key, avl_cmp_fn cmp);

/* Inserts `node` under `key`; there must be no node of that key. */
void avl_insert(struct avl *tree, const void *key, struct avl_node *node, avl_cmp_fn cmp);

/* Takes `node` out; it must be in the tree. */
void avl_remove(struct avl *tree, struct avl_node *node);

/* Return the first node, and the next node in order; NULL at the end. */
struct avl_node *avl_first(const struct avl *tree);
struct avl_node *avl_next(const struct avl_node *node);

/* Give the structure that contains a node; avl_entry_const is for nodes that may only be read. */
#define avl_entry(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))
#define avl_entry_const(node, type, member) \
    ((const type *)(const void *)((const char *)(node)-offsetof(type, member)))

#endif
