/*
 * The log thread: group commit in one place. Operations that the core posts during a sync form the
 * next batch.
 */
#include "server/process/server_int.h"

#include <unistd.h>

static void collect(struct log_thread *log)
{
    struct list posted;

    (void)mailbox_drain(&log->inbox, &posted);
    list_take_each (struct persist_batch, batch, node, &posted) {
        persist_merge(&log->pending, batch);
        persist_batch_release(batch);
        mem_free(batch);
    }
}

static bool must_wait(struct log_thread *log)
{
    return atomic_load(&log->stuck) || atomic_load(&log->lacks_files);
}

/* Posts the completions to the core. Without completions, posts only when the log thread begins or
 * ends a wait for space or a descriptor, so that the core notices. */
static void report(struct log_thread *log, struct persist_dones *take_dones, bool waited)
{
    if (take_dones->count == 0 && waited == must_wait(log)) {
        persist_dones_release(take_dones);
        return;
    }
    struct log_done *done = mem_zalloc(1, sizeof *done);

    done->dones = *take_dones;
    (void)mailbox_post_always(log->outbox, &done->node);
}

static void tell_space(struct log_thread *log, enum err err)
{
    if (err == ERR_NO_SPACE && !atomic_exchange(&log->stuck, true)) {
        log_warn("storage",
                 "no disk space for the log: no write is acknowledged until space is freed");
    } else if (err == ERR_OK && atomic_exchange(&log->stuck, false)) {
        log_info("storage", "the disk has space again: the log is written again");
    }
}

static void tell_files(struct log_thread *log, enum err err)
{
    if (err == ERR_NO_FILES && !atomic_exchange(&log->lacks_files, true)) {
        metric_add(&log->no_files, 1);
        log_warn("storage", "out of file descriptors, of this process or of the machine: no write "
                            "is acknowledged until one is free; raise the limit of open files");
    } else if (err != ERR_NO_FILES && atomic_exchange(&log->lacks_files, false)) {
        log_info("storage", "a file descriptor is free again: the log is written again");
    }
}

static int retry_ms(struct log_thread *log)
{
    return atomic_load(&log->lacks_files) ? FILES_RETRY_MS : SPACE_RETRY_MS;
}

void log_thread_end_if(bool failed, enum err err)
{
    if (failed) {
        log_error("storage",
                  "the data directory failed ({error}%s): stopping at once, nothing is retried",
                  err_text(err));
        _exit(EXIT_DISK);
    }
}

/* Runs the pending operations. Those that must wait for space or for a descriptor stay pending. */
static void run(struct log_thread *log)
{
    struct persist_dones dones = {0};
    uint64_t start_us = os_now_us();
    size_t count = log->pending.count;
    bool waited = must_wait(log);
    enum err err = persist_run(&log->pending, log->store, &dones);

    log_thread_end_if(err != ERR_OK && err != ERR_NO_SPACE && err != ERR_NO_FILES, err);
    metric_observe_us(&log->sync_time, os_now_us() - start_us);
    metric_add(&log->operations, count - log->pending.count);
    tell_space(log, err);
    tell_files(log, err);
    report(log, &dones, waited);
}

static void body(void *arg)
{
    struct log_thread *log = arg;
    bool open = true;

    while (open || log->pending.count > 0) {
        if (must_wait(log)) {
            (void)mailbox_wait(&log->inbox, retry_ms(log));
        } else if (log->pending.count == 0) {
            (void)mailbox_wait(&log->inbox, -1);
        }
        collect(log);
        open = !mailbox_is_closed(&log->inbox);
        if (log->pending.count > 0) {
            run(log);
        }
        if (!open && must_wait(log)) {
            return; /* The pending operations were not acknowledged, so they may be lost. */
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
