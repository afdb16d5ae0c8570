#include "storage/slots.h"

#include "base/check.h"
#include "base/crc32c.h"
#include "base/probe.h"
#include "base/wire.h"

#include <stdio.h>

enum {
    SLOT_MAGIC = 0x544f4c5a, /* "ZLOT" */
    SLOT_VERSION = 1,
    SLOT_CRC_AT = 24,
};

/* Returns the checksum of a slot. The head is: magic, version, kind, length, sequence, checksum,
 * zero. The checksum covers the other words of the head, the payload and the slot's index, so that
 * slot 0 copied over slot 1 does not verify. */
static uint32_t slot_crc(const uint8_t *slot, unsigned index, uint32_t len)
{
    uint8_t seed[4];

    wire_store_u32(seed, index);

    uint32_t crc = crc32c(0, seed, sizeof(seed));

    crc = crc32c(crc, slot, SLOT_CRC_AT);
    return crc32c(crc, slot + SLOT_CRC_AT + 4, SLOTS_HEAD - SLOT_CRC_AT - 4 + len);
}

static void slot_encode(uint8_t out[VFS_BLOCK], enum slots_kind kind, unsigned index, uint64_t seq,
                        struct slice payload)
{
    ASSERT(payload.len <= SLOTS_PAYLOAD_MAX);

    memset(out, 0, VFS_BLOCK);
    wire_store_u32(out, SLOT_MAGIC);
    wire_store_u32(out + 4, SLOT_VERSION);
    wire_store_u32(out + 8, (uint32_t)kind);
    wire_store_u32(out + 12, (uint32_t)payload.len);
    wire_store_u64(out + 16, seq);
    if (payload.len > 0) {
        memcpy(out + SLOTS_HEAD, payload.data, payload.len);
    }
    wire_store_u32(out + SLOT_CRC_AT, slot_crc(out, index, (uint32_t)payload.len));
}

static bool slot_is_valid(const uint8_t slot[VFS_BLOCK], enum slots_kind kind, unsigned index)
{
    uint32_t len = wire_load_u32(slot + 12);

    /* Sequences start at 1. */
    return wire_load_u32(slot) == SLOT_MAGIC && wire_load_u32(slot + 4) == SLOT_VERSION &&
           wire_load_u32(slot + 8) == (uint32_t)kind && len <= SLOTS_PAYLOAD_MAX &&
           wire_load_u64(slot + 16) > 0 &&
           wire_load_u32(slot + SLOT_CRC_AT) == slot_crc(slot, index, len);
}

/* Reads a slot. Returns false for a bad slot; a slot that cannot be read counts as bad. */
static bool slot_load(const struct vfs *vfs, struct vfs_file *file, enum slots_kind kind,
                      unsigned index, uint8_t out[VFS_BLOCK])
{
    size_t len = 0;
    enum err err = vfs->ops->pread(file, (uint64_t)index * VFS_BLOCK, out, VFS_BLOCK, &len);

    return err == ERR_OK && len == VFS_BLOCK && slot_is_valid(out, kind, index);
}

struct slots_view slots_look(const struct vfs *vfs, struct vfs_file *file, enum slots_kind kind,
                             unsigned index)
{
    uint8_t slot[VFS_BLOCK];

    ASSERT(index < SLOTS_COUNT);
    if (!slot_load(vfs, file, kind, index, slot)) {
        return (struct slots_view){0};
    }
    return (struct slots_view){.valid = true, .seq = wire_load_u64(slot + 16)};
}

static enum err slot_store(const struct slots *slots, const struct vfs *vfs, unsigned index,
                           const uint8_t bytes[VFS_BLOCK])
{
    uint8_t back[VFS_BLOCK];
    size_t len = 0;
    uint64_t offset = (uint64_t)index * VFS_BLOCK;
    enum err err = vfs->ops->pwrite(slots->file, offset, bytes, VFS_BLOCK);
    bool is_unsynced_mutant = MUTANT(13) && slots->kind == SLOTS_PROMISE;

    if (err == ERR_OK && !is_unsynced_mutant) {
        err = vfs->ops->sync(slots->file);
    }
    if (err == ERR_OK) {
        vfs->ops->drop_cache(slots->file);
        err = vfs->ops->pread(slots->file, offset, back, VFS_BLOCK, &len);
    }
    if (err == ERR_OK && (len != VFS_BLOCK || memcmp(back, bytes, VFS_BLOCK) != 0)) {
        err = ERR_IO;
    }
    return err;
}

enum err slots_create(const struct vfs *vfs, const char *name, enum slots_kind kind,
                      struct slice payload)
{
    char temp[VFS_NAME_MAX];
    uint8_t bytes[VFS_BLOCK];
    struct vfs_file *file = NULL;
    int put = snprintf(temp, sizeof(temp), "%s.tmp", name);

