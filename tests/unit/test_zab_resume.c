/* A broken transfer of a snapshot resumes at its offset, and once all of the snapshot is here in
 * the log that belongs to it; what is here is used for nothing else. */
#include "tests/unit/zab_snap_kit.h"

enum {
    SNAPSHOT = 77 /* What identifies it. */
};

static void piece(struct drive *drive, uint64_t id, uint64_t offset, bool last)
{
    static uint8_t bytes[100];

    drive_leader_says(drive, (struct zab_msg){.type = ZAB_SNAP_CHUNK,
                                              .snap_chunk.start = snap_start,
                                              .snap_chunk.start_chain = 4711,
                                              .snap_chunk.end = snap_end,
                                              .snap_chunk.offset = offset,
                                              .snap_chunk.snap_id = id,
                                              .snap_chunk.flags = last ? ZAB_FLAG_SNAP_LAST : 0,
                                              .snap_chunk.bytes = slice_make(bytes, sizeof bytes)});
}

/* The connection to the leader breaks, and there is a new dialogue, up to ACKEPOCH. */
static void come_back(struct drive *drive)
{
    drive_down(drive, 3);
    drive_persist(drive);
    drive_clear(drive);
    drive_up(drive, 3);
    drive_says(drive, 2, ZAB_FOLLOWING, 3);
    drive_says(drive, 3, ZAB_LEADING, 3);
    drive_leader_says(drive, (struct zab_msg){.type = ZAB_NEWEPOCH});
    drive_persist(drive);
    assert_non_null(drive_sent(drive, 3, ZAB_ACKEPOCH));
}

/* Two pieces of it have come, then the connection broke. */
static void broken_off(struct drive *drive)
{
    acked(drive, false);
    begin(drive);
    piece(drive, SNAPSHOT, 0, false);
    piece(drive, SNAPSHOT, 100, false);
    drive_persist(drive);
    drive_clear(drive);
    come_back(drive);
}

static void the_leader_is_told_what_is_here(void **state)
{
    struct drive drive;

    (void)state;
    broken_off(&drive);
    assert_null(drive_asked(&drive, ZAB_PERSIST_SNAP_ABORT));
    assert_int_equal(drive_sent(&drive, 3, ZAB_ACKEPOCH)->ackepoch.snap_id, SNAPSHOT);
    assert_int_equal(drive_sent(&drive, 3, ZAB_ACKEPOCH)->ackepoch.snap_offset, 200);
    drive_release(&drive);
}

static void the_transfer_resumes_behind_it(void **state)
{
    struct drive drive;

    (void)state;
    broken_off(&drive);
    begin(&drive);
    piece(&drive, SNAPSHOT, 200, false);
    assert_null(drive_asked(&drive, ZAB_PERSIST_SNAP_BEGIN));
    drive_persist(&drive);
    assert_int_equal(drive_sent(&drive, 3, ZAB_SNAP_ACK)->snap_ack.offset, 300);
    piece(&drive, SNAPSHOT, 300, true);
    entries_to(&drive, END);
    drive_persist(&drive);
    assert_int_equal(drive_status(&drive).last, snap_end);
    drive_release(&drive);
}

/* It breaks off again before anything has come. */
static void what_is_here_stays_over_many_dialogues(void **state)
{
    struct drive drive;

    (void)state;
    broken_off(&drive);
    begin(&drive);
    come_back(&drive);
    assert_int_equal(drive_sent(&drive, 3, ZAB_ACKEPOCH)->ackepoch.snap_id, SNAPSHOT);
    assert_int_equal(drive_sent(&drive, 3, ZAB_ACKEPOCH)->ackepoch.snap_offset, 200);
    drive_release(&drive);
}

static void another_snapshot_begins_at_its_start(void **state)
{
    struct drive drive;

    (void)state;
    broken_off(&drive);
    begin(&drive);
    piece(&drive, SNAPSHOT + 1, 0, false);
    assert_non_null(drive_asked(&drive, ZAB_PERSIST_SNAP_BEGIN));
    drive_persist(&drive);
    assert_int_equal(drive_sent(&drive, 3, ZAB_SNAP_ACK)->snap_ack.offset, 100);
    drive_release(&drive);
}

