/* Probes are answered in time even when attackers hold the connections and threads of a replica. */
#include "tests/hostile/attack.h"
#include "tests/lib/ports.h"
#include "tests/lib/unit.h"
#include "tests/proc/sealed.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    FLOOD = 10050,
    FLOOD_SPARE = 400, /* Descriptors of this program and of the replica for other things. */
    PROBE_MS = 1000,
    PROBES_MIN = 20, /* During each attack. */
    ATTACKER = 2,    /* 127.0.0.2 */
    OTHER = 3,
    READERS = 300,
    READ_MS = 4000,
    LIVEZ_P99_US = 250000,
    SILENT = 200,
    BURST = 500,        /* More than there are seats. */
    PORT_BURST = 3000,  /* What arrives within 100 ms on the port for clients. */
    STILL_MS = 100,     /* Duration of the replica's pause. */
    DATA_BYTES = 740000 /* Almost 1 MB in base64. */
};

#define HOST "Host: localhost\r\n\r\n"

static struct ensemble ensemble;
static uint16_t port;
static uint16_t probe_port;
static char keys[128];

/* ---- A probe by hand, from an address. ---- */

/* Returns the status; 0: no answer in time. */
static long probe(uint16_t to, uint8_t from, const char *path, struct buf *out)
{
    char request[128];
    uint64_t end_ms = os_now_ms() + PROBE_MS;
    int fd = attack_connect(to, 0, from);

    buf_clear(out);
    if (fd < 0) {
        return 0;
    }
    (void)snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nConnection: close\r\n" HOST, path);
    (void)attack_send(fd, request, strlen(request));
    for (;;) {
        uint64_t now_ms = os_now_ms();
        struct pollfd look = {.fd = fd, .events = POLLIN};
        uint8_t *to_bytes = buf_reserve(out, 65536);

        if (now_ms >= end_ms || poll(&look, 1, (int)(end_ms - now_ms)) <= 0) {
            close(fd);
            return 0;
        }

        ssize_t got = recv(fd, to_bytes, 65536, 0);

        if (got <= 0) {
            break;
        }
        out->len += (size_t)got;
    }
    close(fd);
    return attack_status(out);
}

struct prober {
    uint16_t port;
    uint8_t from;
    struct thread thread;
    _Atomic bool stopping;
    _Atomic uint32_t done;
    uint32_t failed;
    long last_failure;
};

static void probe_often(void *arg)
{
    static const char *const paths[] = {"/livez", "/readyz", "/metrics"};
    struct prober *prober = arg;
    struct buf out;

    buf_init(&out, ATTACK_ANSWER_MAX);
    for (uint32_t i = 0; !atomic_load(&prober->stopping); i++) {
        long status = probe(prober->port, prober->from, paths[i % 3], &out);

        if (status != 200) {
            prober->failed++;
            prober->last_failure = status;
        }
        atomic_fetch_add(&prober->done, 1);
        (void)poll(NULL, 0, 5);
    }
    buf_release(&out);
}

static void prober_start(struct prober *prober)
{
    thread_start(&prober->thread, "prober", probe_often, prober);
}

static void prober_check(struct prober *prober)
{
    ENSEMBLE_WAIT(&ensemble, atomic_load(&prober->done) >= PROBES_MIN);
    atomic_store(&prober->stopping, true);
    thread_join(&prober->thread);
    print_message("probes from 127.0.0.%u: %u, failed %u\n", prober->from, prober->done,
                  prober->failed);
    if (prober->failed > 0) {
        fail_msg("%u of %u probes from 127.0.0.%u failed, the last with %ld", prober->failed,
                 prober->done, prober->from, prober->last_failure);
    }
}

/* ---- Attacks. ---- */

static int fds[FLOOD];
static uint32_t fd_count;

/* Connections that send one byte, or nothing. */
static void hold(uint32_t count, const char *bytes)
{
    for (uint32_t i = 0; i < count && fd_count < FLOOD; i++) {
        int fd = attack_connect(port, 0, ATTACKER);

        if (fd >= 0) {
            (void)attack_send(fd, bytes, strlen(bytes));
            fds[fd_count++] = fd;
        }
    }
}

static void close_held(void)
{
    while (fd_count > 0) {
        close(fds[--fd_count]);
    }
}

static uint32_t flood_count(void)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    return limit.rlim_cur < FLOOD + FLOOD_SPARE ? (uint32_t)limit.rlim_cur - FLOOD_SPARE : FLOOD;
}

