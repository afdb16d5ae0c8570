/*
 * Export and import of whole subtrees: an export during writes is one consistent cut and hardly
 * slows the writes, and its import into another place gives the same subtree.
 *
 * Each write changes two znodes that are far apart in the order of an export. If the two halves
 * differ in an export, they were read at different times.
 */
#include "base/thread.h"
#include "tests/lib/unit.h"
#include "tests/proc/ensemble.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
#ifdef ZABRA_SLOW
    ZNODES = 5000,
    TURNS = 1,
    ROUNDS = 1,
    TURN_WRITES = 100,
#else
    ZNODES = 100000,
    TURNS = 6,
    ROUNDS = 3,
    TURN_WRITES = 300,
#endif
    PAIRS = 500, /* Spread over the tree. */
    VALUE_MAX = 24,
    WHY_MAX = 512
};

static struct ensemble ensemble;

/* Writes pairs until it is stopped. */
struct writer {
    struct thread thread;
    uint16_t port;
    uint32_t number;
    _Atomic bool stop;
    _Atomic uint32_t done;
    _Atomic uint32_t wrong;
};

/* Exports until it is stopped, then checks the last export, so that the check takes no time during
 * the measurement. */
struct exporter {
    struct thread thread;
    uint16_t port;
    _Atomic bool stop;
    _Atomic uint32_t done;
    _Atomic uint32_t begun;
    char why[WHY_MAX]; /* The first error; "": none. */
};

static void open_three(void)
{
    ensemble_launch(&ensemble, 3, NULL);
}

static void close_three(void)
{
    ensemble_close(&ensemble);
}

/* ---- The tree ---- */

/* Two levels, so that the export spans several lists of children. */
static void put_name(char *out, size_t len, uint32_t number)
{
    (void)snprintf(out, len, "d%03u/n%06u", number / 1000, number);
}

static void put_lines(struct buf *body)
{
    char name[64];

    buf_append_str(body, "{\"path\":\"\"}\n");
    for (uint32_t i = 0; i < ZNODES; i++) {
        if (i % 1000 == 0) {
            buf_printf(body, "{\"path\":\"d%03u\"}\n", i / 1000);
        }
        put_name(name, sizeof(name), i);
        buf_printf(body, "{\"path\":\"%s\",\"dataUtf8\":\"begin\"}\n", name);
    }
}

static void fill(struct web *web, uint16_t port)
{
    struct web_reply reply;
    struct buf body;

    web_reply_init(&reply);
    buf_init(&body, WEB_BODY_MAX);
    put_lines(&body);
    uint64_t start_ms = os_now_ms();
    long status = web_do(web,
                         &(struct web_call){.method = "POST",
                                            .port = port,
                                            .path = "/import/v1/tree",
                                            .body = buf_cstr(&body),
                                            .timeout_ms = ENSEMBLE_DEADLINE_MS},
                         &reply);

    if (status != 200) {
        fail_msg("%ld %s %s", status, reply.why ? reply.why : "", web_text(&reply));
    }
    print_message("%d znodes imported in %d ms\n", ZNODES, (int)(os_now_ms() - start_ms));
    buf_release(&body);
    web_reply_release(&reply);
}

/* ---- Writing pairs ---- */

/* The first half of the pair is in the first half of the tree. */
static void write_pair(struct writer *writer, struct web *web, struct web_reply *reply)
{
    uint32_t count = atomic_load(&writer->done);
    uint32_t pair = (count * 7 + writer->number * 3) % (PAIRS / 2) * 2 + writer->number % 2;
    uint32_t first = pair * (ZNODES / 2 / PAIRS);
    char body[512];
    char left[64];
    char right[64];

    put_name(left, sizeof(left), first);
    put_name(right, sizeof(right), ZNODES / 2 + first);
    (void)snprintf(body, sizeof(body),
                   "{\"ops\":[{\"op\":\"set\",\"path\":\"/tree/%s\",\"dataUtf8\":\"%u-%u\"},"
                   "{\"op\":\"set\",\"path\":\"/tree/%s\",\"dataUtf8\":\"%u-%u\"}]}",
                   left, writer->number, count, right, writer->number, count);
    long status = web_do(web,
                         &(struct web_call){.method = "POST",
                                            .port = writer->port,
                                            .path = "/multi/v1",
                                            .headers = "Content-Type: application/json",
                                            .body = body},
                         reply);

    atomic_fetch_add(&writer->wrong, status != 200);
    atomic_fetch_add(&writer->done, 1);
}

static void run_writer(void *arg)
{
    struct writer *writer = arg;
    struct web *web = web_open();
    struct web_reply reply;

    web_reply_init(&reply);
    while (!atomic_load(&writer->stop)) {
        write_pair(writer, web, &reply);
    }
    web_reply_release(&reply);
    web_close(web);
}

