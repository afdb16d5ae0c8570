/*
 * Histories of real processes: clients over every interface work on a few keys of a three-replica
 * ensemble whose replicas are killed and stopped meanwhile. The recorded history must be possible.
 *
 *     proc.test_history [--seconds N] [--seed N] [--print FILE]
 *
 * The operations follow from the seed; which of them a fault hits does not.
 */
#include "base/os_rng.h"
#include "tests/lib/unit.h"
#include "tests/proc/history_run.h"
#include "tests/proc/options.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

enum {
#ifdef ZABRA_SLOW /* For the memory of replicas that crash and start; release judges histories. */
    SECONDS = 10,
#else
    SECONDS = 20,
#endif
    REPLICAS = 3,
    QUIET_ANSWERS = 300, /* Between two faults, if they arrive within ... */
    QUIET_MS = 1500 * ENSEMBLE_FACTOR
};

/* A small window and frequent snapshots, so that returning watchers get replays, differences and
 * gaps. */
static const char keys[] =
    "tickTime=300\nsnapCount=3000\nmaxWindow=400\nmaxSessionTimeout=3600000\n";

static struct ensemble ensemble;
static struct history_run run;
static uint64_t seconds = SECONDS;
static const char *print_path;

static void open_three(void)
{
    ensemble_launch(&ensemble, REPLICAS, keys);
}

static void close_three(void)
{
    ensemble_close(&ensemble);
}

/* ---- Faults. ---- */

static void wait_a_while(uint64_t wait_ms, uint64_t answers)
{
    uint64_t end_ms = os_now_ms() + wait_ms;
    uint64_t target = atomic_load(&run.answers) + answers;

    while (os_now_ms() < end_ms && atomic_load(&run.answers) < target) {
        ensemble_breathe();
    }
}

static uint32_t pick_victim(struct rng *rng)
{
    return rng_below(rng, 2) == 0 ? ensemble_wait_leader(&ensemble)
                                  : (uint32_t)rng_below(rng, REPLICAS);
}

static void kill_one(struct rng *rng)
{
    uint32_t victim = pick_victim(rng);

    ensemble_kill(&ensemble, victim);
    wait_a_while(rng_range(rng, 50, 1500), rng_range(rng, 50, 2000));
    ensemble_start(&ensemble, victim);
}

static void stop_one(struct rng *rng)
{
    uint32_t victim = pick_victim(rng);

    ensemble_signal(&ensemble, victim, SIGSTOP);
    wait_a_while(rng_range(rng, 50, 2500), UINT32_MAX);
    ensemble_signal(&ensemble, victim, SIGCONT);
}

static void kill_all(void)
{
    for (uint32_t i = 0; i < REPLICAS; i++) {
        ensemble_signal(&ensemble, i, SIGKILL);
    }
    for (uint32_t i = 0; i < REPLICAS; i++) {
        (void)ensemble_wait_end(&ensemble, i);
        ensemble_start(&ensemble, i);
    }
}

static void play_faults(void)
{
    uint64_t end_ms = os_now_ms() + seconds * 1000;
    struct rng rng;
    uint32_t count = 0;

    rng_init(&rng, run.seed);
    while (os_now_ms() < end_ms) {
        uint64_t dice = rng_below(&rng, 10);

        wait_a_while(QUIET_MS, QUIET_ANSWERS);
        if (dice < 5) {
            kill_one(&rng);
        } else if (dice < 9) {
            stop_one(&rng);
        } else {
            kill_all();
        }
        count++;
        ensemble_wait_all_ready(&ensemble);
    }
    print_message("%u replicas or groups of them were killed or stopped\n", count);
}

TEST(the_recorded_history_is_possible, open_three, close_three)
{
    struct history_report report;

    print_message("seed %" PRIu64 "\n", run.seed);
    ensemble_call_until(&ensemble, 0, "PUT", "/znodes/v1/h?upsert=true", "", 201);
    run.port_count = REPLICAS;
    for (uint32_t i = 0; i < REPLICAS; i++) {
        ensemble_call_until(&ensemble, i, "GET", "/znodes/v1/h?consistency=linearizable", NULL,
                            200);
        run.ports[i] = ensemble.replicas[i].client_port;
    }
    (void)history_client_add(&run, HISTORY_HTTP, "http");
    (void)history_client_add(&run, HISTORY_RAW, "raw");
    (void)history_client_add(&run, HISTORY_SOCKET, "socket");
    (void)history_client_add(&run, HISTORY_NATIVE, "native 1");
    (void)history_client_add(&run, HISTORY_NATIVE, "native 2");
    (void)history_client_add(&run, HISTORY_NATIVE_WATCH, "native 3");
    (void)history_client_add(&run, HISTORY_SSE, "sse");
    (void)history_client_add(&run, HISTORY_NDJSON, "ndjson");
    for (uint32_t i = 0; i < run.count; i++) {
        history_client_start(&run.clients[i]);
    }
    play_faults();
    history_finish(&run, &ensemble);
    history_judge(&run, &ensemble, print_path, &report);
    history_run_release(&run);
}

int main(int argc, char **argv)
{
    const struct option_row rows[] = {{.name = "--seconds", .value = "N", .number = &seconds},
                                      {.name = "--seed", .value = "N", .number = &run.seed},
                                      {.name = "--print", .value = "FILE", .text = &print_path}};

    run.seed = os_random_u64() % 1000000;
    if (!options_take(argc, argv, rows, sizeof(rows) / sizeof(rows[0]))) {
        return 2;
    }
    web_setup();
    return unit_run(1, argv);
}
