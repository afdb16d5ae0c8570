/* How the leader ends silent sessions. */
#include "tests/unit/session_kit.h"

TEST(a_silent_session_and_its_ephemerals_end_together)
{
    struct bench bench;
    struct outcome outcome;
    struct window_mark mark;
    struct change_set *set;
    size_t count;
    zxid_t upto;

    uint64_t id = lead_with_session(&bench);

    bench_submit(&bench, ephemeral_request(&bench, "/e", 0, &outcome));
    bench_submit(&bench, ephemeral_request(&bench, "/f", 0, &outcome));
    commit_all(&bench);
    window_end(bench.window, &mark);
    assert_in_range(lives_ms(&bench, &both, id), BENCH_SESSION_MS,
                    BENCH_SESSION_MS + 4 * REPORT_MS);
    assert_false(bench_has(&bench, "/e"));
    assert_false(bench_has(&bench, "/f"));
    assert_int_equal(bench_status(&bench).counts.expired, 1);
    assert_int_equal(window_read(bench.window, &mark, &set, 1, &count, &upto), ERR_OK);
    assert_int_equal(count, 1);
    assert_int_equal(set->count, 3);
    assert_int_equal(set->items[2].type, TXN_SESSION_CLOSE);
    assert_true(set->items[2].expired);
    change_set_unref(set);
    bench_close(&bench);
}

TEST(touches_at_the_leader_keep_a_session, bench, no_set_up, bench_tear_down)
{
    uint64_t id = lead_with_session(bench);

    for (int i = 0; i < 8; i++) {
        pass(bench, &both, BENCH_SESSION_MS / 2);
        commit_all(bench);
        assert_true(session_lives(bench, id));
        touch_add(bench->touched, id);
    }
    assert_true(lives_ms(bench, &both, id) >= BENCH_SESSION_MS);
}

TEST(reports_of_a_learner_keep_a_session, bench, no_set_up, bench_tear_down)
{
    uint64_t id = lead_with_session(bench);

    for (int i = 0; i < 8; i++) {
        pass(bench, &both, BENCH_SESSION_MS / 2);
        commit_all(bench);
        assert_true(session_lives(bench, id));
        learner_reports(bench, 1, &id, 1, true);
    }
    assert_true(lives_ms(bench, &both, id) >= BENCH_SESSION_MS);
}

TEST(an_attachment_keeps_a_session)
{
    struct bench bench;
    struct outcome outcome;

    uint64_t id = lead_with_session(&bench);

    for (int i = 0; i < 4; i++) {
        pass(&bench, &both, BENCH_SESSION_MS / 2);
        bench_submit(&bench, session_request(&bench, OP_ATTACH, &outcome));
        commit_all(&bench);
        assert_int_equal(outcome.err, ERR_OK);
    }
    assert_true(lives_ms(&bench, &both, id) >= BENCH_SESSION_MS);
    bench_close(&bench);
}

/* The client may be speaking to the learner that does not report. */
TEST(expiry_waits_for_the_reports_of_all_learners, bench, no_set_up, bench_tear_down)
{
    struct alive silent = both;

    uint64_t id = lead_with_session(bench);

    pass(bench, &both, BENCH_SESSION_MS - REPORT_MS);
    silent.reports[2] = false;
    pass(bench, &silent, 6 * REPORT_MS);
    commit_all(bench);
    assert_true(session_lives(bench, id));
    learner_reports(bench, 2, &id, 1, true); /* The same attachment as before. */
    assert_true(lives_ms(bench, &both, id) >= BENCH_SESSION_MS);
}

/* A learner in step serves clients before its first report. */
TEST(expiry_waits_for_the_first_report_of_a_learner_in_step, bench, no_set_up, bench_tear_down)
{
    struct alive silent = both;

    silent.reports[2] = false;
    uint64_t id = lead_with_session(bench);

    pass(bench, &silent, BENCH_SESSION_MS + 6 * REPORT_MS);
    commit_all(bench);
    assert_true(session_lives(bench, id));
    learner_reports(bench, 2, &id, 1, true);
    assert_true(lives_ms(bench, &both, id) >= BENCH_SESSION_MS);
}

/* A slow link delays two reports. The first was made before the learner heard of the session: its
 * late arrival says nothing about the time since. */
TEST(a_late_report_covers_no_more_than_its_mark, bench, no_set_up, bench_tear_down)
{
    struct alive silent = both;

    uint64_t id = lead_with_session(bench);

    pass(bench, &both, BENCH_SESSION_MS - REPORT_MS);
    struct report late = {.mark = mark_for(bench, 2), .last = true};

    silent.reports[2] = false;
    assert_true(late.mark > 0);
    pass(bench, &silent, 6 * REPORT_MS);
    learner_reports_late(bench, 2, NULL, &late);
    pass(bench, &silent, 2 * REPORT_MS);
    commit_all(bench);
    assert_true(session_lives(bench, id));
    late.count = 1;
    learner_reports_late(bench, 2, &id, &late);
    assert_true(lives_ms(bench, &both, id) >= BENCH_SESSION_MS);
}

