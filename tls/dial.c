/* The client side of TLS; the rules are in dial.h. */
#include "tls/dial.h"

#include "tls/socket_int.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <stdio.h>
#include <string.h>

enum {
    SECURITY_LEVEL = 2,
    CERT_LIST_BYTES_MAX = 64 << 10
};

struct tls_dial {
    SSL_CTX *ctx;
};

/* Returns NULL, with OpenSSL's words about the file. */
static struct tls_dial *refuse(struct tls_dial *dial, const char *what, const char *file,
                               char ret_error[TLS_DIAL_ERROR_MAX])
{
    unsigned long fault = ERR_peek_error(); /* The first one: a file that cannot be read. */
    const char *reason = ERR_SYSTEM_ERROR(fault) ? strerrordesc_np(ERR_GET_REASON(fault))
                                                 : ERR_reason_error_string(fault);

    (void)snprintf(ret_error, TLS_DIAL_ERROR_MAX, "%s: %s: %s", what, file,
                   reason ? reason : "it cannot be used");
    ERR_clear_error();
    tls_dial_free(dial);
    return NULL;
}

struct tls_dial *tls_dial_new(const char *ca_file, const char *cert_file, const char *key_file,
                              char ret_error[TLS_DIAL_ERROR_MAX])
{
    struct tls_dial *dial = mem_zalloc(1, sizeof(*dial));

    ASSERT(!cert_file == !key_file);
    ERR_clear_error();
    dial->ctx = SSL_CTX_new(TLS_client_method());
    ASSERT(dial->ctx);
    ASSERT(SSL_CTX_set_min_proto_version(dial->ctx, TLS1_2_VERSION) == 1);
    SSL_CTX_set_security_level(dial->ctx, SECURITY_LEVEL);
    SSL_CTX_set_max_cert_list(dial->ctx, CERT_LIST_BYTES_MAX);
    (void)SSL_CTX_set_session_cache_mode(dial->ctx, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_options(dial->ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_verify(dial->ctx, SSL_VERIFY_PEER, NULL);
    if (SSL_CTX_load_verify_file(dial->ctx, ca_file) != 1) {
        return refuse(dial, "the CA", ca_file, ret_error);
    }
    if (cert_file && SSL_CTX_use_certificate_chain_file(dial->ctx, cert_file) != 1) {
        return refuse(dial, "the certificate", cert_file, ret_error);
    }
    if (key_file && SSL_CTX_use_PrivateKey_file(dial->ctx, key_file, SSL_FILETYPE_PEM) != 1) {
        return refuse(dial, "the key", key_file, ret_error);
    }
    return dial;
}

void tls_dial_free(struct tls_dial *dial)
{
    if (dial) {
        SSL_CTX_free(dial->ctx);
        mem_free(dial);
    }
}

bool tls_dial_proves(const struct tls_dial *dial)
{
    return SSL_CTX_get0_certificate(dial->ctx) != NULL;
}

struct tls_socket *tls_dial_socket(const struct tls_dial *dial, int fd, const char *host)
{
    SSL *ssl = SSL_new(dial->ctx);

    ASSERT(ssl);
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) != 1) { /* No address: a name. */
        char name[TLSEXT_MAXLEN_host_name + 1]; /* The macro wants it writable. */

        (void)snprintf(name, sizeof(name), "%s", host);
        (void)SSL_set_tlsext_host_name(ssl, name);
        ASSERT(SSL_set1_host(ssl, host) == 1);
    }
    SSL_set_connect_state(ssl);
    return tls_socket_wrap(ssl, fd);
}

enum tls_step tls_dial_shake(struct tls_socket *socket, char ret_why[TLS_DIAL_ERROR_MAX])
{
    enum tls_failure failure = TLS_NONE;
    char detail[TLS_DETAIL_MAX];
    enum tls_step step = tls_socket_shake(socket, &failure, detail);
    long verdict = SSL_get_verify_result(socket->ssl);

    if (step != TLS_STEP_FAILED) {
        return step;
    }
    if (verdict != X509_V_OK) {
        (void)snprintf(ret_why, TLS_DIAL_ERROR_MAX, "the certificate of the server: %s",
                       X509_verify_cert_error_string(verdict));
    } else if (failure == TLS_TRUNCATED) {
        (void)snprintf(ret_why, TLS_DIAL_ERROR_MAX,
                       "the server closed the connection in the handshake: is this its port for "
                       "TLS?");
    } else {
        (void)snprintf(ret_why, TLS_DIAL_ERROR_MAX, "the handshake failed: %s",
                       *detail ? detail : tls_failure_label(failure));
    }
    return step;
}
