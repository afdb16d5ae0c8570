#include "base/hash.h"
#include "server/state/state_int.h"

/* Seeds keep null data, empty data and names apart in the digest. */
enum {
    SEED_NULL = 0x6e756c6c,
    SEED_DATA = 0x64617461
};

static struct znode *of_sibling(struct avl_node *node)
{
    return node != NULL ? avl_entry(node, struct znode, sibling) : NULL;
}

static int name_cmp(const void *key, const struct avl_node *node)
{
    const struct znode *znode = avl_entry_const(node, struct znode, sibling);

    return slice_cmp(*(const struct slice *)key, znode_name(znode));
}

static bool is_counted(const struct znode *node)
{
    return (node->num_children == 0) == (node->children.root == NULL);
}

static uint64_t data_hash(const struct blob *data)
{
    return data == NULL ? SEED_NULL : hash64(SEED_DATA, blob_slice(data));
}

struct znode *tree_node_new(struct slice name)
{
    ASSERT(name.len <= STATE_NAME_MAX);
    size_t size = offsetof(struct znode, name) + name.len;
    struct znode *node = mem_alloc(max_size(size, sizeof(*node)));

    memset(node, 0, offsetof(struct znode, name));
    if (name.len > 0) {
        memcpy(node->name, name.data, name.len);
    }
    node->name_len = (uint16_t)name.len;
    node->data_hash = SEED_NULL;
    node->path_hash = hash64(0, name);
    return node;
}

void tree_node_free(struct znode *node)
{
    ASSERT(node->children.root == NULL);

    blob_unref(node->data);
    mem_free(node);
}

struct blob *tree_node_swap_data(struct znode *node, struct blob *take_data)
{
    struct blob *old = node->data;

    node->data = take_data;
    node->data_hash = data_hash(take_data);
    return old;
}

uint64_t tree_node_hash(const struct znode *node, uint64_t acl_hash)
{
    uint64_t hash = hash64_mix(node->path_hash, node->data_hash);

    hash = hash64_mix(hash, node->czxid);
    hash = hash64_mix(hash, node->mzxid);
    hash = hash64_mix(hash, node->pzxid);
    hash = hash64_mix(hash, (uint64_t)node->ctime_ms);
    hash = hash64_mix(hash, (uint64_t)node->mtime_ms);
    hash = hash64_mix(hash, (uint64_t)node->age_ms);
    hash = hash64_mix(hash, node->owner);
    hash = hash64_mix(hash, (uint64_t)(uint32_t)node->version << 32 | (uint32_t)node->aversion);
    hash = hash64_mix(hash, (uint64_t)node->creates << 32 | node->num_children);
    return hash64_mix(hash, acl_hash);
}

void tree_link(struct znode *parent, struct znode *node)
{
    ASSERT(node->parent == NULL && node->children.root == NULL);
    struct slice name = znode_name(node);

    avl_insert(&parent->children, &name, &node->sibling, name_cmp);
    node->parent = parent;
    node->path_hash = hash64(parent->path_hash, name);
    parent->num_children++;
    ASSERT(is_counted(parent));
}

void tree_unlink(struct znode *node)
{
    struct znode *parent = node->parent;

    ASSERT(parent != NULL && parent->num_children > 0);
    avl_remove(&parent->children, &node->sibling);
    parent->num_children--;
    node->parent = NULL;
    ASSERT(is_counted(parent));
}

struct znode *tree_child(const struct znode *parent, struct slice name)
{
    return of_sibling(avl_find(&parent->children, &name, name_cmp));
}

struct znode *tree_find(struct znode *root, struct slice path)
{
    struct znode *node = root;
    size_t pos = 0;

    while (node != NULL) {
        struct slice name = path_component(path, &pos);

        if (name.len == 0) {
            break;
        }
        node = tree_child(node, name);
    }
    return node;
}

const struct znode *znode_skip(const struct znode *node)
{
    while (node != NULL) {
        const struct znode *next = node->parent != NULL ? znode_next(node) : NULL;

        if (next != NULL) {
            return next;
        }
        node = node->parent;
    }
    return NULL;
}

const struct znode *tree_after(const struct znode *root, struct slice path)
{
    const struct znode *node = root;
    size_t pos = 0;

    for (;;) {
        struct slice name = path_component(path, &pos);

        if (name.len == 0) {
            const struct znode *first = of_sibling(avl_first(&node->children));
            return first != NULL ? first : znode_skip(node);
        }
        const struct znode *at = of_sibling(avl_lower_bound(&node->children, &name, name_cmp));

        if (at == NULL) {
            return znode_skip(node);
        }
        if (!slice_eq(znode_name(at), name)) {
            return at;
        }
        node = at;
    }
}

static void stack_push(struct znode **stack, struct znode *node)
{
    if (node != NULL) {
        /* The subtree is being freed, so its parent pointers are not needed any more. Here they
         * link the entries of the stack. */
        node->parent = *stack;
        *stack = node;
    }
}

