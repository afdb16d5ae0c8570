/* Phase 2 and 3 on the leader's side: the stream, the quorum, what is committed when. */
#include "tests/lib/unit.h"
#include "tests/lib/zab_drive.h"

enum {
    COUNTED = ZAB_FLAG_ELIGIBLE | ZAB_FLAG_COUNTED
};

/* Replica 3 of 3, log up to (3, 4), established in epoch 4 with follower 1; 2 is not here yet. */
static void established(struct drive *drive)
{
    drive_init(drive, 3, 3);
    for (uint32_t i = 0; i <= 4; i++) {
        drive_log_add(&drive->disk, zxid_make(3, i));
    }
    drive->init.limits.window_max = 8;
    drive_start(drive);
    drive_elect(drive, 3, zxid_make(3, 4));
    drive_cepoch(drive, 1, 3, zxid_make(3, 4));
    drive_persist(drive);
    drive_ackepoch(drive, 1, &drive->disk, COUNTED);
}

static void broadcasting(struct drive *drive)
{
    drive_init(drive, 3, 3);
    drive_start(drive);
    drive_lead(drive);
    drive_clear(drive);
}

/* ---- Synchronisation. ---- */

static void nothing_of_the_epoch_leaves_before_its_start_is_durable(void **state)
{
    struct drive drive;

    (void)state;
    established(&drive);
    assert_int_equal(drive_sent(&drive, 1, ZAB_SYNC)->sync.common, zxid_make(3, 4));
    assert_null(drive_sent(&drive, 1, ZAB_NEWLEADER));
    drive_persist(&drive);
    assert_int_equal(drive_sent(&drive, 1, ZAB_NEWLEADER)->newleader.rec->zxid, zxid_make(4, 0));
    drive_release(&drive);
}

/* The paper: h of the leader up to the last proposal, in order, then NEWLEADER. */
static void a_learner_behind_gets_what_it_lacks_in_order(void **state)
{
    struct drive drive;
    struct drive_log shorter = {0};
    zxid_t next = zxid_make(3, 2);

    (void)state;
    established(&drive);
    drive_log_copy(&shorter, &drive.disk);
    drive_log_cut(&shorter, zxid_make(3, 1));
    drive_persist(&drive);
    drive_cepoch(&drive, 2, 3, zxid_make(3, 1));
    drive_clear(&drive);
    drive_ackepoch(&drive, 2, &shorter, COUNTED);
    assert_int_equal(drive_sent(&drive, 2, ZAB_SYNC)->sync.common, zxid_make(3, 1));
    drive_fetched(&drive);
    for (size_t i = 0; i < drive.seen_count; i++) {
        const struct zab_effect *effect = &drive.seen[i];

        if (effect->type == ZAB_FX_SEND && effect->send.peer == 2 &&
            effect->send.msg.type == ZAB_ENTRY) {
            assert_int_equal(effect->send.msg.entry.rec->zxid, next);
            assert_null(drive_sent(&drive, 2, ZAB_UPTODATE));
            next++;
        }
    }
    assert_int_equal(next, zxid_make(3, 5));
    assert_int_equal(drive_sent(&drive, 2, ZAB_NEWLEADER)->newleader.rec->zxid, zxid_make(4, 0));
    drive_log_release(&shorter);
    drive_release(&drive);
}

/* TRUNC across epochs: the learner has an epoch that the leader never saw. */
static void a_tail_of_a_lost_epoch_is_cut(void **state)
{
    struct drive drive;
    struct drive_log theirs = {0};

    (void)state;
    drive_init(&drive, 3, 3);
    drive_log_add(&drive.disk, zxid_make(1, 0));
    drive_log_add(&drive.disk, zxid_make(1, 1));
    drive_log_copy(&theirs, &drive.disk);
    drive_log_add(&drive.disk, zxid_make(3, 0));
    drive_log_add(&theirs, zxid_make(2, 0));
    drive_log_add(&theirs, zxid_make(2, 1));
    drive_start(&drive);
    drive_elect(&drive, 3, zxid_make(3, 0));
    drive_cepoch(&drive, 1, 3, zxid_make(2, 1));
    drive_persist(&drive);
    drive_ackepoch(&drive, 1, &theirs, COUNTED);
    assert_int_equal(drive_sent(&drive, 1, ZAB_SYNC)->sync.common, zxid_make(1, 1));
    drive_log_release(&theirs);
    drive_release(&drive);
}

