/* The times of a request's way through a replica, for the log of slow requests. */
#include "server/replica/replica_int.h"
#include "tests/lib/replica_bench.h"
#include "tests/lib/unit.h"

enum {
    STEP_MS = 7
};

static uint64_t since(const struct bench *bench, uint64_t ms)
{
    assert_true(ms != 0 && ms <= bench->drive.now_ms);
    return bench->drive.now_ms - ms;
}

static void pass(struct bench *bench)
{
    bench->drive.now_ms += STEP_MS;
}

/* The own disk first, then the quorum. */
TEST(a_leader_notes_disk_and_quorum, bench, bench_lead, bench_tear_down)
{
    struct outcome outcome;

    bench_create(bench, "/a", &outcome);
    pass(bench);
    drive_persist(&bench->drive);
    pass(bench);
    drive_learner_says(&bench->drive, 1, ZAB_ACK, zxid_make(1, 1));
    assert_int_equal(outcome.answers, 1);
    assert_int_equal(since(bench, outcome.times.sent_ms), 2 * STEP_MS);
    assert_int_equal(since(bench, outcome.times.prepared_ms), 2 * STEP_MS);
    assert_int_equal(since(bench, outcome.times.synced_ms), STEP_MS);
    assert_int_equal(since(bench, outcome.times.quorum_ms), 0);
    assert_int_equal(since(bench, outcome.times.answered_ms), 0);
}

/* Both learners have it before the own disk. */
TEST(a_leader_with_a_slow_disk_notes_that, bench, bench_lead, bench_tear_down)
{
    struct outcome outcome;

    drive_join(&bench->drive, 2);
    bench_create(bench, "/a", &outcome);
    pass(bench);
    drive_learner_says(&bench->drive, 1, ZAB_ACK, zxid_make(1, 1));
    drive_learner_says(&bench->drive, 2, ZAB_ACK, zxid_make(1, 1));
    pass(bench);
    drive_persist(&bench->drive);
    assert_int_equal(outcome.answers, 1);
    assert_int_equal(since(bench, outcome.times.prepared_ms), 2 * STEP_MS);
    assert_int_equal(since(bench, outcome.times.synced_ms), 0);
    assert_int_equal(since(bench, outcome.times.quorum_ms), STEP_MS);
}

TEST(a_write_without_a_quorum_shows_how_far_it_came, bench, bench_lead, bench_tear_down)
{
    struct outcome outcome;

    bench_create(bench, "/a", &outcome);
    pass(bench);
    drive_persist(&bench->drive);
    for (int i = 0; i < 20 && outcome.answers == 0; i++) {
        drive_pong(&bench->drive, 1);
        drive_tick(&bench->drive, BENCH_TIMEOUT_MS / 10);
    }
    assert_int_equal(outcome.err, ERR_OUTCOME_UNKNOWN);
    assert_true(outcome.times.synced_ms > outcome.times.prepared_ms);
    assert_int_equal(outcome.times.quorum_ms, 0);
    assert_true(outcome.times.answered_ms >= outcome.times.prepared_ms + BENCH_TIMEOUT_MS);
}

TEST(a_follower_notes_when_the_record_came, bench, bench_follow, bench_tear_down)
{
    struct outcome outcome;
    struct logrec *rec = NULL;

    bench_create(bench, "/a", &outcome);
    pass(bench);
    rec = bench_record(&bench->drive, bench_forwarded(bench), "/a");
    drive_entry(&bench->drive, rec, 0);
    pass(bench);
    drive_persist(&bench->drive);
    pass(bench);
    bench_commit(&bench->drive, rec->zxid);
    assert_int_equal(outcome.answers, 1);
    assert_int_equal(outcome.err, ERR_OK);
    assert_int_equal(since(bench, outcome.times.sent_ms), 3 * STEP_MS);
    assert_int_equal(since(bench, outcome.times.prepared_ms), 2 * STEP_MS);
    assert_int_equal(since(bench, outcome.times.synced_ms), STEP_MS);
    assert_int_equal(since(bench, outcome.times.quorum_ms), 0);
}

/* While there is no leader, a request is queued, whatever it was before. */
TEST(a_queued_request_was_not_sent, bench, bench_wait, bench_tear_down)
{
    struct outcome outcome;

    bench_create(bench, "/a", &outcome);
    for (int i = 0; i < 20 && outcome.answers == 0; i++) {
        drive_tick(&bench->drive, BENCH_TIMEOUT_MS / 10);
    }
    assert_int_equal(outcome.err, ERR_NOT_READY);
    assert_int_equal(outcome.times.sent_ms, 0);
    assert_true(outcome.times.answered_ms > 0);
}

/* ---- The clock ---- */

static uint64_t fake_ms;

/* Each look takes a millisecond. */
static uint64_t fake_clock(void)
{
    return ++fake_ms;
}

TEST(with_a_clock_preparing_takes_time, bench, bench_lead, bench_tear_down)
{
    struct outcome outcome;

    fake_ms = bench->drive.now_ms;
    bench->replica->options.clock_ms = fake_clock;
    bench_create(bench, "/a", &outcome);
    drive_persist(&bench->drive);
    drive_learner_says(&bench->drive, 1, ZAB_ACK, zxid_make(1, 1));
    assert_int_equal(outcome.answers, 1);
    assert_int_equal(outcome.times.prepared_ms, outcome.times.sent_ms + 1);
    assert_int_equal(outcome.times.answered_ms, outcome.times.prepared_ms + 1);
}
