/* Token buckets in a table of fixed size. */
#include "server/process/buckets.h"
#include "tests/lib/unit.h"

enum {
    TOKENS = 10,
    TOKEN_NS = 1000,
    DEBT_NS = 5000
};

static struct buckets buckets;

static void open_table(void)
{
    buckets_init(&buckets, TOKENS, TOKEN_NS, DEBT_NS);
}

static void close_table(void)
{
    buckets_release(&buckets);
}

static void empty(uint64_t key, uint64_t now_ns)
{
    for (int i = 0; i < TOKENS; i++) {
        assert_int_equal(buckets_wait(&buckets, key, 1, now_ns), 0);
        buckets_charge(&buckets, key, 1, now_ns);
    }
}

TEST(a_bucket_is_emptied_and_fills_again, open_table, close_table)
{
    uint64_t key = buckets_key(&buckets, 1, slice_str("a"));
    uint64_t now_ns = 77777;

    empty(key, now_ns);
    assert_int_equal(buckets_wait(&buckets, key, 1, now_ns), TOKEN_NS);
    assert_int_equal(buckets_wait(&buckets, key, 1, now_ns + TOKEN_NS - 1), 1);
    assert_int_equal(buckets_wait(&buckets, key, 1, now_ns + TOKEN_NS), 0);
    assert_int_equal(buckets_wait(&buckets, key, TOKENS, now_ns + TOKEN_NS),
                     (TOKENS - 1) * TOKEN_NS);
    /* A cost above the size of a bucket is paid when the bucket is full. */
    assert_int_equal(buckets_wait(&buckets, key, UINT64_MAX, now_ns + TOKENS * TOKEN_NS), 0);
    empty(key, now_ns + TOKENS * TOKEN_NS);
}

/* Twice as many tokens, which come back twice as fast: what was used stays used. */
TEST(the_number_of_tokens_changes, open_table, close_table)
{
    uint64_t used = buckets_key(&buckets, 1, slice_str("a"));
    uint64_t fresh = buckets_key(&buckets, 1, slice_str("b"));

    empty(used, 1);
    buckets_set(&buckets, (uint64_t)2 * TOKENS, TOKEN_NS / 2, DEBT_NS);
    assert_int_equal(buckets_wait(&buckets, used, 1, 1), TOKEN_NS / 2);
    assert_int_equal(buckets_wait(&buckets, used, 2, 1), TOKEN_NS);
    empty(fresh, 1);
    empty(fresh, 1);
    assert_true(buckets_wait(&buckets, fresh, 1, 1) > 0);
}

TEST(names_and_kinds_are_kept_apart, open_table, close_table)
{
    uint64_t key = buckets_key(&buckets, 1, slice_str("a"));

    empty(key, 1);
    assert_true(buckets_wait(&buckets, key, 1, 1) > 0);
    assert_int_equal(buckets_wait(&buckets, buckets_key(&buckets, 2, slice_str("a")), 1, 1), 0);
    assert_int_equal(buckets_wait(&buckets, buckets_key(&buckets, 1, slice_str("b")), 1, 1), 0);
}

TEST(a_clock_that_stops_or_goes_back_gives_no_tokens, open_table, close_table)
{
    uint64_t key = buckets_key(&buckets, 1, slice_str("a"));

    empty(key, 1000000);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(buckets_wait(&buckets, key, 1, 1000000), TOKEN_NS);
        assert_int_equal(buckets_wait(&buckets, key, 1, (uint64_t)i), TOKEN_NS);
    }
    buckets_charge(&buckets, key, 1, 5);
    assert_int_equal(buckets_wait(&buckets, key, 1, 0), 2 * TOKEN_NS);
    assert_int_equal(buckets_wait(&buckets, key, 1, 1000000 + 2 * TOKEN_NS), 0);
}

TEST(the_largest_time_does_not_wrap, open_table, close_table)
{
    uint64_t key = buckets_key(&buckets, 1, slice_str("a"));

    buckets_charge(&buckets, key, UINT64_MAX, UINT64_MAX - 10);
    assert_true(buckets_wait(&buckets, key, 1, UINT64_MAX - 10) <= TOKEN_NS + DEBT_NS);
    buckets_charge(&buckets, key, UINT64_MAX, UINT64_MAX);
    assert_true(buckets_wait(&buckets, key, UINT64_MAX, UINT64_MAX) <= TOKENS * TOKEN_NS + DEBT_NS);
}

