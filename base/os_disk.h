/* os_disk.h - the file system of a directory. */
#ifndef BASE_OS_DISK_H
#define BASE_OS_DISK_H

#include <stdbool.h>
#include <stdint.h>

/* Gives the bytes that a process without privileges may still write below `path`. False: not known.
 * Blocks as long as the file system does. Any thread. */
bool os_disk_free(const char *path, uint64_t *ret_bytes);

#endif
