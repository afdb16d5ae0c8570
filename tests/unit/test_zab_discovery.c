/* Phase 1 on both sides: promises, the new epoch, and who has what log. */
#include "base/mem.h"
#include "tests/lib/unit.h"
#include "tests/lib/zab_drive.h"

enum {
    COUNTED = ZAB_FLAG_ELIGIBLE | ZAB_FLAG_COUNTED
};

static void log_of_epoch(struct drive *drive, uint32_t epoch, uint32_t last)
{
    for (uint32_t i = 0; i <= last; i++) {
        drive_log_add(&drive->disk, zxid_make(epoch, i));
    }
}

/* Replica 3 of 3, elected, its own log up to (3, 2), promise 3. */
static void elected(struct drive *drive)
{
    drive_init(drive, 3, 3);
    log_of_epoch(drive, 3, 2);
    drive_start(drive);
    drive_elect(drive, 3, zxid_make(3, 2));
    assert_int_equal(drive_status(drive).state, ZAB_LEADING);
    drive_clear(drive);
}

/* ---- The leader. ---- */

static void no_epoch_before_a_quorum_of_promises(void **state)
{
    struct drive drive;

    (void)state;
    drive_init(&drive, 5, 5);
    drive_start(&drive);
    drive_elect(&drive, 5, 0);
    drive_cepoch(&drive, 1, 0, 0);
    assert_null(drive_asked(&drive, ZAB_PERSIST_PROMISE));
    drive_cepoch(&drive, 1, 0, 0);
    assert_null(drive_asked(&drive, ZAB_PERSIST_PROMISE));
    drive_cepoch(&drive, 2, 0, 0);
    assert_non_null(drive_asked(&drive, ZAB_PERSIST_PROMISE));
    drive_release(&drive);
}

/* "selects a new epoch e' later than all e received" */
static void the_new_epoch_is_above_all_promises(void **state)
{
    struct drive drive;

    (void)state;
    elected(&drive);
    drive_cepoch(&drive, 1, 41, zxid_make(3, 2));
    assert_int_equal(drive_asked(&drive, ZAB_PERSIST_PROMISE)->promise.epoch, 42);
    assert_int_equal(drive_asked(&drive, ZAB_PERSIST_PROMISE)->promise.leader, 3);
    drive_release(&drive);
}

/* ZOOKEEPER-1291: proposed an epoch that the leader itself had not accepted. */
static void newepoch_waits_for_the_leaders_own_promise(void **state)
{
    struct drive drive;

    (void)state;
    elected(&drive);
    drive_cepoch(&drive, 1, 3, zxid_make(3, 2));
    drive_cepoch(&drive, 2, 3, zxid_make(3, 2));
    assert_null(drive_sent(&drive, 1, ZAB_NEWEPOCH));
    assert_null(drive_sent(&drive, 2, ZAB_NEWEPOCH));
    drive_persist(&drive);
    assert_int_equal(drive_sent(&drive, 1, ZAB_NEWEPOCH)->epoch, 4);
    assert_int_equal(drive_sent(&drive, 2, ZAB_NEWEPOCH)->epoch, 4);
    drive_release(&drive);
}

static void the_epoch_stays_for_those_who_come_later(void **state)
{
    struct drive drive;

    (void)state;
    elected(&drive);
    drive_cepoch(&drive, 1, 3, zxid_make(3, 2));
    drive_persist(&drive);
    drive_cepoch(&drive, 2, 3, zxid_make(3, 2));
    assert_int_equal(drive_sent(&drive, 2, ZAB_NEWEPOCH)->epoch, 4);
    drive_release(&drive);
}

static void a_promise_that_came_before_the_decision_is_taken(void **state)
{
    struct drive drive;

    (void)state;
    drive_init(&drive, 3, 3);
    log_of_epoch(&drive, 3, 2);
    drive_start(&drive);
    drive_up(&drive, 1);
    drive_cepoch(&drive, 1, 3, zxid_make(3, 2));
    drive_vote(&drive, 1, 3, zxid_make(3, 2));
    drive_tick(&drive, 100);
    assert_int_equal(drive_status(&drive).state, ZAB_LEADING);
    assert_int_equal(drive_asked(&drive, ZAB_PERSIST_PROMISE)->promise.epoch, 4);
    drive_release(&drive);
}

