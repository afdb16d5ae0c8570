/*
 * incr, counter, touch: writes that depend on the present data. The number of the first two is
 * decimal text: read, added to, and never lost.
 */
#include "cli/commands.h"
#include "cli/revise.h"
#include "cli/url.h"

#include <inttypes.h>
#include <string.h>

enum {
    NUMBER_MAX = 32 /* Bytes of a number, with blanks around it. */
};

/* Blanks around a number are ignored: a value written with echo ends in a line feed. */
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

/* The number that was read. CMD_OK, or reported. */
static int count_number(const struct revise *revise, int64_t *ret_number)
{
    if (parse(revise, ret_number)) {
        return CMD_OK;
    }
    return cli_fail(revise->cli, CMD_FAILED, "NotANumber", "%s: the data is not a whole number",
                    revise->path);
}

static int add_once(struct revise *revise, int64_t by, bool create, int64_t *ret_sum)
{
    int64_t number = 0;
    int code = revise_read(revise);

    if (code == CMD_OK && revise->exists) {
        code = count_number(revise, &number);
    } else if (code == CMD_OK && !create) {
        code = cli_tell(revise->cli);
    }
    if (code != CMD_OK) {
        return code;
    }
    if (__builtin_add_overflow(number, by, ret_sum)) {
        return cli_fail(revise->cli, CMD_LIMIT, "Overflow",
                        "%s: the sum would overflow 64 bits; the number is %" PRId64, revise->path,
                        number);
    }
    return revise_write(revise, slice_str(URL_NUMBER(*ret_sum)), false);
}

/* Adds until no other client was quicker; with `create` a missing number is 0. CMD_OK, CMD_SHOWN,
 * or reported. */
static int count_add(struct revise *revise, int64_t by, bool create, int64_t *ret_sum)
{
    int code = CMD_OK;

    do {
        code = add_once(revise, by, create, ret_sum);
    } while (code == REVISE_AGAIN);
    return code;
}

static void count_print(const struct cli *cli, const char *path, int64_t number)
{
    if (out_is_text(&cli->out)) {
        out_say(&cli->out, "%" PRId64 "\n", number);
    } else {
        out_result(&cli->out, json_pack("{s:s,s:I}", "path", path, "value", (json_int_t)number));
    }
}

/* The number that an operand gives; it stays what it is without one. False: reported. */
static bool take_number(const struct cli *cli, int operand, int64_t *number)
{
    struct args_range all = {.min = INT64_MIN, .max = INT64_MAX};
    const char *text = args_operand(&cli->args, operand);

    if (!text || args_number(text, all, number)) {
        return true;
    }
    (void)cli_usage(cli, "\"%s\" is not a whole number", text);
    return false;
}

/* ---- incr ---- */

static int run_incr(struct cli *cli)
{
    struct revise revise;
    int64_t by = 1;
    int64_t sum = 0;
    int code = CMD_OK;

    if (!take_number(cli, 1, &by)) {
        return CMD_USAGE;
    }
    revise_init(&revise, cli, cli_path(cli, 0));
    revise.parents = args_has(&cli->args, "parents");
    code = count_add(&revise, by, args_has(&cli->args, "create"), &sum);
    revise_release(&revise);
    if (code == CMD_OK) {
        count_print(cli, revise.path, sum);
    }
    return code;
}

const struct cmd cmd_incr = {
    .name = "incr",
    .summary = "add to the number that a znode holds, and print the sum",
    .usage = "PATH [BY]",
    .text = "The number is decimal text. Concurrent increments get different sums, and none\n"
            "is lost. BY is 1 by default and may be negative.\n",
    .options = {{"create", 'c', NULL, "start with 0 when the znode does not exist", NULL},
                {"parents", 'p', NULL, "with --create: also create missing parents", NULL}},
    .examples = {{"zabra incr /app/builds --create", "prints 1, then 2, ..., across all clients"},
                 {"zabra incr /stock/apples -3", "exit code 1 when the data is not a number"}},
    .operands = {CMD_OPERAND_PATH, CMD_OPERAND_TEXT},
    .operands_min = 1,
    .run = run_incr,
};

/* ---- counter ---- */

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
    int64_t by = 1;
    int64_t sum = 0;
    int code = CMD_USAGE;

    if (!take_number(revise->cli, 2, &by)) {
        return CMD_USAGE;
    }
    revise->parents = true;
    code = count_add(revise, by, true, &sum);
    if (code == CMD_OK) {
        count_print(revise->cli, revise->path, sum);
    }
    return code;
}

static int set(struct revise *revise)
{
    struct cli *cli = revise->cli;
    int64_t number = 0;
    int code = CMD_USAGE;

    if (!args_operand(&cli->args, 2)) {
        return cli_usage(cli, "the number is missing");
    }
    if (!take_number(cli, 2, &number)) {
        return CMD_USAGE;
    }
    code =
        cli_ask(cli, &(struct client_request){.method = "PUT",
                                              .target = "/znodes/v1",
                                              .path = revise->path,
                                              .params = {{"upsert", "true"}, {"parents", "true"}},
                                              .has_body = true,
                                              .body = slice_str(URL_NUMBER(number)),
                                              .last = true});
    if (code == CMD_OK) {
        count_print(cli, revise->path, number);
    }
    return code;
}

static int run_counter(struct cli *cli)
{
    const char *verb = args_operand(&cli->args, 0);
    struct revise revise;
    int code = CMD_USAGE;

    revise_init(&revise, cli, buf_cstr(&cli->named));
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

const struct cmd cmd_counter = {
    .name = "counter",
    .summary = "count across all clients",
    .usage = "get NAME | add NAME [BY] | set NAME NUMBER",
    .text = "NAME is a path or a name within /counters; docs/recipes/counter.md has the\n"
            "rules. 'add' creates a missing counter with 0; BY is 1 by default.\n",
    .examples = {{"zabra counter add tickets", "prints 1, then 2, ...: each number once"},
                 {"zabra counter add tickets -3", "less"},
                 {"zabra counter get tickets", "exit code 3 before the first increment"}},
    .operands = {CMD_OPERAND_TEXT, CMD_OPERAND_NAME, CMD_OPERAND_TEXT},
    .folder = "/counters",
    .operands_min = 2,
    .run = run_counter,
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
    struct revise revise;
    int code = CMD_OK;

    revise_init(&revise, cli, cli_path(cli, 0));
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

const struct cmd cmd_touch = {
    .name = "touch",
    .summary = "write the data of a znode again, or create it",
    .usage = "PATH",
    .text = "The data stays the same, version and mtime change, watches fire. A missing\n"
            "znode is created with empty data.\n",
    .options = {{"no-create", 'c', NULL, "exit code 3 when the znode does not exist", NULL},
                {"parents", 'p', NULL, "make missing parents too", NULL}},
    .examples = {{"zabra touch /app/reload", "watchers of /app/reload get an event"}},
    .operands = {CMD_OPERAND_PATH},
    .operands_min = 1,
    .run = run_touch,
};
