/*
 * Bytes of a client before, during and after the handshake of TLS, split anywhere: the handshake
 * waits, succeeds or fails with a reason; after it no damaged byte is delivered, and a failed
 * connection stays failed. The first byte of an input chooses the mode, the second the size of a
 * piece; the rest is sent.
 */
#include "tls/socket.h"

#include "base/mem.h"
#include "base/os_clock.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/tls_peer.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    MODE_HELLO,
    MODE_AFTER, /* The bytes follow a complete handshake. */
    MODES,
    STEPS_MAX = 64,
    ROUND_BYTES = 4096
};

static struct {
    struct cert_kit certs;
    struct tls_tickets tickets;
    struct tls_context *context;
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
        tls_tickets_release(&bench.tickets);
        cert_kit_close(&bench.certs);
    }
}

static enum tls_step step(struct tls_socket *socket)
{
    enum tls_failure failure = TLS_NONE;
    char detail[TLS_DETAIL_MAX];
    enum tls_step result = tls_socket_shake(socket, &failure, detail);

    ASSERT((result == TLS_STEP_FAILED) == (failure != TLS_NONE));
    ASSERT(failure < TLS_FAILURE_COUNT && strlen(detail) < sizeof(detail));
    return result;
}

/* Sends a piece; false when all is sent. */
static bool send_piece(int fd, struct slice *rest, size_t piece)
{
    size_t len = min_size(piece, rest->len);

    if (len == 0) {
        return false;
    }
    ASSERT(send(fd, rest->data, len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len);
    *rest = slice_from(*rest, len);
    return true;
}

static bool run_hello(struct tls_socket *socket, int far, struct slice rest, size_t piece)
{
    enum tls_step result = TLS_STEP_READ;

    while (result != TLS_STEP_FAILED && result != TLS_STEP_DONE && send_piece(far, &rest, piece)) {
        result = step(socket);
    }
    if (result == TLS_STEP_READ) { /* The end is a failure, too. */
        ASSERT(shutdown(far, SHUT_WR) == 0);
        ASSERT(step(socket) == TLS_STEP_FAILED);
    }
    return result != TLS_STEP_FAILED;
}

static void shake(struct tls_socket *socket, struct tls_peer *peer)
{
    enum tls_step result = TLS_STEP_READ;

    for (int i = 0; i < STEPS_MAX && (result != TLS_STEP_DONE || tls_peer_shake(peer) != 1); i++) {
        (void)tls_peer_shake(peer);
        (void)tls_peer_push(peer, SIZE_MAX);
        result = result == TLS_STEP_DONE ? result : step(socket);
        (void)tls_peer_pull(peer, SIZE_MAX);
    }
    ASSERT(result == TLS_STEP_DONE);
}

/* No key protects the bytes, so none of them may be delivered. */
static bool run_after(struct tls_socket *socket, int far, struct slice rest, size_t piece)
{
    uint8_t bytes[ROUND_BYTES];
    ssize_t got = -1;

    errno = EAGAIN;
    while (got < 0 && errno == EAGAIN && send_piece(far, &rest, piece)) {
        got = tls_socket_recv(socket, bytes, sizeof(bytes), 0);
        ASSERT(got < 0 && (errno == EAGAIN || errno == ECONNRESET));
    }
    bool open = errno == EAGAIN;

    got = tls_socket_recv(socket, bytes, sizeof(bytes), 0);
    ASSERT(got < 0 && (errno == EAGAIN) == open);
    return open;
}

static bool fuzz_one(struct slice input)
{
    static const struct tls_peer_setup setup = {.name = NULL};
    size_t piece = input.len > 1 && input.data[1] > 0 ? input.data[1] : FUZZ_INPUT_MAX;
    struct tls_socket *socket = NULL;
    bool accepted = false;
    int ends[2];

    if (input.len < 2) {
        return false;
    }
    if (!bench.context) {
        open_bench();
    }
    ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    socket = tls_socket_new(bench.context, ends[0]);
    if (input.data[0] % MODES == MODE_HELLO) {
        accepted = run_hello(socket, ends[1], slice_from(input, 2), piece);
    } else {
        struct tls_peer peer;

        tls_peer_open(&peer, &bench.certs, &setup, ends[1]);
        shake(socket, &peer);
        accepted = run_after(socket, ends[1], slice_from(input, 2), piece);
        tls_peer_close(&peer);
    }
    tls_socket_free(socket);
    close(ends[0]);
    close(ends[1]);
    return accepted;
}

/* ---- Seeds: hellos of clients ---- */

static void put_16(struct buf *out, size_t value)
{
    (void)buf_append_byte(out, (uint8_t)(value >> 8));
    (void)buf_append_byte(out, (uint8_t)value);
}

static void put_extension(struct buf *out, uint16_t type, const void *data, size_t len)
{
    put_16(out, type);
    put_16(out, len);
    (void)buf_append(out, data, len);
}

static void put_extensions(struct buf *out, bool tls_1_3)
{
    static const char name[] = "\0\x0c\0\0\x09localhost";
    static const char groups[] = "\0\4\0\x1d\0\x17";
    static const char algorithms[] = "\0\4\4\3\x08\7";
    static const char protocols[] = "\0\x0c\2h2\x08http/1.1";
    static const char versions[] = "\2\3\4";
    uint8_t share[38] = {0, 36, 0, 0x1d, 0, 32};

    memset(share + 6, 9, 32);
    put_extension(out, 0, name, sizeof(name) - 1);
    put_extension(out, 10, groups, sizeof(groups) - 1);
    put_extension(out, 13, algorithms, sizeof(algorithms) - 1);
    put_extension(out, 16, protocols, sizeof(protocols) - 1);
    if (tls_1_3) {
        put_extension(out, 43, versions, sizeof(versions) - 1);
        put_extension(out, 51, share, sizeof(share));
    }
}

static void put_hello(struct buf *out, bool tls_1_3)
{
    static const uint8_t suites[] = {0, 4, 0x13, 1, 0xc0, 0x2b};
    struct buf body;
    struct buf extensions;

    buf_init(&body, FUZZ_INPUT_MAX);
    buf_init(&extensions, FUZZ_INPUT_MAX);
    put_extensions(&extensions, tls_1_3);
    put_16(&body, 0x0303);
    for (int i = 0; i < 32; i++) {
        (void)buf_append_byte(&body, (uint8_t)(i * 7));
    }
    (void)buf_append_byte(&body, 0);
    (void)buf_append(&body, suites, sizeof(suites));
    put_16(&body, 0x0100);
    put_16(&body, extensions.len);
    (void)buf_append_slice(&body, buf_slice(&extensions));
    (void)buf_append_byte(out, 0x16);
    put_16(out, 0x0301);
    put_16(out, body.len + 4);
    put_16(out, 0x0100);
    put_16(out, body.len);
    (void)buf_append_slice(out, buf_slice(&body));
    buf_release(&body);
    buf_release(&extensions);
}

static void seed_hello(struct fuzz_sink *sink, const char *name, uint8_t piece, bool tls_1_3)
{
    struct buf out;

    buf_init(&out, FUZZ_INPUT_MAX);
    (void)buf_append_byte(&out, MODE_HELLO);
    (void)buf_append_byte(&out, piece);
    put_hello(&out, tls_1_3);
    fuzz_seed(sink, name, buf_slice(&out));
    buf_release(&out);
}

static void fuzz_seeds(struct fuzz_sink *sink)
{
    static const uint8_t part[] = {MODE_AFTER, 2, 0x17, 3, 3, 0, 40, 1, 2, 3};
    static const uint8_t empty[] = {MODE_AFTER, 0};

    seed_hello(sink, "tls-1.2", 0, false);
    seed_hello(sink, "tls-1.3", 0, true);
    seed_hello(sink, "tls-1.3-split", 1, true);
    fuzz_seed(sink, "part-of-a-record", slice_make(part, sizeof(part)));
    fuzz_seed(sink, "nothing-after", slice_make(empty, sizeof(empty)));
}

FUZZ_TARGET(tls_hello)
