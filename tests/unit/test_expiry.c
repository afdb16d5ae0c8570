/* expiry: a session is silent only as far as every replica has reported. */
#include "base/mem.h"
#include "server/sessions/expiry.h"
#include "tests/lib/unit.h"
#include "zab/config.h"

#define REPORT_MS  UINT64_C(500)
#define TIMEOUT_MS UINT64_C(4000)

enum {
    SELF = 3,
    OTHER = 1,
    S1 = 101,
    S2 = 102
};

/* The time of the test; this replica reports at each interval, the other one if `other_reports`. */
struct clock {
    struct expiry *expiry;
    uint64_t now_ms;
    bool other_reports;
};

static struct state *state_with(const uint64_t *ids, size_t count)
{
    struct state *state = state_new(7);

    for (size_t i = 0; i < count; i++) {
        const struct txn_header header = {.age_ms = 5, .stamp_ms = 5};
        struct txn_session_open open = {.session = ids[i], .timeout_ms = TIMEOUT_MS};
        struct buf txn;

        open.secret_hash[0] = (uint8_t)ids[i];
        open.secret_hash[1] = (uint8_t)(ids[i] >> 8);
        open.secret_hash[2] = (uint8_t)(ids[i] >> 16);
        buf_init(&txn, 4096);
        txn_begin(&txn, &header);
        txn_put(&txn, &(struct txn_effect){.type = TXN_SESSION_OPEN, .open = open});
        assert_int_equal(state_apply(state, ids[i], buf_slice(&txn), false, NULL), ERR_OK);
        buf_release(&txn);
    }
    return state;
}

static void begin(struct clock *clock, const uint64_t *ids, size_t count)
{
    struct state *state = state_with(ids, count);

    *clock =
        (struct clock){.expiry = expiry_new(REPORT_MS), .now_ms = 1000000, .other_reports = true};
    expiry_begin(clock->expiry, state, clock->now_ms);
    state_free(state);
}

/* Reports without delay. */
static void reported(struct clock *clock, uint32_t member)
{
    expiry_reported(clock->expiry, member, expiry_mark(clock->expiry));
}

static void report(struct clock *clock)
{
    reported(clock, SELF);
    if (clock->other_reports) {
        reported(clock, OTHER);
    }
}

/* Lets time pass in intervals. */
static void pass(struct clock *clock, uint64_t ms)
{
    for (uint64_t end_ms = clock->now_ms + ms; clock->now_ms < end_ms;) {
        clock->now_ms += end_ms - clock->now_ms < REPORT_MS ? end_ms - clock->now_ms : REPORT_MS;
        expiry_turn(clock->expiry, clock->now_ms);
        report(clock);
    }
}

static size_t due(struct clock *clock)
{
    uint64_t out[EXPIRY_DUE_MAX];

    return expiry_due(clock->expiry, out, EXPIRY_DUE_MAX);
}

/* The ms until the first session expires, in intervals. */
static uint64_t lives_ms(struct clock *clock)
{
    uint64_t from_ms = clock->now_ms;

    while (due(clock) == 0) {
        assert_true(clock->now_ms < from_ms + 100 * TIMEOUT_MS);
        pass(clock, REPORT_MS);
    }
    return clock->now_ms - from_ms;
}

static const uint64_t two[] = {S1, S2};

static void begin_empty(struct clock *clock)
{
    begin(clock, NULL, 0);
}

static void begin_one(struct clock *clock)
{
    begin(clock, two, 1);
}

static void begin_two(struct clock *clock)
{
    begin(clock, two, 2);
}

static void end(struct clock *clock)
{
    expiry_free(clock->expiry);
}

