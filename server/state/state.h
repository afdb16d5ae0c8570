/*
 * state.h - the replicated state machine: same transactions in, same bytes out, on every replica.
 *
 * The code is pure: no clock, no randomness, no I/O. A transaction carries absolute results, so
 * that applying it twice does no harm; therefore a snapshot may be fuzzy. Derived data (digest,
 * counts, the index of TTL and container znodes, ephemerals by session) is rebuilt, never stored.
 *
 * Threads: the core thread changes the state under the write lock of the view; any thread reads it
 * under the read lock.
 */
#ifndef SERVER_STATE_STATE_H
#define SERVER_STATE_STATE_H

#include "base/blob.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/network.h"
#include "server/state/txn.h"

enum {
    STATE_NAME_MAX = 4096,  /* Bytes of one path component. */
    STATE_PATH_MAX = 16384, /* Bytes of a path. */
    STATE_DEPTH_MAX = 1024, /* Components of a path. */

    STATE_SLICE_NODES_MAX = 1000,       /* Znodes per call of state_scan. */
    STATE_CONTAINER_UNUSED_MS = 300000, /* A container that never had a child lives this long. */
    STATE_CREATES_MAX = INT32_MAX,      /* Children ever created under one znode. */
    STATE_REMEMBERED_NAME_MAX = 4 + TXN_SCOPE_MAX + TXN_KEY_MAX,
};

#define STATE_CONFIG_PATH "/zookeeper/config"
#define STATE_QUOTA_PATH  "/zookeeper/quota"
#define STATE_LIMITS_NAME "zookeeper_limits"
#define STATE_STATS_NAME  "zookeeper_stats"

/* The counters of a znode as a client sees them (ZooKeeper's Stat). The state stores the number of
 * children ever created, and computes the cversion from this number. So one counter serves both the
 * sequence suffix and the cversion. */
struct stat_view {
    zxid_t czxid;     /* Transaction that created the znode. */
    zxid_t mzxid;     /* Transaction that last set its data. */
    zxid_t pzxid;     /* Transaction that last created or deleted a child. */
    int64_t ctime;    /* Wall clock of czxid, ms since 1970, for people only. */
    int64_t mtime;    /* Wall clock of mzxid, ms since 1970, for people only. */
    int32_t version;  /* Number of sets of the data. */
    int32_t cversion; /* Number of creates plus deletes of children. */
    int32_t aversion; /* Number of sets of the ACL. */
    /* op_wire.c does not encode the next two. So an answer that was decoded from bytes lacks them:
     * a remembered answer, or a refusal that the leader sent to another replica. */
    bool container;           /* The leader deletes the znode after its last child. */
    int64_t ttl_ms;           /* Deleted if its data was not set for this time; 0: never. */
    uint64_t ephemeral_owner; /* Public id of the owning session, else 0. */
    uint32_t data_length;     /* Bytes; 0 for null data. */
    uint32_t num_children;
};

/* Returns the cversion: creates plus deletes, and the deletes are creates minus num_children. */
static inline int32_t stat_cversion(uint32_t creates, uint32_t num_children)
{
    return (int32_t)(2 * creates - num_children);
}

/* Returns the version after one more set. It wraps around and skips -1, which means "any". */
static inline int32_t stat_version_next(int32_t version)
{
    int32_t next = (int32_t)((uint32_t)version + 1);

    return next == -1 ? 0 : next;
}

struct state;
struct znode;

/* Makes a state with only the built-in znodes. `history` is a random id (the header
 * Zk-History): zxids can be compared only under the same id. `zabra recover` changes it. */
struct state *state_new(uint64_t history);
void state_free(struct state *state);

zxid_t state_applied(const struct state *state);
/* Return age and stamp of the newest applied transaction; a snapshot keeps both. The age never
 * falls. */
int64_t state_age_ms(const struct state *state);
int64_t state_stamp_ms(const struct state *state);
uint64_t state_digest(const struct state *state);
uint64_t state_history(const struct state *state);
/* Replaces the history. Called after a snapshot was loaded, because loading sets the history that
 * the snapshot contains. If the snapshot is older than the last `zabra recover`, that history is
 * out of date. Must not be 0. */
void state_set_history(struct state *state, uint64_t history);
uint64_t state_node_count(const struct state *state);
uint64_t state_data_bytes(const struct state *state); /* Sum of data and name lengths. */
uint64_t state_ephemeral_count(const struct state *state);

/* Returns the memory of the whole state in bytes, by the rule of the cost_ functions below. It is a
 * running sum, the same on every replica at the same zxid. */
uint64_t state_memory_bytes(const struct state *state);

/* Whether some znode has exactly this encoded ACL, so that one more znode with this ACL adds no
 * list. Also true for the empty ACL (open to all), which needs no list. */
