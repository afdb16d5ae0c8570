#include "tls/context.h"

#include "base/check.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "base/minmax.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct tls_context {
    SSL_CTX *ctx;
    struct tls_chain chains[TLS_CHAINS_MAX];
    uint32_t chain_count;
    struct tls_ends ends;
    enum tls_identity_kind identity;
    atomic_uint refs;
};

enum {
    CLIENT_CHAIN_MAX = 32 << 10, /* Bytes of a client's certificates. */
    CLIENT_DEPTH_MAX = 4,        /* Intermediate certificates of a client. */
    SECURITY_LEVEL = 2
};

static const char ciphers_1_2[] = "ECDHE+AESGCM:ECDHE+CHACHA20";
static const char ciphers_1_3[] =
    "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
static char groups[] = "X25519:P-256:P-384"; /* OpenSSL takes no const; it changes nothing. */

/* ---- What OpenSSL calls ---- */

/* Chooses http/1.1. */
static int on_protocols(SSL *ssl UNUSED, const unsigned char **out, unsigned char *out_len,
                        const unsigned char *in, unsigned in_len, void *arg UNUSED)
{
    static const unsigned char http[] = "http/1.1";
    const unsigned char http_len = sizeof(http) - 1;

    for (unsigned at = 0; at < in_len; at += in[at] + 1U) {
        if (in[at] == http_len && at + http_len < in_len &&
            memcmp(in + at + 1, http, http_len) == 0) {
            *out = in + at + 1;
            *out_len = http_len;
            return SSL_TLSEXT_ERR_OK;
        }
    }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static bool is_named(const struct tls_chain *chain, const char *name)
{
    return name && X509_check_host(chain->leaf, name, 0, 0, NULL) == 1;
}

/* Gives the connection the certificates for the client's name, one of each type of key; if none is
 * for that name, one of each type all the same. Of several that fit, the first in the configuration
 * counts: it is set last. */
static int on_certificate(SSL *ssl, void *arg)
{
    struct tls_context *context = arg;
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    bool any = false;

    for (uint32_t i = 0; i < context->chain_count; i++) {
        any = any || is_named(&context->chains[i], name);
    }
    SSL_certs_clear(ssl);
    for (uint32_t i = context->chain_count; i-- > 0;) {
        struct tls_chain *chain = &context->chains[i];

        if ((!any || is_named(chain, name)) &&
            SSL_use_cert_and_key(ssl, chain->leaf, chain->key, chain->issuers, 1) != 1) {
            return 0;
        }
    }
    return 1;
}

/* ---- Making a context ---- */

uint32_t tls_split_paths(const char *list, char paths[TLS_CHAINS_MAX][TLS_PATH_MAX])
{
    uint32_t count = 0;

    while (*list) {
        size_t len = strcspn(list, ",");
        size_t blanks = strspn(list, " \t");
        const char *next = list + len + (list[len] == ',');
        bool trailing = list[len] == ',' && *next == '\0';

        blanks = blanks < len ? blanks : len;
        list += blanks;
        len -= blanks;
        while (len > 0 && (list[len - 1] == ' ' || list[len - 1] == '\t')) {
            len--;
        }
        if (count == TLS_CHAINS_MAX || len == 0 || len >= TLS_PATH_MAX || trailing) {
            return TLS_CHAINS_MAX + 1;
        }
        memcpy(paths[count], list, len);
        paths[count++][len] = '\0';
        list = next;
    }
    return count;
}

struct paths {
    char certs[TLS_CHAINS_MAX][TLS_PATH_MAX];
    char keys[TLS_CHAINS_MAX][TLS_PATH_MAX];
};

static bool load_pairs(struct tls_context *context, const struct paths *paths, uint32_t count,
                       struct tls_fault *fault)
{
    for (uint32_t i = 0; i < count; i++) {
        struct tls_chain *chain = &context->chains[i];

        if (!tls_chain_load(chain, paths->certs[i], paths->keys[i], fault)) {
            return false;
        }
        context->chain_count++;
        context->ends.certificate_ms = min_i64(context->ends.certificate_ms, chain->expires_ms);
        if (SSL_CTX_use_cert_and_key(context->ctx, chain->leaf, chain->key, chain->issuers, 1) !=
            1) {
            unsigned long code = ERR_peek_last_error();

            (void)snprintf(fault->text, sizeof(fault->text),
                           "tlsCertFile: the certificate in %s cannot be used: %s", paths->certs[i],
                           ERR_reason_error_string(code) ? ERR_reason_error_string(code)
                                                         : "OpenSSL refuses it");
            return false;
        }
    }
    return true;
}

static bool load_chains(struct tls_context *context, const struct tls_setup *setup,
                        struct tls_fault *fault)
{
    struct paths *paths = mem_zalloc(1, sizeof(*paths));
    uint32_t certs = tls_split_paths(setup->cert_files, paths->certs);
    uint32_t keys = tls_split_paths(setup->key_files, paths->keys);
    bool done = false;

    if (certs == 0 || certs > TLS_CHAINS_MAX || certs != keys) {
        (void)snprintf(fault->text, sizeof(fault->text),
                       "tlsCertFile: give 1 to %d paths, and in tlsKeyFile the path of the key of "
                       "each certificate, in the same order",
                       TLS_CHAINS_MAX);
    } else {
        done = load_pairs(context, paths, certs, fault);
    }
    mem_free(paths);
    return done;
}

/* A ticket is valid only under the settings that its client was checked by: a change of the CAs,
 * the revocation lists or the demand makes old tickets useless. */
static void bind_sessions(SSL_CTX *ctx, const struct tls_trust *trust, enum tls_clients clients)
{
    uint8_t bound[sizeof(trust->digest) + 1];

    memcpy(bound, trust->digest, sizeof(trust->digest));
    bound[sizeof(trust->digest)] = (uint8_t)clients;

    uint8_t digest[CRYPTO_SHA256_LEN];

    crypto_sha256(slice_make(bound, sizeof(bound)), digest);
    ASSERT(SSL_CTX_set_session_id_context(ctx, digest, sizeof(digest)) == 1);
}

static bool load_trust(struct tls_context *context, const struct tls_setup *setup,
                       struct tls_fault *fault)
{
    struct tls_trust trust = {.store = NULL};
    bool required = setup->clients == TLS_CLIENTS_REQUIRED;

    if (setup->clients != TLS_CLIENTS_OFF) {
        if (!tls_trust_load(&trust, setup->ca_file, setup->crl_file, fault)) {
            return false;
        }
        context->ends.ca_ms = trust.ca_expires_ms;
        context->ends.crl_ms = trust.crl_expires_ms;
        SSL_CTX_set_cert_store(context->ctx, trust.store); /* Takes it over. */
        SSL_CTX_set_client_CA_list(context->ctx, trust.names);
        SSL_CTX_set_verify(
            context->ctx, SSL_VERIFY_PEER | (required ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0), NULL);
        SSL_CTX_set_verify_depth(context->ctx, CLIENT_DEPTH_MAX);
        SSL_CTX_set_max_cert_list(context->ctx, CLIENT_CHAIN_MAX);
    }
    bind_sessions(context->ctx, &trust, setup->clients);
    return true;
}

static SSL_CTX *make_ctx(struct tls_tickets *tickets)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());

    ASSERT(ctx);
    SSL_CTX_set_security_level(ctx, SECURITY_LEVEL);
    ASSERT(SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1);
    ASSERT(SSL_CTX_set_cipher_list(ctx, ciphers_1_2) == 1);
    ASSERT(SSL_CTX_set_ciphersuites(ctx, ciphers_1_3) == 1);
    ASSERT(SSL_CTX_set1_groups_list(ctx, groups) == 1);
    (void)SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                       SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
    (void)SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
    ASSERT(SSL_CTX_set_max_early_data(ctx, 0) == 1);
    (void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_alpn_select_cb(ctx, on_protocols, NULL);
    tls_tickets_use(tickets, ctx);
    return ctx;
}