static void stop_writer(struct writer *writer)
{
    atomic_store(&writer->stop, true);
    thread_join(&writer->thread);
    ENSEMBLE_CHECK(&ensemble, atomic_load(&writer->wrong) == 0);
}

/* ---- Exports ---- */

static bool export_tree(struct web *web, uint16_t port, const char *path, struct web_reply *reply)
{
    char target[128];

    (void)snprintf(target, sizeof(target), "/export/v1%s?dataformat=auto", path);
    return web_do(web,
                  &(struct web_call){.port = port,
                                     .path = target,
                                     .headers = "Accept: application/x-ndjson",
                                     .timeout_ms = ENSEMBLE_DEADLINE_MS},
                  reply) == 200;
}

/* The value of a znode of the tree, from its line. */
static bool value_of(const char *line, uint32_t *ret_number, char value[VALUE_MAX])
{
    unsigned dir = 0;
    char start[128];

    /* sscanf on the whole rest would search for its end first. */
    (void)snprintf(start, sizeof(start), "%.*s", (int)sizeof(start) - 1, line);
    return sscanf(start, "{\"path\":\"d%u/n%u\",\"dataUtf8\":\"%23[^\"]\"", &dir, ret_number,
                  value) == 3;
}

/* False, with the reason in `why`, when a znode is missing or the halves of a pair differ. */
static bool check_line(const char *line, uint32_t *seen, char why[WHY_MAX])
{
    static char halves[ZNODES / 2][VALUE_MAX];
    uint32_t number = 0;
    char value[VALUE_MAX];

    if (!value_of(line, &number, value)) {
        return true;
    }
    if (number != *seen) {
        (void)snprintf(why, WHY_MAX, "%u follows %u", number, *seen);
        return false;
    }
    (*seen)++;
    if (number < ZNODES / 2) {
        memcpy(halves[number], value, VALUE_MAX);
    } else if (strcmp(halves[number - ZNODES / 2], value) != 0) {
        (void)snprintf(why, WHY_MAX, "%u has %s, its other half %s", number, value,
                       halves[number - ZNODES / 2]);
        return false;
    }
    return true;
}

static void check_cut(struct web_reply *reply, char why[WHY_MAX])
{
    uint32_t seen = 0;
    char end[128];
    char *line = buf_cstr(&reply->body);
    char *last = line;

    for (; *line; line = strchr(line, '\n') + 1) {
        last = line;
        if (!check_line(line, &seen, why)) {
            return;
        }
    }
    (void)snprintf(end, sizeof(end), "{\"end\":true,\"znodes\":%d,",
                   ZNODES + (ZNODES + 999) / 1000 + 1);
    if (seen != ZNODES || strncmp(last, end, strlen(end)) != 0) {
        (void)snprintf(why, WHY_MAX, "%u znodes, then %.200s", seen, last);
    }
}

static void run_exporter(void *arg)
{
    struct exporter *exporter = arg;
    struct web *web = web_open();
    struct web_reply reply;

    web_reply_init(&reply);
    while (!atomic_load(&exporter->stop) && exporter->why[0] == '\0') {
        atomic_fetch_add(&exporter->begun, 1);
        if (!export_tree(web, exporter->port, "/tree", &reply)) {
            (void)snprintf(exporter->why, WHY_MAX, "%ld %.200s", reply.status, web_text(&reply));
        }
        atomic_fetch_add(&exporter->done, 1);
    }
    if (exporter->why[0] == '\0') {
        check_cut(&reply, exporter->why);
    }
    web_reply_release(&reply);
    web_close(web);
}

/* ---- Cost for writes ---- */

static int compare(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;

    return left < right ? -1 : left > right;
}

/* Measures sequential writes of a client: the 99th percentile in us. */
static uint64_t measure(uint32_t index)
{
    static uint64_t times_us[TURN_WRITES];

    for (uint32_t i = 0; i < TURN_WRITES; i++) {
        uint64_t start_us = os_now_us();

        ENSEMBLE_CHECK(&ensemble,
                       ensemble_call(&ensemble, index, "PUT", "/znodes/v1/small", "x") == 200);
        times_us[i] = os_now_us() - start_us;
    }
    qsort(times_us, TURN_WRITES, sizeof(times_us[0]), compare);
    return times_us[TURN_WRITES * 99 / 100];
}

/* Measures first without and then during exports. */
static void take_turn(uint32_t leader, uint64_t *calm_us, uint64_t *busy_us, uint32_t *exports)
{
    static struct exporter exporter;
    uint64_t us = measure(leader);

    *calm_us = us;
    exporter = (struct exporter){.port = ensemble.replicas[leader].client_port};
    thread_start(&exporter.thread, "exporter", run_exporter, &exporter);
    ENSEMBLE_WAIT(&ensemble, atomic_load(&exporter.begun) > 0);
    us = measure(leader);
    *busy_us = us;
    ENSEMBLE_WAIT(&ensemble, atomic_load(&exporter.done) > 0);
    atomic_store(&exporter.stop, true);
    thread_join(&exporter.thread);
    assert_string_equal(exporter.why, "");
    *exports += atomic_load(&exporter.done);
}

