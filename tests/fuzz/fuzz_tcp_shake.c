/*
 * Bytes of a caller of the peer port before and during its handshake, split anywhere: in place of a
 * greeting or of TLS, after the first message of an honest dialer, and within TLS in place of the
 * greeting and the HELLO. No caller becomes a peer, nothing is delivered, and when the caller hangs
 * up nothing of it is left. The first byte of an input chooses the mode, the second the size of a
 * piece; the rest is sent.
 */
#include "base/os_clock.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/cert_kit.h"
#include "zab/tcp/tcp_int.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    MODE_BEGIN,  /* The bytes are all that the caller sends. */
    MODE_DURING, /* They follow the first message of TLS of a dialer that knows the secret. */
    MODE_WITHIN, /* They are sent within TLS. */
    MODES,
    STEPS_MAX = 64,
    READ_BYTES = 4096,
    RECORD_ALERT = 0x15
};

#define SECRET "the secret of the ensemble"

static struct {
    struct cert_kit certs;
    struct loop loop;
    struct tcp *tcp;
    struct keys *dialer; /* Those of an honest replica 2. */
} bench;

static void on_up(void *ctx, uint32_t peer, const struct tcp_identity *identity)
{
    (void)ctx;
    (void)peer;
    (void)identity;
    ASSERT(false); /* Nothing is proven. */
}

static void on_down(void *ctx, uint32_t peer, const char *why)
{
    (void)ctx;
    (void)peer;
    (void)why;
    ASSERT(false);
}

static void on_message(void *ctx, uint32_t peer, const struct zab_msg *msg)
{
    (void)ctx;
    (void)peer;
    (void)msg;
    ASSERT(false);
}

static void on_refused(void *ctx, uint32_t peer, const char *why)
{
    (void)ctx;
    ASSERT(peer <= 3 && why[0] && strlen(why) < TCP_WHY_MAX);
}

static struct keys *load(bool with_certificate)
{
    char cert[CERT_KIT_PATH_MAX];
    char key[CERT_KIT_PATH_MAX];
    char ca[CERT_KIT_PATH_MAX];
    char error[KEYS_ERROR_MAX];
    struct keys_options options = {.secrets = {slice_str(SECRET)}, .secret_count = 1};
    struct keys *keys = NULL;

    if (with_certificate) {
        options.cert_file = cert_kit_path(&bench.certs, "peer.pem", cert);
        options.key_file = cert_kit_path(&bench.certs, "peer.key", key);
        options.ca_file = cert_kit_path(&bench.certs, "ca.pem", ca);
    }
    ASSERT(keys_load(&options, &keys, error) == ERR_OK);
    return keys;
}

/* Replica 1, which dials no replica; not closed by a fuzzer that is ended by a signal. */
static void open_bench(void)
{
    static const struct cert_kit_spec spec = {
        .kind = ISSUE_PEER, .common = "replica", .names = "127.0.0.1"};
    static const struct tcp_peer peers[] = {{.id = 2, .host = "127.0.0.1", .port = 1},
                                            {.id = 3, .host = "127.0.0.1", .port = 1}};
    struct tcp_handler handler = {
        .on_up = on_up, .on_down = on_down, .on_refused = on_refused, .on_message = on_message};

    cert_kit_open(&bench.certs);
    cert_kit_add(&bench.certs, "peer", &spec);
    bench.dialer = load(false);

    struct keys *keys = load(true);
    struct tcp_options options = {.id = 1,
                                  .peers = peers,
                                  .peer_count = 2,
                                  .keys = keys,
                                  .tls = KEYS_ACCEPT,
                                  .queue_bytes_max = 1 << 20,
                                  .connect_timeout_ms = 60000,
                                  .retry_min_ms = 1000,
                                  .retry_max_ms = 1000,
                                  .probe_ms = 1000,
                                  .incarnation = 1,
                                  .cluster = {7}};

    loop_init(&bench.loop);
    ASSERT(tcp_open(&bench.loop, &options, &handler, &bench.tcp) == ERR_OK);
    keys_release(keys);
}

__attribute__((destructor)) static void close_bench(void)
{
    if (bench.tcp) {
        tcp_close(bench.tcp);
        loop_release(&bench.loop);
        keys_release(bench.dialer);
        cert_kit_close(&bench.certs);
    }
}

