/* The log that the leader keeps on its disk for a learner that is brought in step. */
#include "tests/lib/unit.h"
#include "tests/lib/zab_drive.h"

enum {
    CHUNK = 1000,
    STALL_MS = 301000
};

/* Replica 3 of 3 leads with 1; its log begins behind a snapshot at (3, 2). Learner 2 has an empty
 * disk, and asks for a snapshot. */
struct rig {
    struct drive drive;
    struct zab_event piece;
};

static const zxid_t snap_start = ((zxid_t)3 << 32) + 2;

static void ask(struct rig *rig)
{
    struct drive *drive = &rig->drive;
    struct drive_log empty = {0};

    drive_up_as(drive, 2, 999, false);
    drive_clear(drive);
    drive_cepoch(drive, 2, 0, 0);
    drive_ackepoch(drive, 2, &empty, 0);
    rig->piece.snap_fetched.token = drive_effect(drive, ZAB_FX_SNAP_FETCH)->snap_fetch.token;
    rig->piece.snap_fetched.offset = 0;
    rig->piece.snap_fetched.is_last = false;
}

static void leads(struct rig *rig)
{
    static uint8_t bytes[CHUNK];

    *rig = (struct rig){.piece = {.type = ZAB_EV_SNAP_FETCHED,
                                  .snap_fetched.start = snap_start,
                                  .snap_fetched.end = snap_start,
                                  .snap_fetched.bytes = slice_make(bytes, sizeof(bytes))}};
    drive_init(&rig->drive, 3, 3);
    drive_log_reset(&rig->drive.disk, snap_start, 99);
    drive_log_add(&rig->drive.disk, snap_start + 1);
    rig->drive.init.committed = snap_start + 1;
    rig->drive.init.has_snapshot = true;
    rig->drive.init.snap_start = snap_start;
    rig->drive.init.limits.chunk_bytes = CHUNK;
    rig->drive.init.limits.cache_max = 1;
    drive_start(&rig->drive);
    drive_lead(&rig->drive);
    ask(rig);
}

/* The host has read the next piece. */
static void piece(struct rig *rig, bool last)
{
    rig->piece.snap_fetched.is_last = last;
    drive_clear(&rig->drive);
    drive_step(&rig->drive, &rig->piece);
    if (drive_effect(&rig->drive, ZAB_FX_SNAP_FETCH)) {
        rig->piece.snap_fetched.token =
            drive_effect(&rig->drive, ZAB_FX_SNAP_FETCH)->snap_fetch.token;
        rig->piece.snap_fetched.offset =
            drive_effect(&rig->drive, ZAB_FX_SNAP_FETCH)->snap_fetch.offset;
    }
}

static void snap_ack(struct rig *rig, uint64_t offset)
{
    drive_recv(&rig->drive, 2,
               &(struct zab_msg){.type = ZAB_SNAP_ACK,
                                 .dialogue = rig->drive.dialogues[2],
                                 .epoch = drive_status(&rig->drive).epoch,
                                 .snap_ack.offset = offset});
}

/* Time passes; the quorum lives. */
static void wait_ms(struct rig *rig, uint64_t ms)
{
    for (uint64_t end_ms = rig->drive.now_ms + ms; rig->drive.now_ms < end_ms;) {
        drive_tick(&rig->drive, 1000);
        drive_pong(&rig->drive, 1);
        drive_clear(&rig->drive);
    }
}

static zxid_t kept(const struct rig *rig)
{
    return zab_keep(rig->drive.zab);
}

static void all_of_the_log_is_kept_until_the_snapshot_is_known(void **state)
{
    struct rig rig;

    (void)state;
    leads(&rig);
    assert_int_equal(kept(&rig), 0);
    piece(&rig, false);
    assert_int_equal(kept(&rig), snap_start);
    assert_int_equal(drive_status(&rig.drive).refills, 1);
    drive_release(&rig.drive);
}

static void the_log_is_kept_until_the_learner_is_in_step(void **state)
{
    struct rig rig;
    zxid_t last;

    (void)state;
    leads(&rig);
    piece(&rig, false);
    piece(&rig, true);
    assert_int_equal(kept(&rig), snap_start);
    drive_fetched(&rig.drive);
    last = drive_status(&rig.drive).last;
    drive_learner_says(&rig.drive, 2, ZAB_SYNC_ACK, snap_start + 1);
    assert_int_equal(kept(&rig), snap_start + 1);
    drive_learner_says(&rig.drive, 2, ZAB_ACK_NEWLEADER, last);
    assert_int_equal(kept(&rig), ZAB_KEEP_NONE);
    assert_int_equal(drive_status(&rig.drive).refills, 0);
    drive_release(&rig.drive);
}

