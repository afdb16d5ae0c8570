/*
 * args.h - parses a command line by the tables of options. Nothing is copied: all texts point into
 * the arguments of main. Pure.
 */
#ifndef CLI_ARGS_H
#define CLI_ARGS_H

#include "cli/cmd.h"

enum {
    ARGS_OPTIONS_MAX = 64, /* Options on one command line. */
    ARGS_ERROR_MAX = 256,
    ARGS_TABLES = 2,
    ARGS_WRONG_MAX = 3 /* A word with this many wrong letters is no typing error. */
};

struct args_given {
    const struct cmd_option *option;
    const char *value; /* "" for an option without a value. */
};

struct args {
    struct args_given given[ARGS_OPTIONS_MAX];
    int given_count;
    char **operands; /* args_parse moves the operands to the front of its `words`. */
    int operand_count;
    char **child; /* The words after "--" if the command runs a child, else NULL; ends with NULL. */
    int child_count;
    char error[ARGS_ERROR_MAX];
};

/* Parses a command line. Options may stand anywhere before "--"; short options may be joined (-rf),
 * and values attached (--name=value, -n5). A word that begins with a dash and a digit is an operand
 * when no option has that digit as its letter. The number of operands must be one that `cmd`
 * allows. The operands are moved to the front of `words`, which must end with NULL. Returns false
 * when the command line is wrong, with the reason in `error`. */
bool args_parse(struct args *args, const struct cmd *cmd, const struct cmd_option *common,
                int word_count, char **words);

/* Returns the last value of the option, "" for an option without a value; NULL: not given. */
const char *args_get(const struct args *args, const char *name);
bool args_has(const struct args *args, const char *name);

/* Returns the `nth` value, from 0, of an option that may be repeated; NULL: there are no more. */
const char *args_nth(const struct args *args, const char *name, int nth);

const char *args_operand(const struct args *args, int index); /* NULL: there is none. */

/* Parses a decimal number. Returns false when the text is not a number within the range. */
bool args_number(const char *text, struct cmd_range range, int64_t *ret_number);

/* Parses a time: "250ms", "10s", "2m", "1h", or a number of seconds. Returns false when the text is
 * not a time within the range. */
bool args_duration_ms(const char *text, struct cmd_range range, int64_t *ret_ms);

/* Gives the number, or the time in ms, of an option, or the option's default when the option is not
 * given. Returns false when the value is malformed or outside the option's range. */
bool args_take_number(const struct args *args, const struct cmd_option *option,
                      int64_t *ret_number);

/* Writes an error message, cut off at `size`. Returns false, so that callers can return it. The
 * macro writes the member `error` of `owner`. */
#define ARGS_REFUSE(owner, ...) args_refuse((owner)->error, sizeof((owner)->error), __VA_ARGS__)

bool args_refuse(char *error, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Returns the option of the command, or of `common`, that a word names ("--name", "--name=value",
 * "-n"); NULL: there is none. */
const struct cmd_option *args_option(const struct cmd *cmd, const struct cmd_option *common,
                                     const char *word);

/* Finds what a user may have meant by `name`: called for one known `word` after the other. Returns
 * whether `word` is nearer to `name` than all words before, because fewer than `*wrong` letters
 * differ; then sets `*wrong` to their number. Before the first call the caller sets `*wrong` to
 * ARGS_WRONG_MAX. */
bool args_is_nearer(const char *name, const char *word, int *wrong);

#endif
