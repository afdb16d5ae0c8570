/* Changes of the members for clients: they are writes, judged by the leader, and each client gets
 * the leader's answer from the replica that it has asked. */
#include "tests/lib/replica_bench.h"
#include "tests/lib/unit.h"
#include "zab/level.h"

#include <stdio.h>

static void become_super(struct op_request *request)
{
    assert_int_equal(auth_add(NULL, slice_str("digest"), slice_str("bob:secret"),
                              "bob:fyVmFCwVbTJYrznoSu1koqYEYF0=", &request->principal.auth),
                     ERR_OK);
}

/* A request of the super user; the test fills in the rest. */
static struct op_request *ask(struct bench *bench, enum op_id op, uint32_t member,
                              struct outcome *outcome)
{
    struct op_request *request = bench_request(bench, op, "", outcome);

    become_super(request);
    request->args.member = member;
    return request;
}

static struct op_request *addition(struct bench *bench, uint32_t member, const char *peer,
                                   struct outcome *outcome)
{
    struct op_request *request = ask(bench, OP_MEMBER_ADD, member, outcome);

    request->args.has_peer = true;
    request->args.peer = slice_str(peer);
    return request;
}

static void add(struct bench *bench, uint32_t member, const char *peer, struct outcome *outcome)
{
    bench_submit(bench, addition(bench, member, peer, outcome));
}

static const struct zab_config *config_of(const struct bench *bench)
{
    return zab_config(replica_zab(bench->replica));
}

/* A sole replica that leads, at level 2. */
static void lead_alone(struct bench *bench)
{
    bench_open_level(bench, 1, 1, ZAB_LEVEL_TEXTS);
    drive_persist(&bench->drive);
}

static void assert_refused(const struct outcome *outcome, const char *reason)
{
    assert_int_equal(outcome->answers, 1);
    if (outcome->err != ERR_CHANGE_REFUSED || strcmp(outcome->reason, reason) != 0) {
        fail_msg("not %s: %s, %s, %s", reason, err_name(outcome->err), outcome->reason,
                 outcome->detail);
    }
    assert_true(strlen(outcome->detail) > 0);
}

/* ---- The leader's own clients. ---- */

TEST(an_addition_is_a_write, bench, lead_alone, bench_tear_down)
{
    struct op_request *request;
    struct zab_texts texts;
    struct outcome outcome;
    zxid_t previous = config_of(bench)->version;

    request = addition(bench, 4, "zk4:10998", &outcome);
    request->args.has_client = true;
    request->args.client = slice_str("zk4:9998");
    request->args.zone = slice_str("b");
    request->args.auto_promote = true;
    bench_submit(bench, request);
    assert_int_equal(outcome.answers, 0);
    assert_non_null(zab_pending(replica_zab(bench->replica)));
    drive_persist(&bench->drive);
    assert_int_equal(outcome.answers, 1);
    assert_int_equal(outcome.err, ERR_OK);
    assert_true(outcome.has_change);
    assert_true(outcome.change.version == outcome.zxid);
    assert_true(outcome.change.previous == previous);
    assert_true(config_of(bench)->version == outcome.zxid);
    assert_int_equal(outcome.change.count, 2);
    assert_int_equal(outcome.change.members[0].id, 1);
    assert_int_equal(outcome.change.members[0].role, OP_ROLE_VOTER);
    assert_int_equal(outcome.change.members[1].id, 4);
    assert_int_equal(outcome.change.members[1].role, OP_ROLE_OBSERVER);
    assert_true(outcome.change.members[1].joining);
    assert_int_equal(outcome.change.tolerance_before, 0);
    assert_int_equal(outcome.change.tolerance_after, 0);
    assert_int_equal(outcome.change.in_step, 1);
    assert_true(zab_config_texts(zab_config_bytes(replica_zab(bench->replica)), 4, &texts));
    assert_true(slice_eq(texts.host, slice_str("zk4")) && texts.port == 10998);
    assert_true(slice_eq(texts.client, slice_str("zk4:9998")));
    assert_true(slice_eq(texts.zone, slice_str("b")));
    assert_true(zab_config_find(config_of(bench), 4)->joining);
}

