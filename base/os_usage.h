/* os_usage.h - what this process takes of the machine's memory, as the kernel counts it. */
#ifndef BASE_OS_USAGE_H
#define BASE_OS_USAGE_H

#include <stdint.h>

/* Bytes that it has in use now (its resident set); 0 when the kernel does not tell. Any thread. */
uint64_t os_memory_bytes(void);

#endif
