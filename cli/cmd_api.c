/*
 * api: sends any request, with the endpoints, credentials and retries of the other commands. multi:
 * makes several changes atomically, or several reads at one moment.
 */
#include "cli/cli.h"

enum {
    WRAP_MAX = 16 /* Bytes that are put around the operations of a multi. */
};

/* ---- api ---- */

static const char *const methods[] = {"GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS"};

static const char *method_of(const char *word)
{
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        if (strcasecmp(methods[i], word) == 0) {
            return methods[i];
        }
    }
    return NULL;
}

static bool is_target(const char *target)
{
    for (const char *at = target; *at; at++) {
        if (*at <= ' ' || *at > '~' || *at == '#') {
            return false;
        }
    }
    return target[0] == '/';
}

/* Makes a Content-Type in the headers replace the default one. */
static void take_type(struct client_request *request)
{
    static const char name[] = "Content-Type:";
    int kept = 0;

    for (int i = 0; request->headers[i]; i++) {
        const char *header = request->headers[i];

        if (strncasecmp(header, name, strlen(name)) == 0) {
            request->type = header + strlen(name) + strspn(header + strlen(name), " ");
        } else {
            request->headers[kept++] = header;
        }
    }
    request->headers[kept] = NULL;
}

/* Adds the headers of the options. Returns false when an error has been reported. */
static bool take_headers(const struct cli *cli, struct client_request *request)
{
    const char *header = NULL;
    int count = 0;

    while ((header = args_nth(&cli->args, "header", count))) {
        if (count == CLIENT_HEADERS_MAX - 1 || !strchr(header, ':')) {
            return CLI_REFUSE(cli,
                              "--header: \"%s\" is not of the form Name: value, or there are more "
                              "than %d headers",
                              header, (int)CLIENT_HEADERS_MAX - 1);
        }
        request->headers[count++] = header;
    }
    take_type(request);
    return true;
}

static int ask(struct cli *cli, struct client_request *request)
{
    int code = CMD_OK;

    request->keyless = strncmp(request->target, "/sessions/", 10) == 0 ||
                       strncmp(request->target, "/import/", 8) == 0;
    if (args_has(&cli->args, "json")) {
        request->type = "application/json";
    }
    request->accept = args_get(&cli->args, "accept");
    request->accept = request->accept ? request->accept : "*/*";
    code = take_headers(cli, request) ? cli_ask(cli, request) : CMD_USAGE;
    if (code == CMD_OK) {
        struct slice body = buf_slice(&cli->client->reply.body);

        out_bytes(&cli->out, body);
        if (body.len > 0 && body.data[0] == '{' && body.data[body.len - 1] != '\n') {
            (void)putchar('\n');
        }
    }
    return code;
}

static int run(struct cli *cli)
{
    struct client_request request = {.method = method_of(args_operand(&cli->args, 0)),
                                     .target = args_operand(&cli->args, 1)};

    if (!request.method) {
        return CLI_USAGE(cli, "\"%s\" is not an HTTP method that zabra serves",
                         args_operand(&cli->args, 0));
    }
    if (!is_target(request.target)) {
        return CLI_USAGE(cli,
                         "\"%s\" is not a target: it must begin with a slash, with other "
                         "characters escaped as in URLs",
                         request.target);
    }
    return cli_take_data(cli, 2, &request) ? ask(cli, &request) : CMD_FAILED;
}

const struct cmd cmd_api = {
    .name = "api",
    .summary = "make any request of the HTTP interface",
    .usage = "METHOD TARGET [DATA | @FILE | -]",
    .text = "TARGET is the path and query of the URL. Prints the body of the answer\n"
            "unchanged. A write is sent with an Idempotency-Key, so that zabra can retry it\n"
            "at another replica.\n" VALUE_HELP,
    .options = {CMD_VALUE("header", 'H', "HEADER",
                          "add a header, \"Name: value\"; may be repeated"),
                CMD_FLAG("json", 'j', "send the data as JSON (otherwise as bytes)"),
                CMD_VALUE("accept", 0, "TYPE", "media type of the answer (*/*)")},
    .examples = {{"zabra api GET /ensemble/v1", "a resource without a command of its own"},
                 {"zabra api POST /multi/v1 @ops.json --json", "reads the body from a file"},
                 {"zabra api GET '/znodes/v1/app?view=tree' --curl",
                  "prints the request as a curl command"}},
    .operands = {2, 3, {CMD_OPERAND_TEXT, CMD_OPERAND_TEXT, CMD_OPERAND_FILE}},
    .run = run,
};

