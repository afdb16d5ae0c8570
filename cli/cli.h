/*
 * cli.h - the context of a command that talks to the ensemble: arguments, settings, output and
 * client; and helpers that send requests and report errors. A process has one context and one
 * thread.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "cli/client.h"
#include "cli/out.h"
#include "cli/words.h"

enum {
    CLI_MESSAGE_MAX = 1024,
    CLI_LIMIT_MAX = 1000000, /* The greatest --limit. */
    VALUE_MAX = 64 << 20     /* Maximum bytes of data in one request. */
};

struct cli {
    const struct cmd *cmd;
    struct args args;
    struct settings settings;
    struct out out;
    struct client *client;
    struct buf named; /* The path that the operand of kind CMD_OPERAND_NAME stands for. */
    struct buf data;  /* What cli_take_data() has read. */
};

/* Runs the command `cmd`; `args` are the arguments after the command's name. Reads return no state
 * older than `*zxid`; at the end `*zxid` is the newest zxid that the command has seen. The first
 * command of a series starts with 0. Returns the process's exit code. */
int cli_run(const struct cmd *cmd, int arg_count, char **args, uint64_t *zxid);

/* Sends the last request of a command (client_ask) and reports its errors. Returns CMD_OK,
 * CMD_SHOWN or an exit code. When the code is not CMD_OK, the command must end and return it. */
int cli_ask(const struct cli *cli, const struct client_request *request);

/* Reports the error of the client's last request. Returns the exit code. If the command should run
 * a child, this function and cli_fail() return CMD_CHILD_FAILED instead. */
int cli_tell(const struct cli *cli);

/* Returns the JSON of the last answer, which belongs to the client. NULL: the answer is not JSON;
 * the error has been reported. */
json_t *cli_json(const struct cli *cli);

/* Calls cli_ask() and then cli_json(). */
int cli_ask_json(const struct cli *cli, const struct client_request *request, json_t **ret_json);

/* Fetches all pages of a list as one answer: the first page, whose list `member` gets the items of
 * all pages (at most --limit items, if the command has that option). The caller leaves the
 * parameters `limit` and `after` to this function. With --curl only the request for the first page
 * is shown, because the next request depends on the first answer. The caller drops `*ret_whole`,
 * whatever the exit code is. */
int cli_ask_pages(const struct cli *cli, const struct client_request *request, const char *member,
                  json_t **ret_whole);

/* Prints the answer to the last request as it is. */
void cli_answer(const struct cli *cli);

/* Prints a number, the result for `path`. The text is the number alone, the JSON {"path": path,
 * member: number}. */
void cli_print_number(const struct cli *cli, const char *path, const char *member, int64_t number);

/* Reports an error that the command itself has found; `code` is one word. Returns the exit code. */
int cli_fail(const struct cli *cli, int exit_code, const char *code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Report an error of the command line. CLI_USAGE returns the exit code, CLI_REFUSE false. */
#define CLI_USAGE(cli, ...)  out_usage(&(cli)->out, __VA_ARGS__)
#define CLI_REFUSE(cli, ...) (CLI_USAGE(cli, __VA_ARGS__), false)

/* Returns the operand, which is the path of a znode, or "/" when it is not given. The path was
 * checked before the command started. */
const char *cli_path(const struct cli *cli, int operand);

/* Returns the value of a flag in a URL (url_flag): "true" when the option is given, else NULL. */
const char *cli_flag(const struct cli *cli, const char *option);

/* Returns the number, or the time in ms, that an option gives, else the default in its row. The
 * value was checked before the command started. -1: the command has no such option. */
int64_t cli_number(const struct cli *cli, const char *option);

/* Returns the index of `word` in the list `words` ("a, b, c"), from 0. -1: the word is not in
 * the list, and the error has been reported, with `before` ("--option: " or "") in front. */
int cli_choice(const struct cli *cli, const char *before, const char *word, const char *words);

/* ---- Data that a command line gives: as text, from a file, from the standard input ---- */

/* Help text for each command that takes data. */
#define VALUE_HELP                                                                           \
    "DATA is literal text, @FILE the contents of a file, - the standard input. Use one of\n" \
    "the latter two for text that begins with @.\n"

/* Sets the body of a request to the data that an operand names; without the operand the request has
 * no body. A command calls this once. With --curl a file or standard input is not read: the printed
 * request names it. Returns false when an error has been reported. */
bool cli_take_data(struct cli *cli, int operand, struct client_request *request);

/* Reads a whole file, or standard input for "-". Returns false when an error has been reported. */
bool cli_read_file(const struct cli *cli, const char *name, struct buf *out);

#endif
