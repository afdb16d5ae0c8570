/*
 * tcp.h - carries the protocol's messages between replicas: one TCP connection per pair.
 *
 * Of each pair the replica with the larger id dials; both sides prove the shared secret (HMAC over
 * both nonces) before the first message is parsed. Queues are bounded in bytes: a peer that does
 * not read is dropped, and synchronises again when it is back. Core thread.
 */
#ifndef ZAB_TCP_TCP_H
#define ZAB_TCP_TCP_H

#include "base/loop.h"
#include "zab/config.h"
#include "zab/msg.h"

struct tcp;

struct tcp_peer {
    uint32_t id;
    char host[256]; /* Name or address; resolved again at each attempt. */
    uint16_t port;
};

struct tcp_options {
    uint32_t id;
    const char *listen_host; /* Name or address; a name may get its address later. */
    uint16_t listen_port;
    const struct tcp_peer *peers; /* The others. */
    uint32_t peer_count;
    struct slice secret;      /* Empty: none (loopback only; the caller has checked). */
    uint64_t queue_bytes_max; /* Outgoing bytes per peer before it is dropped; one message more. */
    uint32_t shaking_max; /* Handshakes at a time, of callers that have proven nothing; 0: 256. */
    uint32_t connect_timeout_ms;
    uint32_t retry_min_ms; /* Back-off between attempts, with jitter. */
    uint32_t retry_max_ms;
    uint64_t incarnation;
    uint8_t cluster[ZAB_CLUSTER_LEN];
    uint64_t history;  /* Of the data; 0: none yet. */
    uint64_t start;    /* Of this process: when it began, then random bits; 0: tcp_open makes it. */
    uint32_t probe_ms; /* A process whose id is claimed keeps it if it answers within that time. */
    bool bootstrapping;
    const char *advertise; /* Address for clients, sent to the peers; "" for none. */
};

/* Called from loop dispatch, tcp_flush and tcp_tick, never from tcp_send, tcp_disconnect or
 * tcp_set_identity: the next tcp_flush reports the connections that those end. The callee may call
 * the three and tcp_flush, but not tcp_close. Each on_up has one on_down. */
struct tcp_handler {
    void (*on_up)(void *ctx, uint32_t peer, uint64_t incarnation,
                  const uint8_t cluster[ZAB_CLUSTER_LEN], bool bootstrapping,
                  const char *advertise);
    void (*on_down)(void *ctx, uint32_t peer, const char *why);
    /* Optional: a handshake was refused; once per peer and reason. `peer` 0: an unknown caller. */
    void (*on_refused)(void *ctx, uint32_t peer, const char *why);
    /* Optional: after each failed attempt to listen the reason, usually that the name has no
     * address yet; NULL once the transport listens. */
    void (*on_listen)(void *ctx, const char *why);
    /* Optional: two processes claim one id, that of a peer or the own one. Repeated with each
     * attempt of the refused process. */
    void (*on_duplicate)(void *ctx, uint32_t id, const char *text);
    /* The message belongs to tcp. */
    void (*on_message)(void *ctx, uint32_t peer, const struct zab_msg *msg);
    void *ctx;
};

/* ERR_BUSY: the port is in use. ERR_CONFIG: the address cannot be bound. A name to listen on gives
 * neither: it is looked up in the background, again and again until an address can be bound. While
 * the name leads to another machine there are no connections. */
enum err tcp_open(struct loop *loop, const struct tcp_options *options,
                  const struct tcp_handler *handler, struct tcp **ret_tcp);
void tcp_close(struct tcp *tcp); /* Without callbacks. Accepts NULL. */

/* Identity after founding or joining; used for new connections; existing ones learn it when they
 * reconnect (all are closed). */
void tcp_set_identity(struct tcp *tcp, const uint8_t cluster[ZAB_CLUSTER_LEN], uint64_t history,
                      bool bootstrapping);

/* Queues a message; written at the latest by tcp_flush. A peer that is not connected loses it. */
void tcp_send(struct tcp *tcp, uint32_t peer, const struct zab_msg *msg);

/* Writes what is queued: once at the end of each turn, so that many messages share one system call.
 */
void tcp_flush(struct tcp *tcp);
void tcp_disconnect(struct tcp *tcp, uint32_t peer);

/* Timers: attempts to connect, handshake deadlines. Returns the next wake time, monotonic ms. */
uint64_t tcp_tick(struct tcp *tcp, uint64_t now_ms);

struct tcp_figures {
    uint64_t bytes_in;
    uint64_t bytes_out;
    uint64_t queued; /* Bytes waiting, all peers. */
    uint32_t connected;
    uint64_t refused;    /* Handshakes that failed. */
    uint64_t skipped;    /* Messages of types that only a later version knows. */
    uint64_t duplicates; /* Connections refused because another process of that id lives. */
};

void tcp_figures(const struct tcp *tcp, struct tcp_figures *ret_figures);

#endif
