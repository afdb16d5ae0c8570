#include "base/check.h"

#include "base/minmax.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void check_failed(const char *file, int line, const char *expr)
{
    char text[512];
    int len = snprintf(text, sizeof(text), "%s:%d: assertion failed: %s\n", file, line, expr);

    if (len > 0) {
        size_t size = min_size((size_t)len, sizeof(text) - 1);
        ssize_t written = write(STDERR_FILENO, text, size);

        (void)written; /* Nothing better can be done while dying. */
    }
    abort();
}
