/*
 * The worker thread does slow disk work in the background: it reads log and snapshots for learners,
 * loads and writes snapshots, and preallocates the next segment of the log. A snapshot is written
 * in slices, and checked block by block before it is sent; other jobs run in between.
 */
#include "server/process/recover.h"
#include "server/process/server_int.h"
#include "storage/note_file.h"

#include <poll.h>

enum {
    FETCH_RECS_MAX = 4096,
    FETCH_BYTES_MAX = 1 << 20,
    BLOCK_BYTES_MAX = 64 << 20,        /* One znode may be far larger than a slice. */
    SLICE_BYTES_MAX = 256 << 10,       /* Bytes of a snapshot, per hold of the lock. */
    PREPARE_MS = 50,                   /* Time between two attempts to preallocate a segment. */
    SNAPSHOT_BYTES_PER_MS = 100 << 10, /* Pace: 100 MB/s, so that the log's syncs stay short. */
};

void worker_job_free(struct worker_job *job)
{
    struct zab_ev_fetched *fetched = &job->event.fetched;

    if (job->event.type == ZAB_EV_FETCHED) {
        for (size_t i = 0; i < fetched->rec_count; i++) {
            logrec_unref(fetched->recs[i]);
        }
        mem_free(fetched->recs);
    }
    buf_release(&job->bytes);
    buf_release(&job->config);
    mem_free(job);
}

static void answer(struct worker *worker, struct worker_job *job)
{
    (void)mailbox_post_always(worker->outbox, &job->node);
}

/* True when an operation must be retried because it found no file descriptor; pauses before the
 * retry. The operation must not fail, because the protocol would take a failed read for damage. */
static bool is_again(struct worker *worker, enum err err)
{
    if (err != ERR_NO_FILES) {
        if (atomic_exchange(&worker->lacks_files, false)) {
            log_info("storage",
                     "a file descriptor is free again: log and snapshots are read again");
        }
        return false;
    }
    if (!atomic_exchange(&worker->lacks_files, true)) {
        log_warn("storage", "out of file descriptors, of this process or of the machine: log and "
                            "snapshots cannot be read; raise the limit of open files");
    }
    (void)poll(NULL, 0, FILES_RETRY_MS);
    return !mailbox_is_closed(&worker->inbox);
}

static void fetch(struct worker *worker, struct worker_job *job)
{
    struct zab_ev_fetched *fetched = &job->event.fetched;

    fetched->recs = mem_zalloc(FETCH_RECS_MAX, sizeof(struct logrec *));
    do {
        fetched->err = store_read(worker->store, job->zxid, FETCH_BYTES_MAX, FETCH_RECS_MAX,
                                  fetched->recs, &fetched->rec_count);
    } while (is_again(worker, fetched->err));
    answer(worker, job);
}

/* Sends the next piece of the snapshot that is open for this learner. */
static void send_piece(struct worker *worker, struct worker_job *job)
{
    const struct store_snap_info *info = &job->piece.info;

    buf_init(&job->bytes, ZAB_CHUNK_BYTES_MAX);
    if (job->err == ERR_OK) {
        job->err = snap_send_piece(&worker->send, &job->piece, os_now_ms(), &job->bytes);
    }
    job->event.snap_fetched = (struct zab_ev_snap_fetched){.token = job->event.snap_fetched.token,
                                                           .err = job->err,
                                                           .start = info->start,
                                                           .start_chain = info->start_chain,
                                                           .end = info->end,
                                                           .id = info->id,
                                                           .offset = job->piece.offset,
                                                           .bytes = buf_slice(&job->bytes),
                                                           .is_last = job->piece.is_last};
    answer(worker, job);
}

/* Sends a piece of a snapshot. A transfer whose file must be checked first is left for later. */
static void snap_fetch(struct worker *worker, struct worker_job *job, struct list *later)
{
    uint32_t peer = job->piece.peer;

    if (job->piece.is_first) {
        job->err = snap_send_begin(&worker->send, &job->piece, os_now_ms());
        if (job->err == ERR_BUSY) {
            log_warn("storage",
                     "peer {peer}%u must wait for a snapshot: snapshots are open for {count}%u "
                     "other peers",
                     peer, (uint32_t)ZAB_MEMBERS_MAX);
        }
    }
    if (job->piece.is_first && job->err == ERR_OK && !snap_send_is_checked(&worker->send, peer)) {
        list_push_back(later, &job->node);
        return;
    }
    send_piece(worker, job);
}

