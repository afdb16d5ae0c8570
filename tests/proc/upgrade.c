/*
 * An ensemble of an earlier release is upgraded to this one and back, replica by replica, while the
 * level is held, then upgraded for good. Meanwhile clients by HTTP and WebSocket write and watch,
 * and sessions are renewed: no request fails for a client that retries what was not applied, no
 * event and no session is lost, and all replicas have the same state. A replica of this release
 * whose leader is still the earlier one serves native clients.
 *
 *     upgrade --old PROGRAM [--seed N] [--print FILE]
 *
 * PROGRAM is zabra of the earlier release: tests/long/upgrade builds it.
 */
#include "base/os_rng.h"
#include "tests/proc/chaos.h"
#include "tests/proc/history_run.h"
#include "tests/proc/load.h"
#include "tests/proc/native.h"
#include "tests/proc/options.h"
#include "zab/level.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum {
    REPLICAS = 3,
    WRITERS = 2,
    BETWEEN = 200, /* Writes after each change of a program. */
    KEEPERS = 4,
    REST_MS = 4,
    RAISE_MS = 10000, /* So long must all members know a level before it is raised. */
    CREATES = 1200,
    NATIVE_TIMEOUT_MS = 30000
};

static const char keys[] = "tickTime=300\nsnapCount=3000\nmaxWindow=400\n"
                           "maxSessionTimeout=3600000\n" ENSEMBLE_SUPER;

static struct ensemble ensemble;
static struct history_run run;
static struct load load;
static struct chaos_keeper keepers[KEEPERS];
static const char *old_program;
static const char *print_path;
static int old_level; /* The highest one of the earlier release. */

static void open_old(void)
{
    ensemble_open(&ensemble, REPLICAS, keys);
    for (uint32_t i = 0; i < REPLICAS; i++) {
        ensemble.replicas[i].program = old_program;
        ensemble_start(&ensemble, i);
    }
    ensemble_wait_all_ready(&ensemble);
}

static void close_all(void)
{
    ensemble_close(&ensemble);
}

/* ---- What the replicas say. ---- */

static json_t *answer_of(uint32_t index, const char *path)
{
    bool whole = ensemble_call(&ensemble, index, "GET", path, NULL) == 200;

    return whole ? web_json(&ensemble.reply) : NULL;
}

static int level_of(uint32_t index)
{
    json_t *answer = answer_of(index, "/ensemble/v1");
    int level = (int)json_integer_value(json_object_get(answer, "level"));

    json_decref(answer);
    return level;
}

static bool all_have_level(int level)
{
    for (uint32_t i = 0; i < REPLICAS; i++) {
        if (level_of(i) != level) {
            return false;
        }
    }
    return true;
}

static bool state_of(uint32_t index, char *ret_state, size_t size)
{
    json_t *status = answer_of(index, "/status/v1");
    const char *zxid = json_string_value(json_object_get(status, "zxid"));
    const char *digest = json_string_value(json_object_get(status, "digest"));
    bool known = zxid && digest;

    (void)snprintf(ret_state, size, "zxid %s, digest %s", zxid ? zxid : "", digest ? digest : "");
    json_decref(status);
    return known;
}

static bool states_are_equal(void)
{
    char first[128];
    char other[128];

    if (!state_of(0, first, sizeof(first))) {
        return false;
    }
    for (uint32_t i = 1; i < REPLICAS; i++) {
        if (!state_of(i, other, sizeof(other)) || strcmp(first, other) != 0) {
            return false;
        }
    }
    print_message("all replicas have %s\n", first);
    return true;
}

/* A request of the super user; returns the status. */
static long post(uint32_t index, const char *path, const char *body)
{
    struct web_call call = {
        .method = "POST",
        .port = ensemble.replicas[index].client_port,
        .path = path,
        .body = body,
        .headers = "Content-Type: application/json\nAuthorization: Basic c3VwZXI6cm9vdA=="};

    return web_do(ensemble.web, &call, &ensemble.reply);
}

static void change_level(const char *body)
{
    ENSEMBLE_CHECK(&ensemble,
                   post(ensemble_wait_leader(&ensemble), "/ensemble/v1/level", body) == 204);
}

/* ---- Clients. ---- */

