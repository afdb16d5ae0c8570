#include "tests/proc/disk.h"

#include "base/check.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    WALK_FDS = 16,
    SECTOR = 512,
    PIECE_BYTES = 64 << 10
};

/* ---- A flipped bit. ---- */

static char log_path[512];
static off_t log_used; /* Bytes up to the last one that is not zero. */

static off_t used_bytes(const char *path)
{
    uint8_t bytes[SECTOR];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    off_t used = 0;
    ssize_t got = 1;

    assert_true(fd >= 0);
    for (off_t at = 0; (got = pread(fd, bytes, sizeof(bytes), at)) > 0; at += got) {
        for (ssize_t i = 0; i < got; i++) {
            used = bytes[i] ? at + i + 1 : used;
        }
    }
    close(fd);
    return used;
}

/* The log is the file with most written bytes. */
static int look_for_log(const char *path, const struct stat *stat, int type, struct FTW *walk)
{
    (void)stat;
    (void)walk;
    if (type == FTW_F) {
        off_t used = used_bytes(path);

        if (used > log_used) {
            log_used = used;
            (void)snprintf(log_path, sizeof(log_path), "%s", path);
        }
    }
    return 0;
}

bool disk_flip_bit(const struct ensemble *ensemble, uint32_t index, uint32_t per_mille)
{
    uint8_t byte = 0;

    ASSERT(ensemble->replicas[index].pid == 0 && per_mille < 1000);
    log_used = 0;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread walks at that time. */
    assert_int_equal(nftw(ensemble->replicas[index].data, look_for_log, WALK_FDS, FTW_PHYS), 0);
    if (log_used <= (off_t)32 * SECTOR) {
        return false;
    }

    int fd = open(log_path, O_RDWR | O_CLOEXEC);
    off_t at = log_used * (off_t)per_mille / 1000;

    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 4;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
    print_message("flipped one bit of %s of replica %u at %ld of %ld\n", strrchr(log_path, '/') + 1,
                  ensemble->replicas[index].id, (long)at, (long)log_used);
    return true;
}

/* ---- A full disk. ---- */

bool disk_may_mount(void)
{
    static int may = -1;

    if (may < 0) {
        may = unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
    }
    return may == 1;
}

void disk_mount(const struct ensemble *ensemble, uint32_t index, uint32_t bytes)
{
    const char *data = ensemble->replicas[index].data;
    char options[64];

    (void)snprintf(options, sizeof(options), "size=%u", bytes);
    assert_int_equal(mkdir(data, 0700), 0);
    assert_int_equal(mount("tmpfs", data, "tmpfs", 0, options), 0);
}

void disk_unmount(const struct ensemble *ensemble, uint32_t index)
{
    (void)umount(ensemble->replicas[index].data);
    (void)rmdir(ensemble->replicas[index].data);
}

static void ballast_path(const struct ensemble *ensemble, uint32_t index, char *path, size_t size)
{
    (void)snprintf(path, size, "%s/ballast", ensemble->replicas[index].data);
}

void disk_fill(const struct ensemble *ensemble, uint32_t index)
{
    static const uint8_t zeros[PIECE_BYTES];
    char path[256];

    ballast_path(ensemble, index, path, sizeof(path));

    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    size_t len = sizeof(zeros);

    assert_true(fd >= 0);
    while (len > 0) {
        ssize_t written = write(fd, zeros, len);

        if (written <= 0) {
            assert_int_equal(errno, ENOSPC);
            len /= 2;
        }
    }
    close(fd);
}

void disk_free(const struct ensemble *ensemble, uint32_t index)
{
    char path[256];

    ballast_path(ensemble, index, path, sizeof(path));
    assert_int_equal(unlink(path), 0);
}
