/* Damage at every byte: it is named, never taken for good data and never for a torn write. */
#include "base/mem.h"
#include "storage/walfmt.h"
#include "tests/lib/store_kit.h"
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#define SEGMENT_1 "wal-00000001-0000000000000001"
#define SEGMENT_2 "wal-00000001-0000000000000002"

enum {
    SMALL_SEGMENT = 4 * VFS_BLOCK
};

static void ready(struct skit *kit, uint64_t segment_bytes)
{
    skit_init(kit, segment_bytes);
    assert_int_equal(skit_open(kit), ERR_OK);
    assert_int_equal(skit_format(kit), ERR_OK);
}

/* Two segments: a full one, and one with a batch and zeros behind it. */
static void two_segments(struct skit *kit)
{
    uint64_t size = 0;

    ready(kit, SMALL_SEGMENT);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(skit_append(kit, 1, 3, 500), ERR_OK);
    }
    skit_close(kit, false);
    assert_true(vfs_mem_size(kit->disk, SEGMENT_2, &size));
    assert_int_equal(size, SMALL_SEGMENT);
}

static void every_flipped_bit_in_the_log_is_damage(void **state)
{
    static const char *const names[] = {SEGMENT_1, SEGMENT_2};
    struct skit kit;

    (void)state;
    two_segments(&kit);
    for (size_t i = 0; i < 2; i++) {
        for (uint64_t at = 0; at < SMALL_SEGMENT; at++) {
            uint8_t mask = (uint8_t)(1U << at % 8);

            vfs_mem_flip(kit.disk, names[i], at, mask);
            assert_int_equal(skit_open(&kit), ERR_OK);
            assert_int_equal(kit.report.verdict, STORE_DAMAGED);
            assert_false(kit.report.is_lost);
            skit_close(&kit, false);
            vfs_mem_flip(kit.disk, names[i], at, mask);
        }
    }
    /* Nothing was changed by looking at it. */
    assert_int_equal(skit_open(&kit), ERR_OK);
    assert_int_equal(kit.report.verdict, STORE_CLEAN);
    assert_int_equal(skit_check_log(&kit), 12);
    skit_release(&kit);
}

static void log_cut_at_every_byte_is_damage(void **state)
{
    struct skit kit;
    uint8_t *bytes = mem_zalloc(SMALL_SEGMENT, 1);

    (void)state;
    two_segments(&kit);
    assert_true(vfs_mem_read(kit.disk, SEGMENT_2, 0, bytes, SMALL_SEGMENT));
    for (uint64_t size = 0; size < SMALL_SEGMENT; size++) {
        struct skit copy = {.disk = vfs_mem_clone(kit.disk), .options = kit.options};

        copy.options.vfs = vfs_mem_vfs(copy.disk);
        vfs_mem_cut(copy.disk, SEGMENT_2, size);
        assert_int_equal(skit_open(&copy), ERR_OK);
        assert_int_equal(copy.report.verdict, STORE_DAMAGED);
        skit_release(&copy);
    }
    mem_free(bytes);
    skit_release(&kit);
}

/* Leaves the last batch of `kit` half written: of its sectors only those in `kept` are there. */
static void tear_last_batch(struct skit *kit, uint64_t offset, uint32_t kept)
{
    static const uint8_t zeros[VFS_SECTOR];

    for (uint32_t i = 0; i < WALFMT_BLOCK_SECTORS; i++) {
        if ((kept >> i & 1U) == 0) {
            vfs_mem_poke(kit->disk, SEGMENT_1, offset + (uint64_t)i * VFS_SECTOR, zeros,
                         VFS_SECTOR);
        }
    }
}

static struct skit copy_of(const struct skit *kit)
{
    struct skit copy = {.disk = vfs_mem_clone(kit->disk), .options = kit->options};

    copy.options.vfs = vfs_mem_vfs(copy.disk);
    return copy;
}