static void setup(void)
{
    static char data[DATA_BYTES + 1];

    attack_raise_descriptors(4096);
    probe_port = port_free();
    (void)snprintf(keys, sizeof(keys), "probeListen=127.0.0.1:%u\n", probe_port);
    ensemble_launch(&ensemble, 1, keys);
    port = ensemble.replicas[0].client_port;
    memset(data, 'x', DATA_BYTES);
    ensemble_call_until(&ensemble, 0, "POST", "/znodes/v1/?name=large", data, 201);
}

static void close_all(void)
{
    ensemble_close(&ensemble);
}

TEST_GROUP(setup, close_all)

TEST(probes_pass_a_flood_of_connections_from_one_address)
{
    struct prober same = {.port = port, .from = ATTACKER};
    struct prober other = {.port = port, .from = OTHER};
    struct prober own = {.port = probe_port, .from = OTHER};
    uint32_t count = flood_count();

    prober_start(&same);
    prober_start(&other);
    prober_start(&own);
    hold(count, "G");
    assert_true(fd_count == count);
    prober_check(&same);
    prober_check(&other);
    prober_check(&own);
    /* The address has at most a quarter of the places; its other connections are refused with that
     * reason. */
    assert_int_equal(ensemble_metric(&ensemble, 0, "zabra_http_timeouts_total"), 0);
    assert_true(ensemble_metric(&ensemble, 0, "zabra_http_refused_total{reason=\"address\"}") > 0);
    assert_int_equal(ensemble_metric(&ensemble, 0, "zabra_http_refused_total{reason=\"total\"}"),
                     0);
    close_held();
}

TEST(silent_connections_do_not_hold_the_seats)
{
    struct prober same = {.port = port, .from = ATTACKER};
    struct prober other = {.port = port, .from = OTHER};
    struct buf out;

    buf_init(&out, ATTACK_ANSWER_MAX);
    hold(2500 + SILENT, "");
    assert_int_equal(probe(port, ATTACKER, "/znodes/v1/", &out), 429);
    assert_non_null(strstr(buf_cstr(&out), "as maxConnectionsPerAddress allows"));
    assert_int_equal(probe(port, ATTACKER, "/livez", &out), 200);
    assert_non_null(strstr(buf_cstr(&out), "Connection: close"));
    prober_start(&same);
    prober_start(&other);
    for (int i = 0; i < 20; i++) {
        hold(SILENT, i % 2 ? "" : "GET /livez HTTP/1.1\r\nHost:");
        (void)poll(NULL, 0, 20);
    }
    prober_check(&same);
    prober_check(&other);
    close_held();
    buf_release(&out);
}

TEST(silent_connections_do_not_hold_the_probes_port)
{
    struct prober own = {.port = probe_port, .from = OTHER};
    int silent[SILENT];

    prober_start(&own);
    for (int i = 0; i < SILENT; i++) {
        silent[i] = attack_connect(probe_port, 0, ATTACKER);
        (void)attack_send(silent[i], "G", i % 2 ? 1 : 0);
    }
    prober_check(&own);
    for (int i = 0; i < SILENT; i++) {
        close(silent[i]);
    }
}

/* Connections arrive faster than the replica accepts them, so the kernel queues a probe behind
 * them. A probe that finds the queue full retries a second later. */
TEST(a_burst_on_the_probes_port_delays_no_probe)
{
    struct prober own = {.port = probe_port, .from = OTHER};
    int silent[BURST];

    ensemble_signal(&ensemble, 0, SIGSTOP);
    for (int i = 0; i < BURST; i++) {
        silent[i] = attack_connect(probe_port, 0, ATTACKER);
    }
    prober_start(&own);
    (void)poll(NULL, 0, STILL_MS);
    ensemble_signal(&ensemble, 0, SIGCONT);
    prober_check(&own);
    for (int i = 0; i < BURST; i++) {
        close(silent[i]);
    }
}

/* The same on the port for clients. A connection that finds the kernel's queue full would block, so
 * none of them is awaited. */
TEST(a_burst_on_the_clients_port_delays_no_probe)
{
    struct prober other = {.port = port, .from = OTHER};

    if (sealed_on()) {
        skip(); /* This program would wait for handshakes with the frozen replica. */
    }
    ensemble_signal(&ensemble, 0, SIGSTOP);
    while (fd_count < PORT_BURST) {
        int fd = attack_connect_begin(port, ATTACKER);

        assert_true(fd >= 0);
        fds[fd_count++] = fd;
    }
    prober_start(&other);
    (void)poll(NULL, 0, STILL_MS);
    ensemble_signal(&ensemble, 0, SIGCONT);
    prober_check(&other);
    close_held();
}

static const char *body_of(struct buf *out)
{
    const char *end = strstr(buf_cstr(out), "\r\n\r\n");

    return end ? end + 4 : "";
}

