#include "server/state/state_int.h"

/* The old version of a znode that a transaction has changed since the cut began. */
struct state_cut_saved {
    struct avl_node order;
    struct state_cut_znode znode; /* Has its own references; its path is `bytes`. */
    uint8_t bytes[];
};

static struct state_cut_saved *of_order(struct avl_node *order)
{
    return order != NULL ? avl_entry(order, struct state_cut_saved, order) : NULL;
}

static int order_cmp(const void *key, const struct avl_node *node)
{
    const struct slice *path = key;
    const struct state_cut_saved *saved = avl_entry_const(node, struct state_cut_saved, order);

    return path_order(*path, saved->znode.path);
}

static size_t cost_of(const struct state_cut_znode *znode)
{
    return sizeof(struct state_cut_saved) + znode->path.len + blob_slice(znode->data).len +
           blob_slice(znode->acl).len;
}

static void saved_free(struct state_cut_saved *saved)
{
    blob_unref(saved->znode.data);
    blob_unref(saved->znode.acl);
    mem_free(saved);
}

/* ---- Begin and end. ---- */

void state_cut_begin(struct state_cut *cut, struct state *state, struct slice path,
                     size_t bytes_max)
{
    ASSERT(tree_find(state->root, path) != NULL);

    *cut = (struct state_cut){.zxid = state->applied, .bytes_max = bytes_max};
    buf_init(&cut->top, STATE_PATH_MAX);
    buf_append_slice(&cut->top, path);
    buf_init(&cut->at, STATE_PATH_MAX);
    list_push_back(&state->cuts, &cut->node);
}

void state_cut_end(struct state_cut *cut)
{
    ASSERT(cut->state == NULL);

    list_remove(&cut->node);
}

void state_cut_release(struct state_cut *cut)
{
    ASSERT(cut->state == NULL && list_empty(&cut->node));
    struct avl_node *order = NULL;

    while ((order = avl_first(&cut->saved)) != NULL) {
        avl_remove(&cut->saved, order);
        saved_free(of_order(order));
    }
    buf_release(&cut->top);
    buf_release(&cut->at);
}

void state_cuts_lose(struct state *state)
{
    while (!list_empty(&state->cuts)) {
        struct state_cut *cut = list_first(&state->cuts, struct state_cut, node);

        list_remove(&cut->node);
        if (cut->fate == STATE_CUT_GOOD) {
            cut->fate = STATE_CUT_LOST; /* A cut that was overrun before keeps that fate. */
        }
    }
}

/* ---- Transactions. ---- */

/* Whether the path is in the subtree and the reader has not passed it. */
static bool is_ahead(const struct state_cut *cut, struct slice path)
{
    struct slice at = buf_slice(&cut->at);

    if (!path_is_within(path, buf_slice(&cut->top))) {
        return false;
    }
    if (at.len == 0) {
        return true;
    }
    return path_order(path, at) > 0 && !(cut->pruned && path_is_within(path, at));
}

/* Whether the znode is unchanged since the cut: a change of data or children sets mzxid or pzxid
 * above the zxid of the cut. A change of the ACL alone leaves the result true. This does no harm:
 * the old version was saved before that change, and save() keeps a version that it already has. */
static bool is_as_it_was(const struct state_cut *cut, const struct znode *node)
{
    return node->mzxid <= cut->zxid && node->pzxid <= cut->zxid;
}

static void save(const struct state *state, struct state_cut *cut, const struct znode *node,
                 struct slice path)
{
    struct state_cut_znode znode = {.path = path,
                                    .owner = node->owner,
                                    .data = node->data,
                                    .acl = acls_blob(&state->acls, node->acl)};
    size_t bytes = cost_of(&znode);

    ASSERT(node->czxid <= cut->zxid);
    if (avl_find(&cut->saved, &path, order_cmp) != NULL) {
        return;
    }
    if (cut->saved_bytes + bytes > cut->bytes_max) {
        cut->fate = STATE_CUT_OVERRUN;
        return;
    }
    struct state_cut_saved *saved = mem_alloc(sizeof(*saved) + path.len);

    memcpy(saved->bytes, path.data, path.len);
    znode_stat(node, &znode.stat);
    saved->znode = znode;
    saved->znode.path = slice_make(saved->bytes, path.len);
    (void)blob_ref(znode.data);
    (void)blob_ref(znode.acl);
    avl_insert(&cut->saved, &path, &saved->order, order_cmp);
    cut->saved_bytes += bytes;
}

void cuts_save(struct state *state, const struct znode *node, struct slice path)
{
    list_for_each_entry (struct state_cut, cut, node, &state->cuts) {
        ASSERT(cut->state == NULL); /* No reader is in a slice now. */
        if (cut->fate == STATE_CUT_GOOD && is_as_it_was(cut, node) && is_ahead(cut, path)) {
            save(state, cut, node, path);
        }
    }
}

