/*
 * op_json.h - operations and results as JSON, the same for REST and WebSocket.
 *
 * Bodies are parsed by jansson behind a scan that bounds the nesting first; answers are streamed by
 * base/jsonw. The bytes of a `dataJson` value are kept exactly as they were sent: they are found in
 * the text by the scan and never printed again from a parsed number.
 */
#ifndef SERVER_OP_JSON_H
#define SERVER_OP_JSON_H

#include "base/jsonw.h"
#include "server/ops.h"

enum {
    OP_DETAIL_MAX = 256,
    OP_JSON_DEPTH_MAX = 64 /* Of request bodies and of values shown as dataJson. */
};

/* Why a body was refused. */
struct op_fault {
    enum err err;
    bool has_index;
    uint32_t index;             /* Element of a multi. */
    char detail[OP_DETAIL_MAX]; /* A sentence; may quote the client. */
};

/* Body of a multi (`def` of OP_MULTI) or of one operation in the form of an element of a multi.
 * Sets only the fields given. Slices in `args` point into `text` or `memory`, which must be empty
 * and live as long. `*ret_multi` is a heap array behind args->ops, or NULL. Fields are checked one
 * by one; the caller runs op_args_check for a single operation. */
enum err op_json_parse(const struct op_def *def, struct slice text, struct op_args *args,
                       struct buf *memory, struct op_args **ret_multi, struct op_fault *ret_fault);

/* True when the bytes are one JSON value within the depth bound. */
bool op_json_valid(struct slice text);

/* How results are written. */
struct op_json_style {
    struct slice uri; /* URL of the resource addressed; empty: no `uri` members. */
    bool hex_only;    /* 64-bit numbers as hex strings only (WebSocket). */
};

/* Members of a stat into the open object. */
void op_json_stat(struct jsonw *json, const struct stat_view *stat, bool hex_only);

/* One value: the answer of a successful operation. ERR_NOT_ACCEPTABLE when data cannot be shown in
 * the asked format; the caller then throws away what was written. Not for OP_SHAPE_INFO. */
enum err op_json_result(struct jsonw *json, const struct op_args *args,
                        const struct op_result *result, const struct op_json_style *style);

/* The problem object (RFC 9457 and what ZooKeeper's clients know). Made by op_problem_make: one
 * that does not say what became of the write is of no use to a client. */
struct op_problem {
    enum err err;
    uint32_t status;      /* 0: that of the error. */
    const char *detail;   /* NULL: err_text. */
    const char *outcome;  /* "not-applied" or "unknown"; never NULL. */
    const char *instance; /* Name of this request in the log, or NULL. */
    struct slice path;    /* Empty: none. */
    struct slice request; /* URL as asked, or empty. */
    zxid_t zxid;
    uint64_t retry_after_ms; /* 0: none. */
    bool hex_only;           /* As in op_json_style. */
    bool has_index;
    uint32_t index;                 /* Element of a multi that failed. */
    const struct op_result *result; /* Its stat and results, or NULL. */
    const struct op_args *args;     /* For the results of a multi. */
};

/* With error and outcome; the rest is for the caller to fill in. `kind` is that of the request,
 * OP_KIND_INFO for what is no operation. */
struct op_problem op_problem_make(enum op_kind kind, enum err err);

void op_json_problem(struct jsonw *json, const struct op_problem *problem);

/* "unknown" when an error of a write leaves open whether it was applied. */
const char *op_outcome(enum op_kind kind, enum err err);

#endif
