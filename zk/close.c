/* How a connection ends. The protocol has no frame for it: replies that are due leave, then our
 * side is shut down, and the client has some time to close its side. */
#include "zk/zk_int.h"

const char *const zk_reasons[ZK_REASONS_MAX] = {"client",
                                                "session_closed",
                                                "session_expired",
                                                "session_moved",
                                                "session_refused",
                                                "auth_failed",
                                                "no_identity",
                                                "bad_frame",
                                                "bad_request",
                                                "reply_too_large",
                                                "slow",
                                                "silent",
                                                "late",
                                                "not_ready",
                                                "replica_behind",
                                                "outcome_unknown",
                                                "watches_lost",
                                                "no_room",
                                                "drain",
                                                "word",
                                                "other"};

static void count(struct zk *zk, const char *reason)
{
    size_t i = 0;

    while (zk_reasons[i + 1] && strcmp(zk_reasons[i], reason) != 0) {
        i++;
    }
    metric_add(&zk->metrics.closes[i], 1);
}

bool zk_close_is_begun(const struct zk_conn *conn)
{
    return conn->state >= ZK_CLOSING;
}

void zk_close_begin(struct zk_conn *conn, const char *reason)
{
    if (zk_close_is_begun(conn)) {
        return;
    }
    conn->lost = conn->lost || conn->state < ZK_OPEN; /* There is no request to be answered. */
    conn->state = ZK_CLOSING;
    conn->reason = reason;
    conn->deadline_ms = os_now_ms() + ZK_LINGER_MS;
    count(conn->zk, reason);
    zk_turn_stop(conn, ZK_STOP_LAST, true);
    zk_turn_soon(conn);
}

void zk_close_lost(struct zk_conn *conn, const char *reason)
{
    conn->lost = true;
    zk_close_begin(conn, reason);
    zk_turn_soon(conn);
}

void zk_close_cut(struct zk_conn *conn, const char *reason)
{
    if (conn->state == ZK_CUT) {
        return;
    }
    if (conn->state != ZK_CLOSING) {
        conn->reason = reason;
        count(conn->zk, reason);
    }
    conn->state = ZK_CUT;
    zk_turn_stop(conn, ZK_STOP_LAST, true);
    zk_turn_soon(conn);
}
