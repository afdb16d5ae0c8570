#include "base/hash.h"
#include "storage/wal.h"

enum {
    ZERO_PIECE = 256 * 1024
};

static const struct vfs *vfs_of(const struct wal *wal)
{
    return &wal->options->vfs;
}

/* Turns any error into ERR_IO: once a file takes part in the log, a full disk is an error like any
 * other. */
static enum err final_of(enum err err)
{
    return err == ERR_OK ? ERR_OK : ERR_IO;
}

static enum err zero_fill(const struct vfs *vfs, struct vfs_file *file, uint64_t from, uint64_t to)
{
    ASSERT(from % VFS_BLOCK == 0 && from <= to);

    static const uint8_t zeros[ZERO_PIECE];
    enum err err = ERR_OK;

    while (err == ERR_OK && from < to) {
        uint64_t piece = min_u64(to - from, ZERO_PIECE);

        err = vfs->ops->pwrite(file, from, zeros, (size_t)piece);
        from += piece;
    }
    return err == ERR_OK ? vfs->ops->sync(file) : err;
}

static void next_push(struct wal *wal, struct vfs_file *take_file, uint64_t bytes)
{
    MEM_GROW(wal->next, wal->next_count, wal->next_cap, MEM_ITEMS_MAX);
    wal->next[wal->next_count++] = (struct wal_next){.file = take_file, .bytes = bytes};
}

void wal_next_release(struct wal *wal)
{
    for (size_t i = 0; i < wal->next_count; i++) {
        vfs_of(wal)->ops->close(wal->next[i].file);
    }
    wal->next_count = 0;
}

/* Makes one more next file, filled with zeros. If the disk gets full, tries to remove the file. */
static enum err next_make(struct wal *wal, uint64_t bytes)
{
    const struct vfs *vfs = vfs_of(wal);
    struct vfs_file *file = NULL;
    char name[VFS_NAME_MAX];

    name_next(name, wal->top + 1 + wal->next_count);

    enum err err = vfs->ops->open(vfs->ctx, name, true, &file);

    if (err == ERR_EXISTS) {
        /* An earlier attempt left the file: the disk was too full even to remove it. */
        err = vfs->ops->unlink(vfs->ctx, name);
        THEN(err, vfs->ops->open(vfs->ctx, name, true, &file));
    }
    if (err != ERR_OK) {
        return err;
    }
    err = zero_fill(vfs, file, 0, bytes);
    if (err == ERR_OK) {
        next_push(wal, file, bytes);
        return ERR_OK;
    }
    vfs->ops->close(file);
    if (err == ERR_NO_SPACE) {
        (void)vfs->ops->unlink(vfs->ctx, name);
    }
    return err;
}

/* Makes a next file longer, or leaves it as it was when the disk is full: a file that is longer
 * than its segment would count as damage. */
static enum err next_grow(struct wal *wal, struct wal_next *next, uint64_t bytes)
{
    const struct vfs *vfs = vfs_of(wal);

    enum err err = zero_fill(vfs, next->file, next->bytes, bytes);

    if (err == ERR_NO_SPACE) {
        err = vfs->ops->truncate(next->file, next->bytes) == ERR_OK ? ERR_NO_SPACE : ERR_IO;
    }
    if (err == ERR_OK) {
        next->bytes = bytes;
    }
    return err;
}

enum err wal_next_ensure(struct wal *wal, size_t ahead, uint64_t bytes)
{
    enum err err = ERR_OK;

    ASSERT(ahead <= wal->next_count && bytes % VFS_BLOCK == 0);
    if (ahead == wal->next_count) {
        err = next_make(wal, bytes);
    } else if (wal->next[ahead].bytes < bytes) {
        err = next_grow(wal, &wal->next[ahead], bytes);
    }
    if (err == ERR_NO_SPACE) {
        PROBE("storage.no_space_for_segment");
    }
    /* Updates `is_low` also if the file was long enough: an earlier attempt to make it longer may
     * have failed and set `is_low`. */
    if (ahead == 0 && (err == ERR_OK || err == ERR_NO_SPACE)) {
        atomic_store(&wal->is_low, err == ERR_NO_SPACE);
    }
    return err;
}

struct walfmt_header wal_header_next(const struct wal *wal, const struct wal_log *log)
{
    struct walfmt_header header = {
        .member_id = wal->identity->member_id,
        .incarnation = wal->identity->incarnation,
        .history = log->history,
        .number = wal->top + 1,
        .prev_zxid = log->last,
        .prev_chain = log->last_chain,
        .committed = log->committed,
        .batch_first = log->batch_next,
    };

    ASSERT(header.incarnation != 0 && header.history != 0);
    memcpy(header.cluster, wal->identity->cluster, STORE_CLUSTER_LEN);
    header.salt = hash64_mix(hash64_mix(wal->options->salt_seed, log->history), header.number);
    return header;
}

/* Writes the first batch and the header into the next file and gives that file its name in the log.
 */
