/*
 * Anonymous clients that fill the tree: large values and very many small znodes, over several
 * connections and replicas at once. The replica with the least memory bounds the tree of all.
 * Deletes are accepted at the bound, and after them writes again. A replica that joins with less
 * memory than the tree needs stops the growth and nothing else.
 */
#include "base/mem.h"
#include "tests/hostile/attack.h"
#include "tests/lib/unit.h"
#include "tests/proc/socket.h"

#include <stdio.h>
#include <string.h>

enum {
    REPLICAS = 3,
    SMALL = REPLICAS - 1, /* Index of the replica with the least memory. */
    FILLERS = 6,
    VALUE_BYTES = 256 << 10,
    CREATES = 200,       /* Creates in one multi. */
    REFUSALS = 3,        /* In a row; then a filler ends. */
    WRITES_MAX = 100000, /* For one filler: far more than fit. */
    FILL_MS = 60000,
    WIDE_BYTES = 512 << 20, /* maxTreeBytes of the other replicas. */
    LIMIT_BYTES = 96 << 20, /* maxTreeBytes of the small one. */
    JOIN_BYTES = 4 << 20,
    /* A replica's memory for each byte of maxTreeBytes, without the idle process: the tree and the
     * requests in flight (docs/operating.md). */
    RESIDENT_FACTOR = 2,
    TEXT_BYTES = 64 << 10
};

struct filler {
    uint32_t number;
    uint16_t port;
    struct thread thread;
    struct web_reply reply; /* The last one. */
    uint32_t done;
    uint32_t refused;
    uint32_t odd; /* Failed for any other reason. */
};

static struct ensemble ensemble;
static char value[VALUE_BYTES + 1];

/* ---- An ensemble in which one replica has less memory. ---- */

static void append_limit(uint32_t index, uint64_t bytes)
{
    FILE *file = fopen(ensemble.replicas[index].config, "ae");

    assert_non_null(file);
    (void)fprintf(file, "\nmaxTreeBytes=%llu\n", (unsigned long long)bytes);
    assert_int_equal(fclose(file), 0);
}

static void open_with(uint64_t small_bytes)
{
    ensemble_open(&ensemble, REPLICAS, NULL);
    for (uint32_t i = 0; i < REPLICAS; i++) {
        append_limit(i, i == SMALL ? small_bytes : WIDE_BYTES);
    }
}

static void check_alive(void)
{
    for (uint32_t i = 0; i < REPLICAS; i++) {
        ENSEMBLE_CHECK(&ensemble, ensemble_call(&ensemble, i, "GET", "/readyz", NULL) == 200);
    }
}

static bool body_has(const char *text)
{
    return strstr(web_text(&ensemble.reply), text) != NULL;
}

/* ---- Filling it. ---- */

static void put_value(struct filler *filler, uint32_t i, char *path, struct web_call *call)
{
    (void)snprintf(path, 64, "/znodes/v1/v%u-%u?upsert=true", filler->number, i);
    call->method = "PUT";
    call->body = value;
}

static void put_creates(struct filler *filler, uint32_t i, struct buf *body, struct web_call *call)
{
    buf_clear(body);
    buf_append_str(body, "{\"ops\":[");
    for (uint32_t k = 0; k < CREATES; k++) {
        buf_printf(body, "%s{\"op\":\"create\",\"path\":\"/n%u-%u-%u\"}", k > 0 ? "," : "",
                   filler->number, i, k);
    }
    buf_append_str(body, "]}");
    call->method = "POST";
    call->path = "/multi/v1";
    call->headers = "Content-Type: application/json";
    call->body = buf_cstr(body);
}

static void fill(void *arg)
{
    struct filler *filler = arg;
    uint64_t end_ms = os_now_ms() + FILL_MS;
    struct web *web = web_open();
    uint32_t in_a_row = 0;
    struct buf body;
    char path[64];

    buf_init(&body, TEXT_BYTES);
    for (uint32_t i = 0; i < WRITES_MAX && in_a_row < REFUSALS && os_now_ms() < end_ms; i++) {
        struct web_call call = {.port = filler->port, .path = path};

        if (filler->number % 2 == 0) {
            put_value(filler, i, path, &call);
        } else {
            put_creates(filler, i, &body, &call);
        }
        long status = web_do(web, &call, &filler->reply);

        in_a_row = status == 507 ? in_a_row + 1 : 0;
        filler->done += status == 200 || status == 201;
        filler->refused += status == 507;
        filler->odd += status != 200 && status != 201 && status != 507;
    }
    buf_release(&body);
    web_close(web);
}

