/* Snapshots, quarantine and refill: what replaces a log and a state. */
#include "tests/unit/zab_snap_kit.h"

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
    assert_int_equal(drive_sent(&drive, 3, ZAB_SNAP_ACK)->snap_ack.offset, 100);
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

/* Installed, it would be a log that no later leader may continue. */
static void a_snapshot_of_an_epoch_beyond_the_leaders_ends_the_dialogue(void **state)
{
    struct drive drive;

    (void)state;
    acked(&drive, false);
    begin(&drive);
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_SNAP_CHUNK,
                                               .snap_chunk.start = snap_start,
                                               .snap_chunk.end = zxid_make(drive.epoch + 1, 1),
                                               .snap_chunk.flags = ZAB_FLAG_SNAP_LAST});
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    drive_persist(&drive);
    assert_int_equal(drive_status(&drive).last, zxid_make(3, 2));
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
    assert_int_equal(drive_effect(&drive, ZAB_FX_RESTORE)->restore.start, snap_start);
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
    assert_int_equal(drive_sent(&drive, 2, ZAB_VOTE)->vote.last, zxid_make(3, 2));
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
    assert_int_equal(drive_sent(&drive, 2, ZAB_VOTE)->vote.last, snap_end);
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

/* A snapshot that does not fit will not fit at once: it is asked for again a tick later, not as
 * fast as the network allows. */
static void a_refused_snapshot_is_asked_for_again_in_time(void **state)
{
    struct drive drive;

    (void)state;
    acked(&drive, false);
    drive.install_fails = true;
    whole_snapshot(&drive);
    entries_to(&drive, END);
    drive_persist(&drive);
    drive_clear(&drive);
    drive_up(&drive, 3);
    drive_says(&drive, 2, ZAB_FOLLOWING, 3);
    drive_says(&drive, 3, ZAB_LEADING, 3);
    assert_int_equal(drive_status(&drive).leader, 3);
    drive_tick(&drive, drive.init.limits.tick_ms / 2);
    assert_int_equal(drive_sent_count(&drive, 3, ZAB_CEPOCH), 0);
    drive_tick(&drive, drive.init.limits.tick_ms);
    assert_int_equal(drive_status(&drive).leader, 3);
    assert_in_range(drive_sent_count(&drive, 3, ZAB_CEPOCH), 1, 2);
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
    assert_int_equal(drive_sent(&drive, 3, ZAB_ACK_NEWLEADER)->ack.zxid, zxid_make(7, 0));
    drive_leader_says(&drive,
                      (struct zab_msg){.type = ZAB_UPTODATE, .commit.zxid = zxid_make(7, 0)});
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
    struct zab_event stored = {.type = ZAB_EV_STORED_SNAP,
                               .stored_snap.start = ((zxid_t)3 << 32) + 2,
                               .stored_snap.log_base = ((zxid_t)3 << 32) + 1};

    (void)state;
    acked(&drive, true);
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_SYNC, .sync.common = 0});
    drive_persist(&drive);
    drive_step(&drive, &stored);
    assert_false(drive.zab->has_snapshot);
    assert_int_equal(drive.zab->trail.base, 0);
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

    assert_int_equal(cepoch->cepoch.last, 0);
    assert_true(cepoch->cepoch.flags & ZAB_FLAG_QUARANTINE);
    assert_false(cepoch->cepoch.flags & ZAB_FLAG_ELIGIBLE);
    assert_int_equal(ack->ackepoch.last, 0);
    assert_int_equal(ack->ackepoch.range_count, 0);
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
    assert_int_equal(drive_sent(&drive, 3, ZAB_ACK_NEWLEADER)->ack.zxid, zxid_make(7, 0));
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
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_SYNC, .sync.common = 0});
    assert_non_null(drive_asked(&drive, ZAB_PERSIST_RESET));
    drive_entry(&drive, drive_log_add(&drive.theirs, zxid_make(1, 0)), 0);
    drive_newleader(&drive, drive_log_add(&drive.theirs, zxid_make(7, 0)));
    drive_persist(&drive);
    assert_int_equal(drive_effect(&drive, ZAB_FX_RESTORE)->restore.start, 0);
    assert_int_equal(drive_sent(&drive, 3, ZAB_ACK_NEWLEADER)->ack.zxid, zxid_make(7, 0));
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
    drive_leader_says(
        &drive,
        (struct zab_msg){.type = ZAB_SYNC, .sync.common = 0, .sync.target = zxid_make(7, 2)});
    drive_newleader(&drive, drive_log_add(&drive.theirs, zxid_make(7, 0)));
    drive_entry(&drive, drive_log_add(&drive.theirs, zxid_make(7, 1)), 0);
    drive_persist(&drive);
    assert_null(drive_asked(&drive, ZAB_PERSIST_RELEASE));
    assert_int_equal(drive_sent(&drive, 3, ZAB_SYNC_ACK)->ack.zxid, zxid_make(7, 1));
    drive_entry(&drive, drive_log_add(&drive.theirs, zxid_make(7, 2)), 0);
    drive_persist(&drive);
    assert_int_equal(drive_sent(&drive, 3, ZAB_ACK_NEWLEADER)->ack.zxid, zxid_make(7, 2));
    drive_release(&drive);
}

