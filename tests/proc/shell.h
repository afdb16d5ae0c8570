/*
 * shell.h - runs lines in a shell in which `zabra` is the tested program and talks to the test's
 * ensemble.
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

/* Output of the last line. */
extern char shell_output[SHELL_OUTPUT_MAX];

/* Sets PATH, ZABRA_ENDPOINTS (all replicas), $D (the ensemble's folder) and $LIB: after `eval
 * "$LIB"` a line has `await CONDITION`, which fails after SHELL_AWAIT_LOOPS checks. Hides the
 * environment and home of the user that runs the tests from zabra. */
void shell_open(const struct ensemble *ensemble);

/* Runs the line and returns its exit code. Standard error is that of the test. */
int shell(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The line must end with the exit code, and print the text on standard output or standard error. */
void shell_expect(const char *line, int code, const char *said);

/* The line must end with the exit code, and print JSON for which the jq expression is true. */
void shell_expect_json(const char *line, int code, const char *filter);

/* Several lines that run at the same time; none may print more than a pipe holds. */
struct shell_job {
    FILE *pipe;
    char line[SHELL_JOB_MAX];
};

void shell_start(struct shell_job *job, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Waits for the end of the line and checks it like shell_expect. */
void shell_finish(struct shell_job *job, int code, const char *said);

#endif
