#include "storage/wal.h"

/* The place at which the log will be cut. */
struct cut {
    struct wal_spot spot;
    struct wal_segment *segment;
    struct wal_extent kept; /* The first records of the batch in which the cut's zxid lies. */
};

static void header_cut(const struct cut *cut, struct walfmt_header *header)
{
    ASSERT(cut->spot.keep <= cut->segment->count);

    const struct wal_segment *segment = cut->segment;
    const struct wal_extent *before = cut->spot.keep ? &segment->extents[cut->spot.keep - 1] : NULL;

    header->prev_number = segment->header.number;
    header->prev_offset = before ? before->offset + before->bytes : VFS_BLOCK;
    header->prev_zxid = before ? before->last : segment->header.prev_zxid;
    header->prev_chain = before ? before->chain : segment->header.prev_chain;
}

/* Copies the records up to `zxid` of the batch in which `zxid` lies into wal->raw. They become the
 * first batch of the next segment. */
static enum err cut_keep(struct wal *wal, struct cut *cut, zxid_t zxid,
                         const struct walfmt_header *header)
{
    ASSERT(cut->spot.is_inside && wal->raw.len == 0);

    struct walfmt_place from = wal_place(cut->segment, cut->spot.keep);
    struct walfmt_place to = {
        .salt = header->salt, .offset = VFS_BLOCK, .number = header->batch_first};
    struct walfmt_record record;
    struct wal_loaded loaded;
    enum err err = wal_segment_load(wal, cut->segment, &from, wal_batch_bytes_max(wal), &loaded);

    PROBE("storage.truncate_inside_batch");
    walfmt_batch_begin(&wal->raw);
    while (err == ERR_OK && cut->kept.last != zxid) {
        err = walfmt_next(&loaded.cursor, &record);
        if (err == ERR_OK && record.zxid > zxid) {
            err = ERR_MISSING;
        }
        if (err != ERR_OK) {
            break;
        }
        walfmt_batch_put(&wal->raw, &to, &record);
        cut->kept.first = cut->kept.count == 0 ? record.zxid : cut->kept.first;
        cut->kept.last = record.zxid;
        cut->kept.chain = record.chain;
        cut->kept.count++;
    }
    if (err == ERR_OK) {
        struct walfmt_batch batch = {
            .len = (uint32_t)(wal->raw.len - WALFMT_BATCH_HEAD),
            .count = cut->kept.count,
            .durable_upto = header->prev_zxid,
            .chain = header->prev_chain,
            .committed = header->committed,
        };

        walfmt_batch_end(&wal->raw, &to, &batch);
        cut->kept.offset = VFS_BLOCK;
        cut->kept.bytes = (uint32_t)walfmt_framed_len(wal->raw.len);
    }
    wal_loaded_release(&loaded);
    return err;
}

/* Applies the cut in memory: the log now ends at the cut and continues in `take_segment`. Returns
 * the segments that were cut off. */
static struct wal_segment **cut_apply(struct wal *wal, const struct cut *cut,
                                      struct wal_segment *take_segment)
{
    const struct walfmt_header *header = &take_segment->header;

    struct wal_log *log = &wal->live;

    mutex_lock(&wal->index_mutex);

    struct wal_segment **gone = wal_log_take(log, cut->spot.segment + 1, log->count);

    cut->segment->count = cut->spot.keep;
    cut->segment->end = header->prev_offset;
    log->last = header->prev_zxid;
    log->last_chain = header->prev_chain;
    if (cut->kept.count > 0) {
        wal_segment_push_extent(take_segment, &cut->kept);
        log->last = cut->kept.last;
        log->last_chain = cut->kept.chain;
    }
    log->committed = min_u64(log->committed, log->last);
    epochs_cut(&log->epochs, log->last);
    if (log->last == log->base) {
        epochs_clear(&log->epochs);
    }
    wal_log_push(log, take_segment);
    mutex_unlock(&wal->index_mutex);
    log->batch_next = header->batch_first + (cut->kept.count > 0);
    return gone;
}

/* Repeats a mistake of an earlier version: removes the files behind the cut, in ascending order,
 * before the cut is durable. */
static void truncate_as_mutant(const struct wal *wal, size_t from)
{
    const struct vfs *vfs = &wal->options->vfs;
    char name[VFS_NAME_MAX];

    for (size_t i = from; i < wal->live.count; i++) {
        name_wal(name, wal->live.history, wal->live.segments[i]->header.number);
        (void)vfs->ops->unlink(vfs->ctx, name);
    }
}

enum err wal_truncate(struct wal *wal, zxid_t zxid)
{
    const struct wal_log *log = &wal->live;
    struct walfmt_header header = wal_header_next(wal, log);
    struct cut cut = {0};
    struct wal_segment *segment = NULL;
    enum err err = wal_find(log, zxid, &cut.spot);

    ASSERT(wal->raw.len == 0);
    if (err != ERR_OK) {
        return err;
    }
    cut.segment = log->segments[cut.spot.segment];
    header_cut(&cut, &header);
    header.committed = min_u64(log->committed, zxid);
    if (header.prev_zxid != zxid) {
        wal_segment_ref(wal, cut.segment);
        err = cut.spot.is_inside ? cut_keep(wal, &cut, zxid, &header) : ERR_MISSING;
        wal_segment_unref(wal, cut.segment);
    }
    if (MUTANT(9)) {
        truncate_as_mutant(wal, cut.spot.segment + 1);
    }
    THEN(err, wal_segment_make(wal, &header, buf_slice(&wal->raw), &segment));
    buf_clear(&wal->raw);
    if (err != ERR_OK) {
        return err;
    }

    struct wal_segment **gone = cut_apply(wal, &cut, segment);

    wal_segment_idle(wal, cut.segment);

    ASSERT(log->last == zxid);
    wal->manifest.top = header.number;
    err = wal_manifest_write(wal);
    return wal_segments_remove(wal, gone, err);
}
