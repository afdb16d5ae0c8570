#include "base/check.h"

#include "base/minmax.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Writes to stderr if it has room: a frozen reader must not keep a wrong replica alive. */
static void say(const char *text, size_t size)
{
    struct pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT};

    if (poll(&room, 1, 0) != 0) {
        ssize_t written = write(STDERR_FILENO, text, size);

        (void)written; /* Nothing better can be done while dying. */
    }
}

void check_failed(const char *file, int line, const char *expr)
{
    char text[512];
    int len = snprintf(text, sizeof(text), "%s:%d: assertion failed: %s\n", file, line, expr);

    if (len > 0) {
        say(text, min_size((size_t)len, sizeof(text) - 1));
    }
    abort();
}