/* A batch of which any sectors are missing is cut off, and the log goes on behind it. */
static void every_torn_batch_is_cut_off(void **state)
{
    struct skit kit;
    const uint64_t offset = UINT64_C(3) * VFS_BLOCK;

    (void)state;
    ready(&kit, KIT_SEGMENT);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(skit_append(&kit, 1, 3, 1000), ERR_OK);
    }
    skit_close(&kit, false);
    for (uint32_t kept = 0; kept < 256; kept++) {
        struct skit copy = copy_of(&kit);
        long left = kept == 255 ? 9 : 6;

        tear_last_batch(&copy, offset, kept);
        assert_int_equal(skit_open(&copy), ERR_OK);
        assert_int_equal(copy.report.verdict,
                         kept == 255 || kept == 0 ? STORE_CLEAN : STORE_TORN_TAIL);
        assert_true(kept == 0 || kept == 255 || copy.report.torn_bytes > 0);
        assert_int_equal(skit_match_log(&copy, &kit.log), left);
        skit_close(&copy, false);
        assert_int_equal(skit_open(&copy), ERR_OK);
        assert_int_equal(copy.report.verdict, STORE_CLEAN);
        assert_int_equal(skit_match_log(&copy, &kit.log), left);
        skit_release(&copy);
    }
    skit_release(&kit);
}

static void torn_batch_after_a_clean_stop_is_damage(void **state)
{
    struct skit kit;

    (void)state;
    ready(&kit, KIT_SEGMENT);
    assert_int_equal(skit_append(&kit, 1, 3, 1000), ERR_OK);
    assert_int_equal(skit_append(&kit, 1, 3, 1000), ERR_OK);
    skit_close(&kit, true);
    for (uint32_t kept = 0; kept < 255; kept += 9) {
        struct skit copy = copy_of(&kit);

        tear_last_batch(&copy, UINT64_C(2) * VFS_BLOCK, kept);
        assert_int_equal(skit_open(&copy), ERR_OK);
        assert_int_equal(copy.report.verdict, STORE_DAMAGED);
        assert_non_null(strstr(copy.report.reason, "closed cleanly"));
        skit_release(&copy);
    }
    skit_release(&kit);
}

/* Rot in a batch that was torn anyway may be either; the records must never come back. */
static void rot_in_a_torn_batch_never_gives_records(void **state)
{
    struct skit kit;

    (void)state;
    ready(&kit, SMALL_SEGMENT);
    assert_int_equal(skit_append(&kit, 1, 3, 500), ERR_OK);
    assert_int_equal(skit_append(&kit, 1, 3, 1000), ERR_OK);
    skit_close(&kit, false);
    tear_last_batch(&kit, UINT64_C(2) * VFS_BLOCK, 0x2b);
    for (uint64_t at = UINT64_C(2) * VFS_BLOCK; at < UINT64_C(3) * VFS_BLOCK; at++) {
        struct skit copy = copy_of(&kit);

        vfs_mem_flip(copy.disk, SEGMENT_1, at, 32);
        assert_int_equal(skit_open(&copy), ERR_OK);
        assert_true(
            copy.report.verdict == STORE_DAMAGED ||
            (copy.report.verdict == STORE_TORN_TAIL && skit_match_log(&copy, &kit.log) == 3));
        skit_release(&copy);
    }
    skit_release(&kit);
}

static void missing_segment_is_damage(void **state)
{
    static const char *const names[] = {SEGMENT_1, SEGMENT_2};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct skit kit;

        two_segments(&kit);
        vfs_mem_remove(kit.disk, names[i]);
        assert_int_equal(skit_open(&kit), ERR_OK);
        assert_int_equal(kit.report.verdict, STORE_DAMAGED);
        assert_non_null(strstr(kit.report.reason, "missing"));
        skit_release(&kit);
    }
}

