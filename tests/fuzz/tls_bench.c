#include "tests/fuzz/tls_bench.h"

#include "base/check.h"
#include "base/os_clock.h"

#include <string.h>

enum {
    STEPS_MAX = 64
};

static struct {
    struct cert_kit certs;
    struct tls_tickets tickets;
    struct tls_context *context;
    SSL_CTX *clients; /* Of all clients: making one costs as much as a handshake. */
} bench;

/* Not removed by a fuzzer that is ended by a signal. */
static void open_bench(void)
{
    static const struct cert_kit_spec server = {
        .kind = ISSUE_SERVER, .common = "server", .names = CERT_KIT_LOCAL};
    char cert[CERT_KIT_PATH_MAX];
    char key[CERT_KIT_PATH_MAX];
    struct tls_setup setup = {.cert_files = cert, .key_files = key, .crl_file = ""};
    struct tls_fault fault;

    cert_kit_open(&bench.certs);
    cert_kit_add(&bench.certs, "server", &server);
    (void)cert_kit_path(&bench.certs, "server.pem", cert);
    (void)cert_kit_path(&bench.certs, "server.key", key);
    tls_tickets_init(&bench.tickets, os_now_ms());
    bench.context = tls_context_new(&setup, &bench.tickets, &fault);
    ASSERT(bench.context);
}

__attribute__((destructor)) static void close_bench(void)
{
    if (bench.context) {
        tls_context_unref(bench.context);
        SSL_CTX_free(bench.clients);
        tls_tickets_release(&bench.tickets);
        cert_kit_close(&bench.certs);
    }
}

struct tls_context *tls_bench_context(void)
{
    if (!bench.context) {
        open_bench();
    }
    return bench.context;
}

void tls_bench_dial(struct tls_peer *peer, int fd)
{
    const struct tls_peer_setup setup = {.ctx = bench.clients};

    tls_peer_open(peer, &bench.certs, &setup, fd);
    if (!bench.clients) {
        bench.clients = peer->ctx;
        ASSERT(SSL_CTX_up_ref(peer->ctx) == 1);
    }
}

enum tls_step tls_bench_step(struct tls_socket *socket)
{
    enum tls_failure failure = TLS_NONE;
    char detail[TLS_DETAIL_MAX];
    enum tls_step result = tls_socket_shake(socket, &failure, detail);

    ASSERT((result == TLS_STEP_FAILED) == (failure != TLS_NONE));
    ASSERT(failure < TLS_FAILURE_COUNT && strlen(detail) < sizeof(detail));
    return result;
}

void tls_bench_shake(struct tls_socket *socket, struct tls_peer *peer)
{
    enum tls_step result = TLS_STEP_READ;

    for (int i = 0; i < STEPS_MAX && (result != TLS_STEP_DONE || tls_peer_shake(peer) != 1); i++) {
        (void)tls_peer_shake(peer);
        (void)tls_peer_push(peer, SIZE_MAX);
        result = result == TLS_STEP_DONE ? result : tls_bench_step(socket);
        (void)tls_peer_pull(peer, SIZE_MAX);
    }
    ASSERT(result == TLS_STEP_DONE);
}
