/*
 * os_read.h - reads a file that a key of the configuration names, such as a certificate or a
 * secret.
 *
 * What is no regular file is refused, so that a FIFO neither blocks the thread nor gives its bytes
 * to the wrong reader. The memory is reserved once: no copy of a secret remains where it was before
 * it grew. A file system that hangs blocks the caller.
 */
#ifndef BASE_OS_READ_H
#define BASE_OS_READ_H

#include "base/buf.h"

#include <stdbool.h>

struct os_source {
    const char *key; /* Key of the configuration. */
    const char *path;
    size_t bytes_max;
    bool secret; /* Other users may neither read nor write it. */
};

/* Reads all of the file into `ret_bytes`, which the caller gives to os_read_release. False: the
 * sentence "KEY: PATH ...", cut to `error_size`, says why it cannot be used, and what to do. */
bool os_read(const struct os_source *source, struct buf *ret_bytes, char *error, size_t error_size);

/* Wipes the bytes and frees them. */
void os_read_release(struct buf *bytes);

#endif
