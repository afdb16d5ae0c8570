/* The difference between the state that a client has seen at `since` and the tree: the events that
 * a watch would have got, as far as the zxids of the znodes show them. */
#include "server/state/path.h"
#include "server/watch/subscribe_int.h"

#include <stdlib.h>

struct diff {
    struct window *window;
    const struct state *state; /* While its lock is held. */
    const struct missed_by *by;
    struct missed *missed; /* `upto` is the zxid of the first slice. */
    uint32_t visited;      /* Znodes visited so far. */
    uint32_t slices;       /* Slices after the first one; each is one hold of the lock. */
    uint32_t slice_nodes;  /* Maximum number of znodes in one slice. */
    struct buf next;       /* Path at which the walk continues; at first the path of the watch. */
    bool done;
    bool too_much; /* A bound was reached, or the state became unreadable. */
};

/* ---- Events. ---- */

/* Adds an event, with stat and data of `node` (NULL: without). The zxid of the event is at most
 * `upto`. */
static void add_event(struct diff *diff, enum watch_event_type type, zxid_t zxid, struct slice path,
                      const struct znode *node)
{
    struct missed *missed = diff->missed;
    size_t bytes = missed->event_count * sizeof(struct diff_event) + missed->paths.len + path.len;

    if (bytes > SUBSCRIBE_DIFF_BYTES_MAX) {
        diff->too_much = true;
        return;
    }
    MEM_GROW(missed->events, missed->event_count, missed->event_cap, MEM_ITEMS_MAX);
    struct diff_event *event = &missed->events[missed->event_count];

    *event = (struct diff_event){.zxid = min_u64(zxid, missed->upto),
                                 .order = missed->event_count++,
                                 .type = type,
                                 .path_at = missed->paths.len,
                                 .path_len = path.len,
                                 .change = {.type = TXN_SET}};
    buf_append_slice(&missed->paths, path);
    ASSERT(!missed->paths.overflow);
    if (type == WATCH_CREATED || type == WATCH_DELETED) {
        event->change.type = type == WATCH_CREATED ? TXN_CREATE : TXN_DELETE;
    }
    if (node != NULL) {
        state_shown_stat(diff->state, node, &event->change.stat);
        event->change.session = event->change.stat.ephemeral_owner;
        event->change.data = state_shown_data(diff->state, node);
    }
}

static bool may_read(const struct diff *diff, const struct state *state, const struct znode *node)
{
    return watch_may_read(diff->by->owner, state_acl_blob(state, znode_acl(node)));
}

/* Whether the owner may learn about a znode that does not exist. If the window has not seen its
 * deletion, its last ACL is unknown: then returns `unknown`. `unknown` is true only for an event
 * that shows no more than the absence of the znode, which any client can find out. */
static bool might_read(const struct diff *diff, struct slice path, bool unknown)
{
    struct blob *acl = NULL;
    bool readable = unknown;

    if (window_acl(diff->window, path, &acl)) {
        readable = watch_may_read(diff->by->owner, acl);
    }
    blob_unref(acl);
    return readable;
}

/* ---- One znode: the rules of setWatches for one-shot watches, and their analogue for others. ----
 */

/* Returns the deepest znode on the path that exists. `*ret_missing` is the name of the first
 * missing znode, or empty. */
static const struct znode *deepest(const struct state *state, struct slice path,
                                   struct slice *ret_missing)
{
    const struct znode *node = state_find(state, slice_str("/"));
    size_t pos = 0;

    for (;;) {
        *ret_missing = path_component(path, &pos);
        const struct znode *child = ret_missing->len > 0 ? znode_child(node, *ret_missing) : NULL;

        if (child == NULL) {
            return node;
        }
        node = child;
    }
}

/* Adds the event for a znode that does not exist. If the znode existed at `since`, its deepest
 * remaining ancestor has lost a child later. So the pzxid of this ancestor is above `since`, and at
 * this pzxid the znode was certainly gone. With a lower pzxid the znode did not exist at `since`,
 * and there is no event. A data or child watch always gets the event, because its client is
 * taken to have seen the znode. */
static void see_absent(struct diff *diff, const struct state *state)
{
    const struct missed_by *by = diff->by;
    bool was_there = by->kind == WATCH_DATA || by->kind == WATCH_CHILDREN;
    struct stat_view stat;
    struct slice missing;

    znode_stat(deepest(state, by->path, &missing), &stat);
    bool has_changed = stat.pzxid > by->since;

    if (has_changed || was_there) {
        zxid_t zxid = has_changed ? stat.pzxid : diff->missed->upto;

        if (might_read(diff, by->path, true)) {
            add_event(diff, WATCH_DELETED, zxid, by->path, NULL);
        }
        diff->missed->used_up = watch_is_one_shot(by->kind);
    }
}

