/*
 * slots.h - a small durable record in a file of two slots: identity, promise, quarantine, manifest.
 *
 * Each change is written to both slots, one after the other, each synced and read back. A crash
 * damages at most the slot being written. Because no change is reported before both slots hold it,
 * rot in one slot can never bring an older value back.
 *
 * The callers make sure that one thread at a time uses a record.
 */
#ifndef STORAGE_SLOTS_H
#define STORAGE_SLOTS_H

#include "base/buf.h"
#include "storage/vfs.h"

enum {
    SLOTS_HEAD = 32,
    SLOTS_PAYLOAD_MAX = VFS_BLOCK - SLOTS_HEAD,
    SLOTS_COUNT = 2,
    SLOTS_FILE_BYTES = SLOTS_COUNT * VFS_BLOCK,
};

/* Kind of the record, written into each slot: a file under the wrong name does not verify. Never
 * renumber. */
enum slots_kind {
    SLOTS_IDENTITY = 1,
    SLOTS_PROMISE = 2,
    SLOTS_QUARANTINE = 3,
    SLOTS_MANIFEST = 4,
};

struct slots {
    struct vfs_file *file; /* NULL when not open. */
    enum slots_kind kind;
    uint64_t seq;      /* Sequence number of the newest valid slot. */
    unsigned newest;   /* Index of the newest valid slot. */
    bool has_bad_slot; /* The other slot does not verify. */
    bool has_old_slot; /* The other slot holds an older value, from a crash between two writes. */
    uint32_t len;      /* Length of the newest payload. */
    uint8_t payload[SLOTS_PAYLOAD_MAX]; /* The newest value. */
};

/* One of the two slots as it is on the disk, for inspection. */
struct slots_view {
    bool valid;
    uint64_t seq;
};

/* Makes the file with both slots under a temporary name and renames it. An older file of that name
 * is replaced. The caller syncs the directory. */
enum err slots_create(const struct vfs *vfs, const char *name, enum slots_kind kind,
                      struct slice payload);

/* Opens and reads the record. ERR_MISSING: no such file. ERR_CORRUPT: neither slot verifies, but
 * `slots` is open all the same. ERR_IO. */
enum err slots_open(struct slots *slots, const struct vfs *vfs, const char *name,
                    enum slots_kind kind);
void slots_close(struct slots *slots, const struct vfs *vfs);

/* Makes a new value durable in both slots. After an error the process must end. */
enum err slots_write(struct slots *slots, const struct vfs *vfs, struct slice payload);

/* Like slots_write. If the file is not open, makes it durably and opens it. */
enum err slots_put(struct slots *slots, const struct vfs *vfs, const char *name,
                   enum slots_kind kind, struct buf *take_payload);

/* Writes the newest value over a bad or older slot, if there is such a slot. */
enum err slots_heal(struct slots *slots, const struct vfs *vfs);

/* Reads slot `index` alone, for inspection. */
struct slots_view slots_look(const struct vfs *vfs, struct vfs_file *file, enum slots_kind kind,
                             unsigned index);

#endif