static void one_damaged_slot_is_survived_and_told(void **state)
{
    static const char *const names[] = {"identity", "promise", "quarantine", "manifest"};
    struct skit kit;
    struct store_op promise = {.type = STORE_PROMISE, .epoch = 9, .leader = 1};

    (void)state;
    two_segments(&kit);
    assert_int_equal(skit_open(&kit), ERR_OK);
    assert_int_equal(skit_run(&kit, &promise), ERR_OK);
    skit_close(&kit, false);
    for (size_t i = 0; i < 4; i++) {
        for (uint64_t at = 0; at < UINT64_C(2) * VFS_BLOCK; at += 7) {
            struct skit copy = copy_of(&kit);

            vfs_mem_flip(copy.disk, names[i], at, 64);
            assert_int_equal(skit_open(&copy), ERR_OK);
            assert_int_equal(copy.report.verdict, STORE_CLEAN);
            assert_int_equal(copy.report.promised_epoch, 9);
            assert_int_equal(copy.report.identity.incarnation, 77);
            assert_true(at % VFS_BLOCK >= 32 || copy.report.one_slot_bad);
            skit_close(&copy, false);
            /* Healed by the opening. */
            assert_int_equal(skit_open(&copy), ERR_OK);
            assert_false(copy.report.one_slot_bad);
            skit_release(&copy);
        }
    }
    skit_release(&kit);
}

static void both_slots_damaged_is_damage(void **state)
{
    static const char *const names[] = {"identity", "promise", "quarantine", "manifest"};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct skit kit;
        struct store_op mark = {.type = STORE_QUARANTINE, .reason = "slots"};
        struct store_op reset = {.type = STORE_RESET};
        bool is_lost = i < 2;

        two_segments(&kit);
        vfs_mem_flip(kit.disk, names[i], 3, 1);
        vfs_mem_flip(kit.disk, names[i], VFS_BLOCK + 3, 1);
        assert_int_equal(skit_open(&kit), ERR_OK);
        assert_int_equal(kit.report.verdict, STORE_DAMAGED);
        assert_int_equal(kit.report.is_lost, is_lost);
        assert_non_null(strstr(kit.report.reason, names[i]));
        if (!is_lost) {
            assert_int_equal(skit_run(&kit, &mark), ERR_OK);
            assert_int_equal(skit_run(&kit, &reset), ERR_OK);
            skit_log_restart(&kit.log, 0, 0);
            assert_int_equal(skit_append(&kit, 4, 3, 100), ERR_OK);
            skit_close(&kit, false);
            assert_int_equal(skit_open(&kit), ERR_OK);
            assert_int_equal(kit.report.verdict, STORE_CLEAN);
            assert_true(kit.report.quarantined);
            assert_int_equal(skit_check_log(&kit), 3);
        }
        skit_release(&kit);
    }
}

static void missing_small_files_are_damage(void **state)
{
    static const char *const names[] = {"identity", "promise", "quarantine", "manifest"};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct skit kit;

        two_segments(&kit);
        vfs_mem_remove(kit.disk, names[i]);
        assert_int_equal(skit_open(&kit), ERR_OK);
        assert_int_equal(kit.report.verdict, STORE_DAMAGED);
        skit_release(&kit);
    }
}

static void every_flipped_bit_in_a_snapshot_is_noticed(void **state)
{
    struct skit kit;
    char name[VFS_NAME_MAX];
    uint64_t size = 0;

    (void)state;
    ready(&kit, KIT_SEGMENT);
    assert_int_equal(skit_append(&kit, 1, 12, 100), ERR_OK);
    assert_int_equal(skit_snapshot(&kit, 4, 8), ERR_OK);
    skit_close(&kit, false);
    (void)snprintf(name, sizeof(name), "snap-00000001-%016llx",
                   (unsigned long long)skit_zxid(&kit.log, 4));
    assert_true(vfs_mem_size(kit.disk, name, &size));
    for (uint64_t at = 0; at < size; at++) {
        vfs_mem_flip(kit.disk, name, at, 8);
        assert_int_equal(skit_open(&kit), ERR_OK);
        assert_int_equal(kit.report.verdict, STORE_CLEAN);
        assert_false(kit.report.has_snapshot && skit_check_snapshot(&kit));
        skit_close(&kit, false);
        vfs_mem_flip(kit.disk, name, at, 8);
    }
    skit_release(&kit);
}