/* Adds the event that uses a one-shot watch up, if there is such an event. */
static void see_one_shot(struct diff *diff, const struct znode *node, bool readable)
{
    const struct missed_by *by = diff->by;
    enum watch_event_type type = WATCH_DATA_CHANGED;
    struct stat_view stat;

    znode_stat(node, &stat);
    zxid_t zxid = stat.mzxid;

    if (by->kind == WATCH_CHILDREN) {
        type = WATCH_CHILDREN_CHANGED;
        zxid = stat.pzxid;
    } else if (by->kind == WATCH_EXISTS && stat.czxid > by->since) {
        type = WATCH_CREATED;
        zxid = stat.czxid;
    }
    diff->missed->used_up = zxid > by->since;
    if (zxid > by->since && readable) {
        add_event(diff, type, zxid, by->path, type == WATCH_CHILDREN_CHANGED ? NULL : node);
    }
}

/* Adds the events of a persistent watch. A znode that was created later than `since` had no
 * children at first, so a change of its children is reported only if it has children now. */
static void see_persistent(struct diff *diff, const struct znode *node)
{
    const struct missed_by *by = diff->by;
    struct stat_view stat;

    znode_stat(node, &stat);
    bool is_new = stat.czxid > by->since;

    if (is_new) {
        add_event(diff, WATCH_CREATED, stat.czxid, by->path, node);
    } else if (stat.mzxid > by->since) {
        add_event(diff, WATCH_DATA_CHANGED, stat.mzxid, by->path, node);
    }
    if (is_new ? stat.num_children > 0 : stat.pzxid > by->since) {
        add_event(diff, WATCH_CHILDREN_CHANGED, stat.pzxid, by->path, NULL);
    }
}

/* Adds the events of a znode in the subtree. The slice may show a state later than `upto`. Changes
 * after `upto` add no event here, because the window delivers them. A pzxid after `upto` is an
 * exception and adds an event: it may hide the pzxid of an earlier deletion, and a difference
 * reports deleted znodes only by the change of their parent's children. A new znode gets no event
 * for its children, because all of them are new and have their own events. */
static void see_in_subtree(struct diff *diff, const struct znode *node, struct slice path)
{
    zxid_t since = diff->by->since;
    zxid_t upto = diff->missed->upto;
    struct stat_view stat;

    znode_stat(node, &stat);
    if (stat.czxid > since) {
        if (stat.czxid <= upto) {
            add_event(diff, WATCH_CREATED, stat.czxid, path, node);
        }
        return;
    }
    if (stat.mzxid > since && stat.mzxid <= upto) {
        add_event(diff, WATCH_DATA_CHANGED, stat.mzxid, path, node);
    }
    if (stat.pzxid > since) {
        add_event(diff, WATCH_CHILDREN_CHANGED, stat.pzxid, path, NULL);
    }
}

/* ---- The walk. ---- */

/* Returns the first znode after `path` in the order of the walk; `path` itself has no znode. */
static const struct znode *successor(const struct state *state, struct slice path)
{
    struct slice missing;
    const struct znode *node = deepest(state, path, &missing);

    ASSERT(missing.len > 0);
    const struct znode *next = znode_first_child(node, missing);

    while (next == NULL && znode_parent(node) != NULL) {
        next = znode_next(node);
        node = znode_parent(node);
    }
    return next;
}

static struct slice walk_path(const struct walk *walk)
{
    return walk->path.len > 0 ? buf_slice(&walk->path) : slice_str("/");
}

/* Walks one slice under one hold of the lock, from `diff->next` or, when that znode is gone, from
 * the znode after it. */
static void walk_slice(struct diff *diff, const struct state *state)
{
    const struct znode *node = state_find(state, buf_slice(&diff->next));
    size_t bytes = diff->missed->paths.len;
    uint32_t visited = 0;
    struct walk walk;

    if (node == NULL) {
        node = successor(state, buf_slice(&diff->next));
    }
    if (node == NULL) {
        diff->done = true;
        return;
    }
    walk_init_at(&walk, node);
    while (node != NULL && path_is_within(walk_path(&walk), diff->by->path) &&
           visited < diff->slice_nodes && diff->missed->paths.len - bytes < VIEW_BYTES_MAX &&
           !diff->too_much) {
        if (may_read(diff, state, node)) {
            see_in_subtree(diff, node, walk_path(&walk));
        }
        visited++;
        node = walk_next(&walk, true);
    }
    buf_clear(&diff->next);
    buf_append_slice(&diff->next, walk_path(&walk));
    diff->done = node == NULL || !path_is_within(walk_path(&walk), diff->by->path);
    diff->visited += visited;
    diff->too_much = diff->too_much || (!diff->done && diff->visited >= SUBSCRIBE_DIFF_NODES_MAX);
    walk_release(&walk);
}