static void established_by_a_quorum_of_ackepoch(void **state)
{
    struct drive drive;

    (void)state;
    elected(&drive);
    drive_cepoch(&drive, 1, 3, zxid_make(3, 2));
    drive_persist(&drive);
    assert_null(drive_asked(&drive, ZAB_PERSIST_APPEND));
    drive_ackepoch(&drive, 1, &drive.disk, COUNTED);
    const struct zab_persist *append = drive_asked(&drive, ZAB_PERSIST_APPEND);

    assert_non_null(append);
    assert_int_equal(append->append.rec->type, LOGREC_EPOCH);
    assert_int_equal(append->append.rec->zxid, zxid_make(4, 0));
    assert_int_equal(append->append.rec->prev, zxid_make(3, 2));
    drive_release(&drive);
}

/* The same epoch, promised to another leader: it may come along, but it is not counted. */
static void an_ackepoch_that_does_not_count_is_not_counted(void **state)
{
    struct drive drive;

    (void)state;
    elected(&drive);
    drive_cepoch(&drive, 1, 3, zxid_make(3, 2));
    drive_persist(&drive);
    drive_ackepoch(&drive, 1, &drive.disk, ZAB_FLAG_ELIGIBLE);
    assert_null(drive_asked(&drive, ZAB_PERSIST_APPEND));
    drive_release(&drive);
}

static void a_strange_disk_is_not_counted(void **state)
{
    struct drive drive;

    (void)state;
    elected(&drive);
    drive_up_as(&drive, 1, 999, false);
    drive_cepoch(&drive, 1, 3, zxid_make(3, 2));
    assert_null(drive_asked(&drive, ZAB_PERSIST_PROMISE));
    drive_cepoch(&drive, 2, 3, zxid_make(3, 2));
    drive_persist(&drive);
    drive_ackepoch(&drive, 1, &drive.disk, COUNTED);
    assert_null(drive_asked(&drive, ZAB_PERSIST_APPEND));
    drive_release(&drive);
}

static void a_follower_with_a_longer_log_ends_the_candidacy(void **state)
{
    struct drive drive;
    struct drive_log longer = {0};

    (void)state;
    elected(&drive);
    drive_log_copy(&longer, &drive.disk);
    drive_log_add(&longer, zxid_make(3, 3));
    drive_cepoch(&drive, 1, 3, zxid_make(3, 3));
    drive_persist(&drive);
    drive_ackepoch(&drive, 1, &longer, COUNTED);
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    drive_log_release(&longer);
    drive_release(&drive);
}

/* After the quorum a straggler's longer log holds nothing committed: it is cut. */
static void a_straggler_with_a_longer_log_is_cut(void **state)
{
    struct drive drive;
    struct drive_log longer = {0};

    (void)state;
    elected(&drive);
    drive_log_copy(&longer, &drive.disk);
    drive_log_add(&longer, zxid_make(3, 3));
    drive_cepoch(&drive, 1, 3, zxid_make(3, 2));
    drive_cepoch(&drive, 2, 3, zxid_make(3, 3));
    drive_persist(&drive);
    drive_ackepoch(&drive, 1, &drive.disk, COUNTED);
    drive_ackepoch(&drive, 2, &longer, COUNTED);
    assert_int_equal(drive_status(&drive).state, ZAB_LEADING);
    assert_int_equal(drive_sent(&drive, 2, ZAB_SYNC)->sync.common, zxid_make(3, 2));
    drive_log_release(&longer);
    drive_release(&drive);
}

static void an_ackepoch_of_another_epoch_ends_the_dialogue(void **state)
{
    struct drive drive;
    struct zab_msg ack = {.type = ZAB_ACKEPOCH, .epoch = 9, .ackepoch.flags = COUNTED};

    (void)state;
    elected(&drive);
    drive_cepoch(&drive, 1, 3, zxid_make(3, 2));
    drive_persist(&drive);
    ack.dialogue = drive.dialogues[1];
    drive_recv(&drive, 1, &ack);
    assert_int_equal(drive_effect(&drive, ZAB_FX_DISCONNECT)->disconnect.peer, 1);
    assert_null(drive_asked(&drive, ZAB_PERSIST_APPEND));
    drive_release(&drive);
}

