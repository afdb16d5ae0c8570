/*
 * audit_file.h - the file of the audit log: append, rotation, and repair after a crash.
 *
 * The file is opened with O_APPEND and mode 0600, and locked, so that no two replicas write into
 * one file. Without a path the lines go to standard error, which can be neither locked nor read.
 * One thread uses a file at a time.
 */
#ifndef SERVER_AUDIT_FILE_H
#define SERVER_AUDIT_FILE_H

#include "base/err.h"
#include "server/audit/audit_line.h"

#include <sys/types.h>

enum {
    AUDIT_ERROR_MAX = 2048,        /* Bytes of an error text. */
    AUDIT_LOOK_BACK_MAX = 64 << 20 /* Bytes of the end of a file that are searched for a zxid. */
};

/* The calls of the system that may fail for lack of space; tests replace them. */
struct audit_system {
    ssize_t (*write)(void *ctx, int fd, const void *data, size_t len);
    int (*sync)(void *ctx, int fd);
    void *ctx;
};

/* The calls of the kernel. */
extern const struct audit_system audit_system_real;

struct audit_file {
    const char *path; /* NULL: standard error. */
    const struct audit_system *system;
    int fd;
    bool owns_fd; /* False: `fd` is that of standard error. */
    bool is_socket;
    uint64_t size;   /* Size after the last write, to notice that the file was cut. */
    uint64_t synced; /* So much of it is durable: its size at the opening or at the last sync. */
};

/* Checks that `path` can be the audit file: its directory exists and may be written, and if there
 * is a file, it is a regular file. Makes nothing. ERR_CONFIG, with a sentence in `error`. */
enum err audit_file_check(const char *path, char error[AUDIT_ERROR_MAX]);

/* Opens the file, and makes it if there is none. `path` (NULL: standard error) and `system` outlive
 * the file. ERR_CONFIG, with a sentence in `error`: it cannot be opened, or another process has it.
 */
enum err audit_file_open(struct audit_file *file, const char *path,
                         const struct audit_system *system, char error[AUDIT_ERROR_MAX]);
void audit_file_close(struct audit_file *file);

/* Appends bytes. `*ret_done` is their number also when an error follows: ERR_NO_SPACE, ERR_FULL
 * (the reader of standard error is slow) or ERR_IO. Never waits for a reader. */
enum err audit_file_write(struct audit_file *file, const void *data, size_t len, size_t *ret_done);

enum err audit_file_sync(struct audit_file *file); /* ERR_IO, ERR_NO_SPACE. */

enum audit_file_change {
    AUDIT_FILE_SAME,
    AUDIT_FILE_CUT, /* The file is shorter than it was: it was copied and truncated. */
    AUDIT_FILE_GONE /* The file has no name any more. */
};

/* Returns what has happened to the open file since the last write. */
enum audit_file_change audit_file_look(struct audit_file *file);

/* Whether the path now names another file than the open one, or none: it was renamed. */
bool audit_file_is_renamed(const struct audit_file *file);

/* Cuts the last `len` bytes off, the beginning of a line that could not be completed. Best effort.
 */
void audit_file_cut(struct audit_file *file, size_t len);

/* Cuts off what was written after the last sync. False: it cannot be cut off. */
bool audit_file_take_back(struct audit_file *file);

/* The end of a file, as a crash may have left it. */
struct audit_tail {
    bool has_zxid;
    zxid_t zxid; /* All up to here is recorded. */
    bool has_cluster;
    uint8_t cluster[AUDIT_CLUSTER_LEN]; /* Of the change that has the zxid. */
    uint64_t cut;                       /* Bytes that were cut off. */
};

/* Repairs the end of the file: cuts off a torn line, and the lines of a transaction of which not
 * all were written, so that they can be written again. Then looks for the last zxid, and for the
 * last line before it that names a cluster. ERR_FORMAT:
 * the file does not begin and end like an audit file, and is left as it is. ERR_IO. */
enum err audit_tail_read(struct audit_file *file, struct audit_tail *ret_tail);

#endif
