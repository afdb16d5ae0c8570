/* Loading the state of a snapshot that was received: it takes its time, and the log may change
 * again meanwhile. */
#include "tests/unit/zab_snap_kit.h"

/* The snapshot is installed, its state is being loaded. */
static void restoring(struct drive *drive)
{
    acked(drive, false);
    drive->restores_by_hand = true;
    whole_snapshot(drive);
    entries_to(drive, END);
    drive_persist(drive);
}

static void two_restores_wait_for_the_last(void **state)
{
    struct drive drive;

    (void)state;
    restoring(&drive);
    drive_down(&drive, 3);
    drive_log_copy(&drive.theirs, &drive.disk);
    drive_follow_wait(&drive, 3, 8);
    drive_leader_says(&drive,
                      (struct zab_msg){.type = ZAB_UPTODATE, .commit.zxid = zxid_make(8, 0)});
    assert_int_equal(drive.delivered_count, 0);
    drive_restored(&drive);
    assert_int_equal(drive.delivered, zxid_make(8, 0));
    drive_release(&drive);
}

/* The disk has installed a second snapshot, or forgotten the first one, while its state was being
 * loaded; what was loaded, or could not be, is of no interest any more. */
static void a_state_that_was_replaced_on_its_way_is_no_failure(void **state)
{
    struct drive drive;
    struct zab_event failed = {.type = ZAB_EV_RESTORED, .restored.err = ERR_MISSING};

    (void)state;
    restoring(&drive);
    drive.zab->restoring++; /* As a second install would, whose state is asked for. */
    drive_step(&drive, &failed);
    assert_null(drive_effect(&drive, ZAB_FX_HALT));
    assert_int_equal(drive_status(&drive).delivered, zxid_make(3, 2));
    drive_restored(&drive);
    assert_null(drive_effect(&drive, ZAB_FX_HALT));
    assert_int_equal(drive_status(&drive).delivered, snap_start);
    drive_release(&drive);
}

static void a_state_that_cannot_be_loaded_ends_the_process(void **state)
{
    struct drive drive;
    struct zab_event failed = {.type = ZAB_EV_RESTORED, .restored.err = ERR_CORRUPT};

    (void)state;
    restoring(&drive);
    drive_step(&drive, &failed);
    assert_non_null(drive_effect(&drive, ZAB_FX_HALT));
    drive_release(&drive);
}

/* A second snapshot, of start (6, 6), is complete and on its way to the disk while the state of the
 * first one is being loaded. */
static void second_install_begun(struct drive *drive)
{
    restoring(drive);
    drive_down(drive, 3);
    drive_log_copy(&drive->theirs, &drive->disk);
    drive_follow_acked(drive, 3, 8);
    drive_log_reset(&drive->theirs, snap_start + 1, 4712);
    begin(drive);
    drive_persist(drive);
    drive_clear(drive);
    drive_log_reset(&drive->staged, snap_start + 1, 4712);
    drive_leader_says(drive, (struct zab_msg){.type = ZAB_SNAP_CHUNK,
                                              .snap_chunk.start = snap_start + 1,
                                              .snap_chunk.start_chain = 4712,
                                              .snap_chunk.end = snap_start + 1,
                                              .snap_chunk.bytes = slice_str("x"),
                                              .snap_chunk.flags = ZAB_FLAG_SNAP_LAST});
    assert_non_null(drive_asked(drive, ZAB_PERSIST_SNAP_INSTALL));
}

/* The disk is faster than the news of it: the state is already that of an install of which the core
 * has not heard. */
static void a_state_may_be_ahead_of_the_news_of_its_install(void **state)
{
    struct drive drive;
    struct zab_event early = {.type = ZAB_EV_RESTORED,
                              .restored.start = ((zxid_t)6 << 32) + START + 1,
                              .restored.start_chain = 4712,
                              .restored.end = ((zxid_t)6 << 32) + START + 1};

    (void)state;
    second_install_begun(&drive);
    drive_step(&drive, &early);
    assert_null(drive_effect(&drive, ZAB_FX_HALT));
    assert_int_equal(drive_status(&drive).delivered, zxid_make(3, 2));
    drive_clear(&drive);
    drive_persist(&drive);
    drive_restored(&drive);
    assert_int_equal(drive_status(&drive).delivered, snap_start + 1);
    assert_int_equal(drive.zab->restoring, 0);
    drive_release(&drive);
}

static void a_lost_state_whose_successor_is_refused_ends_the_process(void **state)
{
    struct drive drive;
    struct zab_event failed = {.type = ZAB_EV_RESTORED, .restored.err = ERR_CORRUPT};

    (void)state;
    second_install_begun(&drive);
    drive.install_fails = true;
    drive_step(&drive, &failed);
    assert_null(drive_effect(&drive, ZAB_FX_HALT));
    drive_persist(&drive);
    assert_non_null(drive_effect(&drive, ZAB_FX_HALT));
    drive_release(&drive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_restores_wait_for_the_last),
        cmocka_unit_test(a_state_that_was_replaced_on_its_way_is_no_failure),
        cmocka_unit_test(a_state_that_cannot_be_loaded_ends_the_process),
        cmocka_unit_test(a_state_may_be_ahead_of_the_news_of_its_install),
        cmocka_unit_test(a_lost_state_whose_successor_is_refused_ends_the_process),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
