/*
 * op_json.h - operations, results and events as JSON, the same for REST, WebSocket and streams.
 *
 * A body or message is first scanned, and refused if it is nested too deep; then jansson parses it.
 * base/jsonw streams answers. The bytes of a `dataJson` value are kept exactly as they were sent:
 * the scan finds them in the text, and they are never printed again from parsed values.
 *
 * The same objects have two forms: REST (64-bit numbers twice, as number and as hex string; the
 * stat flat beside the data, as ZooKeeper's own gateway has it) and the form of messages (64-bit
 * numbers as hex strings only; the stat always an object of its own).
 */
#ifndef SERVER_OP_JSON_H
#define SERVER_OP_JSON_H

#include "base/jsonw.h"
#include "server/op/ops.h"
#include "server/op/trace.h"
#include "server/watch/subscribe.h"

enum {
    OP_DETAIL_MAX = 256,
    OP_JSON_DEPTH_MAX = 64 /* Nesting of request bodies and of values shown as dataJson. */
};

/* The largest integer that every JSON library keeps exactly; the largest id of a message. */
#define OP_JSON_NUMBER_MAX (INT64_C(1) << 53)

/* Why a body or a message was refused. */
struct op_fault {
    enum err err;
    bool has_index;
    uint32_t index;             /* Element of a multi. */
    uint32_t retry_after_ms;    /* 0: the default of the error. */
    char detail[OP_DETAIL_MAX]; /* A sentence, which may quote the request. */
};

/* ---- Reading ---- */

/* Parses the body of a multi (`def` of OP_MULTI), or of one operation in the form of an element of
 * a multi. Sets only the fields of `args` that the body gives. Slices in `args` point into `text`
 * or `memory`; both must live as long as `args`, and `memory` must be empty. `*ret_multi` is the
 * heap array that args->ops points to, or NULL; the caller frees it. Checks each field by itself
 * and, for a multi, also the rules across fields (op_args_check). For a single operation the caller
 * runs op_args_check. A member that the operation does not have is an error. */
enum err op_json_parse(const struct op_def *def, struct slice text, struct op_args *args,
                       struct buf *memory, struct op_args **ret_multi, struct op_fault *ret_fault);

/* The id of a message, for its reply, and its trace id, for the log. */
struct op_message_id {
    bool known; /* False: the message has no readable id. */
    uint64_t number;
    char trace[OP_TRACE_LEN + 1]; /* "": the message has no valid `traceparent`. */
};

/*
 * Parses a WebSocket message: one operation with `id` and `op`, and optionally `key`,
 * `consistency`, `min_zxid` and `traceparent`. Fills def, args, multi, key, consistency and
 * min_zxid of `request`, whose memory must be empty; `text` is not needed afterwards. Runs
 * op_args_check. Unknown members are ignored; data is shown as `auto` when the message gives no
 * format. The caller must still hash the secret of a session (op_args_hash_secret). `close`,
 * `touch` and `getsession` without a secret mean the attached session.
 *
 * On an error `ret_id` still has the id, if the id is readable, and request->def is NULL when the
 * operation is not known. ERR_BAD_ARGUMENTS, ERR_UNIMPLEMENTED (unknown op), ERR_TOO_LARGE,
 * ERR_INVALID_ACL.
 */
enum err op_json_parse_message(struct slice text, struct op_request *request,
                               struct op_message_id *ret_id, struct op_fault *ret_fault);

/* Whether the bytes are one JSON value within the depth bound. */
bool op_json_valid(struct slice text);

/* ---- Writing results ---- */

/* How results are written. */
struct op_json_style {
    struct slice uri; /* URL of the resource; empty: no `uri` members. */
    bool message;     /* The form of messages. */
};

/* Writes one value, a JSON array of entries {"perms":["read",...],"scheme","id"}, as `acl` members
 * are written and read. Empty bytes mean open to all, which is written as an entry, too. */
void op_json_acl(struct jsonw *json, struct slice acl);

/* Writes one value, an array of the names of the permissions. */
void op_json_perms(struct jsonw *json, uint32_t perms);

