#include "cli/journal.h"

#include "base/os_clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PIECE = 65536,
    UNIT_MAX = 256
};

/* Starts journalctl with its output in `*ret_fd`. Returns 0 or an errno. */
static int start(const char *unit, pid_t *ret_pid, int *ret_fd)
{
    char program[] = "journalctl";
    char options[][24] = {"--no-pager", "--quiet", "--output=short-iso", "--lines=20000", "--unit"};
    char name[UNIT_MAX];
    char *const args[] = {program,    options[0], options[1], options[2],
                          options[3], options[4], name,       NULL};
    posix_spawn_file_actions_t actions;
    int ends[2];

    (void)snprintf(name, sizeof(name), "%s", unit);
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return errno;
    }
    int error = posix_spawn_file_actions_init(&actions);

    if (error == 0) {
        (void)posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
        (void)posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
        (void)posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        error = posix_spawnp(ret_pid, args[0], &actions, NULL, args, environ);
        (void)posix_spawn_file_actions_destroy(&actions);
    }
    close(ends[1]);
    if (error != 0) {
        close(ends[0]);
        return error;
    }
    *ret_fd = ends[0];
    return 0;
}

/* Reads to the end. Returns NULL, or why the rest is missing. */
static const char *read_all(int fd, uint64_t end_ms, struct buf *out)
{
    static char piece[PIECE];

    for (;;) {
        uint64_t now_ms = os_now_ms();
        struct pollfd wait = {.fd = fd, .events = POLLIN};

        if (now_ms >= end_ms || poll(&wait, 1, (int)(end_ms - now_ms)) <= 0) {
            return "journalctl did not end in time";
        }
        ssize_t got = read(fd, piece, sizeof(piece));

        if (got <= 0) {
            return NULL;
        }
        if (out->len + (size_t)got > out->size_max) {
            return "the journal is longer than the archive takes";
        }
        buf_append(out, piece, (size_t)got);
    }
}

const char *journal_read(const char *unit, int64_t wait_ms, struct buf *out)
{
    pid_t pid = 0;
    int fd = -1;

    if (start(unit, &pid, &fd) != 0) {
        return "there is no journalctl on this machine";
    }
    const char *why = read_all(fd, os_now_ms() + (uint64_t)wait_ms, out);

    close(fd);
    (void)kill(pid, SIGKILL); /* It has ended, or must: its output is closed. */
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
    }
    return why || out->len > 0 ? why : "the journal has no line about this unit";
}
