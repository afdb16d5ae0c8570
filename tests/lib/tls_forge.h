/*
 * tls_forge.h - a client of TLS 1.3 that holds its keys and breaks the rules: after an honest
 * handshake of a tls_peer it makes records of any type, length and content, in any pieces, that the
 * server accepts as genuine.
 *
 * A record has a number. After the first record of the forge, `peer` must send nothing by itself;
 * it may receive.
 */
#ifndef TESTS_LIB_TLS_FORGE_H
#define TESTS_LIB_TLS_FORGE_H

#include "tests/lib/tls_peer.h"

enum {
    TLS_FORGE_ALERT = 21,
    TLS_FORGE_HANDSHAKE = 22,
    TLS_FORGE_DATA = 23,
    TLS_FORGE_UPDATE_LEN = 5 /* Bytes of a KeyUpdate before sealing. */
};

struct tls_forge {
    struct tls_peer_secret secret;
    EVP_CIPHER_CTX *cipher;
    uint8_t iv[12];
    uint64_t sequence;
    struct buf out; /* Sealed bytes that were not sent yet. */
};

/* After the handshake of `peer`, which has sent no data. */
void tls_forge_open(struct tls_forge *forge, const struct tls_peer *peer);
void tls_forge_close(struct tls_forge *forge);

/* Seals one record of this type, at most 16384 bytes, and appends it to `out`. */
void tls_forge_put(struct tls_forge *forge, uint8_t type, const void *data, size_t len);

/* Takes the keys that follow a KeyUpdate; call it after the record with its last byte. */
void tls_forge_renew(struct tls_forge *forge);

/* A whole KeyUpdate; `asks`: the server must answer with one. */
void tls_forge_update(struct tls_forge *forge, bool asks);

/* Sends `out` and empties it; false: the kernel has not taken all of it. */
bool tls_forge_send(struct tls_forge *forge, int fd);

#endif
