/* http_sealed.h - a front end with TLS, and a client that speaks it. Include after http_front.h. */
#ifndef TESTS_UNIT_HTTP_SEALED_H
#define TESTS_UNIT_HTTP_SEALED_H

#include "tests/lib/tls_peer.h"
#include "tests/unit/http_front.h"

#include <fcntl.h>

static struct cert_kit certs;

/* Certificates, and limits that use them. */
static inline void sealed_limits(struct config_clients *limits, enum config_client_tls mode)
{
    static const struct cert_kit_spec server = {
        .kind = ISSUE_SERVER, .common = "server", .names = CERT_KIT_LOCAL};

    cert_kit_open(&certs);
    cert_kit_add(&certs, "server", &server);
    limits->tls = (struct config_tls){.mode = mode, .handshakes_max = 64};
    (void)cert_kit_path(&certs, "server.pem", limits->tls.cert_files);
    (void)cert_kit_path(&certs, "server.key", limits->tls.key_files);
}

static inline void sealed_teardown(void)
{
    front_teardown();
    cert_kit_close(&certs);
}

struct sealed {
    int fd;
    struct tls_peer peer;
    struct buf got;
    int end; /* SSL_ERROR_WANT_READ: the connection is open. */
};

static inline void sealed_wait(const struct sealed *sealed)
{
    struct pollfd wait = {.fd = sealed->fd, .events = POLLIN};

    assert_int_equal(poll(&wait, 1, KIT_DEADLINE_MS), 1);
}

/* Connects with a certificate of the kit (NULL: none); no byte of TLS has been sent. */
static inline void sealed_dial_as(struct sealed *sealed, const char *cert)
{
    const struct tls_peer_setup setup = {.cert = cert};

    *sealed = (struct sealed){.fd = kit_connect(port), .end = SSL_ERROR_WANT_READ};
    assert_int_equal(fcntl(sealed->fd, F_SETFL, O_NONBLOCK), 0);
    buf_init(&sealed->got, KIT_ANSWER_MAX);
    tls_peer_open(&sealed->peer, &certs, &setup, sealed->fd);
}

static inline void sealed_dial(struct sealed *sealed)
{
    sealed_dial_as(sealed, NULL);
}

static inline void sealed_open_as(struct sealed *sealed, const char *cert)
{
    sealed_dial_as(sealed, cert);
    while (tls_peer_shake(&sealed->peer) == 0) {
        (void)tls_peer_push(&sealed->peer, SIZE_MAX);
        sealed_wait(sealed);
        assert_true(tls_peer_pull(&sealed->peer, SIZE_MAX) > 0);
    }
    assert_int_equal(tls_peer_shake(&sealed->peer), 1);
    (void)tls_peer_push(&sealed->peer, SIZE_MAX);
}

static inline void sealed_open(struct sealed *sealed)
{
    sealed_open_as(sealed, NULL);
}

static inline void sealed_close(struct sealed *sealed)
{
    tls_peer_close(&sealed->peer);
    close(sealed->fd);
    buf_release(&sealed->got);
}

static inline void sealed_send(struct sealed *sealed, const void *data, size_t len)
{
    const uint8_t *at = data;

    for (size_t part = 0; len > 0; at += part, len -= part) {
        part = min_size(len, 16384);
        assert_int_equal(SSL_write(sealed->peer.ssl, at, (int)part), part);
        while (BIO_pending(sealed->peer.out) > 0) {
            struct pollfd wait = {.fd = sealed->fd, .events = POLLOUT};

            assert_int_equal(poll(&wait, 1, KIT_DEADLINE_MS), 1);
            (void)tls_peer_push(&sealed->peer, SIZE_MAX);
        }
    }
}

static inline void sealed_say(struct sealed *sealed, const char *text)
{
    sealed_send(sealed, text, strlen(text));
}

/* Reads until the bytes contain `text`, or to the end; returns them as a string. */
static inline const char *sealed_hear(struct sealed *sealed, const char *text)
{
    sealed->end = tls_peer_receive(&sealed->peer, &sealed->got);
    while (!strstr(buf_cstr(&sealed->got), text) && sealed->end == SSL_ERROR_WANT_READ) {
        char byte = 0;

        sealed_wait(sealed);
        if (recv(sealed->fd, &byte, 1, MSG_PEEK) <= 0) {
            sealed->end = SSL_ERROR_SYSCALL;
            break;
        }
        sealed->end = tls_peer_receive(&sealed->peer, &sealed->got);
    }
    return buf_cstr(&sealed->got);
}

/* Reads to the end of the connection, which the server has to announce by close_notify. */
static inline const char *sealed_hear_all(struct sealed *sealed)
{
    const char *all = sealed_hear(sealed, "\a no answer has this");

    assert_int_equal(sealed->end, SSL_ERROR_ZERO_RETURN);
    return all;
}

#endif
