/* Wall clocks that jump: timeouts still pass, and times of changes follow a majority. */
#include "tests/lib/unit.h"
#include "tests/proc/ensemble.h"
#include "tests/proc/faulty.h"

#define YEARS_MS INT64_C(315360000000) /* Ten. */

enum {
    REPLICAS = 3,
    BAD_MS = 1500,
    DAY_MS = 1500,
    NIGHTS_MAX = 8,
    NEAR_MS = 5000, /* Delay that a busy machine may add to a second. */
};

static struct ensemble ensemble;
static struct faulty *faulty[REPLICAS];

static void launch(void)
{
    ensemble_open(&ensemble, REPLICAS, "rememberFor=2000\nmaxRemembered=4\n");
    ensemble.faulty = true;
    for (uint32_t i = 0; i < REPLICAS; i++) {
        faulty[i] = faulty_open(ensemble.replicas[i].faulty);
        ensemble_start(&ensemble, i);
    }
    ensemble_wait_all_ready(&ensemble);
}

static void teardown(void)
{
    ensemble_close(&ensemble);
}

static long put_with_key(uint32_t index, const char *path)
{
    char key[WEB_KEY_LEN + 1];
    char headers[WEB_KEY_LEN + 32];

    web_make_key(key);
    (void)snprintf(headers, sizeof(headers), "Idempotency-Key: %s", key);
    const struct web_call call = {.method = "PUT",
                                  .port = ensemble.replicas[index].client_port,
                                  .path = path,
                                  .body = "x",
                                  .headers = headers};

    return web_do(ensemble.web, &call, &ensemble.reply);
}

static bool is_done(long status)
{
    return status == 200 || status == 201;
}

/* Fills the store of remembered answers. */
static void fill_memory(uint32_t index)
{
    ENSEMBLE_WAIT(&ensemble, put_with_key(index, "/znodes/v1/keyed?upsert=true") == 429);
}

static bool is_gone(uint32_t index, const char *path)
{
    return ensemble_call(&ensemble, index, "GET", path, NULL) == 404;
}

static int64_t time_of(uint32_t index, const char *path, const char *field)
{
    char name[32];

    (void)snprintf(name, sizeof(name), "\"%s\":", field);
    ENSEMBLE_WAIT(&ensemble, ensemble_call(&ensemble, index, "GET", path, NULL) == 200);
    const char *at = strstr(web_text(&ensemble.reply), name);

    assert_non_null(at);
    return strtoll(at + strlen(name), NULL, 10);
}

static bool is_near(int64_t time_ms, int64_t want_ms)
{
    return time_ms > want_ms - NEAR_MS && time_ms < want_ms + NEAR_MS;
}

static void restart_all(void)
{
    for (uint32_t i = 0; i < REPLICAS; i++) {
        ensemble_kill(&ensemble, i);
    }
    for (uint32_t i = 0; i < REPLICAS; i++) {
        ensemble_start(&ensemble, i);
    }
    ensemble_wait_all_ready(&ensemble);
}

/* Writes while the leader's clock is ten years ahead for a second and a half. */
static void bad_second(const char *create_ttl)
{
    static const char stamped[] = "/znodes/v1/stamped?upsert=true";
    uint32_t leader = ensemble_wait_leader(&ensemble);
    uint64_t end_ms = os_now_ms() + BAD_MS;

    atomic_store(&faulty[leader]->wall_offset_ms, YEARS_MS);
    ENSEMBLE_WAIT(&ensemble, is_done(ensemble_call(&ensemble, leader, "PUT", stamped, "x")));
    assert_true(is_near(time_of(leader, "/znodes/v1/stamped", "mtime"), os_wall_ms()));
    ensemble_call_until(&ensemble, leader, "POST", create_ttl, "x", 201);
    while (os_now_ms() < end_ms) {
        (void)put_with_key(leader, "/znodes/v1/keyed?upsert=true");
        ensemble_breathe();
    }
    fill_memory(leader);
    atomic_store(&faulty[leader]->wall_offset_ms, 0);
}

