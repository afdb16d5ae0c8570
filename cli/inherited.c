#include "cli/inherited.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

enum {
    NOTED_MAX = 1024 /* What has a higher number is left as it is. */
};

static bool given[NOTED_MAX];
static bool noted;

void inherited_note(void)
{
    for (int fd = 0; fd < NOTED_MAX; fd++) {
        given[fd] = fcntl(fd, F_GETFD) >= 0;
    }
    noted = true;
}

void inherited_add(int fd)
{
    if (fd >= 0 && fd < NOTED_MAX) {
        given[fd] = true;
    }
}

bool inherited_ignores(int signal_number)
{
    struct sigaction now;

    return sigaction(signal_number, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

void inherited_only(void)
{
    for (int fd = STDERR_FILENO + 1; noted && fd < NOTED_MAX; fd++) {
        int flags = given[fd] ? -1 : fcntl(fd, F_GETFD);

        if (flags >= 0) {
            (void)fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
        }
    }
}
