/* os_rng.h - the only place that asks the kernel for randomness. */
#ifndef BASE_OS_RNG_H
#define BASE_OS_RNG_H

#include <stddef.h>
#include <stdint.h>

/* Fills `out` from getrandom(2); ends the process if the kernel refuses. */
void os_random(void *out, size_t len);
uint64_t os_random_u64(void);

#endif
