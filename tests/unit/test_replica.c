/* The life of a request in the leader, and the bounds that apply in any replica. */
#include "server/replica/replica_int.h"
#include "tests/lib/replica_bench.h"
#include "tests/lib/unit.h"

enum {
    GIVE_UP_MS = 2000 /* Two ticks. */
};

TEST(a_write_is_answered_when_it_is_applied, bench, bench_lead, bench_tear_down)
{
    struct outcome outcome;

    bench_create(bench, "/a", &outcome);
    assert_int_equal(drive_sent(&bench->drive, 1, ZAB_ENTRY)->entry.rec->zxid, zxid_make(1, 1));
    drive_persist(&bench->drive);
    assert_int_equal(outcome.answers, 0);
    assert_false(bench_has(bench, "/a"));
    drive_learner_says(&bench->drive, 1, ZAB_ACK, zxid_make(1, 1));
    assert_int_equal(outcome.answers, 1);
    assert_int_equal(outcome.err, ERR_OK);
    assert_int_equal(outcome.zxid, zxid_make(1, 1));
    assert_true(outcome.has_stat);
    assert_true(bench_has(bench, "/a"));
}

static void confirm_round(struct bench *bench, uint32_t peer)
{
    struct zab_msg msg = {.type = ZAB_CONFIRM_ACK,
                          .dialogue = bench->drive.dialogues[peer],
                          .epoch = bench->drive.promised,
                          .confirm.round =
                              drive_sent(&bench->drive, peer, ZAB_CONFIRM)->confirm.round};

    drive_recv(&bench->drive, peer, &msg);
}

/* Decision 5: a leader that was paused could refuse a request on the basis of an outdated tree. */
TEST(a_refusal_waits_for_a_round, bench, bench_lead, bench_tear_down)
{
    struct outcome outcome;

    bench_create(bench, "/no/parent", &outcome);
    assert_null(drive_asked(&bench->drive, ZAB_PERSIST_APPEND));
    assert_int_equal(outcome.answers, 0);
    confirm_round(bench, 1);
    assert_int_equal(outcome.answers, 1);
    assert_int_equal(outcome.err, ERR_NO_NODE);
    assert_int_equal(outcome.zxid, zxid_make(1, 0));
}

/* The refusal depends on a proposal that is not committed yet: its answer waits for it. */
TEST(a_refusal_waits_for_the_proposals_behind_it, bench, bench_lead, bench_tear_down)
{
    struct outcome first;
    struct outcome second;

    bench_create(bench, "/a", &first);
    bench_create(bench, "/a", &second);
    confirm_round(bench, 1);
    assert_int_equal(second.answers, 0);
    drive_persist(&bench->drive);
    drive_learner_says(&bench->drive, 1, ZAB_ACK, zxid_make(1, 1));
    assert_int_equal(first.err, ERR_OK);
    assert_int_equal(second.answers, 1);
    assert_int_equal(second.err, ERR_NODE_EXISTS);
    assert_int_equal(second.zxid, zxid_make(1, 1));
}

TEST(a_refusal_ends_with_the_role, bench, bench_lead, bench_tear_down)
{
    struct outcome outcome;

    bench_create(bench, "/no/parent", &outcome);
    drive_down(&bench->drive, 1);
    drive_down(&bench->drive, 2);
    assert_int_equal(outcome.answers, 0);
    drive_tick(&bench->drive, BENCH_TIMEOUT_MS + 100);
    assert_int_equal(outcome.answers, 1);
    assert_int_equal(outcome.err, ERR_NOT_READY);
}

/* The maximum of rounds is waiting, so the refusal waits too; the leader prepares the request again
 * when there is room. */
TEST(a_refusal_waits_for_room_for_its_round, bench, bench_lead, bench_tear_down)
{
    enum {
        ROUNDS_MAX = 65536
    };

    struct outcome outcome;
    struct op_args element;
    struct op_request *multi;

    for (uint64_t i = 0; i <= ROUNDS_MAX; i++) {
        drive_recv(&bench->drive, 1,
                   &(struct zab_msg){.type = ZAB_READ_INDEX,
                                     .dialogue = bench->drive.dialogues[1],
                                     .epoch = bench->drive.promised,
                                     .read_index.request = i + 1});
    }
    op_args_init(&element, OP_DELETE);
    element.path = slice_str("/none");
    multi = bench_request(bench, OP_MULTI, "/", &outcome);
    multi->args.ops = &element;
    multi->args.op_count = 1;
    bench_submit(bench, multi);
    drive_tick(&bench->drive, 10);
    assert_int_equal(outcome.answers, 0);
    for (int round = 0; round < 3 && outcome.answers == 0; round++) {
        confirm_round(bench, 2);
        drive_tick(&bench->drive, 10);
    }
    assert_int_equal(outcome.answers, 1);
    assert_int_equal(outcome.err, ERR_NO_NODE);
}

