/*
 * shell.h - lines for a shell in which `zabra` is the program that is tested, and an ensemble is
 * what it asks.
 */
#ifndef TESTS_PROC_SHELL_H
#define TESTS_PROC_SHELL_H

#include "tests/proc/ensemble.h"

#include <stdio.h>

enum {
    SHELL_LINE_MAX = 4096,
    SHELL_JOB_MAX = 512,
    SHELL_OUTPUT_MAX = 1 << 20,
    SHELL_AWAIT_LOOPS = 2000 /* Of 0.05 s. */
};

/* What the last line has printed. */
extern char shell_output[SHELL_OUTPUT_MAX];

/* Sets PATH, ZABRA_ENDPOINTS (of all replicas), $D: the ensemble's folder, and $LIB: behind
 * `eval "$LIB"` a line has `await CONDITION`, which fails after SHELL_AWAIT_LOOPS looks. Of the
 * environment and home of who runs the tests nothing is left that zabra would read. */
void shell_open(const struct ensemble *ensemble);

/* Runs the line; its exit code. Standard error goes where ours does. */
int shell(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The line must end with that code and have printed (or said on standard error) this text. */
void shell_expect(const char *line, int code, const char *said);

/* Several lines that run at the same time; none prints more than a pipe takes. */
struct shell_job {
    FILE *pipe;
    char line[SHELL_JOB_MAX];
};

void shell_start(struct shell_job *job, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Waits for its end, which must be as with shell_expect. */
void shell_finish(struct shell_job *job, int code, const char *said);

#endif
