/*
 * TLS for clients beside plain connections, on one replica of loopback, in one run. Arguments
 * select: reads, connections, herd, idle, half; without any, all of them.
 *
 * Processor time is that of the replica alone; the clients' own work in TLS does not count.
 */
#include "base/mem.h"
#include "base/minmax.h"
#include "tests/bench/line.h"
#include "tests/proc/ensemble.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    LINES = 16,
    READS = 4000, /* In one round; a multiple of LINES. */
    ROUNDS = 15,
    NEW = 1000, /* New connections in one round. */
    NEW_ROUNDS = 5,
    HERD = 1000,
    HERD_ROUNDS = 9,
    IDLE = 5000,
    HALF = 10000,
    PROBES = 300,
    SAMPLES_MAX = 1 << 16,
    FILES_MIN = HALF + 1000,
    HERD_WAIT_MS = 60000
};

static const char keys[] = "clientTls=optional\nmaxConnections=20000\nmaxHandshakes=20000\n"
                           "maxConnectionsPerAddress=20000\nidleTimeout=600000\n"
                           "headTimeout=60000\n";
static const char get[] = "GET /znodes/v1/k HTTP/1.1\r\nHost: localhost\r\n"
                          "Accept: application/octet-stream\r\n\r\n";
static const char ready[] = "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n";

static struct ensemble ensemble;
static SSL_CTX *ctx;
static char configuration[4096];
static char directory[] = "/tmp/zabra-bench-XXXXXX";

static uint16_t port(void)
{
    return ensemble.replicas[0].client_port;
}

static double cpu_ms(void)
{
    return (double)line_cpu_ns(ensemble.replicas[0].pid) / 1e6;
}

/* ---- reads: processor time of 1,000 reads of 1 KiB over 16 connections ---- */

static double read_round(struct line *lines)
{
    double before = cpu_ms();

    for (int i = 0; i < READS / LINES; i++) {
        for (int at = 0; at < LINES; at++) {
            line_send(&lines[at], get);
        }
        for (int at = 0; at < LINES; at++) {
            line_answer(&lines[at], 200);
        }
    }
    return (cpu_ms() - before) * 1000 / READS;
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;

    return left < right ? -1 : left > right;
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof(values[0]), compare);
    return values[count / 2];
}

static void bench_reads(void)
{
    struct line plain[LINES];
    struct line secure[LINES];
    double cost[2][ROUNDS];
    double ratio[ROUNDS];

    for (int i = 0; i < LINES; i++) {
        plain[i] = line_open(port(), NULL, NULL);
        secure[i] = line_open(port(), ctx, NULL);
    }
    (void)read_round(plain);
    (void)read_round(secure);
    for (int i = 0; i < ROUNDS; i++) {
        cost[0][i] = read_round(plain);
        cost[1][i] = read_round(secure);
        ratio[i] = cost[1][i] / cost[0][i];
    }
    for (int i = 0; i < LINES; i++) {
        line_close(&plain[i]);
        line_close(&secure[i]);
    }
    (void)printf("reads        CPU ms/1000: plain %.1f, TLS %.1f, median of %d ratios %.2f\n",
                 median(cost[0], ROUNDS), median(cost[1], ROUNDS), ROUNDS, median(ratio, ROUNDS));
}

/* ---- connections: a new one for each read ---- */

struct new_cost {
    double cpu_ms; /* For 1,000. */
    double rate;   /* Per second, with one client that waits for each. */
    uint32_t resumed;
};

static struct new_cost new_round(SSL_CTX *with, bool resume)
{
    struct new_cost cost = {0};
    SSL_SESSION *session = NULL;
    double before = cpu_ms();
    uint64_t start_us = os_now_us();

    for (int i = 0; i < NEW; i++) {
        struct line line = line_open(port(), with, session);

        line_send(&line, get);
        line_answer(&line, 200);
        if (with) {
            cost.resumed += (uint32_t)SSL_session_reused(line.ssl);
            SSL_SESSION_free(session);
            session = resume ? SSL_get1_session(line.ssl) : NULL;
        }
        line_close(&line);
    }
    SSL_SESSION_free(session);
    cost.rate = NEW * 1e6 / (double)(os_now_us() - start_us);
    cost.cpu_ms = (cpu_ms() - before) * 1000 / NEW;
    return cost;
}

