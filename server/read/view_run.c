/* The table of operations that read: one function each. */
#include "server/read/view_int.h"

/* One of the two functions is set. */
struct reader {
    void (*once)(const struct state *state, const struct op_principal *who,
                 const struct op_args *args, struct op_result *result); /* Called under the lock. */
    void (*pages)(struct view *view, const struct op_principal *who, const struct op_args *args,
                  struct op_result *result);
};

static const struct reader readers[OP_IDS] = {
    [OP_GET] = {.once = view_look},           [OP_EXISTS] = {.once = view_look},
    [OP_STAT] = {.once = view_look},          [OP_CHILDREN] = {.pages = view_children},
    [OP_TREE] = {.once = view_tree},          [OP_MULTI] = {.once = view_multi},
    [OP_TOUCH] = {.once = view_session},      [OP_GETSESSION] = {.once = view_session},
    [OP_GETACL] = {.once = view_acl},         [OP_SEARCH] = {.pages = view_search},
    [OP_SESSIONS] = {.pages = view_sessions}, [OP_EPHEMERALS] = {.pages = view_ephemerals},
};

bool view_reads(enum op_id op)
{
    return readers[op].once != NULL || readers[op].pages != NULL;
}

void view_run(struct view *view, const struct op_principal *who, const struct op_args *args,
              struct op_result *result)
{
    const struct reader *reader = &readers[args->op];

    ASSERT(view_reads(args->op));
    if (reader->pages != NULL) {
        reader->pages(view, who, args, result);
        return;
    }
    const struct state *state = view_begin(view, result);

    if (state != NULL) {
        reader->once(state, who, args, result);
        view_read_done(view);
    }
}
