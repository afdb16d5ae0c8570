/* The life of a request in a learner, also across a change of leader. */
#include "server/read/view.h"
#include "server/state/state.h"
#include "tests/lib/replica_bench.h"
#include "tests/lib/unit.h"

TEST(a_forwarded_write_is_answered_by_its_delivery, bench, bench_follow, bench_tear_down)
{
    struct outcome outcome;

    bench_create(bench, "/a", &outcome);
    drive_entry(&bench->drive, bench_record(&bench->drive, bench_forwarded(bench), "/a"), 0);
    drive_persist(&bench->drive);
    assert_int_equal(outcome.answers, 0);
    bench_commit(&bench->drive, zxid_make(1, 1));
    assert_int_equal(outcome.answers, 1);
    assert_int_equal(outcome.err, ERR_OK);
    assert_int_equal(outcome.zxid, zxid_make(1, 1));
    assert_true(outcome.has_stat);
}

static void leader_refuses(struct bench *bench, uint64_t number, enum err err, zxid_t rests_on)
{
    struct op_result result;
    struct buf bytes;

    op_result_init(&result);
    result.err = err;
    result.zxid = rests_on;
    buf_init(&bytes, 4096);
    op_result_encode(&result, &bytes);
    drive_leader_says(&bench->drive, (struct zab_msg){.type = ZAB_FORWARD_REPLY,
                                                      .forward = {number, buf_slice(&bytes)}});
    buf_release(&bytes);
    op_result_release(&result);
}

TEST(a_refusal_waits_until_its_zxid_is_applied, bench, bench_follow, bench_tear_down)
{
    struct outcome outcome;

    bench_create(bench, "/a", &outcome);
    leader_refuses(bench, bench_forwarded(bench), ERR_NODE_EXISTS, zxid_make(1, 1));
    assert_int_equal(outcome.answers, 0);
    drive_entry(&bench->drive, bench_record(&bench->drive, 0, "/a"), 0);
    bench_commit(&bench->drive, zxid_make(1, 1));
    assert_int_equal(outcome.answers, 1);
    assert_int_equal(outcome.err, ERR_NODE_EXISTS);
}

/* That of an earlier release answers so a request that it cannot read. */
TEST(a_leader_that_does_not_know_the_request_is_named, bench, bench_follow, bench_tear_down)
{
    struct outcome outcome;

    bench_create(bench, "/a", &outcome);
    leader_refuses(bench, bench_forwarded(bench), ERR_FORMAT, 0);
    assert_int_equal(outcome.answers, 1);
    assert_int_equal(outcome.err, ERR_UNIMPLEMENTED);
    assert_string_equal(
        outcome.detail,
        "the release of the leader does not know this request: upgrade that replica first");
}

/* The record of the configuration that the leader makes of the request. */
static struct logrec *config_record(struct drive *drive, uint64_t request)
{
    const struct txn_header header = {.origin_member = 1,
                                      .origin_boot = BENCH_BOOT,
                                      .request = request,
                                      .age_ms = 5,
                                      .stamp_ms = 5};
    struct zab_config config = *zab_config(drive->observed);
    struct zab_config_parts parts = {.edit_count = 0};
    zxid_t zxid = drive_log_last(&drive->theirs) + 1;
    struct buf bytes;
    struct buf txn;

    buf_init(&txn, 4096);
    txn_begin(&txn, &header);
    parts.txn = buf_slice(&txn);
    config.version = zxid;
    config.hold = 1;
    buf_init(&bytes, ZAB_CONFIG_BYTES_MAX);
    assert_int_equal(zab_config_write(&config, &parts, &bytes), ERR_OK);
    struct logrec *rec = drive_log_add_type(&drive->theirs, LOGREC_CONFIG, zxid, buf_slice(&bytes));

    buf_release(&bytes);
    buf_release(&txn);
    return rec;
}

