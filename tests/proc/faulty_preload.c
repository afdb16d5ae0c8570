/* The library that is loaded before the C library: see faulty.h. Without its variable it changes
 * nothing. */
#include "tests/proc/faulty.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum {
    MS_PER_S = 1000,
    NS_PER_MS = 1000000,
    NS_PER_S = 1000000000,
    HANG_STEP_MS = 5
};

static struct faulty none;
static struct faulty *faulty = &none;

__attribute__((constructor)) static void find_page(void)
{
    const char *path = getenv(FAULTY_VARIABLE); /* NOLINT(concurrency-mt-unsafe): before main. */
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *page = MAP_FAILED;

    if (fd >= 0) {
        page = mmap(NULL, sizeof(*faulty), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
    }
    if (page != MAP_FAILED) {
        faulty = page;
    }
}

/* ---- The wall clock. ---- */

static void shift(struct timespec *now)
{
    int64_t offset_ms = atomic_load(&faulty->wall_offset_ms);
    int64_t ns = now->tv_nsec + offset_ms % MS_PER_S * NS_PER_MS;

    now->tv_sec += offset_ms / MS_PER_S;
    if (ns < 0) {
        ns += NS_PER_S;
        now->tv_sec--;
    } else if (ns >= NS_PER_S) {
        ns -= NS_PER_S;
        now->tv_sec++;
    }
    now->tv_nsec = ns;
}

int clock_gettime(clockid_t clock, struct timespec *ret_now)
{
    int failed = (int)syscall(SYS_clock_gettime, clock, ret_now);

    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        shift(ret_now);
    }
    return failed;
}

int gettimeofday(struct timeval *restrict ret_now, void *restrict zone)
{
    struct timespec now;
    int failed = clock_gettime(CLOCK_REALTIME, &now);

    (void)zone;
    ret_now->tv_sec = now.tv_sec;
    ret_now->tv_usec = now.tv_nsec / MS_PER_S;
    return failed;
}

time_t time(time_t *ret_now)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (ret_now) {
        *ret_now = now.tv_sec;
    }
    return now.tv_sec;
}

/* ---- The disk. ---- */

static int fail(void)
{
    atomic_fetch_add(&faulty->failed, 1);
    errno = EIO;
    return -1;
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t offset)
{
    return atomic_load(&faulty->writes_fail) ? fail()
                                             : syscall(SYS_pwrite64, fd, data, len, offset);
}

ssize_t pwrite64(int fd, const void *data, size_t len, off64_t offset)
{
    return pwrite(fd, data, len, offset);
}

static void delay(void)
{
    uint32_t ms = atomic_load(&faulty->sync_ms);

    if (ms > 0) {
        (void)poll(NULL, 0, (int)ms);
    }
}

/* ---- A file system that hangs. ---- */

static void hang(const char *path)
{
    while (atomic_load(&faulty->hangs) &&
           strncmp(path, faulty->hanging, strlen(faulty->hanging)) == 0) {
        (void)poll(NULL, 0, HANG_STEP_MS);
    }
}

int open(const char *path, int flags, ...)
{
    mode_t mode = 0;
    va_list args;

    va_start(args, flags);
    if (flags & (O_CREAT | O_TMPFILE)) {
        mode = va_arg(args, mode_t);
    }
    va_end(args);
    hang(path);
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int stat(const char *restrict path, struct stat *restrict ret_about)
{
    hang(path);
    return (int)syscall(SYS_newfstatat, AT_FDCWD, path, ret_about, 0);
}

/* ---- Syncs. ---- */

static void hang_fd(int fd)
{
    char link[32];
    char path[sizeof(faulty->hanging) * 2];
    ssize_t len = 0;

    if (atomic_load(&faulty->hangs)) {
        (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        len = readlink(link, path, sizeof(path) - 1);
        path[len > 0 ? len : 0] = '\0';
        hang(path);
    }
}

int fdatasync(int fd)
{
    delay();
    hang_fd(fd);
    return atomic_load(&faulty->syncs_fail) ? fail() : (int)syscall(SYS_fdatasync, fd);
}

int fsync(int fd)
{
    delay();
    hang_fd(fd);
    return atomic_load(&faulty->syncs_fail) ? fail() : (int)syscall(SYS_fsync, fd);
}
