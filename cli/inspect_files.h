/*
 * inspect_files.h - the directory of a stopped replica, for `zabra inspect` and `zabra recover`,
 * with a verdict on each of its files.
 *
 * storage/inspect.h reads each file. inspect_files.c compares the files: which segments the log
 * still uses, what a crash leaves in a sound directory, and what the next start would remove.
 * store_open gives the verdict on the whole directory.
 */
#ifndef CLI_INSPECT_FILES_H
#define CLI_INSPECT_FILES_H

#include "storage/inspect.h"
#include "storage/store.h"

enum {
    INSPECT_CLUSTER_MAX = 2 * STORE_CLUSTER_LEN + 1,
    INSPECT_TEXT_MAX = 200
};

struct inspect_file {
    char name[VFS_NAME_MAX];
    const char *kind;    /* "record", "segment", "snapshot" or "other". */
    const char *verdict; /* One word. */
    bool is_sound;
    char text[INSPECT_TEXT_MAX]; /* What the file holds, or what is wrong. */

    /* For a segment: its place in the log. */
    bool is_ours;
    bool is_valid;
    bool is_reached;
    struct walfmt_header header;
    uint64_t batches;
    uint64_t records;
    zxid_t last;
    uint64_t end;      /* End of the data that verifies. */
    const char *fault; /* What is wrong at `fault_offset`; NULL: nothing. */
    uint64_t fault_offset;
};

struct inspect_files {
    struct inspect_file *items;
    size_t count;
    size_t cap;
};

/* Opens and locks the directory of a stopped replica. Returns NULL, and the caller must call
 * vfs_posix_close() later; or returns the reason of the failure. */
const char *inspect_lock(const char *dir, struct vfs *vfs);

/* Opens the store of the directory; `ret_options` (or NULL) gets the options in use. */
enum err inspect_open(struct vfs vfs, bool read_only, struct store **ret_store,
                      struct store_report *ret_report, struct store_options *ret_options);

/* Writes the id of a cluster as hexadecimal digits. */
void inspect_cluster(const uint8_t cluster[STORE_CLUSTER_LEN], char text[INSPECT_CLUSTER_MAX]);

/* Reads every file of the directory. ERR_IO: the directory cannot be listed. */
enum err inspect_files_load(const struct store_options *options, const struct store_report *report,
                            struct inspect_files *ret_files);
void inspect_files_release(struct inspect_files *files);

/* Whether all files that the next start needs are there and undamaged. */
bool inspect_files_sound(const struct inspect_files *files);

#endif
