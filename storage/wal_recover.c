#include "storage/wal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum {
    TAIL_PIECE = 64 * 1024
};

/* One recovery in progress. A step that returns false has set `err` or reported damage. */
struct scan {
    struct wal *wal;
    const struct names *names;
    struct store_report *report;
    struct wal_found *found;
    enum err err;
};

bool report_damage(struct store_report *report, const char *format, ...)
{
    va_list args;

    if (report->verdict == STORE_DAMAGED) {
        return false;
    }
    report->verdict = STORE_DAMAGED;
    va_start(args, format);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): `args` was just started. */
    (void)vsnprintf(report->reason, sizeof(report->reason), format, args);
    va_end(args);
    ASSERT(report->reason[0] != '\0');
    return false;
}

/* Reports a bad batch in the middle of the log. Returns false. */
static bool bad_batch(struct scan *scan, size_t index, uint64_t offset, const char *why)
{
    struct wal *wal = scan->wal;
    const struct walfmt_header *header = &wal->live.segments[index]->header;

    if (MUTANT(20)) {
        /* Repeats a historical mistake: takes any damage for a torn write and cuts the log there.
         */
        struct wal_segment **gone = wal_log_take(&wal->live, index + 1, wal->live.count);

        for (size_t i = 0; gone[i]; i++) {
            wal_segment_unref(wal, gone[i]);
        }
        mem_free(gone);
        wal->live.tail = wal->live.segments[index];
        scan->found->verdict = STORE_TORN_TAIL;
        scan->found->torn_from = wal->live.tail->end;
        scan->found->torn_to = header->bytes;
        return true;
    }
    return report_damage(scan->report,
                         "log segment %" PRIx64 "-%" PRIx64 ", offset %" PRIu64 ": %s",
                         header->history, header->number, offset, why);
}

static bool owner_matches(const struct wal *wal, const struct walfmt_header *header)
{
    const struct store_identity *identity = wal->identity;
    struct slice theirs = slice_make(header->cluster, STORE_CLUSTER_LEN);

    /* The header of a segment that was made before the replica joined a cluster has no cluster id.
     */
    return header->incarnation == identity->incarnation &&
           header->member_id == identity->member_id &&
           (slice_is_zero(theirs) ||
            slice_eq(theirs, slice_make(identity->cluster, STORE_CLUSTER_LEN)));
}

bool wal_is_never_used(const struct vfs *vfs, struct vfs_file *file)
{
    uint8_t *piece = mem_alloc(TAIL_PIECE);
    bool is_zero = true;
    size_t got = TAIL_PIECE;

    for (uint64_t at = VFS_BLOCK; is_zero && got == TAIL_PIECE; at += TAIL_PIECE) {
        is_zero = vfs->ops->pread(file, at, piece, TAIL_PIECE, &got) == ERR_OK &&
                  slice_is_zero(slice_make(piece, got));
    }
    mem_free(piece);
    return is_zero;
}

static bool check_header(struct scan *scan, const struct walfmt_header *header,
                         const struct name *name, uint64_t size)
{
    if (header->history != name->history || header->number != name->number) {
        return report_damage(scan->report, "%s: the header is that of another segment", name->text);
    }
    if (!owner_matches(scan->wal, header)) {
        return report_damage(scan->report, "%s: written by another replica or incarnation",
                             name->text);
    }
    if (header->bytes != size) {
        return report_damage(scan->report, "%s: %" PRIu64 " bytes long instead of %" PRIu64,
                             name->text, size, header->bytes);
    }
    return true;
}

/* Whether a crash interrupted the making of this segment: it is the newest, and holds no batch. */
static bool is_unfinished(const struct wal *wal, const struct name *name, struct vfs_file *file)
{
    return wal->live.count == 0 && name->number > wal->manifest.top &&
           wal_is_never_used(&wal->options->vfs, file);
}

/* Opens a segment and reads its header. `*ret_segment` stays NULL, without damage, for an
 * unfinished segment. */
static bool segment_open(struct scan *scan, const struct name *name,
                         struct wal_segment **ret_segment)
{
    const struct vfs *vfs = &scan->wal->options->vfs;
    struct walfmt_header header;
    struct vfs_file *file = NULL;
    uint8_t block[VFS_BLOCK];
    uint64_t size = 0;
    size_t got = 0;
    bool is_good = false;

