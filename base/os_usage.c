#include "base/os_usage.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    STATM_MAX = 128 /* Bytes of the one line of /proc/self/statm. */
};

/* Pages of the address space, and those of them that are in memory; 0 when the kernel does not
 * tell. */
static void read_pages(uint64_t *ret_address, uint64_t *ret_resident)
{
    char text[STATM_MAX];
    char *end = text;
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;

    if (fd >= 0) {
        close(fd);
    }
    text[got > 0 ? got : 0] = '\0';
    *ret_address = strtoull(text, &end, 10);
    *ret_resident = strtoull(end, NULL, 10);
}

uint64_t os_memory_bytes(void)
{
    uint64_t address = 0;
    uint64_t resident = 0;

    read_pages(&address, &resident);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t os_address_bytes(void)
{
    uint64_t address = 0;
    uint64_t resident = 0;

    read_pages(&address, &resident);
    return address * (uint64_t)sysconf(_SC_PAGESIZE);
}

unsigned os_processors(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) != 0) {
        return CPU_SETSIZE;
    }
    return (unsigned)CPU_COUNT(&set);
}
