#include "storage/wal.h"

struct wal_segment *wal_segment_new(struct vfs_file *take_file, const struct walfmt_header *header)
{
    struct wal_segment *segment = mem_zalloc(1, sizeof(*segment));

    ASSERT(take_file && header->number > 0);
    segment->file = take_file;
    segment->refs = 1;
    segment->header = *header;
    segment->end = VFS_BLOCK;
    return segment;
}

/* Returns the file of a segment if it is to be closed now, else NULL. A file is closed when only
 * the list refers to the segment and the segment is idle, or when no reference is left: the last
 * one may be that of a reader, if the segment left the log before. The caller holds index_mutex. */
static struct vfs_file *file_to_close(struct wal_segment *segment)
{
    struct vfs_file *file = segment->file;

    ASSERT(file || segment->is_idle);
    ASSERT(segment->refs > 0 || !segment->is_listed);

    bool is_only_listed = segment->refs == 1 && segment->is_listed;

    if (segment->refs > 0 && !(is_only_listed && segment->is_idle)) {
        return NULL;
    }
    segment->file = NULL;
    return file;
}

void wal_segment_ref(struct wal *wal, struct wal_segment *segment)
{
    MUTEX_HOLD(&wal->index_mutex);
    ASSERT(segment->refs > 0);
    segment->refs++;
}

void wal_segment_unref(struct wal *wal, struct wal_segment *segment)
{
    mutex_lock(&wal->index_mutex);
    ASSERT(segment->refs > 0);

    segment->refs--;

    bool is_last = segment->refs == 0;
    struct vfs_file *file = file_to_close(segment);

    mutex_unlock(&wal->index_mutex);
    if (file) {
        wal->options->vfs.ops->close(file);
    }
    if (is_last) {
        mem_free(segment->extents);
        mem_free(segment);
    }
}

void wal_segment_idle(struct wal *wal, struct wal_segment *segment)
{
    mutex_lock(&wal->index_mutex);
    segment->is_idle = true;

    struct vfs_file *file = file_to_close(segment);

    mutex_unlock(&wal->index_mutex);
    if (file) {
        wal->options->vfs.ops->close(file);
    }
}

/* Returns the error for a segment whose file could not be opened. A missing file was removed with
 * its segment (ERR_MISSING), or it is damage (ERR_CORRUPT). */
static enum err judge_missing(struct wal *wal, const struct wal_segment *segment, enum err err)
{
    if (err != ERR_MISSING) {
        return err;
    }
    MUTEX_HOLD(&wal->index_mutex);

    bool is_listed = segment->is_listed;
    return is_listed ? ERR_CORRUPT : ERR_MISSING;
}

enum err wal_segment_open(struct wal *wal, struct wal_segment *segment)
{
    const struct vfs *vfs = &wal->options->vfs;
    struct vfs_file *file = NULL;
    char name[VFS_NAME_MAX];

    mutex_lock(&wal->index_mutex);
    ASSERT(segment->refs > 0 && (segment->file || segment->is_idle));

    bool is_open = segment->file != NULL;

    mutex_unlock(&wal->index_mutex);
    if (is_open) {
        return ERR_OK;
    }
    name_wal(name, segment->header.history, segment->header.number);

    enum err err = vfs->ops->open(vfs->ctx, name, false, &file);

    if (err != ERR_OK) {
        return judge_missing(wal, segment, err);
    }
    mutex_lock(&wal->index_mutex);
    if (!segment->file) {
        segment->file = file;
        file = NULL;
    }
    mutex_unlock(&wal->index_mutex);
    if (file) {
        vfs->ops->close(file); /* Another reader has opened the file meanwhile. */
    }
    return ERR_OK;
}

void wal_segment_push_extent(struct wal_segment *segment, const struct wal_extent *extent)
{
    ASSERT(extent->offset == segment->end && extent->first <= extent->last);

    MEM_GROW(segment->extents, segment->count, segment->cap, MEM_ITEMS_MAX);
    segment->extents[segment->count++] = *extent;
    segment->end += extent->bytes;
}

void wal_log_push(struct wal_log *log, struct wal_segment *take_segment)
{
    MEM_GROW(log->segments, log->count, log->cap, MEM_ITEMS_MAX);
    ASSERT(take_segment->refs > 0 && !take_segment->is_listed);
    take_segment->is_listed = true;
    log->segments[log->count++] = take_segment;
    log->tail = take_segment;
}

struct wal_segment **wal_log_take(struct wal_log *log, size_t from, size_t to)
{
    size_t taken = to - from;
    struct wal_segment **out = mem_zalloc(taken + 1, sizeof(struct wal_segment *));

    ASSERT(from <= to && to <= log->count);
    for (size_t i = 0; i < taken; i++) {
        out[i] = log->segments[from + i];
        ASSERT(out[i]->is_listed);
        out[i]->is_listed = false;
    }
    for (size_t i = to; i < log->count; i++) {
        log->segments[i - taken] = log->segments[i];
    }
    log->count -= taken;
    return out;
}

void wal_log_add(struct wal_log *log, const struct wal_extent *extent, const struct epochs *epochs,
                 zxid_t committed)
{
    ASSERT(extent->first > log->last);

    wal_segment_push_extent(log->tail, extent);
    log->last = extent->last;
    log->last_chain = extent->chain;
    log->committed = max_u64(committed, log->committed);
    log->records_total += extent->count;
    log->bytes_total += extent->bytes;
    for (size_t i = 0; i < epochs->count; i++) {
        epochs_add(&log->epochs, epochs->ranges[i]);
    }
}

void wal_log_release(struct wal *wal, struct wal_log *log)
{
    mutex_lock(&wal->index_mutex);

    struct wal_segment **gone = wal_log_take(log, 0, log->count);

    mutex_unlock(&wal->index_mutex);
    for (size_t i = 0; gone[i]; i++) {
        wal_segment_unref(wal, gone[i]);
    }
    mem_free(gone);
    mem_free(log->segments);
    epochs_release(&log->epochs);
    *log = (struct wal_log){0};
}

/* Returns how many of the segment's batches end at or before `zxid`. */
static size_t extents_upto(const struct wal_segment *segment, zxid_t zxid)
{
    size_t low = 0;
    size_t high = segment->count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (segment->extents[mid].last <= zxid) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

enum err wal_find(const struct wal_log *log, zxid_t zxid, struct wal_spot *ret_spot)
{
    size_t at = 0;

    if (log->count == 0 || zxid < log->base || zxid > log->last) {
        return ERR_MISSING;
    }
    /* When `zxid` ends a segment, the place is in this segment, not at the start of the next
     * segment. So a cut there also removes empty segments behind it. */
    while (at + 1 < log->count && log->segments[at + 1]->header.prev_zxid < zxid) {
        at++;
    }

    const struct wal_segment *segment = log->segments[at];
    size_t keep = extents_upto(segment, zxid);

    *ret_spot = (struct wal_spot){
        .segment = at,
        .keep = keep,
        .is_inside = keep < segment->count && segment->extents[keep].first <= zxid,
    };
    return ERR_OK;
}

struct wal_log *wal_target(struct wal *wal)
{
    ASSERT(wal->is_staging || wal->is_open);

    return wal->is_staging ? &wal->staged : &wal->live;
}
