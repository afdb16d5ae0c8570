/* Sessions in a replica: writes in them, and reports of touches. */
#include "tests/unit/session_kit.h"

#include <stdio.h>

/* ---- Writes in a session. ---- */

TEST(a_client_of_the_leader_opens_uses_and_closes_a_session)
{
    struct bench bench;
    struct outcome outcome;

    uint64_t id = lead_with_session(&bench);

    bench_submit(&bench, ephemeral_request(&bench, "/e", 0, &outcome));
    commit_all(&bench);
    assert_int_equal(outcome.err, ERR_OK);
    assert_true(bench_has(&bench, "/e"));
    bench_submit(&bench, session_request(&bench, OP_CLOSE, &outcome));
    commit_all(&bench);
    assert_int_equal(outcome.err, ERR_OK);
    assert_false(outcome.has_session);
    assert_false(bench_has(&bench, "/e"));
    assert_false(session_lives(&bench, id));
    bench_close(&bench);
}

TEST(a_move_answers_with_the_new_attachment)
{
    struct bench bench;
    struct outcome outcome;
    struct outcome late;

    uint64_t id = lead_with_session(&bench);

    bench_submit(&bench, session_request(&bench, OP_ATTACH, &outcome));
    commit_all(&bench);
    assert_int_equal(outcome.session.id, id);
    assert_int_equal(outcome.session.attach, outcome.zxid);
    assert_int_equal(outcome.session.member, LEADER);
    uint64_t first = outcome.session.attach;

    bench_submit(&bench, session_request(&bench, OP_ATTACH, &outcome));
    commit_all(&bench);
    assert_true(outcome.session.attach > first);

    /* The old socket is refused; the new one and plain HTTP are not. */
    bench_submit(&bench, ephemeral_request(&bench, "/old", first, &late));
    drive_recv(&bench.drive, 1,
               &(struct zab_msg){.type = ZAB_CONFIRM_ACK,
                                 .dialogue = bench.drive.dialogues[1],
                                 .epoch = bench.drive.promised,
                                 .confirm.round =
                                     drive_sent(&bench.drive, 1, ZAB_CONFIRM)->confirm.round});
    assert_int_equal(late.err, ERR_SESSION_MOVED);
    bench_submit(&bench, ephemeral_request(&bench, "/new", outcome.session.attach, &outcome));
    bench_submit(&bench, ephemeral_request(&bench, "/http", 0, &late));
    commit_all(&bench);
    assert_int_equal(outcome.err, ERR_OK);
    assert_int_equal(late.err, ERR_OK);
    bench_close(&bench);
}

static void learner_forwards(struct bench *bench, uint32_t peer, uint64_t number,
                             struct op_request *take_request)
{
    struct buf bytes;

    buf_init(&bytes, 1 << 16);
    forward_encode(99, take_request, &bytes);
    struct zab_msg msg = {.type = ZAB_FORWARD,
                          .dialogue = bench->drive.dialogues[peer],
                          .epoch = bench->drive.promised,
                          .forward.request = number,
                          .forward.bytes = buf_slice(&bytes)};

    drive_recv(&bench->drive, peer, &msg);
    buf_release(&bytes);
    op_request_free(take_request);
}

TEST(a_learners_write_is_in_its_session)
{
    struct bench bench;
    struct outcome outcome;
    struct stat_view stat;

    uint64_t id = lead_with_session(&bench);

    learner_forwards(&bench, 1, 7, ephemeral_request(&bench, "/e", 0, &outcome));
    commit_all(&bench);
    const struct state *tree = view_read(bench.view);

    assert_non_null(state_find(tree, slice_str("/e")));
    znode_stat(state_find(tree, slice_str("/e")), &stat);
    view_read_done(bench.view);
    assert_int_equal(stat.ephemeral_owner, id);
    bench_close(&bench);
}

