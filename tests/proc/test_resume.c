/* A watcher loses its replica in the middle of a thousand changes and resumes at another one. It
 * must receive each change once and in order, also of znodes that were created and deleted
 * meanwhile, and multis completely. */
#include "base/check.h"
#include "tests/lib/unit.h"
#include "tests/proc/tail.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHANGES = 1000
};

struct expected {
    const char *type;
    char path[TAIL_PATH_MAX];
    uint64_t zxid;
};

static struct ensemble ensemble;
static struct tail tail;
static struct expected expected[4 * CHANGES];
static size_t expected_count;

static void open_three(void)
{
    ensemble_launch(&ensemble, 3, NULL);
}

static void close_three(void)
{
    ensemble_close(&ensemble);
}

/* Returns the zxid of the last answer. */
static uint64_t answered_zxid(void)
{
    const char *text = web_header(&ensemble.reply, "Zk-Zxid");

    assert_non_null(text);
    return strtoull(text, NULL, 16);
}

static void expect(const char *type, const char *path, const char *number)
{
    struct expected *next = &expected[expected_count++];

    ASSERT(expected_count <= sizeof(expected) / sizeof(expected[0]));
    next->type = type;
    next->zxid = answered_zxid();
    (void)snprintf(next->path, sizeof(next->path), "%s%s", path, number);
}

static void call(uint32_t index, const char *method, const char *path, const char *body,
                 long status)
{
    ensemble_call_until(&ensemble, index, method, path, body, status);
}

/* Creates, changes and deletes a znode before a client can read it. */
static void create_and_delete(uint32_t index, uint32_t number)
{
    char path[128];
    char digits[16];

    (void)snprintf(digits, sizeof(digits), "%u", number);
    (void)snprintf(path, sizeof(path), "/znodes/v1/r?op=create&name=brief%u", number);
    call(index, "POST", path, "x", 201);
    expect("NodeCreated", "/r/brief", digits);
    (void)snprintf(path, sizeof(path), "/znodes/v1/r/brief%u", number);
    call(index, "DELETE", path, NULL, 204);
    expect("NodeDeleted", "/r/brief", digits);
}

static void change_by_multi(uint32_t index, uint32_t number)
{
    char body[512];
    char digits[16];

    (void)snprintf(digits, sizeof(digits), "%u", number);
    (void)snprintf(body, sizeof(body),
                   "{\"ops\":[{\"op\":\"create\",\"path\":\"/r/m%u\",\"dataUtf8\":\"a\"},"
                   "{\"op\":\"set\",\"path\":\"/r/m%u\",\"dataUtf8\":\"b\"},"
                   "{\"op\":\"set\",\"path\":\"/r\",\"dataUtf8\":\"%u\"}]}",
                   number, number, number);
    struct web_call json = {.method = "POST",
                            .port = ensemble.replicas[index].client_port,
                            .path = "/multi/v1",
                            .body = body,
                            .headers = "Content-Type: application/json"};

    ENSEMBLE_CHECK(&ensemble, web_do(ensemble.web, &json, &ensemble.reply) == 200);
    expect("NodeCreated", "/r/m", digits);
    expect("NodeDataChanged", "/r/m", digits);
    expect("NodeDataChanged", "/r", "");
}

static void change(uint32_t index, uint32_t number)
{
    switch (number % 3) {
    case 0:
        create_and_delete(index, number);
        break;
    case 1:
        change_by_multi(index, number);
        break;
    default:
        call(index, "PUT", "/znodes/v1/r", "y", 200);
        expect("NodeDataChanged", "/r", "");
        break;
    }
}

/* Prints the first difference. */
static void verify(void)
{
    (void)pthread_mutex_lock(&tail.mutex);
    for (size_t i = 0; i < expected_count && i < tail.count; i++) {
        const struct expected *want = &expected[i];
        const struct tail_event *got = &tail.events[i];

        if (strcmp(want->type, got->type) != 0 || strcmp(want->path, got->path) != 0 ||
            want->zxid != got->zxid) {
            print_message("event %zu: %s %s %llx instead of %s %s %llx\n", i, got->type, got->path,
                          (unsigned long long)got->zxid, want->type, want->path,
                          (unsigned long long)want->zxid);
            fail();
        }
    }
    assert_int_equal(tail.count, expected_count);
    (void)pthread_mutex_unlock(&tail.mutex);
}

TEST(each_missed_change_is_sent_once, open_three, close_three)
{
    uint32_t leader = ensemble_wait_leader(&ensemble);
    uint32_t watched = (leader + 1) % 3;
    uint32_t writer = (leader + 2) % 3;

    call(writer, "PUT", "/znodes/v1/r?upsert=true", "", 201);
    ensemble_call_until(&ensemble, watched, "GET", "/znodes/v1/r", NULL, 200);
    tail_start(&tail, &ensemble, watched, "/watch/v1/r?mode=recursive");
    for (uint32_t i = 0; i < CHANGES; i++) {
        change(writer, i);
        if (i == CHANGES / 3) {
            ensemble_kill(&ensemble, watched);
        }
        if (i == 2 * CHANGES / 3) {
            ensemble_start(&ensemble, watched);
        }
    }
    ENSEMBLE_WAIT(&ensemble, atomic_load(&tail.opened) > 1);
    ENSEMBLE_WAIT(&ensemble, tail_count(&tail, "Node", "/r") >= expected_count);
    tail_stop(&tail);
    verify();
    assert_true(atomic_load(&tail.resumed) > 0);
    assert_int_equal(atomic_load(&tail.gaps), 0);
    assert_int_equal(atomic_load(&tail.diffed), 0);
    print_message("%d changes, %d streams\n", (int)expected_count, (int)tail.opened);
    tail_release(&tail);
}
