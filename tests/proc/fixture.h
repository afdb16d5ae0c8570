/*
 * fixture.h - a small tree for tests of the command line; shell lines (shell.h) name it $P.
 *
 * $P/here is "hello" and has the child kid, $P/num is "5", $P/closed is bob's alone. In $D are
 * bob's password (pw), another one (wrong), and some text (data); $EDITOR makes hello into edited.
 */
#ifndef TESTS_PROC_FIXTURE_H
#define TESTS_PROC_FIXTURE_H

#include "tests/proc/shell.h"

/* Call after shell_open. */
void fixture_open(struct ensemble *ensemble);

/* Makes a new tree with the same content and sets $P to it. */
void fixture_make(void);

#endif
