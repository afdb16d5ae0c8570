#include "zab/tcp/tcp.h"

#include "base/os_rng.h"
#include "zab/tcp/tcp_int.h"

#include <stdio.h>

enum {
    START_RANDOM_BITS = 20 /* Random bits at the end of a start number, after the time. */
};

/* ---- Life. ---- */

/* Makes the start number of this process. Of two live processes with one id the older one keeps the
 * id, as long as clocks agree. The random bits distinguish processes that began in the same
 * millisecond. */
static uint64_t make_start(void)
{
    uint64_t random = os_random_u64() & ((UINT64_C(1) << START_RANDOM_BITS) - 1);

    return (uint64_t)os_wall_ms() << START_RANDOM_BITS | random | 1;
}

static void copy_options(struct tcp *tcp, const struct tcp_options *options)
{
    ASSERT(options->id <= ZAB_ID_MAX);

    const char *advertise = options->advertise ? options->advertise : "";

    ASSERT(strlen(advertise) <= HELLO_ADVERTISE_MAX);
    tcp->options = *options;
    tcp->options.keys = keys_share(options->keys);
    (void)snprintf(tcp->ensemble, sizeof(tcp->ensemble), "%s",
                   options->ensemble ? options->ensemble : "");
    tcp->options.ensemble = NULL;
    (void)snprintf(tcp->advertise, sizeof(tcp->advertise), "%s", advertise);
    (void)snprintf(tcp->listen_host, sizeof(tcp->listen_host), "%s",
                   options->listen_port ? options->listen_host : "");
    tcp->options.peers = NULL;
    tcp->options.peer_count = 0;
    tcp->options.host = NULL;
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
    list_init(&tcp->leaving);
    list_init(&tcp->targets);
    list_init(&tcp->graveyard);
    rng_init(&tcp->rng, os_random_u64());
    copy_options(tcp, options);
    peers_open(tcp, options);

    enum err err = options->listen_port ? listen_open(tcp) : ERR_OK;

    if (err) {
        tcp_close(tcp);
        return err;
    }
    if (tcp->listen_wanted) {
        dial_open_resolver(tcp);
    }
    *ret_tcp = tcp;
    return ERR_OK;
}

void tcp_close(struct tcp *tcp)
{
    if (!tcp) {
        return;
    }
    ASSERT(tcp->depth == 0);

    dial_close_resolver(tcp);
    listen_close(tcp);
    for_each_link (link, tcp) {
        if (link->up) {
            tcp_bury(link->up);
        }
    }
    while (!list_empty(&tcp->shaking)) {
        tcp_bury(list_first(&tcp->shaking, struct conn, node));
    }
    while (!list_empty(&tcp->leaving)) {
        tcp_bury(list_first(&tcp->leaving, struct conn, node));
    }
    tcp_reap(tcp);
    keys_release(tcp->options.keys);
    mem_free(tcp->sealed);
    peers_close(tcp);
    mem_free(tcp);
}

/* ---- Use. ---- */

void tcp_set_identity(struct tcp *tcp, const uint8_t cluster[ZAB_CLUSTER_LEN], uint64_t history,
                      bool bootstrapping)
{
    ASSERT(tcp->options.incarnation != 0);

    memcpy(tcp->options.cluster, cluster, ZAB_CLUSTER_LEN);
    tcp->options.history = history;
    tcp->options.bootstrapping = bootstrapping;
    tcp_doom_all(tcp, "this replica has a new identity");
}

void tcp_set_level(struct tcp *tcp, uint8_t level)
{
    tcp->ensemble_level = level;
}

