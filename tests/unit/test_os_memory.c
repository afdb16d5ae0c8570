/* How much memory this process may use: RAM, and control groups of both versions. */
#include "base/os_process.h"
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)

static char top[64];

/* Makes the directories of the path, then the file. */
static void put(const char *path, const char *text)
{
    char name[256];

    (void)snprintf(name, sizeof(name), "%s%s", top, path);
    for (char *at = name + strlen(top) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        (void)mkdir(name, 0700);
        *at = '/';
    }
    FILE *file = fopen(name, "we");

    assert_non_null(file);
    (void)fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void open_top(void)
{
    (void)snprintf(top, sizeof(top), "/tmp/zabra-os-memory-XXXXXX");
    assert_non_null(mkdtemp(top));
    put("/proc/meminfo", "MemTotal:        1048576 kB\nMemFree:          917504 kB\n");
}

static void remove_top(void)
{
    char command[128];

    (void)snprintf(command, sizeof(command), "rm -rf '%s'", top);
    assert_int_equal(system(command), 0);
}

static uint64_t limit_bytes(void)
{
    return os_memory_max_below(top);
}

TEST(without_groups_the_machines_memory_counts, open_top, remove_top)
{
    assert_int_equal(limit_bytes(), 1024 * MIB);
    put("/proc/self/cgroup", "0::/\n");
    assert_int_equal(limit_bytes(), 1024 * MIB);
    assert_true(os_memory_max() > 16 * MIB);
}

TEST(the_smallest_enclosing_group_counts, open_top, remove_top)
{
    put("/proc/self/cgroup", "0::/system.slice/zabra.service\n");
    put("/sys/fs/cgroup/system.slice/zabra.service/memory.max", "max\n");
    assert_int_equal(limit_bytes(), 1024 * MIB);
    put("/sys/fs/cgroup/system.slice/memory.max", "268435456\n");
    assert_int_equal(limit_bytes(), 256 * MIB);
    put("/sys/fs/cgroup/system.slice/zabra.service/memory.max", "536870912\n");
    assert_int_equal(limit_bytes(), 256 * MIB);
    put("/sys/fs/cgroup/system.slice/zabra.service/memory.max", "134217728\n");
    assert_int_equal(limit_bytes(), 128 * MIB);
}

/* The process's own group is mounted as the root, and the path is one of the host. */
TEST(a_container_sees_its_group_as_the_root, open_top, remove_top)
{
    put("/proc/self/cgroup", "0::/docker/0123456789\n");
    put("/sys/fs/cgroup/memory.max", "67108864\n");
    assert_int_equal(limit_bytes(), 64 * MIB);
}

TEST(version_1_has_a_line_of_its_own, open_top, remove_top)
{
    put("/proc/self/cgroup", "12:cpu,cpuacct:/a\n4:hugetlb,memory:/docker/12\n1:name=systemd:/a\n");
    put("/sys/fs/cgroup/memory/docker/12/memory.limit_in_bytes", "9223372036854771712\n");
    assert_int_equal(limit_bytes(), 1024 * MIB);
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "100663296\n");
    assert_int_equal(limit_bytes(), 96 * MIB);
}

TEST(a_limit_above_the_machines_memory_is_ignored, open_top, remove_top)
{
    put("/proc/self/cgroup", "0::/big\n");
    put("/sys/fs/cgroup/big/memory.max", "1099511627776\n");
    assert_int_equal(limit_bytes(), 1024 * MIB);
}

TEST(invalid_limits_are_skipped, open_top, remove_top)
{
    put("/proc/self/cgroup", "nonsense\n0:\n::\n0::/a\n");
    put("/sys/fs/cgroup/a/memory.max", "");
    put("/proc/meminfo", "nothing");
    assert_int_equal(limit_bytes(), 0);
}
