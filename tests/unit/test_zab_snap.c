/* Snapshots, quarantine and refill: what replaces a log and a state. */
#include "tests/lib/unit.h"
#include "tests/lib/zab_drive.h"
#include "zab/zab_int.h"

enum {
    START = 5, /* The leader's snapshot: (6, 5) to (6, 8). */
    END = 8
};

static const zxid_t snap_start = ((zxid_t)6 << 32) + START;
static const zxid_t snap_end = ((zxid_t)6 << 32) + END;

/* Replica 1 of 3 with a log up to (3, 2), all committed; the leader's log begins at (6, 5). */
static void acked(struct drive *drive, bool quarantined)
{
    drive_init(drive, 1, 3);
    if (!quarantined) {
        for (uint32_t i = 0; i <= 2; i++) {
            drive_log_add(&drive->disk, zxid_make(3, i));
        }
        drive->init.committed = zxid_make(3, 2);
    }
    drive->init.quarantined = quarantined;
    drive->init.promised_epoch = 3;
    drive_start(drive);
    drive_says(drive, 3, ZAB_LEADING, 3);
    if (quarantined) {
        drive->leader = 3;
        drive->epoch = 7;
        drive_up(drive, 2);
        drive_up(drive, 3);
        drive_says(drive, 2, ZAB_FOLLOWING, 3);
        drive_says(drive, 3, ZAB_LEADING, 3);
        drive_leader_says(drive, (struct zab_msg){.type = ZAB_NEWEPOCH});
        drive_persist(drive);
    } else {
        drive_follow_acked(drive, 3, 7);
    }
    drive_log_reset(&drive->theirs, snap_start, 4711);
}

static void begin(struct drive *drive)
{
    drive_leader_says(drive, (struct zab_msg){.type = ZAB_SYNC, .flags = ZAB_FLAG_SNAP});
}

static void chunk(struct drive *drive, uint64_t offset, bool last)
{
    static const uint8_t bytes[100];

    if (last && drive->staged.base == 0) {
        drive_log_reset(&drive->staged, snap_start, 4711);
    }
    drive_leader_says(drive, (struct zab_msg){.type = ZAB_SNAP_CHUNK,
                                              .zxid = snap_start,
                                              .chain = 4711,
                                              .commit = snap_end,
                                              .offset = offset,
                                              .flags = last ? ZAB_FLAG_SNAP_LAST : 0,
                                              .bytes = slice_make(bytes, sizeof bytes)});
}

static void whole_snapshot(struct drive *drive)
{
    begin(drive);
    drive_persist(drive);
    chunk(drive, 0, false);
    chunk(drive, 100, true);
}

static void entries_to(struct drive *drive, uint32_t counter)
{
    while (zxid_counter(drive_log_last(&drive->theirs)) < counter) {
        drive_entry(drive, drive_log_add(&drive->theirs, drive_log_last(&drive->theirs) + 1), 0);
    }
}

static void pieces_are_acknowledged_when_durable(void **state)
{
    struct drive drive;

    (void)state;
    acked(&drive, false);
    begin(&drive);
    drive_persist(&drive);
    chunk(&drive, 0, false);
    assert_null(drive_sent(&drive, 3, ZAB_SNAP_ACK));
    drive_persist(&drive);
    assert_int_equal(drive_sent(&drive, 3, ZAB_SNAP_ACK)->offset, 100);
    drive_release(&drive);
}

static void a_piece_out_of_place_ends_the_dialogue(void **state)
{
    struct drive drive;

    (void)state;
    acked(&drive, false);
    begin(&drive);
    chunk(&drive, 200, false);
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    assert_non_null(drive_asked(&drive, ZAB_PERSIST_SNAP_ABORT));
    drive_release(&drive);
}

/* A fuzzy snapshot without the log up to its end is not a state. */
static void a_snapshot_waits_for_its_log(void **state)
{
    struct drive drive;

    (void)state;
    acked(&drive, false);
    whole_snapshot(&drive);
    entries_to(&drive, END - 1);
    drive_persist(&drive);
    assert_null(drive_asked(&drive, ZAB_PERSIST_SNAP_INSTALL));
    entries_to(&drive, END);
    assert_non_null(drive_asked(&drive, ZAB_PERSIST_SNAP_INSTALL));
    drive_release(&drive);
}

