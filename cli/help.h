/* help.h - what commands say about themselves, out of the table. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include "cli/cmd.h"
#include "cli/out.h"

#include <stdio.h>

/* All commands; one. */
void help_all(FILE *to);
void help_one(const struct cmd *cmd);

/* Reports an unknown command, and the one that may be meant. CMD_USAGE. */
int help_unknown(const struct out *out, const char *name);

#endif
