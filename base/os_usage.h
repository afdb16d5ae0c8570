/* os_usage.h - what this process takes of the machine, and may take, as the kernel counts it. */
#ifndef BASE_OS_USAGE_H
#define BASE_OS_USAGE_H

#include <stdint.h>

/* Bytes that it has in use now (its resident set); 0 when the kernel does not tell. Any thread. */
uint64_t os_memory_bytes(void);

/* Processors that the calling thread may run on, at least 1; 1024 where the kernel does not tell,
 * or knows of more. Any thread. */
unsigned os_processors(void);

#endif