/* ZOOKEEPER-2872, 3642: until the one switch is durable, the old log and state are ours. */
static void until_the_switch_the_old_log_stands(void **state)
{
    struct drive drive;

    (void)state;
    acked(&drive, false);
    whole_snapshot(&drive);
    entries_to(&drive, END);
    assert_int_equal(drive_status(&drive).last, zxid_make(3, 2));
    assert_int_equal(drive_status(&drive).committed, zxid_make(3, 2));
    assert_null(drive_effect(&drive, ZAB_FX_RESTORE));
    drive_persist(&drive);
    assert_int_equal(drive_status(&drive).last, snap_end);
    assert_int_equal(drive_effect(&drive, ZAB_FX_RESTORE)->zxid, snap_start);
    drive_release(&drive);
}

static void a_role_that_ends_before_the_switch_keeps_the_old_log(void **state)
{
    struct drive drive;

    (void)state;
    acked(&drive, false);
    whole_snapshot(&drive);
    entries_to(&drive, END - 1);
    drive_down(&drive, 3);
    assert_non_null(drive_asked(&drive, ZAB_PERSIST_SNAP_ABORT));
    drive_clear(&drive);
    drive_persist(&drive);
    assert_int_equal(drive_sent(&drive, 2, ZAB_VOTE)->commit, zxid_make(3, 2));
    drive_release(&drive);
}

static void a_role_that_ends_during_the_switch_gets_the_new_log(void **state)
{
    struct drive drive;

    (void)state;
    acked(&drive, false);
    whole_snapshot(&drive);
    entries_to(&drive, END);
    drive_down(&drive, 3);
    assert_null(drive_asked(&drive, ZAB_PERSIST_SNAP_ABORT));
    drive_clear(&drive);
    drive_persist(&drive);
    assert_int_equal(drive_sent(&drive, 2, ZAB_VOTE)->commit, snap_end);
    assert_int_equal(drive_status(&drive).committed, snap_end);
    drive_release(&drive);
}

static void a_snapshot_that_does_not_verify_changes_nothing(void **state)
{
    struct drive drive;

    (void)state;
    acked(&drive, false);
    drive.install_fails = true;
    whole_snapshot(&drive);
    entries_to(&drive, END);
    drive_persist(&drive);
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    assert_int_equal(drive_status(&drive).last, zxid_make(3, 2));
    assert_null(drive_effect(&drive, ZAB_FX_RESTORE));
    drive_release(&drive);
}

/* The record of the epoch may come while the log up to the end is still missing, or behind it. */
static void newleader_after_a_snapshot_is_acknowledged_when_all_stands(void **state)
{
    struct drive drive;

    (void)state;
    acked(&drive, false);
    drive.restores_by_hand = true;
    whole_snapshot(&drive);
    entries_to(&drive, END);
    drive_newleader(&drive, drive_log_add(&drive.theirs, zxid_make(7, 0)));
    drive_persist(&drive);
    assert_null(drive_sent(&drive, 3, ZAB_ACK_NEWLEADER));
    drive_restored(&drive);
    drive_persist(&drive);
    assert_int_equal(drive_sent(&drive, 3, ZAB_ACK_NEWLEADER)->zxid, zxid_make(7, 0));
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_UPTODATE, .commit = zxid_make(7, 0)});
    assert_int_equal(drive.delivered, zxid_make(7, 0));
    assert_true(drive_status(&drive).serving);
    drive_release(&drive);
}

/* Only a snapshot that begins in the epoch may come without its record. */
static void a_snapshot_of_an_older_epoch_needs_the_record(void **state)
{
    struct drive drive;

    (void)state;
    acked(&drive, false);
    drive.epoch = 7;
    whole_snapshot(&drive);
    entries_to(&drive, END - 1);
    drive_newleader(&drive, NULL);
    assert_null(drive_sent(&drive, 3, ZAB_ACK_NEWLEADER));
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    drive_release(&drive);
}

static void a_record_before_the_snapshots_end_is_refused(void **state)
{
    struct drive drive;

    (void)state;
    acked(&drive, false);
    begin(&drive);
    drive_persist(&drive);
    chunk(&drive, 0, false);
    entries_to(&drive, END);
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    drive_release(&drive);
}

static void staged_records_must_follow_too(void **state)
{
    struct drive drive;

    (void)state;
    acked(&drive, false);
    whole_snapshot(&drive);
    drive_entry(&drive, drive_log_add(&drive.theirs, snap_start + 2), 0);
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    drive_release(&drive);
}

