/* Damage at every byte: it is reported, never taken for valid data and never for a torn write. */
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

/* Two segments: a full one, and one with a batch followed by zeros. */
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

TEST(every_flipped_bit_in_the_log_is_damage, skit, two_segments, skit_release)
{
    static const char *const names[] = {SEGMENT_1, SEGMENT_2};

    for (size_t i = 0; i < 2; i++) {
        for (uint64_t at = 0; at < SMALL_SEGMENT; at++) {
            uint8_t mask = (uint8_t)(1U << at % 8);

            vfs_mem_flip(skit->disk, names[i], at, mask);
            assert_int_equal(skit_open(skit), ERR_OK);
            assert_int_equal(skit->report.verdict, STORE_DAMAGED);
            assert_false(skit->report.is_lost);
            skit_close(skit, false);
            vfs_mem_flip(skit->disk, names[i], at, mask);
        }
    }
    /* The inspection has changed nothing. */
    assert_int_equal(skit_open(skit), ERR_OK);
    assert_int_equal(skit->report.verdict, STORE_CLEAN);
    assert_int_equal(skit_check_log(skit), 12);
}

TEST(log_cut_at_every_byte_is_damage, skit, two_segments, skit_release)
{
    uint8_t *bytes = mem_zalloc(SMALL_SEGMENT, 1);

    assert_true(vfs_mem_read(skit->disk, SEGMENT_2, 0, bytes, SMALL_SEGMENT));
    for (uint64_t size = 0; size < SMALL_SEGMENT; size++) {
        struct skit copy = {.disk = vfs_mem_clone(skit->disk), .options = skit->options};

        copy.options.vfs = vfs_mem_vfs(copy.disk);
        vfs_mem_cut(copy.disk, SEGMENT_2, size);
        assert_int_equal(skit_open(&copy), ERR_OK);
        assert_int_equal(copy.report.verdict, STORE_DAMAGED);
        skit_release(&copy);
    }
    mem_free(bytes);
}

/* Leaves the last batch of `kit` half written: only its sectors in `kept` are present. */
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

/* A batch with missing sectors is cut off, and the log continues after it. */
TEST(every_torn_batch_is_cut_off, skit, no_set_up, skit_release)
{
    const uint64_t offset = UINT64_C(3) * VFS_BLOCK;

    ready(skit, KIT_SEGMENT);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(skit_append(skit, 1, 3, 1000), ERR_OK);
    }
    skit_close(skit, false);
    for (uint32_t kept = 0; kept < 256; kept++) {
        struct skit copy = copy_of(skit);
        long left = kept == 255 ? 9 : 6;

        tear_last_batch(&copy, offset, kept);
        assert_int_equal(skit_open(&copy), ERR_OK);
        assert_int_equal(copy.report.verdict,
                         kept == 255 || kept == 0 ? STORE_CLEAN : STORE_TORN_TAIL);
        assert_true(kept == 0 || kept == 255 || copy.report.torn_bytes > 0);
        assert_int_equal(skit_match_log(&copy, &skit->log), left);
        skit_close(&copy, false);
        assert_int_equal(skit_open(&copy), ERR_OK);
        assert_int_equal(copy.report.verdict, STORE_CLEAN);
        assert_int_equal(skit_match_log(&copy, &skit->log), left);
        skit_release(&copy);
    }
}

TEST(torn_batch_after_a_clean_stop_is_damage, skit, no_set_up, skit_release)
{
    ready(skit, KIT_SEGMENT);
    assert_int_equal(skit_append(skit, 1, 3, 1000), ERR_OK);
    assert_int_equal(skit_append(skit, 1, 3, 1000), ERR_OK);
    skit_close(skit, true);
    for (uint32_t kept = 0; kept < 255; kept += 9) {
        struct skit copy = copy_of(skit);

        tear_last_batch(&copy, UINT64_C(2) * VFS_BLOCK, kept);
        assert_int_equal(skit_open(&copy), ERR_OK);
        assert_int_equal(copy.report.verdict, STORE_DAMAGED);
        assert_non_null(strstr(copy.report.reason, "closed cleanly"));
        skit_release(&copy);
    }
}

