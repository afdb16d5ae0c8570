/* touch: a set that one thread empties while others fill it. */
#include "base/mem.h"
#include "base/thread.h"
#include "server/sessions/touch.h"
#include "tests/lib/unit.h"

enum {
    MANY = 5000,
    THREADS = 4,
    ROUNDS = 200
};

TEST(each_id_comes_once_in_order)
{
    struct touch_set *set = touch_set_new(100);
    const uint64_t *ids = NULL;
    size_t count = 0;

    touch_take(set, &count);
    assert_int_equal(count, 0);
    assert_true(touch_add(set, 7));
    assert_true(touch_add(set, 3));
    assert_true(touch_add(set, 7));
    assert_int_equal(touch_count(set), 3);
    ids = touch_take(set, &count);
    assert_int_equal(count, 2);
    assert_int_equal(ids[0], 7);
    assert_int_equal(ids[1], 3);

    /* A taken id is not given again, and may be added again. */
    assert_true(touch_add(set, 3));
    ids = touch_take(set, &count);
    assert_int_equal(count, 1);
    assert_int_equal(ids[0], 3);
    touch_take(set, &count);
    assert_int_equal(count, 0);
    touch_set_free(set);
}

TEST(is_bounded)
{
    struct touch_set *set = touch_set_new(2);
    size_t count = 0;

    assert_true(touch_add(set, 1));
    assert_true(touch_add(set, 2));
    assert_false(touch_add(set, 3));
    assert_true(touch_add(set, 2)); /* Already in the set. */
    touch_take(set, &count);
    assert_int_equal(count, 2);
    assert_true(touch_add(set, 3));
    touch_set_free(set);
}

TEST(grows)
{
    struct touch_set *set = touch_set_new(MANY);

    /* Twice, so that both buffers have grown and been used again. */
    for (int round = 0; round < 3; round++) {
        size_t count = 0;

        for (uint64_t i = 1; i <= MANY; i++) {
            assert_true(touch_add(set, i << 20));
            assert_true(touch_add(set, (MANY + 1 - i) << 20));
        }
        const uint64_t *ids = touch_take(set, &count);

        assert_int_equal(count, MANY);
        assert_int_equal(ids[0], UINT64_C(1) << 20);
    }
    touch_set_free(set);
}

struct toucher {
    struct touch_set *set;
    struct thread thread;
    uint64_t first;
};

static void touch_all(void *arg)
{
    struct toucher *toucher = arg;

    for (int round = 0; round < ROUNDS; round++) {
        for (uint64_t i = 0; i < 50; i++) {
            touch_add(toucher->set, toucher->first + i);
        }
    }
}

TEST(no_id_is_lost_between_threads)
{
    struct touch_set *set = touch_set_new(1000);
    struct toucher touchers[THREADS];
    bool seen[THREADS * 50 + 1] = {false};
    size_t count = 0;

    for (uint64_t i = 0; i < THREADS; i++) {
        touchers[i] = (struct toucher){.set = set, .first = 1 + i * 50};
        thread_start(&touchers[i].thread, "touch", touch_all, &touchers[i]);
    }
    for (int round = 0; round < ROUNDS + THREADS; round++) {
        if (round >= ROUNDS) {
            thread_join(&touchers[round - ROUNDS].thread);
        }
        const uint64_t *ids = touch_take(set, &count);

        for (size_t i = 0; i < count; i++) {
            assert_in_range(ids[i], 1, THREADS * 50);
            seen[ids[i]] = true;
        }
    }
    for (size_t i = 1; i <= (size_t)THREADS * 50; i++) {
        assert_true(seen[i]);
    }
    assert_int_equal(touch_count(set), (uint64_t)THREADS * ROUNDS * 50);
    touch_set_free(set);
}
