/* tar.h - writes an archive in the format ustar (POSIX.1-1988) to a file. One thread. */
#ifndef CLI_TAR_H
#define CLI_TAR_H

#include "base/buf.h"

enum {
    TAR_NAME_MAX = 100 /* Bytes of a name. */
};

/* Appends a file that only its owner may read. `name` has less than TAR_NAME_MAX bytes. Return 0,
 * or an errno. */
int tar_add(int fd, const char *name, struct slice content, int64_t time_s);

/* Appends the end of the archive. */
int tar_end(int fd);

#endif
