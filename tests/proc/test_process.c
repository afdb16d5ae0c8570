/* A replica and the kernel: no core dump with secrets, a warning for root, and the log line about
 * missing memory. */
#include "server/process/server.h"
#include "tests/lib/unit.h"
#include "tests/proc/ensemble.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    VALUE_BYTES = 512 << 10,
    VALUES_MAX = 4000,
    ROOM_BYTES = 64 << 20 /* Memory that a replica may still take. */
};

static uint32_t count_lines(const struct replica *replica, const char *text)
{
    char line[1024];
    uint32_t count = 0;
    FILE *file = fopen(replica->log, "re");

    assert_non_null(file);
    while (fgets(line, sizeof(line), file)) {
        count += strstr(line, text) != NULL;
    }
    (void)fclose(file);
    return count;
}

/* Ends the replica like a failed assertion; true if a core dump was written. The limit is raised
 * first, so that only the replica's own setting prevents it. */
static bool crash_leaves_dump(struct ensemble *ensemble, struct rlimit *ret_before)
{
    const struct rlimit none = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
    pid_t pid = ensemble->replicas[0].pid;

    assert_int_equal(prlimit(pid, RLIMIT_CORE, NULL, ret_before), 0);
    (void)prlimit(pid, RLIMIT_CORE, &none, NULL);
    ensemble_signal(ensemble, 0, SIGABRT);
    assert_int_equal(ensemble_wait_end(ensemble, 0), -1);
    return WCOREDUMP(ensemble->replicas[0].status);
}

TEST(crash_leaves_no_core_dump)
{
    struct ensemble ensemble;
    struct rlimit before;

    ensemble_launch(&ensemble, 1, NULL);
    assert_false(crash_leaves_dump(&ensemble, &before));
    assert_int_equal(before.rlim_cur, 0);
    ensemble_close(&ensemble);
}

/* Checks only the limit: whether and where a core dump appears depends on the machine. */
TEST(core_dumps_can_be_allowed)
{
    struct ensemble ensemble;
    struct rlimit limit;

    ensemble_launch(&ensemble, 1, "coreDumps=true\n");
    assert_int_equal(prlimit(ensemble.replicas[0].pid, RLIMIT_CORE, NULL, &limit), 0);
    assert_true(limit.rlim_cur == limit.rlim_max);
    ensemble_close(&ensemble);
}

TEST(root_is_warned_once)
{
    struct ensemble ensemble;

    ensemble_launch(&ensemble, 1, NULL);
    ENSEMBLE_CHECK(&ensemble,
                   count_lines(&ensemble.replicas[0], "runs as root") == (geteuid() == 0 ? 1 : 0));
    ensemble_close(&ensemble);
}

#ifndef ZABRA_SLOW /* A sanitizer reserves more addresses than any useful limit. */
static uint64_t address_bytes(pid_t pid)
{
    char path[64];
    unsigned long long pages = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);

    FILE *file = fopen(path, "re");

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%llu", &pages), 1);
    (void)fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* The replica does not know this limit, so its tree grows until memory is exhausted. */
TEST(lack_of_memory_is_logged_with_its_sum)
{
    static char value[VALUE_BYTES + 1];
    struct ensemble ensemble;
    struct rlimit limit;
    char path[64];
    long status = 201;

    memset(value, 'v', VALUE_BYTES);
    ensemble_launch(&ensemble, 1, NULL);
    limit.rlim_cur = address_bytes(ensemble.replicas[0].pid) + ROOM_BYTES;
    limit.rlim_max = limit.rlim_cur;
    assert_int_equal(prlimit(ensemble.replicas[0].pid, RLIMIT_AS, &limit, NULL), 0);
    for (uint32_t i = 0; status == 201 && i < VALUES_MAX; i++) {
        (void)snprintf(path, sizeof(path), "/znodes/v1/v%u?upsert=true", i);
        status = ensemble_call(&ensemble, 0, "PUT", path, value);
    }
    assert_int_equal(ensemble_wait_end(&ensemble, 0), EXIT_LACK);
    assert_int_equal(
        count_lines(&ensemble.replicas[0], "ERROR server stopping: there is no memory"), 1);
    assert_int_equal(count_lines(&ensemble.replicas[0], " MiB in memory"), 1);
    ensemble_start(&ensemble, 0); /* All acknowledged writes must be there. */
    ensemble_wait_ready(&ensemble, 0);
    ENSEMBLE_CHECK(&ensemble, ensemble_call(&ensemble, 0, "GET", "/znodes/v1/v0", NULL) == 200);
    ensemble_close(&ensemble);
}
#endif

/* The memory of the process as counted by the kernel, and that of the tree, which grows with
 * writes. */
TEST(memory_is_in_the_metrics)
{
    static char value[VALUE_BYTES + 1];
    struct ensemble ensemble;
    uint64_t tree = 0;
    uint64_t told = 0;

    memset(value, 'v', VALUE_BYTES);
    ensemble_launch(&ensemble, 1, NULL);
    tree = ensemble_metric(&ensemble, 0, "zabra_tree_bytes");
    ensemble_call_until(&ensemble, 0, "PUT", "/znodes/v1/v?upsert=true", value, 201);
    ENSEMBLE_CHECK(&ensemble,
                   ensemble_metric(&ensemble, 0, "zabra_tree_bytes") >= tree + VALUE_BYTES);
    told = ensemble_metric(&ensemble, 0, "process_resident_memory_bytes");
    assert_in_range(told, ensemble_resident_bytes(ensemble.replicas[0].pid) / 2,
                    ensemble_resident_bytes(ensemble.replicas[0].pid) * 2);
    ensemble_close(&ensemble);
}
