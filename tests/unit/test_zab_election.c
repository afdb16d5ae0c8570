/* Phase 0. Votes carry no safety; what is checked is who is counted, and that it ends. */
#include "tests/lib/unit.h"
#include "tests/lib/zab_drive.h"

static const zxid_t ours = ((zxid_t)3 << 32) + 5;

/* Replica 2 of 3 with a log up to (3, 5). */
static void ready(struct drive *drive)
{
    drive_init(drive, 2, 3);
    drive_log_add(&drive->disk, zxid_make(3, 0));
    for (uint32_t i = 1; i <= 5; i++) {
        drive_log_add(&drive->disk, zxid_make(3, i));
    }
    drive->init.promised_epoch = 3;
    drive_start(drive);
}

static enum zab_state state_of(const struct drive *drive)
{
    return drive_status(drive).state;
}

static void votes_for_itself_with_its_durable_log(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_up(&drive, 1);
    const struct zab_msg *vote = drive_sent(&drive, 1, ZAB_VOTE);

    assert_non_null(vote);
    assert_int_equal(vote->vote.candidate, 2);
    assert_int_equal(vote->vote.candidate_last, ours);
    assert_int_equal(vote->vote.last, ours);
    assert_int_equal(vote->vote.promised, 3);
    assert_true(vote->vote.flags & ZAB_FLAG_ELIGIBLE);
    drive_release(&drive);
}

static void a_start_without_others_is_explained(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    assert_false(drive_status(&drive).serving);
    assert_string_equal(drive_status(&drive).reason, "not in step with a leader since the start");
    drive_release(&drive);
}

static void a_longer_log_wins(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_up(&drive, 1);
    drive_up(&drive, 3);
    drive_vote(&drive, 1, 1, ours + 1);
    assert_int_equal(drive_sent(&drive, 3, ZAB_VOTE)->vote.candidate, 1);
    drive_vote(&drive, 3, 3, ours);
    assert_int_equal(drive_sent(&drive, 3, ZAB_VOTE)->vote.candidate, 1);
    assert_int_equal(state_of(&drive), ZAB_LOOKING);
    drive_vote(&drive, 3, 1, ours + 1);
    assert_int_equal(state_of(&drive), ZAB_FOLLOWING);
    assert_int_equal(drive_status(&drive).leader, 1);
    drive_release(&drive);
}

static void equal_logs_are_decided_by_id(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_up(&drive, 1);
    drive_up(&drive, 3);
    drive_vote(&drive, 1, 1, ours);
    assert_int_equal(drive_sent(&drive, 1, ZAB_VOTE)->vote.candidate, 2);
    drive_vote(&drive, 3, 3, ours);
    assert_int_equal(drive_sent(&drive, 1, ZAB_VOTE)->vote.candidate, 3);
    drive_release(&drive);
}

static void a_newer_epoch_beats_a_longer_tail(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_up(&drive, 1);
    drive_vote(&drive, 1, 1, zxid_make(2, 900));
    assert_int_equal(drive_sent(&drive, 1, ZAB_VOTE)->vote.candidate, 2);
    drive_vote(&drive, 1, 1, zxid_make(4, 0));
    assert_int_equal(drive_sent(&drive, 1, ZAB_VOTE)->vote.candidate, 1);
    drive_release(&drive);
}

static void one_of_three_alone_never_leads(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_tick(&drive, 20000);
    assert_int_equal(state_of(&drive), ZAB_LOOKING);
    drive_release(&drive);
}

static void a_single_voter_leads_at_once(void **state)
{
    struct drive drive;

    (void)state;
    drive_init(&drive, 1, 1);
    drive_start(&drive);
    drive_persist(&drive);
    assert_int_equal(state_of(&drive), ZAB_LEADING);
    assert_int_equal(drive_status(&drive).phase, ZAB_PHASE_BROADCAST);
    drive_release(&drive);
}

static void a_dissenter_costs_a_short_wait(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_up(&drive, 1);
    drive_up(&drive, 3);
    drive_vote(&drive, 1, 2, ours);
    assert_int_equal(state_of(&drive), ZAB_LOOKING);
    drive_tick(&drive, 60);
    assert_int_equal(state_of(&drive), ZAB_LEADING);
    drive_release(&drive);
}

static void votes_of_an_older_round_are_answered_not_counted(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_up(&drive, 1);
    uint64_t round = drive.round;

    drive.round = round + 5;
    drive_vote(&drive, 1, 1, ours - 1);
    assert_int_equal(drive_sent(&drive, 1, ZAB_VOTE)->vote.round, round + 5);
    drive_clear(&drive);
    drive.round = round + 1;
    drive_vote(&drive, 1, 2, ours);
    assert_int_equal(state_of(&drive), ZAB_LOOKING);
    assert_int_equal(drive_sent(&drive, 1, ZAB_VOTE)->vote.round, round + 5);
    drive_release(&drive);
}