TEST(the_record_of_a_configuration_answers_its_client)
{
    struct bench bench;
    struct outcome outcome;

    bench_open_level(&bench, 1, 3, 1);
    drive_follow(&bench.drive, 3, 1);
    drive_clear(&bench.drive);
    struct op_request *request = bench_request(&bench, OP_LEVEL, "", &outcome);

    request->args.has_hold = true;
    request->args.hold = 1;
    bench_submit(&bench, request);
    drive_entry(&bench.drive, config_record(&bench.drive, bench_forwarded(&bench)), 0);
    assert_int_equal(outcome.answers, 0);
    bench_commit(&bench.drive, zxid_make(1, 1));
    assert_int_equal(outcome.answers, 1);
    assert_int_equal(outcome.err, ERR_OK);
    assert_int_equal(outcome.zxid, zxid_make(1, 1));
    assert_int_equal(zab_config(replica_zab(bench.replica))->hold, 1);
    bench_close(&bench);
}

TEST(a_refusal_whose_zxid_never_arrives_times_out, bench, bench_follow, bench_tear_down)
{
    struct outcome outcome;

    bench_create(bench, "/a", &outcome);
    leader_refuses(bench, bench_forwarded(bench), ERR_NODE_EXISTS, zxid_make(1, 9));
    drive_tick(&bench->drive, BENCH_TIMEOUT_MS + 100);
    assert_int_equal(outcome.answers, 1);
    assert_int_equal(outcome.err, ERR_REPLICA_BEHIND);
}

/* A larger zxid of the next epoch does not prove that the proposals behind the refusal were
 * committed. */
TEST(a_refusal_whose_epoch_ended_is_sent_again, bench, bench_follow, bench_tear_down)
{
    struct outcome outcome;

    bench_create(bench, "/a", &outcome);
    leader_refuses(bench, bench_forwarded(bench), ERR_NODE_EXISTS, zxid_make(1, 1));
    drive_down(&bench->drive, 3);
    drive_clear(&bench->drive);
    drive_follow(&bench->drive, 2, 2);
    assert_int_equal(outcome.answers, 0);
    assert_non_null(drive_sent(&bench->drive, 2, ZAB_FORWARD));
}

TEST(a_malformed_answer_of_the_leader_is_an_error, bench, bench_follow, bench_tear_down)
{
    struct outcome outcome;

    bench_create(bench, "/a", &outcome);
    drive_leader_says(&bench->drive,
                      (struct zab_msg){.type = ZAB_FORWARD_REPLY,
                                       .forward = {bench_forwarded(bench), slice_str("?")}});
    assert_int_equal(outcome.answers, 1);
    assert_int_equal(outcome.err, ERR_SYSTEM_ERROR);
}

TEST(an_answer_without_a_request_is_dropped, bench, bench_follow, bench_tear_down)
{
    struct outcome outcome;

    bench_create(bench, "/a", &outcome);
    leader_refuses(bench, bench_forwarded(bench) + 100, ERR_NO_NODE, 0);
    assert_int_equal(outcome.answers, 0);
    drive_entry(&bench->drive, bench_record(&bench->drive, bench_forwarded(bench), "/a"), 0);
    bench_commit(&bench->drive, zxid_make(1, 1));
    leader_refuses(bench, bench_forwarded(bench), ERR_NO_NODE, 0);
    assert_int_equal(outcome.answers, 1);
    assert_int_equal(outcome.err, ERR_OK);
}

TEST(a_read_with_a_minimum_waits_for_it, bench, bench_follow, bench_tear_down)
{
    struct outcome outcome;
    struct op_request *request;

    request = bench_request(bench, OP_GET, "/", &outcome);
    request->min_zxid = zxid_make(1, 1);
    bench_submit(bench, request);
    assert_int_equal(outcome.answers, 0);
    drive_entry(&bench->drive, bench_record(&bench->drive, 0, "/a"), 0);
    bench_commit(&bench->drive, zxid_make(1, 1));
    assert_int_equal(outcome.answers, 1);
    assert_int_equal(outcome.err, ERR_OK);
}