static void bench_connections(void)
{
    static const char *const names[] = {"plain", "TLS, full", "TLS, resumed"};

    for (int kind = 0; kind < 3; kind++) {
        double cpu[NEW_ROUNDS];
        double rate[NEW_ROUNDS];
        uint32_t resumed = 0;

        for (int i = 0; i < NEW_ROUNDS; i++) {
            struct new_cost cost = new_round(kind > 0 ? ctx : NULL, kind == 2);

            cpu[i] = cost.cpu_ms;
            rate[i] = cost.rate;
            resumed += cost.resumed;
        }
        (void)printf("connections  %-12s CPU ms/1000 %6.0f, %5.0f/s, resumed %.1f %%\n",
                     names[kind], median(cpu, NEW_ROUNDS), median(rate, NEW_ROUNDS),
                     100.0 * resumed / (NEW * NEW_ROUNDS));
    }
}

/* ---- herd: reads of a plain client while 1,000 clients reconnect at once ---- */

struct member {
    int fd;
    SSL *ssl;
    bool sent;
    bool done;
};

static void member_open(struct member *member, uint16_t to)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(to)};

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    member->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (member->fd < 0 ||
        (connect(member->fd, (const struct sockaddr *)&address, sizeof(address)) != 0 &&
         errno != EINPROGRESS)) {
        line_fail("no connection to port %u", to);
    }
    member->ssl = SSL_new(ctx);
    if (!member->ssl || SSL_set_fd(member->ssl, member->fd) != 1) {
        line_fail("no TLS");
    }
    SSL_set_connect_state(member->ssl);
}

/* One step of handshake, request, answer. Returns the events to wait for. */
static short member_step(struct member *member)
{
    static char bytes[8192];
    int result = 1;

    if (!member->sent) {
        result = SSL_write(member->ssl, get, (int)strlen(get));
        member->sent = result > 0;
    }
    if (member->sent) {
        result = SSL_read(member->ssl, bytes, sizeof(bytes));
        member->done = result > 0;
    }
    if (result > 0) {
        return 0;
    }
    switch (SSL_get_error(member->ssl, result)) {
    case SSL_ERROR_WANT_WRITE:
        return POLLOUT;
    case SSL_ERROR_WANT_READ:
        return POLLIN;
    default:
        line_fail("a client of the herd lost its connection");
    }
}

/* Lets each member whose descriptor is ready take a step. Returns how many of them are done now. */
static int herd_steps(struct member *members, struct pollfd *waits)
{
    int done = 0;

    for (int i = 0; i < HERD; i++) {
        if (members[i].done || !waits[i].revents) {
            continue;
        }
        waits[i].events = member_step(&members[i]);
        if (members[i].done) {
            waits[i].fd = -1;
            done++;
        }
    }
    return done;
}

/* All connect at once; returns when all have an answer. */
static void herd(uint16_t to)
{
    static struct member members[HERD];
    static struct pollfd waits[HERD];
    uint64_t end_ms = os_now_ms() + HERD_WAIT_MS;
    int left = HERD;

    for (int i = 0; i < HERD; i++) {
        members[i] = (struct member){.fd = -1};
        member_open(&members[i], to);
        waits[i] = (struct pollfd){.fd = members[i].fd, .events = POLLOUT};
    }
    while (left > 0 && os_now_ms() < end_ms) {
        (void)poll(waits, HERD, 1000);
        left -= herd_steps(members, waits);
    }
    if (left > 0) {
        line_fail("%d clients of the herd got no answer", left);
    }
    for (int i = 0; i < HERD; i++) {
        SSL_free(members[i].ssl);
        (void)close(members[i].fd);
    }
}

struct dummy {
    SSL_CTX *ctx;
    uint32_t count; /* Of `members` and `waits`; the first is the listening socket. */
    struct member members[HERD + 1];
    struct pollfd waits[HERD + 1];
};

/* Handshake, and an answer to each request. False: the client has ended the connection. */
static bool dummy_answer(SSL *ssl)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    char bytes[4096];
    int got = SSL_read(ssl, bytes, sizeof(bytes));

    return got > 0 ? SSL_write(ssl, answer, (int)strlen(answer)) > 0
                   : SSL_get_error(ssl, got) == SSL_ERROR_WANT_READ;
}