    *ret_segment = NULL;
    scan->err = vfs->ops->open(vfs->ctx, name->text, false, &file);
    if (scan->err != ERR_OK) {
        return false;
    }
    scan->err = vfs->ops->size(file, &size);
    if (!MUTANT(63)) {
        vfs->ops->drop_cache(file);
    }
    if (scan->err == ERR_OK) {
        bool is_read = vfs->ops->pread(file, 0, block, sizeof(block), &got) == ERR_OK;
        bool is_valid =
            is_read && got == sizeof(block) && walfmt_header_decode(block, &header) == ERR_OK;

        if (is_valid) {
            is_good = check_header(scan, &header, name, size);
        } else if (is_unfinished(scan->wal, name, file)) {
            PROBE("storage.empty_segment_dropped");
            vfs->ops->close(file);
            return true;
        } else {
            report_damage(scan->report, "%s: the header does not verify", name->text);
        }
    }
    if (!is_good) {
        vfs->ops->close(file);
        return false;
    }
    *ret_segment = wal_segment_new(file, &header);
    return true;
}

/* Returns the highest segment of the history with a number of at most `limit`. */
static const struct name *top_segment(const struct scan *scan, uint64_t limit)
{
    const struct name *best = NULL;

    for (size_t i = 0; i < scan->names->count; i++) {
        const struct name *name = &scan->names->list[i];

        if (name->kind == NAME_KIND_WAL && name->history == scan->wal->manifest.history &&
            name->number > 0 && name->number <= limit && (!best || name->number > best->number)) {
            best = name;
        }
    }
    return best;
}

/* Follows the headers from the newest segment back to the first. Segments that are not reached were
 * cut off. Fills the list in reverse order. */
static bool walk_back(struct scan *scan)
{
    struct wal *wal = scan->wal;
    const struct manifest *manifest = &wal->manifest;
    const struct name *name = top_segment(scan, UINT64_MAX);
    struct wal_segment *segment = NULL;

    while (true) {
        if (!name || (wal->live.count == 0 && name->number < manifest->top)) {
            return report_damage(scan->report, "log segment %" PRIx64 "-%" PRIx64 " is missing",
                                 manifest->history,
                                 wal->live.count ? segment->header.prev_number : manifest->top);
        }
        if (!segment_open(scan, name, &segment)) {
            return false;
        }
        if (!segment) {
            ASSERT(wal->live.count == 0);
            name = top_segment(scan, name->number - 1);
            continue;
        }
        wal_log_push(&wal->live, segment);
        wal_segment_idle(wal, segment);
        if (segment->header.number == manifest->first) {
            return true;
        }

        uint64_t prev = segment->header.prev_number;

        if (prev < manifest->first || prev >= segment->header.number) {
            return report_damage(scan->report, "%s: does not continue the log", name->text);
        }
        name = names_find(scan->names, NAME_KIND_WAL, manifest->history, prev);
    }
}

static void list_reverse(struct wal *wal)
{
    for (size_t i = 0; i < wal->live.count / 2; i++) {
        struct wal_segment *swap = wal->live.segments[i];

        wal->live.segments[i] = wal->live.segments[wal->live.count - 1 - i];
        wal->live.segments[wal->live.count - 1 - i] = swap;
    }
}

/* Checks every record of a batch whose sectors are all good, and adds the batch to the index.
 * Returns NULL, or what is wrong. */
static const char *take_batch(struct wal *wal, struct wal_loaded *loaded, struct wal_extent *extent)
{
    struct epochs epochs = {0};
    struct walfmt_record record;
    enum err err = ERR_OK;

    extent->last = wal->live.last;
    extent->chain = wal->live.last_chain;
    if (loaded->head.durable_upto != wal->live.last || loaded->head.chain != wal->live.last_chain) {
        return "the batch does not continue the log";
    }
    while ((err = walfmt_next(&loaded->cursor, &record)) == ERR_OK) {
        uint32_t counter = zxid_counter(record.zxid);

        if (record.prev != extent->last || record.zxid <= record.prev ||
            record.chain != logrec_chain(extent->chain, record.type, record.zxid, record.prev,
                                         record.payload)) {
            epochs_release(&epochs);
            return "a record does not continue the log";
        }
        epochs_add(&epochs, (struct epoch_range){.epoch = zxid_epoch(record.zxid),
                                                 .first = counter,
                                                 .last = counter});
        extent->first = extent->count == 0 ? record.zxid : extent->first;
        extent->last = record.zxid;
        extent->chain = record.chain;
        extent->count++;
    }
    if (err == ERR_MISSING && extent->count == loaded->head.count) {
        wal_log_add(&wal->live, extent, &epochs, loaded->head.committed);
    }
    epochs_release(&epochs);
    if (err != ERR_MISSING) {
        return "a record fails verification";
    }
    return extent->count == loaded->head.count
               ? NULL
               : "the batch has another number of records than the head of the batch says";
}

