/*
 * ops.h - THE TABLE of operations: one row each.
 *
 * The row determines the HTTP route, the WebSocket message, decoding and validation of arguments,
 * the forwarded form between replicas and metric labels. A test compares the rows with the API
 * contract in openapi/. For most operations http/ and ws/ have no code of their own.
 */
#ifndef SERVER_OPS_H
#define SERVER_OPS_H

#include "server/op/op.h"
#include "server/state/txn.h"

enum op_kind {
    OP_KIND_READ,  /* Answered from the tree on the front end's own thread. */
    OP_KIND_WRITE, /* Goes through the gate and the log. */
    OP_KIND_SYNC,  /* Takes a quorum round. */
    OP_KIND_INFO,  /* Tells about this replica; reads no tree. */
    OP_KIND_FRONT, /* The front end does it itself, on its own thread. */
};

/* Where a field comes from over HTTP. */
enum op_source {
    OP_FROM_PATH,
    OP_FROM_QUERY,
    OP_FROM_HEADER, /* Not available in JSON. */
    OP_FROM_BODY,
    OP_FROM_MEMBER,  /* Only in JSON: in an element of a multi or in a WebSocket message. */
    OP_FROM_MESSAGE, /* Only in a WebSocket message; not over HTTP. */
    OP_FROM_NOWHERE  /* Made by the server: only in the forwarded form. */
};

enum op_field_type {
    OP_FIELD_PATH,
    OP_FIELD_BOOL,
    OP_FIELD_I32,
    OP_FIELD_U32,
    OP_FIELD_I64,
    OP_FIELD_U64, /* "0x1f" or "31". */
    OP_FIELD_TEXT,
    OP_FIELD_BYTES,
    OP_FIELD_WITH,
    OP_FIELD_DATAFORMAT,
    OP_FIELD_OPS,
    OP_FIELD_NAME,       /* Last component of the new path, joined to args->path; query only. */
    OP_FIELD_MATCH,      /* If-Match: has_etag, etag_czxid, etag_version, must_exist. */
    OP_FIELD_ACL_MATCH,  /* If-Match with the ETag of the ACL; etag_version is its aversion. */
    OP_FIELD_NONE_MATCH, /* If-None-Match: *: must_be_new. */
    OP_FIELD_SECRET,     /* A session's secret: text that never leaves this process. */
    OP_FIELD_HASH,       /* TXN_SECRET_HASH_LEN bytes; only in the forwarded form. */
    OP_FIELD_ACL,        /* Encoded list; as JSON an array of entries or a standard list's name. */
    OP_FIELD_KIND,       /* Kind of a watch, by name. */
    OP_FIELD_SINCE,      /* "0x1f", "31", or "<history hex>:<zxid hex>". */
    OP_FIELD_CONFLICT,
    OP_FIELD_BOUND,        /* A number, or null, which is 0: no bound. */
    OP_FIELD_MEMBER,       /* The id of a member of the ensemble. */
    OP_FIELD_ROLE,         /* Role of a member, by name. */
    OP_FIELD_IDS,          /* A list of ids of members (op_ids_at). */
    OP_FIELD_CONFIG_MATCH, /* If-Match with the ETag of the configuration: has_etag, etag_czxid. */
    OP_FIELD_TYPES         /* Size of tables by type. */
};

/* The form of an answer. op_json writes it unless the comment names another writer. "Flat": the
 * members of the stat stand beside the data; in WebSocket messages the stat is an object. */
enum op_shape {
    OP_SHAPE_NONE,       /* No body. */
    OP_SHAPE_DATA,       /* The flat znode with its data, or the raw bytes. */
    OP_SHAPE_STAT,       /* The flat znode without data. */
    OP_SHAPE_EXISTS,     /* The flat znode without data, or exists=false. */
    OP_SHAPE_CHILDREN,   /* Names or objects, and the stat of the parent. */
    OP_SHAPE_TREE,       /* Entries of a subtree. */
    OP_SHAPE_SEARCH,     /* Entries of a subtree, and where to continue. */
    OP_SHAPE_CREATED,    /* Path, URI and the stat. */
    OP_SHAPE_MULTI,      /* Results in order. */
    OP_SHAPE_ZXID,       /* The zxid alone. */
    OP_SHAPE_INFO,       /* Written by gate_write_info; of OP_RELOAD by the front end. */
    OP_SHAPE_SESSION,    /* A session: secret (when it is new), public id, timeout. */
    OP_SHAPE_SESSIONS,   /* A page of the list of all sessions. */
    OP_SHAPE_EPHEMERALS, /* Paths or objects. */
    OP_SHAPE_ACL,        /* Entries of a list, and the stat. */
    OP_SHAPE_CHANGE,     /* What a change of the members does. */
    OP_SHAPE_FRONT,      /* Written by the front end: events as they happen. */
    OP_SHAPE_BACKUP,     /* Written by the front end: server/backup/backup_file.h. */
    OP_SHAPE_LINES,      /* Written by the front end: lines of JSON; the last has the outcome. */
    OP_SHAPE_IMPORT,     /* Written by the front end: progress of an import. */
    OP_SHAPE_WATCHES,    /* Written by the front end: lists of watches. */
};

