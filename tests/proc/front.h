/*
 * front.h - a proxy in front of a replica, as an operator would put one: it takes plain HTTP, and
 * forwards each request over TLS with a client certificate of its own. It removes the headers about
 * proxies that a client sends, and adds those about the client.
 *
 * Each connection forwards one request; the bytes after its head pass unchanged in both directions,
 * so that streams and WebSockets work. One thread.
 */
#ifndef TESTS_PROC_FRONT_H
#define TESTS_PROC_FRONT_H

#include "base/buf.h"
#include "base/thread.h"

#include <openssl/ssl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    FRONT_LINKS_MAX = 64
};

struct front_link {
    int client;
    SSL *replica;
};

struct front {
    /* Set by the caller. */
    uint16_t target;   /* Client port of the replica. */
    uint8_t from;      /* It connects from 127.0.0.x. */
    bool forwarded;    /* Adds Forwarded; else X-Forwarded-For, -Proto and -Host. */
    const char *certs; /* Directory with ca.pem, front.pem and front.key. */

    uint16_t port; /* Where it listens, on 127.0.0.1. */
    int listen_fd;
    SSL_CTX *ctx;
    struct thread thread;
    _Atomic bool stopping;
    struct front_link links[FRONT_LINKS_MAX];
    uint32_t count;
};

void front_start(struct front *front);
void front_stop(struct front *front);

#endif
