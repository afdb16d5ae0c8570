/* The life of a connection: its bytes become frames, its turns, its end. */
#include "tls/socket.h"
#include "zk/zk_int.h"

#include "base/hash.h"
#include "base/network.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- Bytes ---- */

static bool may_take(const struct zk_conn *conn)
{
    return conn->stops == 0 && !zk_close_is_begun(conn);
}

static bool take_frame(struct zk_conn *conn, struct slice frame)
{
    if (conn->state == ZK_HELLO) {
        zk_connect_begin(conn, frame);
        return true;
    }
    return zk_queue_take(conn, frame);
}

/* Whether the turn has time and room for one more frame. */
static bool has_room(struct zk_conn *conn)
{
    if (conn->zk->now_us >= conn->zk->end_us) {
        zk_turn_later(conn);
        return false;
    }
    return conn->state != ZK_OPEN || zk_queue_takes_more(conn);
}

/* Takes whole frames while requests may be taken and the turn lasts; returns the number of bytes
 * taken. */
static size_t take_some(struct zk_conn *conn, struct slice bytes)
{
    size_t taken = 0;

    while (taken < bytes.len && may_take(conn) && has_room(conn)) {
        struct slice rest = slice_from(bytes, taken);
        size_t len = 0;

        if (conn->state == ZK_HELLO && rest.data[0] != 0) {
            if (rest.len >= ZK_WORD_LEN) {
                zk_words_answer(conn, slice_make(rest.data, ZK_WORD_LEN));
            }
            break;
        }
        enum zk_frame verdict =
            zk_frame_judge(&conn->zk->frames, rest, conn->state == ZK_HELLO, &len);

        if (verdict == ZK_FRAME_BAD) {
            zk_close_lost(conn, "bad_frame");
        }
        if (verdict != ZK_FRAME_GOOD || rest.len < len ||
            !take_frame(conn, slice_make(rest.data + ZK_INT_BYTES, len - ZK_INT_BYTES))) {
            break;
        }
        taken += len;
    }
    return taken;
}

/* Counts the bytes of an incomplete frame. False: such bytes of all clients, or of this address,
 * use all their memory. */
static bool account(struct zk_conn *conn)
{
    struct budget_shares *pieces = &conn->zk->pieces;
    size_t now = conn->in.len > ZK_SMALL_BYTES ? conn->in.len : 0;

    if (now > conn->in_counted &&
        !budget_shares_try_take(pieces, conn->address_key, now - conn->in_counted)) {
        return false;
    }
    if (now < conn->in_counted) {
        budget_shares_give(pieces, conn->address_key, conn->in_counted - now);
    }
    if (now != conn->in_counted) {
        conn->in_counted = now;
        metric_set(&conn->zk->metrics.pieces, budget_used(&pieces->budget));
    }
    return true;
}

static void take_kept(struct zk_conn *conn)
{
    if (conn->in.len > 0 && may_take(conn)) {
        buf_consume(&conn->in, take_some(conn, buf_slice(&conn->in)));
    }
    if (conn->in.len == 0 && conn->in.data) {
        buf_release(&conn->in);
    }
    if (!account(conn)) {
        zk_close_cut(conn, "no_room");
    }
}

static void take_bytes(struct zk_conn *conn, struct slice bytes)
{
    size_t taken = 0;

    conn->heard_ms = os_now_ms();
    conn->unread = 0; /* What waits at the next tick is newer. */
    zk_session_touch(conn);
    metric_add(&conn->zk->metrics.received_bytes, bytes.len);
    if (conn->in.len == 0) {
        taken = take_some(conn, bytes);
    }
    if (taken < bytes.len) {
        (void)buf_append_slice(&conn->in, slice_from(bytes, taken));
        take_kept(conn);
    }
}

static void read_some(struct zk_conn *conn)
{
    struct zk *zk = conn->zk;

    conn->arrived = false;
    for (int i = 0; may_take(conn); i++) {
        ssize_t got = recv(conn->fd, zk->read, ZK_READ_BYTES, MSG_DONTWAIT);

        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
            zk_close_cut(conn, "client");
            return;
        }
        if (got < 0) {
            return;
        }
        take_bytes(conn, slice_make(zk->read, (size_t)got));
        if (got < ZK_READ_BYTES && !tls_socket_waits(conn->fd)) {
            return;
        }
        if (i == ZK_READS_MAX || zk->now_us >= zk->end_us) {
            conn->arrived = true;
            zk_turn_later(conn);
            return;
        }
    }
}

/* Reads what has arrived, or leaves it to the next turn. */
static void read_more(struct zk_conn *conn)
{
    if (!may_take(conn) || (!conn->arrived && !tls_socket_waits(conn->fd))) {
        return;
    }
    if (conn->zk->now_us < conn->zk->end_us) {
        read_some(conn);
    } else {
        zk_turn_later(conn);
    }
}

/* ---- Turns ---- */

/* Shuts down our side once everything is sent. Closing at once would reset a connection with unread
 * bytes, and destroy the last replies. */
