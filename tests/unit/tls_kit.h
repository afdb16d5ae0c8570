/* tls_kit.h - a connection with TLS for the tests: the server's end attached, the client by hand.
 */
#ifndef TESTS_UNIT_TLS_KIT_H
#define TESTS_UNIT_TLS_KIT_H

#include "tls/calls.h"
#include "tls/current.h"
#include "tls/socket.h"

#include "base/mem.h"
#include "base/os_clock.h"
#include "tests/lib/tls_peer.h"
#include "tests/lib/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    TLS_KIT_STEPS_MAX = 10000
};

struct tls_kit {
    struct cert_kit certs;
    struct tls_setup setup;
    char cert_files[1024];
    char key_files[1024];
    char ca_file[CERT_KIT_PATH_MAX];
    char crl_file[CERT_KIT_PATH_MAX];
    struct tls_current *current;
    struct tls_peer peer;
    int fd; /* The server's end. */
    int far;
    struct tls_socket *socket;
    enum tls_failure failure;
    enum tls_failure broken; /* Reported after the handshake. */
    char detail[TLS_DETAIL_MAX];
    struct buf got; /* What the client has decrypted. */
};

/* A CA and a server's certificate; clients' certificates are not asked for. */
static inline void tls_kit_open(struct tls_kit *kit)
{
    static const struct cert_kit_spec server = {
        .kind = ISSUE_SERVER, .common = "server", .names = CERT_KIT_LOCAL};

    cert_kit_open(&kit->certs);
    cert_kit_add(&kit->certs, "server", &server);
    (void)cert_kit_path(&kit->certs, "server.pem", kit->cert_files);
    (void)cert_kit_path(&kit->certs, "server.key", kit->key_files);
    (void)cert_kit_path(&kit->certs, "ca.pem", kit->ca_file);
    kit->setup = (struct tls_setup){.cert_files = kit->cert_files,
                                    .key_files = kit->key_files,
                                    .ca_file = kit->ca_file,
                                    .crl_file = kit->crl_file};
    kit->fd = -1;
    kit->far = -1;
    buf_init(&kit->got, 64 << 20);
}

static inline void tls_kit_start(struct tls_kit *kit)
{
    struct tls_fault fault = {.text = ""};

    tls_calls_check();
    if (!kit->current && tls_current_open(&kit->setup, &kit->current, &fault) != ERR_OK) {
        fail_msg("%s", fault.text);
    }
}

static inline void tls_kit_hang_up(struct tls_kit *kit)
{
    if (kit->fd >= 0) {
        if (kit->socket && tls_socket_of(kit->fd) != kit->socket) {
            tls_socket_free(kit->socket);
        }
        close(kit->fd);
        kit->fd = -1;
    }
    if (kit->far >= 0) {
        tls_peer_close(&kit->peer);
        close(kit->far);
        kit->far = -1;
    }
    kit->socket = NULL;
    buf_clear(&kit->got);
}

static inline void tls_kit_close(struct tls_kit *kit)
{
    tls_kit_hang_up(kit);
    tls_current_close(kit->current);
    cert_kit_close(&kit->certs);
    buf_release(&kit->got);
}

/* A pair of connected sockets, and the client; no byte has moved. */
static inline void tls_kit_dial(struct tls_kit *kit, const struct tls_peer_setup *setup)
{
    static const struct tls_peer_setup plain = {.name = NULL};
    struct tls_context *context = NULL;
    int ends[2];

    tls_kit_start(kit);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    kit->fd = ends[0];
    kit->far = ends[1];
    context = tls_current_get(kit->current);
    kit->socket = tls_socket_new(context, kit->fd);
    tls_context_unref(context);
    tls_peer_open(&kit->peer, &kit->certs, setup ? setup : &plain, kit->far);
}

static inline enum tls_step tls_kit_step(struct tls_kit *kit)
{
    return tls_socket_shake(kit->socket, &kit->failure, kit->detail);
}

static inline void tls_kit_on_broken(void *ctx, const struct tls_socket_peer *peer,
                                     enum tls_failure failure, const char *detail)
{
    struct tls_kit *kit = ctx;

    (void)snprintf(kit->detail, sizeof(kit->detail), "%s", detail);

