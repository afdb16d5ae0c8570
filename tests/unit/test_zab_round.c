/* Decision 9: quorum rounds; and requests that learners send to the leader. */
#include "tests/lib/unit.h"
#include "tests/lib/zab_drive.h"

static void broadcasting(struct drive *drive)
{
    drive_init(drive, 3, 3);
    drive_start(drive);
    drive_lead(drive);
    drive_clear(drive);
}

static enum err confirm(struct drive *drive, uint64_t token)
{
    struct zab_effects effects;

    zab_effects_init(&effects);
    enum err err = zab_confirm(drive->zab, token, &effects);

    drive_take(drive, &effects);
    zab_effects_release(&effects);
    return err;
}

static void answers(struct drive *drive, uint32_t peer, uint64_t round)
{
    struct zab_msg msg = {.type = ZAB_CONFIRM_ACK,
                          .dialogue = drive->dialogues[peer],
                          .epoch = drive->promised,
                          .confirm.round = round};

    drive_recv(drive, peer, &msg);
}

static void a_round_needs_a_quorum(void **state)
{
    struct drive drive;

    (void)state;
    broadcasting(&drive);
    assert_int_equal(confirm(&drive, 77), ERR_OK);
    assert_null(drive_effect(&drive, ZAB_FX_CONFIRMED));
    uint64_t round = drive_sent(&drive, 1, ZAB_CONFIRM)->confirm.round;

    assert_int_equal(drive_sent(&drive, 2, ZAB_CONFIRM)->confirm.round, round);
    answers(&drive, 1, round);
    assert_int_equal(drive_effect(&drive, ZAB_FX_CONFIRMED)->confirmed.request, 77);
    assert_int_equal(drive_effect(&drive, ZAB_FX_CONFIRMED)->confirmed.zxid, zxid_make(1, 0));
    drive_release(&drive);
}

/* etcd #20418: answered from a round that began before the request. */
static void a_request_waits_for_a_round_that_began_after_it(void **state)
{
    struct drive drive;

    (void)state;
    broadcasting(&drive);
    (void)confirm(&drive, 1);
    uint64_t first = drive_sent(&drive, 1, ZAB_CONFIRM)->confirm.round;

    (void)confirm(&drive, 2);
    (void)confirm(&drive, 3);
    assert_int_equal(drive_sent_count(&drive, 1, ZAB_CONFIRM), 1);
    answers(&drive, 1, first);
    assert_int_equal(drive_effect_count(&drive, ZAB_FX_CONFIRMED), 1);
    assert_int_equal(drive_effect(&drive, ZAB_FX_CONFIRMED)->confirmed.request, 1);
    uint64_t second = drive_sent(&drive, 1, ZAB_CONFIRM)->confirm.round;

    assert_true(second > first);
    answers(&drive, 2, first);
    assert_int_equal(drive_effect_count(&drive, ZAB_FX_CONFIRMED), 1);
    answers(&drive, 2, second);
    assert_int_equal(drive_effect_count(&drive, ZAB_FX_CONFIRMED), 3);
    drive_release(&drive);
}

static void an_answer_to_a_round_to_come_is_not_counted(void **state)
{
    struct drive drive;

    (void)state;
    broadcasting(&drive);
    answers(&drive, 1, 1000);
    (void)confirm(&drive, 1);
    answers(&drive, 1, 1000);
    assert_null(drive_effect(&drive, ZAB_FX_CONFIRMED));
    drive_release(&drive);
}

static void an_uncounted_learner_does_not_confirm(void **state)
{
    struct drive drive;

    (void)state;
    broadcasting(&drive);
    drive_up_as(&drive, 1, 999, false);
    drive_join(&drive, 1);
    (void)confirm(&drive, 1);
    answers(&drive, 1, drive_sent(&drive, 1, ZAB_CONFIRM)->confirm.round);
    assert_null(drive_effect(&drive, ZAB_FX_CONFIRMED));
    answers(&drive, 2, drive_sent(&drive, 2, ZAB_CONFIRM)->confirm.round);
    assert_non_null(drive_effect(&drive, ZAB_FX_CONFIRMED));
    drive_release(&drive);
}

/* One lost message must not stop all rounds for the rest of the reign. */
static void a_lost_question_is_asked_again(void **state)
{
    struct drive drive;

    (void)state;
    broadcasting(&drive);
    (void)confirm(&drive, 1);
    uint64_t round = drive_sent(&drive, 1, ZAB_CONFIRM)->confirm.round;

    drive_clear(&drive);
    drive_tick(&drive, 600);
    assert_int_equal(drive_sent(&drive, 1, ZAB_CONFIRM)->confirm.round, round);
    drive_down(&drive, 2);
    drive_up(&drive, 2);
    drive_clear(&drive);
    drive_join(&drive, 2);
    assert_int_equal(drive_sent(&drive, 2, ZAB_CONFIRM)->confirm.round, round);
    answers(&drive, 2, round);
    assert_int_equal(drive_effect(&drive, ZAB_FX_CONFIRMED)->confirmed.request, 1);
    drive_release(&drive);
}

