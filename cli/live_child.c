/*
 * The child of a command: started without a shell, ended with us; and the processes that it has
 * started, once they are orphans. They become our children then, and can be ended too when nothing
 * of the command may continue: also what has left its process group.
 */
#include "base/check.h"
#include "base/mem.h"
#include "base/os_clock.h"
#include "cli/inherited.h"
#include "cli/live.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    LOOK_MS = 10,    /* How often to check whether a process of the command still runs, */
    KILL_MS = 2000,  /* and for how long after the kill. */
    KNOWN_MAX = 256, /* Beyond this many, only the command itself is ended. */
    NAME_MAX_LEN = 64,
    STAT_MAX = 512 /* The beginning of it: number, name, state, parent. */
};

/* ---- Orphans ---- */

struct known {
    pid_t pids[KNOWN_MAX];
    int count;
};

static struct known first;  /* Number of descendants before the first command, */
static struct known before; /* and before the last one. */
static bool adopting;

static bool is_in(const struct known *known, pid_t pid)
{
    for (int i = 0; i < known->count; i++) {
        if (known->pids[i] == pid) {
            return true;
        }
    }
    return false;
}

/* "12 (name) S 11 ...": the name may be anything, so what counts is behind the last bracket. */
static bool is_ours(const char *pid)
{
    char name[NAME_MAX_LEN];
    char stat[STAT_MAX];
    ssize_t len = 0;
    int fd = -1;

    (void)snprintf(name, sizeof(name), "/proc/%.20s/stat", pid);
    fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    len = read(fd, stat, sizeof(stat) - 1);
    close(fd);
    stat[len > 0 ? len : 0] = '\0';

    const char *rest = strrchr(stat, ')');

    return rest && strlen(rest) > 4 && rest[2] != 'Z' && strtoll(rest + 4, NULL, 10) == getpid();
}

/* The next child of ours that runs; 0: there is none. */
static pid_t next_child(DIR *processes)
{
    const struct dirent *entry = NULL;

    while ((entry = readdir(processes))) { /* NOLINT(concurrency-mt-unsafe): our own stream. */
        pid_t pid = (pid_t)strtoll(entry->d_name, NULL, 10);

        if (pid > 0 && is_ours(entry->d_name)) {
            return pid;
        }
    }
    return 0;
}

/* Our children that run, as many as there is room for. */
static void list_children(struct known *known)
{
    DIR *processes = opendir("/proc");
    pid_t pid = 0;

    known->count = 0;
    while (processes && known->count < KNOWN_MAX && (pid = next_child(processes)) > 0) {
        known->pids[known->count++] = pid;
    }
    if (processes) {
        (void)closedir(processes);
    }
}

/* Before a command is started: from now on what children of ours leave behind is ours. Those that
 * are there already have nothing to do with it. */
static void children_adopt(void)
{
    list_children(&before);
    if (!adopting) {
        first = before;
        adopting = true;
        (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    }
}

/* Sends a signal (0: none) to each child that has come since then and runs. Returns how many there
 * are; 0 also where this cannot be known. A child that was not yet waited for keeps its process id,
 * so no foreign process is hit. */
static int children_signal(int number)
{
    struct known now;
    int count = 0;

    list_children(&now);
    for (int i = 0; before.count < KNOWN_MAX && i < now.count; i++) {
        if (!is_in(&before, now.pids[i])) {
            (void)kill(now.pids[i], number);
            count++;
        }
    }
    return count;
}

/* Waits for orphans that have ended, but not for `command`, nor for children from before the first
 * command: its starter does. */
static void children_wait(pid_t command)
{
    for (;;) {
        siginfo_t info = {.si_pid = 0};
        int ignored = 0;

        (void)waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT);
        if (info.si_pid == 0 || info.si_pid == command || is_in(&first, info.si_pid)) {
            return;
        }
        (void)waitpid(info.si_pid, &ignored, 0);
    }
}

/* ---- The start ---- */

static bool is_replaced(const char *variable, char *const *env)
{
    for (; *env; env++) {
        if (strncmp(variable, *env, strcspn(variable, "=") + 1) == 0) {
            return true;
        }
    }
    return false;
}

/* Our environment and these variables, which win; freed by mem_free. */
static char **join_env(char *const *env)
{
    size_t count = 0;
    size_t used = 0;
    char **all = NULL;

    for (char **at = environ; *at; at++) {
        count++;
    }
    all = mem_zalloc(count + LIVE_ENV_MAX + 1, sizeof(*all));
    for (char **at = environ; *at; at++) {
        if (!is_replaced(*at, env)) {
            all[used++] = *at;
        }
    }
    for (int i = 0; env[i]; i++) {
        ASSERT(i < LIVE_ENV_MAX);
        all[used++] = env[i];
    }
    return all;
}

struct start {
    char **args;
    char **env;
    int input;
    int told_fd; /* Gets errno when the command cannot be run. */
    pid_t parent;
};

