#include "server/audit/audit_file.h"

#include "base/check.h"
#include "base/minmax.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MODE = 0600,
    PROC_PATH_SIZE = 32
};

static ssize_t real_write(void *ctx, int fd, const void *data, size_t len)
{
    (void)ctx;
    return write(fd, data, len);
}

static int real_sync(void *ctx, int fd)
{
    (void)ctx;
    return fdatasync(fd);
}

const struct audit_system audit_system_real = {.write = real_write, .sync = real_sync};

/* ---- Opening. ---- */

/* Writes the directory of `path` to `dir`. */
static void directory_of(const char *path, char *dir, size_t size)
{
    const char *slash = strrchr(path, '/');
    size_t len = slash ? (size_t)(slash - path) : 0;

    if (!slash) {
        (void)snprintf(dir, size, ".");
    } else {
        (void)snprintf(dir, size, "%.*s", len > 0 ? (int)len : 1, path);
    }
}

enum err audit_file_check(const char *path, char error[AUDIT_ERROR_MAX])
{
    char dir[AUDIT_ERROR_MAX / 2];
    struct stat stat_of;

    directory_of(path, dir, sizeof(dir));
    if (stat(dir, &stat_of) || !S_ISDIR(stat_of.st_mode)) {
        (void)snprintf(error, AUDIT_ERROR_MAX,
                       "auditFile: there is no directory %s; make it, or change the key", dir);
        return ERR_CONFIG;
    }
    if (access(dir, W_OK | X_OK)) {
        (void)snprintf(error, AUDIT_ERROR_MAX,
                       "auditFile: this user may not write into %s; change its permissions or the "
                       "key",
                       dir);
        return ERR_CONFIG;
    }
    if (stat(path, &stat_of) == 0 && !S_ISREG(stat_of.st_mode)) {
        (void)snprintf(error, AUDIT_ERROR_MAX,
                       "auditFile: %s is not a regular file; name a file, or - for standard error",
                       path);
        return ERR_CONFIG;
    }
    return ERR_OK;
}

/* Opens standard error once more, for writes that never wait for its reader: O_NONBLOCK on the
 * descriptor itself would change the writes of all programs that have inherited it. */
static void open_error(struct audit_file *file)
{
    char path[PROC_PATH_SIZE];
    struct stat stat_of;

    file->fd = STDERR_FILENO;
    if (fstat(STDERR_FILENO, &stat_of)) {
        return;
    }
    file->is_socket = S_ISSOCK(stat_of.st_mode);
    if (S_ISFIFO(stat_of.st_mode) || S_ISCHR(stat_of.st_mode)) {
        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", STDERR_FILENO);
        int fd = open(path, O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

        file->owns_fd = fd >= 0;
        file->fd = fd >= 0 ? fd : STDERR_FILENO;
    }
}

static enum err explain_open(const char *path, int failed, char error[AUDIT_ERROR_MAX])
{
    (void)snprintf(error, AUDIT_ERROR_MAX,
                   "auditFile: cannot open %s: %s; check the file, its directory and their "
                   "permissions",
                   path, strerrordesc_np(failed));
    return ERR_CONFIG;
}

enum err audit_file_open(struct audit_file *file, const char *path,
                         const struct audit_system *system, char error[AUDIT_ERROR_MAX])
{
    struct stat stat_of;

    *file = (struct audit_file){.path = path, .system = system, .fd = -1};
    if (!path) {
        open_error(file);
        return ERR_OK;
    }
    if (audit_file_check(path, error) != ERR_OK) {
        return ERR_CONFIG;
    }
    file->fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_NOCTTY | O_NONBLOCK | O_CLOEXEC, MODE);
    if (file->fd < 0) {
        return explain_open(path, errno, error);
    }
    file->owns_fd = true;
    if (flock(file->fd, LOCK_EX | LOCK_NB)) {
        (void)snprintf(error, AUDIT_ERROR_MAX,
                       "auditFile: another process writes into %s; give each replica its own file",
                       path);
        audit_file_close(file);
        return ERR_CONFIG;
    }
    if (fstat(file->fd, &stat_of)) {
        enum err err = explain_open(path, errno, error);

        audit_file_close(file);
        return err;
    }
    file->size = (uint64_t)stat_of.st_size;
    file->synced = file->size;
    return ERR_OK;
}