TEST(a_round_through_the_leader_waits_for_its_zxid, bench, bench_follow, bench_tear_down)
{
    struct outcome outcome;

    bench_submit(bench, bench_request(bench, OP_SYNC, "/", &outcome));
    uint64_t number = drive_sent(&bench->drive, 3, ZAB_READ_INDEX)->read_index.request;

    drive_leader_says(&bench->drive, (struct zab_msg){.type = ZAB_READ_REPLY,
                                                      .read_reply.request = number,
                                                      .read_reply.zxid = zxid_make(1, 1)});
    assert_int_equal(outcome.answers, 0);
    drive_entry(&bench->drive, bench_record(&bench->drive, 0, "/a"), 0);
    bench_commit(&bench->drive, zxid_make(1, 1));
    assert_int_equal(outcome.answers, 1);
    assert_int_equal(outcome.zxid, zxid_make(1, 1));
}

/* The bytes in flight to the leader are bounded; the rest waits here, in order. */
TEST(writes_beyond_the_bound_wait_here, bench, bench_follow, bench_tear_down)
{
    struct outcome outcome[BENCH_REQUESTS_MAX];
    size_t sent;

    for (int i = 0; i < BENCH_REQUESTS_MAX; i++) {
        bench_create(bench, "/a", &outcome[i]);
    }
    sent = drive_sent_count(&bench->drive, 3, ZAB_FORWARD);
    assert_true(sent > 1 && sent < BENCH_REQUESTS_MAX);
    leader_refuses(bench, 1, ERR_NODE_EXISTS, 0);
    assert_int_equal(outcome[0].answers, 1);
    assert_int_equal(drive_sent_count(&bench->drive, 3, ZAB_FORWARD), sent + 1);
    assert_int_equal(bench_forwarded(bench), sent + 1);
}

/* ---- Changes of leader. ---- */

TEST(without_a_leader_a_write_waits, bench, bench_wait, bench_tear_down)
{
    struct outcome outcome;

    bench_create(bench, "/a", &outcome);
    assert_int_equal(outcome.answers, 0);
    drive_follow(&bench->drive, 3, 1);
    assert_non_null(drive_sent(&bench->drive, 3, ZAB_FORWARD));
}

TEST(without_a_leader_a_write_is_refused_in_time, bench, bench_wait, bench_tear_down)
{
    struct outcome outcome;

    bench_create(bench, "/a", &outcome);
    drive_tick(&bench->drive, BENCH_TIMEOUT_MS + 100);
    assert_int_equal(outcome.answers, 1);
    assert_int_equal(outcome.err, ERR_NOT_READY);
}

TEST(a_write_at_the_leader_past_its_deadline_is_unknown, bench, bench_follow, bench_tear_down)
{
    struct outcome outcome;

    bench_create(bench, "/a", &outcome);
    drive_tick(&bench->drive, BENCH_TIMEOUT_MS + 100);
    assert_int_equal(outcome.answers, 1);
    assert_int_equal(outcome.err, ERR_OUTCOME_UNKNOWN);
}

/* Rule 7: a write that is missing from the new epoch's history cannot happen any more, so it is
 * sent again. */
TEST(a_lost_write_is_sent_to_the_next_leader, bench, bench_follow, bench_tear_down)
{
    struct outcome outcome;

    bench_create(bench, "/a", &outcome);
    uint64_t number = bench_forwarded(bench);

    drive_down(&bench->drive, 3);
    assert_int_equal(outcome.answers, 0);
    drive_clear(&bench->drive);
    drive_follow(&bench->drive, 2, 2);
    assert_int_equal(outcome.answers, 0);
    assert_int_equal(drive_sent(&bench->drive, 2, ZAB_FORWARD)->forward.request, number);
    assert_int_equal(drive_sent_count(&bench->drive, 2, ZAB_FORWARD), 1);
    assert_int_equal(bench_status(bench).counts.retried, 1);
    drive_entry(&bench->drive, bench_record(&bench->drive, number, "/a"), 0);
    bench_commit(&bench->drive, zxid_make(2, 1));
    assert_int_equal(outcome.answers, 1);
    assert_int_equal(outcome.err, ERR_OK);
}

