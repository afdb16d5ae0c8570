/* Decision 6: replicas prove that their states are equal. */
#include "tests/lib/unit.h"
#include "tests/lib/zab_drive.h"

static const zxid_t at = ((zxid_t)1 << 32) + ZAB_CHECKPOINT;

static void lead(struct drive *drive, uint32_t voters)
{
    drive_init(drive, voters, voters);
    drive_start(drive);
    drive_lead(drive);
    drive_clear(drive);
}

static void note(struct drive *drive, zxid_t zxid, uint64_t digest)
{
    struct zab_effects effects;

    zab_effects_init(&effects);
    zab_digest(drive->zab, zxid, digest, &effects);
    drive_take(drive, &effects);
    zab_effects_release(&effects);
}

static void pong(struct drive *drive, uint32_t peer, zxid_t zxid, uint64_t digest)
{
    struct zab_msg msg = {.type = ZAB_PONG,
                          .dialogue = drive->dialogues[peer],
                          .epoch = drive->promised,
                          .pong.digest_zxid = zxid,
                          .pong.digest = digest};

    drive_recv(drive, peer, &msg);
}

static void equal_states_are_silent(void **state)
{
    struct drive drive;

    (void)state;
    lead(&drive, 3);
    note(&drive, at, 11);
    pong(&drive, 1, at, 11);
    pong(&drive, 2, at, 11);
    assert_int_equal(drive.seen_count, 0);
    drive_release(&drive);
}

static void two_different_states_of_three_accuse_nobody_yet(void **state)
{
    struct drive drive;

    (void)state;
    lead(&drive, 3);
    note(&drive, at, 11);
    pong(&drive, 1, at, 12);
    assert_null(drive_sent(&drive, 1, ZAB_STRANGER));
    assert_null(drive_asked(&drive, ZAB_PERSIST_QUARANTINE));
    assert_null(drive_effect(&drive, ZAB_FX_HALT));
    assert_int_equal(drive_status(&drive).state, ZAB_LEADING);
    drive_release(&drive);
}

static void a_replica_in_the_minority_is_told(void **state)
{
    struct drive drive;

    (void)state;
    lead(&drive, 3);
    note(&drive, at, 11);
    pong(&drive, 2, at, 11);
    pong(&drive, 1, at, 12);
    assert_true(drive_sent(&drive, 1, ZAB_STRANGER)->stranger.flags & ZAB_FLAG_DIVERGED);
    assert_null(drive_sent(&drive, 2, ZAB_STRANGER));
    assert_non_null(drive_effect(&drive, ZAB_FX_ALARM));
    drive_release(&drive);
}

static void a_leader_in_the_minority_steps_down_first(void **state)
{
    struct drive drive;

    (void)state;
    lead(&drive, 3);
    note(&drive, at, 11);
    pong(&drive, 1, at, 12);
    pong(&drive, 2, at, 12);
    assert_non_null(drive_asked(&drive, ZAB_PERSIST_QUARANTINE));
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    assert_null(drive_sent(&drive, 1, ZAB_STRANGER));
    drive_release(&drive);
}

static void without_a_majority_all_stop(void **state)
{
    struct drive drive;

    (void)state;
    lead(&drive, 3);
    note(&drive, at, 11);
    pong(&drive, 1, at, 12);
    assert_null(drive_effect(&drive, ZAB_FX_HALT));
    pong(&drive, 2, at, 13);
    assert_non_null(drive_effect(&drive, ZAB_FX_HALT));
    for (uint32_t peer = 1; peer <= 2; peer++) {
        assert_true(drive_sent(&drive, peer, ZAB_STRANGER)->stranger.flags & ZAB_FLAG_NO_MAJORITY);
        assert_int_equal(drive_sent(&drive, peer, ZAB_STRANGER)->stranger.zxid, at);
    }
    /* They are told before this process ends. */
    assert_int_equal(drive.seen[drive.seen_count - 1].type, ZAB_FX_HALT);
    drive_release(&drive);
}

/* Two pairs and one that is silent: it may still decide. Two pairs and one of its own: it cannot.
 */
static void all_stop_as_soon_as_no_majority_can_agree(void **state)
{
    struct drive drive;

    (void)state;
    lead(&drive, 5);
    note(&drive, at, 11);
    pong(&drive, 1, at, 11);
    pong(&drive, 2, at, 12);
    pong(&drive, 3, at, 12);
    assert_null(drive_effect(&drive, ZAB_FX_HALT));
    pong(&drive, 4, at, 13);
    assert_non_null(drive_effect(&drive, ZAB_FX_HALT));
    drive_release(&drive);
}

