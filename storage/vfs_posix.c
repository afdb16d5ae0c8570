#include "base/check.h"
#include "base/mem.h"
#include "base/os_files.h"
#include "storage/vfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum {
    FILE_MODE = 0640
};

struct posix_dir {
    int fd; /* Descriptor of the directory; holds the flock. */
    /* The same directory for listing. A listing has a position, so it needs its own descriptor. */
    DIR *names;
    struct os_kept kept; /* Descriptors kept for files when no others are left. */
};

struct vfs_file {
    struct posix_dir *dir;
    int fd;
};

static enum err err_of_errno(int number)
{
    switch (number) {
    case EMFILE:
    case ENFILE:
        return ERR_NO_FILES;
    case ENOSPC:
    case EDQUOT:
        return ERR_NO_SPACE;
    case ENOENT:
        return ERR_MISSING;
    case EEXIST:
        return ERR_EXISTS;
    default:
        return ERR_IO;
    }
}

static int dir_fd(void *ctx)
{
    const struct posix_dir *dir = ctx;

    return dir->fd;
}

static int open_any(struct posix_dir *dir, const char *name, int flags)
{
    int fd = openat(dir->fd, name, flags, FILE_MODE);

    return fd < 0 && os_files_is_lack(errno)
               ? os_kept_openat(&dir->kept, dir->fd, name, flags, FILE_MODE)
               : fd;
}

static enum err posix_open(void *ctx, const char *name, bool create, struct vfs_file **ret_file)
{
    ASSERT(name[0] != '\0' && !strchr(name, '/'));

    struct posix_dir *dir = ctx;
    int flags = O_RDWR | O_CLOEXEC | (create ? O_CREAT | O_EXCL : 0);
    int fd = open_any(dir, name, flags);

    /* In a directory without write permission (inspection) files can still be read. */
    if (fd < 0 && !create && (errno == EACCES || errno == EROFS)) {
        fd = open_any(dir, name, O_RDONLY | O_CLOEXEC);
    }
    if (fd < 0) {
        return err_of_errno(errno);
    }
    *ret_file = mem_zalloc(1, sizeof(**ret_file));
    **ret_file = (struct vfs_file){.dir = dir, .fd = fd};
    return ERR_OK;
}

static void posix_close(struct vfs_file *file)
{
    /* Everything that matters was synced; an error here changes nothing. */
    (void)close(file->fd);
    os_kept_fill(&file->dir->kept);
    mem_free(file);
}

static enum err posix_pread(struct vfs_file *file, uint64_t offset, void *data, size_t len,
                            size_t *ret_len)
{
    size_t done = 0;

    while (done < len) {
        ssize_t got = pread(file->fd, (char *)data + done, len - done, (off_t)(offset + done));

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return ERR_IO;
        }
        if (got == 0) {
            break;
        }
        done += (size_t)got;
    }
    *ret_len = done;
    return ERR_OK;
}

static enum err posix_pwrite(struct vfs_file *file, uint64_t offset, const void *data, size_t len)
{
    size_t done = 0;

    while (done < len) {
        ssize_t put =
            pwrite(file->fd, (const char *)data + done, len - done, (off_t)(offset + done));

        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            return put < 0 ? err_of_errno(errno) : ERR_IO;
        }
        done += (size_t)put;
    }
    return ERR_OK;
}

static enum err posix_sync(struct vfs_file *file)
{
    return fdatasync(file->fd) == 0 ? ERR_OK : err_of_errno(errno);
}

static enum err posix_truncate(struct vfs_file *file, uint64_t size)
{
    return ftruncate(file->fd, (off_t)size) == 0 ? ERR_OK : err_of_errno(errno);
}

static enum err posix_size(struct vfs_file *file, uint64_t *ret_size)
{
    struct stat st;

    if (fstat(file->fd, &st) != 0) {
        return ERR_IO;
    }
    *ret_size = (uint64_t)st.st_size;
    return ERR_OK;
}

static void posix_drop_cache(struct vfs_file *file)
{
    (void)posix_fadvise(file->fd, 0, 0, POSIX_FADV_DONTNEED);
}

static enum err posix_rename(void *ctx, const char *from, const char *to)
{
    int fd = dir_fd(ctx);

    return renameat(fd, from, fd, to) == 0 ? ERR_OK : err_of_errno(errno);
}

static enum err posix_unlink(void *ctx, const char *name)
{
    ASSERT(!strchr(name, '/'));

    return unlinkat(dir_fd(ctx), name, 0) == 0 ? ERR_OK : err_of_errno(errno);
}

static enum err posix_sync_dir(void *ctx)
{
    return fsync(dir_fd(ctx)) == 0 ? ERR_OK : err_of_errno(errno);
}

static enum err posix_list(void *ctx, void (*each)(void *arg, const char *name), void *arg)
{
    struct posix_dir *dir = ctx;
    const struct dirent *entry = NULL;

    rewinddir(dir->names);
    errno = 0;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): one thread lists. */
    while ((entry = readdir(dir->names)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            each(arg, entry->d_name);
        }
        errno = 0;
    }

    enum err err = errno == 0 ? ERR_OK : ERR_IO;

    return err;
}

static enum err posix_lock(void *ctx)
{
    if (flock(dir_fd(ctx), LOCK_EX | LOCK_NB) == 0) {
        return ERR_OK;
    }
    return errno == EWOULDBLOCK ? ERR_BUSY : ERR_IO;
}

static enum err posix_free_bytes(void *ctx, uint64_t *ret_bytes)
{
    struct statvfs st;

    if (fstatvfs(dir_fd(ctx), &st) != 0) {
        return ERR_IO;
    }
    *ret_bytes = (uint64_t)st.f_bavail * st.f_frsize;
    return ERR_OK;
}

static const struct vfs_ops posix_ops = {
    .open = posix_open,
    .close = posix_close,
    .pread = posix_pread,
    .pwrite = posix_pwrite,
    .sync = posix_sync,
    .truncate = posix_truncate,
    .size = posix_size,
    .drop_cache = posix_drop_cache,
    .rename = posix_rename,
    .unlink = posix_unlink,
    .sync_dir = posix_sync_dir,
    .list = posix_list,
    .lock = posix_lock,
    .free_bytes = posix_free_bytes,
};

enum err vfs_posix_open(const char *dir, struct vfs *ret_vfs)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0) {
        return err_of_errno(errno);
    }

    /* The directory is opened again, because a duplicated descriptor would share the position of
     * the listing. */
    int names_fd = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *names = names_fd < 0 ? NULL : fdopendir(names_fd);

    if (!names) {
        enum err err = err_of_errno(errno);

        if (names_fd >= 0) {
            (void)close(names_fd);
        }
        (void)close(fd);
        return err;
    }

    struct posix_dir *ctx = mem_zalloc(1, sizeof(*ctx));

    *ctx = (struct posix_dir){.fd = fd, .names = names};
    os_kept_init(&ctx->kept, VFS_KEPT);
    *ret_vfs = (struct vfs){.ops = &posix_ops, .ctx = ctx};
    return ERR_OK;
}

void vfs_posix_close(struct vfs *vfs)
{
    ASSERT(vfs->ops == &posix_ops);

    struct posix_dir *ctx = vfs->ctx;

    os_kept_release(&ctx->kept);
    (void)closedir(ctx->names);
    (void)close(ctx->fd);
    mem_free(ctx);
    *vfs = (struct vfs){0};
}
