/*
 * Idle connections take all descriptors of the clients' share; then the log needs files. Other
 * tests exhaust the descriptors completely, as when an operator lowers the limit of a running
 * process.
 */
#include "base/mem.h"
#include "tests/hostile/attack.h"
#include "tests/lib/unit.h"

#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    ADDRESSES = 8, /* A single address may have a quarter. */
    REPLICAS = 3,
    FILES = 1024,
    FILES_SMALL = 320,
    FILES_TINY = 64, /* Too low to start. */
    IDLE = 1100,     /* Connections to each replica. */
    WRITES = 40,     /* More than a segment of the log, and more than a snapshot. */
    VALUE_BYTES = 1000 * 1000,
    LOW = 64,   /* Below the open ones: only storage's reserve can be opened. */
    NONE = 3,   /* Not even the reserve. */
    OPEN = 150, /* Connections that take all numbers below LOW. */
    WAIT_MS = 1500,
    SPIN_PERCENT = 50
};

struct crowd {
    int fds[REPLICAS * IDLE];
    uint32_t count;
};

static void crowd_join(struct crowd *crowd, uint16_t port, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        int fd = attack_connect(port, 0, (uint8_t)(2 + i % ADDRESSES));

        if (fd >= 0) {
            crowd->fds[crowd->count++] = fd;
        }
    }
}

static void crowd_leave(struct crowd *crowd)
{
    for (uint32_t i = 0; i < crowd->count; i++) {
        close(crowd->fds[i]);
    }
    crowd->count = 0;
}

static char *value_new(void)
{
    char *value = mem_alloc(VALUE_BYTES + 1);

    memset(value, 'v', VALUE_BYTES);
    value[VALUE_BYTES] = '\0';
    return value;
}

/* Each write goes through another replica, on kept connections. */
static void write_all(struct ensemble *ensemble, const char *value)
{
    char path[64];

    for (uint32_t i = 0; i < WRITES; i++) {
        (void)snprintf(path, sizeof(path), "/znodes/v1/big-%u?upsert=true", i % 8);
        ENSEMBLE_CHECK(ensemble,
                       ensemble_call(ensemble, i % REPLICAS, "PUT", path, value) / 100 == 2);
    }
}

static void check_all_live(struct ensemble *ensemble, const char *probe)
{
    for (uint32_t i = 0; i < REPLICAS; i++) {
        ENSEMBLE_CHECK(ensemble, waitpid(ensemble->replicas[i].pid, NULL, WNOHANG) == 0);
        ENSEMBLE_CHECK(ensemble, ensemble_call(ensemble, i, "GET", probe, NULL) == 200);
    }
}

static void launch(struct ensemble *ensemble, const char *keys)
{
    ensemble_open(ensemble, REPLICAS, keys);
    for (uint32_t i = 0; i < REPLICAS; i++) {
        ensemble->files_max[i] = i == 0 ? FILES_SMALL : FILES;
        ensemble_start(ensemble, i);
    }
    ensemble_wait_all_ready(ensemble);
}

static bool log_has(const struct replica *replica, const char *text)
{
    char line[1024];
    bool has = false;
    FILE *file = fopen(replica->log, "re");

    assert_non_null(file);
    while (!has && fgets(line, sizeof(line), file)) {
        has = strstr(line, text) != NULL;
    }
    (void)fclose(file);
    return has;
}

static uint32_t count_open(pid_t pid)
{
    char path[64];
    uint32_t count = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);

    DIR *stream = opendir(path);

    assert_non_null(stream);
    while (readdir(stream)) { /* NOLINT(concurrency-mt-unsafe): one thread. */
        count++;
    }
    (void)closedir(stream);
    return count;
}