TEST(members_are_edited_and_removed, bench, lead_alone, bench_tear_down)
{
    struct op_request *request;
    struct zab_texts texts;
    struct outcome outcome;

    add(bench, 4, "zk4:10998", &outcome);
    drive_persist(&bench->drive);
    request = ask(bench, OP_MEMBER_SET, 4, &outcome);
    request->args.has_peer = true;
    request->args.peer = slice_str("[fd00::4]:7");
    bench_submit(bench, request);
    drive_persist(&bench->drive);
    assert_int_equal(outcome.err, ERR_OK);
    assert_int_equal(outcome.change.count, 2);
    assert_true(zab_config_texts(zab_config_bytes(replica_zab(bench->replica)), 4, &texts));
    assert_true(slice_eq(texts.host, slice_str("fd00::4")) && texts.port == 7);
    bench_submit(bench, ask(bench, OP_MEMBER_REMOVE, 4, &outcome));
    drive_persist(&bench->drive);
    assert_int_equal(outcome.err, ERR_OK);
    assert_int_equal(outcome.change.count, 1);
    assert_null(zab_config_find(config_of(bench), 4));
}

TEST(a_dry_run_changes_nothing, bench, lead_alone, bench_tear_down)
{
    struct op_request *request;
    struct outcome outcome;
    zxid_t last = bench_status(bench).zab.last;

    request = addition(bench, 4, "zk4:10998", &outcome);
    request->args.dry_run = true;
    bench_submit(bench, request);
    drive_persist(&bench->drive);
    assert_int_equal(outcome.answers, 1);
    assert_int_equal(outcome.err, ERR_OK);
    assert_false(outcome.replayed);
    assert_int_equal(outcome.change.version, 0);
    assert_true(outcome.change.previous == config_of(bench)->version);
    assert_int_equal(outcome.change.count, 2);
    assert_true(bench_status(bench).zab.last == last);
    assert_null(zab_config_find(config_of(bench), 4));
}

TEST(each_refusal_has_its_reason, bench, lead_alone, bench_tear_down)
{
    struct outcome outcome;

    add(bench, 4, "zk4:10998", &outcome);
    drive_persist(&bench->drive);
    add(bench, 4, "zk5:10998", &outcome);
    drive_persist(&bench->drive);
    assert_refused(&outcome, "IdInUse");
    add(bench, 5, "ZK4:10998", &outcome);
    drive_persist(&bench->drive);
    assert_refused(&outcome, "AddressInUse");
    bench_submit(bench, ask(bench, OP_MEMBER_REMOVE, 1, &outcome));
    drive_persist(&bench->drive);
    assert_refused(&outcome, "LastVoter");
    struct op_request *request = ask(bench, OP_MEMBER_SET, 4, &outcome);

    request->args.role = OP_ROLE_VOTER;
    bench_submit(bench, request);
    drive_persist(&bench->drive);
    assert_refused(&outcome, "NotInStep");
    request = ask(bench, OP_MEMBER_SET, 1, &outcome);
    request->args.role = OP_ROLE_VOTER;
    bench_submit(bench, request);
    drive_persist(&bench->drive);
    assert_refused(&outcome, "NotObserver");
    bench_submit(bench, ask(bench, OP_MEMBER_REMOVE, 9, &outcome));
    drive_persist(&bench->drive);
    assert_int_equal(outcome.err, ERR_NOT_FOUND);
    assert_string_equal(outcome.detail,
                        "there is no member 9: the list of the members shows all ids");
}

