/*
 * Each replica, including the leader, is stopped and started again under load. No request fails for
 * a client that retries only unapplied requests, no write is lost, and the leader hands over before
 * it ends.
 */
#include "base/os_clock.h"
#include "base/thread.h"
#include "tests/lib/unit.h"
#include "tests/proc/load.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum {
    REPLICAS = 4, /* The last one is an observer. */
    WRITERS = 3,
    BETWEEN = 100,   /* Number of writes between two restarts. */
    DELAY_MS = 3000, /* drainDelay. */
    CONFIG_MAX = 8192
};

static struct ensemble ensemble;
static struct load load;

/* ---- Reads during the restarts ---- */

struct reader {
    struct thread thread;
    _Atomic bool stopping;
    _Atomic uint32_t count; /* Number of answers. */
    _Atomic uint32_t wrong;
    char wrong_text[256];
};

static struct reader reader;

static void read_one(struct web *web, struct web_reply *reply, uint32_t turn)
{
    struct web_call call = {.port = ensemble.replicas[turn % REPLICAS].client_port,
                            .path = turn / REPLICAS % 2 ? "/znodes/v1/load?consistency=linearizable"
                                                        : "/znodes/v1/load",
                            .fresh = turn / REPLICAS % 3 == 0};

    uint64_t start_ms = os_now_ms();

    web_do(web, &call, reply);
    if (reply->status == 200) {
        atomic_fetch_add(&reader.count, 1);
    } else if (!reply->refused && reply->status != 503 && atomic_fetch_add(&reader.wrong, 1) == 0) {
        (void)snprintf(reader.wrong_text, sizeof(reader.wrong_text),
                       "%u%s%s after %d ms: %ld %.150s", call.port, call.path,
                       call.fresh ? " on a connection of its own" : "",
                       (int)(os_now_ms() - start_ms), reply->status,
                       reply->why ? reply->why : web_text(reply));
    }
}

static void read_until_stopped(void *arg)
{
    struct web *web = web_open();
    struct web_reply reply;

    (void)arg;
    web_reply_init(&reply);
    for (uint32_t turn = 0; !atomic_load(&reader.stopping); turn++) {
        read_one(web, &reply, turn);
        ensemble_breathe();
    }
    web_reply_release(&reply);
    web_close(web);
}

/* The znode that is read must exist on every replica. */
static void reader_start(void)
{
    memset(&reader, 0, sizeof(reader));
    for (uint32_t i = 0; i < REPLICAS; i++) {
        ensemble_call_until(&ensemble, i, "GET", "/znodes/v1/load", NULL, 200);
    }
    thread_start(&reader.thread, "reader", read_until_stopped, NULL);
}

static void reader_stop(void)
{
    atomic_store(&reader.stopping, true);
    thread_join(&reader.thread);
    if (atomic_load(&reader.wrong)) {
        ensemble_print_logs(&ensemble);
        fail_msg("%u wrong answers to reads: %s", atomic_load(&reader.wrong), reader.wrong_text);
    }
    assert_true(atomic_load(&reader.count) > 0);
}

/* ---- Stopping a replica ---- */

static long ask(uint32_t index, const char *path)
{
    struct web_call call = {
        .port = ensemble.replicas[index].client_port, .path = path, .fresh = true};

    return web_do(ensemble.web, &call, &ensemble.reply);
}

/* After readiness has failed, it keeps failing until the replica no longer listens. */
static void watch_end(uint32_t index)
{
    bool failed = false;

    ensemble_signal(&ensemble, index, SIGTERM);
    for (;;) {
        long status = ask(index, "/readyz");

        if (status == 0) {
            break;
        }
        ENSEMBLE_CHECK(&ensemble, status == 503 || (status == 200 && !failed));
        failed = failed || status == 503;
    }
    assert_int_equal(ensemble_wait_end(&ensemble, index), 0);
}

static void restart(uint32_t index)
{
    bool led = ensemble_leads(&ensemble, index);
    uint64_t start_ms = os_now_ms();

    watch_end(index);
    if (led) {
        (void)ensemble_wait_leader(&ensemble);
    }
    print_message("replica %u%s: ended after %d ms\n", index + 1, led ? ", the leader" : "",
                  (int)(os_now_ms() - start_ms));
    load_wait(&load, &ensemble, BETWEEN);
    ensemble_start(&ensemble, index);
    ensemble_wait_ready(&ensemble, index);
    load_wait(&load, &ensemble, BETWEEN);
}