TEST(idle_connections_take_no_file_from_the_log)
{
    struct crowd *crowd = mem_zalloc(1, sizeof(*crowd));
    char *value = value_new();
    struct ensemble ensemble;

    launch(&ensemble, "snapBytes=8388608\nwalSegmentBytes=4194304\n");
    check_all_live(&ensemble, "/livez"); /* These connections are kept. */
    for (uint32_t i = 0; i < REPLICAS; i++) {
        uint32_t limit = ensemble.files_max[i];

        crowd_join(crowd, ensemble.replicas[i].client_port, IDLE);
        /* The replica has raised its soft limit, which was half of that. */
        ENSEMBLE_WAIT(&ensemble, count_open(ensemble.replicas[i].pid) > limit / 2);
    }
    write_all(&ensemble, value);
    check_all_live(&ensemble, "/livez");
    check_all_live(&ensemble, "/readyz");
    for (uint32_t i = 0; i < REPLICAS; i++) {
        ENSEMBLE_CHECK(&ensemble, ensemble_metric(&ensemble, i, "zabra_log_no_files_total") == 0);
        ENSEMBLE_CHECK(&ensemble, !log_has(&ensemble.replicas[i], "could not be written"));
        ENSEMBLE_CHECK(&ensemble, log_has(&ensemble.replicas[i], "maxConnections is 10000, but"));
        ENSEMBLE_CHECK(&ensemble, log_has(&ensemble.replicas[i], "maxStreams is 10000, but"));
    }
    crowd_leave(crowd);
    for (uint32_t i = 0; i < REPLICAS; i++) {
        struct web_call call = {
            .port = ensemble.replicas[i].client_port, .path = "/readyz", .fresh = true};

        ENSEMBLE_WAIT(&ensemble, web_do(ensemble.web, &call, &ensemble.reply) == 200);
    }
    ensemble_close(&ensemble);
    mem_free(value);
    mem_free(crowd);
}

/* Each stream takes two descriptors, both from the share of all clients. */
TEST(waiting_clients_take_no_file_from_the_log)
{
    static const char ask[] = "GET /watch/v1/?mode=recursive HTTP/1.1\r\nHost: localhost\r\n\r\n";
    struct crowd *crowd = mem_zalloc(1, sizeof(*crowd));
    char *value = value_new();
    struct ensemble ensemble;

    launch(&ensemble, "snapBytes=8388608\nwalSegmentBytes=4194304\n");
    check_all_live(&ensemble, "/livez");
    for (uint32_t i = 0; i < REPLICAS; i++) {
        for (uint32_t k = 0; k < ensemble.files_max[i]; k++) {
            uint32_t before = crowd->count;

            crowd_join(crowd, ensemble.replicas[i].client_port, 1);
            if (crowd->count > before) {
                (void)attack_send(crowd->fds[before], ask, sizeof(ask) - 1);
            }
        }
    }
    write_all(&ensemble, value);
    check_all_live(&ensemble, "/readyz");
    crowd_leave(crowd);
    ensemble_close(&ensemble);
    mem_free(value);
    mem_free(crowd);
}

static void limit_all(struct ensemble *ensemble, rlim_t files)
{
    for (uint32_t i = 0; i < REPLICAS; i++) {
        const struct rlimit limit = {.rlim_cur = files, .rlim_max = FILES};

        assert_int_equal(prlimit(ensemble->replicas[i].pid, RLIMIT_NOFILE, &limit, NULL), 0);
    }
}

/* Processor time of one process in ms. */
static uint64_t busy_ms(pid_t pid)
{
    char path[64];
    char line[1024] = "";
    unsigned long long user = 0;
    unsigned long long system = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);

    FILE *file = fopen(path, "re");

    assert_non_null(file);
    assert_non_null(fgets(line, sizeof(line), file));
    (void)fclose(file);

    const char *at = strrchr(line, ')');

    for (int skip = 0; at && skip < 12; skip++) {
        at = strchr(at + 1, ' ');
    }
    assert_non_null(at);

    char *end = NULL;

    user = strtoull(at, &end, 10);
    system = strtoull(end, NULL, 10);
    return (user + system) * 1000 / (uint64_t)sysconf(_SC_CLK_TCK);
}

static void open_all(struct ensemble *ensemble, struct crowd *crowd)
{
    ensemble_open(ensemble, REPLICAS,
                  "walSegmentBytes=4194304\nsnapBytes=1073741824\n"
                  "headTimeout=60000\n");
    for (uint32_t i = 0; i < REPLICAS; i++) {
        ensemble->files_max[i] = FILES;
        ensemble_start(ensemble, i);
    }
    ensemble_wait_all_ready(ensemble);
    check_all_live(ensemble, "/livez");
    for (uint32_t i = 0; i < REPLICAS; i++) {
        crowd_join(crowd, ensemble->replicas[i].client_port, OPEN);
        ENSEMBLE_WAIT(ensemble, count_open(ensemble->replicas[i].pid) > OPEN);
    }
}

/* Only the descriptors that storage reserves are left: the log continues, and neither an acceptor
 * nor the core spins on connections that cannot be accepted. */