static void messages_of_an_older_link_are_dropped(void **state)
{
    struct drive drive;

    (void)state;
    elected(&drive);
    drive_cepoch(&drive, 1, 3, zxid_make(3, 2));
    drive_persist(&drive);
    drive.dialogues[1]--;
    drive_ackepoch(&drive, 1, &drive.disk, COUNTED);
    assert_null(drive_asked(&drive, ZAB_PERSIST_APPEND));
    drive_release(&drive);
}

/* S43: an authenticated peer must not poison the promise. */
static void an_implausible_promise_is_refused_with_an_alarm(void **state)
{
    struct drive drive;

    (void)state;
    elected(&drive);
    drive_cepoch(&drive, 1, 3 + 1000001, zxid_make(3, 2));
    assert_null(drive_asked(&drive, ZAB_PERSIST_PROMISE));
    assert_non_null(drive_effect(&drive, ZAB_FX_ALARM));
    assert_int_equal(drive_effect(&drive, ZAB_FX_DISCONNECT)->disconnect.peer, 1);
    drive_cepoch(&drive, 2, 3 + 1000000, zxid_make(3, 2));
    assert_int_equal(drive_asked(&drive, ZAB_PERSIST_PROMISE)->promise.epoch, 3 + 1000001);
    drive_release(&drive);
}

static void no_quorum_in_time_ends_the_candidacy(void **state)
{
    struct drive drive;

    (void)state;
    elected(&drive);
    drive_tick(&drive, 2100);
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    drive_release(&drive);
}

/* A27: an epoch is for one attempt. */
static void a_failed_attempts_epoch_is_not_used_again(void **state)
{
    struct drive drive;

    (void)state;
    elected(&drive);
    drive_cepoch(&drive, 1, 3, zxid_make(3, 2));
    drive_persist(&drive);
    assert_int_equal(drive.promised, 4);
    drive_tick(&drive, 2100);
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    drive_vote(&drive, 1, 3, zxid_make(3, 2));
    drive_vote(&drive, 2, 3, zxid_make(3, 2));
    drive_cepoch(&drive, 1, 3, zxid_make(3, 2));
    assert_int_equal(drive_asked(&drive, ZAB_PERSIST_PROMISE)->promise.epoch, 5);
    drive_release(&drive);
}

/* ---- Decision 10. ---- */

static void a_stuck_promise_makes_a_larger_epoch(void **state)
{
    struct drive drive;

    (void)state;
    drive_init(&drive, 3, 3);
    drive_start(&drive);
    drive_lead(&drive);
    drive_clear(&drive);
    drive_cepoch(&drive, 1, 7, 0);
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    drive_vote(&drive, 1, 3, zxid_make(1, 0));
    drive_vote(&drive, 2, 3, zxid_make(1, 0));
    drive_cepoch(&drive, 2, 1, zxid_make(1, 0));
    assert_int_equal(drive_asked(&drive, ZAB_PERSIST_PROMISE)->promise.epoch, 8);
    drive_release(&drive);
}

static void rediscovery_is_rate_limited(void **state)
{
    struct drive drive;

    (void)state;
    drive_init(&drive, 3, 3);
    drive_start(&drive);
    drive_lead(&drive);
    drive_cepoch(&drive, 1, 7, 0);
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    drive_vote(&drive, 1, 3, zxid_make(1, 0));
    drive_vote(&drive, 2, 3, zxid_make(1, 0));
    drive_lead(&drive);
    drive_cepoch(&drive, 1, 20, 0);
    assert_int_equal(drive_status(&drive).state, ZAB_LEADING);
    drive_release(&drive);
}

/* ---- The follower. ---- */

static void follower(struct drive *drive, uint32_t promised, uint32_t promised_leader)
{
    drive_init(drive, 1, 3);
    log_of_epoch(drive, 3, 2);
    drive->init.promised_epoch = promised;
    drive->init.promised_leader = promised_leader;
    drive_start(drive);
}

static void newepoch(struct drive *drive, uint32_t epoch)
{
    drive->epoch = epoch;
    drive_leader_says(drive, (struct zab_msg){.type = ZAB_NEWEPOCH});
}

