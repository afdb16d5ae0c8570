/* The line of a slow request shows in which phase it has waited: replicas that are stopped, and
 * disks whose syncs take long. */
#include "base/thread.h"
#include "tests/lib/unit.h"
#include "tests/proc/ensemble.h"
#include "tests/proc/faulty.h"
#include "tests/proc/talk.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define TRACE_ID "0af7651916cd43dd8448eb211c80319c"
#define HEADERS  "traceparent: 00-" TRACE_ID "-b7ad6b7169203331-01"

enum {
    REPLICAS = 3,
    DELAY_MS = 800, /* Of what is slow, */
    LEAST_MS = 700, /* which the line shows at least. */
    LOG_MAX = 4 << 20,
    PATH_SIZE = 64
};

static struct ensemble ensemble;
static struct faulty *faulty[REPLICAS];
static uint32_t leader;

static void launch(void)
{
    ensemble_open(&ensemble, REPLICAS, "logFormat=json\ntickTime=2000\nsyncLimit=20\n");
    ensemble.faulty = true;
    for (uint32_t i = 0; i < REPLICAS; i++) {
        faulty[i] = faulty_open(ensemble.replicas[i].faulty);
        ensemble_start(&ensemble, i);
    }
    ensemble_wait_all_ready(&ensemble);
    leader = ensemble_wait_leader(&ensemble);
}

static void teardown(void)
{
    ensemble_close(&ensemble);
}

static uint32_t follower(uint32_t number)
{
    return (leader + 1 + number) % REPLICAS;
}

static void pass(uint64_t ms)
{
    uint64_t end_ms = os_now_ms() + ms;

    while (os_now_ms() < end_ms) {
        ensemble_breathe();
    }
}

/* ---- A write beside the test ---- */

struct writer {
    struct thread thread;
    uint32_t index;
    char path[PATH_SIZE]; /* Of the znode. */
    long status;
};

static void write_body(void *arg)
{
    struct writer *writer = arg;
    struct web *web = web_open();
    struct web_reply reply;
    char path[2 * PATH_SIZE];
    const struct web_call call = {.method = "PUT",
                                  .port = ensemble.replicas[writer->index].client_port,
                                  .path = path,
                                  .body = "x",
                                  .headers = HEADERS};

    web_reply_init(&reply);
    (void)snprintf(path, sizeof(path), "/znodes/v1%s?upsert=true", writer->path);
    writer->status = web_do(web, &call, &reply);
    web_reply_release(&reply);
    web_close(web);
}

static void begin(struct writer *writer, uint32_t index, const char *path)
{
    *writer = (struct writer){.index = index};
    (void)snprintf(writer->path, sizeof(writer->path), "%s", path);
    thread_start(&writer->thread, "writer", write_body, writer);
}

static void end(struct writer *writer)
{
    thread_join(&writer->thread);
    assert_int_equal(writer->status, 201);
}

/* ---- The line ---- */

/* Returns the line of the slow request for `path`, or NULL; the caller drops it. */
static json_t *find_line(uint32_t index, const char *path)
{
    static char text[LOG_MAX];
    FILE *file = fopen(ensemble.replicas[index].log, "re");
    json_t *found = NULL;

    assert_non_null(file);
    while (!found && fgets(text, sizeof(text), file)) {
        json_t *line = json_loads(text, 0, NULL);
        const char *of = json_string_value(json_object_get(line, "path"));

        if (json_object_get(line, "queued") && of && strcmp(of, path) == 0) {
            found = json_incref(line);
        }
        json_decref(line);
    }
    assert_int_equal(fclose(file), 0);
    return found;
}

static json_int_t number(const json_t *line, const char *name)
{
    assert_true(json_is_integer(json_object_get(line, name)));
    return json_integer_value(json_object_get(line, name));
}

static const char *text_of(const json_t *line, const char *name)
{
    assert_true(json_is_string(json_object_get(line, name)));
    return json_string_value(json_object_get(line, name));
}

