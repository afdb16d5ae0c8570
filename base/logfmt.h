/*
 * logfmt.h - the message of a log line, and where its named values are in it (log.h).
 *
 * The values are no copies: each is a part of the message. Pure, without allocation.
 */
#ifndef BASE_LOGFMT_H
#define BASE_LOGFMT_H

#include "base/log.h"
#include "base/slice.h"

#include <stdarg.h>

struct logfmt_field {
    struct slice name;  /* Points into the format. */
    struct slice value; /* Points into the message. */
    bool is_number;     /* The value is a number of JSON as it stands. */
};

struct logfmt {
    char text[LOG_LINE_MAX + 1]; /* The message with its NUL, cut at its end if it is longer. */
    size_t len;
    bool cut; /* Something did not fit. */
    struct logfmt_field fields[LOG_FIELDS_MAX];
    size_t count;
};

/* Makes the message empty. A message must not be copied: its fields point into it. */
void logfmt_init(struct logfmt *message);

/* Appends text without a name. */
void logfmt_text(struct logfmt *message, struct slice text);

/* Appends the text of a value; `name` must outlive the message. */
void logfmt_value(struct logfmt *message, struct slice name, struct slice text, bool is_number);

/* Appends by a format with names (log.h), which must outlive the message. */
void logfmt_print(struct logfmt *message, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void logfmt_vprint(struct logfmt *message, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

/* Logs a message that was put together before. Any thread. */
void log_message(enum log_level level, const char *subject, const struct logfmt *message);

#endif
