/* Snapshots while the log beneath them changes, and media that cannot be read. */
#include "storage/names.h"
#include "tests/lib/store_kit.h"
#include "tests/lib/unit.h"

static void ready(struct skit *kit)
{
    skit_init(kit, KIT_SEGMENT);
    assert_int_equal(skit_open(kit), ERR_OK);
    assert_int_equal(skit_format(kit), ERR_OK);
}

/* The log is replaced by a leader's, which holds the very records that the snapshot ends with. */
static void a_snapshot_whose_log_was_replaced_by_its_like_is_dropped(void **state)
{
    struct skit kit;
    struct store_snap_writer *writer = NULL;
    struct store_op install = {.type = STORE_SNAP_INSTALL};

    (void)state;
    ready(&kit);
    assert_int_equal(skit_append(&kit, 1, 20, 100), ERR_OK);
    assert_int_equal(store_snap_begin(kit.store, skit_zxid(&kit.log, 15), skit_chain(&kit.log, 15),
                                      slice_str("config"), &writer),
                     ERR_OK);
    assert_int_equal(store_snap_block(writer, slice_str("block")), ERR_OK);
    assert_int_equal(skit_receive(&kit, 10, 12, 20, &install), ERR_OK);
    assert_int_equal(install.ret_err, ERR_OK);
    assert_int_equal(store_snap_finish(writer, skit_zxid(&kit.log, 18), 1, 1), ERR_CLOSED);
    assert_true(skit_check_snapshot(&kit));
    skit_release(&kit);
}

/* It was discarded, not removed: after the cut it would know more than the log. */
static void a_discarded_snapshot_goes_with_the_log_behind_it(void **state)
{
    struct skit kit;

    (void)state;
    ready(&kit);
    assert_int_equal(skit_append(&kit, 1, 20, 100), ERR_OK);
    assert_int_equal(skit_snapshot(&kit, 5, 6), ERR_OK);
    assert_int_equal(skit_snapshot(&kit, 15, 18), ERR_OK);
    assert_int_equal(store_snap_discard(kit.store, &kit.report), ERR_OK);
    assert_int_equal(skit_truncate(&kit, 16), ERR_OK);
    skit_close(&kit, false);
    assert_int_equal(skit_open(&kit), ERR_OK);
    assert_int_equal(kit.report.verdict, STORE_CLEAN);
    assert_int_equal(kit.report.snap_start, skit_zxid(&kit.log, 5));
    skit_release(&kit);
}

/* A sector that the disk cannot give back is damage like one with wrong bytes: whoever reads must
 * not take it for records that were purged. */
static void a_record_that_cannot_be_read_is_damage(void **state)
{
    struct skit kit;
    struct logrec *recs[4];
    size_t count = 0;

    (void)state;
    ready(&kit);
    assert_int_equal(skit_append(&kit, 1, 4, 100), ERR_OK);
    vfs_mem_fail_at(kit.disk, vfs_mem_calls(kit.disk) + 1, ERR_IO);
    assert_int_equal(store_read(kit.store, 0, 1000, 4, recs, &count), ERR_CORRUPT);
    assert_int_equal(count, 0);
    skit_release(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_snapshot_whose_log_was_replaced_by_its_like_is_dropped),
        cmocka_unit_test(a_discarded_snapshot_goes_with_the_log_behind_it),
        cmocka_unit_test(a_record_that_cannot_be_read_is_damage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
