/* Half handshakes, handshakes byte by byte and floods of key updates delay neither probes nor the
 * handshakes of other clients. */
#include "tests/hostile/attack.h"
#include "tests/lib/cert_kit.h"
#include "tests/lib/tls_forge.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    HALF = 10000,
    ADDRESSES = 5, /* 127.0.0.2 and following: each is within maxConnectionsPerAddress. */
    OTHER = 100,
    ROUNDS = 20,
    SLOW = 2000,
    SLOW_MS = 2000,
    UPDATES = 200,
    UPDATES_BYTES = 1 << 20,
    FLOOD_MS = 3000,
    PROBE_MS = 1000,
    HANDSHAKE_MS = 5000
};

static struct ensemble ensemble;
static struct cert_kit certs;
static char keys[ENSEMBLE_KEYS_MAX];
static int half[HALF];

static void set_up(void)
{
    static const struct cert_kit_spec server = {
        .kind = ISSUE_SERVER, .common = "server", .names = CERT_KIT_LOCAL};

    attack_raise_descriptors(HALF + 400);
    cert_kit_open(&certs);
    cert_kit_add(&certs, "replica", &server);
    ensemble_tls_keys(certs.dir, "replica", "optional", NULL,
                      "maxConnections=12000\nheadTimeout=60000\n", keys);
    ensemble_open(&ensemble, 1, NULL);
    ensemble.keys = keys;
    ensemble_write_configs(&ensemble);
    ensemble_start(&ensemble, 0);
    ensemble_wait_ready(&ensemble, 0);
}

static void tear_down(void)
{
    for (int i = 0; i < HALF; i++) {
        if (half[i] > 0) {
            close(half[i]);
        }
        half[i] = 0;
    }
    ensemble_close(&ensemble);
    cert_kit_close(&certs);
}

static bool wait_for(int fd, uint64_t end_ms)
{
    uint64_t now_ms = os_now_ms();
    struct pollfd ready = {.fd = fd, .events = POLLIN};

    return now_ms < end_ms && poll(&ready, 1, (int)(end_ms - now_ms)) == 1;
}

/* Connects and makes a handshake. */
static void open_sealed(struct tls_peer *peer, uint8_t from)
{
    static const struct tls_peer_setup setup = {.name = NULL};
    uint64_t end_ms = os_now_ms() + HANDSHAKE_MS;
    int fd = attack_connect(ensemble.replicas[0].client_port, 0, from);

    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    tls_peer_open(peer, &certs, &setup, fd);
    while (tls_peer_shake(peer) == 0) {
        (void)tls_peer_push(peer, SIZE_MAX);
        assert_true(wait_for(fd, end_ms));
        (void)tls_peer_pull(peer, SIZE_MAX);
    }
    assert_int_equal(tls_peer_shake(peer), 1);
    (void)tls_peer_push(peer, SIZE_MAX);
}

static void close_sealed(struct tls_peer *peer)
{
    tls_peer_close(peer);
    close(peer->fd);
}

/* The time of a handshake and of a read over it, in ms. */
static uint64_t ask_sealed(uint8_t from)
{
    static const char request[] =
        "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    uint64_t start_ms = os_now_ms();
    struct tls_peer peer;
    struct buf got;

    open_sealed(&peer, from);
    buf_init(&got, ATTACK_ANSWER_MAX);
    tls_peer_send(&peer, request, strlen(request));
    while (tls_peer_receive(&peer, &got) == SSL_ERROR_WANT_READ) {
        assert_true(wait_for(peer.fd, start_ms + HANDSHAKE_MS));
    }
    assert_int_equal(attack_status(&got), 200);
    close_sealed(&peer);
    buf_release(&got);
    return os_now_ms() - start_ms;
}

TEST(half_handshakes_delay_no_one, set_up, tear_down)
{
    static const uint8_t begin[] = {0x16, 3, 1, 0, 200, 1, 0, 0, 196};
    struct web_call probe = {.port = ensemble.replicas[0].client_port,
                             .path = "/readyz",
                             .fresh = true,
                             .timeout_ms = PROBE_MS};
    uint64_t longest_ms = 0;

    for (int i = 0; i < HALF; i++) {
        half[i] = attack_connect(ensemble.replicas[0].client_port, 0, (uint8_t)(2 + i % ADDRESSES));
        assert_true(half[i] > 0);
        (void)attack_send(half[i], begin, sizeof(begin));
        if (i % (HALF / ROUNDS) == 0) {
            assert_int_equal(web_do(ensemble.web, &probe, &ensemble.reply), 200);
        }
    }
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t took_ms = ask_sealed(OTHER);

        longest_ms = took_ms > longest_ms ? took_ms : longest_ms;
        assert_int_equal(web_do(ensemble.web, &probe, &ensemble.reply), 200);
    }
    print_message("the longest handshake beside %d half ones took %llu ms\n", HALF,
                  (unsigned long long)longest_ms);
    assert_true(ensemble_metric(&ensemble, 0, "zabra_tls_handshakes_total{result=\"evicted\"}") >
                0);
    assert_true(ensemble_metric(&ensemble, 0, "zabra_tls_handshakes") <= 1024);
}

