#include "base/check.h"
#include "base/mem.h"
#include "storage/vfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

struct posix_dir {
    int fd; /* The directory; the flock is held on this very descriptor. */
};

struct vfs_file {
    int fd;
};

static enum err err_of_errno(int number)
{
    ASSERT(number != 0);

    switch (number) {
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

    ASSERT(dir && dir->fd >= 0);
    return dir->fd;
}

static enum err posix_open(void *ctx, const char *name, bool create, struct vfs_file **ret_file)
{
    ASSERT(name[0] != '\0' && !strchr(name, '/'));

    int flags = O_RDWR | O_CLOEXEC | (create ? O_CREAT | O_EXCL : 0);
    int fd = openat(dir_fd(ctx), name, flags, 0640);

    /* A directory that may only be looked at (inspection) can still be read. */
    if (fd < 0 && !create && (errno == EACCES || errno == EROFS)) {
        fd = openat(dir_fd(ctx), name, O_RDONLY | O_CLOEXEC);
    }
    if (fd < 0) {
        return err_of_errno(errno);
    }
    *ret_file = mem_zalloc(1, sizeof(**ret_file));
    (*ret_file)->fd = fd;
    return ERR_OK;
}

static void posix_close(struct vfs_file *file)
{
    ASSERT(file->fd >= 0);

    /* Everything that matters was synced; an error here says nothing new. */
    (void)close(file->fd);
    mem_free(file);
}

static enum err posix_pread(struct vfs_file *file, uint64_t offset, void *data, size_t len,
                            size_t *ret_len)
{
    ASSERT(file->fd >= 0);

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
    ASSERT(file->fd >= 0);

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
    ASSERT(file->fd >= 0);

    return fdatasync(file->fd) == 0 ? ERR_OK : err_of_errno(errno);
}

static enum err posix_truncate(struct vfs_file *file, uint64_t size)
{
    ASSERT(file->fd >= 0);

    return ftruncate(file->fd, (off_t)size) == 0 ? ERR_OK : err_of_errno(errno);
}

static enum err posix_size(struct vfs_file *file, uint64_t *ret_size)
{
    ASSERT(file->fd >= 0);

    struct stat st;

    if (fstat(file->fd, &st) != 0) {
        return ERR_IO;
    }
    *ret_size = (uint64_t)st.st_size;
    return ERR_OK;
}

static void posix_drop_cache(struct vfs_file *file)
{
    ASSERT(file->fd >= 0);

    (void)posix_fadvise(file->fd, 0, 0, POSIX_FADV_DONTNEED);
}

static enum err posix_rename(void *ctx, const char *from, const char *to)
{
    ASSERT(strcmp(from, to) != 0);

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
    ASSERT(ctx);

    return fsync(dir_fd(ctx)) == 0 ? ERR_OK : err_of_errno(errno);
}

static enum err posix_list(void *ctx, void (*each)(void *arg, const char *name), void *arg)
{
    ASSERT(each);

    /* A descriptor of its own: the position belongs to the open file, not to the number. */
    int fd = openat(dir_fd(ctx), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;

    if (!stream) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return ERR_IO;
    }
    errno = 0;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is this call's own. */
    while ((entry = readdir(stream)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            each(arg, entry->d_name);
        }
        errno = 0;
    }

    enum err err = errno == 0 ? ERR_OK : ERR_IO;

    (void)closedir(stream);
    return err;
}

static enum err posix_lock(void *ctx)
{
    ASSERT(ctx);

    if (flock(dir_fd(ctx), LOCK_EX | LOCK_NB) == 0) {
        return ERR_OK;
    }
    return errno == EWOULDBLOCK ? ERR_BUSY : ERR_IO;
}

static enum err posix_free_bytes(void *ctx, uint64_t *ret_bytes)
{
    ASSERT(ret_bytes);

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
    ASSERT(dir && ret_vfs);

    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0) {
        return err_of_errno(errno);
    }

    struct posix_dir *ctx = mem_zalloc(1, sizeof(*ctx));

    ctx->fd = fd;
    *ret_vfs = (struct vfs){.ops = &posix_ops, .ctx = ctx};
    return ERR_OK;
}

void vfs_posix_close(struct vfs *vfs)
{
    ASSERT(vfs->ops == &posix_ops);

    struct posix_dir *ctx = vfs->ctx;

    (void)close(ctx->fd);
    mem_free(ctx);
    *vfs = (struct vfs){0};
}