static void start_clients(void)
{
    static const struct {
        enum history_kind kind;
        const char *name;
    } clients[] = {{HISTORY_HTTP, "http 1"},     {HISTORY_HTTP, "http 2"},
                   {HISTORY_RAW, "raw"},         {HISTORY_SSE, "sse"},
                   {HISTORY_SOCKET, "socket 1"}, {HISTORY_SOCKET, "socket 2"},
                   {HISTORY_NDJSON, "ndjson"}};

    ensemble_call_until(&ensemble, 0, "PUT", "/znodes/v1/h?upsert=true", "", 201);
    ensemble_call_until(&ensemble, 0, "PUT", "/znodes/v1/e?upsert=true", "", 201);
    ensemble_call_until(&ensemble, 0, "PUT", "/znodes/v1/raised?upsert=true", "", 201);
    run.rest_ms = REST_MS;
    run.port_count = REPLICAS;
    for (uint32_t i = 0; i < REPLICAS; i++) {
        ensemble_call_until(&ensemble, i, "GET", "/znodes/v1/e?consistency=linearizable", NULL,
                            200);
        run.ports[i] = ensemble.replicas[i].client_port;
    }
    for (size_t i = 0; i < sizeof(clients) / sizeof(clients[0]); i++) {
        (void)history_client_add(&run, clients[i].kind, clients[i].name);
    }
    for (uint32_t i = 0; i < run.count; i++) {
        history_client_start(&run.clients[i]);
    }
    for (uint32_t i = 0; i < KEEPERS; i++) {
        chaos_keeper_start(&keepers[i], &ensemble, i + 1, run.seed);
    }
    load_start_kind(&load, &ensemble, WRITERS, LOAD_PATIENT);
}

static void stop_keepers(void)
{
    uint32_t touches = 0;

    for (uint32_t i = 0; i < KEEPERS; i++) {
        chaos_keeper_stop(&keepers[i]);
        ensemble_check(&ensemble, keepers[i].wrong[0] == '\0', keepers[i].wrong);
        ENSEMBLE_CHECK(&ensemble, keepers[i].expired == 0);
        touches += keepers[i].touches;
    }
    print_message("sessions were renewed %u times\n", touches);
    ENSEMBLE_CHECK(&ensemble, touches > 0);
}

static void stop_clients(void)
{
    struct history_report report;
    uint32_t retries = 0;

    load_stop(&load, &ensemble);
    for (uint32_t i = 0; i < WRITERS; i++) {
        retries += atomic_load(&load.writers[i].retries);
    }
    print_message("%u writes were acknowledged, after %u retries\n", load_acked(&load), retries);
    for (uint32_t i = 0; i < REPLICAS; i++) {
        load_verify(&load, &ensemble, i);
    }
    load_release(&load);
    stop_keepers();
    history_finish(&run, &ensemble);
    ENSEMBLE_WAIT(&ensemble, states_are_equal());
    history_judge(&run, &ensemble, print_path, &report);
    history_run_release(&run);
}

/* ---- What 1.1 adds. ---- */

/* A native client has a session, an ephemeral znode and a watch at this replica. */
static void serve_native(uint32_t index)
{
    struct native_frame frame;
    struct native *native = native_open(ensemble.replicas[index].client_port, NATIVE_TIMEOUT_MS);

    ENSEMBLE_CHECK(&ensemble, native != NULL);
    native_send_create(native, "/native", "data", 1);
    ENSEMBLE_CHECK(&ensemble, native_reply(native, &frame) == 0);
    native_send_path(native, 4, "/native", 1); /* getData, with a watch */
    ENSEMBLE_CHECK(&ensemble, native_reply(native, &frame) == 0);
    native_send_set(native, "/native", "other", -1);
    ENSEMBLE_CHECK(&ensemble, native_event(native, "/native") == 3);
    ENSEMBLE_CHECK(&ensemble, native_reply(native, &frame) == 0);
    native_send_plain(native, -11); /* closeSession */
    ENSEMBLE_CHECK(&ensemble, native_reply(native, &frame) == 0);
    native_close(native);
    ENSEMBLE_CHECK(&ensemble,
                   ensemble_call(&ensemble, index, "GET",
                                 "/znodes/v1/native?consistency=linearizable", NULL) == 404);
}

