/* Phase 2 on the learner's side: what synchronisation does to its log, and what it says when. */
#include "tests/lib/unit.h"
#include "tests/lib/zab_drive.h"

/* Replica 1 of 3 with a log up to (3, 4), of which (3, 2) is committed. */
static void ready(struct drive *drive)
{
    drive_init(drive, 1, 3);
    for (uint32_t i = 0; i <= 4; i++) {
        drive_log_add(&drive->disk, zxid_make(3, i));
    }
    drive->init.committed = zxid_make(3, 2);
    drive_start(drive);
}

static void sync_to(struct drive *drive, zxid_t zxid)
{
    drive_leader_says(drive, (struct zab_msg){.type = ZAB_SYNC, .sync.common = zxid});
}

static void refused(const struct drive *drive)
{
    assert_non_null(drive_effect(drive, ZAB_FX_DISCONNECT));
    assert_int_equal(drive_status(drive).state, ZAB_LOOKING);
}

/* ---- SYNC. ---- */

static void a_common_log_takes_records_at_once(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_follow_stream(&drive, 3, 4);
    assert_null(drive_asked(&drive, ZAB_PERSIST_TRUNCATE));
    drive_newleader(&drive, drive_log_add(&drive.theirs, zxid_make(4, 0)));
    assert_int_equal(drive_asked(&drive, ZAB_PERSIST_APPEND)->append.rec->zxid, zxid_make(4, 0));
    drive_release(&drive);
}

/* A tail that nobody committed goes (ZOOKEEPER-1154). */
static void a_longer_tail_is_cut(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_follow_acked(&drive, 3, 4);
    sync_to(&drive, zxid_make(3, 2));
    assert_int_equal(drive_asked(&drive, ZAB_PERSIST_TRUNCATE)->truncate.zxid, zxid_make(3, 2));
    drive_persist(&drive);
    assert_int_equal(drive_log_last(&drive.disk), zxid_make(3, 2));
    assert_int_equal(drive_status(&drive).last, zxid_make(3, 2));
    drive_release(&drive);
}

/* Records that come while the disk cuts wait for it; their order on disk is the leader's. */
static void records_wait_for_the_cut(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_follow_acked(&drive, 3, 4);
    drive_log_cut(&drive.theirs, zxid_make(3, 2));
    sync_to(&drive, zxid_make(3, 2));
    drive_newleader(&drive, drive_log_add(&drive.theirs, zxid_make(4, 0)));
    drive_entry(&drive, drive_log_add(&drive.theirs, zxid_make(4, 1)), 0);
    assert_null(drive_asked(&drive, ZAB_PERSIST_APPEND));
    drive_persist_next(&drive);
    assert_int_equal(drive_asked(&drive, ZAB_PERSIST_APPEND)->append.rec->zxid, zxid_make(4, 1));
    drive_persist(&drive);
    assert_int_equal(drive_log_last(&drive.disk), zxid_make(4, 1));
    assert_non_null(drive_sent(&drive, 3, ZAB_ACK_NEWLEADER));
    drive_release(&drive);
}

/* R6: a quorum has lost data. Obeying would lose the last copy. */
static void a_cut_below_the_committed_is_never_obeyed(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_follow_acked(&drive, 3, 4);
    sync_to(&drive, zxid_make(3, 1));
    assert_non_null(drive_effect(&drive, ZAB_FX_HALT));
    assert_null(drive_asked(&drive, ZAB_PERSIST_TRUNCATE));
    drive_release(&drive);
}

static void sync_to_a_record_that_is_not_there_is_refused(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_follow_acked(&drive, 3, 4);
    sync_to(&drive, zxid_make(3, 9));
    refused(&drive);
    drive_release(&drive);
}

static void sync_twice_is_refused(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_follow_stream(&drive, 3, 4);
    sync_to(&drive, zxid_make(3, 4));
    refused(&drive);
    drive_release(&drive);
}

/* ---- Records. ---- */

static void a_gap_is_an_error_not_a_warning(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_follow(&drive, 3, 4);
    drive_log_add(&drive.theirs, zxid_make(4, 1));
    drive_clear(&drive);
    drive_entry(&drive, drive_log_add(&drive.theirs, zxid_make(4, 2)), 0);
    assert_null(drive_asked(&drive, ZAB_PERSIST_APPEND));
    refused(&drive);
    drive_release(&drive);
}

