/* view_int.h - reads of a state whose lock the caller holds; shared by the files of the view. */
#ifndef SERVER_VIEW_INT_H
#define SERVER_VIEW_INT_H

#include "server/op/op.h"
#include "server/read/view.h"
#include "server/state/state.h"

/* Of clients; constant while anybody reads. */
struct view_clients {
    struct heard *heard; /* NULL: nothing is known. */
    bool show_all;
};

const struct view_clients *view_clients(const struct view *view);

/* Where a page of children stands between two holds of the lock. */
struct view_page {
    const struct op_principal *who;
    uint32_t limit;     /* Entries wanted. */
    uint32_t cap;       /* Entries there is room for. */
    uint32_t nodes_max; /* Children that one hold may visit. */
    size_t data_bytes;  /* Data that the entries refer to. */
    bool full;          /* The answer has reached its bound of bytes. */
};

/* The lock and the state; NULL, no lock, and the reason in `result` while none may be read. */
const struct state *view_begin(struct view *view, struct op_result *result);

/* Fills err, zxid and what the operation asks for, without the data of children. */
void view_look(const struct state *state, const struct op_principal *who,
               const struct op_args *args, struct op_result *result);

/* The znode's ACL lets `who` read. */
bool view_may_read(const struct state *state, const struct op_principal *who,
                   const struct znode *node);

/* One hold's part of a page, at most page->nodes_max children. True when another hold should go
 * on. */
bool view_page_more(const struct state *state, const struct op_args *args, struct view_page *page,
                    struct op_result *result);

/* After the last part: names of entries become valid. */
void view_page_end(struct op_result *result);

/* Adds one entry; its name is appended to the arena. Of what page->who may not read stat and data
 * stay away. False when the arena is full. */
bool view_add_entry(const struct state *state, const struct op_args *args, const struct znode *node,
                    struct slice name, struct view_page *page, struct op_result *result);

void view_refuse(struct op_result *result, enum err err, const char *detail);

#endif