void audit_file_close(struct audit_file *file)
{
    if (file->owns_fd) {
        (void)close(file->fd);
    }
    file->fd = -1;
    file->owns_fd = false;
}

/* ---- Writing. ---- */

static enum err error_of(int failed)
{
    switch (failed) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return ERR_NO_SPACE;
    case EAGAIN:
        return ERR_FULL;
    default:
        return ERR_IO;
    }
}

/* Returns how many bytes to write at a time. Lines of the log, and of other programs, are written
 * to standard error meanwhile: a pipe takes so few bytes as a whole or not at all, so that none of
 * them stands within a line of the audit log, unless that is longer. */
static size_t piece_of(const struct audit_file *file, const uint8_t *data, size_t len)
{
    if (file->path || len <= PIPE_BUF) {
        return len;
    }
    const uint8_t *feed = memrchr(data, '\n', PIPE_BUF);

    if (!feed) {
        feed = memchr(data, '\n', len);
    }
    return feed ? (size_t)(feed - data) + 1 : len;
}

static ssize_t write_some(const struct audit_file *file, const uint8_t *data, size_t len)
{
    return file->is_socket ? send(file->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL)
                           : file->system->write(file->system->ctx, file->fd, data, len);
}

enum err audit_file_write(struct audit_file *file, const void *data, size_t len, size_t *ret_done)
{
    size_t done = 0;
    enum err err = ERR_OK;

    while (done < len && err == ERR_OK) {
        const uint8_t *from = (const uint8_t *)data + done;
        ssize_t count = write_some(file, from, piece_of(file, from, len - done));

        if (count > 0) {
            done += (size_t)count;
        } else if (count == 0) {
            err = ERR_NO_SPACE;
        } else if (errno != EINTR) {
            err = error_of(errno);
        }
    }
    file->size += done;
    *ret_done = done;
    return err;
}

enum err audit_file_sync(struct audit_file *file)
{
    if (!file->path || file->system->sync(file->system->ctx, file->fd) == 0) {
        file->synced = file->size;
        return ERR_OK;
    }
    return error_of(errno) == ERR_NO_SPACE ? ERR_NO_SPACE : ERR_IO;
}

/* ---- Rotation. ---- */

enum audit_file_change audit_file_look(struct audit_file *file)
{
    struct stat stat_of;

    if (!file->path || fstat(file->fd, &stat_of)) {
        return AUDIT_FILE_SAME;
    }
    if (stat_of.st_nlink == 0) {
        return AUDIT_FILE_GONE;
    }
    bool is_cut = (uint64_t)stat_of.st_size < file->size;

    file->size = (uint64_t)stat_of.st_size;
    file->synced = min_u64(file->synced, file->size);
    return is_cut ? AUDIT_FILE_CUT : AUDIT_FILE_SAME;
}

bool audit_file_is_renamed(const struct audit_file *file)
{
    struct stat named;
    struct stat open_one;

    if (!file->path) {
        return false;
    }
    return stat(file->path, &named) != 0 || fstat(file->fd, &open_one) != 0 ||
           named.st_ino != open_one.st_ino || named.st_dev != open_one.st_dev;
}

void audit_file_cut(struct audit_file *file, size_t len)
{
    if (file->path && len > 0 && len <= file->size &&
        ftruncate(file->fd, (off_t)(file->size - len)) == 0) {
        file->size -= len;
        file->synced = min_u64(file->synced, file->size);
    }
}

bool audit_file_take_back(struct audit_file *file)
{
    audit_file_cut(file, (size_t)(file->size - file->synced));
    return !file->path || file->size == file->synced;
}
