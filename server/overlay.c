#include "server/overlay.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/wire.h"
#include "server/state/path.h"
#include "server/state/walk.h"

enum {
    UNDO_CAP_MIN = 16
};

void overlay_init(struct overlay *overlay)
{
    *overlay = (struct overlay){0};
    map_init(&overlay->entries);
    list_init(&overlay->order);
}

void overlay_release(struct overlay *overlay)
{
    overlay_clear(overlay);
    map_release(&overlay->entries);
    mem_free(overlay->undo);
}

static struct slice path_of(const struct overlay_entry *entry)
{
    return slice_make(entry->path, entry->path_len);
}

static void drop(struct overlay *overlay, struct overlay_entry *entry)
{
    void *removed = map_remove(&overlay->entries, path_of(entry));

    ASSERT(removed == entry);
    list_remove(&entry->order);
    mem_free(entry);
}

void overlay_clear(struct overlay *overlay)
{
    ASSERT(overlay->undo_count == 0);

    while (!list_empty(&overlay->order)) {
        drop(overlay, list_first(&overlay->order, struct overlay_entry, order));
    }
}

size_t overlay_count(const struct overlay *overlay)
{
    return map_count(&overlay->entries);
}

static void from_tree(const struct znode *znode, struct overlay_node *ret_node)
{
    *ret_node = (struct overlay_node){.exists = znode != NULL};
    if (znode != NULL) {
        znode_stat(znode, &ret_node->stat);
        ret_node->owner = znode_owner(znode);
        ret_node->creates = znode_creates(znode);
    }
}

void overlay_get(const struct overlay *overlay, const struct state *state, struct slice path,
                 struct overlay_node *ret_node)
{
    const struct overlay_entry *entry = map_get(&overlay->entries, path);

    if (entry != NULL) {
        *ret_node = entry->node;
    } else {
        from_tree(state_find(state, path), ret_node);
    }
}

static struct overlay_entry *entry_new(struct overlay *overlay, struct slice path)
{
    ASSERT(path.len <= STATE_PATH_MAX);
    struct overlay_entry *entry = mem_alloc(sizeof(*entry) + path.len);

    *entry = (struct overlay_entry){.path_len = (uint16_t)path.len};
    memcpy(entry->path, path.data, path.len);
    list_init(&entry->order);
    map_put(&overlay->entries, path_of(entry), entry);
    return entry;
}

static void remember(struct overlay *overlay, struct overlay_entry *entry)
{
    if (overlay->undo_count == overlay->undo_cap) {
        overlay->undo_cap = overlay->undo_cap > 0 ? overlay->undo_cap * 2 : UNDO_CAP_MIN;
        overlay->undo = mem_realloc(overlay->undo, overlay->undo_cap * sizeof(*overlay->undo));
    }
    overlay->undo[overlay->undo_count++] =
        (struct overlay_undo){.entry = entry, .zxid = entry->zxid, .node = entry->node};
}

void overlay_put(struct overlay *overlay, struct slice path, zxid_t zxid,
                 const struct overlay_node *node)
{
    ASSERT(zxid != 0);
    struct overlay_entry *entry = map_get(&overlay->entries, path);

    if (entry == NULL) {
        entry = entry_new(overlay, path);
    }
    remember(overlay, entry);
    entry->zxid = zxid;
    entry->node = *node;
    entry->node.stat.cversion = stat_cversion(node->creates, node->stat.num_children);
    list_remove(&entry->order);
    list_push_back(&overlay->order, &entry->order);
}

void overlay_commit(struct overlay *overlay)
{
    overlay->undo_count = 0;
}

void overlay_rollback(struct overlay *overlay)
{
    while (overlay->undo_count > 0) {
        const struct overlay_undo *undo = &overlay->undo[--overlay->undo_count];

        if (undo->zxid == 0) {
            drop(overlay, undo->entry);
            continue;
        }
        /* It stays at the end of the order: dropped late, never early. */
        undo->entry->zxid = undo->zxid;
        undo->entry->node = undo->node;
    }
}

void overlay_applied(struct overlay *overlay, zxid_t zxid)
{
    ASSERT(overlay->undo_count == 0);

    while (!list_empty(&overlay->order)) {
        struct overlay_entry *entry = list_first(&overlay->order, struct overlay_entry, order);

        if (entry->zxid > zxid) {
            break;
        }
        drop(overlay, entry);
    }
}

static void put_path(struct buf *paths, struct slice path)
{
    wire_put_u16(paths, (uint16_t)path.len);
    wire_put_raw(paths, path);
}

/* What the tree has and no request in flight has deleted. */
static size_t add_from_tree(const struct overlay *overlay, const struct znode *top,
                            struct slice path, size_t count_max, struct buf *paths)
{
    struct walk walk;
    size_t count = 0;

    walk_init(&walk, top, path);
    for (const struct znode *node = top; node != NULL && count <= count_max;
         node = walk_next(&walk, true)) {
        const struct overlay_entry *entry = map_get(&overlay->entries, buf_slice(&walk.path));

        if (entry == NULL || entry->node.exists) {
            put_path(paths, buf_slice(&walk.path));
            count++;
        }
    }
    walk_release(&walk);
    return count;
}

size_t overlay_subtree(const struct overlay *overlay, const struct state *state, struct slice top,
                       size_t count_max, struct buf *paths)
{
    ASSERT(top.len > 1);
    const struct znode *node = state_find(state, top);
    size_t count = node != NULL ? add_from_tree(overlay, node, top, count_max, paths) : 0;

    /* What only requests in flight have created. */
    list_for_each (it, &overlay->order) {
        const struct overlay_entry *entry = list_entry(it, struct overlay_entry, order);
        struct slice path = path_of(entry);

        if (count > count_max) {
            break;
        }
        if (entry->node.exists && path_is_within(path, top) && state_find(state, path) == NULL) {
            put_path(paths, path);
            count++;
        }
    }
    return count;
}
