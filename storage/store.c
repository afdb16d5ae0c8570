#include "storage/store.h"

#include "storage/store_int.h"

static void store_free(struct store *store)
{
    const struct vfs *vfs = &store->options.vfs;

    if (store->recv.file) {
        vfs->ops->close(store->recv.file);
    }
    records_close(store);
    wal_release(&store->wal);
    mem_free(store->snaps.list);
    mem_free(store);
}

enum err store_open(const struct store_options *options, bool read_only, struct store **ret_store,
                    struct store_report *ret_report)
{
    struct store *store = mem_zalloc(1, sizeof(*store));
    enum err err = ERR_OK;

    ASSERT(options->snapshots_keep > 0 && options->record_bytes_max > 0);

    *ret_report = (struct store_report){.verdict = STORE_EMPTY};
    store->options = *options;
    store->is_read_only = read_only;
    for (size_t i = 0; i < STORE_READERS; i++) {
        atomic_init(&store->keep[i], STORE_KEEP_NONE);
    }
    wal_init(&store->wal, &store->options, &store->identity);
    if (!read_only) {
        err = options->vfs.ops->lock(options->vfs.ctx);
    }
    THEN(err, store_recover(store, ret_report));
    if (err != ERR_OK) {
        store_free(store);
        return err;
    }
    *ret_store = store;
    return ERR_OK;
}

void store_close(struct store *store, bool clean)
{
    bool may_mark = clean && !store->is_read_only && !store->has_failed && store->wal.is_open;

    ASSERT(!store->writer);
    if (may_mark) {
        MUTEX_HOLD(&store->wal.files_mutex);
        /* If this fails, the next opening finds no mark, as after a crash: it may mistake damage at
         * the tail for a torn write. */
        (void)wal_mark_clean(&store->wal, true);
    }
    store_free(store);
}

struct epoch_range *store_epochs(struct store *store, size_t *ret_count)
{
    struct wal *wal = &store->wal;
    const struct epochs *epochs = &wal->live.epochs;

    MUTEX_HOLD(&wal->index_mutex);
    struct epoch_range *ranges = mem_alloc(max_size(epochs->count, 1) * sizeof(*ranges));

    if (epochs->count > 0) {
        memcpy(ranges, epochs->ranges, epochs->count * sizeof(*ranges));
    }
    *ret_count = epochs->count;
    return ranges;
}

enum err store_read(struct store *store, zxid_t after, size_t bytes_max, size_t recs_max,
                    struct logrec **ret_recs, size_t *ret_count)
{
    return wal_read(&store->wal, after, bytes_max, recs_max, ret_recs, ret_count);
}

/* Makes the batch so far durable, and with the batch all operations before `upto`. */
static enum err flush_upto(struct store *store, size_t upto, size_t *ret_done)
{
    ASSERT(upto >= *ret_done);

    enum err err = wal_flush(&store->wal);

    if (err == ERR_OK) {
        *ret_done = upto;
    }
    return err;
}

/* Adds the records of one append to the batch. */
static enum err push_all(struct wal *wal, const struct store_op *op)
{
    enum err err = ERR_OK;

    for (size_t k = 0; err == ERR_OK && k < op->rec_count; k++) {
        err = wal_push(wal, op->recs[k], op->committed);
    }
    return err;
}

/* Ends a run of appends after wal_reserve has failed with `err` for the append at `at`. Makes the
 * appends before it durable. If the disk is full, a snapshot that is being received is dropped with
 * its log. */
static enum err end_appends(struct store *store, enum err err, size_t at, size_t count,
                            size_t *ret_done)
{
    enum err flush_err = flush_upto(store, at, ret_done);

    ASSERT(err != ERR_OK && at < count);
    if (flush_err == ERR_OK && err == ERR_NO_SPACE && store->recv.is_on) {
        *ret_done = count;
        return receive_refuse(store, err);
    }
    return flush_err == ERR_OK ? err : flush_err;
}

