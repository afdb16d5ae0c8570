#include "zk/errors.h"

#include "base/check.h"

#include <stddef.h>

/* Errors that have no code. */
static const char *const reasons[ERR_COUNT] = {
    [ERR_OUTCOME_UNKNOWN] = "outcome_unknown",
    [ERR_REPLICA_BEHIND] = "replica_behind",
    [ERR_SESSION_MOVED] = "session_moved",
    [ERR_SESSION_EXPIRED] = "session_expired",
    [ERR_UNKNOWN_SESSION] = "session_expired",
    [ERR_NOT_READY] = "not_ready",
    [ERR_CLOSED] = "not_ready",
    [ERR_BUSY] = "not_ready",
    [ERR_FULL] = "not_ready",
    [ERR_NO_FILES] = "not_ready",
    [ERR_IN_FLIGHT] = "not_ready", /* About idempotency keys, which these requests do not have. */
};

enum zk_code zk_error_code(enum err err)
{
    ASSERT((unsigned)err < ERR_COUNT);

    return reasons[err] ? ZK_CLOSE : (enum zk_code)err_number(err);
}

const char *zk_error_reason(enum err err)
{
    ASSERT((unsigned)err < ERR_COUNT && reasons[err]);

    return reasons[err];
}
