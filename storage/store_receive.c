/*
 * A snapshot from a leader and the log that follows the snapshot's start. Both are stored beside
 * the old state: the snapshot under a temporary name until the install, the log under the number of
 * the next history. One write of the manifest switches to them.
 */
#include "storage/store_int.h"

static void recv_close(struct store *store)
{
    if (store->recv.file) {
        store->options.vfs.ops->close(store->recv.file);
        store->recv.file = NULL;
    }
}

/* Closes and removes the snapshot's file and the log that came with it. */
static enum err drop_files(struct store *store)
{
    recv_close(store);
    mutex_lock(&store->wal.files_mutex);

    enum err err = wal_stage_drop(&store->wal);

    mutex_unlock(&store->wal.files_mutex);
    THEN(err, vfs_remove(&store->options.vfs, NAME_SNAP_RECV));
    /* If the disk is too full even to remove the file, the next reception removes it. */
    return err == ERR_NO_SPACE ? ERR_OK : err;
}

enum err receive_abort(struct store *store)
{
    enum err err = ERR_OK;

    ASSERT(store->recv.is_on || !store->wal.is_staging);

    if (store->recv.is_on) {
        PROBE("storage.receive_aborted");
        err = store->recv.refused == ERR_OK ? drop_files(store) : ERR_OK;
        store->recv = (struct snap_recv){0};
    }
    return err;
}

/* Refuses the reception at once. If an operation waited for space instead, it would block the later
 * operation that ends this reception, and only that operation frees the space. The sender learns of
 * the refusal from the result of the install. */
enum err receive_refuse(struct store *store, enum err why)
{
    ASSERT(store->recv.is_on && why != ERR_OK);

    if (why == ERR_NO_SPACE) {
        PROBE("storage.receive_no_space");
    }
    store->recv.refused = why;
    return drop_files(store);
}

static enum err refuse_if_full(struct store *store, enum err err)
{
    return err == ERR_NO_SPACE ? receive_refuse(store, err) : err;
}

enum err receive_begin(struct store *store)
{
    ASSERT(!store->recv.is_on && !store->recv.file && !store->wal.is_staging);

    enum err err = vfs_replace(&store->options.vfs, NAME_SNAP_RECV, &store->recv.file);

    store->recv.is_on = true;
    return refuse_if_full(store, err);
}

/* Writes a chunk. The file is synced every SNAPFILE_PIECE bytes, so that the log's own syncs do not
 * wait for the whole snapshot. */
static enum err put_chunk(struct store *store, const struct store_op *op)
{
    const struct vfs_ops *ops = store->options.vfs.ops;
    struct snap_recv *recv = &store->recv;

    enum err err = ops->pwrite(recv->file, recv->offset, op->snap_bytes.data, op->snap_bytes.len);

    recv->unsynced += op->snap_bytes.len;
    if (err == ERR_OK && recv->unsynced >= SNAPFILE_PIECE) {
        recv->unsynced = 0;
        err = ops->sync(recv->file);
    }
    return err;
}

enum err receive_chunk(struct store *store, const struct store_op *op)
{
    enum err err = ERR_OK;

    ASSERT(store->recv.is_on && op->snap_offset == store->recv.offset && !store->wal.is_staging);

    if (store->recv.refused == ERR_OK) {
        err = refuse_if_full(store, put_chunk(store, op));
    }
    store->recv.offset += op->snap_bytes.len;
    return err;
}

static bool is_foreign(const struct store *store, const struct snapfile_info *info)
{
    struct slice mine = slice_make(store->identity.cluster, STORE_CLUSTER_LEN);

    return !slice_is_zero(mine) && !slice_eq(mine, slice_make(info->cluster, STORE_CLUSTER_LEN));
}

static bool is_followed_by(const struct snapfile_info *info, const struct logrec *first)
{
    return !first ||
           (first->prev == info->shown.start &&
            first->chain == logrec_chain(info->shown.start_chain, first->type, first->zxid,
                                         first->prev, logrec_payload(first)));
}

/* Begins the staged log at the start of the received snapshot. ERR_CORRUPT: the snapshot does not
 * verify. */
static enum err stage_from_file(struct store *store, const struct logrec *first)
{
    ASSERT(!store->wal.is_staging && store->recv.file);

