#include "storage/wal.h"

/* The space that is left while records are packed into batches and segments. */
struct room {
    uint64_t left; /* Bytes in the segment from the start of the batch on. */
    uint64_t raw;  /* Bytes of content of the batch being filled; 0: no batch. */
};

enum room_step {
    ROOM_SAME,        /* The record goes into the current batch. */
    ROOM_NEW_BATCH,   /* The current batch ends before the record. */
    ROOM_NEW_SEGMENT, /* The current batch and the segment end before the record. */
};

void wal_init(struct wal *wal, const struct store_options *options,
              const struct store_identity *identity)
{
    ASSERT(options->segment_bytes >= (uint64_t)4 * VFS_BLOCK);
    ASSERT(options->segment_bytes % VFS_BLOCK == 0);

    *wal = (struct wal){.options = options, .identity = identity};
    mutex_init(&wal->files_mutex);
    mutex_init(&wal->index_mutex);

    size_t raw_max = (size_t)WALFMT_BATCH_RAW_MAX + WALFMT_BATCH_HEAD + WALFMT_RECORD_HEAD +
                     options->record_bytes_max;

    buf_init(&wal->raw, raw_max);
    buf_init(&wal->framed, (size_t)walfmt_framed_len(raw_max));
}

void wal_release(struct wal *wal)
{
    wal_log_release(wal, &wal->live);
    wal_log_release(wal, &wal->staged);
    wal_next_release(wal);
    mem_free(wal->next);
    mem_free(wal->stuck);
    epochs_release(&wal->batch_epochs);
    buf_release(&wal->raw);
    buf_release(&wal->framed);
    slots_close(&wal->slots, &wal->options->vfs);
    mutex_destroy(&wal->files_mutex);
    mutex_destroy(&wal->index_mutex);
}

static uint64_t framed_alone(uint64_t record_len)
{
    return walfmt_framed_len(WALFMT_BATCH_HEAD + record_len);
}

/* Returns the size of a segment that begins with a record of that length. */
static uint64_t segment_bytes_for(const struct wal *wal, uint64_t record_len)
{
    uint64_t needed = VFS_BLOCK + framed_alone(record_len);

    return max_u64(needed, wal->options->segment_bytes);
}

/* Returns where one more record goes, and takes its bytes off `room`. wal_reserve and wal_push
 * share this rule. */
static enum room_step room_add(const struct wal *wal, struct room *room, uint64_t record_len)
{
    ASSERT(room->raw == 0 || walfmt_framed_len(room->raw) <= room->left);

    uint64_t raw = (room->raw ? room->raw : WALFMT_BATCH_HEAD) + record_len;

    if ((raw <= WALFMT_BATCH_RAW_MAX || room->raw == 0) && walfmt_framed_len(raw) <= room->left) {
        room->raw = raw;
        return ROOM_SAME;
    }
    if (room->raw > 0) {
        room->left -= walfmt_framed_len(room->raw);
    }
    room->raw = WALFMT_BATCH_HEAD + record_len;
    if (walfmt_framed_len(room->raw) <= room->left) {
        return ROOM_NEW_BATCH;
    }
    room->left = segment_bytes_for(wal, record_len) - VFS_BLOCK;
    return ROOM_NEW_SEGMENT;
}

static struct room room_now(struct wal *wal)
{
    const struct wal_segment *tail = wal_target(wal)->tail;

    ASSERT(tail->end <= tail->header.bytes);
    return (struct room){.left = tail->header.bytes - tail->end, .raw = wal->raw.len};
}

enum err wal_reserve(struct wal *wal, struct logrec *const *recs, size_t count)
{
    struct room room = room_now(wal);
    size_t ahead = 0;
    enum err err = ERR_OK;

    for (size_t i = 0; err == ERR_OK && i < count; i++) {
        uint64_t len = WALFMT_RECORD_HEAD + (uint64_t)recs[i]->len;

        ASSERT(recs[i]->len <= wal->options->record_bytes_max);
        if (room_add(wal, &room, len) != ROOM_NEW_SEGMENT) {
            continue;
        }
        mutex_lock(&wal->files_mutex);
        err = wal_next_ensure(wal, ahead, segment_bytes_for(wal, len));
        mutex_unlock(&wal->files_mutex);
        ahead++;
    }
    return err;
}

