#include "base/logfmt.h"
#include "tests/lib/unit.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
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
    const size_t stamp_len = strlen("{\"time\":\"2026-11-21T02:50:00.123Z");
    char thread[16];
    char rest[256];

    assert_int_equal(pthread_getname_np(pthread_self(), thread, sizeof(thread)), 0);
    (void)snprintf(rest, sizeof(rest),
                   "\",\"level\":\"ERROR\",\"subject\":\"http\",\"thread\":\"%s\","
                   "\"message\":\"path=\\\"/a\\\" b=\\\\\"}\n",
                   thread);
    log_setup(LOG_INFO, true, ends[1]);
    log_error("http", "path=\"%s\" b=\\", "/a");
    assert_string_equal(read_line(stamp_len), rest);
    assert_memory_equal(line, "{\"time\":\"20", 11);
}

/* Returns what follows `"message":"` in the last line of JSON. */
static const char *read_message(void)
{
    static const char before[] = "\"message\":\"";

    (void)read_line(0);
    assert_non_null(strstr(line, before));
    return strstr(line, before) + strlen(before);
}

static void log_named(bool json)
{
    log_setup(LOG_INFO, json, ends[1]);
    log_info("zab", "peer {peer}%u is {state}%s at zxid {zxid}0x%llx: {seconds}%.1f s, {delta}%d",
             3U, "ok", 0x100000001ULL, 2.25, -4);
}

TEST(plain_text_has_no_names, open_pipe, close_pipe)
{
    log_named(false);
    assert_non_null(
        strstr(read_line(0), " INFO zab peer 3 is ok at zxid 0x100000001: 2.2 s, -4\n"));
}

TEST(json_has_values_as_members, open_pipe, close_pipe)
{
    log_named(true);
    assert_string_equal(read_message(),
                        "peer 3 is ok at zxid 0x100000001: 2.2 s, -4\",\"peer\":3,\"state\":\"ok\","
                        "\"zxid\":\"0x100000001\",\"seconds\":2.2,\"delta\":-4}\n");
}

TEST(only_names_before_a_value_are_names, open_pipe, close_pipe)
{
    log_setup(LOG_INFO, true, ends[1]);
    log_info("zab", "{a} {} {B}%u {0 %u} {b}%% {c}x %u {d", 1U, 2U, 3U);
    assert_string_equal(read_message(), "{a} {} {B}1 {0 2} {b}% {c}x 3 {d\"}\n");
}

TEST(every_conversion_prints_as_printf_does)
{
    struct logfmt message;
    char expected[512];

#define BOTH(...)                                            \
    logfmt_init(&message);                                   \
    logfmt_print(&message, __VA_ARGS__);                     \
    (void)snprintf(expected, sizeof(expected), __VA_ARGS__); \
    assert_string_equal(message.text, expected);             \
    assert_int_equal(message.len, strlen(expected))

    BOTH("%d %i %u %x %c %s %%", -1, 2, 3U, 0xabcU, 'c', "text");
    BOTH("%ld %lu %lx %lld %llu %llx", -1L, 2UL, 3UL, -4LL, UINT64_MAX + 0ULL, 0xfffULL);
    BOTH("%zu %zd %ju", (size_t)7, (ssize_t)-8, (uintmax_t)9);
    BOTH("%hhu %hd", (unsigned char)200, (short)-3);
    BOTH("[%5d] [%-5d] [%05d] [%016llx] [%-8x]", 42, 42, 42, 0xabcULL, 0xdU);
    BOTH("[%5s] [%-5s] [%.2s] [%*d] [%.*s]", "ab", "ab", "abcdef", 6, 1, 3, "abcdef");
    BOTH("%f %.0f %.3f %8.2f", 1.5, 2.5, 1.0 / 3, 9.999);
#undef BOTH
}

TEST(a_number_that_json_has_not_is_text, open_pipe, close_pipe)
{
    log_setup(LOG_INFO, true, ends[1]);
    log_info("zab", "{a}%03d {b}%5d {c}%f {d}%x {e}%d", 7, 7, (double)INFINITY, 10U, 0);
    assert_string_equal(read_message(), "007     7 inf a 0\",\"a\":\"007\",\"b\":\"    7\","
                                        "\"c\":\"inf\",\"d\":\"a\",\"e\":0}\n");
}

TEST(names_of_every_line_and_names_twice_make_no_member, open_pipe, close_pipe)
{
    log_setup(LOG_INFO, true, ends[1]);
    log_info("zab", "{time}%d {level}%d {subject}%d {thread}%d {message}%d {a}%d {a}%d", 1, 2, 3, 4,
             5, 6, 7);
    assert_string_equal(read_message(), "1 2 3 4 5 6 7\",\"a\":6}\n");
}

TEST(a_hostile_value_stays_in_its_member, open_pipe, close_pipe)
{
    log_setup(LOG_INFO, true, ends[1]);
    log_info("http", "{path}%s", "\",\"level\":\"x\n}\\ \xff\x01");
    assert_string_equal(read_message(),
                        "\\\",\\\"level\\\":\\\"x\\n}\\\\ \\ufffd\\u0001\","
                        "\"path\":\"\\\",\\\"level\\\":\\\"x\\n}\\\\ \\ufffd\\u0001\"}\n");
}

/* A client chooses such values: a long one must not hide those behind it. */
TEST(a_long_value_leaves_room_for_the_others, open_pipe, close_pipe)
{
    char text[LOG_LINE_MAX];

    memset(text, '"', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    log_setup(LOG_INFO, true, ends[1]);
    log_info("http", "{peer}%d {path}%.1000s {target}%.2000s {status}%d", 5, text, text, 200);
    read_line(0);
    assert_in_range(strlen(line), LOG_LINE_MAX / 2, LOG_LINE_MAX);
    assert_non_null(strstr(line, "\",\"peer\":5,\"path\":\"\\\""));
    assert_non_null(strstr(line, "\\\"\",\"target\":\"\\\""));
    assert_string_equal(line + strlen(line) - 18, "\\\"\",\"status\":200}\n");
}

TEST(a_number_behind_the_end_of_the_message_is_left_out)
{
    char text[2 * LOG_LINE_MAX];
    struct logfmt message;

    memset(text, 'a', sizeof(text));
    text[LOG_LINE_MAX - 2] = '\0';
    logfmt_init(&message);
    logfmt_print(&message, "{path}%s{bytes}%d{ms}0x%x", text, 1234, 0x1234U);
    assert_int_equal(message.len, LOG_LINE_MAX);
    assert_true(message.cut);
    assert_int_equal(message.count, 1);
    assert_string_equal(message.text + LOG_LINE_MAX - 3, "a12");
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
