/*
 * err.h - the one list of errors: enum, text, HTTP status and ZooKeeper's name and number.
 *
 * The first part of the list has the errors that a client gets as the answer to its operation. The
 * second part has failures of this machine (I/O, damage, full disk) and refusals inside the process
 * (a full queue). An error that ZooKeeper does not have gets the number of a similar one.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

/* X(symbol, HTTP status, ZooKeeper number, ZooKeeper name, text) */
#define ERR_MAP(X)                                                                               \
    X(OK, 200, 0, "Ok", "success")                                                               \
    /* Errors that a client gets as the answer to its operation. */                              \
    X(SYSTEM_ERROR, 500, -1, "SystemError", "internal error")                                    \
    X(RUNTIME_INCONSISTENCY, 409, -2, "RuntimeInconsistency",                                    \
      "not evaluated because an earlier operation of the same multi failed")                     \
    X(UNIMPLEMENTED, 501, -6, "Unimplemented", "operation is not supported")                     \
    X(OUTCOME_UNKNOWN, 504, -7, "OperationTimeout",                                              \
      "the outcome is unknown: the write may or may not have been applied")                      \
    X(BAD_ARGUMENTS, 400, -8, "BadArguments", "invalid arguments")                               \
    X(UNKNOWN_SESSION, 401, -12, "UnknownSession", "no such session")                            \
    X(NO_NODE, 404, -101, "NoNode", "znode does not exist")                                      \
    X(NO_AUTH, 403, -102, "NoAuth", "permission denied by the ACL")                              \
    X(BAD_VERSION, 412, -103, "BadVersion", "version does not match")                            \
    X(NO_CHILDREN_FOR_EPHEMERALS, 409, -108, "NoChildrenForEphemerals",                          \
      "an ephemeral znode cannot have children")                                                 \
    X(NODE_EXISTS, 409, -110, "NodeExists", "znode already exists")                              \
    X(NOT_EMPTY, 409, -111, "NotEmpty", "znode has children")                                    \
    X(SESSION_EXPIRED, 401, -112, "SessionExpired", "session has expired")                       \
    X(INVALID_ACL, 400, -114, "InvalidACL", "invalid ACL")                                       \
    X(AUTH_FAILED, 401, -115, "AuthFailed", "authentication failed")                             \
    X(SESSION_MOVED, 409, -118, "SessionMoved", "session has moved to another connection")       \
    X(NOT_READ_ONLY, 403, -119, "NotReadOnly", "this replica takes no writes")                   \
    X(QUOTA_EXCEEDED, 507, -125, "QuotaExceeded", "quota exceeded")                              \
    X(THROTTLED, 429, -127, "ThrottledOp", "too many requests; try again later")                 \
    X(TOO_LARGE, 413, -8, "TooLarge",                                                            \
      "the request or the answer is larger than the configured limit")                           \
    X(UNSUPPORTED_MEDIA_TYPE, 415, -5, "MarshallingError", "unsupported media type")             \
    X(NOT_ACCEPTABLE, 406, -5, "NotAcceptable", "the answer cannot be represented as requested") \
    X(NOT_FOUND, 404, -6, "NotFound", "no such resource")                                        \
    X(METHOD_NOT_ALLOWED, 405, -6, "MethodNotAllowed", "method not allowed on this resource")    \
    X(MISDIRECTED, 421, -8, "Misdirected", "the Host is not one that this replica serves")       \
    X(UPGRADE_REQUIRED, 426, -8, "UpgradeRequired", "a WebSocket needs a connection of its own") \
    X(HEADER_TOO_LARGE, 431, -8, "HeaderTooLarge", "request head is too large")                  \
    X(KEY_REUSED, 422, -8, "IdempotencyKeyReused",                                               \
      "the Idempotency-Key was used with another request")                                       \
    X(IN_FLIGHT, 409, -8, "InFlight", "a request with this Idempotency-Key is still in flight")  \
    X(CHANGE_REFUSED, 409, -8, "ChangeRefused", "the change of the ensemble is refused")         \
    X(HISTORY_CHANGED, 409, -8, "HistoryChanged", "the zxid is from another history")            \
    X(GAP, 409, -8, "Gap", "the log does not reach back to this zxid any more")                  \
    X(NOT_READY, 503, -4, "NotReady", "this replica cannot serve the request now")               \
    X(REPLICA_BEHIND, 503, -4, "ReplicaBehind",                                                  \
      "this replica has not applied the requested zxid yet")                                     \
    X(DISK_FULL, 507, -1, "DiskFull", "not enough disk space on a quorum of replicas")           \
    X(TREE_FULL, 507, -1, "TreeFull", "the tree has reached maxTreeBytes")                       \
    /* Errors inside the process. */                                                             \
    X(FORMAT, 400, -5, "MarshallingError", "malformed encoding")                                 \
    X(IO, 500, -1, "SystemError", "input/output error")                                          \
    X(NO_SPACE, 507, -1, "SystemError", "no space left on device")                               \
    X(NO_FILES, 503, -4, "NotReady", "out of file descriptors")                                  \
    X(CORRUPT, 500, -3, "DataInconsistency", "stored data is damaged")                           \
    X(FOREIGN, 500, -3, "DataInconsistency", "stored data belongs to another replica")           \
    X(NEWER, 500, -3, "DataInconsistency", "stored data is of a later release")                  \
    X(REMOVED, 500, -3, "DataInconsistency", "the ensemble has removed this replica")            \
    X(MISSING, 404, -101, "NoNode", "does not exist")                                            \
    X(EXISTS, 409, -110, "NodeExists", "already exists")                                         \
    X(BUSY, 503, -4, "NotReady", "resource is busy")                                             \
    X(FULL, 503, -4, "NotReady", "a queue or buffer of this replica is full")                    \
    X(CLOSED, 503, -4, "NotReady", "closed")                                                     \
    X(CONFIG, 500, -8, "BadArguments", "invalid configuration")

enum err {
#define X(symbol, http, number, name, text) ERR_##symbol,
    ERR_MAP(X)
#undef X
    ERR_COUNT
};

/* Runs the next step of a sequence, unless an earlier step has failed: if `err` is ERR_OK, makes
 * the call `step` and sets `err` to its result. */
#define THEN(err, step) ((err) = (err) == ERR_OK ? (step) : (err))

const char *err_text(enum err err);   /* For people, e.g. "znode does not exist". */
const char *err_symbol(enum err err); /* For logs, e.g. "NO_NODE". */
const char *err_name(enum err err);   /* ZooKeeper's name, e.g. "NoNode". */
int err_number(enum err err);         /* ZooKeeper's number, e.g. -101. */
int err_http_status(enum err err);    /* E.g. 404. */

#endif
