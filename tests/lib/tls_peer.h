/*
 * tls_peer.h - the client side of a TLS connection, whose sealed bytes the test moves itself: so a
 * test can split them, hold them back, damage them or end them at each place.
 */
#ifndef TESTS_LIB_TLS_PEER_H
#define TESTS_LIB_TLS_PEER_H

#include "base/buf.h"
#include "tests/lib/cert_kit.h"

#include <openssl/ssl.h>

struct tls_peer_setup {
    const char *name;      /* Sent as SNI and checked; NULL: "localhost". */
    int version;           /* TLS1_2_VERSION, ...; 0: any. */
    const char *ciphers;   /* Of TLS 1.2; NULL: OpenSSL's. */
    const char *protocols; /* ALPN on the wire: a length, a name, ...; NULL: none. */
    const char *cert;      /* Name of a pair of the kit; NULL: none. */
    SSL_SESSION *session;  /* To resume; NULL: none. */
    SSL_CTX *ctx;          /* Of a peer with an equal version, ciphers and cert; NULL: made here. */
};

/* The secret of TLS 1.3 that seals what the client sends after its handshake. */
struct tls_peer_secret {
    uint8_t bytes[64];
    size_t len; /* 0: not known yet, or TLS 1.2. */
};

struct tls_peer {
    SSL_CTX *ctx;
    SSL *ssl;
    BIO *in;              /* Sealed bytes from the server. */
    BIO *out;             /* Sealed bytes to the server. */
    int fd;               /* The client's end; non-blocking. */
    SSL_SESSION *session; /* The newest ticket; NULL: none yet. */
    struct tls_peer_secret secret;
};

/* The descriptor stays the caller's. */
void tls_peer_open(struct tls_peer *peer, const struct cert_kit *kit,
                   const struct tls_peer_setup *setup, int fd);
void tls_peer_close(struct tls_peer *peer);

/* Sends what OpenSSL has sealed, at most `most` bytes; returns their number. */
size_t tls_peer_push(struct tls_peer *peer, size_t most);

/* Takes what has arrived, at most `most` bytes; returns their number, 0 also at the end. */
size_t tls_peer_pull(struct tls_peer *peer, size_t most);

/* Continues the handshake with what was pulled; 1: complete, 0: needs more, -1: refused. */
int tls_peer_shake(struct tls_peer *peer);

/* Seals and sends all bytes. */
void tls_peer_send(struct tls_peer *peer, const void *data, size_t len);

/* Takes what has arrived, decrypts and appends it. Returns what SSL_get_error says of the end:
 * SSL_ERROR_WANT_READ, SSL_ERROR_ZERO_RETURN, ... */
int tls_peer_receive(struct tls_peer *peer, struct buf *out);

#endif