static void behind_the_log_there_is_a_snapshot(void **state)
{
    struct drive drive;
    struct drive_log empty = {0};
    struct zab_event piece = {.type = ZAB_EV_SNAP_FETCHED,
                              .snap_fetched.start = ((zxid_t)3 << 32) + 2};
    static uint8_t bytes[64 << 10]; /* As asked for. */

    (void)state;
    drive_init(&drive, 3, 3);
    drive_log_reset(&drive.disk, zxid_make(3, 2), 99);
    drive_log_add(&drive.disk, zxid_make(3, 3));
    drive.init.committed = zxid_make(3, 3);
    drive.init.has_snapshot = true;
    drive.init.snap_start = zxid_make(3, 2);
    drive_start(&drive);
    drive_elect(&drive, 3, zxid_make(3, 3));
    drive_cepoch(&drive, 1, 3, zxid_make(3, 3));
    drive_cepoch(&drive, 2, 0, 0);
    drive_persist(&drive);
    drive_ackepoch(&drive, 1, &drive.disk, COUNTED);
    drive_ackepoch(&drive, 2, &empty, COUNTED);
    assert_true(drive_sent(&drive, 2, ZAB_SYNC)->sync.flags & ZAB_FLAG_SNAP);
    const struct zab_effect *fetch = drive_effect(&drive, ZAB_FX_SNAP_FETCH);

    assert_int_equal(fetch->snap_fetch.peer, 2);
    assert_int_equal(fetch->snap_fetch.offset, 0);
    piece.snap_fetched.token = fetch->snap_fetch.token;
    piece.snap_fetched.bytes = slice_make(bytes, sizeof bytes);
    piece.snap_fetched.end = zxid_make(3, 3);
    piece.snap_fetched.start_chain = 99;
    drive_step(&drive, &piece);
    assert_false(drive_sent(&drive, 2, ZAB_SNAP_CHUNK)->snap_chunk.flags & ZAB_FLAG_SNAP_LAST);
    assert_int_equal(drive_sent(&drive, 2, ZAB_SNAP_CHUNK)->snap_chunk.end, zxid_make(3, 3));
    piece.snap_fetched.token = drive_effect(&drive, ZAB_FX_SNAP_FETCH)->snap_fetch.token;
    piece.snap_fetched.offset = sizeof bytes;
    piece.snap_fetched.bytes.len = 10;
    piece.snap_fetched.is_last = true;
    drive_step(&drive, &piece);
    assert_true(drive_sent(&drive, 2, ZAB_SNAP_CHUNK)->snap_chunk.flags & ZAB_FLAG_SNAP_LAST);
    assert_null(drive_sent(&drive, 2, ZAB_ENTRY));
    drive_persist(&drive);
    drive_fetched(&drive);
    assert_int_equal(drive_sent(&drive, 2, ZAB_ENTRY)->entry.rec->zxid, zxid_make(3, 3));
    drive_release(&drive);
}

