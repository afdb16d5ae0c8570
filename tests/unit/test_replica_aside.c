/* A replica whose log waits for disk space stands aside: it refuses at once, and does not keep
 * clients waiting for what it cannot apply. One whose audit file cannot be written refuses writes,
 * and does all else. */
#include "server/replica/replica_int.h"
#include "tests/lib/replica_bench.h"
#include "tests/lib/unit.h"

enum {
    LONG_MS = 60000, /* Longer than any test runs. */
    SOON_MS = 500,
    GRACE_MS = 1100
};

static void stand_aside(struct bench *bench, const char *why)
{
    replica_stand_aside(bench->replica,
                        &(struct replica_aside){.why = why, .log_waits = why != NULL},
                        bench->drive.now_ms, &bench->effects);
    bench_take(bench);
}

/* The log is written, but the replica must take no writes. */
static void take_no_writes(struct bench *bench)
{
    replica_stand_aside(bench->replica, &(struct replica_aside){.why = "no audit"},
                        bench->drive.now_ms, &bench->effects);
    bench_take(bench);
}

/* Submits a request with a deadline that no test reaches. */
static void submit(struct bench *bench, enum op_id op, const char *path, zxid_t min_zxid,
                   struct outcome *outcome)
{
    struct op_request *request = bench_request(bench, op, path, outcome);

    request->min_zxid = min_zxid;
    request->deadline_ms = bench->drive.now_ms + LONG_MS;
    bench_submit(bench, request);
}

static void expect(const struct outcome *outcome, enum err err)
{
    assert_int_equal(outcome->answers, 1);
    assert_int_equal(outcome->err, err);
}

TEST(a_write_is_refused_at_once_and_sent_nowhere, bench, bench_follow, bench_tear_down)
{
    struct outcome outcome;

    stand_aside(bench, "no space");
    assert_string_equal(bench_status(bench).aside.why, "no space");
    drive_clear(&bench->drive);
    submit(bench, OP_CREATE, "/a", 0, &outcome);
    expect(&outcome, ERR_NOT_READY);
    assert_null(drive_sent(&bench->drive, 3, ZAB_FORWARD));
    stand_aside(bench, NULL);
    assert_null(bench_status(bench).aside.why);
    submit(bench, OP_CREATE, "/a", 0, &outcome);
    assert_int_equal(outcome.answers, 0);
    assert_non_null(drive_sent(&bench->drive, 3, ZAB_FORWARD));
}

TEST(a_write_that_waits_for_a_leader_is_refused, bench, bench_wait, bench_tear_down)
{
    struct outcome outcome;

    submit(bench, OP_CREATE, "/a", 0, &outcome);
    assert_int_equal(outcome.answers, 0);
    stand_aside(bench, "no space");
    expect(&outcome, ERR_NOT_READY);
}

TEST(requests_in_progress_get_a_grace_time, bench, bench_follow, bench_tear_down)
{
    struct outcome done;
    struct outcome open;

    submit(bench, OP_CREATE, "/a", 0, &done);
    drive_entry(&bench->drive, bench_record(&bench->drive, bench_forwarded(bench), "/a"), 0);
    submit(bench, OP_CREATE, "/b", 0, &open);
    stand_aside(bench, "no space");
    drive_tick(&bench->drive, SOON_MS);
    assert_int_equal(done.answers + open.answers, 0);
    bench_commit(&bench->drive, zxid_make(1, 1)); /* Space came back in time. */
    expect(&done, ERR_OK);
    drive_tick(&bench->drive, GRACE_MS);
    expect(&open, ERR_OUTCOME_UNKNOWN);
}

TEST(a_read_of_an_unapplied_zxid_is_refused_at_once, bench, bench_follow, bench_tear_down)
{
    struct outcome before;
    struct outcome behind;
    struct outcome now;

    submit(bench, OP_GET, "/", zxid_make(1, 1), &before);
    assert_int_equal(before.answers, 0);
    stand_aside(bench, "no space");
    expect(&before, ERR_REPLICA_BEHIND);
    submit(bench, OP_GET, "/", zxid_make(1, 1), &behind);
    expect(&behind, ERR_REPLICA_BEHIND);
    submit(bench, OP_GET, "/", 0, &now);
    expect(&now, ERR_OK);
}

static void leader_refuses(struct bench *bench, uint64_t number, bool replayed)
{
    struct op_result result;
    struct buf bytes;

    op_result_init(&result);
    result.err = replayed ? ERR_OK : ERR_NODE_EXISTS;
    result.replayed = replayed;
    result.zxid = zxid_make(1, 9);
    buf_init(&bytes, 4096);
    op_result_encode(&result, &bytes);
    drive_leader_says(&bench->drive, (struct zab_msg){.type = ZAB_FORWARD_REPLY,
                                                      .forward.request = number,
                                                      .forward.bytes = buf_slice(&bytes)});
    buf_release(&bytes);
    op_result_release(&result);
}

/* The leader's refusal depends on a state that this replica cannot apply: the write was not done. A
 * replayed result belongs to a write that was done. */