/* The learner reconnects and continues; a reconnect is no progress. */
static void the_log_is_kept_over_a_broken_connection_for_a_time(void **state)
{
    struct rig rig;

    (void)state;
    leads(&rig);
    piece(&rig, false);
    drive_down(&rig.drive, 2);
    wait_ms(&rig, STALL_MS / 2);
    assert_int_equal(kept(&rig), snap_start);
    ask(&rig);
    piece(&rig, false);
    drive_down(&rig.drive, 2);
    wait_ms(&rig, STALL_MS / 2);
    assert_int_equal(kept(&rig), ZAB_KEEP_NONE);
    drive_release(&rig.drive);
}

/* It has the start of the epoch, which is long ago: as good as any, but the log behind it is on
 * disk alone. */
static void a_learner_far_behind_in_this_epoch_finds_its_log_again(void **state)
{
    struct rig rig;
    zxid_t start;

    (void)state;
    leads(&rig);
    start = drive_status(&rig.drive).last;
    piece(&rig, false);
    for (int i = 0; i < 3; i++) {
        (void)drive_propose(&rig.drive, "x");
        drive_persist(&rig.drive);
        drive_learner_says(&rig.drive, 1, ZAB_ACK, drive_status(&rig.drive).last);
    }
    piece(&rig, true);
    drive_fetched(&rig.drive);
    drive_learner_says(&rig.drive, 2, ZAB_ACK_NEWLEADER, start);
    assert_int_equal(kept(&rig), start);
    drive_down(&rig.drive, 2);
    assert_int_equal(kept(&rig), start);
    drive_release(&rig.drive);
}

static void no_log_is_kept_for_a_learner_without_progress(void **state)
{
    struct rig rig;

    (void)state;
    leads(&rig);
    piece(&rig, false);
    piece(&rig, false);
    wait_ms(&rig, STALL_MS / 2);
    snap_ack(&rig, CHUNK);
    wait_ms(&rig, STALL_MS / 2);
    assert_int_equal(kept(&rig), snap_start);
    snap_ack(&rig, CHUNK);       /* The same again, */
    snap_ack(&rig, 100 * CHUNK); /* and more than there is. */
    wait_ms(&rig, STALL_MS / 2);
    assert_int_equal(kept(&rig), ZAB_KEEP_NONE);
    drive_release(&rig.drive);
}

/* Also behind the line in the log, until it moves. */
static void a_refill_without_progress_is_shown_until_it_moves(void **state)
{
    struct rig rig;

    (void)state;
    leads(&rig);
    piece(&rig, false);
    wait_ms(&rig, STALL_MS / 2);
    assert_int_equal(drive_status(&rig.drive).refills_stalled, 0);
    wait_ms(&rig, STALL_MS);
    assert_int_equal(drive_status(&rig.drive).refills_stalled, 1);
    snap_ack(&rig, CHUNK);
    assert_int_equal(drive_status(&rig.drive).refills_stalled, 0);
    drive_release(&rig.drive);
}

/* That it is away is shown, and it begins again. */
static void a_refill_whose_learner_is_away_is_not_shown_as_stalled(void **state)
{
    struct rig rig;

    (void)state;
    leads(&rig);
    piece(&rig, false);
    wait_ms(&rig, STALL_MS);
    assert_int_equal(drive_status(&rig.drive).refills_stalled, 1);
    drive_down(&rig.drive, 2);
    assert_int_equal(drive_status(&rig.drive).refills_stalled, 0);
    ask(&rig);
    piece(&rig, false);
    drive_down(&rig.drive, 2);
    wait_ms(&rig, STALL_MS);
    assert_int_equal(kept(&rig), ZAB_KEEP_NONE);
    assert_int_equal(drive_status(&rig.drive).refills_stalled, 0);
    drive_release(&rig.drive);
}

static void a_stalled_refill_ends_when_the_learner_is_in_step(void **state)
{
    struct rig rig;

    (void)state;
    leads(&rig);
    piece(&rig, true);
    drive_fetched(&rig.drive);
    wait_ms(&rig, STALL_MS);
    assert_int_equal(drive_status(&rig.drive).refills_stalled, 1);
    drive_learner_says(&rig.drive, 2, ZAB_ACK_NEWLEADER, drive_status(&rig.drive).last);
    assert_int_equal(drive_status(&rig.drive).refills_stalled, 0);
    drive_release(&rig.drive);
}

