/*
 * identity.h - the identity that a client's certificate proves: its subject, or one of its
 * alternative names.
 *
 * The subject is in the form of RFC 2253. ZooKeeper's is the same for the attributes CN, O, OU, L,
 * ST, C, DC and UID; Java writes each other one as its OID and hexadecimal bytes, OpenSSL as its
 * name and text.
 */
#ifndef TLS_IDENTITY_H
#define TLS_IDENTITY_H

#include <stdbool.h>

enum tls_identity_kind { /* In the order of the choices of x509Identity. */
    TLS_SUBJECT,         /* RFC 2253, for example CN=bob,O=Example. */
    TLS_SAN_DNS,
    TLS_SAN_URI,
    TLS_SAN_EMAIL
};

enum {
    TLS_IDENTITY_MAX = 1024 /* Bytes, with the NUL. */
};

struct x509_st;

/* Writes the identity: the subject, or the first alternative name of this kind. False, with "": the
 * certificate has none, or it is too long, or it has a byte that no name may have. */
bool tls_identity_of(const struct x509_st *certificate, enum tls_identity_kind kind,
                     char ret_text[TLS_IDENTITY_MAX]);

#endif