/* Not one snapshot verifies: a new one is taken, and the learner waits for it in its dialogue. */
static void a_learner_waits_for_a_snapshot_that_can_be_sent(void **state)
{
    struct drive drive;
    struct drive_log empty = {0};
    struct zab_event none = {.type = ZAB_EV_SNAP_FETCHED, .snap_fetched.err = ERR_MISSING};
    struct zab_event stored = {.type = ZAB_EV_STORED_SNAP,
                               .stored_snap.start = ((zxid_t)3 << 32) + 3,
                               .stored_snap.log_base = ((zxid_t)3 << 32) + 2};

    (void)state;
    drive_init(&drive, 3, 3);
    drive_log_reset(&drive.disk, zxid_make(3, 2), 99);
    drive_log_add(&drive.disk, zxid_make(3, 3));
    drive.init.committed = zxid_make(3, 3);
    drive.init.has_snapshot = true;
    drive_start(&drive);
    drive_lead(&drive);
    drive_up_as(&drive, 2, 999, false);
    drive_cepoch(&drive, 2, 0, 0);
    drive_ackepoch(&drive, 2, &empty, 0);
    none.snap_fetched.token = drive_effect(&drive, ZAB_FX_SNAP_FETCH)->snap_fetch.token;
    drive_clear(&drive);
    drive_step(&drive, &none);
    drive_tick(&drive, 10);
    assert_null(drive_effect(&drive, ZAB_FX_DISCONNECT));
    assert_null(drive_effect(&drive, ZAB_FX_SNAP_FETCH));
    drive_pong(&drive, 1);
    drive_tick(&drive, drive.init.limits.tick_ms);
    assert_int_equal(drive_effect_count(&drive, ZAB_FX_SNAP_FETCH), 1);
    none.snap_fetched.token = drive_effect(&drive, ZAB_FX_SNAP_FETCH)->snap_fetch.token;
    drive_step(&drive, &none);
    drive_clear(&drive);
    drive_step(&drive, &stored);
    assert_int_equal(drive_effect(&drive, ZAB_FX_SNAP_FETCH)->snap_fetch.offset, 0);
    drive_release(&drive);
}

/* Two pieces of two snapshots make no snapshot. */
static void a_snapshot_that_changes_on_the_way_ends_the_dialogue(void **state)
{
    struct drive drive;
    struct drive_log empty = {0};
    struct zab_event piece = {.type = ZAB_EV_SNAP_FETCHED,
                              .snap_fetched.start = ((zxid_t)3 << 32) + 2};
    static uint8_t bytes[64 << 10]; /* As asked for. */

    (void)state;
    drive_init(&drive, 3, 3);
    drive_log_reset(&drive.disk, zxid_make(3, 2), 99);
    drive_log_add(&drive.disk, zxid_make(3, 3));
    drive.init.committed = zxid_make(3, 3);
    drive.init.has_snapshot = true;
    drive_start(&drive);
    drive_lead(&drive);
    drive_up_as(&drive, 2, 999, false);
    drive_cepoch(&drive, 2, 0, 0);
    drive_ackepoch(&drive, 2, &empty, 0);
    piece.snap_fetched.token = drive_effect(&drive, ZAB_FX_SNAP_FETCH)->snap_fetch.token;
    piece.snap_fetched.bytes = slice_make(bytes, sizeof bytes);
    piece.snap_fetched.end = zxid_make(3, 3);
    drive_step(&drive, &piece);
    piece.snap_fetched.token = drive_effect(&drive, ZAB_FX_SNAP_FETCH)->snap_fetch.token;
    piece.snap_fetched.offset = sizeof bytes;
    piece.snap_fetched.start = zxid_make(3, 3);
    drive_clear(&drive);
    drive_step(&drive, &piece);
    assert_null(drive_sent(&drive, 2, ZAB_SNAP_CHUNK));
    assert_int_equal(drive_effect(&drive, ZAB_FX_DISCONNECT)->disconnect.peer, 2);
    drive_release(&drive);
}

