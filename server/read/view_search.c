/* Search. Under the lock znodes are only listed, with references to their data. Comparing them with
 * the pattern of a client may take long, so it is done without the lock. */
#include "base/os_clock.h"
#include "server/read/glob.h"
#include "server/read/view_int.h"
#include "server/state/path.h"

struct search {
    const struct op_principal *who;
    const struct op_args *args;
    struct op_result *result;
    struct op_args listing; /* Like `args`, but with data if the search compares data. */
    struct op_result found; /* The znodes of one hold of the lock. */
    /* The page for `found`. Its data_bytes is the sum of all holds of the search. */
    struct view_page page;
    uint32_t cap; /* Allocated entries of `result`. */
    uint32_t limit;
    uint64_t end_us;
    uint32_t top_depth; /* Depth of the top below the root. */
    struct buf at;      /* Path of the last visited znode; empty: none yet. */
    bool done;          /* There are no more znodes. */
};

/* Whether the search descends below `node`, whose depth in the whole tree is `depth`. */
static bool descends(const struct state *state, const struct search *search,
                     const struct znode *node, uint32_t depth)
{
    uint32_t levels = search->args->depth;

    return (levels == 0 || depth - search->top_depth < levels) &&
           view_may_read(state, search->who, node);
}

/* Returns the highest ancestor of `node` below which the search must not descend; NULL: there is
 * none. Ancestors above `top` do not count. `ret_within`: whether `node` is `top` or below it. */
static const struct znode *closed_above(const struct state *state, const struct search *search,
                                        const struct znode *top, const struct znode *node,
                                        bool *ret_within)
{
    const struct znode *closed = NULL;
    uint32_t depth = znode_depth(node);

    while (node != top && depth > search->top_depth) {
        node = znode_parent(node);
        depth--;
        if (!descends(state, search, node, depth)) {
            closed = node;
        }
    }
    *ret_within = node == top;
    return closed;
}

/* Returns the znode where the walk continues. A cursor may be stale or forged, so it must not lead
 * below a znode that the caller may not read. */
static const struct znode *first_of(const struct state *state, const struct search *search,
                                    const struct znode *top)
{
    const struct znode *node = top;

    if (search->at.len > 0) {
        node = state_after(state, buf_slice(&search->at));
    }
    while (node != NULL) {
        bool within = false;
        const struct znode *closed = closed_above(state, search, top, node, &within);

        if (!within) {
            return NULL;
        }
        if (closed == NULL) {
            break;
        }
        node = znode_skip(closed);
    }
    return node;
}

static bool has_room(const struct search *search)
{
    const struct op_result *found = &search->found;

    return found->entry_count < VIEW_NODES_MAX && found->arena.len < VIEW_BYTES_MAX &&
           search->result->looked + found->entry_count < VIEW_SEARCH_NODES_MAX &&
           !search->page.full;
}

/* Lists as many znodes as one hold of the lock may visit. */
static void list_some(const struct state *state, struct search *search, const struct znode *top)
{
    const struct znode *node = NULL;
    struct walk walk;

    search->top_depth = znode_depth(top);
    node = first_of(state, search, top);
    search->done = node == NULL;
    if (node == NULL) {
        return;
    }
    walk_init_at(&walk, node);
    while (node != NULL && has_room(search)) {
        if (view_add_entry(state, &search->listing, node,
                           path_below(buf_slice(&walk.path), search->args->path), &search->page,
                           &search->found)) {
            node = walk_next(&walk, descends(state, search, node, walk.depth));
        }
        if (node != NULL && walk.depth <= search->top_depth) {
            node = NULL;
        }
    }
    search->done = node == NULL;
    walk_release(&walk);
}

static enum err look_and_list(struct view *view, struct search *search)
{
    const struct state *state = view_read_whole(view);
    struct op_result look = {.err = ERR_OK};

    if (state == NULL) {
        return ERR_NOT_READY;
    }
    view_look(state, search->who, search->args, &look);
    if (look.err == ERR_OK) {
        list_some(state, search, state_find(state, search->args->path));
    }
    view_read_done(view);
    search->result->upto = look.zxid;
    if (search->result->zxid == 0) {
        search->result->zxid = look.zxid;
    }
    return look.err;
}