TEST(a_forward_carries_the_whole_request, bench, bench_lead, bench_tear_down)
{
    struct outcome outcome;
    struct forwarded got;
    struct buf bytes;

    struct op_request *request = ephemeral_request(bench, "/e", 77, &outcome);

    request->key = slice_str("5b7c");
    (void)snprintf(request->principal.address, sizeof request->principal.address, "::1");
    assert_int_equal(
        auth_add(NULL, slice_str("digest"), slice_str("u:p"), "", &request->principal.auth),
        ERR_OK);
    buf_init(&bytes, 1 << 16);
    forward_encode(99, request, &bytes);
    assert_true(forward_decode(buf_slice(&bytes), &got));
    assert_int_equal(got.header.origin_boot, 99);
    assert_string_equal(got.job.who->address, "::1");
    assert_int_equal(got.job.who->auth->count, 1);
    assert_true(got.job.session->shown);
    assert_int_equal(got.job.session->attach, 77);
    assert_memory_equal(got.job.session->hash, request->session.hash, TXN_SECRET_HASH_LEN);
    assert_true(slice_eq(got.job.key, slice_str("5b7c")));
    assert_true(got.job.args->ephemeral);
    forwarded_release(&got);
    /* A request that is cut off is refused. */
    for (size_t len = 0; len < bytes.len; len++) {
        assert_false(forward_decode(slice_make(bytes.data, len), &got));
    }
    buf_release(&bytes);
    op_request_free(request);
}

/* ---- A learner. ---- */

static struct logrec *session_record(struct bench *bench, uint64_t request)
{
    const struct txn_header header = {.origin_member = 1,
                                      .origin_boot = BENCH_BOOT,
                                      .request = request,
                                      .age_ms = 5,
                                      .stamp_ms = 5};
    zxid_t zxid = drive_log_last(&bench->drive.theirs) + 1;
    struct txn_session_open open = {.session = zxid, .timeout_ms = BENCH_SESSION_MS};
    struct buf txn;

    memset(open.secret_hash, HASH, sizeof open.secret_hash);
    buf_init(&txn, 4096);
    txn_begin(&txn, &header);
    txn_put(&txn, &(struct txn_effect){.type = TXN_SESSION_OPEN, .flags = TXN_REPLY, .open = open});
    struct logrec *rec =
        drive_log_add_type(&bench->drive.theirs, LOGREC_TXN, zxid, buf_slice(&txn));

    buf_release(&txn);
    return rec;
}

TEST(a_session_opens_on_a_learner, bench, bench_follow, bench_tear_down)
{
    struct outcome outcome;

    bench_submit(bench, session_request(bench, OP_SESSION, &outcome));
    drive_entry(&bench->drive, session_record(bench, bench_forwarded(bench)), 0);
    bench_commit(&bench->drive, zxid_make(1, 1));
    assert_int_equal(outcome.answers, 1);
    assert_int_equal(outcome.err, ERR_OK);
    assert_true(outcome.has_session);
    assert_int_equal(outcome.session.id, zxid_make(1, 1));
    assert_int_equal(outcome.session.timeout_ms, BENCH_SESSION_MS);
    assert_true(session_lives(bench, zxid_make(1, 1)));
}

/* The newest report that left, decoded; -1: none. */
static int report_sent(struct bench *bench, uint32_t leader, uint64_t *ret_first)
{
    const struct zab_msg *msg = drive_sent(&bench->drive, leader, ZAB_FORWARD);
    struct wire_reader ids;
    struct report report;

    if (!msg || msg->forward.request != REPORT_NUMBER) {
        return -1;
    }
    assert_true(report_decode(msg->forward.bytes, &ids, &report));
    assert_true(report.last);
    *ret_first = report.count > 0 ? wire_get_u64(&ids) : 0;
    return (int)report.count;
}

/* The mark that the newest report names. */
static uint64_t mark_reported(struct bench *bench)
{
    const struct zab_msg *msg = drive_sent(&bench->drive, LEADER, ZAB_FORWARD);
    struct wire_reader ids;
    struct report report;

    assert_non_null(msg);
    assert_true(report_decode(msg->forward.bytes, &ids, &report));
    return report.mark;
}

/* A PING with the heartbeat of the replica `id` in that epoch. */
static void pinged(struct bench *bench, uint32_t id, uint32_t epoch, uint64_t mark)
{
    struct heartbeat heartbeat = {
        .id = id, .at_ms = bench->drive.now_ms, .role = ROLE_LEADER, .epoch = epoch, .mark = mark};
    struct buf bytes;

    buf_init(&bytes, ZAB_PING_PAYLOAD_MAX);
    heartbeats_encode(&heartbeat, 1, bench->drive.now_ms, &bytes);
    drive_leader_says(&bench->drive,
                      (struct zab_msg){.type = ZAB_PING, .ping.payload = buf_slice(&bytes)});
    buf_release(&bytes);
}

