/* incr, touch: a znode becomes what it was, and more. */
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/revise.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    NUMBER_MAX = 32 /* Bytes of a number, with blanks around it. */
};

/* ---- incr ---- */

/* Blanks around a number are no part of it: whoever wrote it with echo left a line feed. */
static bool parse(const struct revise *revise, int64_t *ret_number)
{
    struct args_range all = {.min = INT64_MIN, .max = INT64_MAX};
    struct slice data = buf_slice(&revise->data);
    char text[NUMBER_MAX];
    size_t len = 0;

    while (data.len > 0 && strchr(" \t\r\n", data.data[data.len - 1])) {
        data.len--;
    }
    len = data.len < NUMBER_MAX ? data.len : 0;
    if (len > 0) {
        memcpy(text, data.data, len);
    }
    text[len] = '\0';
    return strlen(text) == data.len && args_number(text, all, ret_number);
}

/* The sum as it will be; an exit code that was told. */
static int add(const struct revise *revise, int64_t by, int64_t *ret_sum)
{
    int64_t number = 0;

    if (revise->exists && !parse(revise, &number)) {
        return cli_fail(revise->cli, CMD_FAILED, "NotANumber",
                        "%s: what is there is not a whole number", revise->path);
    }
    if (__builtin_add_overflow(number, by, ret_sum)) {
        return cli_fail(revise->cli, CMD_LIMIT, "Overflow",
                        "%s: the sum would not fit 64 bits; it is %" PRId64, revise->path, number);
    }
    return CMD_OK;
}

static int incr_once(struct revise *revise, int64_t by, int64_t *ret_sum)
{
    char text[NUMBER_MAX];
    int code = revise_read(revise);

    if (code == CMD_OK && !revise->exists && !args_has(&revise->cli->args, "create")) {
        return cli_tell(revise->cli);
    }
    if (code == CMD_OK) {
        code = add(revise, by, ret_sum);
    }
    if (code != CMD_OK) {
        return code;
    }
    (void)snprintf(text, sizeof(text), "%" PRId64, *ret_sum);
    return revise_write(revise, slice_str(text), false);
}

static void print_sum(const struct cli *cli, const char *path, int64_t sum)
{
    static const struct out_column columns[] = {
        {"path", "path", false}, {"value", "value", false}, {.title = NULL}};

    if (out_is_text(&cli->out)) {
        out_say(&cli->out, "%" PRId64 "\n", sum);
        return;
    }

    json_t *value = json_pack("{s:s,s:I}", "path", path, "value", (json_int_t)sum);

    out_facts(&cli->out, value, columns);
    json_decref(value);
}

static int run_incr(struct cli *cli)
{
    struct args_range all = {.min = INT64_MIN, .max = INT64_MAX};
    const char *text = args_operand(&cli->args, 1);
    const char *path = NULL;
    struct revise revise;
    int64_t by = 1;
    int64_t sum = 0;
    int code = CMD_OK;

    if (!cli_path(cli, 0, &path)) {
        return CMD_USAGE;
    }
    if (text && !args_number(text, all, &by)) {
        return cli_usage(cli, "\"%s\" is not a whole number", text);
    }
    revise_init(&revise, cli, path);
    revise.parents = args_has(&cli->args, "parents");
    do {
        code = incr_once(&revise, by, &sum);
    } while (code == REVISE_AGAIN);
    revise_release(&revise);
    if (code == CMD_OK) {
        print_sum(cli, path, sum);
    }
    return code;
}

static const struct cmd_option incr_options[] = {
    {"create", 'c', NULL, "begin with 0 when it is not there", NULL},
    {"parents", 'p', NULL, "with --create: make missing parents too", NULL},
    {.name = NULL},
};

static const struct cmd_example incr_examples[] = {
    {"zabra incr /app/builds --create", "prints 1, then 2, ..., whoever counts"},
    {"zabra incr /stock/apples -3", "exit code 1 when it holds no number"},
    {.line = NULL},
};

const struct cmd cmd_incr = {
    .name = "incr",
    .summary = "add to the number that a znode holds, and print the sum",
    .usage = "PATH [BY]",
    .text =
        "The number is decimal, as text. No two who add at the same time get the same sum, and\n"
        "none is lost. BY is 1 when it is not given, and may be negative.\n",
    .options = incr_options,
    .examples = incr_examples,
    .operands = {CMD_OPERAND_PATH, CMD_OPERAND_TEXT},
    .operands_min = 1,
    .operands_max = 2,
    .run = run_incr,
};

/* ---- touch ---- */

static int touch_once(struct revise *revise)
{
    int code = revise_read(revise);

    if (code != CMD_OK) {
        return code;
    }
    if (!revise->exists && args_has(&revise->cli->args, "no-create")) {
        return cli_tell(revise->cli);
    }
    return revise_write(revise, buf_slice(&revise->data), revise->exists && revise->null);
}

static int run_touch(struct cli *cli)
{
    const char *path = NULL;
    struct revise revise;
    int code = CMD_OK;

    if (!cli_path(cli, 0, &path)) {
        return CMD_USAGE;
    }
    revise_init(&revise, cli, path);
    revise.parents = args_has(&cli->args, "parents");
    do {
        code = touch_once(&revise);
    } while (code == REVISE_AGAIN);
    revise_release(&revise);
    if (code == CMD_OK && !out_is_text(&cli->out) && cli->out.format != SETTINGS_TABLE) {
        out_answer(&cli->out, buf_slice(&client_reply(cli->client)->body));
    }
    return code;
}

static const struct cmd_option touch_options[] = {
    {"no-create", 'c', NULL, "exit code 3 when it is not there", NULL},
    {"parents", 'p', NULL, "make missing parents too", NULL},
    {.name = NULL},
};

static const struct cmd_example touch_examples[] = {
    {"zabra touch /app/reload", "watchers of /app/reload are told"},
    {.line = NULL},
};

const struct cmd cmd_touch = {
    .name = "touch",
    .summary = "write the data of a znode again, or make it",
    .usage = "PATH",
    .text = "The data stays, version and time go on, watches fire. What is not there is made with\n"
            "empty data.\n",
    .options = touch_options,
    .examples = touch_examples,
    .operands = {CMD_OPERAND_PATH},
    .operands_min = 1,
    .operands_max = 1,
    .run = run_touch,
};
