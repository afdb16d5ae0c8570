/*
 * prep.h - the leader turns a request into a transaction, or refuses it.
 *
 * The leader checks each request in ZooKeeper's order against the tree plus an overlay of the
 * changes that are proposed and not yet applied; the transaction carries absolute results. A
 * refusal changes nothing. Core thread.
 */
#ifndef SERVER_PREP_H
#define SERVER_PREP_H

#include "base/buf.h"
#include "base/err.h"
#include "server/config/config.h"
#include "server/op/op.h"
#include "server/state/state.h"
#include "server/state/txn.h"

struct prep;

struct prep_limits {
    struct config_tree tree; /* Limits of the tree in the leader's configuration. */
    uint32_t data_bytes_max; /* maxDataBytes. */
    uint32_t txn_bytes_max;  /* Bytes of a whole transaction. */
    uint32_t multi_ops_max;
    bool inherit_acl; /* A create without an ACL takes that of the parent; false: it is open. */
};

/* How much memory the tree may take: the smallest of the limits of the leader and of the voters
 * that are synchronized with it. */
struct prep_room {
    uint64_t bytes_max; /* maxTreeBytes: the bound of prep_memory_bytes; 0: no bound. */
    uint32_t member;    /* Replica that has this limit. */
};

struct prep *prep_new(const struct prep_limits *limits);
void prep_free(struct prep *prep);

/* Forgets all in-flight changes. To be called on every change of role. */
void prep_clear(struct prep *prep);

enum {
    PREP_WHY_MAX = 320 /* Bytes of a sentence, with its NUL. */
};

/* What the leader says about a change of the configuration that a client asks for. */
struct prep_verdict {
    enum err err; /* Why it cannot be made; ERR_OK: it can. */
    char why[PREP_WHY_MAX];
    const char *reason;  /* Constant name of the reason (op_result.reason), or NULL. */
    bool must_wait;      /* The leader is new and cannot judge it yet. */
    bool must_hand_over; /* Refused, but the next leader can make it. */
    struct buf answer;   /* The answer (change.h) of a change of the members; empty: none. */
};

/* Whether it is the super user: only it may change the configuration. */
bool prep_is_super(const struct op_principal *who);

/* A request to prepare. */
struct prep_job {
    const struct op_args *args;
    const struct op_principal *who;   /* NULL: the leader itself, which no ACL stops. */
    const struct op_session *session; /* Session of the request; NULL: none. */
    struct slice key;                 /* Idempotency-Key; empty: none. */
    const struct txn_header *header;  /* Origin and time of the transaction. */
    /* Zxid since which the disks of a quorum are nearly full; 0: they are not. While they are, only
     * deletes, reaps and ends of sessions are prepared, and each session may be attached once after
     * this zxid. */
    zxid_t low_since;
    struct prep_room room;
    const struct prep_verdict *verdict; /* Changes of the configuration by the super user only. */
};

/* Checks the job against `state` + overlay. On OK `out` holds the transaction that will get `zxid`,
 * and its changes are in the overlay; `result` is as op_result_init left it, except for `created`.
 * On error `result` says what failed and why (err, detail, stat of a failed version check,
 * failed_index and results of a multi) and `out` is empty; the caller sets the zxid of the result.
 * OK with an empty `out`: `job->key` was used before. `result` is then the remembered answer, with
 * `replayed` set and the zxid of the first write, and nothing is to be proposed. The same holds for
 * the dry run of a change of the members, whose result has the answer. `zxid` must be
 * above all zxids that were prepared or applied. */
enum err prep_request(struct prep *prep, const struct state *state, const struct prep_job *job,
                      zxid_t zxid, struct buf *out, struct op_result *result);

/* Makes the transaction that forgets at most 1,000 remembered results that are old enough. Returns
 * false, with an empty `out`, when none is due. The call is cheap enough for each tick. */
bool prep_forget(struct prep *prep, const struct state *state, const struct txn_header *header,
                 zxid_t zxid, struct buf *out);

/* Drops what is kept for transactions up to `zxid`: the state has applied all of them. */
void prep_applied(struct prep *prep, zxid_t zxid);

/* Returns an upper bound of the memory, in bytes, that the state takes until all requests in flight
 * are applied: a request that adds more than it frees counts at once, and a request that frees more
 * counts only after it is applied. */
uint64_t prep_memory_bytes(const struct prep *prep, const struct state *state);

/* Returns the number of entries in the overlay; 0 when nothing is in flight. */
size_t prep_pending(const struct prep *prep);

#endif
