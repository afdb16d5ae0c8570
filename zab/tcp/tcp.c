#include "zab/tcp/tcp.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/os_clock.h"
#include "base/os_rng.h"
#include "zab/tcp/tcp_int.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

enum {
    HANG_UPS_MAX = 3,         /* In a row, before they count as refusals. */
    START_RANDOM_BITS = 20,   /* Of a start, behind the time. */
    STRANGER_AGAIN_MS = 10000 /* Refusals of nobody known are told at most this often. */
};

struct link *tcp_link(struct tcp *tcp, uint32_t peer)
{
    ASSERT(tcp->options.peer_count == 0 || tcp->links);

    for (uint32_t i = 0; i < tcp->options.peer_count; i++) {
        if (tcp->links[i].peer.id == peer) {
            return &tcp->links[i];
        }
    }
    return NULL;
}

static const char *errno_text(void)
{
    const char *text = strerrordesc_np(errno);

    return text ? text : "unknown error";
}

void tcp_reap(struct tcp *tcp)
{
    while (tcp->depth == 0 && !list_empty(&tcp->graveyard)) {
        conn_free(list_first(&tcp->graveyard, struct conn, node));
    }
}

/* ---- Ends. ---- */

static void bury(struct conn *conn)
{
    ASSERT(conn->state != CONN_CLOSED);

    struct tcp *tcp = conn->tcp;

    if (conn->state != CONN_UP) {
        ASSERT(tcp->shaking_count > 0);
        tcp->shaking_count--;
    }
    conn_close(conn);
    list_remove(&conn->node);
    list_push_back(&tcp->graveyard, &conn->node);
}

static void drop_up(struct conn *conn, struct link *link, const char *why)
{
    ASSERT(link && link->up == conn);
    ASSERT(conn->peer == link->peer.id);

    struct tcp *tcp = conn->tcp;
    bool lasted = os_now_ms() - conn->up_since_ms >= tcp->options.retry_max_ms;

    link->up = NULL;
    claim_link_down(tcp, link);
    link_again(link, tcp, lasted);
    bury(conn);
    tcp->handler.on_down(tcp->handler.ctx, link->peer.id, why);
}

void tcp_drop(struct conn *conn, const char *why)
{
    ASSERT(why[0]);

    struct link *link = conn->peer ? tcp_link(conn->tcp, conn->peer) : NULL;

    ASSERT(conn->state != CONN_CLOSED);
    if (conn->state == CONN_UP) {
        drop_up(conn, link, why);
        return;
    }
    if (link && link->claim == conn) {
        link->claim = NULL;
    }
    if (conn->dialed) {
        ASSERT(link && link->dialing == conn);
        link->dialing = NULL;
        link_again(link, conn->tcp, false);
    }
    bury(conn);
}

void tcp_doom_all(struct tcp *tcp, const char *why)
{
    ASSERT(why[0]);

    for (uint32_t i = 0; i < tcp->options.peer_count; i++) {
        if (tcp->links[i].up) {
            tcp->links[i].up->doomed = why;
        }
    }
    list_for_each (it, &tcp->shaking) {
        list_entry(it, struct conn, node)->doomed = why;
    }
}

/* Somebody unknown may try as often as he likes: he must not fill the log. */
static void tell_refusal(struct tcp *tcp, struct link *link, const char *why)
{
    ASSERT(why[0] && strlen(why) < TCP_WHY_MAX);

    uint64_t now_ms = os_now_ms();
    bool again = link ? !strcmp(link->refusal, why)
                      : tcp->stranger_at_ms && now_ms - tcp->stranger_at_ms < STRANGER_AGAIN_MS;

    tcp->refused++;
    if (again) {
        return;
    }
    if (link) {
        (void)snprintf(link->refusal, sizeof(link->refusal), "%s", why);
    } else {
        tcp->stranger_at_ms = now_ms;
    }
    if (tcp->handler.on_refused) {
        tcp->handler.on_refused(tcp->handler.ctx, link ? link->peer.id : 0, why);
    }
}

void tcp_refuse(struct conn *conn, const char *format, ...)
{
    ASSERT(conn->state == CONN_GREETING || conn->state == CONN_HELLO);

    struct tcp *tcp = conn->tcp;
    struct link *link = conn->peer ? tcp_link(tcp, conn->peer) : NULL;
    char why[TCP_WHY_MAX];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(why, sizeof(why), format, args);
    va_end(args);
    tcp_drop(conn, why);
    tell_refusal(tcp, link, why);
}