/* The news that a snapshot is durable may come after the log it was made of has gone. */
static void a_snapshot_of_a_log_that_is_gone_is_forgotten(void **state)
{
    struct drive drive;
    struct zab_event stored = {
        .type = ZAB_EV_STORED_SNAP, .zxid = ((zxid_t)3 << 32) + 2, .base = ((zxid_t)3 << 32) + 1};

    (void)state;
    acked(&drive, true);
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_SYNC, .zxid = 0});
    drive_persist(&drive);
    drive_step(&drive, &stored);
    assert_false(drive.zab->has_snapshot);
    assert_int_equal(drive.zab->trail.base, 0);
    drive_release(&drive);
}

static void two_restores_wait_for_the_last(void **state)
{
    struct drive drive;

    (void)state;
    acked(&drive, false);
    drive.restores_by_hand = true;
    whole_snapshot(&drive);
    entries_to(&drive, END);
    drive_persist(&drive);
    drive_down(&drive, 3);
    drive_log_copy(&drive.theirs, &drive.disk);
    drive_follow_wait(&drive, 3, 8);
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_UPTODATE, .commit = zxid_make(8, 0)});
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
    struct zab_event failed = {.type = ZAB_EV_RESTORED, .err = ERR_MISSING};

    (void)state;
    acked(&drive, false);
    drive.restores_by_hand = true;
    whole_snapshot(&drive);
    entries_to(&drive, END);
    drive_persist(&drive);
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
    struct zab_event failed = {.type = ZAB_EV_RESTORED, .err = ERR_CORRUPT};

    (void)state;
    acked(&drive, false);
    drive.restores_by_hand = true;
    whole_snapshot(&drive);
    entries_to(&drive, END);
    drive_persist(&drive);
    drive_step(&drive, &failed);
    assert_non_null(drive_effect(&drive, ZAB_FX_HALT));
    drive_release(&drive);
}

/* A second snapshot, of start (6, 6), is complete and on its way to the disk while the state of the
 * first one is being loaded. */
static void second_install_begun(struct drive *drive)
{
    acked(drive, false);
    drive->restores_by_hand = true;
    whole_snapshot(drive);
    entries_to(drive, END);
    drive_persist(drive);
    drive_down(drive, 3);
    drive_log_copy(&drive->theirs, &drive->disk);
    drive_follow_acked(drive, 3, 8);
    drive_log_reset(&drive->theirs, snap_start + 1, 4712);
    begin(drive);
    drive_persist(drive);
    drive_clear(drive);
    drive_log_reset(&drive->staged, snap_start + 1, 4712);
    drive_leader_says(drive, (struct zab_msg){.type = ZAB_SNAP_CHUNK,
                                              .zxid = snap_start + 1,
                                              .chain = 4712,
                                              .commit = snap_start + 1,
                                              .bytes = slice_str("x"),
                                              .flags = ZAB_FLAG_SNAP_LAST});
    assert_non_null(drive_asked(drive, ZAB_PERSIST_SNAP_INSTALL));
}

/* The disk is faster than the news of it: the state is already that of an install of which the core
 * has not heard. */
static void a_state_may_be_ahead_of_the_news_of_its_install(void **state)
{
    struct drive drive;
    struct zab_event early = {.type = ZAB_EV_RESTORED,
                              .zxid = ((zxid_t)6 << 32) + START + 1,
                              .chain = 4712,
                              .base = ((zxid_t)6 << 32) + START + 1};

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
    struct zab_event failed = {.type = ZAB_EV_RESTORED, .err = ERR_CORRUPT};

    (void)state;
    second_install_begun(&drive);
    drive.install_fails = true;
    drive_step(&drive, &failed);
    assert_null(drive_effect(&drive, ZAB_FX_HALT));
    drive_persist(&drive);
    assert_non_null(drive_effect(&drive, ZAB_FX_HALT));
    drive_release(&drive);
}

/* ---- Quarantine. ---- */

static void a_damaged_disk_says_nothing_of_its_log(void **state)
{
    struct drive drive;

    (void)state;
    acked(&drive, true);
    const struct zab_msg *cepoch = drive_sent(&drive, 3, ZAB_CEPOCH);
    const struct zab_msg *ack = drive_sent(&drive, 3, ZAB_ACKEPOCH);

    assert_int_equal(cepoch->zxid, 0);
    assert_true(cepoch->flags & ZAB_FLAG_QUARANTINE);
    assert_false(cepoch->flags & ZAB_FLAG_ELIGIBLE);
    assert_int_equal(ack->zxid, 0);
    assert_int_equal(ack->range_count, 0);
    drive_release(&drive);
}