TEST(a_linearizable_read_waits_for_a_round, bench, bench_lead, bench_tear_down)
{
    struct outcome outcome;
    struct op_request *request;

    request = bench_request(bench, OP_GET, "/", &outcome);
    request->consistency = OP_LINEARIZABLE;
    bench_submit(bench, request);
    assert_int_equal(outcome.answers, 0);
    confirm_round(bench, 2);
    assert_int_equal(outcome.answers, 1);
    assert_int_equal(outcome.err, ERR_OK);
}

static void learner_forwards(struct bench *bench, uint32_t peer, uint64_t number, const char *path)
{
    struct outcome none;
    struct op_request *request = bench_request(bench, OP_CREATE, path, &none);
    struct buf bytes;

    buf_init(&bytes, 1 << 16);
    forward_encode(99, request, &bytes);
    op_request_free(request);
    struct zab_msg msg = {.type = ZAB_FORWARD,
                          .dialogue = bench->drive.dialogues[peer],
                          .epoch = bench->drive.promised,
                          .forward.request = number,
                          .forward.bytes = buf_slice(&bytes)};

    drive_recv(&bench->drive, peer, &msg);
    buf_release(&bytes);
}

TEST(a_learners_write_names_its_origin, bench, bench_lead, bench_tear_down)
{
    struct txn_header header;
    struct wire_reader reader;

    learner_forwards(bench, 1, 17, "/a");
    const struct logrec *rec = drive_asked(&bench->drive, ZAB_PERSIST_APPEND)->append.rec;

    assert_int_equal(txn_open(&reader, logrec_payload(rec), &header), ERR_OK);
    assert_int_equal(header.origin_member, 1);
    assert_int_equal(header.origin_boot, 99);
    assert_int_equal(header.request, 17);
}

TEST(a_learners_refusal_waits_for_a_round, bench, bench_lead, bench_tear_down)
{
    struct op_result result;

    learner_forwards(bench, 1, 17, "/no/parent");
    assert_null(drive_sent(&bench->drive, 1, ZAB_FORWARD_REPLY));
    confirm_round(bench, 2);
    const struct zab_msg *reply = drive_sent(&bench->drive, 1, ZAB_FORWARD_REPLY);

    assert_int_equal(reply->forward.request, 17);
    op_result_init(&result);
    assert_int_equal(op_result_decode(reply->forward.bytes, &result), ERR_OK);
    assert_int_equal(result.err, ERR_NO_NODE);
    assert_int_equal(result.zxid, zxid_make(1, 0));
    op_result_release(&result);
}

TEST(a_learners_malformed_request_is_refused, bench, bench_lead, bench_tear_down)
{
    struct zab_msg msg = {.type = ZAB_FORWARD, .epoch = 1, .forward.request = 3};

    msg.dialogue = bench->drive.dialogues[1];
    msg.forward.bytes = slice_str("?");
    drive_recv(&bench->drive, 1, &msg);
    confirm_round(bench, 2);
    assert_non_null(drive_sent(&bench->drive, 1, ZAB_FORWARD_REPLY));
}

TEST(a_single_replica_answers_by_itself)
{
    struct bench bench;
    struct outcome good;
    struct outcome bad;

    bench_open(&bench, 1, 1);
    drive_persist(&bench.drive);
    bench_create(&bench, "/a", &good);
    assert_int_equal(good.answers, 0);
    bench_create(&bench, "/no/parent", &bad);
    assert_int_equal(bad.answers, 0);
    drive_persist(&bench.drive);
    assert_int_equal(good.err, ERR_OK);
    assert_int_equal(bad.answers, 1);
    assert_int_equal(bad.err, ERR_NO_NODE);
    bench_close(&bench);
}

/* ---- FIFOs. ---- */

static void submit_in_fifo(struct bench *bench, enum op_id op, const char *path, uint32_t fifo,
                           struct outcome *outcome)
{
    struct op_request *request = bench_request(bench, op, path, outcome);

    request->fifo = fifo;
    bench_submit(bench, request);
}

/* The round of a sync does not cover uncommitted writes: its answer would name a state without the
 * earlier write on the same socket. */