static void see(struct diff *diff, const struct state *state)
{
    enum watch_kind kind = diff->by->kind;
    const struct znode *node = state_find(state, diff->by->path);

    if (node != NULL && kind == WATCH_RECURSIVE) {
        walk_slice(diff, state);
        return;
    }
    diff->done = true;
    if (node == NULL) {
        see_absent(diff, state);
    } else if (kind != WATCH_PERSISTENT) {
        see_one_shot(diff, node, may_read(diff, state, node));
    } else if (may_read(diff, state, node)) {
        see_persistent(diff, node);
    }
}

/* Reads the first slice, which determines `upto`. */
static enum err first_slice(const struct subscriber *subscriber, struct diff *diff)
{
    const struct state *state = view_read(subscriber->view);
    enum err err = ERR_NOT_READY;

    if (state == NULL) {
        return err;
    }
    /* A state that was just put in place may be behind the position of the subscriber. */
    if (state_applied(state) >= subscriber->at.zxid) {
        diff->missed->upto = state_applied(state);
        diff->state = state;
        see(diff, state);
        err = ERR_OK;
    }
    view_read_done(subscriber->view);
    return err;
}

static void next_slice(const struct subscriber *subscriber, struct diff *diff)
{
    if (subscriber->between != NULL) {
        subscriber->between(subscriber->sink.ctx);
    }
    const struct state *state = view_read(subscriber->view);

    if (state == NULL) {
        diff->too_much = true;
        return;
    }
    diff->state = state;
    walk_slice(diff, state);
    view_read_done(subscriber->view);
}

/* ---- Second pass: ACLs that changed during the walk. ---- */

static struct slice path_of(const struct missed *missed, const struct diff_event *event)
{
    return slice_make(missed->paths.data + event->path_at, event->path_len);
}

/* Keeps the events in [`*from`, `to`) that are still readable: moves them behind the first `*kept`
 * events. */
static void keep_readable(const struct diff *diff, const struct state *state, size_t *from,
                          size_t to, size_t *kept)
{
    struct missed *missed = diff->missed;

    for (; *from < to; (*from)++) {
        struct diff_event *event = &missed->events[*from];
        struct slice path = path_of(missed, event);
        const struct znode *node = state != NULL ? state_find(state, path) : NULL;
        bool readable = node != NULL ? may_read(diff, state, node)
                                     : might_read(diff, path, event->type == WATCH_DELETED);

        if (readable) {
            missed->events[(*kept)++] = *event;
        } else {
            blob_unref(event->change.data);
        }
    }
}

static void look_again(const struct subscriber *subscriber, struct diff *diff)
{
    struct missed *missed = diff->missed;
    size_t from = 0;
    size_t kept = 0;

    while (from < missed->event_count) {
        size_t left = missed->event_count - from;
        size_t part = min_size(left, diff->slice_nodes);
        const struct state *state = view_read(subscriber->view);

        keep_readable(diff, state, &from, from + part, &kept);
        if (state != NULL) {
            view_read_done(subscriber->view);
        }
    }
    missed->event_count = kept;
}

static int by_zxid(const void *left, const void *right)
{
    const struct diff_event *a = left;
    const struct diff_event *b = right;

    if (a->zxid != b->zxid) {
        return a->zxid < b->zxid ? -1 : 1;
    }
    return a->order < b->order ? -1 : a->order > b->order;
}

/* Returns how often the state was replaced. */
static uint64_t life(const struct subscriber *subscriber)
{
    struct window_mark end;

    window_end(subscriber->window, &end);
    return end.restarts;
}

enum err diff_gather(const struct subscriber *subscriber, const struct missed_by *by,
                     struct missed *missed)
{
    struct diff diff = {.window = subscriber->window,
                        .by = by,
                        .missed = missed,
                        .slice_nodes = subscriber->slice_nodes};
    uint64_t life_before = life(subscriber);

    missed->resumed = SUBSCRIBE_DIFFED;
    buf_init(&diff.next, STATE_PATH_MAX);
    buf_append_slice(&diff.next, by->path);
    enum err err = first_slice(subscriber, &diff);

    while (err == ERR_OK && !diff.done && !diff.too_much) {
        next_slice(subscriber, &diff);
        diff.slices++;
    }
    buf_release(&diff.next);
    if (err == ERR_OK && diff.slices > 0 && !diff.too_much) {
        look_again(subscriber, &diff);
    }
    /* Slices of unrelated states cannot form a difference. */
    if (err == ERR_OK && (diff.too_much || life(subscriber) != life_before)) {
        return ERR_TOO_LARGE;
    }
    if (missed->event_count > 1) {
        qsort(missed->events, missed->event_count, sizeof(struct diff_event), by_zxid);
    }
    return err;
}