TEST(a_silent_session_expires_after_its_timeout, clock, begin_one, end)
{
    uint64_t out[EXPIRY_DUE_MAX];

    uint64_t lived_ms = lives_ms(clock);

    /* Its timeout and an interval for the report; the check runs once an interval. */
    assert_in_range(lived_ms, TIMEOUT_MS + REPORT_MS, TIMEOUT_MS + 3 * REPORT_MS);
    assert_int_equal(expiry_due(clock->expiry, out, EXPIRY_DUE_MAX), 1);
    assert_int_equal(out[0], S1);
}

TEST(a_new_leader_grants_every_session_its_timeout, clock, begin_two, end)
{
    struct state *tree = state_with(two, 2);

    pass(clock, TIMEOUT_MS);
    expiry_end(clock->expiry);
    assert_false(expiry_is_on(clock->expiry));
    assert_int_equal(expiry_count(clock->expiry), 0);
    pass(clock, 10 * TIMEOUT_MS);
    assert_int_equal(due(clock), 0);
    expiry_begin(clock->expiry, tree, clock->now_ms);
    assert_int_equal(expiry_count(clock->expiry), 2);
    assert_true(lives_ms(clock) >= TIMEOUT_MS);
    state_free(tree);
}

TEST(a_touch_restarts_the_timeout, clock, begin_two, end)
{
    uint64_t out[EXPIRY_DUE_MAX];

    for (int i = 0; i < 20; i++) {
        pass(clock, TIMEOUT_MS / 2);
        expiry_touch(clock->expiry, S1);
        expiry_touch(clock->expiry, 4711); /* No such session. */
    }
    assert_int_equal(expiry_due(clock->expiry, out, EXPIRY_DUE_MAX), 1);
    assert_int_equal(out[0], S2);
    expiry_closed(clock->expiry, S2);
    assert_true(lives_ms(clock) >= TIMEOUT_MS);
}

TEST(a_due_session_may_still_be_touched, clock, begin_one, end)
{
    (void)lives_ms(clock);
    assert_int_equal(due(clock), 1);
    expiry_touch(clock->expiry, S1);
    assert_int_equal(due(clock), 0);
    assert_true(lives_ms(clock) >= TIMEOUT_MS);
}

TEST(a_proposed_session_is_not_returned_again, clock, begin_one, end)
{
    (void)lives_ms(clock);
    expiry_proposed(clock->expiry, S1);
    assert_int_equal(due(clock), 0);
    expiry_touch(clock->expiry, S1);
    pass(clock, 10 * TIMEOUT_MS);
    assert_int_equal(due(clock), 0);
    expiry_closed(clock->expiry, S1);
    assert_int_equal(expiry_count(clock->expiry), 0);
    expiry_closed(clock->expiry, S1);
}

TEST(a_later_session_counts_from_its_opening, clock, begin_empty, end)
{
    pass(clock, 10 * TIMEOUT_MS);
    expiry_opened(clock->expiry, S2, 2 * TIMEOUT_MS);
    expiry_opened(clock->expiry, S2, 1); /* Already known. */
    assert_in_range(lives_ms(clock), 2 * TIMEOUT_MS, 2 * TIMEOUT_MS + 3 * REPORT_MS);
}

/* The replica that serves the client may have received a touch and not yet reported it. */
TEST(no_session_expires_before_all_reports_pass_its_deadline, clock, begin_one, end)
{
    pass(clock, TIMEOUT_MS); /* The other replica reports until here. */
    clock->other_reports = false;
    pass(clock, EXPIRY_BEHIND_REPORTS * REPORT_MS);
    assert_int_equal(due(clock), 0);
    reported(clock, OTHER);
    assert_int_equal(due(clock), 1);
}

TEST(a_report_after_the_deadline_may_save_a_session, clock, begin_one, end)
{
    pass(clock, TIMEOUT_MS);
    clock->other_reports = false;
    pass(clock, 4 * REPORT_MS);
    assert_int_equal(due(clock), 0);
    expiry_touch(clock->expiry, S1);
    reported(clock, OTHER);
    assert_int_equal(due(clock), 0);
}

