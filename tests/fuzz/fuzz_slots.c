/*
 * A small durable record: flags, a kind, then the file. The flags give a slot the right checksum. A
 * second implementation here judges the slots; an accepted record can be repaired and written.
 */
#include "base/crc32c.h"
#include "storage/slots.h"
#include "tests/fuzz/disk.h"
#include "tests/fuzz/fuzz.h"

enum {
    MAGIC = 0x544f4c5a,
    VERSION = 1,
    CRC_AT = 24,
    SEQ_AT = 16,
    LEN_AT = 12,
    KIND_AT = 8
};

static const char name[] = "record";

static uint32_t right_crc(const uint8_t *slot, unsigned index, uint32_t len)
{
    uint8_t seed[4];

    wire_store_u32(seed, index);

    uint32_t crc = crc32c(crc32c(0, seed, 4), slot, CRC_AT);

    return crc32c(crc, slot + CRC_AT + 4, SLOTS_HEAD - CRC_AT - 4 + len);
}

static void fix(struct vfs_mem *disk, unsigned index)
{
    uint8_t slot[VFS_BLOCK] = {0};
    uint8_t crc[4];
    uint64_t size = 0;
    uint64_t at = (uint64_t)index * VFS_BLOCK;
    bool found = vfs_mem_size(disk, name, &size);

    ASSERT(found);
    if (size < at + VFS_BLOCK) {
        return;
    }
    found = vfs_mem_read(disk, name, at, slot, VFS_BLOCK);
    ASSERT(found);

    uint32_t len = wire_load_u32(slot + LEN_AT);

    wire_store_u32(crc, right_crc(slot, index, len <= SLOTS_PAYLOAD_MAX ? len : 0));
    vfs_mem_poke(disk, name, at + CRC_AT, crc, sizeof(crc));
}

struct expected {
    bool valid;
    uint64_t seq;
    struct slice payload; /* Into `bytes`. */
    uint8_t bytes[VFS_BLOCK];
};

static void judge(const struct vfs_mem *disk, enum slots_kind kind, unsigned index,
                  struct expected *ret_expected)
{
    uint8_t *slot = ret_expected->bytes;
    uint64_t size = 0;
    bool found = vfs_mem_size(disk, name, &size);
    uint64_t at = (uint64_t)index * VFS_BLOCK;

    *ret_expected = (struct expected){.valid = false};
    if (!found || size < at + VFS_BLOCK || !vfs_mem_read(disk, name, at, slot, VFS_BLOCK)) {
        return;
    }

    uint32_t len = wire_load_u32(slot + LEN_AT);

    ret_expected->seq = wire_load_u64(slot + SEQ_AT);
    ret_expected->valid = wire_load_u32(slot) == MAGIC && wire_load_u32(slot + 4) == VERSION &&
                          wire_load_u32(slot + KIND_AT) == (uint32_t)kind &&
                          len <= SLOTS_PAYLOAD_MAX && ret_expected->seq > 0 &&
                          wire_load_u32(slot + CRC_AT) == right_crc(slot, index, len);
    ret_expected->payload = slice_make(slot + SLOTS_HEAD, ret_expected->valid ? len : 0);
}

static struct slice payload_of(const struct slots *slots)
{
    return slice_make(slots->payload, slots->len);
}

/* An opened record can be repaired and replaced. */
static void check_usable(struct slots *slots, const struct vfs *vfs, enum slots_kind kind)
{
    static struct slots again;
    struct slice other = slice_str("another value");
    enum err err = slots_heal(slots, vfs);

    ASSERT(err == ERR_OK);
    err = slots_open(&again, vfs, name, kind);
    ASSERT(err == ERR_OK && !again.has_bad_slot && !again.has_old_slot);
    ASSERT(again.seq == slots->seq && slice_eq(payload_of(&again), payload_of(slots)));
    if (again.seq < UINT64_MAX) {
        err = slots_write(&again, vfs, other);
        ASSERT(err == ERR_OK);
        slots_close(&again, vfs);
        err = slots_open(&again, vfs, name, kind);
        ASSERT(err == ERR_OK && slice_eq(payload_of(&again), other) && !again.has_bad_slot);
    }
    slots_close(&again, vfs);
}

static bool fuzz_one(struct slice input)
{
    struct vfs_mem *disk = vfs_mem_new(0);
    struct vfs vfs = vfs_mem_vfs(disk);
    struct wire_reader reader;
    static struct expected expected[SLOTS_COUNT]; /* Too large for the stack, as the next one. */
    static struct slots slots;

    wire_reader_init(&reader, input);

    unsigned flags = wire_get_u8(&reader);
    enum slots_kind kind = (enum slots_kind)(SLOTS_IDENTITY + wire_get_u8(&reader) % 4);

    disk_read_file(disk, name, &reader);
    for (unsigned i = 0; i < SLOTS_COUNT; i++) {
        if (flags >> i & 1U) {
            fix(disk, i);
        }
        judge(disk, kind, i, &expected[i]);
    }

    enum err err = slots_open(&slots, &vfs, name, kind);

    for (unsigned i = 0; i < SLOTS_COUNT; i++) {
        struct slots_view view = slots_look(&vfs, slots.file, kind, i);

        ASSERT(view.valid == expected[i].valid);
        ASSERT(!view.valid || view.seq == expected[i].seq);
    }
    if (err == ERR_OK) {
        const struct expected *newest = &expected[slots.newest];
        const struct expected *other = &expected[1 - slots.newest];

        ASSERT(newest->valid && slots.seq == newest->seq);
        ASSERT(slice_eq(payload_of(&slots), newest->payload));
        ASSERT(!other->valid || other->seq <= newest->seq);
        ASSERT(slots.has_bad_slot == !other->valid);
        check_usable(&slots, &vfs, kind);
    } else {
        ASSERT(err == ERR_CORRUPT && !expected[0].valid && !expected[1].valid);
    }
    slots_close(&slots, &vfs);
    vfs_mem_free(disk);
    return err == ERR_OK;
}

static void seed_slots(struct fuzz_sink *sink, const char *seed, uint8_t flags, bool written)
{
    struct vfs_mem *disk = vfs_mem_new(0);
    struct vfs vfs = vfs_mem_vfs(disk);
    struct slots slots;
    struct buf bytes;
    enum err err = slots_create(&vfs, name, SLOTS_PROMISE, slice_str("a promise"));

    ASSERT(err == ERR_OK);
    if (written) {
        err = slots_open(&slots, &vfs, name, SLOTS_PROMISE);
        ASSERT(err == ERR_OK);
        err = slots_write(&slots, &vfs, slice_str("another promise"));
        ASSERT(err == ERR_OK);
        slots_close(&slots, &vfs);
    }
    buf_init(&bytes, FUZZ_INPUT_MAX);
    wire_put_u8(&bytes, flags);
    wire_put_u8(&bytes, SLOTS_PROMISE - SLOTS_IDENTITY);
    disk_write_file(disk, name, &bytes);
    fuzz_seed(sink, seed, buf_slice(&bytes));
    buf_release(&bytes);
    vfs_mem_free(disk);
}

static void fuzz_seeds(struct fuzz_sink *sink)
{
    seed_slots(sink, "created", 0, false);
    seed_slots(sink, "written", 0, true);
    seed_slots(sink, "fix-both", 3, true);
    seed_slots(sink, "fix-second", 2, true);
}

FUZZ_TARGET(slots)
