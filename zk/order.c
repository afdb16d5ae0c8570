/*
 * Events before replies. Before a reply leaves that shows the state of some zxid, the subscriber
 * hands out all changes up to it, to all connections. So the zxid in the header of a reply, from
 * which a client lets its watches continue elsewhere, is never ahead of the events that it has.
 */
#include "zk/zk_int.h"

void zk_order_saw(struct zk_conn *conn, zxid_t zxid)
{
    conn->seen = max_u64(zxid, conn->seen);
}

/* Whether the first frame that is not taken is a setWatches, whole or not. */
static bool sets_watches_next(const struct zk_conn *conn)
{
    return conn->in.len >= ZK_HEAD_BYTES &&
           zk_sets_watches(zk_load_int(conn->in.data + ZK_HEAD_BYTES - ZK_INT_BYTES));
}

bool zk_order_lacks(const struct zk_conn *conn, uint32_t answered)
{
    return conn->set_watches > answered || sets_watches_next(conn);
}

zxid_t zk_order_told(const struct zk_conn *conn, uint32_t answered)
{
    return zk_order_lacks(conn, answered) ? (zxid_t)-1 : conn->seen;
}

void zk_order_pump(struct zk *zk, zxid_t until)
{
    if (until > subscribe_at(zk->subscriber)) {
        (void)subscribe_pump(zk->subscriber, until, SIZE_MAX);
    }
}

/* Ends the connection when its reply has waited for changes for requestTimeout. They are missing
 * while this replica loads another state, which may lack them. */
static void end_late(struct zk_call *call)
{
    uint64_t patience_us = (uint64_t)call->zk->limits->request_timeout_ms * 1000;
    uint64_t now_us = os_now_us();

    if (call->waits_since_us == 0) {
        call->waits_since_us = now_us;
    }
    if (now_us - call->waits_since_us >= patience_us) {
        zk_close_lost(call->conn, call->request ? "outcome_unknown" : "replica_behind");
    }
}

bool zk_order_allows(struct zk_call *call, zxid_t until)
{
    struct zk_conn *conn = call->conn;
    struct zk *zk = call->zk;

    list_remove(&conn->waiting);
    zk_order_pump(zk, until);
    if (conn->lost) {
        return false; /* One of these changes has ended its session. */
    }
    if (subscribe_at(zk->subscriber) >= until) {
        return true;
    }
    list_push_back(&zk->waiting, &conn->waiting);
    end_late(call);
    return false;
}

void zk_order_retry(struct zk *zk)
{
    list_take_each (struct zk_conn, conn, waiting, &zk->waiting) {
        zk_turn_soon(conn);
    }
}
