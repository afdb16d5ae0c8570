/* os_process.h - what the kernel does with this process: core dumps, and whose it is. */
#ifndef BASE_OS_PROCESS_H
#define BASE_OS_PROCESS_H

#include <stdbool.h>

/* From here on the process leaves no core dump, and no other process of the same user may read its
 * memory; a debugger needs root. For a process that holds secrets; before it reads the first. */
void os_dumps_forbid(void);

/* Takes that back. */
void os_dumps_allow(void);

/* True when it runs as root. */
bool os_is_root(void);

#endif
