/* Decision 7: founding a cluster, finding one, and what its members tell each other of it. */
#include "tests/lib/unit.h"
#include "tests/lib/zab_drive.h"

enum {
    NEW_DISK = 999
};

static void founder(struct drive *drive, uint32_t id)
{
    drive_init(drive, id, 3);
    drive->init.config = (struct zab_config){0};
    drive->init.founding = true;
    drive_start(drive);
}

static void the_lowest_founder_writes_once_all_are_here(void **state)
{
    struct drive drive;

    (void)state;
    founder(&drive, 1);
    drive_up_as(&drive, 2, 12, true);
    assert_null(drive_asked(&drive, ZAB_PERSIST_JOIN));
    drive_up_as(&drive, 3, 13, true);
    const struct zab_config *config = drive_asked(&drive, ZAB_PERSIST_JOIN)->join.config;

    assert_int_equal(config->count, 3);
    assert_int_equal(config->members[0].incarnation, DRIVE_INCARNATION + 1);
    assert_int_equal(config->members[1].incarnation, 12);
    assert_int_equal(config->members[2].incarnation, 13);
    assert_true(config->history != 0);
    assert_null(drive_sent(&drive, 2, ZAB_FOUND));
    drive_persist(&drive);
    drive_tick(&drive, 10);
    assert_non_null(drive_sent(&drive, 2, ZAB_FOUND));
    assert_non_null(drive_sent(&drive, 3, ZAB_FOUND));
    drive_release(&drive);
}

static void another_founder_waits_to_be_told(void **state)
{
    struct drive drive;

    (void)state;
    founder(&drive, 2);
    drive_up_as(&drive, 1, 11, true);
    drive_up_as(&drive, 3, 13, true);
    drive_tick(&drive, 5000);
    assert_null(drive_asked(&drive, ZAB_PERSIST_JOIN));
    drive_release(&drive);
}

/* One that is not empty belongs to a cluster: a second one must not be founded. */
static void nobody_founds_beside_a_member(void **state)
{
    struct drive drive;

    (void)state;
    founder(&drive, 1);
    drive_up_as(&drive, 2, 12, true);
    drive_up_as(&drive, 3, 13, false);
    drive_tick(&drive, 5000);
    assert_null(drive_asked(&drive, ZAB_PERSIST_JOIN));
    drive_release(&drive);
}

static void send_found(struct drive *drive, const struct zab_config *config)
{
    struct buf bytes;

    buf_init(&bytes, 4096);
    zab_config_encode(config, &bytes);
    struct zab_msg msg = {.type = ZAB_FOUND, .found.config = buf_slice(&bytes)};

    drive_recv(drive, 1, &msg);
    buf_release(&bytes);
}

static void a_founder_takes_the_configuration_that_names_its_disk(void **state)
{
    struct drive drive;
    struct drive other;

    (void)state;
    founder(&drive, 2);
    drive_init(&other, 2, 3);
    drive_up_as(&drive, 1, 11, true);
    send_found(&drive, &other.init.config);
    assert_non_null(drive_asked(&drive, ZAB_PERSIST_JOIN));
    drive_persist(&drive);
    assert_false(drive_status(&drive).founding);
    assert_true(drive_sent(&drive, 1, ZAB_VOTE)->vote.flags & ZAB_FLAG_ELIGIBLE);
    drive_release(&other);
    drive_release(&drive);
}

static void a_founder_refuses_a_configuration_with_another_disk(void **state)
{
    struct drive drive;
    struct drive other;

    (void)state;
    founder(&drive, 2);
    drive_init(&other, 2, 3);
    other.init.config.members[1].incarnation = 1;
    drive_up_as(&drive, 1, 11, true);
    send_found(&drive, &other.init.config);
    assert_null(drive_asked(&drive, ZAB_PERSIST_JOIN));
    assert_non_null(drive_effect(&drive, ZAB_FX_DISCONNECT));
    drive_release(&other);
    drive_release(&drive);
}

/* Else two voters could each wait for the other to know who may vote. */
static void who_names_an_older_configuration_is_told(void **state)
{
    struct drive drive;
    struct zab_msg vote = {
        .type = ZAB_VOTE, .vote.state = ZAB_LOOKING, .vote.flags = ZAB_FLAG_ELIGIBLE};

    (void)state;
    drive_init(&drive, 2, 3);
    drive.init.config.version = zxid_make(1, 4);
    drive_start(&drive);
    drive_up(&drive, 1);
    vote.vote.config_version = zxid_make(1, 4);
    drive_recv(&drive, 1, &vote);
    assert_null(drive_sent(&drive, 1, ZAB_FOUND));
    vote.vote.config_version = 0;
    drive_recv(&drive, 1, &vote);
    assert_non_null(drive_sent(&drive, 1, ZAB_FOUND));
    drive_release(&drive);
}

static void a_newer_configuration_of_the_cluster_is_adopted(void **state)
{
    struct drive drive;
    struct drive other;

    (void)state;
    drive_init(&drive, 2, 3);
    drive_start(&drive);
    drive_init(&other, 2, 3);
    other.init.config.version = zxid_make(1, 4);
    other.init.config.members[2].incarnation = NEW_DISK;
    drive_up(&drive, 1);
    send_found(&drive, &other.init.config);
    assert_int_equal(zab_config(drive.zab)->members[2].incarnation, NEW_DISK);
    other.init.config.version = zxid_make(1, 3);
    other.init.config.members[2].incarnation = 1;
    send_found(&drive, &other.init.config);
    assert_int_equal(zab_config(drive.zab)->members[2].incarnation, NEW_DISK);
    other.init.config.version = zxid_make(9, 3);
    other.init.config.cluster[0] ^= 1;
    send_found(&drive, &other.init.config);
    assert_int_equal(zab_config(drive.zab)->members[2].incarnation, NEW_DISK);
    drive_release(&other);
    drive_release(&drive);
}