static void context_free(struct tls_context *context)
{
    SSL_CTX_free(context->ctx);
    for (uint32_t i = 0; i < TLS_CHAINS_MAX; i++) {
        tls_chain_release(&context->chains[i]);
    }
    mem_free(context);
}

struct tls_context *tls_context_new(const struct tls_setup *setup, struct tls_tickets *tickets,
                                    struct tls_fault *ret_fault)
{
    struct tls_context *context = mem_zalloc(1, sizeof(*context));

    ret_fault->text[0] = '\0';
    context->ctx = make_ctx(tickets);
    context->identity = setup->identity;
    context->ends = (struct tls_ends){INT64_MAX, INT64_MAX, INT64_MAX};
    atomic_init(&context->refs, 1);
    ERR_clear_error();

    bool done = load_chains(context, setup, ret_fault) && load_trust(context, setup, ret_fault);

    ERR_clear_error();
    if (!done) {
        context_free(context);
        return NULL;
    }
    if (context->chain_count > 1) {
        SSL_CTX_set_cert_cb(context->ctx, on_certificate, context);
    }
    return context;
}

struct tls_context *tls_context_ref(struct tls_context *context)
{
    atomic_fetch_add(&context->refs, 1);
    return context;
}

void tls_context_unref(struct tls_context *context)
{
    if (context && atomic_fetch_sub(&context->refs, 1) == 1) {
        context_free(context);
    }
}

struct tls_ends tls_context_ends(const struct tls_context *context)
{
    return context->ends;
}

enum tls_identity_kind tls_context_identity(const struct tls_context *context)
{
    return context->identity;
}

struct ssl_st *tls_context_connection(struct tls_context *context)
{
    SSL *ssl = SSL_new(context->ctx);

    ASSERT(ssl);
    SSL_set_accept_state(ssl);
    return ssl;
}
