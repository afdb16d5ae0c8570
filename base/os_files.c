#include "base/os_files.h"

#include "base/check.h"
#include "base/minmax.h"
#include "base/os_clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

static _Atomic uint64_t claimed_until_ms;

uint64_t os_files_max(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

uint64_t os_files_raise(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return OS_FILES_UNKNOWN_OPEN;
    }

    rlim_t before = limit.rlim_cur;

    limit.rlim_cur = min_u64(limit.rlim_max, OS_FILES_MAX);
    return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : before;
}

uint32_t os_files_open(void)
{
    DIR *stream = opendir("/proc/self/fd");
    uint32_t count = 0;

    if (!stream) {
        return OS_FILES_UNKNOWN_OPEN;
    }
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is this call's own. */
    for (const struct dirent *entry = readdir(stream); entry; entry = readdir(stream)) {
        count += entry->d_name[0] != '.';
    }
    (void)closedir(stream);
    return count > 0 ? count - 1 : 0; /* The stream's own one. */
}

bool os_files_is_lack(int error)
{
    return error == EMFILE || error == ENFILE;
}

void os_files_claim(void)
{
    atomic_store(&claimed_until_ms, os_now_ms() + OS_FILES_CLAIM_MS);
}

bool os_files_are_claimed(void)
{
    uint64_t until_ms = atomic_load(&claimed_until_ms);

    return until_ms != 0 && os_now_ms() < until_ms;
}

/* An eventfd needs no path, and counts in the machine, too. The caller holds the mutex. */
static void fill(struct os_kept *kept)
{
    while (kept->count < kept->max) {
        int fd = eventfd(0, EFD_CLOEXEC);

        if (fd < 0) {
            return;
        }
        kept->fds[kept->count++] = fd;
    }
}

void os_kept_init(struct os_kept *kept, uint32_t max)
{
    ASSERT(max <= OS_KEPT_MAX);
    *kept = (struct os_kept){.max = max};
    pthread_mutex_init(&kept->mutex, NULL);
    fill(kept);
}

void os_kept_release(struct os_kept *kept)
{
    for (uint32_t i = 0; i < kept->count; i++) {
        (void)close(kept->fds[i]);
    }
    kept->count = 0;
    pthread_mutex_destroy(&kept->mutex);
}

/* The claim comes first: a thread that takes a descriptor which was closed here closes it again,
 * and there are more kept descriptors than such threads. */
int os_kept_openat(struct os_kept *kept, int dir_fd, const char *name, int flags, unsigned mode)
{
    int fd = -1;
    int error = EMFILE;

    pthread_mutex_lock(&kept->mutex);
    os_files_claim();
    while (fd < 0 && os_files_is_lack(error) && kept->count > 0) {
        (void)close(kept->fds[--kept->count]);
        fd = openat(dir_fd, name, flags, mode);
        error = fd < 0 ? errno : 0;
    }
    pthread_mutex_unlock(&kept->mutex);
    errno = error;
    return fd;
}

void os_kept_fill(struct os_kept *kept)
{
    pthread_mutex_lock(&kept->mutex);
    if (kept->count < kept->max) {
        os_files_claim();
        fill(kept);
    }
    pthread_mutex_unlock(&kept->mutex);
}