static void a_change_of_role_drops_rounds(void **state)
{
    struct drive drive;

    (void)state;
    broadcasting(&drive);
    (void)confirm(&drive, 1);
    uint64_t round = drive_sent(&drive, 1, ZAB_CONFIRM)->confirm.round;

    drive_down(&drive, 1);
    drive_down(&drive, 2);
    assert_int_equal(confirm(&drive, 2), ERR_NOT_READY);
    drive_clear(&drive);
    drive_lead(&drive);
    answers(&drive, 1, round);
    answers(&drive, 2, round);
    assert_null(drive_effect(&drive, ZAB_FX_CONFIRMED));
    (void)confirm(&drive, 3);
    assert_true(drive_sent(&drive, 1, ZAB_CONFIRM)->confirm.round > round);
    drive_release(&drive);
}

static void a_leader_answers_none_before_its_newleader_quorum(void **state)
{
    struct drive drive;

    (void)state;
    drive_init(&drive, 3, 3);
    drive_start(&drive);
    drive_elect(&drive, 3, 0);
    assert_int_equal(confirm(&drive, 1), ERR_NOT_READY);
    drive_release(&drive);
}

static void with_one_voter_the_round_ends_at_once(void **state)
{
    struct drive drive;

    (void)state;
    drive_init(&drive, 1, 1);
    drive_start(&drive);
    drive_persist(&drive);
    assert_int_equal(confirm(&drive, 5), ERR_OK);
    assert_int_equal(drive_effect(&drive, ZAB_FX_CONFIRMED)->confirmed.request, 5);
    drive_release(&drive);
}

static void a_learners_request_is_answered_to_its_dialogue(void **state)
{
    struct drive drive;
    struct zab_msg ask = {.type = ZAB_READ_INDEX, .epoch = 1, .read_index.request = 9};

    (void)state;
    broadcasting(&drive);
    ask.dialogue = drive.dialogues[1];
    drive_recv(&drive, 1, &ask);
    answers(&drive, 2, drive_sent(&drive, 2, ZAB_CONFIRM)->confirm.round);
    assert_int_equal(drive_sent(&drive, 1, ZAB_READ_REPLY)->read_reply.request, 9);
    assert_int_equal(drive_sent(&drive, 1, ZAB_READ_REPLY)->read_reply.zxid, zxid_make(1, 0));
    drive_clear(&drive);
    drive_recv(&drive, 1, &ask);
    drive_cepoch(&drive, 1, 1, zxid_make(1, 0));
    answers(&drive, 2, drive_sent(&drive, 2, ZAB_CONFIRM)->confirm.round);
    assert_null(drive_sent(&drive, 1, ZAB_READ_REPLY));
    drive_release(&drive);
}

/* ---- The learner. ---- */

static void a_learner_asks_its_leader(void **state)
{
    struct drive drive;

    (void)state;
    drive_init(&drive, 1, 3);
    drive_start(&drive);
    assert_int_equal(confirm(&drive, 4), ERR_NOT_READY);
    drive_follow(&drive, 3, 1);
    assert_int_equal(confirm(&drive, 4), ERR_OK);
    assert_int_equal(drive_sent(&drive, 3, ZAB_READ_INDEX)->read_index.request, 4);
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_READ_REPLY,
                                               .read_reply.request = 4,
                                               .read_reply.zxid = zxid_make(1, 8)});
    assert_int_equal(drive_effect(&drive, ZAB_FX_CONFIRMED)->confirmed.request, 4);
    assert_int_equal(drive_effect(&drive, ZAB_FX_CONFIRMED)->confirmed.zxid, zxid_make(1, 8));
    drive_release(&drive);
}

static void a_follower_confirms_only_the_epoch_it_is_with(void **state)
{
    struct drive drive;

    (void)state;
    drive_init(&drive, 1, 3);
    drive_start(&drive);
    drive_follow_stream(&drive, 3, 1);
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_CONFIRM, .confirm.round = 3});
    assert_null(drive_sent(&drive, 3, ZAB_CONFIRM_ACK));
    drive_newleader(&drive, drive_log_add(&drive.theirs, zxid_make(1, 0)));
    drive_persist(&drive);
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_CONFIRM, .confirm.round = 3});
    assert_int_equal(drive_sent(&drive, 3, ZAB_CONFIRM_ACK)->confirm.round, 3);
    drive_release(&drive);
}