static void a_refill_that_lost_its_log_begins_again_at_once(void **state)
{
    struct rig rig;
    struct zab_event purged = {.type = ZAB_EV_PURGED, .purged_base = snap_start + 1};

    (void)state;
    leads(&rig);
    piece(&rig, false);
    drive_clear(&rig.drive);
    drive_step(&rig.drive, &purged);
    assert_int_equal(drive_effect(&rig.drive, ZAB_FX_DISCONNECT)->disconnect.peer, 2);
    assert_non_null(strstr(drive_notice(&rig.drive, ZAB_FX_ALARM), "maxRefillLogBytes"));
    assert_int_equal(kept(&rig), ZAB_KEEP_NONE);
    drive_release(&rig.drive);
}

/* A purge that was under way when the learner asked says nothing against its snapshot. */
static void a_purge_before_the_snapshot_is_known_ends_nothing(void **state)
{
    struct rig rig;
    struct zab_event purged = {.type = ZAB_EV_PURGED, .purged_base = snap_start + 1};

    (void)state;
    leads(&rig);
    drive_clear(&rig.drive);
    drive_step(&rig.drive, &purged);
    assert_null(drive_effect(&rig.drive, ZAB_FX_DISCONNECT));
    assert_int_equal(kept(&rig), 0);
    piece(&rig, false); /* Of a snapshot that the log does not follow any more. */
    assert_int_equal(drive_effect(&rig.drive, ZAB_FX_DISCONNECT)->disconnect.peer, 2);
    drive_release(&rig.drive);
}

static void a_learner_that_has_its_snapshot_gets_the_rest_of_the_log_alone(void **state)
{
    struct rig rig;
    struct drive_log theirs = {0};

    (void)state;
    leads(&rig);
    piece(&rig, true);
    drive_down(&rig.drive, 2);
    drive_up_as(&rig.drive, 2, 999, false);
    drive_clear(&rig.drive);
    drive_log_reset(&theirs, snap_start, 99);
    drive_cepoch(&rig.drive, 2, 0, 0);
    drive_ackepoch(&rig.drive, 2, &theirs, 0);
    assert_null(drive_effect(&rig.drive, ZAB_FX_SNAP_FETCH));
    assert_int_equal(drive_sent(&rig.drive, 2, ZAB_SYNC)->sync.flags, 0);
    assert_int_equal(drive_sent(&rig.drive, 2, ZAB_SYNC)->sync.common, snap_start);
    assert_int_equal(kept(&rig), snap_start);
    drive_release(&rig.drive);
}

/* The same may lead again, in a new epoch. */
static void the_log_is_kept_until_another_one_leads(void **state)
{
    struct rig rig;

    (void)state;
    leads(&rig);
    piece(&rig, false);
    drive_down(&rig.drive, 1);
    drive_down(&rig.drive, 2);
    assert_int_equal(drive_status(&rig.drive).state, ZAB_LOOKING);
    assert_int_equal(kept(&rig), snap_start);
    drive_follow_cepoch(&rig.drive, 1);
    assert_int_equal(kept(&rig), ZAB_KEEP_NONE);
    drive_release(&rig.drive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_the_log_is_kept_until_the_snapshot_is_known),
        cmocka_unit_test(the_log_is_kept_until_the_learner_is_in_step),
        cmocka_unit_test(the_log_is_kept_over_a_broken_connection_for_a_time),
        cmocka_unit_test(a_learner_far_behind_in_this_epoch_finds_its_log_again),
        cmocka_unit_test(no_log_is_kept_for_a_learner_without_progress),
        cmocka_unit_test(a_refill_without_progress_is_shown_until_it_moves),
        cmocka_unit_test(a_refill_whose_learner_is_away_is_not_shown_as_stalled),
        cmocka_unit_test(a_stalled_refill_ends_when_the_learner_is_in_step),
        cmocka_unit_test(a_refill_that_lost_its_log_begins_again_at_once),
        cmocka_unit_test(a_purge_before_the_snapshot_is_known_ends_nothing),
        cmocka_unit_test(a_learner_that_has_its_snapshot_gets_the_rest_of_the_log_alone),
        cmocka_unit_test(the_log_is_kept_until_another_one_leads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
