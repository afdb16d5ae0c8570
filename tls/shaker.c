#include "tls/shaker.h"

#include "base/mem.h"
#include "base/os_clock.h"
#include "base/thread.h"

#include <string.h>

enum {
    /* A handshake costs as much as a hundred reads. While 1,000 clients reconnected, the slowest
     * hundredth of the reads of others took up to five times as long without this (bench_tls herd).
     */
    STEP_BACK = 5,
    TURN_MS = 100 /* Between two looks at deadlines. */
};

struct tls_shaker {
    struct tls_current *current;
    uint32_t most;
    struct loop loop;
    struct mailbox given; /* Closed: the thread stops. */
    struct loop_watch given_watch;
    struct mailbox done;
    struct list waiting; /* Without a place, oldest first. */
    struct list running; /* Oldest first. */
    struct tls_shares shares;
    uint64_t scan_at_ms;
    struct thread thread;
};

/* ---- One handshake ---- */

/* Gives back a connection that is in no list. */
static void give_back(struct tls_shaker *shaker, struct tls_shake *shake)
{
    struct tls_metrics *metrics = tls_current_metrics(shaker->current);
    enum tls_failure cut = (enum tls_failure)atomic_load(&shake->cut);

    if (shake->failure != TLS_NONE && cut != TLS_NONE) {
        shake->failure = cut;
        shake->detail[0] = '\0';
    }
    if (shake->failure == TLS_NONE) {
        bool resumed = tls_socket_is_resumed(shake->running);

        metric_add(resumed ? &metrics->resumed : &metrics->full, 1);
        metric_observe_us(&metrics->duration, os_now_us() - shake->begun_us);
        shake->socket = shake->running;
        shake->running = NULL;
    } else {
        metric_add(&metrics->failed[shake->failure], 1);
    }
    mailbox_must_post(&shaker->done, &shake->node);
}

/* Ends a running handshake. */
static void finish(struct tls_shake *shake)
{
    struct tls_shaker *shaker = shake->shaker;

    tls_shares_leave(&shaker->shares, &shake->share);
    metric_set(&tls_current_metrics(shaker->current)->running, shaker->shares.count);
    loop_remove(&shaker->loop, &shake->watch);
    list_remove(&shake->node);
    if (shake->failure != TLS_NONE) {
        tls_socket_free(shake->running);
        shake->running = NULL;
    }
    give_back(shaker, shake);
}

static void fail(struct tls_shake *shake, enum tls_failure failure)
{
    shake->failure = failure;
    if (shake->running) {
        finish(shake);
    } else {
        tls_shares_leave(&shake->shaker->shares, &shake->share);
        list_remove(&shake->node);
        give_back(shake->shaker, shake);
    }
}

/* Waits until the descriptor is ready. The time for the client's next flight begins with the
 * server's first answer, and only with that. */
static void await(struct tls_shake *shake, uint32_t events)
{
    loop_modify(&shake->shaker->loop, &shake->watch, events);
    if (!shake->answered && tls_socket_has_answered(shake->running)) {
        shake->answered = true;
        tls_shares_extend(&shake->share, os_now_ms() + TLS_FLIGHT_MS);
    }
}

static void move_on(struct tls_shake *shake)
{
    switch (tls_socket_shake(shake->running, &shake->failure, shake->detail)) {
    case TLS_STEP_DONE:
    case TLS_STEP_FAILED:
        finish(shake);
        return;
    case TLS_STEP_READ:
        await(shake, LOOP_READ);
        return;
    case TLS_STEP_WRITE:
        await(shake, LOOP_WRITE);
        return;
    }
}

static void on_ready(struct loop_watch *watch, uint32_t ready UNUSED)
{
    move_on(watch->ctx);
}

static void start(struct tls_shaker *shaker, struct tls_shake *shake)
{
    struct tls_context *context = tls_current_get(shaker->current);

    list_remove(&shake->node);
    list_push_back(&shaker->running, &shake->node);
    tls_shares_hold(&shaker->shares, &shake->share, os_now_ms() + TLS_HELLO_MS);
    metric_set(&tls_current_metrics(shaker->current)->running, shaker->shares.count);
    shake->running = tls_socket_new(context, shake->fd);
    tls_context_unref(context);
    loop_add_reader(&shaker->loop, &shake->watch, shake->fd, on_ready, shake);
    move_on(shake);
}

/* ---- Bounds ---- */

/* Ends a handshake for a waiting one; false: none has had its time. Before that it is continued,
 * because its client may have sent all that it has to, and this thread may be late. */
