/*
 * op.h - an operation as plain data: the request of a client, and its answer.
 *
 * One struct of arguments serves all operations; the row of the table (ops.h) says which fields an
 * operation has, where they come from and their limits. Slices in a request point into memory of
 * the request or of its front end.
 */
#ifndef SERVER_OP_H
#define SERVER_OP_H

#include "base/blob.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"
#include "server/op/auth.h"
#include "server/state/state.h"

#include <stdatomic.h>

/* Replicas exchange these numbers: never renumber. */
enum op_id {
    OP_GET = 1,
    OP_EXISTS = 2,
    OP_STAT = 3,
    OP_CHILDREN = 4,
    OP_TREE = 5,
    OP_SET = 6,
    OP_CREATE = 7,
    OP_DELETE = 8,
    OP_CHECK = 9,  /* Allowed only inside a multi. */
    OP_MULTI = 10, /* Writes only, or reads only. */
    OP_SYNC = 11,
    OP_STATUS = 12,
    OP_ENSEMBLE = 13,
    OP_LIMITS = 14,
    OP_WHOAMI = 15,
    OP_REAP = 16,    /* Made by the leader only: remove a TTL or container znode. */
    OP_SESSION = 17, /* Open a session. */
    OP_ATTACH = 18,  /* Move a session to the connection of the request. */
    OP_TOUCH = 19,   /* Keep a session alive; no transaction. */
    OP_GETSESSION = 20,
    OP_CLOSE = 21,
    OP_EXPIRE = 22, /* Made by the leader only: close a session that has expired. */
    OP_GETACL = 23,
    OP_SETACL = 24,
    OP_WATCH = 25, /* The front ends do this and the next four themselves. */
    OP_UNWATCH = 26,
    OP_AUTH = 27,
    OP_DETACH = 28,
    OP_PING = 29,
    OP_SEARCH = 30,
    OP_EXPORT = 31, /* This and the next one exist over HTTP only. */
    OP_IMPORT = 32,
    OP_SESSIONS = 33,
    OP_EPHEMERALS = 34,
    OP_KILL = 35,    /* Close any session by its public id; super user only. */
    OP_WATCHES = 36, /* This and the next three exist over HTTP only. */
    OP_TREND = 37,
    OP_RELOAD = 38,     /* Read certificates and keys again; super user only. */
    OP_LEVEL = 39,      /* Raise the feature level, or set or release its hold; super user only. */
    OP_MEMBER_ADD = 40, /* This and the next three change the members (change.h). */
    OP_MEMBER_SET = 41,
    OP_MEMBER_REMOVE = 42,
    OP_MEMBERS_CHANGE = 43,
    OP_BACKUP = 44, /* A backup of the replica; HTTP only, super user only. */
    OP_TOP = 45,    /* Exists over HTTP only. */
    OP_RAISE = 46,  /* Made by imports only: raise a znode's count of creates; super user only. */
    /* Made by the front end of native clients only: open a session and attach it to the connection,
     * in one transaction. A leader of release 1.0 does not know it. */
    OP_OPEN = 47,
    OP_IDS /* Size of tables by id; 0 is no operation. */
};

enum op_consistency {
    OP_LOCAL,
    OP_LINEARIZABLE
};

/* What `with=` adds to each child or tree entry. */
enum op_with {
    OP_WITH_NAMES,
    OP_WITH_STAT,
    OP_WITH_DATA
};

/* How data is shown in JSON. */
enum op_dataformat {
    OP_BASE64,
    OP_UTF8,
    OP_AUTO,
    OP_JSON,
    OP_NONE
};

/* Requests use the names of watch_kind_name. WATCH_KINDS is the size of tables by kind; 0 is no
 * kind. */
enum watch_kind {
    WATCH_DATA = 1, /* One-shot; the znode must exist. */
    WATCH_EXISTS,   /* One-shot; the znode need not exist. */
    WATCH_CHILDREN, /* One-shot. */
    WATCH_PERSISTENT,
    WATCH_RECURSIVE,
    WATCH_KINDS
};

