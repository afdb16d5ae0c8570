/*
 * state_int.h - the inside of the state, shared by the files of this folder.
 *
 * Every change of a field of a znode stands between state_sum_out and state_sum_in, which keep the
 * digest. Every znode that joins or leaves the tree passes state_link, state_unlink or
 * state_drop_below, which keep counts and indexes: TTL and container znodes, ephemerals, users of
 * ACLs, quotas.
 */
#ifndef SERVER_STATE_STATE_INT_H
#define SERVER_STATE_STATE_INT_H

#include "base/avl.h"
#include "base/blob.h"
#include "base/check.h"
#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/wire.h"
#include "server/state/cut.h"
#include "server/state/path.h"
#include "server/state/state.h"

/* ---- Znodes as linked memory (tree.c). There is no table of paths, and a znode does not store its
 * path: a look-up walks from the root. In the digest, path_hash stands for the path. ---- */

struct znode {
    struct avl_node sibling; /* Entry in the parent's `children`. */
    struct avl children;     /* Children by name. */
    struct znode *parent;    /* NULL for the root and while unlinked. */
    struct blob *data;       /* One reference; NULL for null data. */
    zxid_t czxid;
    zxid_t mzxid;
    zxid_t pzxid;
    int64_t ctime_ms;
    int64_t mtime_ms;
    int64_t age_ms;     /* When the TTL, or the time of an unused container, began; 0: none. */
    uint64_t owner;     /* See txn.h. */
    uint64_t path_hash; /* Hash over the parent's path hash and the name. */
    uint64_t data_hash; /* Hash of the data; kept to take the old value out of the digest. */
    int32_t version;
    int32_t aversion;
    uint32_t creates;      /* Children ever created. */
    uint32_t num_children; /* Present children. */
    uint32_t acl;          /* Index in the table of lists; 0: open to all. */
    uint16_t name_len;     /* Bytes of `name`. */
    uint8_t name[];
};

/* Makes a zeroed znode without parent, children and data. */
struct znode *tree_node_new(struct slice name);

/* Frees a znode that is linked nowhere and has no children. */
void tree_node_free(struct znode *node);

/* Replaces the data by the reference `take_data` and returns the old data. */
struct blob *tree_node_swap_data(struct znode *node, struct blob *take_data);

/* Returns the hash of the znode for the digest. It covers the path, the data, every stored counter
 * and the hash of the ACL (0: open), but not the index of the ACL. */
uint64_t tree_node_hash(const struct znode *node, uint64_t acl_hash);

/* Links `node` below `parent`, which has no child of that name. */
void tree_link(struct znode *parent, struct znode *node);

/* Unlinks a znode, with its subtree. */
void tree_unlink(struct znode *node);

struct znode *tree_child(const struct znode *parent, struct slice name);
struct znode *tree_find(struct znode *root, struct slice path);

/* Returns the first znode after `path` in depth-first order; `path` need not exist. */
const struct znode *tree_after(const struct znode *root, struct slice path);

/* Returns the key of a znode in tables of znodes: its address. */
static inline uint64_t znode_key(const struct znode *node)
{
    return (uint64_t)(uintptr_t)node;
}

/* Returns the bytes of the path; 0 for the root. */
size_t tree_path_len(const struct znode *node);

/* Frees an unlinked subtree, parents before children, calling `forget` (may be NULL) on each. */
void tree_dismantle(struct znode *top, void (*forget)(void *ctx, struct znode *node), void *ctx);

/* ---- Access control lists (acls.c): each list is kept once, and znodes hold its index. An index
 * depends on which lists were freed before, so it is valid in this process only, and neither the
 * digest nor a snapshot holds it. A list without users is freed only by the next acls_collect, so
 * that a rollback, and changes that were handed out, still find it. ---- */

struct acl {
    struct blob *blob; /* The encoded list, one reference. */
    uint64_t hash;     /* Hash of the encoded list, for the digest. */
    uint32_t refs;     /* Number of znodes in the tree that have the list. */
    uint32_t index;
    struct list idle; /* Entry in acls.idle: acls_collect checks whether this ACL has users. */
};

struct acls {
    struct acl **slots; /* Lists by index; NULL: free; index 0 is never used. */
    uint32_t *free;     /* Free indices below `count`. */
    uint32_t free_count;
    uint32_t count; /* Number of indices given so far, 0 included. */
    uint32_t cap;
    struct map by_bytes;
    struct list idle;
    uint64_t cost; /* Cost of the lists with users (cost.c). */
};

void acls_init(struct acls *acls);
void acls_release(struct acls *acls);

/* Returns the index of the list with these bytes; 0 for empty bytes. Counts no znode yet. */
uint32_t acls_intern(struct acls *acls, struct slice bytes);

/* Count one more, or one less, znode that has the list; no effect for index 0. */
void acls_ref(struct acls *acls, uint32_t index);
void acls_unref(struct acls *acls, uint32_t index);

/* Frees the lists without users. */
void acls_collect(struct acls *acls);