/* A9, A10: the sender may be wrong, the log may not. */
static void a_record_whose_number_does_not_follow_is_refused(void **state)
{
    static const zxid_t wrong[] = {((zxid_t)4 << 32) + 2, ((zxid_t)5 << 32), ((zxid_t)5 << 32) + 1};

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct drive drive;

        ready(&drive);
        drive_follow(&drive, 3, 4);
        drive_clear(&drive);
        drive_entry(&drive, drive_log_add(&drive.theirs, wrong[i]), 0);
        assert_null(drive_asked(&drive, ZAB_PERSIST_APPEND));
        refused(&drive);
        drive_release(&drive);
    }
}

static void the_start_of_an_epoch_is_its_own_type(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_follow_stream(&drive, 3, 4);
    drive_clear(&drive);
    drive_newleader(&drive,
                    drive_log_add_type(&drive.theirs, LOGREC_TXN, zxid_make(4, 0), slice_str("x")));
    assert_null(drive_asked(&drive, ZAB_PERSIST_APPEND));
    refused(&drive);
    drive_release(&drive);
}

/* A14: equal zxids, different histories. No synchronisation can repair that. */
static void a_wrong_chain_value_stops_the_process(void **state)
{
    struct drive drive;
    struct logrec *rec =
        logrec_new(LOGREC_EPOCH, zxid_make(4, 0), zxid_make(3, 4), 12345, slice_str("other past"));

    (void)state;
    ready(&drive);
    drive_follow_stream(&drive, 3, 4);
    drive_newleader(&drive, rec);
    assert_non_null(drive_effect(&drive, ZAB_FX_HALT));
    assert_null(drive_asked(&drive, ZAB_PERSIST_APPEND));
    logrec_unref(rec);
    drive_release(&drive);
}

static void newleader_with_another_epochs_record_is_refused(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_follow_stream(&drive, 3, 5);
    drive_newleader(&drive, drive_log_add(&drive.theirs, zxid_make(4, 0)));
    refused(&drive);
    drive_release(&drive);
}

static void newleader_without_its_record_is_refused(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_follow_stream(&drive, 3, 4);
    drive_newleader(&drive, NULL);
    refused(&drive);
    drive_release(&drive);
}

static void a_record_before_sync_is_refused(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_follow_acked(&drive, 3, 4);
    drive_entry(&drive, drive_log_add(&drive.theirs, zxid_make(4, 0)), 0);
    refused(&drive);
    drive_release(&drive);
}

static void records_of_another_epochs_dialogue_are_dropped(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_follow(&drive, 3, 4);
    drive_clear(&drive);
    struct zab_msg msg = {.type = ZAB_ENTRY,
                          .dialogue = drive.dialogue,
                          .epoch = 3,
                          .entry.rec = drive_log_add(&drive.theirs, zxid_make(4, 1))};

    drive_recv(&drive, 3, &msg);
    assert_null(drive_asked(&drive, ZAB_PERSIST_APPEND));
    msg.epoch = 4;
    msg.dialogue--;
    drive_recv(&drive, 3, &msg);
    assert_null(drive_asked(&drive, ZAB_PERSIST_APPEND));
    msg.dialogue++;
    drive_recv(&drive, 2, &msg);
    assert_null(drive_asked(&drive, ZAB_PERSIST_APPEND));
    drive_release(&drive);
}

/* ---- Acknowledgements. ---- */

/* Decision 1, A4, ZOOKEEPER-4646: only when everything up to the epoch's start is durable. */
static void newleader_is_acknowledged_when_its_record_is_durable(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_follow_acked(&drive, 3, 5);
    sync_to(&drive, zxid_make(3, 4));
    drive_entry(&drive, drive_log_add(&drive.theirs, zxid_make(4, 0)), 0);
    drive_newleader(&drive, drive_log_add(&drive.theirs, zxid_make(5, 0)));
    assert_null(drive_sent(&drive, 3, ZAB_ACK_NEWLEADER));
    drive_persist_next(&drive);
    assert_int_equal(drive_log_last(&drive.disk), zxid_make(4, 0));
    assert_null(drive_sent(&drive, 3, ZAB_ACK_NEWLEADER));
    drive_persist_next(&drive);
    assert_int_equal(drive_sent(&drive, 3, ZAB_ACK_NEWLEADER)->ack.zxid, zxid_make(5, 0));
    drive_release(&drive);
}