static void without_a_snapshot_the_operator_is_told(void **state)
{
    struct drive drive;
    struct drive_log empty = {0};

    (void)state;
    drive_init(&drive, 3, 3);
    drive_log_reset(&drive.disk, zxid_make(3, 2), 99);
    drive.init.committed = zxid_make(3, 2);
    drive_start(&drive);
    drive_elect(&drive, 3, zxid_make(3, 2));
    drive_cepoch(&drive, 1, 3, 0);
    drive_persist(&drive);
    drive_ackepoch(&drive, 1, &empty, COUNTED);
    assert_non_null(drive_effect(&drive, ZAB_FX_ALARM));
    assert_int_equal(drive_effect(&drive, ZAB_FX_DISCONNECT)->disconnect.peer, 1);
    drive_release(&drive);
}

/* The TLA+ specification's first finding: a joiner misses what is proposed while it joins. */
static void what_is_proposed_while_one_joins_reaches_it_once(void **state)
{
    struct drive drive;

    (void)state;
    established(&drive);
    drive_persist(&drive);
    drive_learner_says(&drive, 1, ZAB_ACK_NEWLEADER, zxid_make(4, 0));
    drive_fetched(&drive);
    drive_cepoch(&drive, 2, 3, zxid_make(3, 4));
    drive_ackepoch(&drive, 2, &drive.disk, COUNTED);
    (void)drive_propose(&drive, "while joining");
    assert_int_equal(drive_sent_count(&drive, 2, ZAB_ENTRY), 1);
    assert_int_equal(drive_sent(&drive, 2, ZAB_ENTRY)->entry.rec->zxid, zxid_make(4, 1));
    assert_null(drive_sent(&drive, 2, ZAB_UPTODATE));
    drive_release(&drive);
}

/* Its third: UPTODATE must carry what is committed now. */
static void uptodate_carries_the_current_watermark(void **state)
{
    struct drive drive;

    (void)state;
    established(&drive);
    drive_persist(&drive);
    drive_learner_says(&drive, 1, ZAB_ACK_NEWLEADER, zxid_make(4, 0));
    drive_fetched(&drive);
    drive_cepoch(&drive, 2, 3, zxid_make(3, 4));
    drive_ackepoch(&drive, 2, &drive.disk, COUNTED);
    (void)drive_propose(&drive, "x");
    drive_persist(&drive);
    drive_learner_says(&drive, 1, ZAB_ACK, zxid_make(4, 1));
    assert_int_equal(drive_status(&drive).committed, zxid_make(4, 1));
    drive_learner_says(&drive, 2, ZAB_ACK_NEWLEADER, zxid_make(4, 0));
    assert_int_equal(drive_sent(&drive, 2, ZAB_UPTODATE)->commit.zxid, zxid_make(4, 1));
    drive_release(&drive);
}

static void a_slow_learner_has_a_window(void **state)
{
    struct drive drive;

    (void)state;
    established(&drive);
    drive_persist(&drive);
    drive_learner_says(&drive, 1, ZAB_ACK_NEWLEADER, zxid_make(4, 0));
    drive_fetched(&drive);
    drive_clear(&drive);
    for (int i = 0; i < 12; i++) {
        (void)drive_propose(&drive, "x");
    }
    assert_int_equal(drive_sent_count(&drive, 1, ZAB_ENTRY), 8);
    drive_learner_says(&drive, 1, ZAB_ACK, zxid_make(4, 3));
    assert_int_equal(drive_sent_count(&drive, 1, ZAB_ENTRY), 11);
    assert_int_equal(drive_sent(&drive, 1, ZAB_ENTRY)->entry.rec->zxid, zxid_make(4, 11));
    drive_release(&drive);
}

