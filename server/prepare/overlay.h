/*
 * overlay.h - the state as it will be once all proposals are applied.
 *
 * An entry has absolute values, not differences: a znode without its data, a session, a quota, a
 * key, or a total. Once the last change of an entry is applied, the state has the same values as
 * the entry. So the entry can then be dropped, whatever other entries remain. Core thread.
 */
#ifndef SERVER_OVERLAY_H
#define SERVER_OVERLAY_H

#include "base/avl.h"
#include "base/list.h"
#include "base/map.h"
#include "server/state/state.h"

/* A znode without its data. */
struct overlay_node {
    struct stat_view stat;
    uint64_t owner;   /* Owner as stored: see txn.h. */
    int64_t age_ms;   /* Age of the ensemble (server/replica/clock.h) when the TTL began, or when
                         the container was created. */
    uint32_t creates; /* Children ever created. */
    struct blob *acl; /* NULL: open to all. The state or the overlay holds the reference. */
    bool exists;
};

struct overlay_session {
    uint64_t id;
    uint64_t attach; /* Number of its last attachment; 0: never attached. */
    uint64_t ephemeral_bytes;
    uint32_t ephemeral_count;
    uint8_t secret_hash[TXN_SECRET_HASH_LEN];
    struct blob *from; /* Opener, if the session was opened in flight; NULL: the state has it. */
    bool open;         /* False: there is no such session. */
};

struct overlay_quota {
    uint64_t count; /* Znodes at and below the path. */
    uint64_t bytes; /* Bytes of the data of these znodes. */
    int64_t count_hard;
    int64_t bytes_hard;
    bool exists;
};

/* The totals of all remembered results of writes with a key. */
struct overlay_memory {
    uint64_t count;
    uint64_t bytes;
    zxid_t horizon; /* A transaction in flight forgets results before this zxid; 0: none. */
};

enum overlay_kind {
    OVERLAY_NODE,    /* Named by path. */
    OVERLAY_SESSION, /* Named by the eight bytes of its id. */
    OVERLAY_QUOTA,   /* Named by the path that it limits. */
    OVERLAY_KEY,     /* Named by scope and key. */
    OVERLAY_MEMORY,  /* There is only one entry of this kind. */
    OVERLAY_SHARE,   /* Named by state_share_name. */
    OVERLAY_KINDS
};

union overlay_value {
    struct overlay_node node;
    struct overlay_session session;
    struct overlay_quota quota;
    uint8_t fingerprint[TXN_FINGERPRINT_LEN]; /* Hash of the write in flight that has the key. */
    struct overlay_memory memory;
    uint64_t share; /* Open sessions of a client or of a network. */
};

struct overlay_entry {
    struct list order; /* Entry in overlay.order; the entry that was changed last comes last. */
    zxid_t zxid;       /* Zxid of the last change; 0: none yet. */
    enum overlay_kind kind;
    union overlay_value value;
    struct avl_node owned; /* Entry in overlay.ephemerals, for an ephemeral that exists. */
    uint16_t name_len;
    uint8_t name[];
};

/* The value that a change of the current request has replaced. */
struct overlay_undo {
    struct overlay_entry *entry;
    zxid_t zxid; /* Zxid before the change; 0: there was no entry. */
    union overlay_value value;
};

struct overlay {
    struct map entries[OVERLAY_KINDS]; /* Entries by name. */
    struct list order;
    struct avl ephemerals;  /* Entries of ephemerals by owner and path. */
    struct map by_hash;     /* Entries of open sessions by the hash of their secret. */
    uint64_t session_count; /* All open sessions; valid while there are entries of sessions. */
    struct overlay_undo *undo;
    size_t undo_count;
    size_t undo_cap;
};

void overlay_init(struct overlay *overlay);
void overlay_release(struct overlay *overlay);
void overlay_clear(struct overlay *overlay);
size_t overlay_count(const struct overlay *overlay);

/* Gets the znode at `path`; `exists` is false when there is none. */
void overlay_get(const struct overlay *overlay, const struct state *state, struct slice path,
                 struct overlay_node *ret_node);

/* Changes the znode at `path`, as a part of the current request. Computes the cversion of the stat,
 * and takes a reference to the ACL. */
void overlay_put(struct overlay *overlay, struct slice path, zxid_t zxid,
                 const struct overlay_node *node);

/* Get a session; `open` is false when there is none. */
void overlay_session(const struct overlay *overlay, const struct state *state, uint64_t id,
                     struct overlay_session *ret_session);
void overlay_session_by_hash(const struct overlay *overlay, const struct state *state,
                             const uint8_t hash[TXN_SECRET_HASH_LEN],
                             struct overlay_session *ret_session);

/* Opens, changes or closes a session, as a part of the current request. Takes a reference to the
 * opener. */
void overlay_put_session(struct overlay *overlay, const struct state *state, zxid_t zxid,
                         const struct overlay_session *session);

/* Returns the number of open sessions. */
uint64_t overlay_session_count(const struct overlay *overlay, const struct state *state);

/* Returns the number of open sessions of the client, or of the network, that `from` names: see
 * state_share_name. */
uint64_t overlay_share(const struct overlay *overlay, const struct state *state, struct slice from,
                       enum state_share kind);

/* Counts one more (`opened`) or one less session in the two shares of `from`, as a part of the
 * current request. */
void overlay_count_shares(struct overlay *overlay, const struct state *state, zxid_t zxid,
                          struct slice from, bool opened);

/* Gets the quota on exactly that path; `exists` is false when there is none. */
void overlay_quota(const struct overlay *overlay, const struct state *state, struct slice path,
                   struct overlay_quota *ret_quota);
void overlay_put_quota(struct overlay *overlay, struct slice path, zxid_t zxid,
                       const struct overlay_quota *quota);
bool overlay_has_quotas(const struct overlay *overlay, const struct state *state);

/* Counts the znodes at and below `top`, and the bytes of their data. */
void overlay_usage(const struct overlay *overlay, const struct state *state, struct slice top,
                   uint64_t *ret_count, uint64_t *ret_bytes);

/* Returns the fingerprint of the write in flight with that key, or NULL. */
const uint8_t *overlay_key(const struct overlay *overlay, struct slice scope, struct slice key);

/* Adds a key that is not in flight yet. */
void overlay_put_key(struct overlay *overlay, zxid_t zxid, const struct txn_remember *remember);

void overlay_memory(const struct overlay *overlay, const struct state *state,
                    struct overlay_memory *ret_memory);
void overlay_put_memory(struct overlay *overlay, zxid_t zxid, const struct overlay_memory *memory);

/* End the current request: overlay_commit keeps its changes, overlay_rollback undoes all of them.
 */
void overlay_commit(struct overlay *overlay);
void overlay_rollback(struct overlay *overlay);

/* Drops the entries whose last change is at or before `zxid`. */
void overlay_applied(struct overlay *overlay, zxid_t zxid);

/* Appends the paths at and below `top`, which exists, to `paths` as u16 length + bytes. Stops when
 * there are more than `count_max`; returns the count, which is then larger than `count_max`. */
size_t overlay_subtree(const struct overlay *overlay, const struct state *state, struct slice top,
                       size_t count_max, struct buf *paths);

/* Appends the paths of a session's ephemerals as u16 length + bytes; returns their number. */
size_t overlay_ephemerals(const struct overlay *overlay, const struct state *state,
                          uint64_t session, struct buf *paths);

#endif
