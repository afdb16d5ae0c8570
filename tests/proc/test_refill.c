/*
 * A replica behind a slow link is brought in sync during steady writes with a short log: its
 * snapshot takes longer than the log would last. The bytes on the link are counted, so that a
 * restarted transfer is noticed.
 *
 * The last replica dials all others, so only its configuration needs the slow links. `--full` uses
 * 20 MB over 2 MB/s; the default is smaller, to fit into a run of all tests.
 */
#include "tests/lib/unit.h"
#include "tests/proc/ensemble.h"
#include "tests/proc/load.h"
#include "tests/proc/slow_link.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    LAST = 2, /* Index of the refilled replica. */
    VALUE_BYTES = 100000,
    WRITERS = 2,
    BREAKS = 3,
    WRITES_LEAST = 200 /* During a transfer: as many as the log keeps by itself. */
};

struct scale {
    uint32_t values; /* Number of values of VALUE_BYTES. */
    uint32_t rate;   /* Bytes a second. */
};

static struct scale scale = {.values = 30, .rate = 1000000};

static struct ensemble ensemble;
static struct slow_link links[LAST];
static struct load load;

/* A log of a few hundred writes. */
static const char keys[] = "snapCount=200\nsnapRetainCount=1\nwalSegmentBytes=262144\n";

/* Makes the last replica dial the others through the links. */
static void give_links(void)
{
    const struct replica *last = &ensemble.replicas[LAST];
    char text[1024];
    int fd = open(last->config, O_WRONLY | O_TRUNC | O_CLOEXEC);
    int len = snprintf(text, sizeof(text),
                       "id=%u\ndataDir=%s\nclientPort=%u\nserver.1=127.0.0.1:%u\n"
                       "server.2=127.0.0.1:%u\nserver.3=127.0.0.1:%u\n%s",
                       last->id, last->data, last->client_port, links[0].port, links[1].port,
                       last->peer_port, keys);

    assert_true(fd >= 0 && len > 0 && len < (int)sizeof(text));
    assert_int_equal(write(fd, text, (size_t)len), len);
    close(fd);
}

static void fill(void)
{
    static char value[VALUE_BYTES + 1];
    char path[64];

    memset(value, 'v', VALUE_BYTES);
    ensemble_call_until(&ensemble, 0, "PUT", "/znodes/v1/big?upsert=true", "", 201);
    for (uint32_t i = 0; i < scale.values; i++) {
        (void)snprintf(path, sizeof(path), "/znodes/v1/big/v%u?upsert=true", i);
        ensemble_call_until(&ensemble, 0, "PUT", path, value, 201);
    }
}

static uint64_t passed(void)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < LAST; i++) {
        sum += atomic_load(&links[i].passed);
    }
    return sum;
}

/* The last replica is down, its disk is empty, the others accept writes. */
static void open_with_a_learner(void)
{
    ensemble_open(&ensemble, 3, keys);
    for (size_t i = 0; i < LAST; i++) {
        slow_link_start(&links[i], ensemble.replicas[i].peer_port, 0);
    }
    give_links();
    for (uint32_t i = 0; i < 3; i++) {
        ensemble_start(&ensemble, i);
    }
    ensemble_wait_all_ready(&ensemble);
    ensemble_kill(&ensemble, LAST);
    ensemble_empty(&ensemble, LAST);
    fill();
    load_start(&load, &ensemble, WRITERS);
    load_wait(&load, &ensemble, 1000);
}

static void close_all(void)
{
    load_release(&load);
    ensemble_close(&ensemble);
    for (size_t i = 0; i < LAST; i++) {
        slow_link_stop(&links[i]);
    }
}

static void start_slowly(void)
{
    for (size_t i = 0; i < LAST; i++) {
        atomic_store(&links[i].rate, scale.rate);
        atomic_store(&links[i].passed, 0);
    }
    ensemble_start(&ensemble, LAST);
}

static uint64_t state_bytes(void)
{
    return (uint64_t)scale.values * VALUE_BYTES;
}

TEST(a_learner_behind_a_slow_link_gets_in_sync_under_load, open_with_a_learner, close_all)
{
    uint32_t leader = ensemble_wait_leader(&ensemble);
    uint32_t writes = load_acked(&load);
    uint64_t start_ms = os_now_ms();

    start_slowly();
    ensemble_wait_ready(&ensemble, LAST);
    writes = load_acked(&load) - writes;
    print_message("in sync after %d ms, during %u writes; the links carried %d kB\n",
                  (int)(os_now_ms() - start_ms), writes, (int)(passed() / 1000));
    ENSEMBLE_CHECK(&ensemble, writes >= WRITES_LEAST);
    load_stop(&load, &ensemble);
    /* One transfer, and the log after it. */
    ENSEMBLE_CHECK(&ensemble, passed() < 2 * state_bytes());
    ENSEMBLE_CHECK(&ensemble,
                   ensemble_metric(&ensemble, leader, "zabra_refill_log_lost_total") == 0);
    ENSEMBLE_WAIT(&ensemble, ensemble_metric(&ensemble, leader, "zabra_refill_log_bytes") == 0);
    load_verify(&load, &ensemble, LAST);
}

/* Bytes that arrived before the connection broke are not sent again. */
TEST(a_broken_transfer_resumes_at_its_offset, open_with_a_learner, close_all)
{
    uint64_t end = 0;

    (void)ensemble_wait_leader(&ensemble);
    load_stop(&load, &ensemble);
    start_slowly();
    for (uint32_t i = 1; i <= BREAKS; i++) {
        end = state_bytes() * i / (BREAKS + 1);
        ENSEMBLE_WAIT(&ensemble, passed() > end);
        for (size_t k = 0; k < LAST; k++) {
            slow_link_break(&links[k]);
        }
    }
    ensemble_wait_ready(&ensemble, LAST);
    print_message("state of %d kB, broken off %d times: the links carried %d kB\n",
                  (int)(state_bytes() / 1000), BREAKS, (int)(passed() / 1000));
    ENSEMBLE_CHECK(&ensemble, passed() < state_bytes() + state_bytes() / 2);
    load_verify(&load, &ensemble, LAST);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--full") == 0) {
        scale = (struct scale){.values = 200, .rate = 2000000};
    }
    web_setup();
    return unit_run(1, argv);
}
