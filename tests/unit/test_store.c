#include "tests/lib/store_kit.h"
#include "tests/lib/unit.h"

#include <string.h>

static void ready(struct skit *kit)
{
    skit_init(kit, KIT_SEGMENT);
    assert_int_equal(skit_open(kit), ERR_OK);
    assert_int_equal(kit->report.verdict, STORE_EMPTY);
    assert_int_equal(skit_format(kit), ERR_OK);
}

static void reopen(struct skit *kit, bool clean)
{
    skit_close(kit, clean);
    assert_int_equal(skit_open(kit), ERR_OK);
}

static void formatted_store_knows_itself(void **state)
{
    struct skit kit;

    (void)state;
    ready(&kit);
    reopen(&kit, true);
    assert_int_equal(kit.report.verdict, STORE_CLEAN);
    assert_true(kit.report.has_identity);
    assert_int_equal(kit.report.identity.incarnation, 77);
    assert_int_equal(kit.report.identity.genesis_len, 5);
    assert_true(kit.report.identity.founding);
    assert_int_equal(kit.report.log_last, 0);
    assert_false(kit.report.has_snapshot);
    skit_release(&kit);
}

static void identity_is_updated_when_joining(void **state)
{
    struct skit kit;
    struct store_identity identity = skit_identity();
    struct store_op op = {.type = STORE_IDENTITY, .identity = &identity};

    (void)state;
    ready(&kit);
    identity.founding = false;
    identity.cluster[0] = 9;
    assert_int_equal(skit_run(&kit, &op), ERR_OK);
    assert_int_equal(skit_append(&kit, 1, 1, 10), ERR_OK);
    reopen(&kit, false);
    assert_int_equal(kit.report.verdict, STORE_CLEAN);
    assert_false(kit.report.identity.founding);
    assert_int_equal(kit.report.identity.cluster[0], 9);
    skit_release(&kit);
}

static void promise_and_quarantine_survive(void **state)
{
    struct skit kit;
    struct store_op promise = {.type = STORE_PROMISE, .epoch = 7, .leader = 2};
    struct store_op mark = {.type = STORE_QUARANTINE, .reason = "rot"};
    struct store_op release = {.type = STORE_RELEASE};

    (void)state;
    ready(&kit);
    assert_int_equal(skit_run(&kit, &promise), ERR_OK);
    assert_int_equal(skit_run(&kit, &mark), ERR_OK);
    reopen(&kit, false);
    assert_int_equal(kit.report.promised_epoch, 7);
    assert_int_equal(kit.report.promised_leader, 2);
    assert_true(kit.report.quarantined);
    assert_string_equal(kit.report.reason, "rot");
    assert_int_equal(skit_run(&kit, &release), ERR_OK);
    reopen(&kit, false);
    assert_false(kit.report.quarantined);
    assert_string_equal(kit.report.reason, "");
    skit_release(&kit);
}

static void records_come_back_after_reopening(void **state)
{
    struct skit kit;

    (void)state;
    ready(&kit);
    assert_int_equal(skit_append(&kit, 1, 5, 100), ERR_OK);
    assert_int_equal(skit_append(&kit, 1, 3, 9000), ERR_OK);
    assert_int_equal(skit_append(&kit, 4, 2, 0), ERR_OK);
    assert_int_equal(skit_check_log(&kit), 10);
    reopen(&kit, false);
    assert_int_equal(kit.report.verdict, STORE_CLEAN);
    assert_int_equal(kit.report.log_last, zxid_make(4, 1));
    assert_int_equal(kit.report.log_chain, skit_chain(&kit.log, 10));
    assert_int_equal(kit.report.committed, zxid_make(1, 7));
    assert_int_equal(skit_check_log(&kit), 10);
    skit_release(&kit);
}

