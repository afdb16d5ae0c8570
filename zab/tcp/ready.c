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
    } else if (conn->target && begun && !link) {
        tcp_drop(
            conn,
            "the replica there ends the handshake: its log has the reason, for example "
            "another secret or ensemble; a release before 1.0 speaks only with the replicas of "
            "its list");
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
        tcp_drop(conn, result == -ECONNREFUSED ? "no process listens there" : "cannot connect");
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

/* Whether the address is one of this host. */
static bool is_loopback(const struct sockaddr_storage *addr)
{
    if (addr->ss_family == AF_INET) {
        return ntohl(((const struct sockaddr_in *)addr)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    }

    const struct in6_addr *in6 = &((const struct sockaddr_in6 *)addr)->sin6_addr;

    return IN6_IS_ADDR_LOOPBACK(in6) ||
           (IN6_IS_ADDR_V4MAPPED(in6) && in6->s6_addr[12] == IN_LOOPBACKNET);
}

int tcp_connect(const struct tcp *tcp, const struct resolve_address *address)
{
    if (!is_loopback(&address->addr) && !keys_prove(tcp->options.keys, tcp->options.tls)) {
        return -EPERM;
    }
    return loop_connect((const struct sockaddr *)&address->addr, address->len);
}

struct conn *tcp_start(struct tcp *tcp, const struct link *link, struct join_target *target,
                       int take_fd)
{
    bool dialed = link || target;

    /* Besides the unproven callers each peer has two connections at most, dialed and a claim; and
     * some addresses are dialed without an id. */
    ASSERT(tcp->shaking_count <= tcp->options.shaking_max + 2 * ZAB_MEMBERS_MAX + TCP_JOINS_MAX);
    ASSERT(tcp->joins < TCP_JOINS_MAX || !target);
    ASSERT(!link || (!link->up && !link->dialing));

    struct conn *conn = conn_new(tcp, take_fd, dialed);

    conn->peer = link ? link->peer.id : 0;
    conn->target = target;
    tcp->joins += target ? 1U : 0U;
    conn->state = dialed ? CONN_CONNECTING : CONN_SEALING;
    conn->deadline_ms = os_now_ms() + tcp->options.connect_timeout_ms;
    conn->watch.on_ready = on_conn_ready;
    conn->watch.interest = dialed ? LOOP_WRITE : LOOP_READ;
    loop_add(tcp->loop, &conn->watch);
    list_push_back(&tcp->shaking, &conn->node);
    tcp->shaking_count++;
    return conn;
}