static enum err next_publish(struct wal *wal, const struct walfmt_header *header,
                             struct slice first, struct vfs_file *file)
{
    const struct vfs *vfs = vfs_of(wal);
    struct walfmt_place place = {
        .salt = header->salt, .offset = VFS_BLOCK, .number = header->batch_first};
    uint8_t block[VFS_BLOCK];
    char from[VFS_NAME_MAX];
    char to[VFS_NAME_MAX];
    enum err err = ERR_OK;

    name_next(from, header->number);
    name_wal(to, header->history, header->number);
    walfmt_header_encode(header, block);
    if (first.len > 0) {
        walfmt_frame(first, &place, &wal->framed);
        err = vfs->ops->pwrite(file, VFS_BLOCK, wal->framed.data, wal->framed.len);
    }
    THEN(err, vfs->ops->pwrite(file, 0, block, sizeof(block)));
    if (err == ERR_OK && !MUTANT(9)) {
        err = vfs->ops->sync(file);
    }
    THEN(err, vfs->ops->rename(vfs->ctx, from, to));
    if (err != ERR_OK || MUTANT(9)) {
        return final_of(err);
    }
    if (MUTANT(19)) {
        /* Repeats a historical mistake: the directory is never synced. */
        return ERR_OK;
    }
    return final_of(vfs->ops->sync_dir(vfs->ctx));
}

enum err wal_segment_make(struct wal *wal, struct walfmt_header *header, struct slice first,
                          struct wal_segment **ret_segment)
{
    uint64_t needed = VFS_BLOCK + (first.len > 0 ? walfmt_framed_len(first.len) : 0);
    uint64_t bytes = max_u64(needed, wal->options->segment_bytes);
    enum err err = wal_next_ensure(wal, 0, bytes);

    if (err != ERR_OK) {
        return err;
    }
    ASSERT(header->number == wal->top + 1 && wal->next_count > 0);

    struct vfs_file *file = wal->next[0].file;

    header->bytes = wal->next[0].bytes;
    err = next_publish(wal, header, first, file);
    if (err != ERR_OK) {
        return err;
    }
    wal->top++;
    wal->next_count--;
    memmove(wal->next, wal->next + 1, wal->next_count * sizeof(*wal->next));
    *ret_segment = wal_segment_new(file, header);
    return ERR_OK;
}

enum err wal_manifest_write(struct wal *wal)
{
    struct buf bytes;

    buf_init(&bytes, MANIFEST_BYTES_MAX);
    manifest_encode(&wal->manifest, &bytes);
    return slots_put(&wal->slots, vfs_of(wal), NAME_MANIFEST, SLOTS_MANIFEST, &bytes);
}

enum err wal_rotate(struct wal *wal, uint64_t bytes)
{
    struct wal_log *log = wal_target(wal);
    struct walfmt_header header = wal_header_next(wal, log);
    struct wal_segment *full = log->tail;
    struct wal_segment *segment = NULL;

    PROBE("storage.rotation");
    ASSERT(wal->raw.len == 0 && log->tail);
    header.prev_number = log->tail->header.number;
    header.prev_offset = log->tail->end;

    enum err err = wal_next_ensure(wal, 0, bytes);

    THEN(err, wal_segment_make(wal, &header, slice_make(NULL, 0), &segment));
    if (err != ERR_OK) {
        return err;
    }
    mutex_lock(&wal->index_mutex);
    wal_log_push(log, segment);
    mutex_unlock(&wal->index_mutex);
    wal_segment_idle(wal, full);
    if (wal->is_staging) {
        return ERR_OK;
    }
    /* From now on the segment may hold acknowledged records, so its loss must be noticed. */
    wal->manifest.top = header.number;
    return wal_manifest_write(wal);
}

enum err wal_segments_remove(struct wal *wal, struct wal_segment **take_segments, enum err err)
{
    char name[VFS_NAME_MAX];

    for (size_t i = 0; take_segments[i]; i++) {
        const struct walfmt_header *header = &take_segments[i]->header;

        name_wal(name, header->history, header->number);
        THEN(err, vfs_remove(vfs_of(wal), name));
        wal_segment_unref(wal, take_segments[i]);
    }
    mem_free(take_segments);
    return final_of(err);
}

enum err wal_stage_begin(struct wal *wal, zxid_t base, uint64_t base_chain)
{
    struct wal_segment *segment = NULL;
    struct wal_log *log = &wal->staged;

    ASSERT(wal->raw.len == 0 && !wal->is_staging && log->count == 0);
    *log = (struct wal_log){
        .history = wal->history_top + 1,
        .base = base,
        .base_chain = base_chain,
        .last = base,
        .last_chain = base_chain,
        .batch_next = 1,
    };

    struct walfmt_header header = wal_header_next(wal, log);
    enum err err = wal_segment_make(wal, &header, slice_make(NULL, 0), &segment);

    if (err != ERR_OK) {
        return err;
    }
    wal->history_top++;
    wal_log_push(log, segment);
    wal->is_staging = true;
    return ERR_OK;
}

enum err wal_stage_drop(struct wal *wal)
{
    if (!wal->is_staging) {
        return ERR_OK;
    }
    PROBE("storage.staged_log_dropped");
    ASSERT(wal->raw.len == 0);
    wal->is_staging = false;
    mutex_lock(&wal->index_mutex);