static void log_rotates_through_segments(void **state)
{
    struct skit kit;
    struct store_figures figures;

    (void)state;
    ready(&kit);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(skit_append(&kit, 1, 2, 3000), ERR_OK);
        assert_int_equal(store_preallocate(kit.store), ERR_OK);
    }
    store_figures(kit.store, &figures);
    assert_in_range(figures.segments, 4, 8);
    assert_int_equal(figures.records_since_snap, 80);
    reopen(&kit, false);
    assert_int_equal(skit_check_log(&kit), 80);
    store_figures(kit.store, &figures);
    assert_int_equal(figures.records_since_snap, 80);
    skit_release(&kit);
}

static void record_longer_than_a_segment_gets_its_own(void **state)
{
    struct skit kit;

    (void)state;
    skit_init(&kit, UINT64_C(4) * VFS_BLOCK);
    assert_int_equal(skit_open(&kit), ERR_OK);
    assert_int_equal(skit_format(&kit), ERR_OK);
    assert_int_equal(skit_append(&kit, 1, 1, 10), ERR_OK);
    assert_int_equal(skit_append(&kit, 1, 3, KIT_RECORD_MAX), ERR_OK);
    assert_int_equal(skit_append(&kit, 1, 1, 10), ERR_OK);
    reopen(&kit, false);
    assert_int_equal(skit_check_log(&kit), 5);
    skit_release(&kit);
}

static void neighbouring_appends_share_a_sync(void **state)
{
    struct skit kit;
    struct store_op ops[20];
    struct store_op *list[20];
    struct store_figures before;
    struct store_figures after;
    size_t done = 0;

    (void)state;
    ready(&kit);
    skit_make(&kit, 1, 20, 50);
    for (size_t i = 0; i < 20; i++) {
        ops[i] = (struct store_op){
            .type = STORE_APPEND, .recs = kit.log.recs + i, .rec_count = 1, .committed = 0};
        list[i] = &ops[i];
    }
    store_figures(kit.store, &before);
    assert_int_equal(store_run(kit.store, list, 20, &done), ERR_OK);
    store_figures(kit.store, &after);
    assert_int_equal(done, 20);
    assert_int_equal(after.syncs - before.syncs, 1);
    reopen(&kit, true);
    assert_int_equal(skit_check_log(&kit), 20);
    skit_release(&kit);
}

static void truncation_cuts_anywhere(void **state)
{
    (void)state;
    for (size_t keep = 0; keep <= 30; keep++) {
        struct skit kit;

        ready(&kit);
        for (int i = 0; i < 6; i++) {
            assert_int_equal(skit_append(&kit, 1, 5, 2000), ERR_OK);
        }
        assert_int_equal(skit_truncate(&kit, keep), ERR_OK);
        assert_int_equal(skit_check_log(&kit), (long)keep);
        reopen(&kit, keep % 2);
        assert_int_equal(kit.report.verdict, STORE_CLEAN);
        assert_int_equal(skit_check_log(&kit), (long)keep);
        assert_int_equal(skit_append(&kit, 2, 3, 500), ERR_OK);
        reopen(&kit, false);
        assert_int_equal(skit_check_log(&kit), (long)keep + 3);
        skit_release(&kit);
    }
}

static void truncation_to_a_stranger_is_refused(void **state)
{
    struct skit kit;
    struct store_op op = {.type = STORE_TRUNCATE, .zxid = zxid_make(1, 7)};

    (void)state;
    ready(&kit);
    assert_int_equal(skit_append(&kit, 1, 3, 10), ERR_OK);
    assert_int_equal(skit_append(&kit, 2, 3, 10), ERR_OK);
    assert_int_equal(skit_run(&kit, &op), ERR_MISSING);
    reopen(&kit, false);
    assert_int_equal(skit_check_log(&kit), 6);
    skit_release(&kit);
}

static void reading_names_what_is_missing(void **state)
{
    struct skit kit;
    struct logrec *recs[4];
    size_t count = 9;

    (void)state;
    ready(&kit);
    assert_int_equal(skit_append(&kit, 1, 3, 10), ERR_OK);
    assert_int_equal(store_read(kit.store, zxid_make(1, 9), 100, 4, recs, &count), ERR_MISSING);
    assert_int_equal(count, 0);
    assert_int_equal(store_read(kit.store, zxid_make(1, 2), 100, 4, recs, &count), ERR_OK);
    assert_int_equal(count, 0);
    assert_int_equal(store_read(kit.store, zxid_make(0, 9), 100, 4, recs, &count), ERR_MISSING);
    /* One record always fits, however small the limit. */
    assert_int_equal(store_read(kit.store, zxid_make(1, 0), 1, 4, recs, &count), ERR_OK);
    assert_int_equal(count, 1);
    assert_int_equal(recs[0]->zxid, zxid_make(1, 1));
    logrec_unref(recs[0]);
    skit_release(&kit);
}