/* The first one found to differ need not be of the majority. */
static void three_of_five_agree_against_the_leader_and_another(void **state)
{
    struct drive drive;

    (void)state;
    lead(&drive, 5);
    pong(&drive, 1, at, 12);
    pong(&drive, 2, at, 13);
    pong(&drive, 3, at, 13);
    pong(&drive, 4, at, 13);
    note(&drive, at, 11);
    drive_tick(&drive, 600);
    assert_null(drive_effect(&drive, ZAB_FX_HALT));
    assert_non_null(drive_asked(&drive, ZAB_PERSIST_QUARANTINE));
    drive_release(&drive);
}

static void a_learner_told_that_no_majority_agrees_stops(void **state)
{
    struct drive drive;

    (void)state;
    drive_init(&drive, 1, 3);
    drive_start(&drive);
    drive_follow(&drive, 3, 1);
    drive_clear(&drive);
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_STRANGER,
                                               .stranger.flags = ZAB_FLAG_NO_MAJORITY,
                                               .stranger.zxid = at});
    assert_non_null(drive_effect(&drive, ZAB_FX_HALT));
    assert_non_null(strstr(drive_notice(&drive, ZAB_FX_HALT), "no majority agrees"));
    assert_null(drive_asked(&drive, ZAB_PERSIST_QUARANTINE));
    drive_release(&drive);
}

static void only_the_leader_of_this_dialogue_can_stop_a_learner(void **state)
{
    struct drive drive;
    struct zab_msg msg = {
        .type = ZAB_STRANGER, .stranger.flags = ZAB_FLAG_NO_MAJORITY, .stranger.zxid = at};

    (void)state;
    drive_init(&drive, 1, 3);
    drive_start(&drive);
    drive_follow(&drive, 3, 1);
    drive_clear(&drive);
    msg.dialogue = drive.dialogue;
    drive_recv(&drive, 2, &msg);
    msg.dialogue = drive.dialogue + 1;
    drive_recv(&drive, 3, &msg);
    assert_null(drive_effect(&drive, ZAB_FX_HALT));
    drive_release(&drive);
}

static void a_leader_that_is_behind_judges_nobody(void **state)
{
    struct drive drive;

    (void)state;
    lead(&drive, 3);
    pong(&drive, 1, at, 12);
    pong(&drive, 2, at, 13);
    assert_int_equal(drive.seen_count, 0);
    drive_release(&drive);
}

static void what_was_told_early_is_compared_later(void **state)
{
    struct drive drive;

    (void)state;
    lead(&drive, 3);
    pong(&drive, 1, at, 12);
    pong(&drive, 2, at, 11);
    note(&drive, at, 11);
    drive_tick(&drive, 600);
    assert_non_null(drive_sent(&drive, 1, ZAB_STRANGER));
    assert_null(drive_sent(&drive, 2, ZAB_STRANGER));
    drive_release(&drive);
}

/* What a stranger's disk says is compared, but it has no vote in who is right. */
static void an_uncounted_disk_does_not_help_to_a_majority(void **state)
{
    struct drive drive;

    (void)state;
    lead(&drive, 3);
    drive_up_as(&drive, 1, 999, false);
    drive_join(&drive, 1);
    drive_clear(&drive);
    note(&drive, at, 11);
    pong(&drive, 1, at, 12);
    pong(&drive, 2, at, 12);
    assert_null(drive_asked(&drive, ZAB_PERSIST_QUARANTINE));
    drive_release(&drive);
}

static void a_follower_tells_its_newest_checkpoint(void **state)
{
    struct drive drive;

    (void)state;
    drive_init(&drive, 1, 3);
    drive_start(&drive);
    drive_follow(&drive, 3, 1);
    note(&drive, zxid_make(1, 0), 1);
    note(&drive, at, 2);
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_PING});
    assert_int_equal(drive_sent(&drive, 3, ZAB_PONG)->pong.digest_zxid, at);
    assert_int_equal(drive_sent(&drive, 3, ZAB_PONG)->pong.digest, 2);
    drive_release(&drive);
}

