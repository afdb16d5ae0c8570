/* Decision 7: founding, strangers, the admission of a new disk, disks that were rolled back. */
#include "tests/lib/unit.h"
#include "tests/lib/zab_drive.h"

enum {
    NEW_DISK = 999
};

static void lead(struct drive *drive, uint32_t voters)
{
    drive_init(drive, voters, voters);
    drive_start(drive);
    drive_lead(drive);
    drive_clear(drive);
}

/* The others show that they live, in steps shorter than their time-out. */
static void pass(struct drive *drive, uint64_t ms, uint32_t first, uint32_t last)
{
    for (uint64_t at_ms = 0; at_ms < ms; at_ms += 500) {
        drive_tick(drive, 500);
        for (uint32_t id = first; id <= last; id++) {
            drive_pong(drive, id);
        }
    }
}

static const struct logrec *proposed_config(const struct drive *drive)
{
    const struct zab_effect *append = drive_asked(drive, ZAB_PERSIST_APPEND);

    return append && append->rec->type == LOGREC_CONFIG ? append->rec : NULL;
}

/* ---- Founding. ---- */

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
    const struct zab_config *config = drive_asked(&drive, ZAB_PERSIST_JOIN)->config;

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
    struct zab_msg msg = {.type = ZAB_FOUND, .bytes = buf_slice(&bytes)};

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
    assert_true(drive_sent(&drive, 1, ZAB_VOTE)->flags & ZAB_FLAG_ELIGIBLE);
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
    struct zab_msg vote = {.type = ZAB_VOTE, .state = ZAB_LOOKING, .flags = ZAB_FLAG_ELIGIBLE};

    (void)state;
    drive_init(&drive, 2, 3);
    drive.init.config.version = zxid_make(1, 4);
    drive_start(&drive);
    drive_up(&drive, 1);
    vote.base = zxid_make(1, 4);
    drive_recv(&drive, 1, &vote);
    assert_null(drive_sent(&drive, 1, ZAB_FOUND));
    vote.base = 0;
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
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_NEWEPOCH, .bytes = buf_slice(&bytes)});
    assert_non_null(drive_asked(&drive, ZAB_PERSIST_JOIN));
    assert_null(drive_asked(&drive, ZAB_PERSIST_PROMISE));
    drive_persist(&drive);
    assert_int_equal(drive_sent(&drive, 3, ZAB_ACKEPOCH)->epoch, 4);
    assert_false(drive_sent(&drive, 3, ZAB_ACKEPOCH)->flags & ZAB_FLAG_ELIGIBLE);
    assert_true(drive_status(&drive).stranger);
    buf_release(&bytes);
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
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_NEWEPOCH, .bytes = buf_slice(&bytes)});
    assert_null(drive_asked(&drive, ZAB_PERSIST_JOIN));
    assert_non_null(drive_effect(&drive, ZAB_FX_ALARM));
    buf_release(&bytes);
    drive_release(&other);
    drive_release(&drive);
}

/* ---- Admission. ---- */

/* 3 leads 1..3; member 1 comes back with a new disk and is brought in step. */
static void new_disk(struct drive *drive)
{
    lead(drive, 3);
    drive_down(drive, 1);
    drive_up_as(drive, 1, NEW_DISK, false);
    drive_join(drive, 1);
    drive_clear(drive);
}

static void a_new_disk_is_admitted_after_the_old_one_stayed_away(void **state)
{
    struct drive drive;
    struct zab_config config;

    (void)state;
    new_disk(&drive);
    pass(&drive, 9000, 1, 2);
    assert_null(proposed_config(&drive));
    pass(&drive, 2000, 1, 2);
    const struct logrec *rec = proposed_config(&drive);

    assert_non_null(rec);
    assert_int_equal(zab_config_decode(logrec_payload(rec), &config), ERR_OK);
    assert_int_equal(config.members[0].incarnation, NEW_DISK);
    assert_int_equal(config.members[1].incarnation, DRIVE_INCARNATION + 2);
    drive_release(&drive);
}