static void snapshots_are_kept_and_purged(void **state)
{
    struct skit kit;
    struct store_figures figures;

    (void)state;
    ready(&kit);
    for (size_t round = 0; round < 5; round++) {
        assert_int_equal(skit_append(&kit, 1, 10, 3000), ERR_OK);
        assert_int_equal(skit_append(&kit, 1, 10, 3000), ERR_OK);
        assert_int_equal(skit_snapshot(&kit, kit.log.count - 5, kit.log.count - 2), ERR_OK);
    }
    store_figures(kit.store, &figures);
    assert_int_equal(figures.snapshots, 2);
    assert_int_equal(figures.snap_newest_end, skit_zxid(&kit.log, 98));
    reopen(&kit, false);
    assert_int_equal(kit.report.verdict, STORE_CLEAN);
    assert_true(kit.report.has_snapshot);
    assert_int_equal(kit.report.snap_start, skit_zxid(&kit.log, 95));
    assert_int_equal(kit.report.snap_end, skit_zxid(&kit.log, 98));
    assert_true(kit.report.log_base > 0);
    assert_true(kit.report.log_base <= skit_zxid(&kit.log, 75));
    assert_int_equal(skit_check_log(&kit), 100);
    assert_true(skit_check_snapshot(&kit));
    skit_release(&kit);
}

static void damaged_snapshot_falls_back_to_an_older_one(void **state)
{
    struct skit kit;

    (void)state;
    ready(&kit);
    assert_int_equal(skit_append(&kit, 1, 20, 100), ERR_OK);
    assert_int_equal(skit_snapshot(&kit, 5, 8), ERR_OK);
    assert_int_equal(skit_snapshot(&kit, 15, 18), ERR_OK);
    skit_close(&kit, true);
    vfs_mem_flip(kit.disk, "snap-00000001-000000010000000e", 5, 1);
    assert_int_equal(skit_open(&kit), ERR_OK);
    assert_int_equal(kit.report.verdict, STORE_CLEAN);
    assert_int_equal(kit.report.snap_start, skit_zxid(&kit.log, 5));
    skit_release(&kit);
}

static void discarded_snapshot_falls_back_too(void **state)
{
    struct skit kit;

    (void)state;
    ready(&kit);
    assert_int_equal(skit_append(&kit, 1, 20, 100), ERR_OK);
    assert_int_equal(skit_snapshot(&kit, 5, 8), ERR_OK);
    assert_int_equal(skit_snapshot(&kit, 15, 18), ERR_OK);
    skit_close(&kit, true);
    vfs_mem_flip(kit.disk, "snap-00000001-000000010000000e", 1000, 1);
    assert_int_equal(skit_open(&kit), ERR_OK);
    assert_int_equal(kit.report.snap_start, skit_zxid(&kit.log, 15));
    assert_false(skit_check_snapshot(&kit));
    assert_int_equal(store_snap_discard(kit.store, &kit.report), ERR_OK);
    assert_int_equal(kit.report.snap_start, skit_zxid(&kit.log, 5));
    assert_true(skit_check_snapshot(&kit));
    /* The log reaches back to the beginning: no snapshot is needed. */
    assert_int_equal(store_snap_discard(kit.store, &kit.report), ERR_OK);
    assert_false(kit.report.has_snapshot);
    assert_int_equal(store_snap_discard(kit.store, &kit.report), ERR_MISSING);
    skit_release(&kit);
}

