/* How leadership ends: with its quorum, with its disk, or by handing over. */
#include "tests/lib/unit.h"
#include "tests/lib/zab_drive.h"

enum {
    NEW_DISK = 999
};

static void broadcasting(struct drive *drive)
{
    drive_init(drive, 3, 3);
    drive_start(drive);
    drive_lead(drive);
    drive_clear(drive);
}

static void losing_the_connections_of_a_quorum_ends_the_role_at_once(void **state)
{
    struct drive drive;

    (void)state;
    broadcasting(&drive);
    drive_down(&drive, 1);
    assert_int_equal(drive_status(&drive).state, ZAB_LEADING);
    drive_down(&drive, 2);
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    drive_release(&drive);
}

static void a_silent_quorum_ends_the_role(void **state)
{
    struct drive drive;

    (void)state;
    broadcasting(&drive);
    for (int i = 0; i < 10; i++) {
        drive_tick(&drive, 500);
        drive_pong(&drive, 2);
    }
    assert_int_equal(drive_status(&drive).state, ZAB_LEADING);
    drive_tick(&drive, 3100);
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    drive_release(&drive);
}

/* The quorum has begun the next election and votes for the leader that it no longer follows: when
 * the leader notices, the votes elect it again within the same step. */
static void a_leader_may_be_elected_again_in_the_step_in_which_it_lost_its_quorum(void **state)
{
    struct drive drive;

    (void)state;
    broadcasting(&drive);

    uint64_t next = drive.round + 1;

    for (uint32_t peer = 1; peer <= 2; peer++) {
        drive.round = next;
        drive_vote(&drive, peer, 3, drive_status(&drive).last);
    }
    assert_int_equal(drive_status(&drive).state, ZAB_LEADING);
    drive_pause(&drive, 1400); /* Too short to count as a pause, so silence is noticed. */
    drive_pause(&drive, 1400);
    drive_pause(&drive, 1400);
    assert_int_equal(drive_status(&drive).state, ZAB_LEADING);
    assert_false(drive_status(&drive).serving);
    drive_release(&drive);
}

static void who_leaves_tells_its_learners(void **state)
{
    struct drive drive;

    (void)state;
    broadcasting(&drive);
    drive_down(&drive, 1);
    drive_tick(&drive, 3100);
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    assert_non_null(drive_sent(&drive, 2, ZAB_RESIGN));
    assert_null(drive_sent(&drive, 1, ZAB_RESIGN));
    drive_release(&drive);
}

static void resigning_waits_for_a_successor_in_step(void **state)
{
    struct drive drive;
    struct zab_event resign = {.type = ZAB_EV_RESIGN, .is_to_resign = true};

    (void)state;
    broadcasting(&drive);
    zxid_t zxid = drive_propose(&drive, "x");

    drive_persist(&drive);
    drive_step(&drive, &resign);
    assert_int_equal(zab_next_zxid(drive.zab), 0);
    assert_int_equal(drive_status(&drive).state, ZAB_LEADING);
    drive_learner_says(&drive, 1, ZAB_ACK, zxid);
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    assert_int_equal(drive_sent(&drive, 1, ZAB_COMMIT)->commit.zxid, zxid);
    assert_non_null(drive_sent(&drive, 1, ZAB_RESIGN));
    drive_release(&drive);
}

static void resigning_ends_where_nobody_can_take_over(void **state)
{
    struct drive drive;
    struct zab_event resign = {.type = ZAB_EV_RESIGN, .is_to_resign = true};

    (void)state;
    broadcasting(&drive);
    (void)drive_propose(&drive, "x");
    drive_step(&drive, &resign);
    for (int i = 0; i < 3; i++) {
        drive_tick(&drive, 500);
        drive_pong(&drive, 1);
    }
    assert_int_equal(drive_status(&drive).state, ZAB_LEADING);
    assert_int_equal(zab_next_zxid(drive.zab), zxid_make(1, 2));
    drive_release(&drive);
}

static void a_full_disk_hands_leadership_over(void **state)
{
    struct drive drive;
    struct zab_event low = {.type = ZAB_EV_SPACE, .is_space_low = true};

    (void)state;
    broadcasting(&drive);
    drive_step(&drive, &low);
    drive_tick(&drive, 10);
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    drive_release(&drive);
}

