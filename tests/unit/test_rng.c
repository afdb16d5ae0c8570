#include "base/rng.h"
#include "tests/lib/unit.h"

/* The reference implementation's first outputs for the state that splitmix64 makes of seed 0. */
static void test_known_sequence(void **state)
{
    struct rng rng;

    (void)state;
    rng_init(&rng, 0);
    assert_true(rng.s[0] == UINT64_C(0xe220a8397b1dcdaf));
    assert_true(rng.s[1] == UINT64_C(0x6e789e6aa1b965f4));
    assert_true(rng_u64(&rng) == UINT64_C(0x99ec5f36cb75f2b4));
    assert_true(rng_u64(&rng) == UINT64_C(0xbf6e1f784956452a));
}

static void test_same_seed_same_sequence(void **state)
{
    struct rng a;
    struct rng b;
    struct rng c;

    (void)state;
    rng_init(&a, 42);
    rng_init(&b, 42);
    rng_init(&c, 43);
    for (int i = 0; i < 100; i++) {
        uint64_t value = rng_u64(&a);

        assert_true(value == rng_u64(&b));
        assert_true(value != rng_u64(&c));
    }
}

static void test_below_stays_below_and_reaches_all(void **state)
{
    struct rng rng;
    int counts[10] = {0};

    (void)state;
    rng_init(&rng, 1);
    for (int i = 0; i < 10000; i++) {
        counts[rng_below(&rng, 10)]++;
    }
    for (int i = 0; i < 10; i++) {
        assert_in_range(counts[i], 800, 1200);
    }
    assert_true(rng_below(&rng, 1) == 0);
    assert_true(rng_below(&rng, UINT64_MAX) < UINT64_MAX);
}

static void test_range_includes_both_ends(void **state)
{
    struct rng rng;
    int seen = 0;

    (void)state;
    rng_init(&rng, 1);
    for (int i = 0; i < 1000; i++) {
        uint64_t value = rng_range(&rng, 5, 7);

        assert_in_range(value, 5, 7);
        seen |= 1 << (value - 5);
    }
    assert_int_equal(seen, 7);
    assert_true(rng_range(&rng, UINT64_MAX, UINT64_MAX) == UINT64_MAX);
    assert_true(rng_range(&rng, 0, UINT64_MAX) != rng_range(&rng, 0, UINT64_MAX));
}

static void test_chance(void **state)
{
    struct rng rng;
    int hits = 0;

    (void)state;
    rng_init(&rng, 1);
    for (int i = 0; i < 10000; i++) {
        hits += rng_chance(&rng, 250000);
        assert_false(rng_chance(&rng, 0));
        assert_true(rng_chance(&rng, 1000000));
    }
    assert_in_range(hits, 2300, 2700);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_sequence),
        cmocka_unit_test(test_same_seed_same_sequence),
        cmocka_unit_test(test_below_stays_below_and_reaches_all),
        cmocka_unit_test(test_range_includes_both_ends),
        cmocka_unit_test(test_chance),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