static void receive(struct skit *kit, size_t start, size_t end, size_t upto,
                    struct store_op *install)
{
    *install = (struct store_op){.type = STORE_SNAP_INSTALL};
    assert_int_equal(skit_receive(kit, start, end, upto, install), ERR_OK);
}

static void received_snapshot_replaces_the_log(void **state)
{
    struct skit kit;
    struct store_op install;

    (void)state;
    ready(&kit);
    assert_int_equal(skit_append(&kit, 1, 10, 100), ERR_OK);
    /* Another history, of which this replica has nothing. */
    skit_log_restart(&kit.log, 0, 0);
    skit_make(&kit, 2, 40, 100);
    receive(&kit, 20, 25, 30, &install);
    assert_int_equal(install.ret_err, ERR_OK);
    assert_int_equal(install.ret_last, skit_zxid(&kit.log, 30));
    assert_int_equal(install.ret_chain, skit_chain(&kit.log, 30));
    assert_int_equal(install.ret_snap_end, skit_zxid(&kit.log, 25));
    skit_log_cut(&kit.log, 30);
    assert_true(skit_check_snapshot(&kit));
    assert_int_equal(skit_append(&kit, 2, 3, 100), ERR_OK);
    reopen(&kit, false);
    assert_int_equal(kit.report.verdict, STORE_CLEAN);
    assert_int_equal(kit.report.log_base, skit_zxid(&kit.log, 20));
    assert_int_equal(kit.report.snap_start, skit_zxid(&kit.log, 20));
    assert_int_equal(kit.report.committed, skit_zxid(&kit.log, 30));
    assert_int_equal(skit_check_log(&kit), 33);
    assert_true(skit_check_snapshot(&kit));
    skit_release(&kit);
}

static void truncation_below_the_only_snapshot_is_refused(void **state)
{
    struct skit kit;
    struct store_op install;
    struct store_op cut = {.type = STORE_TRUNCATE};

    (void)state;
    ready(&kit);
    skit_make(&kit, 2, 30, 100);
    receive(&kit, 20, 25, 30, &install);
    cut.zxid = skit_zxid(&kit.log, 22);
    assert_int_equal(skit_run(&kit, &cut), ERR_CORRUPT);
    reopen(&kit, true);
    assert_int_equal(kit.report.verdict, STORE_CLEAN);
    assert_int_equal(skit_check_log(&kit), 30);
    assert_int_equal(skit_truncate(&kit, 25), ERR_OK);
    reopen(&kit, true);
    assert_int_equal(skit_check_log(&kit), 25);
    skit_release(&kit);
}

static void snapshot_without_its_log_is_refused(void **state)
{
    struct skit kit;
    struct store_op install;

    (void)state;
    ready(&kit);
    assert_int_equal(skit_append(&kit, 1, 10, 100), ERR_OK);
    skit_log_restart(&kit.log, 0, 0);
    skit_make(&kit, 2, 40, 100);
    receive(&kit, 20, 25, 24, &install);
    assert_int_equal(install.ret_err, ERR_CORRUPT);
    assert_int_equal(install.ret_last, zxid_make(1, 9));
    skit_log_restart(&kit.log, 0, 0);
    skit_make(&kit, 1, 10, 100);
    assert_int_equal(skit_append(&kit, 1, 2, 100), ERR_OK);
    reopen(&kit, false);
    assert_int_equal(skit_check_log(&kit), 12);
    skit_release(&kit);
}

static void aborted_receive_leaves_the_log(void **state)
{
    struct skit kit;
    struct store_op begin = {.type = STORE_SNAP_BEGIN};
    struct store_op chunk = {.type = STORE_SNAP_CHUNK, .snap_bytes = slice_str("abc")};
    struct store_op abort_op = {.type = STORE_SNAP_ABORT};

    (void)state;
    ready(&kit);
    assert_int_equal(skit_append(&kit, 1, 10, 100), ERR_OK);
    assert_int_equal(skit_run(&kit, &abort_op), ERR_OK);
    assert_int_equal(skit_run(&kit, &begin), ERR_OK);
    assert_int_equal(skit_run(&kit, &chunk), ERR_OK);
    assert_int_equal(skit_run(&kit, &begin), ERR_OK);
    assert_int_equal(skit_run(&kit, &chunk), ERR_OK);
    assert_int_equal(skit_run(&kit, &abort_op), ERR_OK);
    assert_int_equal(skit_append(&kit, 1, 2, 100), ERR_OK);
    reopen(&kit, false);
    assert_int_equal(skit_check_log(&kit), 12);
    skit_release(&kit);
}