/* Turns alternate, and of each kind the slowest of the fastest quarter counts, so that neither
 * another program's load nor one fast turn decides. True if writes are within the permitted
 * factor. */
static bool compare_turns(uint32_t leader, uint32_t *exports)
{
    uint64_t calm_us[TURNS];
    uint64_t busy_us[TURNS];

    for (uint32_t i = 0; i < TURNS; i++) {
        take_turn(leader, &calm_us[i], &busy_us[i], exports);
    }
    qsort(calm_us, TURNS, sizeof(calm_us[0]), compare);
    qsort(busy_us, TURNS, sizeof(busy_us[0]), compare);
    print_message("99th percentile of a write %d us, during an export %d us\n",
                  (int)calm_us[TURNS / 4], (int)busy_us[TURNS / 4]);
    return busy_us[TURNS / 4] <= 2 * calm_us[TURNS / 4];
}

TEST_GROUP(open_three, close_three)

TEST(an_export_is_one_cut_and_hardly_slows_writes)
{
    static struct writer writer;
    uint32_t leader = ensemble_wait_leader(&ensemble);
    uint16_t port = ensemble.replicas[leader].client_port;
    uint32_t exports = 0;
    bool calm = false;

    fill(ensemble.web, port);
    ensemble_call_until(&ensemble, leader, "PUT", "/znodes/v1/small?upsert=true", "", 201);
    writer = (struct writer){.port = port};
    thread_start(&writer.thread, "writer", run_writer, &writer);
    /* A slow export is slow in each round; load of another program is not. */
    for (uint32_t i = 0; i < ROUNDS && !calm; i++) {
        calm = compare_turns(leader, &exports);
    }
    stop_writer(&writer);
    print_message("%d exports of %d znodes, %d pairs written\n", (int)exports, ZNODES,
                  (int)atomic_load(&writer.done));
#ifndef ZABRA_SLOW
    ENSEMBLE_CHECK(&ensemble, calm);
#endif
    ENSEMBLE_CHECK(&ensemble,
                   ensemble_metric(&ensemble, leader, "zabra_http_exports_failed_total") == 0);
}

/* ---- Export and import ---- */

/* Drops the first line, and the stat of each. */
static void bare_lines(struct web_reply *reply, struct buf *out)
{
    char *line = strchr(buf_cstr(&reply->body), '\n') + 1;

    for (char *end = NULL; *line; line = end + 1) {
        char *stat = strstr(line, ",\"stat\":");

        end = strchr(line, '\n');
        (void)buf_append(out, line, (size_t)((stat && stat < end ? stat : end) - line));
        (void)buf_append_byte(out, '\n');
    }
}

static void import_into(const char *path, uint32_t index, struct web_reply *exported, long status)
{
    struct web_reply reply;

    web_reply_init(&reply);
    long answered = web_do(ensemble.web,
                           &(struct web_call){.method = "POST",
                                              .port = ensemble.replicas[index].client_port,
                                              .path = path,
                                              .body = buf_cstr(&exported->body),
                                              .timeout_ms = ENSEMBLE_DEADLINE_MS},
                           &reply);

    if (answered != status) {
        fail_msg("%s: %ld %s %s", path, answered, reply.why ? reply.why : "", web_text(&reply));
    }
    web_reply_release(&reply);
}

TEST(an_import_gives_the_exported_subtree)
{
    uint32_t leader = ensemble_wait_leader(&ensemble);
    struct web_reply first;
    struct web_reply second;
    struct buf left;
    struct buf right;

    web_reply_init(&first);
    web_reply_init(&second);
    buf_init(&left, WEB_BODY_MAX);
    buf_init(&right, WEB_BODY_MAX);
    assert_true(export_tree(ensemble.web, ensemble.replicas[leader].client_port, "/tree", &first));
    import_into("/import/v1/copy?dryRun=true", (leader + 1) % 3, &first, 200);
    import_into("/import/v1/copy", (leader + 1) % 3, &first, 200);
    import_into("/import/v1/copy", (leader + 2) % 3, &first, 409);
    import_into("/import/v1/copy?conflict=skip", (leader + 2) % 3, &first, 200);
    assert_true(export_tree(ensemble.web, ensemble.replicas[(leader + 2) % 3].client_port, "/copy",
                            &second));
    bare_lines(&first, &left);
    bare_lines(&second, &right);
    assert_true(left.len > ZNODES && slice_eq(buf_slice(&left), buf_slice(&right)));
    buf_release(&left);
    buf_release(&right);
    web_reply_release(&first);
    web_reply_release(&second);
}
