/* prep_int.h - the inside of prep, shared by its files. */
#ifndef SERVER_PREP_INT_H
#define SERVER_PREP_INT_H

#include "base/check.h"
#include "base/mem.h"
#include "server/op/acl.h"
#include "server/prepare/overlay.h"
#include "server/prepare/prep.h"
#include "server/state/path.h"

struct growth_entry {
    zxid_t zxid;
    uint64_t bytes;
};

/* How much memory the requests in flight will add to the state: one number for each transaction
 * that adds memory. A transaction that frees memory has no number: state_memory_bytes becomes
 * smaller when it is applied. So state_memory_bytes plus these numbers is never too small. A number
 * is dropped when its transaction is applied, so an error in it does not last. */
struct growth {
    struct growth_entry *ring; /* Entries by zxid, from `first` on. */
    size_t first;
    size_t count;
    size_t cap;         /* Capacity of the ring; a power of two. */
    uint64_t in_flight; /* Sum of the bytes in the ring. */
    int64_t request;    /* Bytes that the current request adds, without its remembered answer. */
    uint64_t answer;    /* Bytes of the remembered answer of the current request. */
};

struct prep {
    struct prep_limits limits;
    struct overlay overlay;
    struct growth growth;
    struct buf path;  /* Path of the znode being created, with its sequence number. */
    struct buf paths; /* Paths of a recursive delete, or of a session's ephemerals. */
    struct buf acl;   /* ACL that the current request or element sets; empty: open. */
    struct buf scope; /* Scope of the current request's idempotency key. */
    struct buf bytes; /* The current request or its answer, encoded. */
    struct buf actor; /* The actor of the current request, encoded. */
};

/* One request, or one element of a multi, while it becomes a transaction. */
struct prep_step {
    struct prep *prep;
    const struct state *state;
    const struct prep_job *job;
    const struct txn_header *header;
    zxid_t zxid;
    uint64_t session;             /* Public id of the session of the request; 0: none. */
    struct txn_remember remember; /* Its `key` is empty when the answer is not remembered. */
    struct buf *out;
    struct op_result *result; /* Result of this request or element. */
};

/* Refuses the request with `err` and an explanation (NULL: none); returns `err`. */
enum err prep_refuse(const struct prep_step *step, enum err err, const char *detail);

/* Refuses a request whose condition on a version does not hold. The result carries the stat if
 * the znode exists, the caller may read it, and no earlier element of the multi has changed it. */
enum err prep_refuse_version(const struct prep_step *step, const struct overlay_node *node,
                             const char *detail);

enum err prep_check_path(const struct prep_step *step, struct slice path);

/* Refuses a request about a znode that does not exist. */
enum err prep_refuse_missing(const struct prep_step *step, const struct op_args *args);

/* Gets the znode as it will be once all requests in flight are applied. */
void prep_look(const struct prep_step *step, struct slice path, struct overlay_node *ret_node);

/* Checks the conditions on version, czxid, aversion and ETag, in that order. On failure the result
 * is that of prep_refuse_version. */
enum err prep_check_version(const struct prep_step *step, const struct op_args *args,
                            const struct overlay_node *node);

enum err prep_create(const struct prep_step *step, const struct op_args *args);
enum err prep_raise(const struct prep_step *step, const struct op_args *args);
enum err prep_set(const struct prep_step *step, const struct op_args *args);
enum err prep_delete(const struct prep_step *step, const struct op_args *args);
enum err prep_check(const struct prep_step *step, const struct op_args *args);
enum err prep_reap(const struct prep_step *step, const struct op_args *args);
enum err prep_set_acl(const struct prep_step *step, const struct op_args *args);
enum err prep_change(const struct prep_step *step, const struct op_args *args);

/* ---- Quotas. ---- */

/* Checks that all quotas at and above `path` allow `count` more znodes and `bytes` more bytes of
 * data. */
enum err prep_check_quota(const struct prep_step *step, struct slice path, int64_t count,
                          int64_t bytes);
void prep_count_quota(const struct prep_step *step, struct slice path, int64_t count,
                      int64_t bytes);

/* If `path` is that of a limits znode: checks that the caller has the permission ADMIN for the top
 * of the subtree that it limits or, if that does not exist, for its deepest ancestor that does. A
 * client could otherwise block the writes of a subtree for which it has no permission. */
enum err prep_may_limit(const struct prep_step *step, struct slice path);

/* Update a quota when the data of its limits znode (zookeeper_limits) was set, or that znode was
 * deleted. For other znodes these functions do nothing. */
void prep_limits_set(const struct prep_step *step, struct slice path, struct slice data);
void prep_limits_gone(const struct prep_step *step, struct slice path);

/* ---- Memory: what the current request adds to state_memory_bytes or frees. ---- */

/* To be called: prep_growth_commit when the current request has become transaction `zxid`;
 * prep_growth_applied when the state has applied all transactions up to `zxid`. */
void prep_growth_commit(struct growth *growth, zxid_t zxid);
void prep_growth_applied(struct growth *growth, zxid_t zxid);

void prep_count(const struct prep_step *step, uint64_t bytes, bool comes);
void prep_count_node(const struct prep_step *step, struct slice path,
                     const struct overlay_node *node, bool comes);
void prep_count_acl(const struct prep_step *step, struct slice acl);

/* Checks that there is room for all that the request adds. A request that frees memory by deleting
 * znodes or ending a session always passes, however much its remembered answer takes. */
enum err prep_check_memory(const struct prep_step *step);

/* ---- Idempotency keys. ---- */

/* Looks up the key of the request, if it has one. On OK with result->replayed set, the result is
 * the remembered answer. */
enum err prep_look_key(struct prep_step *step);

/* If the request has a key, fills in the answer of one operation, with the stat after the effect of
 * the operation. Without a key the answer is made when the transaction is applied. */
void prep_answer(const struct prep_step *step, struct slice path, bool has_stat);

/* If the request has a key, adds the whole answer to the transaction. */
enum err prep_remember(struct prep_step *step);

/* ---- The actor. ---- */

/* Encodes the actor of the request; the bytes are those of prep->actor. */
struct slice prep_actor(const struct prep_step *step);

/* Notes in the transaction which identities were confirmed by the ACLs that were checked. */
void prep_confirm(const struct prep_step *step);

/* ---- ACLs. ---- */

/* Checks that the caller has one of `perms` on the znode; else refuses with `detail`. */
enum err prep_may(const struct prep_step *step, const struct overlay_node *node, uint32_t perms,
                  const char *detail);

/* Writes an ACL to prep->acl in its canonical form. */
enum err prep_fix_acl(const struct prep_step *step, struct slice acl);

/* Returns a new reference to an ACL for the overlay; NULL when the ACL is open to all. */
struct blob *prep_acl_blob(struct slice acl);

/* ---- Znodes. ---- */

/* Deletes a znode without children. */
void prep_delete_node(const struct prep_step *step, struct slice path, uint8_t flags);

/* Deletes the `count` znodes of prep->paths, children before their parents; the effect of the last
 * delete gets `flags`. */
void prep_delete_paths(const struct prep_step *step, size_t count, uint8_t flags);

/* ---- Sessions. ---- */

/* Finds the session of the request, if it names one. */
enum err prep_in_session(struct prep_step *step);

enum err prep_open_session(const struct prep_step *step, const struct op_args *args);
enum err prep_attach(const struct prep_step *step, const struct op_args *args);
enum err prep_close(const struct prep_step *step, const struct op_args *args);
enum err prep_expire(const struct prep_step *step, const struct op_args *args);
enum err prep_kill(const struct prep_step *step, const struct op_args *args);

#endif
