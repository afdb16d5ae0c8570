/* Decision 7: the admission of a new disk, disks that were rolled back. */
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
    const struct zab_persist *append = drive_asked(drive, ZAB_PERSIST_APPEND);

    return append && append->append.rec->type == LOGREC_CONFIG ? append->append.rec : NULL;
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

static bool is_counted(const struct drive *drive, uint32_t id)
{
    struct zab_peer_status peers[ZAB_MEMBERS_MAX];
    size_t count = zab_peers(drive->zab, peers, ZAB_MEMBERS_MAX);

    for (size_t i = 0; i < count; i++) {
        if (peers[i].id == id) {
            return peers[i].counted;
        }
    }
    return false;
}

/* The new disk's own acknowledgement does not carry its admission, and nobody is told that it votes
 * before it does. */
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
    assert_false(is_counted(&drive, 1));
    drive_learner_says(&drive, 2, ZAB_ACK, zxid);
    assert_int_equal(drive_status(&drive).committed, zxid);
    assert_int_equal(zab_config(drive.zab)->members[0].incarnation, NEW_DISK);
    assert_true(is_counted(&drive, 1));
    drive_release(&drive);
}

/* Once the change is committed the new disk counts for what follows it, without another message. */
static void an_admission_commits_what_waited_for_it(void **state)
{
    struct drive drive;

    (void)state;
    new_disk(&drive);
    pass(&drive, 11000, 1, 2);
    zxid_t zxid = proposed_config(&drive)->zxid;
    zxid_t next = drive_propose(&drive, "x");

    drive_persist(&drive);
    drive_learner_says(&drive, 1, ZAB_ACK, next);
    assert_true(drive_status(&drive).committed < zxid);
    drive_clear(&drive);
    drive_learner_says(&drive, 2, ZAB_ACK, zxid);
    assert_int_equal(drive_status(&drive).committed, next);
    assert_int_equal(drive_sent(&drive, 2, ZAB_COMMIT)->commit.zxid, next);
    drive_release(&drive);
}

/* Peers in step with a later leader tell what that one has committed. Whoever still leads behind it
 * can commit nothing any more, so it admits nobody. */
static void a_leader_behind_the_configuration_admits_nobody(void **state)
{
    struct drive drive;
    struct zab_config config;
    struct buf bytes;

    (void)state;
    new_disk(&drive);
    config = *zab_config(drive.zab);
    config.version = zxid_make(7, 1);
    buf_init(&bytes, 1 << 16);
    zab_config_encode(&config, &bytes);
    drive_recv(&drive, 2, &(struct zab_msg){.type = ZAB_FOUND, .found.config = buf_slice(&bytes)});
    assert_int_equal(zab_config(drive.zab)->version, config.version);
    drive_clear(&drive);
    pass(&drive, 12000, 1, 2);
    assert_null(proposed_config(&drive));
    buf_release(&bytes);
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

enum {
    ADMITTED_MS = 5000000,
    AGAIN_MS = 20000
};

/* 3 has just become leader; member 1, whose disk was admitted at ADMITTED_MS, has another one. */
static void new_disk_again(struct drive *drive, uint64_t age_ms)
{
    drive_init(drive, 3, 3);
    drive->init.config.members[0].admitted_age_ms = ADMITTED_MS;
    drive->init.limits.admit_again_ms = AGAIN_MS;
    drive->age_ms = age_ms;
    drive_start(drive);
    drive_lead(drive);
    drive_down(drive, 1);
    drive_up_as(drive, 1, NEW_DISK, false);
    drive_join(drive, 1);
    drive_clear(drive);
}

static void a_new_leader_knows_of_the_last_admission(void **state)
{
    struct drive drive;
    struct zab_config config;

    (void)state;
    new_disk_again(&drive, ADMITTED_MS + AGAIN_MS - 1);
    pass(&drive, 15000, 1, 2);
    assert_null(proposed_config(&drive));
    drive.age_ms++;
    pass(&drive, 1000, 1, 2);
    assert_non_null(proposed_config(&drive));
    assert_int_equal(zab_config_decode(logrec_payload(proposed_config(&drive)), &config), ERR_OK);
    assert_int_equal(config.members[0].admitted_age_ms, ADMITTED_MS + AGAIN_MS);
    assert_int_equal(config.members[1].admitted_age_ms, 0);
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
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_SYNC, .sync.common = zxid_make(1, 0)});
    drive_persist(&drive);
    drive_log_cut(&drive.theirs, zxid_make(1, 0));
    drive_newleader(&drive, drive_log_add(&drive.theirs, zxid_make(2, 0)));
    drive_persist(&drive);
    drive_leader_says(&drive,
                      (struct zab_msg){.type = ZAB_UPTODATE, .commit.zxid = zxid_make(2, 0)});
    assert_int_equal(zab_config(drive.zab)->members[2].incarnation, DRIVE_INCARNATION + 3);
    drive_release(&drive);
}

