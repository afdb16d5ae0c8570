/*
 * view.h - the tree as front-end threads may read it: one reader-writer lock around the state.
 *
 * The lock prefers the writer: with the default kind, four readers on two cores starve the core
 * thread for tens of milliseconds. One hold visits at most VIEW_NODES_MAX znodes or VIEW_BYTES_MAX
 * bytes; nobody holds it across I/O.
 */
#ifndef SERVER_VIEW_H
#define SERVER_VIEW_H

#include "base/err.h"
#include "base/logrec.h"
#include "server/op.h"

enum {
    VIEW_NODES_MAX = 1000,
    VIEW_BYTES_MAX = 1 << 20
};

struct state;
struct view;

struct view *view_new(void);
void view_free(struct view *view); /* Frees the state it holds. */

/* Core thread: the lock for changing the state, and the state itself. */
struct state *view_write(struct view *view);
void view_write_done(struct view *view);

/* Core thread: puts another state in place (recovery, installed snapshot); frees the old one. */
void view_replace(struct view *view, struct state *take_state);

/* Any thread: the lock for reading. NULL (and no lock) while there is no state. */
const struct state *view_read(struct view *view);
void view_read_done(struct view *view);

/* Read operations, one function per row; each takes the lock for a bounded look, fills `result`
 * (err, zxid and data) and lets go. Any thread. */
void view_get(struct view *view, const struct op_args *args, struct op_result *result);
void view_stat(struct view *view, const struct op_args *args, struct op_result *result);
void view_children(struct view *view, const struct op_args *args, struct op_result *result);
void view_tree(struct view *view, const struct op_args *args, struct op_result *result);
void view_multi(struct view *view, const struct op_args *args, struct op_result *result);

#endif
