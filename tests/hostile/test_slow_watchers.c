/* Thousands of watchers read nothing while values of 10 KB change. Queued events share their values
 * and are bounded in sum, writers and a watcher that reads are not delayed, and the memory is freed
 * afterwards. */
#include "base/mem.h"
#include "tests/hostile/attack.h"
#include "tests/lib/unit.h"
#include "tests/proc/socket.h"
#include "tests/proc/talk.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    REPLICAS = 3,
    SOCKETS = 600, /* All figures are for each replica. */
    STREAMS = 5000,
    OWN_NODES = 100, /* Each has its own watcher: no value is shared. */
    OWN_ROUNDS = 16,
    WRITES = 672,
    VALUE_BYTES = 10 << 10,
    OWN_BYTES = 100 << 10,
    RECEIVE_BYTES = 4096,
    PER_ADDRESS = 1000,
    PAUSE_MS = 5,
    DESCRIPTORS = REPLICAS * STREAMS + 1000,
    GROWTH_BYTES = 512 << 20,
    LEFT_BYTES = 200 << 20,
    LEFT_MS = 15000,
    P99_US = 100000
};

static struct ensemble ensemble;
static uint64_t start_bytes[REPLICAS];
static uint64_t most_bytes[REPLICAS];
static char value[OWN_BYTES + 1];

/* ---- Checks ---- */

static void sample_memory(void)
{
    for (uint32_t i = 0; i < REPLICAS; i++) {
        uint64_t bytes = ensemble_resident_bytes(ensemble.replicas[i].pid);

        most_bytes[i] = bytes > most_bytes[i] ? bytes : most_bytes[i];
    }
}

static void remember_memory(void)
{
    memset(most_bytes, 0, sizeof(most_bytes));
    sample_memory();
    memcpy(start_bytes, most_bytes, sizeof(start_bytes));
}

static bool is_given_back(void)
{
    memset(most_bytes, 0, sizeof(most_bytes));
    sample_memory();
    for (uint32_t i = 0; i < REPLICAS; i++) {
        if (most_bytes[i] > start_bytes[i] + LEFT_BYTES) {
            return false;
        }
    }
    return true;
}

static void print_memory(const char *when)
{
    for (uint32_t i = 0; i < REPLICAS; i++) {
        print_message("replica %u: %d MiB before, %d MiB %s\n", i + 1, (int)(start_bytes[i] >> 20),
                      (int)(most_bytes[i] >> 20), when);
    }
}

static void check_memory(void)
{
    print_memory("at most");
    for (uint32_t i = 0; i < REPLICAS; i++) {
        ENSEMBLE_CHECK(&ensemble, most_bytes[i] <= start_bytes[i] + GROWTH_BYTES);
    }
}

/* The attackers are gone. */
static void check_given_back(void)
{
    uint64_t end_ms = os_now_ms() + LEFT_MS;

    while (!is_given_back() && os_now_ms() < end_ms) {
        (void)poll(NULL, 0, 250);
    }
    print_memory("afterwards");
    ENSEMBLE_CHECK(&ensemble, is_given_back());
}

/* ---- A watcher that reads ---- */

static struct reader {
    struct thread thread;
    struct socket *socket;
    uint64_t zxid; /* Zxid of the last event. */
    _Atomic uint32_t events;
    _Atomic bool stopping;
    bool disordered;
    bool missed; /* It received an overrun or a gap. */
} reader;

static void take_event(const json_t *message)
{
    const char *name = talk_text(message, "event");
    uint64_t zxid = strcmp(name, "NodeDataChanged") == 0 ? talk_hex(talk_text(message, "zxid")) : 0;

    if (zxid != 0) {
        reader.disordered = reader.disordered || zxid <= reader.zxid;
        reader.zxid = zxid;
        atomic_fetch_add(&reader.events, 1);
    }
    reader.missed = reader.missed || strcmp(name, "overrun") == 0 || strcmp(name, "gap") == 0;
}

static void read_all(void *arg)
{
    (void)arg;
    while (!atomic_load(&reader.stopping)) {
        json_t *message = socket_next(reader.socket, 50);

        if (message) {
            take_event(message);
            json_decref(message);
        }
    }
}

static void start_reader(uint32_t index)
{
    reader = (struct reader){.socket = talk_open(&ensemble, index, NULL)};
    talk_ok(&ensemble, reader.socket,
            "\"op\":\"watch\",\"path\":\"/big\",\"kind\":\"persistent\",\"values\":true");
    thread_start(&reader.thread, "reader", read_all, NULL);
}

/* The reader has received every change in order, without an overrun. */
static void stop_reader(uint32_t changes)
{
    ENSEMBLE_WAIT(&ensemble, atomic_load(&reader.events) >= changes);
    atomic_store(&reader.stopping, true);
    thread_join(&reader.thread);
    assert_int_equal(atomic_load(&reader.events), changes);
    assert_false(reader.disordered);
    assert_false(reader.missed);
    socket_close(reader.socket);
}

/* ---- Writes meanwhile ---- */

