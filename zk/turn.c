/* Decides when a connection has its turn, and whether it is read. */
#include "zk/zk_int.h"

void zk_turn_soon(struct zk_conn *conn)
{
    if (list_empty(&conn->turn)) {
        list_push_back(&conn->zk->turn, &conn->turn);
    }
}

void zk_turn_later(struct zk_conn *conn)
{
    list_remove(&conn->turn);
    list_push_back(&conn->zk->later, &conn->turn);
}

struct zk_conn *zk_turn_next_long(struct zk *zk)
{
    zk->list_turn = !list_empty(&zk->lists) && (!zk->list_turn || list_empty(&zk->longs));
    struct list *from = zk->list_turn ? &zk->lists : &zk->longs;

    return list_empty(from) ? NULL : list_take(from, struct zk_conn, longs.node);
}

bool zk_turn_awaits_long(const struct zk *zk)
{
    return !list_empty(&zk->longs) || !list_empty(&zk->lists);
}

bool zk_turn_takes_long(struct zk_call *call)
{
    struct zk_conn *conn = call->conn;
    struct zk *zk = call->zk;
    bool takes = zk->long_turn;

    zk->long_turn = false;
    if (!takes && list_empty(&conn->longs.node)) {
        zk_fair_push(call->placed ? &zk->lists : &zk->longs, &conn->longs, conn->address_key, 0);
    }
    return takes;
}

void zk_turn_await(struct zk_conn *conn, int event, bool on)
{
    int old = ev_is_active(&conn->io) ? conn->io.events & (EV_READ | EV_WRITE) : 0;
    int new = on ? old | event : old & ~event;

    if (new == old) {
        return;
    }
    ev_io_stop(conn->zk->loop, &conn->io);
    if (new != 0) {
        ev_io_set(&conn->io, conn->fd, new);
        ev_io_start(conn->zk->loop, &conn->io);
    }
}

void zk_turn_stop(struct zk_conn *conn, enum zk_stop_bit why, bool stop)
{
    uint32_t before = conn->stops;

    conn->stops = stop ? before | why : before & ~(uint32_t)why;
    if ((before == 0) == (conn->stops == 0)) {
        return;
    }
    if (conn->stops != 0) {
        zk_turn_await(conn, EV_READ, false);
        return;
    }
    conn->heard_ms = os_now_ms(); /* The client could not be heard meanwhile. */
    zk_turn_await(conn, EV_READ, true);
    zk_turn_soon(conn); /* The turn takes bytes that were kept before newer ones. */
}
