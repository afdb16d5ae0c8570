/*
 * state.h - the replicated state machine: same transactions in, same bytes out, on every replica.
 *
 * Pure: no clock, no randomness, no I/O. A transaction carries absolute results, so that applying
 * it twice does no harm; therefore a snapshot may be fuzzy. Derived data (digest, counts, the index
 * of TTL and container znodes, ephemerals by session) is rebuilt, never stored.
 *
 * Threads: the core changes it under the write lock of the view; any thread reads it under the read
 * lock.
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

/* The counters of a znode as a client sees them (ZooKeeper's Stat). Only the number of children
 * ever created is stored; the visible cversion is computed from it, so that the sequence suffix and
 * the cversion need one counter between them. */
struct stat_view {
    zxid_t czxid;  /* Transaction that created the znode. */
    zxid_t mzxid;  /* That last set its data. */
    zxid_t pzxid;  /* That last created or deleted a child. */
    int64_t ctime; /* Stamps of these transactions, ms since 1970, for people; nothing else uses */
    int64_t mtime; /* them. */
    int32_t version;  /* Sets of the data. */
    int32_t cversion; /* Creates plus deletes of children. */
    int32_t aversion; /* Sets of the ACL. */
    bool container;   /* Deleted after its last child; shown by reads only, as the next one. */
    int64_t ttl_ms;   /* Deleted when it was not set for so long; 0: never. */
    uint64_t ephemeral_owner; /* Public id of the owning session, else 0. */
    uint32_t data_length;     /* Bytes; 0 for null data. */
    uint32_t num_children;
};

/* Each child that was created and is no longer there was deleted. */
static inline int32_t stat_cversion(uint32_t creates, uint32_t num_children)
{
    return (int32_t)(2 * creates - num_children);
}

/* The version after one more set: it wraps around and skips -1, which means "any". */
static inline int32_t stat_version_next(int32_t version)
{
    int32_t next = (int32_t)((uint32_t)version + 1);

    return next == -1 ? 0 : next;
}

struct state;
struct znode;

/* A tree with the built-in znodes. `history` is the random id of this history (Zk-History). */
struct state *state_new(uint64_t history);
void state_free(struct state *state);

zxid_t state_applied(const struct state *state);
/* Of the newest applied transaction, also through a snapshot. The age never falls. */
int64_t state_age_ms(const struct state *state);
int64_t state_stamp_ms(const struct state *state);
uint64_t state_digest(const struct state *state);
uint64_t state_history(const struct state *state);
/* For a snapshot from before a single survivor started a new history. Not 0. */
void state_set_history(struct state *state, uint64_t history);
uint64_t state_node_count(const struct state *state);
uint64_t state_data_bytes(const struct state *state); /* Sum of data and name lengths. */
uint64_t state_ephemeral_count(const struct state *state);

/* Memory of the whole state, by the rule of cost_...: a running sum, the same on every replica at
 * the same zxid. */
uint64_t state_memory_bytes(const struct state *state);

/* Whether a znode has exactly this encoded ACL, so that one more such znode adds no list. An open
 * list costs nothing and counts as known. */
bool state_has_acl(const struct state *state, struct slice acl);

/* The change of one effect, for the answer to the client (effects marked TXN_REPLY) and for
 * watches. The blobs are valid until the changes are filled again or released. */
struct state_change {
    enum txn_effect_type type;
    bool reply;              /* This effect answers an operation of the request. */
    struct slice path;       /* Into the transaction's bytes; empty when it is about no znode. */
    struct stat_view stat;   /* After the effect; zero after a delete. */
    struct blob *data;       /* CREATE, SET: after it; NULL when null. */
    struct blob *acl;        /* Of the znode after it, of a DELETE before it; NULL: open. */
    struct blob *parent_acl; /* CREATE, DELETE: of the parent; NULL: open. */
    uint64_t session;        /* SESSION_*; CREATE, DELETE: the owner of the ephemeral, or 0. */
    uint64_t attach;         /* SESSION_MOVE: the new number. */
    uint32_t member;         /* SESSION_MOVE: to this replica. */
    bool expired;            /* SESSION_CLOSE: by the leader, not by its client. */
};

struct state_changes {
    struct state_change *items; /* One for each effect. Grows; reused between calls. */
    size_t count;
    size_t cap;
};

void state_changes_release(struct state_changes *changes);

/* Applies one transaction. `zxid` must be above state_applied, except while recovering (`fuzzy`),
 * when effects that a fuzzy snapshot already holds are tolerated and none is lost. ERR_FORMAT:
 * malformed bytes; ERR_CORRUPT: an impossible effect (outside `fuzzy`): the caller stops this
 * replica. An error leaves the state unchanged. `ret_changes` may be NULL. */
enum err state_apply(struct state *state, zxid_t zxid, struct slice txn, bool fuzzy,
                     struct state_changes *ret_changes);

/* Moves the applied zxid over a record that is no transaction (epoch, configuration, stamp). */
void state_skip(struct state *state, zxid_t zxid);