static void cepoch_tells_the_promise_and_the_durable_log(void **state)
{
    struct drive drive;

    (void)state;
    follower(&drive, 5, 2);
    drive_follow_cepoch(&drive, 3);
    const struct zab_msg *msg = drive_sent(&drive, 3, ZAB_CEPOCH);

    assert_int_equal(msg->cepoch.promised, 5);
    assert_int_equal(msg->cepoch.last, zxid_make(3, 2));
    assert_true(msg->cepoch.flags & ZAB_FLAG_ELIGIBLE);
    drive_release(&drive);
}

static void a_lost_cepoch_is_sent_again_with_the_same_link(void **state)
{
    struct drive drive;

    (void)state;
    follower(&drive, 5, 2);
    drive_follow_cepoch(&drive, 3);
    uint32_t link = drive.dialogue;

    drive_tick(&drive, 600);
    assert_int_equal(drive_sent_count(&drive, 3, ZAB_CEPOCH), 2);
    assert_int_equal(drive.dialogue, link);
    drive_release(&drive);
}

/* A3. */
static void ackepoch_waits_for_the_promise(void **state)
{
    struct drive drive;

    (void)state;
    follower(&drive, 3, 2);
    drive_follow_cepoch(&drive, 3);
    newepoch(&drive, 4);
    assert_int_equal(drive_asked(&drive, ZAB_PERSIST_PROMISE)->promise.epoch, 4);
    assert_int_equal(drive_asked(&drive, ZAB_PERSIST_PROMISE)->promise.leader, 3);
    assert_null(drive_sent(&drive, 3, ZAB_ACKEPOCH));
    drive_persist(&drive);
    const struct zab_msg *ack = drive_sent(&drive, 3, ZAB_ACKEPOCH);

    assert_int_equal(ack->epoch, 4);
    assert_int_equal(ack->ackepoch.last, zxid_make(3, 2));
    assert_int_equal(ack->ackepoch.range_count, 1);
    assert_int_equal(ack->ackepoch.ranges[0].epoch, 3);
    assert_int_equal(ack->ackepoch.ranges[0].last, 2);
    assert_true(ack->ackepoch.flags & ZAB_FLAG_COUNTED);
    drive_release(&drive);
}

static void an_epoch_below_the_promise_is_not_joined(void **state)
{
    struct drive drive;

    (void)state;
    follower(&drive, 5, 2);
    drive_follow_cepoch(&drive, 3);
    newepoch(&drive, 4);
    assert_null(drive_asked(&drive, ZAB_PERSIST_PROMISE));
    assert_null(drive_sent(&drive, 3, ZAB_ACKEPOCH));
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    drive_release(&drive);
}

static void the_same_epoch_counts_for_the_same_leader(void **state)
{
    struct drive drive;

    (void)state;
    follower(&drive, 5, 3);
    drive_follow_cepoch(&drive, 3);
    newepoch(&drive, 5);
    assert_null(drive_asked(&drive, ZAB_PERSIST_PROMISE));
    assert_true(drive_sent(&drive, 3, ZAB_ACKEPOCH)->ackepoch.flags & ZAB_FLAG_COUNTED);
    drive_release(&drive);
}

static void the_same_epoch_does_not_count_for_another_leader(void **state)
{
    struct drive drive;

    (void)state;
    follower(&drive, 5, 2);
    drive_follow_cepoch(&drive, 3);
    newepoch(&drive, 5);
    assert_false(drive_sent(&drive, 3, ZAB_ACKEPOCH)->ackepoch.flags & ZAB_FLAG_COUNTED);
    drive_release(&drive);
}

static void an_implausible_epoch_is_refused_with_an_alarm(void **state)
{
    struct drive drive;

    (void)state;
    follower(&drive, 5, 2);
    drive_follow_cepoch(&drive, 3);
    newepoch(&drive, 5 + 1000001);
    assert_null(drive_asked(&drive, ZAB_PERSIST_PROMISE));
    assert_non_null(drive_effect(&drive, ZAB_FX_ALARM));
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    drive_release(&drive);
}

static void a_leader_that_settles_elsewhere_is_left(void **state)
{
    struct drive drive;

    (void)state;
    follower(&drive, 3, 2);
    drive_follow_cepoch(&drive, 3);
    drive_says(&drive, 3, ZAB_FOLLOWING, 2);
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    drive_release(&drive);
}

