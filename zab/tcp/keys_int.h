/* keys_int.h - what keys.c, certificate.c and seal.c share. */
#ifndef ZAB_TCP_KEYS_INT_H
#define ZAB_TCP_KEYS_INT_H

#include "base/crypto.h"
#include "zab/tcp/keys.h"

#include <openssl/ssl.h>

enum {
    KEYS_NAME_LEN = 8, /* Bytes of a secret's name. */
    KEYS_PATH_MAX = 256,
    KEYS_SECURITY_LEVEL = 2, /* OpenSSL's: keys and signatures of 112 bits of security or more. */
};

struct keys_secret {
    uint8_t *bytes; /* Own copy. */
    size_t len;
    uint8_t psk[CRYPTO_SHA256_LEN];
    /* Tells the acceptor which of its secrets the dialer uses. It is derived from the secret, and
     * says no more about it than the handshake itself. */
    uint8_t name[KEYS_NAME_LEN];
};

struct keys {
    uint32_t references;
    struct keys_secret secrets[KEYS_SECRETS_MAX];
    uint32_t secret_count;
    SSL_CTX *dialer;
    SSL_CTX *acceptor;
    bool has_certificate;
    int64_t expire_s;
};

/* ---- certificate.c ---- */

/* Makes both contexts use certificate and key, and trust the CA. ERR_CONFIG: `error` says why. */
enum err certificate_use(struct keys *keys, const struct keys_options *options,
                         char error[KEYS_ERROR_MAX]);

/* Whether the certificate names the replica: by one of its hosts, or by the URI
 * zabra://ENSEMBLE/ID, where ENSEMBLE is one of the two names given. Else `why` gets a sentence. */
struct certificate_claim {
    uint32_t id;
    const char *hosts[2];     /* As in server.N; NULL: several replicas have this one; "": none. */
    const char *ensembles[2]; /* "" or NULL: none. */
};

bool certificate_fits(X509 *certificate, const struct certificate_claim *claim, char *why,
                      size_t why_size);

/* Whether a replica with these keys would accept the peer's certificate of this connection. Its
 * dates do not count. False: there is none. */
bool certificate_is_trusted(const struct keys *keys, SSL *ssl);

/* Returns what is wrong with the peer's certificate, for a result of X509_verify_cert. */
const char *certificate_fault(long result);

#endif
