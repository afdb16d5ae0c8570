#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <unistd.h>

enum {
    PAGE = 1000 /* Items of one page of a list. */
};

/* Returns the exit code for an error of zabra itself. A command that runs a child gives
 * CMD_CHILD_FAILED in place of codes below CMD_CHILD_LOST, which are left to the child. */
static int own_code(const struct cli *cli, int code)
{
    return cli->args.child && code < CMD_CHILD_LOST ? CMD_CHILD_FAILED : code;
}

int cli_fail(const struct cli *cli, int exit_code, const char *code, const char *format, ...)
{
    char message[CLI_MESSAGE_MAX];
    va_list list;

    va_start(list, format);
    (void)vsnprintf(message, sizeof(message), format, list);
    va_end(list);
    exit_code = own_code(cli, exit_code);
    out_error(&cli->out, exit_code, code, message, NULL);
    return exit_code;
}

/* In JSON, the error also has the HTTP status and some members of the replica's problem. */
int cli_tell(const struct cli *cli)
{
    const struct client_error *error = &cli->client->error;
    int code = own_code(cli, error->exit_code);
    json_auto_t *extra = json_object();

    if (error->status) {
        (void)json_object_set_new(extra, "status", json_integer(error->status));
    }
    jsonr_copy(extra, error->problem,
               "path, outcome, reason, config_version, zxidHex, zk_code, op_index, "
               "stat, instance");
    client_explain(cli->client);
    out_error(&cli->out, code, error->code, error->message, extra);
    return code;
}

int cli_ask(const struct cli *cli, const struct client_request *request)
{
    struct client_request last = *request;

    last.last = true;

    int code = client_ask(cli->client, &last);
    bool interrupted = strcmp(cli->client->error.code, CLIENT_INTERRUPTED) == 0;

    return code > CMD_OK && !interrupted ? cli_tell(cli) : code;
}

json_t *cli_json(const struct cli *cli)
{
    json_t *json = client_json(cli->client);

    if (!json) {
        (void)cli_fail(cli, CMD_FAILED, "BadAnswer",
                       "the answer is not JSON; check that a zabra replica listens at %s",
                       endpoints_url(&cli->client->endpoints));
    }
    return json;
}

int cli_ask_json(const struct cli *cli, const struct client_request *request, json_t **ret_json)
{
    int code = cli_ask(cli, request);

    *ret_json = code == CMD_OK ? cli_json(cli) : NULL;
    return code == CMD_OK && !*ret_json ? CMD_FAILED : code;
}

/* Adds the items of a page to the answer `whole`. Returns whether there are more pages. */
static bool add_page(json_t *whole, const json_t *page, const char *member)
{
    json_t *looked = json_object_get(whole, "looked");

    (void)json_array_extend(json_object_get(whole, member), json_object_get(page, member));
    (void)json_object_del(whole, "more");
    (void)json_object_del(whole, "after");
    jsonr_copy(whole, page, "more, after");
    if (looked) {
        (void)json_integer_set(looked, json_integer_value(looked) + jsonr_number(page, "looked"));
    }
    return json_is_true(json_object_get(page, "more"));
}

int cli_ask_pages(const struct cli *cli, const struct client_request *request, const char *member,
                  json_t **ret_whole)
{
    struct client_request next = *request;
    struct client_param *params = next.params;
    int64_t limit = cli_number(cli, "limit");
    int64_t left = limit >= 0 ? limit : INT64_MAX;
    bool more = true;

    while (params->name) {
        params++;
    }
    *ret_whole = NULL;
    while (more && left > 0) {
        const char *after = jsonr_text(*ret_whole, "after");
        json_t *page = NULL;

        params[0] = (struct client_param){"limit", URL_NUMBER(left < PAGE ? left : PAGE)};
        params[1] = (struct client_param){"after", *after ? after : NULL};

        int code = cli_ask_json(cli, &next, &page);

        if (code != CMD_OK) {
            return code;
        }
        left -= (int64_t)json_array_size(json_object_get(page, member));
        if (*ret_whole) {
            more = add_page(*ret_whole, page, member);
        } else {
            *ret_whole = json_incref(page);
            more = json_is_true(json_object_get(page, "more"));
        }
    }
    return CMD_OK;
}

void cli_answer(const struct cli *cli)
{
    out_answer(&cli->out, buf_slice(&cli->client->reply.body));
}

void cli_print_number(const struct cli *cli, const char *path, const char *member, int64_t number)
{
    if (out_is_text(&cli->out)) {
        out_say(&cli->out, "%" PRId64 "\n", number);
    } else {
        out_result(&cli->out, json_pack("{s:s,s:I}", "path", path, member, (json_int_t)number));
    }
}

const char *cli_path(const struct cli *cli, int operand)
{
    const char *path = args_operand(&cli->args, operand);

    return path ? path : "/";
}

const char *cli_flag(const struct cli *cli, const char *option)
{
    return url_flag(args_has(&cli->args, option));
}

int64_t cli_number(const struct cli *cli, const char *option)
{
    int64_t number = -1;

    for (const struct cmd_option *at = cli->cmd->options; at->name; at++) {
        if (strcmp(at->name, option) == 0) {
            (void)args_take_number(&cli->args, at, &number);
        }
    }
    return number;
}

int cli_choice(const struct cli *cli, const char *before, const char *word, const char *words)
{
    int index = words_find(words, word);

    if (index < 0) {
        (void)CLI_USAGE(cli, "%s\"%s\" is not one of %s", before, word, words);
    }
    return index;
}

/* ---- Data ---- */

bool cli_read_file(const struct cli *cli, const char *name, struct buf *out)
{
    bool input = strcmp(name, "-") == 0;
    int fd = input ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC);
    bool ok = fd >= 0 && settings_read_all(fd, out);
    int why = errno;

    if (fd >= 0 && !input) {
        close(fd);
    }
    if (!ok && out->overflow) {
        (void)cli_fail(cli, CMD_LIMIT, "TooLarge", "%s is larger than %d bytes", name,
                       (int)VALUE_MAX);
    } else if (!ok) {
        (void)cli_fail(cli, CMD_FAILED, "File", "%s: %s", name, strerrordesc_np(why));
    }
    return ok;
}

bool cli_take_data(struct cli *cli, int operand, struct client_request *request)
{
    const char *text = args_operand(&cli->args, operand);
    bool input = text && strcmp(text, "-") == 0;
    bool ok = true;

    if (!text) {
        return true;
    }
    buf_init(&cli->data, VALUE_MAX);
    if (!input && text[0] != '@') {
        ok = buf_append_str(&cli->data, text);
    } else if (!input && text[1] == '\0') {
        return CLI_REFUSE(cli, "a file name must follow @");
    } else {
        request->body_from = input ? "@-" : text;
        ok = cli->settings.curl || cli_read_file(cli, input ? "-" : text + 1, &cli->data);
    }
    request->has_body = true;
    request->body = buf_slice(&cli->data);
    return ok;
}