/* The report was made before the deadline and delayed by a slow link. */
TEST(a_late_report_covers_the_time_up_to_its_mark, clock, begin_one, end)
{
    pass(clock, TIMEOUT_MS);
    uint64_t before = expiry_mark(clock->expiry);

    clock->other_reports = false;
    pass(clock, REPORT_MS + 1);
    uint64_t behind = expiry_mark(clock->expiry);

    pass(clock, 4 * REPORT_MS);
    expiry_reported(clock->expiry, OTHER, before);
    assert_int_equal(due(clock), 0);
    expiry_reported(clock->expiry, OTHER, 0); /* The learner has seen no PING yet. */
    assert_int_equal(due(clock), 0);
    expiry_reported(clock->expiry, OTHER, behind);
    assert_int_equal(due(clock), 1);
    expiry_reported(clock->expiry, OTHER,
                    before); /* A report with an older mark takes nothing back. */
    assert_int_equal(due(clock), 1);
}

/* However late all reports are: while none is far behind, a touch that was made in time counts. */
TEST(a_session_touched_through_a_slow_link_does_not_expire, clock, begin_one, end)
{
    enum {
        LATE = EXPIRY_BEHIND_REPORTS - 1 /* Reports in flight. */
    };

    uint64_t marks[LATE] = {0};

    clock->other_reports = false;
    expiry_joined(clock->expiry, OTHER);
    for (size_t i = 0; i < 20 * TIMEOUT_MS / REPORT_MS; i++) {
        uint64_t arrives = marks[i % LATE];

        marks[i % LATE] = expiry_mark(clock->expiry);
        if (i >= LATE) {
            if (i % (TIMEOUT_MS / REPORT_MS) == 0) {
                expiry_touch(clock->expiry, S1);
            }
            expiry_reported(clock->expiry, OTHER, arrives);
        }
        assert_int_equal(due(clock), 0);
        pass(clock, REPORT_MS);
    }
}

/* A replica whose reports stay far behind counts as lost, once, so that silent sessions still
 * expire. */
TEST(a_replica_that_stays_far_behind_keeps_no_session_alive, clock, begin_one, end)
{
    uint64_t lived_ms = 0;

    uint64_t first = expiry_mark(clock->expiry);

    clock->other_reports = false;
    while (due(clock) == 0) {
        expiry_reported(clock->expiry, OTHER, first + lived_ms / 4);
        pass(clock, REPORT_MS);
        lived_ms += REPORT_MS;
        assert_true(lived_ms < 20 * TIMEOUT_MS);
    }
    assert_in_range(lived_ms, TIMEOUT_MS,
                    2 * EXPIRY_BEHIND_REPORTS * REPORT_MS + TIMEOUT_MS + 4 * REPORT_MS);
}

TEST(an_unknown_mark_is_no_report, clock, begin_one, end)
{
    pass(clock, TIMEOUT_MS);
    clock->other_reports = false;
    pass(clock, 4 * REPORT_MS);
    expiry_reported(clock->expiry, OTHER, UINT64_MAX);
    expiry_reported(clock->expiry, OTHER, expiry_mark(clock->expiry) + 1);
    assert_int_equal(due(clock), 0);
    reported(clock, OTHER);
    assert_int_equal(due(clock), 1);
}

TEST(a_lost_replica_counts_as_a_touch, clock, begin_one, end)
{
    pass(clock, TIMEOUT_MS);
    clock->other_reports = false;
    expiry_lost(clock->expiry, OTHER);
    expiry_lost(clock->expiry, OTHER);
    assert_in_range(lives_ms(clock), TIMEOUT_MS, TIMEOUT_MS + 3 * REPORT_MS);
}