void tcp_send(struct tcp *tcp, uint32_t peer, const struct zab_msg *msg)
{
    struct link *link = tcp_link(tcp, peer);
    struct conn *conn = link ? link->up : NULL;

    if (!conn || conn->doomed) {
        return;
    }
    if (conn->queued >= conn_queue_max(conn)) {
        conn->doomed = "the peer does not read: maxPeerQueueBytes wait to be sent to the peer";
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

/* Writes what a connection has queued, or closes it. Returns true when a callback may have queued
 * more messages. */
static bool flush_conn(struct conn *conn)
{
    if (conn->doomed) {
        tcp_drop(conn, conn->doomed);
        return true;
    }

    enum err err = conn_has_output(conn) && !conn->blocked ? conn_write(conn) : ERR_OK;

    if (err) {
        tcp_drop(conn, conn_error(conn, err));
    }
    return err != ERR_OK;
}

static bool flush_shaking(struct tcp *tcp)
{
    list_for_each_entry (struct conn, conn, node, &tcp->shaking) {
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

    if (tcp->depth == 0) {
        outsiders_sweep(tcp);
    }
    tcp->depth++;
    while (again) {
        again = tcp_end_leaving(tcp, 0);
        again |= flush_shaking(tcp);
        again |= claim_settle(tcp);
        for_each_link (link, tcp) {
            struct conn *conn = link->up;

            again |= conn && flush_conn(conn);
        }
    }
    tcp->depth--;
    tcp_reap(tcp);
}

/* Drops the handshakes that are overdue. Returns the next deadline. */
static uint64_t expire_shaking(struct tcp *tcp, uint64_t now_ms)
{
    uint64_t wake_ms = UINT64_MAX;

    list_for_each_entry_safe (struct conn, conn, tmp, node, &tcp->shaking) {
        if (conn->state == CONN_CLAIM) {
            continue; /* claim_tick handles claims. */
        }
        if (conn->deadline_ms > now_ms) {
            wake_ms = min_u64(wake_ms, conn->deadline_ms);
        } else {
            tcp_drop(conn, "the handshake took too long");
        }
    }
    return wake_ms;
}

uint64_t tcp_tick(struct tcp *tcp, uint64_t now_ms)
{
    uint64_t wake_ms = UINT64_MAX;

    if (tcp->accept_from_ms != 0 && now_ms >= tcp->accept_from_ms) {
        listen_accept(tcp, true);
    }
    wake_ms = tcp->accept_from_ms != 0 ? tcp->accept_from_ms : wake_ms;
    tcp->depth++;
    wake_ms = min_u64(wake_ms, listen_tick(tcp, now_ms));
    for_each_link (link, tcp) {
        wake_ms = min_u64(wake_ms, dial_tick(link, tcp, now_ms));
    }
    wake_ms = min_u64(wake_ms, expire_shaking(tcp, now_ms));
    wake_ms = min_u64(wake_ms, dial_join_tick(tcp, now_ms));
    wake_ms = min_u64(wake_ms, outsiders_tick(tcp, now_ms));
    wake_ms = min_u64(wake_ms, claim_tick(tcp, now_ms));
    tcp->depth--;
    tcp_reap(tcp);
    return wake_ms;
}

void tcp_set_keys(struct tcp *tcp, struct keys *keys)
{
    struct keys *before = tcp->options.keys;

    tcp->options.keys = keys_share(keys);
    keys_release(before);
    for_each_link (link, tcp) {
        if (link->up) {
            tcp_compare_keys(link->up);
        }
    }
}

void tcp_seal(const struct tcp *tcp, uint32_t peer, struct tcp_seal *ret_seal)
{
    *ret_seal = (struct tcp_seal){.up = false};
    for_each_link (link, tcp) {
        if (link->peer.id == peer && link_is_up(link)) {
            uint8_t peer_tls = link->up->identity.tls;

            *ret_seal = (struct tcp_seal){.up = true,
                                          .kind = seal_kind(link->up->seal),
                                          .removed = link->up->removed,
                                          .peer_says = peer_tls > 0,
                                          .peer_tls = peer_tls > 0 ? peer_tls - 1 : KEYS_OFF};
        }
    }
}

void tcp_figures(const struct tcp *tcp, struct tcp_figures *ret_figures)
{
    *ret_figures = (struct tcp_figures){.bytes_in = tcp->bytes_in,
                                        .bytes_out = tcp->bytes_out,
                                        .refused = tcp->refused,
                                        .unsealed = tcp->unsealed,
                                        .skipped = tcp->skipped,
                                        .duplicates = tcp->duplicates};
    for_each_link (link, tcp) {
        const struct conn *conn = link->up;

        ret_figures->connected += conn ? 1U : 0U;
        ret_figures->outsiders += conn && link->is_outsider ? 1U : 0U;
        ret_figures->queued += conn ? conn->queued : 0;
    }
}
