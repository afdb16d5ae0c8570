#include "base/os_file.h"

#include "base/check.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PIECE = 8192
};

/* The next part of a path; false when it does not lead further down. */
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

/* Takes over `dir_fd`. Returns the opened file, or -1 when the path leads to none. */
static int open_below(int dir_fd, struct slice path)
{
    char part[OS_FILE_NAME_MAX + 1];
    int fd = dir_fd;

    for (int depth = 0; fd >= 0 && path.data; depth++) {
        int next = -1;

        if (depth < OS_FILE_DEPTH_MAX && take_part(&path, part)) {
            /* Not a pipe either, whose opening would wait. */
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
