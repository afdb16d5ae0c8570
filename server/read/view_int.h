/* view_int.h - reads of a state whose lock the caller holds; shared by the files of the view. */
#ifndef SERVER_VIEW_INT_H
#define SERVER_VIEW_INT_H

#include "base/check.h"
#include "base/mem.h"
#include "server/op/op.h"
#include "server/read/view.h"
#include "server/state/state.h"

/* Settings about clients; constant while any thread reads. */
struct view_clients {
    struct heard *heard; /* NULL: last contacts are not known. */
    bool show_all;
};

const struct view_clients *view_clients(const struct view *view);

/* Progress of a page of children between two holds of the lock. */
struct view_page {
    const struct op_principal *who;
    uint32_t limit;     /* Entries wanted. */
    uint32_t cap;       /* Allocated entries. */
    uint32_t nodes_max; /* Children that one hold may visit. */
    size_t data_bytes;  /* Data that the entries refer to. */
    bool full;          /* The answer has reached its bound of bytes. */
};

/* Takes the lock and returns the state. While no state may be read: returns NULL, without the lock,
 * with the reason in `result`. */
const struct state *view_begin(struct view *view, struct op_result *result);

/* Operations that hold the lock once. view_look fills err, zxid and stat, and on request
 * permissions and data, but no children. */
void view_look(const struct state *state, const struct op_principal *who,
               const struct op_args *args, struct op_result *result);
void view_tree(const struct state *state, const struct op_principal *who,
               const struct op_args *args, struct op_result *result);
void view_multi(const struct state *state, const struct op_principal *who,
                const struct op_args *args, struct op_result *result);
void view_acl(const struct state *state, const struct op_principal *who, const struct op_args *args,
              struct op_result *result);
void view_session(const struct state *state, const struct op_principal *who,
                  const struct op_args *args, struct op_result *result);

/* Operations that take the lock themselves, once or several times. */
void view_children(struct view *view, const struct op_principal *who, const struct op_args *args,
                   struct op_result *result);
void view_search(struct view *view, const struct op_principal *who, const struct op_args *args,
                 struct op_result *result);
void view_sessions(struct view *view, const struct op_principal *who, const struct op_args *args,
                   struct op_result *result);
void view_ephemerals(struct view *view, const struct op_principal *who, const struct op_args *args,
                     struct op_result *result);

/* args->limit; 0 and more than 1,000 mean 1,000. */
static inline uint32_t view_limit(const struct op_args *args)
{
    return args->limit > 0 ? min_u32(args->limit, VIEW_NODES_MAX) : VIEW_NODES_MAX;
}

/* Whether the ACL of the znode lets the client read. */
bool view_may_read(const struct state *state, const struct op_principal *who,
                   const struct znode *node);

/* Makes the names of all entries point into the arena. Called after the last view_add_entry, which
 * may still move the arena. */
void view_page_end(struct op_result *result);

/* Adds one entry and appends its name to the arena. The entry has no stat and no data when the
 * client may not read the znode. False when the arena is full. */
bool view_add_entry(const struct state *state, const struct op_args *args, const struct znode *node,
                    struct slice name, struct view_page *page, struct op_result *result);

void view_refuse(struct op_result *result, enum err err, const char *detail);

#endif