    ASSERT(put > 0 && put < (int)sizeof(temp));

    enum err err = vfs_replace(vfs, temp, &file);

    for (unsigned i = 0; err == ERR_OK && i < SLOTS_COUNT; i++) {
        slot_encode(bytes, kind, i, 1, payload);
        err = vfs->ops->pwrite(file, (uint64_t)i * VFS_BLOCK, bytes, VFS_BLOCK);
    }
    THEN(err, vfs->ops->sync(file));
    if (file) {
        vfs->ops->close(file);
    }
    return err == ERR_OK ? vfs->ops->rename(vfs->ctx, temp, name) : err;
}

enum err slots_open(struct slots *slots, const struct vfs *vfs, const char *name,
                    enum slots_kind kind)
{
    uint8_t bytes[SLOTS_COUNT][VFS_BLOCK];
    bool valid[SLOTS_COUNT];

    *slots = (struct slots){.kind = kind};

    enum err err = vfs->ops->open(vfs->ctx, name, false, &slots->file);

    if (err != ERR_OK) {
        return err;
    }
    vfs->ops->drop_cache(slots->file);
    for (unsigned i = 0; i < SLOTS_COUNT; i++) {
        valid[i] = slot_load(vfs, slots->file, kind, i, bytes[i]);
    }
    slots->has_bad_slot = !valid[0] || !valid[1];
    if (!valid[0] && !valid[1]) {
        PROBE("storage.slots_both_bad");
        return ERR_CORRUPT;
    }

    uint64_t seq[SLOTS_COUNT] = {wire_load_u64(bytes[0] + 16), wire_load_u64(bytes[1] + 16)};

    slots->newest = !valid[0] || (valid[1] && seq[1] > seq[0]) ? 1 : 0;
    slots->has_old_slot = !slots->has_bad_slot && seq[0] != seq[1];
    slots->seq = seq[slots->newest];
    slots->len = wire_load_u32(bytes[slots->newest] + 12);
    memcpy(slots->payload, bytes[slots->newest] + SLOTS_HEAD, slots->len);
    return ERR_OK;
}

void slots_close(struct slots *slots, const struct vfs *vfs)
{
    if (slots->file) {
        vfs->ops->close(slots->file);
    }
    *slots = (struct slots){0};
}

enum err slots_write(struct slots *slots, const struct vfs *vfs, struct slice payload)
{
    uint8_t bytes[VFS_BLOCK];

    ASSERT(slots->file && payload.len <= SLOTS_PAYLOAD_MAX);

    /* The slot with the newest value is written last, because the other slot may be bad or older: a
     * crash during the first write then leaves the only copy intact. */
    unsigned order[SLOTS_COUNT] = {1 - slots->newest, slots->newest};

    slots->seq++;
    slots->len = (uint32_t)payload.len;
    if (payload.len > 0) {
        memmove(slots->payload, payload.data, payload.len);
    }
    for (unsigned i = 0; i < SLOTS_COUNT; i++) {
        slot_encode(bytes, slots->kind, order[i], slots->seq,
                    slice_make(slots->payload, slots->len));

        enum err err = slot_store(slots, vfs, order[i], bytes);

        if (err != ERR_OK) {
            /* The file's space is allocated already, so a lack of space is an I/O error here. */
            return ERR_IO;
        }
    }
    slots->newest = order[0];
    slots->has_bad_slot = false;
    slots->has_old_slot = false;
    return ERR_OK;
}

enum err slots_put(struct slots *slots, const struct vfs *vfs, const char *name,
                   enum slots_kind kind, struct buf *take_payload)
{
    struct slice payload = buf_slice(take_payload);
    enum err err =
        slots->file ? slots_write(slots, vfs, payload) : slots_create(vfs, name, kind, payload);

    buf_release(take_payload);
    if (err == ERR_OK && !slots->file) {
        err = vfs->ops->sync_dir(vfs->ctx);
        THEN(err, slots_open(slots, vfs, name, kind));
    }
    return err;
}

enum err slots_heal(struct slots *slots, const struct vfs *vfs)
{
    uint8_t bytes[VFS_BLOCK];

    ASSERT(slots->file && slots->seq > 0);
    if (!slots->has_bad_slot && !slots->has_old_slot) {
        return ERR_OK;
    }
    PROBE("storage.slots_healed");
    slot_encode(bytes, slots->kind, 1 - slots->newest, slots->seq,
                slice_make(slots->payload, slots->len));

    enum err err = slot_store(slots, vfs, 1 - slots->newest, bytes);

    if (err == ERR_OK) {
        slots->has_bad_slot = false;
        slots->has_old_slot = false;
    }
    return err;
}
