/* os_clock.h - the only place that asks the kernel for the time. */
#ifndef BASE_OS_CLOCK_H
#define BASE_OS_CLOCK_H

#include <stdint.h>

/* Monotonic time that also counts suspend (CLOCK_BOOTTIME), in ms, µs and ns. */
uint64_t os_now_ms(void);
uint64_t os_now_us(void);
uint64_t os_now_ns(void);

/* Processor time of all threads of this process since it began, in µs. */
uint64_t os_cpu_us(void);

/* Wall clock in ms since 1970. It may be wrong and may jump, so no timeout uses it. */
int64_t os_wall_ms(void);

#endif
