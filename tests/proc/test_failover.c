/* The leader dies or falls silent under load: measures when the next write is acknowledged, and
 * checks that no acknowledged write is lost and no read is stale. */
#include "base/loop.h"
#include "base/os_clock.h"
#include "tests/lib/unit.h"
#include "tests/proc/load.h"
#include "tests/proc/proxy.h"
#include "tests/proc/shell.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    ROUNDS = 10,
    WRITERS = 2,
    MEDIAN_MS = 300 * ENSEMBLE_FACTOR,
    WORST_MS = 1000 * ENSEMBLE_FACTOR,
    SILENT_MS = 4000 * ENSEMBLE_FACTOR, /* Default syncLimit and tickTime, plus an election. */
    DEAF_MS = 6000 * ENSEMBLE_FACTOR,   /* Two more ticks: it may be elected once more. */
    ANSWER_MAX = 8192
};

static struct ensemble ensemble;
static struct load load;

static void open_three(void)
{
    ensemble_launch(&ensemble, 3, NULL);
}

static void close_three(void)
{
    ensemble_close(&ensemble);
}

/* Time until a surviving replica acknowledges a write that began after `start_ms`. */
static uint64_t time_next_write(uint32_t leader, uint64_t start_ms)
{
    uint32_t other = (leader + 1) % 3;

    ENSEMBLE_WAIT(
        &ensemble,
        ensemble_call(&ensemble, other, "PUT", "/znodes/v1/next?upsert=true", "x") / 100 == 2);
    return os_now_ms() - start_ms;
}

static int compare(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;

    return left < right ? -1 : left > right;
}

TEST(leader_killed_under_load, open_three, close_three)
{
    uint64_t times_ms[ROUNDS];

    load_start(&load, &ensemble, WRITERS);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t leader = ensemble_wait_leader(&ensemble);

        load_wait(&load, &ensemble, 100);

        uint64_t start_ms = os_now_ms();

        ensemble_signal(&ensemble, leader, SIGKILL);
        times_ms[round] = time_next_write(leader, start_ms);
        (void)ensemble_wait_end(&ensemble, leader);
        ensemble_start(&ensemble, leader);
        ensemble_wait_ready(&ensemble, leader);
    }
    load_stop(&load, &ensemble);
    for (uint32_t i = 0; i < 3; i++) {
        load_verify(&load, &ensemble, i);
    }
    print_message("acknowledged writes: %u\n", load_acked(&load));
    load_release(&load);
    qsort(times_ms, ROUNDS, sizeof(times_ms[0]), compare);
    print_message("next write after kill -9 of the leader: median %d ms, worst %d ms\n",
                  (int)times_ms[ROUNDS / 2], (int)times_ms[ROUNDS - 1]);
    ENSEMBLE_CHECK(&ensemble, times_ms[ROUNDS / 2] <= MEDIAN_MS);
    ENSEMBLE_CHECK(&ensemble, times_ms[ROUNDS - 1] <= WORST_MS);
}

/* A connection to a replica that will be stopped: over TLS, its handshake needs a running one. */
static int connect_raw(uint16_t port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(port)};

    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);

    int fd = loop_connect((const struct sockaddr *)&addr, sizeof(addr));

    assert_true(fd >= 0);
    ENSEMBLE_WAIT(&ensemble, loop_connect_result(fd) == 0);
    return fd;
}

/* Sends a request to a stopped process, which answers when it continues. */
static void send_raw_read(int fd)
{
    static const char request[] = "GET /znodes/v1/stale?consistency=linearizable&dataformat=utf8 "
                                  "HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";

    assert_int_equal(write(fd, request, sizeof(request) - 1), sizeof(request) - 1);
}

static void read_answer(int fd, char *answer)
{
    size_t len = 0;
    ssize_t got = 1;

    while (got != 0 && len < ANSWER_MAX - 1) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};

        ENSEMBLE_CHECK(&ensemble, poll(&ready, 1, 20000) == 1);
        got = read(fd, answer + len, ANSWER_MAX - 1 - len);
        ENSEMBLE_CHECK(&ensemble, got >= 0 || errno == EAGAIN);
        len += got > 0 ? (size_t)got : 0;
    }
    answer[len] = '\0';
    close(fd);
}

