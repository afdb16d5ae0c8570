/*
 * Writes on three replicas whose connections are plain (peerTls=off), and encrypted
 * (peerTls=required), in turn: processor time of all replicas for 1,000 writes of 1 KiB by 16
 * clients of the leader, and writes per second.
 */
#include "tests/bench/line.h"
#include "tests/proc/ensemble.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LINES = 16,
    WRITES = 32000,
    WARM_UP = 4000,
    PAIRS = 8
};

static char secret_file[] = "/tmp/zabra-bench-XXXXXX";
static struct ensemble ensemble;

struct cost {
    double cpu_ms; /* For 1,000 writes. */
    double rate;   /* Per second. */
};

static double cpu_ms(void)
{
    double sum = 0;

    for (uint32_t i = 0; i < ensemble.count; i++) {
        sum += (double)line_cpu_ns(ensemble.replicas[i].pid) / 1e6;
    }
    return sum;
}

static void write_all(struct line *lines, const char *request, int count)
{
    for (int i = 0; i < count / LINES; i++) {
        for (int at = 0; at < LINES; at++) {
            line_send(&lines[at], request);
        }
        for (int at = 0; at < LINES; at++) {
            line_answer(&lines[at], 200);
        }
    }
}

static struct cost measure(const char *peer_tls)
{
    static const char head[] = "PUT /znodes/v1/k HTTP/1.1\r\nHost: localhost\r\n"
                               "Content-Length: 1024\r\n\r\n";
    char request[sizeof(head) + 1024];
    char keys[256];
    struct line lines[LINES];
    struct cost cost = {0};

    (void)snprintf(keys, sizeof(keys), "peerSecretFile=%s\npeerTls=%s\n", secret_file, peer_tls);
    (void)snprintf(request, sizeof(request), "%s%01024d", head, 7);
    ensemble_launch(&ensemble, 3, keys);

    uint32_t leader = ensemble_wait_leader(&ensemble);

    ensemble_call_until(&ensemble, leader, "PUT", "/znodes/v1/k?upsert=true", "x", 201);
    for (int at = 0; at < LINES; at++) {
        lines[at] = line_open(ensemble.replicas[leader].client_port, NULL, NULL);
    }
    write_all(lines, request, WARM_UP);

    double before = cpu_ms();
    uint64_t start_us = os_now_us();

    write_all(lines, request, WRITES);
    cost.rate = WRITES * 1e6 / (double)(os_now_us() - start_us);
    cost.cpu_ms = (cpu_ms() - before) * 1000 / WRITES;
    for (int at = 0; at < LINES; at++) {
        line_close(&lines[at]);
    }
    ensemble_close(&ensemble);
    return cost;
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;

    return left < right ? -1 : left > right;
}

static double median(double *values)
{
    qsort(values, PAIRS, sizeof(values[0]), compare);
    return (values[PAIRS / 2 - 1] + values[PAIRS / 2]) / 2;
}

int main(void)
{
    double cpu[2][PAIRS];
    double rate[2][PAIRS];
    double ratio[PAIRS];
    int fd = mkstemp(secret_file); /* Mode 0600. */

    if (fd < 0 || dprintf(fd, "%064d\n", 42) < 0 || close(fd) != 0) {
        line_fail("no file for the secret");
    }
    web_setup();
    for (int i = 0; i < PAIRS; i++) {
        for (int kind = 0; kind < 2; kind++) {
            struct cost cost = measure(kind == 0 ? "off" : "required");

            cpu[kind][i] = cost.cpu_ms;
            rate[kind][i] = cost.rate;
        }
        ratio[i] = cpu[1][i] / cpu[0][i];
    }
    (void)unlink(secret_file);

    double middle = median(ratio); /* Sorts. */

    (void)printf("%d pairs: CPU ms for 1,000 writes: plain %.1f, encrypted %.1f, median ratio %.2f "
                 "(%.2f to %.2f); writes/s: %.0f, %.0f\n",
                 PAIRS, median(cpu[0]), median(cpu[1]), middle, ratio[0], ratio[PAIRS - 1],
                 median(rate[0]), median(rate[1]));
    return 0;
}
