/* When a zxid was reached, by marks of which old ones are overwritten. */
#include "server/replica/progress.h"
#include "tests/lib/unit.h"

static struct progress progress;

static void setup(void)
{
    progress = (struct progress){.count = 0};
}

static void teardown(void)
{
}

TEST(a_zxid_has_the_time_of_the_first_mark_that_reaches_it, setup, teardown)
{
    assert_int_equal(progress_when(&progress, 1), 0);
    progress_note(&progress, 5, 100);
    progress_note(&progress, 9, 120);
    assert_int_equal(progress_when(&progress, 1), 100);
    assert_int_equal(progress_when(&progress, 5), 100);
    assert_int_equal(progress_when(&progress, 6), 120);
    assert_int_equal(progress_when(&progress, 9), 120);
    assert_int_equal(progress_when(&progress, 10), 0);
}

TEST(marks_of_one_millisecond_are_one, setup, teardown)
{
    progress_note(&progress, 5, 100);
    progress_note(&progress, 9, 100);
    assert_int_equal(progress.count, 1);
    assert_int_equal(progress_when(&progress, 9), 100);
}

/* A log that was cut continues in a later epoch; until then nothing advances. */
TEST(an_older_zxid_changes_nothing, setup, teardown)
{
    progress_note(&progress, zxid_make(1, 9), 100);
    progress_note(&progress, zxid_make(1, 4), 110);
    progress_note(&progress, 0, 115);
    assert_int_equal(progress_when(&progress, zxid_make(1, 9)), 100);
    progress_note(&progress, zxid_make(2, 1), 120);
    assert_int_equal(progress_when(&progress, zxid_make(1, 10)), 120);
}

TEST(an_overwritten_mark_gives_a_later_time, setup, teardown)
{
    const uint64_t count = 3 * PROGRESS_MARKS + 7;
    const uint64_t oldest = count - PROGRESS_MARKS + 1;

    for (uint64_t i = 1; i <= count; i++) {
        progress_note(&progress, 10 * i, 1000 + i);
    }
    for (uint64_t i = 1; i <= count; i++) {
        uint64_t expected = 1000 + (i > oldest ? i : oldest);

        assert_int_equal(progress_when(&progress, 10 * i), expected);
        assert_int_equal(progress_when(&progress, 10 * i - 3), expected);
    }
}
