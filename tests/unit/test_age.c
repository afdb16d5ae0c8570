/* The age of the ensemble: what a leader counts, what other replicas may believe, and for how long.
 */
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
    age_seen(&age, 705); /* The leader's own transaction. */
    assert_int_equal(age_now(&age, 3010), 710);
    age_turn(&age, EPOCH + 1, true, true, 9000);
    assert_int_equal(age_now(&age, 9000), 6700);
}

TEST(only_a_leader_counts_the_age)
{
    struct age age = follower();

    age_seen(&age, 700);
    assert_int_equal(age_now(&age, 1000), 700);
    assert_int_equal(age_now(&age, 100000), 700);
    age_seen(&age, 600);
    assert_int_equal(age_now(&age, 100000), 700);
}

TEST(a_new_leader_knows_idle_time_from_heartbeats)
{
    struct age age = follower();

    age_seen(&age, 700);
    age_heard(&age, EPOCH, 90000, 2000);
    age_heard(&age, EPOCH, 80000, 2100);
    age_turn(&age, EPOCH, false, false, 50000); /* No leader is known. */
    age_turn(&age, EPOCH, true, false, 51000);
    age_turn(&age, EPOCH + 1, true, false, 52000);
    age_turn(&age, EPOCH + 1, true, true, 53000);
    assert_int_equal(age_now(&age, 53001), 90001);
}

/* The next leader may not have received this age, so a key that was used under it would be
 * forgotten early. */
TEST(a_reported_age_ends_with_the_epoch)
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

/* A faulty leader could otherwise make its successor forget keys early. */
TEST(a_reported_age_grows_no_faster_than_the_local_clock)
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

/* The leader first announced its age before it had applied its whole log. */
TEST(a_reported_age_may_follow_the_log)
{
    struct age age = follower();

    age_heard(&age, EPOCH, 700, 2000);
    age_seen(&age, 5000000);
    age_heard(&age, EPOCH, 5060000, 62000);
    assert_int_equal(age_now(&age, 62000), 5000000 + AGE_LATE_MS);
    age_heard(&age, EPOCH, 5120000, 122000 + 60000);
    assert_int_equal(age_now(&age, 122000 + 60000), 5120000);
}

TEST(a_former_leaders_own_count_bounds_reported_ages)
{
    struct age age = leader(700);

    age_turn(&age, EPOCH + 1, false, false, 11000);
    age_heard(&age, EPOCH + 1, INT64_MAX, 12000);
    assert_int_equal(age_now(&age, 12000), 9700 + AGE_LATE_MS);
}

TEST(a_leader_that_leads_again_keeps_its_count)
{
    struct age age = leader(700);

    age_turn(&age, EPOCH + 1, true, true, 10000);
    age_turn(&age, EPOCH + 1, false, false, 11000);
    assert_int_equal(age_now(&age, 20000), 8700);
    age_turn(&age, EPOCH + 1, true, false, 21000);
    age_turn(&age, EPOCH + 2, true, true, 22000);
    assert_int_equal(age_now(&age, 22500), 9200);
}

TEST(a_replaced_leader_drops_its_count)
{
    struct age age = leader(700);

    age_turn(&age, EPOCH + 1, true, true, 500000);
    age_turn(&age, EPOCH + 1, false, false, 500001);
    age_turn(&age, EPOCH + 2, false, false, 500002);
    assert_int_equal(age_now(&age, 600000), 700);
}

/* The leader steps down and is elected again before any request needs the age. */
TEST(a_new_epoch_of_the_same_leader_continues_the_count)
{
    struct age age = leader(700);

    age_turn(&age, EPOCH + 2, true, true, 10000);
    assert_int_equal(age_now(&age, 10001), 7701);
}

TEST(the_age_never_overflows)
{
    struct age age = leader(INT64_MAX - 5);

    assert_true(age_now(&age, 3005) == INT64_MAX);
    assert_true(age_now(&age, 9000) == INT64_MAX);
    age_heard(&age, EPOCH + 1, -1, 9000);
    assert_true(age_now(&age, 9000) == INT64_MAX);
}