static void empty_snapshot_never_counts(void **state)
{
    struct skit kit;
    char name[VFS_NAME_MAX];

    (void)state;
    ready(&kit, KIT_SEGMENT);
    assert_int_equal(skit_append(&kit, 1, 12, 100), ERR_OK);
    assert_int_equal(skit_snapshot(&kit, 2, 3), ERR_OK);
    assert_int_equal(skit_snapshot(&kit, 4, 8), ERR_OK);
    skit_close(&kit, false);
    (void)snprintf(name, sizeof(name), "snap-00000001-%016llx",
                   (unsigned long long)skit_zxid(&kit.log, 4));
    vfs_mem_cut(kit.disk, name, 0);
    assert_int_equal(skit_open(&kit), ERR_OK);
    assert_int_equal(kit.report.snap_start, skit_zxid(&kit.log, 2));
    skit_release(&kit);
}

/* A log that begins with a snapshot is worth nothing without it. */
static void log_without_its_snapshot_is_damage(void **state)
{
    struct skit kit;
    struct store_op install = {.type = STORE_SNAP_INSTALL};
    char name[VFS_NAME_MAX];

    (void)state;
    ready(&kit, KIT_SEGMENT);
    skit_make(&kit, 2, 20, 100);
    assert_int_equal(skit_receive(&kit, 8, 12, 20, &install), ERR_OK);
    assert_int_equal(install.ret_err, ERR_OK);
    skit_close(&kit, false);
    (void)snprintf(name, sizeof(name), "snap-00000002-%016llx",
                   (unsigned long long)skit_zxid(&kit.log, 8));
    vfs_mem_flip(kit.disk, name, 10, 1);
    assert_int_equal(skit_open(&kit), ERR_OK);
    assert_int_equal(kit.report.verdict, STORE_DAMAGED);
    assert_non_null(strstr(kit.report.reason, "no snapshot verifies"));
    skit_release(&kit);
}

/* A snapshot is made of durable records only: when the last batch is gone, it is missed. */
static void log_that_knows_less_than_a_snapshot_is_damage(void **state)
{
    struct skit kit;

    (void)state;
    ready(&kit, KIT_SEGMENT);
    assert_int_equal(skit_append(&kit, 1, 5, 100), ERR_OK);
    assert_int_equal(skit_append(&kit, 1, 5, 100), ERR_OK);
    assert_int_equal(skit_snapshot(&kit, 4, 8), ERR_OK);
    skit_close(&kit, false);
    tear_last_batch(&kit, UINT64_C(2) * VFS_BLOCK, 0);
    assert_int_equal(skit_open(&kit), ERR_OK);
    assert_int_equal(kit.report.verdict, STORE_DAMAGED);
    assert_non_null(strstr(kit.report.reason, "snapshot"));
    skit_release(&kit);
}

/* What a crash may leave of a segment that the manifest does not know yet. */
static void unknown_segment_counts_only_if_it_was_used(void **state)
{
    (void)state;
    for (int used = 0; used < 2; used++) {
        struct skit kit;
        struct vfs_file *file = NULL;
        static const uint8_t zeros[SMALL_SEGMENT];

        two_segments(&kit);

        const struct vfs *vfs = &kit.options.vfs;

        assert_int_equal(vfs->ops->open(vfs->ctx, "wal-00000001-0000000000000003", true, &file),
                         ERR_OK);
        assert_int_equal(vfs->ops->pwrite(file, 0, zeros, sizeof(zeros)), ERR_OK);
        assert_int_equal(vfs->ops->pwrite(file, VFS_BLOCK, "x", (size_t)used), ERR_OK);
        vfs->ops->close(file);
        assert_int_equal(skit_open(&kit), ERR_OK);
        assert_int_equal(kit.report.verdict, used ? STORE_DAMAGED : STORE_CLEAN);
        assert_true(used || skit_check_log(&kit) == 12);
        skit_release(&kit);
    }
}

