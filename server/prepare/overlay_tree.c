/* Whole subtrees, and quotas on them. */
#include "base/check.h"
#include "server/prepare/overlay_int.h"
#include "server/state/path.h"
#include "server/state/walk.h"

static bool has_entry(const struct overlay *overlay, struct slice path)
{
    return overlay_find(overlay, OVERLAY_NODE, path) != NULL;
}

/* Adds znodes of the tree that no request in flight has changed. */
static size_t add_from_tree(const struct overlay *overlay, const struct znode *top,
                            struct slice path, size_t count_max, struct buf *paths)
{
    struct walk walk;
    size_t count = 0;

    walk_init(&walk, top, path);
    for (const struct znode *node = top; node != NULL && count <= count_max;
         node = walk_next(&walk, true)) {
        if (!has_entry(overlay, buf_slice(&walk.path))) {
            overlay_put_path(paths, buf_slice(&walk.path));
            count++;
        }
    }
    walk_release(&walk);
    return count;
}

/* Whether it is the entry of a znode at or below `top` that will exist. */
static bool is_within(const struct overlay_entry *entry, struct slice top)
{
    return entry->kind == OVERLAY_NODE && entry->value.node.exists &&
           path_is_within(overlay_name(entry), top);
}

size_t overlay_subtree(const struct overlay *overlay, const struct state *state, struct slice top,
                       size_t count_max, struct buf *paths)
{
    ASSERT(top.len > 1);
    const struct znode *node = state_find(state, top);
    size_t count = node != NULL ? add_from_tree(overlay, node, top, count_max, paths) : 0;

    list_for_each (it, &overlay->order) {
        const struct overlay_entry *entry = list_entry(it, struct overlay_entry, order);

        if (count > count_max) {
            break;
        }
        if (is_within(entry, top)) {
            overlay_put_path(paths, overlay_name(entry));
            count++;
        }
    }
    return count;
}

/* ---- Quotas. ---- */

void overlay_quota(const struct overlay *overlay, const struct state *state, struct slice path,
                   struct overlay_quota *ret_quota)
{
    const struct overlay_entry *entry = overlay_find(overlay, OVERLAY_QUOTA, path);
    const struct state_quota *applied = entry == NULL ? state_quota_find(state, path) : NULL;

    *ret_quota = (struct overlay_quota){.exists = applied != NULL};
    if (entry != NULL) {
        *ret_quota = entry->value.quota;
    } else if (applied != NULL) {
        ret_quota->count = applied->count;
        ret_quota->bytes = applied->bytes;
        ret_quota->count_hard = applied->count_hard;
        ret_quota->bytes_hard = applied->bytes_hard;
    }
}

void overlay_put_quota(struct overlay *overlay, struct slice path, zxid_t zxid,
                       const struct overlay_quota *quota)
{
    const union overlay_value value = {.quota = *quota};

    overlay_set(overlay, OVERLAY_QUOTA, path, zxid, &value);
}

bool overlay_has_quotas(const struct overlay *overlay, const struct state *state)
{
    return map_count(&overlay->entries[OVERLAY_QUOTA]) > 0 ||
           state_quota_after(state, slice_make(NULL, 0)) != NULL;
}

void overlay_usage(const struct overlay *overlay, const struct state *state, struct slice top,
                   uint64_t *ret_count, uint64_t *ret_bytes)
{
    const struct znode *first = state_find(state, top);
    struct walk walk;

    *ret_count = 0;
    *ret_bytes = 0;
    if (first != NULL) {
        walk_init(&walk, first, top);
        for (const struct znode *node = first; node != NULL; node = walk_next(&walk, true)) {
            if (!has_entry(overlay, buf_slice(&walk.path))) {
                *ret_count += 1;
                *ret_bytes += blob_slice(znode_data(node)).len;
            }
        }
        walk_release(&walk);
    }
    list_for_each (it, &overlay->order) {
        const struct overlay_entry *entry = list_entry(it, struct overlay_entry, order);

        if (is_within(entry, top)) {
            *ret_count += 1;
            *ret_bytes += entry->value.node.stat.data_length;
        }
    }
}
