/*
 * Five real replicas, whose connections pass through the test's network, under overlapping faults:
 * processes are killed, paused and stopped, links block in one direction or both, or are slow, wall
 * clocks jump, disks are full, fail, are damaged and emptied. Meanwhile clients by HTTP, by
 * WebSocket and by ZooKeeper's protocol work and watchers resume on other replicas. Then the faults
 * stop: all replicas must be in sync with equal digests, and the recorded history must be possible.
 *
 *     proc.test_chaos [--seconds N] [--seed N] [--without KIND]... [--plan] [--keep] [--print FILE]
 *
 * The faults of each round follow from the seed; which operations they hit does not.
 */
#include "base/mem.h"
#include "base/os_rng.h"
#include "tests/lib/unit.h"
#include "tests/proc/chaos.h"
#include "tests/proc/history_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SECONDS = 15,
    TTL_SECONDS = 60, /* Runs of at least that length check that TTL znodes end. */
    ROUND_MS = 40000,
    REST_MS = 6,
    KEEPERS = 4,
    GAP_US = 1000000 /* Unavailable: without an acknowledged write for so long. */
};

/* Small files, windows and snapshots: a minute rotates as many as days in production. */
static const char keys[] = "tickTime=300\nsnapCount=3000\nmaxWindow=400\nwalSegmentBytes=4194304\n"
                           "maxSessionTimeout=3600000\nmaxRemembered=1000000\n"
                           "maxRememberedBytes=268435456\n";

static struct chaos chaos;
static struct history_run run;
static struct chaos_keeper keepers[KEEPERS];
static uint32_t seconds = SECONDS;
static uint32_t without;
static bool only_plan;
static bool keep;
static bool sound;
static const char *print_path;

static void open_five(void)
{
    chaos_open(&chaos, keys);
}

static void close_five(void)
{
    chaos_close(&chaos, keep || !sound);
}

/* ---- Statistics. ---- */

static int by_time(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;

    return left < right ? -1 : left > right;
}

/* The times at which writes were acknowledged, in order. The caller frees them. */
static uint64_t *ack_times(size_t *ret_count)
{
    size_t count = 0;

    for (uint32_t i = 0; i < run.count; i++) {
        count += run.clients[i].log.op_count;
    }

    uint64_t *times = mem_zalloc(count + 1, sizeof(*times));

    *ret_count = 0;
    for (uint32_t i = 0; i < run.count; i++) {
        const struct history_log *log = &run.clients[i].log;

        for (size_t k = 0; k < log->op_count; k++) {
            if (log->ops[k].outcome == HISTORY_OK && history_changes(&log->ops[k])) {
                times[(*ret_count)++] = log->ops[k].end_us;
            }
        }
    }
    qsort(times, *ret_count, sizeof(*times), by_time);
    return times;
}

static void print_gaps(void)
{
    size_t count = 0;
    uint64_t *times = ack_times(&count);
    uint64_t longest = 0;
    uint64_t sum = 0;
    uint64_t at = 0;
    uint32_t gaps = 0;

    for (size_t i = 1; i < count; i++) {
        uint64_t gap = times[i] - times[i - 1];

        gaps += gap > GAP_US;
        sum += gap > GAP_US ? gap : 0;
        at = gap > longest ? times[i - 1] - times[0] : at;
        longest = gap > longest ? gap : longest;
    }
    print_message(
        "unavailable (no write acknowledged for more than 1 s): %u times, %.1f of %.1f s; "
        "longest %.1f s, %.1f s after the first write\n",
        gaps, (double)sum / 1e6, (double)(count ? times[count - 1] - times[0] : 0) / 1e6,
        (double)longest / 1e6, (double)at / 1e6);
    mem_free(times);
}

static void print_faults(void)
{
    const struct chaos_counts *counts = &chaos.counts;
    uint32_t done = 0;

    for (uint32_t kind = 0; kind < CHAOS_KINDS; kind++) {
        print_message("%-14s %4u done, %3u skipped\n", chaos_name((enum chaos_kind)kind),
                      counts->done[kind], counts->withheld[kind]);
        done += counts->done[kind];
    }
    print_message("%u faults, %u of them while others were active, up to %u at a time; %u replicas "
                  "ended themselves behind an I/O error\n",
                  done, counts->overlaps, counts->overlap_max, counts->ended);
    print_message(
        "%u new leaders; %u emptied or damaged disks filled again, the slowest in %.1f s; "
        "all in sync %.1f s after the last fault of a round at most; %.1f MB between "
        "replicas\n",
        counts->last_epoch - counts->first_epoch, counts->refills,
        (double)counts->refill_max_ms / 1e3, (double)counts->heal_max_ms / 1e3,
        (double)atomic_load(&chaos.network.carried) / 1e6);
}