TEST(a_sync_is_answered_after_the_writes_of_its_fifo, bench, bench_lead, bench_tear_down)
{
    struct outcome first;
    struct outcome second;
    struct outcome sync;
    struct outcome other;

    submit_in_fifo(bench, OP_CREATE, "/a", 7, &first);
    submit_in_fifo(bench, OP_SYNC, "", 7, &sync);
    submit_in_fifo(bench, OP_SYNC, "", 8, &other);
    submit_in_fifo(bench, OP_CREATE, "/b", 7, &second);
    confirm_round(bench, 1);
    confirm_round(bench, 1); /* Requests that arrive during the first round need another one. */
    assert_int_equal(sync.answers, 0);
    assert_int_equal(other.answers, 1); /* A request of another FIFO has nothing to wait for. */
    drive_persist(&bench->drive);
    drive_learner_says(&bench->drive, 1, ZAB_ACK, zxid_make(1, 1));
    assert_int_equal(first.answers, 1);
    assert_int_equal(sync.answers, 1); /* The sync does not wait for later writes. */
    assert_int_equal(sync.err, ERR_OK);
    assert_int_equal(sync.zxid, zxid_make(1, 1));
    assert_int_equal(second.answers, 0);
}

TEST(linearizable_reads_are_answered_after_the_writes_of_their_fifo, bench, bench_lead,
     bench_tear_down)
{
    struct outcome write;
    struct outcome reads[2];

    submit_in_fifo(bench, OP_CREATE, "/a", 7, &write);
    for (int i = 0; i < 2; i++) {
        struct op_request *request = bench_request(bench, OP_GET, "/a", &reads[i]);

        request->fifo = 7;
        request->consistency = OP_LINEARIZABLE;
        bench_submit(bench, request);
    }
    confirm_round(bench, 1);
    confirm_round(bench, 1);
    assert_int_equal(reads[0].answers + reads[1].answers, 0);
    drive_persist(&bench->drive);
    drive_learner_says(&bench->drive, 1, ZAB_ACK, zxid_make(1, 1));
    assert_int_equal(write.answers, 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(reads[i].answers, 1);
        assert_int_equal(reads[i].zxid, zxid_make(1, 1));
    }
}

/* Whatever the outcome of the write: its deadline is not after the sync's. */
TEST(a_sync_ends_when_the_write_before_it_does, bench, bench_lead, bench_tear_down)
{
    struct outcome write;
    struct outcome first;
    struct outcome second;

    submit_in_fifo(bench, OP_CREATE, "/a", 7, &write);
    submit_in_fifo(bench, OP_SYNC, "", 7, &first);
    confirm_round(bench, 1);
    drive_tick(&bench->drive, BENCH_TIMEOUT_MS / 2);
    submit_in_fifo(bench, OP_SYNC, "", 7, &second);
    confirm_round(bench, 1);
    assert_int_equal(first.answers + second.answers, 0);
    drive_tick(&bench->drive, BENCH_TIMEOUT_MS / 2 + 100);
    assert_int_equal(write.err, ERR_OUTCOME_UNKNOWN);
    assert_int_equal(first.answers, 1);
    assert_int_equal(first.err, ERR_NOT_READY);
    assert_int_equal(second.answers, 1);
    assert_int_equal(second.err, ERR_OK);
}

/* ---- Bounds and the end. ---- */

static void resign(struct bench *bench, bool flag)
{
    struct zab_event event = {.type = ZAB_EV_RESIGN, .is_to_resign = flag};

    drive_step(&bench->drive, &event);
}

/* Forwards requests of a learner until one is refused; returns the number of the refused one. */
static uint64_t forward_until_refused(struct bench *bench, uint32_t peer)
{
    uint64_t number = 0;

    while (!drive_sent(&bench->drive, peer, ZAB_FORWARD_REPLY)) {
        assert_true(number < 100);
        learner_forwards(bench, peer, ++number, "/a");
    }
    return number;
}

TEST(waiting_writes_of_learners_are_bounded_in_bytes, bench, bench_lead, bench_tear_down)
{
    struct outcome outcome;
    struct op_result result;

    bench_create(bench, "/own", &outcome);
    resign(bench, true); /* Nothing is proposed for now. */
    uint64_t first = forward_until_refused(bench, 1);
    uint64_t second = forward_until_refused(bench, 2);

    /* The bound is per learner: others have room. */
    assert_true(first > 5 && second > 1 && second < first);
    const struct zab_msg *reply = drive_sent(&bench->drive, 1, ZAB_FORWARD_REPLY);

    assert_int_equal(reply->forward.request, first);
    op_result_init(&result);
    assert_int_equal(op_result_decode(reply->forward.bytes, &result), ERR_OK);
    assert_int_equal(result.err, ERR_THROTTLED);
    op_result_release(&result);
    /* The kept requests are done, and there is room again. */
    resign(bench, false);
    drive_tick(&bench->drive, 600);
    drive_clear(&bench->drive);
    resign(bench, true);
    assert_int_equal(forward_until_refused(bench, 1), first);
}