/* Returns "data", "exists", "children", "persistent" or "recursive". */
const char *watch_kind_name(enum watch_kind kind);

/* What an import does with a znode that exists already. */
enum op_conflict {
    OP_CONFLICT_FAIL,
    OP_CONFLICT_SKIP,
    OP_CONFLICT_OVERWRITE
};

/* What a member of the ensemble is. Replicas exchange these numbers: never renumber. */
enum op_role {
    OP_ROLE_NONE, /* Not given. */
    OP_ROLE_OBSERVER = 1,
    OP_ROLE_VOTER = 2,
    OP_ROLE_EMPTY_SEAT = 3, /* A voter's seat without a disk; only in answers. */
    OP_ROLES
};

/* The arguments of an operation, grouped by topic. The row of the operation says which of them it
 * has. */
struct op_args {
    enum op_id op;       /* The operation; each element of a multi has its own. */
    struct slice path;   /* Decoded; path_check has accepted it. create: parent + "/" + name. */
    struct op_args *ops; /* multi: its elements. */
    uint32_t op_count;

    /* Data and how it is shown. */
    struct slice data; /* The data to write. search: bytes that the data must contain. */
    bool data_null;    /* The data is null, not empty. */
    enum op_with with;
    enum op_dataformat dataformat;

    /* Conditions of a write. */
    bool has_version;
    int32_t version; /* -1: any. */
    bool has_aversion;
    int32_t aversion; /* setacl, set, delete, check; -1: any. */
    bool has_czxid;   /* Condition: transaction `czxid` has created the znode. */
    zxid_t czxid;
    bool has_etag;     /* If-Match with an ETag of the data, or of the ACL for setacl. */
    zxid_t etag_czxid; /* Of a change of the members: the version of the configuration. */
    int32_t etag_version;
    bool must_exist;  /* If-Match: *. */
    bool must_be_new; /* If-None-Match: * on PUT. */
    bool upsert;

    /* The znode to create. */
    bool parents;
    bool sequence; /* `path` ends with the prefix of the name, which may be empty ("/q/"). */
    bool ephemeral;
    bool container;
    int64_t ttl_ms; /* 0: none. */

    uint32_t creates; /* raise: the least count of children ever created, see znode_creates. */

    /* Recursive deletes. */
    bool recursive;
    uint32_t max; /* A recursive delete of more znodes is refused; 0: maxRecursive. */

    /* Lists, trees and searches. */
    uint32_t limit; /* Maximum number of entries of a page. */
    uint32_t depth; /* tree, search: levels below the top; 0: all. */
    /* children: after this name; search, ephemerals: after this path; watches: only this path. */
    struct slice after;
    uint64_t after_id;    /* sessions: only sessions with a larger public id. */
    struct slice pattern; /* search: pattern of names (glob.h); empty: any name. */
    bool any_case;        /* search: letters A to Z of names match a to z. */
    bool clients;         /* watches: list clients, each with its number of watches. */

    /* Sessions. */
    uint32_t expire_s;   /* session: the wanted timeout in seconds (HTTP); 0: none. */
    uint32_t timeout_ms; /* session: the wanted timeout in ms; 0: use expire_s, or the default. */
    /* The secret as text, which stays in this process. For session the front end makes it; for
     * attach, touch, getsession and close the client sends it. */
    struct slice secret;
    struct slice secret_hash; /* SHA-256 of the secret, for other replicas: op_args_hash_secret. */
    uint64_t session;         /* expire, kill, ephemerals, watches: public id of the session. */

    /* ACLs. */
    bool has_acl;
    struct slice acl; /* create, set, setacl: the client's list, encoded as in acl.h. */
    bool perms;       /* get, exists, stat, children, getacl: also return the caller's rights. */
    struct slice as;  /* getacl: return the rights of this principal instead. */

    /* Watches. */
    bool watch;             /* get, exists, stat, children: also register a one-shot watch. */
    enum watch_kind kind;   /* watch: kind of the watch. */
    uint32_t watch_id;      /* unwatch: number of the watch. */
    bool values;            /* watch: events carry stat and data. */
    bool has_since;         /* watch: `since` is given. */
    zxid_t since;           /* watch: resume after this zxid. */
    bool has_since_history; /* watch: `since_history` is given. */
    uint64_t since_history;