/* ---- One caller. ---- */

struct caller_side {
    int fd;
    struct seal *seal; /* NULL: the bytes are sent as they are. */
    struct buf got;
    bool ended;
};

static void turn(struct caller_side *side)
{
    (void)loop_run_once(&bench.loop, 0);
    tcp_flush(bench.tcp);

    uint8_t *room = buf_reserve(&side->got, READ_BYTES);
    ssize_t got = recv(side->fd, room, READ_BYTES, MSG_DONTWAIT);

    side->got.len += got > 0 ? (size_t)got : 0;
    side->ended |= got == 0 || (got < 0 && errno != EAGAIN);
}

/* Sends the bytes in pieces, a turn after each. */
static void send_all(struct caller_side *side, struct slice bytes, size_t piece)
{
    while (bytes.len > 0 && !side->ended) {
        size_t len = min_size(piece, bytes.len);
        ssize_t sent = send(side->fd, bytes.data, len, MSG_NOSIGNAL | MSG_DONTWAIT);

        ASSERT(sent > 0 || side->ended || errno == EPIPE || errno == ECONNRESET);
        bytes = slice_from(bytes, sent > 0 ? (size_t)sent : bytes.len);
        turn(side);
    }
}

static void send_sealed(struct caller_side *side, size_t piece)
{
    struct slice bytes = seal_pending(side->seal);

    send_all(side, bytes, piece);
    seal_sent(side->seal, bytes.len);
}

static void take(struct caller_side *side)
{
    ASSERT(seal_put(side->seal, buf_slice(&side->got)) == ERR_OK);
    buf_clear(&side->got);
}

/* Begins TLS as replica 2, whose secret replica 1 has; finishes it unless the mode is DURING. */
static void begin_tls(struct caller_side *side, bool finish)
{
    enum err err = ERR_BUSY;

    side->seal =
        seal_open(&(struct seal_options){.keys = bench.dialer, .dials = true, .from = 2, .to = 1});
    ASSERT(seal_shake(side->seal) == ERR_BUSY);
    send_sealed(side, SIZE_MAX);
    for (int i = 0; i < STEPS_MAX && finish && err == ERR_BUSY; i++) {
        take(side);
        err = seal_shake(side->seal);
        send_sealed(side, SIZE_MAX);
    }
    ASSERT(!finish || err == ERR_OK);
}

static void send_within(struct caller_side *side, struct slice bytes, size_t piece)
{
    while (bytes.len > 0 && !side->ended) {
        size_t taken = seal_write(side->seal, slice_make(bytes.data, min_size(piece, bytes.len)));

        ASSERT(taken > 0);
        bytes = slice_from(bytes, taken);
        send_sealed(side, SIZE_MAX);
    }
}

/* Whether the caller got more than an alert or nothing. */
static bool was_answered(struct caller_side *side)
{
    if (side->seal && side->got.len > 0) {
        struct buf plain;
        bool answered = false;

        buf_init(&plain, 1 << 20);
        take(side);
        (void)seal_read(side->seal, &plain);
        answered = plain.len > 0;
        buf_release(&plain);
        return answered;
    }
    return side->got.len > 0 && side->got.data[0] != RECORD_ALERT;
}

/* The caller hangs up: nothing of it is left. */
static void hang_up(struct caller_side *side)
{
    ASSERT(shutdown(side->fd, SHUT_WR) == 0 || side->ended);
    for (int i = 0; i < STEPS_MAX && !side->ended; i++) {
        turn(side);
    }
    ASSERT(side->ended);
    ASSERT(bench.tcp->shaking_count == 0 && list_empty(&bench.tcp->shaking));
    ASSERT(list_empty(&bench.tcp->graveyard));
}