/* Else the queue would throw out a learner that the window only makes wait. */
static void the_window_fits_the_queue_of_a_connection(void **state)
{
    static const uint64_t queues[] = {(uint64_t)20 << 20, (uint64_t)40 << 20, (uint64_t)64 << 20,
                                      (uint64_t)4096 << 20};

    (void)state;
    for (size_t i = 0; i < sizeof queues / sizeof queues[0]; i++) {
        struct zab_limits limits;

        zab_limits_default(&limits);
        zab_limits_fit_queue(&limits, queues[i]);
        assert_true(limits.window_bytes_max >= (uint64_t)1 << 20);
        assert_true(limits.window_bytes_max <= (uint64_t)32 << 20);
        /* All of the window, one record of any size more, a header for each, pieces of a snapshot.
         */
        assert_true(limits.window_bytes_max + ZAB_RECORD_BYTES_MAX + limits.window_max * 128 +
                        4 * (uint64_t)ZAB_CHUNK_BYTES_MAX <
                    queues[i]);
    }
}

static void a_learner_of_the_same_epoch_continues_where_it_was(void **state)
{
    struct drive drive;

    (void)state;
    broadcasting(&drive);
    (void)drive_propose(&drive, "x");
    drive_persist(&drive);
    drive_cepoch(&drive, 1, 1, zxid_make(1, 0));
    drive_clear(&drive);
    struct drive_log theirs = {0};

    drive_log_copy(&theirs, &drive.disk);
    drive_log_cut(&theirs, zxid_make(1, 0));
    drive_ackepoch(&drive, 1, &theirs, COUNTED);
    assert_int_equal(drive_sent(&drive, 1, ZAB_SYNC)->sync.common, zxid_make(1, 0));
    assert_null(drive_sent(&drive, 1, ZAB_NEWLEADER)->newleader.rec);
    assert_int_equal(drive_sent(&drive, 1, ZAB_ENTRY)->entry.rec->zxid, zxid_make(1, 1));
    drive_log_release(&theirs);
    drive_release(&drive);
}

/* ---- The quorum of NEWLEADER. ---- */

static void broadcast_begins_with_a_quorum_of_ack_newleader(void **state)
{
    struct drive drive;

    (void)state;
    established(&drive);
    drive_persist(&drive);
    assert_int_equal(drive_status(&drive).phase, ZAB_PHASE_SYNC);
    assert_int_equal(drive_status(&drive).committed, 0);
    drive_learner_says(&drive, 1, ZAB_SYNC_ACK, zxid_make(4, 0));
    assert_int_equal(drive_status(&drive).phase, ZAB_PHASE_SYNC);
    drive_learner_says(&drive, 1, ZAB_ACK_NEWLEADER, zxid_make(4, 0));
    assert_int_equal(drive_status(&drive).phase, ZAB_PHASE_BROADCAST);
    assert_int_equal(drive_status(&drive).committed, zxid_make(4, 0));
    assert_int_equal(drive_sent(&drive, 1, ZAB_UPTODATE)->commit.zxid, zxid_make(4, 0));
    drive_release(&drive);
}

/* A11, primary integrity. */
static void nothing_is_proposed_before_the_history_is_delivered(void **state)
{
    struct drive drive;

    (void)state;
    established(&drive);
    drive_persist(&drive);
    assert_int_equal(zab_next_zxid(drive.zab), 0);
    drive_learner_says(&drive, 1, ZAB_ACK_NEWLEADER, zxid_make(4, 0));
    assert_int_equal(drive.delivered, 0);
    assert_int_equal(zab_next_zxid(drive.zab), 0);
    assert_false(drive_status(&drive).serving);
    drive_fetched(&drive);
    assert_int_equal(drive.delivered, zxid_make(4, 0));
    assert_int_equal(zab_next_zxid(drive.zab), zxid_make(4, 1));
    assert_true(drive_status(&drive).serving);
    drive_release(&drive);
}

static void an_ack_newleader_before_newleader_ends_the_dialogue(void **state)
{
    struct drive drive;

    (void)state;
    established(&drive);
    drive_learner_says(&drive, 1, ZAB_ACK_NEWLEADER, zxid_make(4, 0));
    assert_int_equal(drive_effect(&drive, ZAB_FX_DISCONNECT)->disconnect.peer, 1);
    assert_int_equal(drive_status(&drive).phase, ZAB_PHASE_SYNC);
    drive_release(&drive);
}