    struct wal_segment **gone = wal_log_take(&wal->staged, 0, wal->staged.count);

    mutex_unlock(&wal->index_mutex);

    enum err err = wal_segments_remove(wal, gone, ERR_OK);

    wal_log_release(wal, &wal->staged);
    return err;
}

enum err wal_stage_switch(struct wal *wal)
{
    struct wal_log old = wal->live;

    ASSERT(wal->is_staging && wal->raw.len == 0 && wal->staged.count > 0);
    wal->manifest = (struct manifest){
        .history = wal->staged.history,
        .first = wal->staged.segments[0]->header.number,
        .top = wal->staged.tail->header.number,
    };

    enum err err = wal_manifest_write(wal);

    mutex_lock(&wal->index_mutex);

    struct wal_segment **gone = wal_log_take(&old, 0, old.count);

    wal->live = wal->staged;
    wal->is_open = true;
    mutex_unlock(&wal->index_mutex);
    wal->staged = (struct wal_log){0};
    wal->is_staging = false;
    err = wal_segments_remove(wal, gone, err);
    wal_log_release(wal, &old);
    return err;
}

/* Applies a purge in memory: the live log begins at segment `keep`. Returns the segments before it.
 */
static struct wal_segment **purge_apply(struct wal *wal, size_t keep)
{
    ASSERT(keep > 0 && keep < wal->live.count);

    struct wal_log *log = &wal->live;

    MUTEX_HOLD(&wal->index_mutex);

    struct wal_segment **gone = wal_log_take(log, 0, keep);

    log->base = log->segments[0]->header.prev_zxid;
    log->base_chain = log->segments[0]->header.prev_chain;
    for (size_t i = 0; i < log->count; i++) {
        if (log->segments[i]->count > 0) {
            epochs_drop_upto(&log->epochs, log->segments[i]->extents[0].first - 1);
            break;
        }
    }
    if (log->base == log->last) {
        epochs_clear(&log->epochs);
    }
    return gone;
}

static void stuck_push(struct wal *wal, uint64_t history, uint64_t number)
{
    MEM_GROW(wal->stuck, wal->stuck_count, wal->stuck_cap, MEM_ITEMS_MAX);
    wal->stuck[wal->stuck_count++] = (struct wal_stuck){.history = history, .number = number};
}

/* Removes the files of the array's segments, and the files that earlier purges could not remove.
 * Files that cannot be removed now are noted. */
static void purge_unlink(struct wal *wal, struct wal_segment **take_segments)
{
    char name[VFS_NAME_MAX];
    size_t count = 0;

    for (size_t i = 0; take_segments && take_segments[i]; i++) {
        const struct walfmt_header *header = &take_segments[i]->header;

        ASSERT(header->number < wal->manifest.first);
        stuck_push(wal, header->history, header->number);
        wal_segment_unref(wal, take_segments[i]);
    }
    mem_free(take_segments);
    for (size_t i = 0; i < wal->stuck_count; i++) {
        name_wal(name, wal->stuck[i].history, wal->stuck[i].number);
        if (vfs_remove(vfs_of(wal), name) != ERR_OK) {
            wal->stuck[count++] = wal->stuck[i];
        }
    }
    wal->stuck_count = count;
}

/* Returns how many segments hold nothing after `zxid`. */
static size_t count_before(const struct wal_log *log, zxid_t zxid)
{
    size_t count = 0;

    ASSERT(log->count > 0);
    while (count + 1 < log->count && log->segments[count + 1]->header.prev_zxid <= zxid) {
        count++;
    }
    return count;
}

uint64_t wal_purge_bytes(const struct wal *wal, zxid_t from, zxid_t to)
{
    ASSERT(wal->is_open && from <= to);

    uint64_t bytes = 0;

    for (size_t i = count_before(&wal->live, from); i < count_before(&wal->live, to); i++) {
        bytes += wal->live.segments[i]->header.bytes;
    }
    return bytes;
}

enum err wal_purge(struct wal *wal, zxid_t zxid)
{
    ASSERT(wal->is_open);

    const struct wal_log *log = &wal->live;
    struct wal_segment **gone = NULL;
    enum err err = ERR_OK;
    size_t keep = count_before(log, zxid);

    if (keep > 0) {
        PROBE("storage.log_purged");
        wal->manifest.first = log->segments[keep]->header.number;
        err = wal_manifest_write(wal);
        gone = err == ERR_OK ? purge_apply(wal, keep) : NULL;
    }
    purge_unlink(wal, gone);
    return err;
}

enum err wal_mark_clean(struct wal *wal, bool clean)
{
    const struct wal_log *log = &wal->live;

    if (wal->manifest.clean == clean) {
        return ERR_OK;
    }
    wal->manifest.clean = clean;
    wal->manifest.clean_number = clean ? log->tail->header.number : 0;
    wal->manifest.clean_offset = clean ? log->tail->end : 0;
    wal->manifest.clean_last = clean ? log->last : 0;
    wal->manifest.clean_chain = clean ? log->last_chain : 0;
    return wal_manifest_write(wal);
}
