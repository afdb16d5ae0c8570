/* The table of operations that read: one function each. */
#include "base/check.h"
#include "server/read/view.h"

static void (*const reads[OP_IDS])(struct view *view, const struct op_principal *who,
                                   const struct op_args *args, struct op_result *result) = {
    [OP_GET] = view_get,           [OP_EXISTS] = view_stat,
    [OP_STAT] = view_stat,         [OP_CHILDREN] = view_children,
    [OP_TREE] = view_tree,         [OP_MULTI] = view_multi,
    [OP_TOUCH] = view_session,     [OP_GETSESSION] = view_session,
    [OP_GETACL] = view_acl,        [OP_SEARCH] = view_search,
    [OP_SESSIONS] = view_sessions, [OP_EPHEMERALS] = view_ephemerals,
};

bool view_reads(enum op_id op)
{
    return reads[op] != NULL;
}

void view_run(struct view *view, const struct op_principal *who, const struct op_args *args,
              struct op_result *result)
{
    ASSERT(view_reads(args->op));

    reads[args->op](view, who, args, result);
}
