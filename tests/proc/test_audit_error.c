/* The audit log on standard error, a pipe or a socket with log lines in between: what a reader that
 * stops reading may delay, and what it gets when it reads again. */
#include "base/mem.h"
#include "base/os_clock.h"
#include "tests/lib/unit.h"
#include "tests/proc/ensemble.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    TEXT_MAX = 8 << 20,
    WRITES_MAX = 4000,
    KERNEL_BYTES = 16 << 10, /* Of the pipe, and of the socket. */
    STOP_MS = 20000
};

struct reading {
    struct ensemble ensemble;
    int fd; /* The end that reads. */
    struct buf text;
    size_t count; /* Writes that were done. */
    char zxids[WRITES_MAX][64];
};

static struct reading *reading;

static void open_with(bool is_socket, const char *full)
{
    static char keys[64];
    int size = KERNEL_BYTES;
    int fds[2];

    reading = mem_zalloc(1, sizeof(*reading));
    buf_init(&reading->text, TEXT_MAX);
    (void)snprintf(keys, sizeof(keys), "auditFile=-\nauditFull=%s\naccessLog=true\n", full);
    if (is_socket) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
        assert_int_equal(setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
    } else {
        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        assert_true(fcntl(fds[1], F_SETPIPE_SZ, size) >= size);
    }
    assert_int_equal(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
    reading->fd = fds[0];
    ensemble_open(&reading->ensemble, 1, keys);
    reading->ensemble.replicas[0].stderr_fd = fds[1];
    ensemble_start(&reading->ensemble, 0);
    close(fds[1]);
    ensemble_wait_ready(&reading->ensemble, 0);
}

static void close_all(void)
{
    ensemble_close(&reading->ensemble);
    close(reading->fd);
    buf_release(&reading->text);
    mem_free(reading);
}

static long put(void)
{
    struct ensemble *ensemble = &reading->ensemble;
    long status = ensemble_call(ensemble, 0, "PUT", "/znodes/v1/p?upsert=true", "x");

    if (status / 100 == 2) {
        assert_true(reading->count < WRITES_MAX);
        (void)snprintf(reading->zxids[reading->count++], sizeof(reading->zxids[0]),
                       "{\"event\":\"change\",\"zxid\":\"%s\"",
                       web_header(&ensemble->reply, "Zk-Zxid"));
    }
    return status;
}

/* Reads what there is; returns all so far. */
static const char *pump(void)
{
    uint8_t piece[4096];
    ssize_t count = 0;

    while ((count = read(reading->fd, piece, sizeof(piece))) > 0) {
        assert_true(buf_append(&reading->text, piece, (size_t)count));
    }
    return buf_cstr(&reading->text);
}

static size_t count_of(const char *text, const char *part)
{
    size_t count = 0;

    for (const char *at = strstr(text, part); at; at = strstr(at + 1, part)) {
        count++;
    }
    return count;
}

static bool has_last(void)
{
    return strstr(pump(), reading->zxids[reading->count - 1]) != NULL;
}

static bool is_failing(void)
{
    return ensemble_metric(&reading->ensemble, 0, "zabra_audit_failing") == 1;
}

/* Writes without reading, until the audit log has failed. */
static void freeze(void)
{
    uint64_t end_ms = os_now_ms() + ENSEMBLE_DEADLINE_MS;

    while (!is_failing() && os_now_ms() < end_ms && reading->count < WRITES_MAX - 100) {
        long status = put();

        assert_true(status == 200 || status == 201 || status == 503);
    }
    ENSEMBLE_CHECK(&reading->ensemble, is_failing());
}

/* Each line is one of the audit log or one of the log, as a whole; returns how many lines those of
 * the audit log say were dropped. */
static size_t check_lines(void)
{
    char *text = mem_strdup(pump());
    char *rest = NULL;
    size_t dropped = 0;

    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        json_t *json = json_loads(line, JSON_REJECT_DUPLICATES, NULL);

        if (!json && strncmp(line, "20", 2) != 0) {
            fail_msg("a torn line: %s", line);
        }
        dropped += strncmp(line, "{\"event\":\"dropped\"", 18) == 0
                       ? (size_t)json_integer_value(json_object_get(json, "lines"))
                       : 0;
        json_decref(json);
    }
    mem_free(text);
    return dropped;
}

/* The reader reads again: all waits end, and nothing is missing that is not said to be. */
static void thaw(bool refuses)
{
    struct ensemble *ensemble = &reading->ensemble;

    ENSEMBLE_WAIT(ensemble, pump() && !is_failing());
    ENSEMBLE_WAIT(ensemble, pump() && put() == 200);
    ENSEMBLE_WAIT(ensemble, has_last());
    const char *text = pump();

    assert_int_equal(check_lines() + count_of(text, "\"path\":\"/p\",\"before\":"), reading->count);
    for (size_t i = 0; refuses && i < reading->count; i++) {
        assert_int_equal(count_of(text, reading->zxids[i]), 1);
    }
}

static void run(bool is_socket, bool refuses)
{
    uint64_t begin_ms = 0;

    open_with(is_socket, refuses ? "refuse" : "drop");
    struct ensemble *ensemble = &reading->ensemble;

    for (int i = 0; i < 5; i++) {
        assert_int_equal(put() / 100, 2);
    }
    ENSEMBLE_WAIT(ensemble, has_last());
    freeze();
    if (refuses) {
        ENSEMBLE_WAIT(ensemble, put() == 503);
        assert_non_null(strstr(web_text(&ensemble->reply), "auditFull=refuse"));
    } else {
        for (int i = 0; i < 20; i++) {
            assert_int_equal(put(), 200);
        }
        assert_int_equal(ensemble_call(ensemble, 0, "GET", "/readyz", NULL), 200);
    }
    assert_int_equal(ensemble_call(ensemble, 0, "GET", "/znodes/v1/p", NULL), 200);
    assert_int_equal(ensemble_call(ensemble, 0, "GET", "/livez", NULL), 200);
    thaw(refuses);
    freeze();
    begin_ms = os_now_ms();
    assert_int_equal(ensemble_stop(ensemble, 0), 0); /* Nor does the end wait. */
    assert_true(os_now_ms() - begin_ms < STOP_MS);
    close_all();
}

TEST(a_pipe_that_nobody_reads_refuses_writes)
{
    run(false, true);
}

TEST(a_pipe_that_nobody_reads_loses_lines)
{
    run(false, false);
}

TEST(a_socket_that_nobody_reads_refuses_writes)
{
    run(true, true);
}

TEST(a_socket_that_nobody_reads_loses_lines)
{
    run(true, false);
}