    assert_int_equal(peer->address.any.sa_family, AF_UNIX);
    kit->broken = failure;
}

/* Runs the handshake to its end; true: both sides are content, and the descriptor is attached. */
static inline bool tls_kit_shake(struct tls_kit *kit)
{
    enum tls_step step = TLS_STEP_READ;
    int peer = 0;

    for (int i = 0; i < TLS_KIT_STEPS_MAX; i++) {
        peer = peer >= 0 ? tls_peer_shake(&kit->peer) : peer;
        (void)tls_peer_push(&kit->peer, SIZE_MAX);
        if (step == TLS_STEP_READ || step == TLS_STEP_WRITE) {
            step = tls_kit_step(kit);
        }
        if (step == TLS_STEP_FAILED) {
            (void)tls_peer_pull(&kit->peer, SIZE_MAX);
            return false;
        }
        if (tls_peer_pull(&kit->peer, SIZE_MAX) == 0 && step == TLS_STEP_DONE && peer != 0) {
            break;
        }
    }
    assert_int_equal(step, TLS_STEP_DONE);
    tls_socket_report(kit->socket, &(struct tls_socket_peer){.broke = tls_kit_on_broken,
                                                             .ctx = kit,
                                                             .address.any.sa_family = AF_UNIX});
    tls_socket_attach(kit->socket);
    return peer == 1;
}

static inline void tls_kit_connect(struct tls_kit *kit, const struct tls_peer_setup *setup)
{
    tls_kit_dial(kit, setup);
    if (!tls_kit_shake(kit)) {
        fail_msg("no handshake: %s (%s)", tls_failure_text(kit->failure), kit->detail);
    }
}

/* Sends from the server through send(), and returns what the client has decrypted so far. */
static inline struct slice tls_kit_hear(struct tls_kit *kit)
{
    (void)tls_peer_receive(&kit->peer, &kit->got);
    return buf_slice(&kit->got);
}

/* A client's certificate, with each kind of name that may be its identity. */
static inline void tls_kit_add_client(struct tls_kit *kit, const char *name,
                                      enum cert_kit_life life)
{
    const struct cert_kit_spec spec = {.kind = ISSUE_CLIENT,
                                       .common = name,
                                       .names = "bob.example,bob@example.com",
                                       .uri = "zabra://clients/bob",
                                       .life = life};

    cert_kit_add(&kit->certs, name, &spec);
}

/* As tls_kit_open; certificates of clients are asked for, and "bob" has one. */
static inline void tls_kit_ask(struct tls_kit *kit)
{
    tls_kit_open(kit);
    kit->setup.clients = TLS_CLIENTS_ASK;
    tls_kit_add_client(kit, "bob", CERT_KIT_VALID);
}

/* The handshake fails for this reason, and the client learns of it by an alert. */
static inline void tls_kit_refuses(struct tls_kit *kit, const struct tls_peer_setup *setup,
                                   enum tls_failure failure)
{
    tls_kit_dial(kit, setup);
    if (tls_kit_shake(kit)) {
        fail_msg("the handshake has succeeded");
    }
    if (kit->failure != failure) {
        fail_msg("not %s, but %s (%s)", tls_failure_label(failure), tls_failure_label(kit->failure),
                 kit->detail);
    }
    assert_int_equal(tls_peer_shake(&kit->peer), -1);
    tls_kit_hang_up(kit);
}

/* Bytes that show where each of them belongs. */
static inline uint8_t *tls_kit_pattern(size_t len)
{
    uint8_t *bytes = mem_alloc(len);

    for (size_t i = 0; i < len; i++) {
        bytes[i] = (uint8_t)(i * 31 + (i >> 8));
    }
    return bytes;
}

static inline void tls_kit_hears(struct tls_kit *kit, const void *data, size_t len)
{
    struct slice got = tls_kit_hear(kit);

    assert_int_equal(got.len, len);
    assert_memory_equal(got.data, data, len);
}

/* The subject of the certificate that the client has got. */
static inline const char *tls_kit_subject(const struct tls_kit *kit, char text[TLS_IDENTITY_MAX])
{
    X509 *cert = SSL_get0_peer_certificate(kit->peer.ssl);

    assert_non_null(cert);
    assert_true(tls_identity_of(cert, TLS_SUBJECT, text));
    return text;
}

#endif