/* ---- The reader. ---- */

/* Returns the znode at which the next slice begins: the top at first, then the first znode after
 * `at` that is not skipped; NULL at the end. */
static const struct znode *first_live(const struct state_cut *cut, const struct state *state)
{
    struct slice at = buf_slice(cut->at.len > 0 ? &cut->at : &cut->top);
    const struct znode *node = tree_find(state->root, at);

    if (node != NULL && cut->at.len == 0) {
        return node;
    }
    return node != NULL && cut->pruned ? znode_skip(node) : tree_after(state->root, at);
}

static struct slice live_path(const struct state_cut *cut)
{
    return cut->walk.depth == 0 ? slice_str("/") : buf_slice(&cut->walk.path);
}

/* Ends the walk when it leaves the subtree. The walk itself covers the whole tree. */
static void stop_outside(struct state_cut *cut)
{
    if (cut->live != NULL && !path_is_within(live_path(cut), buf_slice(&cut->top))) {
        cut->live = NULL;
    }
}

void state_cut_enter(struct state_cut *cut, const struct state *state)
{
    ASSERT(cut->fate == STATE_CUT_GOOD && cut->state == NULL);

    cut->state = state;
    cut->consumed = false;
    cut->live = first_live(cut, state);
    cut->walking = cut->live != NULL;
    if (cut->walking) {
        walk_init_at(&cut->walk, cut->live);
        stop_outside(cut);
    }
}

static void drop_current(struct state_cut *cut)
{
    if (cut->current != NULL) {
        saved_free(cut->current);
        cut->current = NULL;
    }
}

void state_cut_leave(struct state_cut *cut)
{
    drop_current(cut);
    if (cut->walking) {
        walk_release(&cut->walk);
    }
    ASSERT(cut->state != NULL);
    cut->state = NULL;
    cut->live = NULL;
}

static bool is_newer(const struct state_cut *cut)
{
    return cut->live->czxid > cut->zxid;
}

static void move_to(struct state_cut *cut, struct slice path)
{
    ASSERT(cut->at.len == 0 || path_order(path, buf_slice(&cut->at)) > 0);

    buf_clear(&cut->at);
    buf_append_slice(&cut->at, path);
    cut->pruned = false;
    ASSERT(!cut->at.overflow);
}

/* Hands out a saved znode. `is_live`: the tree has a znode at the same path now. */
static void take_saved(struct state_cut *cut, struct state_cut_saved *saved, bool is_live,
                       struct state_cut_znode *ret_znode)
{
    avl_remove(&cut->saved, &saved->order);
    cut->saved_bytes -= cost_of(&saved->znode);
    cut->current = saved;
    *ret_znode = saved->znode;
    move_to(cut, saved->znode.path);
    if (is_live) {
        cut->consumed = true;
        cut->descend = !is_newer(cut);
    }
}

static enum state_cut_step take_live(struct state_cut *cut, struct state_cut_znode *ret_znode)
{
    const struct znode *node = cut->live;

    move_to(cut, live_path(cut));
    cut->consumed = true;
    cut->descend = !is_newer(cut);
    if (is_newer(cut)) {
        return STATE_CUT_PASSED;
    }
    ASSERT(is_as_it_was(cut, node));
    *ret_znode = (struct state_cut_znode){.path = buf_slice(&cut->at),
                                          .owner = node->owner,
                                          .data = node->data,
                                          .acl = acls_blob(&cut->state->acls, node->acl)};
    znode_stat(node, &ret_znode->stat);
    return STATE_CUT_ZNODE;
}

enum state_cut_step state_cut_next(struct state_cut *cut, struct state_cut_znode *ret_znode)
{
    struct state_cut_saved *saved = of_order(avl_first(&cut->saved));
    int order = 1;

    drop_current(cut);
    if (cut->consumed) {
        cut->live = walk_next(&cut->walk, cut->descend);
        cut->consumed = false;
        stop_outside(cut);
    }
    if (saved != NULL) {
        order = cut->live != NULL ? path_order(saved->znode.path, live_path(cut)) : -1;
    } else if (cut->live == NULL) {
        return STATE_CUT_END;
    }
    if (order <= 0) {
        take_saved(cut, saved, order == 0, ret_znode);
        return STATE_CUT_ZNODE;
    }
    return take_live(cut, ret_znode);
}

void state_cut_prune(struct state_cut *cut)
{
    struct avl_node *order = NULL;

    ASSERT(cut->state != NULL && cut->at.len > 0);
    cut->pruned = true;
    cut->descend = false;
    while ((order = avl_first(&cut->saved)) != NULL) {
        struct state_cut_saved *saved = of_order(order);

        if (!path_is_within(saved->znode.path, buf_slice(&cut->at))) {
            break;
        }
        avl_remove(&cut->saved, order);
        cut->saved_bytes -= cost_of(&saved->znode);
        saved_free(saved);
    }
}