/* Return the list at an index, and its hash; NULL and 0 for index 0. */
struct blob *acls_blob(const struct acls *acls, uint32_t index);
uint64_t acls_hash(const struct acls *acls, uint32_t index);

/* ---- Open sessions, and the ephemerals of each owner (session.c). A fuzzy snapshot may hold an
 * ephemeral without its session, or a session without its ephemeral. So a session has an entry here
 * while it is open or owns an ephemeral. Only an open session is visible, hashed and scanned. ----
 */

struct session {
    struct state_session shown;
    struct avl_node order; /* Entry in sessions.order while open. */
    struct avl ephemerals; /* Each struct ephemeral by path. */
    bool open;
    uint8_t from[TXN_FROM_MAX]; /* Memory of shown.from. */
};

struct sessions {
    struct map owners;     /* Each struct session by id, open or not. */
    struct avl order;      /* Open sessions by id. */
    struct map by_hash;    /* Open sessions by the hash of their secret. */
    struct map ephemerals; /* Each struct ephemeral by the address of its znode. */
    uint64_t count;        /* Number of open sessions. */
    struct map shares;     /* Each struct share by name, with a count of at least 1. */
};

void sessions_init(struct sessions *sessions);
void sessions_release(struct sessions *sessions);

/* Returns the open session, or NULL. */
struct session *session_get(const struct state *state, uint64_t id);

/* Opens a session that is not open, with these fields. The counts of ephemerals are not taken from
 * `fields`, because the entry keeps its own counts. */
struct session *session_open(struct state *state, const struct state_session *fields);

/* Closes an open session. Without ephemerals the entry is returned and the caller owns it, for
 * session_reopen or mem_free. Otherwise the entry stays for the ephemerals, and NULL is returned.
 */
struct session *session_shut(struct state *state, struct session *session);
void session_reopen(struct state *state, struct session *take_session);
void session_move(struct state *state, struct session *session, uint64_t attach, uint32_t member);

/* Update the index when a session becomes the owner of a linked znode, or stops being its owner.
 * ephemeral_left reads no other znode, because the subtree may be unlinked already. */
void ephemeral_joined(struct state *state, struct znode *node);
void ephemeral_left(struct state *state, struct znode *node);

/* ---- Results of writes with an idempotency key, by key and by zxid (remember.c). A transaction
 * remembers at most one result, so its zxid identifies the result, and results are ordered by zxid.
 * ---- */

struct remembered {
    struct state_remembered shown; /* Its slices point into `bytes`. */
    struct avl_node order;         /* Entry in remembers.order. */
    uint64_t hash;                 /* Hash of all fields, for the digest. */
    size_t name_len;               /* Length of the name, with which `bytes` begins. */
    uint8_t bytes[];               /* u32 length of the scope, scope, key, result. */
};

struct remembers {
    struct map by_name; /* Results by scope and key. */
    struct avl order;   /* Results by zxid. */
    uint64_t bytes;     /* Bytes of all scopes, keys and results. */
    uint64_t cost;      /* Cost of all results in memory (cost.c). */
};

/* Return the result with this name, or the first one with a zxid above `after`; NULL when there is
 * none. */
struct remembered *remember_get(const struct state *state, struct slice scope, struct slice key);
struct remembered *remember_after(const struct state *state, zxid_t after);

/* Returns a copy of the fields, which is not yet in the table. */
struct remembered *remember_new(const struct state_remembered *fields);

/* Inserts an entry. Neither its name nor its zxid may be in the table yet. */
void remember_insert(struct state *state, struct remembered *take_entry);

/* Removes an entry; the caller owns it, for mem_free or remember_insert. */
void remember_remove(struct state *state, struct remembered *entry);

/* ---- Usage at and below the paths that have a limits znode (quota.c). Each znode has a
 * path_hash anyway. A quota is found by this hash and then compared by path. So no znode needs a
 * field for quotas, and without quotas there is no work. ---- */

struct quota {
    struct state_quota shown;
    struct avl_node order;   /* Entry in quotas.order. */
    struct quota *same_hash; /* Next quota with the same path hash. */
    uint64_t path_hash;
    uint8_t path[]; /* Memory of shown.path. */
};

struct quotas {
    struct map by_hash; /* First struct quota of each path hash. */
    struct avl order;   /* Quotas by path. */
    size_t count;
    uint64_t cost; /* Cost of all quotas in memory (cost.c). */
};

void quotas_release(struct quotas *quotas);

/* Update the usage: `node` was linked, is about to be unlinked, or has new data in place of
 * `old_len` bytes. The znode and its parents are linked during the call. */
void quota_joined(struct state *state, const struct znode *node);
void quota_leaving(struct state *state, const struct znode *node);
void quota_resized(struct state *state, const struct znode *node, uint64_t old_len);

/* Updates the usage when all znodes below `node` are about to be unlinked. */
void quota_leaving_below(struct state *state, const struct znode *node);

/* ---- The state. ---- */

