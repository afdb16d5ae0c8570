/*
 * hello.h - the bytes of the handshake: greetings with nonces, then HELLOs with proofs.
 *
 *   dialer   -> GREETING(version, from, to, nonce)        fixed length, nothing to parse
 *   acceptor -> GREETING(version, from, to, nonce)        `to` of the dialer may be 0: any
 * answers dialer   -> HELLO(length, identity, proof)            the acceptor checks the proof first
 *   acceptor -> HELLO(length, identity, proof)
 *
 * A proof is HMAC-SHA256 with the shared secret over the role, both greetings, the value that TLS
 * exports and the identity: it is valid for one connection and one direction only, and for the two
 * ids that the greetings name: if the dialer's `to` is 0, the acceptor's `from` names it. The
 * dialer proves first, so that a caller without the secret gets no proof with which it could test
 * guessed secrets.
 */
#ifndef ZAB_TCP_HELLO_H
#define ZAB_TCP_HELLO_H

#include "base/buf.h"
#include "base/crypto.h"
#include "base/err.h"
#include "zab/config.h"

enum {
    GREETING_NONCE_LEN = 32,
    GREETING_LEN = 48,
    HELLO_ADVERTISE_MAX = 255,
    HELLO_REFUSAL_MAX = 199,
    HELLO_PAYLOAD_MAX = 512, /* A longer HELLO is refused before it is read. */
    HELLO_LEN_LEN = 4,
    HELLO_WIRE_MAX = HELLO_LEN_LEN + HELLO_PAYLOAD_MAX + CRYPTO_SHA256_LEN,
};

struct greeting {
    uint16_t version; /* Newest version that the sender speaks; both use the lower one. */
    uint32_t from;
    uint32_t to;
    uint8_t nonce[GREETING_NONCE_LEN];
};

struct hello {
    uint64_t incarnation;
    uint8_t cluster[ZAB_CLUSTER_LEN];
    bool bootstrapping;
    uint64_t history; /* Id of the data's history (zab/config.h); 0: none. */
    uint64_t start;   /* Start number of the process: see tcp_options. */
    char advertise[HELLO_ADVERTISE_MAX + 1];
    char refusal[HELLO_REFUSAL_MAX + 1]; /* Why the acceptor hangs up next; "": it does not. */
    uint8_t tls;   /* The sender's peerTls: enum keys_mode plus 1; 0: its release has no TLS. */
    uint8_t level; /* Highest feature level that the sender's release supports. */
    uint8_t ensemble_level; /* Feature level that the ensemble uses, as far as the sender knows. */
    uint8_t reason;         /* enum hello_reason; only with `refusal`. */
};

/* Why the acceptor hangs up. On the wire: never renumber. */
enum hello_reason {
    HELLO_DUPLICATE = 0, /* Two processes have the dialer's id. */
    HELLO_FULL = 1,      /* There is no place for one more replica that is not in the list. */
};

/* What both proofs cover: both greetings, and of a sealed connection the value that TLS exports, so
 * that a proof is valid only inside this one sealed connection. */
struct hello_transcript {
    uint8_t dialer[GREETING_LEN];
    uint8_t acceptor[GREETING_LEN];
    bool sealed;
    uint8_t channel[CRYPTO_SHA256_LEN]; /* Only if `sealed`. */
};

void greeting_encode(const struct greeting *greeting, uint8_t out[GREETING_LEN]);

/* Decodes a greeting. ERR_FORMAT when it is no greeting of a zabra replica. */
enum err greeting_decode(const uint8_t in[GREETING_LEN], struct greeting *ret_greeting);

/* Appends length, identity and proof. */
void hello_encode(const struct hello *hello, const struct hello_transcript *transcript,
                  struct slice secret, bool by_dialer, struct buf *out);

/* Reads a whole HELLO at the front of `in`; `*ret_len` is its length, or 0 when it is not all there
 * yet. ERR_AUTH_FAILED: wrong proof. ERR_FORMAT: too long or malformed. */
enum err hello_decode(struct slice in, const struct hello_transcript *transcript,
                      struct slice secret, bool by_dialer, struct hello *ret_hello,
                      size_t *ret_len);

/* Returns the number that all frames of this connection carry. */
uint64_t hello_connection_nonce(const struct hello_transcript *transcript, struct slice secret);

#endif
