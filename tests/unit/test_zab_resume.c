/* A broken transfer of a snapshot resumes at its offset; its parts are used for nothing else. */
#include "tests/unit/zab_snap_kit.h"

enum {
    SNAPSHOT = 77 /* What identifies it. */
};

static void piece(struct drive *drive, uint64_t id, uint64_t offset, bool last)
{
    static uint8_t bytes[100];

    drive_leader_says(drive, (struct zab_msg){.type = ZAB_SNAP_CHUNK,
                                              .zxid = snap_start,
                                              .chain = 4711,
                                              .commit = snap_end,
                                              .offset = offset,
                                              .snap_id = id,
                                              .flags = last ? ZAB_FLAG_SNAP_LAST : 0,
                                              .bytes = slice_make(bytes, sizeof bytes)});
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
    assert_int_equal(drive_sent(&drive, 3, ZAB_ACKEPOCH)->snap_id, SNAPSHOT);
    assert_int_equal(drive_sent(&drive, 3, ZAB_ACKEPOCH)->snap_offset, 200);
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
    assert_int_equal(drive_sent(&drive, 3, ZAB_SNAP_ACK)->offset, 300);
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
    assert_int_equal(drive_sent(&drive, 3, ZAB_ACKEPOCH)->snap_id, SNAPSHOT);
    assert_int_equal(drive_sent(&drive, 3, ZAB_ACKEPOCH)->snap_offset, 200);
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
    assert_int_equal(drive_sent(&drive, 3, ZAB_SNAP_ACK)->offset, 100);
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
    assert_int_equal(drive_sent(&drive, 3, ZAB_ACKEPOCH)->snap_id, 0);
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
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_SYNC, .zxid = zxid_make(3, 2)});
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
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
