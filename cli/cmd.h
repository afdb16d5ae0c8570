/*
 * cmd.h - the commands of the one binary: one row each.
 *
 * A command writes what it was asked for to stdout, everything else to stderr, and returns the
 * process's exit code. Only cli/ may end the process.
 */
#ifndef CLI_CMD_H
#define CLI_CMD_H

#include <stddef.h>

enum {
    CMD_OK = 0,
    CMD_FAILED = 1,
    CMD_USAGE = 2, /* Also a wrong configuration. */
};

struct cmd {
    const char *name;
    const char *summary; /* One line. */
    const char *usage;   /* What follows the name. */
    const char *text;    /* More lines for `zabra help NAME`, or NULL. */
    void (*more)(void);  /* Prints even more help, or NULL. */

    /* `args` are those after the command's name. */
    int (*run)(int arg_count, char **args);
};

/* One row per command; the table is in main.c. */
extern const struct cmd cmd_serve;
extern const struct cmd cmd_dev;
extern const struct cmd cmd_inspect;
extern const struct cmd cmd_recover;

/* Tells on stderr what is wrong with the command line; returns CMD_USAGE. */
int cmd_usage_error(const struct cmd *cmd, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* When `args[*pos]` is `--name VALUE` or `--name=VALUE`, gives the value and moves past it. NULL
 * when it is another option; an empty text when the value is missing. */
const char *cmd_option(const char *name, int arg_count, char **args, int *pos);

#endif