/* Else the wrong digest would send the refilled replica away again, for ever. */
static void a_replaced_state_tells_nothing_of_the_old_one(void **state)
{
    struct drive drive;

    (void)state;
    drive_init(&drive, 1, 3);
    drive_start(&drive);
    drive_follow(&drive, 3, 1);
    note(&drive, zxid_make(1, 0), 1);
    drive_leader_says(&drive,
                      (struct zab_msg){.type = ZAB_STRANGER, .stranger.flags = ZAB_FLAG_DIVERGED});
    drive_persist(&drive);
    drive_says(&drive, 2, ZAB_FOLLOWING, 3);
    drive_says(&drive, 3, ZAB_LEADING, 3);
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_PING});
    assert_int_equal(drive_sent(&drive, 3, ZAB_PONG)->pong.digest_zxid, 0);
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_NEWEPOCH});
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_SYNC, .sync.common = 0});
    drive_newleader(&drive, drive.theirs.recs[0]);
    drive_persist(&drive);
    assert_false(drive.quarantined);
    drive_clear(&drive);
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_PING});
    assert_int_equal(drive_sent(&drive, 3, ZAB_PONG)->pong.digest_zxid, 0);
    drive_release(&drive);
}

static void a_refilled_replica_is_judged_by_what_it_says_now(void **state)
{
    struct drive drive;

    (void)state;
    lead(&drive, 3);
    note(&drive, at, 11);
    pong(&drive, 2, at, 11);
    pong(&drive, 1, at, 12);
    drive_cepoch(&drive, 1, 1, zxid_make(1, 0));
    drive_ackepoch(&drive, 1, &drive.disk, ZAB_FLAG_ELIGIBLE | ZAB_FLAG_COUNTED);
    drive_clear(&drive);
    pong(&drive, 1, at, 11);
    pong(&drive, 2, at, 12);
    assert_null(drive_sent(&drive, 1, ZAB_STRANGER));
    assert_non_null(drive_sent(&drive, 2, ZAB_STRANGER));
    drive_release(&drive);
}

static void bad_state(struct drive *drive)
{
    struct zab_effects effects;

    zab_effects_init(&effects);
    zab_bad_state(drive->zab, at, &effects);
    drive_take(drive, &effects);
    zab_effects_release(&effects);
}

static void a_state_that_its_snapshot_denies_is_refilled(void **state)
{
    struct drive drive;

    (void)state;
    lead(&drive, 3);
    bad_state(&drive);
    assert_non_null(drive_asked(&drive, ZAB_PERSIST_QUARANTINE));
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    drive_release(&drive);
}

/* Else the mark would be cleared over a state that is known to be wrong. */
static void a_refill_that_makes_a_bad_state_begins_anew(void **state)
{
    struct drive drive;

    (void)state;
    drive_init(&drive, 1, 3);
    drive.init.quarantined = true;
    drive_start(&drive);
    drive_follow_stream(&drive, 3, 1);
    bad_state(&drive);
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    assert_true(drive_status(&drive).quarantined);
    drive_newleader(&drive, drive.theirs.recs[0]);
    drive_persist(&drive);
    assert_null(drive_asked(&drive, ZAB_PERSIST_RELEASE));
    drive_release(&drive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_states_are_silent),
        cmocka_unit_test(two_different_states_of_three_accuse_nobody_yet),
        cmocka_unit_test(a_replica_in_the_minority_is_told),
        cmocka_unit_test(a_leader_in_the_minority_steps_down_first),
        cmocka_unit_test(without_a_majority_all_stop),
        cmocka_unit_test(all_stop_as_soon_as_no_majority_can_agree),
        cmocka_unit_test(three_of_five_agree_against_the_leader_and_another),
        cmocka_unit_test(a_learner_told_that_no_majority_agrees_stops),
        cmocka_unit_test(only_the_leader_of_this_dialogue_can_stop_a_learner),
        cmocka_unit_test(a_leader_that_is_behind_judges_nobody),
        cmocka_unit_test(what_was_told_early_is_compared_later),
        cmocka_unit_test(an_uncounted_disk_does_not_help_to_a_majority),
        cmocka_unit_test(a_follower_tells_its_newest_checkpoint),
        cmocka_unit_test(a_replaced_state_tells_nothing_of_the_old_one),
        cmocka_unit_test(a_refilled_replica_is_judged_by_what_it_says_now),
        cmocka_unit_test(a_state_that_its_snapshot_denies_is_refilled),
        cmocka_unit_test(a_refill_that_makes_a_bad_state_begins_anew),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