/* Its clients may have been active before that. */
TEST(a_replica_lost_before_its_first_report_counts_too, clock, begin_one, end)
{
    pass(clock, TIMEOUT_MS);
    expiry_lost(clock->expiry, 2);
    assert_in_range(lives_ms(clock), TIMEOUT_MS, TIMEOUT_MS + 3 * REPORT_MS);
    expiry_lost(clock->expiry, 2);
    assert_int_equal(due(clock), 1);
}

/* The first connection breaks while the replica synchronizes. Then it is in step, serves, and is
 * silent: its client may have been active until then. */
TEST(a_loss_before_a_replica_was_in_step_is_not_the_one_that_counts, clock, begin_one, end)
{
    expiry_lost(clock->expiry, 2);
    pass(clock, REPORT_MS);
    reported(clock, 2);
    pass(clock, TIMEOUT_MS);
    expiry_lost(clock->expiry, 2);
    assert_in_range(lives_ms(clock), TIMEOUT_MS, TIMEOUT_MS + 3 * REPORT_MS);
    /* Only once. */
    expiry_joined(clock->expiry, 2);
    expiry_lost(clock->expiry, 2);
    assert_int_equal(due(clock), 1);
}

/* A learner in step hears from a client, and its connection stalls before it can report. */
TEST(expiry_waits_for_a_replica_in_step_before_its_first_report, clock, begin_one, end)
{
    pass(clock, TIMEOUT_MS);
    expiry_joined(clock->expiry, 2);
    pass(clock, 4 * REPORT_MS);
    assert_int_equal(due(clock), 0);
    expiry_touch(clock->expiry, S1);
    reported(clock, 2);
    pass(clock, TIMEOUT_MS);
    assert_int_equal(due(clock), 0);
}

/* Coming into step is no report, and does not keep a session alive for ever. */
TEST(a_replica_in_step_that_never_reports_is_lost_in_the_end, clock, begin_one, end)
{
    uint64_t lived_ms = 0;

    while (due(clock) == 0) {
        expiry_joined(clock->expiry, 2);
        pass(clock, REPORT_MS);
        lived_ms += REPORT_MS;
        assert_true(lived_ms < 3 * TIMEOUT_MS);
    }
    /* The replica has come back: its reports are awaited again. */
    expiry_lost(clock->expiry, 2);
    expiry_joined(clock->expiry, 2);
    expiry_touch(clock->expiry, S1);
    pass(clock, TIMEOUT_MS + 2 * REPORT_MS);
    assert_int_equal(due(clock), 0);
}

TEST(a_silent_replica_is_lost_in_the_end, clock, begin_one, end)
{
    pass(clock, REPORT_MS);
    clock->other_reports = false;
    uint64_t lived_ms = lives_ms(clock);
    uint64_t silent_ms = EXPIRY_BEHIND_REPORTS * REPORT_MS;

    assert_in_range(lived_ms, silent_ms + TIMEOUT_MS, silent_ms + TIMEOUT_MS + 4 * REPORT_MS);
}

/* Otherwise a replica that restarts repeatedly would keep every session alive. */
TEST(a_replica_that_restarts_repeatedly_counts_once, clock, begin_one, end)
{
    uint64_t lived_ms = 0;

    while (due(clock) == 0) {
        pass(clock, 4 * REPORT_MS);
        expiry_lost(clock->expiry, OTHER);
        lived_ms += 4 * REPORT_MS;
        assert_true(lived_ms < 3 * TIMEOUT_MS);
    }
    /* The loss of another replica has not counted yet. */
    reported(clock, 2);
    expiry_lost(clock->expiry, 2);
    assert_int_equal(due(clock), 0);
    /* It counts again once the session has been touched. */
    pass(clock, TIMEOUT_MS);
    expiry_touch(clock->expiry, S1);
    pass(clock, TIMEOUT_MS);
    expiry_lost(clock->expiry, OTHER);
    clock->other_reports = false;
    assert_true(lives_ms(clock) >= TIMEOUT_MS);
}

/* ---- Replicas that come and go for good. ---- */

static const uint32_t self_alone[] = {SELF};