static void the_phase_ends_without_a_quorum_in_time(void **state)
{
    struct drive drive;

    (void)state;
    established(&drive);
    drive_persist(&drive);
    drive_tick(&drive, 10100);
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    drive_release(&drive);
}

/* ---- Broadcast. ---- */

/* Its own durability is one acknowledgement, and not before it is true. */
static void a_commit_needs_a_quorum_of_disks(void **state)
{
    struct drive drive;

    (void)state;
    broadcasting(&drive);
    zxid_t zxid = drive_propose(&drive, "x");

    assert_int_equal(drive_sent(&drive, 1, ZAB_ENTRY)->entry.rec->zxid, zxid);
    drive_learner_says(&drive, 1, ZAB_ACK, zxid);
    assert_true(drive_status(&drive).committed < zxid);
    drive_persist(&drive);
    assert_int_equal(drive_status(&drive).committed, zxid);
    assert_int_equal(drive_sent(&drive, 2, ZAB_COMMIT)->commit.zxid, zxid);
    assert_int_equal(drive.delivered, zxid);
    drive_release(&drive);
}

static void a_leader_with_a_slow_disk_commits_but_does_not_deliver(void **state)
{
    struct drive drive;

    (void)state;
    broadcasting(&drive);
    zxid_t zxid = drive_propose(&drive, "x");

    drive_learner_says(&drive, 1, ZAB_ACK, zxid);
    drive_learner_says(&drive, 2, ZAB_ACK, zxid);
    assert_int_equal(drive_status(&drive).committed, zxid);
    assert_true(drive.delivered < zxid);
    drive_persist(&drive);
    assert_int_equal(drive.delivered, zxid);
    drive_release(&drive);
}

static void acknowledgements_are_cumulative(void **state)
{
    struct drive drive;

    (void)state;
    broadcasting(&drive);
    for (int i = 0; i < 5; i++) {
        (void)drive_propose(&drive, "x");
    }
    drive_persist(&drive);
    drive_clear(&drive);
    drive_learner_says(&drive, 1, ZAB_ACK, zxid_make(1, 5));
    assert_int_equal(drive_sent_count(&drive, 1, ZAB_COMMIT), 1);
    assert_int_equal(drive_sent(&drive, 1, ZAB_COMMIT)->commit.zxid, zxid_make(1, 5));
    assert_int_equal(drive_effect_count(&drive, ZAB_FX_DELIVER), 5);
    drive_release(&drive);
}

static void an_ack_of_what_was_not_sent_ends_the_dialogue(void **state)
{
    struct drive drive;

    (void)state;
    broadcasting(&drive);
    drive_learner_says(&drive, 1, ZAB_ACK, zxid_make(1, 9));
    assert_int_equal(drive_effect(&drive, ZAB_FX_DISCONNECT)->disconnect.peer, 1);
    drive_release(&drive);
}

static void an_ack_that_falls_back_ends_the_dialogue(void **state)
{
    struct drive drive;

    (void)state;
    broadcasting(&drive);
    (void)drive_propose(&drive, "x");
    drive_learner_says(&drive, 1, ZAB_ACK, zxid_make(1, 1));
    assert_null(drive_effect(&drive, ZAB_FX_DISCONNECT));
    drive_learner_says(&drive, 1, ZAB_ACK, zxid_make(1, 0));
    assert_int_equal(drive_effect(&drive, ZAB_FX_DISCONNECT)->disconnect.peer, 1);
    drive_release(&drive);
}

static void the_pipeline_is_bounded(void **state)
{
    struct drive drive;

    (void)state;
    drive_init(&drive, 3, 3);
    drive.init.limits.pending_max = 3;
    drive_start(&drive);
    drive_lead(&drive);
    for (int i = 0; i < 3; i++) {
        (void)drive_propose(&drive, "x");
    }
    assert_int_equal(zab_next_zxid(drive.zab), 0);
    drive_persist(&drive);
    assert_int_equal(zab_next_zxid(drive.zab), 0);
    drive_learner_says(&drive, 2, ZAB_ACK, zxid_make(1, 2));
    assert_int_equal(zab_next_zxid(drive.zab), zxid_make(1, 4));
    drive_release(&drive);
}

