/* The age of the ensemble: what a leader counts, what others may believe, and for how long. */
#include "server/replica/clock.h"
#include "tests/lib/unit.h"

enum {
    EPOCH = 5
};

static struct age follower(void)
{
    struct age age = {0};

    age_turn(&age, EPOCH, false, false, 1000);
    return age;
}

static struct age leader(int64_t seen_ms)
{
    struct age age = follower();

    age_seen(&age, seen_ms);
    age_turn(&age, EPOCH, true, false, 2000);
    age_turn(&age, EPOCH + 1, true, false, 2500);
    age_turn(&age, EPOCH + 1, true, true, 3000);
    return age;
}

TEST(a_leader_continues_from_its_newest_transaction)
{
    struct age age = leader(700);

    assert_int_equal(age_now(&age, 3000), 700);
    assert_int_equal(age_now(&age, 3010), 710);
    age_seen(&age, 705); /* Its own transaction. */
    assert_int_equal(age_now(&age, 3010), 710);
    age_turn(&age, EPOCH + 1, true, true, 9000);
    assert_int_equal(age_now(&age, 9000), 6700);
}

TEST(only_a_leader_counts)
{
    struct age age = follower();

    age_seen(&age, 700);
    assert_int_equal(age_now(&age, 1000), 700);
    assert_int_equal(age_now(&age, 100000), 700);
    age_seen(&age, 600);
    assert_int_equal(age_now(&age, 100000), 700);
}

TEST(a_new_leader_knows_of_idle_time_by_heartbeats)
{
    struct age age = follower();

    age_seen(&age, 700);
    age_heard(&age, EPOCH, 90000, 2000);
    age_heard(&age, EPOCH, 80000, 2100);
    age_turn(&age, EPOCH, false, false, 50000); /* Looks for a leader. */
    age_turn(&age, EPOCH, true, false, 51000);
    age_turn(&age, EPOCH + 1, true, false, 52000);
    age_turn(&age, EPOCH + 1, true, true, 53000);
    assert_int_equal(age_now(&age, 53001), 90001);
}

/* The leader of the next epoch may not have heard it: a key that was used under it would be
 * forgotten early. */
TEST(what_was_heard_ends_with_the_epoch)
{
    struct age age = follower();

    age_seen(&age, 700);
    age_heard(&age, EPOCH, 90000, 2000);
    age_turn(&age, EPOCH + 1, false, false, 50000);
    assert_int_equal(age_now(&age, 50000), 700);
    age_heard(&age, EPOCH, 90000, 50000); /* Late. */
    age_heard(&age, EPOCH + 2, 90000, 50000);
    assert_int_equal(age_now(&age, 50000), 700);
    age_heard(&age, EPOCH + 1, 800, 50000);
    assert_int_equal(age_now(&age, 50000), 800);
}

/* A leader that is broken would have keys forgotten by the next one. */
TEST(what_is_heard_grows_no_faster_than_the_time_here)
{
    struct age age = follower();

    age_seen(&age, 700);
    age_heard(&age, EPOCH, 90000, 2000);
    age_heard(&age, EPOCH, 91000, 3000);
    assert_int_equal(age_now(&age, 3000), 91000);
    age_heard(&age, EPOCH, INT64_C(90000000000000), 3000);
    assert_int_equal(age_now(&age, 3000), 91000 + AGE_LATE_MS);
    age_heard(&age, EPOCH, INT64_C(90000000000000), 3100);
    assert_int_equal(age_now(&age, 3100), 91100 + AGE_LATE_MS);
    age_heard(&age, EPOCH, 690000, 602000); /* Idle. */
    assert_int_equal(age_now(&age, 602000), 690000);
}

/* It said its age first when it had not yet applied all that came before. */
TEST(what_is_heard_may_follow_the_log)
{
    struct age age = follower();

    age_heard(&age, EPOCH, 700, 2000);
    age_seen(&age, 5000000);
    age_heard(&age, EPOCH, 5060000, 62000);
    assert_int_equal(age_now(&age, 62000), 5000000 + AGE_LATE_MS);
    age_heard(&age, EPOCH, 5120000, 122000 + 60000);
    assert_int_equal(age_now(&age, 122000 + 60000), 5120000);
}

TEST(what_a_leader_counted_is_checked_as_if_heard)
{
    struct age age = leader(700);

    age_turn(&age, EPOCH + 1, false, false, 11000);
    age_heard(&age, EPOCH + 1, INT64_MAX, 12000);
    assert_int_equal(age_now(&age, 12000), 9700 + AGE_LATE_MS);
}

TEST(a_leader_that_leads_again_has_lost_nothing)
{
    struct age age = leader(700);

    age_turn(&age, EPOCH + 1, true, true, 10000);
    age_turn(&age, EPOCH + 1, false, false, 11000);
    assert_int_equal(age_now(&age, 20000), 8700);
    age_turn(&age, EPOCH + 1, true, false, 21000);
    age_turn(&age, EPOCH + 2, true, true, 22000);
    assert_int_equal(age_now(&age, 22500), 9200);
}

TEST(a_leader_that_was_replaced_forgets_what_it_counted)
{
    struct age age = leader(700);

    age_turn(&age, EPOCH + 1, true, true, 500000);
    age_turn(&age, EPOCH + 1, false, false, 500001);
    age_turn(&age, EPOCH + 2, false, false, 500002);
    assert_int_equal(age_now(&age, 600000), 700);
}

/* It steps down and is elected again before anything is asked of it. */
TEST(a_new_epoch_of_the_same_leader_continues)
{
    struct age age = leader(700);

    age_turn(&age, EPOCH + 2, true, true, 10000);
    assert_int_equal(age_now(&age, 10001), 7701);
}

TEST(it_never_overflows)
{
    struct age age = leader(INT64_MAX - 5);

    assert_true(age_now(&age, 3005) == INT64_MAX);
    assert_true(age_now(&age, 9000) == INT64_MAX);
    age_heard(&age, EPOCH + 1, -1, 9000);
    assert_true(age_now(&age, 9000) == INT64_MAX);
}