/* Replica 2, which led, knew that the new disk of 3 is admitted, and told no other: the log of 1
 * ends with the record. */
static void start_with_an_admission(struct drive *drive)
{
    struct buf bytes;
    struct zab_config changed;

    drive_init(drive, 1, 3);
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
}

static enum zab_state elected_with(struct drive *drive, uint32_t peer)
{
    drive_vote(drive, peer, 1, zxid_make(1, 1));
    drive_tick(drive, 500);
    return drive_status(drive).state;
}

/* The disk of replica 2 is lost: of the voters before the admission 1 is the only one left, and of
 * those behind it the old disk of 3 is none. Only the disk of 2 helps. */
static void an_admission_that_only_a_lost_disk_knows_of_keeps_the_others_waiting(void **state)
{
    struct drive drive;

    (void)state;
    start_with_an_admission(&drive);
    drive_up_as(&drive, 3, NEW_DISK, false);
    assert_int_equal(elected_with(&drive, 3), ZAB_LOOKING);
    drive_down(&drive, 3);
    drive_up(&drive, 3);
    assert_int_equal(elected_with(&drive, 3), ZAB_LOOKING);
    assert_non_null(strstr(drive_status(&drive).reason, "the admission of a new disk may be"));
    drive_up(&drive, 2);
    assert_int_equal(elected_with(&drive, 2), ZAB_LEADING);
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
    assert_true(drive_sent(&drive, 1, ZAB_STRANGER)->stranger.flags & ZAB_FLAG_ROLLED_BACK);
    assert_null(drive_sent(&drive, 1, ZAB_NEWEPOCH));
    drive_release(&drive);
}

static void a_disk_with_an_older_promise_is_told(void **state)
{
    struct drive drive;

    (void)state;
    lead(&drive, 3);
    drive_cepoch(&drive, 1, 0, zxid_make(1, 0));
    assert_true(drive_sent(&drive, 1, ZAB_STRANGER)->stranger.flags & ZAB_FLAG_ROLLED_BACK);
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
    assert_int_equal(drive_sent(&drive, 2, ZAB_SYNC)->sync.common, zxid_make(3, 0));
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
    struct zab_msg cepoch = {
        .type = ZAB_CEPOCH, .dialogue = 50, .cepoch.flags = ZAB_FLAG_QUARANTINE};

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
    assert_true(drive_sent(&next, 1, ZAB_STRANGER)->stranger.flags & ZAB_FLAG_ROLLED_BACK);
    drive_release(&next);
    drive_release(&drive);
}

/* Leads with that follower, and has delivered what its log holds. */
static void lead_with(struct drive *drive, uint32_t follower, uint32_t promised)
{
    zxid_t last = drive_log_last(&drive->disk);

    drive_start(drive);
    drive_elect(drive, drive->init.id, last);
    drive_cepoch(drive, follower, promised, last);
    drive_persist(drive);
    drive_ackepoch(drive, follower, &drive->disk, ZAB_FLAG_ELIGIBLE | ZAB_FLAG_COUNTED);
    drive_persist(drive);
    drive_learner_says(drive, follower, ZAB_ACK_NEWLEADER, drive_log_last(&drive->disk));
    if (drive_effect(drive, ZAB_FX_FETCH)) {
        drive_fetched(drive);
    }
}

/* Replica 3 has led epoch 1 and 2 with replica 2, which has acknowledged a record in each; replica
 * 1 has got that log, and is to lead epoch 3. */