static void run_fillers(struct filler fillers[FILLERS])
{
    memset(value, 'v', VALUE_BYTES);
    for (uint32_t i = 0; i < FILLERS; i++) {
        fillers[i] =
            (struct filler){.number = i, .port = ensemble.replicas[i % REPLICAS].client_port};
        web_reply_init(&fillers[i].reply);
        thread_start(&fillers[i].thread, "filler", fill, &fillers[i]);
    }
    for (uint32_t i = 0; i < FILLERS; i++) {
        thread_join(&fillers[i].thread);
        print_message("filler %u: %u done, %u refused, %u odd: %ld\n", i, fillers[i].done,
                      fillers[i].refused, fillers[i].odd, fillers[i].reply.status);
        assert_int_equal(fillers[i].odd, 0);
        assert_true(fillers[i].done > 0);
        assert_true(fillers[i].refused >= REFUSALS);
        assert_non_null(strstr(web_text(&fillers[i].reply), "TreeFull"));
        assert_non_null(strstr(web_text(&fillers[i].reply), "maxTreeBytes of replica 3"));
        web_reply_release(&fillers[i].reply);
    }
}

/* ---- What is accepted at the bound, and what is refused. ---- */

/* A filler numbers its znodes from 0. */
static void free_some(void)
{
    char path[64];

    for (uint32_t i = 0; i < REPLICAS; i++) {
        (void)snprintf(path, sizeof(path), "/znodes/v1/v0-%u", i);
        ENSEMBLE_CHECK(&ensemble, ensemble_call(&ensemble, i, "DELETE", path, NULL) == 204);
    }
}

static void check_refused_by_all_interfaces(void)
{
    struct socket *socket = socket_open(ensemble.replicas[0].client_port, NULL);
    char line[2 * TEXT_BYTES];
    json_t *reply = NULL;

    (void)snprintf(line, sizeof(line), "{\"path\":\"\"}\n{\"path\":\"a\",\"dataUtf8\":\"%.*s\"}\n",
                   TEXT_BYTES, value);
    assert_int_equal(ensemble_call(&ensemble, 1, "POST", "/import/v1/in", line), 507);
    assert_true(body_has("TreeFull") && body_has("\"line\":"));
    assert_int_equal(ensemble_call(&ensemble, 2, "POST", "/sessions/v1/?op=create", NULL), 507);
    value[TEXT_BYTES] = '\0';
    reply = socket_call(socket, "\"op\":\"create\",\"path\":\"/w\",\"dataUtf8\":\"%s\"", value);
    value[TEXT_BYTES] = 'v';
    assert_string_equal(json_string_value(json_object_get(json_object_get(reply, "error"), "code")),
                        "TreeFull");
    json_decref(reply);
    socket_close(socket);
}

/* Fills the tree so far that not even a small znode fits. */
static void fill_to_the_brim(void)
{
    char path[64];

    for (uint32_t i = 0; i < WRITES_MAX; i++) {
        (void)snprintf(path, sizeof(path), "/znodes/v1/brim%u?upsert=true", i);
        if (ensemble_call(&ensemble, 0, "PUT", path, "") == 507) {
            return;
        }
    }
    fail_msg("the tree never became full");
}

/* Refusals of all replicas that have been leader. */
static uint64_t refusals(void)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < REPLICAS; i++) {
        count += ensemble_metric(&ensemble, i, "zabra_tree_full_total");
    }
    return count;
}

static void check_reported(void)
{
    for (uint32_t i = 0; i < REPLICAS; i++) {
        assert_true(ensemble_metric(&ensemble, i, "zabra_tree_bytes") <= LIMIT_BYTES);
        assert_int_equal(ensemble_metric(&ensemble, i, "zabra_tree_bytes_max"), LIMIT_BYTES);
        assert_int_equal(ensemble_call(&ensemble, i, "GET", "/status/v1", NULL), 200);
        assert_true(body_has("\"tree_bytes_max_of\":3"));
        assert_int_equal(ensemble_call(&ensemble, i, "GET", "/readyz?verbose", NULL), 200);
    }
    ENSEMBLE_WAIT(&ensemble, refusals() > 0); /* The core publishes its metrics at intervals. */
}