static void a_silent_leader_is_left(void **state)
{
    struct drive drive;

    (void)state;
    follower(&drive, 3, 2);
    drive_follow_cepoch(&drive, 3);
    drive_tick(&drive, 2100);
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    drive_release(&drive);
}

static void a_leaders_messages_of_an_older_link_are_dropped(void **state)
{
    struct drive drive;

    (void)state;
    follower(&drive, 3, 2);
    drive_follow_cepoch(&drive, 3);
    drive.dialogue--;
    newepoch(&drive, 4);
    assert_null(drive_asked(&drive, ZAB_PERSIST_PROMISE));
    drive_release(&drive);
}

/* The list of epochs is bounded on the wire: the newest are told, and what is before them. */
static void a_long_outline_is_told_from_its_end(void **state)
{
    struct drive drive;
    uint32_t count = ZAB_RANGES_MAX + 10;
    struct zab_range *ranges = mem_zalloc(count, sizeof ranges[0]);

    (void)state;
    drive_init(&drive, 1, 3);
    for (uint32_t i = 0; i < count; i++) {
        ranges[i] = (struct zab_range){.epoch = i + 1, .first = 0, .last = 3};
    }
    drive.init.ranges = ranges;
    drive.init.range_count = count;
    drive.init.log_last = zxid_make(count, 3);
    drive.init.promised_epoch = count;
    drive.init.seeds = drive.seeds;
    drive.init.now_ms = drive.now_ms;
    drive.promised = count;
    drive.zab = zab_new(&drive.init);
    drive.observed = drive.zab;
    drive.disk.base = zxid_make(count, 3);
    drive_tick(&drive, 0);
    drive_follow_cepoch(&drive, 3);
    newepoch(&drive, count + 1);
    drive_persist(&drive);
    const struct zab_msg *ack = drive_sent(&drive, 3, ZAB_ACKEPOCH);

    assert_int_equal(ack->ackepoch.range_count, ZAB_RANGES_MAX);
    assert_int_equal(ack->ackepoch.ranges[0].epoch, 11);
    assert_int_equal(ack->ackepoch.base, zxid_make(10, 3));
    mem_free(ranges);
    drive_release(&drive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_epoch_before_a_quorum_of_promises),
        cmocka_unit_test(the_new_epoch_is_above_all_promises),
        cmocka_unit_test(newepoch_waits_for_the_leaders_own_promise),
        cmocka_unit_test(the_epoch_stays_for_those_who_come_later),
        cmocka_unit_test(a_promise_that_came_before_the_decision_is_taken),
        cmocka_unit_test(established_by_a_quorum_of_ackepoch),
        cmocka_unit_test(an_ackepoch_that_does_not_count_is_not_counted),
        cmocka_unit_test(a_strange_disk_is_not_counted),
        cmocka_unit_test(a_follower_with_a_longer_log_ends_the_candidacy),
        cmocka_unit_test(a_straggler_with_a_longer_log_is_cut),
        cmocka_unit_test(an_ackepoch_of_another_epoch_ends_the_dialogue),
        cmocka_unit_test(messages_of_an_older_link_are_dropped),
        cmocka_unit_test(an_implausible_promise_is_refused_with_an_alarm),
        cmocka_unit_test(no_quorum_in_time_ends_the_candidacy),
        cmocka_unit_test(a_failed_attempts_epoch_is_not_used_again),
        cmocka_unit_test(a_stuck_promise_makes_a_larger_epoch),
        cmocka_unit_test(rediscovery_is_rate_limited),
        cmocka_unit_test(cepoch_tells_the_promise_and_the_durable_log),
        cmocka_unit_test(a_lost_cepoch_is_sent_again_with_the_same_link),
        cmocka_unit_test(ackepoch_waits_for_the_promise),
        cmocka_unit_test(an_epoch_below_the_promise_is_not_joined),
        cmocka_unit_test(the_same_epoch_counts_for_the_same_leader),
        cmocka_unit_test(the_same_epoch_does_not_count_for_another_leader),
        cmocka_unit_test(an_implausible_epoch_is_refused_with_an_alarm),
        cmocka_unit_test(a_leader_that_settles_elsewhere_is_left),
        cmocka_unit_test(a_silent_leader_is_left),
        cmocka_unit_test(a_leaders_messages_of_an_older_link_are_dropped),
        cmocka_unit_test(a_long_outline_is_told_from_its_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
