/* The tests of the tests: each known historical mistake, when it is reintroduced, must be noticed.
 */
#include "base/check.h"
#include "base/mem.h"
#include "base/probe.h"
#include "tests/lib/store_life.h"
#include "tests/lib/unit.h"

#include <stdio.h>

static struct life *life;

static void setup(void)
{
    life = mem_zalloc(1, sizeof(*life));
    life_init(life);
}

static void teardown(void)
{
    life_release(life);
    mem_free(life);
    mutant_select(0);
}

/* Crashes only around the steps with that name. */
static size_t crash_around(const char *name)
{
    size_t step = life_find(name);

    return life_crash_everywhere(life, step, step + 1, VFS_MEM_SECTORS, 7);
}

static void ready(struct skit *kit)
{
    skit_init(kit, KIT_SEGMENT);
    assert_int_equal(skit_open(kit), ERR_OK);
    assert_int_equal(skit_format(kit), ERR_OK);
}

/* Truncates below the newest snapshot and continues differently; true when the store is whole. */
static bool truncates_below_a_snapshot(void)
{
    struct skit kit;

    ready(&kit);
    assert_int_equal(skit_append(&kit, 1, 20, 100), ERR_OK);
    assert_int_equal(skit_snapshot(&kit, 5, 8), ERR_OK);
    assert_int_equal(skit_snapshot(&kit, 15, 18), ERR_OK);
    assert_int_equal(skit_truncate(&kit, 10), ERR_OK);
    assert_int_equal(skit_append(&kit, 2, 15, 100), ERR_OK);
    skit_close(&kit, false);
    assert_int_equal(skit_open(&kit), ERR_OK);

    bool is_whole = kit.report.verdict == STORE_CLEAN && skit_check_log(&kit) == 25 &&
                    kit.report.snap_start == skit_zxid(&kit.log, 5);

    skit_release(&kit);
    return is_whole;
}

TEST(m8_truncation_leaves_a_newer_snapshot, setup, teardown)
{
    assert_true(truncates_below_a_snapshot());
    mutant_select(8);
    assert_false(truncates_below_a_snapshot());
}

TEST(m9_truncation_is_ascending_and_unsynced, setup, teardown)
{
    mutant_select(9);
    (void)fprintf(stderr, "(the following failures are those of the mutant)\n");
    assert_true(crash_around("truncate far") > 0);
}

TEST(m13_promise_is_not_synced, setup, teardown)
{
    mutant_select(13);
    assert_true(crash_around("promise again") + crash_around("second snapshot") > 0);
}

TEST(m19_directory_is_not_synced, setup, teardown)
{
    mutant_select(19);
    assert_true(crash_around("rotate again") > 0);
}

/* Damages the middle of the log; true when it is reported as damage. */
static bool names_damage(void)
{
    struct skit kit;

    ready(&kit);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(skit_append(&kit, 1, 2, 1000), ERR_OK);
    }
    skit_close(&kit, false);
    vfs_mem_flip(kit.disk, "wal-00000001-0000000000000001", 9000, 16);
    assert_int_equal(skit_open(&kit), ERR_OK);

    bool is_named = kit.report.verdict == STORE_DAMAGED;

    skit_release(&kit);
    return is_named;
}

TEST(m20_damage_passes_for_a_torn_tail, setup, teardown)
{
    assert_true(names_damage());
    mutant_select(20);
    assert_false(names_damage());
}

/* Two good snapshots; the newer one is damaged, a third is made and damaged as well: the first must
 * still exist, with its log. */
static bool keeps_the_good_snapshot(void)
{
    struct skit kit;
    char name[VFS_NAME_MAX];

    ready(&kit);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(skit_append(&kit, 1, 10, 3000), ERR_OK);
        if (i == 2) {
            skit_close(&kit, true);
            (void)snprintf(name, sizeof(name), "snap-00000001-%016llx",
                           (unsigned long long)skit_zxid(&kit.log, 15));
            vfs_mem_flip(kit.disk, name, 1000, 1);
            assert_int_equal(skit_open(&kit), ERR_OK);
        }
        assert_int_equal(skit_snapshot(&kit, kit.log.count - 5, kit.log.count - 1), ERR_OK);
    }
    skit_close(&kit, true);
    (void)snprintf(name, sizeof(name), "snap-00000001-%016llx",
                   (unsigned long long)skit_zxid(&kit.log, 25));
    vfs_mem_flip(kit.disk, name, 1, 1);
    assert_int_equal(skit_open(&kit), ERR_OK);

    bool is_kept =
        kit.report.verdict == STORE_CLEAN && kit.report.snap_start == skit_zxid(&kit.log, 5);

    skit_release(&kit);
    return is_kept;
}

TEST(m22_purge_counts_invalid_snapshots, setup, teardown)
{
    assert_true(keeps_the_good_snapshot());
    mutant_select(22);
    assert_false(keeps_the_good_snapshot());
}
