/*
 * The cost of a backup for writers, and how long backup and restore take: the 99th percentile of
 * writes at the leader of three replicas without a backup and while the leader sends one of so many
 * MB (first argument; 100), MB a second of that backup; then seconds to back up and to restore a
 * tree with so many small znodes (second argument; 100000), each and for a million. The znodes come
 * first.
 *
 * The measured writes are those of one client, one after another. All replicas, the client and the
 * command line share this machine's disk and processors, unlike an ensemble of machines.
 */
#include "tests/bench/writes.h"
#include "tests/proc/shell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    VALUE_BYTES = 1000000,
    MB_MAX = 4000,
    NODES_MAX = 5000000,
    USUAL_MS = 20000 /* Duration of writes before the backup. */
};

static struct ensemble ensemble;
static uint32_t leader;
static char big[256]; /* The backup whose end the writes await. */

static void fill(uint32_t values)
{
    static char value[VALUE_BYTES + 1];
    char path[64];

    memset(value, 'v', VALUE_BYTES);
    ensemble_call_until(&ensemble, leader, "PUT", "/znodes/v1/small?upsert=true", "", 201);
    ensemble_call_until(&ensemble, leader, "PUT", "/znodes/v1/big?upsert=true", "", 201);
    for (uint32_t i = 0; i < values; i++) {
        (void)snprintf(path, sizeof path, "/znodes/v1/big/v%u?upsert=true", i);
        ensemble_call_until(&ensemble, leader, "PUT", path, value, 201);
    }
}

static bool is_backed_up(void)
{
    return access(big, F_OK) == 0;
}

/* Sets a variable for shell lines. */
static void set(const char *name, const char *value)
{
    ENSEMBLE_CHECK(&ensemble, setenv(name, value, 1) == 0); /* NOLINT(concurrency-mt-unsafe) */
}

/* Runs a line that must succeed; returns seconds. */
static double time_line(const char *line)
{
    uint64_t start_ms = os_now_ms();

    ENSEMBLE_CHECK(&ensemble, shell("%s", line) == 0);
    return (double)(os_now_ms() - start_ms) / 1000;
}

static void measure_writes(void)
{
    struct shell_job job;
    struct stat stat_of;
    uint32_t usual_us = writes_measure(&ensemble, leader, "usual", USUAL_MS, NULL);
    uint64_t start_ms = os_now_ms();

    (void)snprintf(big, sizeof big, "%s/big.backup", ensemble.dir);
    shell_start(&job, "$BACKUP $D/big.backup");

    uint32_t backup_us = writes_measure(&ensemble, leader, "backup", 0, is_backed_up);
    double seconds = (double)(os_now_ms() - start_ms) / 1000;

    shell_finish(&job, 0, "full backup");
    ENSEMBLE_CHECK(&ensemble, stat(big, &stat_of) == 0);
    (void)printf("ratio of p99: %.2f; %.0f MB, %.1f MB/s, at most maxBackupBytesPerSecond\n",
                 (double)backup_us / usual_us, (double)stat_of.st_size / 1e6,
                 (double)stat_of.st_size / 1e6 / seconds);
}

static void measure_znodes(unsigned long nodes)
{
    double fill_s;
    double backup_s;
    double restore_s;

    (void)snprintf(shell_output, 64, "%lu", nodes);
    set("NODES", shell_output);
    (void)time_line("zabra create /many");
    fill_s = time_line("seq $NODES | awk '{print \"{\\\"path\\\":\\\"n\" $1 "
                       "\"\\\",\\\"dataUtf8\\\":\\\"x\\\"}\"}' | zabra import /many -");
    backup_s = time_line("$BACKUP $D/many.backup");
    restore_s = time_line("zabra restore --from $D/many.backup --dir $D/restored --id 1");
    (void)printf("%lu znodes: import %.1f s, backup %.1f s, restore %.1f s; for a million: backup "
                 "%.1f s, restore %.1f s\n",
                 nodes, fill_s, backup_s, restore_s, backup_s * 1e6 / (double)nodes,
                 restore_s * 1e6 / (double)nodes);
}

int main(int argc, char **argv)
{
    unsigned long mb = argc > 1 ? strtoul(argv[1], NULL, 10) : 100;
    unsigned long nodes = argc > 2 ? strtoul(argv[2], NULL, 10) : 100000;

    if (mb == 0 || mb > MB_MAX || nodes == 0 || nodes > NODES_MAX) {
        (void)fprintf(stderr, "usage: bench_backup [MB, at most %d [ZNODES, at most %d]]\n", MB_MAX,
                      NODES_MAX);
        return 2;
    }
    web_setup();
    ensemble_launch(&ensemble, 3, ENSEMBLE_SUPER);
    shell_open(&ensemble);
    leader = ensemble_wait_leader(&ensemble);
    ENSEMBLE_CHECK(&ensemble,
                   shell("umask 077; printf root >$D/pw; echo \"zabra backup --endpoints "
                         "127.0.0.1:%u --user super --password-file $D/pw\"",
                         ensemble.replicas[leader].client_port) == 0);
    shell_output[strcspn(shell_output, "\n")] = '\0';
    set("BACKUP", shell_output);
    measure_znodes(nodes);
    fill((uint32_t)mb);
    measure_writes();
    ensemble_close(&ensemble);
    return 0;
}