/* The new disk's own acknowledgement does not carry its admission. */
static void an_admission_needs_both_quorums(void **state)
{
    struct drive drive;

    (void)state;
    new_disk(&drive);
    pass(&drive, 11000, 1, 2);
    zxid_t zxid = proposed_config(&drive)->zxid;

    drive_persist(&drive);
    drive_learner_says(&drive, 1, ZAB_ACK, zxid);
    assert_true(drive_status(&drive).committed < zxid);
    assert_int_equal(zab_config(drive.zab)->members[0].incarnation, DRIVE_INCARNATION + 1);
    drive_learner_says(&drive, 2, ZAB_ACK, zxid);
    assert_int_equal(drive_status(&drive).committed, zxid);
    assert_int_equal(zab_config(drive.zab)->members[0].incarnation, NEW_DISK);
    drive_release(&drive);
}

static void a_disk_that_lags_is_not_admitted(void **state)
{
    struct drive drive;

    (void)state;
    new_disk(&drive);
    (void)drive_propose(&drive, "x");
    drive_persist(&drive);
    drive_learner_says(&drive, 2, ZAB_ACK, zxid_make(1, 1));
    drive_clear(&drive);
    pass(&drive, 12000, 1, 2);
    assert_null(proposed_config(&drive));
    drive_release(&drive);
}

/* Of 3 with one new disk and one more away there is no quorum without the new one. */
static void the_quorum_is_counted_without_the_disk_in_question(void **state)
{
    struct drive drive;

    (void)state;
    lead(&drive, 5);
    drive_down(&drive, 1);
    drive_up_as(&drive, 1, NEW_DISK, false);
    drive_join(&drive, 1);
    drive_down(&drive, 2);
    pass(&drive, 8000, 1, 4);
    drive_down(&drive, 3);
    drive_clear(&drive);
    pass(&drive, 8000, 1, 4);
    assert_null(proposed_config(&drive));
    drive_release(&drive);
}

static void one_admission_at_a_time(void **state)
{
    struct drive drive;

    (void)state;
    lead(&drive, 5);
    for (uint32_t id = 1; id <= 2; id++) {
        drive_down(&drive, id);
        drive_up_as(&drive, id, NEW_DISK + id, false);
        drive_join(&drive, id);
    }
    drive_clear(&drive);
    pass(&drive, 12000, 1, 4);
    const struct logrec *first = proposed_config(&drive);

    assert_non_null(first);
    pass(&drive, 5000, 1, 4);
    assert_ptr_equal(proposed_config(&drive), first);
    zxid_t zxid = first->zxid;

    drive_persist(&drive);
    for (uint32_t id = 1; id <= 4; id++) {
        drive_learner_says(&drive, id, ZAB_ACK, zxid);
    }
    assert_int_equal(drive_status(&drive).committed, zxid);
    pass(&drive, 2000, 1, 4);
    assert_int_equal(proposed_config(&drive)->zxid, zxid + 1);
    drive_release(&drive);
}

static void a_member_changes_its_disk_only_so_often(void **state)
{
    struct drive drive;

    (void)state;
    new_disk(&drive);
    pass(&drive, 11000, 1, 2);
    zxid_t zxid = proposed_config(&drive)->zxid;

    drive_persist(&drive);
    drive_learner_says(&drive, 1, ZAB_ACK, zxid);
    drive_learner_says(&drive, 2, ZAB_ACK, zxid);
    drive_down(&drive, 1);
    drive_up_as(&drive, 1, NEW_DISK + 1, false);
    drive_join(&drive, 1);
    drive_clear(&drive);
    pass(&drive, 60000, 1, 2);
    assert_null(proposed_config(&drive));
    drive_release(&drive);
}