/* Begins a handshake again whose connection the replica has closed. */
static void send_byte(int *fd)
{
    static const uint8_t begin[] = {0x16, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xf0};

    if (*fd == 0 || !attack_send(*fd, "", 1)) {
        if (*fd > 0) {
            close(*fd);
        }
        *fd = attack_connect(ensemble.replicas[0].client_port, 0, 2);
        assert_true(*fd > 0);
        (void)attack_send(*fd, begin, sizeof(begin));
    }
}

/* More of one address than there are places; each client sends a byte now and then. */
TEST(handshakes_byte_by_byte_delay_no_one, set_up, tear_down)
{
    struct web_call probe = {.port = ensemble.replicas[0].client_port,
                             .path = "/readyz",
                             .fresh = true,
                             .timeout_ms = PROBE_MS};
    uint64_t longest_ms = 0;

    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < SLOW; i++) {
            send_byte(&half[i]);
        }

        uint64_t took_ms = ask_sealed(OTHER);

        longest_ms = took_ms > longest_ms ? took_ms : longest_ms;
        assert_true(took_ms < SLOW_MS);
        assert_int_equal(web_do(ensemble.web, &probe, &ensemble.reply), 200);
    }
    print_message("the longest handshake beside %d slow ones took %llu ms\n", SLOW,
                  (unsigned long long)longest_ms);
    assert_true(ensemble_metric(&ensemble, 0, "zabra_tls_handshakes_total{result=\"evicted\"}") >
                0);
}

/* ---- Floods of key updates ---- */

/* One client; while its connection lives, it sends key updates as fast as they are taken. */
struct flood {
    bool has_head; /* After the first request: a worker reads then, and not the acceptor. */
    struct thread thread;
    _Atomic bool stopping;
    _Atomic uint32_t count; /* Of connections. */
};

static void flood_once(struct flood *flood)
{
    static const char request[] = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
    struct tls_forge forge;
    struct tls_peer peer;

    open_sealed(&peer, 2);
    tls_forge_open(&forge, &peer);
    if (flood->has_head) {
        tls_forge_put(&forge, TLS_FORGE_DATA, request, strlen(request));
        assert_true(tls_forge_send(&forge, peer.fd));
        assert_true(wait_for(peer.fd, os_now_ms() + HANDSHAKE_MS)); /* It is answered. */
    }
    errno = 0;
    while (!atomic_load(&flood->stopping) && (errno == 0 || errno == EAGAIN)) {
        for (int i = 0; forge.out.len < UPDATES_BYTES && i < UPDATES; i++) {
            tls_forge_update(&forge, false);
        }
        errno = 0;
        (void)tls_forge_send(&forge, peer.fd);
    }
    atomic_fetch_add(&flood->count, 1);
    tls_forge_close(&forge);
    close_sealed(&peer);
}

static void run_flood(void *arg)
{
    struct flood *flood = arg;

    while (!atomic_load(&flood->stopping)) {
        flood_once(flood);
    }
}

TEST(floods_of_key_updates_delay_no_one, set_up, tear_down)
{
    for (int has_head = 0; has_head < 2; has_head++) {
        struct flood flood = {.has_head = has_head};
        struct web_call probe = {.port = ensemble.replicas[0].client_port,
                                 .path = "/readyz",
                                 .fresh = true,
                                 .timeout_ms = PROBE_MS};
        uint64_t end_ms = os_now_ms() + FLOOD_MS;

        thread_start(&flood.thread, "flood", run_flood, &flood);
        while (os_now_ms() < end_ms) {
            assert_int_equal(web_do(ensemble.web, &probe, &ensemble.reply), 200);
            assert_true(ask_sealed(OTHER) < HANDSHAKE_MS);
        }
        atomic_store(&flood.stopping, true);
        thread_join(&flood.thread);
        print_message("%u connections with floods\n", atomic_load(&flood.count));
        assert_true(atomic_load(&flood.count) > 1); /* Each of them was ended. */
    }
    assert_true(ensemble_metric(&ensemble, 0, "zabra_tls_broken_total{reason=\"flood\"}") > 1);
}