void tcp_established(struct conn *conn)
{
    struct tcp *tcp = conn->tcp;
    struct link *link = tcp_link(tcp, conn->peer);

    ASSERT(tcp->shaking_count > 0);
    ASSERT(link && conn->state == CONN_HELLO);
    list_remove(&conn->node);
    tcp->shaking_count--;
    conn->state = CONN_UP;
    conn->up_since_ms = os_now_ms();
    if (link->dialing == conn) {
        link->dialing = NULL;
    }
    if (link->up) {
        tcp_drop(link->up, "replaced by a newer connection");
    }
    link->up = conn;
    claim_link_up(tcp, link);
    link->refusal[0] = '\0';
    link->hang_ups = 0;
    tcp->handler.on_up(tcp->handler.ctx, conn->peer, conn->identity.incarnation,
                       conn->identity.cluster, conn->identity.founding, conn->identity.advertise);
}

/* ---- Readiness. ---- */

static void take_connected(struct conn *conn)
{
    ASSERT(conn->dialed && conn->state == CONN_CONNECTING);

    int result = loop_connect_result(conn->watch.fd);

    if (result == 0) {
        shake_begin(conn);
    } else if (result != -EINPROGRESS) {
        tcp_drop(conn, "cannot connect");
    }
}

/* Who refuses us tells his own log only, before a word of his own (we are not in his server list)
 * or behind it. A peer that ends has hung up too, but it does not come back to do it again. */
static void lose(struct conn *conn, const char *why)
{
    bool begun = conn->state == CONN_GREETING || conn->state == CONN_HELLO;
    struct link *link = conn->dialed && begun ? tcp_link(conn->tcp, conn->peer) : NULL;

    ASSERT(!link || conn->peer == link->peer.id);
    if (link && ++link->hang_ups >= HANG_UPS_MAX) {
        tcp_refuse(conn, "it hangs up in the handshake: its log says why");
    } else {
        tcp_drop(conn, why);
    }
}

static void take_input(struct conn *conn)
{
    ASSERT(conn->state == CONN_GREETING || conn->state == CONN_HELLO || conn->state == CONN_UP);

    enum err err = conn_read(conn, conn->want);

    if (err == ERR_CLOSED || err == ERR_IO) {
        lose(conn, err == ERR_CLOSED ? "the peer closed the connection" : errno_text());
        return;
    }
    if (err == ERR_OK && conn->state != CONN_UP) {
        shake_input(conn);
    }
    if (err == ERR_OK && conn->state == CONN_UP) {
        conn->want = flow_input(conn);
    }
}

static void on_conn_ready(struct loop_watch *watch, uint32_t ready)
{
    struct conn *conn = watch->ctx;
    struct tcp *tcp = conn->tcp;

    ASSERT(conn->state != CONN_CLOSED);
    tcp->depth++;
    if (conn->state == CONN_CONNECTING) {
        take_connected(conn);
    } else if (conn->state == CONN_CLAIM) {
        tcp_drop(conn, "the peer closed the connection"); /* No other interest is set. */
    } else {
        if ((ready & LOOP_WRITE) && conn_write(conn)) {
            tcp_drop(conn, errno_text());
        }
        if ((ready & (LOOP_READ | LOOP_HANGUP)) && conn->state != CONN_CLOSED) {
            take_input(conn);
        }
    }
    tcp->depth--;
    tcp_reap(tcp);
}

static struct conn *start_conn(struct tcp *tcp, int take_fd, bool dialed)
{
    /* Of each peer one more, at most: dialed, or a claim. */
    ASSERT(tcp->shaking_count <= tcp->options.shaking_max + tcp->options.peer_count);

    struct conn *conn = conn_new(tcp, take_fd, dialed);

    conn->state = dialed ? CONN_CONNECTING : CONN_GREETING;
    conn->deadline_ms = os_now_ms() + tcp->options.connect_timeout_ms;
    conn->watch.on_ready = on_conn_ready;
    conn->watch.interest = dialed ? LOOP_WRITE : LOOP_READ;
    loop_add(tcp->loop, &conn->watch);
    list_push_back(&tcp->shaking, &conn->node);
    tcp->shaking_count++;
    return conn;
}

