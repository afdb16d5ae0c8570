/*
 * tcp.h - carries the protocol's messages between replicas: one TCP connection per pair.
 *
 * Of each pair the replica with the larger id dials; before the first message is parsed, both sides
 * prove the shared secret (HMAC over both nonces) or, within TLS, their certificates. With TLS the
 * whole connection is sealed. Besides the replicas of its list, a replica may be connected with a
 * few others that have proven themselves (outsiders): those that join, and those that know an
 * outdated list. Queues are bounded in bytes: a peer that does not read is dropped,
 * and synchronises again when it is back. All calls come from the core thread.
 */
#ifndef ZAB_TCP_TCP_H
#define ZAB_TCP_TCP_H

#include "base/loop.h"
#include "zab/config.h"
#include "zab/msg.h"
#include "zab/tcp/keys.h"

struct tcp;

enum {
    TCP_OUTSIDERS_MAX = 8, /* Most outsiders with which a replica is connected. */
    TCP_TEXT_MAX = 200,    /* Bytes of a reason, with the final zero. */
};

/* A replica of the server list. */
struct tcp_peer {
    uint32_t id;
    char host[256]; /* Name or address; resolved again at each attempt. "": unknown; the replica is
                       not dialed. */
    uint16_t port;
    /* The second address while the address changes; "": none. Both are dialed in turn, and a
     * certificate may name either host. */
    char next_host[256];
    uint16_t next_port;
};

struct tcp_options {
    uint32_t id;
    const char *host;        /* Of this replica in the server list; NULL: unknown. */
    const char *listen_host; /* Name or address; a name may get its address later. */
    uint16_t listen_port;
    const struct tcp_peer *peers; /* The other replicas. */
    uint32_t peer_count;          /* At most ZAB_MEMBERS_MAX. */
    struct keys *keys; /* Secrets and certificate; the transport takes its own reference. Without a
                          secret: loopback or certificates only; the caller has checked. */
    enum keys_mode tls;
    const char *ensemble; /* Name of the ensemble in URIs of certificates; NULL or "": none. */
    /* With this many outgoing bytes queued for a peer, the next message disconnects the peer. */
    uint64_t queue_bytes_max;
    /* Most outsiders at a time, at most TCP_OUTSIDERS_MAX; 0: a replica that is not in the list is
     * refused. */
    uint32_t outsiders_max;
    /* Maximum of handshakes at a time with callers that have proven nothing; 0: 256. */
    uint32_t shaking_max;
    uint64_t records_per_key; /* Records of TLS that one key seals; 0: SEAL_KEY_RECORDS. */
    uint32_t connect_timeout_ms;
    uint32_t retry_min_ms; /* Back-off between attempts, with jitter. */
    uint32_t retry_max_ms;
    uint64_t incarnation;
    uint8_t cluster[ZAB_CLUSTER_LEN];
    uint64_t history; /* Id of the data's history (zab/config.h); 0: none yet. */
    /* Start number of this process: the time when it began, then random bits; 0: tcp_open makes
     * one. */
    uint64_t start;
    /* A process whose id is claimed keeps the id if it answers within this time. */
    uint32_t probe_ms;
    bool bootstrapping;
    uint8_t level;         /* Highest feature level that this release supports. */
    const char *advertise; /* Address for clients, sent to the peers; "" for none. */
};

/* An address at which any replica may answer. */
struct tcp_address {
    char host[256];
    uint16_t port;
};

/* What a peer has proven about itself. */
struct tcp_identity {
    uint64_t incarnation;
    uint8_t cluster[ZAB_CLUSTER_LEN];
    bool bootstrapping;
    bool is_outsider;      /* It is not in the list of replicas. */
    uint8_t level;         /* Highest feature level that its release supports. */
    const char *advertise; /* Its address for clients; "" for none. Belongs to the transport. */
};

/* Callbacks run in loop dispatch, tcp_flush and tcp_tick, never in tcp_send, tcp_disconnect,
 * tcp_set_identity, tcp_set_peers or tcp_set_join: if one of these ends a connection, the next
 * tcp_flush reports the end. A callback may call these and tcp_flush, but not tcp_close. Each on_up
 * has one on_down, also if the peer has been removed meanwhile. */
struct tcp_handler {
    void (*on_up)(void *ctx, uint32_t peer, const struct tcp_identity *identity);
    void (*on_down)(void *ctx, uint32_t peer, const char *why);
    /* Optional: a handshake was refused; called once per peer and reason. `peer` 0: an unknown
     * caller. */
    void (*on_refused)(void *ctx, uint32_t peer, const char *why);
    /* Optional: gets the reason after each failed attempt to listen, usually that the name has no
     * address yet; gets NULL once the transport listens. */
    void (*on_listen)(void *ctx, const char *why);
    /* Optional: two processes claim one id, a peer's or this replica's own. Repeated with each
     * attempt of the refused process. */
    void (*on_duplicate)(void *ctx, uint32_t id, const char *text);
    /* Optional: why this replica does not reach all replicas at an address of tcp_set_join; NULL:
     * it is connected with all of them. Called when the reason has changed. */
    void (*on_join)(void *ctx, const struct tcp_address *address, const char *why);
    /* The message belongs to the transport. */
    void (*on_message)(void *ctx, uint32_t peer, const struct zab_msg *msg);
    void *ctx;
};

