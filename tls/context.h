/*
 * context.h - the settings of TLS that a connection starts with, checked and immutable.
 *
 * TLS 1.2 and 1.3, security level 2, ECDHE and AEAD ciphers only. No renegotiation, no compression,
 * no early data (it could be replayed). ALPN: http/1.1; a client that offers other protocols only
 * is refused by an alert. Among several certificates the name that the client sends (SNI) chooses,
 * then the type of the key. A context is counted: each connection holds its own until it ends, so a
 * reload changes only new connections.
 */
#ifndef TLS_CONTEXT_H
#define TLS_CONTEXT_H

#include "tls/chain.h"
#include "tls/identity.h"
#include "tls/tickets.h"

enum tls_clients { /* In the order of the choices of clientCertificates. */
    TLS_CLIENTS_OFF,
    TLS_CLIENTS_ASK,
    TLS_CLIENTS_REQUIRED
};

enum {
    TLS_CHAINS_MAX = 8 /* Certificates of one replica. */
};

/* What the configuration says. The texts must outlive all that is made of the setup. */
struct tls_setup {
    const char *cert_files; /* Paths, comma separated. */
    const char *key_files;  /* As many paths, in the same order. */
    const char *ca_file;    /* "": none. */
    const char *crl_file;   /* "": none. */
    enum tls_clients clients;
    enum tls_identity_kind identity;
};

struct tls_context;
struct ssl_st;

/* Splits a comma separated list and returns the number of its paths; TLS_CHAINS_MAX + 1: there are
 * too many, or one is empty or too long. */
uint32_t tls_split_paths(const char *list, char paths[TLS_CHAINS_MAX][TLS_PATH_MAX]);

/* Loads and checks all files. NULL, with a sentence: one of them is not usable. `tickets` must
 * outlive the context. */
struct tls_context *tls_context_new(const struct tls_setup *setup, struct tls_tickets *tickets,
                                    struct tls_fault *ret_fault);
struct tls_context *tls_context_ref(struct tls_context *context);
void tls_context_unref(struct tls_context *context); /* Accepts NULL. */

/* When the first of the replica's certificates, of the CAs of clients and of the revocation lists
 * expires, wall clock in ms; INT64_MAX: there is none that expires. */
struct tls_ends {
    int64_t certificate_ms;
    int64_t ca_ms;
    int64_t crl_ms;
};

struct tls_ends tls_context_ends(const struct tls_context *context);
enum tls_identity_kind tls_context_identity(const struct tls_context *context);

/* A new server side of a connection; the caller frees it with SSL_free. */
struct ssl_st *tls_context_connection(struct tls_context *context);

#endif