static void with_all_disks_low_it_goes_on_leading(void **state)
{
    struct drive drive;
    struct zab_event low = {.type = ZAB_EV_SPACE, .is_space_low = true};
    struct zab_msg pong = {.type = ZAB_PONG, .pong.flags = ZAB_FLAG_LOW_SPACE};

    (void)state;
    broadcasting(&drive);
    for (uint32_t id = 1; id <= 2; id++) {
        pong.dialogue = drive.dialogues[id];
        drive_recv(&drive, id, &pong);
    }
    drive_step(&drive, &low);
    drive_tick(&drive, 10);
    assert_int_equal(drive_status(&drive).state, ZAB_LEADING);
    assert_int_equal(drive_status(&drive).low_voters, 3);
    assert_true(drive_status(&drive).quorum_low);
    drive_release(&drive);
}

static void a_hanging_disk_hands_leadership_over(void **state)
{
    struct drive drive;

    (void)state;
    broadcasting(&drive);
    zxid_t zxid = drive_propose(&drive, "x");

    drive_learner_says(&drive, 1, ZAB_ACK, zxid);
    drive_learner_says(&drive, 2, ZAB_ACK, zxid);
    assert_int_equal(drive_status(&drive).committed, zxid);
    for (int i = 0; i < 8 && drive_status(&drive).state == ZAB_LEADING; i++) {
        drive_tick(&drive, 500);
        if (drive_status(&drive).state == ZAB_LEADING) {
            drive_pong(&drive, 1);
            drive_pong(&drive, 2);
        }
    }
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    drive_release(&drive);
}

/* The quorum commits without it, but what it has not written stays in memory. */
static void what_a_slow_disk_has_not_taken_is_bounded(void **state)
{
    struct drive drive;

    (void)state;
    drive_init(&drive, 3, 3);
    drive.init.limits.pending_max = 2;
    drive_start(&drive);
    drive_lead(&drive);
    for (uint32_t i = 1; i <= 2; i++) {
        (void)drive_propose(&drive, "x");
        drive_learner_says(&drive, 1, ZAB_ACK, zxid_make(1, i));
        drive_learner_says(&drive, 2, ZAB_ACK, zxid_make(1, i));
    }
    assert_int_equal(drive_status(&drive).committed, zxid_make(1, 2));
    assert_int_equal(zab_next_zxid(drive.zab), 0);
    drive_persist(&drive);
    assert_int_equal(zab_next_zxid(drive.zab), zxid_make(1, 3));
    drive_release(&drive);
}

/* ---- The seat goes to another disk. ---- */

/* 3's log ends with the record of an earlier leader, not known to be committed, that admits another
 * disk to the seat of 3. Its own disk counts as long as the old configuration does: it is elected
 * and begins an epoch. */
static void lead_towards_the_loss_of_the_seat(struct drive *drive)
{
    struct buf bytes;
    struct zab_config changed;

    drive_init(drive, 3, 3);
    changed = drive->init.config;
    changed.members[2].incarnation = NEW_DISK;
    changed.version = zxid_make(1, 1);
    drive_log_add(&drive->disk, zxid_make(1, 0));
    buf_init(&bytes, 4096);
    zab_config_encode(&changed, &bytes);
    drive_log_add_type(&drive->disk, LOGREC_CONFIG, changed.version, buf_slice(&bytes));
    buf_release(&bytes);
    drive->init.committed = zxid_make(1, 0);
    drive->init.has_pending = true;
    drive->init.pending = changed;
    drive_start(drive);
    drive_establish(drive);
    drive_clear(drive);
}

/* Place of a message among the effects; SIZE_MAX when there is none. */
static size_t place_of(const struct drive *drive, uint32_t peer, enum zab_msg_type type)
{
    for (size_t i = 0; i < drive->seen_count; i++) {
        const struct zab_effect *effect = &drive->seen[i];

        if (effect->type == ZAB_FX_SEND && effect->send.peer == peer &&
            effect->send.msg.type == type) {
            return i;
        }
    }
    return SIZE_MAX;
}