enum {
    OPS_FIELDS_MAX = 24,
    OP_SECRET_LEN = 36,            /* Characters of a session's secret. */
    OPS_TEXT_MAX = 1 << 20,        /* Bytes of a path or text; path_check has a lower limit. */
    OPS_MULTI_MAX = 10000,         /* A multi with more elements is not decoded. */
    OPS_DATA_BYTES_MAX = 64 << 20, /* Bytes of decoded data; maxDataBytes is always lower. */
    OPS_TTL_MS_MAX_BITS = 40,      /* Bits in which a TTL is stored. */
    OPS_PATTERN_MAX = 256,         /* Bytes of a pattern for names. */
};

/* One argument: name in query and JSON, offset in struct op_args, limits. */
struct op_field {
    const char *name;
    enum op_field_type type;
    enum op_source source;
    size_t offset;     /* Offset in struct op_args. */
    size_t has_offset; /* Offset of the bool that is set when the field was given, or 0. */
    int64_t min;       /* Smallest value, or length of a text or bytes; else unused. */
    int64_t max;       /* Largest value, or length of a text or bytes; else unused. */
};

struct op_def {
    enum op_id id;
    const char *name;   /* WebSocket name and metric label, e.g. "create". */
    const char *method; /* HTTP, e.g. "POST". */
    const char *route;  /* e.g. "/znodes/v1/{path}"; "" without a route of its own. */
    /* Query that chooses among rows of one route, e.g. "view=children"; or "". The first row of a
     * route and method is the default. */
    const char *select;
    enum op_kind kind;
    enum op_shape shape;           /* Form of the answer. */
    uint32_t status;               /* HTTP status of success with JSON. */
    uint32_t status_raw;           /* HTTP status with application/octet-stream; 0: JSON only. */
    const struct op_field *fields; /* Ends with a NULL name. */
};

/* Return all rows (a NULL name ends the table), or the row of an id or a name, or NULL. */
const struct op_def *ops_table(void);
const struct op_def *ops_by_id(enum op_id id);
const struct op_def *ops_by_name(struct slice name);

/* Whether only the leader or an import makes this operation, so that no client can send it. */
bool op_is_internal(enum op_id op);

/* Whether the operation exists over HTTP only. */
bool op_is_http_only(enum op_id op);

/* Whether the operation may be an element of a client's multi (op_may_be_in_multi), or of any multi
 * (op_multi_may_hold). The multis of an import also set ACLs and
 * raise counts of creates. */
bool op_may_be_in_multi(enum op_id op);
bool op_multi_may_hold(enum op_id op);

/* Returns the field of that name, or NULL. */
const struct op_field *op_field_find(const struct op_def *def, struct slice name);

/* Sets the defaults of all arguments. */
void op_args_init(struct op_args *args, enum op_id op);

/* Decodes the text of a query parameter or header into its field. Returns ERR_OK, or
 * ERR_BAD_ARGUMENTS with the reason as a constant sentence. A TEXT or PATH refers to `text`. Not
 * for NAME, BYTES, OPS, ACL and HASH. */
enum err op_field_parse(const struct op_field *field, struct slice text, struct op_args *args,
                        const char **ret_why);

/* Parses at most 16 hexadecimal digits, without 0x. */
bool op_hex_parse(struct slice text, uint64_t *ret_value);

/* Parses "0x1f" or "31". */
bool op_zxid_parse(struct slice text, zxid_t *ret_zxid);

/* Checks the paths and the rules across fields, also in each element of a multi. Each front end
 * calls it once. Returns ERR_OK, or ERR_BAD_ARGUMENTS with the reason as a constant sentence. */
enum err op_args_check(const struct op_args *args, const char **ret_why);

/* Whether the text is a UUID of 36 characters, in either case. */
bool op_is_uuid(struct slice text);

/* Makes a new secret as text: a UUID of version 4 (RFC 9562) with 122 random bits from the kernel.
 * Any thread. */
void op_secret_make(char ret_secret[OP_SECRET_LEN + 1]);

/* Puts the SHA-256 of args->secret into args->secret_hash, which then points into `hash`. */
void op_args_hash_secret(struct op_args *args, uint8_t hash[TXN_SECRET_HASH_LEN]);

/* Returns the kind of the operation; the kind of a multi follows from its elements. */
enum op_kind op_args_kind(const struct op_args *args);

/* Encodes arguments for other replicas (FORWARD): the fields of the row, in row order. */
void op_args_encode(const struct op_args *args, struct buf *out);

/* Decodes arguments. Slices point into `bytes`; the elements of a multi are in a new array at
 * `*ret_multi` (NULL when there are none). Returns ERR_OK, ERR_FORMAT or ERR_TOO_LARGE. */
enum err op_args_decode(struct slice bytes, struct op_args *ret_args, struct op_args **ret_multi);

/* Encode and decode results of writes, for other replicas and for the memory of idempotency keys.
 * An error is sent by its symbol, so that replicas one version apart agree; a decoded `detail` or
 * `path` lives in the arena of its result. Data and entries, which writes do not have, are left
 * out. */
void op_result_encode(const struct op_result *result, struct buf *out);
enum err op_result_decode(struct slice bytes, struct op_result *result);

#endif