/* A record of the configuration: its text becomes the data of /zookeeper/config, and the applied
 * zxid moves over it. May be repeated; the text of an older zxid is ignored. */
void state_set_config(struct state *state, zxid_t zxid, struct slice text);

/* Look-ups; the znode is valid while the lock is held. NULL when absent. The path must be valid
 * (path_check). */
const struct znode *state_find(const struct state *state, struct slice path);
const struct znode *znode_child(const struct znode *parent, struct slice name);

/* Children in byte order of their names: the first one after `after` (empty: the very first), then
 * znode_next. */
const struct znode *znode_first_child(const struct znode *parent, struct slice after);
const struct znode *znode_next(const struct znode *child);
const struct znode *znode_parent(const struct znode *node);
struct slice znode_name(const struct znode *node);
/* Depth first: the first znode after `path`, whether there is one at `path` or not; and the next
 * one that is not below `node`. NULL at the end. */
const struct znode *state_after(const struct state *state, struct slice path);
const struct znode *znode_skip(const struct znode *node);
struct blob *znode_data(const struct znode *node); /* NULL for null data; not a new reference. */
void znode_stat(const struct znode *node, struct stat_view *ret_stat);
uint64_t znode_owner(const struct znode *node);   /* Stored owner: see txn.h. */
uint32_t znode_creates(const struct znode *node); /* Children ever created: the next sequence. */
int64_t znode_age_ms(const struct znode *node);   /* From which its time counts; 0: no limit. */
uint32_t znode_acl(const struct znode *node);     /* Index for state_acl; 0: open to all. */

/* Levels below the root. */
uint32_t znode_depth(const struct znode *node);

/* The encoded list, interned; NULL and empty for 0. Not a new reference: an index without znodes is
 * valid until the next state_apply. */
struct blob *state_acl_blob(const struct state *state, uint32_t acl);
struct slice state_acl(const struct state *state, uint32_t acl);

/* The age at which a childless znode with this stored owner is due to be removed, when its time
 * counts from `age_ms`; INT64_MAX: never. */
int64_t state_reap_due_ms(uint64_t owner, uint32_t creates, int64_t age_ms);

/* TTL and container znodes that are due to be removed at age `age_ms`; appends at most
 * `paths_max` paths as u16 length + bytes to `out`; returns how many. */
size_t state_reap_candidates(const struct state *state, int64_t age_ms, size_t paths_max,
                             struct buf *out);

/* Whether anything waits for the age to grow beyond `age_ms`: TTL znodes, containers that were
 * never used, remembered results. It may stay true for some time after the last one is gone. */
bool state_counts_age(const struct state *state, int64_t age_ms);

/* ---- Walks: visit a subtree in name order and know the path of each znode. A loop over parent
 * pointers, never recursion, because clients determine the depth of the tree. ---- */

struct walk {
    const struct znode *top;
    const struct znode *node; /* The current one; NULL at the end. */
    struct buf path;          /* Its path: base, then "/" and a name for each level below. */
    size_t base_len;
    uint32_t depth; /* Levels below the top. */
};

/* Starts at `top` with the path `base`: empty for the root, and for relative paths. */
void walk_init(struct walk *walk, const struct znode *top, struct slice base);

/* Starts a walk of the whole tree at `node`. */
void walk_init_at(struct walk *walk, const struct znode *node);
void walk_release(struct walk *walk);

/* Moves to the next znode, below the current one only with `descend`. NULL at the end. */
const struct znode *walk_next(struct walk *walk, bool descend);

/* Appends the full path of a znode. */
void walk_path_of(const struct znode *node, struct buf *out);

/* ---- Sessions. Pointers are valid while the lock is held. ---- */

struct state_session {
    uint64_t id;         /* Public; the zxid of its opening. */
    uint32_t timeout_ms; /* As granted. */
    uint32_t member;     /* Replica of its last attachment; 0: never attached. */
    uint64_t attach;     /* Number of that attachment. */
    int64_t opened_ms;   /* Stamp of the transaction that opened it. */
    uint8_t secret_hash[TXN_SECRET_HASH_LEN];
    struct slice from; /* Its opener: see principal_from. */
    uint32_t ephemeral_count;
    uint64_t ephemeral_bytes; /* Of the paths of its ephemerals. */
};

/* NULL when there is none. The second form does not compare in constant time; a hash reveals
 * nothing about the secret. */
const struct state_session *state_session(const struct state *state, uint64_t id);
const struct state_session *state_session_by_hash(const struct state *state,
                                                  const uint8_t hash[TXN_SECRET_HASH_LEN]);

/* The first session with an id above `after`: all of them in the order of their ids. */
const struct state_session *state_session_after(const struct state *state, uint64_t after);
uint64_t state_session_count(const struct state *state);

/* The shares in which an open session counts: that of its client (its identity, or else the network
 * of its address), and that of the network of its address. */
enum state_share {
    STATE_SHARE_CLIENT,
    STATE_SHARE_NETWORK,
    STATE_SHARES
};

struct state_share_name {
    uint8_t bytes[TXN_FROM_MAX + NETWORK_TEXT_MAX];
};

