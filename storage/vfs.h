/*
 * vfs.h - the file operations that storage needs, as a table. So tests can run the very same code
 * on a simulated disk, which loses unsynced sectors, fills up, rots or fails on the k-th call.
 *
 * Paths are relative to the directory that the vfs was opened on. Each call may fail with ERR_IO,
 * ERR_NO_SPACE or ERR_MISSING; nothing is retried here. Only `open` needs a descriptor: it alone
 * may fail with ERR_NO_FILES, which says nothing about the disk and leaves the directory unchanged.
 */
#ifndef STORAGE_VFS_H
#define STORAGE_VFS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    VFS_NAME_MAX = 64,
    VFS_SECTOR = 512,
    VFS_BLOCK = 4096,
    VFS_KEPT = 8,
    VFS_POSIX_FILES = 2 + VFS_KEPT /* Descriptors of the vfs, besides those of open files. */
};

struct vfs_file; /* One open file; the vfs makes and frees it. */

struct vfs_ops {
    /* Creates a file (ERR_EXISTS if the name is taken), or opens an existing file for reading and
     * writing. An error leaves `*ret_file` as it was. Any thread may read a file; only the file's
     * owner makes other calls. */
    enum err (*open)(void *ctx, const char *name, bool create, struct vfs_file **ret_file);
    void (*close)(struct vfs_file *file);
    /* Reads up to `len`; a short count means the end of the file. */
    enum err (*pread)(struct vfs_file *file, uint64_t offset, void *data, size_t len,
                      size_t *ret_len);
    enum err (*pwrite)(struct vfs_file *file, uint64_t offset, const void *data, size_t len);
    enum err (*sync)(struct vfs_file *file); /* fdatasync: data and size. */
    enum err (*truncate)(struct vfs_file *file, uint64_t size);
    enum err (*size)(struct vfs_file *file, uint64_t *ret_size);
    /* Drops cached pages, so that the next read comes from the disk. Best effort. */
    void (*drop_cache)(struct vfs_file *file);
    enum err (*rename)(void *ctx, const char *from, const char *to);
    enum err (*unlink)(void *ctx, const char *name);
    enum err (*sync_dir)(void *ctx);
    /* Calls `each` for every name, in any order. One thread at a time. */
    enum err (*list)(void *ctx, void (*each)(void *arg, const char *name), void *arg);
    /* Locks the directory exclusively for as long as the vfs is open. ERR_BUSY if another process
     * has the lock. */
    enum err (*lock)(void *ctx);
    enum err (*free_bytes)(void *ctx, uint64_t *ret_bytes);
};

struct vfs {
    const struct vfs_ops *ops;
    void *ctx;
};

/* Removes a file unless it is missing. */
static inline enum err vfs_remove(const struct vfs *vfs, const char *name)
{
    enum err err = vfs->ops->unlink(vfs->ctx, name);

    return err == ERR_MISSING ? ERR_OK : err;
}

/* Creates a file, in place of an older file of that name. */
static inline enum err vfs_replace(const struct vfs *vfs, const char *name,
                                   struct vfs_file **ret_file)
{
    enum err err = vfs_remove(vfs, name);

    return err == ERR_OK ? vfs->ops->open(vfs->ctx, name, true, ret_file) : err;
}

/*
 * Makes a vfs for the real files in the directory `dir`. The vfs keeps VFS_KEPT descriptors in
 * reserve: when no other descriptor is left, a file is opened with one of the reserve (see
 * base/os_files.h), and each closed file refills the reserve. ERR_NO_FILES only when the reserve is
 * used up, too. Any thread may open files.
 */
enum err vfs_posix_open(const char *dir, struct vfs *ret_vfs);
void vfs_posix_close(struct vfs *vfs);

#endif