static void a_part_of_another_snapshot_is_not_put_behind_it(void **state)
{
    struct drive drive;

    (void)state;
    broken_off(&drive);
    begin(&drive);
    piece(&drive, SNAPSHOT + 1, 200, false);
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    assert_non_null(drive_asked(&drive, ZAB_PERSIST_SNAP_ABORT));
    come_back(&drive);
    assert_int_equal(drive_sent(&drive, 3, ZAB_ACKEPOCH)->ackepoch.snap_id, 0);
    drive_release(&drive);
}

static void a_gap_behind_it_is_refused(void **state)
{
    struct drive drive;

    (void)state;
    broken_off(&drive);
    begin(&drive);
    piece(&drive, SNAPSHOT, 300, false);
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    assert_non_null(drive_asked(&drive, ZAB_PERSIST_SNAP_ABORT));
    drive_release(&drive);
}

/* Appends go to the log of a snapshot that is being received: it must be given up before them. */
static void what_is_here_goes_before_records_for_the_own_log(void **state)
{
    struct drive drive;

    (void)state;
    broken_off(&drive);
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_SYNC, .sync.common = zxid_make(3, 2)});
    assert_non_null(drive_asked(&drive, ZAB_PERSIST_SNAP_ABORT));
    drive_release(&drive);
}

static void what_is_here_goes_before_this_replica_leads(void **state)
{
    struct drive drive;

    (void)state;
    acked(&drive, false);
    begin(&drive);
    piece(&drive, SNAPSHOT, 0, false);
    drive_down(&drive, 3);
    drive_persist(&drive);
    assert_null(drive_asked(&drive, ZAB_PERSIST_SNAP_ABORT));
    drive_elect(&drive, drive.init.id, zxid_make(3, 2));
    assert_int_equal(drive_status(&drive).state, ZAB_LEADING);
    assert_non_null(drive_asked(&drive, ZAB_PERSIST_SNAP_ABORT));
    drive_release(&drive);
}

/* ---- All of it is here, and a part of its log. ---- */

enum {
    HERE = END - 1 /* The log has come as far as that. */
};

static const zxid_t here = ((zxid_t)6 << 32) + HERE;

static void whole_but_for_its_log(struct drive *drive, bool quarantined)
{
    acked(drive, quarantined);
    begin(drive);
    piece(drive, SNAPSHOT, 0, false);
    piece(drive, SNAPSHOT, 100, true);
    entries_to(drive, HERE);
    drive_clear(drive);
    come_back(drive);
}

/* The leader's log reaches back to that. */
static void continue_behind(struct drive *drive, zxid_t zxid)
{
    drive_leader_says(
        drive, (struct zab_msg){.type = ZAB_SYNC, .sync.common = zxid, .sync.target = snap_end});
}

/* Some of it was still on its way to the disk when the connection broke. */
static void the_leader_is_told_the_log_of_a_snapshot_that_is_here(void **state)
{
    struct drive drive;

    (void)state;
    whole_but_for_its_log(&drive, false);

    const struct zab_msg *ack = drive_sent(&drive, 3, ZAB_ACKEPOCH);

    assert_null(drive_asked(&drive, ZAB_PERSIST_SNAP_ABORT));
    assert_int_equal(ack->ackepoch.last,
                     zxid_make(3, 2)); /* What it has made durable in its own log. */
    assert_int_equal(ack->ackepoch.base, snap_start);
    assert_int_equal(ack->ackepoch.range_count, 1);
    assert_int_equal(ack->ackepoch.ranges[0].epoch, 6);
    assert_int_equal(ack->ackepoch.ranges[0].first, START + 1);
    assert_int_equal(ack->ackepoch.ranges[0].last, HERE);
    assert_int_equal(ack->ackepoch.snap_id, 0);
    drive_release(&drive);
}

static void assert_only_the_rest_is_needed(struct drive *drive)
{
    drive_clear(drive);
    continue_behind(drive, here);
    drive_persist(drive);
    assert_null(drive_asked(drive, ZAB_PERSIST_SNAP_INSTALL));
    assert_null(drive_effect(drive, ZAB_FX_RESTORE));
    entries_to(drive, END);
    drive_persist(drive);
    assert_null(drive_asked(drive, ZAB_PERSIST_SNAP_BEGIN));
    assert_null(drive_asked(drive, ZAB_PERSIST_SNAP_ABORT));
    assert_int_equal(drive_status(drive).last, snap_end);
    assert_int_equal(drive_effect(drive, ZAB_FX_RESTORE)->restore.start, snap_start);
}