/* Lists the next znodes. False when the top of the search cannot be read, either at the start or
 * after a change between two holds of the lock. */
static bool take_some(struct view *view, struct search *search)
{
    enum err err = look_and_list(view, search);

    if (err == ERR_NOT_READY) {
        search->result->detail = "this replica has no state that may be read yet";
    }
    view_page_end(&search->found);
    if (err != ERR_OK) {
        /* The znode was deleted or its ACL changed between two holds: the answer ends here. */
        search->done = true;
        search->result->err = search->result->looked == 0 ? err : ERR_OK;
    }
    return err == ERR_OK;
}

static bool matches(const struct search *search, const struct op_entry *entry)
{
    struct slice path = entry->path.len > 0 ? entry->path : search->args->path;
    const uint8_t *slash = memrchr(path.data, '/', path.len);
    struct slice name = slash != NULL ? slice_from(path, (size_t)(slash + 1 - path.data)) : path;

    if (!glob_match(search->args->pattern, name, search->args->any_case)) {
        return false;
    }
    return search->args->data.len == 0 || (!entry->hidden && entry->data != NULL &&
                                           glob_holds(blob_slice(entry->data), search->args->data));
}

/* Moves the entry to the result. */
static void keep(struct search *search, struct op_entry *entry)
{
    struct op_result *result = search->result;

    MEM_GROW(result->entries, result->entry_count, search->cap, MEM_ITEMS_MAX);
    struct op_entry *to = &result->entries[result->entry_count++];

    (void)buf_append_slice(&result->arena, entry->path);
    *to = *entry;
    to->path = slice_make(NULL, entry->path.len); /* See view_page_end. */
    if (search->args->with == OP_WITH_DATA) {
        entry->data = NULL;
    } else {
        to->data = NULL;
    }
}

/* Moves matching entries to the result. True when the search may continue. */
static bool sift(struct search *search)
{
    struct op_result *found = &search->found;
    struct op_result *result = search->result;
    bool more = true;
    uint32_t i = 0;

    while (more && i < found->entry_count) {
        if (matches(search, &found->entries[i])) {
            keep(search, &found->entries[i]);
        }
        i++;
        more = result->entry_count < search->limit && result->arena.len < VIEW_BYTES_MAX &&
               os_now_us() < search->end_us;
    }
    result->looked += i;
    if (i > 0) {
        buf_clear(&search->at);
        path_join(&search->at, search->args->path, found->entries[i - 1].path);
        ASSERT(!search->at.overflow);
    }
    search->done = search->done && i == found->entry_count;
    return more && !search->done && !search->page.full && result->looked < VIEW_SEARCH_NODES_MAX;
}

static void begin(struct search *search)
{
    const struct op_args *args = search->args;

    search->listing = *args;
    if (args->data.len > 0) {
        search->listing.with = OP_WITH_DATA;
    }
    search->page.who = search->who;
    search->limit = view_limit(args);
    search->end_us = os_now_us() + VIEW_SEARCH_US;
    buf_init(&search->at, (size_t)2 * STATE_PATH_MAX);
    buf_append_slice(&search->at, args->after);
}

static void end(struct search *search)
{
    struct op_result *result = search->result;
    size_t names_len = result->arena.len;

    result->more = result->err == ERR_OK && !search->done;
    if (result->more) {
        buf_append_slice(&result->arena, buf_slice(&search->at));
        result->after = slice_make(result->arena.data + names_len, search->at.len);
    }
    view_page_end(result);
    buf_release(&search->at);
}

void view_search(struct view *view, const struct op_principal *who, const struct op_args *args,
                 struct op_result *result)
{
    struct search search = {.who = who, .args = args, .result = result};
    bool more = true;

    begin(&search);
    while (more) {
        op_result_init(&search.found);
        search.page.cap = 0;
        more = take_some(view, &search) && sift(&search);
        op_result_release(&search.found);
    }
    end(&search);
}