static void dummy_accept(struct dummy *dummy)
{
    while (dummy->count <= HERD) {
        int fd = accept4(dummy->waits[0].fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        struct member member = {.fd = fd};

        if (fd < 0) {
            return;
        }
        member.ssl = SSL_new(dummy->ctx);
        if (!member.ssl || SSL_set_fd(member.ssl, fd) != 1) {
            line_fail("no TLS in the dummy server");
        }
        SSL_set_accept_state(member.ssl);
        dummy->members[dummy->count] = member;
        dummy->waits[dummy->count++] = (struct pollfd){.fd = fd, .events = POLLIN};
    }
}

/* A server that only shakes hands and answers each request with an empty body. */
static void dummy_serve(int listen_fd, SSL_CTX *server)
{
    static struct dummy dummy;

    dummy.ctx = server;
    dummy.count = 1;
    dummy.waits[0] = (struct pollfd){.fd = listen_fd, .events = POLLIN};
    for (;;) {
        (void)poll(dummy.waits, dummy.count, -1);
        for (uint32_t i = dummy.count - 1; i > 0; i--) {
            if (dummy.waits[i].revents && !dummy_answer(dummy.members[i].ssl)) {
                SSL_free(dummy.members[i].ssl);
                (void)close(dummy.members[i].fd);
                dummy.count--;
                dummy.members[i] = dummy.members[dummy.count];
                dummy.waits[i] = dummy.waits[dummy.count];
            }
        }
        dummy_accept(&dummy);
    }
}

static pid_t dummy_start(uint16_t *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof(address);
    SSL_CTX *server = SSL_CTX_new(TLS_server_method());
    char cert[64];
    char key[64];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    (void)snprintf(cert, sizeof(cert), "%s/replica.pem", directory);
    (void)snprintf(key, sizeof(key), "%s/replica.key", directory);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (!server || SSL_CTX_use_certificate_chain_file(server, cert) != 1 ||
        SSL_CTX_use_PrivateKey_file(server, key, SSL_FILETYPE_PEM) != 1 || fd < 0 ||
        bind(fd, (const struct sockaddr *)&address, len) != 0 || listen(fd, 4096) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) != 0) {
        line_fail("the dummy server cannot start");
    }
    *ret_port = ntohs(address.sin_port);

    pid_t pid = fork();

    if (pid == 0) {
        dummy_serve(fd, server);
    }
    (void)close(fd);
    SSL_CTX_free(server);
    return pid;
}

/* Reads one after another while a herd reconnects to `to`. Returns the 99th percentile in us. */
static uint64_t read_beside(uint16_t to, uint64_t *ret_took_ms)
{
    static uint64_t times_us[SAMPLES_MAX];
    struct line line = line_open(port(), NULL, NULL);
    uint64_t start_ms = os_now_ms();
    uint32_t count = 0;
    pid_t pid = fork();
    int status = 0;

    if (pid == 0) {
        herd(to);
        _exit(0);
    }
    while (waitpid(pid, &status, WNOHANG) == 0 && count < SAMPLES_MAX) {
        uint64_t start_us = os_now_us();

        line_send(&line, get);
        line_answer(&line, 200);
        times_us[count++] = os_now_us() - start_us;
    }
    if (status != 0) {
        line_fail("the herd failed");
    }
    *ret_took_ms = os_now_ms() - start_ms;
    line_close(&line);
    return line_percentile(times_us, count, 0.99);
}

static void bench_herd(void)
{
    uint16_t dummy_port = 0;
    pid_t dummy = dummy_start(&dummy_port);
    double p99[2][HERD_ROUNDS];
    double took[2][HERD_ROUNDS];
    double ratio[HERD_ROUNDS];

    for (int i = 0; i < HERD_ROUNDS; i++) {
        for (int kind = 0; kind < 2; kind++) {
            uint64_t took_ms = 0;

            p99[kind][i] = (double)read_beside(kind == 0 ? dummy_port : port(), &took_ms);
            took[kind][i] = (double)took_ms;
        }
        ratio[i] = p99[1][i] / p99[0][i];
    }
    (void)kill(dummy, SIGKILL);
    (void)waitpid(dummy, NULL, 0);
    (void)printf(
        "herd         p99 of reads while %d reconnect: to a dummy server %.0f us (%.0f ms), to "
        "the replica %.0f us (%.0f ms), median of %d ratios %.2f\n",
        HERD, median(p99[0], HERD_ROUNDS), median(took[0], HERD_ROUNDS),
        median(p99[1], HERD_ROUNDS), median(took[1], HERD_ROUNDS), HERD_ROUNDS,
        median(ratio, HERD_ROUNDS));
}

/* ---- idle: memory of connections after one request ---- */