static bool make_room(struct tls_shaker *shaker, uint64_t now_ms)
{
    const uint64_t count = shaker->shares.count;
    struct tls_shares_one *one = NULL;

    while (shaker->shares.count == count &&
           (one = tls_shares_weakest(&shaker->shares, now_ms)) != NULL) {
        struct tls_shake *shake = list_entry(one, struct tls_shake, share);

        move_on(shake); /* May end it, or give it more time. */
        if (shaker->shares.count == count && now_ms >= one->patient_ms) {
            fail(shake, TLS_EVICTED);
        }
    }
    return shaker->shares.count < count;
}

static void start_waiting(struct tls_shaker *shaker, uint64_t now_ms)
{
    while (!list_empty(&shaker->waiting)) {
        if (shaker->shares.count >= shaker->most && !make_room(shaker, now_ms)) {
            return;
        }
        start(shaker, list_entry(tls_shares_next(&shaker->shares), struct tls_shake, share));
    }
}

static void end_late(struct list *shakes, uint64_t now_ms)
{
    list_for_each_entry_safe (struct tls_shake, shake, next, node, shakes) {
        if (now_ms >= shake->deadline_ms) {
            fail(shake, TLS_TIMEOUT);
        }
    }
}

/* ---- The thread ---- */

static void on_given(struct loop_watch *watch, uint32_t ready UNUSED)
{
    struct tls_shaker *shaker = watch->ctx;
    struct list batch;

    (void)mailbox_drain(&shaker->given, &batch);
    list_take_each (struct tls_shake, shake, node, &batch) {
        list_push_back(&shaker->waiting, &shake->node);
        tls_shares_wait(&shaker->shares, &shake->share, shake->address_key);
    }
}

static void look_at_clock(struct tls_shaker *shaker, uint64_t now_ms)
{
    if (now_ms >= shaker->scan_at_ms) {
        shaker->scan_at_ms = now_ms + TURN_MS;
        end_late(&shaker->waiting, now_ms);
        end_late(&shaker->running, now_ms);
    }
}

static void end_all(struct tls_shaker *shaker)
{
    on_given(&shaker->given_watch, LOOP_READ);
    list_for_each_entry_safe (struct tls_shake, shake, next, node, &shaker->waiting) {
        fail(shake, TLS_STOPPED);
    }
    list_for_each_entry_safe (struct tls_shake, shake, next, node, &shaker->running) {
        fail(shake, TLS_STOPPED);
    }
}

static void run(void *arg)
{
    struct tls_shaker *shaker = arg;

    thread_step_back(STEP_BACK);
    while (!mailbox_is_closed(&shaker->given)) {
        uint64_t now_ms = 0;

        loop_run_once(&shaker->loop, TURN_MS);
        now_ms = os_now_ms();
        look_at_clock(shaker, now_ms);
        start_waiting(shaker, now_ms);
    }
    end_all(shaker);
}

struct tls_shaker *tls_shaker_start(struct tls_current *current, uint32_t most)
{
    struct tls_shaker *shaker = mem_zalloc(1, sizeof(*shaker));

    shaker->current = current;
    shaker->most = most;
    loop_init(&shaker->loop);
    list_init(&shaker->waiting);
    list_init(&shaker->running);
    tls_shares_init(&shaker->shares);
    mailbox_init(&shaker->given, 1); /* Bounded by the limits of connections. */
    mailbox_init(&shaker->done, 1);
    loop_add_reader(&shaker->loop, &shaker->given_watch, shaker->given.event_fd, on_given, shaker);
    thread_start(&shaker->thread, "tls", run, shaker);
    return shaker;
}

void tls_shaker_stop(struct tls_shaker *shaker)
{
    mailbox_close(&shaker->given);
    thread_join(&shaker->thread);
}

void tls_shaker_free(struct tls_shaker *shaker)
{
    if (!shaker) {
        return;
    }
    mailbox_release(&shaker->given);
    mailbox_release(&shaker->done);
    loop_release(&shaker->loop);
    tls_shares_release(&shaker->shares);
    mem_free(shaker);
}

bool tls_shaker_give(struct tls_shaker *shaker, struct tls_shake *shake)
{
    shake->shaker = shaker;
    shake->socket = NULL;
    shake->running = NULL;
    shake->answered = false;
    shake->failure = TLS_NONE;
    shake->detail[0] = '\0';
    atomic_store(&shake->cut, TLS_NONE);
    shake->begun_us = os_now_us();
    return mailbox_post_always(&shaker->given, &shake->node) == ERR_OK;
}

struct mailbox *tls_shaker_done(struct tls_shaker *shaker)
{
    return &shaker->done;
}