/* Lines of an import with `creates`, which migrations use, need a leader of this release. */
static void import_creates(uint32_t index, bool leads)
{
    char line[64];

    (void)snprintf(line, sizeof(line), "{\"path\":\"raised\",\"creates\":%d}\n", CREATES);
    struct web_call call = {.method = "POST",
                            .port = ensemble.replicas[index].client_port,
                            .path = "/import/v1/?conflict=overwrite",
                            .body = line,
                            .headers = "Content-Type: application/x-ndjson\n"
                                       "Authorization: Basic c3VwZXI6cm9vdA=="};
    long status = web_do(ensemble.web, &call, &ensemble.reply);

    ENSEMBLE_CHECK(&ensemble, status == (leads ? 200 : 501));
}

/* ---- Rolling. ---- */

static void change_program(uint32_t index, const char *program)
{
    ENSEMBLE_CHECK(&ensemble, ensemble_stop(&ensemble, index) == 0);
    load_wait(&load, &ensemble, BETWEEN);
    ensemble.replicas[index].program = program;
    ensemble_start(&ensemble, index);
    ensemble_wait_ready(&ensemble, index);
    load_wait(&load, &ensemble, BETWEEN);
}

/* The leader comes last, as docs/operating.md advises. */
static void roll(const char *what, const char *program)
{
    uint32_t leader = ensemble_wait_leader(&ensemble);

    for (uint32_t i = 1; i <= REPLICAS; i++) {
        change_program((leader + i) % REPLICAS, program);
        if (i == 1 && program == NULL) {
            ENSEMBLE_CHECK(&ensemble, ensemble_wait_leader(&ensemble) == leader);
            serve_native((leader + i) % REPLICAS);
            import_creates((leader + i) % REPLICAS, false);
        }
    }
    print_message("%s: %u writes so far\n", what, load_acked(&load));
}

static void wait_raise_time(void)
{
    uint64_t end_ms = os_now_ms() + RAISE_MS + 2000;

    while (os_now_ms() < end_ms) {
        ensemble_breathe();
    }
}

/* After the raise the earlier release refuses the directory and leaves it as it is. */
static void try_old(uint32_t index)
{
    ENSEMBLE_CHECK(&ensemble, ensemble_stop(&ensemble, index) == 0);
    ensemble.replicas[index].program = old_program;
    ensemble_start(&ensemble, index);
    ENSEMBLE_CHECK(&ensemble, ensemble_wait_end(&ensemble, index) == 2);
    ensemble.replicas[index].program = NULL;
    ensemble_start(&ensemble, index);
    ensemble_wait_ready(&ensemble, index);
}

TEST(up_and_back_under_a_held_level_and_up_for_good, open_old, close_all)
{
    char hold[32];

    print_message("seed %" PRIu64 "\n", run.seed);
    ENSEMBLE_WAIT(&ensemble, (old_level = level_of(0)) > 0);
    ENSEMBLE_WAIT(&ensemble, all_have_level(old_level));
    start_clients();
    (void)snprintf(hold, sizeof(hold), "{\"hold\":%d}", old_level);
    change_level(hold);
    load_wait(&load, &ensemble, BETWEEN);
    roll("upgraded", NULL);
    wait_raise_time();
    ENSEMBLE_CHECK(&ensemble, all_have_level(old_level));
    import_creates(0, true);
    roll("back at the earlier release", old_program);
    roll("upgraded again", NULL);
    change_level("{\"hold\":null}");
    ENSEMBLE_WAIT(&ensemble, all_have_level(ZAB_LEVEL_KNOWN));
    load_wait(&load, &ensemble, BETWEEN);
    if ((int)ZAB_LEVEL_KNOWN > old_level) {
        try_old(0);
    }
    load_wait(&load, &ensemble, BETWEEN);
    stop_clients();
}

int main(int argc, char **argv)
{
    const struct option_row rows[] = {
        {.name = "--old", .value = "PROGRAM", .text = &old_program, .is_needed = true},
        {.name = "--seed", .value = "N", .number = &run.seed},
        {.name = "--print", .value = "FILE", .text = &print_path}};

    run.seed = os_random_u64() % 1000000;
    if (!options_take(argc, argv, rows, sizeof(rows) / sizeof(rows[0]))) {
        return 2;
    }
    web_setup();
    return unit_run(1, argv);
}