/* Decision 8: the mark is cleared after the refill, before the acknowledgement. */
static void the_mark_goes_after_the_refill_and_before_the_acknowledgement(void **state)
{
    struct drive drive;

    (void)state;
    acked(&drive, true);
    whole_snapshot(&drive);
    entries_to(&drive, END);
    drive_newleader(&drive, drive_log_add(&drive.theirs, zxid_make(7, 0)));
    while (!drive_asked(&drive, ZAB_PERSIST_RELEASE)) {
        assert_null(drive_sent(&drive, 3, ZAB_ACK_NEWLEADER));
        assert_true(drive_persist_next(&drive));
    }
    assert_int_equal(drive_log_last(&drive.disk), zxid_make(7, 0));
    assert_null(drive_sent(&drive, 3, ZAB_ACK_NEWLEADER));
    assert_true(drive_status(&drive).quarantined);
    drive_persist(&drive);
    assert_int_equal(drive_sent(&drive, 3, ZAB_ACK_NEWLEADER)->zxid, zxid_make(7, 0));
    assert_false(drive_status(&drive).quarantined);
    drive_release(&drive);
}

/* The leader still has its log from the very start: everything comes as records. */
static void a_refill_without_snapshot_starts_from_nothing(void **state)
{
    struct drive drive;

    (void)state;
    acked(&drive, true);
    drive_log_reset(&drive.theirs, 0, 0);
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_SYNC, .zxid = 0});
    assert_non_null(drive_asked(&drive, ZAB_PERSIST_RESET));
    drive_entry(&drive, drive_log_add(&drive.theirs, zxid_make(1, 0)), 0);
    drive_newleader(&drive, drive_log_add(&drive.theirs, zxid_make(7, 0)));
    drive_persist(&drive);
    assert_int_equal(drive_effect(&drive, ZAB_FX_RESTORE)->zxid, 0);
    assert_int_equal(drive_sent(&drive, 3, ZAB_ACK_NEWLEADER)->zxid, zxid_make(7, 0));
    assert_false(drive.quarantined);
    drive_release(&drive);
}

/* What the disk acknowledged in this very epoch, before it was damaged, must be there again. */
static void a_refill_counts_once_it_has_caught_up(void **state)
{
    struct drive drive;

    (void)state;
    acked(&drive, true);
    drive_log_reset(&drive.theirs, 0, 0);
    drive_leader_says(&drive,
                      (struct zab_msg){.type = ZAB_SYNC, .zxid = 0, .commit = zxid_make(7, 2)});
    drive_newleader(&drive, drive_log_add(&drive.theirs, zxid_make(7, 0)));
    drive_entry(&drive, drive_log_add(&drive.theirs, zxid_make(7, 1)), 0);
    drive_persist(&drive);
    assert_null(drive_asked(&drive, ZAB_PERSIST_RELEASE));
    assert_int_equal(drive_sent(&drive, 3, ZAB_SYNC_ACK)->zxid, zxid_make(7, 1));
    drive_entry(&drive, drive_log_add(&drive.theirs, zxid_make(7, 2)), 0);
    drive_persist(&drive);
    assert_int_equal(drive_sent(&drive, 3, ZAB_ACK_NEWLEADER)->zxid, zxid_make(7, 2));
    drive_release(&drive);
}

static void a_leader_that_believes_a_damaged_log_is_left(void **state)
{
    struct drive drive;

    (void)state;
    acked(&drive, true);
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_SYNC, .zxid = zxid_make(3, 2)});
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    drive_release(&drive);
}

