/*
 * chain.h - certificates, keys, CAs and revocation lists from PEM files, checked before use.
 *
 * Each failure is one sentence that names the configuration key, the file and the reason. A file is
 * read once, into memory, so that what is checked is what is used.
 */
#ifndef TLS_CHAIN_H
#define TLS_CHAIN_H

#include <stdbool.h>
#include <stdint.h>

enum {
    TLS_PATH_MAX = 1024, /* Bytes of a path, with its NUL. */
    TLS_FAULT_MAX = 1536 /* Bytes of a sentence, with its NUL. */
};

struct tls_fault {
    char text[TLS_FAULT_MAX];
};

struct x509_st;
struct x509_store_st;
struct evp_pkey_st;
struct stack_st_X509;
struct stack_st_X509_NAME;

/* A certificate of this replica. */
struct tls_chain {
    struct x509_st *leaf;
    struct evp_pkey_st *key;
    struct stack_st_X509 *issuers; /* The intermediate certificates, each the issuer of the one
                                      before. */
    int64_t expires_ms; /* When the first certificate of the chain expires, wall clock. */
};

/* Loads the certificate with its intermediate certificates, and the key. False, with a sentence: a
 * file cannot be read or parsed, the key does not belong to the certificate or other users may read
 * it, the order is wrong, or the certificate is expired, not yet valid, or not for servers. */
bool tls_chain_load(struct tls_chain *chain, const char *cert_path, const char *key_path,
                    struct tls_fault *ret_fault);
void tls_chain_release(struct tls_chain *chain); /* Accepts a zeroed chain. */

/* The authorities for clients' certificates. */
struct tls_trust {
    struct x509_store_st *store;
    struct stack_st_X509_NAME *names; /* Sent to clients, so that they choose a certificate. */
    uint8_t digest[32];               /* SHA-256 of both files. */
    int64_t ca_expires_ms;            /* When the first CA expires, wall clock. */
    int64_t crl_expires_ms;           /* The same for the lists; INT64_MAX: none expires. */
    bool only_roots;                  /* Each CA has signed itself. */
};

/* Loads the CAs and, if `crl_path` is not "", the revocation lists. A client's certificate is
 * checked against the list of its CA; if each CA is a root that has a list, so are intermediate
 * certificates.
 * False, with a sentence. */
bool tls_trust_load(struct tls_trust *trust, const char *ca_path, const char *crl_path,
                    struct tls_fault *ret_fault);
void tls_trust_release(struct tls_trust *trust); /* Accepts a zeroed trust. */

#endif