TEST(a_bad_second_of_the_leaders_clock_stops_no_time, launch, teardown)
{
    bad_second("/znodes/v1/?op=create&name=one&ttl=1000");
    ENSEMBLE_WAIT(&ensemble, is_done(put_with_key(0, "/znodes/v1/keyed?upsert=true")));
    ENSEMBLE_WAIT(&ensemble, is_gone(0, "/znodes/v1/one"));
    /* The same, also after a restart of all. */
    bad_second("/znodes/v1/?op=create&name=two&ttl=1000");
    restart_all();
    ENSEMBLE_WAIT(&ensemble, is_done(put_with_key(1, "/znodes/v1/keyed?upsert=true")));
    ENSEMBLE_WAIT(&ensemble, is_gone(1, "/znodes/v1/two"));
}

/* Stops the leader first: without a majority it could not write the age of the ensemble. */
static void stop_all(void)
{
    uint32_t leader = ensemble_wait_leader(&ensemble);

    for (uint32_t i = 0; i < REPLICAS; i++) {
        assert_int_equal(ensemble_stop(&ensemble, (leader + i) % REPLICAS), 0);
    }
}

/* The ensemble stops each night and never runs for as long as the TTL of a znode. The znode must
 * end anyway. */
TEST(a_ttl_ends_though_all_replicas_stop_each_night, launch, teardown)
{
    static const char path[] = "/znodes/v1/nightly";
    int nights = 0;

    ensemble_call_until(&ensemble, 0, "POST", "/znodes/v1/?op=create&name=nightly&ttl=6000", "x",
                        201);
    for (; nights < NIGHTS_MAX && !is_gone(0, path); nights++) {
        uint64_t end_ms = os_now_ms() + DAY_MS;

        while (os_now_ms() < end_ms) {
            ensemble_breathe();
        }
        stop_all();
        for (uint32_t i = 0; i < REPLICAS; i++) {
            ensemble_start(&ensemble, i);
        }
        ensemble_wait_all_ready(&ensemble);
    }
    assert_true(nights < NIGHTS_MAX);
}

static void set_majority(int64_t offset_ms)
{
    atomic_store(&faulty[0]->wall_offset_ms, offset_ms);
    atomic_store(&faulty[1]->wall_offset_ms, offset_ms);
}

/* Times of changes follow a majority, and step back once when its clocks are corrected. */
TEST(an_ensemble_with_wrong_times_heals_by_itself, launch, teardown)
{
    ensemble_call_until(&ensemble, 0, "PUT", "/znodes/v1/a?upsert=true", "x", 201);
    assert_true(is_near(time_of(0, "/znodes/v1/a", "ctime"), os_wall_ms()));
    set_majority(YEARS_MS);
    ENSEMBLE_WAIT(&ensemble,
                  is_done(ensemble_call(&ensemble, 0, "PUT", "/znodes/v1/a", "y")) &&
                      is_near(time_of(0, "/znodes/v1/a", "mtime"), os_wall_ms() + YEARS_MS));
    restart_all();
    set_majority(0);
    ENSEMBLE_WAIT(&ensemble, is_done(ensemble_call(&ensemble, 0, "PUT", "/znodes/v1/a", "z")) &&
                                 is_near(time_of(0, "/znodes/v1/a", "mtime"), os_wall_ms()));
}

static bool log_has(uint32_t index, const char *text)
{
    char command[512];

    (void)snprintf(command, sizeof(command), "grep -q '%s' %s", text, ensemble.replicas[index].log);
    return system(command) == 0; /* NOLINT(concurrency-mt-unsafe): one thread. */
}

static bool metric_is(uint32_t index, const char *name, double least, double most)
{
    if (ensemble_call(&ensemble, index, "GET", "/metrics", NULL) != 200) {
        return false;
    }
    const char *at = strstr(web_text(&ensemble.reply), name);
    double value = at ? strtod(at + strlen(name), NULL) : most + 1;

    return value >= least && value <= most;
}

/* Logs and metrics show which replica's clock is wrong. */
TEST(a_wrong_clock_is_reported, launch, teardown)
{
    atomic_store(&faulty[2]->wall_offset_ms, -60000);
    ENSEMBLE_WAIT(&ensemble, metric_is(2, "\nzabra_clock_ahead_seconds ", -70, -50));
    ENSEMBLE_WAIT(&ensemble, log_has(2, "behind the clocks of a majority of the voters"));
    ENSEMBLE_WAIT(&ensemble, metric_is(0, "\nzabra_clock_ahead_seconds ", -5, 5));
    atomic_store(&faulty[2]->wall_offset_ms, 0);
    ENSEMBLE_WAIT(&ensemble, log_has(2, "agrees with a majority of the voters again"));
}
