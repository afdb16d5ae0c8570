#include "base/os_read.h"

#include "base/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where the sentence goes. */
struct said {
    const struct os_source *source;
    char *error;
    size_t size;
};

static bool fail(const struct said *said, const char *what)
{
    (void)snprintf(said->error, said->size, "%s: %s %s", said->source->key, said->source->path,
                   what);
    return false;
}

static bool fail_errno(const struct said *said)
{
    char what[160];

    /* Files are often copied by root, and read by the user of a service. */
    if (errno == EACCES) {
        (void)snprintf(what, sizeof(what),
                       "cannot be read: %s; check path and permission: the user with id %u must be "
                       "able to read it (chgrp and chmod 640)",
                       strerrordesc_np(errno), (unsigned)geteuid());
        return fail(said, what);
    }
    (void)snprintf(what, sizeof(what), "cannot be read: %s; check path and permission",
                   strerrordesc_np(errno));
    return fail(said, what);
}

static bool check(const struct said *said, int fd)
{
    const struct os_source *source = said->source;
    struct stat about;

    if (fstat(fd, &about) || !S_ISREG(about.st_mode)) {
        return fail(said, "is not a regular file; check the path");
    }
    if (source->secret && (about.st_mode & (S_IROTH | S_IWOTH))) {
        (void)snprintf(said->error, said->size,
                       "%s: other users may read or write %s; run chmod 600 on it", source->key,
                       source->path);
        return false;
    }
    return true;
}

static bool read_all(const struct said *said, int fd, struct buf *bytes)
{
    size_t room = said->source->bytes_max + 1; /* One more byte shows that there is more. */
    uint8_t *to = buf_reserve(bytes, room);
    char what[128];
    ssize_t got = 1;

    ASSERT(to);
    while (got > 0 && bytes->len < room) {
        got = read(fd, to + bytes->len, room - bytes->len);
        bytes->len += got > 0 ? (size_t)got : 0;
    }
    if (got < 0) {
        return fail_errno(said);
    }
    if (bytes->len == room) {
        (void)snprintf(what, sizeof(what), "has more than %zu bytes; check the path",
                       said->source->bytes_max);
        return fail(said, what);
    }
    return true;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): `said` is written to. */
bool os_read(const struct os_source *source, struct buf *ret_bytes, char *error, size_t error_size)
{
    const struct said said = {.source = source, .error = error, .size = error_size};
    int fd = open(source->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool done = false;

    buf_init(ret_bytes, source->bytes_max + 1);
    if (fd < 0) {
        return fail_errno(&said);
    }
    done = check(&said, fd) && read_all(&said, fd, ret_bytes);
    close(fd);
    if (!done) {
        os_read_release(ret_bytes);
    }
    return done;
}

void os_read_release(struct buf *bytes)
{
    if (bytes->data) {
        explicit_bzero(bytes->data, bytes->len);
    }
    buf_release(bytes);
}