static void only_the_missing_log_is_needed_then(void **state)
{
    struct drive drive;

    (void)state;
    whole_but_for_its_log(&drive, false);
    assert_only_the_rest_is_needed(&drive);
    drive_release(&drive);
}

static void it_stays_over_many_dialogues_too(void **state)
{
    struct drive drive;

    (void)state;
    whole_but_for_its_log(&drive, false);
    continue_behind(&drive, here);
    come_back(&drive);
    come_back(&drive);
    assert_int_equal(drive_sent(&drive, 3, ZAB_ACKEPOCH)->ackepoch.base, snap_start);
    assert_only_the_rest_is_needed(&drive);
    drive_release(&drive);
}

/* What lies between its start and its end is committed: every leader has that, or none of it. */
static void another_leader_may_send_the_rest(void **state)
{
    struct drive drive;

    (void)state;
    whole_but_for_its_log(&drive, false);
    drive_down(&drive, 3);
    drive.leader = 2;
    drive.epoch = 8;
    drive_says(&drive, 2, ZAB_LEADING, 2);
    drive_up(&drive, 3);
    drive_says(&drive, 3, ZAB_FOLLOWING, 2);
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_NEWEPOCH});
    drive_persist(&drive);
    assert_int_equal(drive_sent(&drive, 2, ZAB_ACKEPOCH)->ackepoch.base, snap_start);
    assert_only_the_rest_is_needed(&drive);
    drive_newleader(&drive, drive_log_add(&drive.theirs, zxid_make(8, 0)));
    drive_persist(&drive);
    assert_int_equal(drive_sent(&drive, 2, ZAB_ACK_NEWLEADER)->ack.zxid, zxid_make(8, 0));
    drive_release(&drive);
}

static void a_damaged_disk_needs_only_the_rest_too(void **state)
{
    struct drive drive;

    (void)state;
    whole_but_for_its_log(&drive, true);
    assert_int_equal(drive_sent(&drive, 3, ZAB_ACKEPOCH)->ackepoch.last, 0);
    assert_int_equal(drive_sent(&drive, 3, ZAB_ACKEPOCH)->ackepoch.base, snap_start);
    assert_only_the_rest_is_needed(&drive);
    assert_null(drive_asked(&drive, ZAB_PERSIST_RESET));
    assert_true(drive_status(&drive).quarantined);
    drive_release(&drive);
}

static void a_configuration_in_the_part_that_is_here_binds(void **state)
{
    struct buf bytes;
    struct drive drive;

    (void)state;
    acked(&drive, false);
    buf_init(&bytes, 4096);
    zab_config_encode(&drive.init.config, &bytes);
    begin(&drive);
    piece(&drive, SNAPSHOT, 0, true);
    entries_to(&drive, START + 1);
    drive_entry(&drive,
                drive_log_add_type(&drive.theirs, LOGREC_CONFIG, snap_start + 2, buf_slice(&bytes)),
                0);
    come_back(&drive);
    assert_only_the_rest_is_needed(&drive);
    assert_int_equal(zab_config(drive.zab)->version, snap_start + 2);
    buf_release(&bytes);
    drive_release(&drive);
}

static void a_leader_without_that_log_sends_another_snapshot(void **state)
{
    struct drive drive;

    (void)state;
    whole_but_for_its_log(&drive, false);
    begin(&drive);
    assert_non_null(drive_asked(&drive, ZAB_PERSIST_SNAP_BEGIN));
    piece(&drive, SNAPSHOT + 1, 0, false);
    drive_persist(&drive);
    assert_int_equal(drive_sent(&drive, 3, ZAB_SNAP_ACK)->snap_ack.offset, 100);
    drive_release(&drive);
}

static void a_leader_with_another_log_ends_it(void **state)
{
    struct drive drive;

    (void)state;
    whole_but_for_its_log(&drive, false);
    continue_behind(&drive, here - 1);
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    assert_non_null(drive_asked(&drive, ZAB_PERSIST_SNAP_ABORT));
    come_back(&drive);
    assert_int_equal(drive_sent(&drive, 3, ZAB_ACKEPOCH)->ackepoch.base, 0);
    assert_int_equal(drive_sent(&drive, 3, ZAB_ACKEPOCH)->ackepoch.ranges[0].epoch, 3);
    drive_release(&drive);
}