static void part(struct zk_conn *conn)
{
    if (conn->state != ZK_CLOSING || conn->shut || conn->count > 0 || zk_out_unsent(conn) > 0) {
        return;
    }
    conn->shut = true;
    conn->deadline_ms = os_now_ms() + ZK_LINGER_MS;
    loop_shutdown_write(conn->fd);
    zk_turn_await(conn, EV_READ, true);
}

void zk_conn_turn(struct zk_conn *conn)
{
    if (conn->state == ZK_OPENING) {
        zk_connect_run(conn);
    }
    if (conn->state != ZK_CUT) {
        take_kept(conn);
    }
    read_more(conn);
    zk_queue_run(conn);
    if (conn->state != ZK_CUT) {
        zk_out_flush(conn);
        part(conn);
    }
    if (conn->state == ZK_CUT) {
        zk_conn_free(conn);
    }
}

static void take_input(struct zk_conn *conn)
{
    if (!conn->shut) {
        conn->arrived = true;
        zk_turn_soon(conn);
    } else if (!loop_swallow(conn->fd)) {
        zk_close_cut(conn, conn->reason);
    }
}

static void on_ready(struct ev_loop *loop UNUSED, struct ev_io *watcher, int events)
{
    struct zk_conn *conn = list_entry(watcher, struct zk_conn, io);

    if (events & EV_WRITE) {
        conn->full = false;
        zk_turn_soon(conn);
    }
    if (events & EV_READ) {
        take_input(conn);
    }
}

/* ---- The life of a connection ---- */

/* Returns the key of the network of the client's address; never 0. */
static uint64_t address_key(const struct op_principal *principal)
{
    char text[NETWORK_TEXT_MAX];

    return hash64(0, network_of(slice_str(principal->address), text)) | 1;
}

static struct zk_conn *conn_new(struct zk *zk, const struct zk_arrival *arrival)
{
    struct zk_conn *conn = mem_zalloc(1, sizeof(*conn));
    uint64_t now_ms = os_now_ms();

    conn->zk = zk;
    conn->fd = arrival->fd;
    conn->secure = tls_socket_of(arrival->fd) != NULL;
    conn->seat = arrival->seat;
    conn->principal = arrival->principal;
    conn->fifo = ++zk->fifos;
    watch_owner_init(&conn->owner, &conn->principal, zk->limits->watches_max,
                     zk->limits->watch_bytes_max);
    list_push_back(&zk->conns, &conn->node);
    list_init(&conn->turn);
    list_init(&conn->longs.node);
    list_init(&conn->held);
    list_init(&conn->roomless);
    list_init(&conn->waiting);
    list_init(&conn->stalled);
    list_init(&conn->calls);
    conn->next = &conn->calls;
    buf_init(&conn->in, SIZE_MAX / 2); /* Bounded by zk_frame_judge and ZK_READ_BYTES. */
    conn->address_key = address_key(&conn->principal);
    watch_owner_share(&conn->owner, &zk->watches, conn->address_key);
    pieces_init(&conn->out, gate_unsent(zk->gate));
    conn->heard_ms = now_ms;
    conn->since_ms = now_ms;
    conn->deadline_ms = now_ms + zk->limits->head_timeout_ms;
    if (zk->limits->require_identity && !principal_has_identity(&conn->principal)) {
        conn->identity_ms = conn->deadline_ms;
    }
    ev_io_init(&conn->io, on_ready, conn->fd, EV_READ);
    ev_io_start(zk->loop, &conn->io);
    metric_add(&zk->metrics.connections_ever, 1);
    atomic_fetch_add_explicit(&zk->metrics.connections.value, 1, memory_order_relaxed);
    return conn;
}

void zk_conn_free(struct zk_conn *conn)
{
    struct zk *zk = conn->zk;

    ev_io_stop(zk->loop, &conn->io);
    zk_call_release_all(conn);
    zk_connect_release(conn);
    zk_session_detach(conn);
    watch_owner_release(subscribe_table(zk->subscriber), &conn->owner);
    zk_out_release(conn);
    buf_release(&conn->in);
    (void)account(conn);
    list_remove(&conn->node);
    list_remove(&conn->turn);
    list_remove(&conn->held);
    list_remove(&conn->roomless);
    list_remove(&conn->waiting);
    principal_release(&conn->principal);
    close(conn->fd);
    zk->give_seat(conn->seat);
    mem_free(conn);
    atomic_fetch_sub_explicit(&zk->metrics.connections.value, 1, memory_order_relaxed);
    atomic_fetch_sub(&zk->taken, 1);
}

void zk_conn_adopt(struct zk *zk, struct zk_arrival *take_arrival)
{
    struct zk_conn *conn = conn_new(zk, take_arrival);

    mem_free(take_arrival);
    if (atomic_load(&zk->draining)) {
        zk_close_lost(conn, "drain");
    }
    conn->arrived = true;
    zk_turn_soon(conn);
}
