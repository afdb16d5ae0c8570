#include "server/read/view_int.h"
#include "server/state/path.h"

bool view_add_entry(const struct state *state, const struct op_args *args, const struct znode *node,
                    struct slice name, struct view_page *page, struct op_result *result)
{
    if (!buf_append_slice(&result->arena, name)) {
        page->full = true;
        return false;
    }
    MEM_GROW(result->entries, result->entry_count, page->cap, MEM_ITEMS_MAX);
    struct op_entry *entry = &result->entries[result->entry_count++];

    /* The arena may still move, so the path has only its length until view_page_end. */
    *entry = (struct op_entry){.path = slice_make(NULL, name.len)};
    entry->hidden = args->with != OP_WITH_NAMES && !view_may_read(state, page->who, node);
    if (!entry->hidden) {
        state_shown_stat(state, node, &entry->stat);
        result->computed |= state_is_computed(state, node);
    }
    if (args->with == OP_WITH_DATA && !entry->hidden) {
        entry->data = state_shown_data(state, node);
        page->data_bytes += entry->stat.data_length;
        page->full = page->data_bytes >= VIEW_DATA_BYTES_MAX;
    }
    return true;
}

void view_page_end(struct op_result *result)
{
    size_t pos = 0;

    for (uint32_t i = 0; i < result->entry_count; i++) {
        struct slice *path = &result->entries[i].path;

        *path = slice_make(path->len > 0 ? result->arena.data + pos : NULL, path->len);
        pos += path->len;
    }
}

/* Returns the name after which the page continues: the last one written, or the client's `after`.
 */
static struct slice after_of(const struct op_args *args, const struct op_result *result)
{
    if (result->entry_count == 0) {
        return args->after;
    }
    size_t len = result->entries[result->entry_count - 1].path.len;

    return slice_make(result->arena.data + result->arena.len - len, len);
}

/* Adds at most page->nodes_max children during one hold of the lock. True when another hold should
 * continue. */
static bool add_page(const struct state *state, const struct op_args *args, struct view_page *page,
                     struct op_result *result)
{
    const struct znode *node = state_find(state, args->path);
    bool first = !result->has_stat;
    size_t names_start = result->arena.len;
    uint32_t count = 0;

    if (first) {
        view_look(state, page->who, args, result);
    }
    result->upto = state_applied(state);
    result->more = false;
    if (node == NULL || result->err != ERR_OK || !view_may_read(state, page->who, node)) {
        /* The znode was deleted or its ACL changed between two holds: the page ends here. */
        return false;
    }
    const struct znode *child = znode_first_child(node, after_of(args, result));

    while (child != NULL && result->entry_count < page->limit && count < page->nodes_max &&
           !page->full) {
        /* A page of names may span several states, so each hold ends at a bound of bytes. With stat
         * or data, up to 1,000 children must show one state, so the hold has no such bound. */
        if (args->with == OP_WITH_NAMES && page->nodes_max <= VIEW_NODES_MAX &&
            result->arena.len - names_start >= VIEW_BYTES_MAX) {
            break;
        }
        if (view_add_entry(state, args, child, znode_name(child), page, result)) {
            child = znode_next(child);
            count++;
        }
    }
    result->more = child != NULL;
    return result->more && result->entry_count < page->limit && !page->full;
}

void view_children(struct view *view, const struct op_principal *who, const struct op_args *args,
                   struct op_result *result)
{
    struct view_page page = {.limit = args->limit > 0 ? args->limit : VIEW_NODES_MAX,
                             .who = who,
                             .nodes_max = VIEW_NODES_MAX};
    bool more = true;

    while (more) {
        const struct state *state = view_begin(view, result);

        if (state == NULL) {
            break;
        }
        more = add_page(state, args, &page, result);
        view_read_done(view);
    }
    view_page_end(result);
}

static void walk_tree(const struct state *state, const struct op_principal *who,
                      const struct op_args *args, const struct znode *top, struct op_result *result)
{
    struct view_page page = {.who = who, .limit = view_limit(args)};
    struct walk walk;

    walk_init(&walk, top, slice_make(NULL, 0));
    for (const struct znode *node = top; node != NULL;) {
        struct slice name = path_below(buf_slice(&walk.path), slice_str("/"));

        if (result->entry_count == page.limit || page.full ||
            result->arena.len + name.len > VIEW_BYTES_MAX) {
            view_refuse(result, ERR_TOO_LARGE,
                        "the subtree has more znodes or bytes than one answer may hold; ask with "
                        "a smaller depth, or page through the children");
            break;
        }
        if (!view_add_entry(state, args, node, name, &page, result)) {
            continue;
        }
        /* Children of a znode that the caller may not read are not listed. */
        node = walk_next(&walk, (args->depth == 0 || walk.depth < args->depth) &&
                                    view_may_read(state, who, node));
    }
    walk_release(&walk);
}

void view_tree(const struct state *state, const struct op_principal *who,
               const struct op_args *args, struct op_result *result)
{
    view_look(state, who, args, result);
    if (result->err == ERR_OK) {
        walk_tree(state, who, args, state_find(state, args->path), result);
    }
    if (result->err != ERR_OK) {
        for (uint32_t i = 0; i < result->entry_count; i++) {
            blob_unref(result->entries[i].data);
        }
        result->entry_count = 0;
        result->has_stat = false; /* Only ERR_BAD_VERSION is answered with a stat. */
    }
    view_page_end(result);
}

/* Runs one element of a multi; returns how many znodes were visited. */
static uint32_t look_element(const struct state *state, const struct op_principal *who,
                             const struct op_args *args, uint32_t nodes_left,
                             struct op_result *result)
{
    if (nodes_left == 0) {
        result->zxid = state_applied(state);
        view_refuse(
            result, ERR_TOO_LARGE,
            "earlier reads of this multi have filled the answer: send fewer reads in one multi");
        return 0;
    }
    if (args->op == OP_CHILDREN) {
        struct view_page page = {.who = who,
                                 .limit = args->limit > 0 ? args->limit : VIEW_NODES_MAX,
                                 .nodes_max = nodes_left};

        add_page(state, args, &page, result);
        view_page_end(result);
        return 1 + result->entry_count;
    }
    if (args->op == OP_GET || args->op == OP_STAT || args->op == OP_EXISTS) {
        view_look(state, who, args, result);
    } else {
        view_refuse(result, ERR_BAD_ARGUMENTS, "a multi of reads may not contain this operation");
    }
    return 1;
}

static void look_multi(const struct state *state, const struct op_principal *who,
                       const struct op_args *args, uint32_t nodes_left, struct op_result *result)
{
    ASSERT(result->results == NULL);
    result->zxid = state_applied(state);
    result->results = mem_zalloc(args->op_count, sizeof(*result->results));
    result->result_count = args->op_count;
    for (uint32_t i = 0; i < args->op_count; i++) {
        op_result_init(&result->results[i]);
        uint32_t used = look_element(state, who, &args->ops[i], nodes_left, &result->results[i]);

        nodes_left -= min_u32(used, nodes_left);
    }
}

void view_multi(const struct state *state, const struct op_principal *who,
                const struct op_args *args, struct op_result *result)
{
    look_multi(state, who, args, VIEW_NODES_MAX, result);
}

void view_run_once(struct view *view, const struct op_principal *who, const struct op_args *args,
                   uint32_t nodes_max, struct op_result *result)
{
    ASSERT(args->op == OP_MULTI);
    const struct state *state = view_begin(view, result);

    if (state != NULL) {
        look_multi(state, who, args, nodes_max, result);
        view_read_done(view);
    }
}