static void restore(struct worker *worker, struct worker_job *job)
{
    snap_send_close(&worker->send);
    do {
        recover_restore(worker->store, job->zxid, job->history, worker->view, &job->event);
    } while (is_again(worker, job->event.restored.err));
    answer(worker, job);
}

/* If the base of the log has moved, reports that to the core. Not only a new snapshot purges log:
 * store_preallocate may purge log without one. */
static void report_purged(struct worker *worker)
{
    struct store_figures figures;

    store_figures(worker->store, &figures);
    if (figures.log_base != worker->log_base) {
        struct worker_job *job = mem_zalloc(1, sizeof *job);

        worker->log_base = figures.log_base;
        job->event = (struct zab_event){.type = ZAB_EV_PURGED, .purged_base = figures.log_base};
        answer(worker, job);
    }
}

/* Makes the next segment of the log before it is needed. */
static void prepare(struct worker *worker)
{
    uint64_t now_ms = os_now_ms();

    if (now_ms < worker->prepare_ms) {
        return;
    }
    worker->prepare_ms = now_ms + PREPARE_MS;
    snap_send_tidy(&worker->send, now_ms, snap_send_idle_ms(atomic_load(&worker->low)));
    enum err err = store_preallocate(worker->store);

    log_thread_end_if(err == ERR_IO, err);
    report_purged(worker);
    atomic_store(&worker->low, err == ERR_NO_SPACE || store_is_low(worker->store));
}

static void run_jobs(struct worker *worker, struct list *later);

/* Runs other jobs until the next slice or block is due; `bytes` were done since `start_ms`. */
static void pace(struct worker *worker, uint64_t start_ms, uint64_t bytes, struct list *later)
{
    uint64_t due_ms = start_ms + bytes / SNAPSHOT_BYTES_PER_MS;

    do {
        uint64_t now_ms = os_now_ms();

        run_jobs(worker, later);
        prepare(worker);
        if (now_ms >= due_ms || worker->stopping) {
            return;
        }
        (void)mailbox_wait(&worker->inbox, (int)(due_ms - now_ms));
    } while (!mailbox_is_closed(&worker->inbox));
}

struct scan {
    struct store_snap_writer *writer;
    struct state_cursor cursor;
    struct buf block;
    uint64_t written;
    zxid_t end;
    uint64_t digest;
    uint64_t nodes;
};

/* Reads a slice under the read lock and writes it without the lock, so the snapshot is fuzzy. */
static enum err scan_slice(struct worker *worker, struct scan *scan)
{
    const struct state *state = view_read(worker->view);

    if (!state) {
        return ERR_CLOSED;
    }
    buf_clear(&scan->block);
    state_scan(state, &scan->cursor, SLICE_BYTES_MAX, &scan->block);
    if (scan->cursor.done) {
        scan->end = state_applied(state);
        scan->digest = state_digest(state);
        scan->nodes = state_node_count(state);
    }
    view_read_done(worker->view);
    scan->written += scan->block.len;
    return scan->block.len > 0 ? store_snap_block(scan->writer, buf_slice(&scan->block)) : ERR_OK;
}

static enum err write_snapshot(struct worker *worker, struct worker_job *job, struct list *later)
{
    struct scan scan = {0};
    uint64_t start_ms = os_now_ms();
    enum err err = store_snap_begin(worker->store, job->zxid, job->chain, buf_slice(&job->config),
                                    &scan.writer);

    if (err != ERR_OK) {
        return err;
    }
    state_scan_init(&scan.cursor);
    buf_init(&scan.block, BLOCK_BYTES_MAX);
    while (err == ERR_OK && !scan.cursor.done) {
        err = scan_slice(worker, &scan);
        pace(worker, start_ms, scan.written, later);
        if (worker->stopping || mailbox_is_closed(&worker->inbox)) {
            err = ERR_CLOSED;
        }
    }
    if (err == ERR_OK) {
        err = store_snap_finish(scan.writer, scan.end, scan.digest, scan.nodes);
    } else {
        store_snap_abort(scan.writer);
    }
    state_scan_release(&scan.cursor);
    buf_release(&scan.block);
    return err;
}

