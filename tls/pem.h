/* pem.h - what all readers of certificates and keys in PEM form share. Any thread. */
#ifndef TLS_PEM_H
#define TLS_PEM_H

#include "base/slice.h"

#include <openssl/asn1.h>
#include <openssl/bio.h>

/* A BIO over bytes, which must outlive it. The caller calls BIO_free. */
BIO *tls_pem_open(struct slice bytes);

/* Refuses encrypted keys: without this function OpenSSL asks for a password at the terminal. */
int tls_pem_no_password(char *text, int size, int writes, void *ctx);

/* Seconds since 1970; 0: no date. */
int64_t tls_pem_seconds(const ASN1_TIME *date);

#endif