/* The name of such a share, in `name`; `from` is the text of the opener. */
struct slice state_share_name(struct slice from, enum state_share kind,
                              struct state_share_name *name);

/* Open sessions that count in it. */
uint64_t state_share_count(const struct state *state, struct slice name);

/* The ephemerals of a session in the order of their paths (by components, as in a walk); NULL at
 * the end. Their paths: walk_path_of. */
const struct znode *state_ephemeral_first(const struct state *state, uint64_t session);
const struct znode *state_ephemeral_next(const struct state *state, const struct znode *node);
/* The first one after `path`, whether there is one at it or not. */
const struct znode *state_ephemeral_after(const struct state *state, uint64_t session,
                                          struct slice path);

/* ---- Remembered results of writes with an idempotency key. ---- */

struct state_remembered {
    zxid_t zxid;    /* Of the transaction. */
    int64_t age_ms; /* Of the same transaction. */
    struct slice scope;
    struct slice key;
    uint8_t fingerprint[TXN_FINGERPRINT_LEN];
    struct slice result;
};

/* Writes the name of such a result, at most STATE_REMEMBERED_NAME_MAX bytes: it starts with the
 * length of the scope, so that no two pairs have the same. */
struct slice state_remembered_name(uint8_t *to, struct slice scope, struct slice key);

const struct state_remembered *state_remembered(const struct state *state, struct slice scope,
                                                struct slice key);

/* The first one with a zxid above `after` (0: the oldest): all of them, oldest first. */
const struct state_remembered *state_remembered_after(const struct state *state, zxid_t after);
uint64_t state_remembered_count(const struct state *state);
uint64_t state_remembered_bytes(const struct state *state); /* Scopes, keys and results. */

/* ---- Quotas: the limits in /zookeeper/quota<path>/zookeeper_limits, and the usage. ---- */

struct state_quota {
    struct slice path;   /* The limited subtree; the znode need not exist. */
    int64_t count_limit; /* Soft: for warnings; -1: none. */
    int64_t bytes_limit; /* Soft. */
    int64_t count_hard;  /* -1: none. */
    int64_t bytes_hard;  /* -1: none. */
    uint64_t count;      /* Znodes at and below the path. */
    uint64_t bytes;      /* Of their data. */
};

/* Whether this is the path of a limits znode, and then the path that it limits, a part of the
 * other. The root and /zookeeper have no quota, as in ZooKeeper. */
bool state_quota_of(struct slice path, struct slice *ret_top);

/* NULL when there is no such limits znode. */
const struct state_quota *state_quota_find(const struct state *state, struct slice path);

/* The first one whose path comes after `after` in byte order (empty: the very first). */
const struct state_quota *state_quota_after(const struct state *state, struct slice after);

/* Parses the text of a limits znode; ERR_FORMAT, without limits, when it is malformed. */
enum err state_quota_parse(struct slice text, struct state_quota *ret_limits);

/* ---- How much memory each part of the state takes, by a rule and not by measurement. All replicas
 * must count alike, and a leader must know the cost of a znode before it exists. So the cost
 * depends on lengths and kinds only, and never on the allocator of one process. It includes the
 * header and the rounding of the allocator, and the share of each index at its emptiest. ---- */

/* A znode without its data: the struct, its name, and what its owner adds (the index of ephemerals
 * by session, or of TTL and container znodes by due time). See txn.h for `owner`. */
uint64_t cost_node(size_t name_len, uint64_t owner);

/* The data of a znode. Null data counts as empty data. */
uint64_t cost_data(uint64_t len);

/* An access control list that at least one znode has; one for all znodes with the same list. */
uint64_t cost_acl(size_t len);

/* An open session, with its entry in the expiry table of the leader. */
uint64_t cost_session(void);

/* A remembered result; `len` is the sum of scope, key and result. */
uint64_t cost_remembered(uint64_t len);

/* A quota on a path of that length. */
uint64_t cost_quota(size_t path_len);

/* ---- Snapshots: slices of the state, depth first; pure. ---- */

/* Position of a scan; to be initialised by state_scan_init. */
struct state_cursor {
    struct buf path; /* Last path written; the scan continues after it. */
    uint64_t after;  /* Last session or zxid of a remembered result written. */
    uint32_t section;
    bool done;
};

void state_scan_init(struct state_cursor *cursor);
void state_scan_release(struct state_cursor *cursor);

/* Appends the next block, at most about `bytes_max` bytes and 1,000 znodes (but at least one), to
 * `out` and moves the cursor. `out` must have room for `bytes_max` and the largest znode; a block
 * that does not fit is a bug and ends the process. To be called under the read lock, which is
 * released between calls. */
void state_scan(const struct state *state, struct state_cursor *cursor, size_t bytes_max,
                struct buf *out);

/* Takes the next block, in the order of writing, into a state fresh from state_new. ERR_FORMAT: the
 * state is unusable then. */
enum err state_restore(struct state *state, struct slice block);

/* After the last block: `start` becomes the applied zxid. The log follows, fuzzy up to the end of
 * the scan. */
void state_restored(struct state *state, zxid_t start);

#endif
