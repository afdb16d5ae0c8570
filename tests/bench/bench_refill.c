/*
 * The cost of a refill for writers: the 99th percentile of writes at the leader of three replicas,
 * first while one replica is down, then while it is refilled with a state of so many MB (the
 * argument; default 100) over loopback. Prints both and their ratio.
 *
 * The measured writes are those of one client, one after another. All replicas share this machine's
 * disk and processors, unlike an ensemble of machines.
 */
#include "tests/bench/writes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LOOK_MS = 200,
    LAST = 2, /* Index of the refilled replica. */
    VALUE_BYTES = 1000000,
    MB_MAX = 4000,
    USUAL_MS = 20000 /* Duration of writes before the refill. */
};

static struct ensemble ensemble;

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

/* Looks at the last replica only from time to time: the question is a request, too. */
static bool is_in_sync(void)
{
    static uint64_t looked_ms;
    uint64_t now_ms = os_now_ms();

    looked_ms = looked_ms ? looked_ms : now_ms;
    if (now_ms - looked_ms < LOOK_MS) {
        return false;
    }
    looked_ms = now_ms;
    return ensemble_call(&ensemble, LAST, "GET", "/readyz", NULL) == 200;
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

    uint32_t usual_us = writes_measure(&ensemble, leader, "usual", USUAL_MS, NULL);

    ensemble_start(&ensemble, LAST);

    uint32_t refill_us = writes_measure(&ensemble, leader, "refill", 0, is_in_sync);

    (void)printf("ratio of p99: %.2f\n", (double)refill_us / usual_us);
    ensemble_close(&ensemble);
    return 0;
}
