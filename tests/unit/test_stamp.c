/* Stamps: which clocks count, and when a stamp steps back. */
#include "server/replica/clock.h"
#include "tests/lib/unit.h"

#define NOW_MS   INT64_C(1700000000000)
#define YEARS_MS INT64_C(315360000000)

static int64_t reached(int64_t a, int64_t b, int64_t c)
{
    int64_t clocks_ms[] = {a, b, c};

    return stamp_reached(clocks_ms, 3, 2);
}

/* Heartbeats without delay. */
static int64_t next_after(int64_t last_ms, int64_t wall_ms, int64_t reached_ms)
{
    const struct reached exact = {.least_ms = reached_ms, .most_ms = reached_ms};

    return stamp_next(last_ms, wall_ms, &exact);
}

TEST(a_majority_determines_the_time)
{
    assert_true(reached(NOW_MS, NOW_MS + 5, NOW_MS + 9) == NOW_MS + 5);
    assert_true(reached(NOW_MS + YEARS_MS, NOW_MS, NOW_MS + 9) == NOW_MS + 9);
    assert_true(reached(1, NOW_MS, NOW_MS + 9) == NOW_MS);
    assert_true(reached(NOW_MS + YEARS_MS, NOW_MS + YEARS_MS, NOW_MS) == NOW_MS + YEARS_MS);
}

TEST(an_unreported_clock_counts_as_0)
{
    int64_t one_ms = NOW_MS;

    assert_true(reached(NOW_MS + YEARS_MS, 0, NOW_MS) == NOW_MS);
    assert_int_equal(reached(NOW_MS + YEARS_MS, 0, 0), 0);
    assert_int_equal(stamp_reached(&one_ms, 1, 2), 0);
    assert_true(reached(INT64_MAX, INT64_MAX, 0) == STAMP_MAX_MS);
    assert_int_equal(reached(INT64_MIN, INT64_MIN, 5), 0);
}

TEST(the_leaders_clock_counts_within_a_second)
{
    assert_true(next_after(0, NOW_MS + 400, NOW_MS) == NOW_MS + 400);
    assert_true(next_after(0, NOW_MS - 400, NOW_MS) == NOW_MS - 400);
    assert_true(next_after(0, NOW_MS + YEARS_MS, NOW_MS) == NOW_MS + STAMP_SLACK_MS);
    assert_true(next_after(0, NOW_MS - YEARS_MS, NOW_MS) == NOW_MS - STAMP_SLACK_MS);
    assert_int_equal(next_after(0, -5, 0), 0);
    assert_true(next_after(0, INT64_MAX, STAMP_MAX_MS) == STAMP_MAX_MS);
}

TEST(small_corrections_of_clocks_stop_the_stamps)
{
    int64_t most_ms = NOW_MS + STAMP_SLACK_MS + STAMP_HOLD_MS;

    assert_true(next_after(NOW_MS + 300, NOW_MS, NOW_MS) == NOW_MS + 300);
    assert_true(next_after(most_ms, NOW_MS, NOW_MS) == most_ms);
}

TEST(stamps_step_back_once_when_a_majority_was_wrong)
{
    int64_t last_ms = next_after(NOW_MS + YEARS_MS, NOW_MS, NOW_MS);

    assert_true(last_ms == NOW_MS);
    last_ms = next_after(last_ms, NOW_MS - 100, NOW_MS);
    assert_true(last_ms == NOW_MS);
    assert_true(next_after(INT64_MAX, NOW_MS, NOW_MS) == NOW_MS);
    assert_true(next_after(INT64_MIN, NOW_MS, NOW_MS) == NOW_MS);
}

/* The clocks may be right, and their heartbeats late. */
TEST(a_late_heartbeat_is_no_reason_to_step_back)
{
    const struct reached late = {.least_ms = NOW_MS - 30000, .most_ms = NOW_MS};
    const struct reached in_time = {.least_ms = NOW_MS - 30000, .most_ms = NOW_MS - 29990};

    assert_true(stamp_next(NOW_MS, NOW_MS, &late) == NOW_MS);
    assert_true(stamp_next(NOW_MS - 40000, NOW_MS, &late) == NOW_MS - 30000 + STAMP_SLACK_MS);
    assert_true(stamp_next(NOW_MS, NOW_MS, &in_time) == NOW_MS - 30000 + STAMP_SLACK_MS);
}

TEST(a_single_voter_notices_jumps)
{
    struct steady steady = {0};

    assert_true(steady_read(&steady, 1000, NOW_MS) == NOW_MS);
    assert_true(steady_read(&steady, 1100, NOW_MS + 100) == NOW_MS + 100);
    assert_true(steady_read(&steady, 1200, NOW_MS + YEARS_MS) == NOW_MS + 200);
    assert_true(steady_read(&steady, 2600, NOW_MS + YEARS_MS + 1400) == NOW_MS + 1600);
    assert_true(steady_read(&steady, 2700, NOW_MS + 1700) == NOW_MS + 1700);
    assert_true(steady_read(&steady, 2800, NOW_MS - YEARS_MS) == NOW_MS + 1800);
}

TEST(a_clock_that_stays_where_it_jumped_is_believed)
{
    struct steady steady = {0};
    uint64_t end_ms = 1000 + STEADY_SETTLE_MS;

    (void)steady_read(&steady, 900, NOW_MS);
    assert_true(steady_read(&steady, 1000, NOW_MS + YEARS_MS) == NOW_MS + 100);
    assert_true(steady_read(&steady, end_ms - 1, NOW_MS + YEARS_MS + STEADY_SETTLE_MS - 1) ==
                NOW_MS + 99 + STEADY_SETTLE_MS);
    assert_true(steady_read(&steady, end_ms, NOW_MS + YEARS_MS + STEADY_SETTLE_MS) ==
                NOW_MS + YEARS_MS + STEADY_SETTLE_MS);
}

/* Each jump starts the wait again. */
TEST(a_clock_that_keeps_jumping_is_not_believed)
{
    struct steady steady = {0};

    (void)steady_read(&steady, 0, NOW_MS);
    for (uint64_t at_ms = 10000; at_ms < 50 * (uint64_t)STEADY_SETTLE_MS; at_ms += 10000) {
        int64_t wall_ms = NOW_MS + (at_ms % 20000 == 0 ? YEARS_MS : -YEARS_MS);

        assert_true(steady_read(&steady, at_ms, wall_ms) == NOW_MS + (int64_t)at_ms);
    }
}

TEST(a_clock_that_is_slewed_is_followed)
{
    struct steady steady = {0};

    for (uint64_t at_ms = 0; at_ms < 100000; at_ms += 500) {
        int64_t wall_ms = NOW_MS + (int64_t)(at_ms * 2);

        assert_true(steady_read(&steady, at_ms, wall_ms) == wall_ms);
    }
}