static void snapshot(struct worker *worker, struct worker_job *job, struct list *later)
{
    uint64_t start_us = os_now_us();

    job->err = write_snapshot(worker, job, later);
    log_thread_end_if(job->err == ERR_IO, job->err);
    metric_observe_us(&worker->snapshot_time, os_now_us() - start_us);
    if (job->err == ERR_OK) {
        struct store_figures figures;

        store_figures(worker->store, &figures);
        job->event.stored_snap =
            (struct zab_ev_stored_snap){.start = job->zxid, .log_base = figures.log_base};
        if (figures.unremoved > 0) {
            log_warn(
                "storage",
                "{count}%u old files of snapshots and log cannot be removed; the next snapshot "
                "tries again",
                figures.unremoved);
        }
    } else {
        metric_add(&worker->snapshot_errors, 1);
        log_warn("storage",
                 "a snapshot could not be written ({error}%s); the log is kept, and the snapshot "
                 "is tried again later",
                 err_text(job->err));
    }
    answer(worker, job);
}

/* Checks all blocks of the snapshot that a learner is about to get, then sends its first piece. */
static void check_and_send(struct worker *worker, struct worker_job *job, struct list *later)
{
    uint64_t start_ms = os_now_ms();
    uint64_t condemned = worker->send.condemned;
    uint64_t done = 0;
    size_t bytes = 0;

    while (job->err == ERR_OK && !snap_send_is_checked(&worker->send, job->piece.peer)) {
        job->err = snap_send_check(&worker->send, job->piece.peer, os_now_ms(), &bytes);
        done += bytes;
        pace(worker, start_ms, done, later);
        if (worker->stopping || mailbox_is_closed(&worker->inbox)) {
            job->err = ERR_CLOSED;
        }
    }
    if (worker->send.condemned > condemned) {
        log_warn("storage", "a snapshot is damaged and no longer used: {action}%s",
                 job->err == ERR_OK ? "an older snapshot is sent" : "a new snapshot is taken");
    }
    send_piece(worker, job);
}

static void write_note(struct worker *worker, struct worker_job *job)
{
    do {
        job->err = note_file_write(worker->vfs, job->note, buf_slice(&job->config));
    } while (is_again(worker, job->err));
    log_thread_end_if(job->err == ERR_IO, job->err);
    answer(worker, job);
}

/* Ends the jobs about the old state, because another state is loaded. */
static void refuse(struct worker *worker, struct list *later)
{
    list_take_each (struct worker_job, job, node, later) {
        job->err = ERR_CLOSED;
        if (job->event.type == ZAB_EV_SNAP_FETCHED) {
            send_piece(worker, job);
        } else {
            answer(worker, job);
        }
    }
}

/* Runs short jobs at once; long ones are left for later. */
static void run_jobs(struct worker *worker, struct list *later)
{
    struct list jobs;

    (void)mailbox_drain(&worker->inbox, &jobs);
    list_take_each (struct worker_job, job, node, &jobs) {
        if (job->note) {
            write_note(worker, job);
        } else if (job->event.type == ZAB_EV_FETCHED) {
            fetch(worker, job);
        } else if (job->event.type == ZAB_EV_SNAP_FETCHED) {
            snap_fetch(worker, job, later);
        } else if (job->event.type == ZAB_EV_RESTORED) {
            worker->stopping = true;
            refuse(worker, later);
            restore(worker, job);
        } else {
            ASSERT(job->event.type == ZAB_EV_STORED_SNAP);
            list_push_back(later, &job->node);
        }
    }
}

static void body(void *arg)
{
    struct worker *worker = arg;
    struct list later;

    list_init(&later);
    while (!mailbox_is_closed(&worker->inbox)) {
        prepare(worker);
        (void)mailbox_wait(&worker->inbox, PREPARE_MS);
        run_jobs(worker, &later);
        list_take_each (struct worker_job, job, node, &later) {
            worker->stopping = false;
            if (job->event.type == ZAB_EV_STORED_SNAP) {
                snapshot(worker, job, &later);
            } else {
                check_and_send(worker, job, &later);
            }
        }
    }
    run_jobs(worker, &later);
    list_take_each (struct worker_job, job, node, &later) {
        worker_job_free(job);
    }
}

void worker_start(struct worker *worker, struct store *store, const struct vfs *vfs,
                  struct view *view, struct mailbox *outbox)
{
    worker->store = store;
    worker->vfs = vfs;
    snap_send_init(&worker->send, store);
    worker->view = view;
    worker->outbox = outbox;
    mailbox_init(&worker->inbox, WORKER_JOBS_MAX);
    thread_start(&worker->thread, "zabra-worker", body, worker);
}

void worker_post(struct worker *worker, struct worker_job *take_job)
{
    (void)mailbox_post_always(&worker->inbox, &take_job->node);
}

void worker_stop(struct worker *worker)
{
    mailbox_close(&worker->inbox);
    thread_join(&worker->thread);
    snap_send_close(&worker->send);
    mailbox_release(&worker->inbox);
}
