/* counter: a number that many clients count up. */
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/count.h"
#include "cli/url.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    NUMBER_MAX = 32
};

/* The number after the path; `otherwise` when it is missing. False: reported. */
static bool take_number(const struct cli *cli, int64_t otherwise, int64_t *ret_number)
{
    struct args_range all = {.min = INT64_MIN, .max = INT64_MAX};
    const char *text = args_operand(&cli->args, 2);

    *ret_number = otherwise;
    if (!text || args_number(text, all, ret_number)) {
        return true;
    }
    (void)cli_usage(cli, "\"%s\" is not a whole number", text);
    return false;
}

static int get(struct revise *revise)
{
    struct cli *cli = revise->cli;
    int64_t number = 0;
    int code = CMD_OK;

    if (args_operand(&cli->args, 2)) {
        return cli_usage(cli, "get takes one path");
    }
    code = revise_read(revise);
    if (code == CMD_OK && !cli->settings.curl) {
        code = revise->exists ? count_number(revise, &number) : cli_tell(cli);
    }
    if (code == CMD_OK) {
        count_print(cli, revise->path, number);
    }
    return code;
}

static int add(struct revise *revise)
{
    struct cli *cli = revise->cli;
    int64_t by = 0;
    int64_t sum = 0;
    int code = CMD_USAGE;

    if (!take_number(cli, 1, &by)) {
        return CMD_USAGE;
    }
    revise->parents = true;
    code = count_add(revise, by, true, &sum);
    if (code == CMD_OK) {
        count_print(cli, revise->path, sum);
    }
    return code;
}

static int set(struct revise *revise)
{
    struct cli *cli = revise->cli;
    struct client_request request = {.method = "PUT", .has_body = true, .last = true};
    char text[NUMBER_MAX];
    int64_t number = 0;
    struct buf url;
    int code = CMD_USAGE;

    if (!args_operand(&cli->args, 2)) {
        return cli_usage(cli, "the number is missing");
    }
    if (!take_number(cli, 0, &number)) {
        return CMD_USAGE;
    }
    (void)snprintf(text, sizeof(text), "%" PRId64, number);
    url_init(&url, "/znodes/v1", revise->path);
    url_param(&url, "upsert", NULL);
    url_param(&url, "parents", NULL);
    request.target = buf_cstr(&url);
    request.body = slice_str(text);
    code = cli_ask(cli, &request);
    buf_release(&url);
    if (code == CMD_OK) {
        count_print(cli, revise->path, number);
    }
    return code;
}

static int run_verb(struct cli *cli, const char *verb, const char *path)
{
    struct revise revise;
    int code = CMD_USAGE;

    revise_init(&revise, cli, path);
    if (strcmp(verb, "get") == 0) {
        code = get(&revise);
    } else if (strcmp(verb, "add") == 0) {
        code = add(&revise);
    } else if (strcmp(verb, "set") == 0) {
        code = set(&revise);
    } else {
        code = cli_usage(cli, "\"%s\" is not one of get, add, set", verb);
    }
    revise_release(&revise);
    return code;
}

static int run(struct cli *cli)
{
    return cli_run_verb(cli, run_verb);
}

static const struct cmd_example examples[] = {
    {"zabra counter add tickets", "prints 1, then 2, ...: each number once"},
    {"zabra counter add tickets -3", "less"},
    {"zabra counter get tickets", "exit code 3 before the first increment"},
    {.line = NULL},
};

const struct cmd cmd_counter = {
    .name = "counter",
    .summary = "count across all clients",
    .usage = "get NAME | add NAME [BY] | set NAME NUMBER",
    .text = "NAME is a path or a name within /counters; docs/recipes/counter.md has the\n"
            "rules. 'add' creates a missing counter with 0; BY is 1 by default.\n",
    .examples = examples,
    .operands = {CMD_OPERAND_TEXT, CMD_OPERAND_NAME, CMD_OPERAND_TEXT},
    .folder = "/counters",
    .operands_min = 2,
    .operands_max = 3,
    .run = run,
};
