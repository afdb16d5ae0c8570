/* help.h - what commands say about themselves, out of the table. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include "cli/cmd.h"

#include <stdio.h>

/* All commands; one. */
void help_all(FILE *to);
void help_one(const struct cmd *cmd);

extern const struct cmd cmd_help;
extern const struct cmd cmd_version;

#endif
