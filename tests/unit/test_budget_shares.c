#include "base/budget.h"
#include "tests/lib/unit.h"

enum {
    ALL = 100,
    PART = 25
};

static void set_up(struct budget_shares *budget_shares)
{
    budget_shares_init(budget_shares, ALL, PART);
}

TEST(an_address_gets_its_share_and_no_more, budget_shares, set_up, budget_shares_release)
{
    assert_true(budget_shares_try_take(budget_shares, 1, PART));
    assert_false(budget_shares_try_take(budget_shares, 1, 1));
    assert_true(budget_shares_try_take(budget_shares, 2, PART));
    assert_int_equal(budget_used(&budget_shares->budget), 2 * PART);
    budget_shares_give(budget_shares, 1, 1);
    assert_true(budget_shares_try_take(budget_shares, 1, 1));
    budget_shares_give(budget_shares, 1, PART);
    budget_shares_give(budget_shares, 2, PART);
}

TEST(all_addresses_together_get_the_budget, budget_shares, set_up, budget_shares_release)
{
    for (uint64_t key = 1; key <= ALL / PART; key++) {
        assert_true(budget_shares_try_take(budget_shares, key, PART));
    }
    assert_false(budget_shares_try_take(budget_shares, ALL, 1));
    budget_shares_give(budget_shares, 1, PART);
    assert_true(budget_shares_try_take(budget_shares, ALL, PART));
    budget_shares_give(budget_shares, ALL, PART);
    for (uint64_t key = 2; key <= ALL / PART; key++) {
        budget_shares_give(budget_shares, key, PART);
    }
}

TEST(an_unconditional_amount_is_always_taken, budget_shares, set_up, budget_shares_release)
{
    budget_shares_take(budget_shares, 1, 2 * ALL);
    assert_false(budget_shares_try_take(budget_shares, 1, 1));
    assert_false(budget_shares_try_take(budget_shares, 2, 1));
    budget_shares_give(budget_shares, 1, 2 * ALL);
    assert_true(budget_shares_try_take(budget_shares, 2, 1));
    budget_shares_give(budget_shares, 2, 1);
}

TEST(a_large_amount_does_not_wrap, budget_shares, set_up, budget_shares_release)
{
    assert_true(budget_shares_try_take(budget_shares, 1, 1));
    assert_false(budget_shares_try_take(budget_shares, 1, SIZE_MAX));
    budget_shares_give(budget_shares, 1, 1);
}