    /* backup. */
    bool stale; /* Also from a replica that is cut off from the ensemble. */

    /* import. */
    enum op_conflict conflict;
    bool dry_run;

    /* trend. */
    uint32_t step_s;
    int64_t since_s;     /* Wall clock, seconds since 1970. */
    struct slice series; /* Names, comma separated; empty: all. */

    /* level. */
    bool has_hold;
    uint32_t hold;  /* With has_hold: the level is not raised above this; 0: no such limit. */
    uint32_t raise; /* The level to raise to; 0: none. */
    bool force;     /* Raise it although members are away; of a change of the members: although the
                       ensemble then tolerates fewer failures. */

    /* Changes of the members. */
    uint32_t member; /* The id that the change is about. */
    enum op_role role;
    bool has_peer;
    struct slice peer; /* host:port for other replicas. */
    bool has_client;
    struct slice client; /* host:port for clients; empty: not known. */
    bool has_zone;
    struct slice zone; /* Empty: none. */
    bool auto_promote; /* The new member becomes a voter once it is in step. */
    /* Lists of ids, see op_ids_at. */
    struct slice remove;
    struct slice promote;
    struct slice demote;
    bool has_tolerance;
    int32_t min_tolerance; /* Failures that must still be tolerated after the change. */

    /* auth. */
    struct slice scheme;
    struct slice credential;
};

struct op_entry {      /* A child, or a znode of a tree. */
    struct slice path; /* Name of a child, or path relative to the tree's top (empty: the top). */
    struct stat_view stat;
    struct blob *data; /* One reference; NULL for null data or when not asked for. */
    bool hidden;       /* The caller may not read the znode: only its name is shown. */
};

/* A session as its own client sees it. */
struct op_session_info {
    uint64_t id; /* Public id. */
    uint32_t timeout_ms;
    uint64_t attach; /* Number of its last attachment; 0: never. */
    uint32_t member; /* Replica of that attachment. */
    int64_t opened_ms;
    uint32_t ephemeral_count;
    uint64_t ephemeral_bytes;
    zxid_t zxid; /* Zxid of the state that view_find_session read; not sent to clients. */
};

/* A session in a list. */
struct op_session_entry {
    struct op_session_info info;
    uint8_t from[TXN_FROM_MAX]; /* Opener of the session: see principal_from. */
    size_t from_len;
    uint32_t heard_at; /* Replica that the client is connected to; 0: not known here. */
    uint64_t heard_ms; /* Milliseconds since the last contact. */
};

/* Owns its arrays, the texts in `arena`, and the references to data and ACLs. */
struct op_result {
    enum err err;
    const char *detail;      /* Text beyond err_text, constant or in the arena; NULL: none. */
    const char *reason;      /* CHANGE_REFUSED: name of the reason, like `detail`; NULL: none. */
    uint32_t retry_after_ms; /* Retry delay of a refusal by this replica; 0: default of `err`. */
    /* Zxid of the state that the answer reflects. children, search and sessions may take the lock
     * several times, and the state may change in between: then `zxid` is that of the first state
     * that was read, and `upto` that of the last. */
    zxid_t zxid;
    zxid_t upto; /* 0 for other operations. */
    bool has_stat;
    struct stat_view stat; /* Stat of the znode; with ERR_BAD_VERSION the present stat. */
    bool computed;     /* Some of the data is computed by each read (zookeeper_stats): it may change
                          while all stats stay, so the answer has no ETag. */
    struct slice path; /* Full path, created name included. */
    struct blob *data;
    struct blob *acl; /* getacl: encoded list, one reference; NULL: open to all. */
    /* A change of the members: the answer, encoded as in change.h, one reference; also with
     * ERR_BAD_VERSION. */
    bool has_change;
    struct blob *change; /* With has_change. */
    bool has_acl;
    bool has_perms;
    uint32_t perms;   /* Bits of enum acl_perm. */
    bool has_session; /* session, attach, touch, getsession. */
    struct op_session_info session;
    bool created;             /* The PUT has created the znode. */
    bool replayed;            /* Remembered result of an earlier request with the same key. */
    struct op_entry *entries; /* children, tree. */
    uint32_t entry_count;
    struct op_session_entry *sessions; /* sessions. */
    uint32_t session_count;
    uint64_t after_id;         /* sessions: id of the last session that was visited. */
    bool hears_all;            /* sessions: this replica knows the last contact of all sessions. */
    bool more;                 /* The page ends before the list does. */
    uint32_t looked;           /* search, sessions: znodes or sessions that were visited. */
    struct slice after;        /* search: path of the last znode that was visited. */
    struct op_result *results; /* Results of a multi, one per element. */
    uint32_t result_count;
    uint32_t failed_index; /* Element that failed, when err is not OK. */
    struct buf arena;      /* Names of entries, and texts. */
};