/* The request has spent its time in `phase`, and less than half of that in all others together. */
static void expect(uint32_t index, const char *path, const char *phase)
{
    static const char *const phases[] = {"queued", "prepared", "synced",
                                         "quorum", "applied",  "written"};
    json_t *line = NULL;
    json_int_t sum = 0;

    ENSEMBLE_WAIT(&ensemble, (line = find_line(index, path)) != NULL);
    print_message("%s\n", text_of(line, "message"));
    for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++) {
        sum += number(line, phases[i]);
    }
    assert_int_equal(sum, number(line, "ms"));
    assert_true(number(line, phase) >= LEAST_MS);
    assert_true(sum - number(line, phase) < number(line, phase) / 2);
    assert_string_equal(text_of(line, "level"), "WARN");
    assert_string_equal(text_of(line, "trace"), TRACE_ID);
    assert_string_equal(text_of(line, "address"), "127.0.0.1");
    assert_string_equal(text_of(line, "code"), "Ok");
    assert_true(strncmp(text_of(line, "zxid"), "0x", 2) == 0);
    json_decref(line);
}

/* Writes through a replica while the syncs of some disks take long. */
static void write_with_slow_disks(uint32_t index, const char *path, uint32_t first, uint32_t count)
{
    struct writer writer;

    for (uint32_t i = 0; i < count; i++) {
        atomic_store(&faulty[follower(first + i)]->sync_ms, DELAY_MS);
    }
    begin(&writer, index, path);
    end(&writer);
    for (uint32_t i = 0; i < REPLICAS; i++) {
        atomic_store(&faulty[i]->sync_ms, 0);
    }
}

static uint64_t logged(uint32_t index)
{
    uint64_t zxid = 0;

    if (ensemble_call(&ensemble, index, "GET", "/status/v1", NULL) == 200) {
        json_t *status = web_json(&ensemble.reply);

        zxid = strtoull(json_string_value(json_object_get(status, "logged")), NULL, 16);
        json_decref(status);
    }
    return zxid;
}

TEST_GROUP(launch, teardown)

TEST(a_slow_disk_of_the_own_replica)
{
    enum {
        LEADER = REPLICAS - 1 /* As the number of a follower. */
    };

    write_with_slow_disks(leader, "/own-disk", LEADER, 1);
    expect(leader, "/own-disk", "synced");
    write_with_slow_disks(follower(0), "/disk-of-a-follower", 0, 1);
    expect(follower(0), "/disk-of-a-follower", "synced");
}

TEST(slow_disks_of_the_others)
{
    write_with_slow_disks(leader, "/other-disks", 0, 2);
    expect(leader, "/other-disks", "quorum");
}

TEST(stopped_followers)
{
    struct writer writer;
    uint64_t before = logged(leader);

    ensemble_signal(&ensemble, follower(0), SIGSTOP);
    ensemble_signal(&ensemble, follower(1), SIGSTOP);
    begin(&writer, leader, "/stopped-followers");
    ENSEMBLE_WAIT(&ensemble, logged(leader) > before);
    pass(DELAY_MS);
    ensemble_signal(&ensemble, follower(0), SIGCONT);
    ensemble_signal(&ensemble, follower(1), SIGCONT);
    end(&writer);
    expect(leader, "/stopped-followers", "quorum");
}

TEST(a_stopped_leader)
{
    struct writer writer;

    ensemble_signal(&ensemble, leader, SIGSTOP);
    begin(&writer, follower(0), "/stopped-leader");
    pass(DELAY_MS);
    ensemble_signal(&ensemble, leader, SIGCONT);
    end(&writer);
    expect(follower(0), "/stopped-leader", "prepared");
}

TEST(a_websocket_has_a_line_as_well)
{
    struct socket *socket = socket_open(ensemble.replicas[leader].client_port, NULL);
    json_t *reply = NULL;

    atomic_store(&faulty[leader]->sync_ms, DELAY_MS);
    reply = socket_call(socket,
                        "\"op\":\"create\",\"path\":\"/by-socket\",\"traceparent\":\"00-" TRACE_ID
                        "-b7ad6b7169203331-01\"");
    atomic_store(&faulty[leader]->sync_ms, 0);
    assert_true(json_is_true(json_object_get(reply, "ok")));
    json_decref(reply);
    socket_close(socket);
    expect(leader, "/by-socket", "synced");
}

TEST(slow_requests_are_counted)
{
    assert_true(ensemble_metric(&ensemble, leader, "zabra_slow_requests_total") >= 4);
    assert_int_equal(ensemble_metric(&ensemble, leader, "zabra_slow_requests_unlogged_total"), 0);
}
