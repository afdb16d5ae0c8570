/*
 * cmd.h - the commands of the one binary, one row for each.
 *
 * A row describes a command completely: help, manual page and completion are generated from it. A
 * command writes its result to stdout and everything else to stderr, and returns the process's exit
 * code. Only cli/ may end the process.
 *
 * All commands include this header, which includes what most of them need.
 */
#ifndef CLI_CMD_H
#define CLI_CMD_H

#include "base/check.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "base/os_clock.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Exit codes; cmd_exit_codes describes them. */
enum {
    CMD_OK = 0,
    CMD_FAILED = 1,
    CMD_USAGE = 2, /* Also a wrong configuration, or a request that a replica finds malformed. */
    CMD_NO_NODE = 3,
    CMD_CONFLICT = 4,
    CMD_DENIED = 5,
    CMD_NO_ENSEMBLE = 6,
    CMD_TIMED_OUT = 7,
    CMD_EXPIRED = 8,
    CMD_PARTLY = 9,
    CMD_LIMIT = 10,

    /* Errors of commands that run a child. Otherwise these commands return the exit code of the
     * child, or CMD_SIGNAL plus the number of the signal that ended it. */
    CMD_CHILD_LOST = 122,
    CMD_CHILD_TIMED_OUT = 124,
    CMD_CHILD_FAILED = 125,
    CMD_CHILD_NOT_RUN = 126,
    CMD_CHILD_NOT_FOUND = 127,
    CMD_SIGNAL = 128,

    /* Internal: `--curl` has printed the next request. The code is returned like that of an error,
     * and the process ends with CMD_OK. */
    CMD_SHOWN = -1
};

struct cmd_exit_code {
    int code;
    const char *name;
    const char *meaning;
};

/* Ends with a NULL name. */
extern const struct cmd_exit_code cmd_exit_codes[];

/* The range of a number, or of a time in ms. */
struct cmd_range {
    int64_t min;
    int64_t max;
    int64_t otherwise; /* The default. */
};

struct cmd_option {
    const char *name;  /* Without the two dashes. */
    char letter;       /* The short form, or 0. */
    const char *value; /* The value's name in help, or its choices "a|b|c"; NULL: no value. */
    const char *help;  /* Begins in lower case, and has no full stop. */
    const char *env;   /* Environment variable that may give the value, or NULL. */
    bool is_number;    /* The value is a number, checked before the command starts. */
    bool is_time;      /* The number is a time. */
    struct cmd_range range;
};

/* Rows of options: without a value, with a value, with a number, with a time. */
#define CMD_FLAG(n, l, h)                       \
    {                                           \
        .name = (n), .letter = (l), .help = (h) \
    }
#define CMD_VALUE(n, l, v, h)                                 \
    {                                                         \
        .name = (n), .letter = (l), .value = (v), .help = (h) \
    }
#define CMD_RANGE(n, l, v, h, time, ...)                                          \
    {                                                                             \
        .name = (n), .letter = (l), .value = (v), .help = (h), .is_number = true, \
        .is_time = (time), .range = {                                             \
            __VA_ARGS__                                                           \
        }                                                                         \
    }
#define CMD_NUMBER(n, l, v, h, min, max, otherwise) \
    CMD_RANGE(n, l, v, h, false, min, max, otherwise)
#define CMD_TIME(n, l, h, min, max, otherwise) CMD_RANGE(n, l, "TIME", h, true, min, max, otherwise)

struct cmd_example {
    const char *line; /* What the user types. */
    const char *what;
};

/* What completion offers for an operand. */
enum cmd_operand {
    CMD_OPERAND_NONE, /* Nothing; there are no more operands. */
    CMD_OPERAND_TEXT, /* Nothing. */
    CMD_OPERAND_PATH, /* Paths of znodes. */
    CMD_OPERAND_NAME, /* Names of znodes below cmd.folder, or paths. */
    CMD_OPERAND_FILE,
    CMD_OPERAND_COMMAND, /* Names of commands. */
};

enum {
    CMD_OPTIONS_MAX = 16, /* Includes the empty row at the end, as does CMD_EXAMPLES_MAX. */
    CMD_EXAMPLES_MAX = 6,
    CMD_OPERANDS_MAX = 4,
    CMD_MORE_MAX = 1 << 16 /* Bytes that `more` may append. */
};

struct cmd_operands {
    int min; /* The least number of operands; `max` is the greatest. */
    int max;
    enum cmd_operand
        kinds[CMD_OPERANDS_MAX]; /* Of the first operands; the others are not checked. */
};

struct buf;
struct cli;
struct out;

struct cmd {
    const char *name;
    const char *group;   /* Heading in help before this row; NULL: the group of the row before. */
    const char *summary; /* One line. */
    const char *usage;   /* The text after name and options in the usage line. */
    const char *text;    /* More lines for help and manual, each with a line feed; or NULL. */
    struct cmd_option options[CMD_OPTIONS_MAX]; /* The command's own options. */
    struct cmd_example examples[CMD_EXAMPLES_MAX];
    struct cmd_operands operands;
    const char *folder; /* Parent znode of names ("/locks"); NULL: there are no names. */
    bool has_child;     /* What follows "--" is a command to run. */
    bool hidden;        /* Help, manual and completion do not list the command. */

    /* Each row has either `run` or `run_alone`. `run` is called with a client, after the options
     * above and the common ones (settings.h) were parsed. `run_alone` parses its own command line:
     * `args` are the arguments after the command's name. */
    int (*run)(struct cli *cli);
    int (*run_alone)(int arg_count, char **args);
    void (*more)(struct buf *out); /* Appends more help, in lines as printed; NULL: none. */
};

/* All rows, in the order of help: `row(get)` stands for cmd_get, defined in the command's file. */
#define CMD_ROWS(row)                                                                              \
    row(get) row(set) row(create) row(rm) row(ls) row(tree) row(stat) row(cp) row(mv) row(edit)    \
        row(find) row(touch) row(incr) row(multi) row(export) row(import) row(migrate) row(watch)  \
            row(lock) row(semaphore) row(elect) row(barrier) row(queue) row(counter) row(session)  \
                row(acl) row(quota) row(whoami) row(status) row(members) row(upgrade) row(metrics) \
                    row(top) row(doctor) row(support) row(probe) row(serve) row(dev) row(inspect)  \
                        row(recover) row(backup) row(restore) row(cert) row(shell) row(api)        \
                            row(bench) row(completion) row(version) row(help) row(complete)        \
                                row(man)

#define CMD_DECLARE(name) extern const struct cmd cmd_##name;

CMD_ROWS(CMD_DECLARE)

/* Pointers to all rows, with NULL at the end. Defined in cmd_table.c. */
extern const struct cmd *const cmd_table[];

/* ---- Help ---- */

void help_all(FILE *to);
void help_one(const struct cmd *cmd);

/* Reports an unknown command, and the command that may be meant. Returns CMD_USAGE. */
int help_unknown(const struct out *out, const char *name);

/* ---- Rows ---- */

const struct cmd *cmd_by_name(const char *name);

/* Returns the name of the command that the user may have meant by `name`, or NULL. */
const char *cmd_guess(const char *name);

/* Parses an option for commands with `run_alone`: when `args[*pos]` is `--name VALUE` or
 * `--name=VALUE`, returns the value and moves `*pos` past it. Returns NULL for another option, and
 * "" when the value is missing. */
const char *cmd_option(const char *name, int arg_count, char **args, int *pos);

#endif