/* If the next replica in that place were taken for the forgotten one, its loss would not count. */
TEST(a_replica_in_the_place_of_a_forgotten_one_shortens_no_session, clock, begin_one, end)
{
    clock->other_reports = false;
    pass(clock, TIMEOUT_MS);
    expiry_lost(clock->expiry, 2);
    expiry_keep(clock->expiry, self_alone, 1);
    pass(clock, TIMEOUT_MS);
    assert_int_equal(due(clock), 0);
    reported(clock, 7);
    expiry_lost(clock->expiry, 7);
    assert_in_range(lives_ms(clock), TIMEOUT_MS, TIMEOUT_MS + 3 * REPORT_MS);
}

/* It may have served the session until now. */
TEST(a_connected_replica_is_forgotten_as_lost, clock, begin_one, end)
{
    const uint32_t both[] = {2, SELF};

    clock->other_reports = false;
    pass(clock, TIMEOUT_MS);
    reported(clock, 2);
    expiry_keep(clock->expiry, both, 2);
    expiry_keep(clock->expiry, self_alone, 1);
    /* Its reports are not awaited any more. */
    assert_in_range(lives_ms(clock), TIMEOUT_MS, TIMEOUT_MS + 3 * REPORT_MS);
}

TEST(forgotten_replicas_leave_their_places, clock, begin_one, end)
{
    clock->other_reports = false;
    for (uint32_t id = 1000; id < 1200; id++) {
        pass(clock, REPORT_MS);
        reported(clock, id);
        expiry_keep(clock->expiry, self_alone, 1);
        assert_int_equal(due(clock), 0);
    }
    assert_in_range(lives_ms(clock), TIMEOUT_MS, TIMEOUT_MS + 3 * REPORT_MS);
}

TEST(lost_replicas_leave_their_places_when_others_need_them, clock, begin_one, end)
{
    clock->other_reports = false;
    for (uint32_t id = 1000; id < 1200; id++) {
        pass(clock, TIMEOUT_MS);
        reported(clock, id);
        expiry_lost(clock->expiry, id);
        assert_int_equal(due(clock), 0);
    }
    assert_in_range(lives_ms(clock), TIMEOUT_MS, TIMEOUT_MS + 3 * REPORT_MS);
}

/* Lets `intervals` pass in which all places but one are taken by others that report. The newcomer
 * is in step. */
static void crowd(struct clock *clock, int intervals, uint32_t newcomer)
{
    for (int i = 0; i < intervals; i++) {
        for (uint32_t id = 1000; id < 1000 + ZAB_MEMBERS_MAX - 1; id++) {
            reported(clock, id);
        }
        pass(clock, REPORT_MS);
        expiry_joined(clock->expiry, newcomer);
        reported(clock, newcomer);
        assert_int_equal(due(clock), 0);
    }
}

/* Its reports cannot be awaited, and it may serve clients. */
TEST(nothing_expires_while_a_replica_has_no_place, clock, begin_one, end)
{
    clock->other_reports = false;
    pass(clock, REPORT_MS);
    crowd(clock, 20, 7);
    expiry_lost(clock->expiry, 7);
    expiry_keep(clock->expiry, self_alone, 1);
    assert_in_range(lives_ms(clock), TIMEOUT_MS, TIMEOUT_MS + 3 * REPORT_MS);
}

TEST(the_loss_of_a_replica_without_a_place_counts, clock, begin_one, end)
{
    clock->other_reports = false;
    pass(clock, REPORT_MS);
    crowd(clock, 20, 7);
    for (uint32_t id = 1000; id < 1000 + ZAB_MEMBERS_MAX - 1; id++) {
        reported(clock, id);
    }
    expiry_lost(clock->expiry, 7);
    for (uint64_t ms = 0; ms < TIMEOUT_MS; ms += REPORT_MS) {
        pass(clock, REPORT_MS);
        assert_int_equal(due(clock), 0);
    }
}