static double idle_bytes(SSL_CTX *with)
{
    struct line *lines = mem_alloc(IDLE * sizeof(*lines));
    uint64_t before = ensemble_resident_bytes(ensemble.replicas[0].pid);

    for (int i = 0; i < IDLE; i++) {
        lines[i] = line_open(port(), with, NULL);
        line_send(&lines[i], get);
        line_answer(&lines[i], 200);
    }

    uint64_t after = ensemble_resident_bytes(ensemble.replicas[0].pid);

    for (int i = 0; i < IDLE; i++) {
        line_close(&lines[i]);
    }
    mem_free(lines);
    ENSEMBLE_WAIT(&ensemble, ensemble_metric(&ensemble, 0, "zabra_http_connections") < IDLE / 100);
    return (double)(after - min_u64(before, after)) / IDLE;
}

/* A fresh replica for each kind: memory that an earlier kind has freed would count as free. */
static void bench_idle(void)
{
    double bytes[2];

    for (int kind = 0; kind < 2; kind++) {
        (void)ensemble_stop(&ensemble, 0);
        ensemble_start(&ensemble, 0);
        ensemble_wait_ready(&ensemble, 0);
        bytes[kind] = idle_bytes(kind == 1 ? ctx : NULL);
    }
    (void)printf("idle         bytes for each of %d connections: plain %.0f, TLS %.0f\n", IDLE,
                 bytes[0], bytes[1]);
}

/* ---- half: a probe while 10,000 handshakes are incomplete ---- */

static void probe(const char *what)
{
    static uint64_t times_us[PROBES];

    for (int i = 0; i < PROBES; i++) {
        uint64_t start_us = os_now_us();
        struct line line = line_open(port(), NULL, NULL);

        line_send(&line, ready);
        line_answer(&line, 200);
        line_close(&line);
        times_us[i] = os_now_us() - start_us;
    }
    (void)printf("half         /readyz %s: p50 %llu us, p99 %llu us, slowest %llu us\n", what,
                 (unsigned long long)line_percentile(times_us, PROBES, 0.5),
                 (unsigned long long)line_percentile(times_us, PROBES, 0.99),
                 (unsigned long long)line_percentile(times_us, PROBES, 1));
}

static void bench_half(void)
{
    /* The start of a record with a ClientHello of 512 bytes, of which 16 are sent. */
    static const char start[] = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 half";
    struct line *lines = mem_alloc(HALF * sizeof(*lines));
    uint64_t start_us = 0;

    probe("alone");
    start_us = os_now_us();
    for (int i = 0; i < HALF; i++) {
        lines[i] = line_open(port(), NULL, NULL);
        if (send(lines[i].fd, start, sizeof(start) - 1, MSG_NOSIGNAL) < 0) {
            line_fail("a half handshake could not be sent");
        }
    }
    (void)printf("half         %d half handshakes opened in %llu ms\n", HALF,
                 (unsigned long long)(os_now_us() - start_us) / 1000);
    probe("beside 10,000 half handshakes");
    for (int i = 0; i < HALF; i++) {
        line_close(&lines[i]);
    }
    mem_free(lines);
}

/* ---- All ---- */

static void launch(void)
{
    static const char value[] = "PUT /znodes/v1/k?upsert=true HTTP/1.1\r\nHost: localhost\r\n"
                                "Content-Length: 1024\r\n\r\n";
    char request[sizeof(value) + 1024];
    char file[64];

    if (!mkdtemp(directory)) {
        line_fail("no temporary directory");
    }
    line_certificates(ZABRA_BINARY, directory, "replica");
    (void)snprintf(file, sizeof(file), "%s/ca.pem", directory);
    ctx = line_context(file);
    (void)snprintf(configuration, sizeof(configuration),
                   "%stlsCertFile=%s/replica.pem\ntlsKeyFile=%s/replica.key\n", keys, directory,
                   directory);
    ensemble_launch(&ensemble, 1, configuration);
    (void)snprintf(request, sizeof(request), "%s%01024d", value, 7);

    struct line line = line_open(port(), ctx, NULL);

    line_send(&line, request);
    line_answer(&line, 201);
    line_close(&line);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"reads", bench_reads},
                 {"connections", bench_connections},
                 {"herd", bench_herd},
                 {"idle", bench_idle},
                 {"half", bench_half}};
    struct rlimit files = {0};

    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_max < FILES_MIN) {
        line_fail("%d descriptors are needed", FILES_MIN);
    }
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files) != 0) {
        line_fail("the limit of descriptors cannot be raised");
    }
    web_setup();
    launch();
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        bool chosen = argc < 2;

        for (int at = 1; at < argc; at++) {
            chosen = chosen || strcmp(argv[at], parts[i].name) == 0;
        }
        if (chosen) {
            parts[i].run();
            (void)fflush(stdout);
        }
    }
    ensemble_close(&ensemble);
    return 0;
}