static void write_beside(uint32_t leader)
{
    struct attack_client writer = {.method = "PUT",
                                   .path = "/znodes/v1/big",
                                   .body = value,
                                   .port = ensemble.replicas[leader].client_port,
                                   .pause_ms = PAUSE_MS};
    uint32_t p99_us = 0;

    value[VALUE_BYTES] = '\0';
    start_reader((leader + 1) % REPLICAS);
    attack_client_start(&writer);
    while (atomic_load(&writer.done) < WRITES) {
        sample_memory();
        (void)poll(NULL, 0, 20);
    }
    attack_client_stop(&writer);
    p99_us = attack_client_quantile(&writer, 990);
    print_message("%u writes, p50 %u us, p99 %u us\n", writer.count,
                  attack_client_quantile(&writer, 500), p99_us);
    assert_int_equal(writer.failed, 0);
    stop_reader(writer.count);
    sample_memory();
    check_memory();
    ENSEMBLE_CHECK(&ensemble, p99_us < P99_US);
    attack_client_release(&writer);
}

static uint32_t begin(void)
{
    uint32_t leader = ensemble_wait_leader(&ensemble);

    memset(value, 'v', OWN_BYTES);
    value[VALUE_BYTES] = '\0';
    ensemble_call_until(&ensemble, leader, "PUT", "/znodes/v1/big?upsert=true", value, 201);
    for (uint32_t i = 0; i < REPLICAS; i++) {
        ensemble_call_until(&ensemble, i, "GET", "/znodes/v1/big", NULL, 200);
    }
    remember_memory();
    return leader;
}

/* ---- Attacks ---- */

static struct socket *sockets[REPLICAS * SOCKETS];

/* The watch is registered before the client stops reading. */
static struct socket *open_frozen(uint32_t replica, const char *path)
{
    const struct socket_options narrow = {.receive_bytes = RECEIVE_BYTES};
    struct socket *socket = talk_open(&ensemble, replica, &narrow);

    talk_ok(&ensemble, socket,
            "\"op\":\"watch\",\"path\":\"%s\",\"kind\":\"persistent\",\"values\":true", path);
    return socket;
}

static void open_sockets(const char *path)
{
    for (uint32_t i = 0; i < REPLICAS * SOCKETS; i++) {
        sockets[i] = open_frozen(i % REPLICAS, path);
    }
}

static void close_sockets(void)
{
    for (uint32_t i = 0; i < REPLICAS * SOCKETS; i++) {
        socket_close(sockets[i]);
        sockets[i] = NULL;
    }
}

static void open_three(void)
{
    attack_raise_descriptors(DESCRIPTORS);
    ensemble_launch(&ensemble, REPLICAS, "maxConnections=10000\nmaxStreams=10000\n");
}

/* More is written than may be queued, before slowTimeout closes a client. */
static void open_small(void)
{
    ensemble_launch(&ensemble, REPLICAS, "maxUnsentBytes=67108864\nslowTimeout=120000\n");
}

static void close_all(void)
{
    ensemble_close(&ensemble);
}

TEST(sockets_that_read_nothing, open_three, close_all)
{
    uint32_t leader = begin();

    open_sockets("/big");
    write_beside(leader);
    close_sockets();
    check_given_back();
}

static int streams[REPLICAS * STREAMS];

static void open_streams(void)
{
    static const char request[] = "GET /watch/v1/big?mode=persistent&values=true HTTP/1.1\r\n"
                                  "Host: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n";

    for (uint32_t i = 0; i < REPLICAS * STREAMS; i++) {
        uint8_t from = (uint8_t)(2 + i / REPLICAS / PER_ADDRESS);

        streams[i] =
            attack_connect(ensemble.replicas[i % REPLICAS].client_port, RECEIVE_BYTES, from);
        assert_true(streams[i] >= 0);
        assert_true(attack_send(streams[i], request, sizeof(request) - 1));
    }
    for (uint32_t i = 0; i < REPLICAS; i++) {
        ENSEMBLE_WAIT(&ensemble, ensemble_metric(&ensemble, i, "zabra_http_streams") == STREAMS);
    }
}

TEST(streams_that_read_nothing, open_three, close_all)
{
    uint32_t leader = begin();

    open_streams();
    write_beside(leader);
    for (uint32_t i = 0; i < REPLICAS * STREAMS; i++) {
        close(streams[i]);
    }
    check_given_back();
}

/* The queued values of each socket are its own, so sharing does not help. Together they exceed the
 * queue limit on each replica. */
TEST(sockets_that_share_nothing, open_small, close_all)
{
    uint32_t leader = begin();
    char path[64];
    static struct socket *frozen[OWN_NODES];

    for (uint32_t i = 0; i < OWN_NODES; i++) {
        (void)snprintf(path, sizeof(path), "/znodes/v1/own%u?upsert=true", i);
        ensemble_call_until(&ensemble, leader, "PUT", path, "", 201);
        (void)snprintf(path, sizeof(path), "/own%u", i);
        frozen[i] = open_frozen(leader, path);
    }
    value[VALUE_BYTES] = 'v';
    for (uint32_t i = 0; i < OWN_ROUNDS * OWN_NODES; i++) {
        (void)snprintf(path, sizeof(path), "/znodes/v1/own%u", i % OWN_NODES);
        ensemble_call_until(&ensemble, leader, "PUT", path, value, 200);
        sample_memory();
    }
    check_memory();
    /* A write may be answered before the sockets' thread has processed it. */
    ENSEMBLE_WAIT(&ensemble, ensemble_metric(&ensemble, leader, "zabra_ws_overruns_total") > 0);
    write_beside(leader);
    for (uint32_t i = 0; i < OWN_NODES; i++) {
        socket_close(frozen[i]);
    }
    check_given_back();
}
