/*
 * state_int.h - the inside of the state, shared by the files of this folder.
 *
 * Every change of a field of a znode stands between state_sum_out and state_sum_in, which keep the
 * digest. Every znode that joins or leaves the tree passes state_link and state_unlink, which keep
 * counts and indexes: what is to be reaped, ephemerals, users of ACLs, quotas.
 */
#ifndef SERVER_STATE_STATE_INT_H
#define SERVER_STATE_STATE_INT_H

#include "base/list.h"
#include "base/map.h"
#include "server/state/acls_int.h"
#include "server/state/quota_int.h"
#include "server/state/remember_int.h"
#include "server/state/session_int.h"
#include "server/state/state.h"
#include "server/state/tree_int.h"

enum {
    STATE_BUILTIN_COUNT = 4 /* Built-in znodes. */
};

/* The old values of one effect, for a rollback (undo.c). */
struct undo_entry {
    enum txn_effect_type type;
    int32_t version;    /* SET, SET_ACL. */
    struct znode *node; /* CREATE to SET_ACL. */

    union {
        struct znode *parent;          /* CREATE, DELETE. */
        struct blob *data;             /* SET: one reference. */
        struct session *session;       /* SESSION_*; a CLOSE owns it. */
        struct remembered *remembered; /* REMEMBER, FORGET; a FORGET owns it. */
    };

    union {
        zxid_t pzxid;    /* CREATE, DELETE: the parent's. */
        zxid_t mzxid;    /* SET. */
        uint64_t attach; /* SESSION_MOVE. */
    };

    union {
        uint32_t creates; /* CREATE, DELETE: the parent's. */
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
    int64_t age_ms;   /* Highest of its transactions; no part of the digest. */
    int64_t stamp_ms; /* Of the newest one; likewise. */
    uint64_t history;
    struct znode *root;
    uint64_t digest;          /* Sum of a hash over each znode, session and result. */
    uint64_t node_count;      /* Built-in ones included. */
    uint64_t data_bytes;      /* Data and names. */
    uint64_t ephemeral_count; /* Znodes owned by sessions. */
    uint64_t tree_cost;       /* Of znodes and their data (cost.h). */
    struct avl reap;          /* TTL and container znodes by due time (reap.c). */
    struct map reap_entries;  /* From the address of a znode to its entry there. */
    uint64_t reap_serial;     /* Breaks ties, so that the order never depends on addresses. */
    size_t reap_counting;     /* Those that wait for an age ... */
    int64_t reap_until_ms;    /* ... and the last of these ages, or a later one; 0: none. */
    struct acls acls;
    struct sessions sessions;
    struct remembers remembers;
    struct quotas quotas;
    uint32_t restore_section; /* Section of the last block that was restored. */
    uint64_t restore_after;   /* Last session or zxid of a result that was restored in it. */
    struct buf restore_path;  /* Last path that was restored. */
    struct undo undo;         /* Of the transaction being applied. */
    struct list cuts;         /* Of struct state_cut: exports that read an older version. */
};

/* Drops the references of the changes. */
void changes_clear(struct state_changes *changes);

void state_sum_out(struct state *state, const struct znode *node);
void state_sum_in(struct state *state, const struct znode *node);

/* Links a childless znode with all its fields. The caller sums the parent. */
void state_link(struct state *state, struct znode *parent, struct znode *node);

/* Unlinks a childless znode; the caller owns it, and sums the parent. */
void state_unlink(struct state *state, struct znode *node);

/* Frees all znodes below `node`, which stays; its counter of creates does not change. */
void state_drop_below(struct state *state, struct znode *node);

/* Replaces the data and returns the old data. The caller sums the node. */
struct blob *state_swap_data(struct state *state, struct znode *node, struct blob *take_data);

/* Replaces the owner, or the ACL, of a linked znode. The caller sums it. */
void state_set_owner(struct state *state, struct znode *node, uint64_t owner);
void state_set_acl(struct state *state, struct znode *node, uint32_t acl);

/* Updates the index after a change of owner, age, creates or number of children. */
void reap_update(struct state *state, struct znode *node);
void reap_forget(struct state *state, struct znode *node);
void reap_release(struct state *state);

/* Journal of one transaction, to roll it back when a later effect is impossible. */
void undo_create(struct undo *undo, struct znode *node, zxid_t pzxid, uint32_t creates);
void undo_delete(struct undo *undo, struct znode *take_node, struct znode *parent, zxid_t pzxid);
void undo_set(struct undo *undo, struct znode *node);     /* Before the change. */
void undo_set_acl(struct undo *undo, struct znode *node); /* Before the change. */
void undo_session_open(struct undo *undo, struct session *session);
void undo_session_close(struct undo *undo, struct session *take_session);
void undo_session_move(struct undo *undo, struct session *session); /* Before the change. */
void undo_remember(struct undo *undo, struct remembered *entry);
void undo_forget(struct undo *undo, struct remembered *take_entry);
void undo_rollback(struct state *state);
void undo_commit(struct undo *undo); /* Frees the old values. */
void undo_release(struct undo *undo);

#endif
