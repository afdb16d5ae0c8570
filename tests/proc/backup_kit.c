#include "tests/proc/backup_kit.h"

#include "cli/backup_files.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

void backup_set(const char *name, const char *format, ...)
{
    char value[SHELL_OUTPUT_MAX];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(value, sizeof value, format, args);
    va_end(args);
    assert_int_equal(setenv(name, value, 1), 0); /* NOLINT(concurrency-mt-unsafe): one thread. */
}

void backup_prepare(const struct ensemble *ensemble)
{
    shell_open(ensemble);
    backup_set("OUT", "%s/out", ensemble->dir);
    backup_set("BACKUP", "zabra backup --user super --password-file %s/pw", ensemble->dir);
    assert_int_equal(shell("umask 077; printf root >%s/pw; mkdir $OUT; head -c 300000 /dev/urandom "
                           ">$D/data",
                           ensemble->dir),
                     0);
}

struct faulty *backup_offer_faulty(const struct ensemble *ensemble)
{
    char path[ENSEMBLE_PATH_MAX];

    (void)snprintf(path, sizeof path, "%.96s/command.faulty", ensemble->dir);
    backup_set("FAULTY", "env LD_PRELOAD=%s %s=%s", ZABRA_FAULTY_LIBRARY, FAULTY_VARIABLE, path);
    return faulty_open(path);
}

void backup_write_some(const char *prefix, int count)
{
    assert_int_equal(
        shell("for i in $(seq %d); do zabra create /%s$i $i || exit 1; done", count, prefix), 0);
}

void backup_shift(const char *path, int64_t ms)
{
    char why[BACKUP_WHY_MAX];
    struct backup_head head;
    struct backup_open open_file;
    struct buf memory;
    struct buf bytes;
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(backup_open(path, &open_file), 0);
    assert_int_equal(backup_read_head(&open_file.input, &memory, &head, why), ERR_OK);
    head.made_ms += ms;
    buf_init(&bytes, SIZE_MAX / 2);
    backup_put_head(&head, &bytes);
    assert_int_equal(pwrite(fd, bytes.data, bytes.len, 0), (ssize_t)bytes.len);
    buf_release(&bytes);
    buf_release(&memory);
    backup_close(&open_file);
    assert_int_equal(close(fd), 0);
}
