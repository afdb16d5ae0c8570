#include "tests/lib/draw.h"
#include "tests/lib/unit.h"

/* The reference implementation's first outputs for the state that splitmix64 makes of seed 0. */
TEST(known_sequence)
{
    struct rng rng;

    rng_init(&rng, 0);
    assert_true(rng.s[0] == UINT64_C(0xe220a8397b1dcdaf));
    assert_true(rng.s[1] == UINT64_C(0x6e789e6aa1b965f4));
    assert_true(rng_u64(&rng) == UINT64_C(0x99ec5f36cb75f2b4));
    assert_true(rng_u64(&rng) == UINT64_C(0xbf6e1f784956452a));
}

TEST(same_seed_same_sequence)
{
    struct rng a;
    struct rng b;
    struct rng c;

    rng_init(&a, 42);
    rng_init(&b, 42);
    rng_init(&c, 43);
    for (int i = 0; i < 100; i++) {
        uint64_t value = rng_u64(&a);

        assert_true(value == rng_u64(&b));
        assert_true(value != rng_u64(&c));
    }
}

TEST(below_stays_below_and_reaches_all)
{
    struct rng rng;
    int counts[10] = {0};

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

TEST(range_includes_both_ends)
{
    struct rng rng;
    int seen = 0;

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

TEST(chance)
{
    struct rng rng;
    int hits = 0;

    rng_init(&rng, 1);
    for (int i = 0; i < 10000; i++) {
        hits += rng_chance(&rng, 250000);
        assert_false(rng_chance(&rng, 0));
        assert_true(rng_chance(&rng, 1000000));
    }
    assert_in_range(hits, 2300, 2700);
}