static void print_outcomes(void)
{
    uint32_t not_done = 0;
    uint32_t resumed = 0;

    for (uint32_t i = 0; i < run.count; i++) {
        const struct history_log *log = &run.clients[i].log;

        for (size_t k = 0; k < log->op_count; k++) {
            not_done += log->ops[k].outcome == HISTORY_NOT_DONE;
        }
        for (size_t k = 0; k < log->item_count; k++) {
            resumed +=
                log->items[k].kind == HISTORY_REPLAYED || log->items[k].kind == HISTORY_DIFFED;
        }
    }
    print_message("%u writes answered as not done; watches resumed %u times\n", not_done, resumed);
}

/* ---- The run. ---- */

static bool digest_of(uint32_t index, uint64_t *ret_zxid, char *ret_digest, size_t size)
{
    struct ensemble *ensemble = &chaos.ensemble;
    bool known = ensemble_call(ensemble, index, "GET", "/status/v1", NULL) == 200;
    json_t *status = known ? web_json(&ensemble->reply) : NULL;
    const char *digest = json_string_value(json_object_get(status, "digest"));

    *ret_zxid = history_zxid(json_object_get(status, "zxid"));
    (void)snprintf(ret_digest, size, "%s", digest ? digest : "");
    json_decref(status);
    return digest != NULL;
}

static bool are_equal(void)
{
    char digests[ENSEMBLE_MAX][64];
    uint64_t zxids[ENSEMBLE_MAX] = {0};

    for (uint32_t i = 0; i < chaos.ensemble.count; i++) {
        if (!digest_of(i, &zxids[i], digests[i], sizeof(digests[i]))) {
            return false;
        }
    }
    for (uint32_t i = 1; i < chaos.ensemble.count; i++) {
        if (zxids[i] != zxids[0] || strcmp(digests[i], digests[0]) != 0) {
            return false;
        }
    }
    print_message("all replicas are at zxid 0x%" PRIx64 " with digest %s\n", zxids[0], digests[0]);
    return true;
}

static void add_clients(void)
{
    static const struct {
        enum history_kind kind;
        const char *name;
    } clients[] = {{HISTORY_HTTP, "http 1"},     {HISTORY_HTTP, "http 2"},
                   {HISTORY_HTTP, "http 3"},     {HISTORY_RAW, "raw 1"},
                   {HISTORY_RAW, "raw 2"},       {HISTORY_SOCKET, "socket 1"},
                   {HISTORY_SOCKET, "socket 2"}, {HISTORY_NATIVE, "native 1"},
                   {HISTORY_NATIVE, "native 2"}, {HISTORY_NATIVE_WATCH, "native 3"},
                   {HISTORY_SSE, "sse"},         {HISTORY_NDJSON, "ndjson"}};

    run.rest_ms = REST_MS;
    run.disks_fill = true;
    run.port_count = chaos.ensemble.count;
    for (uint32_t i = 0; i < run.port_count; i++) {
        ensemble_call_until(&chaos.ensemble, i, "GET", "/znodes/v1/h?consistency=linearizable",
                            NULL, 200);
        run.ports[i] = chaos.ensemble.replicas[i].client_port;
    }
    for (size_t i = 0; i < sizeof(clients) / sizeof(clients[0]); i++) {
        (void)history_client_add(&run, clients[i].kind, clients[i].name);
    }
    for (uint32_t i = 0; i < run.count; i++) {
        history_client_start(&run.clients[i]);
    }
}

/* The time of transactions must advance whatever the clocks showed: each replica accepts a write
 * with a key, and TTL znodes end. Leaders check those once a minute, so short runs do not wait. */
static void check_time_advances(void)
{
    struct ensemble *ensemble = &chaos.ensemble;
    char path[128];

    for (uint32_t i = 0; i < ensemble->count; i++) {
        (void)snprintf(path, sizeof(path), "/znodes/v1/?op=create&name=brief%u&ttl=500", i);
        ensemble_call_until(ensemble, i, "POST", path, "x", 201);
    }
    for (uint32_t i = 0; seconds >= TTL_SECONDS && i < ensemble->count; i++) {
        (void)snprintf(path, sizeof(path), "/znodes/v1/brief%u?consistency=linearizable", i);
        ensemble_call_until(ensemble, i, "GET", path, NULL, 404);
    }
}

static void start_keepers(void)
{
    ensemble_call_until(&chaos.ensemble, 0, "PUT", "/znodes/v1/e?upsert=true", "", 201);
    for (uint32_t i = 0; i < KEEPERS; i++) {
        chaos_keeper_start(&keepers[i], &chaos.ensemble, i + 1, run.seed);
    }
}

