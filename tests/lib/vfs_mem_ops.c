#include "base/check.h"
#include "base/mem.h"
#include "tests/lib/vfs_mem_int.h"

#include <string.h>

/* ---- Faults. ---- */

/* Counts a call. ERR_OK: continue. `*ret_partly`: take effect without becoming durable, then fail.
 */
static enum err begin_call(struct vfs_mem *disk, bool *ret_partly)
{
    *ret_partly = false;
    if (disk->is_dead) {
        return ERR_IO;
    }
    disk->calls++;
    if (disk->crash_at != 0 && disk->calls == disk->crash_at) {
        disk->is_dead = true;
        disk->fault_hit = true;
        *ret_partly = true;
        return ERR_IO;
    }
    if (disk->fail_at != 0 && disk->calls == disk->fail_at) {
        disk->fault_hit = true;
        return disk->fail_err;
    }
    return ERR_OK;
}

static enum err begin_file_call(struct vfs_file *file, bool *ret_partly)
{
    *ret_partly = false;
    return file->era == file->disk->era ? begin_call(file->disk, ret_partly) : ERR_IO;
}

static enum err begin_name_call(struct vfs_mem *disk, bool *ret_partly)
{
    enum err err = begin_call(disk, ret_partly);

    return err == ERR_OK && mem_fails(disk, VFS_MEM_FAIL_NAMES) ? ERR_IO : err;
}

/* ---- Operations. ---- */

/* True when there is no descriptor for this open. */
static bool lacks_file(struct vfs_mem *disk)
{
    disk->opens++;

    bool lacks = disk->lack_at != 0 && disk->opens >= disk->lack_at &&
                 disk->opens < disk->lack_at + disk->lack_count;

    disk->fault_hit = disk->fault_hit || lacks;
    return lacks;
}

static enum err mem_open(void *ctx, const char *name, bool create, struct vfs_file **ret_file)
{
    struct vfs_mem *disk = ctx;
    const struct entry *entry = mem_dir_find(&disk->now, name);
    struct inode *inode = entry ? entry->inode : NULL;
    bool partly = false;

    if (lacks_file(disk)) {
        return ERR_NO_FILES;
    }

    enum err err = begin_name_call(disk, &partly);

    if (err != ERR_OK && !(partly && create)) {
        return err;
    }
    if (create ? inode != NULL : inode == NULL) {
        return create ? ERR_EXISTS : ERR_MISSING;
    }
    if (create) {
        inode = mem_zalloc(1, sizeof(*inode));
        inode->refs = 1;
        mem_change_add(disk, "", name, inode);
        mem_inode_unref(inode);
    }
    if (err != ERR_OK) {
        return err;
    }
    mem_inode_link(disk, inode);
    *ret_file = mem_zalloc(1, sizeof(**ret_file));
    **ret_file = (struct vfs_file){.disk = disk, .inode = inode, .era = disk->era};
    disk->open_now++;
    disk->open_max = disk->open_now > disk->open_max ? disk->open_now : disk->open_max;
    return ERR_OK;
}

static void mem_close(struct vfs_file *file)
{
    file->disk->open_now--;
    mem_inode_unlink(file->disk, file->inode);
    mem_free(file);
}

static enum err mem_pread(struct vfs_file *file, uint64_t offset, void *data, size_t len,
                          size_t *ret_len)
{
    const struct inode *inode = file->inode;
    bool partly = false;
    enum err err = begin_file_call(file, &partly);

    if (err != ERR_OK) {
        return err == ERR_NO_SPACE ? ERR_IO : err;
    }
    if (mem_read_fails(file->disk, inode, offset, len)) {
        return ERR_IO;
    }

    uint64_t left = offset < inode->size ? inode->size - offset : 0;

    *ret_len = left < len ? (size_t)left : len;
    mem_inode_read(inode, offset, data, *ret_len);
    return ERR_OK;
}

static enum err mem_pwrite(struct vfs_file *file, uint64_t offset, const void *data, size_t len)
{
    struct vfs_mem *disk = file->disk;
    struct inode *inode = file->inode;
    uint64_t end = offset + len > inode->size ? offset + len : inode->size;
    bool partly = false;
    enum err err = begin_file_call(file, &partly);

