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

TEST(a_formatted_store_knows_its_identity, skit, ready, skit_release)
{
    reopen(skit, true);
    assert_int_equal(skit->report.verdict, STORE_CLEAN);
    assert_true(skit->report.has_identity);
    assert_int_equal(skit->report.identity.incarnation, 77);
    assert_int_equal(skit->report.identity.genesis_len, 5);
    assert_true(skit->report.identity.bootstrapping);
    assert_int_equal(skit->report.log_last, 0);
    assert_false(skit->report.has_snapshot);
}

TEST(joining_updates_the_identity, skit, ready, skit_release)
{
    struct store_identity identity = skit_identity();
    struct store_op op = {.type = STORE_IDENTITY, .identity = &identity};

    identity.bootstrapping = false;
    identity.cluster[0] = 9;
    assert_int_equal(skit_run(skit, &op), ERR_OK);
    assert_int_equal(skit_append(skit, 1, 1, 10), ERR_OK);
    reopen(skit, false);
    assert_int_equal(skit->report.verdict, STORE_CLEAN);
    assert_false(skit->report.identity.bootstrapping);
    assert_int_equal(skit->report.identity.cluster[0], 9);
}

TEST(promise_and_quarantine_survive, skit, ready, skit_release)
{
    struct store_op promise = {.type = STORE_PROMISE, .epoch = 7, .leader = 2};
    struct store_op mark = {.type = STORE_QUARANTINE, .reason = "rot"};
    struct store_op release = {.type = STORE_RELEASE};

    assert_int_equal(skit_run(skit, &promise), ERR_OK);
    assert_int_equal(skit_run(skit, &mark), ERR_OK);
    reopen(skit, false);
    assert_int_equal(skit->report.promised_epoch, 7);
    assert_int_equal(skit->report.promised_leader, 2);
    assert_true(skit->report.quarantined);
    assert_string_equal(skit->report.reason, "rot");
    assert_int_equal(skit_run(skit, &release), ERR_OK);
    reopen(skit, false);
    assert_false(skit->report.quarantined);
    assert_string_equal(skit->report.reason, "");
}

TEST(records_come_back_after_reopening, skit, ready, skit_release)
{
    assert_int_equal(skit_append(skit, 1, 5, 100), ERR_OK);
    assert_int_equal(skit_append(skit, 1, 3, 9000), ERR_OK);
    assert_int_equal(skit_append(skit, 4, 2, 0), ERR_OK);
    assert_int_equal(skit_check_log(skit), 10);
    reopen(skit, false);
    assert_int_equal(skit->report.verdict, STORE_CLEAN);
    assert_int_equal(skit->report.log_last, zxid_make(4, 1));
    assert_int_equal(skit->report.log_chain, skit_chain(&skit->log, 10));
    assert_int_equal(skit->report.committed, zxid_make(1, 7));
    assert_int_equal(skit_check_log(skit), 10);
}

TEST(log_rotates_through_segments, skit, ready, skit_release)
{
    struct store_figures figures;

    for (int i = 0; i < 40; i++) {
        assert_int_equal(skit_append(skit, 1, 2, 3000), ERR_OK);
        assert_int_equal(store_preallocate(skit->store), ERR_OK);
    }
    store_figures(skit->store, &figures);
    assert_in_range(figures.segments, 4, 8);
    assert_int_equal(figures.records_since_snap, 80);
    reopen(skit, false);
    assert_int_equal(skit_check_log(skit), 80);
    store_figures(skit->store, &figures);
    assert_int_equal(figures.records_since_snap, 80);
}

TEST(record_longer_than_a_segment_gets_its_own, skit, no_set_up, skit_release)
{
    skit_init(skit, UINT64_C(4) * VFS_BLOCK);
    assert_int_equal(skit_open(skit), ERR_OK);
    assert_int_equal(skit_format(skit), ERR_OK);
    assert_int_equal(skit_append(skit, 1, 1, 10), ERR_OK);
    assert_int_equal(skit_append(skit, 1, 3, KIT_RECORD_MAX), ERR_OK);
    assert_int_equal(skit_append(skit, 1, 1, 10), ERR_OK);
    reopen(skit, false);
    assert_int_equal(skit_check_log(skit), 5);
}

