#include "cli/inherited.h"

#include "base/check.h"
#include "base/lack.h"

#include <fcntl.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum {
    NOTED_MAX = 1024 /* inherited_only() changes no descriptor from this number on. */
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

int inherited_take_signals(const int *signals, sigset_t *old_mask)
{
    sigset_t set;
    int failed = sigemptyset(&set);

    for (; *signals; signals++) {
        if (*signals != SIGHUP || !inherited_ignores(SIGHUP)) {
            failed |= sigaddset(&set, *signals);
        }
    }
    failed |= pthread_sigmask(SIG_BLOCK, &set, old_mask);
    ASSERT(!failed);

    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);

    if (fd < 0) {
        lack_failed("cannot handle signals: no file descriptor is left");
    }
    return fd;
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