struct conn *tcp_dialed(struct tcp *tcp, struct link *link, int take_fd)
{
    ASSERT(!link->up && !link->dialing);

    struct conn *conn = start_conn(tcp, take_fd, true);

    conn->peer = link->peer.id;
    return conn;
}

void tcp_accepted(struct tcp *tcp, int take_fd)
{
    (void)start_conn(tcp, take_fd, false);
}

/* ---- Life. ---- */

/* Of two processes that claim one id and both live the older one keeps it, as long as clocks agree;
 * the random bits tell processes apart that began in the same millisecond. */
static uint64_t make_start(void)
{
    uint64_t random = os_random_u64() & ((UINT64_C(1) << START_RANDOM_BITS) - 1);

    return (uint64_t)os_wall_ms() << START_RANDOM_BITS | random | 1;
}

static void copy_options(struct tcp *tcp, const struct tcp_options *options)
{
    ASSERT(options->peer_count == 0 || options->peers);
    ASSERT(options->id <= ZAB_ID_MAX);

    const char *advertise = options->advertise ? options->advertise : "";

    ASSERT(strlen(advertise) <= HELLO_ADVERTISE_MAX);
    tcp->options = *options;
    tcp->secret = mem_dup(options->secret.data ? options->secret.data : (const uint8_t *)"",
                          options->secret.len);
    tcp->options.secret.data = tcp->secret;
    (void)snprintf(tcp->advertise, sizeof(tcp->advertise), "%s", advertise);
    (void)snprintf(tcp->listen_host, sizeof(tcp->listen_host), "%s",
                   options->listen_port ? options->listen_host : "");
    tcp->links = mem_zalloc(options->peer_count, sizeof(*tcp->links));
    for (uint32_t i = 0; i < options->peer_count; i++) {
        ASSERT(options->peers[i].id != options->id);
        tcp->links[i].peer = options->peers[i];
        tcp->links[i].backoff_ms = options->retry_min_ms;
    }
    tcp->options.peers = NULL;
    if (tcp->options.start == 0) {
        tcp->options.start = make_start();
    }
    if (tcp->options.shaking_max == 0 || tcp->options.shaking_max > TCP_SHAKING_MAX) {
        tcp->options.shaking_max = TCP_SHAKING_MAX;
    }
}

enum err tcp_open(struct loop *loop, const struct tcp_options *options,
                  const struct tcp_handler *handler, struct tcp **ret_tcp)
{
    struct tcp *tcp = mem_zalloc(1, sizeof(*tcp));

    ASSERT(options->id > 0 && options->retry_min_ms > 0);
    ASSERT(options->retry_min_ms <= options->retry_max_ms);
    tcp->loop = loop;
    tcp->handler = *handler;
    list_init(&tcp->shaking);
    list_init(&tcp->graveyard);
    rng_init(&tcp->rng, os_random_u64());
    copy_options(tcp, options);

    enum err err = options->listen_port ? listen_open(tcp) : ERR_OK;

    if (err) {
        tcp_close(tcp);
        return err;
    }
    link_open_resolver(tcp);
    *ret_tcp = tcp;
    return ERR_OK;
}

void tcp_close(struct tcp *tcp)
{
    if (!tcp) {
        return;
    }
    ASSERT(tcp->depth == 0);

    link_close_resolver(tcp);
    listen_close(tcp);
    for (uint32_t i = 0; i < tcp->options.peer_count; i++) {
        if (tcp->links[i].up) {
            bury(tcp->links[i].up);
        }
    }
    while (!list_empty(&tcp->shaking)) {
        bury(list_first(&tcp->shaking, struct conn, node));
    }
    tcp_reap(tcp);
    explicit_bzero(tcp->secret, tcp->options.secret.len);
    mem_free(tcp->secret);
    mem_free(tcp->links);
    mem_free(tcp);
}

/* ---- Use. ---- */

void tcp_set_identity(struct tcp *tcp, const uint8_t cluster[ZAB_CLUSTER_LEN], uint64_t history,
                      bool founding)
{
    ASSERT(tcp->options.incarnation != 0);

    memcpy(tcp->options.cluster, cluster, ZAB_CLUSTER_LEN);
    tcp->options.history = history;
    tcp->options.founding = founding;
    tcp_doom_all(tcp, "this replica has a new identity");
}

