/*
 * disk.h - files of a disk in memory as part of an input, written sparsely: a segment of the log is
 * mostly zeros, and a corpus should not be.
 *
 * A file: size u32, then runs (gap u16, length u16, bytes) up to one with both zero.
 */
#ifndef TESTS_FUZZ_DISK_H
#define TESTS_FUZZ_DISK_H

#include "base/buf.h"
#include "base/wire.h"
#include "tests/lib/vfs_mem.h"

enum {
    DISK_FILE_MAX = 128 * 1024 /* Longer files are cut. */
};

/* Makes the file from the next bytes; replaces one with that name. */
void disk_read_file(struct vfs_mem *disk, const char *name, struct wire_reader *reader);

/* Makes the file of `bytes`, followed by zeros up to `size`. */
void disk_make_file(struct vfs_mem *disk, const char *name, struct slice bytes, uint64_t size);

/* Appends the file in that form. */
void disk_write_file(const struct vfs_mem *disk, const char *name, struct buf *out);

/* Hash of all names, sizes and bytes. */
uint64_t disk_hash(const struct vfs_mem *disk);

/* The name of file `index` modulo their number, in sorted order; false on an empty disk. */
bool disk_name(const struct vfs_mem *disk, size_t index, char out[VFS_NAME_MAX]);

#endif
