#include "server/state/walk.h"

#include "base/check.h"

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
    uint32_t depth = 0;

    while (znode_parent(top) != NULL) {
        top = znode_parent(top);
        depth++;
    }
    walk_init(walk, top, slice_make(NULL, 0));
    if (depth > 0) {
        walk_path_of(node, &walk->path);
    }
    walk->node = node;
    walk->depth = depth;
}

void walk_release(struct walk *walk)
{
    buf_release(&walk->path);
}

static void enter(struct walk *walk, const struct znode *child)
{
    buf_append_byte(&walk->path, '/');
    buf_append_slice(&walk->path, znode_name(child));
    ASSERT(!walk->path.overflow);
    walk->node = child;
    walk->depth++;
}

static void leave(struct walk *walk)
{
    walk->path.len -= znode_name(walk->node).len + 1;
    walk->node = znode_parent(walk->node);
    walk->depth--;
}

const struct znode *walk_next(struct walk *walk, bool descend)
{
    const struct znode *next = descend ? znode_first_child(walk->node, slice_make(NULL, 0)) : NULL;

    while (next == NULL && walk->depth > 0) {
        next = znode_next(walk->node);
        leave(walk);
    }
    if (next == NULL) {
        ASSERT(walk->path.len == walk->base_len);
        walk->node = NULL;
        return NULL;
    }
    enter(walk, next);
    return next;
}

void walk_path_of(const struct znode *node, struct buf *out)
{
    size_t len = 0;

    for (const struct znode *at = node; znode_parent(at) != NULL; at = znode_parent(at)) {
        len += znode_name(at).len + 1;
    }
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
