/* help.h - prints the help of commands from the table. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include "cli/out.h"

/* Print the help of all commands, or of one command. */
void help_all(FILE *to);
void help_one(const struct cmd *cmd);

/* Reports an unknown command, and the command that may be meant. Returns CMD_USAGE. */
int help_unknown(const struct out *out, const char *name);

#endif
