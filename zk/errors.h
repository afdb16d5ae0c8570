/*
 * errors.h - zabra's errors as those of ZooKeeper's protocol.
 *
 * The protocol has no code for an outcome that is not known, and clients have no use for the codes
 * of some other errors. Then the connection ends without a reply: the client reports a lost
 * connection for the request and all behind it, which is the truth, and connects again.
 */
#ifndef ZK_ERRORS_H
#define ZK_ERRORS_H

#include "base/err.h"

#include <stdint.h>

/* The codes that zabra sends. */
enum zk_code {
    ZK_OK = 0,
    ZK_SYSTEM_ERROR = -1,
    ZK_RUNTIME_INCONSISTENCY = -2,
    ZK_DATA_INCONSISTENCY = -3,
    ZK_MARSHALLING_ERROR = -5,
    ZK_UNIMPLEMENTED = -6,
    ZK_BAD_ARGUMENTS = -8,
    ZK_NO_NODE = -101,
    ZK_NO_AUTH = -102,
    ZK_BAD_VERSION = -103,
    ZK_NO_CHILDREN_FOR_EPHEMERALS = -108,
    ZK_NODE_EXISTS = -110,
    ZK_NOT_EMPTY = -111,
    ZK_INVALID_ACL = -114,
    ZK_AUTH_FAILED = -115,
    ZK_NOT_READ_ONLY = -119,
    ZK_NO_WATCHER = -121,
    ZK_RECONFIG_DISABLED = -123,
    ZK_SESSION_CLOSED_REQUIRE_AUTH = -124,
    ZK_QUOTA_EXCEEDED = -125,
    ZK_THROTTLED = -127,

    ZK_CLOSE = 1 /* No code: the connection ends without a reply. */
};

/* Returns the code for the error of a request, or ZK_CLOSE. ERR_THROTTLED has a code; a front end
 * that can try the request again later does so before it asks. Any thread. */
enum zk_code zk_error_code(enum err err);

/* Returns why a connection ends at this error, as a label of metrics ("outcome_unknown"). Only for
 * errors whose code is ZK_CLOSE. */
const char *zk_error_reason(enum err err);

#endif