/* What lies behind the last good batch of the last segment. */
struct tail {
    uint64_t good_sectors;
    uint64_t good_end;   /* End of the last good sector, in bytes from the batch's start. */
    uint64_t bad_offset; /* Offset in the file of the first bad sector; 0: none. */
    uint64_t total;      /* Bytes of the tail's first batch; 0 when its head is lost. */
    bool is_readable;
};

static void tail_look(const struct walfmt_place *place, uint64_t offset, const uint8_t *piece,
                      size_t len, struct tail *tail)
{
    ASSERT(offset >= place->offset && len % VFS_SECTOR == 0);

    if (slice_is_zero(slice_make(piece, len))) {
        return;
    }
    for (size_t at = 0; at + VFS_SECTOR <= len && tail->bad_offset == 0; at += VFS_SECTOR) {
        uint64_t from_start = offset + at - place->offset;
        struct walfmt_batch head;

        switch (walfmt_sector_state(place, from_start / VFS_SECTOR, piece + at)) {
        case WALFMT_SECTOR_ZERO:
            break;
        case WALFMT_SECTOR_GOOD:
            tail->good_sectors++;
            tail->good_end = from_start + VFS_SECTOR;
            if (from_start == 0 && walfmt_batch_decode(piece, place, &head) == ERR_OK) {
                tail->total = walfmt_framed_len((uint64_t)WALFMT_BATCH_HEAD + head.len);
            }
            break;
        case WALFMT_SECTOR_BAD:
            tail->bad_offset = offset + at;
            break;
        }
    }
}

static struct tail tail_read(struct scan *scan, const struct wal_segment *segment,
                             const struct walfmt_place *place)
{
    ASSERT(place->offset == segment->end);

    struct tail tail = {.is_readable = true};
    uint8_t *piece = mem_alloc(TAIL_PIECE);
    uint64_t at = place->offset;

    while (tail.is_readable && tail.bad_offset == 0 && at < segment->header.bytes) {
        uint64_t left = segment->header.bytes - at;
        size_t len = min_size(left, TAIL_PIECE);
        size_t got = 0;

        tail.is_readable =
            scan->wal->options->vfs.ops->pread(segment->file, at, piece, len, &got) == ERR_OK &&
            got == len;
        if (tail.is_readable) {
            tail_look(place, at, piece, len, &tail);
        }
        at += len;
    }
    mem_free(piece);
    return tail;
}

/* Judges the last segment at its first place without a good batch: the end of the log, a torn
 * batch, or damage. Torn means that each sector from there on is either zero or was written by one
 * and the same batch, and that at least one sector of this batch is missing. */
static bool judge_tail(struct scan *scan, const struct walfmt_place *place)
{
    struct wal *wal = scan->wal;
    size_t index = wal->live.count - 1;
    struct tail tail = tail_read(scan, wal->live.segments[index], place);

    if (!tail.is_readable) {
        return bad_batch(scan, index, place->offset, "cannot be read");
    }
    if (tail.bad_offset != 0) {
        return bad_batch(scan, index, tail.bad_offset, "a sector is damaged");
    }
    if (tail.good_sectors == 0) {
        return true;
    }
    if (tail.good_end > wal_batch_bytes_max(wal) || (tail.total && tail.good_end > tail.total)) {
        return bad_batch(scan, index, place->offset, "a batch is missing before a later batch");
    }
    if (tail.total == tail.good_sectors * VFS_SECTOR) {
        return bad_batch(scan, index, place->offset, "a complete batch fails verification");
    }
    PROBE("storage.torn_tail");
    scan->found->verdict = STORE_TORN_TAIL;
    scan->found->torn_from = place->offset;
    scan->found->torn_to = place->offset + tail.good_end;
    return true;
}

/* Reads one segment up to the place where the next segment continues the log; the last segment up
 * to its end. */
static bool scan_segment(struct scan *scan, size_t index)
{
    struct wal *wal = scan->wal;
    struct wal_segment *segment = wal->live.segments[index];
    bool is_last = index + 1 == wal->live.count;
    uint64_t limit =
        is_last ? segment->header.bytes : wal->live.segments[index + 1]->header.prev_offset;

    if (limit > segment->header.bytes || limit < VFS_BLOCK || limit % VFS_BLOCK != 0) {
        return bad_batch(scan, index, limit,
                         "the next segment does not begin at the end of a batch of this segment");
    }
    wal->live.tail = segment;
    while (segment->end < limit) {
        struct walfmt_place place = {
            .salt = segment->header.salt,
            .offset = segment->end,
            .number = segment->header.batch_first + segment->count,
        };
        struct wal_loaded loaded;
        const char *why = "the batch fails verification";
        enum err err = wal_load(wal, segment->file, &place, limit - segment->end, &loaded);

        if (err == ERR_OK) {
            struct wal_extent extent = {.offset = place.offset};

            extent.bytes = (uint32_t)walfmt_framed_len(loaded.cursor.raw.len);
            why = take_batch(wal, &loaded, &extent);
        }
        wal_loaded_release(&loaded);
        if (err != ERR_OK && is_last) {
            return judge_tail(scan, &place);
        }
        if (why) {
            return bad_batch(scan, index, place.offset, why);
        }
    }
    return true;
}

