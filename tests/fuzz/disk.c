#include "tests/fuzz/disk.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"

#include <stdio.h>

enum {
    GAP_MIN = 4, /* A shorter run of zeros is cheaper written out. */
    RUN_MAX = UINT16_MAX
};

void disk_make_file(struct vfs_mem *disk, const char *name, struct slice bytes, uint64_t size)
{
    struct vfs vfs = vfs_mem_vfs(disk);
    struct vfs_file *file = NULL;
    enum err err = vfs.ops->unlink(vfs.ctx, name);

    ASSERT(err == ERR_OK || err == ERR_MISSING);
    err = vfs.ops->open(vfs.ctx, name, true, &file);
    ASSERT(err == ERR_OK);
    err = vfs.ops->truncate(file, size > bytes.len ? size : bytes.len);
    ASSERT(err == ERR_OK);
    if (bytes.len > 0) {
        err = vfs.ops->pwrite(file, 0, bytes.data, bytes.len);
        ASSERT(err == ERR_OK);
    }
    err = vfs.ops->sync(file);
    ASSERT(err == ERR_OK);
    vfs.ops->close(file);
    err = vfs.ops->sync_dir(vfs.ctx);
    ASSERT(err == ERR_OK);
}

void disk_read_file(struct vfs_mem *disk, const char *name, struct wire_reader *reader)
{
    uint32_t size = wire_get_u32(reader);
    size_t gap = wire_get_u16(reader);
    size_t len = wire_get_u16(reader);
    size_t at = 0;

    size = size < DISK_FILE_MAX ? size : DISK_FILE_MAX;

    uint8_t *bytes = mem_zalloc(size + 1, 1);

    while (gap + len > 0 && !reader->failed) {
        size_t left = (size_t)(reader->end - reader->pos);
        struct slice run = wire_get_raw(reader, len < left ? len : left);

        at += gap;
        if (run.len > 0 && at <= size && run.len <= size - at) {
            memcpy(bytes + at, run.data, run.len);
        }
        at += run.len;
        gap = wire_get_u16(reader);
        len = wire_get_u16(reader);
    }
    disk_make_file(disk, name, slice_make(bytes, size), size);
    mem_free(bytes);
}

static size_t zeros_at(struct slice bytes, size_t at)
{
    size_t end = at;

    while (end < bytes.len && bytes.data[end] == 0) {
        end++;
    }
    return end - at;
}

/* The end of the run that starts at `at`: before enough zeros. */
static size_t run_end(struct slice bytes, size_t at)
{
    size_t end = at;

    while (end < bytes.len && end - at < RUN_MAX) {
        size_t zeros = zeros_at(bytes, end);

        if (zeros >= GAP_MIN || end + zeros == bytes.len) {
            break;
        }
        end += zeros + 1;
    }
    return end;
}

static void write_runs(struct slice bytes, struct buf *out)
{
    for (size_t at = 0; at < bytes.len;) {
        size_t gap = zeros_at(bytes, at);
        size_t step = gap < RUN_MAX ? gap : RUN_MAX;
        size_t end = step < gap ? at + step : run_end(bytes, at + step);

        if (at + gap == bytes.len) {
            break;
        }
        wire_put_u16(out, (uint16_t)step);
        wire_put_u16(out, (uint16_t)(end - at - step));
        wire_put_raw(out, slice_make(bytes.data + at + step, end - at - step));
        at = end;
    }
    wire_put_u32(out, 0);
}

void disk_write_file(const struct vfs_mem *disk, const char *name, struct buf *out)
{
    uint64_t size = 0;
    bool found = vfs_mem_size(disk, name, &size);
    uint8_t *bytes = mem_alloc((size_t)size + 1);

    ASSERT(found && size <= DISK_FILE_MAX);
    found = vfs_mem_read(disk, name, 0, bytes, (size_t)size);
    ASSERT(found);
    wire_put_u32(out, (uint32_t)size);
    write_runs(slice_make(bytes, (size_t)size), out);
    mem_free(bytes);
}

struct visit {
    const struct vfs_mem *disk;
    uint64_t hash;
    size_t count;
    size_t wanted;
    char name[VFS_NAME_MAX];
};

static void visit_hash(void *arg, const char *name)
{
    struct visit *visit = arg;
    uint64_t size = 0;
    bool found = vfs_mem_size(visit->disk, name, &size);
    uint8_t *bytes = mem_alloc((size_t)size + 1);

    ASSERT(found);
    found = vfs_mem_read(visit->disk, name, 0, bytes, (size_t)size);
    ASSERT(found);
    visit->hash = hash64(visit->hash, slice_str(name));
    visit->hash = hash64(visit->hash, slice_make(bytes, (size_t)size));
    mem_free(bytes);
}

uint64_t disk_hash(const struct vfs_mem *disk)
{
    struct visit visit = {.disk = disk};

    vfs_mem_each(disk, visit_hash, &visit);
    return visit.hash;
}

static void visit_count(void *arg, const char *name)
{
    struct visit *visit = arg;

    if (visit->count == visit->wanted) {
        (void)snprintf(visit->name, sizeof(visit->name), "%s", name);
    }
    visit->count++;
}

bool disk_name(const struct vfs_mem *disk, size_t index, char out[VFS_NAME_MAX])
{
    struct visit visit = {.disk = disk};

    vfs_mem_each(disk, visit_count, &visit);
    if (visit.count == 0) {
        return false;
    }
    visit = (struct visit){.disk = disk, .wanted = index % visit.count};
    vfs_mem_each(disk, visit_count, &visit);
    memcpy(out, visit.name, sizeof(visit.name));
    return true;
}