void tcp_send(struct tcp *tcp, uint32_t peer, const struct zab_msg *msg)
{
    struct link *link = tcp_link(tcp, peer);
    struct conn *conn = link ? link->up : NULL;

    if (!conn || conn->doomed) {
        return;
    }
    if (conn->queued >= tcp->options.queue_bytes_max) {
        conn->doomed = "the peer does not read what is sent to it";
        return;
    }
    flow_output(conn, msg);
}

void tcp_disconnect(struct tcp *tcp, uint32_t peer)
{
    struct link *link = tcp_link(tcp, peer);

    if (link && link->up && !link->up->doomed) {
        link->up->doomed = "closed by this replica";
    }
}

/* True when something was done that may have made callbacks queue more. */
static bool flush_conn(struct conn *conn)
{
    ASSERT(conn->state == CONN_UP);

    if (conn->doomed) {
        tcp_drop(conn, conn->doomed);
        return true;
    }
    if (conn->queued > 0 && !conn->blocked && conn_write(conn)) {
        tcp_drop(conn, errno_text());
        return true;
    }
    return false;
}

static bool flush_shaking(struct tcp *tcp)
{
    ASSERT(tcp->depth > 0);

    list_for_each (it, &tcp->shaking) {
        struct conn *conn = list_entry(it, struct conn, node);

        if (conn->doomed) {
            tcp_drop(conn, conn->doomed);
            return true;
        }
    }
    return false;
}

void tcp_flush(struct tcp *tcp)
{
    bool again = true;

    tcp->depth++;
    while (again) {
        again = flush_shaking(tcp);
        again |= claim_settle(tcp);
        for (uint32_t i = 0; i < tcp->options.peer_count; i++) {
            struct conn *conn = tcp->links[i].up;

            again |= conn && flush_conn(conn);
        }
    }
    tcp->depth--;
    tcp_reap(tcp);
}

/* Drops the overdue ones. Returns the next deadline. */
static uint64_t expire_shaking(struct tcp *tcp, uint64_t now_ms)
{
    ASSERT(tcp->depth > 0);

    uint64_t wake_ms = UINT64_MAX;

    list_for_each_safe (it, tmp, &tcp->shaking) {
        struct conn *conn = list_entry(it, struct conn, node);

        if (conn->state == CONN_CLAIM) {
            continue; /* Of claim_tick. */
        }
        if (conn->deadline_ms > now_ms) {
            wake_ms = tcp_earlier(wake_ms, conn->deadline_ms);
        } else {
            tcp_drop(conn, "the handshake took too long");
        }
    }
    return wake_ms;
}

uint64_t tcp_tick(struct tcp *tcp, uint64_t now_ms)
{
    uint64_t wake_ms = UINT64_MAX;

    if (tcp->deaf_until_ms != 0 && now_ms >= tcp->deaf_until_ms) {
        listen_hear(tcp, true);
    }
    wake_ms = tcp->deaf_until_ms != 0 ? tcp->deaf_until_ms : wake_ms;
    tcp->depth++;
    wake_ms = tcp_earlier(wake_ms, listen_tick(tcp, now_ms));
    for (uint32_t i = 0; i < tcp->options.peer_count; i++) {
        wake_ms = tcp_earlier(wake_ms, link_tick(&tcp->links[i], tcp, now_ms));
    }
    wake_ms = tcp_earlier(wake_ms, expire_shaking(tcp, now_ms));
    wake_ms = tcp_earlier(wake_ms, claim_tick(tcp, now_ms));
    tcp->depth--;
    tcp_reap(tcp);
    return wake_ms;
}

void tcp_figures(const struct tcp *tcp, struct tcp_figures *ret_figures)
{
    ASSERT(ret_figures);

    *ret_figures = (struct tcp_figures){.bytes_in = tcp->bytes_in,
                                        .bytes_out = tcp->bytes_out,
                                        .refused = tcp->refused,
                                        .skipped = tcp->skipped,
                                        .duplicates = tcp->duplicates};
    for (uint32_t i = 0; i < tcp->options.peer_count; i++) {
        const struct conn *conn = tcp->links[i].up;

        ret_figures->connected += conn ? 1U : 0U;
        ret_figures->queued += conn ? conn->queued : 0;
    }
}