/* ---- A process that was paused. ---- */

TEST(the_time_of_a_pause_does_not_count, clock, begin_one, end)
{
    pass(clock, TIMEOUT_MS / 2);
    clock->now_ms += 10 * TIMEOUT_MS;
    expiry_turn(clock->expiry, clock->now_ms);
    assert_true(expiry_stands(clock->expiry));
    report(clock);
    expiry_renewed(clock->expiry);
    assert_false(expiry_stands(clock->expiry));
    assert_in_range(lives_ms(clock), TIMEOUT_MS / 2, TIMEOUT_MS / 2 + 3 * REPORT_MS);
}

TEST(no_session_expires_before_the_quorum_is_renewed, clock, begin_one, end)
{
    (void)lives_ms(clock);
    clock->now_ms += 3 * REPORT_MS;
    expiry_turn(clock->expiry, clock->now_ms);
    assert_int_equal(due(clock), 0);
    pass(clock, 10 * REPORT_MS);
    assert_int_equal(due(clock), 0);
    expiry_renewed(clock->expiry);
    assert_int_equal(due(clock), 1);
}

/* The sockets still hold what clients sent during the pause. */
TEST(nor_does_one_before_a_further_interval, clock, begin_one, end)
{
    (void)lives_ms(clock);
    clock->now_ms += 3 * REPORT_MS;
    expiry_turn(clock->expiry, clock->now_ms);
    expiry_renewed(clock->expiry);
    pass(clock, REPORT_MS - 1);
    assert_int_equal(due(clock), 0);
    pass(clock, 1);
    assert_int_equal(due(clock), 1);
}

TEST(a_slightly_late_turn_is_no_pause, clock, begin_one, end)
{
    for (uint64_t ms = 0; ms < TIMEOUT_MS + 4 * REPORT_MS; ms += 2 * REPORT_MS) {
        clock->now_ms += 2 * REPORT_MS;
        expiry_turn(clock->expiry, clock->now_ms);
        report(clock);
        assert_false(expiry_stands(clock->expiry));
    }
    assert_int_equal(due(clock), 1);
}

/* ---- Bounds. ---- */

TEST(many_sessions_expire_in_portions)
{
    enum {
        MANY = 2500
    };

    uint64_t *ids = mem_alloc(MANY * sizeof(uint64_t));
    uint64_t out[EXPIRY_DUE_MAX];
    struct clock clock;
    bool seen[MANY + 1] = {false};

    for (uint64_t i = 0; i < MANY; i++) {
        ids[i] = i + 1;
    }
    begin(&clock, ids, MANY);
    mem_free(ids);
    pass(&clock, TIMEOUT_MS + 3 * REPORT_MS);
    for (size_t left = MANY; left > 0;) {
        size_t count = expiry_due(clock.expiry, out, EXPIRY_DUE_MAX);

        assert_int_equal(count, left < EXPIRY_DUE_MAX ? left : EXPIRY_DUE_MAX);
        for (size_t i = 0; i < count; i++) {
            assert_false(seen[out[i]]);
            seen[out[i]] = true;
            expiry_proposed(clock.expiry, out[i]);
        }
        left -= count;
    }
    assert_int_equal(due(&clock), 0);
    expiry_free(clock.expiry);
}

/* Longer than one turn of the wheel. */
TEST(long_timeouts_are_kept, clock, begin_empty, end)
{
    uint64_t hour_ms = 3600000;

    expiry_opened(clock->expiry, S1, (uint32_t)hour_ms);
    uint64_t from_ms = clock->now_ms;

    while (due(clock) == 0) {
        assert_true(clock->now_ms < from_ms + 2 * hour_ms);
        pass(clock, REPORT_MS);
    }
    assert_in_range(clock->now_ms - from_ms, hour_ms, hour_ms + 3 * REPORT_MS);
}
