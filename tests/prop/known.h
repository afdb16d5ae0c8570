/* known.h - what the client of a watch knows of the tree. */
#ifndef TESTS_PROP_KNOWN_H
#define TESTS_PROP_KNOWN_H

#include "server/read/view.h"
#include "server/state/path.h"
#include "server/state/state.h"
#include "server/watch/watch.h"
#include "tests/lib/state_kit.h"
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PATH_LEN_MAX = 24,
    KNOWN_MAX = 1200
};

/* What a client knows: paths, and the zxid of their data (0 if it knows the name alone). */
struct known {
    struct {
        char path[PATH_LEN_MAX];
        zxid_t mzxid;
    } items[KNOWN_MAX];

    size_t count;
};

static inline bool is_below(const char *path, const char *top)
{
    return path_is_within(slice_str(path), slice_str(top));
}

static inline bool is_child(const char *path, const char *parent)
{
    return strcmp(path, "/") != 0 && slice_eq(path_parent(slice_str(path)), slice_str(parent));
}

static inline void known_forget_at(struct known *known, size_t i)
{
    known->items[i] = known->items[--known->count];
}

static inline void known_forget_below(struct known *known, const char *top)
{
    for (size_t i = known->count; i-- > 0;) {
        if (is_below(known->items[i].path, top)) {
            known_forget_at(known, i);
        }
    }
}

/* The index of the path, or the end. */
static inline size_t known_find(const struct known *known, const char *path)
{
    size_t i = 0;

    while (i < known->count && strcmp(known->items[i].path, path) != 0) {
        i++;
    }
    return i;
}

static inline void known_append(struct known *known, struct slice path, zxid_t mzxid)
{
    assert_true(known->count < KNOWN_MAX);
    snprintf(known->items[known->count].path, PATH_LEN_MAX, "%.*s", (int)path.len,
             (const char *)path.data);
    known->items[known->count++].mzxid = mzxid;
}

/* Reads what a client of this kind would read; returns the zxid of the state. */
static inline zxid_t known_read(struct view *view, enum watch_kind kind, const char *path,
                                struct known *known)
{
    const struct state *state = view_read(view);
    const struct znode *node = kit_find(state, path);
    bool children = kind == WATCH_CHILDREN || kind == WATCH_PERSISTENT;
    struct stat_view stat;
    struct walk walk;

    known->count = 0;
    if (node != NULL) {
        walk_init_at(&walk, node);
        for (const struct znode *at = node; at != NULL; at = walk_next(&walk, true)) {
            struct slice where = at == node ? slice_str(path) : buf_slice(&walk.path);

            if (!path_is_within(where, slice_str(path))) {
                break;
            }
            znode_stat(at, &stat);
            if (at == node || kind == WATCH_RECURSIVE) {
                known_append(known, where, kind == WATCH_CHILDREN ? 0 : stat.mzxid);
            } else if (children && znode_parent(at) == node) {
                known_append(known, where, 0);
            }
        }
        walk_release(&walk);
    }
    zxid_t zxid = state_applied(state);

    view_read_done(view);
    return zxid;
}

static inline int by_path(const void *left, const void *right)
{
    return strcmp(left, right);
}

static inline bool known_is_same(struct known *a, struct known *b)
{
    qsort(a->items, a->count, sizeof(a->items[0]), by_path);
    qsort(b->items, b->count, sizeof(b->items[0]), by_path);
    if (a->count != b->count) {
        return false;
    }
    for (size_t i = 0; i < a->count; i++) {
        if (strcmp(a->items[i].path, b->items[i].path) != 0 ||
            a->items[i].mzxid != b->items[i].mzxid) {
            return false;
        }
    }
    return true;
}

#endif