TEST(a_report_names_the_newest_mark_of_the_leader, bench, bench_follow, bench_tear_down)
{
    drive_tick(&bench->drive, REPORT_MS);
    assert_int_equal(mark_reported(bench), 0);
    pinged(bench, LEADER, 1, 700);
    pinged(bench, LEADER, 1, 900);
    drive_tick(&bench->drive, REPORT_MS);
    assert_int_equal(mark_reported(bench), 900);
    drive_tick(&bench->drive, REPORT_MS);
    assert_int_equal(mark_reported(bench), 900);
}

/* Each term of a leader has its own time. */
TEST(a_mark_of_another_term_is_not_named, bench, bench_follow, bench_tear_down)
{
    pinged(bench, 2, 1, 500);
    drive_tick(&bench->drive, REPORT_MS);
    assert_int_equal(mark_reported(bench), 0);
    pinged(bench, LEADER, 1, 700);
    drive_down(&bench->drive, LEADER);
    drive_follow(&bench->drive, LEADER, 2);
    drive_clear(&bench->drive);
    drive_tick(&bench->drive, REPORT_MS);
    assert_int_equal(mark_reported(bench), 0);
    pinged(bench, LEADER, 2, 10);
    drive_tick(&bench->drive, REPORT_MS);
    assert_int_equal(mark_reported(bench), 10);
}

TEST(a_learner_reports_twice_a_tick, bench, bench_follow, bench_tear_down)
{
    uint64_t first = 0;

    touch_add(bench->touched, 55);
    touch_add(bench->touched, 55);
    drive_tick(&bench->drive, REPORT_MS);
    assert_int_equal(report_sent(bench, LEADER, &first), 1);
    assert_int_equal(first, 55);
    drive_clear(&bench->drive);
    drive_tick(&bench->drive, REPORT_MS);
    assert_int_equal(drive_sent_count(&bench->drive, LEADER, ZAB_FORWARD), 1);
    assert_int_equal(report_sent(bench, LEADER, &first), 0); /* An empty report is sent as well. */
}

/* The front ends have not yet read what clients sent during the pause: before they have, an empty
 * report would be wrong. */
TEST(a_paused_learner_reads_its_sockets_before_it_reports, bench, bench_follow, bench_tear_down)
{
    uint64_t first = 0;

    drive_tick(&bench->drive, REPORT_MS);
    drive_clear(&bench->drive);
    drive_pause(&bench->drive, 3 * REPORT_MS);
    assert_int_equal(report_sent(bench, LEADER, &first), -1);
    touch_add(bench->touched, 55);
    drive_tick(&bench->drive, REPORT_MS);
    assert_int_equal(report_sent(bench, LEADER, &first), 1);
    assert_int_equal(first, 55);
}

TEST(many_touches_are_reported_in_parts, bench, bench_follow, bench_tear_down)
{
    uint64_t first = 0;

    for (uint64_t i = 1; i <= REPORT_IDS_MAX + 1; i++) {
        assert_true(touch_add(bench->touched, i));
    }
    drive_tick(&bench->drive, REPORT_MS);
    assert_int_equal(drive_sent_count(&bench->drive, LEADER, ZAB_FORWARD), 2);
    assert_int_equal(report_sent(bench, LEADER, &first), 1);
    assert_int_equal(first, REPORT_IDS_MAX + 1);
}

/* An accepted heartbeat is not lost with the leader. */
TEST(touches_wait_for_the_next_leader, bench, bench_follow, bench_tear_down)
{
    uint64_t first = 0;

    drive_down(&bench->drive, LEADER);
    touch_add(bench->touched, 55);
    drive_tick(&bench->drive, REPORT_MS);
    drive_clear(&bench->drive);
    drive_follow(&bench->drive, 2, 2);
    drive_tick(&bench->drive, REPORT_MS);
    assert_int_equal(report_sent(bench, 2, &first), 1);
    assert_int_equal(first, 55);
}

TEST(a_learner_expires_no_session, bench, bench_follow, bench_tear_down)
{
    zxid_t last;

    drive_entry(&bench->drive, session_record(bench, 1), 0);
    bench_commit(&bench->drive, zxid_make(1, 1));
    last = bench_status(bench).zab.last;
    drive_tick(&bench->drive, 2 * BENCH_SESSION_MS);
    assert_int_equal(bench_status(bench).zab.last, last);
    assert_int_equal(bench_status(bench).counts.expired, 0);
}
