/* os_process.h - core dumps of this process, and whether it runs as root. */
#ifndef BASE_OS_PROCESS_H
#define BASE_OS_PROCESS_H

#include <stdbool.h>

/* From here on the process leaves no core dump, and no other process of the same user may read its
 * memory; a debugger needs root. For a process that holds secrets; before it reads the first. */
void os_dumps_forbid(void);

/* Allows both again. */
void os_dumps_allow(void);

/* True when it runs as root. */
bool os_is_root(void);

#endif
