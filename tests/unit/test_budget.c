#include "base/blob.h"
#include "base/budget.h"
#include "base/thread.h"
#include "tests/lib/unit.h"

enum {
    BLOB_BYTES = 100,
    THREADS = 4,
    ROUNDS = 20000
};

static struct budget shared;
static struct blob *value;

TEST(a_budget_has_an_end)
{
    struct budget budget;

    budget_init(&budget, 100);
    assert_true(budget_try_take(&budget, 60));
    assert_false(budget_try_take(&budget, 41));
    assert_int_equal(budget_used(&budget), 60);
    assert_int_equal(budget_refusals(&budget), 1);
    assert_true(budget_try_take(&budget, 40));
    budget_give(&budget, 100);
    assert_int_equal(budget_used(&budget), 0);
}

TEST(a_size_near_the_largest_number_does_not_wrap)
{
    struct budget budget;

    budget_init(&budget, 100);
    budget_take(&budget, 50);
    assert_false(budget_try_take(&budget, SIZE_MAX));
    assert_false(budget_try_take(&budget, SIZE_MAX - 40));
    assert_int_equal(budget_used(&budget), 50);
}

TEST(levels)
{
    struct budget budget;

    budget_init(&budget, 100);
    budget_take(&budget, 74);
    assert_int_equal(budget_level(&budget), BUDGET_ROOMY);
    budget_take(&budget, 1);
    assert_int_equal(budget_level(&budget), BUDGET_SHORT);
    budget_take(&budget, 25);
    assert_int_equal(budget_level(&budget), BUDGET_FULL);
    budget_take(&budget, 25); /* Bytes that already exist are counted, even beyond the maximum. */
    assert_int_equal(budget_used(&budget), 125);
    assert_false(budget_try_take(&budget, 1));
}

TEST(refusals_are_counted_below_the_full_level)
{
    struct budget budget;
    struct blob *blob = blob_alloc(BLOB_BYTES);

    budget_init(&budget, 2 * BLOB_BYTES);
    budget_take(&budget, 2 * BLOB_BYTES - 10);
    assert_int_equal(budget_refusals(&budget), 0);
    assert_false(budget_try_take(&budget, 11));
    assert_int_equal(budget_refusals(&budget), 1);
    assert_null(blob_try_pin(blob, &budget));
    assert_int_equal(budget_refusals(&budget), 2);
    assert_int_equal(budget_level(&budget), BUDGET_SHORT);
    assert_true(budget_try_take(&budget, 10)); /* An amount that fits is no refusal. */
    budget_take(&budget, 1);                   /* Nor is an unconditional one. */
    assert_int_equal(budget_refusals(&budget), 2);
    blob_unref(blob);
}

TEST(a_pinned_blob_counts_once)
{
    struct budget budget;
    struct blob *blob = blob_alloc(BLOB_BYTES);

    budget_init(&budget, 2 * BLOB_BYTES);
    assert_ptr_equal(blob_pin(blob, &budget), blob);
    assert_ptr_equal(blob_try_pin(blob, &budget), blob);
    assert_int_equal(budget_used(&budget), BLOB_BYTES);
    blob_unref(blob); /* The tree has dropped it: the pins keep it. */
    blob_unpin(blob, &budget);
    assert_int_equal(budget_used(&budget), BLOB_BYTES);
    blob_unpin(blob, &budget);
    assert_int_equal(budget_used(&budget), 0);
}

TEST(without_room_no_pin_is_given)
{
    struct budget budget;
    struct blob *blob = blob_alloc(BLOB_BYTES);

    budget_init(&budget, BLOB_BYTES - 1);
    assert_null(blob_try_pin(blob, &budget));
    assert_int_equal(budget_used(&budget), 0);
    assert_int_equal(atomic_load(&blob->refs), 1);
    assert_int_equal(atomic_load(&blob->pins), 0);
    assert_null(blob_pin(NULL, &budget));
    blob_unpin(NULL, &budget);
    blob_unref(blob);
}

static void pin_often(void *arg)
{
    (void)arg;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct blob *pinned = i % 2 == 0 ? blob_pin(value, &shared) : blob_try_pin(value, &shared);

        blob_unpin(pinned, &shared);
    }
}

TEST(threads_pin_and_unpin)
{
    struct thread threads[THREADS];

    value = blob_alloc(BLOB_BYTES);
    budget_init(&shared, BLOB_BYTES - 1); /* Each try fails unless another thread has pinned it. */
    for (uint32_t i = 0; i < THREADS; i++) {
        thread_start(&threads[i], "pin", pin_often, NULL);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        thread_join(&threads[i]);
    }
    assert_int_equal(budget_used(&shared), 0);
    assert_int_equal(atomic_load(&value->refs), 1);
    blob_unref(value);
}

TEST(the_peak_is_that_since_the_last_call)
{
    struct budget budget;

    budget_init(&budget, 100);
    budget_take(&budget, 30);
    assert_true(budget_try_take(&budget, 50));
    budget_give(&budget, 70);
    assert_int_equal(budget_peak(&budget), 80);
    assert_int_equal(budget_peak(&budget), 10);
    budget_give(&budget, 10);
}
