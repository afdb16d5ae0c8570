/* The thread of handshakes: completion, failures, deadlines, bounds. */
#include "tls/shaker.h"

#include "base/thread.h"
#include "tests/unit/tls_kit.h"

#include <poll.h>
#include <sched.h>

enum {
    WAIT_MS = 20000,
    PLACES = 4,
    FLOOD = 8
};

struct bench {
    struct tls_kit kit;
    struct tls_shaker *shaker;
};

static void open_bench(struct bench *bench)
{
    tls_kit_open(&bench->kit);
    tls_kit_start(&bench->kit);
    bench->shaker = tls_shaker_start(bench->kit.current, PLACES);
}

static void close_bench(struct bench *bench)
{
    tls_shaker_stop(bench->shaker);
    tls_shaker_free(bench->shaker);
    tls_kit_close(&bench->kit);
}

static struct tls_shake *await(struct bench *bench)
{
    struct mailbox *done = tls_shaker_done(bench->shaker);
    struct tls_shake *shake = NULL;
    struct list batch;

    assert_true(mailbox_wait(done, WAIT_MS));
    assert_int_equal(mailbox_drain(done, &batch), 1);
    shake = list_take(&batch, struct tls_shake, node);
    return shake;
}

static void give(struct bench *bench, struct tls_shake *shake, int fd, uint64_t address)
{
    shake->fd = fd;
    shake->deadline_ms = os_now_ms() + WAIT_MS;
    shake->address_key = address;
    assert_true(tls_shaker_give(bench->shaker, shake));
}

static void dial(struct bench *bench, struct tls_shake *shake)
{
    struct tls_kit *kit = &bench->kit;

    tls_kit_dial(kit, NULL);
    tls_socket_free(kit->socket); /* The shaker makes its own. */
    kit->socket = NULL;
    (void)tls_peer_shake(&kit->peer);
    (void)tls_peer_push(&kit->peer, SIZE_MAX);
    give(bench, shake, kit->fd, 1);
}

/* The client's part of a handshake with the thread. */
static void shake_peer(struct tls_kit *kit)
{
    uint64_t end_ms = os_now_ms() + WAIT_MS;
    struct pollfd come = {.fd = kit->far, .events = POLLIN};

    while (tls_peer_shake(&kit->peer) == 0) {
        assert_true(os_now_ms() < end_ms);
        (void)tls_peer_push(&kit->peer, SIZE_MAX);
        (void)poll(&come, 1, WAIT_MS);
        (void)tls_peer_pull(&kit->peer, SIZE_MAX);
    }
    (void)tls_peer_push(&kit->peer, SIZE_MAX);
}

static uint64_t failures(const struct bench *bench, enum tls_failure failure)
{
    return metric_get(&tls_current_metrics(bench->kit.current)->failed[failure]);
}

TEST(a_handshake_comes_back_complete, bench, open_bench, close_bench)
{
    struct tls_kit *kit = &bench->kit;
    struct tls_shake shake;

    dial(bench, &shake);
    shake_peer(kit);
    assert_ptr_equal(await(bench), &shake);
    assert_int_equal(shake.failure, TLS_NONE);
    tls_socket_attach(shake.socket);
    kit->socket = shake.socket;
    assert_int_equal(send(kit->fd, "served", 6, MSG_NOSIGNAL), 6);
    assert_int_equal(tls_kit_hear(kit).len, 6);
    assert_int_equal(metric_get(&tls_current_metrics(kit->current)->full), 1);
    assert_int_equal(metric_get(&tls_current_metrics(kit->current)->running), 0);
}

TEST(a_failed_handshake_comes_back_with_its_reason, bench, open_bench, close_bench)
{
    struct tls_shake shake;
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(send(ends[1], "\x16not TLS at all", 15, MSG_NOSIGNAL), 15);
    give(bench, &shake, ends[0], 1);
    assert_ptr_equal(await(bench), &shake);
    assert_null(shake.socket);
    assert_int_equal(shake.failure, TLS_PLAIN);
    assert_int_equal(failures(bench, TLS_PLAIN), 1);
    close(ends[0]);
    close(ends[1]);
}

TEST(a_handshake_that_is_late_is_ended, bench, open_bench, close_bench)
{
    struct tls_shake shake;
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    shake.fd = ends[0];
    shake.deadline_ms = os_now_ms() + 50;
    shake.address_key = 1;
    assert_true(tls_shaker_give(bench->shaker, &shake));
    assert_ptr_equal(await(bench), &shake);
    assert_int_equal(shake.failure, TLS_TIMEOUT);
    assert_true(os_now_ms() >= shake.deadline_ms);
    close(ends[0]);
    close(ends[1]);
}

/* ---- Bounds ---- */

struct flood {
    struct tls_shake shakes[FLOOD];
    int ends[FLOOD][2];
    size_t back; /* Of `shakes`. */
};