TEST(members_change_from_level_2_on)
{
    struct bench bench;
    struct outcome outcome;

    bench_open_level(&bench, 1, 1, ZAB_LEVEL_CONFIG);
    drive_persist(&bench.drive);
    add(&bench, 4, "zk4:10998", &outcome);
    drive_persist(&bench.drive);
    assert_refused(&outcome, "MembersLevel");
    bench_close(&bench);
}

TEST(a_second_change_waits_for_the_first, bench, lead_alone, bench_tear_down)
{
    struct outcome first;
    struct outcome second;

    add(bench, 4, "zk4:10998", &first);
    add(bench, 5, "zk5:10998", &second);
    drive_persist(&bench->drive);
    assert_int_equal(first.err, ERR_OK);
    assert_refused(&second, "UnderWay");
    add(bench, 5, "zk5:10998", &second);
    drive_persist(&bench->drive);
    assert_int_equal(second.err, ERR_OK);
    assert_int_equal(second.change.count, 3);
    assert_true(second.change.previous == first.change.version);
}

TEST(a_condition_on_the_version_holds_once, bench, lead_alone, bench_tear_down)
{
    struct outcome outcome;
    struct op_request *request = addition(bench, 4, "zk4:10998", &outcome);

    request->args.has_etag = true;
    request->args.etag_czxid = config_of(bench)->version;
    bench_submit(bench, request);
    drive_persist(&bench->drive);
    assert_int_equal(outcome.err, ERR_OK);
    zxid_t version = outcome.change.version;

    request = addition(bench, 5, "zk5:10998", &outcome);
    request->args.has_etag = true;
    request->args.etag_czxid = version - 1;
    bench_submit(bench, request);
    drive_persist(&bench->drive);
    assert_int_equal(outcome.err, ERR_BAD_VERSION);
    assert_true(outcome.has_change && outcome.change.version == 0);
    assert_true(outcome.change.previous == version);
    assert_null(zab_config_find(config_of(bench), 5));
}

/* Also when the configuration has changed again meanwhile. */
TEST(a_key_repeats_the_first_answer, bench, lead_alone, bench_tear_down)
{
    struct outcome first;
    struct outcome again;
    struct op_request *request = addition(bench, 4, "zk4:10998", &first);

    request->key = slice_str("key");
    bench_submit(bench, request);
    drive_persist(&bench->drive);
    assert_int_equal(first.err, ERR_OK);
    bench_submit(bench, ask(bench, OP_MEMBER_REMOVE, 4, &again));
    drive_persist(&bench->drive);
    assert_int_equal(again.err, ERR_OK);
    request = addition(bench, 4, "zk4:10998", &again);
    request->key = slice_str("key");
    bench_submit(bench, request);
    drive_persist(&bench->drive);
    assert_int_equal(again.err, ERR_OK);
    assert_true(again.replayed);
    assert_true(again.zxid == first.zxid);
    assert_memory_equal(&again.change, &first.change, sizeof(first.change));
    assert_null(zab_config_find(config_of(bench), 4));
}

/* ---- A follower's clients. ---- */

static void follow(struct bench *bench)
{
    bench_open_level(bench, 1, 3, ZAB_LEVEL_TEXTS);
    drive_follow(&bench->drive, 3, 1);
    drive_clear(&bench->drive);
}

static void fill(struct op_change *change, zxid_t version)
{
    *change = (struct op_change){.version = version,
                                 .previous = 7,
                                 .tolerance_before = 1,
                                 .tolerance_after = 1,
                                 .in_step = 3,
                                 .count = 1,
                                 .members = {{4, OP_ROLE_OBSERVER, false}}};
}

/* The record of the configuration that the leader makes of the request. */
static struct logrec *record_of(struct drive *drive, uint64_t request)
{
    const struct txn_header header = {.origin_member = drive->init.id,
                                      .origin_boot = BENCH_BOOT,
                                      .request = request,
                                      .age_ms = 5,
                                      .stamp_ms = 5};
    struct zab_config config = *zab_config(drive->observed);
    struct zab_config_parts parts = {.edit_count = 0};
    zxid_t zxid = drive_log_last(&drive->theirs) + 1;
    struct op_change change;
    struct buf answer;
    struct buf bytes;
    struct buf txn;

