/*
 * The cost of a refill for writers: the 99th percentile of writes at the leader of three replicas,
 * first while one replica is down, then while it is refilled with a state of so many MB (the
 * argument; default 100) over loopback. Prints both and their ratio.
 *
 * The measured writes are those of one client, one after another. All replicas share this machine's
 * disk and processors, unlike an ensemble of machines.
 */
#include "tests/proc/ensemble.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LAST = 2, /* Index of the refilled replica. */
    VALUE_BYTES = 1000000,
    MB_MAX = 4000,
    USUAL_MS = 20000, /* Duration of writes before the refill. */
    WRITES_MAX = 1 << 20
};

static struct ensemble ensemble;
static uint32_t times_us[WRITES_MAX];

static int compare(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a;
    uint32_t right = *(const uint32_t *)b;

    return left < right ? -1 : left > right;
}

static void fill(uint32_t leader, uint32_t values)
{
    static char value[VALUE_BYTES + 1];
    char path[64];

    memset(value, 'v', VALUE_BYTES);
    ensemble_call_until(&ensemble, leader, "PUT", "/znodes/v1/small?upsert=true", "", 201);
    ensemble_call_until(&ensemble, leader, "PUT", "/znodes/v1/big?upsert=true", "", 201);
    for (uint32_t i = 0; i < values; i++) {
        (void)snprintf(path, sizeof(path), "/znodes/v1/big/v%u?upsert=true", i);
        ensemble_call_until(&ensemble, leader, "PUT", path, value, 201);
    }
}

static bool is_in_sync(void)
{
    return ensemble_call(&ensemble, LAST, "GET", "/readyz", NULL) == 200;
}

/* Writes for `ms`, or until the last replica is in sync if `ms` is 0. Returns the 99th
 * percentile. */
static uint32_t measure(const char *what, uint32_t leader, uint64_t ms)
{
    uint64_t start_ms = os_now_ms();
    uint64_t looked_ms = start_ms;
    uint32_t count = 0;
    bool done = false;

    while (!done && count < WRITES_MAX) {
        uint64_t start_us = os_now_us();

        ENSEMBLE_CHECK(&ensemble,
                       ensemble_call(&ensemble, leader, "PUT", "/znodes/v1/small", "x") == 200);
        times_us[count++] = (uint32_t)(os_now_us() - start_us);

        uint64_t now_ms = os_now_ms();

        if (ms > 0) {
            done = now_ms - start_ms >= ms;
        } else if (now_ms - looked_ms >= 200) {
            looked_ms = now_ms;
            done = is_in_sync();
        }
    }
    qsort(times_us, count, sizeof(times_us[0]), compare);
    (void)printf("%-8s %7u writes in %5.1f s: p50 %6u us, p99 %6u us, slowest %6u us\n", what,
                 count, (double)(os_now_ms() - start_ms) / 1000, times_us[count / 2],
                 times_us[count * 99ULL / 100], times_us[count - 1]);
    return times_us[count * 99ULL / 100];
}

int main(int argc, char **argv)
{
    unsigned long mb = argc > 1 ? strtoul(argv[1], NULL, 10) : 100;

    if (mb == 0 || mb > MB_MAX) {
        (void)fprintf(stderr, "usage: bench_refill [MB, at most %d]\n", MB_MAX);
        return 2;
    }
    web_setup();
    ensemble_launch(&ensemble, 3, "snapRetainCount=1\n");
    ensemble_kill(&ensemble, LAST);
    ensemble_empty(&ensemble, LAST);

    uint32_t leader = ensemble_wait_leader(&ensemble);

    fill(leader, (uint32_t)mb);

    uint32_t usual_us = measure("usual", leader, USUAL_MS);

    ensemble_start(&ensemble, LAST);

    uint32_t refill_us = measure("refill", leader, 0);

    (void)printf("ratio of p99: %.2f\n", (double)refill_us / usual_us);
    ensemble_close(&ensemble);
    return 0;
}
