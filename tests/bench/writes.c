#include "tests/bench/writes.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    WRITES_MAX = 1 << 20
};

static uint32_t times_us[WRITES_MAX];

static int compare(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a;
    uint32_t right = *(const uint32_t *)b;

    return left < right ? -1 : left > right;
}

uint32_t writes_measure(struct ensemble *ensemble, uint32_t leader, const char *what, uint64_t ms,
                        bool (*is_done)(void))
{
    uint64_t start_ms = os_now_ms();
    uint32_t count = 0;
    bool done = false;

    while (!done && count < WRITES_MAX) {
        uint64_t start_us = os_now_us();

        ENSEMBLE_CHECK(ensemble,
                       ensemble_call(ensemble, leader, "PUT", "/znodes/v1/small", "x") == 200);
        times_us[count++] = (uint32_t)(os_now_us() - start_us);
        done = ms > 0 ? os_now_ms() - start_ms >= ms : is_done();
    }
    qsort(times_us, count, sizeof(times_us[0]), compare);
    (void)printf("%-8s %7u writes in %5.1f s: p50 %6u us, p99 %6u us, slowest %6u us\n", what,
                 count, (double)(os_now_ms() - start_ms) / 1000, times_us[count / 2],
                 times_us[count * 99ULL / 100], times_us[count - 1]);
    return times_us[count * 99ULL / 100];
}