/* Runs neighbouring appends in as few batches as the limits allow. */
static enum err run_appends(struct store *store, struct store_op **ops, size_t count,
                            size_t *ret_done)
{
    struct wal *wal = &store->wal;
    enum err err = ERR_OK;

    *ret_done = 0;
    if (store->recv.is_on) {
        err = receive_stage(store, ops[0]->rec_count ? ops[0]->recs[0] : NULL);
        if (err != ERR_OK || store->recv.refused != ERR_OK) {
            *ret_done = err == ERR_OK ? count : 0;
            return err;
        }
    }
    for (size_t i = 0; i < count; i++) {
        err = wal_reserve(wal, ops[i]->recs, ops[i]->rec_count);
        if (err != ERR_OK) {
            return end_appends(store, err, i, count, ret_done);
        }
        err = push_all(wal, ops[i]);
        if (err != ERR_OK) {
            return err;
        }
    }
    return flush_upto(store, count, ret_done);
}

static size_t appends_from(struct store_op **ops, size_t count)
{
    size_t run = 0;

    while (run < count && ops[run]->type == STORE_APPEND) {
        run++;
    }
    return run;
}

/* Clears the clean-shutdown mark before the log changes. */
static enum err touch_log(struct store *store)
{
    enum err err = ERR_OK;

    if (store->wal.is_open && store->wal.manifest.clean) {
        MUTEX_HOLD(&store->wal.files_mutex);
        err = wal_mark_clean(&store->wal, false);
    }
    return err;
}

enum err store_run(struct store *store, struct store_op **ops, size_t count, size_t *ret_done)
{
    enum err err = ERR_OK;
    size_t done = 0;

    ASSERT(!store->is_read_only && !store->has_failed);

    if (store->is_lost) {
        store->has_failed = true;
        err = ERR_CORRUPT;
    }
    while (err == ERR_OK && done < count) {
        size_t run = appends_from(ops + done, count - done);
        size_t run_done = 1;

        if (run > 0) {
            err = touch_log(store);
            run_done = 0;
            THEN(err, run_appends(store, ops + done, run, &run_done));
        } else {
            err = change_run(store, ops[done]);
            run_done = err == ERR_OK;
        }
        done += run_done;
    }
    *ret_done = done;
    if (err != ERR_OK && err != ERR_NO_SPACE && err != ERR_NO_FILES) {
        store->has_failed = true;
    }
    return err;
}

enum err store_run_one(struct store *store, struct store_op *op)
{
    size_t done = 0;

    return store_run(store, &op, 1, &done);
}

void store_keep(struct store *store, enum store_reader reader, zxid_t zxid)
{
    atomic_store(&store->keep[reader], zxid);
}

static enum err next_ensure(struct store *store)
{
    struct wal *wal = &store->wal;
    enum err err = ERR_OK;

    MUTEX_HOLD(&wal->files_mutex);
    if (wal->is_open) {
        err = wal_next_ensure(wal, 0, store->options.segment_bytes);
    }
    return err;
}

enum err store_preallocate(struct store *store)
{
    enum err err = next_ensure(store);

    if (err == ERR_NO_SPACE && snaps_keeps(store)) {
        PROBE("storage.full_disk_takes_kept_log");
        err = snaps_purge(store, false);
        return err == ERR_OK ? next_ensure(store) : err;
    }
    if (err == ERR_OK && snaps_keeps_too_much(store)) {
        PROBE("storage.kept_log_let_go");
        err = snaps_purge(store, true);
    }
    return err;
}

bool store_is_low(struct store *store)
{
    return atomic_load(&store->wal.is_low);
}

void store_figures(struct store *store, struct store_figures *ret_figures)
{
    struct wal *wal = &store->wal;

    *ret_figures = (struct store_figures){.syncs = atomic_load(&wal->syncs)};
    MUTEX_HOLD(&wal->index_mutex);
    for (size_t i = 0; i < wal->live.count; i++) {
        ret_figures->log_bytes += wal->live.segments[i]->header.bytes;
    }
    ret_figures->segments = (uint32_t)wal->live.count;
    ret_figures->log_base = wal->live.base;
    ret_figures->unremoved = store->unremoved;
    ret_figures->kept_bytes = store->kept_bytes;
    ret_figures->keeps_lost = store->keeps_lost;
    ret_figures->snapshots = store->snap_count;
    ret_figures->snap_newest_end = store->snap_newest_end;
    ret_figures->records_since_snap = wal->live.records_total - store->snap_records_mark;
    ret_figures->bytes_since_snap = wal->live.bytes_total - store->snap_bytes_mark;
}