void op_result_init(struct op_result *result);
void op_result_release(struct op_result *result); /* Leaves the result as op_result_init does. */

/* When a request passed the points of its way through the replica, in monotonic ms; 0: it has not
 * passed that point. For the log of slow requests. A request that is tried again after a change of
 * leader has the times of the last attempt. */
struct op_times {
    uint64_t sent_ms;     /* Prepared or forwarded to the leader; a read: its quorum round began. */
    uint64_t prepared_ms; /* Proposed: the record is in the log of this replica. */
    uint64_t synced_ms;   /* The record is durable here. */
    uint64_t quorum_ms;   /* The record is committed, or the quorum round is done. */
    uint64_t answered_ms; /* Applied; the request went back to its front end. */
};

struct op_def;

/* The session of a request. */
struct op_session {
    bool shown;  /* The request names a session. */
    uint64_t id; /* Public id; 0: the leader looks it up by `hash`. */
    /* Attach number of the connection. A number other than that of the last attachment makes the
     * request fail with SESSION_MOVED. 0: plain HTTP, which never attaches a session. */
    uint64_t attach;
    uint8_t hash[32]; /* SHA-256 of the secret, when id is 0. */
};

/* A request in flight. A front end makes the request and hands it to the gate. `on_reply` is called
 * on the core thread to return the request, and may only pass it on (resume a connection, post to a
 * mailbox). */
struct op_request {
    const struct op_def *def;
    struct op_args args;
    struct op_principal principal; /* Holds a reference to its `auth`. */
    struct op_session session;
    struct slice key; /* Idempotency-Key; empty: none. */
    /* Number of the connection, which is a FIFO; 0: none. Writes of one FIFO take effect in order,
     * also across a change of leader; a linearizable read is answered after the earlier writes. */
    uint32_t fifo;
    enum op_consistency consistency;
    zxid_t min_zxid;       /* Zk-Min-Zxid; 0: none. */
    uint64_t deadline_ms;  /* Monotonic time by which the request is answered in any case. */
    struct buf memory;     /* Bytes that `args` points to, unless the front end holds them. */
    struct op_args *multi; /* Heap array behind args.ops, freed with the request. */
    void (*on_reply)(struct op_request *request);
    void *ctx; /* Context of the front end. */
    /* Set by the front end at any time: the client has gone, and a request that no leader has yet
     * must not happen any more. */
    _Atomic bool abandoned;
    struct op_result result;
    struct list node;      /* Entry in a list of the gate or the replica. */
    struct list fifo_node; /* Used by the replica. */
    uint64_t id;           /* Number given by the replica. */
    uint32_t stage;        /* Used by the replica: enum request_stage. */
    struct op_times times; /* Set by the replica. */
    zxid_t wait_zxid;      /* Used by the replica; in a reply: the zxid a read has waited for. */
    uint32_t wait_epoch;   /* Used by the replica. */
    size_t wait_bytes;     /* Used by the replica. */
};

struct op_request *op_request_new(void);
void op_request_free(struct op_request *request);

#endif
