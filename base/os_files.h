/*
 * os_files.h - the file descriptors of this process: how many it may have, and what happens when
 * they run out. It also reads small files below a directory to which other programs may write.
 *
 * Storage keeps a few descriptors in reserve and closes one of them when it needs a descriptor for
 * a file. Before the file is open, another thread could take the freed descriptor. So storage makes
 * a claim first: a thread that opens a descriptor for a client asks os_files_are_claimed *after*
 * opening it, and closes it again if there is a claim. Such a thread takes at most one of the freed
 * descriptors. Storage has more in reserve than there are such threads, so one is left for storage.
 */
#ifndef BASE_OS_FILES_H
#define BASE_OS_FILES_H

#include "base/buf.h"
#include "base/err.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    OS_FILES_MAX = 1 << 21,     /* Not higher: some libraries make a table as long as the limit. */
    OS_FILES_CLAIM_MS = 1000,   /* How long a claim holds. */
    OS_FILES_UNKNOWN_OPEN = 64, /* Returned instead of a number that is unknown. */
};

/* Raises the soft limit to the hard limit, or to OS_FILES_MAX if that is less, and returns the
 * limit that holds now. Call it at the start, before other threads run. */
uint64_t os_files_raise(void);

/* Returns the limit that holds now; 0 when it is unknown. */
uint64_t os_files_max(void);

/* Returns the number of open descriptors; OS_FILES_UNKNOWN_OPEN when it is unknown. */
uint32_t os_files_open(void);

/* True for the error numbers that say that there is no descriptor left, in this process (EMFILE) or
 * in the machine (ENFILE). */
bool os_files_is_lack(int error);

/* Any thread. os_files_claim announces that storage needs a descriptor now: for OS_FILES_CLAIM_MS
 * other threads close again what they open for clients. */
void os_files_claim(void);
bool os_files_are_claimed(void);

enum {
    OS_KEPT_MAX = 16
};

/* Descriptors that are kept in reserve for files. */
struct os_kept {
    pthread_mutex_t mutex;
    int fds[OS_KEPT_MAX];
    uint32_t count;
    uint32_t max;
};

void os_kept_init(struct os_kept *kept, uint32_t max); /* Opens `max`, at most OS_KEPT_MAX. */
void os_kept_release(struct os_kept *kept);

/* Any thread. Closes a kept descriptor and calls openat; repeats both while openat fails for lack
 * of a descriptor and more descriptors are kept. Sets errno. */
int os_kept_openat(struct os_kept *kept, int dir_fd, const char *name, int flags, unsigned mode);

/* Any thread. Call it when a descriptor has become free: it opens kept descriptors again, up to
 * `max` of them. */
void os_kept_fill(struct os_kept *kept);

enum {
    OS_FILE_NAME_MAX = 255, /* Bytes of one part of a path. */
    OS_FILE_DEPTH_MAX = 16  /* Parts of a path. */
};

/*
 * Appends the contents of the regular file at `path` below `dir` ("a/b.js", without a slash in
 * front). Nothing outside of `dir` is reached: no part may be empty, "." or "..", and no symbolic
 * link below `dir` is followed. ERR_NOT_FOUND: there is no such file; ERR_TOO_LARGE: the file does
 * not fit into `out`; ERR_IO: the file cannot be read. Any thread; blocks.
 */
enum err os_file_read_below(const char *dir, struct slice path, struct buf *out);

#endif