static bool scan_all(struct scan *scan)
{
    struct wal *wal = scan->wal;
    const struct walfmt_header *first = &wal->live.segments[0]->header;

    wal->live.base = first->prev_zxid;
    wal->live.base_chain = first->prev_chain;
    wal->live.last = wal->live.base;
    wal->live.last_chain = wal->live.base_chain;
    for (size_t i = 0; i < wal->live.count; i++) {
        struct wal_segment *segment = wal->live.segments[i];
        const struct walfmt_header *header = &segment->header;

        scan->err = wal_segment_open(wal, segment);
        if (scan->err != ERR_OK) {
            return false;
        }
        if (header->prev_zxid != wal->live.last || header->prev_chain != wal->live.last_chain) {
            return bad_batch(scan, i, 0, "the segment does not continue the log");
        }
        wal->live.committed = max_u64(header->committed, wal->live.committed);
        if (!scan_segment(scan, i)) {
            return false;
        }
        if (i + 1 < wal->live.count) {
            wal_segment_idle(wal, segment);
        }
    }
    return true;
}

/* Checks the log after a clean shutdown: then no batch can be torn, and no batch may be missing. */
static bool check_clean(struct scan *scan)
{
    const struct wal *wal = scan->wal;
    const struct manifest *manifest = &wal->manifest;
    const struct wal_segment *tail = wal->live.tail;

    if (!manifest->clean || MUTANT(20)) {
        return true;
    }
    if (scan->found->verdict == STORE_TORN_TAIL || manifest->clean_last != wal->live.last ||
        manifest->clean_chain != wal->live.last_chain || manifest->clean_offset != tail->end ||
        manifest->clean_number != tail->header.number) {
        PROBE("storage.damage_after_clean_stop");
        return report_damage(scan->report,
                             "the log ends at %" PRIx64 " but was closed cleanly at %" PRIx64
                             " (segment %" PRIx64 ", offset %" PRIu64 ")",
                             wal->live.last, manifest->clean_last, manifest->clean_number,
                             manifest->clean_offset);
    }
    return true;
}

enum err wal_recover(struct wal *wal, const struct names *names, struct store_report *report,
                     struct wal_found *ret_found)
{
    struct scan scan = {.wal = wal, .names = names, .report = report, .found = ret_found};

    ASSERT(wal->live.count == 0 && wal->manifest.history > 0);
    *ret_found = (struct wal_found){.verdict = STORE_CLEAN};
    wal->live.history = wal->manifest.history;

    bool is_good = walk_back(&scan);

    list_reverse(wal);
    is_good = is_good && scan_all(&scan) && check_clean(&scan);
    if (!is_good) {
        if (scan.err == ERR_OK) {
            PROBE("storage.log_damaged");
            ASSERT(report->verdict == STORE_DAMAGED);
            ret_found->verdict = STORE_DAMAGED;
        }
        /* No part of a damaged log may be used. */
        wal_log_release(wal, &wal->live);
        return scan.err;
    }
    wal->live.tail = wal->live.segments[wal->live.count - 1];
    wal->live.tail->is_idle = false;
    wal->live.batch_next = wal->live.tail->header.batch_first + wal->live.tail->count;
    wal->is_open = true;
    return ERR_OK;
}

enum err wal_cut_torn(struct wal *wal, const struct wal_found *found)
{
    const struct vfs_ops *ops = wal->options->vfs.ops;
    static const uint8_t zeros[VFS_BLOCK];
    enum err err = ERR_OK;

    ASSERT(found->verdict == STORE_TORN_TAIL && found->torn_from == wal->live.tail->end);
    for (uint64_t at = found->torn_from; err == ERR_OK && at < found->torn_to; at += VFS_BLOCK) {
        err = ops->pwrite(wal->live.tail->file, at, zeros, sizeof(zeros));
    }
    return err == ERR_OK ? ops->sync(wal->live.tail->file) : err;
}