static void a_leader_commits_the_loss_of_its_seat_and_leaves(void **state)
{
    struct drive drive;
    zxid_t start = zxid_make(2, 0);

    (void)state;
    lead_towards_the_loss_of_the_seat(&drive);
    drive_learner_says(&drive, 1, ZAB_ACK_NEWLEADER, start);
    drive_tick(&drive, 500);
    assert_int_equal(drive_status(&drive).state, ZAB_LEADING); /* Nothing is committed yet. */
    drive_learner_says(&drive, 2, ZAB_ACK_NEWLEADER, start);
    assert_int_equal(drive_status(&drive).committed, start);
    assert_int_equal(zab_config(drive.zab)->members[2].incarnation, NEW_DISK);
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    for (uint32_t id = 1; id <= 2; id++) {
        assert_int_equal(drive_sent(&drive, id, ZAB_UPTODATE)->commit.zxid, start);
        assert_true(place_of(&drive, id, ZAB_UPTODATE) < place_of(&drive, id, ZAB_RESIGN));
        assert_true(place_of(&drive, id, ZAB_RESIGN) < SIZE_MAX);
    }
    drive_release(&drive);
}

/* Its vote has no candidate, and votes for it do not make it lead. */
static void a_disk_without_a_seat_does_not_lead_again(void **state)
{
    struct drive drive;

    (void)state;
    lead_towards_the_loss_of_the_seat(&drive);
    drive_learner_says(&drive, 1, ZAB_ACK_NEWLEADER, zxid_make(2, 0));
    drive_learner_says(&drive, 2, ZAB_ACK_NEWLEADER, zxid_make(2, 0));
    const struct zab_msg *vote = drive_sent(&drive, 1, ZAB_VOTE);

    assert_int_equal(vote->vote.state, ZAB_LOOKING);
    assert_int_equal(vote->vote.candidate, 0);
    assert_int_equal(vote->vote.flags & ZAB_FLAG_ELIGIBLE, 0);
    drive_vote(&drive, 1, 3, zxid_make(2, 0));
    drive_vote(&drive, 2, 3, zxid_make(2, 0));
    drive_tick(&drive, 500);
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    drive_release(&drive);
}

/* A later leader has committed the admission of another disk, and a peer tells. */
static void a_leader_that_is_told_of_the_loss_of_its_seat_leaves(void **state)
{
    struct drive drive;
    struct zab_config config;
    struct buf bytes;

    (void)state;
    broadcasting(&drive);
    config = *zab_config(drive.zab);
    config.version = zxid_make(7, 1);
    config.members[2].incarnation = NEW_DISK;
    buf_init(&bytes, 1 << 16);
    zab_config_encode(&config, &bytes);
    drive_recv(&drive, 2, &(struct zab_msg){.type = ZAB_FOUND, .found.config = buf_slice(&bytes)});
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    assert_non_null(drive_sent(&drive, 1, ZAB_RESIGN));
    buf_release(&bytes);
    drive_release(&drive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losing_the_connections_of_a_quorum_ends_the_role_at_once),
        cmocka_unit_test(a_silent_quorum_ends_the_role),
        cmocka_unit_test(a_leader_may_be_elected_again_in_the_step_in_which_it_lost_its_quorum),
        cmocka_unit_test(who_leaves_tells_its_learners),
        cmocka_unit_test(resigning_waits_for_a_successor_in_step),
        cmocka_unit_test(resigning_ends_where_nobody_can_take_over),
        cmocka_unit_test(a_full_disk_hands_leadership_over),
        cmocka_unit_test(with_all_disks_low_it_goes_on_leading),
        cmocka_unit_test(a_hanging_disk_hands_leadership_over),
        cmocka_unit_test(what_a_slow_disk_has_not_taken_is_bounded),
        cmocka_unit_test(a_leader_commits_the_loss_of_its_seat_and_leaves),
        cmocka_unit_test(a_disk_without_a_seat_does_not_lead_again),
        cmocka_unit_test(a_leader_that_is_told_of_the_loss_of_its_seat_leaves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
