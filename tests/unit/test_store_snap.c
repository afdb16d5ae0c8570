/* Snapshots while the log beneath them changes, and unreadable media. */
#include "storage/names.h"
#include "tests/lib/store_kit.h"
#include "tests/lib/unit.h"

static void ready(struct skit *kit)
{
    skit_init(kit, KIT_SEGMENT);
    assert_int_equal(skit_open(kit), ERR_OK);
    assert_int_equal(skit_format(kit), ERR_OK);
}

/* A leader's log replaces the log, with the very records that the snapshot ends with. */
TEST(a_snapshot_is_dropped_even_if_an_equal_log_replaces_its_log, skit, ready, skit_release)
{
    struct store_snap_writer *writer = NULL;
    struct store_op install = {.type = STORE_SNAP_INSTALL};

    assert_int_equal(skit_append(skit, 1, 20, 100), ERR_OK);
    assert_int_equal(store_snap_begin(skit->store, skit_zxid(&skit->log, 15),
                                      skit_chain(&skit->log, 15), slice_str("config"), &writer),
                     ERR_OK);
    assert_int_equal(store_snap_block(writer, slice_str("block")), ERR_OK);
    assert_int_equal(skit_receive(skit, 10, 12, 20, &install), ERR_OK);
    assert_int_equal(install.ret_err, ERR_OK);
    assert_int_equal(store_snap_finish(writer, skit_zxid(&skit->log, 18), 1, 1), ERR_CLOSED);
    assert_true(skit_check_snapshot(skit));
}

/* It was discarded, not removed: after the cut it would be ahead of the log. */
TEST(a_discarded_snapshot_is_removed_with_the_log_after_it, skit, ready, skit_release)
{
    assert_int_equal(skit_append(skit, 1, 20, 100), ERR_OK);
    assert_int_equal(skit_snapshot(skit, 5, 6), ERR_OK);
    assert_int_equal(skit_snapshot(skit, 15, 18), ERR_OK);
    assert_int_equal(store_snap_discard(skit->store, &skit->report), ERR_OK);
    assert_int_equal(skit_truncate(skit, 16), ERR_OK);
    skit_close(skit, false);
    assert_int_equal(skit_open(skit), ERR_OK);
    assert_int_equal(skit->report.verdict, STORE_CLEAN);
    assert_int_equal(skit->report.snap_start, skit_zxid(&skit->log, 5));
}

/* A sector that the disk cannot read is damage like one with wrong bytes: a reader must not take it
 * for records that were purged. */
TEST(an_unreadable_record_is_damage, skit, ready, skit_release)
{
    struct logrec *recs[4];
    size_t count = 0;

    assert_int_equal(skit_append(skit, 1, 4, 100), ERR_OK);
    vfs_mem_fail_at(skit->disk, vfs_mem_calls(skit->disk) + 1, ERR_IO);
    assert_int_equal(store_read(skit->store, 0, 1000, 4, recs, &count), ERR_CORRUPT);
    assert_int_equal(count, 0);
}