/* Half handshakes of one address: they hold all places, and some of them wait. */
static void open_flood(struct bench *bench, struct flood *flood, uint64_t address)
{
    uint64_t end_ms = os_now_ms() + WAIT_MS;

    *flood = (struct flood){.back = 0};
    for (int i = 0; i < FLOOD; i++) {
        assert_int_equal(
            socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, flood->ends[i]), 0);
        assert_int_equal(send(flood->ends[i][1], "\x16\x03\x01\x01", 4, MSG_NOSIGNAL), 4);
        give(bench, &flood->shakes[i], flood->ends[i][0], address);
    }
    while (metric_get(&tls_current_metrics(bench->kit.current)->running) < PLACES) {
        assert_true(os_now_ms() < end_ms);
        (void)sched_yield();
    }
}

/* Takes what comes back; true: `honest` is among it, complete. */
static bool take_back(struct bench *bench, struct flood *flood, const struct tls_shake *honest)
{
    struct list batch;
    bool done = false;

    (void)mailbox_drain(tls_shaker_done(bench->shaker), &batch);
    list_take_each (struct tls_shake, shake, node, &batch) {
        done = done || shake == honest;
        flood->back += shake != honest;
        assert_int_equal(shake->failure, shake == honest ? TLS_NONE : TLS_EVICTED);
    }
    return done;
}

/* All come back at the end: those that wait are ended, or a place was still taken for them before.
 * The thread runs again when this judges, because a failed test stops it once more. */
static void close_flood(struct bench *bench, struct flood *flood)
{
    struct list rest;
    bool fits = true;

    tls_shaker_stop(bench->shaker);
    flood->back += mailbox_drain(tls_shaker_done(bench->shaker), &rest);
    list_take_each (struct tls_shake, shake, node, &rest) {
        fits = fits && !shake->socket &&
               (shake->failure == TLS_STOPPED || shake->failure == TLS_EVICTED);
    }
    for (int i = 0; i < FLOOD; i++) {
        close(flood->ends[i][0]);
        close(flood->ends[i][1]);
    }
    tls_shaker_free(bench->shaker);
    bench->shaker = tls_shaker_start(bench->kit.current, PLACES);
    assert_true(fits);
    assert_int_equal(flood->back, FLOOD);
}

static void attach(struct bench *bench, struct tls_shake *honest)
{
    tls_socket_attach(honest->socket);
    bench->kit.socket = honest->socket;
}

/* A client of another address gets through long before the deadline of the others. */
TEST(half_handshakes_do_not_keep_out_another_address, bench, open_bench, close_bench)
{
    struct flood flood;
    struct tls_shake honest;

    open_flood(bench, &flood, 7);
    dial(bench, &honest);
    shake_peer(&bench->kit);
    do {
        assert_true(mailbox_wait(tls_shaker_done(bench->shaker), WAIT_MS));
    } while (!take_back(bench, &flood, &honest));
    attach(bench, &honest);
    assert_true(failures(bench, TLS_EVICTED) > 0);
    close_flood(bench, &flood);
}

/* A byte now and then lengthens no handshake. */
TEST(handshakes_byte_by_byte_do_not_keep_out_another_address, bench, open_bench, close_bench)
{
    uint64_t end_ms = os_now_ms() + WAIT_MS;
    struct tls_kit *kit = &bench->kit;
    struct flood flood;
    struct tls_shake honest;

    open_flood(bench, &flood, 7);
    dial(bench, &honest);
    while (!take_back(bench, &flood, &honest)) {
        struct pollfd come = {.fd = kit->far, .events = POLLIN};

        assert_true(os_now_ms() < end_ms);
        for (int i = 0; i < FLOOD; i++) {
            (void)send(flood.ends[i][1], "", 1, MSG_NOSIGNAL);
        }
        (void)poll(&come, 1, 10);
        (void)tls_peer_pull(&kit->peer, SIZE_MAX);
        (void)tls_peer_shake(&kit->peer);
        (void)tls_peer_push(&kit->peer, SIZE_MAX);
    }
    attach(bench, &honest);
    assert_true(flood.back >= 1);
    close_flood(bench, &flood);
}

/* The client's hello is complete, and then it is slow: the places of others are taken. */
TEST(a_slow_client_keeps_its_place_while_others_have_more, bench, open_bench, close_bench)
{
    struct flood flood;
    struct tls_shake honest;

    dial(bench, &honest);
    open_flood(bench, &flood, 7);
    while (flood.back <= FLOOD - PLACES) {
        assert_true(mailbox_wait(tls_shaker_done(bench->shaker), WAIT_MS));
        assert_false(take_back(bench, &flood, &honest));
    }
    shake_peer(&bench->kit);
    while (!take_back(bench, &flood, &honest)) {
        assert_true(mailbox_wait(tls_shaker_done(bench->shaker), WAIT_MS));
    }
    attach(bench, &honest);
    close_flood(bench, &flood);
}