static void synchronisation_is_acknowledged_by_a_type_that_never_counts(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_follow_acked(&drive, 3, 5);
    sync_to(&drive, zxid_make(3, 4));
    drive_entry(&drive, drive_log_add(&drive.theirs, zxid_make(4, 0)), 0);
    drive_persist(&drive);
    assert_int_equal(drive_sent(&drive, 3, ZAB_SYNC_ACK)->ack.zxid, zxid_make(4, 0));
    assert_null(drive_sent(&drive, 3, ZAB_ACK));
    drive_release(&drive);
}

/* ZOOKEEPER-4685: proposals may come before the acknowledgement of NEWLEADER has left. */
static void proposals_before_the_acknowledgement_are_covered_by_it(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_follow_stream(&drive, 3, 4);
    drive_newleader(&drive, drive_log_add(&drive.theirs, zxid_make(4, 0)));
    drive_entry(&drive, drive_log_add(&drive.theirs, zxid_make(4, 1)), 0);
    drive_persist_next(&drive);
    assert_int_equal(drive_sent(&drive, 3, ZAB_ACK_NEWLEADER)->ack.zxid, zxid_make(4, 0));
    assert_null(drive_sent(&drive, 3, ZAB_ACK));
    drive_persist_next(&drive);
    assert_int_equal(drive_sent(&drive, 3, ZAB_ACK)->ack.zxid, zxid_make(4, 1));
    drive_release(&drive);
}

static void a_learner_that_has_the_epochs_start_acknowledges_at_once(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_follow(&drive, 3, 4);
    drive_down(&drive, 3);
    drive_clear(&drive);
    drive_follow_stream(&drive, 3, 4);
    drive_newleader(&drive, NULL);
    assert_int_equal(drive_sent(&drive, 3, ZAB_ACK_NEWLEADER)->ack.zxid, zxid_make(4, 0));
    drive_release(&drive);
}

/* ---- Delivery. ---- */

/* Decision 2: a random walk over these rules found a divergent tail applied otherwise. */
static void commit_before_the_epochs_start_is_durable_says_nothing(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_follow_stream(&drive, 3, 4);
    drive_newleader(&drive, drive_log_add(&drive.theirs, zxid_make(4, 0)));
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_COMMIT, .commit.zxid = zxid_make(4, 0)});
    assert_int_equal(drive.delivered_count, 0);
    drive_persist(&drive);
    assert_int_equal(drive.delivered_count, 0);
    assert_false(drive_status(&drive).serving);
    drive_release(&drive);
}

/* ZOOKEEPER-4503: readable before it was in step. */
static void it_serves_after_uptodate_and_not_before(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_follow_wait(&drive, 3, 4);
    assert_false(drive_status(&drive).serving);
    drive_leader_says(&drive,
                      (struct zab_msg){.type = ZAB_UPTODATE, .commit.zxid = zxid_make(4, 0)});
    drive_fetched(&drive);
    assert_true(drive_status(&drive).serving);
    assert_int_equal(drive.delivered, zxid_make(4, 0));
    drive_release(&drive);
}

static void uptodate_out_of_place_is_refused(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_follow_stream(&drive, 3, 4);
    drive_leader_says(&drive,
                      (struct zab_msg){.type = ZAB_UPTODATE, .commit.zxid = zxid_make(4, 0)});
    assert_non_null(drive_effect(&drive, ZAB_FX_DISCONNECT));
    assert_false(drive_status(&drive).serving);
    drive_release(&drive);
}

/* After a restart the tail beyond the watermark is not applied, and can be cut. */
static void the_uncommitted_tail_of_a_restart_is_not_applied(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_tick(&drive, 3000);
    assert_int_equal(drive_status(&drive).delivered, zxid_make(3, 2));
    assert_int_equal(drive_status(&drive).last, zxid_make(3, 4));
    assert_int_equal(drive.delivered_count, 0);
    drive_release(&drive);
}

static void delivery_waits_for_the_own_disk(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_follow(&drive, 3, 4);
    drive_entry(&drive, drive_log_add(&drive.theirs, zxid_make(4, 1)), 0);
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_COMMIT, .commit.zxid = zxid_make(4, 1)});
    assert_int_equal(drive.delivered, zxid_make(4, 0));
    drive_persist(&drive);
    assert_int_equal(drive.delivered, zxid_make(4, 1));
    drive_release(&drive);
}

