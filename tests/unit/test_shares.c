#include "base/shares.h"
#include "tests/lib/unit.h"

enum {
    ALL = 100,
    PART = 25
};

static void set_up(struct shares *shares)
{
    shares_init(shares, ALL, PART);
}

TEST(an_address_gets_its_part_and_no_more, shares, set_up, shares_release)
{
    assert_true(shares_try_take(shares, 1, PART));
    assert_false(shares_try_take(shares, 1, 1));
    assert_true(shares_try_take(shares, 2, PART));
    assert_int_equal(budget_used(&shares->budget), 2 * PART);
    shares_give(shares, 1, 1);
    assert_true(shares_try_take(shares, 1, 1));
    shares_give(shares, 1, PART);
    shares_give(shares, 2, PART);
}

TEST(all_addresses_together_get_the_budget, shares, set_up, shares_release)
{
    for (uint64_t key = 1; key <= ALL / PART; key++) {
        assert_true(shares_try_take(shares, key, PART));
    }
    assert_false(shares_try_take(shares, ALL, 1));
    shares_give(shares, 1, PART);
    assert_true(shares_try_take(shares, ALL, PART));
    shares_give(shares, ALL, PART);
    for (uint64_t key = 2; key <= ALL / PART; key++) {
        shares_give(shares, key, PART);
    }
}

TEST(what_must_be_taken_is_taken, shares, set_up, shares_release)
{
    shares_take(shares, 1, 2 * ALL);
    assert_false(shares_try_take(shares, 1, 1));
    assert_false(shares_try_take(shares, 2, 1));
    shares_give(shares, 1, 2 * ALL);
    assert_true(shares_try_take(shares, 2, 1));
    shares_give(shares, 2, 1);
}

TEST(a_large_amount_does_not_wrap, shares, set_up, shares_release)
{
    assert_true(shares_try_take(shares, 1, 1));
    assert_false(shares_try_take(shares, 1, SIZE_MAX));
    shares_give(shares, 1, 1);
}