TEST(consecutive_appends_share_a_sync, skit, ready, skit_release)
{
    struct store_op ops[20];
    struct store_op *list[20];
    struct store_figures before;
    struct store_figures after;
    size_t done = 0;

    skit_make(skit, 1, 20, 50);
    for (size_t i = 0; i < 20; i++) {
        ops[i] = (struct store_op){
            .type = STORE_APPEND, .recs = skit->log.recs + i, .rec_count = 1, .committed = 0};
        list[i] = &ops[i];
    }
    store_figures(skit->store, &before);
    assert_int_equal(store_run(skit->store, list, 20, &done), ERR_OK);
    store_figures(skit->store, &after);
    assert_int_equal(done, 20);
    assert_int_equal(after.syncs - before.syncs, 1);
    reopen(skit, true);
    assert_int_equal(skit_check_log(skit), 20);
}

TEST(truncation_works_at_any_record)
{
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

TEST(truncation_to_an_unknown_record_is_refused, skit, ready, skit_release)
{
    struct store_op op = {.type = STORE_TRUNCATE, .zxid = zxid_make(1, 7)};

    assert_int_equal(skit_append(skit, 1, 3, 10), ERR_OK);
    assert_int_equal(skit_append(skit, 2, 3, 10), ERR_OK);
    assert_int_equal(skit_run(skit, &op), ERR_MISSING);
    reopen(skit, false);
    assert_int_equal(skit_check_log(skit), 6);
}

TEST(reading_names_what_is_missing, skit, ready, skit_release)
{
    struct logrec *recs[4];
    size_t count = 9;

    assert_int_equal(skit_append(skit, 1, 3, 10), ERR_OK);
    assert_int_equal(store_read(skit->store, zxid_make(1, 9), 100, 4, recs, &count), ERR_MISSING);
    assert_int_equal(count, 0);
    assert_int_equal(store_read(skit->store, zxid_make(1, 2), 100, 4, recs, &count), ERR_OK);
    assert_int_equal(count, 0);
    assert_int_equal(store_read(skit->store, zxid_make(0, 9), 100, 4, recs, &count), ERR_MISSING);
    /* One record always fits, however small the limit. */
    assert_int_equal(store_read(skit->store, zxid_make(1, 0), 1, 4, recs, &count), ERR_OK);
    assert_int_equal(count, 1);
    assert_int_equal(recs[0]->zxid, zxid_make(1, 1));
    logrec_unref(recs[0]);
}

TEST(snapshots_are_kept_and_purged, skit, ready, skit_release)
{
    struct store_figures figures;

    for (size_t round = 0; round < 5; round++) {
        assert_int_equal(skit_append(skit, 1, 10, 3000), ERR_OK);
        assert_int_equal(skit_append(skit, 1, 10, 3000), ERR_OK);
        assert_int_equal(skit_snapshot(skit, skit->log.count - 5, skit->log.count - 2), ERR_OK);
    }
    store_figures(skit->store, &figures);
    assert_int_equal(figures.snapshots, 2);
    assert_int_equal(figures.snap_newest_end, skit_zxid(&skit->log, 98));
    reopen(skit, false);
    assert_int_equal(skit->report.verdict, STORE_CLEAN);
    assert_true(skit->report.has_snapshot);
    assert_int_equal(skit->report.snap_start, skit_zxid(&skit->log, 95));
    assert_int_equal(skit->report.snap_end, skit_zxid(&skit->log, 98));
    assert_true(skit->report.log_base > 0);
    assert_true(skit->report.log_base <= skit_zxid(&skit->log, 75));
    assert_int_equal(skit_check_log(skit), 100);
    assert_true(skit_check_snapshot(skit));
}

/* A disk with two snapshots; one byte of the newer one has flipped. */
static void open_with_flip(struct skit *skit, uint64_t offset)
{
    assert_int_equal(skit_append(skit, 1, 20, 100), ERR_OK);
    assert_int_equal(skit_snapshot(skit, 5, 8), ERR_OK);
    assert_int_equal(skit_snapshot(skit, 15, 18), ERR_OK);
    skit_close(skit, true);
    vfs_mem_flip(skit->disk, "snap-00000001-000000010000000e", offset, 1);
    assert_int_equal(skit_open(skit), ERR_OK);
}

TEST(a_damaged_snapshot_falls_back_to_an_older_one, skit, ready, skit_release)
{
    open_with_flip(skit, 5);
    assert_int_equal(skit->report.verdict, STORE_CLEAN);
    assert_int_equal(skit->report.snap_start, skit_zxid(&skit->log, 5));
}

TEST(a_discarded_snapshot_falls_back_too, skit, ready, skit_release)
{
    open_with_flip(skit, 1000);
    assert_int_equal(skit->report.snap_start, skit_zxid(&skit->log, 15));
    assert_false(skit_check_snapshot(skit));
    assert_int_equal(store_snap_discard(skit->store, &skit->report), ERR_OK);
    assert_int_equal(skit->report.snap_start, skit_zxid(&skit->log, 5));
    assert_true(skit_check_snapshot(skit));
    /* The log reaches back to the beginning: no snapshot is needed. */
    assert_int_equal(store_snap_discard(skit->store, &skit->report), ERR_OK);
    assert_false(skit->report.has_snapshot);
    assert_int_equal(store_snap_discard(skit->store, &skit->report), ERR_MISSING);
}

static void receive(struct skit *kit, size_t start, size_t end, size_t upto,
                    struct store_op *install)
{
    *install = (struct store_op){.type = STORE_SNAP_INSTALL};
    assert_int_equal(skit_receive(kit, start, end, upto, install), ERR_OK);
}

TEST(received_snapshot_replaces_the_log, skit, ready, skit_release)
{
    struct store_op install;

    assert_int_equal(skit_append(skit, 1, 10, 100), ERR_OK);
    /* Another history, of which this replica has nothing. */
    skit_log_restart(&skit->log, 0, 0);
    skit_make(skit, 2, 40, 100);
    receive(skit, 20, 25, 30, &install);
    assert_int_equal(install.ret_err, ERR_OK);
    assert_int_equal(install.ret_last, skit_zxid(&skit->log, 30));
    assert_int_equal(install.ret_chain, skit_chain(&skit->log, 30));
    assert_int_equal(install.ret_snap_end, skit_zxid(&skit->log, 25));
    skit_log_cut(&skit->log, 30);
    assert_true(skit_check_snapshot(skit));
    assert_int_equal(skit_append(skit, 2, 3, 100), ERR_OK);
    reopen(skit, false);
    assert_int_equal(skit->report.verdict, STORE_CLEAN);
    assert_int_equal(skit->report.log_base, skit_zxid(&skit->log, 20));
    assert_int_equal(skit->report.snap_start, skit_zxid(&skit->log, 20));
    assert_int_equal(skit->report.committed, skit_zxid(&skit->log, 30));
    assert_int_equal(skit_check_log(skit), 33);
    assert_true(skit_check_snapshot(skit));
}

TEST(truncation_below_the_only_snapshot_is_refused, skit, ready, skit_release)
{
    struct store_op install;
    struct store_op cut = {.type = STORE_TRUNCATE};

    skit_make(skit, 2, 30, 100);
    receive(skit, 20, 25, 30, &install);
    cut.zxid = skit_zxid(&skit->log, 22);
    assert_int_equal(skit_run(skit, &cut), ERR_CORRUPT);
    reopen(skit, true);
    assert_int_equal(skit->report.verdict, STORE_CLEAN);
    assert_int_equal(skit_check_log(skit), 30);
    assert_int_equal(skit_truncate(skit, 25), ERR_OK);
    reopen(skit, true);
    assert_int_equal(skit_check_log(skit), 25);
}

TEST(snapshot_without_its_log_is_refused, skit, ready, skit_release)
{
    struct store_op install;

    assert_int_equal(skit_append(skit, 1, 10, 100), ERR_OK);
    skit_log_restart(&skit->log, 0, 0);
    skit_make(skit, 2, 40, 100);
    receive(skit, 20, 25, 24, &install);
    assert_int_equal(install.ret_err, ERR_CORRUPT);
    assert_int_equal(install.ret_last, zxid_make(1, 9));
    skit_log_restart(&skit->log, 0, 0);
    skit_make(skit, 1, 10, 100);
    assert_int_equal(skit_append(skit, 1, 2, 100), ERR_OK);
    reopen(skit, false);
    assert_int_equal(skit_check_log(skit), 12);
}

TEST(aborted_receive_leaves_the_log, skit, ready, skit_release)
{
    struct store_op begin = {.type = STORE_SNAP_BEGIN};
    struct store_op chunk = {.type = STORE_SNAP_CHUNK, .snap_bytes = slice_str("abc")};
    struct store_op abort_op = {.type = STORE_SNAP_ABORT};

    assert_int_equal(skit_append(skit, 1, 10, 100), ERR_OK);
    assert_int_equal(skit_run(skit, &abort_op), ERR_OK);
    assert_int_equal(skit_run(skit, &begin), ERR_OK);
    assert_int_equal(skit_run(skit, &chunk), ERR_OK);
    assert_int_equal(skit_run(skit, &begin), ERR_OK);
    assert_int_equal(skit_run(skit, &chunk), ERR_OK);
    assert_int_equal(skit_run(skit, &abort_op), ERR_OK);
    assert_int_equal(skit_append(skit, 1, 2, 100), ERR_OK);
    reopen(skit, false);
    assert_int_equal(skit_check_log(skit), 12);
}

TEST(garbage_is_refused_and_its_records_with_it, skit, ready, skit_release)
{
    struct store_op begin = {.type = STORE_SNAP_BEGIN};
    struct store_op chunk = {.type = STORE_SNAP_CHUNK, .snap_bytes = slice_str("no snapshot")};
    struct store_op install = {.type = STORE_SNAP_INSTALL};

    assert_int_equal(skit_append(skit, 1, 10, 100), ERR_OK);
    assert_int_equal(skit_run(skit, &begin), ERR_OK);
    assert_int_equal(skit_run(skit, &chunk), ERR_OK);
    skit_make(skit, 2, 1, 10);

    struct store_op append = {.type = STORE_APPEND, .recs = skit->log.recs + 10, .rec_count = 1};

    assert_int_equal(skit_run(skit, &append), ERR_OK);
    assert_int_equal(skit_run(skit, &install), ERR_OK);
    assert_int_equal(install.ret_err, ERR_CORRUPT);
    assert_int_equal(skit_check_log(skit), 10);
}

TEST(reset_empties_the_log, skit, ready, skit_release)
{
    struct store_op op = {.type = STORE_RESET};

    assert_int_equal(skit_append(skit, 1, 10, 100), ERR_OK);
    assert_int_equal(skit_snapshot(skit, 5, 8), ERR_OK);
    assert_int_equal(skit_run(skit, &op), ERR_OK);
    assert_int_equal(op.ret_last, 0);
    skit_log_restart(&skit->log, 0, 0);
    assert_int_equal(skit_append(skit, 2, 4, 100), ERR_OK);
    reopen(skit, false);
    assert_int_equal(skit->report.verdict, STORE_CLEAN);
    assert_false(skit->report.has_snapshot);
    assert_int_equal(skit_check_log(skit), 4);
}

TEST(snapshot_of_a_replaced_log_is_dropped, skit, ready, skit_release)
{
    struct store_snap_writer *writer = NULL;
    struct store_op op = {.type = STORE_RESET};

    assert_int_equal(skit_append(skit, 1, 10, 100), ERR_OK);
    assert_int_equal(store_snap_begin(skit->store, skit_zxid(&skit->log, 4),
                                      skit_chain(&skit->log, 4), slice_str(""), &writer),
                     ERR_OK);
    assert_int_equal(skit_run(skit, &op), ERR_OK);
    assert_int_equal(store_snap_finish(writer, zxid_make(1, 6), 0, 0), ERR_CLOSED);
}

TEST(damaged_log_is_refilled, skit, ready, skit_release)
{
    struct store_op mark = {.type = STORE_QUARANTINE, .reason = "damage"};
    struct store_op install;

    assert_int_equal(skit_append(skit, 1, 10, 3000), ERR_OK);
    skit_close(skit, false);
    vfs_mem_flip(skit->disk, "wal-00000001-0000000000000001", 9000, 4);
    assert_int_equal(skit_open(skit), ERR_OK);
    assert_int_equal(skit->report.verdict, STORE_DAMAGED);
    assert_false(skit->report.is_lost);
    assert_non_null(strstr(skit->report.reason, "offset"));
    assert_int_equal(skit->report.log_last, 0);
    assert_int_equal(skit_run(skit, &mark), ERR_OK);
    skit_log_restart(&skit->log, 0, 0);
    skit_make(skit, 2, 40, 100);
    receive(skit, 20, 25, 30, &install);
    assert_int_equal(install.ret_err, ERR_OK);
    skit_log_cut(&skit->log, 30);
    assert_int_equal(skit_append(skit, 2, 3, 100), ERR_OK);
    reopen(skit, true);
    assert_int_equal(skit->report.verdict, STORE_CLEAN);
    assert_true(skit->report.quarantined);
    assert_int_equal(skit_check_log(skit), 33);
}

TEST(full_disk_stops_at_whole_operations, skit, ready, skit_release)
{
    size_t appended = 0;
    enum err err = ERR_OK;

    vfs_mem_set_capacity(skit->disk, UINT64_C(3) * KIT_SEGMENT);
    while (err == ERR_OK && appended < 100) {
        err = skit_append(skit, 1, 3, 2500);
        appended += err == ERR_OK;
        (void)store_preallocate(skit->store);
    }
    assert_int_equal(err, ERR_NO_SPACE);
    assert_true(store_is_low(skit->store));

    /* The failed operation may be run again, or dropped. */
    size_t whole = skit->log.count - 3;
    struct store_op again = {
        .type = STORE_APPEND, .recs = skit->log.recs + whole, .rec_count = 3, .committed = 0};

    assert_int_equal(skit_run(skit, &again), ERR_NO_SPACE);
    vfs_mem_set_capacity(skit->disk, 0);
    assert_int_equal(skit_run(skit, &again), ERR_OK);
    assert_int_equal(store_preallocate(skit->store), ERR_OK);
    assert_false(store_is_low(skit->store));
    reopen(skit, false);
    assert_int_equal(skit_check_log(skit), (long)whole + 3);
}

TEST(read_only_opening_changes_nothing, skit, ready, skit_release)
{
    struct store *store = NULL;
    struct store_report report;

    assert_int_equal(skit_append(skit, 1, 10, 100), ERR_OK);

    uint64_t calls = vfs_mem_calls(skit->disk);
    size_t pending = vfs_mem_pending(skit->disk);

    assert_int_equal(store_open(&skit->options, true, &store, &report), ERR_OK);
    assert_int_equal(report.log_last, skit_zxid(&skit->log, 10));
    store_close(store, true);
    assert_true(vfs_mem_calls(skit->disk) > calls);
    assert_int_equal(vfs_mem_pending(skit->disk), pending);
}
