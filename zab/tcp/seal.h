/*
 * seal.h - TLS 1.3 between a connection and its socket, over memory: the caller moves the bytes.
 *
 *     bytes from the socket -> seal_put -> seal_shake, then seal_read -> plain bytes
 *     plain bytes -> seal_write -> seal_pending -> bytes for the socket -> seal_sent
 *
 * What the handshake proves: the dialer names its first secret, by a name derived from it, and the
 * acceptor looks the secret up; both prove it (external PSK with DHE). If both replicas have a
 * certificate, the acceptor passes over the secret, and both prove their certificates. A caller
 * that can do neither ends the handshake. Core thread.
 */
#ifndef ZAB_TCP_SEAL_H
#define ZAB_TCP_SEAL_H

#include "base/buf.h"
#include "base/crypto.h"
#include "base/err.h"
#include "zab/tcp/keys.h"

struct seal;

enum {
    SEAL_FIRST_BYTE = 0x16,    /* Of a TLS connection; a greeting begins with 'Z'. */
    SEAL_AHEAD_MAX = 64 << 10, /* Plain bytes that are sealed before the socket takes them. */
    SEAL_KEY_RECORDS = CRYPTO_KEY_RECORDS,
    SEAL_WHY_MAX = 200,
};

/* What a connection is, for its handshake. */
struct seal_options {
    struct keys *keys;        /* Shared; the seal takes its own reference. */
    bool dials;               /* This side dials. */
    uint32_t from;            /* Dialer: id of this replica. */
    uint32_t to;              /* Dialer: id of the peer; 0: any replica. */
    uint64_t records_per_key; /* Records that one key seals; 0: SEAL_KEY_RECORDS. */
};

struct seal *seal_open(const struct seal_options *options);
void seal_close(struct seal *seal); /* Accepts NULL. */

/* Takes bytes from the socket. ERR_FORMAT: the peer sends a handshake without end. */
enum err seal_put(struct seal *seal, struct slice bytes);

/* Continues the handshake. ERR_OK: it is done. ERR_BUSY: it needs bytes of the peer. ERR_FORMAT: it
 * has failed; seal_why says why. In each case there may be bytes for the socket. */
enum err seal_shake(struct seal *seal);

/* Appends all plain bytes that have arrived. ERR_CLOSED: the peer has ended the connection.
 * ERR_FORMAT: the bytes were not sealed by the peer, or it renews its keys without end; seal_why
 * says it. */
enum err seal_read(struct seal *seal, struct buf *to);

/* Seals bytes when none wait for the socket, and renews the key when it has sealed enough; returns
 * how many bytes it took. 0: TLS has failed; seal_why says why. */
size_t seal_write(struct seal *seal, struct slice bytes);

/* Returns the bytes that wait for the socket; seal_sent drops those that the socket took. */
struct slice seal_pending(const struct seal *seal);
void seal_sent(struct seal *seal, size_t len);

/* Why the handshake failed or the connection ended. */
const char *seal_why(const struct seal *seal);

/* How the handshake has sealed the connection, and with which secret: KEYS_SEAL_PSK only. */
enum keys_seal seal_kind(const struct seal *seal);
uint32_t seal_secret(const struct seal *seal);

/* Returns the dialer's id as the dialer gave it, before anything is proven; 0: unknown. */
uint32_t seal_caller(const struct seal *seal);

/* Fills in bytes that only the two ends of this connection know, and that differ in each. */
void seal_channel(struct seal *seal, uint8_t out[CRYPTO_SHA256_LEN]);

/* Whether the peer's certificate names this replica; true on connections without certificates. Else
 * `why` says it. `hosts`: of this replica, "" for none; NULL: several replicas have this one, so
 * that it names none of them. `ensembles`: names of the ensemble in URIs, "" for none. */
bool seal_is_of(struct seal *seal, uint32_t id, const char *const hosts[2],
                const char *const ensembles[2], char why[SEAL_WHY_MAX]);

/* Whether `keys` accept the certificate that the peer has proven: its CA is among theirs. That it
 * has expired meanwhile does not count. True on connections without certificates. */
bool seal_is_trusted(struct seal *seal, const struct keys *keys);

#endif
