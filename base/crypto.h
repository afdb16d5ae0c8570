/* crypto.h - the few cryptographic functions that zabra needs. Only crypto.c uses libcrypto. */
#ifndef BASE_CRYPTO_H
#define BASE_CRYPTO_H

#include "base/slice.h"

enum {
    CRYPTO_SHA256_LEN = 32,
    CRYPTO_SHA1_LEN = 20,
    CRYPTO_KEY_RECORDS = 1 << 22 /* Records that one key of TLS 1.3 seals. RFC 8446, 5.5 allows
                                    2^24.5 with AES-GCM; OpenSSL itself renews no key. */
};

void crypto_sha256(struct slice bytes, uint8_t out[CRYPTO_SHA256_LEN]);
/* SHA-256 of bytes that come in pieces: begin, any number of adds, then end, which frees it. */
struct crypto_hash;
struct crypto_hash *crypto_hash_begin(void);
void crypto_hash_add(struct crypto_hash *hash, struct slice bytes);
void crypto_hash_end(struct crypto_hash *take_hash, uint8_t out[CRYPTO_SHA256_LEN]);

void crypto_sha1(struct slice bytes, uint8_t out[CRYPTO_SHA1_LEN]);
void crypto_hmac_sha256(struct slice key, struct slice bytes, uint8_t out[CRYPTO_SHA256_LEN]);

/* Derives a key from a secret with many random bits (HKDF of RFC 5869 with SHA-256). Another `info`
 * gives another key. */
void crypto_hkdf_sha256(struct slice secret, struct slice salt, struct slice info,
                        uint8_t out[CRYPTO_SHA256_LEN]);

/* Compares in constant time. */
bool crypto_equal(struct slice a, struct slice b);

#endif
