/* incr, touch: writes that depend on the present data. */
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/count.h"

/* ---- incr ---- */

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
    code = count_add(&revise, by, args_has(&cli->args, "create"), &sum);
    revise_release(&revise);
    if (code == CMD_OK) {
        count_print(cli, path, sum);
    }
    return code;
}

static const struct cmd_option incr_options[] = {
    {"create", 'c', NULL, "start with 0 when the znode does not exist", NULL},
    {"parents", 'p', NULL, "with --create: also create missing parents", NULL},
    {.name = NULL},
};

static const struct cmd_example incr_examples[] = {
    {"zabra incr /app/builds --create", "prints 1, then 2, ..., across all clients"},
    {"zabra incr /stock/apples -3", "exit code 1 when the data is not a number"},
    {.line = NULL},
};

const struct cmd cmd_incr = {
    .name = "incr",
    .summary = "add to the number that a znode holds, and print the sum",
    .usage = "PATH [BY]",
    .text = "The number is decimal text. Concurrent increments get different sums, and none\n"
            "is lost. BY is 1 by default and may be negative.\n",
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
    if (code == CMD_OK && out_is_json(&cli->out)) {
        cli_answer(cli);
    }
    return code;
}

static const struct cmd_option touch_options[] = {
    {"no-create", 'c', NULL, "exit code 3 when the znode does not exist", NULL},
    {"parents", 'p', NULL, "make missing parents too", NULL},
    {.name = NULL},
};

static const struct cmd_example touch_examples[] = {
    {"zabra touch /app/reload", "watchers of /app/reload get an event"},
    {.line = NULL},
};

const struct cmd cmd_touch = {
    .name = "touch",
    .summary = "write the data of a znode again, or create it",
    .usage = "PATH",
    .text = "The data stays the same, version and mtime change, watches fire. A missing\n"
            "znode is created with empty data.\n",
    .options = touch_options,
    .examples = touch_examples,
    .operands = {CMD_OPERAND_PATH},
    .operands_min = 1,
    .operands_max = 1,
    .run = run_touch,
};