/* The write was in the history after all: it is delivered, answered, and not done again. */
TEST(a_write_that_survived_its_leader_is_not_repeated, bench, bench_follow, bench_tear_down)
{
    struct outcome outcome;

    bench_create(bench, "/a", &outcome);
    drive_entry(&bench->drive, bench_record(&bench->drive, bench_forwarded(bench), "/a"), 0);
    drive_persist(&bench->drive);
    drive_down(&bench->drive, 3);
    drive_clear(&bench->drive);
    drive_follow(&bench->drive, 2, 2);
    assert_int_equal(outcome.answers, 1);
    assert_int_equal(outcome.err, ERR_OK);
    assert_int_equal(outcome.zxid, zxid_make(1, 1));
    assert_null(drive_sent(&bench->drive, 2, ZAB_FORWARD));
}

static void create_in_fifo(struct bench *bench, const char *path, uint32_t fifo,
                           struct outcome *outcome)
{
    struct op_request *request = bench_request(bench, OP_CREATE, path, outcome);

    request->fifo = fifo;
    bench_submit(bench, request);
}

/* Two writes, of which only the second is in the history of the next epoch: the leader refused the
 * first, and the reason is lost with it. */
static void lose_a_refusal(struct bench *bench, uint32_t first_fifo, struct outcome outcome[2])
{
    bench_follow(bench);
    create_in_fifo(bench, "/a", first_fifo, &outcome[0]);
    create_in_fifo(bench, "/b", 7, &outcome[1]);
    drive_entry(&bench->drive, bench_record(&bench->drive, bench_forwarded(bench), "/b"), 0);
    drive_persist(&bench->drive);
    drive_down(&bench->drive, 3);
    drive_clear(&bench->drive);
    drive_follow(&bench->drive, 2, 2);
    assert_int_equal(outcome[1].answers, 1);
    assert_int_equal(outcome[1].err, ERR_OK);
}

/* Done again, the first write would come after the second. */
TEST(a_write_overtaken_in_its_fifo_is_not_done)
{
    struct bench bench;
    struct outcome outcome[2];

    lose_a_refusal(&bench, 7, outcome);
    assert_null(drive_sent(&bench.drive, 2, ZAB_FORWARD));
    assert_int_equal(outcome[0].answers, 1);
    assert_int_equal(outcome[0].err, ERR_NOT_READY);
    bench_close(&bench);
    lose_a_refusal(&bench, 8, outcome); /* In another client's FIFO. */
    assert_int_equal(outcome[0].answers, 0);
    assert_non_null(drive_sent(&bench.drive, 2, ZAB_FORWARD));
    bench_close(&bench);
    lose_a_refusal(&bench, 0, outcome); /* Or in no FIFO. */
    assert_int_equal(outcome[0].answers, 0);
    assert_non_null(drive_sent(&bench.drive, 2, ZAB_FORWARD));
    bench_close(&bench);
}

/* A write whose outcome is unknown may have been done. */
TEST(a_write_behind_one_of_unknown_outcome_is_not_repeated, bench, bench_follow, bench_tear_down)
{
    struct outcome outcome[2];

    create_in_fifo(bench, "/a", 7, &outcome[0]);
    create_in_fifo(bench, "/b", 7, &outcome[1]);
    leader_refuses(bench, bench_forwarded(bench) - 1, ERR_NODE_EXISTS, zxid_make(1, 9));
    drive_down(&bench->drive, 3);
    drive_clear(&bench->drive);
    drive_follow_stream(&bench->drive, 3, 1);
    drive_newleader(&bench->drive, NULL);
    drive_leader_says(&bench->drive,
                      (struct zab_msg){.type = ZAB_UPTODATE, .commit.zxid = zxid_make(1, 0)});
    assert_int_equal(outcome[1].err, ERR_OUTCOME_UNKNOWN);
    assert_int_equal(outcome[0].answers, 1);
    assert_int_equal(outcome[0].err, ERR_NOT_READY);
    assert_null(drive_sent(&bench->drive, 3, ZAB_FORWARD));
}