static void check_resident(const uint64_t idle[REPLICAS])
{
    for (uint32_t i = 0; i < REPLICAS; i++) {
        uint64_t now = ensemble_resident_bytes(ensemble.replicas[i].pid);

        print_message("replica %u: %.1f MiB resident, %.1f MiB when idle, tree %.1f MiB\n", i + 1,
                      (double)now / (1 << 20), (double)idle[i] / (1 << 20),
                      (double)ensemble_metric(&ensemble, i, "zabra_tree_bytes") / (1 << 20));
        ENSEMBLE_CHECK(&ensemble, now <= idle[i] + (uint64_t)RESIDENT_FACTOR * LIMIT_BYTES);
    }
}

TEST(the_smallest_replica_bounds_the_tree)
{
    static struct filler fillers[FILLERS];
    uint64_t idle[REPLICAS];

    open_with(LIMIT_BYTES);
    for (uint32_t i = 0; i < REPLICAS; i++) {
        ensemble_start(&ensemble, i);
    }
    ensemble_wait_all_ready(&ensemble);
    ENSEMBLE_WAIT(&ensemble, ensemble_metric(&ensemble, 0, "zabra_tree_bytes_max") == LIMIT_BYTES);
    for (uint32_t i = 0; i < REPLICAS; i++) {
        idle[i] = ensemble_resident_bytes(ensemble.replicas[i].pid);
    }
    run_fillers(fillers);
    check_alive();
    check_resident(idle);
    fill_to_the_brim();
    check_refused_by_all_interfaces();
    check_reported();
    free_some();
    ensemble_call_until(&ensemble, 1, "PUT", "/znodes/v1/again?upsert=true", "room", 201);
    ensemble_close(&ensemble);
}

TEST(a_replica_with_too_little_memory_stops_growth_alone)
{
    uint64_t znodes = 0;

    open_with(JOIN_BYTES);
    ensemble_start(&ensemble, 0);
    ensemble_start(&ensemble, 1);
    ensemble_start(&ensemble, 2); /* A new ensemble needs all listed replicas. */
    ensemble_wait_all_ready(&ensemble);
    ensemble_kill(&ensemble, SMALL);
    memset(value, 'v', VALUE_BYTES);
    ensemble_call_until(&ensemble, 0, "PUT", "/znodes/v1/v?upsert=true", value, 201);
    for (int i = 0; i < 2 * JOIN_BYTES / VALUE_BYTES; i++) {
        char path[64];

        (void)snprintf(path, sizeof(path), "/znodes/v1/v%d?upsert=true", i);
        ensemble_call_until(&ensemble, 0, "PUT", path, value, 201);
    }
    ensemble_start(&ensemble, SMALL);
    ensemble_wait_ready(&ensemble, SMALL);
    /* The leader receives the replica's limit within a tick. */
    ENSEMBLE_WAIT(&ensemble, ensemble_metric(&ensemble, 1, "zabra_tree_bytes_max") == JOIN_BYTES);
    ensemble_call_until(&ensemble, 1, "PUT", "/znodes/v1/more?upsert=true", "more", 507);
    assert_true(body_has("maxTreeBytes of replica 3"));
    assert_int_equal(ensemble_call(&ensemble, SMALL, "GET", "/readyz", NULL), 200);
    znodes = ensemble_metric(&ensemble, 0, "zabra_znodes");
    ENSEMBLE_WAIT(&ensemble, ensemble_metric(&ensemble, SMALL, "zabra_znodes") == znodes);
    assert_int_equal(ensemble_call(&ensemble, SMALL, "DELETE", "/znodes/v1/v0", NULL), 204);
    /* Without it the other replicas accept writes again. */
    ensemble_kill(&ensemble, SMALL);
    ensemble_call_until(&ensemble, 0, "PUT", "/znodes/v1/more?upsert=true", "more", 201);
    ensemble_close(&ensemble);
}