/* The same epoch was promised to another leader by a larger promise since: not with this one. */
static void who_has_promised_more_never_confirms(void **state)
{
    struct drive drive;

    (void)state;
    drive_init(&drive, 1, 3);
    drive_start(&drive);
    drive_follow(&drive, 3, 1);
    drive_down(&drive, 3);
    drive_follow_acked(&drive, 2, 2);
    drive_clear(&drive);
    drive.epoch = 1;
    drive.leader = 3;
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_CONFIRM, .confirm.round = 3});
    assert_null(drive_sent(&drive, 3, ZAB_CONFIRM_ACK));
    drive_release(&drive);
}

static void forwarding_needs_a_leader_in_step(void **state)
{
    struct drive drive;
    struct zab_effects effects;

    (void)state;
    drive_init(&drive, 1, 3);
    drive_start(&drive);
    zab_effects_init(&effects);
    assert_int_equal(zab_forward(drive.zab, 1, slice_str("w"), &effects), ERR_NOT_READY);
    drive_follow_wait(&drive, 3, 1);
    assert_int_equal(zab_forward(drive.zab, 1, slice_str("w"), &effects), ERR_NOT_READY);
    drive_leader_says(&drive,
                      (struct zab_msg){.type = ZAB_UPTODATE, .commit.zxid = zxid_make(1, 0)});
    assert_int_equal(zab_forward(drive.zab, 1, slice_str("w"), &effects), ERR_OK);
    drive_take(&drive, &effects);
    assert_true(slice_eq(drive_sent(&drive, 3, ZAB_FORWARD)->forward.bytes, slice_str("w")));
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_FORWARD_REPLY,
                                               .forward.request = 1,
                                               .forward.bytes = slice_str("no")});
    assert_int_equal(drive_effect(&drive, ZAB_FX_REFUSED)->refused.request, 1);
    assert_true(slice_eq(drive_effect(&drive, ZAB_FX_REFUSED)->refused.bytes, slice_str("no")));
    zab_effects_release(&effects);
    drive_release(&drive);
}

static void the_leader_takes_requests_of_learners_in_step(void **state)
{
    struct drive drive;
    struct zab_effects effects;
    struct zab_msg forward = {.type = ZAB_FORWARD,
                              .epoch = 1,
                              .forward.request = 8,
                              .forward.bytes = {(const uint8_t *)"w", 1}};

    (void)state;
    broadcasting(&drive);
    forward.dialogue = drive.dialogues[1];
    drive_recv(&drive, 1, &forward);
    assert_int_equal(drive_effect(&drive, ZAB_FX_FORWARDED)->forwarded.peer, 1);
    assert_int_equal(drive_effect(&drive, ZAB_FX_FORWARDED)->forwarded.request, 8);
    zab_effects_init(&effects);
    zab_refuse(drive.zab, 1, drive_effect(&drive, ZAB_FX_FORWARDED)->forwarded.dialogue, 8,
               slice_str("no"), &effects);
    drive_take(&drive, &effects);
    zab_effects_release(&effects);
    assert_int_equal(drive_sent(&drive, 1, ZAB_FORWARD_REPLY)->forward.request, 8);
    drive_clear(&drive);
    drive_cepoch(&drive, 1, 1, zxid_make(1, 0));
    drive_recv(&drive, 1, &forward);
    assert_null(drive_effect(&drive, ZAB_FX_FORWARDED));
    drive_release(&drive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_round_needs_a_quorum),
        cmocka_unit_test(a_request_waits_for_a_round_that_began_after_it),
        cmocka_unit_test(an_answer_to_a_round_to_come_is_not_counted),
        cmocka_unit_test(an_uncounted_learner_does_not_confirm),
        cmocka_unit_test(a_lost_question_is_asked_again),
        cmocka_unit_test(a_change_of_role_drops_rounds),
        cmocka_unit_test(a_leader_answers_none_before_its_newleader_quorum),
        cmocka_unit_test(with_one_voter_the_round_ends_at_once),
        cmocka_unit_test(a_learners_request_is_answered_to_its_dialogue),
        cmocka_unit_test(a_learner_asks_its_leader),
        cmocka_unit_test(a_follower_confirms_only_the_epoch_it_is_with),
        cmocka_unit_test(who_has_promised_more_never_confirms),
        cmocka_unit_test(forwarding_needs_a_leader_in_step),
        cmocka_unit_test(the_leader_takes_requests_of_learners_in_step),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