    fill(&change, zxid);
    buf_init(&answer, OP_CHANGE_BYTES_MAX);
    op_change_encode(&change, &answer);
    buf_init(&txn, 4096);
    txn_begin(&txn, &header);
    txn_put(&txn, &(struct txn_effect){
                      .type = TXN_ANSWER, .flags = TXN_REPLY, .answer.bytes = buf_slice(&answer)});
    parts.txn = buf_slice(&txn);
    config.version = zxid;
    buf_init(&bytes, ZAB_CONFIG_BYTES_MAX);
    assert_int_equal(zab_config_write(&config, &parts, &bytes), ERR_OK);
    struct logrec *rec = drive_log_add_type(&drive->theirs, LOGREC_CONFIG, zxid, buf_slice(&bytes));

    buf_release(&answer);
    buf_release(&bytes);
    buf_release(&txn);
    return rec;
}

TEST(the_record_has_the_answer_of_its_client, bench, follow, bench_tear_down)
{
    struct outcome outcome;

    add(bench, 4, "zk4:10998", &outcome);
    drive_entry(&bench->drive, record_of(&bench->drive, bench_forwarded(bench)), 0);
    assert_int_equal(outcome.answers, 0);
    bench_commit(&bench->drive, zxid_make(1, 1));
    assert_int_equal(outcome.answers, 1);
    assert_int_equal(outcome.err, ERR_OK);
    assert_true(outcome.change.version == zxid_make(1, 1));
    assert_int_equal(outcome.change.in_step, 3);
    assert_int_equal(outcome.change.members[0].id, 4);
}

static void leader_answers(struct bench *bench, struct op_result *result)
{
    struct buf bytes;

    buf_init(&bytes, 4096);
    op_result_encode(result, &bytes);
    drive_leader_says(&bench->drive,
                      (struct zab_msg){.type = ZAB_FORWARD_REPLY,
                                       .forward = {bench_forwarded(bench), buf_slice(&bytes)}});
    buf_release(&bytes);
    op_result_release(result);
}

TEST(the_leader_answers_a_dry_run, bench, follow, bench_tear_down)
{
    struct outcome outcome;
    struct op_request *request = addition(bench, 4, "zk4:10998", &outcome);
    struct op_change change;
    struct op_result result;
    struct buf bytes;

    request->args.dry_run = true;
    bench_submit(bench, request);
    fill(&change, 0);
    buf_init(&bytes, OP_CHANGE_BYTES_MAX);
    op_change_encode(&change, &bytes);
    op_result_init(&result);
    result.has_change = true;
    result.change = blob_new(buf_slice(&bytes));
    leader_answers(bench, &result);
    buf_release(&bytes);
    assert_int_equal(outcome.answers, 1);
    assert_int_equal(outcome.err, ERR_OK);
    assert_true(outcome.has_change && outcome.change.version == 0);
    assert_int_equal(outcome.change.members[0].id, 4);
}

TEST(the_leader_refuses_with_a_reason, bench, follow, bench_tear_down)
{
    struct outcome outcome;
    struct op_result result;

    add(bench, 4, "zk4:10998", &outcome);
    op_result_init(&result);
    result.err = ERR_CHANGE_REFUSED;
    result.detail = "member 4 exists already";
    result.reason = "IdInUse";
    leader_answers(bench, &result);
    assert_refused(&outcome, "IdInUse");
    assert_string_equal(outcome.detail, "member 4 exists already");
}

/* ---- The leader leaves. ---- */

enum {
    STEP_MS = 100,
    PATIENCE = 100 /* Steps. */
};