static void a_voter_that_says_it_is_not_eligible_does_not_count(void **state)
{
    struct drive drive;
    struct zab_msg vote = {.type = ZAB_VOTE,
                           .vote.state = ZAB_LOOKING,
                           .vote.candidate = 2,
                           .vote.candidate_last = ours};

    (void)state;
    ready(&drive);
    drive_up(&drive, 1);
    vote.vote.round = drive.round;
    drive_recv(&drive, 1, &vote);
    drive_tick(&drive, 500);
    assert_int_equal(state_of(&drive), ZAB_LOOKING);
    drive_release(&drive);
}

/* A23: an emptied or swapped disk under a known id. */
static void a_disk_of_another_incarnation_does_not_count(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_up_as(&drive, 1, 999, false);
    drive_vote(&drive, 1, 2, ours);
    drive_tick(&drive, 500);
    assert_int_equal(state_of(&drive), ZAB_LOOKING);
    drive_release(&drive);
}

static void quarantine_neither_stands_nor_counts_itself(void **state)
{
    struct drive drive;

    (void)state;
    drive_init(&drive, 2, 3);
    drive.init.quarantined = true;
    drive_start(&drive);
    drive_up(&drive, 1);
    drive_up(&drive, 3);
    const struct zab_msg *vote = drive_sent(&drive, 1, ZAB_VOTE);

    assert_int_equal(vote->vote.candidate, 0);
    assert_int_equal(vote->vote.candidate_last, 0);
    assert_false(vote->vote.flags & ZAB_FLAG_ELIGIBLE);
    drive_says(&drive, 1, ZAB_LEADING, 1);
    assert_int_equal(state_of(&drive), ZAB_LOOKING);
    drive_says(&drive, 3, ZAB_FOLLOWING, 1);
    assert_int_equal(state_of(&drive), ZAB_OBSERVING);
    drive_release(&drive);
}

static void an_elected_leader_is_not_believed_without_a_quorum(void **state)
{
    struct drive drive;

    (void)state;
    drive_init(&drive, 2, 5);
    drive_start(&drive);
    drive_up(&drive, 1);
    drive_up(&drive, 3);
    drive_says(&drive, 3, ZAB_LEADING, 3);
    assert_int_equal(state_of(&drive), ZAB_LOOKING);
    drive_says(&drive, 1, ZAB_FOLLOWING, 3);
    assert_int_equal(state_of(&drive), ZAB_FOLLOWING);
    assert_int_equal(drive_status(&drive).leader, 3);
    drive_release(&drive);
}

/* ZOOKEEPER-1732 and its like: what settled replicas say may be old, the leader itself must say it.
 */
static void a_leader_that_only_others_name_is_not_followed(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_up(&drive, 1);
    drive_up(&drive, 3);
    drive_says(&drive, 1, ZAB_FOLLOWING, 3);
    assert_int_equal(state_of(&drive), ZAB_LOOKING);
    drive_release(&drive);
}

static void a_candidate_that_is_gone_is_dropped(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_up(&drive, 1);
    drive_vote(&drive, 1, 1, ours + 1);
    drive_clear(&drive);
    drive_down(&drive, 1);
    drive_up(&drive, 3);
    assert_int_equal(drive_sent(&drive, 3, ZAB_VOTE)->vote.candidate, 2);
    drive_release(&drive);
}

static void a_vote_for_somebody_out_of_reach_is_not_adopted(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_up(&drive, 1);
    drive_vote(&drive, 1, 3, ours + 1);
    assert_int_equal(drive_sent(&drive, 1, ZAB_VOTE)->vote.candidate, 2);
    drive_release(&drive);
}

/* D3: what is claimed of the log must be on it; an append of the old role may be under way. */
static void no_vote_before_the_disk_has_settled(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_follow(&drive, 3, 4);
    drive_entry(&drive, drive_log_add(&drive.theirs, zxid_make(4, 1)), 0);
    drive_clear(&drive);
    drive_down(&drive, 3);
    assert_int_equal(state_of(&drive), ZAB_LOOKING);
    drive_tick(&drive, 2500);
    assert_null(drive_sent(&drive, 1, ZAB_VOTE));
    drive_persist(&drive);
    assert_int_equal(drive_sent(&drive, 1, ZAB_VOTE)->vote.candidate_last, zxid_make(4, 1));
    drive_release(&drive);
}

/* A read of the log that its role has left behind must not count as a change of the disk. */
static void a_read_under_way_does_not_bar_the_vote(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_follow_wait(&drive, 3, 4);
    drive_clear(&drive);
    drive_leader_says(&drive,
                      (struct zab_msg){.type = ZAB_UPTODATE, .commit.zxid = zxid_make(4, 0)});
    assert_non_null(drive_effect(&drive, ZAB_FX_FETCH));
    drive_down(&drive, 3);
    drive_tick(&drive, 10);
    assert_non_null(drive_sent(&drive, 1, ZAB_VOTE));
    drive_release(&drive);
}

static void a_settled_replica_tells_who_leads(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_follow(&drive, 3, 4);
    drive_clear(&drive);
    drive_vote(&drive, 1, 1, ours);
    const struct zab_msg *vote = drive_sent(&drive, 1, ZAB_VOTE);

    assert_int_equal(vote->vote.state, ZAB_FOLLOWING);
    assert_int_equal(vote->vote.candidate, 3);
    drive_release(&drive);
}

