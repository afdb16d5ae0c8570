#include "base/sd_notify.h"

#include "base/minmax.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* The value of a variable of the environment, which nothing in this process changes; NULL: it is
 * not set. */
static const char *find_variable(const char *name)
{
    size_t len = strlen(name);

    for (char **entry = environ; *entry; entry++) {
        if (strncmp(*entry, name, len) == 0 && (*entry)[len] == '=') {
            return *entry + len + 1;
        }
    }
    return NULL;
}

/* A number of the environment; 0: there is none. */
static uint64_t find_number(const char *name)
{
    const char *text = find_variable(name);
    char *end = NULL;

    errno = 0;
    uint64_t number = text ? strtoull(text, &end, 10) : 0;

    return errno == 0 && end && *end == '\0' ? number : 0;
}

/* The interval of the watchdog in ms; 0 if it watches no process, or another one. */
static uint32_t find_watchdog(void)
{
    if (find_variable("WATCHDOG_PID") && find_number("WATCHDOG_PID") != (uint64_t)getpid()) {
        return 0;
    }
    return (uint32_t)min_u64(find_number("WATCHDOG_USEC") / 1000, UINT32_MAX);
}

void sd_notify_open(struct sd_notify *ret_notify)
{
    const char *path = find_variable("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = path ? strlen(path) : 0;

    *ret_notify = (struct sd_notify){.fd = -1, .watchdog_ms = find_watchdog()};
    if (len < 2 || len >= sizeof address.sun_path || (path[0] != '/' && path[0] != '@')) {
        return;
    }
    memcpy(address.sun_path, path, len);
    if (path[0] == '@') {
        address.sun_path[0] = '\0'; /* A name that is in no file system: unix(7). */
    }
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);

    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, size) != 0) {
        (void)close(fd);
        fd = -1;
    }
    ret_notify->fd = fd;
}

void sd_notify_close(struct sd_notify *notify)
{
    if (notify->fd >= 0) {
        (void)close(notify->fd);
        notify->fd = -1;
    }
}

void sd_notify_send(const struct sd_notify *notify, const char *format, ...)
{
    char text[SD_NOTIFY_TEXT_MAX];
    va_list args;

    if (notify->fd < 0) {
        return;
    }
    va_start(args, format);
    int len = vsnprintf(text, sizeof text, format, args);

    va_end(args);
    if (len > 0) {
        (void)send(notify->fd, text, min_u64((uint64_t)len, sizeof text - 1), MSG_NOSIGNAL);
    }
}
