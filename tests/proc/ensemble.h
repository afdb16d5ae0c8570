/*
 * ensemble.h - real replicas as processes on free ports of loopback, in a temporary directory.
 *
 * All waits have a condition and a deadline; a missed deadline prints the ends of all logs and
 * fails the test. Processes die with the test program.
 */
#ifndef TESTS_PROC_ENSEMBLE_H
#define TESTS_PROC_ENSEMBLE_H

#include "base/os_clock.h"
#include "tests/lib/unit.h"
#include "tests/proc/web.h"

#include <sys/types.h>

enum {
    ENSEMBLE_MAX = 5,
    ENSEMBLE_PATH_MAX = 128,
    ENSEMBLE_KEYS_MAX = 2048,
    /* A sanitizer makes everything slower; times that are part of a test are multiplied. */
#ifdef ZABRA_SLOW
    ENSEMBLE_FACTOR = 5,
#else
    ENSEMBLE_FACTOR = 1,
#endif
    /* Deadline of a condition, long enough for a machine at a tenth of its speed: only a failing
     * test takes that long. */
    ENSEMBLE_DEADLINE_MS = 200000
};

/* The line that makes super:root the super user. */
#define ENSEMBLE_SUPER "superDigest=super:zUZ0bpqYS7FucDXsnUgxOWTto1s=\n"

struct replica {
    uint32_t id;
    pid_t pid;  /* 0: not running. */
    int status; /* From waitpid. */
    uint16_t client_port;
    uint16_t peer_port;
    char data[ENSEMBLE_PATH_MAX];
    char config[ENSEMBLE_PATH_MAX];
    char log[ENSEMBLE_PATH_MAX];
    char faulty[ENSEMBLE_PATH_MAX];
    int stderr_fd;       /* Standard error of the next process; 0: `log`, as standard output. */
    const char *program; /* Of the next process; NULL: zabra of this build. */
};

struct ensemble {
    uint32_t count;
    struct replica replicas[ENSEMBLE_MAX]; /* By id - 1. */
    char dir[ENSEMBLE_PATH_MAX];
    const char *keys;                 /* Additional lines of configuration; NULL: none. */
    uint32_t files_max[ENSEMBLE_MAX]; /* Hard limits of open files; 0: that of this program. */
    /* Port where the first replica dials the second (tests/proc/network.h); 0: the real one. */
    uint16_t peer_ports[ENSEMBLE_MAX][ENSEMBLE_MAX];
    bool faulty; /* Replicas obey faulty_open() of their `faulty` file (tests/proc/faulty.h). */
    struct web *web;
    struct web_reply reply; /* Reply to the last call. */
};

/* Makes the directory and configurations; starts no replica. */
void ensemble_open(struct ensemble *ensemble, uint32_t count, const char *keys);

/* Writes lines of configuration: TLS for clients in this mode (clientTls), with NAME.pem and
 * NAME.key of `dir`. `clients`: clientCertificates, for which ca.pem is in `dir`; NULL: off.
 * `more`: further lines. */
void ensemble_tls_keys(const char *dir, const char *name, const char *mode, const char *clients,
                       const char *more, char out[ENSEMBLE_KEYS_MAX]);

/* Writes the configurations again, after a change of their fields. */
void ensemble_write_configs(const struct ensemble *ensemble);

/* Kills the running replicas, fails the test if a log shows a sanitizer's report or a failed
 * assertion, and removes the directory. */
void ensemble_close(struct ensemble *ensemble);

/* Opens, starts all and waits until all serve. */
void ensemble_launch(struct ensemble *ensemble, uint32_t count, const char *keys);

/* `index` is id - 1. */
void ensemble_start(struct ensemble *ensemble, uint32_t index);
/* After SIGSTOP returns only when all threads of the replica have stopped. */
void ensemble_signal(struct ensemble *ensemble, uint32_t index, int signal_number);

/* Sends SIGKILL and waits for the end of the process. */
void ensemble_kill(struct ensemble *ensemble, uint32_t index);

/* Sends SIGTERM; returns the exit code. */
int ensemble_stop(struct ensemble *ensemble, uint32_t index);

/* True if the replica has ended for any reason, or was never started. */
bool ensemble_has_ended(struct ensemble *ensemble, uint32_t index);

/* Waits until the replica ends by itself; returns the exit code, -1 for a signal. */
int ensemble_wait_end(struct ensemble *ensemble, uint32_t index);

/* Waits until /readyz answers 200. */
void ensemble_wait_ready(struct ensemble *ensemble, uint32_t index);
void ensemble_wait_all_ready(struct ensemble *ensemble);

/* Waits until a running replica reports that it is the leader; returns its index. */
uint32_t ensemble_wait_leader(struct ensemble *ensemble);
bool ensemble_leads(struct ensemble *ensemble, uint32_t index);

/* One call to a replica; the reply is in ensemble->reply. */
long ensemble_call(struct ensemble *ensemble, uint32_t index, const char *method, const char *path,
                   const char *body);

/* Repeats the call until the status is `status`, for requests that may be refused for a moment. A
 * create or delete has an Idempotency-Key, so a retry after a lost answer gets the answer of the
 * first try. */
void ensemble_call_until(struct ensemble *ensemble, uint32_t index, const char *method,
                         const char *path, const char *body, long status);

/* The value of a metric, by its name with labels; 0 without an answer. */
uint64_t ensemble_metric(struct ensemble *ensemble, uint32_t index, const char *name);

/* Empties the data directory. */
void ensemble_empty(struct ensemble *ensemble, uint32_t index);

/* Sleeps briefly before a condition is checked again. */
void ensemble_breathe(void);

/* Prints the ends of all logs. */
void ensemble_print_logs(const struct ensemble *ensemble);

/* Sleeps briefly, or prints the logs and fails when the deadline has passed. */
void ensemble_look_again(const struct ensemble *ensemble, uint64_t end_ms, const char *condition);

/* Prints the logs and fails unless the condition holds. */
void ensemble_check(const struct ensemble *ensemble, bool holds, const char *condition);

#define ENSEMBLE_WAIT(ensemble, condition)                                        \
    for (uint64_t wait_end_ms = os_now_ms() + ENSEMBLE_DEADLINE_MS; !(condition); \
         ensemble_look_again(ensemble, wait_end_ms, #condition)) {                \
    }

#define ENSEMBLE_CHECK(ensemble, condition) ensemble_check(ensemble, (condition), #condition)

/* Resident memory of a process in bytes. */
uint64_t ensemble_resident_bytes(pid_t pid);

#endif
