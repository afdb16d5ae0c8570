/*
 * walk.h - visits a subtree in name order and knows the path of each znode.
 *
 * A loop over parent pointers, never recursion, because clients determine the depth of the tree.
 */
#ifndef SERVER_STATE_WALK_H
#define SERVER_STATE_WALK_H

#include "base/buf.h"
#include "server/state/state.h"

struct walk {
    const struct znode *top;
    const struct znode *node; /* The current one; NULL at the end. */
    struct buf path;          /* Its path: base, then "/" and a name for each level below. */
    size_t base_len;
    uint32_t depth; /* Levels below the top. */
};

/* Starts at `top` with the path `base`: empty for the root, and for relative paths. */
void walk_init(struct walk *walk, const struct znode *top, struct slice base);

/* Starts a walk of the whole tree at `node`. */
void walk_init_at(struct walk *walk, const struct znode *node);
void walk_release(struct walk *walk);

/* Moves to the next znode, below the current one only with `descend`. NULL at the end. */
const struct znode *walk_next(struct walk *walk, bool descend);

/* Appends the full path of a znode. */
void walk_path_of(const struct znode *node, struct buf *out);

#endif
