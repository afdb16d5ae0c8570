#include "storage/store_int.h"

/* Makes the small records and an empty log, unless an earlier attempt has made them and then had no
 * descriptor for the identity. */
static enum err format_log(struct store *store, const struct store_identity *identity)
{
    struct wal *wal = &store->wal;
    struct names names;

    ASSERT(identity->incarnation != 0 && !store->has_identity);
    if (wal->is_open) {
        return ERR_OK;
    }

    enum err err = names_list(&store->options.vfs, &names);

    if (err == ERR_OK) {
        wal_next_release(wal);
        err = leftovers_remove(store, &names);
        names_release(&names);
    }
    THEN(err, records_create(store));
    if (err == ERR_OK) {
        store->identity = *identity;
        wal->history_top = 0;
        err = wal_stage_begin(wal, 0, 0);
    }
    return err == ERR_OK ? wal_stage_switch(wal) : err;
}

/* Makes the first identity. All other files are made before it, so a directory with an identity is
 * complete. */
static enum err format(struct store *store, const struct store_identity *identity)
{
    enum err err = format_log(store, identity);

    if (err != ERR_OK) {
        return err;
    }
    err = record_identity(store, identity);
    /* A full disk here would leave the log open without an identity. So ERR_NO_SPACE, after which
     * the caller would try again, becomes ERR_IO. */
    return err == ERR_OK || err == ERR_NO_FILES ? err : ERR_IO;
}

static enum err run_identity(struct store *store, const struct store_op *op)
{
    enum err err = ERR_OK;

    MUTEX_HOLD(&store->wal.files_mutex);
    if (store->has_identity) {
        err = record_identity(store, op->identity);
    } else {
        err = format(store, op->identity);
    }
    return err;
}

/* Removes snapshots before the log is cut at `zxid`: those that reach beyond `zxid`, and those that
 * count as bad. The next opening reads only head and trailer, so it might accept a bad snapshot.
 * ERR_CORRUPT when the log needs a snapshot and none would be left: no caller may request such a
 * cut. */
static enum err snaps_cut(struct store *store, zxid_t zxid)
{
    ASSERT(zxid < store->wal.live.last);

    const struct vfs *vfs = &store->options.vfs;
    struct snap_set *set = &store->snaps;
    bool has_good = store->wal.live.base == 0;
    size_t count_before = set->count;
    enum err err = ERR_OK;

    for (size_t i = 0; i < set->count; i++) {
        has_good = has_good || (!set->list[i].is_bad && set->list[i].info.shown.end <= zxid);
    }
    if (!has_good) {
        PROBE("storage.truncate_below_snapshot_refused");
        return ERR_CORRUPT;
    }
    for (size_t i = set->count; err == ERR_OK && i > 0; i--) {
        if (set->list[i - 1].info.shown.end > zxid || set->list[i - 1].is_bad) {
            PROBE("storage.truncate_drops_snapshot");
            err = MUTANT(8) ? ERR_OK : snap_unlink(store, i - 1);
        }
    }
    if (err == ERR_OK && set->count < count_before) {
        err = vfs->ops->sync_dir(vfs->ctx);
    }
    snap_figures(store);
    return err == ERR_OK ? ERR_OK : ERR_IO;
}

static enum err run_truncate(struct store *store, const struct store_op *op)
{
    struct wal *wal = &store->wal;
    uint64_t chain = 0;
    enum err err = ERR_OK;

    ASSERT(wal->is_open && op->zxid <= wal->live.last);
    if (op->zxid < wal->live.last) {
        MUTEX_HOLD(&wal->files_mutex);
        err = wal_chain_at(wal, op->zxid, &chain);
        /* The space is reserved first: if there is none, nothing has changed. */
        THEN(err, wal_next_ensure(wal, 0, store->options.segment_bytes));
        THEN(err, wal_mark_clean(wal, false));
        THEN(err, snaps_cut(store, op->zxid));
        THEN(err, wal_truncate(wal, op->zxid));
    }
    return err;
}

static enum err run_reset(struct store *store)
{
    ASSERT(!store->recv.is_on && !store->wal.is_staging);
    /* The log thread has set the quarantine mark before: a crash from here on must not leave a
     * damaged log without the mark. */
    ASSERT(!store->is_damaged || store->is_quarantined);

    struct wal *wal = &store->wal;

    MUTEX_HOLD(&wal->files_mutex);
    enum err err = manifest_ensure(store);

    THEN(err, wal_stage_begin(wal, 0, 0));
    if (err == ERR_OK) {
        err = wal_stage_switch(wal);
        store->snaps.count = 0;
        THEN(err, restart_tidy(store));
    }
    return err;
}

/* Drops a snapshot that is being received, if the operation cuts or restarts the log, or ends the
 * reception. */
static enum err drop_received(struct store *store, enum store_op_type type)
{
    bool ends = type == STORE_TRUNCATE || type == STORE_RESET || type == STORE_SNAP_BEGIN ||
                type == STORE_SNAP_ABORT;

    return ends ? receive_abort(store) : ERR_OK;
}

static enum err run(struct store *store, struct store_op *op)
{
    switch (op->type) {
    case STORE_APPEND:
    case STORE_SNAP_ABORT:
        return ERR_OK;
    case STORE_TRUNCATE:
        return run_truncate(store, op);
    case STORE_PROMISE:
        return record_promise(store, op->epoch, op->leader);
    case STORE_IDENTITY:
        return run_identity(store, op);
    case STORE_QUARANTINE:
        return record_quarantine(store, op->reason ? op->reason : "");
    case STORE_RELEASE:
        return record_quarantine(store, NULL);
    case STORE_RESET:
        return run_reset(store);
    case STORE_SNAP_BEGIN:
        return receive_begin(store);
    case STORE_SNAP_CHUNK:
        return receive_chunk(store, op);
    case STORE_SNAP_INSTALL:
        return receive_install(store, op);
    }
    UNREACHABLE();
}

enum err change_run(struct store *store, struct store_op *op)
{
    enum err err = drop_received(store, op->type);

    ASSERT(store->has_identity || op->type == STORE_IDENTITY);

    op->ret_err = ERR_OK;
    THEN(err, run(store, op));
    op->ret_last = store->wal.live.last;
    op->ret_chain = store->wal.live.last_chain;
    return err;
}
