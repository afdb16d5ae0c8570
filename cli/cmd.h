/*
 * cmd.h - the commands of the one binary: one row each.
 *
 * A row says all there is to say about a command: help, manual page and completion are written from
 * it. A command writes what it was asked for to stdout, everything else to stderr, and returns the
 * process's exit code. Only cli/ may end the process.
 */
#ifndef CLI_CMD_H
#define CLI_CMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exit codes; cmd_exit_codes has the words. */
enum {
    CMD_OK = 0,
    CMD_FAILED = 1,
    CMD_USAGE = 2, /* Also a wrong configuration, and what a replica finds malformed. */
    CMD_NO_NODE = 3,
    CMD_CONFLICT = 4,
    CMD_DENIED = 5,
    CMD_NO_ENSEMBLE = 6,
    CMD_TIMED_OUT = 7,
    CMD_EXPIRED = 8,
    CMD_PARTLY = 9,
    CMD_LIMIT = 10,

    /* Of commands that run another one; else they end with its code, or 128 and its signal. */
    CMD_CHILD_LOST = 122,
    CMD_CHILD_TIMED_OUT = 124,
    CMD_CHILD_FAILED = 125,
    CMD_CHILD_NOT_RUN = 126,
    CMD_CHILD_NOT_FOUND = 127,
    CMD_SIGNAL = 128,

    /* Not for the outside: `--curl` has printed the request that would come next. It is handed up
     * like a failure, and the process ends with CMD_OK. */
    CMD_SHOWN = -1
};

struct cmd_exit_code {
    int code;
    const char *name;
    const char *meaning;
};

/* Ends with a NULL name. */
extern const struct cmd_exit_code cmd_exit_codes[];

/* Of a number, or of a time in ms. */
struct cmd_range {
    int64_t min;
    int64_t max;
    int64_t otherwise; /* When it is not given. */
};

struct cmd_option {
    const char *name;  /* Without the two dashes. */
    char letter;       /* The short form, or 0. */
    const char *value; /* What help calls its value, words to choose from as "a|b|c"; NULL: none. */
    const char *help;  /* Begins in lower case, no full stop. */
    const char *env;   /* Variable that it may come from, or NULL. */
    bool is_number;    /* The value is one, and checked before the command runs; */
    bool is_time;      /* it is a time. */
    struct cmd_range range;
};

/* Rows of options: without a value, with one, with a number, with a time. */
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
    const char *line; /* As typed. */
    const char *what;
};

/* What completion offers for an operand. */
enum cmd_operand {
    CMD_OPERAND_NONE, /* Nothing, and no more operands. */
    CMD_OPERAND_TEXT, /* Nothing. */
    CMD_OPERAND_PATH, /* Paths of znodes. */
    CMD_OPERAND_NAME, /* Names within the command's folder, or paths. */
    CMD_OPERAND_FILE,
    CMD_OPERAND_COMMAND, /* Names of commands. */
};

enum {
    CMD_OPTIONS_MAX = 10, /* With the empty one that ends them; so are the examples. */
    CMD_EXAMPLES_MAX = 6,
    CMD_OPERANDS_MAX = 4,
    CMD_MORE_MAX = 1 << 16 /* Bytes of what `more` appends. */
};

struct buf;
struct cli;

struct cmd {
    const char *name;
    const char *group;   /* The heading of help before it, or NULL: that of the row before. */
    const char *summary; /* One line. */
    const char *usage;   /* What follows the name and the options. */
    const char *text;    /* More lines for help and manual, each ended, or NULL. */
    struct cmd_option options[CMD_OPTIONS_MAX]; /* Its own. */
    struct cmd_example examples[CMD_EXAMPLES_MAX];
    enum cmd_operand operands[CMD_OPERANDS_MAX];
    const char *folder; /* The znode that names are within: "/locks". NULL: it takes none. */
    int operands_min;
    int operands_max; /* 0: as many as `operands` has. */
    bool has_child;   /* What follows "--" is a command to run. */
    bool hidden;      /* Not listed. */

    /* One of these. With `run` the options above and the common ones (settings.h) have been taken,
     * and there is a client; with `run_alone` the command line is the command's business: `args`
     * are those after its name. */
    int (*run)(struct cli *cli);
    int (*run_alone)(int arg_count, char **args);
    void (*more)(
        struct buf *out); /* Appends even more help, in lines that stay as they are; NULL: none. */
};

/* All rows, in the order of help; ends with NULL. In cmd_table.c. */
extern const struct cmd *const cmd_table[];

/* The row of that name, or NULL. */
const struct cmd *cmd_by_name(const char *name);

/* The name of a command that `name` may have been meant for, or NULL. */
const char *cmd_guess(const char *name);

/* For those with `run_alone`: when `args[*pos]` is `--name VALUE` or `--name=VALUE`, gives the
 * value and moves past it. NULL when it is another option; an empty text when the value is missing.
 */
const char *cmd_option(const char *name, int arg_count, char **args, int *pos);

#endif
