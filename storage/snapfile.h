/*
 * snapfile.h - the bytes of a snapshot file: head, configuration, checksummed blocks, trailer with
 * a hash of the whole.
 *
 * Nothing in the file depends on the disk on which it lies, so the file is sent to a learner as it
 * is. The trailer at the end has a fixed length, so a quick check finds it and reads head and
 * trailer only.
 */
#ifndef STORAGE_SNAPFILE_H
#define STORAGE_SNAPFILE_H

#include "base/buf.h"
#include "storage/store.h"

enum {
    SNAPFILE_VERSION = 1,
    SNAPFILE_CONFIG_MAX = 64 * 1024,
    SNAPFILE_PIECE = 1024 * 1024, /* Bytes written and synced at a time. */
    SNAPFILE_BLOCK_BASE = 4 * 1024 * 1024,
};

struct snapfile_info {
    struct store_snap_info shown;
    uint64_t end_chain; /* Chain value at shown.end. */
    uint8_t cluster[STORE_CLUSTER_LEN];
};

/* Returns the length of the longest block, given the longest record. */
static inline size_t snapfile_block_max(uint32_t record_bytes_max)
{
    return (size_t)SNAPFILE_BLOCK_BASE + record_bytes_max;
}

struct snapfile_writer {
    const struct vfs *vfs; /* Not owned. */
    struct vfs_file *file;
    struct buf pending; /* Bytes not yet written. */
    uint64_t offset;    /* Bytes written and synced. */
    uint64_t hash;      /* Hash of everything put so far. */
    uint64_t blocks;
    size_t block_max;
};

/* Makes the file and replaces a file of the same name. On error nothing stays open.
 * `record_bytes_max` bounds the blocks. ERR_NO_SPACE, ERR_NO_FILES, ERR_IO. */
enum err snapfile_create(struct snapfile_writer *writer, const struct vfs *vfs, const char *name,
                         uint32_t record_bytes_max);
enum err snapfile_put_head(struct snapfile_writer *writer, const struct snapfile_info *info,
                           struct slice config);
enum err snapfile_put_block(struct snapfile_writer *writer, struct slice block);
/* Writes the trailer from end, digest, node_count and end_chain of `info`; syncs. */
enum err snapfile_put_trailer(struct snapfile_writer *writer, const struct snapfile_info *info);
void snapfile_writer_close(struct snapfile_writer *writer);

struct snapfile_reader {
    const struct vfs *vfs; /* Not owned. */
    struct vfs_file *file;
    struct snapfile_info info;
    struct buf config;
    struct buf block;
    uint64_t offset; /* Offset of the next block. */
    uint64_t hash;
    uint64_t blocks;
    uint64_t blocks_told; /* Number of blocks that the trailer states. */
    uint64_t hash_told;
    size_t block_max;
};

/* Opens a file and checks head, size and trailer. `cached`: reads cached pages; if the file was
 * verified, they are safer than the disk, which may have rotted since. ERR_MISSING, ERR_NO_FILES,
 * ERR_CORRUPT (also when the file cannot be read); on error nothing stays open. */
enum err snapfile_open(struct snapfile_reader *reader, const struct vfs *vfs, const char *name,
                       uint32_t record_bytes_max, bool cached);

/* Returns the next block. ERR_MISSING: after the last block, and only if the hash of the whole is
 * right. ERR_CORRUPT. */
enum err snapfile_next(struct snapfile_reader *reader, struct slice *ret_block);
void snapfile_close(struct snapfile_reader *reader);

/* Reads the whole file from the disk and checks all of it. ERR_MISSING, ERR_NO_FILES,
 * ERR_CORRUPT. */
enum err snapfile_verify(const struct vfs *vfs, const char *name, uint32_t record_bytes_max,
                         struct snapfile_info *ret_info);

#endif
