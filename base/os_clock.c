#include "base/os_clock.h"

#include "base/check.h"

#include <time.h>

static struct timespec read_clock(clockid_t clock)
{
    struct timespec now;
    int failed = clock_gettime(clock, &now);

    ASSERT(!failed);
    return now;
}

uint64_t os_now_ns(void)
{
    struct timespec now = read_clock(CLOCK_BOOTTIME);

    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t os_now_us(void)
{
    return os_now_ns() / 1000;
}

uint64_t os_now_ms(void)
{
    return os_now_ns() / 1000000;
}

int64_t os_wall_ms(void)
{
    struct timespec now = read_clock(CLOCK_REALTIME);

    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

uint64_t os_cpu_us(void)
{
    struct timespec used = read_clock(CLOCK_PROCESS_CPUTIME_ID);

    return (uint64_t)used.tv_sec * 1000000 + (uint64_t)used.tv_nsec / 1000;
}