    if (file->era != disk->era || (disk->is_dead && !partly)) {
        return ERR_IO;
    }
    if (err == ERR_OK && disk->capacity && end > inode->size &&
        disk->used + (end - inode->size) > disk->capacity) {
        return ERR_NO_SPACE;
    }
    if (err == ERR_OK && mem_fails(disk, VFS_MEM_FAIL_WRITES)) {
        err = ERR_IO;
    }
    if (err != ERR_OK && !partly) {
        len /= 2;
        end = offset + len > inode->size ? offset + len : inode->size;
    }
    mem_charge(disk, inode, inode->size, end);
    inode->size = end;
    mem_inode_write(inode, offset, data, len);
    return err;
}

static enum err mem_sync(struct vfs_file *file)
{
    bool partly = false;
    enum err err = begin_file_call(file, &partly);

    if (err == ERR_OK && mem_fails(file->disk, VFS_MEM_FAIL_SYNCS)) {
        mem_sync_failed(file->disk, file->inode);
        return ERR_IO;
    }
    if (err == ERR_OK) {
        mem_inode_sync(file->inode);
    }
    return err;
}

static enum err mem_truncate(struct vfs_file *file, uint64_t size)
{
    bool partly = false;
    enum err err = begin_file_call(file, &partly);

    if (err == ERR_OK && mem_fails(file->disk, VFS_MEM_FAIL_WRITES)) {
        return ERR_IO;
    }
    if (err == ERR_OK || partly) {
        mem_charge(file->disk, file->inode, file->inode->size, size);
        file->inode->size = size;
        mem_inode_clear_from(file->inode, size);
    }
    return err;
}

static enum err mem_size(struct vfs_file *file, uint64_t *ret_size)
{
    bool partly = false;

    *ret_size = file->inode->size;

    enum err err = begin_file_call(file, &partly);

    return err == ERR_OK && mem_fails(file->disk, VFS_MEM_FAIL_NAMES) ? ERR_IO : err;
}

static void mem_drop_cache(struct vfs_file *file)
{
    mem_lost_revert(file->inode);
}

static enum err mem_rename(void *ctx, const char *from, const char *to)
{
    struct vfs_mem *disk = ctx;
    const struct entry *entry = mem_dir_find(&disk->now, from);
    bool partly = false;
    enum err err = begin_name_call(disk, &partly);

    if (err != ERR_OK && !partly) {
        return err;
    }
    if (!entry) {
        return ERR_MISSING;
    }
    mem_change_add(disk, from, to, entry->inode);
    return err;
}

static enum err mem_unlink(void *ctx, const char *name)
{
    struct vfs_mem *disk = ctx;
    bool partly = false;
    enum err err = begin_name_call(disk, &partly);

    if (err != ERR_OK && !partly) {
        return err;
    }
    if (!mem_dir_find(&disk->now, name)) {
        return ERR_MISSING;
    }
    mem_change_add(disk, name, "", NULL);
    return err;
}

static enum err mem_sync_dir(void *ctx)
{
    struct vfs_mem *disk = ctx;
    bool partly = false;
    enum err err = begin_call(disk, &partly);

    if (err == ERR_OK && mem_fails(disk, VFS_MEM_FAIL_SYNCS)) {
        return ERR_IO;
    }
    if (err == ERR_OK) {
        mem_changes_clear(disk);
        mem_dir_copy(NULL, &disk->durable, &disk->now);
    }
    return err;
}

static enum err mem_list(void *ctx, void (*each)(void *arg, const char *name), void *arg)
{
    struct vfs_mem *disk = ctx;
    bool partly = false;
    enum err err = begin_name_call(disk, &partly);

    if (err == ERR_OK) {
        vfs_mem_each(disk, each, arg);
    }
    return err;
}

static enum err mem_lock(void *ctx)
{
    bool partly = false;

    return begin_name_call(ctx, &partly);
}

static enum err mem_free_bytes(void *ctx, uint64_t *ret_bytes)
{
    struct vfs_mem *disk = ctx;
    bool partly = false;
    bool is_full = disk->capacity && disk->used >= disk->capacity;

    *ret_bytes = disk->capacity == 0 ? UINT64_MAX : is_full ? 0 : disk->capacity - disk->used;
    return begin_call(disk, &partly);
}

const struct vfs_ops vfs_mem_ops = {
    .open = mem_open,
    .close = mem_close,
    .pread = mem_pread,
    .pwrite = mem_pwrite,
    .sync = mem_sync,
    .truncate = mem_truncate,
    .size = mem_size,
    .drop_cache = mem_drop_cache,
    .rename = mem_rename,
    .unlink = mem_unlink,
    .sync_dir = mem_sync_dir,
    .list = mem_list,
    .lock = mem_lock,
    .free_bytes = mem_free_bytes,
};