static void an_uncommitted_change_that_is_cut_leaves_nothing(void **state)
{
    struct drive drive;
    struct buf bytes;
    struct zab_config changed;

    (void)state;
    drive_init(&drive, 1, 3);
    changed = drive.init.config;
    changed.members[2].incarnation = NEW_DISK;
    changed.version = zxid_make(1, 1);
    drive_log_add(&drive.disk, zxid_make(1, 0));
    buf_init(&bytes, 4096);
    zab_config_encode(&changed, &bytes);
    drive_log_add_type(&drive.disk, LOGREC_CONFIG, zxid_make(1, 1), buf_slice(&bytes));
    buf_release(&bytes);
    drive.init.committed = zxid_make(1, 0);
    drive.init.has_pending = true;
    drive.init.pending = changed;
    drive_start(&drive);
    drive_follow_acked(&drive, 2, 2);
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_SYNC, .zxid = zxid_make(1, 0)});
    drive_persist(&drive);
    drive_log_cut(&drive.theirs, zxid_make(1, 0));
    drive_newleader(&drive, drive_log_add(&drive.theirs, zxid_make(2, 0)));
    drive_persist(&drive);
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_UPTODATE, .commit = zxid_make(2, 0)});
    assert_int_equal(zab_config(drive.zab)->members[2].incarnation, DRIVE_INCARNATION + 3);
    drive_release(&drive);
}

/* ---- Rolled-back disks. ---- */

static void a_disk_with_less_than_it_acknowledged_is_told(void **state)
{
    struct drive drive;

    (void)state;
    lead(&drive, 3);
    (void)drive_propose(&drive, "x");
    drive_learner_says(&drive, 1, ZAB_ACK, zxid_make(1, 1));
    drive_cepoch(&drive, 1, 1, zxid_make(1, 0));
    assert_true(drive_sent(&drive, 1, ZAB_STRANGER)->flags & ZAB_FLAG_ROLLED_BACK);
    assert_null(drive_sent(&drive, 1, ZAB_NEWEPOCH));
    drive_release(&drive);
}

static void a_disk_with_an_older_promise_is_told(void **state)
{
    struct drive drive;

    (void)state;
    lead(&drive, 3);
    drive_cepoch(&drive, 1, 0, zxid_make(1, 0));
    assert_true(drive_sent(&drive, 1, ZAB_STRANGER)->flags & ZAB_FLAG_ROLLED_BACK);
    drive_release(&drive);
}

/* A larger promise explains a shorter log: it may have been cut in that epoch. */
static void a_larger_promise_explains_a_shorter_log(void **state)
{
    struct drive drive;

    (void)state;
    lead(&drive, 3);
    (void)drive_propose(&drive, "x");
    drive_learner_says(&drive, 1, ZAB_ACK, zxid_make(1, 1));
    drive_cepoch(&drive, 1, 2, zxid_make(1, 0));
    assert_null(drive_sent(&drive, 1, ZAB_STRANGER));
    drive_release(&drive);
}

static void a_learner_that_was_cut_and_broke_off_is_not_rolled_back(void **state)
{
    struct drive drive;
    struct drive_log longer = {0};

    (void)state;
    drive_init(&drive, 3, 3);
    drive_log_add(&drive.disk, zxid_make(3, 0));
    drive_start(&drive);
    drive_elect(&drive, 3, zxid_make(3, 0));
    drive_cepoch(&drive, 1, 3, zxid_make(3, 0));
    drive_persist(&drive);
    drive_ackepoch(&drive, 1, &drive.disk, ZAB_FLAG_ELIGIBLE | ZAB_FLAG_COUNTED);
    drive_persist(&drive);
    drive_log_add(&longer, zxid_make(3, 0));
    drive_log_add(&longer, zxid_make(3, 1));
    drive_cepoch(&drive, 2, 4, zxid_make(3, 1));
    drive_ackepoch(&drive, 2, &longer, ZAB_FLAG_ELIGIBLE | ZAB_FLAG_COUNTED);
    assert_int_equal(drive_sent(&drive, 2, ZAB_SYNC)->zxid, zxid_make(3, 0));
    drive_cepoch(&drive, 2, 4, zxid_make(3, 0));
    assert_null(drive_sent(&drive, 2, ZAB_STRANGER));
    drive_log_release(&longer);
    drive_release(&drive);
}