    struct snapfile_reader reader;
    enum err err = snapfile_open(&reader, &store->options.vfs, NAME_SNAP_RECV,
                                 store->options.record_bytes_max, false);

    if (err != ERR_OK) {
        return err == ERR_NO_FILES ? ERR_NO_FILES : ERR_CORRUPT;
    }
    if (is_foreign(store, &reader.info) || !is_followed_by(&reader.info, first)) {
        err = ERR_CORRUPT;
    } else {
        err = manifest_ensure(store);
    }
    THEN(err, wal_stage_begin(&store->wal, reader.info.shown.start, reader.info.shown.start_chain));
    snapfile_close(&reader);
    return err;
}

enum err receive_stage(struct store *store, const struct logrec *first)
{
    ASSERT(store->recv.is_on);

    if (store->wal.is_staging || store->recv.refused != ERR_OK) {
        return ERR_OK;
    }
    mutex_lock(&store->wal.files_mutex);

    enum err err = stage_from_file(store, first);

    mutex_unlock(&store->wal.files_mutex);
    return err == ERR_CORRUPT || err == ERR_NO_SPACE ? receive_refuse(store, err) : err;
}

/* Checks that the staged log covers (start, end] of the snapshot. ERR_CORRUPT: it does not. */
static enum err check_coverage(struct wal *wal, const struct snapfile_info *info)
{
    uint64_t chain = 0;

    if (wal->staged.base != info->shown.start ||
        wal->staged.base_chain != info->shown.start_chain) {
        return ERR_CORRUPT;
    }

    enum err err = wal_chain_in(wal, &wal->staged, info->shown.end, &chain);

    if (err == ERR_NO_FILES) {
        return err;
    }
    return err == ERR_OK && chain == info->end_chain ? ERR_OK : ERR_CORRUPT;
}

/* Reads the received snapshot back from the disk and compares it with the staged log. ERR_CORRUPT,
 * ERR_NO_SPACE: the snapshot is refused. ERR_NO_FILES: nothing has changed. */
static enum err verify(struct store *store, struct snapfile_info *ret_info)
{
    enum err err = store->recv.refused;

    THEN(err, store->options.vfs.ops->sync(store->recv.file));
    if (err == ERR_OK) {
        err = receive_stage(store, NULL);
        THEN(err, store->recv.refused);
    }
    if (err != ERR_OK) {
        return err;
    }
    err = snapfile_verify(&store->options.vfs, NAME_SNAP_RECV, store->options.record_bytes_max,
                          ret_info);
    if (err == ERR_NO_FILES) {
        return err;
    }
    return err == ERR_OK ? check_coverage(&store->wal, ret_info) : ERR_CORRUPT;
}

static enum err install(struct store *store, const struct snapfile_info *info)
{
    ASSERT(store->wal.is_staging);
    ASSERT(!store->is_damaged || store->is_quarantined); /* The quarantine mark comes first. */

    const struct vfs *vfs = &store->options.vfs;
    struct snap_entry entry = {.info = *info, .is_verified = true};
    char name[VFS_NAME_MAX];

    name_snap(name, store->wal.staged.history, info->shown.start);

    enum err err = vfs->ops->rename(vfs->ctx, NAME_SNAP_RECV, name);

    if (err == ERR_NO_SPACE) {
        return err; /* Nothing has changed. */
    }
    recv_close(store);
    store->recv = (struct snap_recv){0};
    THEN(err, vfs->ops->sync_dir(vfs->ctx));
    if (err != ERR_OK) {
        return ERR_IO;
    }
    err = wal_stage_switch(&store->wal);
    store->snaps.count = 0;
    snap_set_add(&store->snaps, &entry);
    return err == ERR_OK ? restart_tidy(store) : err;
}

enum err receive_install(struct store *store, struct store_op *op)
{
    ASSERT(store->recv.is_on);

    struct snapfile_info info = {0};
    enum err err = verify(store, &info);

    if (err == ERR_OK) {
        MUTEX_HOLD(&store->wal.files_mutex);
        err = install(store, &info);
    }
    if (err == ERR_OK) {
        PROBE("storage.snapshot_installed");
        op->ret_snap_end = info.shown.end;
    } else if (err == ERR_CORRUPT || err == ERR_NO_SPACE) {
        PROBE("storage.received_snapshot_refused");
        op->ret_err = err;
        err = receive_abort(store);
    }
    return err;
}
