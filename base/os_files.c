#include "base/os_files.h"

#include "base/check.h"
#include "base/minmax.h"
#include "base/os_clock.h"
#include "base/thread.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PIECE = 8192 /* Bytes of a file that are read at a time. */
};

static _Atomic uint64_t claimed_until_ms;

uint64_t os_files_max(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

uint64_t os_files_raise(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return OS_FILES_UNKNOWN_OPEN;
    }

    rlim_t before = limit.rlim_cur;

    limit.rlim_cur = min_u64(limit.rlim_max, OS_FILES_MAX);
    return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : before;
}

uint32_t os_files_open(void)
{
    DIR *stream = opendir("/proc/self/fd");
    uint32_t count = 0;

    if (!stream) {
        return OS_FILES_UNKNOWN_OPEN;
    }
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is this call's own. */
    for (const struct dirent *entry = readdir(stream); entry; entry = readdir(stream)) {
        count += entry->d_name[0] != '.';
    }
    (void)closedir(stream);
    return count > 0 ? count - 1 : 0; /* The stream's own descriptor. */
}

bool os_files_is_lack(int error)
{
    return error == EMFILE || error == ENFILE;
}

void os_files_claim(void)
{
    atomic_store(&claimed_until_ms, os_now_ms() + OS_FILES_CLAIM_MS);
}

bool os_files_are_claimed(void)
{
    uint64_t until_ms = atomic_load(&claimed_until_ms);

    return until_ms != 0 && os_now_ms() < until_ms;
}

/* Opens eventfds until enough descriptors are kept. An eventfd needs no path, and counts towards
 * the limit of the machine, too. The caller holds the mutex. */
static void fill(struct os_kept *kept)
{
    while (kept->count < kept->max) {
        int fd = eventfd(0, EFD_CLOEXEC);

        if (fd < 0) {
            return;
        }
        kept->fds[kept->count++] = fd;
    }
}

void os_kept_init(struct os_kept *kept, uint32_t max)
{
    ASSERT(max <= OS_KEPT_MAX);
    *kept = (struct os_kept){.max = max};
    mutex_init(&kept->mutex);
    fill(kept);
}

void os_kept_release(struct os_kept *kept)
{
    for (uint32_t i = 0; i < kept->count; i++) {
        (void)close(kept->fds[i]);
    }
    kept->count = 0;
    mutex_destroy(&kept->mutex);
}

/* Makes the claim first. Another thread that then takes a descriptor closed here sees the claim and
 * closes the descriptor again. There are more kept descriptors than such threads, so openat
 * gets one. */
int os_kept_openat(struct os_kept *kept, int dir_fd, const char *name, int flags, unsigned mode)
{
    int fd = -1;
    int error = EMFILE;

    mutex_lock(&kept->mutex);
    os_files_claim();
    while (fd < 0 && os_files_is_lack(error) && kept->count > 0) {
        (void)close(kept->fds[--kept->count]);
        fd = openat(dir_fd, name, flags, mode);
        error = fd < 0 ? errno : 0;
    }
    mutex_unlock(&kept->mutex);
    errno = error;
    return fd;
}

void os_kept_fill(struct os_kept *kept)
{
    MUTEX_HOLD(&kept->mutex);
    if (kept->count < kept->max) {
        os_files_claim();
        fill(kept);
    }
}

/* ---- Small files. ---- */

/* Takes the next part of a path; false when the part is empty, too long, "." or "..", or holds a
 * NUL byte. */
static bool take_part(struct slice *path, char part[OS_FILE_NAME_MAX + 1])
{
    const uint8_t *slash = path->len > 0 ? memchr(path->data, '/', path->len) : NULL;
    size_t len = slash ? (size_t)(slash - path->data) : path->len;

    if (len == 0 || len > OS_FILE_NAME_MAX || memchr(path->data, '\0', len)) {
        return false;
    }
    memcpy(part, path->data, len);
    part[len] = '\0';
    *path = slash ? slice_make(slash + 1, path->len - len - 1) : slice_make(NULL, 0);
    return strcmp(part, ".") != 0 && strcmp(part, "..") != 0;
}

/* Opens the file at `path` below `dir_fd`, and closes `dir_fd`. Returns -1 when the path leads to
 * no file. */
static int open_below(int dir_fd, struct slice path)
{
    char part[OS_FILE_NAME_MAX + 1];
    int fd = dir_fd;

    for (int depth = 0; fd >= 0 && path.data; depth++) {
        int next = -1;

        if (depth < OS_FILE_DEPTH_MAX && take_part(&path, part)) {
            /* The last part may be a pipe, whose opening would wait without O_NONBLOCK. */
            int flags = path.data ? O_DIRECTORY : O_NONBLOCK;

            next = openat(fd, part, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | flags);
        }
        close(fd);
        fd = next;
    }
    return fd;
}

static enum err read_all(int fd, struct buf *out)
{
    uint8_t piece[PIECE];
    ssize_t len = 0;

    do {
        len = read(fd, piece, sizeof(piece));
        if (len < 0 && errno != EINTR) {
            return ERR_IO;
        }
        if (len > 0 && !buf_append(out, piece, (size_t)len)) {
            return ERR_TOO_LARGE;
        }
    } while (len != 0);
    return ERR_OK;
}

enum err os_file_read_below(const char *dir, struct slice path, struct buf *out)
{
    struct stat about;
    int fd = -1;
    enum err err = ERR_NOT_FOUND;

    ASSERT(dir && path.data);
    fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    fd = fd >= 0 ? open_below(fd, path) : -1;
    if (fd < 0) {
        return ERR_NOT_FOUND;
    }
    if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode)) {
        err = read_all(fd, out);
    }
    close(fd);
    return err;
}
