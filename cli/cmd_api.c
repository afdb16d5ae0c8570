/* api: any request, with the endpoints, credentials and retries of the other commands. */
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/value.h"

#include <stdio.h>
#include <string.h>

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

/* Opening a session and an import take no key. */
static bool is_keyless(const char *target)
{
    return strncmp(target, "/sessions/", 10) == 0 || strncmp(target, "/import/", 8) == 0;
}

/* A Content-Type stands in place of ours. */
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

/* False: reported. */
static bool take_headers(const struct cli *cli, struct client_request *request)
{
    const char *header = NULL;
    int count = 0;

    while ((header = args_nth(&cli->args, "header", count))) {
        if (count == CLIENT_HEADERS_MAX - 1 || !strchr(header, ':')) {
            (void)cli_usage(cli,
                            "--header: \"%s\" is not of the form Name: value, or there are more "
                            "than %d headers",
                            header, (int)CLIENT_HEADERS_MAX - 1);
            return false;
        }
        request->headers[count++] = header;
    }
    take_type(request);
    return true;
}

static int ask(struct cli *cli, struct client_request *request)
{
    int code = CMD_OK;

    request->last = true;
    request->keyless = is_keyless(request->target);
    if (args_has(&cli->args, "json")) {
        request->type = "application/json";
    }
    request->accept = args_get(&cli->args, "accept");
    request->accept = request->accept ? request->accept : "*/*";
    code = take_headers(cli, request) ? cli_ask(cli, request) : CMD_USAGE;
    if (code == CMD_OK) {
        struct slice body = buf_slice(&client_reply(cli->client)->body);

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
    struct value value;
    int code = CMD_FAILED;

    if (!request.method) {
        return cli_usage(cli, "\"%s\" is not an HTTP method that zabra serves",
                         args_operand(&cli->args, 0));
    }
    if (!is_target(request.target)) {
        return cli_usage(cli,
                         "\"%s\" is not a target: it must begin with a slash, with other "
                         "characters escaped as in URLs",
                         request.target);
    }
    if (value_read(cli, args_operand(&cli->args, 2), &value)) {
        value_put(&value, &request);
        code = ask(cli, &request);
    }
    value_release(&value);
    return code;
}

static const struct cmd_option options[] = {
    {"header", 'H', "HEADER", "add a header, \"Name: value\"; may be repeated", NULL},
    {"json", 'j', NULL, "send the data as JSON (otherwise as bytes)", NULL},
    {"accept", 0, "TYPE", "media type of the answer (*/*)", NULL},
    {.name = NULL},
};

static const struct cmd_example examples[] = {
    {"zabra api GET /ensemble/v1", "a resource without a command of its own"},
    {"zabra api POST /multi/v1 @ops.json --json", "reads the body from a file"},
    {"zabra api GET '/znodes/v1/app?view=tree' --curl", "prints the request as a curl command"},
    {.line = NULL},
};

const struct cmd cmd_api = {
    .name = "api",
    .summary = "make any request of the HTTP interface",
    .usage = "METHOD TARGET [DATA | @FILE | -]",
    .text = "TARGET is the path and query of the URL. Prints the body of the answer\n"
            "unchanged. A write is sent with an Idempotency-Key, so that zabra can retry it\n"
            "at another replica.\n" VALUE_HELP,
    .options = options,
    .examples = examples,
    .operands = {CMD_OPERAND_TEXT, CMD_OPERAND_TEXT, CMD_OPERAND_FILE},
    .operands_min = 2,
    .operands_max = 3,
    .run = run,
};
