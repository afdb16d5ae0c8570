#include "base/os_disk.h"

#include <sys/statvfs.h>

bool os_disk_free(const char *path, uint64_t *ret_bytes)
{
    struct statvfs space;

    if (statvfs(path, &space) != 0) {
        return false;
    }
    *ret_bytes = (uint64_t)space.f_bavail * space.f_frsize;
    return true;
}
