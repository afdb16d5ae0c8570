/*
 * Runs the child of a command. The child is started without a shell, and ends with zabra. Processes
 * that the child has started become children of zabra once they are orphans. So zabra can end them
 * together with the command, even if they have left zabra's process group.
 */
#include "cli/inherited.h"
#include "cli/live.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    LOOK_MS = 10,    /* How often to check whether a process of the command still runs. */
    KILL_MS = 2000,  /* How long to wait for the end after SIGKILL. */
    KNOWN_MAX = 256, /* If zabra has more children, only the command is ended. */
    NAME_MAX_LEN = 64,
    STAT_MAX = 512 /* Bytes read of /proc/PID/stat: number, name, state, parent. */
};

/* ---- Orphans ---- */

struct known {
    pid_t pids[KNOWN_MAX];
    int count;
};

static struct known first;  /* Our children before the first command. */
static struct known before; /* Our children before the last command. */
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

/* Whether a process is a child of ours that runs. Its stat is "12 (name) S 11 ...": the name may
 * have any characters, so state and parent are read behind the last bracket. */
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

/* Returns the next child of ours that runs; 0: there is none. */
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

/* Lists our children that run, as many as there is room for. */
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

/* Makes this process adopt, from now on, processes that its children leave behind. Also lists the
 * children that exist already: they have nothing to do with the command that is started next. */
static void children_adopt(void)
{
    list_children(&before);
    if (!adopting) {
        first = before;
        adopting = true;
        (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    }
}

/* Sends a signal (0: none) to each child that runs and is newer than the last children_adopt().
 * Returns how many there are; 0 also when `before` was full. A child keeps its process id until it
 * is waited for, so no foreign process is hit. */
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

/* Reaps orphans that have ended. Does not reap `command`, nor children from before the first
 * command, because the code that started these children waits for them. */
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

void live_env(struct live *live, const char *name, const char *value)
{
    size_t size = strlen(name) + strlen(value) + 2;
    char *variable = mem_zalloc(1, size);

    ASSERT(live->env_count + 1 < LIVE_ENV_MAX); /* The list ends with NULL. */
    (void)snprintf(variable, size, "%s=%s", name, value);
    live->env[live->env_count++] = variable;
}

void live_env_replicas(struct live *live)
{
    const struct settings *settings = &live->cli->settings;

    const struct {
        const char *name;
        const char *value;
    } variables[] = {{"ZABRA_ENDPOINTS", settings->endpoints},
                     {"ZABRA_CA", settings->ca},
                     {"ZABRA_CERT", settings->cert},
                     {"ZABRA_KEY", settings->key}};

    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        if (variables[i].value) {
            live_env(live, variables[i].name, variables[i].value);
        }
    }
}

void live_drop_env(struct live *live)
{
    for (int i = 0; i < live->env_count; i++) {
        explicit_bzero(live->env[i], strlen(live->env[i])); /* One variable may be a secret. */
        mem_free(live->env[i]);
        live->env[i] = NULL;
    }
    live->env_count = 0;
}

static bool is_replaced(const char *variable, char *const *env)
{
    for (; *env; env++) {
        if (strncmp(variable, *env, strcspn(variable, "=") + 1) == 0) {
            return true;
        }
    }
    return false;
}

/* Returns our environment with these variables, which override it; freed by mem_free. */
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
    for (; *env; env++) {
        all[used++] = *env;
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

/* Runs in the new process: makes only calls that are safe between fork and exec. */
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

/* Returns why the new process did not become the command, as an errno; 0: it did. */
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

/* Passes on the signals that came before there was a child: the child has received none of them. */
static void pass_early(struct live *live)
{
    struct signalfd_siginfo info;

    while (read(live->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        live->last_signal = (int)info.ssi_signo;
        (void)kill(live->child, (int)info.ssi_signo);
    }
}

int live_run(struct live *live, char **args, int input)
{
    struct start start = {.args = args, .input = input, .parent = getpid()};
    int fds[2];
    int why = 0;

    ASSERT(live->child <= 0 && args[0]);
    (void)fflush(stdout);
    if (pipe2(fds, O_CLOEXEC)) {
        live_drop_env(live);
        return fail(live, args[0], errno);
    }
    start.env = join_env(live->env);
    start.told_fd = fds[1];
    children_adopt();
    live->child = fork();
    if (live->child == 0) {
        become_child(live, &start);
    }
    why = live->child < 0 ? errno : 0;
    close(fds[1]);
    mem_free(start.env);
    live_drop_env(live);
    if (live->child > 0) {
        live->child_fd = (int)syscall(SYS_pidfd_open, live->child, 0);
        why = live->child_fd < 0 ? errno : read_why(fds[0]); /* pidfd_open may lack a descriptor. */
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

/* Waits until no process of the command runs any more, and reaps the ended ones. Returns false when
 * one still runs at `until_ms`. Processes that outlive the command get the signal `number`. */
static bool wait_all(struct live *live, uint64_t until_ms, int number, int *ret_status)
{
    bool had = live->child > 0;

    for (;;) {
        struct pollfd fd = {.fd = live->child_fd, .events = POLLIN};

        (void)live_take_child(live, ret_status);

        int left = children_signal(had && live->child <= 0 ? number : 0);

        children_wait(live->child); /* Reaps ended processes, which `left` does not count. */
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

/* Kills the command and all processes that it has started. The children of a killed process become
 * orphans, which the next round finds and kills. */
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
    int status = SIGKILL; /* The status of a child that has not ended after KILL_MS. */

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