/* Damage in a torn batch may count as either; its records must never come back. */
TEST(damage_in_a_torn_batch_never_gives_records, skit, no_set_up, skit_release)
{
    ready(skit, SMALL_SEGMENT);
    assert_int_equal(skit_append(skit, 1, 3, 500), ERR_OK);
    assert_int_equal(skit_append(skit, 1, 3, 1000), ERR_OK);
    skit_close(skit, false);
    tear_last_batch(skit, UINT64_C(2) * VFS_BLOCK, 0x2b);
    for (uint64_t at = UINT64_C(2) * VFS_BLOCK; at < UINT64_C(3) * VFS_BLOCK; at++) {
        struct skit copy = copy_of(skit);

        vfs_mem_flip(copy.disk, SEGMENT_1, at, 32);
        assert_int_equal(skit_open(&copy), ERR_OK);
        assert_true(
            copy.report.verdict == STORE_DAMAGED ||
            (copy.report.verdict == STORE_TORN_TAIL && skit_match_log(&copy, &skit->log) == 3));
        skit_release(&copy);
    }
}

TEST(missing_segment_is_damage)
{
    static const char *const names[] = {SEGMENT_1, SEGMENT_2};

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

TEST(one_damaged_slot_is_repaired_and_reported, skit, two_segments, skit_release)
{
    static const char *const names[] = {"identity", "promise", "quarantine", "manifest"};
    struct store_op promise = {.type = STORE_PROMISE, .epoch = 9, .leader = 1};

    assert_int_equal(skit_open(skit), ERR_OK);
    assert_int_equal(skit_run(skit, &promise), ERR_OK);
    skit_close(skit, false);
    for (size_t i = 0; i < 4; i++) {
        for (uint64_t at = 0; at < UINT64_C(2) * VFS_BLOCK; at += 7) {
            struct skit copy = copy_of(skit);

            vfs_mem_flip(copy.disk, names[i], at, 64);
            assert_int_equal(skit_open(&copy), ERR_OK);
            assert_int_equal(copy.report.verdict, STORE_CLEAN);
            assert_int_equal(copy.report.promised_epoch, 9);
            assert_int_equal(copy.report.identity.incarnation, 77);
            assert_true(at % VFS_BLOCK >= 32 || copy.report.one_slot_bad);
            skit_close(&copy, false);
            /* Repaired by the opening. */
            assert_int_equal(skit_open(&copy), ERR_OK);
            assert_false(copy.report.one_slot_bad);
            skit_release(&copy);
        }
    }
}

TEST(both_slots_damaged_is_damage)
{
    static const char *const names[] = {"identity", "promise", "quarantine", "manifest"};

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

TEST(missing_small_files_are_damage)
{
    static const char *const names[] = {"identity", "promise", "quarantine", "manifest"};

    for (size_t i = 0; i < 4; i++) {
        struct skit kit;

        two_segments(&kit);
        vfs_mem_remove(kit.disk, names[i]);
        assert_int_equal(skit_open(&kit), ERR_OK);
        assert_int_equal(kit.report.verdict, STORE_DAMAGED);
        skit_release(&kit);
    }
}

TEST(every_flipped_bit_in_a_snapshot_is_noticed, skit, no_set_up, skit_release)
{
    char name[VFS_NAME_MAX];
    uint64_t size = 0;

    ready(skit, KIT_SEGMENT);
    assert_int_equal(skit_append(skit, 1, 12, 100), ERR_OK);
    assert_int_equal(skit_snapshot(skit, 4, 8), ERR_OK);
    skit_close(skit, false);
    (void)snprintf(name, sizeof(name), "snap-00000001-%016llx",
                   (unsigned long long)skit_zxid(&skit->log, 4));
    assert_true(vfs_mem_size(skit->disk, name, &size));
    for (uint64_t at = 0; at < size; at++) {
        vfs_mem_flip(skit->disk, name, at, 8);
        assert_int_equal(skit_open(skit), ERR_OK);
        assert_int_equal(skit->report.verdict, STORE_CLEAN);
        assert_false(skit->report.has_snapshot && skit_check_snapshot(skit));
        skit_close(skit, false);
        vfs_mem_flip(skit->disk, name, at, 8);
    }
}

TEST(empty_snapshot_never_counts, skit, no_set_up, skit_release)
{
    char name[VFS_NAME_MAX];

    ready(skit, KIT_SEGMENT);
    assert_int_equal(skit_append(skit, 1, 12, 100), ERR_OK);
    assert_int_equal(skit_snapshot(skit, 2, 3), ERR_OK);
    assert_int_equal(skit_snapshot(skit, 4, 8), ERR_OK);
    skit_close(skit, false);
    (void)snprintf(name, sizeof(name), "snap-00000001-%016llx",
                   (unsigned long long)skit_zxid(&skit->log, 4));
    vfs_mem_cut(skit->disk, name, 0);
    assert_int_equal(skit_open(skit), ERR_OK);
    assert_int_equal(skit->report.snap_start, skit_zxid(&skit->log, 2));
}

/* A log that begins with a snapshot is useless without it. */
TEST(log_without_its_snapshot_is_damage, skit, no_set_up, skit_release)
{
    struct store_op install = {.type = STORE_SNAP_INSTALL};
    char name[VFS_NAME_MAX];

    ready(skit, KIT_SEGMENT);
    skit_make(skit, 2, 20, 100);
    assert_int_equal(skit_receive(skit, 8, 12, 20, &install), ERR_OK);
    assert_int_equal(install.ret_err, ERR_OK);
    skit_close(skit, false);
    (void)snprintf(name, sizeof(name), "snap-00000002-%016llx",
                   (unsigned long long)skit_zxid(&skit->log, 8));
    vfs_mem_flip(skit->disk, name, 10, 1);
    assert_int_equal(skit_open(skit), ERR_OK);
    assert_int_equal(skit->report.verdict, STORE_DAMAGED);
    assert_non_null(strstr(skit->report.reason, "no snapshot passes verification"));
}

/* A snapshot contains durable records only, so it reveals that the last batch is missing. */
TEST(a_log_that_is_behind_its_snapshot_is_damage, skit, no_set_up, skit_release)
{
    ready(skit, KIT_SEGMENT);
    assert_int_equal(skit_append(skit, 1, 5, 100), ERR_OK);
    assert_int_equal(skit_append(skit, 1, 5, 100), ERR_OK);
    assert_int_equal(skit_snapshot(skit, 4, 8), ERR_OK);
    skit_close(skit, false);
    tear_last_batch(skit, UINT64_C(2) * VFS_BLOCK, 0);
    assert_int_equal(skit_open(skit), ERR_OK);
    assert_int_equal(skit->report.verdict, STORE_DAMAGED);
    assert_non_null(strstr(skit->report.reason, "snapshot"));
}

/* What a crash may leave of a segment that is not in the manifest yet. */
TEST(unknown_segment_counts_only_if_it_was_used)
{
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

/* Segments of another replica under the same name. */
TEST(foreign_segment_is_damage, skit, no_set_up, skit_release)
{
    static struct skit other; /* Two kits are too large for a stack frame. */
    struct store_identity identity = skit_identity();
    struct store_op op = {.type = STORE_IDENTITY, .identity = &identity};
    uint8_t *bytes = mem_alloc(KIT_SEGMENT);

    ready(skit, KIT_SEGMENT);
    skit_close(skit, false);
    skit_init(&other, KIT_SEGMENT);
    assert_int_equal(skit_open(&other), ERR_OK);
    identity.incarnation = 78;
    assert_int_equal(skit_run(&other, &op), ERR_OK);
    assert_int_equal(skit_append(&other, 1, 3, 10), ERR_OK);
    assert_true(vfs_mem_read(other.disk, SEGMENT_1, 0, bytes, KIT_SEGMENT));
    vfs_mem_poke(skit->disk, SEGMENT_1, 0, bytes, KIT_SEGMENT);
    assert_int_equal(skit_open(skit), ERR_OK);
    assert_int_equal(skit->report.verdict, STORE_DAMAGED);
    assert_non_null(strstr(skit->report.reason, "another replica"));
    mem_free(bytes);
    skit_release(&other);
}

/* A block written to the wrong place, and one that was never written. */
TEST(misplaced_and_lost_writes_are_damage)
{
    uint8_t block[VFS_BLOCK];
    static const uint8_t zeros[VFS_BLOCK];

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