void tree_dismantle(struct znode *top, void (*forget)(void *ctx, struct znode *node), void *ctx)
{
    ASSERT(top->parent == NULL && top->sibling.link[0] == NULL && top->sibling.link[1] == NULL);
    struct znode *stack = NULL;
    struct znode *node = top;

    while (node != NULL) {
        stack_push(&stack, of_sibling(node->sibling.link[0]));
        stack_push(&stack, of_sibling(node->sibling.link[1]));
        stack_push(&stack, of_sibling(node->children.root));
        node->children.root = NULL;
        if (forget != NULL) {
            forget(ctx, node);
        }
        tree_node_free(node);
        node = stack;
        stack = node != NULL ? node->parent : NULL;
    }
}

const struct znode *znode_child(const struct znode *parent, struct slice name)
{
    return tree_child(parent, name);
}

const struct znode *znode_first_child(const struct znode *parent, struct slice after)
{
    if (after.len == 0) {
        return of_sibling(avl_first(&parent->children));
    }
    const struct znode *at = of_sibling(avl_lower_bound(&parent->children, &after, name_cmp));

    return at != NULL && slice_eq(znode_name(at), after) ? znode_next(at) : at;
}

const struct znode *znode_next(const struct znode *child)
{
    ASSERT(child->parent != NULL);

    return of_sibling(avl_next(&child->sibling));
}

const struct znode *znode_parent(const struct znode *node)
{
    return node->parent;
}

struct slice znode_name(const struct znode *node)
{
    return slice_make(node->name, node->name_len);
}

struct blob *znode_data(const struct znode *node)
{
    return node->data;
}

uint64_t znode_owner(const struct znode *node)
{
    return node->owner;
}

int64_t znode_age_ms(const struct znode *node)
{
    ASSERT(node->age_ms >= 0 && (node->age_ms == 0 || owner_is_reaped(node->owner)));

    return node->age_ms;
}

uint32_t znode_creates(const struct znode *node)
{
    return node->creates;
}

uint32_t znode_acl(const struct znode *node)
{
    return node->acl;
}

void znode_stat(const struct znode *node, struct stat_view *ret_stat)
{
    *ret_stat = (struct stat_view){
        .czxid = node->czxid,
        .mzxid = node->mzxid,
        .pzxid = node->pzxid,
        .ctime = node->ctime_ms,
        .mtime = node->mtime_ms,
        .version = node->version,
        .cversion = stat_cversion(node->creates, node->num_children),
        .aversion = node->aversion,
        .container = owner_is_container(node->owner),
        .ttl_ms = owner_is_ttl(node->owner) ? (int64_t)(node->owner & OWNER_TTL_MASK) : 0,
        .ephemeral_owner = owner_is_session(node->owner) ? node->owner : 0,
        .data_length = node->data != NULL ? node->data->len : 0,
        .num_children = node->num_children,
    };
}

uint32_t znode_depth(const struct znode *node)
{
    uint32_t depth = 0;

    for (; node->parent != NULL; node = node->parent) {
        depth++;
    }
    return depth;
}

size_t tree_path_len(const struct znode *node)
{
    size_t len = 0;

    for (; node->parent != NULL; node = node->parent) {
        len += (size_t)node->name_len + 1;
    }
    return len;
}

/* ---- Walks. ---- */

void walk_init(struct walk *walk, const struct znode *top, struct slice base)
{
    ASSERT(top != NULL && (base.len != 1 || base.data[0] != '/'));

    *walk = (struct walk){.top = top, .node = top, .base_len = base.len};
    buf_init(&walk->path, STATE_PATH_MAX + 1);
    buf_append_slice(&walk->path, base);
}

void walk_init_at(struct walk *walk, const struct znode *node)
{
    const struct znode *top = node;

    while (top->parent != NULL) {
        top = top->parent;
    }
    walk_init(walk, top, slice_make(NULL, 0));
    if (node != top) {
        walk_path_of(node, &walk->path);
    }
    walk->node = node;
    walk->depth = znode_depth(node);
}

void walk_release(struct walk *walk)
{
    buf_release(&walk->path);
}

const struct znode *walk_next(struct walk *walk, bool descend)
{
    const struct znode *next = descend ? znode_first_child(walk->node, slice_make(NULL, 0)) : NULL;

    while (next == NULL && walk->depth > 0) {
        next = znode_next(walk->node);
        walk->path.len -= znode_name(walk->node).len + 1;
        walk->node = walk->node->parent;
        walk->depth--;
    }
    if (next == NULL) {
        ASSERT(walk->path.len == walk->base_len);
        walk->node = NULL;
        return NULL;
    }
    buf_append_byte(&walk->path, '/');
    buf_append_slice(&walk->path, znode_name(next));
    ASSERT(!walk->path.overflow);
    walk->node = next;
    walk->depth++;
    return next;
}

void walk_path_of(const struct znode *node, struct buf *out)
{
    size_t len = tree_path_len(node);

    if (len == 0) {
        buf_append_byte(out, '/');
        return;
    }
    uint8_t *end = buf_reserve(out, len);

    if (end == NULL) {
        return;
    }
    end += len;
    for (const struct znode *at = node; znode_parent(at) != NULL; at = znode_parent(at)) {
        struct slice name = znode_name(at);

        end -= name.len;
        memcpy(end, name.data, name.len);
        *--end = '/';
    }
    out->len += len;
}