/* Whether `op` with the result `err` has succeeded: no error, or `exists` found no znode. */
bool op_json_is_answer(enum op_id op, enum err err);

/* Writes one value: the answer of a successful operation. ERR_NOT_ACCEPTABLE when the data cannot
 * be shown in the wanted format; the caller then drops what was written. Not for OP_SHAPE_INFO and
 * OP_SHAPE_FRONT. */
enum err op_json_result(struct jsonw *json, const struct op_args *args,
                        const struct op_result *result, const struct op_json_style *style);

/* ---- Lines of an export: one JSON object each, without the newline ---- */

enum {
    OP_JSON_EXPORT = 1 /* Version of the form, in the first line. */
};

void op_json_export_head(struct jsonw *json, struct slice path, zxid_t zxid, uint64_t history);

/* A znode of an export. Its line is like the element of a multi that creates the znode, plus the
 * stat; the path is relative to the top of the export. */
struct op_export_znode {
    struct slice path; /* Empty: the top itself. */
    struct stat_view stat;
    struct slice acl; /* Empty: open to all, and no member is written. */
    struct blob *data;
    bool container;
    int64_t ttl_ms; /* 0: none. */
};

void op_json_export_znode(struct jsonw *json, const struct op_export_znode *znode,
                          enum op_dataformat format);

/* The content of a line of an import. */
enum op_line_kind {
    OP_LINE_ZNODE,
    OP_LINE_HEAD,
    OP_LINE_END,
    OP_LINE_ERROR
};

struct op_line {
    enum op_line_kind kind;
    struct op_args args; /* ZNODE: a create; the path is as written, and not checked. */
    uint64_t znodes;     /* END: count of znodes. */
};

/* Parses one line of an export. In the line of a znode the member `stat` is ignored, and an unknown
 * member is an error. Slices point into `memory`, which must be empty. */
enum err op_json_parse_line(struct slice text, struct op_line *ret_line, struct buf *memory,
                            struct op_fault *ret_fault);

/* Progress of an import. */
struct op_import_figures {
    uint64_t lines; /* Znodes that are done: created + overwritten + skipped. */
    uint64_t created;
    uint64_t overwritten;
    uint64_t skipped;
    uint64_t multis; /* Transactions. */
    zxid_t zxid;     /* Zxid of the last transaction; 0: none. */
    uint64_t line;   /* The line that failed; 0: none. */
    bool dry_run;    /* Nothing is written: the figures show what would be done. */
};

/* Writes one value: the answer of an import, or the member "import" of its problem. */
void op_json_import(struct jsonw *json, const struct op_import_figures *figures);

/* The counts in the last line of an export. */
struct op_export_figures {
    uint64_t znodes;
    uint64_t ephemerals; /* Ephemeral znodes left out. */
    uint64_t unreadable; /* Unreadable znodes left out; those below them are left out uncounted. */
    uint64_t masked;     /* Znodes whose ACL is shown without hashes: not importable. */
};

void op_json_export_end(struct jsonw *json, const struct op_export_figures *figures);

/* The problem object (RFC 9457, with the members that clients of ZooKeeper know). Made only by
 * op_problem_make, because a problem must state whether the write was applied. */
struct op_problem {
    enum err err;
    uint32_t status;      /* 0: the status of the error. */
    const char *detail;   /* NULL: err_text. */
    const char *outcome;  /* "not-applied" or "unknown"; never NULL. */
    const char *instance; /* Name of this request in the log, or NULL. */
    struct slice path;    /* Empty: none. */
    struct slice request; /* URL of the request, or empty. */
    zxid_t zxid;
    uint64_t retry_after_ms; /* 0: none. */
    bool message; /* True over a WebSocket and in the last line of an export: 64-bit numbers are hex
                     strings only, and the problem has no member "message". */
    bool has_index;
    uint32_t index;                         /* Element of a multi that failed. */
    const struct op_result *result;         /* Source of the members stat and results, or NULL. */
    const struct op_args *args;             /* Arguments of `result`, needed for its elements. */
    const struct op_import_figures *import; /* Progress of an import, or NULL. */
};