enum {
    STATE_BUILTIN_COUNT = 4 /* Number of built-in znodes. */
};

/* The old values of one effect, for a rollback (edit.c). Each member names the effects that use it.
 */
struct undo_entry {
    enum txn_effect_type type;
    int32_t version;    /* SET, SET_ACL. */
    struct znode *node; /* CREATE, SET, DELETE, SET_ACL; the entry of a DELETE owns it. */

    union {
        struct znode *parent;          /* CREATE, DELETE. */
        struct blob *data;             /* SET: one reference. */
        struct session *session;       /* SESSION_*; the entry of a CLOSE owns it. */
        struct remembered *remembered; /* REMEMBER, FORGET; the entry of a FORGET owns it. */
    };

    union {
        zxid_t pzxid;    /* CREATE, DELETE: pzxid of the parent. */
        zxid_t mzxid;    /* SET. */
        uint64_t attach; /* SESSION_MOVE. */
    };

    union {
        uint32_t creates; /* CREATE, DELETE: creates of the parent. */
        int64_t mtime_ms; /* SET. */
        uint32_t acl;     /* SET_ACL. */
        uint32_t member;  /* SESSION_MOVE. */
    };

    int64_t age_ms; /* SET. */
};

struct undo {
    struct undo_entry *entries;
    size_t count;
    size_t cap;
};

struct state {
    zxid_t applied;
    int64_t age_ms;   /* Highest age of its transactions; not in the digest. */
    int64_t stamp_ms; /* Stamp of the newest transaction; not in the digest. */
    uint64_t history;
    struct znode *root;
    uint64_t digest;          /* Sum of the hashes of all znodes, sessions and results. */
    uint64_t node_count;      /* Znodes, built-in ones included. */
    uint64_t data_bytes;      /* Bytes of data and names. */
    uint64_t ephemeral_count; /* Znodes owned by sessions. */
    uint64_t tree_cost;       /* Cost of znodes and their data (cost.c). */
    struct avl reap;          /* TTL and container znodes by due time (reap.c). */
    struct map reap_entries;  /* Maps the address of a znode to its entry in `reap`. */
    uint64_t reap_serial;     /* Last serial given; serials order entries of equal due time. */
    /* Number of entries of `reap` whose time limit is an age. A container that had children is due
     * at once when it is empty, and is not counted. */
    size_t reap_counting;
    int64_t reap_until_ms; /* Age by which all these entries are due; 0: there are none. */
    struct acls acls;
    struct sessions sessions;
    struct remembers remembers;
    struct quotas quotas;
    uint32_t restore_section; /* Section of the last block that was restored. */
    uint64_t restore_after;   /* Last session id or result zxid restored in this section. */
    struct buf restore_path;  /* Last path that was restored. */
    struct undo undo;         /* Journal of the transaction being applied. */
    struct list cuts;         /* Each struct state_cut that is being read (cut.h). */
};

/* Drops the references of the changes. */
void changes_clear(struct state_changes *changes);

void state_sum_out(struct state *state, const struct znode *node);
void state_sum_in(struct state *state, const struct znode *node);

/* Links a childless znode whose fields are set. The caller updates the digest for the parent. */
void state_link(struct state *state, struct znode *parent, struct znode *node);

/* Unlinks a childless znode, which the caller then owns. The caller updates the digest for the
 * parent. */
void state_unlink(struct state *state, struct znode *node);

/* Frees all znodes below `node`. The znode itself stays, and its counter of creates does not
 * change. */
void state_drop_below(struct state *state, struct znode *node);

/* Replaces the data and returns the old data. The caller updates the digest for the znode. */
struct blob *state_swap_data(struct state *state, struct znode *node, struct blob *take_data);

/* Replace the owner, or the ACL, of a linked znode. The caller updates the digest for the znode. */
void state_set_owner(struct state *state, struct znode *node, uint64_t owner);
void state_set_acl(struct state *state, struct znode *node, uint32_t acl);

/* Update the index of due times. To be called: reap_update after a change of owner, age, creates or
 * number of children; reap_forget when the znode is unlinked. */
void reap_update(struct state *state, struct znode *node);
void reap_forget(struct state *state, struct znode *node);

/* The journal of one transaction rolls it back when a later effect is impossible. An entry of SET,
 * SET_ACL or SESSION_MOVE is added before the change. */
void undo_add(struct undo *undo, const struct undo_entry *entry);
void undo_rollback(struct state *state);
void undo_commit(struct undo *undo); /* Frees the old values. */
void undo_release(struct undo *undo);

/* ---- Cuts (cut.c): a znode is saved for their readers before a transaction changes it. ---- */

void cuts_save(struct state *state, const struct znode *node, struct slice path);

/* Saves `node` for the readers of cuts. To be called before any change of its fields, its data, its
 * ACL, or its number of children. */
static inline void cuts_before(struct state *state, const struct znode *node, struct slice path)
{
    if (!list_empty(&state->cuts)) {
        cuts_save(state, node, path);
    }
}

#endif
