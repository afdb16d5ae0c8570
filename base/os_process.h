/* os_process.h - this process as the kernel sees it: what it uses, its limits, core dumps, user. */
#ifndef BASE_OS_PROCESS_H
#define BASE_OS_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the bytes that the process uses now (its resident set); 0 when unknown. Any thread. */
uint64_t os_memory_bytes(void);

/* Returns the bytes of the process's address space, used or not; 0 when unknown. Any thread. */
uint64_t os_address_bytes(void);

/* Returns the bytes that this process may use before the kernel ends it: the machine's memory, or
 * the smallest limit of its control group and the groups above that (versions 2 and 1), whichever
 * is less. 0 when neither is known. Reads files; any thread. */
uint64_t os_memory_max(void);

/* Like os_memory_max, with `root` before the paths of /proc and /sys, for tests. */
uint64_t os_memory_max_below(const char *root);

/* Returns the number of processors that the calling thread may run on, at least 1. Returns 1024
 * when the number is unknown, for example because the kernel has more than 1024. Any thread. */
unsigned os_processors(void);

/* Forbids or allows core dumps, and reading of the process's memory by other processes of the same
 * user; while both are forbidden, a debugger needs root. A process that holds secrets forbids both
 * before it reads the first secret. */
void os_dumps_allow(bool allow);

/* Writes the name of this machine, "" when it is unknown or too long. Any thread. */
void os_host_name(char *name, size_t size);

/* True when the process runs as root. */
bool os_is_root(void);

#endif