/* Sets error and outcome; the caller fills in the other members. `kind` is that of the request,
 * OP_KIND_INFO when there is no operation. */
struct op_problem op_problem_make(enum op_kind kind, enum err err);

/* Like op_problem_make, with the details of a refusal, or of a result that is an error. The problem
 * keeps pointers to `args` and `result`, and to the text in `fault`. */
struct op_problem op_problem_of_fault(enum op_kind kind, const struct op_fault *fault);
struct op_problem op_problem_of_result(enum op_kind kind, const struct op_args *args,
                                       const struct op_result *result);

void op_json_problem(struct jsonw *json, const struct op_problem *problem);

/* Returns "unknown" when an error of a write leaves open whether the write was applied, else
 * "not-applied". */
const char *op_outcome(enum op_kind kind, enum err err);

/* ---- Writing replies to messages ---- */

/* Begins {"id","ok":true,"zxid", to which the caller adds members until op_json_reply_end. Used for
 * answers that the front ends write themselves. A zxid of 0 is left out. */
void op_json_reply_begin(struct jsonw *json, uint64_t id, zxid_t zxid);
void op_json_reply_end(struct jsonw *json);

/* Writes the whole reply of a successful operation, with "watch" when `watch_id` is not 0. Returns
 * the errors of op_json_result. Like it, not for OP_SHAPE_INFO and OP_SHAPE_FRONT. */
enum err op_json_reply(struct jsonw *json, uint64_t id, const struct op_args *args,
                       const struct op_result *result, uint32_t watch_id);

/* Writes the reply to `watch`: "watch", "zxid", and "resumed" when the watch was to continue from a
 * zxid. */
void op_json_reply_watch(struct jsonw *json, uint64_t id, const struct subscribe_result *result);

/* Writes {"id","ok":false,"error":{the problem}}; an unknown id is null. */
void op_json_reply_error(struct jsonw *json, const struct op_message_id *id,
                         const struct op_problem *problem);

/* ---- Writing events: messages without a request ---- */

/* Writes the event of a change. "watches" are the ids of `hits`, a list linked by `hit_next` (NULL:
 * no such member). With `values` the event has stat and data, as far as the change has them; data
 * that does not fit the format is shown as with `auto`. */
void op_json_event(struct jsonw *json, const struct watch_event *event, const struct watch *hits,
                   bool values, enum op_dataformat format);

/* The contents of the first message of a connection. */
struct op_hello {
    uint32_t server; /* Id of this replica. */
    const char *role;
    uint64_t history;
    zxid_t zxid;
    uint32_t heartbeat_ms;
    struct slice limits;    /* JSON, as gate_write_limits writes it. */
    bool identity_required; /* The client must send `auth` first; false: no such member. */
};

#define OP_PROTOCOL "zabra.v1.json"

void op_json_hello(struct jsonw *json, const struct op_hello *hello);

/* Writes a heartbeat: all events up to `zxid` have been sent. */
void op_json_heartbeat(struct jsonw *json, zxid_t zxid);

/* Writes "overrun": events after `from` were dropped because the client is slow; the missed
 * changes follow later. `watches` NULL: no such member. */
void op_json_overrun(struct jsonw *json, const uint32_t *watches, size_t count, zxid_t from);

/* Writes "gap": events up to `zxid` are lost, and the client must read the data again. Later events
 * follow. */
void op_json_gap(struct jsonw *json, const uint32_t *watches, size_t count, zxid_t zxid);

/* Writes "session": the session attached to this connection has ended or moved; `state` is
 * "closed", "expired" or "moved"; `session` is its public id. */
void op_json_session_event(struct jsonw *json, const char *state, uint64_t session, zxid_t zxid);

/* Writes the member "history". */
void op_json_history(struct jsonw *json, uint64_t history);

/* Begins the last message of a connection or stream; the caller writes the value of `servers`
 * (gate_write_servers) and ends the object. */
void op_json_closing_begin(struct jsonw *json, const char *reason);

#endif
