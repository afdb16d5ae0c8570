#include "base/log.h"
#include "tests/lib/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    STUCK_S = 20
};

static int ends[2];
static char line[2 * LOG_LINE_MAX];

static void open_pipe(void)
{
    assert_int_equal(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
}

static void close_pipe(void)
{
    log_setup(LOG_INFO, false, STDERR_FILENO);
    assert_int_equal(close(ends[0]), 0);
    assert_int_equal(close(ends[1]), 0);
}

/* Reads what was logged since the last call; returns the part after the time stamp. */
static const char *read_line(size_t stamp_len)
{
    ssize_t len = read(ends[0], line, sizeof(line) - 1);

    line[len > 0 ? len : 0] = '\0';
    return (size_t)(len > 0 ? len : 0) >= stamp_len ? line + stamp_len : "";
}

TEST(plain_line, open_pipe, close_pipe)
{
    int year;
    int ms;
    char zone;
    const size_t stamp_len = strlen("2026-11-21T02:50:00.123Z");

    log_setup(LOG_INFO, false, ends[1]);
    log_info("zab", "leading epoch=%d", 7);
    assert_string_equal(read_line(stamp_len), " INFO zab leading epoch=7\n");
    assert_int_equal(sscanf(line, "%4d-%*2d-%*2dT%*2d:%*2d:%*2d.%3d%c", &year, &ms, &zone), 3);
    assert_in_range(year, 2020, 2200);
    assert_int_equal(zone, 'Z');
}

TEST(json_line, open_pipe, close_pipe)
{
    const size_t stamp_len = strlen("{\"ts\":\"2026-11-21T02:50:00.123Z");

    log_setup(LOG_INFO, true, ends[1]);
    log_error("http", "path=\"%s\" b=\\", "/a");
    assert_string_equal(read_line(stamp_len), "\",\"level\":\"ERROR\",\"subject\":\"http\","
                                              "\"msg\":\"path=\\\"/a\\\" b=\\\\\"}\n");
    assert_memory_equal(line, "{\"ts\":\"20", 9);
}

TEST(level, open_pipe, close_pipe)
{
    log_setup(LOG_WARN, false, ends[1]);
    log_info("zab", "not shown");
    log_debug("zab", "not shown");
    assert_string_equal(read_line(0), "");
    log_warn("zab", "shown");
    assert_non_null(strstr(read_line(0), " WARN zab shown\n"));
    assert_false(log_enabled(LOG_INFO));
    assert_true(log_enabled(LOG_ERROR));
    log_setup(LOG_DEBUG, false, ends[1]);
    log_debug("zab", "now %s", "shown");
    assert_non_null(strstr(read_line(0), " DEBUG zab now shown\n"));
}

TEST(a_message_cannot_forge_a_line, open_pipe, close_pipe)
{
    log_setup(LOG_INFO, false, ends[1]);
    log_info("http", "%s", "a\nb\x1b[31m\t\x7f \xff \xc2\x9b \xc3\xa9");
    assert_non_null(strstr(read_line(0), " a\\nb\\x1b[31m\\x09\\x7f \\xff \\x9b \xc3\xa9\n"));
    log_setup(LOG_INFO, true, ends[1]);
    log_info("http", "%s", "a\nb\x1b[31m\t\x7f \xff \xc2\x9b \xc3\xa9");
    assert_non_null(
        strstr(read_line(0), "\"a\\nb\\u001b[31m\\u0009\\u007f \\ufffd \\u009b \xc3\xa9\"}\n"));
}

static void check_cut(bool json, const char *end)
{
    char text[2 * LOG_LINE_MAX];

    memset(text, '"', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    log_setup(LOG_INFO, json, ends[1]);
    log_info("http", "%s", text);
    read_line(0);

    size_t len = strlen(line);

    assert_in_range(len, LOG_LINE_MAX - 200, LOG_LINE_MAX);
    assert_string_equal(line + len - strlen(end), end);
}

TEST(a_long_message_is_cut_and_the_line_still_ends, open_pipe, close_pipe)
{
    check_cut(false, "\"\n");
    check_cut(true, "\\\"\"}\n");
}

/* Writes lines until one is dropped. A write that waits for the reader never returns. */
static void fill(void)
{
    uint64_t before = log_dropped();
    int written = 0;

    log_setup(LOG_INFO, false, ends[1]);
    (void)alarm(STUCK_S);
    while (log_dropped() == before && written < 100000) {
        log_info("zab", "%0500d", written++);
    }
    assert_true(log_dropped() == before + 1);
    log_info("zab", "%0500d", written);
    assert_true(log_dropped() == before + 2);
    (void)alarm(0);
}

TEST(a_full_pipe_drops_and_counts, open_pipe, close_pipe)
{
    fill();
}

static void open_blocking_pipe(void)
{
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
}

/* The other programs that have the pipe are not affected. */
TEST(a_reader_that_is_frozen_stops_nothing, open_blocking_pipe, close_pipe)
{
    fill();
    assert_int_equal(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0);
}

static void open_sockets(void)
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
}

TEST(neither_does_one_behind_a_socket, open_sockets, close_pipe)
{
    fill();
}

static void open_closed_socket(void)
{
    open_sockets();
    assert_int_equal(shutdown(ends[0], SHUT_RDWR), 0);
}

TEST(without_a_reader_lines_are_counted, open_closed_socket, close_pipe)
{
    uint64_t before = log_dropped();

    log_setup(LOG_INFO, false, ends[1]);
    log_info("zab", "no reader");
    assert_true(log_dropped() == before + 1);
}
