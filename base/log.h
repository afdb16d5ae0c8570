/*
 * log.h - one line per event: time, level, subject, message; plain text or JSON.
 *
 * A format may name the values that it prints: `log_warn("zab", "peer {peer}%u left", id)`. Plain
 * text drops the braces and the name. JSON has the message as plain text has it, and the value once
 * more as a member of that name. So a reader of JSON needs no pattern to find a value, and both
 * forms have the same words. docs/logs.md lists the names; docs.logs compares them with the code.
 *
 * A line is one write of at most LOG_LINE_MAX bytes. No write waits for a reader: when a pipe, a
 * terminal or a socket has no room because its reader is slow or frozen, the line is dropped or
 * cut, and counted. A long message is cut between two characters. Control characters and bytes that
 * are not UTF-8 are escaped, so a message cannot forge a line. Callers pass no secrets.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level {
    LOG_DEBUG,
    LOG_INFO,
    LOG_WARN,
    LOG_ERROR
};

enum {
    LOG_LINE_MAX = 4096,
    LOG_FIELDS_MAX = 24,
    LOG_NAME_MAX = 24
};

/* Call it once at start, before any thread writes. `json` chooses the format; lines below `level`
 * are dropped. */
void log_setup(enum log_level level, bool json, int fd);
bool log_enabled(enum log_level level);

/* Returns the number of lines that were dropped or cut because they could not be written. */
uint64_t log_dropped(void);

/*
 * `subject` is a short constant such as "zab" or "http"; the rest is a sentence. Any thread.
 *
 * `{name}` directly before a conversion, or before `0x` and a conversion, names its value: one to
 * LOG_NAME_MAX characters of a-z, 0-9 and `_`. A decimal number is a number in JSON, every other
 * value is a string. A name that is reserved (time, level, subject, thread, message), or that the
 * line has already, makes no second member. At most LOG_FIELDS_MAX values are members. A value that
 * does not fit in the line is cut between two characters; a number that does not fit is left out.
 *
 * Conversions: d i u x c s f %, with the flags `-` and `0`, a width, a precision of s and f, and
 * the lengths hh h l ll z j. All others are a bug.
 */
void log_write(enum log_level level, const char *subject, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define log_debug(...) (log_enabled(LOG_DEBUG) ? log_write(LOG_DEBUG, __VA_ARGS__) : (void)0)
#define log_info(...)  log_write(LOG_INFO, __VA_ARGS__)
#define log_warn(...)  log_write(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)

#endif