/* The same epoch again: its leader may have the write, and may still append it to the log. */
TEST(back_at_the_same_epoch_the_outcome_is_unknown, bench, bench_follow, bench_tear_down)
{
    struct outcome outcome;

    bench_create(bench, "/a", &outcome);
    drive_down(&bench->drive, 3);
    drive_clear(&bench->drive);
    drive_follow_stream(&bench->drive, 3, 1);
    drive_newleader(&bench->drive, NULL);
    drive_leader_says(&bench->drive,
                      (struct zab_msg){.type = ZAB_UPTODATE, .commit.zxid = zxid_make(1, 0)});
    assert_int_equal(outcome.answers, 1);
    assert_int_equal(outcome.err, ERR_OUTCOME_UNKNOWN);
    assert_null(drive_sent(&bench->drive, 3, ZAB_FORWARD));
}

/* Unless the log contains it by now: then its delivery gives the answer. */
TEST(back_at_the_same_epoch_the_log_gives_the_answer, bench, bench_follow, bench_tear_down)
{
    struct outcome outcome;

    bench_create(bench, "/a", &outcome);
    uint64_t number = bench_forwarded(bench);

    drive_down(&bench->drive, 3);
    drive_clear(&bench->drive);
    drive_follow_stream(&bench->drive, 3, 1);
    drive_entry(&bench->drive, bench_record(&bench->drive, number, "/a"), 0);
    drive_newleader(&bench->drive, NULL);
    drive_persist(&bench->drive);
    drive_leader_says(&bench->drive,
                      (struct zab_msg){.type = ZAB_UPTODATE, .commit.zxid = zxid_make(1, 1)});
    assert_int_equal(outcome.answers, 1);
    assert_int_equal(outcome.err, ERR_OK);
    assert_int_equal(outcome.zxid, zxid_make(1, 1));
}

/* The delivery may have happened inside the snapshot, where no request can be recognised. */
TEST(after_a_replaced_state_the_outcome_is_unknown, bench, bench_follow, bench_tear_down)
{
    struct outcome outcome;

    bench_create(bench, "/a", &outcome);
    bench_install(bench, zxid_make(2, 5));
    bench->drive.restored_digest = bench_status(bench).digest;
    drive_restored(&bench->drive);
    bench_up_to_date(bench);
    assert_int_equal(outcome.answers, 1);
    assert_int_equal(outcome.err, ERR_OUTCOME_UNKNOWN);
    assert_null(drive_sent(&bench->drive, 2, ZAB_FORWARD));
}

static struct logrec *set_record(struct drive *drive, uint64_t request, const char *path)
{
    const struct txn_header header = {.origin_member = 1,
                                      .origin_boot = BENCH_BOOT,
                                      .request = request,
                                      .age_ms = 5,
                                      .stamp_ms = 5};
    struct buf txn;

    buf_init(&txn, 4096);
    txn_begin(&txn, &header);
    txn_put(&txn, &(struct txn_effect){
                      .type = TXN_SET, .flags = TXN_REPLY, .path = slice_str(path), .version = 1});
    struct logrec *rec = drive_log_add_type(&drive->theirs, LOGREC_TXN,
                                            drive_log_last(&drive->theirs) + 1, buf_slice(&txn));

    buf_release(&txn);
    return rec;
}

/* While the snapshot was being written, the write was done and the znode deleted: nothing here
 * knows the stat of that time. */
TEST(inside_a_fuzzy_snapshot_the_outcome_is_unknown, bench, bench_follow, bench_tear_down)
{
    struct outcome outcome;

    bench_submit(bench, bench_request(bench, OP_SET, "/gone", &outcome));
    uint64_t number = bench_forwarded(bench);

    bench_install(bench, zxid_make(2, 7));
    drive_entry(&bench->drive, set_record(&bench->drive, number, "/gone"), 0);
    drive_persist(&bench->drive);
    bench->drive.restored_digest = bench_end_digest();
    drive_restored(&bench->drive);
    bench_up_to_date(bench);
    assert_true(bench_has(bench, "/b"));
    assert_int_equal(outcome.answers, 1);
    assert_int_equal(outcome.err, ERR_OUTCOME_UNKNOWN);
    assert_false(outcome.has_stat);
}

/* ---- Decision 6: the digest at the end of a received snapshot. ---- */