/* The first part of a report says nothing about the sessions in the second. */
TEST(a_part_does_not_count_as_a_report, bench, no_set_up, bench_tear_down)
{
    struct alive silent = both;

    uint64_t id = lead_with_session(bench);

    pass(bench, &both, BENCH_SESSION_MS - REPORT_MS);
    silent.reports[2] = false;
    pass(bench, &silent, 4 * REPORT_MS);
    learner_reports(bench, 2, NULL, 0, false);
    pass(bench, &silent, 2 * REPORT_MS);
    commit_all(bench);
    assert_true(session_lives(bench, id));
    learner_reports(bench, 2, NULL, 0, true);
    pass(bench, &both, REPORT_MS);
    commit_all(bench);
    assert_false(session_lives(bench, id));
}

TEST(a_lost_learner_counts_as_a_touch, bench, no_set_up, bench_tear_down)
{
    struct alive one = both;

    uint64_t id = lead_with_session(bench);

    pass(bench, &both, BENCH_SESSION_MS);
    drive_down(&bench->drive, 2);
    one.is[2] = false;
    one.reports[2] = false;
    assert_in_range(lives_ms(bench, &one, id), BENCH_SESSION_MS, BENCH_SESSION_MS + 4 * REPORT_MS);
}

TEST(a_malformed_report_is_ignored, bench, no_set_up, bench_tear_down)
{
    struct zab_msg msg = {.type = ZAB_FORWARD, .forward.bytes = slice_str("\x01?odd")};

    uint64_t id = lead_with_session(bench);

    msg.dialogue = bench->drive.dialogues[1];
    msg.epoch = bench->drive.promised;
    drive_recv(&bench->drive, 1, &msg);
    assert_null(drive_sent(&bench->drive, 1, ZAB_FORWARD_REPLY));
    assert_true(session_lives(bench, id));
}

TEST(a_new_leader_grants_the_whole_timeout, bench, no_set_up, bench_tear_down)
{
    uint64_t id = lead_with_session(bench);

    pass(bench, &both, BENCH_SESSION_MS);
    drive_down(&bench->drive, 1);
    drive_down(&bench->drive, 2);
    assert_int_equal(bench_status(bench).zab.state, ZAB_LOOKING);
    drive_tick(&bench->drive, 3 * BENCH_SESSION_MS);
    drive_clear(&bench->drive);
    drive_lead(&bench->drive);
    assert_true(bench_status(bench).zab.serving);
    assert_int_equal(bench_status(bench).zab.epoch, 2);
    assert_true(session_lives(bench, id));
    assert_in_range(lives_ms(bench, &both, id), BENCH_SESSION_MS, BENCH_SESSION_MS + 4 * REPORT_MS);
}

/* During the pause the others may have elected a leader, and its sockets may hold touches. */
TEST(a_paused_leader_renews_its_quorum_first, bench, no_set_up, bench_tear_down)
{
    struct zab_msg confirm = {.type = ZAB_CONFIRM_ACK};

    uint64_t id = lead_with_session(bench);

    pass(bench, &both, BENCH_SESSION_MS);
    drive_clear(&bench->drive);
    drive_pause(&bench->drive, 3 * REPORT_MS);
    assert_non_null(drive_sent(&bench->drive, 1, ZAB_CONFIRM));
    confirm.dialogue = bench->drive.dialogues[1];
    confirm.epoch = bench->drive.promised;
    confirm.confirm.round = drive_sent(&bench->drive, 1, ZAB_CONFIRM)->confirm.round;
    pass(bench, &both, 4 * REPORT_MS);
    commit_all(bench);
    assert_true(session_lives(bench, id));
    drive_recv(&bench->drive, 1, &confirm);
    pass(bench, &both, 2 * REPORT_MS);
    commit_all(bench);
    assert_false(session_lives(bench, id));
}

TEST(a_session_may_be_closed_during_its_expiry)
{
    struct bench bench;
    struct outcome outcome;

    uint64_t id = lead_with_session(&bench);

    pass(&bench, &both, BENCH_SESSION_MS - REPORT_MS);
    bench_submit(&bench, session_request(&bench, OP_CLOSE, &outcome)); /* Not committed yet. */
    zxid_t last = bench_status(&bench).zab.last;

    pass(&bench, &both, 4 * REPORT_MS);
    assert_int_equal(bench_status(&bench).zab.last, last);
    assert_int_equal(bench_status(&bench).counts.expired, 0);
    commit_all(&bench);
    assert_false(session_lives(&bench, id));
    bench_close(&bench);
}
