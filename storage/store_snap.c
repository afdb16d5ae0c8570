#include "storage/store_int.h"

struct store_snap_writer {
    struct store *store;
    struct snapfile_writer file;
    struct snapfile_info info;
    uint64_t history; /* History when the snapshot was begun. */
    uint64_t records_mark;
    uint64_t bytes_mark;
};

struct store_snap_reader {
    struct snapfile_reader file;
};

/* ---- Writing. ---- */

static void writer_free(struct store_snap_writer *take_writer)
{
    ASSERT(take_writer->store->writer == take_writer);
    take_writer->store->writer = NULL;
    snapfile_writer_close(&take_writer->file);
    mem_free(take_writer);
}

enum err store_snap_begin(struct store *store, zxid_t start, uint64_t start_chain,
                          struct slice config, struct store_snap_writer **ret_writer)
{
    struct store_snap_writer *writer = mem_zalloc(1, sizeof(*writer));
    struct wal *wal = &store->wal;

    ASSERT(!store->is_read_only && !store->writer && store->has_identity);

    writer->store = store;
    store->writer = writer;
    writer->info.shown.start = start;
    writer->info.shown.start_chain = start_chain;
    mutex_lock(&wal->files_mutex);
    memcpy(writer->info.cluster, store->identity.cluster, STORE_CLUSTER_LEN);
    writer->history = wal->manifest.history;
    mutex_unlock(&wal->files_mutex);
    mutex_lock(&wal->index_mutex);
    writer->records_mark = wal->live.records_total;
    writer->bytes_mark = wal->live.bytes_total;
    mutex_unlock(&wal->index_mutex);

    enum err err = snapfile_create(&writer->file, &store->options.vfs, NAME_SNAP_LOCAL,
                                   store->options.record_bytes_max);

    THEN(err, snapfile_put_head(&writer->file, &writer->info, config));
    if (err != ERR_OK) {
        store_snap_abort(writer);
        return err;
    }
    *ret_writer = writer;
    return ERR_OK;
}

enum err store_snap_block(struct store_snap_writer *writer, struct slice block)
{
    ASSERT(writer->store->writer == writer);

    return snapfile_put_block(&writer->file, block);
}

void store_snap_abort(struct store_snap_writer *take_writer)
{
    const struct vfs *vfs = &take_writer->store->options.vfs;

    PROBE("storage.snapshot_aborted");
    writer_free(take_writer);
    /* If the file stays, the next opening removes it. */
    (void)vfs->ops->unlink(vfs->ctx, NAME_SNAP_LOCAL);
}

/* Checks that the log still has the records of which the snapshot was made. ERR_CLOSED: it does
 * not, or cannot be read. ERR_NO_FILES. */
static enum err check_history(struct store *store, const struct store_snap_writer *writer)
{
    struct wal *wal = &store->wal;
    uint64_t chain = 0;
    enum err err = ERR_MISSING;

    if (writer->history == wal->manifest.history && wal->is_open) {
        err = wal_chain_at(wal, writer->info.shown.end, &chain);
    }
    if (err == ERR_NO_FILES || (err == ERR_OK && chain == writer->info.end_chain)) {
        return err;
    }
    PROBE("storage.snapshot_of_replaced_log");
    return ERR_CLOSED;
}

/* Gives the verified file its name, if the log is still the one of which the snapshot was made. */
static enum err publish(struct store *store, const struct store_snap_writer *writer)
{
    const struct vfs *vfs = &store->options.vfs;
    struct snap_entry entry = {.info = writer->info, .is_verified = true};
    struct wal *wal = &store->wal;
    char name[VFS_NAME_MAX];
    enum err err = check_history(store, writer);

    if (err != ERR_OK) {
        return err;
    }
    name_snap(name, writer->history, writer->info.shown.start);
    err = vfs->ops->rename(vfs->ctx, NAME_SNAP_LOCAL, name);

    THEN(err, vfs->ops->sync_dir(vfs->ctx));
    if (err == ERR_OK) {
        snap_set_add(&store->snaps, &entry);
        snap_figures(store);
        MUTEX_HOLD(&wal->index_mutex);
        store->snap_records_mark = writer->records_mark;
        store->snap_bytes_mark = writer->bytes_mark;
    }
    return err;
}

/* Writes the trailer, syncs, and verifies the bytes on the disk. */
static enum err complete(struct store_snap_writer *writer)
{
    struct store *store = writer->store;
    struct snapfile_info back;
    enum err err = snapfile_put_trailer(&writer->file, &writer->info);

    if (err != ERR_OK) {
        return err;
    }
    err = snapfile_verify(&store->options.vfs, NAME_SNAP_LOCAL, store->options.record_bytes_max,
                          &back);
    if (err == ERR_MISSING) {
        /* The log was restarted, and unfinished files were removed. */
        PROBE("storage.snapshot_of_replaced_log");
        return ERR_CLOSED;
    }
    if (err == ERR_NO_FILES) {
        return err;
    }
    writer->info.shown.file_bytes = err == ERR_OK ? back.shown.file_bytes : 0;
    return err == ERR_OK && back.shown.digest == writer->info.shown.digest ? ERR_OK : ERR_IO;
}