static void two_epochs(struct drive *next)
{
    struct drive first;
    struct drive second;

    drive_init(&first, 3, 3);
    lead_with(&first, 2, 0);
    (void)drive_propose(&first, "x");
    drive_persist(&first);
    drive_learner_says(&first, 2, ZAB_ACK, zxid_make(1, 1));
    drive_init(&second, 3, 3);
    drive_log_copy(&second.disk, &first.disk);
    lead_with(&second, 2, 1);
    (void)drive_propose(&second, "y");
    drive_persist(&second);
    drive_learner_says(&second, 2, ZAB_ACK, zxid_make(2, 1));
    drive_init(next, 1, 3);
    drive_log_copy(&next->disk, &second.disk);
    drive_release(&first);
    drive_release(&second);
}

/* It says what each voter of its quorum had by then: also to leaders that were not there, for as
 * long as the log has it. */
static void the_start_of_an_epoch_remembers_what_a_disk_had(void **state)
{
    struct drive next;

    (void)state;
    two_epochs(&next);
    lead_with(&next, 3, 2);
    drive_cepoch(&next, 2, 1, zxid_make(1, 0));
    assert_true(drive_sent(&next, 2, ZAB_STRANGER)->stranger.flags & ZAB_FLAG_ROLLED_BACK);
    drive_release(&next);
}

/* What it has promised and acknowledged since only the leader knew that is gone: the copy counts as
 * a disk that lags. This cannot be noticed, and docs/guarantees.md says so. */
static void a_copy_that_is_newer_than_the_last_stamp_is_not_noticed(void **state)
{
    struct drive next;

    (void)state;
    two_epochs(&next);
    lead_with(&next, 3, 2);
    drive_cepoch(&next, 2, 1, zxid_make(1, 1));
    assert_null(drive_sent(&next, 2, ZAB_STRANGER));
    assert_non_null(drive_sent(&next, 2, ZAB_NEWEPOCH));
    drive_release(&next);
}

/* Nor what a stamp says that lies behind the snapshot from which this leader has started: stamps
 * are taken up as they are delivered. */
static void a_stamp_behind_the_snapshot_is_not_known_after_a_restart(void **state)
{
    struct drive next;

    (void)state;
    two_epochs(&next);
    next.init.committed = drive_log_last(&next.disk);
    next.init.committed_chain = drive_log_chain(&next.disk, next.init.committed);
    lead_with(&next, 3, 2);
    drive_cepoch(&next, 2, 1, zxid_make(1, 0));
    assert_null(drive_sent(&next, 2, ZAB_STRANGER));
    drive_release(&next);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_disk_is_admitted_after_the_old_one_stayed_away),
        cmocka_unit_test(an_admission_needs_both_quorums),
        cmocka_unit_test(an_admission_commits_what_waited_for_it),
        cmocka_unit_test(a_leader_behind_the_configuration_admits_nobody),
        cmocka_unit_test(a_disk_that_lags_is_not_admitted),
        cmocka_unit_test(the_quorum_is_counted_without_the_disk_in_question),
        cmocka_unit_test(one_admission_at_a_time),
        cmocka_unit_test(a_member_changes_its_disk_only_so_often),
        cmocka_unit_test(a_new_leader_knows_of_the_last_admission),
        cmocka_unit_test(an_uncommitted_change_that_is_cut_leaves_nothing),
        cmocka_unit_test(an_admission_that_only_a_lost_disk_knows_of_keeps_the_others_waiting),
        cmocka_unit_test(a_disk_with_less_than_it_acknowledged_is_told),
        cmocka_unit_test(a_disk_with_an_older_promise_is_told),
        cmocka_unit_test(a_larger_promise_explains_a_shorter_log),
        cmocka_unit_test(a_learner_that_was_cut_and_broke_off_is_not_rolled_back),
        cmocka_unit_test(a_new_incarnation_owes_nothing),
        cmocka_unit_test(quarantine_explains_an_empty_log),
        cmocka_unit_test(the_log_remembers_what_a_disk_had),
        cmocka_unit_test(the_start_of_an_epoch_remembers_what_a_disk_had),
        cmocka_unit_test(a_copy_that_is_newer_than_the_last_stamp_is_not_noticed),
        cmocka_unit_test(a_stamp_behind_the_snapshot_is_not_known_after_a_restart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
