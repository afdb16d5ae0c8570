/* Watchers by streams and by WebSockets never read their events, with values of many kilobytes. The
 * replica's memory stays bounded, and other clients are hardly slower. */
#include "base/loop.h"
#include "tests/lib/unit.h"
#include "tests/proc/socket.h"
#include "tests/proc/tail.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SLOW = 10, /* Unread streams, and as many sockets. */
    VALUE_BYTES = 65536,
    TURNS = 3,
    FILL_ROUNDS = 1000 / ENSEMBLE_FACTOR, /* Fills caches and the window. */
    ROUNDS = 200 / ENSEMBLE_FACTOR,       /* Large values in a turn: twice a queue's size. */
    SMALL_ROUNDS = 500 / ENSEMBLE_FACTOR, /* Calls of a client in a turn, with and without slow
                                           * watchers. */
    QUEUE_BYTES = 1 << 20,                /* maxSocketQueueBytes. */
    WINDOW_BYTES = 8 << 20,
    /* Permitted growth: queues, partly written events, the window, and the allocator's reserve. */
    GROWTH_BYTES = 2 * SLOW * 2 * QUEUE_BYTES + WINDOW_BYTES + (32 << 20)
};

static struct ensemble ensemble;
static struct tail tail;
static int slow[SLOW];
static struct socket *slow_sockets[SLOW];
static struct thread writer;
static _Atomic uint32_t written; /* Number of large values. */
static _Atomic bool enough;

static void open_three(void)
{
    char keys[256];

    (void)snprintf(keys, sizeof(keys),
                   "maxSocketQueueBytes=%d\nmaxWindowBytes=%d\nslowTimeout=600000\n", QUEUE_BYTES,
                   WINDOW_BYTES);
    ensemble_launch(&ensemble, 3, keys);
}

static void close_three(void)
{
    ensemble_close(&ensemble);
}

/* Opens a stream and never reads it. */
static int open_slow(uint16_t port)
{
    static const char request[] = "GET /watch/v1/big?mode=persistent&values=true HTTP/1.1\r\n"
                                  "Host: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n";
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(port)};
    int small = 4096;

    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);

    int fd = loop_connect((const struct sockaddr *)&addr, sizeof(addr));

    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
    ENSEMBLE_WAIT(&ensemble, loop_connect_result(fd) == 0);
    assert_int_equal(write(fd, request, sizeof(request) - 1), sizeof(request) - 1);
    return fd;
}

static struct socket *open_slow_socket(uint16_t port)
{
    const struct socket_options narrow = {.receive_bytes = 4096};
    struct socket *socket = socket_open(port, &narrow);
    json_t *reply = NULL;

    assert_int_equal(socket_status(socket), 101);
    reply = socket_call(socket, "\"op\":\"watch\",\"path\":\"/big\",\"kind\":\"persistent\","
                                "\"values\":true");
    assert_true(json_is_true(json_object_get(reply, "ok")));
    json_decref(reply);
    return socket;
}

static int compare(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;

    return left < right ? -1 : left > right;
}

/* Measures sequential writes and reads of a client: the 99th percentile in us. */
static uint64_t measure(uint32_t index)
{
    static uint64_t times_us[SMALL_ROUNDS];
    const char *put = "/znodes/v1/small?upsert=true";

    for (uint32_t i = 0; i < SMALL_ROUNDS; i++) {
        uint64_t start_us = os_now_us();

        ENSEMBLE_CHECK(&ensemble, ensemble_call(&ensemble, index, "PUT", put, "x") / 100 == 2);
        ENSEMBLE_CHECK(&ensemble,
                       ensemble_call(&ensemble, index, "GET", "/znodes/v1/small", NULL) == 200);
        times_us[i] = os_now_us() - start_us;
    }
    qsort(times_us, SMALL_ROUNDS, sizeof(times_us[0]), compare);
    return times_us[SMALL_ROUNDS * 99 / 100];
}

