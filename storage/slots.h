/*
 * slots.h - a small durable record in a file of two slots: identity, promise, quarantine, manifest.
 *
 * Each change is written to both slots, one after the other, each synced and read back. A crash
 * damages at most the slot being written; and because no change is reported before both hold it,
 * rot in one slot can never bring an older value back.
 *
 * One thread at a time; the callers see to that.
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

/* Written into each slot: a file under the wrong name does not verify. Never renumber. */
enum slots_kind {
    SLOTS_IDENTITY = 1,
    SLOTS_PROMISE = 2,
    SLOTS_QUARANTINE = 3,
    SLOTS_MANIFEST = 4,
};

struct slots {
    struct vfs_file *file; /* NULL when not open. */
    enum slots_kind kind;
    uint64_t seq;      /* Of the newest valid slot. */
    unsigned newest;   /* Its index. */
    bool has_bad_slot; /* The other one does not verify. */
    bool has_old_slot; /* The other one holds an older value: a crash between the two writes. */
    uint32_t len;      /* Of the newest payload. */
    uint8_t payload[SLOTS_PAYLOAD_MAX]; /* The newest value. */
};

/* The two slots as they lie there, for inspection. */
struct slots_view {
    bool valid;
    uint64_t seq;
};

/* Makes the file with both slots under a temporary name and renames it; an older file of the name
 * is replaced. The caller syncs the directory. */
enum err slots_create(const struct vfs *vfs, const char *name, enum slots_kind kind,
                      struct slice payload);

/* Opens and reads. ERR_MISSING: no such file; ERR_CORRUPT: neither slot verifies (`slots` is open
 * all the same); ERR_IO. */
enum err slots_open(struct slots *slots, const struct vfs *vfs, const char *name,
                    enum slots_kind kind);
void slots_close(struct slots *slots, const struct vfs *vfs);

/* Makes a new value durable in both slots. Any error is final. */
enum err slots_write(struct slots *slots, const struct vfs *vfs, struct slice payload);

/* The same, but makes the file, durably, and opens it when it is not open. */
enum err slots_put(struct slots *slots, const struct vfs *vfs, const char *name,
                   enum slots_kind kind, struct buf *take_payload);

/* Writes the newest value over a bad or older slot, if there is one. */
enum err slots_heal(struct slots *slots, const struct vfs *vfs);

/* Looks at slot `index` alone. */
struct slots_view slots_look(const struct vfs *vfs, struct vfs_file *file, enum slots_kind kind,
                             unsigned index);

#endif