bool state_has_acl(const struct state *state, struct slice acl);

/* The change of one effect, for the answer to the client (effects marked TXN_REPLY) and for
 * watches. The blobs are valid until the changes are filled again or released. */
struct state_change {
    enum txn_effect_type type;
    bool reply;              /* This effect answers an operation of the request. */
    struct slice path;       /* Points into the transaction's bytes; empty: no znode. */
    struct stat_view stat;   /* Stat after the effect; zero after a delete. */
    struct blob *data;       /* CREATE, SET: the data after the effect; NULL: null data. ANSWER: the
                                answer. */
    struct blob *acl;        /* ACL after the effect (DELETE: before it); NULL: open to all. */
    struct blob *parent_acl; /* CREATE, DELETE: ACL of the parent; NULL: open to all. */
    uint64_t session; /* SESSION_*: its id. CREATE, DELETE: id of an ephemeral's owner, or 0. */
    uint64_t attach;  /* SESSION_MOVE: the new attach number. */
    uint32_t member;  /* SESSION_MOVE: the replica that serves the session now. */
    bool expired;     /* SESSION_CLOSE: the leader expired the session. */
};

struct state_changes {
    struct state_change *items; /* One for each effect; the array grows and is reused. */
    size_t count;
    size_t cap;
};

void state_changes_release(struct state_changes *changes);

/* Applies one transaction. `zxid` must be above state_applied, except while recovering (`fuzzy`):
 * then effects that a fuzzy snapshot already holds are tolerated, and no effect is lost.
 * ERR_FORMAT: malformed bytes. ERR_CORRUPT: an impossible effect (outside `fuzzy`). Both errors
 * leave the state unchanged; a running replica then stops. `ret_changes` may be NULL. */
enum err state_apply(struct state *state, zxid_t zxid, struct slice txn, bool fuzzy,
                     struct state_changes *ret_changes);

/* Applies a record of the configuration: the transaction of the client that asked for the change,
 * if `txn` is not empty, as state_apply does, and the text as state_set_config does. */
enum err state_apply_config(struct state *state, zxid_t zxid, struct slice text, struct slice txn,
                            bool fuzzy, struct state_changes *ret_changes);

/* Moves the applied zxid over a record that is no transaction, such as the start of an epoch. */
void state_skip(struct state *state, zxid_t zxid);

/* Applies a record of the configuration: its text becomes the data of /zookeeper/config, and the
 * applied zxid moves over it. May be repeated; the text of an older zxid is ignored. */
void state_set_config(struct state *state, zxid_t zxid, struct slice text);

/* Look up a znode; NULL when absent. The znode is valid while the lock is held. The path must be
 * valid (path_check). */
const struct znode *state_find(const struct state *state, struct slice path);
const struct znode *znode_child(const struct znode *parent, struct slice name);

/* Return the children in byte order of their names: the first one after `after` (empty: the very
 * first), then each next one; NULL at the end. */
const struct znode *znode_first_child(const struct znode *parent, struct slice after);
const struct znode *znode_next(const struct znode *child);

const struct znode *znode_parent(const struct znode *node);
struct slice znode_name(const struct znode *node);

/* Return a later znode in depth-first order; NULL at the end. state_after returns the first znode
 * after `path`, which need not exist. znode_skip returns the next znode that is not below `node`.
 */
const struct znode *state_after(const struct state *state, struct slice path);
const struct znode *znode_skip(const struct znode *node);
struct blob *znode_data(const struct znode *node); /* NULL for null data; not a new reference. */
void znode_stat(const struct znode *node, struct stat_view *ret_stat);
uint64_t znode_owner(const struct znode *node);   /* Stored owner: see txn.h. */
uint32_t znode_creates(const struct znode *node); /* Children ever created; next sequence number. */
int64_t znode_age_ms(const struct znode *node);   /* Age at which its time limit began; 0: none. */
uint32_t znode_acl(const struct znode *node);     /* Index for state_acl; 0: open to all. */

/* Returns the number of levels below the root. */
uint32_t znode_depth(const struct znode *node);

/* Return the encoded ACL at an index; NULL or empty for 0. The caller gets no reference: an ACL
 * that no znode has any more is valid until the next state_apply. */
struct blob *state_acl_blob(const struct state *state, uint32_t acl);
struct slice state_acl(const struct state *state, uint32_t acl);

/* Returns the age at which a childless znode with this stored owner is due to be removed, when its
 * time counts from `age_ms`; INT64_MAX: never. */
int64_t state_reap_due_ms(uint64_t owner, uint32_t creates, int64_t age_ms);

/* Finds TTL and container znodes that are due to be removed at age `age_ms`. Appends at most
 * `paths_max` paths as u16 length + bytes to `out`; returns their number. */
