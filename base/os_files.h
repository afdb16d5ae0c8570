/*
 * os_files.h - the file descriptors of this process: how many it may have, and what happens when
 * they run out. Also whole small files of a directory that others may write to.
 *
 * Storage keeps a few descriptors back and gives them up for the file that it needs. Before the
 * file is open another thread could take the freed descriptor. So storage first makes a claim: a
 * thread that opens a descriptor for a client asks os_files_are_claimed *behind* the opening and
 * closes it again. Such a thread takes at most one descriptor that it does not keep, and storage
 * has more of them than there are such threads.
 */
#ifndef BASE_OS_FILES_H
#define BASE_OS_FILES_H

#include "base/buf.h"
#include "base/err.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    OS_FILES_MAX = 1 << 21,     /* No process needs more; libraries have tables of that size. */
    OS_FILES_CLAIM_MS = 1000,   /* How long a claim holds. */
    OS_FILES_UNKNOWN_OPEN = 64, /* For os_files_open without /proc. */
};

/* Raises the soft limit to the hard one, or to OS_FILES_MAX if that is less, and returns the limit
 * that holds now. At the start, before other threads run. */
uint64_t os_files_raise(void);

/* The limit that holds now; 0 when it is unknown. */
uint64_t os_files_max(void);

/* Descriptors that are open now; OS_FILES_UNKNOWN_OPEN when it is unknown. */
uint32_t os_files_open(void);

/* True for the error numbers that say that there is no descriptor left, in this process (EMFILE) or
 * in the machine (ENFILE). */
bool os_files_is_lack(int error);

/* Any thread. Storage needs a descriptor now: other threads close again what they open for clients.
 */
void os_files_claim(void);
bool os_files_are_claimed(void);

enum {
    OS_KEPT_MAX = 16
};

/* Descriptors that are kept back for files. */
struct os_kept {
    pthread_mutex_t mutex;
    int fds[OS_KEPT_MAX];
    uint32_t count;
    uint32_t max;
};

void os_kept_init(struct os_kept *kept, uint32_t max); /* `max` of them, at most OS_KEPT_MAX. */
void os_kept_release(struct os_kept *kept);

/* Any thread. openat that closes a kept descriptor when there is no other; sets errno. */
int os_kept_openat(struct os_kept *kept, int dir_fd, const char *name, int flags, unsigned mode);

/* Any thread. A descriptor has become free: fills up the kept ones. */
void os_kept_fill(struct os_kept *kept);

enum {
    OS_FILE_NAME_MAX = 255, /* Bytes of one part of a path. */
    OS_FILE_DEPTH_MAX = 16  /* Parts of a path. */
};

/*
 * Appends the regular file at `path` below `dir` ("a/b.js", without a slash in front). Nothing
 * outside of `dir` is reached: no part may be empty, "." or "..", and no symbolic link below `dir`
 * is followed. ERR_NOT_FOUND: there is none; ERR_TOO_LARGE: more than `out` takes; ERR_IO. Any
 * thread; blocks.
 */
enum err os_file_read_below(const char *dir, struct slice path, struct buf *out);

#endif
