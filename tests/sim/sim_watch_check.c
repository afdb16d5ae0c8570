#include "base/check.h"
#include "base/mem.h"
#include "server/op/acl.h"
#include "tests/sim/sim_model.h"

#include <inttypes.h>
#include <stdlib.h>

/*
 * Compares the events that watchers received with the history. Between two marks of a stream, each
 * change that concerns its watch must be there, once and in order. A difference must give the
 * present state of each znode. Only a gap excuses missing changes before it.
 */

static bool is_below(const char *path, const char *root)
{
    size_t len = strlen(root);

    return strncmp(path, root, len) == 0 && (path[len] == 0 || path[len] == '/');
}

/* ZooKeeper's table. */
static bool concerns(const struct sim_trigger *trigger, const struct sim_stream *stream)
{
    bool same = strcmp(trigger->path, stream->path) == 0;

    if (trigger->type == SIM_NEW_ACL) {
        return false;
    }
    switch (stream->kind) {
    case WATCH_DATA:
        return same && (trigger->type == WATCH_DELETED || trigger->type == WATCH_DATA_CHANGED);
    case WATCH_EXISTS:
        return same && trigger->type != WATCH_CHILDREN_CHANGED;
    case WATCH_CHILDREN:
        return same && (trigger->type == WATCH_DELETED || trigger->type == WATCH_CHILDREN_CHANGED);
    case WATCH_PERSISTENT:
        return same;
    case WATCH_RECURSIVE:
        return trigger->type != WATCH_CHILDREN_CHANGED && is_below(trigger->path, stream->path);
    case WATCH_KINDS:
        break;
    }
    UNREACHABLE();
}

/* ---- One stream along the log. ---- */

struct walk_along {
    struct sim *sim;
    const struct sim_stream *stream;
    const struct sim_trigger *triggers;
    size_t count;
    size_t next;
    bool spent; /* A one-shot watch has fired. */
};

static _Noreturn void fail(const struct walk_along *walk, const char *what, zxid_t zxid,
                           const char *path)
{
    const struct sim_stream *stream = walk->stream;

    sim_fail(walk->sim, "A20", "stream %u (%s %s of client %u): %s: %s at %" PRIx64, stream->number,
             watch_kind_name(stream->kind), stream->path, stream->client, what, path, zxid);
}

/* The next trigger up to `upto` that the client must receive, or NULL. A trigger that it may not
 * read uses up a one-shot watch as well. */
static const struct sim_trigger *next_due(struct walk_along *walk, zxid_t upto)
{
    while (walk->next < walk->count && walk->triggers[walk->next].zxid <= upto) {
        const struct sim_trigger *trigger = &walk->triggers[walk->next++];

        if (walk->spent || !concerns(trigger, walk->stream)) {
            continue;
        }
        walk->spent = watch_is_one_shot(walk->stream->kind);
        if (trigger->readable) {
            return trigger;
        }
    }
    return NULL;
}

/* An ACL closed its path later, possibly before the front end delivered it. */
static bool was_closed_later(const struct walk_along *walk, const struct sim_trigger *trigger)
{
    for (const struct sim_trigger *at = trigger + 1; at < walk->triggers + walk->count; at++) {
        if (!at->readable && strcmp(at->path, trigger->path) == 0) {
            return true;
        }
    }
    return false;
}

/* Uses the newest ACL known to a replica that has applied `known`. */
static bool is_open_at(const struct walk_along *walk, const struct sim_trigger *trigger,
                       zxid_t known)
{
    bool open = trigger->readable;

    for (const struct sim_trigger *at = trigger + 1;
         at < walk->triggers + walk->count && at->zxid <= known; at++) {
        open = strcmp(at->path, trigger->path) == 0 ? at->readable : open;
    }
    return open;
}

/* The client must have received every trigger up to here. */
static void expect_none(struct walk_along *walk, zxid_t upto)
{
    const struct sim_trigger *missed;

    while ((missed = next_due(walk, upto)) != NULL) {
        if (!was_closed_later(walk, missed)) {
            fail(walk, "never received", missed->zxid, missed->path);
        }
    }
}

static bool is_it(const struct sim_trigger *trigger, const struct sim_item *item)
{
    return trigger->zxid == item->zxid && trigger->type == item->type &&
           strcmp(trigger->path, item->path) == 0;
}

static void expect(struct walk_along *walk, const struct sim_item *item)
{
    const struct sim_trigger *due = next_due(walk, item->zxid);

    while (due && !is_it(due, item) && was_closed_later(walk, due)) {
        due = next_due(walk, item->zxid);
    }
    if (!due) {
        fail(walk, "received a change that did not happen, or received it twice", item->zxid,
             item->path);
    }
    if (due->zxid != item->zxid) {
        fail(walk, "never received", due->zxid, due->path);
    }
    if (!is_it(due, item)) {
        fail(walk, watch_event_name(due->type), due->zxid, due->path);
    }
    if (!is_open_at(walk, due, item->known)) {
        fail(walk, "received a change that its ACL forbids", due->zxid, due->path);
    }
}

