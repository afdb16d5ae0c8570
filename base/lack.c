#include "base/lack.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

enum {
    TEXT_BYTES_MAX = 256
};

static lack_report_fn *reporter;

void lack_setup(lack_report_fn *report)
{
    reporter = report;
}

void lack_failed(const char *format, ...)
{
    char text[TEXT_BYTES_MAX];
    char line[TEXT_BYTES_MAX + 16];
    va_list args;

    va_start(args, format);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): `args` was just started. */
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (reporter) {
        reporter(text);
    }

    int len = snprintf(line, sizeof(line), "zabra: %s\n", text);
    ssize_t written = write(STDERR_FILENO, line, len > 0 ? (size_t)len : 0);

    (void)written; /* Nothing better can be done while ending. */
    _exit(1);
}
