#include "cli/children.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    KNOWN_MAX = 256, /* Beyond this many, only the command itself is ended. */
    NAME_MAX_LEN = 64,
    STAT_MAX = 512 /* The beginning of it: number, name, state, parent. */
};

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

void children_adopt(void)
{
    DIR *processes = opendir("/proc");
    pid_t pid = 0;

    before.count = 0;
    while (processes && before.count < KNOWN_MAX && (pid = next_child(processes)) > 0) {
        before.pids[before.count++] = pid;
    }
    if (processes) {
        (void)closedir(processes);
    }
    if (!adopting) {
        first = before;
        adopting = true;
        (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    }
}

/* A child that was not yet waited for keeps its process id, so no foreign process is hit. */
int children_signal(int number)
{
    DIR *processes = before.count < KNOWN_MAX ? opendir("/proc") : NULL;
    pid_t pid = 0;
    int count = 0;

    while (processes && (pid = next_child(processes)) > 0) {
        if (!is_in(&before, pid)) {
            (void)kill(pid, number);
            count++;
        }
    }
    if (processes) {
        (void)closedir(processes);
    }
    return count;
}

void children_wait(pid_t command)
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
