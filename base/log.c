#include "base/log.h"

#include "base/check.h"
#include "base/logfmt.h"
#include "base/os_clock.h"
#include "base/utf8.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    TAIL_MAX = 8,       /* Bytes that are kept free for the end of a line. */
    CONTROL_END = 0xa0, /* Code points below this are controls or ASCII. */
    DELETE = 0x7f,
    PATH_SIZE = 32,
    THREAD_SIZE = 16,
    TIMESTAMP_SIZE = 96
};

static _Atomic int setup_level = LOG_INFO;
static _Atomic bool setup_json;
static _Atomic int setup_fd = STDERR_FILENO;
static _Atomic bool setup_socket; /* `setup_fd` is a socket. */
static int opened_fd = -1;        /* Opened by log_setup. */
static _Atomic uint64_t dropped;

struct line {
    char text[LOG_LINE_MAX];
    size_t len;
    size_t max; /* Only the tail may be written beyond TAIL_MAX bytes before `max`. */
};

/* Opens the pipe or terminal of `fd` once more, for writes that never wait for its reader.
 * O_NONBLOCK on `fd` itself would also change the writes of all programs that have inherited `fd`.
 * Returns -1 if a second opening is impossible or needless. */
static int open_unblocked(int fd, mode_t mode)
{
    char path[PATH_SIZE];

    if (!S_ISFIFO(mode) && !S_ISCHR(mode)) {
        return -1;
    }
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return open(path, O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

void log_setup(enum log_level level, bool json, int fd)
{
    int old_fd = opened_fd;
    struct stat stat;

    if (fstat(fd, &stat)) {
        stat.st_mode = 0;
    }
    opened_fd = open_unblocked(fd, stat.st_mode);
    atomic_store(&setup_level, (int)level);
    atomic_store(&setup_json, json);
    atomic_store(&setup_socket, S_ISSOCK(stat.st_mode));
    atomic_store(&setup_fd, opened_fd >= 0 ? opened_fd : fd);
    if (old_fd >= 0) {
        close(old_fd);
    }
}

bool log_enabled(enum log_level level)
{
    return (int)level >= atomic_load_explicit(&setup_level, memory_order_relaxed);
}

uint64_t log_dropped(void)
{
    return atomic_load(&dropped);
}

/* Appends `text`; false, and nothing is appended, when `text` would not leave room for the tail. */
static bool put(struct line *line, const char *text, size_t len)
{
    if (line->len + len + TAIL_MAX > line->max) {
        return false;
    }
    memcpy(line->text + line->len, text, len);
    line->len += len;
    return true;
}

static void put_str(struct line *line, const char *text)
{
    (void)put(line, text, strlen(text));
}

static void put_tail(struct line *line, const char *tail)
{
    size_t len = strlen(tail);

    ASSERT(len <= sizeof(line->text) - line->len);
    memcpy(line->text + line->len, tail, len);
    line->len += len;
}

/* Appends the character of `len` bytes at `from` (`code` -1: a byte that is not UTF-8). */
static bool put_char(struct line *line, const uint8_t *from, size_t len, int32_t code, bool json)
{
    char escaped[12];

    if (json && (code == '"' || code == '\\')) {
        escaped[0] = '\\';
        escaped[1] = (char)code;
        return put(line, escaped, 2);
    }
    if (code >= CONTROL_END || (code >= ' ' && code < DELETE)) {
        return put(line, (const char *)from, len);
    }
    if (code == '\n') {
        return put(line, "\\n", 2);
    }

    unsigned value = code < 0 ? *from : (unsigned)code;
    int size = json ? snprintf(escaped, sizeof(escaped), "\\u%04x", code < 0 ? 0xfffdU : value)
                    : snprintf(escaped, sizeof(escaped), "\\x%02x", value);

    return put(line, escaped, (size_t)size);
}

/* Appends `text` with escapes. Text that does not fit is cut off between two characters. */
static void put_escaped(struct line *line, struct slice text, bool json)
{
    size_t pos = 0;
    bool fits = true;

    while (fits && pos < text.len) {
        size_t from = pos;
        int32_t code = utf8_next(text, &pos);

        if (code < 0) {
            pos = from + 1;
        }
        fits = put_char(line, text.data + from, pos - from, code, json);
    }
}

static void format_time(char *to, size_t size, int64_t wall_ms)
{
    struct tm tm;
    time_t seconds = (time_t)(wall_ms / 1000);

    ASSERT(gmtime_r(&seconds, &tm));
    (void)snprintf(to, size, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", tm.tm_year + 1900,
                   tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
                   (int)(wall_ms % 1000));
}

static const char *level_name(enum log_level level)
{
    static const char *const names[] = {"DEBUG", "INFO", "WARN", "ERROR"};

    return names[level];
}

/* Appends `,"name":value`. What does not fit is left out or, of a text, cut. */
static void put_member(struct line *line, const struct logfmt_field *field)
{
    size_t start = line->len;
    bool fits = put(line, ",\"", 2) && put(line, (const char *)field->name.data, field->name.len);

    if (field->is_number) {
        fits = fits && put(line, "\":", 2) &&
               put(line, (const char *)field->value.data, field->value.len);
    } else if (fits && put(line, "\":\"", 3)) {
        size_t from = line->len;

        put_escaped(line, field->value, true);
        fits = line->len > from || field->value.len == 0;
        put_tail(line, "\"");
    } else {
        fits = false;
    }
    line->len = fits ? line->len : start;
}

/* A message with named values gets half of the line, because its values come once more. Each value
 * gets an equal share of what the values before it have left, so that a client whose text is long
 * cannot hide the values behind it. */
static void build_json(struct line *line, enum log_level level, const char *subject,
                       const struct logfmt *message)
{
    char timestamp[TIMESTAMP_SIZE];
    char thread[THREAD_SIZE] = "";

    format_time(timestamp, sizeof(timestamp), os_wall_ms());
    (void)pthread_getname_np(pthread_self(), thread, sizeof(thread));
    put_str(line, "{\"time\":\"");
    put_str(line, timestamp);
    put_str(line, "\",\"level\":\"");
    put_str(line, level_name(level));
    put_str(line, "\",\"subject\":\"");
    put_escaped(line, slice_str(subject), true);
    put_str(line, "\",\"thread\":\"");
    put_escaped(line, slice_str(thread), true);
    put_str(line, "\",\"message\":\"");
    line->max = message->count > 0 ? LOG_LINE_MAX / 2 : LOG_LINE_MAX;
    put_escaped(line, slice_make(message->text, message->len), true);
    put_tail(line, "\"");
    for (size_t i = 0; i < message->count; i++) {
        line->max = line->len + (LOG_LINE_MAX - line->len) / (message->count - i);
        put_member(line, &message->fields[i]);
    }
    line->max = LOG_LINE_MAX;
    put_tail(line, "}\n");
}

static void build_plain(struct line *line, enum log_level level, const char *subject,
                        const struct logfmt *message)
{
    char timestamp[TIMESTAMP_SIZE];

    format_time(timestamp, sizeof(timestamp), os_wall_ms());
    put_str(line, timestamp);
    put_str(line, " ");
    put_str(line, level_name(level));
    put_str(line, " ");
    put_escaped(line, slice_str(subject), false);
    put_str(line, " ");
    put_escaped(line, slice_make(message->text, message->len), false);
    put_tail(line, "\n");
}

static ssize_t write_line(const struct line *line)
{
    int fd = atomic_load(&setup_fd);

    return atomic_load(&setup_socket) ? send(fd, line->text, line->len, MSG_DONTWAIT | MSG_NOSIGNAL)
                                      : write(fd, line->text, line->len);
}

void log_message(enum log_level level, const char *subject, const struct logfmt *message)
{
    struct line line = {.len = 0, .max = LOG_LINE_MAX};

    if (!log_enabled(level)) {
        return;
    }
    if (atomic_load(&setup_json)) {
        build_json(&line, level, subject, message);
    } else {
        build_plain(&line, level, subject, message);
    }
    if (write_line(&line) != (ssize_t)line.len) {
        atomic_fetch_add(&dropped, 1);
    }
}

void log_write(enum log_level level, const char *subject, const char *format, ...)
{
    struct logfmt message;
    va_list args;

    if (!log_enabled(level)) {
        return;
    }
    logfmt_init(&message);
    va_start(args, format);
    logfmt_vprint(&message, format, args);
    va_end(args);
    log_message(level, subject, &message);
}