static void a_watermark_ahead_of_the_log_is_remembered(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_follow(&drive, 3, 4);
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_COMMIT, .commit.zxid = zxid_make(4, 2)});
    drive_entry(&drive, drive_log_add(&drive.theirs, zxid_make(4, 1)), 0);
    drive_entry(&drive, drive_log_add(&drive.theirs, zxid_make(4, 2)), 0);
    drive_persist(&drive);
    assert_int_equal(drive.delivered, zxid_make(4, 2));
    drive_release(&drive);
}

/* ---- Role ends. ---- */

static void a_role_that_ends_while_cutting_leaves_a_sound_log(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_follow_acked(&drive, 3, 4);
    sync_to(&drive, zxid_make(3, 2));
    drive_down(&drive, 3);
    drive_clear(&drive);
    drive_persist(&drive);
    assert_int_equal(drive_sent(&drive, 2, ZAB_VOTE)->vote.candidate_last, zxid_make(3, 2));
    drive_follow(&drive, 3, 5);
    assert_int_equal(drive.delivered, zxid_make(5, 0));
    drive_release(&drive);
}

static void a_leader_that_resigns_is_left_at_once(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_follow(&drive, 3, 4);
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_RESIGN});
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    drive_release(&drive);
}

static void a_leader_whose_connection_closes_is_left_at_once(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_follow(&drive, 3, 4);
    drive_down(&drive, 3);
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    drive_release(&drive);
}

static void a_silent_leader_is_left_after_the_limit(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_follow(&drive, 3, 4);
    drive_tick(&drive, 2900);
    assert_int_equal(drive_status(&drive).state, ZAB_FOLLOWING);
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_PING});
    drive_tick(&drive, 2900);
    assert_int_equal(drive_status(&drive).state, ZAB_FOLLOWING);
    drive_tick(&drive, 200);
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    drive_release(&drive);
}

static void after_a_pause_the_sockets_are_read_first(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_follow(&drive, 3, 4);
    drive_pause(&drive, 60000);
    assert_int_equal(drive_status(&drive).state, ZAB_FOLLOWING);
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_PING});
    drive_tick(&drive, 1500);
    assert_int_equal(drive_status(&drive).state, ZAB_FOLLOWING);
    drive_pause(&drive, 60000);
    drive_tick(&drive, 1500);
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    drive_release(&drive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_common_log_takes_records_at_once),
        cmocka_unit_test(a_longer_tail_is_cut),
        cmocka_unit_test(records_wait_for_the_cut),
        cmocka_unit_test(a_cut_below_the_committed_is_never_obeyed),
        cmocka_unit_test(sync_to_a_record_that_is_not_there_is_refused),
        cmocka_unit_test(sync_twice_is_refused),
        cmocka_unit_test(a_gap_is_an_error_not_a_warning),
        cmocka_unit_test(a_record_whose_number_does_not_follow_is_refused),
        cmocka_unit_test(the_start_of_an_epoch_is_its_own_type),
        cmocka_unit_test(a_wrong_chain_value_stops_the_process),
        cmocka_unit_test(newleader_with_another_epochs_record_is_refused),
        cmocka_unit_test(newleader_without_its_record_is_refused),
        cmocka_unit_test(a_record_before_sync_is_refused),
        cmocka_unit_test(records_of_another_epochs_dialogue_are_dropped),
        cmocka_unit_test(newleader_is_acknowledged_when_its_record_is_durable),
        cmocka_unit_test(synchronisation_is_acknowledged_by_a_type_that_never_counts),
        cmocka_unit_test(proposals_before_the_acknowledgement_are_covered_by_it),
        cmocka_unit_test(a_learner_that_has_the_epochs_start_acknowledges_at_once),
        cmocka_unit_test(commit_before_the_epochs_start_is_durable_says_nothing),
        cmocka_unit_test(it_serves_after_uptodate_and_not_before),
        cmocka_unit_test(uptodate_out_of_place_is_refused),
        cmocka_unit_test(the_uncommitted_tail_of_a_restart_is_not_applied),
        cmocka_unit_test(delivery_waits_for_the_own_disk),
        cmocka_unit_test(a_watermark_ahead_of_the_log_is_remembered),
        cmocka_unit_test(a_role_that_ends_while_cutting_leaves_a_sound_log),
        cmocka_unit_test(a_leader_that_resigns_is_left_at_once),
        cmocka_unit_test(a_leader_whose_connection_closes_is_left_at_once),
        cmocka_unit_test(a_silent_leader_is_left_after_the_limit),
        cmocka_unit_test(after_a_pause_the_sockets_are_read_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
