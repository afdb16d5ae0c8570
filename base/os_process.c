#include "base/os_process.h"

#include "base/check.h"
#include "base/minmax.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    STATM_BYTES_MAX = 128, /* The one line of /proc/self/statm. */
    PATH_BYTES_MAX = 2048,
    TEXT_BYTES_MAX = 8192, /* Text of /proc/meminfo or of /proc/self/cgroup. */
    NUMBER_BYTES_MAX = 64, /* Text of a limit. */
    LEVELS_MAX = 64        /* Levels of nested groups that are read. */
};

/* Reads the whole text of a small file; false, and "", when there is none. */
static bool read_text(const char *root, const char *path, char *text, size_t size)
{
    char full[PATH_BYTES_MAX];
    int len = snprintf(full, sizeof full, "%s%s", root, path);
    int fd = len < (int)sizeof full ? open(full, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t got = fd >= 0 ? read(fd, text, size - 1) : -1;

    if (fd >= 0) {
        close(fd);
    }
    text[got > 0 ? got : 0] = '\0';
    return got > 0;
}

/* Returns the bytes of the pages of the address space: all, or those in memory; 0 when unknown. */
static uint64_t page_bytes(bool resident)
{
    char text[STATM_BYTES_MAX];
    char *end = text;

    (void)read_text("", "/proc/self/statm", text, sizeof text);

    uint64_t pages = strtoull(text, &end, 10);

    pages = resident ? strtoull(end, NULL, 10) : pages;
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t os_memory_bytes(void)
{
    return page_bytes(true);
}

uint64_t os_address_bytes(void)
{
    return page_bytes(false);
}

unsigned os_processors(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) != 0) {
        return CPU_SETSIZE;
    }
    return (unsigned)CPU_COUNT(&set);
}

/* ---- The limit of memory. ---- */

static uint64_t smaller(uint64_t a, uint64_t b)
{
    if (a == 0 || b == 0) {
        return a + b;
    }
    return min_u64(a, b);
}

static uint64_t machine_bytes(const char *root)
{
    char text[TEXT_BYTES_MAX];
    const char *line =
        read_text(root, "/proc/meminfo", text, sizeof text) ? strstr(text, "MemTotal:") : NULL;

    return line ? strtoull(line + strlen("MemTotal:"), NULL, 10) * 1024 : 0;
}

/* Returns the limit in a file; 0 when there is none. Without a limit the file holds "max" (version
 * 2 of control groups) or a number close to 2^63 (version 1). */
static uint64_t limit_in(const char *root, const char *path)
{
    char text[NUMBER_BYTES_MAX];
    uint64_t bytes = read_text(root, path, text, sizeof text) ? strtoull(text, NULL, 10) : 0;

    return bytes < UINT64_C(1) << 60 ? bytes : 0;
}

/* Returns the least limit of the group and all groups above it; 0 when there is none. In a
 * container /proc/self/cgroup may give the group's path on the host, although `mount` itself is
 * the directory of the group. Then the files below that path do not exist and are skipped, and the
 * file directly in `mount`, which is read last, has the limit. */
static uint64_t group_bytes(const char *root, const char *mount, const char *group,
                            const char *file)
{
    char path[PATH_BYTES_MAX];
    size_t len = strlen(group);
    uint64_t least = 0;

    for (int level = 0; level < LEVELS_MAX; level++) {
        int wrote = snprintf(path, sizeof path, "%s%.*s/%s", mount, (int)len, group, file);

        ASSERT(wrote > 0);
        least = smaller(least, wrote < (int)sizeof path ? limit_in(root, path) : 0);
        if (len == 0) {
            break;
        }
        while (len > 0 && group[len - 1] != '/') {
            len--;
        }
        len -= len > 0 ? 1 : 0;
    }
    return least;
}

/* Whether memory is among the controllers of a line like "4:cpu,memory:/path". */
static bool has_memory(const char *controllers, const char *end)
{
    while (controllers < end) {
        size_t len = strcspn(controllers, ",:");

        if (len == strlen("memory") && strncmp(controllers, "memory", len) == 0) {
            return true;
        }
        controllers += len + 1;
    }
    return false;
}

/* Returns the limit for one line of /proc/self/cgroup, which has a number, controllers and the path
 * of the group; 0 when there is none. */
static uint64_t line_bytes(const char *root, char *line)
{
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;

    if (!group) {
        return 0;
    }
    controllers++;
    if (controllers == group) {
        uint64_t unified = group_bytes(root, "/sys/fs/cgroup", group + 1, "memory.max");

        return unified ? unified
                       : group_bytes(root, "/sys/fs/cgroup/unified", group + 1, "memory.max");
    }
    return has_memory(controllers, group)
               ? group_bytes(root, "/sys/fs/cgroup/memory", group + 1, "memory.limit_in_bytes")
               : 0;
}

static uint64_t groups_bytes(const char *root)
{
    char text[TEXT_BYTES_MAX];
    char *rest = text;
    uint64_t least = 0;

    if (!read_text(root, "/proc/self/cgroup", text, sizeof text)) {
        return 0;
    }
    for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) {
        least = smaller(least, line_bytes(root, line));
    }
    return least;
}

uint64_t os_memory_max_below(const char *root)
{
    return smaller(machine_bytes(root), groups_bytes(root));
}

uint64_t os_memory_max(void)
{
    return os_memory_max_below("");
}

/* ---- Core dumps, and the user of the process. ---- */

/* PR_SET_DUMPABLE forbids or allows both: dumps, and reading of the memory by other processes of
 * the same user. RLIMIT_CORE bounds the size of a dump: only its soft limit is changed, because a
 * process that is not root cannot raise a lowered hard limit again. */
void os_dumps_allow(bool allow)
{
    struct rlimit limit;

    (void)prctl(PR_SET_DUMPABLE, allow);
    if (getrlimit(RLIMIT_CORE, &limit) == 0) {
        limit.rlim_cur = allow ? limit.rlim_max : 0;
        (void)setrlimit(RLIMIT_CORE, &limit);
    }
}

void os_host_name(char *name, size_t size)
{
    if (gethostname(name, size) != 0) {
        name[0] = '\0';
    }
    name[size - 1] = '\0';
}

bool os_is_root(void)
{
    return geteuid() == 0;
}
