/*
 * incr, counter, touch: writes that depend on the present data. incr and counter keep a number as
 * decimal text in a znode, and lose no addition.
 */
#include "cli/revise.h"

enum {
    NUMBER_MAX = 32 /* Bytes of a number, with blanks around it. */
};

/* Parses the number. Blanks around it are ignored: a value from echo ends in a line feed. */
static bool parse(const struct revise *revise, int64_t *ret_number)
{
    struct cmd_range all = {.min = INT64_MIN, .max = INT64_MAX};
    struct slice data = buf_slice(&revise->data);
    char text[NUMBER_MAX];

    while (data.len > 0 && strchr(" \t\r\n", data.data[data.len - 1])) {
        data.len--;
    }
    (void)snprintf(text, sizeof(text), "%.*s", (int)data.len, (const char *)data.data);
    return strlen(text) == data.len && args_number(text, all, ret_number);
}

/* Gives the number that was read. Returns CMD_OK, or the code of a reported error. */
static int count_number(const struct revise *revise, int64_t *ret_number)
{
    if (parse(revise, ret_number)) {
        return CMD_OK;
    }
    return cli_fail(revise->cli, CMD_FAILED, "NotANumber", "%s: the data is not a whole number",
                    revise->path);
}

/* A number to add. */
struct sum {
    int64_t by;
    bool create; /* A missing znode counts as 0. */
    int64_t result;
};

static int add_once(struct revise *revise, void *ctx)
{
    struct sum *sum = ctx;
    int64_t number = 0;
    int code = revise_read(revise);

    if (code == CMD_OK && revise->exists) {
        code = count_number(revise, &number);
    } else if (code == CMD_OK && !sum->create) {
        code = cli_tell(revise->cli);
    }
    if (code != CMD_OK) {
        return code;
    }
    if (__builtin_add_overflow(number, sum->by, &sum->result)) {
        return cli_fail(revise->cli, CMD_LIMIT, "Overflow",
                        "%s: the sum would overflow 64 bits; the number is %" PRId64, revise->path,
                        number);
    }
    return revise_write(revise, slice_str(URL_NUMBER(sum->result)), false);
}

/* Gives the number of an operand; without the operand `*number` stays as it is. Returns false when
 * an error has been reported. */
static bool take_number(const struct cli *cli, int operand, int64_t *number)
{
    struct cmd_range all = {.min = INT64_MIN, .max = INT64_MAX};
    const char *text = args_operand(&cli->args, operand);

    return !text || args_number(text, all, number) ||
           CLI_REFUSE(cli, "\"%s\" is not a whole number", text);
}

/* ---- incr ---- */

/* Adds the operand's number, or 1, with a retry when another client was quicker; prints the sum. */
static int add(struct cli *cli, const char *path, int operand, bool create, bool parents)
{
    struct sum sum = {.by = 1, .create = create};
    struct revise revise = {.cli = cli, .path = path, .parents = parents};
    int code = take_number(cli, operand, &sum.by) ? revise_run(&revise, add_once, &sum) : CMD_USAGE;

    if (code == CMD_OK) {
        cli_print_number(cli, path, "value", sum.result);
    }
    return code;
}

static int run_incr(struct cli *cli)
{
    return add(cli, cli_path(cli, 0), 1, args_has(&cli->args, "create"),
               args_has(&cli->args, "parents"));
}

const struct cmd cmd_incr = {
    .name = "incr",
    .summary = "add to the number that a znode holds, and print the sum",
    .usage = "PATH [BY]",
    .text = "The number is decimal text. Concurrent increments get different sums, and none\n"
            "is lost. BY is 1 by default and may be negative.\n",
    .options = {CMD_FLAG("create", 'c', "start with 0 when the znode does not exist"),
                CMD_FLAG("parents", 'p', "with --create: also create missing parents")},
    .examples = {{"zabra incr /app/builds --create", "prints 1, then 2, ..., across all clients"},
                 {"zabra incr /stock/apples -3", "exit code 1 when the data is not a number"}},
    .operands = {1, 2, {CMD_OPERAND_PATH, CMD_OPERAND_TEXT}},
    .run = run_incr,
};

