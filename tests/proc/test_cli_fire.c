/*
 * `zabra lock` under faults: many contenders wait for one lock; holders, waiters and the leader are
 * killed with SIGKILL. The guarded command detects two holders at the same time, and a fencing
 * number that does not grow. No process waits for ever.
 *
 * The guarded command is this program itself: `test_cli_fire guard DIRECTORY`.
 */
#include "tests/lib/unit.h"
#include "tests/proc/shell.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
#ifdef ZABRA_SLOW
    CONTENDERS = 12,
#else
    CONTENDERS = 50,
#endif
    WAITERS_KILLED = 2,
    INSIDE_LOOKS = 2, /* How long a holder stays inside, in waits of ensemble_breathe. */
    TEXT_MAX = 64,
    PATH_MAX_LEN = 512
};

struct contender {
    pid_t pid; /* 0: has ended. */
    bool killed;
};

static struct ensemble ensemble;
static struct contender contenders[CONTENDERS];
static char self[PATH_MAX_LEN];

/* ---- Numbers in files of the guarded directory ---- */

static uint64_t read_number(const char *name)
{
    char text[TEXT_MAX] = "";
    FILE *file = fopen(name, "r");

    if (!file) {
        return 0;
    }

    bool got = fgets(text, sizeof(text), file) != NULL;

    (void)fclose(file);
    return got ? strtoull(text, NULL, 10) : 0;
}

static void append(const char *name, const char *what, uint64_t number)
{
    char line[TEXT_MAX * 2];
    int len = snprintf(line, sizeof(line), "%s%" PRIu64 "\n", what, number);
    int fd = open(name, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);

    if (fd < 0 || write(fd, line, (size_t)len) != len) {
        _exit(CONTENDERS); /* Counts as a failure of the holder. */
    }
    close(fd);
}

static void write_number(const char *name, uint64_t number)
{
    char other[TEXT_MAX];

    (void)snprintf(other, sizeof(other), "%s.%ld", name, (long)getpid());
    append(other, "", number);
    (void)rename(other, name);
}

/* ---- The command that runs with the lock ---- */

/* The test kills the holder here. */
static void pause_here(void)
{
    if (access("pause", F_OK) != 0) {
        return;
    }
    write_number("paused", (uint64_t)getppid());
    while (access("pause", F_OK) == 0) {
        ensemble_breathe();
    }
}

static int guard(const char *directory)
{
    const char *text = getenv("ZABRA_LOCK_FENCE");
    uint64_t fence = text ? strtoull(text, NULL, 10) : 0;
    int fd = chdir(directory) == 0 ? open("inside", O_CREAT | O_RDWR | O_CLOEXEC, 0600) : -1;
    uint64_t last = read_number("fence");

    if (flock(fd, LOCK_EX | LOCK_NB)) { /* The kernel unlocks it when this process is killed. */
        append("violations", "not alone: ", fence);
    }
    if (fence <= last) {
        append("violations", "comes after a later one: ", fence);
    }
    for (int i = 0; i < INSIDE_LOOKS; i++) {
        ensemble_breathe();
    }
    pause_here();
    if (read_number("fence") != last) {
        append("violations", "another process has written meanwhile: ", fence);
    }
    write_number("fence", fence);
    append("done", "", fence);
    return 0;
}

/* ---- Contenders ---- */

static pid_t contend(const char *directory)
{
    pid_t parent = getpid();
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent) {
            execlp("zabra", "zabra", "lock", "fire", "--ttl", "10s", "--timeout", "60s", "--", self,
                   "guard", directory, (char *)NULL);
        }
        _exit(errno);
    }
    return pid;
}

static struct contender *find(uint64_t pid)
{
    for (int i = 0; i < CONTENDERS; i++) {
        if (pid > 0 && (uint64_t)contenders[i].pid == pid) {
            return &contenders[i];
        }
    }
    return NULL;
}

static void end(struct contender *contender)
{
    assert_int_equal(kill(contender->pid, SIGKILL), 0);
    contender->killed = true;
}

