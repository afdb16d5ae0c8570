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
#include "server/op/op.h"

enum {
    VIEW_NODES_MAX = 1000,
    VIEW_BYTES_MAX = 1 << 20,       /* Of names and paths. */
    VIEW_DATA_BYTES_MAX = 16 << 20, /* Of data that one answer refers to; a page ends behind it. */
    VIEW_SEARCH_NODES_MAX = 10000,  /* Znodes that one search looks at. */
    VIEW_SEARCH_US = 20000          /* Time after which it leaves the rest to the next one. */
};

struct state;
struct state_session;
struct view;

struct view *view_new(void);
void view_free(struct view *view); /* Frees the state it holds. */

/* Core thread: the lock for changing the state, and the state itself (NULL, with the lock held all
 * the same, while there is none). */
struct state *view_write(struct view *view);
void view_write_done(struct view *view);

/* Core or bulk thread: puts another state in place (recovery, installed snapshot); frees the old
 * one. It is not whole: one loaded from a fuzzy snapshot is no state of any zxid yet. */
void view_replace(struct view *view, struct state *take_state);

/* Core thread: the state is that of its zxid and may be read; or not any more. */
void view_set_whole(struct view *view, bool whole);

/* Any thread: the lock for reading. NULL (and no lock) while there is no state; the second form
 * also while it is not whole. */
const struct state *view_read(struct view *view);
const struct state *view_read_whole(struct view *view);
void view_read_done(struct view *view);

/* Runs the read operation of args->op by one of the functions below; a multi must hold reads. */
void view_run(struct view *view, const struct op_principal *who, const struct op_args *args,
              struct op_result *result);

/* Whether the operation is one of them (OP_MULTI is: it may hold reads). */
bool view_reads(enum op_id op);

/* Each takes the lock for a bounded look, fills `result`
 * (err, zxid and data; not the path, which is that of `args`) and lets go. Any thread. First
 * ERR_NO_NODE, then ERR_NO_AUTH when the znode's ACL does not let `who` read; of children and
 * entries of a tree that are closed to `who` there is the name alone.
 *
 * children: at most args->limit (0: 1,000), and no more data than VIEW_DATA_BYTES_MAX; `more` tells
 * that the list has more. A page of up to 1,000 children with stat or data is one state; a longer
 * one may span several, and then zxid and stat are of the first, so that they promise too little
 * rather than too much.
 * tree: levels down to args->depth (0: all), entries in name order, itself first; all of one state,
 * else ERR_TOO_LARGE above args->limit (0: 1,000, which is also the most) or the bounds of bytes.
 * multi: all elements from one state, VIEW_NODES_MAX znodes together. */
void view_get(struct view *view, const struct op_principal *who, const struct op_args *args,
              struct op_result *result);
void view_stat(struct view *view, const struct op_principal *who, const struct op_args *args,
               struct op_result *result);
void view_children(struct view *view, const struct op_principal *who, const struct op_args *args,
                   struct op_result *result);
void view_tree(struct view *view, const struct op_principal *who, const struct op_args *args,
               struct op_result *result);
void view_multi(struct view *view, const struct op_principal *who, const struct op_args *args,
                struct op_result *result);

/* search: entries whose name is like args->pattern (glob.h) and whose data holds the bytes of
 * args->data (empty: any), depth first, behind args->after; at most args->limit (0: 1,000, which is
 * also the most). It looks at VIEW_SEARCH_NODES_MAX znodes and VIEW_DATA_BYTES_MAX of data at most,
 * for about VIEW_SEARCH_US; when `more`, it continues behind result->after. Below a znode that
 * `who` may not read nothing is found, and of its own there is the name alone. A search of more
 * than 1,000 znodes spans several states: zxid is that of the first. */
void view_search(struct view *view, const struct op_principal *who, const struct op_args *args,
                 struct op_result *result);

/* A subtree as it is now, to be read in slices (state/cut.h): OK, ERR_NO_NODE, ERR_NO_AUTH,
 * ERR_NOT_READY; `*ret_zxid` is that of the state either way (0 without one). Any thread, but a cut
 * is used by one at a time, and ended by view_cut_end, which need not be the same one. */
struct state_cut;
enum err view_cut_begin(struct view *view, const struct op_principal *who, struct slice path,
                        size_t bytes_max, struct state_cut *cut, zxid_t *ret_zxid);
void view_cut_end(struct view *view, struct state_cut *cut);

/* The lock for one slice; false, and no lock, when the cut cannot be read any more: its fate says
 * why. */
bool view_cut_enter(struct view *view, struct state_cut *cut);
void view_cut_leave(struct view *view, struct state_cut *cut);

/* acl: READ or ADMIN is needed; without ADMIN the hashes of digest ids are not shown. */
void view_acl(struct view *view, const struct op_principal *who, const struct op_args *args,
              struct op_result *result);

/* The list (NULL: open) as `who` may see it, by the same rule: a new reference. Any thread. */
struct blob *view_shown_acl(struct blob *acl, const struct op_principal *who);

/* A write was refused for lack of a right, perhaps by another replica: what the lists of its paths
 * and of their parents say of the identities of `who` is noted with them. Any thread. */
void view_note_refusal(struct view *view, const struct op_principal *who,
                       const struct op_args *args);

/* touch, getsession: the session whose secret has args->secret_hash; ERR_UNKNOWN_SESSION also when
 * this replica has not heard of it yet: ask again behind a quorum round. */
void view_session(struct view *view, const struct op_principal *who, const struct op_args *args,
                  struct op_result *result);

/* The same for whoever needs no whole answer: the session with that hash (`id` 0) or id. OK,
 * ERR_UNKNOWN_SESSION, ERR_NOT_READY. Any thread. */
enum err view_find_session(struct view *view, const struct op_session *session,
                           struct op_session_info *ret_info);

/* sessions: those with a public id above args->after_id that `who` may see, by their ids, at most
 * args->limit (0: 1,000, which is also the most). It looks at VIEW_SEARCH_NODES_MAX; when `more`,
 * it continues behind result->after_id. What spans several states has the zxid of the first.
 * ephemerals: of the session args->session, behind the path args->after; a page likewise, of one
 * state. ERR_NOT_FOUND also when `who` may not see the session. */
void view_sessions(struct view *view, const struct op_principal *who, const struct op_args *args,
                   struct op_result *result);
void view_ephemerals(struct view *view, const struct op_principal *who, const struct op_args *args,
                     struct op_result *result);

/* What is known of clients besides, and who may be told of others: all (`show_all`), or each of his
 * own and the super user of all. Before any thread reads; `heard` is the caller's, may be NULL. */
struct heard;
void view_set_clients(struct view *view, struct heard *heard, bool show_all);

/* May `who` be told of the client who opened a session as `from` says (principal_from)? */
bool view_shows_client(const struct view *view, const struct op_principal *who, struct slice from);

/* What a client is told of a session; the caller holds the lock. */
void view_fill_session(const struct state_session *session, struct op_session_info *ret_info);

#endif
