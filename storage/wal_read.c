#include "storage/wal.h"

struct walfmt_place wal_place(const struct wal_segment *segment, size_t index)
{
    ASSERT(segment->extents && index < segment->count);
    return (struct walfmt_place){
        .salt = segment->header.salt,
        .offset = segment->extents[index].offset,
        .number = segment->header.batch_first + index,
    };
}

uint64_t wal_batch_bytes_max(const struct wal *wal)
{
    uint64_t one = (uint64_t)WALFMT_RECORD_HEAD + wal->options->record_bytes_max;
    uint64_t many = WALFMT_BATCH_RAW_MAX;

    return walfmt_framed_len(WALFMT_BATCH_HEAD + max_u64(one, many));
}

/* Reads the next `len` bytes of the batch and appends their content, without the checksums of the
 * sectors, to `bytes`. */
static enum err load_sectors(const struct wal *wal, struct vfs_file *file,
                             const struct walfmt_place *place, struct buf *bytes, size_t len)
{
    size_t first = bytes->len / WALFMT_CONTENT;
    size_t got = 0;
    uint8_t *to = buf_reserve(bytes, len);

    ASSERT(to && len % VFS_SECTOR == 0 && bytes->len % WALFMT_CONTENT == 0);

    enum err err =
        wal->options->vfs.ops->pread(file, place->offset + first * VFS_SECTOR, to, len, &got);

    if (err != ERR_OK) {
        return err;
    }
    if (got != len) {
        return ERR_CORRUPT;
    }
    if (first == 0 && slice_is_zero(slice_make(to, VFS_SECTOR))) {
        return ERR_MISSING;
    }
    if (!walfmt_unframe(place, first, to, len / VFS_SECTOR)) {
        return ERR_CORRUPT;
    }
    bytes->len += len / VFS_SECTOR * WALFMT_CONTENT;
    return ERR_OK;
}

enum err wal_load(const struct wal *wal, struct vfs_file *file, const struct walfmt_place *place,
                  uint64_t size_max, struct wal_loaded *ret_loaded)
{
    ASSERT(place->offset % VFS_BLOCK == 0);

    struct buf *bytes = &ret_loaded->bytes;

    *ret_loaded = (struct wal_loaded){0};
    buf_init(bytes, (size_t)wal_batch_bytes_max(wal));

    enum err err = load_sectors(wal, file, place, bytes, VFS_BLOCK);

    THEN(err, walfmt_batch_decode(bytes->data, place, &ret_loaded->head));
    if (err != ERR_OK) {
        return err;
    }

    uint64_t raw_len = (uint64_t)WALFMT_BATCH_HEAD + ret_loaded->head.len;
    uint64_t total = walfmt_framed_len(raw_len);

    if (total > size_max || total > wal_batch_bytes_max(wal)) {
        return ERR_CORRUPT;
    }
    if (total > VFS_BLOCK) {
        err = load_sectors(wal, file, place, bytes, (size_t)(total - VFS_BLOCK));
    }
    if (err != ERR_OK) {
        return err == ERR_IO ? ERR_IO : ERR_CORRUPT;
    }
    ret_loaded->cursor = (struct walfmt_cursor){
        .place = *place,
        .raw = slice_make(bytes->data, (size_t)raw_len),
        .pos = WALFMT_BATCH_HEAD,
        .payload_max = wal->options->record_bytes_max,
    };
    return ERR_OK;
}

enum err wal_segment_load(struct wal *wal, struct wal_segment *segment,
                          const struct walfmt_place *place, uint64_t size_max,
                          struct wal_loaded *ret_loaded)
{
    enum err err = wal_segment_open(wal, segment);

    ASSERT(segment->refs > 0);
    if (err != ERR_OK) {
        *ret_loaded = (struct wal_loaded){0};
        return err;
    }
    err = wal_load(wal, segment->file, place, size_max, ret_loaded);
    /* The index says that there is a batch here, so a zero sector is damage. */
    return err == ERR_MISSING ? ERR_CORRUPT : err;
}

void wal_loaded_release(struct wal_loaded *loaded)
{
    buf_release(&loaded->bytes);
}

/* A batch that a reader has found. The reader holds a reference to its segment. */
struct found {
    struct wal_segment *segment; /* A reference. */
    struct walfmt_place place;
    uint64_t bytes;
    zxid_t before; /* zxid of the record before the batch. */
};

/* Finds the batch with the first record after `zxid`. ERR_MISSING when `zxid` is not in the log's
 * range; `ret_found->segment` stays NULL when no record follows. */
static enum err find_after(struct wal *wal, zxid_t zxid, struct found *ret_found)
{
    struct wal_spot spot;

    *ret_found = (struct found){0};
    MUTEX_HOLD(&wal->index_mutex);

    enum err err = wal_find(&wal->live, zxid, &spot);

    if (err == ERR_OK && zxid < wal->live.last) {
        struct wal_segment *segment = wal->live.segments[spot.segment];
        size_t keep = spot.keep;

        /* Nothing is left in this segment: continue with the next segment that holds a batch. */
        while (keep == segment->count) {
            spot.segment++;
            ASSERT(spot.segment < wal->live.count);
            segment = wal->live.segments[spot.segment];
            keep = 0;
        }
        segment->refs++;
        ret_found->segment = segment;
        ret_found->place = wal_place(segment, keep);
        ret_found->bytes = segment->extents[keep].bytes;
        ret_found->before = keep > 0 ? segment->extents[keep - 1].last : segment->header.prev_zxid;
    }
    return err;
}

/* The records that store_read has gathered. */
struct gather {
    struct logrec **recs;
    size_t count;
    size_t count_max;
    size_t bytes;
    size_t bytes_max;
    zxid_t last; /* zxid of the last record read. */
    bool is_full;
};