size_t state_reap_candidates(const struct state *state, int64_t age_ms, size_t paths_max,
                             struct buf *out);

/* Whether anything waits for the age to grow beyond `age_ms`: TTL znodes, containers that were
 * never used, remembered results. The returned value may stay true for some time after the last of
 * these is gone. */
bool state_counts_age(const struct state *state, int64_t age_ms);

/* ---- Walks: visit a subtree in name order and know the path of each znode. A walk is a loop over
 * parent pointers and no recursion, because clients determine the depth of the tree. ---- */

struct walk {
    const struct znode *top;
    const struct znode *node; /* The current znode; NULL at the end. */
    struct buf path;          /* Path of `node`: base, then "/" and a name for each level. */
    size_t base_len;
    uint32_t depth; /* Levels below the top. */
};

/* Starts a walk at `top`. `base` is the path of `top`, but empty if `top` is the root, or if the
 * paths of the walk are to be relative to `top`. */
void walk_init(struct walk *walk, const struct znode *top, struct slice base);

/* Starts a walk at `node` that visits all znodes from there to the end of the whole tree. */
void walk_init_at(struct walk *walk, const struct znode *node);
void walk_release(struct walk *walk);

/* Moves to the next znode and returns it; NULL at the end. The walk visits znodes below the current
 * one only if `descend` is true. */
const struct znode *walk_next(struct walk *walk, bool descend);

/* Appends the full path of a znode. */
void walk_path_of(const struct znode *node, struct buf *out);

/* ---- Sessions. Pointers are valid while the lock is held. ---- */

struct state_session {
    uint64_t id;         /* Public id: the zxid of its opening. */
    uint32_t timeout_ms; /* Timeout as granted. */
    uint32_t member;     /* Replica of its last attachment; 0: never attached. */
    uint64_t attach;     /* Number of its last attachment. */
    int64_t opened_ms;   /* Stamp of the transaction that opened it. */
    uint8_t secret_hash[TXN_SECRET_HASH_LEN];
    struct slice from; /* Opener of the session: see principal_from. */
    uint32_t ephemeral_count;
    uint64_t ephemeral_bytes; /* Bytes of the paths of its ephemerals. */
};

/* Return the session, or NULL. The look-up by hash does not compare in constant time, which is safe
 * because a hash reveals nothing about the secret. */
const struct state_session *state_session(const struct state *state, uint64_t id);
const struct state_session *state_session_by_hash(const struct state *state,
                                                  const uint8_t hash[TXN_SECRET_HASH_LEN]);

/* Returns the first session with an id above `after`, or NULL. Repeated calls visit all sessions in
 * the order of their ids. */
const struct state_session *state_session_after(const struct state *state, uint64_t after);
uint64_t state_session_count(const struct state *state);

/* A share counts open sessions; each session counts in two shares. STATE_SHARE_CLIENT: the sessions
 * of one identity or, for clients without identity, of one network. STATE_SHARE_NETWORK: all
 * sessions of one network. */
enum state_share {
    STATE_SHARE_CLIENT,
    STATE_SHARE_NETWORK,
    STATE_SHARES
};

struct state_share_name {
    uint8_t bytes[TXN_FROM_MAX + NETWORK_TEXT_MAX];
};

/* Returns the name of a share, written to `name`; `from` is the text of the opener. */
struct slice state_share_name(struct slice from, enum state_share kind,
                              struct state_share_name *name);

/* Returns the number of open sessions in the share. */
uint64_t state_share_count(const struct state *state, struct slice name);

/* Return the ephemerals of a session in the order of their paths (by components, as in a walk);
 * NULL at the end. walk_path_of gives their paths. */
const struct znode *state_ephemeral_first(const struct state *state, uint64_t session);
const struct znode *state_ephemeral_next(const struct state *state, const struct znode *node);
/* Returns the first ephemeral after `path`, which need not exist; NULL at the end. */
const struct znode *state_ephemeral_after(const struct state *state, uint64_t session,
                                          struct slice path);

/* ---- Remembered results of writes with an idempotency key. ---- */

struct state_remembered {
    zxid_t zxid;    /* Zxid of the transaction. */
    int64_t age_ms; /* Age of the same transaction. */
    struct slice scope;
    struct slice key;
    uint8_t fingerprint[TXN_FINGERPRINT_LEN];
    struct slice result;
};

/* Writes the name of a remembered result, at most STATE_REMEMBERED_NAME_MAX bytes. The name starts
 * with the length of the scope, so that no two pairs of scope and key have the same name. */
struct slice state_remembered_name(uint8_t *to, struct slice scope, struct slice key);

const struct state_remembered *state_remembered(const struct state *state, struct slice scope,
                                                struct slice key);