static void waits(struct bench *bench, uint32_t peer)
{
    lead_forwarded(bench->replica,
                   &(struct zab_forwarded){
                       .peer = peer, .dialogue = 1, .request = 1, .bytes = slice_str("a request")});
}

/* As many learners as the ensemble may have, but others in the course of time. */
TEST(a_learner_without_waiting_writes_takes_no_place, bench, bench_wait, bench_tear_down)
{
    const struct replica_learners *learners = &bench->replica->learners;

    for (uint32_t peer = 1000; peer < 1200; peer++) {
        waits(bench, peer);
        assert_int_equal(learners->forward_count, 1);
        lead_clear(bench->replica);
    }
    bench->replica->options.forward_bytes_max = 1 << 20;
    for (uint32_t peer = 1000; peer < 1000 + ZAB_MEMBERS_MAX; peer++) {
        waits(bench, peer);
    }
    assert_int_equal(learners->forward_count, ZAB_MEMBERS_MAX);
    waits(bench, 7);
    assert_int_equal(learners->forward_count, ZAB_MEMBERS_MAX);
    waits(bench, 1000);
    assert_int_equal(learners->forward_count, ZAB_MEMBERS_MAX + 1);
}

TEST(queued_writes_keep_their_order, bench, bench_wait, bench_tear_down)
{
    struct outcome outcome[3];
    uint64_t last = 0;

    bench_create(bench, "/a", &outcome[0]);
    bench_create(bench, "/b", &outcome[1]);
    bench_create(bench, "/c", &outcome[2]);
    drive_follow(&bench->drive, 3, 1);
    for (size_t i = 0; i < bench->drive.seen_count; i++) {
        const struct zab_effect *effect = &bench->drive.seen[i];

        if (effect->type == ZAB_FX_SEND && effect->send.msg.type == ZAB_FORWARD) {
            assert_true(effect->send.msg.forward.request > last);
            last = effect->send.msg.forward.request;
        }
    }
    assert_int_equal(drive_sent_count(&bench->drive, 3, ZAB_FORWARD), 3);
}

TEST(a_queued_write_of_a_client_that_has_gone_is_dropped, bench, bench_wait, bench_tear_down)
{
    struct outcome gone;
    struct outcome wanted;
    struct op_request *request = bench_request(bench, OP_CREATE, "/a", &gone);

    bench_submit(bench, request);
    bench_create(bench, "/b", &wanted);
    atomic_store(&request->abandoned, true);
    drive_follow(&bench->drive, 3, 1);
    assert_int_equal(gone.err, ERR_NOT_READY);
    assert_int_equal(drive_sent_count(&bench->drive, 3, ZAB_FORWARD), 1);
    drive_entry(&bench->drive, bench_record(&bench->drive, bench_forwarded(bench), "/b"), 0);
    bench_commit(&bench->drive, zxid_make(1, 1));
    assert_int_equal(wanted.err, ERR_OK);
}

/* The client may go before this replica has taken its request. */
TEST(a_new_write_of_a_client_that_has_gone_is_dropped, bench, bench_follow, bench_tear_down)
{
    struct outcome gone;
    struct op_request *request = bench_request(bench, OP_CREATE, "/a", &gone);

    atomic_store(&request->abandoned, true);
    bench_submit(bench, request);
    assert_int_equal(gone.err, ERR_NOT_READY);
    assert_int_equal(drive_sent_count(&bench->drive, 3, ZAB_FORWARD), 0);
}

TEST(too_many_requests_are_refused_at_once, bench, bench_wait, bench_tear_down)
{
    struct outcome outcome[BENCH_REQUESTS_MAX + 1];

    for (int i = 0; i <= BENCH_REQUESTS_MAX; i++) {
        bench_create(bench, "/a", &outcome[i]);
    }
    assert_int_equal(outcome[BENCH_REQUESTS_MAX].err, ERR_THROTTLED);
    assert_int_equal(outcome[BENCH_REQUESTS_MAX - 1].answers, 0);
    assert_int_equal(bench_status(bench).requests, BENCH_REQUESTS_MAX);
}