static enum err gather_record(struct gather *gather, const struct walfmt_record *record,
                              uint64_t prev_chain)
{
    if (gather->count == gather->count_max ||
        (gather->count > 0 && gather->bytes + record->payload.len > gather->bytes_max)) {
        gather->is_full = true;
        return ERR_OK;
    }

    struct logrec *rec =
        logrec_new(record->type, record->zxid, record->prev, prev_chain, record->payload);

    if (rec->chain != record->chain) {
        logrec_unref(rec);
        return ERR_CORRUPT;
    }
    gather->recs[gather->count++] = rec;
    gather->bytes += record->payload.len;
    gather->last = record->zxid;
    return ERR_OK;
}

/* Takes the records after gather->last out of one batch. ERR_MISSING: gather->last is not the zxid
 * of a record. */
static enum err gather_batch(struct wal *wal, const struct found *found, struct gather *gather)
{
    struct wal_loaded loaded;
    struct walfmt_record record;
    bool is_known = found->before == gather->last;
    enum err err = wal_segment_load(wal, found->segment, &found->place, found->bytes, &loaded);
    uint64_t chain = loaded.head.chain;
    size_t count_before = gather->count;

    while (err == ERR_OK && !gather->is_full) {
        err = walfmt_next(&loaded.cursor, &record);
        if (err == ERR_MISSING) {
            /* The batch has ended. Without a new record the caller would read the batch again for
             * ever. */
            err = gather->count > count_before ? ERR_OK : ERR_CORRUPT;
            break;
        }
        if (err == ERR_OK && record.zxid > gather->last) {
            err = is_known ? gather_record(gather, &record, chain) : ERR_MISSING;
        }
        is_known = is_known || record.zxid == gather->last;
        chain = record.chain;
    }
    wal_loaded_release(&loaded);
    return err;
}

enum err wal_read(struct wal *wal, zxid_t after, size_t bytes_max, size_t recs_max,
                  struct logrec **ret_recs, size_t *ret_count)
{
    struct gather gather = {
        .recs = ret_recs, .count_max = recs_max, .bytes_max = bytes_max, .last = after};
    enum err err = ERR_OK;

    struct wal_segment *before = NULL; /* A reference: the file stays open between batches. */

    ASSERT(recs_max > 0);
    while (err == ERR_OK && !gather.is_full) {
        struct found found;

        err = find_after(wal, gather.last, &found);
        if (err != ERR_OK || !found.segment) {
            break;
        }
        err = gather_batch(wal, &found, &gather);
        if (before) {
            wal_segment_unref(wal, before);
        }
        before = found.segment;
    }
    if (before) {
        wal_segment_unref(wal, before);
    }
    /* The log was cut or purged meanwhile, or there is no descriptor for the next segment: the
     * records gathered so far are good. */
    if ((err == ERR_MISSING || err == ERR_NO_FILES) && gather.count > 0) {
        err = ERR_OK;
    }
    /* Bytes that the disk cannot read are damage, like wrong bytes. */
    if (err == ERR_IO) {
        err = MUTANT(62) ? ERR_MISSING : ERR_CORRUPT;
    }
    if (err != ERR_OK) {
        PROBE("storage.read_failed");
        for (size_t i = 0; i < gather.count; i++) {
            logrec_unref(ret_recs[i]);
        }
        gather.count = 0;
    }
    *ret_count = gather.count;
    return err;
}

/* Looks `zxid` up in the index. Returns true when the index alone has the chain value. Else
 * `ret_found` names the batch that may hold `zxid`, with a reference to its segment. If there is no
 * such batch, ret_found->segment is NULL. */
static bool chain_from_index(struct wal *wal, const struct wal_log *log, zxid_t zxid,
                             uint64_t *ret_chain, struct found *ret_found)
{
    struct wal_spot spot;
    bool is_known = false;

    *ret_found = (struct found){0};
    MUTEX_HOLD(&wal->index_mutex);
    if (wal_find(log, zxid, &spot) == ERR_OK) {
        struct wal_segment *segment = log->segments[spot.segment];
        const struct wal_extent *before = spot.keep ? &segment->extents[spot.keep - 1] : NULL;

        is_known = (before ? before->last : segment->header.prev_zxid) == zxid;
        if (is_known) {
            *ret_chain = before ? before->chain : segment->header.prev_chain;
        } else if (spot.is_inside) {
            segment->refs++;
            ret_found->segment = segment;
            ret_found->place = wal_place(segment, spot.keep);
            ret_found->bytes = segment->extents[spot.keep].bytes;
        }
    }
    return is_known;
}

enum err wal_chain_at(struct wal *wal, zxid_t zxid, uint64_t *ret_chain)
{
    return wal_chain_in(wal, &wal->live, zxid, ret_chain);
}

enum err wal_chain_in(struct wal *wal, const struct wal_log *log, zxid_t zxid, uint64_t *ret_chain)
{
    struct walfmt_record record = {0};
    struct wal_loaded loaded;
    struct found found;

    if (chain_from_index(wal, log, zxid, ret_chain, &found)) {
        return ERR_OK;
    }
    if (!found.segment) {
        return ERR_MISSING;
    }

    enum err err = wal_segment_load(wal, found.segment, &found.place, found.bytes, &loaded);

    while (err == ERR_OK && record.zxid < zxid) {
        err = walfmt_next(&loaded.cursor, &record);
    }
    wal_loaded_release(&loaded);
    wal_segment_unref(wal, found.segment);
    *ret_chain = record.chain;
    return err == ERR_OK && record.zxid != zxid ? ERR_MISSING : err;
}
