/* What happens when the socket of a connection is ready: greeting, claim, frames, or its end. */
#include "zab/tcp/tcp_int.h"

#include <errno.h>

enum {
    HANG_UPS_MAX = 3 /* Hang-ups in a row that count as a refusal. */
};

/* Ends a connection that has failed. A peer that refuses this replica reports that in its own log
 * only, and hangs up before or after its greeting. So repeated hang-ups in the handshake count as a
 * refusal. A peer whose process ends hangs up too, but not again and again. If TLS has failed, the
 * alert of the peer is its refusal. */
static void lose(struct conn *conn, enum err err)
{
    bool begun =
        conn->state == CONN_SEALING || conn->state == CONN_GREETING || conn->state == CONN_HELLO;
    struct link *link = conn->dialed && begun ? tcp_link(conn->tcp, conn->peer) : NULL;
    const char *why = conn_error(conn, err);

    if (err == ERR_FORMAT) {
        conn->tcp->unsealed++;
    }
    if (err == ERR_FORMAT && begun) {
        (void)tcp_refuse(conn, "%s", why);
    } else if (link && ++link->hang_ups >= HANG_UPS_MAX) {
        (void)tcp_refuse(
            conn,
            "the peer closes the connection during the handshake: the log of the peer has the "
            "reason");
    } else {
        tcp_drop(conn, why);
    }
}

static void take_connected(struct conn *conn)
{
    ASSERT(conn->dialed && conn->state == CONN_CONNECTING);

    int result = loop_connect_result(conn->watch.fd);

    if (result == 0) {
        enum err err = shake_begin(conn);

        if (err) {
            lose(conn, err);
        }
    } else if (result != -EINPROGRESS) {
        tcp_drop(conn, "cannot connect");
    }
}

static void take_input(struct conn *conn)
{
    ASSERT(conn->state == CONN_SEALING || conn->state == CONN_GREETING ||
           conn->state == CONN_HELLO || conn->state == CONN_UP);

    enum err err = conn_read(conn, conn->want);

    if (err == ERR_OK && conn->state == CONN_SEALING) {
        err = shake_seal(conn);
    }
    if (err == ERR_CLOSED || err == ERR_IO || err == ERR_FORMAT) {
        lose(conn, err);
        return;
    }
    if (err == ERR_OK && conn->state != CONN_UP && shake_input(conn)) {
        claim_arrives(conn);
    }
    if (err == ERR_OK && conn->state == CONN_UP) {
        conn->want = flow_input(conn);
    }
}

static void on_conn_ready(struct loop_watch *watch, uint32_t ready)
{
    struct conn *conn = watch->ctx;
    struct tcp *tcp = conn->tcp;

    tcp->depth++;
    if (conn->state == CONN_CONNECTING) {
        take_connected(conn);
    } else if (conn->state == CONN_CLAIM) {
        tcp_drop(conn, "the peer closed the connection"); /* A claim waits for no other event. */
    } else if (conn->state != CONN_LEAVING) {             /* The next flush ends that one. */
        enum err err = (ready & LOOP_WRITE) ? conn_write(conn) : ERR_OK;

        if (err) {
            tcp_drop(conn, conn_error(conn, err));
        }
        if ((ready & (LOOP_READ | LOOP_HANGUP)) && conn->state != CONN_CLOSED) {
            take_input(conn);
        }
    }
    tcp->depth--;
    tcp_reap(tcp);
}

struct conn *tcp_start(struct tcp *tcp, const struct link *link, int take_fd)
{
    bool dialed = link != NULL;

    /* Besides the unproven callers each peer has one connection at most: dialed, or a claim. */
    ASSERT(tcp->shaking_count <= tcp->options.shaking_max + ZAB_MEMBERS_MAX);
    ASSERT(!link || (!link->up && !link->dialing));

    struct conn *conn = conn_new(tcp, take_fd, dialed);

    conn->peer = link ? link->peer.id : 0;
    conn->state = dialed ? CONN_CONNECTING : CONN_SEALING;
    conn->deadline_ms = os_now_ms() + tcp->options.connect_timeout_ms;
    conn->watch.on_ready = on_conn_ready;
    conn->watch.interest = dialed ? LOOP_WRITE : LOOP_READ;
    loop_add(tcp->loop, &conn->watch);
    list_push_back(&tcp->shaking, &conn->node);
    tcp->shaking_count++;
    return conn;
}
