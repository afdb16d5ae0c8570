/*
 * trace.h - the trace id of a client's `traceparent` (W3C Trace Context), for the log.
 *
 * A replica logs the id and sends it to no other process. It opens no span of its own.
 */
#ifndef SERVER_TRACE_H
#define SERVER_TRACE_H

#include "base/slice.h"

enum {
    OP_TRACE_LEN = 32 /* Hexadecimal digits of a trace id. */
};

/* Returns the trace id, as a part of `traceparent`; empty when the value is malformed, which the
 * standard tells servers to ignore. */
struct slice op_trace_id(struct slice traceparent);

#endif
