#include "storage/slots.h"
#include "tests/lib/unit.h"
#include "tests/lib/vfs_mem.h"

#include <string.h>

struct fixture {
    struct vfs_mem *disk;
    struct vfs vfs;
    struct slots slots;
};

static void make(struct fixture *f)
{
    f->disk = vfs_mem_new(0);
    f->vfs = vfs_mem_vfs(f->disk);
    assert_int_equal(slots_create(&f->vfs, "x", SLOTS_PROMISE, slice_str("one")), ERR_OK);
    assert_int_equal(f->vfs.ops->sync_dir(f->vfs.ctx), ERR_OK);
    assert_int_equal(slots_open(&f->slots, &f->vfs, "x", SLOTS_PROMISE), ERR_OK);
}

static void release(struct fixture *f)
{
    slots_close(&f->slots, &f->vfs);
    vfs_mem_free(f->disk);
}

static void reopen(struct fixture *f, enum err expected)
{
    slots_close(&f->slots, &f->vfs);
    assert_int_equal(slots_open(&f->slots, &f->vfs, "x", SLOTS_PROMISE), expected);
}

static void expect(const struct fixture *f, const char *text)
{
    assert_true(slice_eq(slice_make(f->slots.payload, f->slots.len), slice_str(text)));
}

TEST(the_newest_value_is_read, fixture, make, release)
{
    expect(fixture, "one");
    assert_int_equal(slots_write(&fixture->slots, &fixture->vfs, slice_str("second")), ERR_OK);
    assert_int_equal(slots_write(&fixture->slots, &fixture->vfs, slice_str("")), ERR_OK);
    assert_int_equal(slots_write(&fixture->slots, &fixture->vfs, slice_str("fourth")), ERR_OK);
    reopen(fixture, ERR_OK);
    expect(fixture, "fourth");
    assert_int_equal(fixture->slots.seq, 4);
    assert_false(fixture->slots.has_bad_slot);
    assert_false(fixture->slots.has_old_slot);
}

/* A damaged sector in either slot never brings back an older value: both hold the newest. */
TEST(damage_in_one_slot_loses_nothing)
{
    for (uint64_t slot = 0; slot < SLOTS_COUNT; slot++) {
        struct fixture f = {0};

        make(&f);
        assert_int_equal(slots_write(&f.slots, &f.vfs, slice_str("new")), ERR_OK);
        vfs_mem_flip(f.disk, "x", slot * VFS_BLOCK + 33, 2);
        reopen(&f, ERR_OK);
        expect(&f, "new");
        assert_true(f.slots.has_bad_slot);
        assert_int_equal(slots_heal(&f.slots, &f.vfs), ERR_OK);
        vfs_mem_flip(f.disk, "x", (1 - slot) * VFS_BLOCK + 33, 2);
        reopen(&f, ERR_OK);
        expect(&f, "new");
        release(&f);
    }
}

static void check_flip(struct fixture *f, uint64_t slot, uint64_t at, unsigned bit, bool noticed)
{
    vfs_mem_flip(f->disk, "x", slot * VFS_BLOCK + at, (uint8_t)(1U << bit));
    reopen(f, ERR_OK);
    expect(f, "new");
    if (f->slots.has_bad_slot != noticed) {
        fail_msg("bit %u of byte %d in slot %d", bit, (int)at, (int)slot);
    }
    vfs_mem_flip(f->disk, "x", slot * VFS_BLOCK + at, (uint8_t)(1U << bit));
}

/* The checksum covers the head and the value. The zeros after it mean nothing, and the next value
 * overwrites them. */
TEST(flipped_bits_are_noticed_except_after_the_value, fixture, make, release)
{
    const uint64_t used = SLOTS_HEAD + strlen("new");
    uint8_t byte = 0xff;

    assert_int_equal(slots_write(&fixture->slots, &fixture->vfs, slice_str("new")), ERR_OK);
    for (uint64_t slot = 0; slot < SLOTS_COUNT; slot++) {
        for (uint64_t at = 0; at < used; at++) {
            for (unsigned bit = 0; bit < 8; bit++) {
                check_flip(fixture, slot, at, bit, true);
            }
        }
        for (uint64_t at = used; at < VFS_BLOCK; at++) {
            check_flip(fixture, slot, at, (unsigned)(at % 8), false);
        }
    }
    vfs_mem_flip(fixture->disk, "x", VFS_BLOCK - 1, 1);
    reopen(fixture, ERR_OK);
    assert_int_equal(slots_write(&fixture->slots, &fixture->vfs, slice_str("next")), ERR_OK);
    assert_true(vfs_mem_read(fixture->disk, "x", VFS_BLOCK - 1, &byte, 1));
    assert_int_equal(byte, 0);
}

TEST(both_slots_bad_is_corrupt, fixture, make, release)
{
    vfs_mem_flip(fixture->disk, "x", 1, 2);
    vfs_mem_flip(fixture->disk, "x", VFS_BLOCK + 1, 2);
    reopen(fixture, ERR_CORRUPT);
    assert_int_equal(slots_write(&fixture->slots, &fixture->vfs, slice_str("newer")), ERR_OK);
    reopen(fixture, ERR_OK);
    expect(fixture, "newer");
}

TEST(wrong_kind_does_not_verify, fixture, make, release)
{
    slots_close(&fixture->slots, &fixture->vfs);
    assert_int_equal(slots_open(&fixture->slots, &fixture->vfs, "x", SLOTS_MANIFEST), ERR_CORRUPT);
}

/* A misdirected write of slot 0 over slot 1 must not pass for slot 1. */
TEST(misplaced_slot_does_not_verify, fixture, make, release)
{
    uint8_t block[VFS_BLOCK];

    assert_true(vfs_mem_read(fixture->disk, "x", 0, block, sizeof(block)));
    vfs_mem_poke(fixture->disk, "x", VFS_BLOCK, block, sizeof(block));
    reopen(fixture, ERR_OK);
    assert_true(fixture->slots.has_bad_slot);
}

/* A crash at any call of a change leaves the old or the new value, never neither. */
TEST(a_crash_in_a_change_leaves_the_old_or_the_new_value)
{
    struct rng rng;

    rng_init(&rng, 3);
    for (uint64_t call = 1; call <= 6; call++) {
        for (int seed = 0; seed < 40; seed++) {
            struct fixture f = {0};

            make(&f);
            vfs_mem_crash_at(f.disk, vfs_mem_calls(f.disk) + call);
            assert_int_equal(slots_write(&f.slots, &f.vfs, slice_str("two")), ERR_IO);
            vfs_mem_crash(f.disk, &rng, VFS_MEM_TORN);
            reopen(&f, ERR_OK);
            if (f.slots.seq == 1) {
                expect(&f, "one");
                assert_true(call <= 2);
            } else {
                expect(&f, "two");
            }
            release(&f);
        }
    }
}

TEST(missing_file_is_missing, fixture, make, release)
{
    slots_close(&fixture->slots, &fixture->vfs);
    assert_int_equal(slots_open(&fixture->slots, &fixture->vfs, "y", SLOTS_PROMISE), ERR_MISSING);
}
