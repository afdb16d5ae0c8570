#include "base/os_clock.h"
#include "base/os_process.h"
#include "base/os_rng.h"
#include "tests/lib/unit.h"

#include <sched.h>
#include <string.h>

TEST(the_clock_does_not_go_back)
{
    uint64_t last_ns = os_now_ns();

    for (int i = 0; i < 1000; i++) {
        uint64_t now_ns = os_now_ns();

        assert_true(now_ns >= last_ns);
        last_ns = now_ns;
    }
}

TEST(units_agree)
{
    uint64_t ns = os_now_ns();
    uint64_t us = os_now_us();
    uint64_t ms = os_now_ms();

    assert_true(us >= ns / 1000);
    assert_true(ms >= us / 1000);
    assert_true(os_now_ns() / 1000000 >= ms);
}

TEST(the_wall_clock_is_plausible)
{
    assert_true(os_wall_ms() > INT64_C(1577836800000)); /* 2020-01-01 */
}

TEST(random_fills_all)
{
    uint8_t bytes[1000];
    size_t zeros = 0;

    memset(bytes, 0, sizeof(bytes));
    os_random(bytes, sizeof(bytes));
    for (size_t i = 0; i < sizeof(bytes); i++) {
        zeros += bytes[i] == 0;
    }
    assert_in_range(zeros, 0, 40);
    assert_true(os_random_u64() != os_random_u64());
    os_random(NULL, 0);
}

TEST(usage_is_reported)
{
    uint64_t before_us = os_cpu_us();
    uint64_t memory = os_memory_bytes();
    volatile uint64_t sum = 0;

    assert_in_range(memory, 100 << 10, UINT64_C(1) << 40);
    assert_true(os_address_bytes() >= memory);
    for (uint64_t i = 0; i < 5000000; i++) {
        sum += i;
    }
    assert_true(sum > 0 && os_cpu_us() > before_us);
}

TEST(only_usable_processors_are_counted)
{
    cpu_set_t all;
    cpu_set_t one;
    size_t first = 0;

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
