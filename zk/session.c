/*
 * The session of a connection. The number of an attachment is the zxid of the transaction that made
 * it. Every replica sees each attachment, and a connection with an older one has lost the session:
 * it ends without further replies, as in ZooKeeper, and its client learns the rest when it connects
 * again.
 */
#include "zk/zk_int.h"

/* Any bytes of the client keep its session alive. */
void zk_session_touch(struct zk_conn *conn)
{
    struct zk_session *session = &conn->session;

    if (session->id != 0 && conn->heard_ms >= session->touched_ms + ZK_TOUCH_MS) {
        session->touched_ms = conn->heard_ms;
        gate_touch(conn->zk->gate, session->id);
    }
}

void zk_session_detach(struct zk_conn *conn)
{
    struct map *attached = &conn->zk->attached;

    if (conn->session.id != 0 && map_get_u64(attached, conn->session.id) == conn) {
        (void)map_remove_u64(attached, conn->session.id);
    }
    conn->session.id = 0;
}

static void lose(struct zk_conn *conn, const char *reason)
{
    zk_session_detach(conn);
    zk_close_lost(conn, reason);
}

static void ended(struct zk_conn *conn)
{
    if (conn->session.ending) {
        zk_session_detach(conn); /* The client has closed the session, and waits for the reply. */
    } else {
        lose(conn, "session_expired");
    }
}

static void moved(struct zk_conn *conn, uint64_t number)
{
    if (number > conn->session.number) {
        lose(conn, "session_moved");
    }
}

void zk_session_look(struct zk_conn *conn)
{
    const struct op_session session = {.shown = true, .id = conn->session.id};
    struct op_session_info info;

    if (session.id == 0) {
        return;
    }
    enum err err = view_find_session(gate_view(conn->zk->gate), &session, &info);

    if (err == ERR_UNKNOWN_SESSION) {
        ended(conn);
    } else if (err == ERR_OK) {
        moved(conn, info.attach);
    } else {
        conn->zk->sessions_unread = true;
    }
}

void zk_session_look_all(struct zk *zk)
{
    zk->sessions_unread = false;
    list_for_each_entry (struct zk_conn, conn, node, &zk->conns) {
        zk_session_look(conn);
    }
}

void zk_session_changed(struct zk *zk, const struct state_change *change)
{
    struct zk_conn *conn = map_get_u64(&zk->attached, change->session);

    if (conn && change->type == TXN_SESSION_CLOSE) {
        ended(conn);
    } else if (conn) {
        moved(conn, change->attach);
    }
}

void zk_session_owns(struct zk *zk, uint64_t session, zxid_t zxid)
{
    struct zk_conn *conn = map_get_u64(&zk->attached, session);

    if (conn) {
        conn->session.owned = zxid;
    }
}

void zk_session_attach(struct zk_conn *conn, const struct op_session_info *info)
{
    struct zk *zk = conn->zk;
    struct zk_conn *other = map_get_u64(&zk->attached, info->id);
    bool newest = !other || other->session.number < info->attach;

    ASSERT(other != conn && conn->session.id == 0);
    if (other && newest) {
        lose(other, "session_moved");
    }
    conn->session.id = info->id;
    conn->session.number = info->attach;
    conn->session.timeout_ms = info->timeout_ms;
    conn->session.touched_ms = os_now_ms();
    if (newest) { /* Otherwise it has moved already: zk_session_look notices that. */
        map_put_u64(&zk->attached, info->id, conn);
    }
    gate_touch(zk->gate, info->id);
}
