#include "tls/shaker.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/os_clock.h"
#include "base/thread.h"

#include <string.h>

enum {
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
    struct list running; /* The one whose client has sent nothing for longest first. */
    uint32_t count;      /* Of `running`. */
    struct map counts;   /* Of `running`, by the key of an address. */
    uint64_t scan_at_ms;
    uint64_t look_at_ms; /* When the files are looked at again. */
    struct thread thread;
};

/* ---- One handshake ---- */

/* Gives back a connection that is in no list. */
static void give_back(struct tls_shaker *shaker, struct tls_shake *shake)
{
    struct tls_metrics *metrics = tls_current_metrics(shaker->current);

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
    uint64_t count = map_amount(&shaker->counts, shake->address_key);

    ASSERT(count > 0 && shaker->count > 0);
    map_set_amount(&shaker->counts, shake->address_key, count - 1);
    shaker->count--;
    metric_set(&tls_current_metrics(shaker->current)->running, shaker->count);
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
        list_remove(&shake->node);
        give_back(shake->shaker, shake);
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
        loop_modify(&shake->shaker->loop, &shake->watch, LOOP_READ);
        return;
    case TLS_STEP_WRITE:
        loop_modify(&shake->shaker->loop, &shake->watch, LOOP_WRITE);
        return;
    }
}

static void on_ready(struct loop_watch *watch, uint32_t ready UNUSED)
{
    struct tls_shake *shake = watch->ctx;

    shake->moved_ms = os_now_ms();
    list_remove(&shake->node);
    list_push_back(&shake->shaker->running, &shake->node);
    move_on(shake);
}

static void start(struct tls_shaker *shaker, struct tls_shake *shake)
{
    struct tls_context *context = tls_current_get(shaker->current);
    uint64_t count = map_amount(&shaker->counts, shake->address_key);

    list_remove(&shake->node);
    list_push_back(&shaker->running, &shake->node);
    map_set_amount(&shaker->counts, shake->address_key, count + 1);
    shaker->count++;
    metric_set(&tls_current_metrics(shaker->current)->running, shaker->count);
    shake->moved_ms = os_now_ms();
    shake->running = tls_socket_new(context, shake->fd);
    tls_context_unref(context);
    loop_add_reader(&shaker->loop, &shake->watch, shake->fd, on_ready, shake);
    move_on(shake);
}

/* ---- Bounds ---- */

/* Returns the running handshake to end for a waiting one; NULL: none has been patient enough. */
static struct tls_shake *weakest(struct tls_shaker *shaker, uint64_t now_ms)
{
    /* The average number of handshakes per address; at least one address has that many. */
    uint64_t share = shaker->count / map_count(&shaker->counts);

    list_for_each_entry (struct tls_shake, shake, node, &shaker->running) {
        if (now_ms < shake->moved_ms + TLS_PATIENCE_MS) {
            return NULL;
        }
        if (map_amount(&shaker->counts, shake->address_key) >= share) {
            return shake;
        }
    }
    return NULL;
}

static void start_waiting(struct tls_shaker *shaker, uint64_t now_ms)
{
    while (!list_empty(&shaker->waiting)) {
        struct tls_shake *weak = NULL;

        if (shaker->count >= shaker->most) {
            weak = weakest(shaker, now_ms);
            if (!weak) {
                return;
            }
            fail(weak, TLS_EVICTED);
        }
        start(shaker, list_first(&shaker->waiting, struct tls_shake, node));
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
    list_move_all(&shaker->waiting, &batch);
}

static void look_at_clock(struct tls_shaker *shaker, uint64_t now_ms)
{
    if (now_ms >= shaker->scan_at_ms) {
        shaker->scan_at_ms = now_ms + TURN_MS;
        end_late(&shaker->waiting, now_ms);
        end_late(&shaker->running, now_ms);
    }
    if (now_ms >= shaker->look_at_ms) {
        shaker->look_at_ms = now_ms + TLS_LOOK_MS;
        tls_current_look(shaker->current, now_ms);
    }
}

static void end_all(struct tls_shaker *shaker)
{
    on_given(&shaker->given_watch, LOOP_READ);
    list_for_each_entry_safe (struct tls_shake, shake, next, node, &shaker->waiting) {
        fail(shake, TLS_TIMEOUT);
    }
    list_for_each_entry_safe (struct tls_shake, shake, next, node, &shaker->running) {
        fail(shake, TLS_TIMEOUT);
    }
}

static void run(void *arg)
{
    struct tls_shaker *shaker = arg;

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
    map_init(&shaker->counts);
    mailbox_init(&shaker->given, 1); /* Bounded by the limits of connections. */
    mailbox_init(&shaker->done, 1);
    shaker->look_at_ms = os_now_ms() + TLS_LOOK_MS;
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
    map_release(&shaker->counts);
    mem_free(shaker);
}

bool tls_shaker_give(struct tls_shaker *shaker, struct tls_shake *shake)
{
    shake->shaker = shaker;
    shake->socket = NULL;
    shake->running = NULL;
    shake->failure = TLS_NONE;
    shake->detail[0] = '\0';
    shake->begun_us = os_now_us();
    return mailbox_post_always(&shaker->given, &shake->node) == ERR_OK;
}

struct mailbox *tls_shaker_done(struct tls_shaker *shaker)
{
    return &shaker->done;
}