static bool fuzz_one(struct slice input)
{
    struct caller_side side = {.ended = false};
    bool answered = false;
    int ends[2];

    if (input.len < 2) {
        return false;
    }
    if (!bench.tcp) {
        open_bench();
    }

    unsigned mode = input.data[0] % MODES;
    size_t piece = input.data[1] > 0 ? input.data[1] : FUZZ_INPUT_MAX;
    struct slice rest = slice_from(input, 2);

    bench.tcp->callers = (struct callers){.places = {{.seen_ms = 0}}}; /* No limit of handshakes. */
    ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    side.fd = ends[1];
    buf_init(&side.got, 1 << 20);
    (void)tcp_start(bench.tcp, NULL, NULL, ends[0]);
    if (mode != MODE_BEGIN) {
        begin_tls(&side, mode == MODE_WITHIN);
    }
    if (mode == MODE_WITHIN) {
        send_within(&side, rest, piece);
        answered = was_answered(&side);
    } else {
        send_all(&side, rest, piece);
        answered = mode == MODE_DURING || was_answered(&side);
    }
    hang_up(&side);
    seal_close(side.seal);
    buf_release(&side.got);
    close(side.fd);
    return answered;
}

/* ---- Seeds. ---- */

static void put_16(struct buf *out, size_t value)
{
    (void)buf_append_byte(out, (uint8_t)(value >> 8));
    (void)buf_append_byte(out, (uint8_t)value);
}

/* The first message of a client of TLS 1.3 without a secret. */
static void put_client(struct buf *out)
{
    static const uint8_t suites[] = {0, 0, 2, 0x13, 1, 1, 0};
    static const uint8_t extensions[] = {
        0, 10, 0, 4,  0, 2,  0, 29,       /* supported_groups */
        0, 13, 0, 4,  0, 2,  4, 3,        /* signature_algorithms */
        0, 43, 0, 3,  2, 3,  4,           /* supported_versions */
        0, 51, 0, 38, 0, 36, 0, 29, 0, 32 /* key_share: 32 bytes follow. */
    };
    uint8_t share[32];
    size_t extensions_len = sizeof(extensions) + sizeof(share);
    size_t len = 2 + 32 + sizeof(suites) + 2 + extensions_len;

    memset(share, 9, sizeof(share));
    (void)buf_append_byte(out, SEAL_FIRST_BYTE);
    put_16(out, 0x0301);
    put_16(out, len + 4);
    put_16(out, 0x0100);
    put_16(out, len);
    put_16(out, 0x0303);
    (void)buf_append(out, share, 32); /* As the random bytes. */
    (void)buf_append(out, suites, sizeof(suites));
    put_16(out, extensions_len);
    (void)buf_append(out, extensions, sizeof(extensions));
    (void)buf_append(out, share, sizeof(share));
}

static void put_greeting(struct buf *out, bool with_hello)
{
    struct greeting greeting = {.version = PROTOCOL_VERSION, .from = 2, .to = 1, .nonce = {5}};
    struct hello hello = {.incarnation = 5, .cluster = {7}, .start = 5, .advertise = "zk2:9998"};
    struct hello_transcript transcript = {.sealed = false};
    uint8_t bytes[GREETING_LEN];

    greeting_encode(&greeting, bytes);
    (void)buf_append(out, bytes, sizeof(bytes));
    if (with_hello) { /* Its proof is that of another conversation. */
        hello_encode(&hello, &transcript, slice_str(SECRET), true, out);
    }
}

static void seed(struct fuzz_sink *sink, const char *name, uint8_t mode, uint8_t piece)
{
    struct buf out;

    buf_init(&out, FUZZ_INPUT_MAX);
    (void)buf_append_byte(&out, mode);
    (void)buf_append_byte(&out, piece);
    if (name[0] == 't') {
        put_client(&out);
    } else {
        put_greeting(&out, piece > 0);
    }
    fuzz_seed(sink, name, buf_slice(&out));
    buf_release(&out);
}

static void fuzz_seeds(struct fuzz_sink *sink)
{
    seed(sink, "greeting", MODE_BEGIN, 0);
    seed(sink, "greeting-hello-split", MODE_BEGIN, 7);
    seed(sink, "tls", MODE_BEGIN, 0);
    seed(sink, "tls-split", MODE_BEGIN, 3);
    seed(sink, "during", MODE_DURING, 1);
    seed(sink, "within", MODE_WITHIN, 0);
    seed(sink, "within-hello-split", MODE_WITHIN, 5);
}

FUZZ_TARGET(tcp_shake)
