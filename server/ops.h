/*
 * ops.h - THE TABLE of operations: one row each.
 *
 * From the row follow the HTTP route, the WebSocket message, decoding and validation of arguments,
 * the forwarded form between replicas, metric labels and the test that holds the written contract
 * against the server. Neither http/ nor ws/ knows any operation.
 */
#ifndef SERVER_OPS_H
#define SERVER_OPS_H

#include "server/op.h"

struct view;
struct gate;

enum op_kind {
    OP_KIND_READ,  /* Answered from the tree on the front end's own thread. */
    OP_KIND_WRITE, /* Through the gate and the log. */
    OP_KIND_SYNC,  /* A quorum round. */
    OP_KIND_INFO,  /* About this replica; no tree. */
};

/* Where a field comes from over HTTP. */
enum op_source {
    OP_FROM_PATH,
    OP_FROM_QUERY,
    OP_FROM_HEADER,
    OP_FROM_BODY
};

enum op_field_type {
    OP_FIELD_PATH,
    OP_FIELD_BOOL,
    OP_FIELD_I32,
    OP_FIELD_U32,
    OP_FIELD_I64,
    OP_FIELD_U64,
    OP_FIELD_TEXT,
    OP_FIELD_BYTES,
    OP_FIELD_WITH,
    OP_FIELD_DATAFORMAT,
    OP_FIELD_OPS,
};

/* One argument: name in query and JSON, place in struct op_args, limits. */
struct op_field {
    const char *name;
    enum op_field_type type;
    enum op_source source;
    size_t offset;     /* In struct op_args. */
    size_t has_offset; /* Of the bool that says it was given, or 0. */
    int64_t min;
    int64_t max;
};

struct op_def {
    enum op_id id;
    const char *name;   /* WebSocket name and metric label, e.g. "create". */
    const char *method; /* HTTP, e.g. "POST". */
    const char *route;  /* e.g. "/znodes/v1/{path}"; "" when not by HTTP on its own. */
    const char
        *select; /* Query that chooses among rows of one route, e.g. "view=children"; or "". */
    enum op_kind kind;
    uint32_t status;               /* HTTP status of success with JSON. */
    const struct op_field *fields; /* Ends with a NULL name. */
    void (*read)(struct view *view, const struct op_args *args, struct op_result *result);
};

/* All rows; ends with a NULL name. */
const struct op_def *ops_table(void);
const struct op_def *ops_by_id(enum op_id id);
const struct op_def *ops_by_name(struct slice name);

/* The compact form of arguments between replicas (FORWARD). Fields of the row only, in row order.
 */
void op_args_encode(const struct op_args *args, struct buf *out);

/* Slices point into `bytes`; a multi's elements are put into a new array at `*ret_multi` (NULL when
 * there are none). ERR_FORMAT, ERR_TOO_LARGE. */
enum err op_args_decode(struct slice bytes, struct op_args *ret_args, struct op_args **ret_multi);

/* Results of writes between replicas: errors travel whole, successes are found in the log. */
void op_result_encode(const struct op_result *result, struct buf *out);
enum err op_result_decode(struct slice bytes, struct op_result *result);

#endif