/* Segments of another replica of the same name. */
static void foreign_segment_is_damage(void **state)
{
    struct skit kit;
    static struct skit other; /* Two kits are too much for a stack frame. */
    struct store_identity identity = skit_identity();
    struct store_op op = {.type = STORE_IDENTITY, .identity = &identity};
    uint8_t *bytes = mem_alloc(KIT_SEGMENT);

    (void)state;
    ready(&kit, KIT_SEGMENT);
    skit_close(&kit, false);
    skit_init(&other, KIT_SEGMENT);
    assert_int_equal(skit_open(&other), ERR_OK);
    identity.incarnation = 78;
    assert_int_equal(skit_run(&other, &op), ERR_OK);
    assert_int_equal(skit_append(&other, 1, 3, 10), ERR_OK);
    assert_true(vfs_mem_read(other.disk, SEGMENT_1, 0, bytes, KIT_SEGMENT));
    vfs_mem_poke(kit.disk, SEGMENT_1, 0, bytes, KIT_SEGMENT);
    assert_int_equal(skit_open(&kit), ERR_OK);
    assert_int_equal(kit.report.verdict, STORE_DAMAGED);
    assert_non_null(strstr(kit.report.reason, "another replica"));
    mem_free(bytes);
    skit_release(&other);
    skit_release(&kit);
}

/* A block written to the wrong place, and one that was never written. */
static void misplaced_and_lost_writes_are_damage(void **state)
{
    uint8_t block[VFS_BLOCK];
    static const uint8_t zeros[VFS_BLOCK];

    (void)state;
    for (uint64_t to = 1; to < 6; to++) {
        for (uint64_t from = 0; from < 6; from++) {
            struct skit kit;

            ready(&kit, KIT_SEGMENT);
            for (int i = 0; i < 5; i++) {
                assert_int_equal(skit_append(&kit, 1, 1, 100), ERR_OK);
            }
            skit_close(&kit, true);
            assert_true(vfs_mem_read(kit.disk, SEGMENT_1, from * VFS_BLOCK, block, sizeof(block)));
            vfs_mem_poke(kit.disk, SEGMENT_1, to * VFS_BLOCK, from ? block : zeros, VFS_BLOCK);
            assert_int_equal(skit_open(&kit), ERR_OK);
            assert_int_equal(kit.report.verdict, from == to ? STORE_CLEAN : STORE_DAMAGED);
            skit_release(&kit);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_flipped_bit_in_the_log_is_damage),
        cmocka_unit_test(log_cut_at_every_byte_is_damage),
        cmocka_unit_test(every_torn_batch_is_cut_off),
        cmocka_unit_test(torn_batch_after_a_clean_stop_is_damage),
        cmocka_unit_test(rot_in_a_torn_batch_never_gives_records),
        cmocka_unit_test(missing_segment_is_damage),
        cmocka_unit_test(one_damaged_slot_is_survived_and_told),
        cmocka_unit_test(both_slots_damaged_is_damage),
        cmocka_unit_test(missing_small_files_are_damage),
        cmocka_unit_test(every_flipped_bit_in_a_snapshot_is_noticed),
        cmocka_unit_test(empty_snapshot_never_counts),
        cmocka_unit_test(log_without_its_snapshot_is_damage),
        cmocka_unit_test(log_that_knows_less_than_a_snapshot_is_damage),
        cmocka_unit_test(unknown_segment_counts_only_if_it_was_used),
        cmocka_unit_test(foreign_segment_is_damage),
        cmocka_unit_test(misplaced_and_lost_writes_are_damage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