TEST(silent_leader_is_replaced, open_three, close_three)
{
    char answer[ANSWER_MAX];
    uint32_t leader = ensemble_wait_leader(&ensemble);
    uint32_t other = (leader + 1) % 3;

    ensemble_call_until(&ensemble, other, "PUT", "/znodes/v1/stale?upsert=true", "old", 201);
    load_start(&load, &ensemble, WRITERS);
    load_wait(&load, &ensemble, 100);

    int fd = connect_raw(ensemble.replicas[leader].client_port);
    uint64_t start_ms = os_now_ms();

    ensemble_signal(&ensemble, leader, SIGSTOP);

    uint64_t took_ms = time_next_write(leader, start_ms);

    print_message("next write after SIGSTOP of the leader: %d ms\n", (int)took_ms);
    ensemble_call_until(&ensemble, other, "PUT", "/znodes/v1/stale", "new", 200);

    send_raw_read(fd);
    ensemble_signal(&ensemble, leader, SIGCONT);
    read_answer(fd, answer);
    ENSEMBLE_CHECK(&ensemble, !strstr(answer, "\"old\""));
    ENSEMBLE_CHECK(&ensemble, strstr(answer, " 200 ") || strstr(answer, " 503 "));
    ensemble_wait_ready(&ensemble, leader);
    load_wait(&load, &ensemble, 100);
    load_stop(&load, &ensemble);
    for (uint32_t i = 0; i < 3; i++) {
        load_verify(&load, &ensemble, i);
    }
    load_release(&load);
    ENSEMBLE_CHECK(&ensemble, took_ms <= SILENT_MS);
}

/* Replica 3 dials both others through these. */
static struct proxy proxies[2];

static void make_leader(uint32_t index)
{
    uint32_t leader = ensemble_wait_leader(&ensemble);

    while (leader != index) {
        assert_int_equal(ensemble_stop(&ensemble, leader), 0);
        ensemble_start(&ensemble, leader);
        ensemble_wait_all_ready(&ensemble);
        leader = ensemble_wait_leader(&ensemble);
    }
}

static void open_behind_proxies(void)
{
    ensemble_open(&ensemble, 3, NULL);
    for (uint32_t i = 0; i < 2; i++) {
        proxy_start(&proxies[i], ensemble.replicas[i].peer_port, 0, 1);
        assert_int_equal(shell("sed -i 's/^server.%u=.*/server.%u=127.0.0.1:%u/' %s", i + 1, i + 1,
                               proxies[i].port, ensemble.replicas[2].config),
                         0);
    }
    for (uint32_t i = 0; i < 3; i++) {
        ensemble_start(&ensemble, i);
    }
    ensemble_wait_all_ready(&ensemble);
}

static void close_behind_proxies(void)
{
    ensemble_close(&ensemble);
    proxy_stop(&proxies[0]);
    proxy_stop(&proxies[1]);
}

/* The others still receive its messages: it must step down by itself, and they may elect it once
 * more. */
TEST(deaf_leader_is_replaced, open_behind_proxies, close_behind_proxies)
{
    uint64_t start_ms = 0;
    uint64_t took_ms = 0;

    make_leader(2);
    start_ms = os_now_ms();
    atomic_store(&proxies[0].deaf, true);
    atomic_store(&proxies[1].deaf, true);
    took_ms = time_next_write(2, start_ms);
    print_message("next write after the leader is deaf: %d ms\n", (int)took_ms);
    ENSEMBLE_CHECK(&ensemble, took_ms <= DEAF_MS);
    atomic_store(&proxies[0].deaf, false);
    atomic_store(&proxies[1].deaf, false);
    ensemble_wait_all_ready(&ensemble);
}

TEST(all_killed_under_load, open_three, close_three)
{
    load_start(&load, &ensemble, WRITERS);
    load_wait(&load, &ensemble, 500);
    for (uint32_t i = 0; i < 3; i++) {
        ensemble_signal(&ensemble, i, SIGKILL);
    }
    for (uint32_t i = 0; i < 3; i++) {
        (void)ensemble_wait_end(&ensemble, i);
    }
    for (uint32_t i = 0; i < 3; i++) {
        ensemble_start(&ensemble, i);
    }
    ensemble_wait_all_ready(&ensemble);
    load_wait(&load, &ensemble, 100);
    load_stop(&load, &ensemble);
    print_message("acknowledged writes: %u\n", load_acked(&load));
    for (uint32_t i = 0; i < 3; i++) {
        load_verify(&load, &ensemble, i);
    }
    load_release(&load);
}