static void roll(enum load_kind kind)
{
    load_start_kind(&load, &ensemble, WRITERS, kind);
    reader_start();
    load_wait(&load, &ensemble, BETWEEN);
    for (uint32_t i = 0; i < REPLICAS; i++) {
        restart(i);
    }
    restart(ensemble_wait_leader(&ensemble)); /* So one of the restarted led. */
    reader_stop();
    load_stop(&load, &ensemble);

    uint32_t retries = 0;

    for (uint32_t i = 0; i < WRITERS; i++) {
        retries += atomic_load(&load.writers[i].retries);
    }
    print_message("acknowledged writes: %u; retries: %u\n", load_acked(&load), retries);
    for (uint32_t i = 0; i < REPLICAS; i++) {
        load_verify(&load, &ensemble, i);
    }
    load_release(&load);
}

static void open_delayed(void)
{
    ensemble_launch(&ensemble, 3, "drainDelay=3000\n");
}

static void open_very_delayed(void)
{
    ensemble_launch(&ensemble, 1, "drainDelay=3600000\n");
}

/* Makes the last server of the list an observer. */
static void make_observer(const struct replica *replica, const struct replica *observer)
{
    char text[CONFIG_MAX];
    char entry[64];
    int fd = open(replica->config, O_RDWR | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;

    assert_true(got > 0);
    text[got] = '\0';
    (void)snprintf(entry, sizeof(entry), "server.%u=127.0.0.1:%u\n", observer->id,
                   observer->peer_port);

    char *at = strstr(text, entry);

    assert_non_null(at);
    at += strlen(entry) - 1;
    assert_int_equal(pwrite(fd, ":observer\n", 10, at - text), 10);
    assert_int_equal(pwrite(fd, at + 1, strlen(at + 1), at - text + 10), strlen(at + 1));
    close(fd);
}

static void open_all(void)
{
    ensemble_open(&ensemble, REPLICAS, NULL);
    for (uint32_t i = 0; i < REPLICAS; i++) {
        make_observer(&ensemble.replicas[i], &ensemble.replicas[REPLICAS - 1]);
    }
    for (uint32_t i = 0; i < REPLICAS; i++) {
        ensemble_start(&ensemble, i);
    }
    ensemble_wait_all_ready(&ensemble);
}

static void close_all(void)
{
    ensemble_close(&ensemble);
}

TEST(kept_connections, open_all, close_all)
{
    roll(LOAD_PATIENT);
}

TEST(a_new_connection_for_each_request, open_all, close_all)
{
    roll(LOAD_PATIENT_FRESH);
}

/* ---- drainDelay ---- */

static void expect_not_ready(uint32_t index)
{
    ENSEMBLE_CHECK(&ensemble, ask(index, "/readyz?verbose") == 503);
    assert_non_null(strstr(web_text(&ensemble.reply), "[-] not_draining"));
    ENSEMBLE_CHECK(&ensemble, ask(index, "/status/v1") == 200);
    assert_non_null(strstr(web_text(&ensemble.reply), "\"draining\":true"));
}

/* Uses a new connection, like a client that a load balancer still directs here. */
static void expect_served(uint32_t index)
{
    struct web_call write = {.port = ensemble.replicas[index].client_port,
                             .method = "PUT",
                             .path = "/znodes/v1/delayed?upsert=true",
                             .body = "x",
                             .fresh = true};
    long status = web_do(ensemble.web, &write, &ensemble.reply);

    ENSEMBLE_CHECK(&ensemble, status == 200 || status == 201);
    ENSEMBLE_CHECK(&ensemble, ask(index, "/znodes/v1/delayed?consistency=linearizable") == 200);
}

/* The leader serves all requests and remains leader until the delay is over. */
TEST(a_delay_serves_while_not_ready, open_delayed, close_all)
{
    uint32_t leader = ensemble_wait_leader(&ensemble);
    uint64_t begin_ms = os_now_ms();
    uint32_t served = 0;

    ensemble_signal(&ensemble, leader, SIGTERM);
    ENSEMBLE_WAIT(&ensemble, ask(leader, "/readyz") == 503);
    while (os_now_ms() < begin_ms + DELAY_MS / 2) {
        expect_not_ready(leader);
        expect_served(leader);
        assert_true(ensemble_leads(&ensemble, leader));
        served++;
    }
    assert_int_equal(ensemble_wait_end(&ensemble, leader), 0);
    assert_true(os_now_ms() >= begin_ms + DELAY_MS);
    assert_true(served > 0);
    assert_true(ensemble_wait_leader(&ensemble) != leader);
}

TEST(a_second_signal_ends_the_delay, open_very_delayed, close_all)
{
    ensemble_signal(&ensemble, 0, SIGTERM);
    ENSEMBLE_WAIT(&ensemble, ask(0, "/readyz") == 503);
    assert_int_equal(ensemble_stop(&ensemble, 0), 0);
}

/* ---- An ensemble with an observer ---- */