/* Opens the transport. ERR_BUSY: the port is in use. ERR_CONFIG: the address cannot be bound. With
 * a name to listen on neither error occurs: the name is looked up in the background, again and
 * again until an address can be bound. While the name resolves to another machine there are no
 * connections. */
enum err tcp_open(struct loop *loop, const struct tcp_options *options,
                  const struct tcp_handler *handler, struct tcp **ret_tcp);
void tcp_close(struct tcp *tcp); /* Runs no callbacks. Accepts NULL. */

/* Sets the identity after founding or joining. New connections use it. All existing connections are
 * closed, so that their peers learn the identity when they reconnect. */
void tcp_set_identity(struct tcp *tcp, const uint8_t cluster[ZAB_CLUSTER_LEN], uint64_t history,
                      bool bootstrapping);

/* Sets the feature level that the ensemble uses; 0 at first. From now on a handshake is refused if
 * either replica's release does not support the level that the other one knows. Existing
 * connections stay: what they carry tells such a peer that it must end. */
void tcp_set_level(struct tcp *tcp, uint8_t level);

/* Replaces the list of the other replicas, at most ZAB_MEMBERS_MAX. An entry with the id of this
 * replica has only one use: no certificate of another replica may name its hosts; without such an
 * entry the hosts known before count. A new replica is dialed by the next tcp_tick, or may call at
 * once. A removed replica gets what is queued for it, as far as its socket takes it; then its
 * connection ends. If an address has changed, a connection that is up stays, and an attempt to
 * connect begins again. Entries that have not changed are left alone. Outsiders do not belong into
 * the list, and stay connected; if one is in the list now, its connection becomes that of a member
 * without an on_down. If a member needs a place, the connection of an outsider ends. */
void tcp_set_peers(struct tcp *tcp, const struct tcp_peer *peers, uint32_t count);

/* Makes this replica dial, besides its list, the replicas at these addresses, whatever their ids
 * are; count 0: none any more. A name counts with all its addresses (RESOLVE_ADDRESSES_MAX), and is
 * looked up again and again. At an address where a replica has answered no one is dialed while that
 * replica is connected. on_up reports which ones have answered. Connections that are up stay when
 * their address leaves the list. Addresses that were in the list before are left alone. */
void tcp_set_join(struct tcp *tcp, const struct tcp_address *addresses, uint32_t count);

/* Returns when, monotonic ms, this replica was last found to be connected with a replica at each
 * address of tcp_set_join, for a name at all its addresses; where this replica itself answers
 * counts, too. It is found again every few seconds. 0: it was not yet connected at all addresses,
 * or there are none. */
uint64_t tcp_join_reached_ms(const struct tcp *tcp);

/* Returns the id of a connected replica that this list would lock out: the certificate of its
 * present connection would not name it any more, because neither host is in it, or because another
 * replica has the same host. Then `why` is a sentence. 0: there is none. For operators that are
 * about to change an address, and may have to renew a certificate first. */
uint32_t tcp_locks_out(const struct tcp *tcp, const struct tcp_peer *peers, uint32_t count,
                       char why[TCP_TEXT_MAX]);

/* Queues a message, which is written by the next tcp_flush at the latest. A message to a peer that
 * is not connected is lost. */
void tcp_send(struct tcp *tcp, uint32_t peer, const struct zab_msg *msg);

/* Writes what is queued. Called once at the end of each turn, so that many messages share one
 * system call. */
void tcp_flush(struct tcp *tcp);
void tcp_disconnect(struct tcp *tcp, uint32_t peer);

/* Runs the timers: attempts to connect, handshake deadlines. Returns the next wake time, monotonic
 * ms. */
uint64_t tcp_tick(struct tcp *tcp, uint64_t now_ms);

struct tcp_figures {
    uint64_t bytes_in;
    uint64_t bytes_out;
    uint64_t queued;     /* Bytes waiting for all peers. */
    uint32_t connected;  /* Outsiders, too. */
    uint32_t outsiders;  /* Connected replicas that are not in the list. */
    uint64_t refused;    /* Handshakes that failed. */
    uint64_t unsealed;   /* Connections that TLS has ended: failed handshakes, changed bytes. */
    uint64_t skipped;    /* Messages of types that only a later version knows. */
    uint64_t duplicates; /* Connections refused because another process with the peer's id lives. */
};

void tcp_figures(const struct tcp *tcp, struct tcp_figures *ret_figures);

/* Makes new connections use other keys. Existing connections, and handshakes that have begun, keep
 * theirs. The transport takes its own reference. */
void tcp_set_keys(struct tcp *tcp, struct keys *keys);

/* How the connection with a peer is sealed. */
struct tcp_seal {
    bool up; /* False: there is no connection; the other members are not set. */
    enum keys_seal kind;
    /* It began with a secret that the present keys do not have, or with a certificate of a CA that
     * they do not have. */
    bool removed;
    bool peer_says; /* The peer has told its peerTls. */
    enum keys_mode peer_tls;
};

void tcp_seal(const struct tcp *tcp, uint32_t peer, struct tcp_seal *ret_seal);

#endif
