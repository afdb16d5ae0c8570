#include "cli/cli.h"

#include "cli/url.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The exit code when the command that zabra should run has not run yet: other codes are those of
 * that command. */
static int own_code(const struct cli *cli, int code)
{
    return cli->args.child && code < CMD_CHILD_LOST ? CMD_CHILD_FAILED : code;
}

/* For errors that the command itself detects. */
static int tell(const struct cli *cli, int exit_code, const char *code, const char *message)
{
    out_error(&cli->out, exit_code, code, message, NULL);
    return exit_code;
}

int cli_fail(const struct cli *cli, int exit_code, const char *code, const char *format, ...)
{
    char message[CLI_MESSAGE_MAX];
    va_list list;

    va_start(list, format);
    (void)vsnprintf(message, sizeof(message), format, list);
    va_end(list);
    return tell(cli, own_code(cli, exit_code), code, message);
}

int cli_usage(const struct cli *cli, const char *format, ...)
{
    int code = CMD_USAGE;
    va_list list;

    va_start(list, format);
    code = out_usage_list(&cli->out, format, list);
    va_end(list);
    return code;
}

/* Members of a problem that programs use, without the text. */
static json_t *extra_of(const struct client_error *error)
{
    static const char *const members[] = {"path",     "outcome", "zxidHex", "zk_code",
                                          "op_index", "stat",    "instance"};
    json_t *extra = json_object();

    if (error->status) {
        (void)json_object_set_new(extra, "status", json_integer(error->status));
    }
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        json_t *value = json_object_get(error->problem, members[i]);

        if (value) {
            (void)json_object_set(extra, members[i], value);
        }
    }
    return extra;
}

int cli_tell(const struct cli *cli)
{
    const struct client_error *error = client_error(cli->client);
    int code = own_code(cli, error->exit_code);
    json_t *extra = extra_of(error);

    client_explain(cli->client);
    out_error(&cli->out, code, error->code, error->message, extra);
    json_decref(extra);
    return code;
}

int cli_ask(const struct cli *cli, const struct client_request *request)
{
    int code = client_ask(cli->client, request);
    bool interrupted = strcmp(client_error(cli->client)->code, CLIENT_INTERRUPTED) == 0;

    return code > CMD_OK && !interrupted ? cli_tell(cli) : code;
}

json_t *cli_json(const struct cli *cli)
{
    json_t *json = client_json(cli->client);

    if (!json) {
        (void)cli_fail(cli, CMD_FAILED, "BadAnswer",
                       "the answer is not JSON; check that a zabra replica listens at %s",
                       endpoints_url(client_endpoints(cli->client)));
    }
    return json;
}

int cli_ask_json(const struct cli *cli, const struct client_request *request, json_t **ret_json)
{
    int code = cli_ask(cli, request);

    *ret_json = code == CMD_OK ? cli_json(cli) : NULL;
    return code == CMD_OK && !*ret_json ? CMD_FAILED : code;
}

int cli_read(const struct cli *cli, const char *target, json_t **ret_json)
{
    return cli_ask_json(cli, &(struct client_request){.target = target, .last = true}, ret_json);
}

void cli_answer(const struct cli *cli)
{
    out_answer(&cli->out, buf_slice(&client_reply(cli->client)->body));
}

bool cli_path(const struct cli *cli, int operand, const char **ret_path)
{
    const char *path = args_operand(&cli->args, operand);
    const char *fault = path ? url_path_fault(path, false) : NULL;

    *ret_path = path ? path : "/";
    if (fault) {
        (void)cli_usage(cli, "the path \"%s\" %s", path, fault);
    }
    return !fault;
}

bool cli_named(const struct cli *cli, int operand, struct buf *path)
{
    const char *name = args_operand(&cli->args, operand);
    const char *fault = NULL;

    buf_clear(path);
    if (*name != '/') {
        buf_printf(path, "%s/", cli->cmd->folder);
    }
    buf_append_str(path, name);
    fault = path->overflow ? "is too long" : url_path_fault(buf_cstr(path), false);
    if (!fault && path->len == 1) {
        fault = "is the root; this command needs another znode";
    }
    if (fault) {
        (void)cli_usage(cli, "the path \"%s\" %s", buf_cstr(path), fault);
    }
    return !fault;
}

int cli_run_verb(struct cli *cli,
                 int (*run_verb)(struct cli *cli, const char *verb, const char *path))
{
    struct buf path;
    int code = CMD_USAGE;

    buf_init(&path, URL_MAX);
    if (cli_named(cli, 1, &path)) {
        code = run_verb(cli, args_operand(&cli->args, 0), buf_cstr(&path));
    }
    buf_release(&path);
    return code;
}

bool cli_number(const struct cli *cli, const char *option, struct args_range range,
                int64_t *ret_number)
{
    const char *text = args_get(&cli->args, option);

    *ret_number = range.otherwise;
    if (!text || args_number(text, range, ret_number)) {
        return true;
    }
    (void)cli_usage(cli, "--%s: \"%s\" is not a number from %" PRId64 " to %" PRId64, option, text,
                    range.min, range.max);
    return false;
}

bool cli_duration(const struct cli *cli, const char *option, struct args_range range,
                  int64_t *ret_ms)
{
    const char *text = args_get(&cli->args, option);

    *ret_ms = range.otherwise;
    if (!text || args_duration_ms(text, range, ret_ms)) {
        return true;
    }
    if (args_duration_ms(text, (struct args_range){INT64_MIN, INT64_MAX, 0}, ret_ms)) {
        (void)cli_usage(cli, "--%s: %s is not between %" PRId64 " ms and %" PRId64 " s", option,
                        text, range.min, range.max / 1000);
    } else {
        (void)cli_usage(cli, "--%s: \"%s\" is not a time like 500ms, 15s or 2m", option, text);
    }
    return false;
}