/* Returns the holder of the lock, which stays inside until end_pause. */
static struct contender *catch_holder(void)
{
    assert_true(unlink("paused") == 0 || errno == ENOENT);
    append("pause", "", 1);
    ENSEMBLE_WAIT(&ensemble, find(read_number("paused")));
    return find(read_number("paused"));
}

static void end_pause(void)
{
    assert_int_equal(unlink("pause"), 0);
}

static uint32_t kill_leader(void)
{
    uint32_t leader = ensemble_wait_leader(&ensemble);

    ensemble_kill(&ensemble, leader);
    return leader;
}

static int count_done(void)
{
    char line[TEXT_MAX];
    uint64_t last = 0;
    int count = 0;
    FILE *file = fopen("done", "r");

    assert_non_null(file);
    while (fgets(line, sizeof(line), file)) {
        uint64_t fence = strtoull(line, NULL, 10);

        assert_true(fence > last);
        last = fence;
        count++;
    }
    (void)fclose(file);
    return count;
}

/* True when the contender has ended; checks how. */
static bool has_ended(struct contender *contender)
{
    int status = 0;
    pid_t pid = waitpid(contender->pid, &status, WNOHANG);

    if (pid != contender->pid) {
        return false;
    }
    if (!contender->killed) { /* A killed one may have ended before the signal. */
        ENSEMBLE_CHECK(&ensemble, WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    contender->pid = 0;
    return true;
}

static int wait_all(void)
{
    int killed = 0;

    for (int i = 0; i < CONTENDERS; i++) {
        killed += contenders[i].killed ? 1 : 0;
        ENSEMBLE_WAIT(&ensemble, has_ended(&contenders[i]));
    }
    return killed;
}

static void open_all(void)
{
    ensemble_launch(&ensemble, 3, "tickTime=500\nsyncLimit=20\n");
    shell_open(&ensemble);
}

static void close_all(void)
{
    for (int i = 0; i < CONTENDERS; i++) {
        if (contenders[i].pid > 0) {
            (void)kill(contenders[i].pid, SIGKILL);
        }
    }
    assert_int_equal(chdir("/"), 0);
    ensemble_close(&ensemble);
}

TEST_GROUP(open_all, close_all)

TEST(one_holder_at_a_time_and_no_process_waits_for_ever)
{
    char directory[ENSEMBLE_PATH_MAX + TEXT_MAX];
    int waiters = WAITERS_KILLED;

    (void)snprintf(directory, sizeof(directory), "%s/guarded", ensemble.dir);
    assert_int_equal(shell("mkdir %s", directory), 0);
    assert_int_equal(chdir(directory), 0);
    for (int i = 0; i < CONTENDERS; i++) {
        contenders[i].pid = contend(directory);
    }

    /* Kill a holder and some waiters, most likely including two neighbours in the queue. */
    end(catch_holder());
    for (int i = CONTENDERS; i > 0 && waiters > 0; i--, waiters--) {
        end(&contenders[i - 1]);
    }
    end_pause();

    /* Kill the leader while a contender holds the lock. */
    (void)catch_holder();
    uint32_t leader = kill_leader();

    end_pause();
    ensemble_start(&ensemble, leader);
    ensemble_wait_ready(&ensemble, leader);

    /* Kill both at the same time. */
    end(catch_holder());
    leader = kill_leader();
    end_pause();

    int killed = wait_all();

    ensemble_start(&ensemble, leader);
    ensemble_wait_all_ready(&ensemble);
    assert_int_equal(shell("! cat violations 2>/dev/null"), 0);
    assert_true(count_done() >= CONTENDERS - killed);
    shell_expect("zabra ls /locks/fire --linearizable | wc -l", 0, "0\n");
}

int main(int arg_count, char **args)
{
    if (arg_count == 3 && strcmp(args[1], "guard") == 0) {
        return guard(args[2]);
    }

    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

    if (len <= 0) {
        return 1;
    }
    self[len] = '\0';
    web_setup();
    return unit_run(1, args);
}