/* Replica 1 confirms that this replica leads. */
static void confirm_round(struct bench *bench)
{
    struct zab_msg msg = {.type = ZAB_CONFIRM_ACK,
                          .dialogue = bench->drive.dialogues[1],
                          .epoch = bench->drive.promised,
                          .confirm.round =
                              drive_sent(&bench->drive, 1, ZAB_CONFIRM)->confirm.round};

    drive_recv(&bench->drive, 1, &msg);
}

static void lead_three(struct bench *bench)
{
    bench_open_level(bench, 3, 3, ZAB_LEVEL_TEXTS);
    drive_lead(&bench->drive);
    drive_clear(&bench->drive);
}

TEST(a_leader_that_leaves_hands_the_request_over, bench, lead_three, bench_tear_down)
{
    struct outcome outcome;
    struct outcome write;
    struct op_request *request = ask(bench, OP_MEMBER_REMOVE, 3, &outcome);

    request->args.force = true;
    bench_submit(bench, request);
    assert_int_equal(outcome.answers, 0);
    assert_int_equal(drive_sent_count(&bench->drive, 1, ZAB_FORWARD_REPLY), 0);
    bench_create(bench, "/behind", &write); /* It waits, too: nothing is proposed any more. */
    assert_int_equal(write.answers, 0);
    drive_tick(&bench->drive, 1);
    assert_int_equal(bench_status(bench).zab.state, ZAB_LOOKING);
    drive_follow(&bench->drive, 1, 2);
    assert_int_equal(bench_forwarded(bench), 2); /* The new leader gets both, in their order. */
    drive_entry(&bench->drive, record_of(&bench->drive, 1), 0);
    bench_commit(&bench->drive, drive_log_last(&bench->drive.theirs));
    assert_int_equal(outcome.err, ERR_OK);
    assert_true(outcome.answers == 1 && outcome.has_change);
    assert_int_equal(write.answers, 0);
}

TEST(without_a_successor_the_request_is_refused, bench, lead_three, bench_tear_down)
{
    struct outcome outcome;
    struct outcome write;
    struct op_request *request = ask(bench, OP_MEMBER_REMOVE, 3, &outcome);

    bench_create(bench, "/a", &write); /* No other voter has it yet. */
    drive_persist(&bench->drive);
    request->args.force = true;
    request->deadline_ms = UINT64_MAX;
    bench_submit(bench, request);
    assert_int_equal(outcome.answers, 0);
    /* No other voter takes over: this replica continues, and the request is judged once more. */
    for (int i = 0; i < PATIENCE && zab_next_zxid(replica_zab(bench->replica)) == 0; i++) {
        drive_tick(&bench->drive, STEP_MS);
        drive_pong(&bench->drive, 1);
    }
    drive_tick(&bench->drive, 1);
    drive_learner_says(&bench->drive, 1, ZAB_ACK, zxid_make(1, 1));
    confirm_round(bench);
    assert_refused(&outcome, "NoSuccessor");
}

/* The client of the first request has gone before the attempt was over. */
TEST(each_request_has_an_attempt_to_hand_over_of_its_own, bench, lead_three, bench_tear_down)
{
    const struct zab *zab = replica_zab(bench->replica);
    struct outcome outcome;
    struct outcome write;
    struct op_request *request = ask(bench, OP_MEMBER_REMOVE, 3, &outcome);

    bench_create(bench, "/a", &write); /* No other voter has it yet. */
    drive_persist(&bench->drive);
    request->args.force = true;
    request->deadline_ms = bench->drive.now_ms + STEP_MS;
    bench_submit(bench, request);
    for (int i = 0; i < PATIENCE && zab_next_zxid(zab) == 0; i++) {
        drive_tick(&bench->drive, STEP_MS);
        drive_pong(&bench->drive, 1);
        drive_pong(&bench->drive, 2);
    }
    assert_true(outcome.answers == 1 && outcome.err == ERR_NOT_READY);
    for (int i = 0; i < 2 * 1000 / STEP_MS; i++) {
        drive_tick(&bench->drive, STEP_MS);
        drive_pong(&bench->drive, 1);
        drive_pong(&bench->drive, 2);
    }
    assert_int_equal(bench_status(bench).zab.state, ZAB_LEADING);
    drive_learner_says(&bench->drive, 1, ZAB_ACK, zxid_make(1, 1));
    drive_learner_says(&bench->drive, 2, ZAB_ACK, zxid_make(1, 1));
    request = ask(bench, OP_MEMBER_REMOVE, 3, &outcome);
    request->args.force = true;
    request->deadline_ms = UINT64_MAX;
    bench_submit(bench, request);
    assert_true(zab_next_zxid(zab) == 0);
    assert_int_equal(outcome.answers, 0);
}

