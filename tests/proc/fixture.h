/*
 * fixture.h - parts of a tree for tests of the command line: $P of a line for a shell (shell.h).
 *
 * $P/here is "hello" and has the child kid, $P/num is "5", $P/closed is bob's alone. In $D are
 * bob's password (pw), another one (wrong), and some text (data); $EDITOR makes hello into edited.
 */
#ifndef TESTS_PROC_FIXTURE_H
#define TESTS_PROC_FIXTURE_H

#include "tests/proc/shell.h"

/* Behind shell_open. */
void fixture_open(struct ensemble *ensemble);

/* Another $P, as it is at first. */
void fixture_make(void);

#endif