TEST(a_deferred_refusal_that_cannot_be_applied, bench, bench_follow, bench_tear_down)
{
    struct outcome refused;
    struct outcome replayed;

    submit(bench, OP_CREATE, "/a", 0, &refused);
    uint64_t first = bench_forwarded(bench);

    submit(bench, OP_CREATE, "/b", 0, &replayed);
    uint64_t second = bench_forwarded(bench);

    stand_aside(bench, "no space");
    leader_refuses(bench, first, false);
    expect(&refused, ERR_REPLICA_BEHIND);
    leader_refuses(bench, second, true);
    expect(&replayed, ERR_OUTCOME_UNKNOWN);
}

/* A write that was provably not done under the lost leader is normally forwarded to the next one.
 */
TEST(no_write_is_forwarded_again_while_standing_aside, bench, bench_follow, bench_tear_down)
{
    struct outcome outcome;

    submit(bench, OP_CREATE, "/a", 0, &outcome);
    stand_aside(bench, "no space");
    drive_down(&bench->drive, 3);
    drive_clear(&bench->drive);
    drive_follow(&bench->drive, 2, 2);
    expect(&outcome, ERR_NOT_READY);
    assert_null(drive_sent(&bench->drive, 2, ZAB_FORWARD));
}

/* The other replicas' disks are a quorum without the leader's own. */
TEST(a_leader_still_proposes_writes_of_other_replicas, bench, bench_lead, bench_tear_down)
{
    struct outcome outcome;
    struct op_request *request = NULL;
    struct outcome unused;
    struct buf bytes;

    stand_aside(bench, "no space");
    submit(bench, OP_CREATE, "/own", 0, &outcome);
    expect(&outcome, ERR_NOT_READY);
    drive_clear(&bench->drive);
    request = bench_request(bench, OP_CREATE, "/theirs", &unused);
    buf_init(&bytes, 4096);
    forward_encode(1, request, &bytes);
    drive_recv(&bench->drive, 1,
               &(struct zab_msg){.type = ZAB_FORWARD,
                                 .dialogue = bench->drive.dialogues[1],
                                 .epoch = bench->drive.promised,
                                 .forward.request = 7,
                                 .forward.bytes = buf_slice(&bytes)});
    assert_non_null(drive_asked(&bench->drive, ZAB_PERSIST_APPEND));
    buf_release(&bytes);
    op_request_free(request);
}

/* ---- The log is written, but no writes are taken. ---- */

TEST(without_an_audit_log_reads_wait_for_their_zxid, bench, bench_follow, bench_tear_down)
{
    struct outcome sent;
    struct outcome before;
    struct outcome after;
    struct outcome refused;

    submit(bench, OP_CREATE, "/a", 0, &sent);
    drive_entry(&bench->drive, bench_record(&bench->drive, bench_forwarded(bench), "/a"), 0);
    submit(bench, OP_GET, "/", zxid_make(1, 1), &before);
    take_no_writes(bench);
    submit(bench, OP_GET, "/", zxid_make(1, 1), &after);
    submit(bench, OP_CREATE, "/b", 0, &refused);
    expect(&refused, ERR_NOT_READY);
    drive_tick(&bench->drive, GRACE_MS);
    assert_int_equal(sent.answers + before.answers + after.answers, 0);
    bench_commit(&bench->drive, zxid_make(1, 1));
    expect(&sent, ERR_OK);
    expect(&before, ERR_OK);
    expect(&after, ERR_OK);
}

/* A read that fails for another reason does not name the audit file. */
TEST(without_an_audit_log_a_late_read_is_behind, bench, bench_follow, bench_tear_down)
{
    struct outcome outcome;
    struct op_request *request = bench_request(bench, OP_GET, "/", &outcome);

    take_no_writes(bench);
    request->min_zxid = zxid_make(1, 1);
    request->deadline_ms = bench->drive.now_ms + SOON_MS;
    bench_submit(bench, request);
    drive_tick(&bench->drive, GRACE_MS);
    expect(&outcome, ERR_REPLICA_BEHIND);
    assert_null(strstr(outcome.detail, "no audit"));
}

TEST(without_an_audit_log_queued_writes_are_refused, bench, bench_wait, bench_tear_down)
{
    struct outcome outcome;

    submit(bench, OP_CREATE, "/a", 0, &outcome);
    take_no_writes(bench);
    expect(&outcome, ERR_NOT_READY);
}

/* From one kind to the other, requests in flight get their second. */
TEST(the_grace_time_begins_when_the_log_waits, bench, bench_follow, bench_tear_down)
{
    struct outcome outcome;

    submit(bench, OP_CREATE, "/a", 0, &outcome);
    take_no_writes(bench);
    drive_tick(&bench->drive, GRACE_MS);
    stand_aside(bench, "no space");
    drive_tick(&bench->drive, SOON_MS);
    assert_int_equal(outcome.answers, 0);
    drive_tick(&bench->drive, GRACE_MS);
    expect(&outcome, ERR_OUTCOME_UNKNOWN);
}
