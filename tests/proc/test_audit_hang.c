/* The audit file is on a file system that hangs: the replica takes no writes, serves reads, and
 * ends; after the next start each change has its line. */
#include "base/os_clock.h"
#include "tests/lib/unit.h"
#include "tests/proc/ensemble.h"
#include "tests/proc/faulty.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    TEXT_MAX = 1 << 20,
    STOP_MS = 30000 /* Much longer than the end waits, much shorter than for ever. */
};

static struct ensemble ensemble;
static struct faulty *faulty;
static char dir[ENSEMBLE_PATH_MAX + 16];
static size_t done; /* Writes that were applied. */

static void open_one(void)
{
    FILE *file = NULL;

    ensemble_open(&ensemble, 1, NULL);
    ensemble.faulty = true;
    faulty = faulty_open(ensemble.replicas[0].faulty);
    (void)snprintf(dir, sizeof(dir), "%s/audit", ensemble.dir);
    assert_int_equal(mkdir(dir, 0700), 0);
    file = fopen(ensemble.replicas[0].config, "a");
    assert_non_null(file);
    (void)fprintf(file, "auditFile=%s/audit.log\n", dir);
    assert_int_equal(fclose(file), 0);
    ensemble_start(&ensemble, 0);
    ensemble_wait_ready(&ensemble, 0);
}

static void close_one(void)
{
    atomic_store(&faulty->hangs, false);
    ensemble_close(&ensemble);
}

TEST_GROUP(open_one, close_one)

static long put(void)
{
    long status = ensemble_call(&ensemble, 0, "PUT", "/znodes/v1/p?upsert=true", "x");

    done += status / 100 == 2 ? 1 : 0;
    return status;
}

static size_t lines(void)
{
    static char text[TEXT_MAX];
    char path[sizeof(dir) + 16];
    size_t count = 0;

    (void)snprintf(path, sizeof(path), "%s/audit.log", dir);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = read(fd, text, sizeof(text) - 1);

    assert_true(len >= 0);
    close(fd);
    text[len] = '\0';
    for (const char *at = strstr(text, "\"path\":\"/p\""); at;
         at = strstr(at + 1, "\"path\":\"/p\"")) {
        count++;
    }
    return count;
}

TEST(a_file_system_that_hangs_delays_neither_reads_nor_the_end)
{
    uint64_t begin_ms = 0;

    assert_int_equal(put(), 201);
    ENSEMBLE_WAIT(&ensemble, lines() == 1);
    (void)snprintf(faulty->hanging, sizeof(faulty->hanging), "%s/", dir);
    atomic_store(&faulty->hangs, true);
    ENSEMBLE_WAIT(&ensemble, put() == 503);
    assert_non_null(strstr(web_text(&ensemble.reply), "does not answer"));
    assert_non_null(strstr(web_text(&ensemble.reply), "\"outcome\":\"not-applied\""));
    assert_int_equal(ensemble_metric(&ensemble, 0, "zabra_audit_failing"), 1);
    assert_int_equal(
        ensemble_call(&ensemble, 0, "GET", "/znodes/v1/p?consistency=linearizable", NULL), 200);
    assert_int_equal(ensemble_call(&ensemble, 0, "GET", "/readyz", NULL), 503);
    begin_ms = os_now_ms();
    assert_int_equal(ensemble_stop(&ensemble, 0), 0);
    assert_true(os_now_ms() - begin_ms < STOP_MS);
    atomic_store(&faulty->hangs, false);
    ensemble_start(&ensemble, 0);
    ensemble_wait_ready(&ensemble, 0);
    assert_int_equal(put(), 200);
    ENSEMBLE_WAIT(&ensemble, lines() >= done);
    assert_int_equal(lines(), done);
}
