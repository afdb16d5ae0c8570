#include "storage/note_file.h"

#include "base/check.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "base/wire.h"

#include <stdio.h>

enum {
    HEAD = 16,
    VERSION = 1
};

static const uint8_t magic[4] = {'Z', 'N', 'O', 'T'};

/* The name is part of the checksum: a file under another name does not verify. */
static uint32_t sum_of(const char *name, const uint8_t head[HEAD], struct slice value)
{
    uint32_t sum = crc32c(0, name, strlen(name));

    sum = crc32c(sum, head, HEAD - 4);
    return crc32c(sum, value.data, value.len);
}

/* Not NAME_KIND_TEMP: the thread of the log removes such files at any time. */
static void name_temp(char out[VFS_NAME_MAX], const char *name)
{
    int put = snprintf(out, VFS_NAME_MAX, "%s.new", name);

    ASSERT(put > 0 && put < VFS_NAME_MAX);
}

static enum err put(const struct vfs *vfs, struct vfs_file *file, const char *name,
                    struct slice value)
{
    uint8_t head[HEAD] = {0};

    memcpy(head, magic, sizeof magic);
    wire_store_u32(head + 4, VERSION);
    wire_store_u32(head + 8, (uint32_t)value.len);
    wire_store_u32(head + 12, sum_of(name, head, value));
    enum err err = vfs->ops->pwrite(file, 0, head, HEAD);

    THEN(err, vfs->ops->pwrite(file, HEAD, value.data, value.len));
    return err == ERR_OK ? vfs->ops->sync(file) : err;
}

enum err note_file_write(const struct vfs *vfs, const char *name, struct slice value)
{
    char temp[VFS_NAME_MAX];
    struct vfs_file *file = NULL;

    ASSERT(value.len > 0 && value.len <= NOTE_FILE_MAX);
    name_temp(temp, name);
    enum err err = vfs_replace(vfs, temp, &file);

    if (err != ERR_OK) {
        return err;
    }
    err = put(vfs, file, name, value);
    vfs->ops->close(file);
    THEN(err, vfs->ops->rename(vfs->ctx, temp, name));
    return err == ERR_OK ? vfs->ops->sync_dir(vfs->ctx) : err;
}

/* Returns the value in the file's bytes; empty if they do not verify. */
static struct slice verify(const char *name, const uint8_t *bytes, size_t len)
{
    struct slice none = slice_make(NULL, 0);

    if (len <= HEAD || len > HEAD + NOTE_FILE_MAX || memcmp(bytes, magic, sizeof magic) != 0) {
        return none;
    }
    struct slice value = slice_make(bytes + HEAD, len - HEAD);
    bool is_sound = wire_load_u32(bytes + 4) == VERSION && wire_load_u32(bytes + 8) == value.len &&
                    wire_load_u32(bytes + 12) == sum_of(name, bytes, value);

    return is_sound ? value : none;
}

enum err note_file_read(const struct vfs *vfs, const char *name, struct buf *out)
{
    struct vfs_file *file = NULL;
    enum err err = vfs->ops->open(vfs->ctx, name, false, &file);

    if (err != ERR_OK) {
        return err;
    }
    uint8_t *bytes = mem_alloc(HEAD + NOTE_FILE_MAX + 1);
    size_t len = 0;

    vfs->ops->drop_cache(file);
    err = vfs->ops->pread(file, 0, bytes, HEAD + NOTE_FILE_MAX + 1, &len);
    vfs->ops->close(file);
    if (err == ERR_OK) {
        struct slice value = verify(name, bytes, len);

        err = value.len > 0 && buf_append_slice(out, value) ? ERR_OK : ERR_CORRUPT;
    }
    mem_free(bytes);
    return err;
}