static void a_leader_that_believes_a_damaged_log_is_left(void **state)
{
    struct drive drive;

    (void)state;
    acked(&drive, true);
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_SYNC, .sync.common = zxid_make(3, 2)});
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
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_COMMIT, .commit.zxid = zxid_make(1, 1)});
    drive_persist(&drive);
    assert_int_equal(drive.delivered, zxid_make(1, 1));
    drive_leader_says(&drive,
                      (struct zab_msg){.type = ZAB_STRANGER, .stranger.flags = ZAB_FLAG_DIVERGED});
    assert_non_null(drive_asked(&drive, ZAB_PERSIST_QUARANTINE));
    assert_false(drive_status(&drive).serving);
    drive_clear(&drive);
    drive_persist(&drive);
    assert_false(drive_sent(&drive, 3, ZAB_VOTE)->vote.flags & ZAB_FLAG_ELIGIBLE);
    drive_says(&drive, 2, ZAB_FOLLOWING, 3);
    drive_says(&drive, 3, ZAB_LEADING, 3);
    assert_int_equal(drive_status(&drive).state, ZAB_OBSERVING);
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_NEWEPOCH});
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_SYNC, .sync.common = 0});
    drive.restores_by_hand = true;
    drive_persist(&drive);
    assert_int_equal(drive_status(&drive).delivered, 0);
    drive_restored(&drive);
    drive_newleader(&drive, drive.theirs.recs[0]);
    drive_entry(&drive, drive.theirs.recs[1], 0);
    drive_persist(&drive);
    drive_leader_says(&drive,
                      (struct zab_msg){.type = ZAB_UPTODATE, .commit.zxid = zxid_make(1, 1)});
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
    drive_leader_says(
        &drive, (struct zab_msg){.type = ZAB_STRANGER, .stranger.flags = ZAB_FLAG_ROLLED_BACK});
    assert_non_null(drive_asked(&drive, ZAB_PERSIST_QUARANTINE));
    drive_persist(&drive);
    assert_true(drive.quarantined);
    drive_release(&drive);
}

static void somebody_who_does_not_lead_us_cannot_send_us_away(void **state)
{
    struct drive drive;
    struct zab_msg msg = {.type = ZAB_STRANGER, .stranger.flags = ZAB_FLAG_DIVERGED};

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
        cmocka_unit_test(a_snapshot_of_an_epoch_beyond_the_leaders_ends_the_dialogue),
        cmocka_unit_test(a_snapshot_waits_for_its_log),
        cmocka_unit_test(until_the_switch_the_old_log_stands),
        cmocka_unit_test(a_role_that_ends_before_the_switch_keeps_the_old_log),
        cmocka_unit_test(a_role_that_ends_during_the_switch_gets_the_new_log),
        cmocka_unit_test(a_snapshot_that_does_not_verify_changes_nothing),
        cmocka_unit_test(a_refused_snapshot_is_asked_for_again_in_time),
        cmocka_unit_test(newleader_after_a_snapshot_is_acknowledged_when_all_stands),
        cmocka_unit_test(a_snapshot_of_an_older_epoch_needs_the_record),
        cmocka_unit_test(a_record_before_the_snapshots_end_is_refused),
        cmocka_unit_test(staged_records_must_follow_too),
        cmocka_unit_test(a_snapshot_of_a_log_that_is_gone_is_forgotten),
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
