/*
 * cert_weak.h - certificates that tls/issue.h does not make: with RSA keys of any length and with
 * any digest, so that a test can see which are refused as too weak.
 *
 * They are valid from 2020 to 2120.
 */
#ifndef TESTS_LIB_CERT_WEAK_H
#define TESTS_LIB_CERT_WEAK_H

#include "tls/issue.h"

struct cert_weak {
    int rsa_bits;       /* 0: ECDSA P-256. */
    const char *digest; /* Of the signature: "SHA1", ...; NULL: SHA-256. */
    const char *common;
    const char *names; /* As OpenSSL writes them: "IP:127.0.0.1". NULL: an authority. */
};

/* `ca` signs, NULL: the new key itself; that key gives the kind of signature. The caller calls
 * issue_release(). */
void cert_weak_make(const struct cert_weak *spec, const struct issue_pair *ca,
                    struct issue_pair *ret_pair);

#endif
