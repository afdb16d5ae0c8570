/*
 * view.h - the tree as front-end threads may read it: one reader-writer lock around the state.
 *
 * The lock prefers the writer: with the default kind, four readers on two cores starve the core
 * thread for tens of milliseconds. One hold visits at most VIEW_NODES_MAX znodes or VIEW_BYTES_MAX
 * bytes, and no thread holds it across I/O.
 */
#ifndef SERVER_VIEW_H
#define SERVER_VIEW_H

#include "base/err.h"
#include "base/logrec.h"
#include "server/op/op.h"

enum {
    VIEW_NODES_MAX = 1000,
    VIEW_BYTES_MAX = 1 << 20,       /* Bytes of names and paths. */
    VIEW_DATA_BYTES_MAX = 16 << 20, /* Bytes of data in one answer; a page ends there. */
    VIEW_SEARCH_NODES_MAX = 10000,  /* Znodes that one search visits. */
    VIEW_SEARCH_US = 20000          /* Time after which a search ends and reports `more`. */
};

struct state;
struct view;

struct view *view_new(void);
void view_free(struct view *view); /* Frees the state it holds. */

/* Core thread: takes the write lock and returns the state (NULL: there is none, but the lock is
 * held). */
struct state *view_write(struct view *view);
void view_write_done(struct view *view);

/* Core or worker thread: puts another state in place (recovery, installed snapshot) and frees the
 * old one. The new state is not whole: a state loaded from a fuzzy snapshot is not the state of any
 * zxid yet. */
void view_replace(struct view *view, struct state *take_state);

/* Core thread: sets whether the state is exactly that of its zxid and may be read. */
void view_set_whole(struct view *view, bool whole);

/* Any thread: takes the read lock. Returns NULL, without the lock, while there is no state;
 * view_read_whole also while the state is not whole. */
const struct state *view_read(struct view *view);
const struct state *view_read_whole(struct view *view);
void view_read_done(struct view *view);

/*
 * Runs the read operation of args->op. The function takes the lock for a bounded time, fills
 * `result` (err, zxid and data; the path is in `args`) and releases the lock. Any thread.
 * ERR_NO_NODE is checked first, then ERR_NO_AUTH (the ACL of the znode does not let the client
 * read). Children and entries of a tree that the client may not read have only a name.
 *
 * children: at most args->limit (0: 1,000), and no more data than VIEW_DATA_BYTES_MAX; `more`: the
 * list continues. A page of up to 1,000 children with stat or data shows one state. A longer page
 * may span several states; then zxid and stat are those of the first state: the answer may be newer
 * than its zxid, but never older.
 *
 * tree: levels down to args->depth (0: all), entries in name order, the top first, all of one
 * state. ERR_TOO_LARGE: there are more than args->limit (0: 1,000, which is also the maximum), or
 * more bytes than the bounds.
 *
 * multi, of reads: all elements from one state, VIEW_NODES_MAX znodes together.
 *
 * search: entries whose name matches args->pattern (glob.h) and whose data contains the bytes of
 * args->data (empty: any), depth first, after args->after; at most args->limit (0: 1,000, which is
 * also the maximum), and no more after VIEW_BYTES_MAX of paths. The search visits at most
 * VIEW_SEARCH_NODES_MAX znodes and VIEW_DATA_BYTES_MAX of data, for about VIEW_SEARCH_US; with
 * `more` the next search continues after result->after. When the client may not read a znode, only
 * its name is compared, and nothing below it is found. A search of more than 1,000 znodes spans
 * several states: zxid is that of the first state.
 *
 * getacl: needs READ or ADMIN; without ADMIN the hashes of digest ids are hidden.
 *
 * touch, getsession: the session whose secret has args->secret_hash. ERR_UNKNOWN_SESSION also when
 * this replica has not applied the opening of the session yet: retry after a quorum round.
 *
 * sessions: the sessions with a public id above args->after_id that the client may see, in order of
 * id, at most args->limit (0: 1,000, which is also the maximum). One call visits at most
 * VIEW_SEARCH_NODES_MAX sessions; with `more` the next call continues after result->after_id. When
 * the list spans several states, zxid is that of the first state. ephemerals: the ephemeral znodes
 * of the session args->session after the path args->after; a page of one state. ERR_NOT_FOUND also
 * when the client may not see the session.
 */
void view_run(struct view *view, const struct op_principal *who, const struct op_args *args,
              struct op_result *result);

/* Runs a multi of reads like view_run, but one hold of the lock visits up to `nodes_max` znodes.
 * Any thread. */
void view_run_once(struct view *view, const struct op_principal *who, const struct op_args *args,
                   uint32_t nodes_max, struct op_result *result);

/* Whether view_run runs the operation (also OP_MULTI, which may hold reads). */
bool view_reads(enum op_id op);

/* Begins a cut: a subtree as it is now, to be read in slices (state/cut.h). Returns ERR_OK,
 * ERR_NO_NODE, ERR_NO_AUTH or ERR_NOT_READY; `*ret_zxid` is the zxid of the state in any case (0
 * without a state). Any thread may use the cut, one at a time. view_cut_end ends the cut, also from
 * another thread. */
struct state_cut;
enum err view_cut_begin(struct view *view, const struct op_principal *who, struct slice path,
                        size_t bytes_max, struct state_cut *cut, zxid_t *ret_zxid);
void view_cut_end(struct view *view, struct state_cut *cut);

/* Takes the lock for one slice. Returns false, without the lock, when the cut cannot be read any
 * more, for the reason in cut->fate. */
bool view_cut_enter(struct view *view, struct state_cut *cut);
void view_cut_leave(struct view *view, struct state_cut *cut);

/* Returns the ACL (NULL: open) as getacl shows it to the client; a new reference. Any thread. */
struct blob *view_shown_acl(struct blob *acl, const struct op_principal *who);

/* Compares the ACLs of the paths of a refused write, and of their parents, with the client's
 * identities. So wrong passwords are counted on this replica even if another replica has refused
 * the write. Any thread. */
void view_note_refusal(struct view *view, const struct op_principal *who,
                       const struct op_args *args);

/* Looks up a session by id, or by hash (`id` 0), and fills `ret_info`, not an op_result. Returns
 * ERR_OK, ERR_UNKNOWN_SESSION or ERR_NOT_READY. ERR_OK and ERR_UNKNOWN_SESSION also set
 * `ret_info->zxid`. Any thread. */
enum err view_find_session(struct view *view, const struct op_session *session,
                           struct op_session_info *ret_info);

/* Sets the table of the last contact of each session (`heard` belongs to the caller, may be NULL),
 * and which sessions a client may see: all (`show_all`), or only its own. The super user may see
 * all sessions. Called before any thread reads. */
struct heard;
void view_set_clients(struct view *view, struct heard *heard, bool show_all);

/* Whether a client may see another client, which `from` describes (principal_from). */
bool view_shows_client(const struct view *view, const struct op_principal *who, struct slice from);

/* Whether a client may know that the path exists: it does, and the client may read each znode above
 * it, and so list the children on the way. The caller holds the lock. */
bool view_shows_path(const struct state *state, const struct op_principal *who, struct slice path);

/* Fills what a client sees of a session; the caller holds the lock. */
struct state_session;
void view_fill_session(const struct state_session *session, struct op_session_info *ret_info);

#endif
