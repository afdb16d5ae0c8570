/*
 * tcp_kit.h - two replicas' transports on two loops in one thread, and a relay between them that
 * can delay, damage or hold back the bytes.
 */
#ifndef TESTS_LIB_TCP_KIT_H
#define TESTS_LIB_TCP_KIT_H

#include "base/os_clock.h"
#include "tests/lib/unit.h"
#include "zab/tcp/hello.h"
#include "zab/tcp/tcp.h"

#include <netinet/in.h>

enum {
    KIT_DEADLINE_MS = 60000,
    KIT_PROBE_MS = 100,
    KIT_RELAY_BYTES = 65536
};

enum kit_event {
    KIT_UP,
    KIT_DOWN,
    KIT_REFUSED,
    KIT_MESSAGE
};

struct kit_node {
    struct loop loop;
    struct tcp *tcp;
    uint32_t ups;
    uint32_t downs;
    uint32_t refusals;
    uint32_t peer; /* Of the last on_up. */
    struct hello hello;
    char why[256];
    uint64_t messages;
    uint64_t bytes;
    uint64_t next_round;    /* Messages must arrive in order. */
    uint32_t echo;          /* Each message of this peer is answered; 0: no peer. */
    uint32_t disconnect_on; /* Ends the connection within the callback of this message. */
    void (*then)(struct kit_node *node, enum kit_event event); /* Ends each callback, if set. */
};

struct kit_setup {
    uint16_t port[3]; /* Of replicas 1 and 2. */
    uint16_t via;     /* The port where 2 dials 1, if not directly. */
    const char *host;
    bool knows_host; /* The replicas know that they have the same host in the server list. */
    const char *secret[3];
    const char *next_secret[3]; /* Second line of peerSecretFile. */
    enum keys_mode tls[3];
    struct keys_options files[3]; /* Names of the files of a certificate; no secrets. */
    uint8_t cluster[3];
    uint64_t history[3];
    uint8_t level[3];          /* Feature level that the replica supports. */
    uint8_t ensemble_level[3]; /* Feature level of the ensemble that the replica knows. */
    uint64_t queue_bytes_max;
    uint64_t records_per_key;
    uint32_t shaking_max;
    uint32_t connect_timeout_ms; /* 0: 2 s. */
    uint32_t claims;             /* The id that node 2 claims instead. */
};

/* From replica 2, which dials, to replica 1. */
struct kit_relay {
    int listen_fd;
    int in_fd;       /* From replica 2. */
    int out_fd;      /* To replica 1. */
    size_t step;     /* Bytes at a time. */
    uint64_t passed; /* From 2 to 1. */
    uint64_t flip;   /* Offset of the byte to damage; UINT64_MAX: none. */
    bool stopped;
    const char *wanted; /* A text to look for in what replica 2 sends; NULL: none. */
    bool seen;          /* It was there, within one move. */
};

extern struct kit_node kit_nodes[3]; /* By id. */
extern struct kit_relay kit_relay;

/* Whether the tests run with sealed connections: ctest runs some files once more so, with the
 * environment variable ZABRA_TEST_PEER_TLS. */
bool kit_sealed(void);

/* Free ports, the same cluster; no secret, or, if sealed, a secret and peerTls=required. */
struct kit_setup kit_make_setup(void);

/* Makes keys of one or two secrets (NULL or "": none). */
struct keys *kit_keys(const char *secret, const char *next_secret);

void kit_start(const struct kit_setup *setup, uint32_t id);
void kit_stop(uint32_t id);
void kit_connect_both(const struct kit_setup *setup); /* Starts both. */
void kit_stop_both(void);

/* Changes the list of replica `id`: the other one at this address, at two addresses, or none. */
void kit_set_peer(uint32_t id, const char *host, uint16_t port);
void kit_set_two_addresses(uint32_t id, const char *host, uint16_t port, const char *next_host,
                           uint16_t next_port);
void kit_set_no_peer(uint32_t id);

/* One turn of one core thread; of everything. */
void kit_turn(uint32_t id, int timeout_ms);
void kit_run(const struct kit_setup *setup);

/* Puts the relay between the two: `step` bytes at a time, the byte at `flip` damaged. */
void kit_relay_open(struct kit_setup *setup, size_t step, uint64_t flip);
void kit_relay_close(void);

/* Moves one step from 2 to 1, although the relay is stopped; then ends both connections and starts
 * the relay again. */
void kit_relay_cut(const struct kit_setup *setup);

/* Queues a PING, or a FORWARD of `len` bytes, to the other. */
void kit_send_round(uint32_t from, uint64_t round);
void kit_send_forward(uint32_t from, uint64_t round, size_t len);

struct sockaddr_in kit_loopback(uint16_t port);

/* Runs everything once more; fails the test after the deadline. */
void kit_look_again(const struct kit_setup *setup, uint64_t end_ms, const char *condition);

#define KIT_RUN_UNTIL(setup, condition)                                     \
    for (uint64_t kit_end_ms = os_now_ms() + KIT_DEADLINE_MS; !(condition); \
         kit_look_again(setup, kit_end_ms, #condition)) {                   \
    }

#endif