static bool has_no_children(uint32_t index)
{
    struct ensemble *ensemble = &chaos.ensemble;
    const char *path = "/znodes/v1/e?view=children&consistency=linearizable";
    bool known = ensemble_call(ensemble, index, "GET", path, NULL) == 200;
    json_t *answer = known ? web_json(&ensemble->reply) : NULL;
    const json_t *children = json_object_get(answer, "children");
    bool none = children && json_array_size(children) == 0;

    json_decref(answer);
    return none;
}

/* No session was lost while it was renewed; abandoned sessions end with their ephemerals. */
static void stop_keepers(void)
{
    struct chaos_keeper sum = {.number = 0};
    uint64_t start_ms = os_now_ms();

    for (uint32_t i = 0; i < KEEPERS; i++) {
        chaos_keeper_stop(&keepers[i]);
        sum.opened += keepers[i].opened;
        sum.touches += keepers[i].touches;
        sum.abandoned += keepers[i].abandoned;
        sum.expired += keepers[i].expired;
    }
    for (uint32_t i = 0; i < KEEPERS; i++) {
        ensemble_check(&chaos.ensemble, keepers[i].wrong[0] == '\0', keepers[i].wrong);
    }
    for (uint32_t i = 0; i < chaos.ensemble.count; i++) {
        ENSEMBLE_WAIT(&chaos.ensemble, has_no_children(i));
    }
    print_message("%u sessions of 8 s: %u renewals, %u expired without a reachable replica, %u "
                  "abandoned; all had ended %.1f s after the last renewal\n",
                  sum.opened, sum.touches, sum.expired, sum.abandoned,
                  (double)(os_now_ms() - start_ms) / 1e3);
}

static void play_rounds(void)
{
    struct chaos_planner planner;
    uint32_t left_ms = seconds * 1000;

    chaos_planner_init(&planner, run.seed, ENSEMBLE_MAX, without);
    for (uint32_t round = 1; left_ms > 0; round++) {
        uint32_t round_ms = left_ms < ROUND_MS ? left_ms : (uint32_t)ROUND_MS;

        chaos_draw(&planner, round_ms, &chaos.plan);
        if (only_plan) {
            print_message("round %u, %u ms\n", round, round_ms);
            chaos_print_plan(&chaos.plan);
        } else {
            chaos_play(&chaos, round_ms);
            print_message("round %u: %u faults planned; all in sync, %" PRIu64 " answers so far\n",
                          round, chaos.plan.count, atomic_load(&run.answers));
        }
        left_ms -= round_ms;
    }
}

TEST(the_history_under_all_faults_is_possible, open_five, close_five)
{
    struct history_report report;

    print_message("seed %" PRIu64 "\n", run.seed);
    ensemble_call_until(&chaos.ensemble, 0, "PUT", "/znodes/v1/h?upsert=true", "", 201);
    add_clients();
    start_keepers();
    play_rounds();
    stop_keepers();
    check_time_advances();
    history_finish(&run, &chaos.ensemble);
    ENSEMBLE_WAIT(&chaos.ensemble, are_equal());
    print_faults();
    print_outcomes();
    print_gaps();
    history_judge(&run, &chaos.ensemble, print_path, &report);
    history_run_release(&run);
    sound = true;
}

/* ---- Arguments. ---- */

static bool take_option(const char *name, const char *value)
{
    if (strcmp(name, "--seconds") == 0) {
        seconds = (uint32_t)strtoul(value, NULL, 10);
    } else if (strcmp(name, "--minutes") == 0) {
        seconds = (uint32_t)strtoul(value, NULL, 10) * 60;
    } else if (strcmp(name, "--seed") == 0) {
        run.seed = strtoull(value, NULL, 10);
    } else if (strcmp(name, "--print") == 0) {
        print_path = value;
    } else if (strcmp(name, "--without") == 0 && chaos_kind_of(value) != CHAOS_KINDS) {
        without |= 1U << chaos_kind_of(value);
    } else {
        return false;
    }
    return true;
}

static bool take_options(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--plan") == 0) {
            only_plan = true;
        } else if (strcmp(argv[i], "--keep") == 0) {
            keep = true;
        } else if (i + 1 == argc || !take_option(argv[i], argv[i + 1])) {
            return false;
        } else {
            i++;
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    run.seed = os_random_u64() % 1000000;
    if (!take_options(argc, argv)) {
        (void)fprintf(stderr,
                      "usage: %s [--minutes N | --seconds N] [--seed N] [--without KIND]... "
                      "[--plan] [--keep] [--print FILE]\n",
                      argv[0]);
        return 2;
    }
    if (only_plan) {
        play_rounds();
        return 0;
    }
    web_setup();
    return unit_run(1, argv);
}