/* A replica that has served is told that its state is wrong: what it has delivered goes too. */
static void a_diverged_replica_starts_over(void **state)
{
    struct drive drive;

    (void)state;
    drive_init(&drive, 1, 3);
    drive_start(&drive);
    drive_follow(&drive, 3, 1);
    drive_entry(&drive, drive_log_add(&drive.theirs, zxid_make(1, 1)), 0);
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_COMMIT, .commit = zxid_make(1, 1)});
    drive_persist(&drive);
    assert_int_equal(drive.delivered, zxid_make(1, 1));
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_STRANGER, .flags = ZAB_FLAG_DIVERGED});
    assert_non_null(drive_asked(&drive, ZAB_PERSIST_QUARANTINE));
    assert_false(drive_status(&drive).serving);
    drive_clear(&drive);
    drive_persist(&drive);
    assert_false(drive_sent(&drive, 3, ZAB_VOTE)->flags & ZAB_FLAG_ELIGIBLE);
    drive_says(&drive, 2, ZAB_FOLLOWING, 3);
    drive_says(&drive, 3, ZAB_LEADING, 3);
    assert_int_equal(drive_status(&drive).state, ZAB_OBSERVING);
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_NEWEPOCH});
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_SYNC, .zxid = 0});
    drive.restores_by_hand = true;
    drive_persist(&drive);
    assert_int_equal(drive_status(&drive).delivered, 0);
    drive_restored(&drive);
    drive_newleader(&drive, drive.theirs.recs[0]);
    drive_entry(&drive, drive.theirs.recs[1], 0);
    drive_persist(&drive);
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_UPTODATE, .commit = zxid_make(1, 1)});
    assert_int_equal(drive.delivered, zxid_make(1, 1));
    assert_false(drive.quarantined);
    drive_release(&drive);
}

static void a_rolled_back_replica_starts_over(void **state)
{
    struct drive drive;

    (void)state;
    drive_init(&drive, 1, 3);
    drive_start(&drive);
    drive_follow_cepoch(&drive, 3);
    drive_leader_says(&drive,
                      (struct zab_msg){.type = ZAB_STRANGER, .flags = ZAB_FLAG_ROLLED_BACK});
    assert_non_null(drive_asked(&drive, ZAB_PERSIST_QUARANTINE));
    drive_persist(&drive);
    assert_true(drive.quarantined);
    drive_release(&drive);
}

static void somebody_who_does_not_lead_us_cannot_send_us_away(void **state)
{
    struct drive drive;
    struct zab_msg msg = {.type = ZAB_STRANGER, .flags = ZAB_FLAG_DIVERGED};

    (void)state;
    drive_init(&drive, 1, 3);
    drive_start(&drive);
    drive_follow(&drive, 3, 1);
    drive_recv(&drive, 2, &msg);
    assert_null(drive_asked(&drive, ZAB_PERSIST_QUARANTINE));
    drive_release(&drive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_acknowledged_when_durable),
        cmocka_unit_test(a_piece_out_of_place_ends_the_dialogue),
        cmocka_unit_test(a_snapshot_waits_for_its_log),
        cmocka_unit_test(until_the_switch_the_old_log_stands),
        cmocka_unit_test(a_role_that_ends_before_the_switch_keeps_the_old_log),
        cmocka_unit_test(a_role_that_ends_during_the_switch_gets_the_new_log),
        cmocka_unit_test(a_snapshot_that_does_not_verify_changes_nothing),
        cmocka_unit_test(newleader_after_a_snapshot_is_acknowledged_when_all_stands),
        cmocka_unit_test(a_snapshot_of_an_older_epoch_needs_the_record),
        cmocka_unit_test(a_record_before_the_snapshots_end_is_refused),
        cmocka_unit_test(staged_records_must_follow_too),
        cmocka_unit_test(a_snapshot_of_a_log_that_is_gone_is_forgotten),
        cmocka_unit_test(two_restores_wait_for_the_last),
        cmocka_unit_test(a_state_that_was_replaced_on_its_way_is_no_failure),
        cmocka_unit_test(a_state_that_cannot_be_loaded_ends_the_process),
        cmocka_unit_test(a_state_may_be_ahead_of_the_news_of_its_install),
        cmocka_unit_test(a_lost_state_whose_successor_is_refused_ends_the_process),
        cmocka_unit_test(a_damaged_disk_says_nothing_of_its_log),
        cmocka_unit_test(the_mark_goes_after_the_refill_and_before_the_acknowledgement),
        cmocka_unit_test(a_refill_without_snapshot_starts_from_nothing),
        cmocka_unit_test(a_refill_counts_once_it_has_caught_up),
        cmocka_unit_test(a_leader_that_believes_a_damaged_log_is_left),
        cmocka_unit_test(a_diverged_replica_starts_over),
        cmocka_unit_test(a_rolled_back_replica_starts_over),
        cmocka_unit_test(somebody_who_does_not_lead_us_cannot_send_us_away),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