static void ask_probe_port(const char *request, long status, const char *words)
{
    struct buf out;

    buf_init(&out, ATTACK_ANSWER_MAX);
    assert_true(attack_exchange(probe_port, request, strlen(request), 5000, &out));
    assert_int_equal(attack_answers(&out), 1);
    assert_int_equal(attack_status(&out), status);
    assert_non_null(strstr(buf_cstr(&out), words));
    buf_release(&out);
}

TEST(the_probes_port_answers_probes_alone)
{
    static const char *const same[] = {"/livez", "/livez?verbose", "/readyz"};
    struct buf here;
    struct buf there;

    buf_init(&here, ATTACK_ANSWER_MAX);
    buf_init(&there, ATTACK_ANSWER_MAX);
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        assert_int_equal(probe(port, OTHER, same[i], &here), 200);
        assert_int_equal(probe(probe_port, OTHER, same[i], &there), 200);
        assert_string_equal(body_of(&here), body_of(&there));
    }
    assert_int_equal(probe(probe_port, OTHER, "/metrics", &there), 200);
    assert_non_null(strstr(buf_cstr(&there), "zabra_http_connections "));
    ask_probe_port("GET /readyz HTTP/1.1\r\nAccept: application/json\r\n" HOST, 200,
                   "{\"ok\":true,\"checks\":[");
    ask_probe_port("GET /znodes/v1/ HTTP/1.1\r\n" HOST, 404, "/livez, /readyz and /metrics only");
    ask_probe_port("POST /livez HTTP/1.1\r\nContent-Length: 0\r\n" HOST, 405, "Allow: GET, HEAD");
    ask_probe_port("GET /livez HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421, "allowedHosts");
    ask_probe_port("GET /livez HTTP/1.1\nHost: localhost\r\n\r\n", 400, "carriage return");
    ask_probe_port("HEAD /livez HTTP/1.1\r\n" HOST, 200, "Content-Length: ");
    ask_probe_port("GET /liv", 408, "within headTimeout");
    buf_release(&here);
    buf_release(&there);
}

/* ---- Large reads. ---- */

struct reader {
    int fd;
    uint64_t taken; /* Bytes. */
};

static const char large_read[] =
    "POST /multi/v1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    "Content-Length: 38\r\n\r\n{\"ops\":[{\"op\":\"get\",\"path\":\"/large\"}]}";

/* 300 connections that read each answer and then send the next request at once. */
static uint64_t read_much(void)
{
    static struct reader readers[READERS];
    static struct pollfd polls[READERS];
    static uint8_t trash[1 << 18];
    uint64_t end_ms = os_now_ms() + READ_MS;
    uint64_t taken = 0;

    for (int i = 0; i < READERS; i++) {
        readers[i] = (struct reader){.fd = attack_connect(port, 0, ATTACKER)};
        polls[i] = (struct pollfd){.fd = readers[i].fd, .events = POLLIN};
        assert_true(attack_send(readers[i].fd, large_read, sizeof(large_read) - 1));
    }
    while (os_now_ms() < end_ms && poll(polls, READERS, 100) >= 0) {
        for (int i = 0; i < READERS; i++) {
            ssize_t got = polls[i].revents ? recv(polls[i].fd, trash, sizeof(trash), 0) : 0;

            taken += got > 0 ? (uint64_t)got : 0;
            readers[i].taken += got > 0 ? (uint64_t)got : 0;
            if (readers[i].taken > DATA_BYTES) {
                readers[i].taken = 0;
                (void)attack_send(readers[i].fd, large_read, sizeof(large_read) - 1);
            }
        }
    }
    for (int i = 0; i < READERS; i++) {
        close(readers[i].fd);
    }
    return taken;
}

TEST(large_reads_leave_a_thread_for_probes)
{
    struct attack_client fresh = {.path = "/livez", .port = port, .fresh = true, .pause_ms = 5};
    struct attack_client kept = {.path = "/livez", .port = port, .pause_ms = 5};

    attack_client_start(&fresh);
    attack_client_start(&kept);

    uint64_t taken = read_much();

    attack_client_stop(&fresh);
    attack_client_stop(&kept);

    uint32_t p99_fresh = attack_client_quantile(&fresh, 990);
    uint32_t p99_kept = attack_client_quantile(&kept, 990);

    print_message("%llu MB of large reads; /livez p99: fresh %u us of %u, kept %u us of %u\n",
                  (unsigned long long)taken >> 20, p99_fresh, fresh.count, p99_kept, kept.count);
    assert_int_equal(fresh.failed, 0);
    assert_int_equal(kept.failed, 0);
    assert_true(taken > (uint64_t)READERS * DATA_BYTES);
    assert_true(p99_fresh < LIVEZ_P99_US);
    assert_true(p99_kept < LIVEZ_P99_US);
    attack_client_release(&fresh);
    attack_client_release(&kept);
}
