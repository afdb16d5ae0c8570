/*
 * The log thread: group commit in one place. While one sync runs, what the core posts is collected;
 * then it becomes the next batch.
 */
#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/os_clock.h"
#include "server/process/server_int.h"

#include <unistd.h>

static void collect(struct log_thread *log)
{
    struct list posted;

    (void)mailbox_drain(&log->inbox, &posted);
    list_for_each_safe (it, tmp, &posted) {
        struct persist_batch *batch = list_entry(it, struct persist_batch, node);

        list_remove(it);
        persist_merge(&log->pending, batch);
        persist_batch_release(batch);
        mem_free(batch);
    }
}

static void report(struct log_thread *log, struct persist_dones *take_dones)
{
    if (take_dones->count == 0) {
        persist_dones_release(take_dones);
        return;
    }
    struct log_done *done = mem_zalloc(1, sizeof *done);

    done->dones = *take_dones;
    (void)mailbox_post_always(log->outbox, &done->node);
}

/* Runs what is pending. What the disk refuses for lack of space stays; any other failure ends the
 * process at once: what a failed sync left in the page cache cannot be trusted again. */
static void run(struct log_thread *log)
{
    struct persist_dones dones = {0};
    uint64_t start_us = os_now_us();
    size_t count = log->pending.count;
    enum err err = persist_run(&log->pending, log->store, &dones);

    if (err != ERR_OK && err != ERR_NO_SPACE) {
        log_error("storage", "the data directory failed (%s): stopping at once, nothing is retried",
                  err_text(err));
        _exit(EXIT_DISK);
    }
    metric_observe_us(&log->sync_time, os_now_us() - start_us);
    metric_add(&log->batches, 1);
    metric_add(&log->operations, count - log->pending.count);
    if (err == ERR_NO_SPACE && !atomic_exchange(&log->stuck, true)) {
        metric_add(&log->no_space, 1);
        log_warn("storage", "no disk space for the log: no acknowledgement until space is freed");
    } else if (err == ERR_OK && atomic_exchange(&log->stuck, false)) {
        log_info("storage", "disk space is back: the log goes on");
    }
    report(log, &dones);
}

static void body(void *arg)
{
    struct log_thread *log = arg;
    bool open = true;

    while (open || log->pending.count > 0) {
        bool stuck = atomic_load(&log->stuck);

        if (log->pending.count == 0 || stuck) {
            (void)mailbox_wait(&log->inbox, stuck ? SPACE_RETRY_MS : -1);
        }
        collect(log);
        open = !mailbox_is_closed(&log->inbox);
        if (log->pending.count > 0) {
            run(log);
        }
        if (!open && atomic_load(&log->stuck)) {
            return; /* Never acknowledged: nothing is lost by leaving it. */
        }
    }
}

void log_thread_start(struct log_thread *log, struct store *store, struct mailbox *outbox)
{
    log->store = store;
    log->outbox = outbox;
    mailbox_init(&log->inbox, SIZE_MAX);
    persist_batch_init(&log->pending);
    thread_start(&log->thread, "zabra-log", body, log);
}

void log_thread_post(struct log_thread *log, struct persist_batch *take_batch)
{
    ASSERT(take_batch->count > 0);

    (void)mailbox_post_always(&log->inbox, &take_batch->node);
}

void log_thread_stop(struct log_thread *log)
{
    mailbox_close(&log->inbox);
    thread_join(&log->thread);
    collect(log);
    persist_batch_release(&log->pending);
    mailbox_release(&log->inbox);
}
