#include "base/os_usage.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    STATM_MAX = 128 /* Bytes of the one line of /proc/self/statm. */
};

uint64_t os_memory_bytes(void)
{
    char text[STATM_MAX];
    char *end = text;
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;

    if (fd >= 0) {
        close(fd);
    }
    if (got <= 0) {
        return 0;
    }
    text[got] = '\0';
    /* Pages: the size of the address space, then what of it is there. */
    (void)strtoull(text, &end, 10);
    return strtoull(end, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

unsigned os_processors(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) != 0) {
        return CPU_SETSIZE;
    }
    return (unsigned)CPU_COUNT(&set);
}