/* ---- counter ---- */

static int get(struct revise *revise, void *ctx)
{
    struct cli *cli = revise->cli;
    int64_t number = 0;
    int code = revise_read(revise);

    (void)ctx;
    if (code == CMD_OK && !cli->settings.curl) {
        code = revise->exists ? count_number(revise, &number) : cli_tell(cli);
    }
    if (code == CMD_OK) {
        cli_print_number(cli, revise->path, "value", number);
    }
    return code;
}

static int set(struct cli *cli, const char *path)
{
    int64_t number = 0;

    if (!args_operand(&cli->args, 2)) {
        return CLI_USAGE(cli, "the number is missing");
    }
    if (!take_number(cli, 2, &number)) {
        return CMD_USAGE;
    }

    struct client_request request = {.method = "PUT",
                                     .path = path,
                                     .params = {{"upsert", "true"}, {"parents", "true"}},
                                     .has_body = true,
                                     .body = slice_str(URL_NUMBER(number))};
    int code = cli_ask(cli, &request);

    if (code == CMD_OK) {
        cli_print_number(cli, path, "value", number);
    }
    return code;
}

static int run_counter(struct cli *cli)
{
    enum {
        GET,
        ADD,
        SET
    };

    const char *path = buf_cstr(&cli->named);
    int verb = cli_choice(cli, "", args_operand(&cli->args, 0), "get, add, set");

    if (verb == GET && args_operand(&cli->args, 2)) {
        return CLI_USAGE(cli, "get takes one path");
    }
    return verb == GET   ? revise_run(&(struct revise){.cli = cli, .path = path}, get, NULL)
           : verb == ADD ? add(cli, path, 2, true, true)
           : verb == SET ? set(cli, path)
                         : CMD_USAGE;
}

const struct cmd cmd_counter = {
    .name = "counter",
    .summary = "count across all clients",
    .usage = "get NAME | add NAME [BY] | set NAME NUMBER",
    .text = "NAME is a path or a name within /counters; docs/recipes/counter.md has the\n"
            "rules. 'add' creates a missing counter with 0; BY is 1 by default.\n",
    .examples = {{"zabra counter add tickets", "prints 1, then 2, ...: each number once"},
                 {"zabra counter add tickets -3", "less"},
                 {"zabra counter get tickets", "exit code 3 before the first increment"}},
    .operands = {2, 3, {CMD_OPERAND_TEXT, CMD_OPERAND_NAME, CMD_OPERAND_TEXT}},
    .folder = "/counters",
    .run = run_counter,
};

/* ---- touch ---- */

static int touch_once(struct revise *revise, void *ctx)
{
    int code = revise_read(revise);

    (void)ctx;
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
    struct revise revise = {
        .cli = cli, .path = cli_path(cli, 0), .parents = args_has(&cli->args, "parents")};
    int code = revise_run(&revise, touch_once, NULL);

    if (code == CMD_OK && out_is_json(&cli->out)) {
        cli_answer(cli);
    }
    return code;
}

const struct cmd cmd_touch = {
    .name = "touch",
    .summary = "write the data of a znode again, or create it",
    .usage = "PATH",
    .text = "The data stays the same, version and mtime change, watches fire. A missing\n"
            "znode is created with empty data.\n",
    .options = {CMD_FLAG("no-create", 'c', "exit code 3 when the znode does not exist"),
                CMD_FLAG("parents", 'p', "make missing parents too")},
    .examples = {{"zabra touch /app/reload", "watchers of /app/reload get an event"}},
    .operands = {1, 1, {CMD_OPERAND_PATH}},
    .run = run_touch,
};