/* In the new process: nothing but calls that are safe between fork and exec. */
static _Noreturn void become_child(const struct live *live, const struct start *start)
{
    int why = 0;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != start->parent) {
        _exit(CMD_CHILD_FAILED); /* The parent ended before this request took effect. */
    }
    (void)pthread_sigmask(SIG_SETMASK, &live->old_mask, NULL);
    inherited_only();
    if (start->input < 0 || dup2(start->input, STDIN_FILENO) >= 0) {
        execvpe(start->args[0], start->args, start->env);
    }
    why = errno;
    if (write(start->told_fd, &why, sizeof(why)) != (ssize_t)sizeof(why)) {
        why = EIO;
    }
    _exit(why == ENOENT ? CMD_CHILD_NOT_FOUND : CMD_CHILD_NOT_RUN);
}

/* The reason why it did not become the command; 0: it did. */
static int read_why(int fd)
{
    int why = 0;
    ssize_t got = 0;

    do {
        got = read(fd, &why, sizeof(why));
    } while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof(why) ? why : 0;
}

static int fail(struct live *live, const char *name, int why)
{
    int code = why == ENOENT ? CMD_CHILD_NOT_FOUND : CMD_CHILD_NOT_RUN;

    return cli_fail(live->cli, code, why == ENOENT ? "CommandNotFound" : "CommandNotRun",
                    "cannot run %s: %s", name, strerrordesc_np(why));
}

/* Signals that came before there was a child: it has got none of them. */
static void pass_early(struct live *live)
{
    struct signalfd_siginfo info;

    while (read(live->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        live->last_signal = (int)info.ssi_signo;
        (void)kill(live->child, (int)info.ssi_signo);
    }
}

int live_run(struct live *live, char **args, char *const *env, int input)
{
    static char *const none[] = {NULL};
    struct start start = {.args = args, .input = input, .parent = getpid()};
    int fds[2];
    int why = 0;

    ASSERT(live->child <= 0 && args[0]);
    (void)fflush(stdout);
    if (pipe2(fds, O_CLOEXEC)) {
        return fail(live, args[0], errno);
    }
    start.env = join_env(env ? env : none);
    start.told_fd = fds[1];
    children_adopt();
    live->child = fork();
    if (live->child == 0) {
        become_child(live, &start);
    }
    why = live->child < 0 ? errno : 0;
    close(fds[1]);
    mem_free(start.env);
    if (live->child > 0) {
        live->child_fd = (int)syscall(SYS_pidfd_open, live->child, 0);
        why = live->child_fd < 0 ? errno : read_why(fds[0]); /* No descriptor may be left. */
    }
    close(fds[0]);
    if (why) {
        live_kill_child(live);
        return fail(live, args[0], why);
    }
    pass_early(live);
    return CMD_OK;
}

/* ---- The end ---- */

bool live_take_child(struct live *live, int *ret_status)
{
    if (live->child <= 0) {
        return false;
    }
    children_wait(live->child);
    if (waitpid(live->child, ret_status, WNOHANG) != live->child) {
        return false;
    }
    if (live->child_fd >= 0) {
        close(live->child_fd);
    }
    live->child_fd = -1;
    live->child = 0;
    return true;
}

/* Waits for all that has ended, until none of ours runs any more; false: the time was over.
 * `number` is sent to what the command leaves behind. */
static bool wait_all(struct live *live, uint64_t until_ms, int number, int *ret_status)
{
    bool had = live->child > 0;

    for (;;) {
        struct pollfd fd = {.fd = live->child_fd, .events = POLLIN};

        (void)live_take_child(live, ret_status);

        int left = children_signal(had && live->child <= 0 ? number : 0);

        children_wait(live->child); /* After the count: what was not counted has ended. */
        had = live->child > 0;
        if (left == 0 && !had) {
            return true;
        }
        if (os_now_ms() >= until_ms) {
            return false;
        }
        (void)poll(&fd, fd.fd >= 0 ? 1 : 0, LOOK_MS);
    }
}

/* Killing a process makes orphans of its children: the next round finds them. */
static void kill_all(struct live *live, int *ret_status)
{
    uint64_t until_ms = os_now_ms() + KILL_MS;

    live->outlived = true;
    do {
        if (live->child > 0) {
            (void)kill(live->child, SIGKILL);
        }
        (void)children_signal(SIGKILL);
        live->outlived = !wait_all(live, os_now_ms() + LOOK_MS, SIGKILL, ret_status);
    } while (live->outlived && os_now_ms() < until_ms);
}

void live_kill_child(struct live *live)
{
    int status = 0;

    if (live->child > 0) {
        kill_all(live, &status);
    }
}

int live_end_child(struct live *live, int64_t grace_ms)
{
    int status = SIGKILL; /* As waitpid gives it, for one that the kernel does not let go. */

    ASSERT(live->child > 0);
    (void)kill(live->child, SIGTERM);
    (void)kill(live->child, SIGCONT); /* A suspended process could not end. */
    if (!wait_all(live, os_now_ms() + (uint64_t)grace_ms, SIGTERM, &status)) {
        kill_all(live, &status);
    }
    return status;
}

int live_exit_code(int status)
{
    return WIFSIGNALED(status) ? CMD_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}
