#include "base/os_clock.h"
#include "base/os_rng.h"
#include "base/os_usage.h"
#include "tests/lib/unit.h"

#include <sched.h>
#include <string.h>

static void test_the_clock_does_not_go_back(void **state)
{
    uint64_t last_ns = os_now_ns();

    (void)state;
    for (int i = 0; i < 1000; i++) {
        uint64_t now_ns = os_now_ns();

        assert_true(now_ns >= last_ns);
        last_ns = now_ns;
    }
}

static void test_units_agree(void **state)
{
    uint64_t ns = os_now_ns();
    uint64_t us = os_now_us();
    uint64_t ms = os_now_ms();

    (void)state;
    assert_true(us >= ns / 1000);
    assert_true(ms >= us / 1000);
    assert_true(os_now_ns() / 1000000 >= ms);
}

static void test_the_wall_clock_is_of_this_century(void **state)
{
    (void)state;

    assert_true(os_wall_ms() > INT64_C(1577836800000)); /* 2020-01-01 */
}

static void test_random_fills_all(void **state)
{
    uint8_t bytes[1000];
    size_t zeros = 0;

    (void)state;
    memset(bytes, 0, sizeof(bytes));
    os_random(bytes, sizeof(bytes));
    for (size_t i = 0; i < sizeof(bytes); i++) {
        zeros += bytes[i] == 0;
    }
    assert_in_range(zeros, 0, 40);
    assert_true(os_random_u64() != os_random_u64());
    os_random(NULL, 0);
}

static void test_usage_is_told(void **state)
{
    uint64_t before_us = os_cpu_us();
    uint64_t memory = os_memory_bytes();
    volatile uint64_t sum = 0;

    (void)state;
    assert_in_range(memory, 100 << 10, UINT64_C(1) << 40);
    assert_true(os_address_bytes() >= memory);
    for (uint64_t i = 0; i < 5000000; i++) {
        sum += i;
    }
    assert_true(sum > 0 && os_cpu_us() > before_us);
}

static void test_processors_are_those_that_the_thread_may_use(void **state)
{
    cpu_set_t all;
    cpu_set_t one;
    size_t first = 0;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    assert_int_equal(os_processors(), CPU_COUNT(&all));
    while (!CPU_ISSET(first, &all)) {
        first++;
    }
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    assert_int_equal(os_processors(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_clock_does_not_go_back),
        cmocka_unit_test(test_units_agree),
        cmocka_unit_test(test_the_wall_clock_is_of_this_century),
        cmocka_unit_test(test_random_fills_all),
        cmocka_unit_test(test_usage_is_told),
        cmocka_unit_test(test_processors_are_those_that_the_thread_may_use),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
