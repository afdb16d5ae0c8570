/* multi: several changes atomically; or several reads of one moment. */
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/value.h"

#include <stdio.h>
#include <string.h>

enum {
    WRAP_MAX = 16 /* What stands around the operations. */
};

static const struct out_column columns[] = {
    {"OP", "op", false},          {"OK", "ok", false},
    {"VERSION", "version", true}, {"ERROR", "error.code", false},
    {"PATH", "path", false},      {.title = NULL},
};

static const char *const reads[] = {"get", "children", "stat", "exists"};

/* Only reads, so that it may be shown and made. */
static bool is_read(const json_t *ops)
{
    const char *first = jsonr_text(json_array_get(ops, 0), "op");

    for (size_t i = 0; i < sizeof(reads) / sizeof(reads[0]); i++) {
        if (strcmp(reads[i], first) == 0) {
            return true;
        }
    }
    return false;
}

/* The next line that has anything in it; an empty slice at the end. */
static struct slice next_line(struct slice *rest)
{
    while (rest->len > 0) {
        const uint8_t *end = memchr(rest->data, '\n', rest->len);
        size_t len = end ? (size_t)(end - rest->data) : rest->len;
        struct slice line = slice_make(rest->data, len);

        *rest = slice_make(rest->data + len, rest->len - len);
        if (rest->len > 0) {
            *rest = slice_make(rest->data + 1, rest->len - 1);
        }
        while (line.len > 0 && strchr(" \t\r", line.data[0])) {
            line = slice_make(line.data + 1, line.len - 1);
        }
        if (line.len > 0) {
            return line;
        }
    }
    return slice_make(NULL, 0);
}

/* One operation a line. */
static json_t *parse_lines(struct slice text, struct buf *body, char error[JSONR_ERROR_MAX])
{
    json_t *ops = json_array();
    struct slice line;

    while (ops && (line = next_line(&text)).len > 0) {
        json_t *op = jsonr_parse(line, error);

        if (!op) {
            json_decref(ops);
            return NULL;
        }
        buf_append_str(body, json_array_size(ops) > 0 ? "," : "");
        buf_append_slice(body, line);
        (void)json_array_append_new(ops, op);
    }
    return ops;
}

/* {"ops":[...]}, the list alone, one operation, or one a line; the list. What is sent is the text
 * as it stands: a number in it may be more than we can hold. */
static json_t *parse(struct slice text, struct buf *body, char error[JSONR_ERROR_MAX])
{
    json_t *value = jsonr_parse(text, error);
    json_t *ops = NULL;

    if (json_is_object(value) && jsonr_at(value, "ops")) {
        ops = json_incref(jsonr_at(value, "ops"));
        json_decref(value);
        buf_append_slice(body, text);
        return ops;
    }
    buf_append_str(body, json_is_array(value) ? "{\"ops\":" : "{\"ops\":[");
    if (value) {
        ops = json_is_array(value) ? value : json_pack("[o]", value);
        buf_append_slice(body, text);
    } else {
        ops = parse_lines(text, body, error);
    }
    buf_append_str(body, json_is_array(value) ? "}" : "]}");
    return ops;
}

/* Reads have an error each, and that of the last one is the command's. */
static int judge(const json_t *results)
{
    const json_t *result = NULL;
    size_t i = 0;

    json_array_foreach(results, i, result)
    {
        if (!json_is_true(jsonr_at(result, "ok"))) {
            return CMD_PARTLY;
        }
    }
    return CMD_OK;
}

static int ask(struct cli *cli, const json_t *ops, struct slice body)
{
    struct client_request request = {.method = "POST",
                                     .target = "/multi/v1",
                                     .body = body,
                                     .has_body = true,
                                     .type = "application/json",
                                     .reads = is_read(ops),
                                     .last = true};
    json_t *json = NULL;
    int code = cli_ask_json(cli, &request, &json);

    if (code != CMD_OK) {
        return code;
    }
    out_list(&cli->out, json, "results", columns);
    return judge(jsonr_at(json, "results"));
}

static int run(struct cli *cli)
{
    const char *name = args_operand(&cli->args, 0);
    char error[JSONR_ERROR_MAX] = "";
    struct buf text;
    struct buf body;
    json_t *ops = NULL;
    int code = CMD_FAILED;

    buf_init(&text, VALUE_MAX);
    buf_init(&body, VALUE_MAX + WRAP_MAX);
    if (value_read_file(cli, name ? name : "-", &text)) {
        ops = parse(buf_slice(&text), &body, error);
        code =
            json_is_array(ops)
                ? ask(cli, ops, buf_slice(&body))
                : cli_fail(cli, CMD_USAGE, "BadArguments", "the operations are not a JSON list: %s",
                           *error ? error : "give a list or an object with \"ops\"");
    }
    json_decref(ops);
    buf_release(&body);
    buf_release(&text);
    return code;
}

static const struct cmd_example examples[] = {
    {"zabra multi ops.json", "applies all operations or none"},
    {"echo '{\"op\":\"set\",\"path\":\"/a\",\"dataUtf8\":\"x\",\"version\":3}' | zabra multi",
     "reads one operation per line"},
    {"echo '[{\"op\":\"get\",\"path\":\"/a\"},{\"op\":\"get\",\"path\":\"/b\"}]' | zabra multi -o "
     "json",
     "reads both at one moment"},
    {.line = NULL},
};

const struct cmd cmd_multi = {
    .name = "multi",
    .summary = "apply several changes atomically, or read several znodes at one moment",
    .usage = "[FILE | -]",
    .text = "FILE (or the standard input) has {\"ops\":[...]}, the list alone, or one\n"
            "operation per line. Changes: create, set, delete, check. Reads: get, children,\n"
            "stat, exists; each read reports its own error, and the exit code is 9 when\n"
            "there is one. Members: op, path; dataUtf8, data64, dataJson or null; conditions\n"
            "version, czxid, aversion; to create sequence, ephemeral, parents, container,\n"
            "ttl, acl.\n",
    .examples = examples,
    .operands = {CMD_OPERAND_FILE},
    .operands_max = 1,
    .run = run,
};
