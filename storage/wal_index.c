#include "base/check.h"
#include "base/mem.h"
#include "storage/wal.h"

#include <string.h>

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

void wal_segment_unref(struct wal *wal, struct wal_segment *segment)
{
    pthread_mutex_lock(&wal->index_mutex);
    ASSERT(segment->refs > 0);

    bool is_last = --segment->refs == 0;

    pthread_mutex_unlock(&wal->index_mutex);
    if (is_last) {
        wal->options->vfs.ops->close(segment->file);
        mem_free(segment->extents);
        mem_free(segment);
    }
}

void wal_segment_push_extent(struct wal_segment *segment, const struct wal_extent *extent)
{
    ASSERT(extent->offset == segment->end && extent->first <= extent->last);

    if (segment->count == segment->cap) {
        segment->cap = segment->cap ? segment->cap * 2 : 8;
        segment->extents = mem_realloc(segment->extents, segment->cap * sizeof(*extent));
    }
    segment->extents[segment->count++] = *extent;
    segment->end += extent->bytes;
}

void wal_log_push(struct wal_log *log, struct wal_segment *take_segment)
{
    if (log->count == log->cap) {
        log->cap = log->cap ? log->cap * 2 : 8;
        log->segments = mem_realloc(log->segments, log->cap * sizeof(struct wal_segment *));
    }
    log->segments[log->count++] = take_segment;
    log->tail = take_segment;
    ASSERT(take_segment->refs > 0);
}

struct wal_segment **wal_log_take(struct wal_log *log, size_t from, size_t to)
{
    size_t taken = to - from;
    struct wal_segment **out = mem_zalloc(taken + 1, sizeof(struct wal_segment *));

    ASSERT(from <= to && to <= log->count);
    for (size_t i = 0; i < taken; i++) {
        out[i] = log->segments[from + i];
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
    log->committed = committed > log->committed ? committed : log->committed;
    log->records_total += extent->count;
    log->bytes_total += extent->bytes;
    for (size_t i = 0; i < epochs->count; i++) {
        epochs_add(&log->epochs, epochs->ranges[i]);
    }
}

void wal_log_release(struct wal *wal, struct wal_log *log)
{
    ASSERT(log->count <= log->cap);

    for (size_t i = 0; i < log->count; i++) {
        wal_segment_unref(wal, log->segments[i]);
    }
    mem_free(log->segments);
    epochs_release(&log->epochs);
    *log = (struct wal_log){0};
}

/* How many of the segment's batches end at or before `zxid`. */
static size_t extents_upto(const struct wal_segment *segment, zxid_t zxid)
{
    ASSERT(segment->count <= segment->cap);

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
    ASSERT(log->base <= log->last);

    size_t at = 0;

    if (log->count == 0 || zxid < log->base || zxid > log->last) {
        return ERR_MISSING;
    }
    /* The earliest segment that will do, so that an empty one behind it is not kept. */
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
