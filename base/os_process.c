#include "base/os_process.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

/* Changes only the soft limit, which can be raised again; the flag is what forbids dumps. */
static void limit_dumps(bool allow)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_CORE, &limit) == 0) {
        limit.rlim_cur = allow ? limit.rlim_max : 0;
        (void)setrlimit(RLIMIT_CORE, &limit);
    }
}

void os_dumps_forbid(void)
{
    (void)prctl(PR_SET_DUMPABLE, 0);
    limit_dumps(false);
}

void os_dumps_allow(void)
{
    (void)prctl(PR_SET_DUMPABLE, 1);
    limit_dumps(true);
}

bool os_is_root(void)
{
    return geteuid() == 0;
}