/* 3 leads, and 2 is not in step yet. */
static void lead_early(struct bench *bench)
{
    bench_open_level(bench, 3, 3, ZAB_LEVEL_TEXTS);
    drive_establish(&bench->drive);
    drive_learner_says(&bench->drive, 1, ZAB_ACK_NEWLEADER, zxid_make(1, 0));
    drive_clear(&bench->drive);
}

TEST(a_new_leader_lets_a_change_wait_for_the_voters, bench, lead_early, bench_tear_down)
{
    struct outcome outcome;
    struct op_request *request = ask(bench, OP_MEMBER_REMOVE, 1, &outcome);

    request->args.force = true;
    bench_submit(bench, request);
    assert_int_equal(outcome.answers, 0);
    assert_int_equal(bench_status(bench).zab.last, zxid_make(1, 0));
    drive_learner_says(&bench->drive, 2, ZAB_ACK_NEWLEADER, zxid_make(1, 0));
    drive_tick(&bench->drive, 1);
    assert_int_equal(bench_status(bench).zab.last, zxid_make(1, 1));
    assert_int_equal(outcome.answers, 0);
}

/* It is refused anyway, so that it holds back no write of others. */
TEST(a_change_without_the_right_to_it_does_not_wait, bench, lead_early, bench_tear_down)
{
    struct outcome outcome;
    struct outcome write;
    struct op_request *request = bench_request(bench, OP_MEMBER_REMOVE, "", &outcome);

    request->args.member = 1;
    request->args.force = true;
    bench_submit(bench, request);
    bench_create(bench, "/behind", &write);
    assert_int_equal(bench_status(bench).zab.last, zxid_make(1, 1));
    drive_persist(&bench->drive);
    drive_learner_says(&bench->drive, 1, ZAB_ACK, zxid_make(1, 1));
    confirm_round(bench);
    assert_true(outcome.answers == 1 && outcome.err == ERR_NO_AUTH);
    assert_true(write.answers == 1 && write.err == ERR_OK);
}

/* A dry run says what would happen, and hands over nothing. */
TEST(a_dry_run_hands_over_nothing, bench, lead_three, bench_tear_down)
{
    struct outcome outcome;
    struct op_request *request = ask(bench, OP_MEMBER_REMOVE, 3, &outcome);

    request->args.force = true;
    request->args.dry_run = true;
    bench_submit(bench, request);
    assert_true(zab_next_zxid(replica_zab(bench->replica)) != 0);
    confirm_round(bench);
    assert_int_equal(outcome.answers, 1);
    assert_int_equal(outcome.err, ERR_OK);
    assert_int_equal(outcome.change.count, 2);
}

/* ---- Reasons. ---- */

TEST(each_fault_has_a_name_of_its_own)
{
    for (int fault = ZAB_FAULT_NONE + 1; fault <= ZAB_FAULT_NO_SUCCESSOR; fault++) {
        const char *name = zab_fault_name((enum zab_fault)fault);

        assert_true(strlen(name) > 0 && strlen(name) < 16);
        for (int other = ZAB_FAULT_NONE + 1; other < fault; other++) {
            assert_string_not_equal(name, zab_fault_name((enum zab_fault)other));
        }
    }
}