TEST(an_exact_snapshot_is_checked_when_it_is_loaded, bench, bench_follow, bench_tear_down)
{
    bench_install(bench, zxid_make(2, 5));
    bench->drive.restored_digest = bench_status(bench).digest ^ 1;
    drive_restored(&bench->drive);
    assert_non_null(drive_asked(&bench->drive, ZAB_PERSIST_QUARANTINE));
    assert_null(drive_sent(&bench->drive, 2, ZAB_ACK_NEWLEADER));
    assert_int_equal(bench_status(bench).zab.state, ZAB_LOOKING);
}

TEST(a_fuzzy_snapshot_is_checked_where_the_log_covers_it, bench, bench_follow, bench_tear_down)
{
    uint64_t digest = bench_end_digest();

    bench_install(bench, zxid_make(2, 6));
    bench->drive.restored_digest = digest;
    drive_restored(&bench->drive);
    bench_up_to_date(bench);
    assert_null(drive_asked(&bench->drive, ZAB_PERSIST_QUARANTINE));
    assert_true(bench_status(bench).zab.serving);
    assert_true(bench_status(bench).readable);
}

TEST(a_diverged_state_answers_nothing, bench, bench_follow, bench_tear_down)
{
    struct outcome outcome;
    struct op_request *request;

    bench_install(bench, zxid_make(2, 6));
    bench->drive.restored_digest = 4711;
    drive_restored(&bench->drive);
    request = bench_request(bench, OP_GET, "/", &outcome);
    request->min_zxid = zxid_make(2, 6);
    bench_submit(bench, request);
    drive_clear(&bench->drive);
    bench_up_to_date(bench);
    assert_non_null(drive_asked(&bench->drive, ZAB_PERSIST_QUARANTINE));
    assert_int_equal(outcome.answers, 0);
    assert_false(bench_status(bench).zab.serving);
    assert_false(bench_status(bench).readable);
    drive_tick(&bench->drive, BENCH_TIMEOUT_MS + 100);
    assert_int_equal(outcome.err, ERR_REPLICA_BEHIND);
}

/* The write is committed after the end of the snapshot, but its stat would come from a wrong state.
 */
TEST(a_diverged_state_answers_no_write, bench, bench_follow, bench_tear_down)
{
    struct outcome outcome;

    bench_submit(bench, bench_request(bench, OP_SET, "/b", &outcome));
    uint64_t number = bench_forwarded(bench);

    bench_install(bench, zxid_make(2, 6));
    drive_entry(&bench->drive, set_record(&bench->drive, number, "/b"), 0);
    drive_persist(&bench->drive);
    bench->drive.restored_digest = 4711;
    drive_restored(&bench->drive);
    bench_up_to_date(bench);
    assert_int_equal(outcome.answers, 0);
    drive_tick(&bench->drive, BENCH_TIMEOUT_MS + 100);
    assert_int_equal(outcome.err, ERR_OUTCOME_UNKNOWN);
}

TEST(a_proposal_whose_epoch_ended_is_forwarded)
{
    struct bench bench;
    struct outcome outcome;
    struct drive *drive = &bench.drive;

    bench_lead(&bench);
    bench_create(&bench, "/a", &outcome);
    drive_persist(drive);
    drive_down(drive, 1);
    drive_down(drive, 2);
    drive_persist(drive);
    drive_clear(drive);
    drive_follow_acked(drive, 2, 2);
    drive_leader_says(drive, (struct zab_msg){.type = ZAB_SYNC, .sync.common = zxid_make(1, 0)});
    drive_persist(drive);
    drive_log_cut(&drive->theirs, zxid_make(1, 0));
    drive_newleader(drive, drive_log_add(&drive->theirs, zxid_make(2, 0)));
    drive_persist(drive);
    drive_leader_says(drive,
                      (struct zab_msg){.type = ZAB_UPTODATE, .commit.zxid = zxid_make(2, 0)});
    assert_int_equal(outcome.answers, 0);
    assert_non_null(drive_sent(drive, 2, ZAB_FORWARD));
    assert_false(bench_has(&bench, "/a"));
    bench_close(&bench);
}
