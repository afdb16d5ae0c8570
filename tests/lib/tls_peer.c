#include "tests/lib/tls_peer.h"

#include "base/check.h"

#include <openssl/err.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum {
    CHUNK = 4096
};

static int on_session(SSL *ssl, SSL_SESSION *session)
{
    struct tls_peer *peer = SSL_get_app_data(ssl);

    SSL_SESSION_free(peer->session);
    peer->session = session;
    return 1; /* The session is ours. */
}

static uint8_t hex_value(char digit)
{
    return (uint8_t)(digit <= '9' ? digit - '0' : digit - 'a' + 10);
}

/* Called with each secret of the handshake, as a line of text. */
static void on_secret(const SSL *ssl, const char *line)
{
    static const char name[] = "CLIENT_TRAFFIC_SECRET_0 ";
    struct tls_peer *peer = SSL_get_app_data(ssl);
    struct tls_peer_secret *secret = &peer->secret;
    const char *hex = strrchr(line, ' ') + 1;

    if (strncmp(line, name, sizeof(name) - 1) == 0) {
        secret->len = strlen(hex) / 2;
        ASSERT(secret->len <= sizeof(secret->bytes));
        for (size_t i = 0; i < secret->len; i++) {
            secret->bytes[i] = (uint8_t)(hex_value(hex[2 * i]) << 4 | hex_value(hex[2 * i + 1]));
        }
    }
}

static void use_certificate(struct tls_peer *peer, const struct cert_kit *kit, const char *name)
{
    char file[CERT_KIT_PATH_MAX];

    (void)snprintf(file, sizeof(file), "%s.pem", name);
    ASSERT(SSL_CTX_use_certificate_chain_file(peer->ctx, CERT_KIT_PATH(kit, file)) == 1);
    (void)snprintf(file, sizeof(file), "%s.key", name);
    ASSERT(SSL_CTX_use_PrivateKey_file(peer->ctx, CERT_KIT_PATH(kit, file), SSL_FILETYPE_PEM) == 1);
}

static void make_ctx(struct tls_peer *peer, const struct cert_kit *kit,
                     const struct tls_peer_setup *setup)
{
    peer->ctx = SSL_CTX_new(TLS_client_method());
    ASSERT(peer->ctx);
    SSL_CTX_set_security_level(peer->ctx, 0); /* The server has to refuse, not the client. */
    if (setup->version) {
        ASSERT(SSL_CTX_set_min_proto_version(peer->ctx, setup->version) == 1);
        ASSERT(SSL_CTX_set_max_proto_version(peer->ctx, setup->version) == 1);
    }
    if (setup->ciphers) {
        ASSERT(SSL_CTX_set_cipher_list(peer->ctx, setup->ciphers) == 1);
    }
    if (setup->cert) {
        use_certificate(peer, kit, setup->cert);
    }
    ASSERT(SSL_CTX_load_verify_file(peer->ctx, CERT_KIT_PATH(kit, "ca.pem")) == 1);
    SSL_CTX_set_verify(peer->ctx, SSL_VERIFY_PEER, NULL);
    (void)SSL_CTX_set_session_cache_mode(peer->ctx,
                                         SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(peer->ctx, on_session);
    SSL_CTX_set_keylog_callback(peer->ctx, on_secret);
}

void tls_peer_open(struct tls_peer *peer, const struct cert_kit *kit,
                   const struct tls_peer_setup *setup, int fd)
{
    const char *name = setup->name ? setup->name : "localhost";
    char sni[ISSUE_NAME_MAX + 1]; /* The macro wants it writable. */

    *peer = (struct tls_peer){.fd = fd};
    if (setup->ctx) {
        peer->ctx = setup->ctx;
        ASSERT(SSL_CTX_up_ref(peer->ctx) == 1);
    } else {
        make_ctx(peer, kit, setup);
    }
    peer->ssl = SSL_new(peer->ctx);
    peer->in = BIO_new(BIO_s_mem());
    peer->out = BIO_new(BIO_s_mem());
    ASSERT(peer->ssl && peer->in && peer->out);
    BIO_set_mem_eof_return(peer->in, -1);
    SSL_set_bio(peer->ssl, peer->in, peer->out);
    ASSERT(SSL_set_app_data(peer->ssl, peer) == 1);
    (void)snprintf(sni, sizeof(sni), "%s", name);
    ASSERT(SSL_set_tlsext_host_name(peer->ssl, sni) == 1);
    ASSERT(SSL_set1_host(peer->ssl, name) == 1);
    if (setup->protocols) {
        const unsigned char *list = (const unsigned char *)setup->protocols;

        ASSERT(SSL_set_alpn_protos(peer->ssl, list, (unsigned)strlen(setup->protocols)) == 0);
    }
    if (setup->session) {
        ASSERT(SSL_set_session(peer->ssl, setup->session) == 1);
    }
    SSL_set_connect_state(peer->ssl);
}

void tls_peer_close(struct tls_peer *peer)
{
    SSL_SESSION_free(peer->session);
    /* Without an end in order OpenSSL would not resume the session. */
    SSL_set_shutdown(peer->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    SSL_free(peer->ssl);
    SSL_CTX_free(peer->ctx);
}

size_t tls_peer_push(struct tls_peer *peer, size_t most)
{
    char *data = NULL;
    long len = BIO_get_mem_data(peer->out, &data);
    size_t part = min_size((size_t)len, most);
    ssize_t sent = part > 0 ? send(peer->fd, data, part, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
    char trash[CHUNK];

    for (ssize_t left = sent; left > 0;) {
        left -= BIO_read(peer->out, trash, left < CHUNK ? (int)left : CHUNK);
    }
    return sent > 0 ? (size_t)sent : 0;
}

size_t tls_peer_pull(struct tls_peer *peer, size_t most)
{
    char bytes[CHUNK];
    size_t done = 0;
    ssize_t got = 1;

    while (done < most && got > 0) {
        got = recv(peer->fd, bytes, min_size(sizeof(bytes), most - done), MSG_DONTWAIT);
        if (got > 0) {
            ASSERT(BIO_write(peer->in, bytes, (int)got) == got);
            done += (size_t)got;
        }
    }
    return done;
}

int tls_peer_shake(struct tls_peer *peer)
{
    int result = 0;

    ERR_clear_error();
    result = SSL_do_handshake(peer->ssl);
    if (result == 1) {
        return 1;
    }
    return SSL_get_error(peer->ssl, result) == SSL_ERROR_WANT_READ ? 0 : -1;
}

void tls_peer_send(struct tls_peer *peer, const void *data, size_t len)
{
    ASSERT(SSL_write(peer->ssl, data, (int)len) == (int)len);
    (void)tls_peer_push(peer, SIZE_MAX);
}

int tls_peer_receive(struct tls_peer *peer, struct buf *out)
{
    char bytes[CHUNK];
    int got = 1;

    (void)tls_peer_pull(peer, SIZE_MAX);
    ERR_clear_error();
    while ((got = SSL_read(peer->ssl, bytes, sizeof(bytes))) > 0) {
        ASSERT(buf_append(out, bytes, (size_t)got));
    }
    return SSL_get_error(peer->ssl, got);
}