/* ---- multi ---- */

static const char columns[] = "OP:op, OK:ok, VERSION:version>, ERROR:error.code, PATH:path";

/* Whether the operations only read: the request then changes nothing, although it is a POST. */
static bool is_read(const json_t *ops)
{
    return words_find("get, children, stat, exists", jsonr_text(json_array_get(ops, 0), "op")) >= 0;
}

/* Parses one operation per line. */
static json_t *parse_lines(struct slice text, struct buf *body, char error[JSONR_ERROR_MAX])
{
    json_t *ops = json_array();

    while (ops && text.len > 0) {
        struct slice line = words_trim(slice_cut(&text, '\n'));
        json_t *op = line.len > 0 ? jsonr_parse(line, error) : NULL;

        if (op) {
            buf_append_str(body, json_array_size(ops) > 0 ? "," : "");
            buf_append_slice(body, line);
            (void)json_array_append_new(ops, op);
        } else if (line.len > 0) {
            json_decref(ops);
            ops = NULL;
        }
    }
    return ops;
}

/* Returns the list of operations from {"ops":[...]}, the list alone, one operation, or one
 * operation per line. `body` gets the text unchanged, because jansson can write a number with
 * other digits than the text has. */
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

/* Returns CMD_PARTLY when a read has failed: the request as a whole has succeeded even then. */
static int judge(const json_t *results)
{
    JSONR_EACH (result, results) {
        if (!json_is_true(jsonr_at(result, "ok"))) {
            return CMD_PARTLY;
        }
    }
    return CMD_OK;
}

static int ask_multi(struct cli *cli, const json_t *ops, struct slice body)
{
    struct client_request request = {.method = "POST",
                                     .target = "/multi/v1",
                                     .body = body,
                                     .has_body = true,
                                     .type = "application/json",
                                     .reads = is_read(ops)};
    json_t *json = NULL;
    int code = cli_ask_json(cli, &request, &json);

    if (code != CMD_OK) {
        return code;
    }
    out_list(&cli->out, json, "results", columns);
    return judge(jsonr_at(json, "results"));
}

static int run_multi(struct cli *cli)
{
    const char *name = args_operand(&cli->args, 0);
    char error[JSONR_ERROR_MAX] = "";
    json_auto_t *ops = NULL;
    int code = CMD_FAILED;
    BUF_AUTO(text, VALUE_MAX);
    BUF_AUTO(body, VALUE_MAX + WRAP_MAX);

    if (cli_read_file(cli, name ? name : "-", &text)) {
        ops = parse(buf_slice(&text), &body, error);
        code =
            json_is_array(ops)
                ? ask_multi(cli, ops, buf_slice(&body))
                : cli_fail(cli, CMD_USAGE, "BadArguments", "the operations are not a JSON list: %s",
                           *error ? error : "give a list or an object with \"ops\"");
    }
    return code;
}

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
    .examples =
        {{"zabra multi ops.json", "applies all operations or none"},
         {"echo '{\"op\":\"set\",\"path\":\"/a\",\"dataUtf8\":\"x\",\"version\":3}' | zabra multi",
          "reads one operation per line"},
         {"echo '[{\"op\":\"get\",\"path\":\"/a\"},{\"op\":\"get\",\"path\":\"/b\"}]' | "
          "zabra multi -o json",
          "reads both at one moment"}},
    .operands = {0, 1, {CMD_OPERAND_FILE}},
    .run = run_multi,
};