TEST(draining_refuses_new_requests_and_finishes_old_ones, bench, bench_follow, bench_tear_down)
{
    struct outcome old;
    struct outcome late;

    bench_create(bench, "/a", &old);
    assert_false(replica_drain(bench->replica, bench->drive.now_ms, &bench->effects));
    bench_take(bench);
    bench_create(bench, "/b", &late);
    assert_int_equal(late.err, ERR_NOT_READY);
    assert_int_equal(old.answers, 0);
    drive_entry(&bench->drive, bench_record(&bench->drive, bench_forwarded(bench), "/a"), 0);
    bench_commit(&bench->drive, zxid_make(1, 1));
    assert_int_equal(old.err, ERR_OK);
    assert_true(replica_drain(bench->replica, bench->drive.now_ms, &bench->effects));
    bench_take(bench);
}

/* All replicas may be shutting down: then no leader appears that a write could wait for. */
TEST(draining_does_not_wait_for_a_leader, bench, bench_follow, bench_tear_down)
{
    struct outcome queued;
    struct op_request *request = NULL;

    drive_down(&bench->drive, 3);
    request = bench_request(bench, OP_CREATE, "/a", &queued);
    request->deadline_ms += GIVE_UP_MS;
    bench_submit(bench, request);
    assert_false(replica_drain(bench->replica, bench->drive.now_ms, &bench->effects));
    bench_take(bench);
    assert_int_equal(queued.answers, 0);
    drive_tick(&bench->drive, GIVE_UP_MS);
    assert_true(replica_drain(bench->replica, bench->drive.now_ms, &bench->effects));
    assert_int_equal(queued.err, ERR_NOT_READY);
    bench_take(bench);
}

TEST(a_draining_leader_hands_over, bench, bench_lead, bench_tear_down)
{
    (void)replica_drain(bench->replica, bench->drive.now_ms, &bench->effects);
    bench_take(bench);
    drive_tick(&bench->drive, 10);
    assert_int_equal(drive_status(&bench->drive).state, ZAB_LOOKING);
    assert_non_null(drive_sent(&bench->drive, 1, ZAB_RESIGN));
    assert_true(replica_drain(bench->replica, bench->drive.now_ms, &bench->effects));
    bench_take(bench);
}

TEST(closing_answers_every_request)
{
    struct bench bench;
    struct outcome sent;
    struct outcome queued;

    bench_follow(&bench);
    bench_create(&bench, "/a", &sent);
    drive_down(&bench.drive, 3);
    bench_create(&bench, "/b", &queued);
    bench_close(&bench);
    assert_int_equal(sent.err, ERR_OUTCOME_UNKNOWN);
    assert_int_equal(queued.err, ERR_NOT_READY);
}

/* A learner waits for a snapshot, and no snapshot verifies any more. */
TEST(a_snapshot_is_taken_when_none_can_be_sent, bench, bench_lead, bench_tear_down)
{
    struct zab_event none = {.type = ZAB_EV_SNAP_FETCHED, .snap_fetched.err = ERR_MISSING};

    assert_false(bench->effects.take_snapshot);
    drive_step(&bench->drive, &none);
    assert_true(bench->effects.take_snapshot);
    assert_int_equal(bench->effects.snap_start, bench_status(bench).applied);
    bench->effects.take_snapshot = false;
    drive_step(&bench->drive, &none);
    assert_false(bench->effects.take_snapshot); /* One is in progress. */
    replica_snapshot_failed(bench->replica);
    drive_step(&bench->drive, &none);
    assert_true(bench->effects.take_snapshot);
}

/* Nothing of it is applied, and nothing after it. */
TEST(a_transaction_of_a_later_version_ends_the_process)
{
    const uint8_t txn[] = {TXN_VERSION + 1, 0};
    struct bench bench;
    struct drive *drive = &bench.drive;

    bench_follow(&bench);
    drive_entry(drive, bench_record(drive, 0, "/before"), 0);
    drive_entry(drive,
                drive_log_add_type(&drive->theirs, LOGREC_TXN, drive_log_last(&drive->theirs) + 1,
                                   slice_make(txn, sizeof txn)),
                0);
    drive_entry(drive, bench_record(drive, 0, "/after"), 0);
    bench_commit(drive, zxid_make(1, 3));
    assert_string_equal(drive_notice(drive, ZAB_FX_HALT),
                        "a later release has written the record at zxid 0x100000002, which this "
                        "release cannot read: start that release");
    assert_int_equal(replica_applied(bench.replica), zxid_make(1, 1));
    const struct state *state = view_read(bench.view);

    assert_int_equal(state_applied(state), zxid_make(1, 1));
    view_read_done(bench.view);
    bench_close(&bench);
}