static void a_new_incarnation_owes_nothing(void **state)
{
    struct drive drive;

    (void)state;
    lead(&drive, 3);
    drive_down(&drive, 1);
    drive_up_as(&drive, 1, NEW_DISK, false);
    drive_cepoch(&drive, 1, 0, 0);
    assert_null(drive_sent(&drive, 1, ZAB_STRANGER));
    assert_non_null(drive_sent(&drive, 1, ZAB_NEWEPOCH));
    drive_release(&drive);
}

static void quarantine_explains_an_empty_log(void **state)
{
    struct drive drive;
    struct zab_msg cepoch = {.type = ZAB_CEPOCH, .link = 50, .flags = ZAB_FLAG_QUARANTINE};

    (void)state;
    lead(&drive, 3);
    drive_recv(&drive, 1, &cepoch);
    assert_null(drive_sent(&drive, 1, ZAB_STRANGER));
    assert_non_null(drive_sent(&drive, 1, ZAB_NEWEPOCH));
    drive_release(&drive);
}

/* "when a reachable peer or the log knows more": the stamp survives the leader. */
static void the_log_remembers_what_a_disk_had(void **state)
{
    struct drive drive;
    struct drive next;

    (void)state;
    drive_init(&drive, 2, 3);
    drive.init.limits.stamp_every = 2;
    drive_start(&drive);
    drive_lead(&drive);
    (void)drive_propose(&drive, "x");
    drive_persist(&drive);
    drive_learner_says(&drive, 1, ZAB_ACK, zxid_make(1, 1));
    (void)drive_propose(&drive, "x");
    drive_persist(&drive);
    assert_int_equal(drive.disk.recs[drive.disk.count - 1]->type, LOGREC_STAMP);
    drive_init(&next, 3, 3);
    drive_log_copy(&next.disk, &drive.disk);
    drive_start(&next);
    drive_elect(&next, 3, drive_log_last(&next.disk));
    drive_cepoch(&next, 2, 1, drive_log_last(&next.disk));
    drive_persist(&next);
    drive_ackepoch(&next, 2, &next.disk, ZAB_FLAG_ELIGIBLE | ZAB_FLAG_COUNTED);
    drive_persist(&next);
    drive_learner_says(&next, 2, ZAB_ACK_NEWLEADER, drive_log_last(&next.disk));
    drive_fetched(&next);
    drive_cepoch(&next, 1, 1, zxid_make(1, 0));
    assert_true(drive_sent(&next, 1, ZAB_STRANGER)->flags & ZAB_FLAG_ROLLED_BACK);
    drive_release(&next);
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
        cmocka_unit_test(a_disk_that_no_cluster_names_is_told_so),
        cmocka_unit_test(a_new_disk_is_admitted_after_the_old_one_stayed_away),
        cmocka_unit_test(an_admission_needs_both_quorums),
        cmocka_unit_test(a_disk_that_lags_is_not_admitted),
        cmocka_unit_test(the_quorum_is_counted_without_the_disk_in_question),
        cmocka_unit_test(one_admission_at_a_time),
        cmocka_unit_test(a_member_changes_its_disk_only_so_often),
        cmocka_unit_test(an_uncommitted_change_that_is_cut_leaves_nothing),
        cmocka_unit_test(a_disk_with_less_than_it_acknowledged_is_told),
        cmocka_unit_test(a_disk_with_an_older_promise_is_told),
        cmocka_unit_test(a_larger_promise_explains_a_shorter_log),
        cmocka_unit_test(a_learner_that_was_cut_and_broke_off_is_not_rolled_back),
        cmocka_unit_test(a_new_incarnation_owes_nothing),
        cmocka_unit_test(quarantine_explains_an_empty_log),
        cmocka_unit_test(the_log_remembers_what_a_disk_had),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