static struct walfmt_place batch_place(const struct wal_log *log)
{
    return (struct walfmt_place){
        .salt = log->tail->header.salt,
        .offset = log->tail->end,
        .number = log->batch_next,
    };
}

static void batch_begin(struct wal *wal)
{
    ASSERT(wal->raw.len == 0);

    const struct wal_log *log = wal_target(wal);

    walfmt_batch_begin(&wal->raw);
    epochs_clear(&wal->batch_epochs);
    wal->batch = (struct walfmt_batch){
        .durable_upto = log->last,
        .chain = log->last_chain,
        .committed = log->committed,
    };
    wal->extent = (struct wal_extent){
        .last = log->last,
        .chain = log->last_chain,
        .offset = log->tail->end,
    };
}

static void batch_add(struct wal *wal, const struct logrec *rec, zxid_t committed)
{
    struct walfmt_place place = batch_place(wal_target(wal));
    struct walfmt_record record = {
        .type = rec->type,
        .zxid = rec->zxid,
        .prev = rec->prev,
        .chain = rec->chain,
        .payload = logrec_payload(rec),
    };
    struct wal_extent *extent = &wal->extent;
    uint32_t counter = zxid_counter(rec->zxid);

    /* A record that does not continue the log would make the whole log unreadable. */
    ASSERT(rec->prev == extent->last && rec->zxid > rec->prev);
    ASSERT(rec->chain ==
           logrec_chain(extent->chain, rec->type, rec->zxid, rec->prev, record.payload));

    walfmt_batch_put(&wal->raw, &place, &record);
    extent->first = extent->count == 0 ? rec->zxid : extent->first;
    extent->last = rec->zxid;
    extent->chain = rec->chain;
    extent->count++;
    epochs_add(
        &wal->batch_epochs,
        (struct epoch_range){.epoch = zxid_epoch(rec->zxid), .first = counter, .last = counter});
    wal->batch.committed = max_u64(committed, wal->batch.committed);
}

enum err wal_push(struct wal *wal, const struct logrec *rec, zxid_t committed)
{
    ASSERT(rec->len <= wal->options->record_bytes_max);

    struct room room = room_now(wal);
    uint64_t len = WALFMT_RECORD_HEAD + (uint64_t)rec->len;
    enum room_step step = room_add(wal, &room, len);
    enum err err = step == ROOM_SAME ? ERR_OK : wal_flush(wal);

    if (err == ERR_OK && step == ROOM_NEW_SEGMENT) {
        MUTEX_HOLD(&wal->files_mutex);
        err = wal_rotate(wal, segment_bytes_for(wal, len));
    }
    if (err != ERR_OK) {
        /* Space and files were reserved: a lack of them is an error of the file system. */
        return ERR_IO;
    }
    if (wal->raw.len == 0) {
        batch_begin(wal);
    }
    batch_add(wal, rec, committed);
    return ERR_OK;
}

enum err wal_flush(struct wal *wal)
{
    const struct vfs_ops *ops = wal->options->vfs.ops;
    struct wal_log *log = wal_target(wal);
    struct wal_segment *tail = log->tail;
    struct walfmt_place place = batch_place(log);

    if (wal->raw.len == 0) {
        return ERR_OK;
    }
    wal->batch.len = (uint32_t)(wal->raw.len - WALFMT_BATCH_HEAD);
    wal->batch.count = wal->extent.count;
    walfmt_batch_end(&wal->raw, &place, &wal->batch);
    walfmt_frame(buf_slice(&wal->raw), &place, &wal->framed);
    ASSERT(tail->end + wal->framed.len <= tail->header.bytes);

    enum err err = ops->pwrite(tail->file, tail->end, wal->framed.data, wal->framed.len);

    if (err == ERR_OK) {
        err = ops->sync(tail->file);
        err = MUTANT(61) ? ERR_OK : err;
    }
    if (err != ERR_OK) {
        return ERR_IO;
    }
    atomic_fetch_add(&wal->syncs, 1);
    wal->extent.bytes = (uint32_t)wal->framed.len;
    log->batch_next++;
    mutex_lock(&wal->index_mutex);
    wal_log_add(log, &wal->extent, &wal->batch_epochs, wal->batch.committed);
    mutex_unlock(&wal->index_mutex);
    buf_clear(&wal->raw);
    return ERR_OK;
}