static void garbage_is_refused_and_its_records_with_it(void **state)
{
    struct skit kit;
    struct store_op begin = {.type = STORE_SNAP_BEGIN};
    struct store_op chunk = {.type = STORE_SNAP_CHUNK, .snap_bytes = slice_str("no snapshot")};
    struct store_op install = {.type = STORE_SNAP_INSTALL};

    (void)state;
    ready(&kit);
    assert_int_equal(skit_append(&kit, 1, 10, 100), ERR_OK);
    assert_int_equal(skit_run(&kit, &begin), ERR_OK);
    assert_int_equal(skit_run(&kit, &chunk), ERR_OK);
    skit_make(&kit, 2, 1, 10);

    struct store_op append = {.type = STORE_APPEND, .recs = kit.log.recs + 10, .rec_count = 1};

    assert_int_equal(skit_run(&kit, &append), ERR_OK);
    assert_int_equal(skit_run(&kit, &install), ERR_OK);
    assert_int_equal(install.ret_err, ERR_CORRUPT);
    assert_int_equal(skit_check_log(&kit), 10);
    skit_release(&kit);
}

static void reset_empties_the_log(void **state)
{
    struct skit kit;
    struct store_op op = {.type = STORE_RESET};

    (void)state;
    ready(&kit);
    assert_int_equal(skit_append(&kit, 1, 10, 100), ERR_OK);
    assert_int_equal(skit_snapshot(&kit, 5, 8), ERR_OK);
    assert_int_equal(skit_run(&kit, &op), ERR_OK);
    assert_int_equal(op.ret_last, 0);
    skit_log_restart(&kit.log, 0, 0);
    assert_int_equal(skit_append(&kit, 2, 4, 100), ERR_OK);
    reopen(&kit, false);
    assert_int_equal(kit.report.verdict, STORE_CLEAN);
    assert_false(kit.report.has_snapshot);
    assert_int_equal(skit_check_log(&kit), 4);
    skit_release(&kit);
}

static void snapshot_of_a_replaced_log_is_dropped(void **state)
{
    struct skit kit;
    struct store_snap_writer *writer = NULL;
    struct store_op op = {.type = STORE_RESET};

    (void)state;
    ready(&kit);
    assert_int_equal(skit_append(&kit, 1, 10, 100), ERR_OK);
    assert_int_equal(store_snap_begin(kit.store, skit_zxid(&kit.log, 4), skit_chain(&kit.log, 4),
                                      slice_str(""), &writer),
                     ERR_OK);
    assert_int_equal(skit_run(&kit, &op), ERR_OK);
    assert_int_equal(store_snap_finish(writer, zxid_make(1, 6), 0, 0), ERR_CLOSED);
    skit_release(&kit);
}

static void damaged_log_is_refilled(void **state)
{
    struct skit kit;
    struct store_op mark = {.type = STORE_QUARANTINE, .reason = "damage"};
    struct store_op install;

    (void)state;
    ready(&kit);
    assert_int_equal(skit_append(&kit, 1, 10, 3000), ERR_OK);
    skit_close(&kit, false);
    vfs_mem_flip(kit.disk, "wal-00000001-0000000000000001", 9000, 4);
    assert_int_equal(skit_open(&kit), ERR_OK);
    assert_int_equal(kit.report.verdict, STORE_DAMAGED);
    assert_false(kit.report.is_lost);
    assert_non_null(strstr(kit.report.reason, "offset"));
    assert_int_equal(kit.report.log_last, 0);
    assert_int_equal(skit_run(&kit, &mark), ERR_OK);
    skit_log_restart(&kit.log, 0, 0);
    skit_make(&kit, 2, 40, 100);
    receive(&kit, 20, 25, 30, &install);
    assert_int_equal(install.ret_err, ERR_OK);
    skit_log_cut(&kit.log, 30);
    assert_int_equal(skit_append(&kit, 2, 3, 100), ERR_OK);
    reopen(&kit, true);
    assert_int_equal(kit.report.verdict, STORE_CLEAN);
    assert_true(kit.report.quarantined);
    assert_int_equal(skit_check_log(&kit), 33);
    skit_release(&kit);
}

