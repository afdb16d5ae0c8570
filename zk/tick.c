/* Time: deadlines of connections, silent and slow clients, a replica that may not answer. */
#include "zk/zk_int.h"

#include <poll.h>
#include <sys/ioctl.h>

/* Whether the client has closed a connection that is not read. */
static bool has_gone(const struct zk_conn *conn)
{
    struct pollfd polled = {.fd = conn->fd, .events = POLLRDHUP};

    return poll(&polled, 1, 0) > 0;
}

static bool is_silent(const struct zk_conn *conn, uint64_t now_ms)
{
    return conn->state == ZK_OPEN && conn->stops == 0 &&
           now_ms >= conn->heard_ms + conn->session.timeout_ms;
}

/* A client whose bytes are not read now, because it is stopped or its turn has not come, is heard
 * by the number of bytes that wait, so that its session lives on while this replica makes it wait.
 * Other clients are asked before they are judged. */
static void hear(struct zk_conn *conn, uint64_t now_ms)
{
    bool asked = conn->stops != 0 || conn->in.len > 0 || conn->arrived || is_silent(conn, now_ms);
    int waits = 0;

    if (conn->state == ZK_OPEN && asked && ioctl(conn->fd, FIONREAD, &waits) == 0 &&
        waits > conn->unread) {
        conn->heard_ms = now_ms;
        zk_session_touch(conn);
    }
    conn->unread = waits;
}

static void check(struct zk_conn *conn, uint64_t now_ms)
{
    const struct config_clients *limits = conn->zk->limits;

    if (conn->deadline_ms != 0 && now_ms >= conn->deadline_ms &&
        (conn->state == ZK_HELLO || conn->state == ZK_CLOSING)) {
        zk_close_cut(conn, "late");
    } else if (conn->stall_ms != 0 && now_ms >= conn->stall_ms + limits->slow_timeout_ms) {
        zk_close_cut(conn, "slow");
    } else if (is_silent(conn, now_ms) && conn->unread == 0) {
        zk_close_cut(conn, "silent");
    } else if (conn->identity_ms != 0 && now_ms >= conn->identity_ms) {
        zk_close_lost(conn, "no_identity");
    }
}

/* Whether this replica has not been able to answer for ZK_UNFIT_MS. */
static bool is_unfit(struct zk *zk, uint64_t now_ms)
{
    const char *why = NULL;

    if (gate_check_local(zk->gate, &why) == ERR_OK) {
        zk->unfit_ms = 0;
        return false;
    }
    if (zk->unfit_ms == 0) {
        zk->unfit_ms = now_ms;
    }
    return now_ms >= zk->unfit_ms + ZK_UNFIT_MS;
}

/* After a stall of the process, bytes that have arrived meanwhile are read before any client is
 * judged: so a late tick judges none. Two late ones in a row would spare clients for ever. */
void zk_tick(struct zk *zk)
{
    uint64_t now_ms = os_now_ms();
    bool late = now_ms >= zk->tick_ms + ZK_LATE_MS;
    bool unfit = is_unfit(zk, now_ms);

    zk->tick_ms = now_ms + ZK_TICK_MS;
    zk->late = late && !zk->late;
    list_for_each_entry (struct zk_conn, conn, node, &zk->conns) {
        if (unfit && conn->state != ZK_HELLO) {
            zk_close_lost(conn, "not_ready");
        }
        hear(conn, now_ms);
        if (conn->state == ZK_OPENING && has_gone(conn)) {
            zk_close_cut(conn, "client"); /* Soon: its request may still be withdrawn. */
        } else if (!zk->late) {
            check(conn, now_ms);
        }
    }
    if (zk->sessions_unread) {
        zk_session_look_all(zk);
    }
    zk_order_retry(zk);
    zk_place_tick(zk);
}