/* (b): an empty directory where a quorum reports a cluster becomes a learner. */
static void a_new_disk_joins_the_cluster_that_a_quorum_reports(void **state)
{
    struct drive drive;
    struct drive other;
    struct buf bytes;

    (void)state;
    founder(&drive, 2);
    drive_init(&other, 2, 3);
    other.init.config.members[1].incarnation = 555;
    drive_up(&drive, 1);
    drive_up(&drive, 3);
    drive_says(&drive, 3, ZAB_LEADING, 3);
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    drive_says(&drive, 1, ZAB_FOLLOWING, 3);
    assert_int_equal(drive_status(&drive).state, ZAB_OBSERVING);
    drive.leader = 3;
    drive.epoch = 4;
    buf_init(&bytes, 4096);
    zab_config_encode(&other.init.config, &bytes);
    drive_leader_says(&drive,
                      (struct zab_msg){.type = ZAB_NEWEPOCH, .newepoch.config = buf_slice(&bytes)});
    assert_non_null(drive_asked(&drive, ZAB_PERSIST_JOIN));
    assert_null(drive_asked(&drive, ZAB_PERSIST_PROMISE));
    drive_persist(&drive);
    assert_int_equal(drive_sent(&drive, 3, ZAB_ACKEPOCH)->epoch, 4);
    assert_false(drive_sent(&drive, 3, ZAB_ACKEPOCH)->ackepoch.flags & ZAB_FLAG_ELIGIBLE);
    assert_true(drive_status(&drive).stranger);
    buf_release(&bytes);
    drive_release(&other);
    drive_release(&drive);
}

/* The whole list is compared: with another number of voters it would count other majorities. */
static void a_disk_whose_list_differs_is_told_so(void **state)
{
    struct drive drive;
    struct drive other;
    struct buf bytes;

    (void)state;
    founder(&drive, 2);
    drive_init(&other, 2, 5);
    drive_up(&drive, 1);
    drive_up(&drive, 3);
    drive_says(&drive, 1, ZAB_FOLLOWING, 3);
    drive_says(&drive, 3, ZAB_LEADING, 3);
    drive.leader = 3;
    drive.epoch = 4;
    buf_init(&bytes, 4096);
    zab_config_encode(&other.init.config, &bytes);
    drive_leader_says(&drive,
                      (struct zab_msg){.type = ZAB_NEWEPOCH, .newepoch.config = buf_slice(&bytes)});
    assert_null(drive_asked(&drive, ZAB_PERSIST_JOIN));
    assert_non_null(strstr(drive_notice(&drive, ZAB_FX_ALARM), "server list"));
    buf_release(&bytes);
    drive_release(&other);
    drive_release(&drive);
}

static void a_founder_whose_list_differs_is_told_so(void **state)
{
    struct drive drive;
    struct drive other;

    (void)state;
    founder(&drive, 2);
    drive_init(&other, 2, 3);
    other.init.config.members[0].voter = false;
    drive_up_as(&drive, 1, 11, true);
    send_found(&drive, &other.init.config);
    assert_null(drive_asked(&drive, ZAB_PERSIST_JOIN));
    assert_non_null(drive_effect(&drive, ZAB_FX_DISCONNECT));
    assert_non_null(strstr(drive_notice(&drive, ZAB_FX_ALARM), "server list"));
    drive_release(&other);
    drive_release(&drive);
}

static void a_disk_that_no_cluster_names_is_told_so(void **state)
{
    struct drive drive;
    struct drive other;
    struct buf bytes;

    (void)state;
    founder(&drive, 2);
    drive_init(&other, 1, 1);
    drive_up(&drive, 1);
    drive_up(&drive, 3);
    drive_says(&drive, 1, ZAB_FOLLOWING, 3);
    drive_says(&drive, 3, ZAB_LEADING, 3);
    drive.leader = 3;
    buf_init(&bytes, 4096);
    zab_config_encode(&other.init.config, &bytes);
    drive.epoch = 4;
    drive_leader_says(&drive,
                      (struct zab_msg){.type = ZAB_NEWEPOCH, .newepoch.config = buf_slice(&bytes)});
    assert_null(drive_asked(&drive, ZAB_PERSIST_JOIN));
    assert_non_null(drive_effect(&drive, ZAB_FX_ALARM));
    buf_release(&bytes);
    drive_release(&other);
    drive_release(&drive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lowest_founder_writes_once_all_are_here),
        cmocka_unit_test(another_founder_waits_to_be_told),
        cmocka_unit_test(nobody_founds_beside_a_member),
        cmocka_unit_test(a_founder_takes_the_configuration_that_names_its_disk),
        cmocka_unit_test(a_founder_refuses_a_configuration_with_another_disk),
        cmocka_unit_test(who_names_an_older_configuration_is_told),
        cmocka_unit_test(a_newer_configuration_of_the_cluster_is_adopted),
        cmocka_unit_test(a_new_disk_joins_the_cluster_that_a_quorum_reports),
        cmocka_unit_test(a_disk_whose_list_differs_is_told_so),
        cmocka_unit_test(a_founder_whose_list_differs_is_told_so),
        cmocka_unit_test(a_disk_that_no_cluster_names_is_told_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
