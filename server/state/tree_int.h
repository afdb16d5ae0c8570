/*
 * tree_int.h - the znodes as linked memory: one allocation each, children in a balanced tree.
 *
 * There is no table of paths: a look-up walks from the root, so a znode does not store its path. A
 * running hash of the path stands for it in the digest.
 */
#ifndef SERVER_STATE_TREE_INT_H
#define SERVER_STATE_TREE_INT_H

#include "base/avl.h"
#include "base/blob.h"
#include "base/logrec.h"

struct znode {
    struct avl_node sibling; /* In the parent's children. */
    struct avl children;     /* By name. */
    struct znode *parent;    /* NULL for the root and while unlinked. */
    struct blob *data;       /* One reference; NULL for null data. */
    zxid_t czxid;
    zxid_t mzxid;
    zxid_t pzxid;
    int64_t ctime_ms;
    int64_t mtime_ms;
    int64_t age_ms;     /* From which a TTL or an unused container counts; 0: neither. */
    uint64_t owner;     /* See txn.h. */
    uint64_t path_hash; /* Of the parent's path hash and the name. */
    uint64_t data_hash; /* Of the data; kept to take the old value out of the digest. */
    int32_t version;
    int32_t aversion;
    uint32_t creates;      /* Children ever created. */
    uint32_t num_children; /* Children there are. */
    uint32_t acl;          /* Index of acls_int.h; 0: open to all. */
    uint16_t name_len;     /* Bytes of `name`. */
    uint8_t name[];
};

/* A zeroed znode without parent, children and data. */
struct znode *tree_node_new(struct slice name);

/* Frees a znode that is linked nowhere and has no children. */
void tree_node_free(struct znode *node);

/* Replaces the data by the reference `take_data` and returns the old data. */
struct blob *tree_node_swap_data(struct znode *node, struct blob *take_data);

/* The hash of the znode for the digest: of the path, the data, every stored counter and the hash of
 * its ACL (0: open), never of the index of the ACL. */
uint64_t tree_node_hash(const struct znode *node, uint64_t acl_hash);

/* Links `node` below `parent`, which has no child of that name. */
void tree_link(struct znode *parent, struct znode *node);

/* Unlinks a znode, with its subtree. */
void tree_unlink(struct znode *node);

struct znode *tree_child(const struct znode *parent, struct slice name);
struct znode *tree_find(struct znode *root, struct slice path);

/* The first znode after `path` in depth-first order, whether there is one at `path` or not. */
const struct znode *tree_after(const struct znode *root, struct slice path);

/* Frees an unlinked subtree, parents before children, calling `forget` (may be NULL) on each. */
void tree_dismantle(struct znode *top, void (*forget)(void *ctx, struct znode *node), void *ctx);

#endif
