/*
 * cli.h - the context of a command that talks to the ensemble: arguments, settings, output, client;
 * with helpers to send requests and report errors. One per process, one thread.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "cli/args.h"
#include "cli/client.h"
#include "cli/cmd.h"
#include "cli/out.h"
#include "cli/settings.h"

enum {
    CLI_MESSAGE_MAX = 1024,
    VALUE_MAX = 64 << 20 /* Bytes of data that a command line gives. */
};

struct cli {
    const struct cmd *cmd;
    struct args args;
    struct settings settings;
    struct out out;
    struct client *client;
    struct buf named; /* The path that the operand of kind CMD_OPERAND_NAME stands for. */
    struct buf data;  /* Of cli_take_data. */
};

/* Runs the command of that row; `args` are those after its name. It reads nothing that is older
 * than
 * `*zxid`, which is raised to what it has seen: 0 for a command that is no part of a series. The
 * process's exit code. */
int cli_run(const struct cmd *cmd, int arg_count, char **args, uint64_t *zxid);

/* client_ask() for the last request of a command, which reports its errors. CMD_OK, CMD_SHOWN or an
 * exit code: with any but CMD_OK the command is over, and returns it. */
int cli_ask(const struct cli *cli, const struct client_request *request);

/* Reports the error of the last request of the client. Returns its exit code; this and
 * cli_fail() make CMD_CHILD_FAILED of it when the command was to run another one. */
int cli_tell(const struct cli *cli);

/* The JSON of the last answer, which belongs to the client; NULL: reported. */
json_t *cli_json(const struct cli *cli);

/* cli_ask() and cli_json() in one. */
int cli_ask_json(const struct cli *cli, const struct client_request *request, json_t **ret_json);

/* A list that comes in pages, as one answer: the first page, whose list `member` has as many items
 * of all pages as the option --limit, if there is one, allows; `request` lacks the parameters
 * `limit` and `after`. With --curl one page is shown: the next one depends on it. The caller drops
 * it, whatever is returned. */
int cli_ask_pages(const struct cli *cli, const struct client_request *request, const char *member,
                  json_t **ret_whole);

/* Prints the answer to the last request as it is. */
void cli_answer(const struct cli *cli);

/* Prints the number that is the result for this path: in text alone, in JSON as `member`. */
void cli_print_number(const struct cli *cli, const char *path, const char *member, int64_t number);

/* Reports an error that the command itself has found; `code` is one word. Returns the exit code. */
int cli_fail(const struct cli *cli, int exit_code, const char *code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The same for what is wrong with the command line. */
#define CLI_USAGE(cli, ...) out_usage(&(cli)->out, __VA_ARGS__)

/* An operand that is the path of a znode, "/" when it is not given. It was checked before the
 * command runs. */
const char *cli_path(const struct cli *cli, int operand);

/* The value of a parameter that an option without a value turns on (url_flag). */
const char *cli_flag(const struct cli *cli, const char *option);

/* A number, or a time in ms, that an option gives, else the one in its row; it was checked before
 * the command runs. -1: the command has no such option. */
int64_t cli_number(const struct cli *cli, const char *option);

/* Which word of "a, b, c" it is, from 0; -1: reported, `before` is "--option: " or "". */
int cli_choice(const struct cli *cli, const char *before, const char *word, const char *words);

/* ---- Data that a command line gives: as text, from a file, from the standard input ---- */

/* For the help of each command that takes one. */
#define VALUE_HELP                                                                           \
    "DATA is literal text, @FILE the contents of a file, - the standard input. Use one of\n" \
    "the latter two for text that begins with @.\n"

/* Makes what an operand gives the body of a request, once in a command; nothing when it is not
 * given. With --curl a file is named, not read, and so is the standard input. False: reported. */
bool cli_take_data(struct cli *cli, int operand, struct client_request *request);

/* Reads a whole file, or standard input for "-". False: reported. */
bool cli_read_file(const struct cli *cli, const char *name, struct buf *out);

#endif