/* Returns the first result with a zxid above `after` (0: the oldest), or NULL. Repeated calls visit
 * all results, oldest first. */
const struct state_remembered *state_remembered_after(const struct state *state, zxid_t after);
uint64_t state_remembered_count(const struct state *state);
uint64_t state_remembered_bytes(const struct state *state); /* Scopes, keys and results together. */

/* ---- Quotas: the limits in /zookeeper/quota<path>/zookeeper_limits, and the usage. ---- */

struct state_quota {
    struct slice path;   /* The limited subtree; the znode need not exist. */
    int64_t count_limit; /* Soft limit, for warnings; -1: none. */
    int64_t bytes_limit; /* Soft limit; -1: none. */
    int64_t count_hard;  /* Hard limit; -1: none. */
    int64_t bytes_hard;  /* Hard limit; -1: none. */
    uint64_t count;      /* Znodes at and below the path. */
    uint64_t bytes;      /* Bytes of the data of these znodes. */
};

/* Whether `path` is that of a limits znode. If so, *ret_top is the path that the znode limits, as a
 * part of `path`. The root and /zookeeper have no quota, as in ZooKeeper. */
bool state_quota_of(struct slice path, struct slice *ret_top);

/* Returns the quota on this path, or NULL when it has no limits znode. */
const struct state_quota *state_quota_find(const struct state *state, struct slice path);

/* Returns the first quota whose path comes after `after` in byte order (empty: the very first), or
 * NULL. */
const struct state_quota *state_quota_after(const struct state *state, struct slice after);

/* zookeeper_stats beside a limits znode: clients see the usage of the quota as its data, in
 * ZooKeeper's text, and never the stored data. So a change of the usage writes nothing: it is no
 * change of the znode, and its version and mzxid stay. The three functions return what clients see
 * of any znode: whether its data is computed; its data (a new reference; NULL: null data); its
 * stat, whose data_length is that of the data shown. */
bool state_is_computed(const struct state *state, const struct znode *node);
struct blob *state_shown_data(const struct state *state, const struct znode *node);
void state_shown_stat(const struct state *state, const struct znode *node,
                      struct stat_view *ret_stat);

/* Parses the text of a limits znode. Malformed text is ERR_FORMAT and sets no limits. */
enum err state_quota_parse(struct slice text, struct state_quota *ret_limits);

/* ---- Memory of each part of the state in bytes, by a rule and not by measurement. All replicas
 * must count alike, and a leader must know the cost of a znode before it exists. So the cost
 * depends only on lengths and on whether a znode has an owner, and never on the allocator of one
 * process. The rule assumes a fixed header and rounding for each allocation, and index tables that
 * have just doubled and are half empty. ---- */

/* Returns the cost of a znode without its data: the struct, its name, and what its owner adds (the
 * index of ephemerals by session, or of TTL and container znodes by due time). See txn.h for
 * `owner`. */
uint64_t cost_node(size_t name_len, uint64_t owner);

/* Returns the cost of the data of a znode. Null data counts as empty data. */
uint64_t cost_data(uint64_t len);

/* Returns the cost of an access control list that at least one znode has. All znodes with the same
 * list share this cost. */
uint64_t cost_acl(size_t len);

/* Returns the cost of an open session, with its entry in the expiry table of the leader. */
uint64_t cost_session(void);

/* Returns the cost of a remembered result; `len` is the sum of scope, key and result. */
uint64_t cost_remembered(uint64_t len);

/* Returns the cost of a quota on a path of that length. */
uint64_t cost_quota(size_t path_len);

/* ---- Snapshots: slices of the state, depth first; no I/O. ---- */

/* Position of a scan; to be initialised by state_scan_init. */
struct state_cursor {
    struct buf path; /* Last path written; the scan continues after this path. */
    uint64_t after;  /* Id of the last session, or zxid of the last result, written. */
    uint32_t section;
    bool done;
};

void state_scan_init(struct state_cursor *cursor);
void state_scan_release(struct state_cursor *cursor);

/* Appends the next block, at most about `bytes_max` bytes and 1,000 znodes (but at least one), to
 * `out` and moves the cursor. `out` must have room for `bytes_max` and the largest znode; a block
 * that does not fit is a bug and ends the process. The caller holds the read lock, and may release
 * it between calls. */
void state_scan(const struct state *state, struct state_cursor *cursor, size_t bytes_max,
                struct buf *out);

/* Restores the next block into a state that state_new has made; blocks come in the order of
 * writing. After ERR_FORMAT the state is unusable. */
enum err state_restore(struct state *state, struct slice block);

/* Ends the restore after the last block: `start` becomes the applied zxid. The log is applied next,
 * as fuzzy up to the end of the scan. */
void state_restored(struct state *state, zxid_t start);

#endif