/* Who has settled first has said so already, but is still to hear it of the others. */
static void who_settles_says_so_to_those_who_have(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_up(&drive, 1);
    drive_follow_wait(&drive, 3, 4);
    drive_says(&drive, 1, ZAB_FOLLOWING, 3);
    drive_clear(&drive);
    drive_leader_says(&drive,
                      (struct zab_msg){.type = ZAB_UPTODATE, .commit.zxid = zxid_make(4, 0)});
    const struct zab_msg *vote = drive_sent(&drive, 1, ZAB_VOTE);

    assert_non_null(vote);
    assert_int_equal(vote->vote.state, ZAB_FOLLOWING);
    assert_int_equal(vote->vote.candidate, 3);
    drive_release(&drive);
}

static void a_vote_of_unknown_form_is_dropped(void **state)
{
    struct drive drive;
    struct zab_msg vote = {
        .type = ZAB_VOTE, .vote.state = 9, .vote.candidate = 1, .vote.round = 1000};

    (void)state;
    ready(&drive);
    drive_up(&drive, 1);
    drive_clear(&drive);
    drive_recv(&drive, 1, &vote);
    assert_null(drive_sent(&drive, 1, ZAB_VOTE));
    drive_release(&drive);
}

static void lost_votes_are_sent_again(void **state)
{
    struct drive drive;

    (void)state;
    ready(&drive);
    drive_up(&drive, 1);
    drive_clear(&drive);
    drive_tick(&drive, 1100);
    assert_int_equal(drive_sent_count(&drive, 1, ZAB_VOTE), 1);
    drive_release(&drive);
}

static void who_resigns_is_no_candidate(void **state)
{
    struct drive drive;
    struct zab_event resign = {.type = ZAB_EV_RESIGN, .is_to_resign = true};

    (void)state;
    ready(&drive);
    drive_step(&drive, &resign);
    drive_clear(&drive);
    drive_up(&drive, 1);
    drive_tick(&drive, 2100);
    assert_int_equal(drive_sent(&drive, 1, ZAB_VOTE)->vote.candidate, 0);
    drive_release(&drive);
}

/* It was away while another disk got its place, and has voted for itself when it learns of that. */
static void a_disk_that_was_replaced_withdraws_its_own_vote(void **state)
{
    struct drive drive;
    struct zab_config config;
    struct buf bytes;

    (void)state;
    ready(&drive);
    drive_up(&drive, 1);
    assert_int_equal(drive_sent(&drive, 1, ZAB_VOTE)->vote.candidate, 2);
    config = drive.init.config;
    config.members[1].incarnation = 999;
    config.version = zxid_make(3, 4);
    buf_init(&bytes, 4096);
    zab_config_encode(&config, &bytes);
    struct zab_msg found = {.type = ZAB_FOUND, .found.config = buf_slice(&bytes)};

    drive_recv(&drive, 1, &found);
    drive_up(&drive, 3);
    drive_vote(&drive, 1, 2, ours);
    drive_vote(&drive, 3, 2, ours);
    drive_tick(&drive, 500);
    assert_int_equal(state_of(&drive), ZAB_LOOKING);
    assert_true(drive_status(&drive).stranger);
    assert_int_equal(drive_sent(&drive, 3, ZAB_VOTE)->vote.candidate, 0);
    buf_release(&bytes);
    drive_release(&drive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(votes_for_itself_with_its_durable_log),
        cmocka_unit_test(a_start_without_others_is_explained),
        cmocka_unit_test(a_longer_log_wins),
        cmocka_unit_test(equal_logs_are_decided_by_id),
        cmocka_unit_test(a_newer_epoch_beats_a_longer_tail),
        cmocka_unit_test(one_of_three_alone_never_leads),
        cmocka_unit_test(a_single_voter_leads_at_once),
        cmocka_unit_test(a_dissenter_costs_a_short_wait),
        cmocka_unit_test(votes_of_an_older_round_are_answered_not_counted),
        cmocka_unit_test(a_voter_that_says_it_is_not_eligible_does_not_count),
        cmocka_unit_test(a_disk_of_another_incarnation_does_not_count),
        cmocka_unit_test(quarantine_neither_stands_nor_counts_itself),
        cmocka_unit_test(an_elected_leader_is_not_believed_without_a_quorum),
        cmocka_unit_test(a_leader_that_only_others_name_is_not_followed),
        cmocka_unit_test(a_candidate_that_is_gone_is_dropped),
        cmocka_unit_test(a_vote_for_somebody_out_of_reach_is_not_adopted),
        cmocka_unit_test(no_vote_before_the_disk_has_settled),
        cmocka_unit_test(a_read_under_way_does_not_bar_the_vote),
        cmocka_unit_test(a_settled_replica_tells_who_leads),
        cmocka_unit_test(who_settles_says_so_to_those_who_have),
        cmocka_unit_test(a_vote_of_unknown_form_is_dropped),
        cmocka_unit_test(lost_votes_are_sent_again),
        cmocka_unit_test(who_resigns_is_no_candidate),
        cmocka_unit_test(a_disk_that_was_replaced_withdraws_its_own_vote),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
