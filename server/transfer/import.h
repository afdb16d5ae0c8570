/*
 * import.h - lines of an export become znodes, a bounded batch at a time.
 *
 * The caller passes the bytes of the body and submits each batch as a multi, with the rights of the
 * client; the next batch is made after the answer. So an import of any length takes little memory,
 * and a failure shows how far the import came: all lines before the failed batch are done, and no
 * later line is done. Called by one thread at a time.
 */
#ifndef SERVER_IMPORT_H
#define SERVER_IMPORT_H

#include "server/json/op_json.h"

struct import;
struct view;

enum import_state {
    IMPORT_TAKES, /* Wants more of the body. */
    IMPORT_READY, /* A batch is ready to be submitted. */
    IMPORT_DONE,
    IMPORT_FAILED
};

struct import_limits {
    uint32_t data_bytes_max;
    uint32_t multi_ops_max;
    uint32_t multi_bytes_max;
    bool inherit_acl; /* A line without an ACL leaves the ACL to the leader: inheritAcl. */
};

/* `args` are those of an OP_IMPORT. `args` and `view` must outlive the import. */
struct import *import_new(struct view *view, const struct op_principal *who,
                          const struct op_args *args, const struct import_limits *limits);
void import_free(struct import *import); /* Accepts NULL. */

enum import_state import_state(const struct import *import);

/* In IMPORT_TAKES: reads until a batch is ready to be submitted, the bytes are used up, or the
 * import fails; returns the number of bytes used. */
size_t import_take(struct import *import, struct slice bytes);

/* In IMPORT_TAKES: notes that the body has ended. To be repeated whenever the import is in
 * IMPORT_TAKES again, because the last line may have to wait for the next batch. */
void import_end(struct import *import);

/* In IMPORT_READY: fills def, args and multi of a request; slices point into the import. */
void import_fill(struct import *import, struct op_request *op);

/* In IMPORT_READY: takes the result of the request that import_fill has filled. */
void import_answer(struct import *import, const struct op_result *result);

/* In IMPORT_TAKES: gives up, for a reason outside of the lines. */
void import_stop(struct import *import, enum err err, const char *why);

/* In IMPORT_FAILED: returns why the import failed. */
const struct op_fault *import_fault(const struct import *import);

/* Returns the progress of the import. */
const struct op_import_figures *import_figures(const struct import *import);

#endif