TEST(a_debt_is_bounded, open_table, close_table)
{
    uint64_t key = buckets_key(&buckets, 1, slice_str("a"));

    for (int i = 0; i < 1000; i++) {
        buckets_charge(&buckets, key, 1, 50);
    }
    assert_int_equal(buckets_wait(&buckets, key, 1, 50), TOKEN_NS + DEBT_NS);
}

/* A full table does not evict a bucket with a debt, so a victim of the attack stays slowed; new
 * keys share the rest. */
TEST(a_full_table_evicts_no_bucket_and_frees_no_debtor, open_table, close_table)
{
    enum {
        NAMES = BUCKETS_SETS * BUCKETS_WAYS * 4
    };

    uint64_t victim = buckets_key(&buckets, 1, slice_str("victim"));
    uint64_t now_ns = 99;
    uint32_t free = 0;

    empty(victim, now_ns);
    for (uint32_t i = 0; i < NAMES; i++) {
        uint64_t key = buckets_key(&buckets, 2, slice_make(&i, sizeof(i)));

        buckets_charge(&buckets, key, TOKENS, now_ns);
    }
    assert_int_equal(buckets_wait(&buckets, victim, 1, now_ns), TOKEN_NS);
    for (uint32_t i = NAMES; i < NAMES + 10000; i++) {
        uint64_t key = buckets_key(&buckets, 2, slice_make(&i, sizeof(i)));

        free += buckets_wait(&buckets, key, 1, now_ns) == 0 ? 1 : 0;
    }
    assert_true(free < 100); /* Sets that happen not to be full. */
    /* Some time later all buckets are full and all places are free. */
    now_ns += TOKENS * TOKEN_NS + DEBT_NS;
    for (uint32_t i = 0; i < 1000; i++) {
        uint64_t key = buckets_key(&buckets, 3, slice_make(&i, sizeof(i)));

        assert_int_equal(buckets_wait(&buckets, key, TOKENS, now_ns), 0);
    }
}

/* Own buckets never look at the shared one, and replace another bucket only on request. */
TEST(own_buckets_are_separate_from_the_shared_one, open_table, close_table)
{
    uint64_t heavy = buckets_key(&buckets, 1, slice_str("heavy"));
    uint64_t wait_ns = 0;

    (void)buckets_own_charge(&buckets, heavy, TOKENS, 9, BUCKETS_IF_FREE);
    for (uint32_t i = 0; i < BUCKETS_SETS * BUCKETS_WAYS * 4; i++) {
        uint64_t key = buckets_key(&buckets, 2, slice_make(&i, sizeof(i)));

        buckets_charge(&buckets, key, 1, 9);
        buckets_charge(&buckets, key, 1, 9);
    }
    uint64_t newcomer = buckets_key(&buckets, 3, slice_str("newcomer"));

    for (uint32_t i = 0; buckets_own_charge(&buckets, newcomer, 1, 9, BUCKETS_IF_FREE) > 0; i++) {
        newcomer = buckets_key(&buckets, 4, slice_make(&i, sizeof(i))); /* A set with room. */
    }
    assert_false(buckets_own_wait(&buckets, newcomer, TOKENS, 9, &wait_ns));
    assert_int_equal(wait_ns, 0);
    assert_int_equal(buckets_own_charge(&buckets, newcomer, 1, 9, BUCKETS_KEEP_OUT), 0);
    assert_int_equal(buckets_own_charge(&buckets, newcomer, 1, 9, BUCKETS_REPLACE), TOKEN_NS);
    assert_true(buckets_own_wait(&buckets, newcomer, TOKENS, 9, &wait_ns));
    assert_int_equal(wait_ns, TOKEN_NS);
    assert_true(buckets_own_wait(&buckets, heavy, 1, 9, &wait_ns));
    assert_int_equal(wait_ns, TOKEN_NS);
    assert_false(buckets_own_wait(&buckets, heavy, 1, 9 + TOKENS * TOKEN_NS, &wait_ns));
}
