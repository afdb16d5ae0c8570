/*
 * op.h - an operation as plain data: what a client asks, and what it is told.
 *
 * One struct of arguments serves all operations; the row of the table (ops.h) says which fields an
 * operation has, where they come from and their limits. Slices in a request point into memory that
 * the request owns.
 */
#ifndef SERVER_OP_H
#define SERVER_OP_H

#include "base/blob.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"
#include "server/auth.h"
#include "server/state/stat.h"

/* Numbers go over the wire between replicas: never renumber. */
enum op_id {
    OP_GET = 1,
    OP_EXISTS = 2,
    OP_STAT = 3,
    OP_CHILDREN = 4,
    OP_TREE = 5,
    OP_SET = 6,
    OP_CREATE = 7,
    OP_DELETE = 8,
    OP_CHECK = 9,  /* Only inside a multi. */
    OP_MULTI = 10, /* Of writes, or of reads; never mixed. */
    OP_SYNC = 11,
    OP_STATUS = 12,
    OP_ENSEMBLE = 13,
    OP_LIMITS = 14,
    OP_WHOAMI = 15,
    OP_REAP = 16, /* The leader's own: remove a TTL or container znode. */
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

struct op_args {
    enum op_id op;     /* Also of the elements of a multi. */
    struct slice path; /* Decoded and checked by path_check. Parent + "/" + name for a create. */
    struct slice data;
    bool data_null; /* The data is null, not empty. */
    bool has_version;
    int32_t version; /* -1: any. */
    bool has_etag;   /* If-Match with a data ETag. */
    zxid_t etag_czxid;
    int32_t etag_version;
    bool must_exist;  /* If-Match: *. */
    bool must_be_new; /* If-None-Match: * on PUT. */
    bool upsert;
    bool parents;
    bool sequence; /* `path` then ends with the prefix, which may be empty ("/q/"). */
    bool ephemeral;
    bool container;
    int64_t ttl_ms; /* 0: none. */
    bool recursive;
    uint32_t max;       /* Bound of a recursive delete. */
    uint32_t limit;     /* Page size of children. */
    struct slice after; /* Children after this name. */
    uint32_t depth;     /* Of tree. */
    enum op_with with;
    enum op_dataformat dataformat;
    struct slice key;    /* Idempotency-Key. */
    struct op_args *ops; /* Elements of a multi. */
    uint32_t op_count;
};

struct op_entry {      /* A child, or a znode of a tree. */
    struct slice path; /* Name of a child; path relative to the tree's root (empty: itself). */
    struct stat_view stat;
    struct blob *data; /* Reference; NULL when null or not asked for. */
};

/* Owns everything it points to (paths and entries in `arena`, references in `data`). */
struct op_result {
    enum err err;
    const char *detail; /* A constant sentence that says more than err_text, or NULL. */
    zxid_t zxid;        /* State the answer reflects. */
    bool has_stat;
    struct stat_view stat; /* Of the znode; with ERR_BAD_VERSION the current one. */
    struct slice path;     /* Full path, created name included. */
    struct blob *data;
    bool created;             /* A PUT that created. */
    struct op_entry *entries; /* children, tree. */
    uint32_t entry_count;
    bool more;                 /* The page ends before the list does. */
    struct op_result *results; /* Of a multi, one per element. */
    uint32_t result_count;
    uint32_t failed_index; /* Element that failed, when err is not OK. */
    struct buf arena;      /* Names of entries. */
};

void op_result_init(struct op_result *result);
void op_result_release(struct op_result *result);

struct op_def;

/*
 * A request on its way. Made by a front end, handed to the gate, and given back by `on_reply` on
 * the core thread, which may only pass it on (resume a connection, post to a mailbox).
 */
struct op_request {
    const struct op_def *def;
    struct op_args args;
    struct op_principal principal;
    enum op_consistency consistency;
    zxid_t min_zxid;       /* Zk-Min-Zxid; 0: none. */
    uint64_t deadline_ms;  /* Monotonic; answered by then, whatever happens. */
    struct buf memory;     /* What the slices of `args` point into (or the front end's own). */
    struct op_args *multi; /* Heap array behind args.ops, freed with the request. */
    void (*on_reply)(struct op_request *request);
    void *ctx; /* The front end's. */
    struct op_result result;
    struct list node;    /* The gate's and the replica's while it is theirs. */
    uint64_t id;         /* Number given by the replica. */
    uint32_t state;      /* The replica's. */
    zxid_t wait_zxid;    /* The replica's. */
    uint32_t wait_epoch; /* The replica's. */
    size_t wait_bytes;   /* The replica's. */
};

struct op_request *op_request_new(void);
void op_request_free(struct op_request *request);

#endif
