/*
 * Bytes of a client before, during and after the handshake of TLS, split anywhere: the handshake
 * waits, succeeds or fails with a reason; after it no damaged byte is delivered, and a failed
 * connection stays failed. The first byte of an input chooses the mode, the second the size of a
 * piece; the rest is sent.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/tls_bench.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    MODE_HELLO,
    MODE_AFTER, /* The bytes follow a complete handshake. */
    MODES,
    ROUND_BYTES = 4096
};

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
        result = tls_bench_step(socket);
    }
    if (result == TLS_STEP_READ) { /* The end is a failure, too. */
        ASSERT(shutdown(far, SHUT_WR) == 0);
        ASSERT(tls_bench_step(socket) == TLS_STEP_FAILED);
    }
    return result != TLS_STEP_FAILED;
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
    size_t piece = input.len > 1 && input.data[1] > 0 ? input.data[1] : FUZZ_INPUT_MAX;
    struct tls_socket *socket = NULL;
    bool accepted = false;
    int ends[2];

    if (input.len < 2) {
        return false;
    }
    ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    socket = tls_socket_new(tls_bench_context(), ends[0]);
    if (input.data[0] % MODES == MODE_HELLO) {
        accepted = run_hello(socket, ends[1], slice_from(input, 2), piece);
    } else {
        struct tls_peer peer;

        tls_bench_dial(&peer, ends[1]);
        tls_bench_shake(socket, &peer);
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
