/* Decision 7: one survivor goes on alone, and the emptied others become voters again. */
#include "base/mem.h"
#include "tests/lib/unit.h"
#include "tests/lib/zab_drive.h"

enum {
    NEW_DISK = 999,
    FORCED_EPOCH = 1000,
    NEW_HISTORY = 8
};

/* Replica 3 of `voters` alone has a vote; it leads. */
static void survive(struct drive *drive, uint32_t voters)
{
    drive_init(drive, 3, voters);
    drive->disk.base = 0;
    (void)drive_log_add(&drive->disk, zxid_make(1, 0));
    (void)drive_log_add(&drive->disk, zxid_make(1, 1));
    drive->init.promised_epoch = FORCED_EPOCH;
    zab_config_survive(&drive->init.config, 3, DRIVE_INCARNATION + 3, zxid_make(FORCED_EPOCH, 0),
                       NEW_HISTORY);
    drive_start(drive);
    drive_tick(drive, 100);
    drive_persist(drive);
    drive_fetched(drive);
    drive_tick(drive, 100);
}

static void pass(struct drive *drive, uint64_t ms, uint32_t peer)
{
    for (uint64_t at_ms = 0; at_ms < ms; at_ms += 500) {
        drive_tick(drive, 500);
        drive_persist(drive);
        drive_pong(drive, peer);
        drive_learner_says(drive, peer, ZAB_ACK, drive_log_last(&drive->disk));
    }
}

static void only_the_survivor_has_a_vote(void **state)
{
    struct drive drive;
    struct zab_config config;

    (void)state;
    drive_init(&drive, 3, 3);
    config = drive.init.config;
    config.members[0].voter = false;
    config.members[0].incarnation = 0;
    config.members[1].admitted_age_ms = 5;
    zab_config_survive(&config, 3, 77, 100, NEW_HISTORY);
    assert_int_equal(config.version, 100);
    assert_int_equal(config.history, NEW_HISTORY);
    assert_int_equal(zab_config_voters(&config), 1);
    assert_true(zab_config_is_voter(&config, 3, 77));
    assert_false(config.members[0].vacant);
    assert_true(config.members[1].vacant);
    assert_int_equal(config.members[1].incarnation, 0);
    assert_int_equal(config.members[1].admitted_age_ms, 0);
    drive_release(&drive);
}

static void it_commits_all_that_it_has_in_a_later_epoch(void **state)
{
    struct drive drive;

    (void)state;
    survive(&drive, 3);
    assert_int_equal(drive_status(&drive).state, ZAB_LEADING);
    assert_true(drive_status(&drive).serving);
    assert_int_equal(drive_status(&drive).epoch, FORCED_EPOCH + 1);
    assert_true(drive_status(&drive).delivered >= zxid_make(FORCED_EPOCH + 1, 0));
    drive_release(&drive);
}

/* Else no snapshot and no other replica would ever have it. */
static void its_configuration_is_written_into_the_log(void **state)
{
    struct drive drive;
    const struct zab_config *config;

    (void)state;
    survive(&drive, 3);
    drive_tick(&drive, 1000);
    drive_persist(&drive);
    config = zab_config(drive.zab);
    assert_int_equal(config->version, zxid_make(FORCED_EPOCH + 1, 1));
    assert_int_equal(config->history, NEW_HISTORY);
    assert_int_equal(zab_config_voters(config), 1);
    drive_clear(&drive);
    drive_tick(&drive, 5000);
    assert_null(drive_asked(&drive, ZAB_PERSIST_APPEND));
    drive_release(&drive);
}

static void a_disk_is_admitted_to_a_vacant_seat(void **state)
{
    struct drive drive;
    const struct zab_config *config;

    (void)state;
    survive(&drive, 3);
    drive_up_as(&drive, 1, NEW_DISK, true);
    drive_join(&drive, 1);
    pass(&drive, 9000, 1);
    assert_int_equal(zab_config_voters(zab_config(drive.zab)), 1);
    pass(&drive, 3000, 1);
    config = zab_config(drive.zab);
    assert_int_equal(zab_config_voters(config), 2);
    assert_true(zab_config_is_voter(config, 1, NEW_DISK));
    assert_true(config->members[1].vacant);
    drive_release(&drive);
}

/* ---- The others. ---- */

static void says_leading(struct drive *drive, uint32_t peer, uint32_t voters)
{
    struct zab_msg msg = {.type = ZAB_VOTE,
                          .vote.state = ZAB_LEADING,
                          .vote.round = drive->round,
                          .vote.candidate = peer,
                          .vote.voters = voters,
                          .vote.flags = ZAB_FLAG_ELIGIBLE};

    drive_recv(drive, peer, &msg);
}

static void new_disk(struct drive *drive)
{
    drive_init(drive, 1, 5);
    drive->init.config = (struct zab_config){0};
    drive->init.founding = true;
    drive_start(drive);
    drive_up(drive, 2);
    drive_up(drive, 3);
}

static void a_new_disk_follows_a_leader_that_votes_alone(void **state)
{
    struct drive drive;

    (void)state;
    new_disk(&drive);
    says_leading(&drive, 3, 5);
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    says_leading(&drive, 3, 1);
    assert_int_equal(drive_status(&drive).leader, 3);
    drive_release(&drive);
}

static void a_new_disk_counts_the_votes_that_there_are(void **state)
{
    struct drive drive;

    (void)state;
    new_disk(&drive);
    says_leading(&drive, 3, 2);
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    drive_says(&drive, 2, ZAB_FOLLOWING, 3);
    assert_int_equal(drive_status(&drive).leader, 3);
    drive_release(&drive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_survivor_has_a_vote),
        cmocka_unit_test(it_commits_all_that_it_has_in_a_later_epoch),
        cmocka_unit_test(its_configuration_is_written_into_the_log),
        cmocka_unit_test(a_disk_is_admitted_to_a_vacant_seat),
        cmocka_unit_test(a_new_disk_follows_a_leader_that_votes_alone),
        cmocka_unit_test(a_new_disk_counts_the_votes_that_there_are),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
