/*
 * shell_line.h - reads the lines of the shell from a terminal, with editing, history and completion
 * by libedit, or from a script on standard input.
 */
#ifndef CLI_SHELL_LINE_H
#define CLI_SHELL_LINE_H

#include <stdbool.h>

struct shell_line;

struct shell_line *shell_line_open(bool terminal);

/* Saves the history. */
void shell_line_close(struct shell_line *line);

/* Returns the next line, valid until the next call; NULL: there are no more. `cwd` is for the
 * prompt and for completion. */
const char *shell_line_next(struct shell_line *line, const char *cwd);

/* Detaches a child process of the shell from the script. Called in the child before it runs a
 * command, because a command that reads standard input would take the rest of the script. */
void shell_line_detach(struct shell_line *line);

#endif
