/*
 * note_file.h - an optional file with one small value, beside the files of the store: `members`
 * and `removed`. A replica also starts without it, and an older release leaves it alone.
 *
 * Each call opens and closes the file. Any thread, but one writer at a time for each name.
 */
#ifndef STORAGE_NOTE_FILE_H
#define STORAGE_NOTE_FILE_H

#include "base/buf.h"
#include "storage/vfs.h"

#define NOTE_MEMBERS "members"
#define NOTE_REMOVED "removed"

enum {
    NOTE_FILE_MAX = 20 << 10 /* Bytes of a value. */
};

/* Makes the value durable under a temporary name, then renames the file. After an error the old
 * value is still there. */
enum err note_file_write(const struct vfs *vfs, const char *name, struct slice value);

/* Appends the value. ERR_MISSING: there is no such file. ERR_CORRUPT: it does not verify. */
enum err note_file_read(const struct vfs *vfs, const char *name, struct buf *out);

#endif