enum err store_snap_finish(struct store_snap_writer *take_writer, zxid_t end, uint64_t digest,
                           uint64_t node_count)
{
    struct store *store = take_writer->store;
    struct snapfile_info *info = &take_writer->info;

    ASSERT(end >= info->shown.start);

    info->shown.end = end;
    info->shown.digest = digest;
    info->shown.node_count = node_count;

    enum err err = wal_chain_at(&store->wal, end, &info->end_chain);

    err = err == ERR_MISSING ? ERR_CLOSED : err;
    THEN(err, complete(take_writer));
    if (err == ERR_OK) {
        MUTEX_HOLD(&store->wal.files_mutex);
        err = publish(store, take_writer);
    }
    if (err != ERR_OK) {
        store_snap_abort(take_writer);
        return err;
    }
    writer_free(take_writer);
    return snaps_purge(store, true);
}

/* ---- Reading. ---- */

enum err store_snap_open(struct store *store, struct store_snap_reader **ret_reader,
                         struct store_snap_info *ret_info)
{
    struct store_snap_reader *reader = mem_zalloc(1, sizeof(*reader));
    char name[VFS_NAME_MAX];
    enum err err = ERR_MISSING;

    *ret_info = (struct store_snap_info){0};
    mutex_lock(&store->wal.files_mutex);

    const struct snap_entry *newest = store->wal.is_open ? snap_set_newest(&store->snaps) : NULL;

    if (newest) {
        name_snap(name, store->wal.manifest.history, newest->info.shown.start);
        err = snapfile_open(&reader->file, &store->options.vfs, name,
                            store->options.record_bytes_max, newest->is_checked);
        /* The set lists the file, so a missing file is damage. */
        err = err == ERR_MISSING ? ERR_CORRUPT : err;
        *ret_info = err == ERR_OK ? reader->file.info.shown : newest->info.shown;
        ret_info->history = store->wal.manifest.history;
        ret_info->is_checked = newest->is_checked;
    }
    mutex_unlock(&store->wal.files_mutex);
    if (err != ERR_OK) {
        mem_free(reader);
        return err;
    }
    *ret_reader = reader;
    return ERR_OK;
}

enum err store_snap_open_file(const struct vfs *vfs, const char *name, uint32_t record_bytes_max,
                              struct store_snap_reader **ret_reader,
                              struct store_snap_info *ret_info)
{
    struct store_snap_reader *reader = mem_zalloc(1, sizeof(*reader));
    enum err err = snapfile_open(&reader->file, vfs, name, record_bytes_max, true);

    if (err != ERR_OK) {
        mem_free(reader);
        return err;
    }
    *ret_info = reader->file.info.shown;
    *ret_reader = reader;
    return ERR_OK;
}

bool store_snap_is_newest(struct store *store, const struct store_snap_info *info)
{
    ASSERT(info->history > 0);
    MUTEX_HOLD(&store->wal.files_mutex);

    const struct snap_entry *newest = store->wal.is_open ? snap_set_newest(&store->snaps) : NULL;
    bool is_newest = newest && store->wal.manifest.history == info->history &&
                     newest->info.shown.start == info->start;
    return is_newest;
}

void store_snap_checked(struct store *store, const struct store_snap_info *info)
{
    MUTEX_HOLD(&store->wal.files_mutex);

    struct snap_entry *entry = snap_find(store, info->history, info->start);

    if (entry) {
        entry->is_checked = true;
        entry->is_verified = true;
    }
}

void store_snap_condemn(struct store *store, const struct store_snap_info *info)
{
    MUTEX_HOLD(&store->wal.files_mutex);

    struct snap_entry *entry = snap_find(store, info->history, info->start);

    if (entry) {
        entry->is_bad = true;
        entry->is_checked = false;
        entry->is_verified = false;
        snap_figures(store);
    }
}

struct slice store_snap_config(const struct store_snap_reader *reader)
{
    return buf_slice(&reader->file.config);
}

struct slice store_snap_cluster(const struct store_snap_reader *reader)
{
    return slice_make(reader->file.info.cluster, STORE_CLUSTER_LEN);
}

uint64_t store_snap_end_chain(const struct store_snap_reader *reader)
{
    return reader->file.info.end_chain;
}

enum err store_snap_next(struct store_snap_reader *reader, struct slice *ret_block)
{
    return snapfile_next(&reader->file, ret_block);
}

enum err store_snap_read_raw(struct store_snap_reader *reader, uint64_t offset, void *data,
                             size_t len, size_t *ret_len)
{
    return reader->file.vfs->ops->pread(reader->file.file, offset, data, len, ret_len);
}

void store_snap_close(struct store_snap_reader *reader)
{
    snapfile_close(&reader->file);
    mem_free(reader);
}

enum err store_snap_discard(struct store *store, struct store_report *report)
{
    ASSERT(store->wal.is_open);

    MUTEX_HOLD(&store->wal.files_mutex);

    struct snap_entry *newest = snap_set_newest(&store->snaps);
    enum err err = newest ? ERR_OK : ERR_MISSING;

    if (newest) {
        PROBE("storage.snapshot_discarded");
        newest->is_bad = true;
        snaps_report(store, report);
        if (!report->has_snapshot && store->wal.live.base > 0) {
            err = ERR_MISSING;
        }
    }
    return err;
}
