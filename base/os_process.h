/* os_process.h - this process as the kernel sees it: what it uses, its limits, core dumps, user. */
#ifndef BASE_OS_PROCESS_H
#define BASE_OS_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes that the process has in use now (its resident set); 0 when it is unknown. Any thread. */
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

/* From here on the process leaves no core dump, and no other process of the same user may read its
 * memory; a debugger needs root. For a process that holds secrets; before it reads the first. */
void os_dumps_forbid(void);

/* Allows both again. */
void os_dumps_allow(void);

/* True when it runs as root. */
bool os_is_root(void);

#endif
