/* os_usage.h - the resources that this process uses, and their limits, as the kernel counts them.
 */
#ifndef BASE_OS_USAGE_H
#define BASE_OS_USAGE_H

#include <stdint.h>

/* Bytes that it has in use now (its resident set); 0 when it is unknown. Any thread. */
uint64_t os_memory_bytes(void);

/* Bytes of its address space, used or not; 0 when it is unknown. Any thread. */
uint64_t os_address_bytes(void);

/* Bytes that this process may have before the kernel ends it: the machine's memory, or the smallest
 * limit of its control group and the groups above that (version 2 and 1), whichever is less. 0 when
 * neither is known. Reads files; any thread. */
uint64_t os_memory_max(void);

/* The same with `root` before the paths of /proc and /sys, for tests. */
uint64_t os_memory_max_below(const char *root);

/* Processors that the calling thread may run on, at least 1; 1024 where the number is unknown,
 * or knows of more. Any thread. */
unsigned os_processors(void);

#endif