/* The next events follow `zxid`, which may lie before earlier events. */
static void go_to(struct walk_along *walk, zxid_t zxid)
{
    size_t low = 0;
    size_t high = walk->count;

    while (low < high) {
        size_t mid = (low + high) / 2;

        if (walk->triggers[mid].zxid <= zxid) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    walk->next = low;
    walk->spent = false;
}

/* A difference uses up a one-shot watch as well. */
static void take_diff(struct walk_along *walk, size_t at)
{
    const struct sim_item *mark = &walk->stream->items[at];

    expect_none(walk, mark->since);
    go_to(walk, mark->zxid);
    walk->spent = mark->used_up;
}

static void take_item(struct walk_along *walk, size_t at)
{
    const struct sim_item *item = &walk->stream->items[at];

    switch (item->what) {
    case SIM_ITEM_EVENT:
        if (!item->diff) {
            expect(walk, item);
        } else if (watch_is_one_shot(walk->stream->kind)) {
            walk->spent = true;
        }
        break;
    case SIM_ITEM_FROM:
        expect_none(walk, item->zxid);
        go_to(walk, item->zxid);
        break;
    case SIM_ITEM_DIFF:
        take_diff(walk, at);
        break;
    case SIM_ITEM_GAP:
        go_to(walk, item->zxid);
        break;
    }
}

void sim_streams_check(struct sim *sim, const struct sim_trigger *triggers, size_t count)
{
    for (size_t i = 0; sim->sockets && i < sim->sockets->count; i++) {
        const struct sim_stream *stream = sim->sockets->streams[i];
        struct walk_along walk = {
            .sim = sim, .stream = stream, .triggers = triggers, .count = count};

        if (stream->safe_count == 0) {
            continue; /* The stream never began. */
        }
        go_to(&walk, stream->begin);
        for (size_t at = 0; at < stream->item_count; at++) {
            take_item(&walk, at);
        }
        if (!stream->used_up) {
            expect_none(&walk, stream->have);
        }
    }
}

/* ---- Differences. ---- */

struct sim_diff {
    zxid_t upto;
    const struct sim_stream *stream;
    size_t at; /* Index of its mark. */
};

struct sim_diffs {
    struct sim *sim;
    struct sim_diff *items; /* Ascending. */
    size_t count;
    size_t next;
};

static int by_upto(const void *a, const void *b)
{
    const struct sim_diff *left = a;
    const struct sim_diff *right = b;

    if (left->upto != right->upto) {
        return left->upto < right->upto ? -1 : 1;
    }
    return left->stream->number < right->stream->number ? -1 : 1;
}

static void gather(struct sim_diffs *diffs, const struct sim_stream *stream, bool store)
{
    for (size_t at = 0; at < stream->item_count; at++) {
        if (stream->items[at].what != SIM_ITEM_DIFF) {
            continue;
        }
        if (store) {
            diffs->items[diffs->count] =
                (struct sim_diff){.upto = stream->items[at].zxid, .stream = stream, .at = at};
        }
        diffs->count++;
    }
}

struct sim_diffs *sim_diffs_new(struct sim *sim)
{
    struct sim_diffs *diffs = mem_zalloc(1, sizeof(*diffs));

    diffs->sim = sim;
    for (size_t i = 0; sim->sockets && i < sim->sockets->count; i++) {
        gather(diffs, sim->sockets->streams[i], false);
    }
    diffs->items = mem_zalloc(diffs->count + 1, sizeof(*diffs->items));
    diffs->count = 0;
    for (size_t i = 0; sim->sockets && i < sim->sockets->count; i++) {
        gather(diffs, sim->sockets->streams[i], true);
    }
    qsort(diffs->items, diffs->count, sizeof(*diffs->items), by_upto);
    return diffs;
}

void sim_diffs_free(struct sim_diffs *diffs)
{
    mem_free(diffs->items);
    mem_free(diffs);
}

/* Compares the expected difference with the delivered one, change by change. */
struct diff_walk {
    struct sim *sim;
    const struct model *model;
    const struct sim_diff *diff;
    zxid_t since;
    size_t due;
};

static size_t items_in(const struct sim_diff *diff)
{
    const struct sim_stream *stream = diff->stream;
    size_t at = diff->at + 1;

    while (at < stream->item_count && stream->items[at].what == SIM_ITEM_EVENT &&
           stream->items[at].diff) {
        at++;
    }
    return at - diff->at - 1;
}

static void due(struct diff_walk *walk, enum watch_event_type type, const char *path)
{
    const struct sim_stream *stream = walk->diff->stream;
    size_t count = items_in(walk->diff);

    walk->due++;
    for (size_t i = 0; i < count; i++) {
        const struct sim_item *item = &stream->items[walk->diff->at + 1 + i];

        if (item->type == type && strcmp(item->path, path) == 0) {
            return;
        }
    }
    sim_fail(walk->sim, "A20",
             "stream %u (%s %s): the difference from %" PRIx64 " to %" PRIx64
             " lacks the event %s of %s",
             stream->number, watch_kind_name(stream->kind), stream->path, walk->since,
             walk->diff->upto, watch_event_name(type), path);
}

/* The newest change among the children of the deepest ancestor that exists. */
static zxid_t changed_above(const struct model *model, const char *path)
{
    char parent[64];
    char *slash;

    (void)snprintf(parent, sizeof(parent), "%s", path);
    while ((slash = strrchr(parent, '/')) != NULL && slash != parent) {
        const struct model_node *node;

        *slash = 0;
        node = model_find(model, parent);
        if (node) {
            return node->pzxid;
        }
    }
    return model->root_pzxid;
}

/* The last ACL of the znode let every client read: a replica that has seen the deletion reports it
 * only then. */
static bool was_open(const struct diff_walk *walk, const char *path)
{
    size_t count;
    const struct sim_trigger *triggers = model_triggers(walk->model, &count);
    bool open = true;

    for (size_t i = 0; i < count; i++) {
        open = strcmp(triggers[i].path, path) == 0 ? triggers[i].readable : open;
    }
    return open;
}

static void absent(struct diff_walk *walk)
{
    const struct sim_stream *stream = walk->diff->stream;
    bool was_there = stream->kind == WATCH_DATA || stream->kind == WATCH_CHILDREN;

    if (items_in(walk->diff) == 0 && !was_open(walk, stream->path)) {
        return;
    }

    if (was_there || changed_above(walk->model, stream->path) > walk->since) {
        due(walk, WATCH_DELETED, stream->path);
    }
}

static void single(struct diff_walk *walk, const struct model_node *node)
{
    enum watch_kind kind = walk->diff->stream->kind;
    bool is_new = node->czxid > walk->since;

    if (kind == WATCH_CHILDREN) {
        if (node->pzxid > walk->since) {
            due(walk, WATCH_CHILDREN_CHANGED, node->path);
        }
        return;
    }
    if (is_new && kind != WATCH_DATA) {
        due(walk, WATCH_CREATED, node->path);
    } else if (node->mzxid > walk->since) {
        due(walk, WATCH_DATA_CHANGED, node->path);
    }
    if (kind == WATCH_PERSISTENT && (is_new ? node->children > 0 : node->pzxid > walk->since)) {
        due(walk, WATCH_CHILDREN_CHANGED, node->path);
    }
}

static void in_subtree(struct diff_walk *walk, const struct model_node *node)
{
    if (node->czxid > walk->since) {
        due(walk, WATCH_CREATED, node->path);
        return;
    }
    if (node->mzxid > walk->since) {
        due(walk, WATCH_DATA_CHANGED, node->path);
    }
    if (node->pzxid > walk->since) {
        due(walk, WATCH_CHILDREN_CHANGED, node->path);
    }
}

static void check_diff(struct sim *sim, const struct model *model, const struct sim_diff *diff)
{
    const struct sim_stream *stream = diff->stream;
    const struct model_node *node = model_find(model, stream->path);
    struct diff_walk walk = {
        .sim = sim, .model = model, .diff = diff, .since = stream->items[diff->at].since};

    if (!node) {
        absent(&walk);
    } else if (stream->kind != WATCH_RECURSIVE && (node->perms & ACL_READ)) {
        single(&walk, node);
    }
    for (size_t i = 0; node && stream->kind == WATCH_RECURSIVE && i < model->count; i++) {
        const struct model_node *below = &model->nodes[i];

        if (is_below(below->path, stream->path) && (below->perms & ACL_READ)) {
            in_subtree(&walk, below);
        }
    }
    if (walk.due != items_in(diff)) {
        sim_fail(sim, "A20",
                 "stream %u (%s %s): the difference from %" PRIx64 " to %" PRIx64
                 " has %zu changes instead of %zu",
                 stream->number, watch_kind_name(stream->kind), stream->path, walk.since,
                 diff->upto, items_in(diff), walk.due);
    }
}

void sim_diffs_check(struct sim_diffs *diffs, const struct model *model, zxid_t before)
{
    while (diffs->next < diffs->count && diffs->items[diffs->next].upto < before) {
        check_diff(diffs->sim, model, &diffs->items[diffs->next++]);
    }
}