/* Decision: no write is refused for the counter, the next epoch begins by itself. */
static void the_counters_end_begins_a_new_epoch(void **state)
{
    struct drive drive;

    (void)state;
    drive_init(&drive, 3, 3);
    drive.init.limits.counter_max = 2;
    drive_start(&drive);
    drive_lead(&drive);
    (void)drive_propose(&drive, "x");
    (void)drive_propose(&drive, "x");
    assert_int_equal(zab_next_zxid(drive.zab), 0);
    drive_persist(&drive);
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    drive_lead(&drive);
    assert_int_equal(zab_next_zxid(drive.zab), zxid_make(2, 1));
    assert_int_equal(drive.delivered, zxid_make(2, 0));
    drive_release(&drive);
}

/* Else old state would pass for fresh: by how long ago that was it is told from it. */
static void a_candidate_knows_of_no_leader(void **state)
{
    struct drive drive;

    (void)state;
    broadcasting(&drive);
    uint64_t led_ms = drive.now_ms;

    assert_int_equal(drive_status(&drive).heard_ms, led_ms);
    drive_down(&drive, 1);
    drive_down(&drive, 2);
    drive_tick(&drive, 20000);
    drive_elect(&drive, 3, drive.disk.recs[drive.disk.count - 1]->zxid);
    assert_int_equal(drive_status(&drive).state, ZAB_LEADING);
    assert_int_equal(drive_status(&drive).phase, ZAB_PHASE_DISCOVERY);
    assert_int_equal(drive_status(&drive).heard_ms, led_ms);
    drive_release(&drive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_of_the_epoch_leaves_before_its_start_is_durable),
        cmocka_unit_test(a_learner_behind_gets_what_it_lacks_in_order),
        cmocka_unit_test(a_tail_of_a_lost_epoch_is_cut),
        cmocka_unit_test(behind_the_log_there_is_a_snapshot),
        cmocka_unit_test(a_learner_waits_for_a_snapshot_that_can_be_sent),
        cmocka_unit_test(a_snapshot_that_changes_on_the_way_ends_the_dialogue),
        cmocka_unit_test(without_a_snapshot_the_operator_is_told),
        cmocka_unit_test(what_is_proposed_while_one_joins_reaches_it_once),
        cmocka_unit_test(uptodate_carries_the_current_watermark),
        cmocka_unit_test(a_slow_learner_has_a_window),
        cmocka_unit_test(the_window_fits_the_queue_of_a_connection),
        cmocka_unit_test(a_learner_of_the_same_epoch_continues_where_it_was),
        cmocka_unit_test(broadcast_begins_with_a_quorum_of_ack_newleader),
        cmocka_unit_test(nothing_is_proposed_before_the_history_is_delivered),
        cmocka_unit_test(an_ack_newleader_before_newleader_ends_the_dialogue),
        cmocka_unit_test(the_phase_ends_without_a_quorum_in_time),
        cmocka_unit_test(a_candidate_knows_of_no_leader),
        cmocka_unit_test(a_commit_needs_a_quorum_of_disks),
        cmocka_unit_test(a_leader_with_a_slow_disk_commits_but_does_not_deliver),
        cmocka_unit_test(acknowledgements_are_cumulative),
        cmocka_unit_test(an_ack_of_what_was_not_sent_ends_the_dialogue),
        cmocka_unit_test(an_ack_that_falls_back_ends_the_dialogue),
        cmocka_unit_test(the_pipeline_is_bounded),
        cmocka_unit_test(the_counters_end_begins_a_new_epoch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