static void a_gap_in_its_log_ends_it(void **state)
{
    struct drive drive;

    (void)state;
    whole_but_for_its_log(&drive, false);
    continue_behind(&drive, here);
    (void)drive_log_add(&drive.theirs, here + 1);
    drive_entry(&drive, drive_log_add(&drive.theirs, here + 2), 0);
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    assert_non_null(drive_asked(&drive, ZAB_PERSIST_SNAP_ABORT));
    drive_release(&drive);
}

static void it_goes_before_this_replica_leads_too(void **state)
{
    struct drive drive;

    (void)state;
    whole_but_for_its_log(&drive, false);
    drive_down(&drive, 3);
    drive_persist(&drive);
    drive_elect(&drive, drive.init.id, zxid_make(3, 2));
    assert_int_equal(drive_status(&drive).state, ZAB_LEADING);
    assert_non_null(drive_asked(&drive, ZAB_PERSIST_SNAP_ABORT));
    drive_release(&drive);
}

/* ---- What it takes of memory. ---- */

/* Of the first record behind the snapshot, and of the newest one. */
static void assert_held(const struct drive *drive, uint32_t first, uint32_t newest)
{
    const struct drive_log *log = &drive->theirs;

    assert_true(log->count > 1);
    assert_int_equal(log->recs[0]->refs, first);
    assert_int_equal(log->recs[log->count - 1]->refs, newest);
}

/* The test holds each record once, its model of the disk once more. */
static void no_more_of_its_log_than_the_cache_stays_in_memory(void **state)
{
    struct drive drive;

    (void)state;
    acked_with(&drive, false, 1);
    begin(&drive);
    piece(&drive, SNAPSHOT, 0, true);
    entries_to(&drive, HERE);
    drive_persist(&drive);
    drive_tick(&drive, 10);
    drive_clear(&drive);
    assert_held(&drive, 2, 3);
    entries_to(&drive, END);
    drive_persist(&drive);
    assert_int_equal(drive_status(&drive).last, snap_end);
    drive_release(&drive);
}

static void nothing_of_it_stays_in_memory_behind_an_error(void **state)
{
    struct drive drive;

    (void)state;
    acked(&drive, false);
    begin(&drive);
    piece(&drive, SNAPSHOT, 0, true);
    entries_to(&drive, HERE);
    drive_persist(&drive);
    piece(&drive, SNAPSHOT, 100, false); /* A piece behind the last one. */
    drive_persist(&drive);
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    assert_non_null(drive_asked(&drive, ZAB_PERSIST_SNAP_ABORT));
    drive_clear(&drive);
    assert_held(&drive, 1, 1);
    drive_release(&drive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_leader_is_told_what_is_here),
        cmocka_unit_test(the_transfer_resumes_behind_it),
        cmocka_unit_test(what_is_here_stays_over_many_dialogues),
        cmocka_unit_test(another_snapshot_begins_at_its_start),
        cmocka_unit_test(a_part_of_another_snapshot_is_not_put_behind_it),
        cmocka_unit_test(a_gap_behind_it_is_refused),
        cmocka_unit_test(what_is_here_goes_before_records_for_the_own_log),
        cmocka_unit_test(what_is_here_goes_before_this_replica_leads),
        cmocka_unit_test(the_leader_is_told_the_log_of_a_snapshot_that_is_here),
        cmocka_unit_test(only_the_missing_log_is_needed_then),
        cmocka_unit_test(it_stays_over_many_dialogues_too),
        cmocka_unit_test(another_leader_may_send_the_rest),
        cmocka_unit_test(a_damaged_disk_needs_only_the_rest_too),
        cmocka_unit_test(a_configuration_in_the_part_that_is_here_binds),
        cmocka_unit_test(a_leader_without_that_log_sends_another_snapshot),
        cmocka_unit_test(a_leader_with_another_log_ends_it),
        cmocka_unit_test(a_gap_in_its_log_ends_it),
        cmocka_unit_test(it_goes_before_this_replica_leads_too),
        cmocka_unit_test(no_more_of_its_log_than_the_cache_stays_in_memory),
        cmocka_unit_test(nothing_of_it_stays_in_memory_behind_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
