/* os_file.h - whole small files of a directory that others may write to. Any thread; blocks. */
#ifndef BASE_OS_FILE_H
#define BASE_OS_FILE_H

#include "base/buf.h"
#include "base/err.h"

enum {
    OS_FILE_NAME_MAX = 255, /* Bytes of one part of a path. */
    OS_FILE_DEPTH_MAX = 16  /* Parts of a path. */
};

/*
 * Appends the regular file at `path` below `dir` ("a/b.js", without a slash in front). Nothing
 * outside of `dir` is reached: no part may be empty, "." or "..", and no symbolic link below `dir`
 * is followed. ERR_NOT_FOUND: there is none; ERR_TOO_LARGE: more than `out` takes; ERR_IO.
 */
enum err os_file_read_below(const char *dir, struct slice path, struct buf *out);

#endif
