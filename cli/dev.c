#include "cli/dev.h"

#include "cli/cmd.h"
#include "server/process/server.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    LOG_MODE = 0644,
    EXEC_FAILED = 127
};

/* Shows warnings and errors; the log file has all lines. Lines are "TIME LEVEL subject text". */
static void show(struct child *child, const char *line)
{
    const char *level = strchr(line, ' ');
    bool plain = level && (!strncmp(level, " DEBUG ", 7) || !strncmp(level, " INFO ", 6));

    if (!plain && *line) {
        (void)snprintf(child->words, sizeof(child->words), "%.*s", DEV_WORDS_MAX - 1, line);
        (void)fprintf(stderr, "[%u] %s\n", child->id, line);
    }
}

static void show_lines(struct child *child)
{
    char *text = buf_cstr(&child->line);
    char *end = NULL;

    while ((end = strchr(text, '\n'))) {
        *end = '\0';
        show(child, text);
        text = end + 1;
    }
    buf_consume(&child->line, (size_t)(text - (char *)child->line.data));
}

enum output {
    OUTPUT_SOME,
    OUTPUT_NONE, /* Nothing for now. */
    OUTPUT_END
};

static enum output take_output(struct child *child)
{
    char bytes[DEV_LINE_MAX / 2];
    ssize_t got = read(child->watch.fd, bytes, sizeof(bytes));

    if (got <= 0) {
        return got < 0 && (errno == EAGAIN || errno == EINTR) ? OUTPUT_NONE : OUTPUT_END;
    }
    if (write(child->log_fd, bytes, (size_t)got) != got) {
        (void)fprintf(stderr, "zabra dev: cannot write %s: %s\n", child->log_path,
                      strerrordesc_np(errno));
    }
    if (!buf_append(&child->line, bytes, (size_t)got)) {
        buf_clear(&child->line);
    }
    show_lines(child);
    return OUTPUT_SOME;
}

static void close_pipe(struct child *child)
{
    loop_remove(child->loop, &child->watch);
    close(child->watch.fd);
    close(child->log_fd);
    child->watch.fd = -1;
    child->log_fd = -1;
    buf_release(&child->line);
}

static void on_output(struct loop_watch *watch, uint32_t ready)
{
    struct child *child = watch->ctx;

    (void)ready;
    if (take_output(child) == OUTPUT_END) {
        close_pipe(child);
    }
}

void child_drain(struct child *child)
{
    if (child->watch.fd < 0) {
        return;
    }
    while (take_output(child) == OUTPUT_SOME) {
    }
    if (child->line.len > 0) {
        show(child, buf_cstr(&child->line));
    }
    close_pipe(child);
}

/* Runs in the new process: makes only calls that are safe between fork and exec. */
static _Noreturn void become_replica(struct child *child, int error_fd)
{
    char name[] = "zabra";
    char command[] = "serve";
    char option[] = "--config";
    char *args[] = {name, command, option, child->config_path, NULL};
    sigset_t none;
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    (void)sigemptyset(&none);
    (void)pthread_sigmask(SIG_SETMASK, &none, NULL);
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (null_fd >= 0 && dup2(null_fd, STDIN_FILENO) >= 0 && dup2(error_fd, STDOUT_FILENO) >= 0 &&
        dup2(error_fd, STDERR_FILENO) >= 0) {
        execv("/proc/self/exe", args);
    }
    _exit(EXEC_FAILED);
}

static bool cannot_start(const struct child *child, const char *what)
{
    (void)fprintf(stderr, "zabra dev: cannot start replica %u: %s: %s\n", child->id, what,
                  strerrordesc_np(errno));
    return false;
}

bool child_start(struct child *child)
{
    int pipe_fds[2];

    ASSERT(child->pid == 0);
    child_drain(child);
    child->log_fd = open(child->log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, LOG_MODE);
    if (child->log_fd < 0) {
        return cannot_start(child, child->log_path);
    }
    if (pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK)) {
        close(child->log_fd);
        return cannot_start(child, "pipe");
    }
    child->pid = fork();
    if (child->pid == 0) {
        become_replica(child, pipe_fds[1]);
    }
    close(pipe_fds[1]);
    buf_init(&child->line, DEV_LINE_MAX);
    child->watch = (struct loop_watch){
        .fd = pipe_fds[0], .interest = LOOP_READ, .on_ready = on_output, .ctx = child};
    loop_add(child->loop, &child->watch);
    child->started_ms = os_now_ms();
    child->restart_at_ms = 0;
    child->ready = false;
    child->words[0] = '\0';
    if (child->pid < 0) {
        child->pid = 0;
        child_drain(child);
        return cannot_start(child, "fork");
    }
    return true;
}

/* Returns the child's last warning or error, without the prefix that a refused start has. */
static const char *last_words(const struct child *child)
{
    static const char prefix[] = "zabra: ";
    bool refusal = !strncmp(child->words, prefix, strlen(prefix));

    return child->words[0] ? child->words + (refusal ? strlen(prefix) : 0)
                           : "the log names no reason";
}

/* Returns what the operator may do about the child's end. */
static const char *advice_of(const struct child *child)
{
    if (WIFSIGNALED(child->status)) {
        return WTERMSIG(child->status) == SIGKILL
                   ? "another process killed the replica, or the machine ran out of memory; see "
                     "the log"
                   : "see the end of the log";
    }
    switch (WEXITSTATUS(child->status)) {
    case EXIT_CONFIG:
        return "check --port (it uses BASE and the next ports, and those 1000 above), --data, "
               "and the keys on the command line";
    case EXIT_HALT:
        return "the replica stopped to protect the data: while the other replicas serve, remove "
               "the directory of this replica; the others refill the replica";
    case EXIT_DISK:
        return "free space on the disk, or choose another one with --data DIR";
    case EXIT_LACK:
        return "the replica ran out of memory, threads or open files: the log says which";
    case EXIT_REMOVED:
        return "the replica is no member any more: remove its directory, and add it again if it "
               "is to come back";
    default:
        return "see the end of the log";
    }
}

void child_report_end(const struct child *child)
{
    (void)fprintf(stderr, "zabra dev: replica %u ended unexpectedly: ", child->id);
    if (WIFSIGNALED(child->status)) {
        int number = WTERMSIG(child->status);

        (void)fprintf(stderr, "signal %d (%s)\n", number, sigdescr_np(number));
    } else {
        (void)fprintf(stderr, "exit code %d\n", WEXITSTATUS(child->status));
    }
    (void)fprintf(stderr, "  why   %s\n  do    %s\n  log   %s\n", last_words(child),
                  advice_of(child), child->log_path);
}