static void full_disk_stops_at_whole_operations(void **state)
{
    struct skit kit;
    size_t appended = 0;
    enum err err = ERR_OK;

    (void)state;
    ready(&kit);
    vfs_mem_set_capacity(kit.disk, UINT64_C(3) * KIT_SEGMENT);
    while (err == ERR_OK && appended < 100) {
        err = skit_append(&kit, 1, 3, 2500);
        appended += err == ERR_OK;
        (void)store_preallocate(kit.store);
    }
    assert_int_equal(err, ERR_NO_SPACE);
    assert_true(store_is_low(kit.store));

    /* The failed operation may be run again, or forgotten. */
    size_t whole = kit.log.count - 3;
    struct store_op again = {
        .type = STORE_APPEND, .recs = kit.log.recs + whole, .rec_count = 3, .committed = 0};

    assert_int_equal(skit_run(&kit, &again), ERR_NO_SPACE);
    vfs_mem_set_capacity(kit.disk, 0);
    assert_int_equal(skit_run(&kit, &again), ERR_OK);
    assert_int_equal(store_preallocate(kit.store), ERR_OK);
    assert_false(store_is_low(kit.store));
    reopen(&kit, false);
    assert_int_equal(skit_check_log(&kit), (long)whole + 3);
    skit_release(&kit);
}

static void read_only_opening_changes_nothing(void **state)
{
    struct skit kit;
    struct store *store = NULL;
    struct store_report report;

    (void)state;
    ready(&kit);
    assert_int_equal(skit_append(&kit, 1, 10, 100), ERR_OK);

    uint64_t calls = vfs_mem_calls(kit.disk);
    size_t pending = vfs_mem_pending(kit.disk);

    assert_int_equal(store_open(&kit.options, true, &store, &report), ERR_OK);
    assert_int_equal(report.log_last, skit_zxid(&kit.log, 10));
    store_close(store, true);
    assert_true(vfs_mem_calls(kit.disk) > calls);
    assert_int_equal(vfs_mem_pending(kit.disk), pending);
    skit_release(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formatted_store_knows_itself),
        cmocka_unit_test(identity_is_updated_when_joining),
        cmocka_unit_test(promise_and_quarantine_survive),
        cmocka_unit_test(records_come_back_after_reopening),
        cmocka_unit_test(log_rotates_through_segments),
        cmocka_unit_test(record_longer_than_a_segment_gets_its_own),
        cmocka_unit_test(neighbouring_appends_share_a_sync),
        cmocka_unit_test(truncation_cuts_anywhere),
        cmocka_unit_test(truncation_to_a_stranger_is_refused),
        cmocka_unit_test(reading_names_what_is_missing),
        cmocka_unit_test(snapshots_are_kept_and_purged),
        cmocka_unit_test(damaged_snapshot_falls_back_to_an_older_one),
        cmocka_unit_test(discarded_snapshot_falls_back_too),
        cmocka_unit_test(received_snapshot_replaces_the_log),
        cmocka_unit_test(truncation_below_the_only_snapshot_is_refused),
        cmocka_unit_test(snapshot_without_its_log_is_refused),
        cmocka_unit_test(aborted_receive_leaves_the_log),
        cmocka_unit_test(garbage_is_refused_and_its_records_with_it),
        cmocka_unit_test(reset_empties_the_log),
        cmocka_unit_test(snapshot_of_a_replaced_log_is_dropped),
        cmocka_unit_test(damaged_log_is_refilled),
        cmocka_unit_test(full_disk_stops_at_whole_operations),
        cmocka_unit_test(read_only_opening_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