TEST(the_log_continues_with_reserved_descriptors)
{
    struct crowd *crowd = mem_zalloc(1, sizeof(*crowd));
    char *value = value_new();
    struct ensemble ensemble;
    uint64_t busy[REPLICAS];

    open_all(&ensemble, crowd);
    limit_all(&ensemble, LOW);
    for (uint32_t i = 0; i < REPLICAS; i++) {
        crowd_join(crowd, ensemble.replicas[i].client_port, 10);
        crowd_join(crowd, ensemble.replicas[i].peer_port, 10);
    }
    write_all(&ensemble, value);
    check_all_live(&ensemble, "/readyz");
    for (uint32_t i = 0; i < REPLICAS; i++) {
        busy[i] = busy_ms(ensemble.replicas[i].pid);
    }
    (void)poll(NULL, 0, WAIT_MS);
    for (uint32_t i = 0; i < REPLICAS; i++) {
        busy[i] = busy_ms(ensemble.replicas[i].pid) - busy[i];
        print_message("replica %u: %u ms of processor time in %d ms\n", i + 1, (unsigned)busy[i],
                      WAIT_MS);
        ENSEMBLE_CHECK(&ensemble, busy[i] * 100 < (uint64_t)WAIT_MS * SPIN_PERCENT);
        ENSEMBLE_CHECK(&ensemble, ensemble_metric(&ensemble, i, "zabra_log_no_files_total") == 0);
    }
    limit_all(&ensemble, FILES);
    crowd_leave(crowd);
    write_all(&ensemble, value);
    ensemble_close(&ensemble);
    mem_free(value);
    mem_free(crowd);
}

static bool all_wait(struct ensemble *ensemble)
{
    uint32_t waiting = 0;

    for (uint32_t i = 0; i < REPLICAS; i++) {
        waiting += ensemble_metric(ensemble, i, "zabra_log_no_files_total") > 0;
    }
    return waiting > REPLICAS / 2;
}

/* No descriptor at all: no write is acknowledged, no replica ends, and all work again once there
 * are descriptors. */
TEST(lack_of_descriptors_is_no_failed_disk)
{
    struct crowd *crowd = mem_zalloc(1, sizeof(*crowd));
    char *value = value_new();
    struct ensemble ensemble;

    open_all(&ensemble, crowd);

    struct attack_client writer = {.method = "PUT",
                                   .path = "/znodes/v1/big?upsert=true",
                                   .body = value,
                                   .port = ensemble.replicas[0].client_port};

    attack_client_start(&writer);
    ENSEMBLE_WAIT(&ensemble, atomic_load(&writer.done) > 2);
    limit_all(&ensemble, NONE);
    ENSEMBLE_WAIT(&ensemble, all_wait(&ensemble));

    /* A connection attempt that was under way may still arrive. */
    (void)poll(NULL, 0, WAIT_MS / 3);
    uint32_t done = atomic_load(&writer.done);

    (void)poll(NULL, 0, WAIT_MS);
    ENSEMBLE_CHECK(&ensemble, atomic_load(&writer.done) == done);
    check_all_live(&ensemble, "/livez");
    limit_all(&ensemble, FILES);
    ENSEMBLE_WAIT(&ensemble, atomic_load(&writer.done) > done + WRITES);
    attack_client_stop(&writer);
    assert_int_equal(writer.failed, 0);
    crowd_leave(crowd);
    ensemble_wait_all_ready(&ensemble);
    for (uint32_t i = 0; i < REPLICAS; i++) {
        ENSEMBLE_CHECK(&ensemble, ensemble_stop(&ensemble, i) == 0);
    }
    attack_client_release(&writer);
    ensemble_close(&ensemble);
    mem_free(value);
    mem_free(crowd);
}

TEST(a_limit_that_is_too_low_is_refused_with_the_reason)
{
    struct ensemble ensemble;

    ensemble_open(&ensemble, 1, NULL);
    ensemble.files_max[0] = FILES_TINY;
    ensemble_start(&ensemble, 0);
    ENSEMBLE_CHECK(&ensemble, ensemble_wait_end(&ensemble, 0) == 2);
    ENSEMBLE_CHECK(&ensemble, log_has(&ensemble.replicas[0], "the limit of 64 open files is too"));
    ensemble_close(&ensemble);
}

int main(int count, char **args)
{
    web_setup();
    attack_raise_descriptors(REPLICAS * IDLE + 100);
    return unit_run(count, args);
}