static void write_big(void *arg)
{
    static char value[VALUE_BYTES + 1];
    struct web *web = web_open();
    struct web_reply reply;
    struct web_call call = {
        .method = "PUT", .port = *(const uint16_t *)arg, .path = "/znodes/v1/big", .body = value};

    memset(value, 'v', VALUE_BYTES);
    web_reply_init(&reply);
    while (!atomic_load(&enough)) {
        atomic_fetch_add(&written, web_do(web, &call, &reply) == 200);
        ensemble_breathe();
    }
    web_reply_release(&reply);
    web_close(web);
}

static void wait_written(uint32_t count)
{
    uint32_t until = atomic_load(&written) + count;

    ENSEMBLE_WAIT(&ensemble, atomic_load(&written) >= until);
}

/* One turn: the client with only the writer, then also with the slow watchers. */
static void take_turn(uint32_t watched, uint64_t *calm_us, uint64_t *busy_us, uint64_t *bytes)
{
    uint64_t us = measure(watched);

    *calm_us = us < *calm_us ? us : *calm_us;
    for (uint32_t i = 0; i < SLOW; i++) {
        slow[i] = open_slow(ensemble.replicas[watched].client_port);
        slow_sockets[i] = open_slow_socket(ensemble.replicas[watched].client_port);
    }
    wait_written(ROUNDS);
    us = measure(watched);
    *busy_us = us < *busy_us ? us : *busy_us;
    us = ensemble_resident_bytes(ensemble.replicas[watched].pid);
    *bytes = us > *bytes ? us : *bytes;
    for (uint32_t i = 0; i < SLOW; i++) {
        close(slow[i]);
        socket_close(slow_sockets[i]);
    }
    ENSEMBLE_WAIT(&ensemble, ensemble_metric(&ensemble, watched, "zabra_http_streams") == 1 &&
                                 ensemble_metric(&ensemble, watched, "zabra_ws_sockets") == 0);
}

/* Turns alternate, and the fastest of each kind counts, so that a busy second of another program
 * does not matter. */
TEST(clients_that_never_read_do_not_slow_others, open_three, close_three)
{
    uint32_t leader = ensemble_wait_leader(&ensemble);
    uint32_t watched = (leader + 1) % 3;
    uint64_t before = 0;
    uint64_t after = 0;
    uint64_t calm_us = UINT64_MAX;
    uint64_t busy_us = UINT64_MAX;

    ensemble_call_until(&ensemble, watched, "PUT", "/znodes/v1/big?upsert=true", "", 201);
    ensemble_call_until(&ensemble, watched, "PUT", "/znodes/v1/small?upsert=true", "", 201);
    thread_start(&writer, "writer", write_big, &ensemble.replicas[leader].client_port);
    wait_written(FILL_ROUNDS);
    tail_start(&tail, &ensemble, watched, "/watch/v1/small?mode=persistent");
    before = ensemble_resident_bytes(ensemble.replicas[watched].pid);
    for (uint32_t i = 0; i < TURNS; i++) {
        take_turn(watched, &calm_us, &busy_us, &after);
    }
    ENSEMBLE_WAIT(&ensemble,
                  tail_count(&tail, "NodeDataChanged", "/small") == 2 * TURNS * SMALL_ROUNDS);
    atomic_store(&enough, true);
    thread_join(&writer);
    print_message("memory %d MiB, with %d watchers that do not read %d MiB; 99th percentile of a "
                  "write and a read %d us, beside them %d us\n",
                  (int)(before >> 20), 2 * SLOW, (int)(after >> 20), (int)calm_us, (int)busy_us);
#ifndef ZABRA_SLOW /* A sanitizer keeps freed memory, and slows some code more than other. */
    ENSEMBLE_CHECK(&ensemble, after < before + GROWTH_BYTES);
    ENSEMBLE_CHECK(&ensemble, busy_us <= 2 * calm_us);
#endif
    tail_stop(&tail);
    tail_release(&tail);
}
