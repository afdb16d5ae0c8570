/*
 * args.h - a command line, taken apart by the tables of options. Nothing is copied: all texts are
 * those of main's arguments. Pure.
 */
#ifndef CLI_ARGS_H
#define CLI_ARGS_H

#include "cli/cmd.h"

enum {
    ARGS_OPTIONS_MAX = 64, /* Given on one command line. */
    ARGS_ERROR_MAX = 256,
    ARGS_TABLES = 2,
    ARGS_WRONG_MAX = 3 /* Wrong letters that are too many for a typing error. */
};

struct args_given {
    const struct cmd_option *option;
    const char *value; /* "" for one that takes none. */
};

struct args {
    struct args_given given[ARGS_OPTIONS_MAX];
    int given_count;
    char **operands; /* Where they were moved to within the given array. */
    int operand_count;
    char **child; /* What follows "--" for a command that has a child, ended by NULL; or NULL. */
    int child_count;
    char error[ARGS_ERROR_MAX];
};

/* Options may stand anywhere before "--"; short ones may be joined (-rf), values attached
 * (--name=value, -n5). A word that begins with a dash and a digit is an operand when there is no
 * such option. The number of operands must fit the row. False: `error` says why. The operands are
 * moved to the front of `words`, which must end with NULL. */
bool args_parse(struct args *args, const struct cmd *cmd, const struct cmd_option *common,
                int word_count, char **words);

/* The last value given for the option, "" for one without a value; NULL: not given. */
const char *args_get(const struct args *args, const char *name);
bool args_has(const struct args *args, const char *name);

/* The `nth` value of one that may be given several times, from 0; NULL when there are no more. */
const char *args_nth(const struct args *args, const char *name, int nth);

/* The operand, or NULL. */
const char *args_operand(const struct args *args, int index);

/* A decimal number within the range. */
bool args_number(const char *text, struct cmd_range range, int64_t *ret_number);

/* A time: "250ms", "10s", "2m", "1h", or a number of seconds. */
bool args_duration_ms(const char *text, struct cmd_range range, int64_t *ret_ms);

/* The number, or time, that is given for such an option; else the one that its row names. False: it
 * is none, or not within the range of the row. */
bool args_take_number(const struct args *args, const struct cmd_option *option,
                      int64_t *ret_number);

/* Writes an error, cut off where it does not fit. False, for the caller to return. */
bool args_refuse(char *error, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The option of the command, or of `common`, that a word names: "--name", "--name=value", "-n"; or
 * NULL. */
const struct cmd_option *args_option(const struct cmd *cmd, const struct cmd_option *common,
                                     const char *word);

/* True when `name` may be a slip of `word`, with fewer letters wrong than in `*wrong`, which is
 * lowered then; it begins with ARGS_WRONG_MAX. */
bool args_is_nearer(const char *name, const char *word, int *wrong);

#endif
